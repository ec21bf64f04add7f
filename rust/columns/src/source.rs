//! The values of a file, read at known places.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use jobsleuth_formats::{
    self as formats, At, Context, Decoder, ErrorKind, FileInput, Input, Shown, SliceInput, Visitor,
};

use crate::sink::Oddity;
use crate::summary::FaultFacts;
use crate::table::{KeyTable, Place};
use crate::text::escaped;

/// A file and its keys, for readers in several threads.
#[derive(Debug)]
pub struct Source {
    file: File,
    pub table: KeyTable,
    context: Context,
    salvage: bool,
    faults: Mutex<BTreeMap<(u64, u64), FaultFacts>>,
    odd: Mutex<BTreeMap<(u64, u64, Oddity), FaultFacts>>,
}

/// Most damaged values that are remembered; of more, those that stand first in the file.
const MAX_FAULTS: usize = 10_000;

impl Source {
    pub fn new(file: File, table: KeyTable, context: Context, salvage: bool) -> Self {
        Source { file, table, context, salvage, faults: Mutex::default(), odd: Mutex::default() }
    }

    /// Values that could not be read, in file order.
    pub fn faults(&self) -> Vec<FaultFacts> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Values that were read and hold what no server would load, in file order.
    pub fn oddities(&self) -> Vec<FaultFacts> {
        self.odd.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(crate) fn note(&self, row: u64, place: Place, odd: Oddity) {
        let (kind, sentence) = odd.told();
        let key = self.table.key(row).map(|(_, key)| key).unwrap_or_default();
        let message = format!("{sentence} {}", Shown(key));
        let facts = FaultFacts { kind, message, offset: Some(place.value_offset), key: Some(escaped(key)) };
        let mut found = self.odd.lock().unwrap_or_else(PoisonError::into_inner);
        found.insert((place.value_offset, row, odd), facts);
        if found.len() > MAX_FAULTS {
            found.pop_last();
        }
    }

    /// Decodes the value of a row from bytes that start at its place. In a salvage, damage is noted and what stands
    /// before it in the value is kept.
    pub(crate) fn decode<V: Visitor>(
        &self,
        decoder: &mut Decoder,
        row: u64,
        place: Place,
        bytes: &[u8],
        v: &mut V,
    ) -> formats::Result<()> {
        let mut input = SliceInput::new(bytes, place.value_offset);
        self.settle(decoder.decode(&self.context, place.rdb_type, &mut input, v), row, place, &input)
    }

    /// The same, reading from the file as it goes on: for values that should not be in memory whole.
    pub(crate) fn stream<V: Visitor>(
        &self,
        decoder: &mut Decoder,
        row: u64,
        place: Place,
        v: &mut V,
    ) -> formats::Result<()> {
        let reader = At::new(&self.file, place.value_offset);
        let len = place.end.saturating_sub(place.value_offset);
        let mut input = FileInput::new(reader, len, false)
            .with_base_offset(place.value_offset)
            .with_limit(self.context.limits.window());
        self.settle(decoder.decode(&self.context, place.rdb_type, &mut input, v), row, place, &input)
    }

    fn settle<I: Input>(&self, outcome: formats::Result<()>, row: u64, place: Place, input: &I) -> formats::Result<()> {
        let error = match outcome {
            Ok(()) if input.offset() == place.end => return Ok(()),
            Ok(()) => formats::Error::corrupt(input.offset(), "a value that has changed since the file was indexed"),
            Err(error) => error,
        };
        if matches!(error.kind, ErrorKind::Stopped) {
            return Err(error);
        }
        let mut error = match self.table.key(row) {
            Some((_, key)) => error.in_key(key, Some(place.kind)),
            None => error,
        };
        if error.offset == 0 {
            error.offset = place.value_offset;
        }
        let is_io = matches!(error.kind, ErrorKind::Io(_));
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.insert((place.value_offset, row), FaultFacts::new(&error));
        if faults.len() > MAX_FAULTS {
            faults.pop_last();
        }
        if self.salvage && !is_io { Ok(()) } else { Err(error) }
    }

    /// Fills `out` with the bytes of a stretch of the file.
    pub(crate) fn read(&self, offset: u64, len: usize, out: &mut Vec<u8>) -> formats::Result<()> {
        out.resize(len, 0);
        let mut reader = At::new(&self.file, offset);
        reader.read_exact(out).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                formats::Error::truncated(reader.offset(), offset + len as u64 - reader.offset())
            }
            _ => formats::Error::new(offset, ErrorKind::Io(error)),
        })
    }
}
