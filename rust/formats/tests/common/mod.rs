//! Files made by hand, byte by byte, and ways to read them back.
#![allow(dead_code)] // Each test file uses a part of this.

use std::io::Read;

use jobsleuth_formats::{CatFailure, CatOptions, CatSummary, Limits, Positioned, cat};

/// A length in its shortest form.
pub fn len(n: u64) -> Vec<u8> {
    match n {
        0..0x40 => vec![n as u8],
        0x40..0x4000 => vec![0x40 | (n >> 8) as u8, n as u8],
        0x4000..0x1_0000_0000 => [&[0x80][..], &(n as u32).to_be_bytes()].concat(),
        _ => [&[0x81][..], &n.to_be_bytes()].concat(),
    }
}

/// A plain string.
pub fn s(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    [len(bytes.as_ref().len() as u64), bytes.as_ref().to_vec()].concat()
}

/// A string stored by LZF as literals only.
pub fn lzf(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let mut packed = Vec::new();
    for run in bytes.chunks(32) {
        packed.push(run.len() as u8 - 1);
        packed.extend_from_slice(run);
    }
    [vec![0xc3], len(packed.len() as u64), len(bytes.len() as u64), packed].concat()
}

/// An element of a listpack.
pub enum E<'a> {
    T(&'a str),
    N(i64),
}

