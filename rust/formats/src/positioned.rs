//! Evidence read at a place of one's own.

use std::fs::File;
use std::io::{self, Read};

/// Bytes that several readers can read at once, each at its own place.
pub trait Positioned: Sync {
    /// Reads some bytes that stand at an offset; none behind the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl Positioned for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(self, buf, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(self, buf, offset);
    }
}

impl Positioned for [u8] {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|from| self.get(from..)).unwrap_or_default();
        let n = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..n), rest.get(..n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }
}

/// Reads from a place on: other readers of the same evidence don't disturb it.
#[derive(Debug)]
pub struct At<'p, P: ?Sized = File> {
    bytes: &'p P,
    offset: u64,
}

impl<'p, P: Positioned + ?Sized> At<'p, P> {
    pub fn new(bytes: &'p P, offset: u64) -> Self {
        At { bytes, offset }
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl<P: Positioned + ?Sized> Read for At<'_, P> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.bytes.read_at(buf, self.offset)?;
        self.offset = self.offset.saturating_add(got as u64);
        Ok(got)
    }
}
