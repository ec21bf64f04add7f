//! What a value cannot be read without: whose format it is, the templates seen so far, the caps.

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

/// Field names of the hash templates of a file (Redis 8.10), by id.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    names: Vec<u8>,
    /// End of each name in `names`.
    ends: Vec<usize>,
    /// End of each template in `ends`.
    templates: Vec<usize>,
}

/// A registry larger than this is refused: no server shares so many field sets.
const MAX_TEMPLATES: usize = 1 << 21;

impl Templates {
    pub fn len(&self) -> usize {
        self.templates.len()
    }

    pub fn is_empty(&self) -> bool {
        self.templates.is_empty()
    }

    /// Number of fields of a template.
    pub fn field_count(&self, id: u64) -> Option<usize> {
        let (from, to) = self.span(id)?;
        to.checked_sub(from)
    }

    /// Field names of a template, in the order in which its values are stored.
    pub fn fields(&self, id: u64) -> Option<impl ExactSizeIterator<Item = &[u8]>> {
        let (from, to) = self.span(id)?;
        Some(self.ends.get(from..to)?.iter().enumerate().map(move |(i, &end)| {
            let at = from + i;
            let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
            self.names.get(start..end).unwrap_or_default()
        }))
    }

    fn span(&self, id: u64) -> Option<(usize, usize)> {
        let id = usize::try_from(id).ok()?;
        let to = *self.templates.get(id)?;
        let from = id.checked_sub(1).and_then(|before| self.templates.get(before)).copied().unwrap_or(0);
        Some((from, to))
    }

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

    pub(crate) fn end_template(&mut self, offset: u64) -> Result<()> {
        if self.templates.len() >= MAX_TEMPLATES {
            return Err(Error::corrupt(offset, "more hash templates than any server makes"));
        }
        self.templates.push(self.ends.len());
        Ok(())
    }
}
