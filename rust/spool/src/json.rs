//! JSON read token by token: nothing but the string at hand is held.

use jobsleuth_formats::{Error, ErrorKind, Input, Result};

/// Deepest nesting in what is passed over.
const MAX_DEPTH: u32 = 128;
/// Longest number.
const MAX_DIGITS: usize = 400;

/// A reader of JSON text. Every fault carries its offset.
pub(crate) struct Json<I> {
    pub input: I,
    max_string: u64,
    /// Line feeds are white space between tokens (they end a line of NDJSON otherwise).
    lines_pass: bool,
    /// Halves of surrogate pairs are taken, too: for bytes where they stand for those, else for the mark of a loss.
    lenient: bool,
}

/// What a value begins like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

impl<I: Input> Json<I> {
    pub fn new(input: I, max_string: u64, lines_pass: bool) -> Self {
        Json { input, max_string, lines_pass, lenient: false }
    }

    /// Takes strings of writers that could not write what they had.
    pub fn leniently(mut self) -> Self {
        self.lenient = true;
        self
    }

    pub fn fault(&self, what: &'static str) -> Error {
        Error::corrupt(self.input.offset(), what)
    }

    /// The next byte that is at hand, `None` at the end.
    #[inline]
    fn look(&mut self) -> Result<Option<u8>> {
        if let Some(&byte) = self.input.buffered().first() {
            return Ok(Some(byte));
        }
        if self.input.remaining() == 0 {
            return Ok(None);
        }
        match self.input.fill(1) {
            Ok(()) => Ok(self.input.buffered().first().copied()),
            Err(error) if matches!(error.kind, ErrorKind::Truncated { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next byte behind white space, `None` at the end.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<u8>> {
        loop {
            match self.look()? {
                Some(b' ' | b'\t' | b'\r') => self.input.consume(1),
                Some(b'\n') if self.lines_pass => self.input.consume(1),
                other => return Ok(other),
            }
        }
    }

    /// The next byte behind white space, of something that has begun.
    #[inline]
    fn must(&mut self) -> Result<u8> {
        match self.peek()? {
            Some(byte) => Ok(byte),
            None => Err(Error::truncated(self.input.offset(), 1)),
        }
    }

    #[inline]
    pub fn expect(&mut self, wanted: u8, what: &'static str) -> Result<()> {
        if self.must()? == wanted {
            self.input.consume(1);
            Ok(())
        } else {
            Err(self.fault(what))
        }
    }

    /// Passes over a byte if it comes next.
    #[inline]
    pub fn accept(&mut self, wanted: u8) -> Result<bool> {
        let found = self.must()? == wanted;
        if found {
            self.input.consume(1);
        }
        Ok(found)
    }

    /// What comes next.
    pub fn token(&mut self) -> Result<Token> {
        Ok(match self.must()? {
            b'{' => Token::Object,
            b'[' => Token::Array,
            b'"' => Token::String,
            b'-' | b'0'..=b'9' => Token::Number,
            b't' => Token::True,
            b'f' => Token::False,
            b'n' => Token::Null,
            _ => return Err(self.fault("no JSON value")),
        })
    }

    /// Whether another element of an array or object follows; its end and the comma are passed over.
    #[inline]
    pub fn more(&mut self, first: &mut bool, end: u8) -> Result<bool> {
        if self.accept(end)? {
            return Ok(false);
        }
        if *first {
            *first = false;
        } else {
            self.expect(b',', "a comma is missing")?;
        }
        Ok(true)
    }

    /// The name of a member, and the colon.
    pub fn name(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.string(out)?;
        self.expect(b':', "a colon is missing")
    }

    /// A string as UTF-8.
    pub fn string(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        self.expect(b'"', "a string is wanted here")?;
        let start = self.input.offset();
        loop {
            let bytes = self.input.buffered();
            let plain = bytes.iter().take_while(|&&b| b != b'"' && b != b'\\' && b >= 0x20).count();
            out.extend_from_slice(bytes.get(..plain).unwrap_or_default());
            self.input.consume(plain);
            if out.len() as u64 > self.max_string {
                let (asked, cap) = (out.len() as u64, self.max_string);
                return Err(Error::new(start, ErrorKind::Limit { what: "a string", asked, cap }));
            }
            match self.look()? {
                Some(b'"') => {
                    self.input.consume(1);
                    break;
                }
                Some(b'\\') => {
                    self.input.consume(1);
                    self.escape(out)?;
                }
                Some(0..0x20) => return Err(self.fault("a string that does not end")),
                Some(_) => {}
                None => return Err(Error::truncated(self.input.offset(), 1)),
            }
        }
        match simdutf8::basic::from_utf8(out) {
            Ok(_) => Ok(()),
            Err(_) if self.lenient => Ok(()),
            Err(_) => Err(Error::corrupt(start, "a string that is not UTF-8")),
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let at = self.input.offset();
        let byte = self.input.u8()?;
        out.push(match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let unit = self.code_unit()?;
                if self.lenient && (0xdc00..0xe000).contains(&unit) {
                    // Python's way to write a byte that is no UTF-8.
                    match u8::try_from(unit - 0xdc00) {
                        Ok(byte @ 0x80..) => out.push(byte),
                        _ => out.extend_from_slice("\u{fffd}".as_bytes()),
                    }
                    return Ok(());
                }
                let code = match unit {
                    0xd800..0xdc00 => {
                        let pair = self.input.array::<2>()? == *b"\\u";
                        match if pair { self.code_unit()? } else { 0 } {
                            low @ 0xdc00..0xe000 => 0x10000 + ((unit - 0xd800) << 10 | (low - 0xdc00)),
                            _ => return Err(Error::corrupt(at, "half of a surrogate pair")),
                        }
                    }
                    unit => unit,
                };
                let Some(character) = char::from_u32(code) else {
                    return Err(Error::corrupt(at, "half of a surrogate pair"));
                };
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(Error::corrupt(at, "an unknown escape in a string")),
        });
        Ok(())
    }

    fn code_unit(&mut self) -> Result<u32> {
        let at = self.input.offset();
        let digits: [u8; 4] = self.input.array()?;
        digits.iter().try_fold(0, |unit, &digit| match (digit as char).to_digit(16) {
            Some(n) => Ok(unit << 4 | n),
            None => Err(Error::corrupt(at, "an unknown escape in a string")),
        })
    }

    /// A number or a word, as it stands there.
    fn word(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        self.must()?;
        while let Some(byte @ (b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.')) = self.look()? {
            out.push(byte);
            self.input.consume(1);
            if out.len() > MAX_DIGITS {
                return Err(self.fault("a number of too many digits"));
            }
        }
        if self.look()?.is_none() {
            // More of it may be missing.
            return Err(Error::truncated(self.input.offset(), 1));
        }
        Ok(())
    }

    /// A number as it stands there.
    pub fn number(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let at = self.input.offset();
        self.word(out)?;
        let text = std::str::from_utf8(out).unwrap_or_default();
        match text.parse::<f64>() {
            Ok(_) if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => Ok(()),
            _ => Err(Error::corrupt(at, "no number")),
        }
    }

    /// A whole number, or null.
    pub fn int_or_null<N: std::str::FromStr>(&mut self) -> Result<Option<N>> {
        let at = self.input.offset();
        let mut word = Vec::new();
        if self.token()? == Token::Null {
            return self.literal(b"null").map(|()| None);
        }
        self.word(&mut word)?;
        match std::str::from_utf8(&word).ok().and_then(|text| text.parse().ok()) {
            Some(n) => Ok(Some(n)),
            None => Err(Error::corrupt(at, "a whole number is wanted here")),
        }
    }

    /// A whole number.
    pub fn int<N: std::str::FromStr>(&mut self) -> Result<N> {
        match self.int_or_null()? {
            Some(n) => Ok(n),
            None => Err(self.fault("a whole number is wanted here, not null")),
        }
    }

    pub fn literal(&mut self, wanted: &'static [u8]) -> Result<()> {
        let at = self.input.offset();
        let mut word = Vec::new();
        self.word(&mut word)?;
        if word == wanted { Ok(()) } else { Err(Error::corrupt(at, "an unknown word")) }
    }

    pub fn bool(&mut self) -> Result<bool> {
        if self.token()? == Token::True {
            self.literal(b"true").map(|()| true)
        } else {
            self.literal(b"false").map(|()| false)
        }
    }

    /// Passes over a value.
    pub fn skip(&mut self) -> Result<()> {
        self.skip_nested(0)
    }

    fn skip_nested(&mut self, depth: u32) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.fault("values nested too deeply"));
        }
        let mut first = true;
        match self.token()? {
            Token::Object => {
                self.input.consume(1);
                while self.more(&mut first, b'}')? {
                    self.skip_string()?;
                    self.expect(b':', "a colon is missing")?;
                    self.skip_nested(depth + 1)?;
                }
                Ok(())
            }
            Token::Array => {
                self.input.consume(1);
                while self.more(&mut first, b']')? {
                    self.skip_nested(depth + 1)?;
                }
                Ok(())
            }
            Token::String => self.skip_string(),
            Token::Number => self.number(&mut Vec::new()),
            Token::True => self.literal(b"true"),
            Token::False => self.literal(b"false"),
            Token::Null => self.literal(b"null"),
        }
    }

    fn skip_string(&mut self) -> Result<()> {
        self.expect(b'"', "a string is wanted here")?;
        loop {
            let plain = self.input.buffered().iter().take_while(|&&b| b != b'"' && b != b'\\' && b >= 0x20).count();
            self.input.consume(plain);
            match self.look()? {
                Some(b'"') => {
                    self.input.consume(1);
                    return Ok(());
                }
                Some(b'\\') => self.input.skip(2)?,
                Some(0..0x20) => return Err(self.fault("a string that does not end")),
                Some(_) => {}
                None => return Err(Error::truncated(self.input.offset(), 1)),
            }
        }
    }
}
