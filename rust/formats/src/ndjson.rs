//! Keyspace NDJSON, version 1: every key of a snapshot as a line.

use std::fmt;
use std::io::Write;

use crate::behind::Behind;
use crate::context::Limits;
use crate::dump::{DumpInfo, decode_inspected, inspect_dump};
use crate::error::{Error, ErrorKind, Result};
use crate::header::Header;
use crate::input::FileInput;
use crate::item::{Checksum, Item};
use crate::lines::{Direct, Lines, Outlet};
use crate::parallel;
use crate::positioned::{At, Positioned};
use crate::spans::{Span, Spans};
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
    /// Threads that decode; with 0 or 1 all is done on the caller's. What is written is the same.
    pub threads: usize,
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct CatSummary {
    pub header: Option<Header>,
    pub keys: u64,
    /// Bytes of NDJSON.
    pub bytes: u64,
    pub checksum: Option<Checksum>,
    /// What stands behind the snapshot.
    pub behind: Behind,
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

/// Writes a snapshot of `len` bytes as keyspace NDJSON, values as they are decoded: no value is held whole, only its
/// strings.
///
/// # Errors
/// Any fault of the file or of the writer. What was whole by then has been written; the end line has not.
pub fn cat<P: Positioned + ?Sized, W: Write>(
    evidence: &P,
    len: u64,
    limits: Limits,
    out: &mut W,
    options: &CatOptions,
) -> std::result::Result<CatSummary, CatFailure> {
    let mut written = CatSummary::default();
    let mut lines = Lines::new(Direct { out, written: 0 }, options.first_line.is_none());
    let result = run(evidence, len, limits, &mut lines, options, &mut written);
    // Also after a fault: the keys before it are good.
    let flushed = lines.flush();
    written.bytes = lines.outlet.written;
    match result.and(flushed) {
        Ok(()) => Ok(written),
        Err(error) => Err(CatFailure { error, written }),
    }
}

fn run<P: Positioned + ?Sized, W: Write>(
    evidence: &P,
    len: u64,
    limits: Limits,
    lines: &mut Lines<Direct<'_, W>>,
    options: &CatOptions,
    written: &mut CatSummary,
) -> Result<()> {
    let mut spans = Spans::open(evidence, len, limits)?;
    let header = spans.header().clone();
    written.header = Some(header.clone());
    let facts = spans.facts();
    match &options.first_line {
        Some(line) => lines.given_head(line),
        None => lines.head(&facts),
    }
    let job = Job { evidence, header, with_encoding: options.first_line.is_none() };
    if options.threads > 1 {
        lines.flush()?;
        spans = parallel::write(&job, spans, options.threads, &mut lines.outlet, &mut written.keys)?;
    } else {
        while let Some(span) = spans.next() {
            job.write(&span, lines, &mut written.keys)?;
        }
    }
    let Some(end) = spans.end() else { return Ok(()) };
    let end = end?;
    written.checksum = Some(end.checksum);
    written.behind = end.behind;
    if let (Checksum::Mismatch { stored, computed }, false) = (end.checksum, options.accept_wrong_checksum) {
        return Err(Error::new(end.checksum_offset, ErrorKind::Checksum { stored, computed }));
    }
    if !options.cut_short {
        lines.end(written.keys);
    }
    Ok(())
}

/// What the lines of any span are made with.
pub(crate) struct Job<'p, P: ?Sized> {
    evidence: &'p P,
    header: Header,
    pub with_encoding: bool,
}

impl<P: Positioned + ?Sized> Job<'_, P> {
    /// Writes the keys of a span; counts those that are whole.
    pub fn write<O: Outlet>(&self, span: &Span, lines: &mut Lines<O>, keys: &mut u64) -> Result<()> {
        let reader = At::new(self.evidence, span.from);
        let input = FileInput::new(reader, span.to - span.from, false)
            .with_base_offset(span.from)
            .with_limit(span.ctx.limits.window());
        let mut walker = Walker::resume(input, self.header.clone(), span.ctx.clone(), span.place);
        while walker.offset() < span.to {
            let Some(Item::Key(entry)) = walker.next_undecoded()? else { continue };
            let kind = entry.kind;
            lines.open(&entry)?;
            if let Err(error) = walker.decode_value(lines) {
                lines.abandon();
                return Err(error);
            }
            lines.close(kind);
            lines.flush_if_full()?;
            *keys += 1;
        }
        Ok(())
    }
}

/// Writes the value of a DUMP payload as a line of keyspace NDJSON that has no key: `{"type":…,"encoding":…,"value":…}`.
///
/// # Errors
/// Those of [`decode_dump`](crate::decode_dump), and of the writer; part of the line may have been written.
pub fn cat_dump<W: Write>(payload: &[u8], limits: Limits, out: &mut W) -> Result<DumpInfo> {
    let info = inspect_dump(payload, limits)?;
    let mut lines = Lines::new(Direct { out, written: 0 }, true);
    lines.open_bare(info.kind, info.encoding);
    decode_inspected(payload, &info, limits, &mut lines)?;
    lines.close(info.kind);
    lines.flush()?;
    Ok(info)
}
