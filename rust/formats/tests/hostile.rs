//! Damaged and hostile bytes: always an error with its place, never a panic, never memory out of proportion.

mod common;

use std::path::PathBuf;

use common::E::{N, T};
use common::{Dribble, Sips, file, key, len, lines, lines_of, listpack, lzf, s, zoo};
use jobsleuth_formats::{
    Context, ErrorKind, Family, FileInput, Input, Item, Limits, SliceInput, Walker, decode, decode_dump,
    decode_function_dump,
};

/// Every beginning of a sound file that is not the whole of it is an error, in the index pass and in `cat`.
#[test]
fn every_cut() {
    let bytes = zoo();
    for cut in 0..bytes.len() {
        let (_, result) = lines_of(&bytes[..cut]);
        let error = result.expect_err("a cut file").error;
        assert!(matches!(error.kind, ErrorKind::Truncated { .. } | ErrorKind::Empty), "cut at {cut}: {error}");
        assert!(index(&bytes[..cut]).is_err(), "index of a file cut at {cut}");
    }
}

/// Walks a file; the number of keys, or the fault.
fn index(bytes: &[u8]) -> jobsleuth_formats::Result<u64> {
    let mut walker = Walker::open(SliceInput::new(bytes, 0), Limits::default())?;
    let mut keys = 0;
    while let Some(item) = walker.next()? {
        match item {
            Item::Key(_) => keys += 1,
            Item::End(checksum) if !matches!(checksum, jobsleuth_formats::Checksum::Ok(_)) => {
                return Err(jobsleuth_formats::Error::stopped());
            }
            _ => {}
        }
    }
    Ok(keys)
}

/// Decodes every value that the index pass finds, whatever it is.
fn decode_all(bytes: &[u8]) {
    let Ok(mut walker) = Walker::open(SliceInput::new(bytes, 0), Limits::default()) else { return };
    let mut spans = Vec::new();
    while let Ok(Some(item)) = walker.next() {
        if let Item::Key(entry) = item {
            spans.push((entry.rdb_type, entry.value_offset as usize, entry.end_offset as usize));
        }
    }
    let ctx = walker.context();
    for (rdb_type, from, to) in spans {
        let _ = decode(&ctx, rdb_type, &mut SliceInput::new(&bytes[from..to], from as u64), &mut ());
    }
}

/// Every byte of a sound file, changed in several ways, is noticed: the checksum catches what the structure does not.
#[test]
fn every_changed_byte() {
    let bytes = zoo();
    for i in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[i] ^= change;
            assert!(lines_of(&damaged).1.is_err(), "byte {i} changed by {change:#x} goes unnoticed");
            assert!(index(&damaged).is_err(), "byte {i} changed by {change:#x} goes unnoticed by the index");
            decode_all(&damaged);
        }
    }
}

/// Values whose checksum was made right again after the damage: nothing panics, and what is read whole and in pieces
/// is the same.
#[test]
fn damage_behind_a_right_checksum() {
    let rounds = std::env::var("JOBSLEUTH_FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000);
    let mut seeds = vec![zoo()];
    seeds.extend(real_files());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below.max(1) as u64) as usize
    };
    for round in 0..rounds {
        let mut bytes = seeds[round % seeds.len()].clone();
        bytes.truncate(bytes.len() - 9);
        for _ in 0..=next(4) {
            let at = 9 + next(bytes.len() - 9);
            match next(5) {
                0 => bytes[at] = next(256) as u8,
                1 => bytes[at] ^= 1 << next(8),
                2 => bytes[at] = [0, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc3, 0xfe, 0xff][next(9)],
                3 => {
                    let to = (at + 1 + next(9)).min(bytes.len());
                    bytes.drain(at..to);
                }
                _ => {
                    let to = (at + 1 + next(30)).min(bytes.len());
                    let piece = bytes[at..to].to_vec();
                    let target = 9 + next(bytes.len() - 9);
                    bytes.splice(target..target, piece);
                }
            }
        }
        bytes.push(0xff);
        let sum = common::crc(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let (whole, result) = lines_of(&bytes);
        let (pieces, dribbled) = lines(&Sips(&bytes, 1 + next(5000)), bytes.len(), round % 3);
        assert_eq!(whole, pieces, "round {round}");
        let told = |r: Result<_, jobsleuth_formats::CatFailure>| r.map(|_| ()).map_err(|f| f.to_string());
        assert_eq!(told(result), told(dribbled), "round {round}");
        decode_all(&bytes);
    }
}

