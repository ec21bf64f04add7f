//! Whole files through index and extraction. The files are written here, byte by byte, as the format says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array as _, BinaryArray, RecordBatch};
use jobsleuth_columns::{
    Batches, Error, Lookup, Options, Projection, Source, Spelled, elements, index, records, stream_groups, strings,
};
use jobsleuth_formats::Limits;

/// An RDB 11 file in the making; without checksum, so that damage is found by reading.
struct Rdb(Vec<u8>);

impl Rdb {
    fn new() -> Self {
        Rdb(b"REDIS0011\xfe\x00".to_vec())
    }

    fn length(&mut self, n: usize) -> &mut Self {
        self.0.push(0x80);
        self.0.extend(u32::try_from(n).unwrap().to_be_bytes());
        self
    }

    fn text(&mut self, text: &[u8]) -> &mut Self {
        self.length(text.len()).0.extend(text);
        self
    }

    fn key(&mut self, rdb_type: u8, key: &[u8]) -> &mut Self {
        self.0.push(rdb_type);
        self.text(key)
    }

    fn hash(&mut self, key: &[u8], fields: &[(&[u8], &[u8])]) -> &mut Self {
        self.key(4, key).length(fields.len());
        for (field, value) in fields {
            self.text(field).text(value);
        }
        self
    }

    fn list(&mut self, key: &[u8], items: impl ExactSizeIterator<Item = Vec<u8>>) -> &mut Self {
        self.key(1, key).length(items.len());
        for item in items {
            self.text(&item);
        }
        self
    }

    fn zset(&mut self, key: &[u8], members: &[(&[u8], f64)]) -> &mut Self {
        self.key(5, key).length(members.len());
        for (member, score) in members {
            self.text(member).0.extend(score.to_le_bytes());
        }
        self
    }

    /// A stream of version 3 without entries: one group, one pending entry, one consumer that holds it.
    fn stream(&mut self, key: &[u8]) -> &mut Self {
        self.key(21, key).length(0).length(0);
        for n in [9, 1, 0, 0, 7, 2, 30] {
            self.length(n);
        }
        let id = [8_u64.to_be_bytes(), 1_u64.to_be_bytes()].concat();
        self.length(1).text(b"g").length(8).length(1).length(20);
        self.length(1).0.extend(&id);
        self.0.extend(1_700_000_000_000_i64.to_le_bytes());
        self.length(3).length(1).text(b"c").0.extend(1_700_000_000_001_i64.to_le_bytes());
        self.0.extend(1_700_000_000_002_i64.to_le_bytes());
        self.length(1).0.extend(&id);
        self
    }

    fn end(&mut self) -> Vec<u8> {
        self.0.push(0xff);
        self.0.extend([0; 8]);
        std::mem::take(&mut self.0)
    }
}

/// A file that is gone when the test is done.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("jobsleuth-{}-{name}", std::process::id()));
        File::create(&path).unwrap().write_all(bytes).unwrap();
        Temp(path)
    }

    fn open(&self, salvage: bool) -> Result<Arc<Source>, Error> {
        let file = File::open(&self.0).unwrap();
        let indexed = index(&file, Limits::default(), salvage, &mut |_, _| Ok(()))?;
        Ok(Arc::new(Source::new(file, indexed.table, indexed.context, salvage)))
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn all_rows(source: &Source) -> Vec<i64> {
    (0..i64::try_from(source.table.len()).unwrap()).collect()
}

fn read(batches: Batches) -> Result<Vec<RecordBatch>, String> {
    batches.map(|batch| batch.map_err(|error| error.to_string())).collect()
}

fn projection() -> Projection {
    Projection::parse(
        r#"[{"name": "n", "field": "n", "kind": "int"},
            {"name": "data", "field": "data", "kind": "bytes", "size": true, "format": true},
            {"name": "m", "field": "m", "kind": "message",
             "message": [{"number": 1, "name": "t", "kind": "string"}]}]"#,
        true,
    )
    .unwrap()
}

/// Rows come in the order asked for and in the same batches, however many threads decode them.
#[test]
fn order_and_batches() {
    let mut rdb = Rdb::new();
    for i in 0..20_000 {
        let n = i.to_string();
        let data = vec![b'a' + (i % 26) as u8; i % 1500];
        rdb.hash(format!("k{i}").as_bytes(), &[(b"n", n.as_bytes()), (b"data", &data)]);
    }
    let temp = Temp::new("order", &rdb.end());
    let source = temp.open(false).unwrap();
    let sizes = |threads| {
        let batches = records(Arc::clone(&source), all_rows(&source), projection(), Options::new(threads, 100_000));
        let batches = read(batches.unwrap()).unwrap();
        let numbers = batches.iter().flat_map(|b| b.column_by_name("n").unwrap().as_primitive::<Int64Type>().values());
        assert!(numbers.copied().eq(0..20_000), "{threads} threads");
        batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>()
    };
    let one = sizes(1);
    assert!(one.len() > 20);
    assert_eq!(sizes(2), one);
    assert_eq!(sizes(9), one);
}

