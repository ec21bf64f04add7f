//! Which keys have been written, and where each of them stood in the evidence.

use std::collections::HashMap;
use std::io::{Seek, Write};
use std::ops::Range;

use jobsleuth_formats::{Encoding, Result};

use crate::writer::Writer;

/// Where a key stood, and how the evidence says it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub offset: u64,
    pub nbytes: u64,
    pub encoding: Option<Encoding>,
}

/// One row per key written, in the order of the file. A key that comes again replaces the earlier one.
#[derive(Debug, Default)]
pub struct Ledger {
    rows: Vec<Row>,
    by_key: HashMap<(u64, Box<[u8]>), usize>,
    keys: u64,
    /// Keys that came again.
    pub replaced: u64,
}

#[derive(Debug)]
struct Row {
    origin: Origin,
    place: Range<u64>,
    hidden: bool,
}

impl Ledger {
    /// Takes a key that has been written at `place`.
    ///
    /// # Errors
    /// Those of writing: an earlier entry of the key is hidden.
    pub fn enter<W: Write + Seek>(
        &mut self,
        writer: &mut Writer<W>,
        db: u64,
        key: &[u8],
        place: Range<u64>,
        origin: Origin,
    ) -> Result<()> {
        let row = self.rows.len();
        self.rows.push(Row { origin, place, hidden: false });
        self.keys += 1;
        if let Some(earlier) = self.by_key.insert((db, key.into()), row) {
            self.replaced += 1;
            self.keys -= 1;
            if let Some(row) = self.rows.get_mut(earlier) {
                row.hidden = true;
                writer.hide(row.place.clone())?;
            }
        }
        Ok(())
    }

    /// Keys that are there.
    pub fn len(&self) -> u64 {
        self.keys
    }

    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// The origin of every key that is there, in the order of the file.
    pub fn origins(&self) -> impl Iterator<Item = Origin> {
        self.rows.iter().filter(|row| !row.hidden).map(|row| row.origin)
    }

    /// Gives back what only the writing needed.
    #[must_use]
    pub fn closed(mut self) -> Self {
        self.rows.retain(|row| !row.hidden);
        self.by_key = HashMap::new();
        self
    }
}
