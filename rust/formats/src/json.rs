//! JSON text, written byte by byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A byte string: text where it is UTF-8, else base64 in an object.
pub(crate) fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    match simdutf8::basic::from_utf8(value) {
        Ok(text) => self::text(out, text),
        Err(_) => {
            out.extend_from_slice(b"{\"b64\":\"");
            base64(out, value);
            out.extend_from_slice(b"\"}");
        }
    }
}

/// The same for a value of any size: `piece` gets the buffer whenever [`PIECE`] more bytes of the value are in it.
pub(crate) fn large<E>(
    out: &mut Vec<u8>,
    value: &[u8],
    mut piece: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let Ok(text) = simdutf8::basic::from_utf8(value) else {
        out.extend_from_slice(b"{\"b64\":\"");
        for part in value.chunks(PIECE) {
            base64(out, part);
            piece(out)?;
        }
        out.extend_from_slice(b"\"}");
        return Ok(());
    };
    out.push(b'"');
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = rest.len().min(PIECE);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (part, after) = rest.split_at(end);
        escaped(out, part);
        rest = after;
        piece(out)?;
    }
    out.push(b'"');
    Ok(())
}

/// Bytes of a large value at a time; whole groups of base64.
pub(crate) const PIECE: usize = 192 << 10;

fn base64(out: &mut Vec<u8>, value: &[u8]) {
    // In whole groups of three bytes, so that no padding stands but at the end.
    let mut chunk = [0; 4096];
    for part in value.chunks(3072) {
        if let Ok(n) = STANDARD.encode_slice(part, &mut chunk) {
            out.extend_from_slice(chunk.get(..n).unwrap_or_default());
        }
    }
}

/// A string. Besides what JSON demands, all is escaped that a terminal could take for a command or that turns the
/// direction of writing, so that the file can be looked at safely.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + text.len() / 8 + 16);
    out.push(b'"');
    escaped(out, text);
    out.push(b'"');
}

#[inline]
fn escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    while let Some((chunk, tail)) = rest.split_first_chunk::<STEP>() {
        let clean = clean_prefix(*chunk);
        // Eight bytes are stored at once, and those taken back that are not clean.
        out.extend_from_slice(chunk);
        if clean == STEP {
            rest = tail;
        } else {
            out.truncate(out.len() - (STEP - clean));
            rest = match rest.get(clean..).unwrap_or_default() {
                // What JSON in JSON is full of.
                [b @ (b'"' | b'\\'), after @ ..] => {
                    out.extend_from_slice(&[b'\\', *b]);
                    after
                }
                suspect => escape(out, suspect),
            };
        }
    }
    while let [first, tail @ ..] = rest {
        if is_suspect(*first) {
            rest = escape(out, rest);
        } else {
            out.push(*first);
            rest = tail;
        }
    }
}

#[inline]
fn is_suspect(b: u8) -> bool {
    // 0xc2 leads the control characters U+0080 to U+009F, 0xe2 the marks of direction.
    b < 0x20 || b == b'"' || b == b'\\' || b == 0x7f || b == 0xc2 || b == 0xe2
}

const STEP: usize = 8;

/// Bytes up to the first that may need escaping; all at once.
#[inline]
fn clean_prefix(chunk: [u8; STEP]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES << 7;
    // Bit 7 of each byte below `limit`, and of some bytes above the first such one: only the first is of use.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
    let word = u64::from_le_bytes(chunk);
    // With bit 1 turned, the quotation mark follows the control characters, and two bytes that are suspects differ in
    // one bit.
    let found = below(word ^ (ONES * 2), 0x21)
        | below(word ^ (ONES * 0x5c), 1)
        | below(word ^ (ONES * 0x7f), 1)
        | below((word | (ONES * 0x20)) ^ (ONES * 0xe2), 1);
    (found.trailing_zeros() / 8) as usize
}

