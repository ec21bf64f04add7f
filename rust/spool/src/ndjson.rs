//! Keyspace NDJSON, version 1, written as a snapshot.

use std::fs::File;
use std::io::{self, Seek, Write};

use jobsleuth_formats::{At, Error, ErrorKind, FileInput, Input, Kind, Limits, Result, decode_dump, inspect_dump};

use crate::json::{Json, Token};
use crate::ledger::{Ledger, Origin};
use crate::names::{encoding_named, kind_named};
use crate::notes::Notes;
use crate::values::{self, Values};
use crate::writer::{Form, Writer};

/// The format's name and the version that is known.
const FORMAT: &[u8] = b"jobsleuth-keyspace";
const VERSION: u64 = 1;

/// Bytes between two reports of progress.
const STEP: u64 = 8 << 20;

/// What an export says of itself, and what came of it.
#[derive(Debug, Default)]
pub struct Export {
    pub redis_version: Option<Vec<u8>>,
    pub started_at_ms: Option<i64>,
    /// Told by the first line or by the last.
    pub finished_at_ms: Option<i64>,
    pub as_of_ms: Option<i64>,
    /// Latest time that a key says it was read at.
    pub seen_at_ms: Option<i64>,
    pub atomic: bool,
    /// The last line was there.
    pub ended: bool,
    pub ledger: Ledger,
    pub notes: Notes,
    /// Where a broken line ended the reading, and why.
    pub fault: Option<Error>,
    /// Where the export ends without a last line; what it has of a line there is left out.
    pub cut_short_at: Option<u64>,
}

/// How to read an export.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Keep what stands before a broken line.
    pub salvage: bool,
    pub max_value_bytes: u64,
}

/// Reads an export and writes its keys to `writer`. `progress` gets bytes done and in all now and then.
///
/// # Errors
/// No export of the known version; a broken line (unless salvaged); those of reading and writing.
pub fn read_ndjson<W: Write + Seek>(
    file: &File,
    writer: &mut Writer<W>,
    reading: Reading,
    progress: &mut dyn FnMut(u64, u64) -> io::Result<()>,
) -> Result<Export> {
    let total = file.metadata()?.len();
    let mut lines = Lines {
        file,
        total,
        json: Json::new(input_at(file, 0, total), reading.max_value_bytes, false),
        writer,
        export: Export::default(),
        values: Values::default(),
        limits: Limits { max_value_bytes: reading.max_value_bytes, ..Limits::default() },
        number: 0,
        start: 0,
        keys: 0,
        timed: false,
    };
    let mut next_report = STEP;
    while !lines.export.ended {
        let at = lines.json.input.offset();
        if at >= next_report {
            next_report = at.saturating_add(STEP);
            progress(at, total)?;
        }
        match lines.line() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                lines.writer.abandon()?;
                let error = lines.placed(error);
                let cut = matches!(error.kind, ErrorKind::Truncated { .. });
                let begun = lines.number > 1 && !matches!(error.kind, ErrorKind::Io(_) | ErrorKind::Stopped);
                if begun && cut {
                    lines.export.cut_short_at = Some(lines.start);
                } else if begun && reading.salvage {
                    lines.export.fault = Some(error);
                } else {
                    return Err(error);
                }
                break;
            }
        }
    }
    lines.finish();
    progress(total, total)?;
    Ok(lines.export)
}

fn input_at(file: &File, offset: u64, total: u64) -> FileInput<At<'_>> {
    FileInput::new(At::new(file, offset), total.saturating_sub(offset), false).with_base_offset(offset)
}

struct Lines<'f, 'w, W> {
    file: &'f File,
    total: u64,
    json: Json<FileInput<At<'f>>>,
    writer: &'w mut Writer<W>,
    export: Export,
    values: Values,
    limits: Limits,
    /// The line being read, from 1, and where it starts.
    number: u64,
    start: u64,
    /// Lines of keys so far.
    keys: u64,
    /// Hashes are written so that their fields may have times to live: one had.
    timed: bool,
}

