//! An input that keeps what passes through it while it is told to.

use jobsleuth_formats::{Input, Result};

/// Forwards to another input; between `begin` and `end` it keeps a copy of what is passed over.
pub(crate) struct Tee<I> {
    input: I,
    kept: Option<Vec<u8>>,
}

impl<I: Input> Tee<I> {
    pub fn new(input: I) -> Self {
        Tee { input, kept: None }
    }

    pub fn begin(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// What has passed since `begin`.
    pub fn end(&mut self) -> Vec<u8> {
        self.kept.take().unwrap_or_default()
    }
}

impl<I: Input> Input for Tee<I> {
    fn offset(&self) -> u64 {
        self.input.offset()
    }

    fn remaining(&self) -> u64 {
        self.input.remaining()
    }

    fn buffered(&self) -> &[u8] {
        self.input.buffered()
    }

    fn fill(&mut self, n: usize) -> Result<()> {
        self.input.fill(n)
    }

    fn consume(&mut self, n: usize) {
        if let Some(kept) = &mut self.kept {
            let bytes = self.input.buffered();
            kept.extend_from_slice(bytes.get(..n.min(bytes.len())).unwrap_or_default());
        }
        self.input.consume(n);
    }

    fn take(&mut self, n: usize) -> Result<&[u8]> {
        let bytes = self.input.take(n)?;
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(bytes);
        }
        Ok(bytes)
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        let mut left = n;
        while left > 0 && self.kept.is_some() {
            self.input.fill(1)?;
            let step = usize::try_from(left).map_or(usize::MAX, |n| n).min(self.input.buffered().len());
            self.consume(step);
            left = left.saturating_sub(step as u64);
        }
        if left > 0 { self.input.skip(left) } else { Ok(()) }
    }
}
