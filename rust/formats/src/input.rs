//! Where bytes come from: a piece of the evidence in memory, or a file read through a window.

use std::io::{self, Read};

use crate::crc;
use crate::error::{Error, ErrorKind, Result};

/// A forward reader with a look-ahead. All of its errors carry the absolute offset.
pub trait Input {
    /// Offset in the evidence of the next byte.
    fn offset(&self) -> u64;

    /// Bytes from here to the end.
    fn remaining(&self) -> u64;

    /// The bytes that are at hand without reading.
    fn buffered(&self) -> &[u8];

    /// Sees to it that at least `n` bytes are at hand.
    fn fill(&mut self, n: usize) -> Result<()>;

    /// Passes over `n` bytes that are at hand (at most those).
    fn consume(&mut self, n: usize);

    /// The next `n` bytes, passed over.
    fn take(&mut self, n: usize) -> Result<&[u8]>;

    /// Passes over `n` bytes.
    fn skip(&mut self, n: u64) -> Result<()>;

    /// CRC-64 of all bytes passed over since the start (or `restart_crc`); `None` where it is not kept.
    fn crc64(&mut self) -> Option<u64> {
        None
    }

    /// Starts the checksum afresh with the next byte.
    fn restart_crc(&mut self) {}

    /// One byte.
    #[inline]
    fn u8(&mut self) -> Result<u8> {
        if let Some(&b) = self.buffered().first() {
            self.consume(1);
            return Ok(b);
        }
        self.array::<1>().map(|[b]| b)
    }

    /// The next `N` bytes by value.
    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.fill(N)?;
        match self.buffered().first_chunk::<N>() {
            Some(&bytes) => {
                self.consume(N);
                Ok(bytes)
            }
            None => Err(Error::truncated(self.offset(), N as u64)),
        }
    }
}

/// A piece of the evidence that is in memory already.
#[derive(Clone, Debug)]
pub struct SliceInput<'a> {
    bytes: &'a [u8],
    pos: usize,
    base: u64,
    crc_from: usize,
}

impl<'a> SliceInput<'a> {
    /// `base_offset` is where the piece starts in the evidence.
    pub fn new(bytes: &'a [u8], base_offset: u64) -> Self {
        SliceInput { bytes, pos: 0, base: base_offset, crc_from: 0 }
    }
}

impl Input for SliceInput<'_> {
    #[inline]
    fn offset(&self) -> u64 {
        self.base.saturating_add(self.pos as u64)
    }

    #[inline]
    fn remaining(&self) -> u64 {
        self.bytes.len().saturating_sub(self.pos) as u64
    }

    #[inline]
    fn buffered(&self) -> &[u8] {
        self.bytes.get(self.pos..).unwrap_or_default()
    }

    #[inline]
    fn fill(&mut self, n: usize) -> Result<()> {
        match n.checked_sub(self.bytes.len().saturating_sub(self.pos)) {
            None | Some(0) => Ok(()),
            Some(needed) => Err(Error::truncated(self.offset(), needed as u64)),
        }
    }

    #[inline]
    fn consume(&mut self, n: usize) {
        self.pos = self.pos.saturating_add(n).min(self.bytes.len());
    }

    #[inline]
    fn take(&mut self, n: usize) -> Result<&[u8]> {
        match self.bytes.get(self.pos..).and_then(|rest| rest.get(..n)) {
            Some(taken) => {
                self.pos += n;
                Ok(taken)
            }
            None => Err(Error::truncated(self.offset(), (n as u64).saturating_sub(self.remaining()))),
        }
    }

    #[inline]
    fn skip(&mut self, n: u64) -> Result<()> {
        match n.checked_sub(self.remaining()) {
            None | Some(0) => {
                self.pos += n as usize;
                Ok(())
            }
            Some(needed) => Err(Error::truncated(self.offset(), needed)),
        }
    }

    fn crc64(&mut self) -> Option<u64> {
        Some(crc::of(self.bytes.get(self.crc_from..self.pos).unwrap_or_default()))
    }

    fn restart_crc(&mut self) {
        self.crc_from = self.pos;
    }
}

