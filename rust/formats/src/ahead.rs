//! A file read by a thread of its own: half of the time that an index pass takes is the system's copying.

use std::io::{self, Read};
use std::mem;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::input::{BLOCK, Supply, Window};

/// Room before the bytes of a block: the end of the block before moves there where an item lies across both.
const HEAD: usize = 16 << 10;
/// Blocks on the way, small enough for a cache that cores share.
const BLOCKS: usize = 4;

/// Blocks of a file in their order. Dropping it ends the thread.
pub struct Ahead {
    full: Receiver<io::Result<Block>>,
    spare: Sender<Vec<u8>>,
}

struct Block {
    bytes: Vec<u8>,
    end: usize,
}

impl Ahead {
    /// Starts to read.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn new(reader: impl Read + Send + 'static) -> io::Result<Self> {
        let (spare, empty) = mpsc::channel();
        let (filled, full) = mpsc::channel();
        for _ in 0..BLOCKS {
            let _ = spare.send(Vec::new());
        }
        thread::Builder::new().name("jobsleuth-ahead".into()).spawn(move || read(reader, &empty, &filled))?;
        Ok(Ahead { full, spare })
    }
}

impl Supply for Ahead {
    fn supply(&mut self, window: &mut Window, _wanted: usize, most: u64, _limit: usize) -> io::Result<usize> {
        let Ok(block) = self.full.recv() else {
            return Ok(0);
        };
        let Block { mut bytes, end } = block?;
        let got = usize::try_from(most).map_or(end - HEAD, |most| most.min(end - HEAD));
        let at_hand = window.at_hand();
        match HEAD.checked_sub(at_hand.len()).and_then(|pos| Some((pos, bytes.get_mut(pos..HEAD)?))) {
            Some((pos, room)) => {
                room.copy_from_slice(at_hand);
                let used = mem::replace(&mut window.bytes, bytes);
                (window.pos, window.end) = (pos, HEAD + got);
                bytes = used;
            }
            None => {
                window.compact();
                window.bytes.truncate(window.end);
                window.bytes.extend_from_slice(bytes.get(HEAD..HEAD + got).unwrap_or_default());
                window.end = window.bytes.len();
            }
        }
        // The thread has ended where the file has: then nobody needs it.
        let _ = self.spare.send(bytes);
        Ok(got)
    }
}

fn read(mut reader: impl Read, empty: &Receiver<Vec<u8>>, filled: &Sender<io::Result<Block>>) {
    while let Ok(mut bytes) = empty.recv() {
        if bytes.len() != HEAD + BLOCK {
            bytes = vec![0; HEAD + BLOCK];
        }
        let mut end = HEAD;
        let outcome = loop {
            if end == HEAD + BLOCK {
                break Ok(true);
            }
            match reader.read(bytes.get_mut(end..).unwrap_or_default()) {
                Ok(0) => break Ok(false),
                Ok(got) => end = (end + got).min(HEAD + BLOCK),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let sent = end == HEAD || filled.send(Ok(Block { bytes, end })).is_ok();
        match outcome {
            Ok(more) if more && sent => {}
            Ok(_) => return,
            Err(error) => {
                let _ = filled.send(Err(error));
                return;
            }
        }
    }
}