/// The members of a line that mean something.
#[derive(Default)]
struct Line {
    format: Option<Vec<u8>>,
    version: Option<u64>,
    started_at_ms: Option<i64>,
    finished_at_ms: Option<i64>,
    as_of_ms: Option<i64>,
    seen_at_ms: Option<i64>,
    redis_version: Option<Vec<u8>>,
    atomic: Option<bool>,
    cluster: bool,
    end: bool,
    keys: Option<u64>,
    vanished: Option<u64>,
    refused: Option<u64>,
    db: Option<u64>,
    key: Option<Vec<u8>>,
    kind: Option<Vec<u8>>,
    /// Told, be it as null.
    expiry: Option<Option<i64>>,
    encoding: Option<Vec<u8>>,
    dump: Option<Vec<u8>>,
    value: Value,
}

#[derive(Default)]
enum Value {
    #[default]
    Missing,
    /// It stands there, and must be read when the whole line is known.
    At(u64),
    /// It is in the open entry.
    Written,
}

impl<W: Write + Seek> Lines<'_, '_, W> {
    /// Reads a line; whether there was one.
    fn line(&mut self) -> Result<bool> {
        while self.json.peek()? == Some(b'\n') {
            self.json.input.consume(1);
        }
        if self.json.peek()?.is_none() {
            return Ok(false);
        }
        self.number += 1;
        let start = self.json.input.offset();
        self.start = start;
        let mut line = Line::default();
        let mut name = Vec::new();
        self.json.expect(b'{', "no JSON object")?;
        let mut first = true;
        while self.json.more(&mut first, b'}')? {
            self.json.name(&mut name)?;
            self.member(&name, &mut line)?;
        }
        let end = self.json.input.offset();
        if !matches!(self.json.peek()?, None | Some(b'\n')) {
            return Err(self.json.fault("something behind the object"));
        }
        if self.number == 1 {
            self.head(line, start)?;
        } else if line.end {
            self.end(&line, start);
        } else if line.key.is_some() {
            self.key(line, start, end)?;
        } else {
            self.export.notes.add("line_without_key", Some(start), || "a line that is no key and no end".to_owned());
        }
        Ok(true)
    }

    fn member(&mut self, name: &[u8], line: &mut Line) -> Result<()> {
        let json = &mut self.json;
        let seen = match name {
            b"db" => line.db.is_some(),
            b"key" => line.key.is_some(),
            b"type" => line.kind.is_some(),
            b"expire_at_ms" => line.expiry.is_some(),
            b"value" => !matches!(line.value, Value::Missing),
            b"dump" => line.dump.is_some(),
            _ => false,
        };
        if seen {
            return Err(json.fault("a member of the object that was there already"));
        }
        match name {
            b"format" => text(json, &mut line.format)?,
            b"version" => line.version = json.int_or_null()?,
            b"started_at_ms" => line.started_at_ms = json.int_or_null()?,
            b"finished_at_ms" => line.finished_at_ms = json.int_or_null()?,
            b"as_of_ms" => line.as_of_ms = json.int_or_null()?,
            b"seen_at_ms" => line.seen_at_ms = json.int_or_null()?,
            b"redis_version" => text(json, &mut line.redis_version)?,
            b"atomic" => line.atomic = Some(json.bool()?),
            b"cluster" => line.cluster = json.bool()?,
            b"end" => line.end = json.bool()?,
            b"keys" => line.keys = json.int_or_null()?,
            b"vanished" => line.vanished = json.int_or_null()?,
            b"refused" => line.refused = json.int_or_null()?,
            b"db" => line.db = Some(json.int()?),
            b"key" => {
                let mut key = Vec::new();
                values::bytes(json, &mut key)?;
                line.key = Some(key);
            }
            b"type" => text(json, &mut line.kind)?,
            b"expire_at_ms" => line.expiry = Some(json.int_or_null()?),
            b"encoding" => text(json, &mut line.encoding)?,
            b"dump" => {
                let mut payload = Vec::new();
                values::base64(json, &mut Vec::new(), &mut payload)?;
                line.dump = Some(payload);
            }
            b"value" => self.value(line)?,
            _ => json.skip()?,
        }
        Ok(())
    }