/// Size of one read, and of the window unless one item is larger: small enough to be in the cache still when the
/// checksum passes over it.
pub(crate) const BLOCK: usize = 256 << 10;
/// A window that one large item has blown up is given back when it is no longer needed.
const KEEP: usize = 4 << 20;
/// Two of the largest strings that stock settings allow (a field and its value), unless told otherwise.
const WINDOW_LIMIT: usize = (1 << 30) + BLOCK;

/// Bytes of a file; what stands in `pos..end` is at hand.
#[derive(Default)]
pub struct Window {
    pub(crate) bytes: Vec<u8>,
    pub(crate) pos: usize,
    pub(crate) end: usize,
}

impl Window {
    #[inline]
    pub(crate) fn at_hand(&self) -> &[u8] {
        self.bytes.get(self.pos..self.end).unwrap_or_default()
    }

    #[inline]
    fn len(&self) -> usize {
        self.end.saturating_sub(self.pos)
    }

    /// Moves what is at hand to the front.
    pub(crate) fn compact(&mut self) {
        self.bytes.copy_within(self.pos..self.end, 0);
        (self.pos, self.end) = (0, self.len());
    }

    fn grow(&mut self, size: usize) {
        if self.bytes.is_empty() {
            // Zeroed memory comes cheaper from the system than zeros are written.
            self.bytes = vec![0; size];
        } else {
            self.bytes.resize(size, 0);
        }
    }
}

/// What a window is filled from.
pub trait Supply {
    /// Puts more bytes behind those at hand, `most` at most, and may move what is at hand; how many, 0 at the end.
    /// `wanted` bytes will be at hand in the end, no more than `limit`.
    fn supply(&mut self, window: &mut Window, wanted: usize, most: u64, limit: usize) -> io::Result<usize>;
}

impl<R: Read> Supply for R {
    fn supply(&mut self, window: &mut Window, wanted: usize, most: u64, limit: usize) -> io::Result<usize> {
        window.compact();
        if window.bytes.len() > KEEP && wanted.max(window.end) <= BLOCK {
            window.bytes.truncate(BLOCK);
            window.bytes.shrink_to_fit();
        }
        if window.end == window.bytes.len() {
            // Grown as the bytes arrive, not by what a length word promises.
            let room = (window.bytes.len() * 2).clamp(BLOCK, limit.max(BLOCK));
            let left = most.saturating_add(window.end as u64);
            window.grow(usize::try_from(left).map_or(room, |left| room.min(left.max(wanted))));
        }
        let room = window.bytes.len().saturating_sub(window.end);
        let room = usize::try_from(most).map_or(room, |most| room.min(most));
        let got = self.read(window.bytes.get_mut(window.end..window.end + room).unwrap_or_default())?.min(room);
        window.end += got;
        Ok(got)
    }
}

/// A file read front to back through a window, never mapped: a file that shrinks meanwhile is an error, not a signal.
pub struct FileInput<S> {
    supply: S,
    window: Window,
    /// Bytes before this index are in the checksum.
    summed: usize,
    /// Offset in the evidence of the window's first byte; wraps where the window has room before the file's start.
    base: u64,
    /// Bytes of the file not read yet.
    unread: u64,
    limit: usize,
    crc: Option<crc::Crc>,
}

impl<S: Supply> FileInput<S> {
    /// `total_len` is what the file says of its size (`u64::MAX` for a stream without a known one). `with_crc` keeps
    /// the CRC-64 on the way.
    pub fn new(supply: S, total_len: u64, with_crc: bool) -> Self {
        FileInput {
            supply,
            window: Window::default(),
            summed: 0,
            base: 0,
            unread: total_len,
            limit: WINDOW_LIMIT,
            crc: with_crc.then(crc::Crc::new),
        }
    }