/// Small files of real servers, where the corpus is at hand.
fn real_files() -> Vec<Vec<u8>> {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/servers");
    let mut found = Vec::new();
    for server in std::fs::read_dir(&corpus).into_iter().flatten().flatten() {
        for entry in std::fs::read_dir(server.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            let small = entry.metadata().is_ok_and(|m| m.len() < 20_000 && m.len() > 200);
            if small && path.extension().is_some_and(|e| e == "rdb") {
                found.push(path);
            }
        }
    }
    if found.is_empty() {
        eprintln!("SKIPPED in part: no corpus at {}; only a file made by hand is damaged", corpus.display());
    }
    found.sort();
    found.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

fn fault_of(items: &[Vec<u8>]) -> jobsleuth_formats::Error {
    lines_of(&file("REDIS0015", items)).1.expect_err("a hostile file").error
}

/// Lengths and counts beyond the end of the file are refused at once, whatever they claim.
#[test]
fn length_and_count_bombs() {
    let huge = [&[0x81][..], &u64::MAX.to_be_bytes()].concat();
    let large = [&[0x81][..], &(1u64 << 40).to_be_bytes()].concat();
    for bomb in [huge, large] {
        let cut = |error: jobsleuth_formats::Error| {
            let expected =
                matches!(error.kind, ErrorKind::Truncated { .. } | ErrorKind::Limit { .. } | ErrorKind::Corrupt(_));
            assert!(expected, "{error}");
        };
        for rdb_type in [0, 1, 2, 3, 4, 5, 9, 10, 14, 15, 16, 18, 19, 22, 27] {
            cut(fault_of(&[key(rdb_type, "k", std::slice::from_ref(&bomb))]));
        }
        for rdb_type in [24, 31, 32] {
            cut(fault_of(&[key(rdb_type, "k", &[vec![0; 8], bomb.clone()])]));
        }
        cut(fault_of(&[key(28, "k", &[len(1), len(0), len(0), len(0), bomb.clone()])]));
        cut(fault_of(&[[vec![0x00], bomb.clone()].concat()]));
        cut(fault_of(&[[vec![0xfa], bomb.clone()].concat()]));
        cut(fault_of(&[[vec![0xf2], len(0), bomb.clone()].concat()]));
        cut(fault_of(&[[vec![0xf3], bomb.clone()].concat()]));
        cut(fault_of(&[key(0, "k", &[vec![0xc3], bomb.clone(), bomb.clone()])]));
    }
}

/// Compressed data cannot claim more than 88 times its size, and never gets more memory than the limit.
#[test]
fn compression_bombs() {
    let claim = |packed: u64, plain: u64| [vec![0xc3], len(packed), len(plain), vec![0; packed as usize]].concat();
    let error = fault_of(&[key(0, "k", &[claim(10, 881)])]);
    assert!(error.to_string().contains("larger than it can be"), "{error}");
    // Legal by its ratio, over the limit of policy.
    let bytes = file("REDIS0011", &[key(0, "k", &[claim(100_000, 8_000_000)])]);
    let limits = Limits { max_value_bytes: 1 << 20, ..Limits::default() };
    let mut walker = Walker::open(SliceInput::new(&bytes, 0), limits).unwrap();
    walker.next_undecoded().unwrap();
    let error = walker.decode_value(&mut ()).expect_err("over the limit");
    assert!(matches!(error.kind, ErrorKind::Limit { asked: 8_000_000, cap: 1_048_576, .. }), "{error}");
    assert_eq!(error.key.as_deref(), Some(&b"k"[..]));
    // The index pass does not decode and so does not mind.
    assert_eq!(index(&bytes).unwrap(), 1);
}

/// A field name that is stored once and yielded with each of many entries must not multiply without bound.
#[test]
fn repetition_bombs() {
    let name = "n".repeat(60_000);
    let mut elements = vec![N(9000), N(0), N(1), T(&name), N(0)];
    for _ in 0..9000 {
        elements.extend([N(2), N(0), N(1), N(1), N(4)]);
    }
    let node = lzf_like(&listpack(&elements));
    let stream = [len(1), s([0; 16]), node, len(9000), len(1), len(1)].concat();
    let tail = vec![0; 6];
    let error = fault_of(&[key(19, "bomb", &[stream, tail])]);
    assert!(matches!(error.kind, ErrorKind::Limit { .. }), "{error}");

    let template = [vec![0xf2], len(0), len(1), s("n".repeat(1_000_000))].concat();
    let error = fault_of(&[template, key(32, "bomb", &[len(0), s("v")])]);
    assert!(matches!(error.kind, ErrorKind::Limit { .. }), "{error}");
}

/// Runs of equal bytes packed as LZF packs them; other bytes as literals.
fn lzf_like(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        let period =
            [1, 10].into_iter().find(|&p| i >= p && (0..264).all(|j| bytes.get(i + j) == bytes.get(i + j - p)));
        match period {
            Some(p) if i + 264 <= bytes.len() => {
                packed.extend_from_slice(&[0xe0, 0xff, p as u8 - 1]);
                i += 264;
            }
            _ => {
                packed.extend_from_slice(&[0, bytes[i]]);
                i += 1;
            }
        }
    }
    [vec![0xc3], len(packed.len() as u64), len(bytes.len() as u64), packed].concat()
}