pub fn listpack(elements: &[E<'_>]) -> Vec<u8> {
    let mut out = vec![0; 6];
    for element in elements {
        let mut data = match element {
            E::T(text) if text.len() < 64 => vec![0x80 | text.len() as u8],
            E::T(text) if text.len() < 4096 => vec![0xe0 | (text.len() >> 8) as u8, text.len() as u8],
            E::T(text) => [&[0xf0][..], &(text.len() as u32).to_le_bytes()].concat(),
            E::N(n @ 0..128) => vec![*n as u8],
            E::N(n) => [&[0xf4][..], &n.to_le_bytes()].concat(),
        };
        if let E::T(text) = element {
            data.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(&data);
        out.extend_from_slice(&match data.len() {
            n @ 0..128 => vec![n as u8],
            n @ 128..16383 => vec![(n >> 7) as u8, n as u8 | 0x80],
            n => vec![(n >> 14) as u8, (n >> 7) as u8 | 0x80, n as u8 | 0x80],
        });
    }
    out.push(0xff);
    let total = out.len() as u32;
    out[..4].copy_from_slice(&total.to_le_bytes());
    out[4..6].copy_from_slice(&(elements.len().min(65535) as u16).to_le_bytes());
    out
}

/// A ziplist of short texts.
pub fn ziplist(elements: &[&str]) -> Vec<u8> {
    let mut out = vec![0; 10];
    let mut previous = 0;
    for element in elements {
        out.push(previous);
        out.push(element.len() as u8);
        out.extend_from_slice(element.as_bytes());
        previous = element.len() as u8 + 2;
    }
    out.push(0xff);
    let total = out.len() as u32;
    out[..4].copy_from_slice(&total.to_le_bytes());
    out[8..10].copy_from_slice(&(elements.len() as u16).to_le_bytes());
    out
}

pub fn crc(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Redis, bytes)
}

/// A whole file: magic, items, end, checksum.
pub fn file(magic: &str, items: &[Vec<u8>]) -> Vec<u8> {
    let mut out = [magic.as_bytes(), &items.concat(), &[0xff]].concat();
    let sum = crc(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Type, key and value.
pub fn key(rdb_type: u8, name: &str, value: &[Vec<u8>]) -> Vec<u8> {
    [vec![rdb_type], s(name), value.concat()].concat()
}

fn id(ms: u64, seq: u64) -> Vec<u8> {
    [ms.to_be_bytes(), seq.to_be_bytes()].concat()
}

/// A stream with one deleted entry, one of the same fields and one of others; of version 1 to 5.
pub fn stream(version: u8) -> Vec<u8> {
    use E::{N, T};
    let node = listpack(&[
        // Two live, one deleted, one field "a".
        N(2),
        N(1),
        N(1),
        T("a"),
        N(0),
        N(2),
        N(0),
        N(0),
        N(1),
        N(4),
        N(3),
        N(0),
        N(1),
        N(2),
        N(4),
        N(0),
        N(2),
        N(-4),
        N(1),
        T("b"),
        T("zz"),
        N(6),
    ]);
    let mut out = vec![len(1), s(id(5, 5)), s(node), len(2), len(7), len(1)];
    if version >= 2 {
        out.extend([len(5), len(5), len(5), len(6), len(3)]);
    }
    // One group: two entries pending, the first of a consumer "c1", the second of nobody.
    out.extend([len(1), s("g"), len(7), len(1)]);
    if version >= 2 {
        out.push([&[0x81][..], &[0xff; 8]].concat());
    }
    let nacked = version >= 5;
    out.push(len(if nacked { 2 } else { 1 }));
    out.extend([id(5, 5), 1000i64.to_le_bytes().to_vec(), len(3)]);
    if nacked {
        out.extend([id(7, 1), 0i64.to_le_bytes().to_vec(), len(1)]);
    }
    out.extend([len(1), s("c1"), 2000i64.to_le_bytes().to_vec()]);
    if version >= 3 {
        out.push((-1i64).to_le_bytes().to_vec());
    }
    out.extend([len(1), id(5, 5)]);
    if nacked {
        out.extend([len(1), id(7, 1)]);
    }
    if version >= 4 {
        out.extend([len(100), len(10), len(1), s("p"), len(1), s("i"), len(5), len(5), len(1), len(0)]);
    }
    out.concat()
}

/// A module value: id of `name` with a version, tagged items, end mark.
pub fn module(name: &str, version: u64, items: &[Vec<u8>]) -> Vec<u8> {
    [module_id(name, version), items.concat(), vec![0]].concat()
}

fn module_id(name: &str, version: u64) -> Vec<u8> {
    const SET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let id = name.chars().fold(0u64, |id, c| id << 6 | SET.find(c).unwrap() as u64);
    len(id << 10 | version)
}

pub fn uint(n: u64) -> Vec<u8> {
    [vec![2], len(n)].concat()
}

pub fn text(t: &str) -> Vec<u8> {
    [vec![5], s(t)].concat()
}

/// A file with every item and type of Redis 8.10 and before.
pub fn zoo() -> Vec<u8> {
    file("REDIS0015", &zoo_items())
}

/// What is in it, item by item.
pub fn zoo_items() -> Vec<Vec<u8>> {
    use E::{N, T};
    let aux = |name: &str, value: Vec<u8>| [vec![0xfa], s(name), value].concat();
    let min = 4_102_444_800_000i64;
    vec![
        aux("redis-ver", s("8.10.2")),
        aux("ctime", [&[0xc2][..], &1_700_000_000i32.to_le_bytes()].concat()),
        module_aux("ReJSON-RL", 3, 1, &[uint(1), text("aux")]),
        [vec![0xf5], s("#!lua name=lib\nredis.register_function('f', function() end)")].concat(),
        [vec![0xf2], len(3), len(2), s("name"), s("data")].concat(),
        [vec![0xf2], len(0), len(1), s("x")].concat(),
        [vec![0xfe], len(0)].concat(),
        [vec![0xfb], len(40), len(2)].concat(),
        [vec![0xf4], len(99), len(40), len(2)].concat(),
        key(0, "raw", &[s("v\x1b[31m")]),
        key(0, "int", &[vec![0xc1, 0x39, 0x30]]),
        key(0, "lzf", &[vec![0xc3, 0x09, 0x40, 0x46, 0x01, b'x', b'x', 0xe0, 0x39, 0x00, 0x01, b'x', b'x']]),
        [&[0xfc][..], &1_800_000_000_123i64.to_le_bytes(), &[0xf8], &len(77), &key(0, "ms", &[s("1")])].concat(),
        [&[0xfd][..], &1_800_000_000i32.to_le_bytes(), &[0xf9, 200], &key(0, "sec", &[s("2")])].concat(),
        key(1, "list", &[len(2), s("a"), vec![0xc0, 0x2a]]),
        key(10, "list-zl", &[s(ziplist(&["a", "b"]))]),
        key(14, "list-zls", &[len(2), s(ziplist(&["a"])), lzf(ziplist(&["b", "c"]))]),
        key(18, "list-nodes", &[len(2), len(2), lzf(listpack(&[T("a"), N(-7)])), len(1), s("plain")]),
        key(2, "set", &[len(1), s("m")]),
        key(11, "set-int", &[s([2, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 5, 0])]),
        key(20, "set-lp", &[s(listpack(&[T("m"), N(9)]))]),
        key(3, "zset-text", &[len(3), s("a"), s("1.5"), s("b"), vec![254], s("c"), vec![255]]),
        key(5, "zset", &[len(1), s("m"), 0.1f64.to_le_bytes().to_vec()]),
        key(12, "zset-zl", &[s(ziplist(&["m", "-inf"]))]),
        key(17, "zset-lp", &[s(listpack(&[T("m"), N(3), T("n"), T("2.5")]))]),
        key(4, "hash", &[len(1), s("f"), lzf("value value")]),
        key(9, "hash-zm", &[s(b"\x02\x03foo\x03\x02bar..\x01a\x01\x00b\xff")]),
        key(13, "hash-zl", &[s(ziplist(&["f", "v"]))]),
        key(16, "hash-lp", &[s(listpack(&[T("f"), N(1)]))]),
        key(22, "hash-ttl-rc", &[len(1), len(5_000), s("f"), s("v")]),
        key(23, "hash-lp-ttl-rc", &[s(listpack(&[T("f"), T("v"), N(5_000)]))]),
        // The bytes of a Redis 7.4.1 server for three fields.
        key(
            24,
            "hash-ttl",
            &[
                vec![0x00, 0xd8, 0xc3, 0x2c, 0xbb, 0x03, 0x00, 0x00, 0x03],
                vec![0x01, 0x02, b'f', b'2', 0x02, b'v', b'2'],
                vec![0x80, 0x00, 0x01, 0x86, 0xa1, 0x02, b'f', b'3', 0x02, b'v', b'3'],
                vec![0x00, 0x02, b'f', b'1', 0x02, b'v', b'1'],
            ],
        ),
        key(
            25,
            "hash-lp-ttl",
            &[min.to_le_bytes().to_vec(), s(listpack(&[T("f"), T("v"), N(min), T("g"), T("w"), N(0)]))],
        ),
        key(29, "t-lp-own", &[len(0), s(listpack(&[T("k"), N(7)])), s(listpack(&[N(3), T("v"), T("w")]))]),
        key(30, "t-lp", &[s(listpack(&[N(3), T("n"), T("d")]))]),
        key(31, "t-own", &[len(1), len(2), s("k"), s("l"), s("v"), s("w")]),
        key(32, "t", &[len(3), s("n"), lzf("ddd")]),
        key(15, "stream-1", &[stream(1)]),
        key(19, "stream-2", &[stream(2)]),
        key(21, "stream-3", &[stream(3)]),
        key(26, "stream-4", &[stream(4)]),
        key(27, "stream-5", &[stream(5)]),
        key(
            28,
            "array",
            &[
                len(4),
                len(1),
                len(3),
                len(0),
                len(0),
                s("text"),
                len(1),
                len(1),
                (-5i64).to_le_bytes().to_vec(),
                len(2),
                len(2),
                1.0f64.to_le_bytes().to_vec(),
                len(1 << 40),
                len(3),
                s("in"),
            ],
        ),
        key(7, "json", &[module("ReJSON-RL", 3, &[text("{\"a\":1}")])]),
        key(
            7,
            "vectors",
            &[module(
                "vectorset",
                0,
                &[uint(2), uint(1), uint(0x1001), uint(2), text("el"), text("{}"), text("\x01\x02"), uint(1), uint(9)],
            )],
        ),
        // Metadata of a class KMT1.
        [
            &[0xf3, 0x01, 0x09, 0xf5, 0xc4, 0x28][..],
            &uint(5),
            &text("meta"),
            &[0x04],
            &[0; 8],
            &[0x03],
            &[0; 4],
            &[0x00],
            &key(0, "meta", &[s("3")]),
        ]
        .concat(),
        key(33, "reserved", &[len(5)]),
        [vec![0xfe], len(3)].concat(),
        key(0, "raw", &[s("other")]),
    ]
}

/// What a module stores beside the keys, before (1) or after (2) them.
pub fn module_aux(name: &str, version: u64, when: u64, items: &[Vec<u8>]) -> Vec<u8> {
    [vec![0xf7], module_id(name, version), uint(when), items.concat(), vec![0]].concat()
}

/// What `cat` makes of it.
pub fn lines<P: Positioned + ?Sized>(
    evidence: &P,
    len: usize,
    threads: usize,
) -> (String, Result<CatSummary, CatFailure>) {
    let mut out = Vec::new();
    let options = CatOptions { threads, ..CatOptions::default() };
    let result = cat(evidence, len as u64, Limits::default(), &mut out, &options);
    (String::from_utf8(out).unwrap(), result)
}

pub fn lines_of(bytes: &[u8]) -> (String, Result<CatSummary, CatFailure>) {
    lines(bytes, bytes.len(), 1)
}

/// Gives out a few bytes at a time, wherever they are asked for.
pub struct Sips<'a>(pub &'a [u8], pub usize);

impl Positioned for Sips<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let n = buf.len().min(self.1);
        self.0.read_at(&mut buf[..n], offset)
    }
}

/// Gives out a few bytes at a time.
pub struct Dribble<'a>(pub &'a [u8], pub usize);

impl Read for Dribble<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.1.min(self.0.len()).min(out.len());
        out[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}
