//! Ways in for the fuzz targets; built for nothing else.

use crate::{json, protobuf};

/// Reads a message with fields of each kind.
pub fn message(bytes: &[u8]) {
    use protobuf::Kind::{Bytes, Int32, Int64, String, StringMap};
    let fields = [(1, String), (2, Bytes), (3, Int32), (4, Int64), (5, StringMap), (16, String)];
    match protobuf::decode(bytes, &fields) {
        Ok((values, unknown)) => {
            assert_eq!(values.len(), fields.len());
            assert!(unknown.raw.len() <= bytes.len());
            assert!(unknown.names().count() <= 101);
        }
        Err(fault) => assert!(fault.at <= bytes.len(), "{fault}"),
    }
}

/// Finds members and reads each as the columns do.
pub fn members(bytes: &[u8]) {
    let names: [Box<[u8]>; 2] = [b"a"[..].into(), b"ts"[..].into()];
    let found = json::members(bytes, &names);
    // Names may hold control characters that JSON wants escaped; nothing else is taken that is no JSON.
    assert!(found.is_none() || json::is_json(bytes) || bytes.iter().any(|&b| b < 0x20));
    for raw in found.into_iter().flatten().flatten() {
        assert!(json::is_json(raw.as_bytes()));
        json::whole(raw);
        json::shown(raw);
    }
}