/// Writes the character at the start, escaped if need be; what follows it.
fn escape<'a>(out: &mut Vec<u8>, bytes: &'a [u8]) -> &'a [u8] {
    let used = match bytes {
        [b'"', ..] => simple(out, b'"'),
        [b'\\', ..] => simple(out, b'\\'),
        [b'\n', ..] => simple(out, b'n'),
        [b'\r', ..] => simple(out, b'r'),
        [b'\t', ..] => simple(out, b't'),
        [b @ (0..0x20 | 0x7f), ..] => code(out, u32::from(*b), 1),
        [0xc2, b @ 0x80..0xa0, ..] => code(out, u32::from(*b), 2),
        [0xe2, 0x80, b @ (0x8e | 0x8f | 0xa8..=0xae), ..] => code(out, 0x2000 | u32::from(b - 0x80), 3),
        [0xe2, 0x81, b @ 0xa6..=0xa9, ..] => code(out, 0x2040 | u32::from(b - 0x80), 3),
        [b, ..] => {
            out.push(*b);
            1
        }
        [] => 0,
    };
    bytes.get(used..).unwrap_or_default()
}

fn simple(out: &mut Vec<u8>, letter: u8) -> usize {
    out.extend_from_slice(&[b'\\', letter]);
    1
}

fn code(out: &mut Vec<u8>, unit: u32, used: usize) -> usize {
    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
    used
}

/// An integer.
pub(crate) fn int(out: &mut Vec<u8>, n: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

pub(crate) fn int_or_null(out: &mut Vec<u8>, n: Option<impl itoa::Integer>) {
    match n {
        Some(n) => int(out, n),
        None => out.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests {
    fn of(value: &[u8]) -> String {
        let mut out = Vec::new();
        super::bytes(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    /// Each class of bytes comes out as JSON says it must, at any place in a chunk.
    #[test]
    fn escapes() {
        assert_eq!(of(b"plain"), "\"plain\"");
        assert_eq!(of(b"q\"b\\n\nr\rt\t\x00\x1b[31m\x7f"), r#""q\"b\\n\nr\rt\t\u0000\u001b[31m\u007f""#);
        assert_eq!(of("\u{9b}\u{a0}é".as_bytes()), "\"\\u009b\u{a0}é\"");
        assert_eq!(of("a\u{202e}b\u{2067}c\u{2013}\u{2028}".as_bytes()), "\"a\\u202eb\\u2067c\u{2013}\\u2028\"");
        assert_eq!(of("日本語😀".as_bytes()), "\"日本語😀\"");
        for n in 0..40 {
            assert_eq!(of(&[&vec![b'x'; n][..], b"\n"].concat()), format!("\"{}\\n\"", "x".repeat(n)));
        }
    }

    /// A value in pieces is the same text, wherever a piece ends within a character or a group of base64, and no more
    /// than one piece, six times as long when escaped, is in memory.
    #[test]
    fn in_pieces() {
        use super::PIECE;
        for value in [
            "\0".repeat(3 * PIECE).into_bytes(),
            ["x".repeat(PIECE - 1).as_str(), &"\u{9b}\u{202e}😀".repeat(PIECE)].concat().into_bytes(),
            vec![0xff; 2 * PIECE + 1],
            vec![0xff; PIECE],
            vec![b'x'; PIECE],
            Vec::new(),
        ] {
            let (mut out, mut whole) = (Vec::new(), Vec::new());
            super::large(&mut out, &value, |part| {
                assert!(part.len() <= 6 * PIECE + 8);
                whole.append(part);
                Ok::<(), ()>(())
            })
            .unwrap();
            whole.append(&mut out);
            assert_eq!(String::from_utf8(whole).unwrap(), of(&value));
        }
    }

    /// The eight bytes at once are judged as each of them alone is, whatever stands around it.
    #[test]
    fn all_at_once() {
        for b in 0..=255u8 {
            for around in [0x00, 0x21, 0x23, 0x61, 0x7e, 0x80, 0xa2, 0xc1, 0xc3, 0xff] {
                for at in 0..super::STEP {
                    let mut chunk = [around; super::STEP];
                    chunk[at] = b;
                    let first = chunk.iter().take_while(|&&b| !super::is_suspect(b)).count();
                    assert_eq!(super::clean_prefix(chunk), first, "{chunk:x?}");
                }
            }
        }
    }

    /// What is not UTF-8 is base64, with padding at the end only.
    #[test]
    fn not_text() {
        assert_eq!(of(b"\xff"), r#"{"b64":"/w=="}"#);
        assert_eq!(of(b"\xed\xa0\x80"), r#"{"b64":"7aCA"}"#);
        let long = of(&[0xff; 10_000]);
        assert_eq!(long.len(), r#"{"b64":""}"#.len() + 10_000_usize.div_ceil(3) * 4);
        assert!(!long.trim_end_matches("==\"}").contains('='));
    }
}
