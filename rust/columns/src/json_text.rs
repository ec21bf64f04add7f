//! Whether bytes are JSON. Payloads are most of what is decoded, so this does nothing else.

use crate::text::utf8;

/// Whether these bytes are one JSON text, by the grammar of RFC 8259. Half a surrogate pair in an escape is no fault.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    utf8(bytes).is_some() && Scan { bytes, at: 0 }.text().is_some()
}

/// A position in the text. Methods pass over what they are named after; `None`: it is not there.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn text(&mut self) -> Option<()> {
        // Whether each value that is open is an object: nesting costs a byte a level and no stack.
        let mut open: Vec<bool> = Vec::new();
        loop {
            match self.token()? {
                b'{' if self.peek_token()? != b'}' => {
                    self.name()?;
                    open.push(true);
                    continue;
                }
                b'[' if self.peek_token()? != b']' => {
                    open.push(false);
                    continue;
                }
                b'{' | b'[' => self.at += 1,
                b'"' => self.string()?,
                b'-' => {
                    let digit = self.byte()?;
                    self.number(digit)?;
                }
                digit @ b'0'..=b'9' => self.number(digit)?,
                b't' => self.word(b"rue")?,
                b'f' => self.word(b"alse")?,
                b'n' => self.word(b"ull")?,
                _ => return None,
            }
            while let Some(&object) = open.last() {
                match self.token()? {
                    b',' if object => {
                        self.name()?;
                        break;
                    }
                    b',' => break,
                    b'}' if object => open.pop(),
                    b']' if !object => open.pop(),
                    _ => return None,
                };
            }
            if open.is_empty() {
                return self.peek_token().is_none().then_some(());
            }
        }
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// The next byte that is no white space.
    #[inline]
    fn peek_token(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.at)? {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    #[inline]
    fn token(&mut self) -> Option<u8> {
        let byte = self.peek_token()?;
        self.at += 1;
        Some(byte)
    }

    fn word(&mut self, rest: &[u8]) -> Option<()> {
        let end = self.at + rest.len();
        (self.bytes.get(self.at..end)? == rest).then(|| self.at = end)
    }

    /// The name of a member and its colon.
    #[inline]
    fn name(&mut self) -> Option<()> {
        if self.token()? != b'"' {
            return None;
        }
        self.string()?;
        (self.token()? == b':').then_some(())
    }

    /// The rest of a string.
    #[inline]
    fn string(&mut self) -> Option<()> {
        loop {
            while let Some(word) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
                let special = special(u64::from_le_bytes(*word));
                self.at += (special.trailing_zeros() / 8) as usize;
                if special != 0 {
                    break;
                }
            }
            match self.byte()? {
                b'"' => return Some(()),
                b'\\' => self.escape()?,
                0..0x20 => return None,
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        match self.byte()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => {
                let digits = self.bytes.get(self.at..)?.first_chunk::<4>()?;
                self.at += 4;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(())
            }
            _ => None,
        }
    }

    /// The rest of a number whose first digit this is.
    fn number(&mut self, first: u8) -> Option<()> {
        match first {
            b'0' if self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) => return None,
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Some(())
    }

    fn digits(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Option<()> {
        self.byte()?.is_ascii_digit().then(|| self.digits())
    }
}

const ONES: u64 = u64::MAX / 255;

/// The high bit of each byte that ends a run of plain characters: a quote, a backslash, a control character. Bits above
/// the lowest may be set in error. No bit at all is 64 zeros: eight bytes to pass over.
#[inline]
fn special(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let zero = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (zero(quote) | zero(backslash) | control) & (ONES * 0x80)
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    /// What another reader of JSON takes is taken, and nothing else: texts that are changed here and there, for which
    /// serde_json is asked.
    #[test]
    fn agrees_with_serde_json() {
        let texts = [
            r#"{"a": [1, -2.5e+3, 0, 0.1E-2, true, false, null], "b\u00e9\n": {"c": "déjà vu \\ / \" x"}, "": []}"#,
            r#"[{}, [], {"long": "0123456789abcdefghijklmnopqrstuvwxyz", "n": 123456789012345678901234567890}]"#,
            " \t\r\n\"\\ud800\" ",
            "-0",
            "[[[[[[]]]]]]",
        ];
        let mut state = 1u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).map_or(0, |n| n % below)
        };
        let alphabet = b"{}[]\",:\\ 0123456789.eE+-truefalsn\n\x1f\x7f\xc3\xa9u/";
        let mut both = [0, 0];
        for _ in 0..40_000 {
            let mut bytes = texts[random(texts.len())].as_bytes().to_vec();
            for _ in 0..random(4) {
                let (at, new) = (random(bytes.len()), alphabet[random(alphabet.len())]);
                match random(3) {
                    0 => bytes[at] = new,
                    1 => bytes.insert(at, new),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            let expected = std::str::from_utf8(&bytes).is_ok_and(|t| serde_json::from_str::<IgnoredAny>(t).is_ok());
            assert_eq!(is_json(&bytes), expected, "{}", String::from_utf8_lossy(&bytes));
            both[usize::from(expected)] += 1;
        }
        assert!(both.iter().all(|&n| n > 5_000), "{both:?}");
    }

    /// Nesting is no way to exhaust the stack, and nothing is no JSON.
    #[test]
    fn edges() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(is_json(deep.as_bytes()));
        assert!(!is_json(&deep.as_bytes()[..300_000]));
        for none in [b"".as_slice(), b" ", b"{} {}", b"\"", b"\"\xff\"", b"[1,]", b"{\"a\":1,}", b"01", b"-", b"+1"] {
            assert!(!is_json(none), "{none:?}");
        }
    }
}
