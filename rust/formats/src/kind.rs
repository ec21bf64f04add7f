//! Names for what a key holds and how it is stored.

use std::fmt;

use crate::header::Family;

/// What a key holds, as the TYPE command names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    String,
    List,
    Set,
    Zset,
    Hash,
    Stream,
    Array,
    Vectorset,
    Module,
}

impl Kind {
    /// Every kind, at the place that is its code.
    pub const ALL: [Kind; 9] = [
        Kind::String,
        Kind::List,
        Kind::Set,
        Kind::Zset,
        Kind::Hash,
        Kind::Stream,
        Kind::Array,
        Kind::Vectorset,
        Kind::Module,
    ];

    /// A number below the length of [`ALL`](Self::ALL).
    #[inline]
    pub fn code(self) -> u8 {
        self as u8
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Zset => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
            Kind::Array => "array",
            Kind::Vectorset => "vectorset",
            Kind::Module => "module",
        }
    }
}

/// How the value is stored in the file; named as OBJECT ENCODING names the form in memory that it was written from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// A string stored as an integer.
    Int,
    /// A string stored as it reads.
    Raw,
    /// A string stored compressed.
    Lzf,
    LinkedList,
    Quicklist,
    Hashtable,
    Skiplist,
    Zipmap,
    Ziplist,
    Intset,
    Listpack,
    /// A listpack with a time to live for each field.
    ListpackEx,
    Stream,
    SlicedArray,
    TemplateListpack,
    TemplateArray,
    PathHash,
    Module,
    /// Known to exist and passed over.
    Opaque,
}

impl Encoding {
    /// Every encoding, at the place that is its code.
    pub const ALL: [Encoding; 19] = [
        Encoding::Int,
        Encoding::Raw,
        Encoding::Lzf,
        Encoding::LinkedList,
        Encoding::Quicklist,
        Encoding::Hashtable,
        Encoding::Skiplist,
        Encoding::Zipmap,
        Encoding::Ziplist,
        Encoding::Intset,
        Encoding::Listpack,
        Encoding::ListpackEx,
        Encoding::Stream,
        Encoding::SlicedArray,
        Encoding::TemplateListpack,
        Encoding::TemplateArray,
        Encoding::PathHash,
        Encoding::Module,
        Encoding::Opaque,
    ];

    /// A number below the length of [`ALL`](Self::ALL).
    #[inline]
    pub fn code(self) -> u8 {
        self as u8
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Encoding::Int => "int",
            Encoding::Raw => "raw",
            Encoding::Lzf => "lzf",
            Encoding::LinkedList => "linkedlist",
            Encoding::Quicklist => "quicklist",
            Encoding::Hashtable => "hashtable",
            Encoding::Skiplist => "skiplist",
            Encoding::Zipmap => "zipmap",
            Encoding::Ziplist => "ziplist",
            Encoding::Intset => "intset",
            Encoding::Listpack => "listpack",
            Encoding::ListpackEx => "listpackex",
            Encoding::Stream => "stream",
            Encoding::SlicedArray => "sliced-array",
            Encoding::TemplateListpack => "template-listpack",
            Encoding::TemplateArray => "template-array",
            Encoding::PathHash => "pathhash",
            Encoding::Module => "module",
            Encoding::Opaque => "opaque",
        }
    }
}

/// Number of a module type: nine characters and an encoding version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleId(pub u64);

impl ModuleId {
    pub fn version(self) -> u16 {
        (self.0 & 0x3ff) as u16
    }

    /// The nine characters, e.g. `ReJSON-RL`.
    pub fn name(self) -> String {
        (0..9).map(|i| char_of(self.0 >> (58 - 6 * i), ['-', '_'])).collect()
    }

    pub(crate) fn is_vectorset(self) -> bool {
        // "vectorset" in the module alphabet, and version 0: the only layout there is.
        self.0 == 0x2f_79cb_68ae_c7ad << 10
    }
}

impl fmt::Display for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{}", self.name(), self.version())
    }
}

/// A class of metadata that a module keeps beside keys (Redis 8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MetaClass(pub u32);

impl MetaClass {
    pub fn version(self) -> u8 {
        (self.0 >> 3 & 0x1f) as u8
    }

    /// The four characters of its name.
    pub fn name(self) -> String {
        (0..4).map(|i| char_of(u64::from(self.0) >> (26 - 6 * i), ['_', '-'])).collect()
    }
}

fn char_of(bits: u64, last: [char; 2]) -> char {
    let n = (bits & 0x3f) as u8;
    match n {
        0..26 => (b'A' + n) as char,
        26..52 => (b'a' + n - 26) as char,
        52..62 => (b'0' + n - 52) as char,
        62 => last[0],
        _ => last[1],
    }
}

/// The layout of a value: what a type byte means in its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    String,
    List,
    ListZiplist,
    ListZiplists,
    ListNodes,
    Set,
    SetIntset,
    SetListpack,
    ZsetText,
    Zset,
    ZsetZiplist,
    ZsetListpack,
    Hash,
    HashZipmap,
    HashZiplist,
    HashListpack,
    /// Time to live before each field; with an earliest time in front that the others count from, or absolute.
    HashTtl {
        relative: bool,
    },
    HashListpackTtl {
        min: bool,
    },
    /// Time to live after each value (Valkey).
    HashExpiry,
    HashPaths,
    Stream(StreamVersion),
    Array,
    Template {
        packed: bool,
        by_id: bool,
    },
    Module,
    ModulePreRelease,
    /// One length, meaning unknown.
    Reserved,
    KeydbCron,
}

