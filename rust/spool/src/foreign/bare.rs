//! Objects that hold nothing but keys and values, as rdbtools writes them: what type a value is has to be told from how
//! it looks.

use std::io::{Seek, Write};

use jobsleuth_formats::{Input, Kind, Result, Visitor};

use super::Export;
use crate::json::Token;
use crate::writer::Form;

impl<W: Write + Seek, I: Input> Export<'_, '_, W, I> {
    /// An object of rdbtools: keys and values, types by how they look.
    pub(super) fn database(&mut self) -> Result<()> {
        let db = self.databases;
        self.databases += 1;
        self.json.expect(b'{', "an object is wanted here")?;
        let mut first = true;
        while self.json.more(&mut first, b'}')? {
            self.next_key()?;
            let key = self.unescaped()?;
            self.json.expect(b':', "a colon is missing")?;
            match self.json.token()? {
                Token::Array => self.array(db, &key)?,
                Token::Object => self.object(db, &key)?,
                _ => {
                    let value = self.unescaped()?;
                    self.writer.open(db, &key, None, Form::Plain(Kind::String))?;
                    self.writer.string(&value)?;
                }
            }
            self.close(db, &key)?;
        }
        Ok(())
    }

    fn array(&mut self, db: u64, key: &[u8]) -> Result<()> {
        let message = || "lists and sets look alike in this export; all were taken for lists".to_owned();
        self.found.notes.add("loss_types", Some(self.start), message);
        self.writer.open(db, key, None, Form::Plain(Kind::List))?;
        self.json.expect(b'[', "an array is wanted here")?;
        let mut first = true;
        while self.json.more(&mut first, b']')? {
            let item = self.unescaped()?;
            self.writer.list_item(&item)?;
        }
        Ok(())
    }

    fn object(&mut self, db: u64, key: &[u8]) -> Result<()> {
        self.json.expect(b'{', "an object is wanted here")?;
        let mut pairs = Vec::new();
        let mut first = true;
        while self.json.more(&mut first, b'}')? {
            let name = self.unescaped()?;
            self.json.expect(b':', "a colon is missing")?;
            pairs.push((name, self.unescaped()?));
        }
        if pairs.is_empty() {
            self.writer.open(db, key, None, Form::Plain(Kind::Module))?;
            return self.module(b"");
        }
        let numbers: Option<Vec<f64>> = pairs.iter().map(|(_, text)| as_number(text)).collect();
        if numbers.is_some() {
            let message = || "sorted sets were told from hashes by values that look like scores".to_owned();
            self.found.notes.add("loss_types_guessed", Some(self.start), message);
        }
        match numbers.filter(|numbers| are_scores(&pairs, numbers)) {
            Some(scores) => {
                self.writer.open(db, key, None, Form::Plain(Kind::Zset))?;
                pairs.iter().zip(scores).try_for_each(|((member, _), score)| self.writer.zset_member(member, score))
            }
            None => {
                self.writer.open(db, key, None, Form::Plain(Kind::Hash))?;
                pairs.iter().try_for_each(|(field, value)| self.writer.hash_field(field, value, None))
            }
        }
    }

    /// A string in which rdbtools wrote `\xNN` for each byte that was no UTF-8.
    fn unescaped(&mut self) -> Result<Vec<u8>> {
        let text = self.text()?;
        let bytes = bytes_of(&text);
        self.escaped += u64::from(bytes.is_some());
        Ok(bytes.unwrap_or(text))
    }
}

/// A score below this is not taken for one where all are whole numbers: moments, which most scores are, are larger.
const MOMENT_S: f64 = 1e9;

/// A number as Python prints it.
fn as_number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let shaped = matches!(text, "inf" | "-inf") || text.bytes().all(|b| b.is_ascii_digit() || b"+-.e".contains(&b));
    if shaped { text.parse().ok() } else { None }
}

/// Whether numbers are scores: in a sorted set of some size all are floats, with a point, an exponent or without end; in
/// a small one some may be; or all are as large as moments.
fn are_scores(pairs: &[(Vec<u8>, Vec<u8>)], numbers: &[f64]) -> bool {
    pairs.iter().any(|(_, text)| text.iter().any(|b| b".ein".contains(b)))
        || numbers.iter().all(|number| *number >= MOMENT_S)
}

/// The bytes that `\xNN` stand for, where there are any above 0x7f.
fn bytes_of(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut found = false;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if let (b'\\', [b'x', high @ (b'8'..=b'9' | b'A'..=b'F'), low @ (b'0'..=b'9' | b'A'..=b'F'), after @ ..]) =
            (byte, tail)
        {
            let digit = |b: u8| (b as char).to_digit(16).unwrap_or(0) as u8;
            out.push(digit(*high) << 4 | digit(*low));
            rest = after;
            found = true;
        } else {
            out.push(byte);
        }
    }
    found.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What rdbtools escapes comes back, and what merely looks similar stays.
    #[test]
    fn escapes_of_rdbtools() {
        assert_eq!(bytes_of(b"\\xFF\\x00a\\xE9"), Some(b"\xff\\x00a\xe9".to_vec()));
        assert_eq!(bytes_of(b"plain \\x41 \\xff"), None);
    }

    /// Numbers as Python prints them, and nothing else.
    #[test]
    fn numbers_are_told_from_text() {
        for (text, number) in [("1.5", 1.5), ("-0.0", 0.0), ("1e+300", 1e300), ("inf", f64::INFINITY), ("7", 7.0)] {
            assert_eq!(as_number(text.as_bytes()), Some(number));
        }
        for text in ["", "a.b", "1.5x", "nan", "-", ".", "infinity", "1_0"] {
            assert_eq!(as_number(text.as_bytes()), None, "{text}");
        }
    }

    /// What the two kinds of sorted sets print is taken for one; small whole numbers may be anything.
    #[test]
    fn scores_are_told_from_values() {
        let scores = |texts: &[&str]| {
            let pairs: Vec<_> = texts.iter().map(|text| (Vec::new(), text.as_bytes().to_vec())).collect();
            let numbers: Vec<f64> = texts.iter().map(|text| as_number(text.as_bytes()).unwrap()).collect();
            are_scores(&pairs, &numbers)
        };
        assert!(scores(&["1.0", "2.0"]) && scores(&["1", "1.5"]) && scores(&["1", "inf"]));
        assert!(scores(&["1796043449", "1796043449000"]));
        assert!(!scores(&["10000"]) && !scores(&["1", "1796043449"]));
    }
}
