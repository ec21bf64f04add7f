//! Rows by database and key.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::table::KeyTable;

/// Finds rows by database and key. Holds row numbers only; the bytes are compared where they are.
pub struct Lookup {
    rows: HashTable<u32>,
    hasher: DefaultHashBuilder,
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
    pub fn find(&self, table: &KeyTable, db: i64, key: &[u8]) -> i64 {
        let same = |&row: &u32| table.key(u64::from(row)) == Some((db, key));
        self.rows.find(hash(&self.hasher, db, key), same).map_or(-1, |&row| i64::from(row))
    }
}

fn hash(hasher: &DefaultHashBuilder, db: i64, key: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write_i64(db);
    state.write(key);
    state.finish()
}
