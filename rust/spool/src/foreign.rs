//! Exports of other tools as JSON: records that name key and type (redis-dump, RIOT), and objects that hold nothing but
//! keys and values (rdbtools). Each loses something; what, is counted.

use std::fs::File;
use std::io::{self, Seek, Write};

use jobsleuth_formats::{
    At, Error, ErrorKind, FileInput, Input, Kind, ModuleValue, Result, SliceInput, StreamId, StreamMeta, Visitor,
};

use crate::json::{Json, Token};
use crate::ledger::{Ledger, Origin};
use crate::names::{kind_named, module_named};
use crate::ndjson::Reading;
use crate::notes::Notes;
use crate::tee::Tee;
use crate::writer::{Form, Writer};

/// Bytes between two reports of progress.
const STEP: u64 = 8 << 20;
/// A time to live above this is a moment in Unix ms: it would be longer than three thousand years.
const MOMENT_MS: i64 = 100_000_000_000;

/// Whose export it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    RedisDump,
    Riot,
    Rdbtools,
}

impl Tool {
    pub fn as_str(self) -> &'static str {
        match self {
            Tool::RedisDump => "redis-dump",
            Tool::Riot => "riot",
            Tool::Rdbtools => "rdbtools-json",
        }
    }
}

/// What came of an export.
#[derive(Debug)]
pub struct Foreign {
    pub tool: Tool,
    pub ledger: Ledger,
    pub notes: Notes,
    /// Earliest and latest time that a record says it was read at, Unix ms.
    pub seen_ms: Option<(i64, i64)>,
    pub fault: Option<Error>,
    pub cut_short_at: Option<u64>,
}

/// Reads an export and writes its keys to `writer`. `records`: each object names key and type.
///
/// # Errors
/// Text that is no such export; those of reading and writing.
pub fn read_foreign<W: Write + Seek>(
    file: &File,
    writer: &mut Writer<W>,
    records: bool,
    reading: Reading,
    progress: &mut dyn FnMut(u64, u64) -> io::Result<()>,
) -> Result<Foreign> {
    let total = file.metadata()?.len();
    let input = Tee::new(FileInput::new(At::new(file, 0), total, false));
    let mut export = Export {
        json: Json::new(input, reading.max_value_bytes, true).leniently(),
        max_string: reading.max_value_bytes,
        writer,
        found: Foreign {
            tool: if records { Tool::Riot } else { Tool::Rdbtools },
            ledger: Ledger::default(),
            notes: Notes::default(),
            seen_ms: None,
            fault: None,
            cut_short_at: None,
        },
        databases: 0,
        escaped: 0,
        next_report: STEP,
        total,
        progress,
        start: 0,
    };
    if let Err(error) = export.run(records) {
        export.writer.abandon()?;
        let begun = !export.found.ledger.is_empty() && !matches!(error.kind, ErrorKind::Io(_) | ErrorKind::Stopped);
        if begun && matches!(error.kind, ErrorKind::Truncated { .. }) {
            export.found.cut_short_at = Some(export.start);
        } else if begun && reading.salvage {
            export.found.fault = Some(error);
        } else {
            return Err(error);
        }
    }
    export.tell_losses();
    Ok(export.found)
}

struct Export<'r, 'w, W, I> {
    json: Json<Tee<I>>,
    max_string: u64,
    writer: &'w mut Writer<W>,
    found: Foreign,
    /// Objects of rdbtools so far: one a database.
    databases: u64,
    /// Strings in which escapes were read as bytes.
    escaped: u64,
    next_report: u64,
    total: u64,
    progress: &'r mut dyn FnMut(u64, u64) -> io::Result<()>,
    /// Where the key being read starts.
    start: u64,
}

/// The members of a record.
#[derive(Default)]
struct Record {
    db: u64,
    key: Option<Vec<u8>>,
    kind: Vec<u8>,
    ttl: Option<i64>,
    timestamp: Option<i64>,
    /// The value's text, and where it stands.
    value: Option<(Vec<u8>, u64)>,
    sized: bool,
}

impl<W: Write + Seek, I: Input> Export<'_, '_, W, I> {
    /// Objects, in an array or one after the other.
    fn run(&mut self, records: bool) -> Result<()> {
        let listed = self.json.peek()? == Some(b'[');
        if listed {
            self.json.input.consume(1);
        }
        let mut first = true;
        loop {
            if listed {
                if !self.json.more(&mut first, b']')? {
                    return self.trailing();
                }
            } else if self.json.peek()?.is_none() {
                return Ok(());
            }
            if records { self.record()? } else { self.database()? }
        }
    }

