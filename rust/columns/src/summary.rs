//! What the index pass learns of a file besides its keys.

use std::collections::BTreeMap;

use jobsleuth_formats::{Checksum, Error, ErrorKind, Header, Kind, ModuleId};
use serde::Serialize;

use crate::text::escaped;

/// Facts about a file, as they go to JSON.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub family: String,
    pub magic: String,
    pub version: u32,
    pub aux: BTreeMap<String, String>,
    pub functions: Vec<FunctionFacts>,
    pub modules: Vec<ModuleFacts>,
    pub databases: BTreeMap<u64, DatabaseFacts>,
    pub counts: Counts,
    pub checksum: ChecksumFacts,
    /// Size of the file.
    pub bytes: u64,
    /// Where the snapshot ends.
    pub end_offset: u64,
    pub trailing_bytes: u64,
    pub warnings: Vec<Warning>,
    pub fault: Option<FaultFacts>,
}

#[derive(Debug, Serialize)]
pub struct FunctionFacts {
    pub name: Option<String>,
    pub engine: Option<String>,
    pub size: u64,
}

#[derive(Debug, Serialize)]
pub struct ModuleFacts {
    pub name: String,
    pub version: u16,
    pub keys: u64,
}

#[derive(Debug, Default, Serialize)]
pub struct DatabaseFacts {
    pub keys: u64,
    pub expires: u64,
    pub hint_keys: Option<u64>,
    pub hint_expires: Option<u64>,
}

#[derive(Debug, Default, Serialize)]
pub struct Counts {
    pub keys: u64,
    pub expires: u64,
    pub functions: u64,
    pub lua_scripts: u64,
    pub module_aux: u64,
    pub hash_templates: u64,
    pub kinds: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
pub struct ChecksumFacts {
    pub status: &'static str,
    /// Sixteen hexadecimal digits.
    pub stored: Option<String>,
    pub computed: Option<String>,
}

impl Default for ChecksumFacts {
    fn default() -> Self {
        ChecksumFacts { status: "unverified", stored: None, computed: None }
    }
}

impl From<Checksum> for ChecksumFacts {
    fn from(checksum: Checksum) -> Self {
        let hex = |n: u64| Some(format!("{n:016x}"));
        let (status, stored, computed) = match checksum {
            Checksum::Ok(both) => ("ok", hex(both), hex(both)),
            Checksum::Absent => ("absent", None, None),
            Checksum::Disabled => ("disabled", hex(0), None),
            Checksum::Mismatch { stored, computed } => ("mismatch", hex(stored), hex(computed)),
            Checksum::NotComputed { stored } => ("unverified", hex(stored), None),
        };
        ChecksumFacts { status, stored, computed }
    }
}

/// Something odd; `offset` is where it was first seen.
#[derive(Clone, Debug, Serialize)]
pub struct Warning {
    pub kind: &'static str,
    pub message: String,
    pub offset: Option<u64>,
    pub count: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct FaultFacts {
    pub kind: &'static str,
    pub message: String,
    pub offset: Option<u64>,
    /// The key whose value is damaged, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl FaultFacts {
    pub fn new(error: &Error) -> Self {
        FaultFacts {
            kind: kind_of(&error.kind),
            message: error.message(),
            offset: offset_of(error),
            key: error.key.as_deref().map(escaped),
        }
    }
}

/// A word for a kind of fault.
pub fn kind_of(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotRdb(_) => "not_rdb",
        ErrorKind::Empty => "empty",
        ErrorKind::UnsupportedVersion { .. } => "unsupported_version",
        ErrorKind::Truncated { .. } => "truncated",
        ErrorKind::Corrupt(_) => "corrupt",
        ErrorKind::Unsupported(_) => "unsupported",
        ErrorKind::UnknownType(_) => "unknown_type",
        ErrorKind::UnknownOpcode(_) => "unknown_opcode",
        ErrorKind::Limit { .. } => "limit",
        ErrorKind::Checksum { .. } => "checksum",
        ErrorKind::Io(_) => "io",
        ErrorKind::Stopped => "stopped",
        _ => "other",
    }
}

/// Bytes before which nothing can be good.
const HEADER: u64 = 9;

/// Whether there is something good before the fault.
pub fn salvageable(error: &Error) -> bool {
    let hopeless = matches!(
        error.kind,
        ErrorKind::NotRdb(_)
            | ErrorKind::Empty
            | ErrorKind::UnsupportedVersion { .. }
            | ErrorKind::Io(_)
            | ErrorKind::Stopped
    );
    !hopeless && error.offset >= HEADER
}

/// The offset, where the kind of fault has one.
pub fn offset_of(error: &Error) -> Option<u64> {
    match error.kind {
        ErrorKind::Io(_) | ErrorKind::Stopped | ErrorKind::Empty => None,
        _ => Some(error.offset),
    }
}

/// Most distinct names that are kept of any one thing: real files have a few dozen.
const MAX_NAMES: usize = 10_000;
/// Longest value that is kept.
const MAX_TEXT: usize = 64 << 10;

impl Summary {
    pub(crate) fn start(header: &Header, bytes: u64) -> Self {
        Summary {
            family: header.family.as_str().to_owned(),
            magic: header.magic.clone(),
            version: header.version,
            bytes,
            ..Summary::default()
        }
    }