/// A value larger than a task arrives in bounded batches, whole and in order, among small ones.
#[test]
fn large_value() {
    const ITEMS: u32 = 100_000;
    let item = |i: u32| [i.to_le_bytes().as_slice(), &[7; 150]].concat();
    let mut rdb = Rdb::new();
    rdb.list(b"before", [b"x".to_vec()].into_iter());
    rdb.list(b"large", (0..ITEMS).map(item).collect::<Vec<_>>().into_iter());
    rdb.list(b"after", [b"y".to_vec()].into_iter());
    let temp = Temp::new("large", &rdb.end());
    let source = temp.open(false).unwrap();
    let mut next = 0u32;
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for batch in elements(Arc::clone(&source), all_rows(&source), Options::new(2, 1 << 20)).unwrap() {
        let batch = batch.unwrap();
        assert!(batch.num_rows() < 10_000);
        let rows = batch.column(0).as_primitive::<Int64Type>();
        let members = batch.column(2).as_binary::<i32>();
        for at in 0..batch.num_rows() {
            match rows.value(at) {
                0 => first = members.value(at).to_vec(),
                2 => last = members.value(at).to_vec(),
                _ => {
                    assert_eq!(members.value(at), item(next));
                    next += 1;
                }
            }
        }
    }
    assert_eq!((next, first.as_slice(), last.as_slice()), (ITEMS, b"x".as_slice(), b"y".as_slice()));
}

/// Ranks follow scores, then bytes, whatever order the file has: descending as servers write, ascending, or neither.
#[test]
fn ranks() {
    let ascending: [(&[u8], f64); 4] = [(b"z", f64::NEG_INFINITY), (b"a", 1.0), (b"b", 1.0), (b"c", 2.5)];
    let mut descending = ascending;
    descending.reverse();
    let mixed = [ascending[2], ascending[0], ascending[3], ascending[1]];
    let mut rdb = Rdb::new();
    rdb.zset(b"1", &ascending).zset(b"2", &descending).zset(b"3", &mixed);
    let temp = Temp::new("ranks", &rdb.end());
    let source = temp.open(false).unwrap();
    let batches = read(elements(Arc::clone(&source), vec![0, 1, 2], Options::new(1, 1 << 20)).unwrap()).unwrap();
    let batch = &batches[0];
    for at in 0..12 {
        let (member, score) = ascending[at % 4];
        assert_eq!(batch.column(1).as_primitive::<Int64Type>().value(at), (at % 4) as i64);
        assert_eq!(batch.column(2).as_binary::<i32>().value(at), member);
        assert_eq!(batch.column(3).as_primitive::<Float64Type>().value(at), score);
    }
}

/// Keys spread over a file with much between them are read one by one, neighbours together: the values are the same.
#[test]
fn sparse_rows() {
    let mut rdb = Rdb::new();
    for i in 0..300usize {
        rdb.key(0, format!("s{i}").as_bytes()).text(format!("value {i}").as_bytes());
        rdb.key(0, format!("filler{i}").as_bytes()).text(&vec![0; if i % 3 == 0 { 40_000 } else { 10 }]);
    }
    let temp = Temp::new("sparse", &rdb.end());
    let source = temp.open(false).unwrap();
    let rows = (0..600).step_by(2).collect();
    let batches = read(strings(Arc::clone(&source), rows, None, Options::new(3, 1 << 16)).unwrap()).unwrap();
    let values: Vec<Vec<u8>> =
        batches.iter().flat_map(|b| b.column(1).as_binary::<i32>().iter().flatten().map(<[u8]>::to_vec)).collect();
    let expected: Vec<Vec<u8>> = (0..300).map(|i| format!("value {i}").into_bytes()).collect();
    assert_eq!(values, expected);
}

/// A file that is cut after it was indexed gives an error with the place, not an abort.
#[test]
fn file_shrinks() {
    let mut rdb = Rdb::new();
    rdb.list(b"l", (0..1000).map(|i: u32| i.to_le_bytes().to_vec()).collect::<Vec<_>>().into_iter());
    let bytes = rdb.end();
    let temp = Temp::new("shrinks", &bytes);
    let source = temp.open(false).unwrap();
    File::options().write(true).open(&temp.0).unwrap().set_len(100).unwrap();
    let error = read(elements(source, vec![0], Options::new(2, 1 << 20)).unwrap()).unwrap_err();
    assert!(error.contains("cut short") && error.ends_with("(at byte 100)"), "{error}");
}

