//! What is odd about a piece of evidence, counted by kind.

use serde::Serialize;

/// Something odd; `offset` is where it was first seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    pub kind: &'static str,
    pub message: String,
    pub offset: Option<u64>,
    pub count: u64,
}

/// Notes in the order in which their kinds came up first.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Notes(Vec<Note>);

impl Notes {
    /// Counts one more of a kind; the first one gives the message.
    pub fn add(&mut self, kind: &'static str, offset: Option<u64>, message: impl FnOnce() -> String) {
        self.add_many(kind, offset, 1, message);
    }

    pub fn add_many(&mut self, kind: &'static str, offset: Option<u64>, count: u64, message: impl FnOnce() -> String) {
        match self.0.iter_mut().find(|note| note.kind == kind) {
            Some(known) => known.count += count,
            None => self.0.push(Note { kind, message: message(), offset, count }),
        }
    }

    /// A note of its own, also where there is one of the kind.
    pub fn push(&mut self, kind: &'static str, offset: Option<u64>, count: u64, message: String) {
        self.0.push(Note { kind, message, offset, count });
    }

    pub fn iter(&self) -> impl Iterator<Item = &Note> {
        self.0.iter()
    }
}
