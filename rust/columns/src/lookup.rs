//! Rows by database and key.

use std::hash::{BuildHasher, Hasher};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

use arrow_array::{Array, BinaryArray, Int64Array};
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::table::KeyTable;

/// Values below which a second thread does not pay.
const SHARE: usize = 1 << 14;
const MAX_THREADS: usize = 8;

/// Finds rows by database and key. Holds row numbers only; the bytes are compared where they are.
pub struct Lookup {
    rows: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

/// Keys that are spelled in three parts.
pub struct Spelled<'a> {
    /// Database and first part.
    pub prefixes: &'a [(i64, Vec<u8>)],
    pub suffix: &'a [u8],
}

impl Lookup {
    /// Of keys that occur twice in a database (which no server writes) the first is found. A table with more rows than
    /// 32 bits can number is beyond what fits in memory anyway; rows past that are not found.
    pub fn new(table: &KeyTable) -> Self {
        let hasher = DefaultHashBuilder::default();
        let capacity = usize::try_from(table.len().min(u64::from(u32::MAX))).unwrap_or(0);
        let mut rows: HashTable<u32> = HashTable::with_capacity(capacity);
        for (row, (db, key)) in (0..u32::MAX).zip(table.keys()) {
            let known = |&other: &u32| table.key(u64::from(other)) == Some((db, key));
            let rehash = |&other: &u32| match table.key(u64::from(other)) {
                Some((db, key)) => hash(&hasher, db, key),
                None => 0,
            };
            rows.entry(hash(&hasher, db, key), known, rehash).or_insert(row);
        }
        Lookup { rows, hasher }
    }

    /// Row of a key, -1 for none.
    #[inline]
    pub fn find(&self, table: &KeyTable, db: i64, key: &[u8]) -> i64 {
        let same = |&row: &u32| table.key(u64::from(row)) == Some((db, key));
        self.rows.find(hash(&self.hasher, db, key), same).map_or(-1, |&row| i64::from(row))
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
        let mut key = Vec::new();
        let mut find = |(middle, &code): (Option<&[u8]>, &i64)| {
            let prefix = usize::try_from(code).ok().and_then(|code| keys.prefixes.get(code));
            let (Some((db, prefix)), Some(middle)) = (prefix, middle) else { return -1 };
            key.clear();
            for part in [prefix.as_slice(), middle, keys.suffix] {
                key.extend_from_slice(part);
            }
            self.find(table, *db, &key)
        };
        middle.iter().zip(codes).map(&mut find).collect()
    }
}

#[inline]
fn hash(hasher: &DefaultHashBuilder, db: i64, key: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write_i64(db);
    state.write(key);
    state.finish()
}
