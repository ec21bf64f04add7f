//! Records that name key and type: lines or an array (RIOT, redis-dump), or members of one object (redis-dump of npm).

use std::io::{Seek, Write};

use jobsleuth_formats::{Error, Input, Kind, Result, SliceInput, StreamId, StreamMeta, Visitor};

use super::{Export, Tool, fresh};
use crate::json::{Json, Token};
use crate::names::kind_named;
use crate::values::{parse_id, parse_score};
use crate::writer::Form;

/// A time to live above this is a moment in Unix ms: it would be longer than three thousand years.
const MOMENT_MS: i64 = 100_000_000_000;

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
    pub(super) fn record(&mut self) -> Result<()> {
        self.next_key()?;
        self.json.expect(b'{', "an object is wanted here")?;
        let record = self.members(Record::default())?;
        self.keep(record)
    }

    /// Keys with their records, in one object.
    pub(super) fn typed(&mut self) -> Result<()> {
        self.json.expect(b'{', "an object is wanted here")?;
        let mut first = true;
        while self.json.more(&mut first, b'}')? {
            self.next_key()?;
            let mut key = Vec::new();
            self.json.name(&mut key)?;
            self.json.expect(b'{', "an object is wanted here")?;
            let record = self.members(Record { key: Some(key), ..Record::default() })?;
            self.keep(record)?;
        }
        Ok(())
    }

    fn members(&mut self, mut record: Record) -> Result<Record> {
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
                b"ttl" => match self.whole()? {
                    Some(ttl) => record.ttl = ttl,
                    // It says something; what, is not known.
                    None => record.ttl = Some(1),
                },
                b"timestamp" | b"time" => record.timestamp = self.whole()?.flatten(),
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
        Ok(record)
    }

    /// A whole number or null, where there is one; anything else is passed over.
    fn whole(&mut self) -> Result<Option<Option<i64>>> {
        match self.json.token()? {
            Token::Number => {
                let mut digits = Vec::new();
                self.json.number(&mut digits)?;
                Ok(std::str::from_utf8(&digits).ok().and_then(|text| text.parse().ok()).map(Some))
            }
            Token::Null => self.json.literal(b"null").map(|()| Some(None)),
            _ => self.json.skip().map(|()| None),
        }
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
            value(&mut json, kind, self.found.tool == Tool::RedisDumpNpm, self.writer)?;
        }
        self.close(record.db, &key)
    }
}

/// A value of a record; `score_first`: in pairs of score and member.
fn value<I: Input, V: Visitor>(json: &mut Json<I>, kind: Kind, score_first: bool, v: &mut V) -> Result<()> {
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
                scored(json, score_first, v)?;
            }
            Ok(())
        }
        Kind::Stream => stream(json, v),
        _ => Err(json.fault("a value of a type that this export cannot hold")),
    }
}

/// `["member", "score"]` or `[score, "member"]` of redis-dump, `{"value": member, "score": score}` of RIOT.
fn scored<I: Input, V: Visitor>(json: &mut Json<I>, score_first: bool, v: &mut V) -> Result<()> {
    let (mut member, mut score, mut first) = (None, None, true);
    let at = json.input.offset();
    if json.token()? == Token::Array {
        json.expect(b'[', "a member and its score are wanted here")?;
        while json.more(&mut first, b']')? {
            let text = fresh(json)?;
            if score_first && score.is_none() {
                // That of a score without end is null.
                score = Some(if text.is_empty() { b"0".to_vec() } else { text });
            } else if member.is_none() {
                member = Some(text);
            } else {
                score = Some(text);
            }
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
    let score = score.and_then(|text| parse_score(&text));
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
                    id = parse_id(&fresh(json)?);
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
