//! Values of all layouts of streams.
#![no_main]

use jobsleuth_formats::Family;
use jobsleuth_fuzz::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let [layout, value @ ..] = data {
        let rdb_type = [15, 19, 21, 26, 27][usize::from(*layout) % 5];
        let _ = decode(Family::Redis, 15, rdb_type, value);
    }
});
