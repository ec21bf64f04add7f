//! Answers to DUMP: with any version, and a checksum that is made right.
#![no_main]

use jobsleuth_formats::{cat_dump, decode_dump, decode_function_dump, inspect_dump};
use jobsleuth_fuzz::{Digest, check, limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (version, body) = match data {
        [version, body @ ..] => (u16::from(*version) % 90, body),
        [] => return,
    };
    check(&inspect_dump(data, limits()), data.len());
    let mut payload = [body, &version.to_le_bytes()].concat();
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Redis, &payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    let decoded = decode_dump(&payload, limits(), &mut Digest::default());
    check(&decoded, payload.len());
    check(&decode_function_dump(&payload, limits(), |_| {}), payload.len());
    let mut line = Vec::new();
    let written = cat_dump(&payload, limits(), &mut line);
    assert_eq!(written.ok(), decoded.ok());
    std::str::from_utf8(&line).expect("a line is text");
});
