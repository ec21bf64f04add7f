//! Keyspace NDJSON, version 1: every key of a snapshot as a line.

use std::fmt;
use std::io::Write;

use crate::context::Limits;
use crate::dump::{DumpInfo, decode_inspected, inspect_dump};
use crate::error::{Error, ErrorKind, Result};
use crate::header::Header;
use crate::input::Input;
use crate::item::{Checksum, Item};
use crate::lines::{Facts, Lines};
use crate::walk::Walker;

#[derive(Clone, Debug, Default)]
pub struct CatOptions {
    /// Write the end line even if the checksum is wrong; the summary still says so.
    pub accept_wrong_checksum: bool,
    /// The first line, where the snapshot stands for evidence of another kind. Encodings are left out then: those of the
    /// snapshot say nothing of that evidence.
    pub first_line: Option<String>,
    /// The snapshot is only the beginning of that evidence: no end line.
    pub cut_short: bool,
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct CatSummary {
    pub header: Option<Header>,
    pub keys: u64,
    /// Bytes of NDJSON.
    pub bytes: u64,
    pub checksum: Option<Checksum>,
    /// Bytes behind the snapshot.
    pub trailing: u64,
}

/// A fault, and what was written before it.
#[derive(Debug)]
pub struct CatFailure {
    pub error: Error,
    pub written: CatSummary,
}

impl fmt::Display for CatFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} keys written)", self.error, self.written.keys)
    }
}

impl std::error::Error for CatFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Writes the snapshot as keyspace NDJSON, values as they are decoded: no value is held whole, only its strings.
///
/// # Errors
/// Any fault of the file or of the writer. What was whole by then has been written; the end line has not.
pub fn cat<I: Input, W: Write>(
    input: I,
    limits: Limits,
    out: &mut W,
    options: CatOptions,
) -> std::result::Result<CatSummary, CatFailure> {
    let mut written = CatSummary::default();
    let mut lines = Lines::new(out);
    lines.first_line = options.first_line.clone();
    let result = run(input, limits, &mut lines, &options, &mut written);
    // Also after a fault: the keys before it are good.
    let flushed = lines.flush();
    written.bytes = lines.bytes();
    match result.and(flushed) {
        Ok(()) => Ok(written),
        Err(error) => Err(CatFailure { error, written }),
    }
}

/// Writes the value of a DUMP payload as a line of keyspace NDJSON that has no key: `{"type":…,"encoding":…,"value":…}`.
///
/// # Errors
/// Those of [`decode_dump`](crate::decode_dump), and of the writer; part of the line may have been written.
pub fn cat_dump<W: Write>(payload: &[u8], limits: Limits, out: &mut W) -> Result<DumpInfo> {
    let info = inspect_dump(payload, limits)?;
    let mut lines = Lines::new(out);
    lines.open_bare(info.kind, info.encoding);
    decode_inspected(payload, &info, limits, &mut lines)?;
    lines.close(info.kind);
    lines.flush()?;
    Ok(info)
}

fn run<I: Input, W: Write>(
    input: I,
    limits: Limits,
    lines: &mut Lines<'_, W>,
    options: &CatOptions,
    written: &mut CatSummary,
) -> Result<()> {
    let mut walker = Walker::open(input, limits)?;
    written.header = Some(walker.header().clone());
    let mut facts = Some(Facts::default());
    loop {
        let item = match walker.next_undecoded() {
            Ok(item) => item,
            Err(error) => {
                if let Some(facts) = facts.take() {
                    lines.head(&facts);
                }
                return Err(error);
            }
        };
        let Some(item) = item else { return Ok(()) };
        match item {
            Item::Aux { name, value } => {
                if let Some(facts) = &mut facts {
                    facts.learn(name, value);
                }
            }
            Item::SelectDb(_) => {
                if let Some(facts) = facts.take() {
                    lines.head(&facts);
                }
            }
            Item::Key(entry) => {
                if let Some(facts) = facts.take() {
                    lines.head(&facts);
                }
                let kind = entry.kind;
                lines.open(&entry);
                if let Err(error) = walker.decode_value(lines) {
                    lines.abandon();
                    return Err(error);
                }
                lines.close(kind);
                lines.flush_if_full()?;
                written.keys += 1;
            }
            Item::End(checksum) => {
                if let Some(facts) = facts.take() {
                    lines.head(&facts);
                }
                written.checksum = Some(checksum);
                written.trailing = walker.trailing();
                if let (Checksum::Mismatch { stored, computed }, false) = (checksum, options.accept_wrong_checksum) {
                    let at = walker.offset().saturating_sub(8);
                    return Err(Error::new(at, ErrorKind::Checksum { stored, computed }));
                }
                if !options.cut_short {
                    lines.end(written.keys);
                }
            }
            _ => {}
        }
    }
}
