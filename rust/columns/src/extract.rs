//! Values of many keys, decoded by several threads, as batches in the order of the rows asked for.
//!
//! Rows are cut into tasks of a few megabytes of file, which do not depend on the number of threads: the same request
//! gives the same batches. Threads take tasks in order and may be a few tasks ahead of the reader, each with a few
//! batches, so memory stays bounded; the reader takes the batches of the first unfinished task.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use jobsleuth_formats::{self as formats, Decoder, ErrorKind};

use crate::elements::Elements;
use crate::error::{Error, Result};
use crate::groups::StreamGroups;
use crate::projection::Projection;
use crate::records::Hashes;
use crate::sink::{Outlet, Sink};
use crate::source::Source;
use crate::streams::StreamEntries;
use crate::strings::Strings;
use crate::table::Place;

/// Bytes of file that make a task: a sixteenth of all, within these. A task mostly gives one batch, and every batch
/// costs the reader some milliseconds.
const TASK_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=12 << 20;
const TASKS: u64 = 16;
/// Rows that make a task, however small.
const TASK_ROWS: usize = 1 << 16;
/// A value from this size on is a task of its own, read as it is decoded.
const LARGE: u64 = 8 << 20;
/// Bytes between two values that are cheaper to read than to leap over.
const GAP: u64 = 16 << 10;
/// Bytes read at once, unless one value is larger: they are in the cache still when they are decoded.
const STRETCH: u64 = 512 << 10;
/// Batches that a task may have waiting.
const WAITING: usize = 2;

/// How to extract.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    threads: usize,
    batch_bytes: usize,
}

impl Options {
    /// Both are brought into a range that makes sense: 1 to 64 threads, batches of 64 KiB to 256 MiB.
    pub fn new(threads: usize, batch_bytes: usize) -> Self {
        Options { threads: threads.clamp(1, 64), batch_bytes: batch_bytes.clamp(64 << 10, 256 << 20) }
    }
}

/// Batches in order. Dropping it ends the threads.
pub struct Batches {
    schema: SchemaRef,
    shared: Arc<Shared>,
}

/// Hashes as one row each.
pub fn records(source: Arc<Source>, rows: Vec<i64>, projection: Projection, options: Options) -> Result<Batches> {
    let projection = Arc::new(projection);
    start(source, rows, options, move || Hashes::new(Arc::clone(&projection), options.batch_bytes))
}

/// Elements of lists, sets, sorted sets and hashes.
pub fn elements(source: Arc<Source>, rows: Vec<i64>, options: Options) -> Result<Batches> {
    start(source, rows, options, move || Elements::new(options.batch_bytes))
}

/// String values, cut to `limit` bytes.
pub fn strings(source: Arc<Source>, rows: Vec<i64>, limit: Option<usize>, options: Options) -> Result<Batches> {
    start(source, rows, options, move || Strings::new(limit, options.batch_bytes))
}

/// Entries of streams.
pub fn stream_entries(
    source: Arc<Source>,
    rows: Vec<i64>,
    projection: Projection,
    options: Options,
) -> Result<Batches> {
    for name in ["ms", "seq"] {
        if projection.fields().iter().any(|field| field.name() == name) {
            return Err(Error::Request(format!("projection: two columns would be named {name}")));
        }
    }
    let projection = Arc::new(projection);
    start(source, rows, options, move || StreamEntries::new(Arc::clone(&projection), options.batch_bytes))
}

/// What streams say of themselves, their consumer groups, what is pending in each, and its consumers.
pub fn stream_groups(source: Arc<Source>, rows: Vec<i64>, options: Options) -> Result<Batches> {
    start(source, rows, options, move || StreamGroups::new(options.batch_bytes))
}

struct Shared {
    source: Arc<Source>,
    rows: Vec<i64>,
    wants: fn(formats::Kind) -> bool,
    task_bytes: u64,
    window: usize,
    state: Mutex<State>,
    /// Room for more: a task may be taken, a batch left.
    room: Condvar,
    /// Something for the reader.
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// First row that no task has.
    next_row: usize,
    /// Number of the first task in `slots`.
    first: u64,
    slots: VecDeque<Slot>,
    stopped: bool,
}

#[derive(Default)]
struct Slot {
    batches: VecDeque<RecordBatch>,
    outcome: Option<Result<()>>,
}