    /// Says that the reader stands at this offset of the evidence.
    #[must_use]
    pub fn with_base_offset(mut self, offset: u64) -> Self {
        self.base = offset;
        self
    }

    /// Largest item that may be held in the window, see [`Limits::window`](crate::Limits::window).
    #[must_use]
    pub fn with_limit(mut self, bytes: usize) -> Self {
        self.limit = bytes.saturating_add(BLOCK);
        self
    }

    fn sum_up_to(&mut self, to: usize) {
        if let Some(crc) = &mut self.crc {
            crc.update(self.window.bytes.get(self.summed..to).unwrap_or_default());
        }
        self.summed = to;
    }

    /// Reads until there are `n` bytes.
    #[cold]
    fn refill(&mut self, n: usize) -> Result<()> {
        let needed = n.saturating_sub(self.window.len()) as u64;
        if needed > self.unread {
            return Err(Error::truncated(self.offset(), needed - self.unread));
        }
        if n > self.limit {
            let (asked, cap) = (n as u64, self.limit as u64);
            return Err(Error::new(self.offset(), ErrorKind::Limit { what: "one item", asked, cap }));
        }
        self.sum_up_to(self.window.pos);
        let offset = self.offset();
        while self.window.len() < n {
            let got = match self.supply.supply(&mut self.window, n, self.unread, self.limit) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                got => got,
            };
            self.base = offset.wrapping_sub(self.window.pos as u64);
            self.summed = self.window.pos;
            match got {
                Ok(0) => {
                    self.unread = 0;
                    return Err(Error::truncated(offset, n.saturating_sub(self.window.len()).max(1) as u64));
                }
                Ok(got) => self.unread = self.unread.saturating_sub(got as u64),
                Err(error) => return Err(Error::new(offset, ErrorKind::Io(error))),
            }
        }
        Ok(())
    }
}

impl<S: Supply> Input for FileInput<S> {
    #[inline]
    fn offset(&self) -> u64 {
        self.base.wrapping_add(self.window.pos as u64)
    }

    #[inline]
    fn remaining(&self) -> u64 {
        self.unread.saturating_add(self.window.len() as u64)
    }

    #[inline]
    fn buffered(&self) -> &[u8] {
        self.window.at_hand()
    }

    #[inline]
    fn fill(&mut self, n: usize) -> Result<()> {
        if n <= self.window.len() { Ok(()) } else { self.refill(n) }
    }

    #[inline]
    fn consume(&mut self, n: usize) {
        self.window.pos += n.min(self.window.len());
    }

    #[inline]
    fn take(&mut self, n: usize) -> Result<&[u8]> {
        self.fill(n)?;
        let from = self.window.pos;
        self.window.pos += n;
        Ok(self.window.bytes.get(from..from + n).unwrap_or_default())
    }

    #[inline]
    fn skip(&mut self, n: u64) -> Result<()> {
        if n <= self.window.len() as u64 {
            self.window.pos += n as usize;
            return Ok(());
        }
        if let Some(needed @ 1..) = n.checked_sub(self.remaining()) {
            return Err(Error::truncated(self.offset(), needed));
        }
        let mut left = n;
        loop {
            let step = left.min(self.window.len() as u64);
            self.window.pos += step as usize;
            left -= step;
            if left == 0 {
                return Ok(());
            }
            let needed = left;
            self.refill(1).map_err(|mut error| {
                if let ErrorKind::Truncated { needed: n } = &mut error.kind {
                    *n = needed;
                }
                error
            })?;
        }
    }

    fn crc64(&mut self) -> Option<u64> {
        self.sum_up_to(self.window.pos);
        self.crc.as_ref().map(crc::Crc::value)
    }

    fn restart_crc(&mut self) {
        self.summed = self.window.pos;
        if self.crc.is_some() {
            self.crc = Some(crc::Crc::new());
        }
    }
}