    fn trailing(&mut self) -> Result<()> {
        if self.json.peek()?.is_some() {
            let (at, left) = (self.json.input.offset(), self.json.input.remaining());
            let message = || format!("{left} bytes behind the end of the export were not looked at");
            self.found.notes.add_many("trailing_bytes", Some(at), left, message);
        }
        Ok(())
    }

    fn tell_progress(&mut self) -> Result<()> {
        let at = self.json.input.offset();
        if at >= self.next_report {
            self.next_report = at.saturating_add(STEP);
            (self.progress)(at, self.total)?;
        }
        Ok(())
    }

    fn record(&mut self) -> Result<()> {
        self.tell_progress()?;
        self.json.peek()?;
        self.start = self.json.input.offset();
        self.json.expect(b'{', "an object is wanted here")?;
        let mut record = Record::default();
        let (mut name, mut first) = (Vec::new(), true);
        while self.json.more(&mut first, b'}')? {
            self.json.name(&mut name)?;
            match name.as_slice() {
                b"db" => record.db = self.json.int()?,
                b"key" => record.key = Some(self.text()?),
                b"type" => {
                    let mut kind = Vec::new();
                    self.json.string(&mut kind)?;
                    record.kind = kind;
                }
                b"ttl" => record.ttl = self.json.int_or_null()?,
                b"timestamp" | b"time" => record.timestamp = self.json.int_or_null()?,
                b"value" => {
                    self.json.peek()?;
                    let at = self.json.input.offset();
                    let json = &mut self.json;
                    json.input.begin();
                    json.skip()?;
                    record.value = Some((json.input.end(), at));
                }
                b"size" => {
                    record.sized = true;
                    self.json.skip()?;
                }
                _ => self.json.skip()?,
            }
        }
        self.keep(record)
    }

    fn keep(&mut self, record: Record) -> Result<()> {
        let at = self.start;
        let Some(key) = record.key else { return Err(Error::corrupt(at, "a record without a key")) };
        if record.sized {
            self.found.tool = Tool::RedisDump;
        }
        if let Some(ms) = record.timestamp {
            let (first, last) = self.found.seen_ms.unwrap_or((ms, ms));
            self.found.seen_ms = Some((first.min(ms), last.max(ms)));
        }
        let lower = record.kind.to_ascii_lowercase();
        if lower == b"none" {
            self.found.notes.add("keys_vanished", Some(at), || "keys were gone when they were asked for".to_owned());
            return Ok(());
        }
        let expire_at_ms = match record.ttl {
            Some(ms @ MOMENT_MS..) => Some(ms),
            Some(1..) => {
                let message = || "times to live count from a moment that the export does not name: left out".to_owned();
                self.found.notes.add("loss_expiry", Some(at), message);
                None
            }
            _ => None,
        };
        let Some((mut text, value_at)) = record.value else {
            self.found.notes.add("loss_value", Some(at), || "keys without a value".to_owned());
            return Ok(());
        };
        let kind = kind_named(&lower).unwrap_or(Kind::Module);
        self.writer.open(record.db, &key, expire_at_ms, Form::Plain(kind))?;
        // So that a number is seen to end.
        text.push(b' ');
        let mut json = Json::new(SliceInput::new(&text, value_at), self.max_string, true).leniently();
        if kind == Kind::Module {
            self.module(&record.kind)?;
        } else {
            value(&mut json, kind, self.writer)?;
        }
        self.close(record.db, &key)
    }

    fn module(&mut self, name: &[u8]) -> Result<()> {
        let at = self.start;
        let message = || "values of modules cannot be read from this export".to_owned();
        self.found.notes.add("loss_value", Some(at), message);
        match module_named(name) {
            Some(id) => self.writer.module(&ModuleValue { id, items: 0, bytes: 0 }),
            None => self.writer.opaque(33, 0),
        }
    }