/// What a stream says of itself, its group, what is pending there and who holds it: a row each, nulls elsewhere.
#[test]
fn groups_of_a_stream() {
    let mut rdb = Rdb::new();
    rdb.stream(b"s").list(b"l", [b"a".to_vec()].into_iter());
    let temp = Temp::new("groups", &rdb.end());
    let batches = read(stream_groups(temp.open(false).unwrap(), vec![0, 1], Options::new(2, 1 << 20)).unwrap());
    let batch = batches.unwrap().remove(0);
    let signed = |name: &str| {
        let column = batch.column_by_name(name).unwrap().as_primitive::<Int64Type>();
        column.iter().collect::<Vec<_>>()
    };
    let ids = |name: &str| {
        let column = batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>();
        column.iter().collect::<Vec<_>>()
    };
    assert_eq!(signed("row"), [Some(0); 4]);
    assert_eq!(signed("group"), [None, Some(0), Some(0), Some(0)]);
    assert_eq!(ids("ms"), [Some(9), Some(8), Some(8), None]);
    assert_eq!(ids("seq"), [Some(1), Some(1), Some(1), None]);
    assert_eq!(signed("count"), [Some(0), Some(20), Some(3), Some(1)]);
    assert_eq!(signed("time"), [None, None, Some(1_700_000_000_000), Some(1_700_000_000_001)]);
    assert_eq!(signed("active"), [None, None, None, Some(1_700_000_000_002)]);
    assert_eq!((ids("deleted_ms")[0], ids("deleted_seq")[0], ids("added")[0]), (Some(7), Some(2), Some(30)));
    let names = batch.column_by_name("name").unwrap().as_binary::<i32>();
    assert_eq!(names.iter().collect::<Vec<_>>(), [None, Some(&b"g"[..]), Some(b"c"), Some(b"c")]);
}

/// Every byte of a small file, changed every which way: reading ends, with rows or with an error, and never panics; a
/// salvage gives one row for each key it lists.
#[test]
fn every_byte_flipped() {
    let mut rdb = Rdb::new();
    rdb.hash(b"h", &[(b"n", b"5"), (b"data", b"{\"a\":1}"), (b"m", b"\x0a\x01t"), (b"\xff", b"")]);
    rdb.list(b"l", [b"a".to_vec(), b"b".to_vec()].into_iter()).zset(b"z", &[(b"m", 1.5), (b"n", 0.5)]);
    // A packed hash with one pair.
    rdb.key(16, b"p").text(b"\x0f\0\0\0\x02\0\x81f\x02\x82vv\x03\xff");
    rdb.stream(b"s");
    let bytes = rdb.end();
    for at in 0..bytes.len() {
        for change in [1, 0x10, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] ^= change;
            let temp = Temp::new("flipped", &bytes);
            for salvage in [false, true] {
                let Ok(source) = temp.open(salvage) else { continue };
                let rows = all_rows(&source);
                let options = Options::new(2, 1 << 16);
                let hashes = read(records(Arc::clone(&source), rows.clone(), projection(), options).unwrap());
                let items = read(elements(Arc::clone(&source), rows.clone(), options).unwrap());
                let groups = read(stream_groups(Arc::clone(&source), rows.clone(), options).unwrap());
                if salvage {
                    assert_eq!(hashes.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), rows.len());
                    items.unwrap();
                    groups.unwrap();
                }
            }
        }
    }
}

/// A table of several chunks finds each of its keys, and none that it does not have.
#[test]
fn lookup_over_chunks() {
    let mut rdb = Rdb::new();
    for i in 0..150_000 {
        rdb.key(0, format!("key {i}").as_bytes()).text(b"");
    }
    let temp = Temp::new("lookup", &rdb.end());
    let source = temp.open(false).unwrap();
    let batches = source.table.batches();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [65_536, 65_536, 18_928]);
    let lookup = Lookup::new(&source.table);
    // Every key in turn in its database, in one without keys, and under a code that stands for nothing; then one more.
    let prefixes = [(0, b"key ".to_vec()), (1, b"key ".to_vec())];
    let codes: Vec<i64> = (0..=450_000).map(|n| n % 3).collect();
    let middles: Vec<String> = codes.iter().zip(0..).map(|(_, n)| (n / 3).to_string()).collect();
    let middles: BinaryArray = middles.iter().map(|middle| Some(middle.as_bytes())).collect();
    let keys = Spelled { prefixes: &prefixes, suffix: b"" };
    let found = lookup.find_all(&source.table, &keys, &codes, &[middles.slice(0, 7), middles.slice(7, 449_994)]);
    assert_eq!(found.iter().map(|part| part.len()).collect::<Vec<_>>(), [7, 449_994]);
    for (n, row) in found.iter().flat_map(|part| part.values()).enumerate() {
        assert_eq!(*row, if n % 3 == 0 && n < 450_000 { n as i64 / 3 } else { -1 });
    }
    let offsets = batches[2].column_by_name("offset").unwrap().as_primitive::<UInt64Type>();
    assert!(offsets.values().is_sorted() && offsets.null_count() == 0);
}
