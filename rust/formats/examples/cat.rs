//! Prints a snapshot as keyspace NDJSON: `cargo run --release --example cat -- dump.rdb [threads]`.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use jobsleuth_formats::{CatOptions, Limits, cat};

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: cat FILE [THREADS]");
        return ExitCode::from(2);
    };
    let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (len, file) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let mut out = std::io::stdout().lock();
    let threads = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(1);
    let options = CatOptions { threads, ..CatOptions::default() };
    let result = cat(&file, len, Limits::default(), &mut out, &options);
    let flushed = out.flush();
    match result {
        Ok(summary) => {
            eprintln!(
                "{} keys, checksum {:?}, {} bytes behind the end",
                summary.keys,
                summary.checksum,
                summary.behind.bytes()
            );
            if flushed.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(2) }
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(2)
        }
    }
}