    fn close(&mut self, db: u64, key: &[u8]) -> Result<()> {
        let start = self.start;
        let place = self.writer.close().map_err(|mut error| {
            error.offset = start;
            error
        })?;
        let nbytes = self.json.input.offset().saturating_sub(start);
        let origin = Origin { offset: start, nbytes, encoding: None };
        self.found.ledger.enter(self.writer, db, key, place, origin)
    }

    /// An object of rdbtools: keys and values, types by how they look.
    fn database(&mut self) -> Result<()> {
        let db = self.databases;
        self.databases += 1;
        self.json.expect(b'{', "an object is wanted here")?;
        let mut first = true;
        while self.json.more(&mut first, b'}')? {
            self.tell_progress()?;
            self.json.peek()?;
            self.start = self.json.input.offset();
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
        let scores: Option<Vec<f64>> = pairs.iter().map(|(_, text)| as_score(text)).collect();
        match scores {
            Some(scores) => {
                let message = || "sorted sets were told from hashes by values that look like scores".to_owned();
                self.found.notes.add("loss_types_guessed", Some(self.start), message);
                self.writer.open(db, key, None, Form::Plain(Kind::Zset))?;
                pairs.iter().zip(scores).try_for_each(|((member, _), score)| self.writer.zset_member(member, score))
            }
            None => {
                self.writer.open(db, key, None, Form::Plain(Kind::Hash))?;
                pairs.iter().try_for_each(|(field, value)| self.writer.hash_field(field, value, None))
            }
        }
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        scalar(&mut self.json, &mut out)?;
        Ok(out)
    }

    /// A string in which rdbtools wrote `\xNN` for each byte that was no UTF-8.
    fn unescaped(&mut self) -> Result<Vec<u8>> {
        let text = self.text()?;
        let bytes = bytes_of(&text);
        self.escaped += u64::from(bytes.is_some());
        Ok(bytes.unwrap_or(text))
    }

    /// What an export of this kind loses, whether or not it shows.
    fn tell_losses(&mut self) {
        let notes = &mut self.found.notes;
        match self.found.tool {
            Tool::RedisDump | Tool::Riot => {
                let message = || "the format is text: bytes that are no UTF-8 may have been changed".to_owned();
                notes.add_many("loss_binary", None, 0, message);
                if self.found.tool == Tool::Riot {
                    let message = || "the export does not number its database; it was taken for 0".to_owned();
                    notes.add_many("loss_database", None, 0, message);
                }
            }
            Tool::Rdbtools => {
                let message = || "the format does not say when keys expire".to_owned();
                notes.add_many("loss_expiry", None, 0, message);
                if self.escaped > 0 {
                    let message = || "strings in which \\xNN was read as one byte; it may have been text".to_owned();
                    notes.add_many("loss_binary", None, self.escaped, message);
                }
                if self.databases > 1 {
                    let message = || "databases are not numbered in this export; they count from 0".to_owned();
                    notes.add_many("loss_database", None, self.databases, message);
                }
            }
        }
        if self.found.ledger.replaced > 0 {
            let message = || "keys that came more than once; the last one of each is kept".to_owned();
            notes.add_many("keys_seen_twice", None, self.found.ledger.replaced, message);
        }
    }
}

/// A string, or a number or word as text.
fn scalar<I: Input>(json: &mut Json<I>, out: &mut Vec<u8>) -> Result<()> {
    match json.token()? {
        Token::String => json.string(out),
        Token::Number => json.number(out),
        Token::True => json.literal(b"true").map(|()| out.extend_from_slice(b"true")),
        Token::False => json.literal(b"false").map(|()| out.extend_from_slice(b"false")),
        Token::Null => json.literal(b"null"),
        Token::Object | Token::Array => Err(json.fault("a string is wanted here")),
    }
}

fn fresh<I: Input>(json: &mut Json<I>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    scalar(json, &mut out)?;
    Ok(out)
}

/// A value of a record.
fn value<I: Input, V: Visitor>(json: &mut Json<I>, kind: Kind, v: &mut V) -> Result<()> {
    let mut first = true;
    match kind {
        Kind::String => {
            let text = fresh(json)?;
            v.string(&text)
        }
        Kind::Hash => {
            json.expect(b'{', "an object is wanted here")?;
            while json.more(&mut first, b'}')? {
                let mut name = Vec::new();
                json.name(&mut name)?;
                let text = fresh(json)?;
                v.hash_field(&name, &text, None)?;
            }
            Ok(())
        }
        Kind::List | Kind::Set => {
            json.expect(b'[', "an array is wanted here")?;
            while json.more(&mut first, b']')? {
                let text = fresh(json)?;
                if kind == Kind::List {
                    v.list_item(&text)?
                } else {
                    v.set_member(&text)?
                };
            }
            Ok(())
        }
        Kind::Zset => {
            json.expect(b'[', "an array is wanted here")?;
            while json.more(&mut first, b']')? {
                scored(json, v)?;
            }
            Ok(())
        }
        Kind::Stream => stream(json, v),
        _ => Err(json.fault("a value of a type that this export cannot hold")),
    }
}

/// `["member", "score"]` of redis-dump, `{"value": member, "score": score}` of RIOT.
fn scored<I: Input, V: Visitor>(json: &mut Json<I>, v: &mut V) -> Result<()> {
    let (mut member, mut score, mut first) = (None, None, true);
    let at = json.input.offset();
    if json.token()? == Token::Array {
        json.expect(b'[', "a member and its score are wanted here")?;
        while json.more(&mut first, b']')? {
            let text = fresh(json)?;
            if member.is_none() { member = Some(text) } else { score = Some(text) }
        }
    } else {
        json.expect(b'{', "a member and its score are wanted here")?;
        let mut name = Vec::new();
        while json.more(&mut first, b'}')? {
            json.name(&mut name)?;
            match name.as_slice() {
                b"value" | b"member" => member = Some(fresh(json)?),
                b"score" => score = Some(fresh(json)?),
                _ => json.skip()?,
            }
        }
    }
    let score = score.and_then(|text| std::str::from_utf8(&text).ok()?.parse::<f64>().ok()).filter(|n| !n.is_nan());
    match (member, score) {
        (Some(member), Some(score)) => v.zset_member(&member, score),
        _ => Err(Error::corrupt(at, "a member without a score")),
    }
}

fn stream<I: Input, V: Visitor>(json: &mut Json<I>, v: &mut V) -> Result<()> {
    json.expect(b'[', "an array is wanted here")?;
    let (mut found, mut last_id, mut first) = (0, StreamId::default(), true);
    while json.more(&mut first, b']')? {
        let at = json.input.offset();
        let (mut id, mut fields, mut first) = (None, Vec::new(), true);
        let mut name = Vec::new();
        json.expect(b'{', "an entry is wanted here")?;
        while json.more(&mut first, b'}')? {
            json.name(&mut name)?;
            match name.as_slice() {
                b"id" => {
                    let text = fresh(json)?;
                    let parts = std::str::from_utf8(&text).ok().and_then(|text| text.split_once('-'));
                    id = parts.and_then(|(ms, seq)| Some(StreamId { ms: ms.parse().ok()?, seq: seq.parse().ok()? }));
                }
                b"body" => {
                    let mut first = true;
                    json.expect(b'{', "an object is wanted here")?;
                    while json.more(&mut first, b'}')? {
                        let mut field = Vec::new();
                        json.name(&mut field)?;
                        fields.push((field, fresh(json)?));
                    }
                }
                _ => json.skip()?,
            }
        }
        let Some(id) = id else { return Err(Error::corrupt(at, "an entry without an id")) };
        v.stream_entry(id)?;
        fields.iter().try_for_each(|(field, value)| v.stream_field(field, value))?;
        v.stream_entry_end()?;
        found += 1;
        last_id = last_id.max(id);
    }
    v.stream_meta(&StreamMeta { length: found, found, last_id, since_7: None })
}

/// A score as Python prints a float: with a point, an exponent, or without end.
fn as_score(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let shaped = matches!(text, "inf" | "-inf")
        || (text.bytes().all(|b| b.is_ascii_digit() || b"+-.e".contains(&b)) && text.contains(['.', 'e']));
    if shaped { text.parse().ok() } else { None }
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

    /// Numbers as Python prints scores, and nothing else.
    #[test]
    fn scores_are_told_from_values() {
        for (text, score) in [("1.5", 1.5), ("-0.0", 0.0), ("1e+300", 1e300), ("inf", f64::INFINITY)] {
            assert_eq!(as_score(text.as_bytes()), Some(score));
        }
        for text in ["1", "", "a.b", "1.5x", "nan", "-", "."] {
            assert_eq!(as_score(text.as_bytes()), None, "{text}");
        }
    }
}