/// Versions of the stream layout, 1 to 5.
pub(crate) type StreamVersion = u8;

impl Shape {
    pub fn of(family: Family, version: u32, rdb_type: u8) -> Option<Self> {
        use Family::{Redis, Valkey};
        Some(match (rdb_type, family) {
            (0, _) => Shape::String,
            (1, _) => Shape::List,
            (2, _) => Shape::Set,
            (3, _) => Shape::ZsetText,
            (4, _) => Shape::Hash,
            (5, _) => Shape::Zset,
            (6, _) => Shape::ModulePreRelease,
            (7, _) => Shape::Module,
            (9, _) => Shape::HashZipmap,
            (10, _) => Shape::ListZiplist,
            (11, _) => Shape::SetIntset,
            (12, _) => Shape::ZsetZiplist,
            (13, _) => Shape::HashZiplist,
            (14, _) => Shape::ListZiplists,
            (15, _) => Shape::Stream(1),
            (16, _) => Shape::HashListpack,
            (17, _) => Shape::ZsetListpack,
            (18, _) => Shape::ListNodes,
            (19, _) => Shape::Stream(2),
            (20, _) => Shape::SetListpack,
            (21, _) => Shape::Stream(3),
            (22, Redis) => Shape::HashTtl { relative: false },
            (22, Valkey) => Shape::HashExpiry,
            (23, Redis) => Shape::HashListpackTtl { min: false },
            (23, Valkey) => Shape::HashPaths,
            (24, Redis) => Shape::HashTtl { relative: true },
            (25, Redis) => Shape::HashListpackTtl { min: true },
            (26, Redis) => Shape::Stream(4),
            (27, Redis) => Shape::Stream(5),
            (28, Redis) => Shape::Array,
            // Below version 15 forks use these numbers for types of their own.
            (29..=33, Redis) if version < 15 => return None,
            (29, Redis) => Shape::Template { packed: true, by_id: false },
            (30, Redis) => Shape::Template { packed: true, by_id: true },
            (31, Redis) => Shape::Template { packed: false, by_id: false },
            (32, Redis) => Shape::Template { packed: false, by_id: true },
            (33, Redis) => Shape::Reserved,
            (64, Redis) => Shape::KeydbCron,
            _ => return None,
        })
    }

    /// Kind and encoding by the type alone: strings and modules say more in their first bytes.
    pub fn names(self) -> (Kind, Encoding) {
        match self {
            Shape::String => (Kind::String, Encoding::Raw),
            Shape::List => (Kind::List, Encoding::LinkedList),
            Shape::ListZiplist => (Kind::List, Encoding::Ziplist),
            Shape::ListZiplists | Shape::ListNodes => (Kind::List, Encoding::Quicklist),
            Shape::Set => (Kind::Set, Encoding::Hashtable),
            Shape::SetIntset => (Kind::Set, Encoding::Intset),
            Shape::SetListpack => (Kind::Set, Encoding::Listpack),
            Shape::ZsetText | Shape::Zset => (Kind::Zset, Encoding::Skiplist),
            Shape::ZsetZiplist => (Kind::Zset, Encoding::Ziplist),
            Shape::ZsetListpack => (Kind::Zset, Encoding::Listpack),
            Shape::Hash | Shape::HashTtl { .. } | Shape::HashExpiry => (Kind::Hash, Encoding::Hashtable),
            Shape::HashZipmap => (Kind::Hash, Encoding::Zipmap),
            Shape::HashZiplist => (Kind::Hash, Encoding::Ziplist),
            Shape::HashListpack => (Kind::Hash, Encoding::Listpack),
            Shape::HashListpackTtl { .. } => (Kind::Hash, Encoding::ListpackEx),
            Shape::HashPaths => (Kind::Hash, Encoding::PathHash),
            Shape::Stream(_) => (Kind::Stream, Encoding::Stream),
            Shape::Array => (Kind::Array, Encoding::SlicedArray),
            Shape::Template { packed: true, .. } => (Kind::Hash, Encoding::TemplateListpack),
            Shape::Template { packed: false, .. } => (Kind::Hash, Encoding::TemplateArray),
            Shape::Module | Shape::ModulePreRelease => (Kind::Module, Encoding::Module),
            Shape::Reserved | Shape::KeydbCron => (Kind::Module, Encoding::Opaque),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and versions that servers with these modules reported for ids in their files.
    #[test]
    fn module_names() {
        let id = |name: &str, version: u64| {
            const SET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
            let bits = name.chars().fold(0u64, |id, c| id << 6 | SET.find(c).unwrap() as u64);
            ModuleId(bits << 10 | version)
        };
        assert_eq!(id("ReJSON-RL", 3).to_string(), "ReJSON-RL v3");
        assert_eq!(id("MBbloom--", 4).to_string(), "MBbloom-- v4");
        assert!(id("vectorset", 0).is_vectorset());
        assert!(!id("vectorset", 1).is_vectorset());
    }

    /// A code is the place in the list of all, which tables of names are made of.
    #[test]
    fn codes_are_places() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(kind.code()), at, "{}", kind.as_str());
        }
        for (at, encoding) in Encoding::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(encoding.code()), at, "{}", encoding.as_str());
        }
    }

    /// The class word of a Redis 8.10 file with a class KMT1 of version 1.
    #[test]
    fn meta_class() {
        let class = MetaClass(u32::from_le_bytes([0x09, 0xf5, 0xc4, 0x28]));
        assert_eq!((class.name().as_str(), class.version()), ("KMT1", 1));
    }
}
