//! Writes the seed corpus, `seeds/<target>/`: small and sound inputs with every item and type that there is.
//! `cargo run --example seeds`

use std::fs;
use std::path::Path;

#[path = "../../formats/tests/common/mod.rs"]
mod common;

use common::E::{N, T};
use common::{crc, file, len, lines_of, listpack, lzf, s, stream, ziplist, zoo, zoo_items};

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let put = |target: &str, name: &str, bytes: &[u8]| -> std::io::Result<()> {
        fs::create_dir_all(root.join(target))?;
        fs::write(root.join(target).join(name), bytes)
    };

    put("file", "all", &zoo())?;
    let (templates, items): (Vec<_>, Vec<_>) = zoo_items().into_iter().partition(|item| item[0] == 0xf2);
    for (i, item) in items.iter().enumerate() {
        let name = format!("item-{i:02}");
        let uses_templates = matches!(item[0], 29..=32);
        let parts = if uses_templates { [&templates[..], &[item.clone()]].concat() } else { vec![item.clone()] };
        put("file", &name, &file("REDIS0015", &parts))?;
        // A key whose name is short and plain, as those of the zoo are: as an answer to DUMP without its trailer.
        if let [rdb_type @ 0..=33, size @ 0..0x40, rest @ ..] = &item[..] {
            let value = &rest[usize::from(*size)..];
            put("dump", &name, &[&[15, *rdb_type], value].concat())?;
        }
    }
    let path = [len(1), s("p"), len(1), s("f"), s("v")].concat();
    let expiring = [len(1), s("f"), s("v"), (-1i64).to_le_bytes().to_vec()].concat();
    let valkey = [common::key(23, "paths", &[path]), common::key(22, "expiring", &[expiring])];
    put("file", "valkey-81", &file("VALKEY081", &valkey))?;
    put("file", "valkey-80", &file("VALKEY080", &valkey[1..]))?;
    put("file", "old", &file("REDIS0006", &[common::key(13, "hash", &[s(ziplist(&["f", "v"]))])]))?;
    let small = file("REDIS0011", &[common::key(0, "k", &[s("v")])]);
    let framed = [format!("${}\r\n", small.len()).into_bytes(), small.clone()].concat();
    put("file", "replica", &framed)?;
    let mark = [b'm'; 40];
    put("file", "diskless", &[b"$EOF:", &mark[..], b"\r\n", &small, &mark].concat())?;

    for version in 1..=5 {
        put("stream", &format!("layout-{version}"), &[vec![version - 1], stream(version)].concat())?;
    }

    let long = "q".repeat(300);
    let packs = [
        ("numbers", listpack(&[N(0), N(127), N(-1), N(i64::MIN), N(4096), N(70_000)])),
        ("texts", listpack(&[T("f"), T("v"), T(""), T(&long)])),
        ("scores", listpack(&[T("m"), N(3), T("n"), T("2.5")])),
        ("expiries", listpack(&[T("f"), T("v"), N(4_102_444_800_000), T("g"), T("w"), N(0)])),
        ("empty", listpack(&[])),
    ];
    for (name, bytes) in &packs {
        put("listpack", name, bytes)?;
    }

    put("ziplist", "texts", &ziplist(&["f", "v", "longer text", ""]))?;
    put("ziplist", "numbers", &numbers())?;
    put("ziplist", "zipmap", b"\x02\x03foo\x03\x02bar..\x01a\x01\x00b\xff")?;
    put("ziplist", "intset", &[2, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 5, 0])?;
    put("ziplist", "lzf", &[&[0, 70][..], &[0x01, b'x', b'x', 0xe0, 0x39, 0x00, 0x01, b'x', b'x']].concat())?;
    put("ziplist", "literals", &[&[0, 11][..], &lzf("plain bytes")[3..]].concat())?;

    let message = [
        &b"\x0a\x04type\x12\x07payload\x18\x19\x20\xff\xff\xff\xff\x0f"[..],
        b"\x2a\x06\x0a\x01k\x12\x01v\x82\x01\x03key\x9a\x06\x02\x08\x01\x3d\x01\x02\x03\x04",
    ];
    put("protobuf", "task", &message.concat())?;
    put("protobuf", "group", b"\x3b\x08\x01\x43\x44\x3c")?;
    put("protobuf", "empty", b"")?;

    let (lines, _) = lines_of(&zoo());
    put("export", "all", lines.as_bytes())?;
    let (first, last) = (lines.lines().next().unwrap_or_default(), r#"{"end":true,"keys":1}"#);
    for (i, line) in lines.lines().skip(1).enumerate() {
        if line.contains("\"key\"") {
            put("export", &format!("line-{i:02}"), format!("{first}\n{line}\n{last}\n").as_bytes())?;
        }
    }

    put("json", "object", br#"{"a":[{"b":null}],"ts":1.7e12,"a":"x\u00e9\ud83d\ude00\n"}"#)?;
    put("json", "numbers", br#"{"a":-0,"ts":9223372036854775807}"#)?;
    put("json", "surrogate", br#"{"\ud800":1,"a":"\ud800","ts":{}}"#)?;
    for (name, commands) in COMMANDS {
        let lines: Vec<&str> = commands.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let resp: Vec<u8> = lines.iter().flat_map(|line| resp(line)).collect();
        put("replay", name, &[&[0], &resp[..]].concat())?;
        put("replay", &format!("{name}-lines"), &[&[1], lines.join("\n").as_bytes(), b"\n"].concat())?;
    }
    put(
        "replay",
        "snapshot",
        &[&[0], &small[..], &resp("APPEND k w"), b"#TS:1700000000\r\n", &resp("DEL k")].concat(),
    )?;
    put("replay", "base", &[&[2], &file("REDIS0011", &[common::key(0, "k", &[s("v")])])[..]].concat())?;

    assert_eq!(crc(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    Ok(())
}

/// A command as append-only files have it; its words have no spaces.
fn resp(line: &str) -> Vec<u8> {
    if line.starts_with('#') {
        return format!("{line}\r\n").into_bytes();
    }
    let words: Vec<&str> = line.split(' ').collect();
    let args: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{args}", words.len()).into_bytes()
}

/// Commands of every kind.
const COMMANDS: &[(&str, &str)] = &[
    (
        "strings",
        "#TS:1700000000\nSET a 1 EX 100\nSETRANGE a 3 xyz\nAPPEND a q\nINCR n\nINCRBYFLOAT n 1.5\nSETBIT b 77 1\n\
         BITOP OR c a b\nBITFIELD b SET u8 3 9\nMSET d 1 e 2\nGETEX d PX 5\nGETDEL e\nCOPY a f\nRENAME f g\nPERSIST a",
    ),
    (
        "lists",
        "RPUSH l a b c a\nLPUSH l d\nLINSERT l BEFORE b x\nLREM l 1 a\nLSET l 0 z\nLTRIM l 0 3\nLMOVE l m LEFT RIGHT\n\
         RPOPLPUSH l l\nLPOP l 2\nSORT m ALPHA STORE s",
    ),
    (
        "sets",
        "SADD s a b 3\nSADD t b c\nSMOVE s t a\nSUNIONSTORE u s t\nSINTERSTORE v s t\nSDIFFSTORE w t s\nSREM t c\n\
         ZADD z 1 a 2.5 b -inf c\nZINCRBY z 3 a\nZADD z XX GT CH 1 b\nZUNIONSTORE y 2 z s WEIGHTS 2 3 AGGREGATE MAX\n\
         ZRANGESTORE x z 0 1\nZREMRANGEBYSCORE z (1 +inf\nZPOPMIN y 2\nZREMRANGEBYLEX x - [b\nZREMRANGEBYRANK x 0 -1",
    ),
    (
        "hashes",
        "#TS:1700000000\nHSET h f 1 g 2\nHINCRBY h f 4\nHINCRBYFLOAT h g 0.5\nHPEXPIREAT h 1700000009000 FIELDS 1 f\n\
         HPERSIST h FIELDS 1 f\nHSETNX h i v\nHDEL h f g i\nHSET h k v\nPEXPIREAT h 1700000009000",
    ),
    (
        "streams",
        "XADD x 1-1 f v\nXADD x MAXLEN = 2 2-0 f v g w\nXGROUP CREATE x g 0 ENTRIESREAD 0\nXGROUP CREATECONSUMER x g c\n\
         XCLAIM x g c 0 1-1 TIME 1700000000000 RETRYCOUNT 1 FORCE JUSTID LASTID 1-1\nXACK x g 1-1\nXDEL x 1-1\nXTRIM x MAXLEN 0\n\
         XSETID x 9-9 ENTRIESADDED 9 MAXDELETEDID 2-0\nXGROUP SETID x g 5-0\nXGROUP DESTROY x g",
    ),
    (
        "keys",
        "SELECT 1\nMULTI\nSET a 1\nRPUSH l a\nEXEC\nMOVE a 2\nSWAPDB 1 2\nSELECT 2\nRENAMENX l k\nCOPY k j DB 3 REPLACE\n\
         MULTI\nDEL k\nDISCARD\nFLUSHDB\nEVAL return 0\nFUNCTION LOAD x\nNOSUCH a\nSELECT 3\nUNLINK j nothing\nFLUSHALL\nMULTI\nSET z 1",
    ),
];

/// A ziplist with a number of each form.
fn numbers() -> Vec<u8> {
    let elements: [&[u8]; 6] = [
        &[0xc0, 0x00, 0x80],
        &[0xd0, 0xff, 0xff, 0xff, 0x7f],
        &[0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80],
        &[0xf0, 0x00, 0x00, 0x80],
        &[0xfe, 0x80],
        &[0xfd],
    ];
    let mut out = vec![0; 10];
    let mut previous = 0;
    for element in elements {
        out.push(previous);
        out.extend_from_slice(element);
        previous = element.len() as u8 + 1;
    }
    out.push(0xff);
    let total = out.len() as u32;
    out[..4].copy_from_slice(&total.to_le_bytes());
    out[8..10].copy_from_slice(&6u16.to_le_bytes());
    out
}
