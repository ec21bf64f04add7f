//! The nine bytes at the start.

use crate::error::{Error, ErrorKind, Result};
use crate::input::Input;

/// Whose numbering of types and opcodes a file follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Redis, and Valkey up to 8.1, which writes the same format.
    Redis,
    /// Valkey from 9.0.
    Valkey,
}

impl Family {
    pub fn as_str(self) -> &'static str {
        match self {
            Family::Redis => "redis",
            Family::Valkey => "valkey",
        }
    }

    /// DUMP payloads carry a version and no magic: Valkey counts from 80.
    pub fn of_version(version: u32) -> Self {
        if version >= FIRST_VALKEY { Family::Valkey } else { Family::Redis }
    }

    pub fn newest_known(self) -> u32 {
        match self {
            Family::Redis => 15,
            Family::Valkey => 81,
        }
    }
}

const FIRST_VALKEY: u32 = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub family: Family,
    pub version: u32,
    /// The nine bytes as they stand in the file, e.g. `REDIS0012`.
    pub magic: String,
}

const LEN: usize = 9;

impl Header {
    /// Reads and judges the header. `allow_newer` lets versions above the newest known pass.
    pub fn read<I: Input>(input: &mut I, allow_newer: bool) -> Result<Self> {
        let start = input.offset();
        let at = |kind| Error::new(start, kind);
        match input.fill(LEN) {
            Err(error) if !matches!(error.kind, ErrorKind::Truncated { .. }) => return Err(error),
            _ => {}
        }
        let bytes = input.buffered();
        let have = bytes.len().min(LEN);
        let bytes = bytes.get(..have).unwrap_or(bytes);
        if have == 0 {
            return Err(at(ErrorKind::Empty));
        }
        if have < LEN && (b"REDIS".starts_with(bytes) || bytes.starts_with(b"REDIS") || b"VALKEY".starts_with(bytes)) {
            return Err(Error::truncated(start, (LEN - have) as u64));
        }
        let (family, digits) = if let Some(rest) = bytes.strip_prefix(b"REDIS") {
            (Family::Redis, rest)
        } else if let Some(rest) = bytes.strip_prefix(b"VALKEY") {
            (Family::Valkey, rest)
        } else {
            return Err(at(ErrorKind::NotRdb(looks_like(bytes))));
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(Error::corrupt(start, "the version after the magic is no number"));
        }
        let version = digits.iter().fold(0u32, |n, d| n * 10 + u32::from(d - b'0'));
        let magic = String::from_utf8_lossy(bytes).into_owned();
        let known = match family {
            Family::Redis => (1..FIRST_VALKEY).contains(&version),
            Family::Valkey => version >= FIRST_VALKEY,
        };
        if !known || (version > family.newest_known() && !allow_newer) {
            return Err(at(ErrorKind::UnsupportedVersion { magic, version }));
        }
        input.consume(LEN);
        Ok(Header { family, version, magic })
    }
}

/// What a replication stream puts around a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// `$EOF:` and forty characters that stand behind the snapshot again.
    Mark([u8; 40]),
    /// `$` and the length of the snapshot.
    Length(u64),
}

impl Frame {
    /// Passes over the start of a frame, if there is one.
    pub(crate) fn read<I: Input>(input: &mut I) -> Result<Option<Self>> {
        const MARKED: &[u8] = b"$EOF:";
        if input.buffered().is_empty() {
            // Judged by the header: an input that has no byte at all.
            let _ = input.fill(1);
        }
        if input.buffered().first() != Some(&b'$') {
            return Ok(None);
        }
        let have = usize::try_from(input.remaining()).map_or(MARKED.len() + 42, |n| n.min(MARKED.len() + 42));
        input.fill(have)?;
        let bytes = input.buffered();
        let (frame, used) = if let Some(rest) = bytes.strip_prefix(MARKED) {
            match (rest.first_chunk::<40>(), rest.get(40..42)) {
                (Some(&mark), Some(b"\r\n")) => (Frame::Mark(mark), MARKED.len() + 42),
                _ => return Ok(None),
            }
        } else {
            let digits = bytes.iter().skip(1).take_while(|b| b.is_ascii_digit()).count();
            let number = bytes.get(1..1 + digits).and_then(|d| std::str::from_utf8(d).ok()?.parse().ok());
            match (number, bytes.get(1 + digits..3 + digits)) {
                (Some(length), Some(b"\r\n")) => (Frame::Length(length), 3 + digits),
                _ => return Ok(None),
            }
        };
        input.consume(used);
        input.restart_crc();
        Ok(Some(frame))
    }

    /// Passes over the end of the frame.
    pub(crate) fn finish<I: Input>(&self, input: &mut I) -> Result<()> {
        match self {
            Frame::Length(_) => Ok(()),
            Frame::Mark(mark) => match input.take(mark.len()) {
                Ok(found) if found == mark => Ok(()),
                Ok(_) => Err(Error::corrupt(input.offset(), "the end mark of the replication stream is not there")),
                Err(error) => Err(error),
            },
        }
    }
}

fn looks_like(bytes: &[u8]) -> Option<&'static str> {
    const SIGNS: [(&[u8], &str); 9] = [
        (&[0x1f, 0x8b], "gzip: decompress it first"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd: decompress it first"),
        (b"VCS", "a compressed Valkey envelope: decompress it first"),
        (b"*", "an append-only file of commands"),
        (b"$", "a replication stream"),
        (b"{", "JSON"),
        (b"PAR1", "Parquet"),
        (b"PK", "a zip archive"),
        (b"file ", "the manifest of a multi-part append-only file"),
    ];
    SIGNS.iter().find(|(sign, _)| bytes.starts_with(sign)).map(|(_, what)| *what)
}
