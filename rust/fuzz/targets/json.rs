//! Single members of JSON objects, as projections ask for them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| jobsleuth_columns::fuzzing::members(data));
