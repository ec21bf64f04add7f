//! What can be wrong with a file, and where.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::kind::Kind;

/// `Result` of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault with its place. One word wide, so that the results of hot functions stay small; the facts are reached by
/// dereferencing (`error.offset`, `error.kind`).
pub struct Error(Box<Fault>);

/// The facts of an [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Fault {
    /// Byte offset in the evidence where the fault was seen. Inside a compressed value: where that value starts.
    pub offset: u64,
    /// The key being read, if there was one.
    pub key: Option<Vec<u8>>,
    /// What the value of that key is, if that was known already.
    pub value: Option<Kind>,
    pub kind: ErrorKind,
}

#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not an RDB file; what it looks like instead, if that is known.
    NotRdb(Option<&'static str>),
    /// No byte at all.
    Empty,
    /// A version that no release known to this reader writes.
    UnsupportedVersion {
        magic: String,
        version: u32,
    },
    /// The input ends before what must follow.
    Truncated {
        needed: u64,
    },
    /// Bytes that no writer produces.
    Corrupt(Cow<'static, str>),
    /// Legal, but nothing that can be read without its module or fork.
    Unsupported(Cow<'static, str>),
    UnknownType(u8),
    UnknownOpcode(u8),
    /// A policy cap (see `Limits`) would be passed.
    Limit {
        what: &'static str,
        asked: u64,
        cap: u64,
    },
    /// The stored CRC-64 is not that of the bytes.
    Checksum {
        stored: u64,
        computed: u64,
    },
    Io(std::io::Error),
    /// A visitor asked to stop; nothing is wrong.
    Stopped,
}

impl Error {
    #[cold]
    pub fn new(offset: u64, kind: ErrorKind) -> Self {
        Self(Box::new(Fault { offset, key: None, value: None, kind }))
    }

    #[cold]
    pub fn corrupt(offset: u64, what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(offset, ErrorKind::Corrupt(what.into()))
    }

    #[cold]
    pub fn truncated(offset: u64, needed: u64) -> Self {
        Self::new(offset, ErrorKind::Truncated { needed })
    }

    /// For a visitor that has seen enough.
    #[cold]
    pub fn stopped() -> Self {
        Self::new(0, ErrorKind::Stopped)
    }

    /// Only what is wrong, without the place.
    #[must_use]
    pub fn into_kind(self) -> ErrorKind {
        self.0.kind
    }

    /// Names the key whose entry holds the fault, unless one is named already.
    #[cold]
    #[must_use]
    pub fn in_key(mut self, key: &[u8], value: Option<Kind>) -> Self {
        if self.key.is_none() {
            self.key = Some(key.to_vec());
            self.value = value;
        }
        self
    }

    /// The message without its place, for where that is told apart from it.
    pub fn message(&self) -> String {
        let mut message = self.to_string();
        let place = format!(" (at byte {})", self.offset);
        if message.ends_with(&place) {
            message.truncate(message.len() - place.len());
        }
        message
    }
}

impl Deref for Error {
    type Target = Fault;
    fn deref(&self) -> &Fault {
        &self.0
    }
}

impl DerefMut for Error {
    fn deref_mut(&mut self) -> &mut Fault {
        &mut self.0
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(0, ErrorKind::Io(error))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// Longest part of a key that a message repeats.
const SHOWN: usize = 80;

/// Bytes as one line of printable ASCII: everything else as `\xNN`, so that a key cannot forge a message.
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for &b in self.0.iter().take(SHOWN) {
            match b {
                b'"' | b'\\' => write!(f, "\\{}", b as char)?,
                0x20..=0x7e => write!(f, "{}", b as char)?,
                _ => write!(f, "\\x{b:02x}")?,
            }
        }
        f.write_str(if self.0.len() > SHOWN { "…\"" } else { "\"" })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = Place(self);
        match &self.kind {
            ErrorKind::NotRdb(None) => f.write_str("not an RDB file: it does not start with REDIS or VALKEY"),
            ErrorKind::NotRdb(Some(other)) => write!(f, "not an RDB file: it looks like {other}"),
            ErrorKind::Empty => f.write_str("the file is empty"),
            ErrorKind::UnsupportedVersion { magic, version } => {
                write!(f, "{} is RDB version {version}, which this reader does not know", Shown(magic.as_bytes()))
            }
            ErrorKind::Truncated { needed } => {
                let s = if *needed == 1 { "" } else { "s" };
                match place.of_value() {
                    Some(value) => write!(f, "cut short: {value} needs {needed} more byte{s}")?,
                    None => write!(f, "cut short: {needed} more byte{s} needed")?,
                }
                write!(f, " (at byte {})", self.offset)
            }
            ErrorKind::Corrupt(what) => write!(f, "damaged: {what}{place}"),
            ErrorKind::Unsupported(what) => write!(f, "cannot be read: {what}{place}"),
            ErrorKind::UnknownType(byte) => write!(f, "unknown value type {byte}{place}"),
            ErrorKind::UnknownOpcode(byte) => write!(f, "unknown opcode {byte}{place}"),
            ErrorKind::Limit { what, asked, cap } => {
                write!(f, "over the limit: {what} of {asked} bytes, at most {cap} are allowed{place}")
            }
            ErrorKind::Checksum { stored, computed } => {
                write!(f, "wrong checksum: stored {stored:016x}, computed {computed:016x}{place}")
            }
            ErrorKind::Io(error) => write!(f, "{}", error.to_string().escape_debug()),
            ErrorKind::Stopped => f.write_str("stopped on request"),
        }
    }
}

struct Place<'a>(&'a Error);

impl Place<'_> {
    fn of_value(&self) -> Option<String> {
        let key = self.0.key.as_deref()?;
        Some(match self.0.value {
            Some(kind) => format!("the value of key {} ({})", Shown(key), kind.as_str()),
            None => format!("key {}", Shown(key)),
        })
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of_value() {
            Some(value) => write!(f, " in {value} (at byte {})", self.0.offset),
            None => write!(f, " (at byte {})", self.0.offset),
        }
    }
}
