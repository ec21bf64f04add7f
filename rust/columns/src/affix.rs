//! Which of many prefixes or suffixes a value has, and values without them.

use std::cmp::Ordering;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{Array, BinaryArray, Int32Array};

/// A set of prefixes, sorted so that one binary search finds the longest that fits.
///
/// All entries between a prefix of a value and the value itself begin with that prefix. So the greatest entry that is
/// not above the value either is the answer or has the answer among the entries that are its own prefixes.
pub struct Prefixes {
    /// What all entries begin with; looked at once, so that the heads tell entries apart.
    common: Vec<u8>,
    entries: Vec<Entry>,
    /// First eight bytes of each entry behind `common`.
    heads: Vec<u64>,
}

struct Entry {
    /// The bytes behind `common`.
    rest: Vec<u8>,
    /// Position in the list that the caller gave.
    index: i32,
    /// The longest other entry that this one begins with.
    parent: Option<usize>,
}

impl Prefixes {
    pub fn new<'a>(prefixes: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut all: Vec<(&[u8], i32)> = prefixes.into_iter().zip(0..).collect();
        all.sort_unstable();
        all.dedup_by(|later, earlier| later.0 == earlier.0);
        let common = match (all.first(), all.last()) {
            (Some((first, _)), Some((last, _))) => first.get(..shared(first, last)).unwrap_or_default().to_vec(),
            _ => Vec::new(),
        };
        let mut entries: Vec<Entry> = Vec::with_capacity(all.len());
        let mut open: Vec<usize> = Vec::new();
        for (at, (bytes, index)) in all.into_iter().enumerate() {
            let rest = bytes.get(common.len()..).unwrap_or_default().to_vec();
            while open.last().and_then(|&o| entries.get(o)).is_some_and(|entry| !rest.starts_with(&entry.rest)) {
                open.pop();
            }
            let parent = open.last().copied();
            open.push(at);
            entries.push(Entry { rest, index, parent });
        }
        let heads = entries.iter().map(|entry| head(&entry.rest)).collect();
        Prefixes { common, entries, heads }
    }

    /// Position of the longest prefix that `value` begins with, -1 for none.
    pub fn find(&self, value: &[u8]) -> i32 {
        let Some(value) = value.strip_prefix(self.common.as_slice()) else { return -1 };
        let key = head(value);
        let above = self.heads.partition_point(|&h| h < key);
        let ties = self.heads.get(above..).unwrap_or_default().partition_point(|&h| h == key);
        let tied = self.entries.get(above..above + ties).unwrap_or_default();
        let end = above + tied.partition_point(|entry| entry.rest.as_slice().cmp(value) != Ordering::Greater);
        let mut at = end.checked_sub(1);
        let Some(entry) = at.and_then(|at| self.entries.get(at)) else { return -1 };
        let fits = shared(&entry.rest, value);
        while let Some(entry) = at.and_then(|at| self.entries.get(at)) {
            if entry.rest.len() <= fits {
                return entry.index;
            }
            at = entry.parent;
        }
        -1
    }
}

fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut padded = [0; 8];
            for (to, from) in padded.iter_mut().zip(bytes) {
                *to = *from;
            }
            u64::from_be_bytes(padded)
        }
    }
}

/// Length of what two byte strings have in common at their start.
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Per value the position of the longest prefix that it begins with, -1 for none (and for null).
pub fn find_prefix(values: &BinaryArray, prefixes: &Prefixes) -> Int32Array {
    values.iter().map(|value| Some(value.map_or(-1, |bytes| prefixes.find(bytes)))).collect()
}

/// Suffixes as prefixes of what is read backwards.
pub struct Suffixes {
    reversed: Prefixes,
    longest: usize,
    /// Bytes that some suffix ends with: most values are settled by their last one.
    last: [bool; 256],
    has_empty: bool,
}

impl Suffixes {
    pub fn new<'a>(suffixes: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let reversed: Vec<Vec<u8>> = suffixes.into_iter().map(|s| s.iter().rev().copied().collect()).collect();
        let mut last = [false; 256];
        for first in reversed.iter().filter_map(|suffix| suffix.first()) {
            if let Some(seen) = last.get_mut(usize::from(*first)) {
                *seen = true;
            }
        }
        Suffixes {
            longest: reversed.iter().map(Vec::len).max().unwrap_or(0),
            has_empty: reversed.iter().any(Vec::is_empty),
            reversed: Prefixes::new(reversed.iter().map(Vec::as_slice)),
            last,
        }
    }

    /// Position of the longest suffix that `value` ends with, -1 for none. `scratch` is for its use.
    pub fn find(&self, value: &[u8], scratch: &mut Vec<u8>) -> i32 {
        let possible = value.last().and_then(|&byte| self.last.get(usize::from(byte)).copied()).unwrap_or(false);
        if !possible && !self.has_empty {
            return -1;
        }
        scratch.clear();
        scratch.extend(value.iter().rev().take(self.longest));
        self.reversed.find(scratch)
    }
}

/// Per value the position of the longest suffix that it ends with, -1 for none (and for null).
pub fn find_suffix(values: &BinaryArray, suffixes: &Suffixes) -> Int32Array {
    let mut scratch = Vec::new();
    values.iter().map(|value| Some(value.map_or(-1, |bytes| suffixes.find(bytes, &mut scratch)))).collect()
}

/// Each value without its first `head` and last `tail` bytes; empty where that is more than it has.
///
/// `head` and `tail` are for these values, in order; a negative count cuts nothing.
pub fn cut(values: &BinaryArray, head: &[i64], tail: &[i64]) -> BinaryArray {
    let mut out = BinaryBuilder::with_capacity(values.len(), values.value_data().len());
    for (value, (&head, &tail)) in values.iter().zip(head.iter().zip(tail)) {
        match value {
            None => out.append_null(),
            Some(bytes) => {
                let start = usize::try_from(head).unwrap_or(if head < 0 { 0 } else { usize::MAX });
                let less = usize::try_from(tail).unwrap_or(if tail < 0 { 0 } else { usize::MAX });
                let end = bytes.len().saturating_sub(less);
                out.append_value(bytes.get(start..end).unwrap_or_default());
            }
        }
    }
    out.finish()
}
