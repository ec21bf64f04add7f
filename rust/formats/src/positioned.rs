//! A file read at a place of one's own.

use std::fs::File;
use std::io::{self, Read};

/// Reads a file from a place of its own: other readers of the same file don't disturb it.
#[derive(Debug)]
pub struct At<'f> {
    file: &'f File,
    offset: u64,
}

impl<'f> At<'f> {
    pub fn new(file: &'f File, offset: u64) -> Self {
        At { file, offset }
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Read for At<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = read_at(self.file, buf, self.offset)?;
        self.offset = self.offset.saturating_add(got as u64);
        Ok(got)
    }
}

#[cfg(unix)]
fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buf, offset)
}
