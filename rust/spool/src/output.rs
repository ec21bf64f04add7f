//! A file that is written front to back, and in which little things are set right afterwards.

use std::io::{self, Seek, SeekFrom, Write};

use jobsleuth_formats::{Error, ErrorKind, Result};

/// Written out when the buffer holds this much.
const FULL: usize = 1 << 20;

/// Buffered output that knows its place and never grows over a cap.
pub(crate) struct Output<W> {
    to: W,
    buffer: Vec<u8>,
    /// Offset of the first byte of the buffer.
    base: u64,
    cap: u64,
}

impl<W: Write + Seek> Output<W> {
    pub fn new(to: W, cap: u64) -> Self {
        Output { to, buffer: Vec::new(), base: 0, cap }
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.base.saturating_add(self.buffer.len() as u64)
    }

    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.buffer.push(byte);
    }

    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Writes out what has gathered. To be called between pieces of bounded size.
    ///
    /// # Errors
    /// The file cannot be written, or would pass the cap.
    #[inline]
    pub fn settle(&mut self) -> Result<()> {
        if self.buffer.len() < FULL { Ok(()) } else { self.flush() }
    }

    pub fn flush(&mut self) -> Result<()> {
        let asked = self.offset();
        if asked > self.cap {
            let what = "the temporary file";
            return Err(Error::new(0, ErrorKind::Limit { what, asked, cap: self.cap }));
        }
        self.to.write_all(&self.buffer)?;
        self.base = asked;
        self.buffer.clear();
        Ok(())
    }

    /// Replaces bytes that have been written, wherever they are by now.
    pub fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let end = at.saturating_add(bytes.len() as u64);
        if end > self.offset() {
            return Err(Error::from(io::Error::other("a patch behind the end")));
        }
        if let Some(start) = at.checked_sub(self.base) {
            let place = usize::try_from(start).ok().and_then(|s| self.buffer.get_mut(s..s + bytes.len()));
            if let Some(place) = place {
                place.copy_from_slice(bytes);
                return Ok(());
            }
        }
        self.flush()?;
        self.to.seek(SeekFrom::Start(at))?;
        self.to.write_all(bytes)?;
        self.to.seek(SeekFrom::Start(self.base))?;
        Ok(())
    }

    /// Takes back everything from an offset on.
    pub fn truncate(&mut self, at: u64) -> Result<()> {
        match at.checked_sub(self.base) {
            Some(keep) => self.buffer.truncate(usize::try_from(keep).unwrap_or(usize::MAX)),
            None => {
                // What stands there already is written over; the end of the file is settled by who closes it.
                self.buffer.clear();
                self.base = at;
                self.to.seek(SeekFrom::Start(at))?;
            }
        }
        Ok(())
    }

    pub fn into_inner(self) -> W {
        self.to
    }
}
