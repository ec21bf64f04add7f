//! Listpacks, as each type that stores one reads it.
#![no_main]

use jobsleuth_formats::Family;
use jobsleuth_fuzz::{decode, string};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let blob = string(data);
    let set = decode(Family::Redis, 15, 20, &blob);
    let nodes = decode(Family::Redis, 15, 18, &[&[1, 2][..], &blob].concat());
    let hash = decode(Family::Redis, 15, 16, &blob);
    // A list and a set take the same elements; a hash too, if they are even in number.
    match (&set, &nodes) {
        (Ok(set), Ok(nodes)) => assert_eq!(set, nodes),
        (set, nodes) => assert_eq!(set.is_ok(), nodes.is_ok()),
    }
    match (&set, &hash) {
        (Ok(set), Ok(hash)) => assert_eq!(set, hash),
        (Ok(set), Err(_)) => assert!(set.elements % 2 == 1),
        (Err(_), hash) => assert!(hash.is_err()),
    }
    for rdb_type in [17, 23] {
        if decode(Family::Redis, 15, rdb_type, &blob).is_ok() {
            assert!(set.is_ok());
        }
    }
    let _ = decode(Family::Redis, 15, 25, &[&[0; 8][..], &blob].concat());
});
