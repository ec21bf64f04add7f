//! What a value cannot be read without: whose format it is, the templates seen so far, the caps.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::header::Family;

/// Caps of policy, not of the format.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest single string, expanded. Redis lets a client set 512 MB with stock settings.
    pub max_value_bytes: u64,
    /// A value may yield this many bytes for each byte it takes in the file (plus 64 KiB). Only streams and
    /// templated hashes come near: there a field name is stored once and yielded with every entry.
    pub max_expansion: u64,
    /// All field names of hash templates together; they stay in memory for the whole file.
    pub max_template_bytes: u64,
    /// Read on when the header names a version above the newest known.
    pub allow_newer: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_value_bytes: 512 << 20, max_expansion: 1000, max_template_bytes: 256 << 20, allow_newer: false }
    }
}

impl Limits {
    /// Largest item that a window over the file must hold: two strings that stock settings allow (a field and its
    /// value), or one that the user allows.
    pub fn window(&self) -> usize {
        const STOCK: usize = 1 << 30;
        usize::try_from(self.max_value_bytes).unwrap_or(usize::MAX).max(STOCK)
    }
}

/// Everything [`decode`](crate::decode) needs besides the bytes; cheap to clone and to send to other threads.
#[derive(Clone, Debug)]
pub struct Context {
    pub family: Family,
    pub version: u32,
    pub templates: Arc<Templates>,
    pub limits: Limits,
}

impl Context {
    pub fn new(family: Family, version: u32, limits: Limits) -> Self {
        Context { family, version, templates: Arc::default(), limits }
    }

    /// Before version 8 every length byte `10xxxxxx` announced 32 bits.
    pub(crate) fn old_lengths(&self) -> bool {
        self.version < 8
    }
}

/// Field names of the hash templates of a file (Redis 8.10), by id. Servers write them in no order of ids.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    names: Vec<u8>,
    /// End of each name in `names`.
    ends: Vec<usize>,
    /// Place of each template in `ends`.
    spans: BTreeMap<u64, Range<usize>>,
}

/// A registry larger than this is refused: no server shares so many field sets.
const MAX_TEMPLATES: usize = 1 << 21;

impl Templates {
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Number of fields of a template.
    pub fn field_count(&self, id: u64) -> Option<usize> {
        self.spans.get(&id).map(Range::len)
    }

    /// Field names of a template, in the order in which its values are stored.
    pub fn fields(&self, id: u64) -> Option<impl ExactSizeIterator<Item = &[u8]>> {
        let span = self.spans.get(&id)?;
        let first = span.start;
        Some(self.ends.get(span.clone())?.iter().enumerate().map(move |(i, &end)| {
            let before = (first + i).checked_sub(1);
            let start = before.and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
            self.names.get(start..end).unwrap_or_default()
        }))
    }

    /// Adds a field to the template that `end_template` will close.
    pub(crate) fn add_name(&mut self, name: &[u8], limits: &Limits, offset: u64) -> Result<()> {
        // A name costs its place in the list too, so that empty ones cannot be piled up for free.
        let asked = (self.names.len() + name.len() + (self.ends.len() + 1) * size_of::<usize>()) as u64;
        let cap = limits.max_template_bytes;
        if asked > cap {
            return Err(Error::new(offset, ErrorKind::Limit { what: "field names of hash templates", asked, cap }));
        }
        self.names.extend_from_slice(name);
        self.ends.push(self.names.len());
        Ok(())
    }

    /// Closes a template that began when there were `from` names.
    pub(crate) fn end_template(&mut self, id: u64, from: usize, offset: u64) -> Result<()> {
        if self.spans.len() >= MAX_TEMPLATES {
            return Err(Error::corrupt(offset, "more hash templates than any server makes"));
        }
        match self.spans.insert(id, from..self.ends.len()) {
            None => Ok(()),
            Some(_) => Err(Error::corrupt(offset, "two hash templates with one number")),
        }
    }

    pub(crate) fn name_count(&self) -> usize {
        self.ends.len()
    }
}
