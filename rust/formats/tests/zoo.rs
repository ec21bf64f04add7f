//! One file with every item and value type, read in every way.

mod common;

use common::{Sips, file, key, len, lines, lines_of, listpack, s, zoo};
use jobsleuth_formats::{Behind, Checksum, Decoder, Family, Frame, Item, Kind, Limits, SliceInput, Visitor, Walker};

/// Every type gives the value that its bytes were made for.
#[test]
fn every_type_decodes() {
    let (text, result) = lines_of(&zoo());
    let summary = result.expect("the file is sound");
    assert!(matches!(summary.checksum, Some(Checksum::Ok(_))));
    let got: Vec<&str> = text.lines().collect();
    let head = r#"{"format":"jobsleuth-keyspace","version":1,"started_at_ms":1700000000000,"finished_at_ms":1700000000000,"redis_version":"8.10.2","atomic":true,"as_of_ms":1700000000000}"#;
    assert_eq!(got.first().copied(), Some(head));
    let expected = EXPECTED.trim().lines().map(str::trim);
    for (got, expected) in got.iter().skip(1).zip(expected.clone()) {
        assert_eq!(*got, expected);
    }
    let keys = expected.count();
    assert_eq!(got.len(), keys + 2);
    assert_eq!(got.last().copied(), Some(format!("{{\"end\":true,\"keys\":{keys}}}").as_str()));
    assert_eq!(summary.keys, keys as u64);
}

