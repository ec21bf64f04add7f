//! What a snapshot consists of.

use crate::kind::{Encoding, Kind, MetaClass, ModuleId};

/// One item of a file. Bytes are borrowed from the walker until its next step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Item<'a> {
    /// A fact about the file, e.g. `ctime`.
    Aux {
        name: &'a [u8],
        value: &'a [u8],
    },
    /// What a module stores beside the keys; `when` is 1 before and 2 after them.
    ModuleAux {
        id: ModuleId,
        when: u64,
        items: u64,
        bytes: u64,
    },
    Function(Function<'a>),
    SelectDb(u64),
    /// Sizes that the writer announces for the database; hints only.
    ResizeDb {
        keys: u64,
        expires: u64,
    },
    /// The keys that follow are in this cluster slot.
    SlotInfo {
        slot: u64,
        keys: u64,
        expires: u64,
    },
    /// A slot migration under way (Valkey).
    SlotImport {
        job: &'a [u8],
        ranges: u64,
    },
    /// Field names that hashes refer to (Redis 8.10).
    HashTemplate {
        id: u64,
        fields: u64,
    },
    /// An opcode of a fork; `value` is the number that came with it.
    Vendor {
        opcode: u8,
        value: u64,
    },
    Key(KeyEntry<'a>),
    /// The end of the snapshot. Bytes behind it are not looked at: see [`Walker::behind`](crate::Walker::behind).
    End(Checksum),
}

/// A library of server-side functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// From the first line of the source, or stored beside it by release candidates.
    pub name: Option<&'a [u8]>,
    pub engine: Option<&'a [u8]>,
    pub source: &'a [u8],
    /// Stored in the form of the 7.0 release candidates, which servers refuse.
    pub pre_release: bool,
}

impl<'a> Function<'a> {
    /// Engine and name stand in the first line: `#!<engine> name=<library>`.
    pub fn of_source(source: &'a [u8]) -> Self {
        let line = source.strip_prefix(b"#!").and_then(|rest| rest.split(|&b| b == b'\n').next()).unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let engine = words.next();
        let name = words.find_map(|word| word.strip_prefix(b"name="));
        Function { name, engine, source, pre_release: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Stored and right.
    Ok(u64),
    /// Versions before 5 have none.
    Absent,
    /// Stored 0: the writer was told to compute none.
    Disabled,
    Mismatch {
        stored: u64,
        computed: u64,
    },
    /// The input does not keep one.
    NotComputed {
        stored: u64,
    },
}

/// A key and where its value is.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyEntry<'a> {
    pub db: u64,
    pub key: &'a [u8],
    pub rdb_type: u8,
    pub kind: Kind,
    pub encoding: Encoding,
    /// Unix ms.
    pub expire_at_ms: Option<i64>,
    /// Seconds since the last access, at the time of the save.
    pub lru_idle_s: Option<u64>,
    /// Logarithmic access counter.
    pub lfu_freq: Option<u8>,
    /// Cluster slot, where the file says it.
    pub slot: Option<u64>,
    /// Offset of the first byte of the entry: of its first modifier, or of the type.
    pub entry_offset: u64,
    /// Offset of the value: where [`decode`](crate::decode) starts.
    pub value_offset: u64,
    /// Offset after the value; that of the value itself while it has not been passed over.
    pub end_offset: u64,
    /// Elements of a collection, where that can be told without decoding; strings have none.
    pub elements: Option<u64>,
    pub module: Option<ModuleId>,
    /// Classes of metadata that modules keep beside this key (Redis 8.6).
    pub key_meta: &'a [MetaClass],
}