    /// A value: written at once where all that stands before it in the snapshot is known.
    fn value(&mut self, line: &mut Line) -> Result<()> {
        self.json.peek()?;
        let at = self.json.input.offset();
        match (line.db, &line.key, &line.kind, line.expiry) {
            (Some(db), Some(key), Some(kind), Some(expiry)) => {
                self.write_value(db, key, kind, expiry, at)?;
                line.value = Value::Written;
            }
            _ => {
                self.json.skip()?;
                line.value = Value::At(at);
            }
        }
        Ok(())
    }

    fn write_value(&mut self, db: u64, key: &[u8], kind: &[u8], expiry: Option<i64>, at: u64) -> Result<()> {
        let Some(kind) = kind_named(kind) else {
            return Err(Error::corrupt(at, "a value of an unknown type"));
        };
        self.writer.open(db, key, expiry, self.form(kind))?;
        match self.values.read(&mut self.json, kind, self.writer) {
            Err(_) if self.writer.wants_times() => {
                self.writer.abandon()?;
                self.timed = true;
                self.seek(at);
                self.writer.open(db, key, expiry, Form::TimedHash)?;
                self.values.read(&mut self.json, kind, self.writer)
            }
            outcome => outcome,
        }
    }

    fn form(&self, kind: Kind) -> Form {
        if kind == Kind::Hash && self.timed { Form::TimedHash } else { Form::Plain(kind) }
    }

    fn seek(&mut self, offset: u64) {
        self.json.input = input_at(self.file, offset, self.total);
    }

    fn head(&mut self, line: Line, start: u64) -> Result<()> {
        if line.format.as_deref() != Some(FORMAT) {
            return Err(Error::corrupt(start, "the first line does not say that this is a keyspace export"));
        }
        match line.version {
            Some(VERSION) => {}
            Some(other) => {
                let what = format!("keyspace export of version {other}, which this reader does not know");
                return Err(Error::new(start, ErrorKind::Unsupported(what.into())));
            }
            None => return Err(Error::corrupt(start, "the first line does not say the version of the export")),
        }
        let export = &mut self.export;
        export.redis_version = line.redis_version;
        export.started_at_ms = line.started_at_ms;
        export.finished_at_ms = line.finished_at_ms;
        export.as_of_ms = line.as_of_ms;
        export.atomic = line.atomic.unwrap_or(false);
        if line.cluster {
            let message = "the export is of nodes of a cluster: keys of nodes that were not asked are missing";
            export.notes.add("cluster_nodes", Some(start), || message.to_owned());
        }
        Ok(())
    }

    fn end(&mut self, line: &Line, start: u64) {
        let export = &mut self.export;
        export.ended = true;
        export.finished_at_ms = line.finished_at_ms.or(export.finished_at_ms);
        let keys = self.keys;
        if let Some(told) = line.keys.filter(|&told| told != keys) {
            let message = || format!("the last line tells of {told} keys, but there are {keys}");
            export.notes.add("key_count_differs", Some(start), message);
        }
        if let Some(count @ 1..) = line.vanished {
            let message = || "keys that were listed were gone when their value was asked for".to_owned();
            export.notes.add_many("keys_vanished", Some(start), count, message);
        }
        if let Some(count @ 1..) = line.refused {
            let message = || "keys that the server refused to give".to_owned();
            export.notes.add_many("keys_refused", Some(start), count, message);
        }
    }

