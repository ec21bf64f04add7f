//! A file read by a thread of its own says what the same bytes in memory say.

mod common;

use std::io::{self, Cursor, Read};

use common::{file, key, s};
use jobsleuth_formats::{Ahead, ErrorKind, FileInput, Input, Item, Limits, SliceInput, Walker};

/// Keys with where they stand, and what ended the walk.
fn told(input: impl Input) -> (Vec<(Vec<u8>, u64, u64)>, String) {
    let mut keys = Vec::new();
    let mut walker = Walker::open(input, Limits::default()).expect("a header");
    loop {
        match walker.next() {
            Ok(Some(Item::Key(entry))) => keys.push((entry.key.to_vec(), entry.entry_offset, entry.end_offset)),
            Ok(Some(Item::End(checksum))) => return (keys, format!("{checksum:?}")),
            Ok(Some(_)) => {}
            Ok(None) => return (keys, "no end".into()),
            Err(error) => return (keys, error.to_string()),
        }
    }
}

/// Keys and values of a few bytes to more than a block, so that some lie across two and some across more.
fn assorted(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let items: Vec<Vec<u8>> = (0..400)
        .map(|n| {
            let bulk = match next(20) {
                0 => next(700_000),
                1..=4 => next(40_000),
                _ => next(300),
            };
            let long = if next(50) == 0 { next(600_000) } else { next(40) };
            let name = format!("k{n}{}", "x".repeat(long as usize));
            key(0, &name, &[s(vec![b'v'; bulk as usize])])
        })
        .collect();
    file("REDIS0011", &items)
}

/// Gives out a few bytes at a time, and is interrupted now and then.
struct Sluggish(Cursor<Vec<u8>>, usize, u32);

impl Read for Sluggish {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.2 += 1;
        if self.2.is_multiple_of(7) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n = out.len().min(self.1);
        self.0.read(&mut out[..n])
    }
}

#[test]
fn the_same_keys_and_checksum() {
    for seed in 0..12 {
        let bytes = assorted(seed);
        let expected = told(SliceInput::new(&bytes, 0));
        assert_eq!(expected.0.len(), 400);
        assert!(expected.1.contains("Ok"), "{}", expected.1);
        let reader = Sluggish(Cursor::new(bytes.clone()), 1 + 40_000 * seed as usize, 0);
        let input = FileInput::new(Ahead::new(reader).unwrap(), bytes.len() as u64, true);
        assert!(told(input) == expected, "seed {seed}");
    }
}

/// Cut anywhere near the ends of blocks: the same fault at the same byte, and the same keys before it.
#[test]
fn cut_short() {
    let bytes = assorted(3);
    for block in 1..4 {
        for cut in [-17, -1, 0, 1, 9] {
            let kept = &bytes[..(block * (256 << 10) + cut) as usize];
            let input = FileInput::new(Ahead::new(Cursor::new(kept.to_vec())).unwrap(), kept.len() as u64, true);
            assert!(told(input) == told(SliceInput::new(kept, 0)), "{} bytes", kept.len());
        }
    }
}

/// A file that shrank or grew since it was measured: an error, and nothing of what came later.
#[test]
fn another_size_than_announced() {
    let bytes = assorted(5);
    let shrunk = bytes[..bytes.len() / 2].to_vec();
    let input = FileInput::new(Ahead::new(Cursor::new(shrunk)).unwrap(), bytes.len() as u64, true);
    assert!(told(input).1.starts_with("cut short"));
    let (announced, grown) = (bytes.len() as u64, [bytes.clone(), bytes.clone()].concat());
    let input = FileInput::new(Ahead::new(Cursor::new(grown)).unwrap(), announced, true);
    assert!(told(input) == told(SliceInput::new(&bytes, 0)));
}

/// What the system says of the file comes with the offset reached, after all that was read before it.
#[test]
fn a_failing_disk() {
    struct Failing(Cursor<Vec<u8>>);
    impl Read for Failing {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            match self.0.read(out)? {
                0 => Err(io::Error::other("the disk is gone")),
                got => Ok(got),
            }
        }
    }
    let bytes = assorted(7);
    let half = bytes[..bytes.len() / 2].to_vec();
    let before = told(SliceInput::new(&half, 0)).0.len();
    let mut walker = Walker::open(
        FileInput::new(Ahead::new(Failing(Cursor::new(half))).unwrap(), bytes.len() as u64, true),
        Limits::default(),
    )
    .unwrap();
    let mut keys = 0;
    let error = loop {
        match walker.next() {
            Ok(Some(item)) => keys += usize::from(matches!(item, Item::Key(_))),
            Ok(None) => panic!("half a file is no whole one"),
            Err(error) => break error,
        }
    };
    assert_eq!(keys, before);
    assert!(matches!(error.kind, ErrorKind::Io(_)), "{error}");
}
