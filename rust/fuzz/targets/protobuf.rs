//! Messages as Asynq stores them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| jobsleuth_columns::fuzzing::message(data));