    fn key(&mut self, line: Line, start: u64, end: u64) -> Result<()> {
        let (db, key) = (line.db.unwrap_or(0), line.key.unwrap_or_default());
        let kind = line.kind.unwrap_or_default();
        let expiry = line.expiry.flatten();
        let mut encoding = line.encoding.as_deref().and_then(encoding_named);
        match (line.value, line.dump) {
            (Value::Written, _) => {}
            (Value::At(at), _) => {
                self.seek(at);
                let outcome = self.write_value(db, &key, &kind, expiry, at);
                self.seek(end);
                outcome?;
            }
            (Value::Missing, Some(payload)) => {
                let told = self.write_dump(db, &key, &kind, expiry, &payload, start)?;
                encoding = encoding.or(told);
            }
            (Value::Missing, None) => return Err(Error::corrupt(start, "a key without a value")),
        }
        let place = self.writer.close().map_err(|mut error| {
            error.offset = start;
            error
        })?;
        let origin = Origin { offset: start, nbytes: end.saturating_sub(start), encoding };
        self.export.ledger.enter(self.writer, db, &key, place, origin)?;
        self.export.seen_at_ms = self.export.seen_at_ms.max(line.seen_at_ms);
        self.keys += 1;
        Ok(())
    }

    fn write_dump(
        &mut self,
        db: u64,
        key: &[u8],
        kind: &[u8],
        expiry: Option<i64>,
        payload: &[u8],
        start: u64,
    ) -> Result<Option<jobsleuth_formats::Encoding>> {
        // Offsets inside the payload mean nothing in the file.
        let placed = |error: Error| match error.kind {
            ErrorKind::Io(_) | ErrorKind::Limit { .. } => error,
            _ => {
                let (at, what) = (error.offset, error.message());
                Error::corrupt(start, format!("the DUMP payload of the key, at its byte {at}: {what}"))
            }
        };
        let info = inspect_dump(payload, self.limits).map_err(placed)?;
        self.writer.open(db, key, expiry, self.form(info.kind))?;
        match decode_dump(payload, self.limits, self.writer) {
            Err(_) if self.writer.wants_times() => {
                self.writer.abandon()?;
                self.timed = true;
                self.writer.open(db, key, expiry, Form::TimedHash)?;
                decode_dump(payload, self.limits, self.writer).map_err(placed)?;
            }
            outcome => drop(outcome.map_err(placed)?),
        }
        let notes = &mut self.export.notes;
        if !info.key_meta.is_empty() {
            notes.add("key_metadata", Some(start), || "metadata of modules beside keys was passed over".to_owned());
        }
        if kind_named(kind).is_some_and(|kind| kind != info.kind) {
            let message = || "a key whose DUMP payload is of another type than the export says".to_owned();
            notes.add("type_differs", Some(start), message);
        }
        Ok(Some(info.encoding))
    }

    /// Names the line in a fault that has no other name.
    fn placed(&self, mut error: Error) -> Error {
        let number = self.number;
        if let ErrorKind::Corrupt(what) = &mut error.kind {
            *what = format!("line {number}: {what}").into();
        }
        error
    }

    fn finish(&mut self) {
        let at = self.json.input.offset();
        let export = &mut self.export;
        if !export.ended && export.fault.is_none() {
            export.cut_short_at.get_or_insert(at);
        }
        if export.ended {
            let behind = self.total.saturating_sub(at);
            if behind > 1 {
                let message = || format!("{behind} bytes behind the last line were not looked at");
                export.notes.add_many("trailing_bytes", Some(at), behind, message);
            }
        }
        if export.ledger.replaced > 0 {
            let message = || "keys that came more than once; the last one of each is kept".to_owned();
            export.notes.add_many("keys_seen_twice", None, export.ledger.replaced, message);
        }
        if self.writer.clamped_field_times > 0 {
            let message = || "times of hash fields that no server can hold were brought to the nearest".to_owned();
            export.notes.add_many("field_times_clamped", None, self.writer.clamped_field_times, message);
        }
    }
}

/// A string, or null.
fn text<I: Input>(json: &mut Json<I>, out: &mut Option<Vec<u8>>) -> Result<()> {
    match json.token()? {
        Token::String => {
            let mut value = Vec::new();
            json.string(&mut value)?;
            *out = Some(value);
            Ok(())
        }
        _ => json.skip(),
    }
}
