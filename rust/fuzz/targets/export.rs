//! Exports of a keyspace: what is read of one is a sound snapshot, and the same again when that is exported in turn.
#![no_main]

use std::fs::File;
use std::io::{Cursor, Seek, Write};

use jobsleuth_formats::{CatOptions, Result, cat};
use jobsleuth_fuzz::{check, limits};
use jobsleuth_spool::{Reading, Writer, read_ndjson};
use libfuzzer_sys::fuzz_target;

/// The snapshot that is made of an export.
fn snapshot(file: &mut File, export: &[u8], salvage: bool) -> Result<Vec<u8>> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(export)?;
    let mut writer = Writer::new(Cursor::new(Vec::new()), 15, 64 << 20);
    let reading = Reading { salvage, max_value_bytes: limits().max_value_bytes };
    let outcome = read_ndjson(file, &mut writer, reading, &mut |_, _| Ok(()));
    check(&outcome, export.len());
    outcome?;
    Ok(writer.finish()?.0.into_inner())
}

fn export(snapshot: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    let options = CatOptions { first_line: None, ..CatOptions::default() };
    cat(snapshot, snapshot.len() as u64, limits(), &mut lines, &options).expect("a snapshot made here is sound");
    lines
}

thread_local! {
    static FILE: std::cell::RefCell<File> = {
        let path = std::env::temp_dir().join(format!("jobsleuth-fuzz-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).expect("a file");
        // Nobody else needs its name.
        std::fs::remove_file(&path).expect("the file is there");
        file.into()
    };
}

fuzz_target!(|data: &[u8]| FILE.with_borrow_mut(|file| {
    let _ = snapshot(file, data, true);
    let Ok(first) = snapshot(file, data, false) else { return };
    let lines = export(&first);
    let second = snapshot(file, &lines, false).expect("an export made here is sound");
    assert_eq!(String::from_utf8_lossy(&lines), String::from_utf8_lossy(&export(&second)));
}));
