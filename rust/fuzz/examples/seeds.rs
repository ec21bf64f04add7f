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
    assert_eq!(crc(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    Ok(())
}

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
