//! Exports of other tools as JSON. Each loses something; what, is counted.

mod bare;
mod records;

use std::fs::File;
use std::io::{self, Seek, Write};

use jobsleuth_formats::{At, Error, ErrorKind, FileInput, Input, ModuleValue, Result, Visitor};

use crate::json::{Json, Token};
use crate::ledger::{Ledger, Origin};
use crate::names::module_named;
use crate::ndjson::Reading;
use crate::notes::Notes;
use crate::tee::Tee;
use crate::writer::Writer;

/// Bytes between two reports of progress.
const STEP: u64 = 8 << 20;

/// How an export is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Objects that each name a key and its type, in an array or one after the other.
    Records,
    /// One object of keys, each with an object that names its type.
    Typed,
    /// Objects of keys and values, one a database.
    Bare,
}
/// Whose export it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// The gem: lines.
    RedisDump,
    /// The npm package of the same name: one object.
    RedisDumpNpm,
    Riot,
    Rdbtools,
}

impl Tool {
    pub fn as_str(self) -> &'static str {
        match self {
            Tool::RedisDump => "redis-dump",
            Tool::RedisDumpNpm => "redis-dump-npm",
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

/// Reads an export and writes its keys to `writer`.
///
/// # Errors
/// Text that is no such export; those of reading and writing.
pub fn read_foreign<W: Write + Seek>(
    file: &File,
    writer: &mut Writer<W>,
    layout: Layout,
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
            tool: match layout {
                Layout::Records => Tool::Riot,
                Layout::Typed => Tool::RedisDumpNpm,
                Layout::Bare => Tool::Rdbtools,
            },
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
    if let Err(error) = export.run(layout) {
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

impl<W: Write + Seek, I: Input> Export<'_, '_, W, I> {
    /// Objects, in an array or one after the other.
    fn run(&mut self, layout: Layout) -> Result<()> {
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
            match layout {
                Layout::Records => self.record()?,
                Layout::Typed => self.typed()?,
                Layout::Bare => self.database()?,
            }
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

    /// A key begins behind the blanks that come now.
    fn next_key(&mut self) -> Result<()> {
        let at = self.json.input.offset();
        if at >= self.next_report {
            self.next_report = at.saturating_add(STEP);
            (self.progress)(at, self.total)?;
        }
        self.json.peek()?;
        self.start = self.json.input.offset();
        Ok(())
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

    fn text(&mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        scalar(&mut self.json, &mut out)?;
        Ok(out)
    }

    /// What an export of this kind loses, whether or not it shows.
    fn tell_losses(&mut self) {
        let notes = &mut self.found.notes;
        match self.found.tool {
            Tool::RedisDump | Tool::RedisDumpNpm | Tool::Riot => {
                let message = || "the format is text: bytes that are no UTF-8 may have been changed".to_owned();
                notes.add_many("loss_binary", None, 0, message);
                if self.found.tool == Tool::RedisDumpNpm {
                    let message = || "scores were cut to whole numbers, and those without end to 0".to_owned();
                    notes.add_many("loss_scores", None, 0, message);
                }
                if self.found.tool != Tool::RedisDump {
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
