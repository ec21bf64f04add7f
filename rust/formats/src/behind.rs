//! What stands behind the end of a snapshot, where nothing needs to stand.

use std::fmt;

use crate::error::Result;
use crate::input::Input;

/// Digits of the mark that ends a transfer of unknown length.
const END_MARK: usize = 40;

/// Bytes behind a snapshot, whose end says nothing of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behind {
    #[default]
    Nothing,
    /// What a server that sends its snapshot without a disk ends it with, announced as `$EOF:<mark>`: 40 hexadecimal
    /// digits drawn by lot. `redis-cli --rdb` cuts it off a file; off a pipe it cannot.
    EndMark,
    /// So many bytes that nobody looked at.
    Unknown(u64),
}

impl Behind {
    /// Looks at what `input` has left.
    pub(crate) fn of<I: Input>(input: &mut I) -> Result<Self> {
        let left = input.remaining();
        if left == 0 {
            return Ok(Behind::Nothing);
        }
        if left == END_MARK as u64 {
            input.fill(END_MARK)?;
            let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            if input.buffered().get(..END_MARK).is_some_and(|mark| mark.iter().all(digit)) {
                return Ok(Behind::EndMark);
            }
        }
        Ok(Behind::Unknown(left))
    }

    /// How many.
    pub fn bytes(self) -> u64 {
        match self {
            Behind::Nothing => 0,
            Behind::EndMark => END_MARK as u64,
            Behind::Unknown(bytes) => bytes,
        }
    }

    /// A word for programs; `None` where there is nothing to tell.
    pub fn kind(self) -> Option<&'static str> {
        match self {
            Behind::Nothing => None,
            Behind::EndMark => Some("transfer_end_mark"),
            Behind::Unknown(_) => Some("trailing_bytes"),
        }
    }
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Behind::Nothing => f.write_str("nothing stands behind the end of the snapshot"),
            Behind::EndMark => f.write_str(
                "the 40 bytes behind the end of the snapshot are the mark that ends a transfer without a disk, as \
                 redis-cli leaves it on a pipe",
            ),
            Behind::Unknown(bytes) => write!(f, "{bytes} bytes behind the end of the snapshot were not looked at"),
        }
    }
}