struct Task {
    number: u64,
    rows: std::ops::Range<usize>,
}

fn start<S: Sink + 'static>(
    source: Arc<Source>,
    rows: Vec<i64>,
    options: Options,
    make: impl Fn() -> S + Clone + Send + 'static,
) -> Result<Batches> {
    let total = source.table.len();
    if let Some(row) = rows.iter().find(|&&row| !u64::try_from(row).is_ok_and(|row| row < total)) {
        return Err(Error::Request(format!("no row {row}: the file has {total} keys")));
    }
    if !rows.is_sorted_by(|a, b| a < b) {
        return Err(Error::Request("rows must be ascending".into()));
    }
    let schema = make().schema();
    let threads = options.threads.min(rows.len());
    let task_bytes = task_bytes(&source, &rows, S::wants);
    let shared = Arc::new(Shared {
        source,
        rows,
        wants: S::wants,
        task_bytes,
        window: threads + 1,
        state: Mutex::default(),
        room: Condvar::new(),
        news: Condvar::new(),
    });
    let batches = Batches { schema, shared: Arc::clone(&shared) };
    for started in 0..threads {
        let (shared, make) = (Arc::clone(&shared), make.clone());
        let spawned = thread::Builder::new().name("jobsleuth-extract".into()).spawn(move || shared.work(&make));
        match spawned {
            Ok(_) => {}
            Err(_) if started > 0 => break,
            Err(error) => return Err(Error::Internal(format!("no thread can be started: {error}"))),
        }
    }
    Ok(batches)
}

/// Bytes of a task, which depend on nothing but the request.
fn task_bytes(source: &Source, rows: &[i64], wants: fn(formats::Kind) -> bool) -> u64 {
    let places = rows.iter().filter_map(|&row| source.table.place(u64::try_from(row).ok()?));
    let wanted = places.filter(|place| wants(place.kind));
    let total = wanted.fold(0u64, |sum, place| sum.saturating_add(place.end.saturating_sub(place.value_offset)));
    (total / TASKS).clamp(*TASK_BYTES.start(), *TASK_BYTES.end())
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work<S: Sink>(self: &Arc<Self>, make: &impl Fn() -> S) {
        while let Some(task) = self.take_task() {
            // A fault of ours ends the request, not the process that asked.
            let outcome = catch_unwind(AssertUnwindSafe(|| self.run(make(), &task)));
            let outcome = outcome.unwrap_or_else(|_| Err(Error::Internal("a decoding thread panicked".into())));
            let mut state = self.lock();
            if let Some(slot) = state.slot(task.number) {
                slot.outcome = Some(outcome);
            }
            drop(state);
            self.news.notify_all();
        }
    }

    fn take_task(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.next_row >= self.rows.len() {
                return None;
            }
            if state.slots.len() < self.window {
                break;
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let start = state.next_row;
        state.next_row = self.task_end(start);
        let number = state.first + state.slots.len() as u64;
        state.slots.push_back(Slot::default());
        Some(Task { number, rows: start..state.next_row })
    }

    /// The row before which a task that starts at `start` ends.
    fn task_end(&self, start: usize) -> usize {
        let mut bytes = 0u64;
        let limit = start.saturating_add(TASK_ROWS).min(self.rows.len());
        for at in start..limit {
            let size = match self.place(at) {
                Some((_, place)) if (self.wants)(place.kind) => place.end.saturating_sub(place.value_offset),
                _ => 0,
            };
            if at > start && (size >= LARGE || bytes.saturating_add(size) > self.task_bytes) {
                return at;
            }
            bytes = bytes.saturating_add(size);
        }
        limit
    }

    fn place(&self, at: usize) -> Option<(u64, Place)> {
        let row = u64::try_from(*self.rows.get(at)?).ok()?;
        Some((row, self.source.table.place(row)?))
    }

    fn run<S: Sink>(self: &Arc<Self>, mut sink: S, task: &Task) -> Result<()> {
        sink.flow().open(Box::new(Delivery { shared: Arc::clone(self), number: task.number }));
        let outcome = self.decode(&mut sink, task.rows.clone()).and_then(|()| sink.flush());
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => match sink.flow().take_fault() {
                Some(fault) => Err(fault),
                None if matches!(error.kind, ErrorKind::Stopped) => Ok(()),
                None => {
                    // What was whole before the fault is good.
                    let _ = sink.flush();
                    Err(error.into())
                }
            },
        }
    }

    fn decode<S: Sink>(&self, sink: &mut S, rows: std::ops::Range<usize>) -> formats::Result<()> {
        let mut decoder = Decoder::new();
        let mut stretch = Vec::new();
        let mut from = 0u64;
        let mut until = 0u64;
        for at in rows.clone() {
            let Some((row, place)) = self.place(at) else { continue };
            let number = i64::try_from(row).unwrap_or(i64::MAX);
            if !(self.wants)(place.kind) {
                sink.pass(number)?;
                continue;
            }
            sink.begin(number);
            if place.end.saturating_sub(place.value_offset) >= LARGE {
                self.source.stream(&mut decoder, row, place, sink)?;
                self.finish(sink, row, place)?;
                continue;
            }
            if place.value_offset < from || place.end > until {
                from = place.value_offset;
                until = self.stretch_end(at..rows.end, place);
                let len = usize::try_from(until.saturating_sub(from)).unwrap_or(usize::MAX);
                self.source.read(from, len, &mut stretch)?;
            }
            let start = usize::try_from(place.value_offset - from).unwrap_or(usize::MAX);
            let end = usize::try_from(place.end.saturating_sub(from)).unwrap_or(usize::MAX);
            let bytes = stretch.get(start..end).unwrap_or_default();
            self.source.decode(&mut decoder, row, place, bytes, sink)?;
            self.finish(sink, row, place)?;
        }
        Ok(())
    }

    /// Ends a value, and notes what was odd about it.
    fn finish<S: Sink>(&self, sink: &mut S, row: u64, place: Place) -> formats::Result<()> {
        sink.end()?;
        if let Some(odd) = sink.flow().take_odd() {
            self.source.note(row, place, odd);
        }
        Ok(())
    }

    /// Where to stop reading so that the values that follow closely come along.
    fn stretch_end(&self, rows: std::ops::Range<usize>, first: Place) -> u64 {
        let mut until = first.end;
        for at in rows.skip(1) {
            let Some((_, place)) = self.place(at) else { break };
            if !(self.wants)(place.kind) {
                continue;
            }
            let size = place.end.saturating_sub(place.value_offset);
            if place.value_offset < until || place.value_offset - until > GAP || size >= LARGE {
                break;
            }
            if place.end.saturating_sub(first.value_offset) > STRETCH {
                break;
            }
            until = place.end;
        }
        until
    }
}