/// A file that is shorter than its directory entry said, as when it shrinks while it is read, is an error.
#[test]
fn a_file_that_shrinks() {
    let bytes = file("REDIS0011", &[key(0, "k", &[s(vec![b'v'; 600_000])])]);
    let error = lines(&Sips(&bytes[..300_000], 65_536), bytes.len(), 1).1.expect_err("cut").error;
    assert!(matches!(error.kind, ErrorKind::Truncated { .. }), "{error}");
    let input = FileInput::new(Dribble(&bytes[..300_000], 65_536), bytes.len() as u64, true);
    let mut walker = Walker::open(input, Limits::default()).unwrap();
    assert!(matches!(walker.next().expect_err("cut").kind, ErrorKind::Truncated { needed: 1.. }));
    // And nothing more is read from it.
    assert!(walker.next().is_err());
}

/// One item larger than the window may be is refused before it is read.
#[test]
fn window_limit() {
    let bytes = file("REDIS0011", &[key(0, "k", &[s(vec![b'v'; 600_000])])]);
    let input = FileInput::new(&bytes[..], bytes.len() as u64, true).with_limit(300_000);
    let mut walker = Walker::open(input, Limits::default()).unwrap();
    walker.next_undecoded().expect("the value is not read yet");
    let error = walker.decode_value(&mut ()).expect_err("over the limit");
    assert!(matches!(error.kind, ErrorKind::Limit { .. }), "{error}");
}

/// A message is one line of printable text, whatever the key; it names offset, key and what is missing.
#[test]
fn messages_are_harmless() {
    let bytes = file("REDIS0011", &[key(4, "a\n\x1b[31m\u{202e}\"", &[len(1), s("f"), len(40)])]);
    let error = lines_of(&bytes).1.expect_err("cut").error;
    assert_eq!(
        error.to_string(),
        "cut short: the value of key \"a\\x0a\\x1b[31m\\xe2\\x80\\xae\\\"\" (hash) needs 31 more bytes (at byte 26)"
    );
}

/// Other files are told apart from damaged ones, with a word on what they look like.
#[test]
fn other_kinds_of_files() {
    let kind = |bytes: &[u8]| lines_of(bytes).1.expect_err("no snapshot").error.into_kind();
    assert!(matches!(kind(b""), ErrorKind::Empty));
    assert!(matches!(kind(b"\x1f\x8b\x08\0\0\0\0\0\0\x03"), ErrorKind::NotRdb(Some(_))));
    assert!(matches!(kind(b"*1\r\n$4\r\nPING\r\n"), ErrorKind::NotRdb(Some(_))));
    assert!(matches!(kind(b"hello world"), ErrorKind::NotRdb(None)));
    assert!(matches!(kind(b"REDIS"), ErrorKind::Truncated { needed: 4 }));
    assert!(matches!(kind(b"REDIS00x2"), ErrorKind::Corrupt(_)));
    for magic in ["REDIS0000", "REDIS0016", "REDIS0080", "VALKEY079", "VALKEY082"] {
        assert!(matches!(kind(&file(magic, &[])), ErrorKind::UnsupportedVersion { .. }), "{magic}");
    }
    let limits = Limits { allow_newer: true, ..Limits::default() };
    assert!(Walker::open(SliceInput::new(&file("REDIS0016", &[]), 0), limits).is_ok());
}

