//! Rows by database and key.
//!
//! A table of its own making, because the time goes into waiting for memory: half a hash beside each row keeps wrong
//! rows from being looked at, and keys are sought in blocks, step by step, so that many waits overlap.

use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

use arrow_array::{Array, BinaryArray, Int64Array};
use hashbrown::DefaultHashBuilder;

use crate::table::KeyTable;

/// Values below which a second thread does not pay.
const SHARE: usize = 1 << 14;
const MAX_THREADS: usize = 8;
/// Keys sought at once.
const BLOCK: usize = 64;

/// Finds rows by database and key. Holds row numbers only; the bytes are compared where they are.
pub struct Lookup {
    /// Open addressing: half of the key's hash above, the number of the row and one below; 0: free. Three quarters are
    /// taken.
    slots: Vec<u64>,
    hasher: DefaultHashBuilder,
}

/// Keys that are spelled in three parts.
pub struct Spelled<'a> {
    /// Database and first part.
    pub prefixes: &'a [(i64, Vec<u8>)],
    pub suffix: &'a [u8],
}

/// The half of a hash that stands beside the row.
const TAG: u64 = !(u32::MAX as u64);

/// Where among so many slots the search for a key starts: by the half of the hash that is no tag.
#[inline]
fn start(hash: u64, slots: usize) -> usize {
    ((u128::from(hash << 32) * slots as u128) >> 64) as usize
}

/// A key that is sought.
#[derive(Clone, Copy, Default)]
struct Sought {
    hash: u64,
    db: i64,
    /// Where the bytes of the key end in the block's.
    end: usize,
    known: bool,
}

impl Lookup {
    /// Of keys that occur twice in a database (which no server writes) the first is found. A table with more rows than
    /// 32 bits can number is beyond what fits in memory anyway; rows past that are not found.
    pub fn new(table: &KeyTable) -> Self {
        let rows = usize::try_from(table.len().min(u64::from(u32::MAX) - 1)).unwrap_or(0);
        let size = rows.saturating_add(rows / 3) + 1;
        let mut lookup = Lookup { slots: vec![0; size], hasher: DefaultHashBuilder::default() };
        for (number, (db, key)) in (1..u32::MAX).zip(table.keys()) {
            let hash = lookup.hash(db, key);
            if let Err(free) = lookup.seek(table, hash, db, key)
                && let Some(slot) = lookup.slots.get_mut(free)
            {
                *slot = hash & TAG | u64::from(number);
            }
        }
        lookup
    }

    #[inline]
    fn hash(&self, db: i64, key: &[u8]) -> u64 {
        let mut state = self.hasher.build_hasher();
        state.write_i64(db);
        state.write(key);
        state.finish()
    }

    /// The row of a key, or the slot where it would be.
    #[inline]
    fn seek(&self, table: &KeyTable, hash: u64, db: i64, key: &[u8]) -> Result<u64, usize> {
        let mut at = start(hash, self.slots.len());
        loop {
            match self.slots.get(at) {
                None | Some(0) => return Err(at),
                Some(&slot) if (slot ^ hash) & TAG == 0 => {
                    let row = (slot & !TAG) - 1;
                    if table.key(row) == Some((db, key)) {
                        return Ok(row);
                    }
                }
                Some(_) => {}
            }
            at = if at + 1 < self.slots.len() { at + 1 } else { 0 };
        }
    }

    /// Looks at the memory that the search will want: asked for all at once, it comes sooner than one after the other.
    fn touch(&self, table: &KeyTable, block: &[Sought]) {
        let mut rows = [0; BLOCK];
        for (row, sought) in rows.iter_mut().zip(block) {
            let slot = self.slots.get(start(sought.hash, self.slots.len())).copied().unwrap_or(0);
            *row = if (slot ^ sought.hash) & TAG == 0 { (slot & !TAG).saturating_sub(1) } else { 0 };
        }
        let first = |&row: &u64| table.key(row).and_then(|(_, key)| key.first().copied()).map_or(0, usize::from);
        black_box(rows.iter().map(first).sum::<usize>());
    }

    /// Rows of the keys `prefixes[code] + middle + suffix`, -1 where there is none. `codes` are those of all chunks.
    pub fn find_all(
        &self,
        table: &KeyTable,
        keys: &Spelled<'_>,
        codes: &[i64],
        middles: &[BinaryArray],
    ) -> Vec<Int64Array> {
        let mut left = codes;
        let mut found = Vec::with_capacity(middles.len());
        for middle in middles {
            let (these, others) = left.split_at_checked(middle.len()).unwrap_or_default();
            left = others;
            found.push(self.find_chunk(table, keys, these, middle));
        }
        found
    }

    fn find_chunk(&self, table: &KeyTable, keys: &Spelled<'_>, codes: &[i64], middle: &BinaryArray) -> Int64Array {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
        let share = codes.len().div_ceil(threads).max(SHARE);
        if codes.len() <= share {
            return self.find_some(table, keys, codes, middle).into();
        }
        let parts: Vec<Vec<i64>> = thread::scope(|scope| {
            let starts = (0..codes.len()).step_by(share);
            let parts = codes.chunks(share).zip(starts).map(|(codes, start)| (codes, middle.slice(start, codes.len())));
            let running: Vec<_> =
                parts.map(|(codes, part)| scope.spawn(move || self.find_some(table, keys, codes, &part))).collect();
            running.into_iter().map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        parts.concat().into()
    }

    fn find_some(&self, table: &KeyTable, keys: &Spelled<'_>, codes: &[i64], middle: &BinaryArray) -> Vec<i64> {
        let mut found = Vec::with_capacity(codes.len());
        let mut values = middle.iter();
        let mut bytes = Vec::new();
        let mut block = [Sought::default(); BLOCK];
        for codes in codes.chunks(BLOCK) {
            bytes.clear();
            for (sought, (&code, middle)) in block.iter_mut().zip(codes.iter().zip(&mut values)) {
                *sought = Sought::default();
                let prefix = usize::try_from(code).ok().and_then(|code| keys.prefixes.get(code));
                let start = bytes.len();
                if let (Some((db, prefix)), Some(middle)) = (prefix, middle) {
                    for part in [prefix.as_slice(), middle, keys.suffix] {
                        bytes.extend_from_slice(part);
                    }
                    (sought.db, sought.known) = (*db, true);
                    sought.hash = self.hash(*db, bytes.get(start..).unwrap_or_default());
                }
                sought.end = bytes.len();
            }
            let block = block.get(..codes.len()).unwrap_or_default();
            self.touch(table, block);
            let mut begin = 0;
            for sought in block {
                let key = bytes.get(begin..sought.end).unwrap_or_default();
                begin = sought.end;
                let row = sought.known.then(|| self.seek(table, sought.hash, sought.db, key).ok()).flatten();
                found.push(row.map_or(-1, |row| row as i64));
            }
        }
        found
    }
}