impl State {
    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.slots.get_mut(at)
    }
}

/// Leaves batches with the reader and waits while it has enough.
struct Delivery {
    shared: Arc<Shared>,
    number: u64,
}

impl Outlet for Delivery {
    fn send(&mut self, batch: RecordBatch) -> bool {
        let mut state = self.shared.lock();
        loop {
            if state.stopped {
                return false;
            }
            match state.slot(self.number) {
                None => return false,
                Some(slot) if slot.batches.len() < WAITING => {
                    slot.batches.push_back(batch);
                    break;
                }
                Some(_) => {}
            }
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.shared.news.notify_all();
        true
    }
}

impl Batches {
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn advance(&self) -> Option<Result<RecordBatch>> {
        let mut state = self.shared.lock();
        loop {
            if state.stopped {
                return None;
            }
            let all_taken = state.next_row >= self.shared.rows.len();
            match state.slots.front_mut() {
                Some(slot) => {
                    if let Some(batch) = slot.batches.pop_front() {
                        self.shared.room.notify_all();
                        return Some(Ok(batch));
                    }
                    match slot.outcome.take() {
                        Some(Ok(())) => {
                            state.slots.pop_front();
                            state.first += 1;
                            self.shared.room.notify_all();
                            continue;
                        }
                        Some(Err(error)) => {
                            state.stopped = true;
                            self.shared.room.notify_all();
                            return Some(Err(error));
                        }
                        None => {}
                    }
                }
                None if all_taken => return None,
                None => {}
            }
            state = self.shared.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Iterator for Batches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.advance()?.map_err(ArrowError::from))
    }
}

impl arrow_array::RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Batches::schema(self)
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.room.notify_all();
    }
}
