//! The packed values of old servers: ziplists, zipmaps, intsets, and LZF.
#![no_main]

use jobsleuth_formats::Family;
use jobsleuth_fuzz::{decode, string};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let blob = string(data);
    let list = decode(Family::Redis, 6, 10, &blob);
    let nodes = decode(Family::Redis, 9, 14, &[&[1][..], &blob].concat());
    match (&list, &nodes) {
        (Ok(list), Ok(nodes)) => assert_eq!(list, nodes),
        (list, nodes) => assert_eq!(list.is_ok(), nodes.is_ok()),
    }
    if let Ok(hash) = decode(Family::Redis, 6, 13, &blob) {
        assert_eq!(list.ok(), Some(hash));
    }
    for rdb_type in [9, 11, 12] {
        let _ = decode(Family::Redis, 6, rdb_type, &blob);
    }
    // The same bytes as a compressed string that claims the size that its first two bytes say.
    if let [high, low, packed @ ..] = data {
        let plain = u32::from(*high) << 8 | u32::from(*low);
        let head = [&[0xc3, 0x80][..], &(packed.len() as u32).to_be_bytes(), &[0x80], &plain.to_be_bytes()].concat();
        if let Ok(string) = decode(Family::Redis, 9, 0, &[&head, packed].concat()) {
            assert_eq!(string.bytes, u64::from(plain));
        }
    }
});
