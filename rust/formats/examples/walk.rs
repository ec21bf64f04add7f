//! Times the two passes over a snapshot: `cargo run --release --example walk -- dump.rdb [decode]`.

use std::fs::File;
use std::time::Instant;

use jobsleuth_formats::{Decoder, FileInput, Item, Limits, Result, SliceInput, Visitor, Walker};

#[derive(Default)]
struct Count {
    strings: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.strings += 1;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

impl Visitor for Count {
    fn string(&mut self, value: &[u8]) -> Result<()> {
        self.add(value)
    }
    fn list_item(&mut self, value: &[u8]) -> Result<()> {
        self.add(value)
    }
    fn set_member(&mut self, member: &[u8]) -> Result<()> {
        self.add(member)
    }
    fn zset_member(&mut self, member: &[u8], _score: f64) -> Result<()> {
        self.add(member)
    }
    fn hash_field(&mut self, field: &[u8], value: &[u8], _expire_at_ms: Option<i64>) -> Result<()> {
        self.add(field)?;
        self.add(value)
    }
    fn stream_field(&mut self, field: &[u8], value: &[u8]) -> Result<()> {
        self.hash_field(field, value, None)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: walk FILE [decode]")?;
    let file = File::open(&path)?;
    let len = file.metadata()?.len();
    let start = Instant::now();
    let mut walker = Walker::open(FileInput::new(file, len, true), Limits::default())?;
    let mut spans = Vec::new();
    let mut end = None;
    while let Some(item) = walker.next()? {
        match item {
            Item::Key(key) => spans.push((key.rdb_type, key.value_offset, key.end_offset)),
            Item::End(checksum) => end = Some(checksum),
            _ => {}
        }
    }
    let rate = |start: Instant| len as f64 / 1e6 / start.elapsed().as_secs_f64();
    println!("walk and checksum: {} keys, {end:?}, {:.0} MB/s", spans.len(), rate(start));
    if std::env::args_os().nth(2).is_some() {
        let ctx = walker.context();
        let bytes = std::fs::read(&path)?;
        let start = Instant::now();
        let (mut decoder, mut count) = (Decoder::new(), Count::default());
        for &(rdb_type, from, to) in &spans {
            let value = bytes.get(from as usize..to as usize).unwrap_or_default();
            decoder.decode(&ctx, rdb_type, &mut SliceInput::new(value, from), &mut count)?;
        }
        println!("decode: {} strings, {} bytes, {:.0} MB/s of file", count.strings, count.bytes, rate(start));
    }
    Ok(())
}