const EXPECTED: &str = r#"
{"db":0,"key":"raw","type":"string","expire_at_ms":null,"encoding":"raw","slot":99,"value":"v\u001b[31m"}
{"db":0,"key":"int","type":"string","expire_at_ms":null,"encoding":"int","slot":99,"value":"12345"}
{"db":0,"key":"lzf","type":"string","expire_at_ms":null,"encoding":"lzf","slot":99,"value":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
{"db":0,"key":"ms","type":"string","expire_at_ms":1800000000123,"encoding":"raw","lru_idle_s":77,"slot":99,"value":"1"}
{"db":0,"key":"sec","type":"string","expire_at_ms":1800000000000,"encoding":"raw","lfu_freq":200,"slot":99,"value":"2"}
{"db":0,"key":"list","type":"list","expire_at_ms":null,"encoding":"linkedlist","slot":99,"value":["a","42"]}
{"db":0,"key":"list-zl","type":"list","expire_at_ms":null,"encoding":"ziplist","slot":99,"value":["a","b"]}
{"db":0,"key":"list-zls","type":"list","expire_at_ms":null,"encoding":"quicklist","slot":99,"value":["a","b","c"]}
{"db":0,"key":"list-nodes","type":"list","expire_at_ms":null,"encoding":"quicklist","slot":99,"value":["a","-7","plain"]}
{"db":0,"key":"set","type":"set","expire_at_ms":null,"encoding":"hashtable","slot":99,"value":["m"]}
{"db":0,"key":"set-int","type":"set","expire_at_ms":null,"encoding":"intset","slot":99,"value":["-1","5"]}
{"db":0,"key":"set-lp","type":"set","expire_at_ms":null,"encoding":"listpack","slot":99,"value":["m","9"]}
{"db":0,"key":"zset-text","type":"zset","expire_at_ms":null,"encoding":"skiplist","slot":99,"value":[["a","1.5"],["b","inf"],["c","-inf"]]}
{"db":0,"key":"zset","type":"zset","expire_at_ms":null,"encoding":"skiplist","slot":99,"value":[["m","0.10000000000000001"]]}
{"db":0,"key":"zset-zl","type":"zset","expire_at_ms":null,"encoding":"ziplist","slot":99,"value":[["m","-inf"]]}
{"db":0,"key":"zset-lp","type":"zset","expire_at_ms":null,"encoding":"listpack","slot":99,"value":[["m","3"],["n","2.5"]]}
{"db":0,"key":"hash","type":"hash","expire_at_ms":null,"encoding":"hashtable","slot":99,"value":[["f","value value"]]}
{"db":0,"key":"hash-zm","type":"hash","expire_at_ms":null,"encoding":"zipmap","slot":99,"value":[["foo","bar"],["a","b"]]}
{"db":0,"key":"hash-zl","type":"hash","expire_at_ms":null,"encoding":"ziplist","slot":99,"value":[["f","v"]]}
{"db":0,"key":"hash-lp","type":"hash","expire_at_ms":null,"encoding":"listpack","slot":99,"value":[["f","1"]]}
{"db":0,"key":"hash-ttl-rc","type":"hash","expire_at_ms":null,"encoding":"hashtable","slot":99,"value":[["f","v",5000]]}
{"db":0,"key":"hash-lp-ttl-rc","type":"hash","expire_at_ms":null,"encoding":"listpackex","slot":99,"value":[["f","v",5000]]}
{"db":0,"key":"hash-ttl","type":"hash","expire_at_ms":null,"encoding":"hashtable","slot":99,"value":[["f2","v2",4102444800000],["f3","v3",4102444900000],["f1","v1"]]}
{"db":0,"key":"hash-lp-ttl","type":"hash","expire_at_ms":null,"encoding":"listpackex","slot":99,"value":[["f","v",4102444800000],["g","w"]]}
{"db":0,"key":"t-lp-own","type":"hash","expire_at_ms":null,"encoding":"template-listpack","slot":99,"value":[["k","v"],["7","w"]]}
{"db":0,"key":"t-lp","type":"hash","expire_at_ms":null,"encoding":"template-listpack","slot":99,"value":[["name","n"],["data","d"]]}
{"db":0,"key":"t-own","type":"hash","expire_at_ms":null,"encoding":"template-array","slot":99,"value":[["k","v"],["l","w"]]}
{"db":0,"key":"t","type":"hash","expire_at_ms":null,"encoding":"template-array","slot":99,"value":[["name","n"],["data","ddd"]]}
{"db":0,"key":"stream-1","type":"stream","expire_at_ms":null,"encoding":"stream","slot":99,"value":{"entries":[["5-5",[["a","1"]]],["7-1",[["b","zz"]]]],"last_id":"7-1","entries_added":null,"max_deleted_id":null,"groups":[{"name":"g","last_id":"7-1","entries_read":null,"pending":[["5-5","c1",1000,3]],"consumers":[["c1",2000,null]]}]}}
{"db":0,"key":"stream-2","type":"stream","expire_at_ms":null,"encoding":"stream","slot":99,"value":{"entries":[["5-5",[["a","1"]]],["7-1",[["b","zz"]]]],"last_id":"7-1","entries_added":3,"max_deleted_id":"5-6","groups":[{"name":"g","last_id":"7-1","entries_read":null,"pending":[["5-5","c1",1000,3]],"consumers":[["c1",2000,null]]}]}}
{"db":0,"key":"stream-3","type":"stream","expire_at_ms":null,"encoding":"stream","slot":99,"value":{"entries":[["5-5",[["a","1"]]],["7-1",[["b","zz"]]]],"last_id":"7-1","entries_added":3,"max_deleted_id":"5-6","groups":[{"name":"g","last_id":"7-1","entries_read":null,"pending":[["5-5","c1",1000,3]],"consumers":[["c1",2000,null]]}]}}
{"db":0,"key":"stream-4","type":"stream","expire_at_ms":null,"encoding":"stream","slot":99,"value":{"entries":[["5-5",[["a","1"]]],["7-1",[["b","zz"]]]],"last_id":"7-1","entries_added":3,"max_deleted_id":"5-6","groups":[{"name":"g","last_id":"7-1","entries_read":null,"pending":[["5-5","c1",1000,3]],"consumers":[["c1",2000,null]]}],"idempotence":{"items":[["p","i","5-5"]],"duration_s":100,"max_entries":10,"items_added":1,"items_duplicate":0}}}
{"db":0,"key":"stream-5","type":"stream","expire_at_ms":null,"encoding":"stream","slot":99,"value":{"entries":[["5-5",[["a","1"]]],["7-1",[["b","zz"]]]],"last_id":"7-1","entries_added":3,"max_deleted_id":"5-6","groups":[{"name":"g","last_id":"7-1","entries_read":null,"pending":[["5-5","c1",1000,3],["7-1",null,0,1]],"consumers":[["c1",2000,null]]}],"idempotence":{"items":[["p","i","5-5"]],"duration_s":100,"max_entries":10,"items_added":1,"items_duplicate":0}}}
{"db":0,"key":"array","type":"array","expire_at_ms":null,"encoding":"sliced-array","slot":99,"value":{"items":[[0,"text"],[1,"-5"],[2,"1.0"],[1099511627776,"in"]],"len":1099511627777}}
{"db":0,"key":"json","type":"module","expire_at_ms":null,"encoding":"module","slot":99,"value":{"module":"ReJSON-RL"}}
{"db":0,"key":"vectors","type":"vectorset","expire_at_ms":null,"encoding":"module","slot":99,"value":{"dim":2,"elements":[["el","{}"]]}}
{"db":0,"key":"meta","type":"string","expire_at_ms":null,"encoding":"raw","slot":99,"key_meta":["KMT1"],"value":"3"}
{"db":0,"key":"reserved","type":"module","expire_at_ms":null,"encoding":"opaque","slot":99,"value":{"module":"rdb-type-33"}}
{"db":3,"key":"raw","type":"string","expire_at_ms":null,"encoding":"raw","value":"other"}
"#;

/// A reader that hands out one byte, or a few, at a time gives the same lines as the file in one piece.
#[test]
fn pieces_and_whole_agree() {
    let bytes = zoo();
    let (whole, _) = lines_of(&bytes);
    for step in [1, 2, 3, 7, 64, 100_000] {
        let (text, result) = lines(&Sips(&bytes, step), bytes.len(), 1);
        assert!(matches!(result.expect("the file is sound").checksum, Some(Checksum::Ok(_))));
        assert_eq!(text, whole, "step {step}");
    }
}

/// Counts the pieces of a value.
#[derive(Default)]
struct Pieces(u64);

impl Visitor for Pieces {
    fn list_item(&mut self, _: &[u8]) -> jobsleuth_formats::Result<()> {
        self.0 += 1;
        Ok(())
    }
    fn set_member(&mut self, _: &[u8]) -> jobsleuth_formats::Result<()> {
        self.0 += 1;
        Ok(())
    }
    fn zset_member(&mut self, _: &[u8], _: f64) -> jobsleuth_formats::Result<()> {
        self.0 += 1;
        Ok(())
    }
    fn hash_field(&mut self, _: &[u8], _: &[u8], _: Option<i64>) -> jobsleuth_formats::Result<()> {
        self.0 += 1;
        Ok(())
    }
    fn stream_entry(&mut self, _: jobsleuth_formats::StreamId) -> jobsleuth_formats::Result<()> {
        self.0 += 1;
        Ok(())
    }
    fn array_item(&mut self, _: u64, _: &[u8]) -> jobsleuth_formats::Result<()> {
        self.0 += 1;
        Ok(())
    }
    fn vectorset_element(&mut self, _: &[u8], _: Option<&[u8]>, _: &[u8]) -> jobsleuth_formats::Result<()> {
        self.0 += 1;
        Ok(())
    }
}

/// The index pass and the decoder agree: spans join without a gap, each value decodes from exactly its span, and the
/// number of elements that the index tells is the number decoded.
#[test]
fn index_and_decoder_agree() {
    let bytes = zoo();
    let mut walker = Walker::open(SliceInput::new(&bytes, 0), Limits::default()).unwrap();
    let mut spans = Vec::new();
    let mut before = 0;
    while let Some(item) = walker.next().unwrap() {
        if let Item::Key(entry) = item {
            assert!(before <= entry.entry_offset && entry.entry_offset < entry.value_offset);
            assert!(entry.value_offset < entry.end_offset);
            before = entry.end_offset;
            let (from, to) = (entry.value_offset as usize, entry.end_offset as usize);
            spans.push((entry.key.to_vec(), entry.rdb_type, entry.kind, entry.elements, from, to));
        }
    }
    assert!(walker.next().unwrap().is_none());
    assert_eq!(walker.behind().unwrap(), Behind::Nothing);
    let ctx = walker.context();
    let mut decoder = Decoder::new();
    for (key, rdb_type, kind, elements, from, to) in spans {
        let mut pieces = Pieces::default();
        let mut input = SliceInput::new(&bytes[from..to], from as u64);
        decoder.decode(&ctx, rdb_type, &mut input, &mut pieces).unwrap();
        assert_eq!(jobsleuth_formats::Input::remaining(&input), 0, "{key:?} is used up");
        match kind {
            Kind::String | Kind::Module => assert_eq!(elements, None),
            _ => assert_eq!(elements, Some(pieces.0), "elements of {key:?}"),
        }
    }
}

/// Items other than keys come out with what the file says.
#[test]
fn other_items() {
    let bytes = zoo();
    let mut walker = Walker::open(SliceInput::new(&bytes, 0), Limits::default()).unwrap();
    assert_eq!((walker.header().family, walker.header().version), (Family::Redis, 15));
    let mut seen = Vec::new();
    while let Some(item) = walker.next().unwrap() {
        match item {
            Item::Key(_) => {}
            Item::ModuleAux { id, when, items, .. } => seen.push(format!("module {id} {when} {items}")),
            Item::Function(f) => {
                let name = f.name.map(<[u8]>::to_vec).unwrap_or_default();
                seen.push(format!("function {} {}", String::from_utf8(name).unwrap(), f.engine == Some(b"lua")));
            }
            Item::Aux { name, value } => {
                seen.push(format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
            }
            Item::End(checksum) => seen.push(format!("end {}", matches!(checksum, Checksum::Ok(_)))),
            other => seen.push(format!("{other:?}")),
        }
    }
    assert_eq!(
        seen,
        [
            "redis-ver=8.10.2",
            "ctime=1700000000",
            "module ReJSON-RL v3 1 2",
            "function lib true",
            "HashTemplate { id: 3, fields: 2 }",
            "HashTemplate { id: 0, fields: 1 }",
            "SelectDb(0)",
            "ResizeDb { keys: 40, expires: 2 }",
            "SlotInfo { slot: 99, keys: 40, expires: 2 }",
            "SelectDb(3)",
            "end true",
        ]
    );
}

/// Valkey gives the type 22 and the opcodes 242 and 243 meanings of its own.
#[test]
fn valkey_numbers() {
    let expiry = |ms: i64| ms.to_le_bytes().to_vec();
    let bytes = file(
        "VALKEY081",
        &[
            [vec![0xfa], s("valkey-ver"), s("9.2.0")].concat(),
            [vec![0xf3], s("job"), len(1), len(5), len(9)].concat(),
            [vec![0xf2], b"*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n".to_vec()].concat(),
            key(22, "h", &[len(2), s("f"), s("v"), expiry(-1), s("g"), s("w"), expiry(5_000)]),
            key(23, "p", &[len(1), s("path"), len(1), s("f"), s("v")]),
        ],
    );
    let (text, result) = lines_of(&bytes);
    result.expect("the file is sound");
    let values: Vec<&str> = text.lines().filter_map(|line| line.split_once(r#""value":"#)).map(|(_, v)| v).collect();
    assert_eq!(values, [r#"[["f","v"],["g","w",5000]]}"#, r#"[["f","v",null,"path"]]}"#]);
    assert!(text.contains(r#""redis_version":"9.2.0""#));

    let mut walker = Walker::open(SliceInput::new(&bytes, 0), Limits::default()).unwrap();
    let mut seen = Vec::new();
    while let Some(item) = walker.next().unwrap() {
        if let Item::SlotImport { .. } | Item::Vendor { .. } = item {
            seen.push(format!("{item:?}"));
        }
    }
    assert_eq!(seen, ["SlotImport { job: [106, 111, 98], ranges: 1 }", "Vendor { opcode: 242, value: 2 }"]);
}

/// Before version 8 every length byte 10xxxxxx announced 32 bits; since then most of them are damage.
#[test]
fn old_lengths() {
    let items = [vec![0xfe, 0x00], [&[0x00][..], &s("k"), &[0x81, 0, 0, 0, 1, b'v']].concat()];
    let (text, result) = lines_of(&file("REDIS0007", &items));
    result.expect("a length of an old file");
    assert!(text.contains(r#""value":"v""#));
    assert!(lines_of(&file("REDIS0008", &items)).1.is_err());
}

/// A length need not be in its shortest form, and a key may be stored as an integer.
#[test]
fn long_lengths_and_integer_keys() {
    let items = [vec![0xfe, 0x00], [&[0x00, 0xc0, 0x2a, 0x80, 0, 0, 0, 1, b'v'][..]].concat()];
    let (text, result) = lines_of(&file("REDIS0011", &items));
    result.expect("the file is sound");
    assert!(text.contains(r#""key":"42""#) && text.contains(r#""value":"v""#));
}

fn verdict(bytes: &[u8]) -> Checksum {
    let mut walker = Walker::open(SliceInput::new(bytes, 0), Limits::default()).unwrap();
    loop {
        if let Some(Item::End(checksum)) = walker.next().unwrap() {
            return checksum;
        }
    }
}

/// Stored 0 means "none was computed", versions before 5 have none, and a wrong one is told with both numbers.
#[test]
fn checksum_verdicts() {
    let items = [key(0, "k", &[s("v")])];
    let mut bytes = file("REDIS0011", &items);
    let at = bytes.len() - 8;
    let stored = u64::from_le_bytes(bytes[at..].try_into().unwrap());
    assert_eq!(verdict(&bytes), Checksum::Ok(stored));
    bytes[at] ^= 1;
    assert_eq!(verdict(&bytes), Checksum::Mismatch { stored: stored ^ 1, computed: stored });
    bytes[at..].fill(0);
    assert_eq!(verdict(&bytes), Checksum::Disabled);
    let old = file("REDIS0004", &items);
    assert_eq!(verdict(&old[..old.len() - 8]), Checksum::Absent);
}

/// The frames that replication puts around a snapshot are taken off, and the checksum still holds.
#[test]
fn replication_frames() {
    let bytes = zoo();
    let mark = [b'm'; 40];
    let marked = [&b"$EOF:"[..], &mark, b"\r\n", &bytes, &mark].concat();
    let sized = [format!("${}\r\n", bytes.len()).as_bytes(), &bytes].concat();
    let (whole, _) = lines_of(&bytes);
    for (framed, frame) in [(marked, Frame::Mark(mark)), (sized, Frame::Length(bytes.len() as u64))] {
        let walker = Walker::open(SliceInput::new(&framed, 0), Limits::default()).unwrap();
        assert_eq!(walker.frame(), Some(&frame));
        for (text, result) in [lines_of(&framed), lines(&Sips(&framed, 5), framed.len(), 2)] {
            let summary = result.expect("the file is sound");
            assert!(matches!(summary.checksum, Some(Checksum::Ok(_))));
            assert_eq!((text, summary.behind), (whole.clone(), Behind::Nothing));
        }
    }
}

/// A wrong checksum is told with its place, also where the frame's end mark stands behind it.
#[test]
fn wrong_checksum_in_a_frame() {
    let mark = [b'm'; 40];
    let mut bytes = file("REDIS0011", &[key(0, "k", &[s("v")])]);
    let at = bytes.len() - 8;
    bytes[at] ^= 1;
    let framed = [&b"$EOF:"[..], &mark, b"\r\n", &bytes, &mark].concat();
    for (bytes, at) in [(&bytes, at), (&framed, at + 47)] {
        let error = lines_of(bytes).1.expect_err("wrong checksum").error;
        assert!(matches!(error.kind, jobsleuth_formats::ErrorKind::Checksum { .. }));
        assert_eq!(error.offset, at as u64);
    }
}

/// Bytes behind the snapshot are counted and left to the caller, as an append-only file needs it.
#[test]
fn bytes_behind_the_end() {
    let bytes = [&zoo()[..], b"*1\r\n$4\r\nPING\r\n"].concat();
    let (_, result) = lines(&Sips(&bytes, 4096), bytes.len(), 1);
    let summary = result.expect("the snapshot is sound");
    assert_eq!(summary.behind, Behind::Unknown(14));
    assert!(matches!(summary.checksum, Some(Checksum::Ok(_))));
}

/// 40 hexadecimal digits, as the server draws them, end a transfer without a disk; what only resembles them does not.
#[test]
fn the_mark_of_a_transfer_behind_the_end() {
    let mark = "53d89ba68a2a7dd761cc41de77c75d612ea11cf5";
    for (tail, behind) in [
        (mark.to_owned(), Behind::EndMark),
        (mark.to_uppercase(), Behind::Unknown(40)),
        (mark.replace('5', "g"), Behind::Unknown(40)),
        (format!("{mark}0"), Behind::Unknown(41)),
        (mark[1..].to_owned(), Behind::Unknown(39)),
    ] {
        let bytes = [&zoo()[..], tail.as_bytes()].concat();
        for sip in [1, 4096] {
            let (_, result) = lines(&Sips(&bytes, sip), bytes.len(), 1);
            assert_eq!(result.expect("the snapshot is sound").behind, behind, "{tail}");
        }
    }
}

/// The listpacks made here for streams are byte for byte those that a Redis 7.0.15 server wrote for the same commands.
#[test]
fn nodes_are_made_as_a_server_makes_them() {
    use common::E::{N, T};
    let made = listpack(&[N(2), N(1), N(1), T("a"), N(0), N(2), N(0), N(0), N(1), N(4)]);
    assert_eq!(&made[6..23], [2, 1, 1, 1, 1, 1, 0x81, 0x61, 2, 0, 1, 2, 1, 0, 1, 0, 1]);
}