/// Types and opcodes that no known release writes stop the reading with their number; a fork's do too, where its
/// numbers clash with those of later Redis releases.
#[test]
fn unknown_numbers() {
    let kind = |magic, items: &[Vec<u8>]| lines_of(&file(magic, items)).1.expect_err("unknown").error.into_kind();
    assert!(matches!(kind("REDIS0015", &[key(34, "k", &[])]), ErrorKind::UnknownType(34)));
    assert!(matches!(kind("REDIS0009", &[key(30, "k", &[s("{}")])]), ErrorKind::UnknownType(30)));
    assert!(matches!(kind("VALKEY080", &[key(24, "k", &[])]), ErrorKind::UnknownType(24)));
    assert!(matches!(kind("REDIS0011", &[vec![0xd3]]), ErrorKind::UnknownOpcode(0xd3)));
    assert!(matches!(kind("REDIS0011", &[key(6, "k", &[len(5)])]), ErrorKind::Unsupported(_)));
    assert!(matches!(kind("REDIS0011", &[vec![0xc9, 0]]), ErrorKind::Unsupported(_)));
}

/// A DUMP payload: its checksum must hold, also when it is 0, and its value must use it up.
#[test]
fn dump_payloads() {
    let payload = |body: &[u8], version: u16| {
        let mut out = [body, &version.to_le_bytes()].concat();
        let sum = common::crc(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    };
    let decode = |bytes: &[u8]| decode_dump(bytes, Limits::default(), &mut ());
    let sound = payload(&[&[4][..], &len(1), &s("f"), &s("v")].concat(), 11);
    let info = decode(&sound).unwrap();
    assert_eq!((info.rdb_type, info.version, info.kind.as_str()), (4, 11, "hash"));
    for cut in 0..sound.len() {
        assert!(decode(&sound[..cut]).is_err(), "cut at {cut}");
    }
    for i in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[i] ^= 0x40;
        assert!(matches!(decode(&damaged).expect_err("damaged").kind, ErrorKind::Checksum { .. }), "byte {i}");
    }
    // The value of a key is no library of functions, and a library is no value.
    let mut given = Vec::new();
    let told = decode_function_dump(&sound, Limits::default(), |function| given.push(function.source.to_vec()));
    assert!(matches!(told.expect_err("no library").kind, ErrorKind::UnknownType(4)));
    let libraries = payload(&[&[245][..], &s("#!lua name=a\n"), &[245], &s("#!lua name=b\n")].concat(), 11);
    decode_function_dump(&libraries, Limits::default(), |function| given.push(function.name.unwrap().to_vec()))
        .unwrap();
    assert_eq!(given, [b"a", b"b"]);
    assert!(matches!(decode(&libraries).expect_err("no value").kind, ErrorKind::UnknownType(245)));
    let mut zero = sound.clone();
    let at = zero.len() - 8;
    zero[at..].fill(0);
    assert!(matches!(decode(&zero).expect_err("zero").kind, ErrorKind::Checksum { stored: 0, .. }));
    assert!(decode(&payload(&[0, 1, b'v', b'x'], 11)).is_err());
    assert!(matches!(decode(&payload(&[0, 0], 16)).expect_err("newer").kind, ErrorKind::UnsupportedVersion { .. }));
    // The same type is another thing for Valkey.
    let valkey = payload(&[&[22][..], &len(1), &s("f"), &s("v"), &[0xff; 8]].concat(), 80);
    assert_eq!(decode(&valkey).unwrap().family.as_str(), "valkey");
    // Payloads of a Redis 8.10 server: an integer with metadata beside it, and a hash with its own template.
    let meta = "f30119f6c4280280310b10c905096d6574612d746578740281fffffffffffffffb04000000000000f43f030000003f0000c237be15f60f00\
                634c5c3ed7fcd517";
    let info = decode(&unhex(meta)).unwrap();
    assert_eq!((info.rdb_type, info.key_meta.first().map(|c| (c.name(), c.version()))), (0, Some(("KMT2".into(), 3))));
    let templated = "1d001e1e000000040083616765048362696f04846e616d650585656d61696c06ff405151000000050003013d01a87061676520736573\
                     73696f6e206974656d206265746120657461207869207369676d612063616368298a746f6b656e20646f6e650b8e703140657861\
                     6d706c652e6f72670fff0f00fb4069400a4ec75d";
    #[derive(Default)]
    struct Fields(Vec<String>);
    impl jobsleuth_formats::Visitor for Fields {
        fn hash_field(&mut self, field: &[u8], value: &[u8], _: Option<i64>) -> jobsleuth_formats::Result<()> {
            self.0.push(String::from_utf8_lossy(&[field, b"=", value].concat()).into_owned());
            Ok(())
        }
    }
    let mut fields = Fields::default();
    decode_dump(&unhex(templated), Limits::default(), &mut fields).unwrap();
    let expected =
        ["age=61", "bio=page session item beta eta xi sigma cach", "name=token done", "email=p1@example.org"];
    assert_eq!(fields.0, expected);
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// Packed values whose parts contradict each other are errors: odd pairs, wrong owners, times beyond what can be.
#[test]
fn contradictions() {
    let corrupt = |rdb_type, value: Vec<u8>| {
        let error = fault_of(&[[vec![0xf2], len(0), len(2), s("a"), s("b")].concat(), key(rdb_type, "k", &[value])]);
        assert!(matches!(error.kind, ErrorKind::Corrupt(_)), "type {rdb_type}: {error}");
    };
    corrupt(16, s(listpack(&[T("f")])));
    corrupt(17, s(listpack(&[T("m"), T("1.5x")])));
    corrupt(20, lzf(b"no listpack"));
    corrupt(25, [vec![0; 8], s(listpack(&[T("f"), T("v")]))].concat());
    corrupt(25, [vec![0; 8], s(listpack(&[T("f"), T("v"), N(1 << 48)]))].concat());
    corrupt(24, [i64::MAX.to_le_bytes().to_vec(), len(1), len(9), s("f"), s("v")].concat());
    corrupt(18, [len(1), len(3), s("x")].concat());
    corrupt(30, s(listpack(&[N(7), T("v"), T("w")])));
    corrupt(30, s(listpack(&[N(0), T("v")])));
    corrupt(30, s(listpack(&[N(0), T("v"), T("w"), T("x")])));
    corrupt(32, [len(7), s("v")].concat());
    // A consumer owns what is not pending, and the same twice.
    let group = |pel: &[u8], owned: &[u8]| {
        let id = |n: &u8| [&[0; 15][..], &[*n]].concat();
        let pending: Vec<u8> = pel.iter().flat_map(|n| [id(n), vec![0; 8], len(1)].concat()).collect();
        let owned_ids: Vec<u8> = owned.iter().flat_map(id).collect();
        let consumer = [s("c"), vec![0; 8], len(owned.len() as u64), owned_ids].concat();
        let parts = [len(pel.len() as u64), pending, len(1), consumer].concat();
        [vec![0, 0, 0, 0], len(1), s("g"), len(0), len(0), parts].concat()
    };
    let sound = file("REDIS0009", &[key(15, "k", &[group(&[1, 2], &[1, 2])])]);
    lines_of(&sound).1.expect("a sound group");
    corrupt(15, group(&[1], &[2]));
    corrupt(15, group(&[1, 2], &[1, 1]));
    corrupt(15, group(&[1, 1], &[1]));
}

/// The place of a fault is inside the evidence, also where a packed value points beyond its end.
#[test]
fn places_are_inside() {
    for (rdb_type, blob) in [(9, &b"\x02\x03foo\x03\xffbar"[..]), (9, &[2, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 5, 0])] {
        let bytes = file("REDIS0006", &[key(rdb_type, "k", &[s(blob)])]);
        let (_, result) = lines_of(&bytes);
        let error = result.unwrap_err().error;
        assert!(error.offset <= bytes.len() as u64, "{error}");
    }
}

/// A path without fields takes two bytes: a value may be as small as that, also at the end of what is at hand.
#[test]
fn smallest_paths() {
    let value = [len(2), s(""), len(0), s(""), len(0)].concat();
    let ctx = Context::new(Family::Valkey, 81, Limits::default());
    let mut input = SliceInput::new(&value, 0);
    decode(&ctx, 23, &mut input, &mut ()).unwrap();
    assert_eq!(input.remaining(), 0);
}

/// A visitor that has seen enough stops the reading, and the input stays usable.
#[test]
fn visitors_can_stop() {
    struct First;
    impl jobsleuth_formats::Visitor for First {
        fn list_item(&mut self, _: &[u8]) -> jobsleuth_formats::Result<()> {
            Err(jobsleuth_formats::Error::stopped())
        }
    }
    let bytes = file("REDIS0011", &[key(1, "k", &[len(2), s("a"), s("b")])]);
    let mut walker = Walker::open(SliceInput::new(&bytes, 0), Limits::default()).unwrap();
    walker.next_undecoded().unwrap();
    assert!(matches!(walker.decode_value(&mut First).expect_err("stopped").kind, ErrorKind::Stopped));
    assert!(walker.into_input().remaining() > 0);
}
