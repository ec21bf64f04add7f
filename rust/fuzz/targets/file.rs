//! Whole files: the index pass, the decoder and `cat` come to one verdict, in one piece or in many.
#![no_main]

use std::io::Read;

use jobsleuth_formats::{CatOptions, Decoder, FileInput, Input, Item, Result, SliceInput, Walker, cat};
use jobsleuth_fuzz::{Digest, check, check_error, limits};
use libfuzzer_sys::fuzz_target;

/// Hands out a few bytes at a time.
struct Dribble<'a>(&'a [u8]);

impl Read for Dribble<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.len().min(out.len()).min(1 + self.0.len() % 61);
        let (head, tail) = self.0.split_at(n);
        out[..n].copy_from_slice(head);
        self.0 = tail;
        Ok(n)
    }
}

/// Type and extent of each value, and whether everything up to the end was sound.
fn index<I: Input>(input: I) -> (Vec<(u8, u64, u64)>, Result<()>) {
    let mut spans = Vec::new();
    let outcome = (|| {
        let mut walker = Walker::open(input, limits())?;
        while let Some(item) = walker.next()? {
            if let Item::Key(entry) = item {
                assert!(entry.entry_offset < entry.value_offset && entry.value_offset <= entry.end_offset);
                spans.push((entry.rdb_type, entry.value_offset, entry.end_offset));
            }
        }
        Ok(())
    })();
    (spans, outcome)
}

fuzz_target!(|data: &[u8]| {
    let (spans, walked) = index(SliceInput::new(data, 0));
    check(&walked, data.len());
    let (again, dribbled) = index(FileInput::new(Dribble(data), data.len() as u64, true));
    assert_eq!(spans, again);
    assert_eq!(walked.is_ok(), dribbled.is_ok());

    let mut lines = Vec::new();
    let options = CatOptions { accept_wrong_checksum: true, ..CatOptions::default() };
    let written = cat(data, data.len() as u64, limits(), &mut lines, &options);
    let keys = match &written {
        Ok(written) => written.keys,
        Err(failure) => {
            check_error(&failure.error, data.len());
            failure.written.keys
        }
    };
    assert!(keys <= spans.len() as u64);
    std::str::from_utf8(&lines).expect("lines are text");
    assert!(!lines.iter().any(|&b| (b < 0x20 && b != b'\n') || b == 0x7f));

    // A file that is sound as a whole and in each of its values is written whole, and no other is.
    let Ok(mut walker) = Walker::open(SliceInput::new(data, 0), limits()) else { return };
    while let Ok(Some(_)) = walker.next() {}
    let ctx = walker.context();
    let mut decoder = Decoder::new();
    let sound = spans.iter().all(|&(rdb_type, from, to)| {
        let mut input = SliceInput::new(&data[from as usize..to as usize], from);
        let outcome = decoder.decode(&ctx, rdb_type, &mut input, &mut Digest::default());
        check(&outcome, data.len());
        outcome.is_ok_and(|()| input.offset() == to)
    });
    assert_eq!(written.is_ok(), walked.is_ok() && sound);
});