    /// Counts something odd.
    pub(crate) fn warn(&mut self, kind: &'static str, offset: u64, message: impl FnOnce() -> String) {
        match self.warnings.iter_mut().find(|warning| warning.kind == kind) {
            Some(known) => known.count += 1,
            None => self.warnings.push(Warning { kind, message: message(), offset: Some(offset), count: 1 }),
        }
    }

    pub(crate) fn learn_aux(&mut self, name: &[u8], value: &[u8], offset: u64) {
        if name == b"lua" {
            self.counts.lua_scripts += 1;
            return;
        }
        let (name, value) = (shortened(name), shortened(value));
        if self.aux.contains_key(&name) {
            self.warn("repeated_aux", offset, || format!("the file says \"{name}\" more than once; the first is kept"));
        } else if self.aux.len() < MAX_NAMES {
            self.aux.insert(name, value);
        } else {
            self.warn("too_many_aux", offset, || format!("more than {MAX_NAMES} facts about the file; not all kept"));
        }
    }

    pub(crate) fn learn_function(&mut self, name: Option<&[u8]>, engine: Option<&[u8]>, size: usize) {
        self.counts.functions += 1;
        if self.functions.len() < MAX_NAMES {
            let (name, engine) = (name.map(shortened), engine.map(shortened));
            self.functions.push(FunctionFacts { name, engine, size: size as u64 });
        }
    }

    pub(crate) fn learn_module(&mut self, id: ModuleId, keys: u64) {
        let (name, version) = (id.name(), id.version());
        if let Some(known) = self.modules.iter_mut().find(|known| known.version == version && known.name == name) {
            known.keys += keys;
        } else if self.modules.len() < MAX_NAMES {
            self.modules.push(ModuleFacts { name, version, keys });
        }
    }

    pub(crate) fn database(&mut self, db: u64) -> Option<&mut DatabaseFacts> {
        if self.databases.len() >= MAX_NAMES && !self.databases.contains_key(&db) {
            return None;
        }
        Some(self.databases.entry(db).or_default())
    }

    /// Counts keys of a database, and of each kind.
    pub(crate) fn count(&mut self, db: u64, keys: u64, expires: u64, kinds: impl IntoIterator<Item = (Kind, u64)>) {
        self.counts.keys += keys;
        self.counts.expires += expires;
        if let Some(database) = self.database(db) {
            database.keys += keys;
            database.expires += expires;
        }
        for (kind, keys) in kinds.into_iter().filter(|&(_, keys)| keys > 0) {
            *self.counts.kinds.entry(kind.as_str()).or_default() += keys;
        }
    }

    pub(crate) fn note(&mut self, kind: &'static str, offset: Option<u64>, count: u64, message: String) {
        self.warnings.push(Warning { kind, message, offset, count });
    }

    pub(crate) fn fail(&mut self, error: &Error) {
        self.fault = Some(FaultFacts::new(error));
    }
}

fn shortened(bytes: &[u8]) -> String {
    match bytes.get(..MAX_TEXT) {
        Some(start) if bytes.len() > MAX_TEXT => escaped(start) + "…",
        _ => escaped(bytes),
    }
}
