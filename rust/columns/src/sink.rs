//! Decoded values becoming record batches.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use jobsleuth_formats::{self as formats, Kind, Visitor};

use crate::error::{Error, Result};

/// Takes the pieces of values, row after row, and makes batches of them.
pub(crate) trait Sink: Visitor + Send {
    fn schema(&self) -> SchemaRef;

    /// Whether keys of this kind have anything for this sink; others are not read at all.
    fn wants(kind: Kind) -> bool
    where
        Self: Sized;

    /// The pieces that follow are of the value of this row.
    fn begin(&mut self, row: i64);

    /// The value has been handed over.
    fn end(&mut self) -> formats::Result<()> {
        Ok(())
    }

    /// A row whose key is of a kind that is not wanted.
    fn pass(&mut self, _row: i64) -> formats::Result<()> {
        Ok(())
    }

    /// Everything so far as a batch, if there is anything.
    fn take(&mut self) -> Result<Option<RecordBatch>>;

    fn flow(&mut self) -> &mut Flow;

    /// Sends on what there is if it has grown large enough.
    fn flush_if(&mut self, bytes: usize, rows: usize) -> formats::Result<()> {
        if bytes >= self.flow().batch_bytes || rows >= BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    /// Sends on what there is.
    fn flush(&mut self) -> formats::Result<()> {
        match self.take() {
            Ok(Some(batch)) => self.flow().send(batch),
            Ok(None) => Ok(()),
            Err(error) => {
                self.flow().fault = Some(error);
                Err(formats::Error::stopped())
            }
        }
    }
}

/// Most rows of a batch.
const BATCH_ROWS: usize = 1 << 16;

/// Where batches go. `false`: nobody wants more.
pub(crate) trait Outlet: Send {
    fn send(&mut self, batch: RecordBatch) -> bool;
}

/// The way out of a sink: a visitor can only stop the reading, so what went wrong besides is kept here.
pub(crate) struct Flow {
    batch_bytes: usize,
    outlet: Option<Box<dyn Outlet>>,
    fault: Option<Error>,
    odd: Option<Oddity>,
}

/// What no server would load or write, and yet can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Oddity {
    /// A score is NaN.
    ScoreNoNumber,
    /// A hash has a field twice.
    FieldTwice,
}

impl Oddity {
    /// A word for it, and a sentence that goes on with the key.
    pub fn told(self) -> (&'static str, &'static str) {
        match self {
            Oddity::ScoreNoNumber => ("score_no_number", "a score is no number in the value of key"),
            Oddity::FieldTwice => ("field_twice", "a field is stored twice in the value of key"),
        }
    }
}

impl Flow {
    pub fn new(batch_bytes: usize) -> Self {
        Flow { batch_bytes, outlet: None, fault: None, odd: None }
    }

    pub fn open(&mut self, outlet: Box<dyn Outlet>) {
        self.outlet = Some(outlet);
        self.fault = None;
    }

    /// The fault that a stop stands for, if it was not a wish.
    pub fn take_fault(&mut self) -> Option<Error> {
        self.fault.take()
    }

    /// Says that the value at hand holds something odd.
    pub fn note(&mut self, odd: Oddity) {
        self.odd = Some(odd);
    }

    pub fn take_odd(&mut self) -> Option<Oddity> {
        self.odd.take()
    }

    fn send(&mut self, batch: RecordBatch) -> formats::Result<()> {
        let taken = self.outlet.as_mut().is_some_and(|outlet| outlet.send(batch));
        if taken { Ok(()) } else { Err(formats::Error::stopped()) }
    }
}
