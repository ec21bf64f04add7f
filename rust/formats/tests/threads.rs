//! `cat` by several threads: what is written is what one thread writes, whatever happens on the way.

mod common;

use std::io::{Error, Write};

use common::{file, key, len, lines, lines_of, listpack, s};
use jobsleuth_formats::{CatOptions, ErrorKind, Limits, Positioned, cat};

/// Keys of many sizes, some larger than what threads share out at a time, with databases and names of fields between.
fn large() -> Vec<u8> {
    let mut items = vec![[vec![0xfa], s("redis-ver"), s("8.10.2")].concat()];
    for n in 0..400u64 {
        if n % 150 == 0 {
            items.push([vec![0xfe], len(n / 150)].concat());
        }
        if n % 200 == 0 {
            items.push([vec![0xf2], len(n), len(2), s("name"), s(format!("field {n}"))].concat());
        }
        let size = if n % 100 == 7 { 1_200_000 } else { (n * 37 % 8000) as usize };
        items.push(key(0, &format!("text:{n}"), &[s(vec![b'a' + (n % 26) as u8; size])]));
        items.push(key(32, &format!("hash:{n}"), &[len(n / 200 * 200), s("value"), s("\x1b\"other")]));
        let list = listpack(&[common::E::T("item"), common::E::N(n as i64)]);
        items.push(
            [&[0xfc][..], &1_800_000_000_123i64.to_le_bytes(), &key(20, &format!("set:{n}"), &[s(list)])].concat(),
        );
    }
    file("REDIS0015", &items)
}

/// The same bytes from one thread and from many, and the same count.
#[test]
fn same_lines() {
    let bytes = large();
    let (one, result) = lines_of(&bytes);
    assert_eq!(result.expect("the file is sound").keys, 1200);
    assert_eq!(one.lines().count(), 1202);
    for threads in [2, 3, 8] {
        let (many, result) = lines(&bytes[..], bytes.len(), threads);
        let written = result.expect("the file is sound");
        assert_eq!((written.keys, written.bytes), (1200, one.len() as u64));
        assert!(one == many, "{threads} threads");
    }
}

/// Damage in a value, in the framing, or by a cut: the same lines before it, the same error.
#[test]
fn same_faults() {
    let sound = large();
    for at in [sound.len() / 3, sound.len() / 2, sound.len() - 100_000] {
        let found = sound[at..].windows(5).position(|w| w == b"\x84item").expect("a set is near");
        let mut damaged = sound.clone();
        // The size of a listpack's element, and the type of the key after it.
        damaged[at + found + 5] ^= 1;
        let mut cut = sound.clone();
        cut.truncate(at);
        let mut wrong = sound.clone();
        *wrong.last_mut().expect("not empty") ^= 1;
        for bytes in [damaged, cut, wrong] {
            let (one, single) = lines_of(&bytes);
            let (many, several) = lines(&bytes[..], bytes.len(), 4);
            let (single, several) = (single.expect_err("damaged"), several.expect_err("damaged"));
            assert!(one == many);
            assert_eq!(single.to_string(), several.to_string());
            assert_eq!(single.written.keys, several.written.keys);
            assert_eq!(one.lines().count() as u64, 1 + single.written.keys);
        }
    }
}

/// A writer that takes some bytes and then no more.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.min(bytes.len()) {
            0 => Err(Error::other("full")),
            n => {
                self.0 -= n;
                Ok(n)
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A fault of the writer ends all threads.
#[test]
fn full_disk() {
    let bytes = large();
    for room in [0, 10, 300_000, 5_000_000] {
        let options = CatOptions { threads: 4, ..CatOptions::default() };
        let failure = cat(&bytes[..], bytes.len() as u64, Limits::default(), &mut Full(room), &options);
        assert!(matches!(failure.expect_err("full").error.kind, ErrorKind::Io(_)), "{room}");
    }
}

/// Evidence that fails to be read somewhere.
struct Torn<'a>(&'a [u8], u64);

impl Positioned for Torn<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        if (offset..offset + buf.len() as u64).contains(&self.1) {
            return Err(Error::other("bad sector"));
        }
        self.0.read_at(buf, offset)
    }
}

/// A fault of the disk is told as such.
#[test]
fn bad_sector() {
    let bytes = large();
    for at in [1_500_000, 4_000_000] {
        for threads in [1, 4] {
            let (_, result) = lines(&Torn(&bytes, at), bytes.len(), threads);
            let error = result.expect_err("unreadable").error;
            assert!(matches!(error.kind, ErrorKind::Io(_)), "{error}");
        }
    }
}
