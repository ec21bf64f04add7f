//! Who moved what when: every change of what a key's structure holds, as the commands make it.

use std::collections::HashMap;

use jobsleuth_formats::{Kind, Result};

use crate::value::{Bytes, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A member entered a list, set or sorted set.
    Added,
    Removed,
    /// A key came into being.
    Created,
    Deleted,
}

impl Change {
    pub fn as_str(self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Created => "created",
            Change::Deleted => "deleted",
        }
    }
}

/// One change.
#[derive(Clone, Copy, Debug)]
pub struct Move<'a> {
    pub db: u64,
    pub key: &'a [u8],
    pub kind: Kind,
    /// `None`: the change is one of the key itself.
    pub member: Option<&'a [u8]>,
    pub change: Change,
    pub cause: &'a Cause,
}

/// The command that made a change.
#[derive(Clone, Debug, Default)]
pub struct Cause {
    /// In capitals.
    pub command: Vec<u8>,
    /// The last time noted before it, in Unix ms.
    pub at_ms: Option<i64>,
    /// Which file, and where in it the command starts.
    pub part: u16,
    pub offset: u64,
    /// Number of the command, from 0.
    pub step: u64,
    /// Number of the transaction, from 1; 0: none.
    pub transaction: u64,
}

/// Takes the changes.
pub trait Witness {
    /// # Errors
    /// Ends the replay.
    fn saw(&mut self, change: &Move<'_>) -> Result<()>;

    /// There are no more.
    ///
    /// # Errors
    /// Ends the replay.
    fn dismissed(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Keys that are gone, with what little is kept of them.
#[derive(Default)]
pub struct Graves {
    graves: HashMap<(u64, Bytes), (Kind, Option<Value>)>,
    /// Values kept for each form of name.
    by_shape: HashMap<Vec<u8>, u32>,
    bytes: usize,
}

/// Of keys that are named alike only some values are kept, small ones, up to a sum.
const VALUES_OF_A_SHAPE: u32 = 16;
const VALUE_BYTES: usize = 4 << 10;
const ALL_BYTES: usize = 64 << 20;

impl Graves {
    pub fn bury(&mut self, db: u64, key: &[u8], value: &Value) {
        let kind = value.kind();
        let size = value.bytes();
        let kept = self.graves.get(&(db, key.into())).is_some_and(|(_, value)| value.is_some());
        let wanted = size <= VALUE_BYTES && (kept || self.room_for(key, size));
        self.graves.insert((db, key.into()), (kind, wanted.then(|| value.clone())));
    }

    fn room_for(&mut self, key: &[u8], size: usize) -> bool {
        let shape = shape(key);
        let of_shape = self.by_shape.entry(shape).or_default();
        let room = *of_shape < VALUES_OF_A_SHAPE && self.bytes.saturating_add(size) <= ALL_BYTES;
        if room {
            *of_shape += 1;
            self.bytes += size;
        }
        room
    }

    /// Database, name, kind, and the last value where it was kept.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8], Kind, Option<&Value>)> {
        self.graves.iter().map(|((db, key), (kind, value))| (*db, &**key, *kind, value.as_ref()))
    }
}

/// A name with its numbers and hexadecimal runs taken out: `bull:q:17` and `bull:q:18` have one shape.
fn shape(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len());
    for run in key.chunk_by(|a, b| a.is_ascii_hexdigit() == b.is_ascii_hexdigit()) {
        if run.iter().any(u8::is_ascii_digit) || (run.len() >= 8 && run.iter().all(u8::is_ascii_hexdigit)) {
            out.push(b'#');
        } else {
            out.extend_from_slice(run);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of jobs fall together, names of structures don't.
    #[test]
    fn shapes() {
        assert_eq!(shape(b"bull:emails:17"), shape(b"bull:emails:4711"));
        assert_eq!(
            shape(b"asynq:{q}:t:0d9b3a34-6f4e-4d9b-8b1f-3d4f5a6b7c8d"),
            shape(b"asynq:{q}:t:ffffffff-1111-2222-3333-444444444444")
        );
        assert_ne!(shape(b"bull:emails:meta"), shape(b"bull:emails:wait"));
    }

    /// Of many keys of one shape only some values stay, and every name.
    #[test]
    fn few_values_are_kept() {
        let mut graves = Graves::default();
        for n in 0..1000 {
            graves.bury(0, format!("q:{n}").as_bytes(), &Value::String(b"x".to_vec()));
        }
        graves.bury(0, b"q:meta", &Value::String(b"y".to_vec()));
        assert_eq!(graves.iter().count(), 1001);
        assert_eq!(graves.iter().filter(|grave| grave.3.is_some()).count(), 17);
    }
}
