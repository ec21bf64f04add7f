//! Lengths and strings, parsed from the bytes at hand without passing over them.
//!
//! The functions work on a slice and a position in it and give back positions, so that two strings can be looked at
//! side by side while the input keeps them in place. When the slice is too short they say how much of it is needed.

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::input::Input;
use crate::lzf;

/// Why the bytes at hand give no answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Short {
    /// This many bytes from the start of the slice are needed.
    More(usize),
    Bad(&'static str),
    /// A string of this many bytes is over the limit.
    Over(u64),
}

/// The parts of a [`Context`] that every length depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub old_lengths: bool,
    pub max_value: u64,
}

impl From<&Context> for Rules {
    fn from(ctx: &Context) -> Self {
        Rules { old_lengths: ctx.old_lengths(), max_value: ctx.limits.max_value_bytes }
    }
}

/// How a string is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Int,
    Lzf { plain: u64 },
}

/// What stands before the body of a string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub form: Form,
    /// Bytes that follow.
    pub body: u64,
}

/// A whole string at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece {
    Plain { from: usize, to: usize },
    Int(i32),
    Lzf { from: usize, to: usize, plain: usize },
}

#[inline]
fn bytes_at<const N: usize>(buf: &[u8], pos: usize) -> std::result::Result<[u8; N], Short> {
    match buf.get(pos..).and_then(|rest| rest.first_chunk::<N>()) {
        Some(&bytes) => Ok(bytes),
        None => Err(Short::More(pos.saturating_add(N))),
    }
}

/// A length-encoded integer and the position after it.
#[inline]
pub(crate) fn length(buf: &[u8], pos: usize, old_lengths: bool) -> std::result::Result<(u64, usize), Short> {
    let [first] = bytes_at::<1>(buf, pos)?;
    match first {
        0..0x40 => Ok((u64::from(first), pos + 1)),
        0x40..0x80 => {
            let [high, low] = bytes_at::<2>(buf, pos)?;
            Ok((u64::from(high & 0x3f) << 8 | u64::from(low), pos + 2))
        }
        0x80..0xc0 if first == 0x80 || old_lengths => {
            Ok((u64::from(u32::from_be_bytes(bytes_at::<4>(buf, pos + 1)?)), pos + 5))
        }
        0x81 => Ok((u64::from_be_bytes(bytes_at::<8>(buf, pos + 1)?), pos + 9)),
        0x82..0xc0 => Err(Short::Bad("a length of unknown form")),
        _ => Err(Short::Bad("a string encoding where a length must stand")),
    }
}

/// The head of a string and the position of its body.
#[inline]
pub(crate) fn head(buf: &[u8], pos: usize, old_lengths: bool) -> std::result::Result<(Head, usize), Short> {
    let [first] = bytes_at::<1>(buf, pos)?;
    if first < 0xc0 {
        let (body, at) = length(buf, pos, old_lengths)?;
        return Ok((Head { form: Form::Plain, body }, at));
    }
    match first {
        0xc0..=0xc2 => Ok((Head { form: Form::Int, body: 1 << (first & 3) }, pos + 1)),
        0xc3 => {
            let (body, at) = length(buf, pos + 1, old_lengths)?;
            let (plain, at) = length(buf, at, old_lengths)?;
            if plain > body.saturating_mul(lzf::MAX_RATIO) {
                return Err(Short::Bad("a compressed string that claims to be larger than it can be"));
            }
            Ok((Head { form: Form::Lzf { plain }, body }, at))
        }
        _ => Err(Short::Bad("a string of unknown encoding")),
    }
}

/// A string that is wholly at hand, and the position after it.
#[inline]
pub(crate) fn piece(buf: &[u8], pos: usize, rules: Rules) -> std::result::Result<(Piece, usize), Short> {
    let (head, from) = head(buf, pos, rules.old_lengths)?;
    let size = match head.form {
        Form::Lzf { plain } => plain.max(head.body),
        _ => head.body,
    };
    if size > rules.max_value {
        return Err(Short::Over(size));
    }
    let Some(to) = usize::try_from(head.body).ok().and_then(|body| from.checked_add(body)) else {
        return Err(Short::Over(size));
    };
    if to > buf.len() {
        return Err(Short::More(to));
    }
    let piece = match head.form {
        Form::Plain => Piece::Plain { from, to },
        Form::Lzf { plain } => Piece::Lzf { from, to, plain: plain as usize },
        Form::Int => Piece::Int(match head.body {
            1 => i32::from(i8::from_le_bytes(bytes_at(buf, from)?)),
            2 => i32::from(i16::from_le_bytes(bytes_at(buf, from)?)),
            _ => i32::from_le_bytes(bytes_at(buf, from)?),
        }),
    };
    Ok((piece, to))
}

/// Room for one string that is not stored as it reads; used again and again.
#[derive(Default)]
pub(crate) struct Scratch {
    expanded: Vec<u8>,
    digits: itoa::Buffer,
}

/// Room beyond this is given back before the next string.
const KEEP: usize = 1 << 20;

impl Scratch {
    /// The bytes of a string.
    #[inline]
    pub fn bytes<'a>(&'a mut self, piece: Piece, buf: &'a [u8]) -> std::result::Result<&'a [u8], Short> {
        match piece {
            Piece::Plain { from, to } => Ok(buf.get(from..to).unwrap_or_default()),
            Piece::Int(n) => Ok(self.digits.format(n).as_bytes()),
            Piece::Lzf { from, to, plain } => {
                if self.expanded.len() < plain {
                    self.expanded.resize(plain, 0);
                } else if self.expanded.len() > KEEP && plain < KEEP {
                    self.expanded = vec![0; KEEP];
                }
                let out = self.expanded.get_mut(..plain).unwrap_or_default();
                lzf::expand(buf.get(from..to).unwrap_or_default(), out).map_err(Short::Bad)?;
                Ok(out)
            }
        }
    }
}

/// An input together with the rules of its file.
pub(crate) struct Reader<'i, I> {
    pub input: &'i mut I,
    pub rules: Rules,
}

/// The bytes of one packed value, and where they are in the evidence.
#[derive(Clone, Copy)]
pub(crate) struct Blob<'a> {
    pub bytes: &'a [u8],
    pub offset: u64,
    /// Offset of what follows it.
    pub end: u64,
    /// Stored compressed: then places inside it have no offset of their own.
    pub packed: bool,
}

/// A fault inside a packed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub at: usize,
    pub what: &'static str,
}

impl Blob<'_> {
    #[cold]
    pub fn fault(&self, spot: Spot) -> Error {
        if self.packed {
            Error::corrupt(self.offset, format!("{} (byte {} after decompression)", spot.what, spot.at))
        } else {
            // Slack behind a value may point beyond the end; a place is always inside the evidence.
            Error::corrupt(self.offset.saturating_add(spot.at.min(self.bytes.len()) as u64), spot.what)
        }
    }
}

impl<I: Input> Reader<'_, I> {
    /// Deals with an answer that was not there: gets the bytes, or makes the error.
    #[cold]
    pub fn make_room(&mut self, short: Short) -> Result<()> {
        match short {
            Short::More(n) => self.input.fill(n),
            Short::Bad(what) => Err(Error::corrupt(self.input.offset(), what)),
            Short::Over(asked) => {
                let cap = self.rules.max_value;
                Err(Error::new(self.input.offset(), ErrorKind::Limit { what: "one string", asked, cap }))
            }
        }
    }

    /// A length-encoded integer.
    #[inline]
    pub fn length(&mut self) -> Result<u64> {
        loop {
            match length(self.input.buffered(), 0, self.rules.old_lengths) {
                Ok((value, used)) => {
                    self.input.consume(used);
                    return Ok(value);
                }
                Err(short) => self.make_room(short)?,
            }
        }
    }

    /// The same, left where it is.
    pub fn peek_length(&mut self) -> Result<u64> {
        loop {
            match length(self.input.buffered(), 0, self.rules.old_lengths) {
                Ok((value, _)) => return Ok(value),
                Err(short) => self.make_room(short)?,
            }
        }
    }

    /// A number of items of which each takes at least `min` bytes: no more of them than the rest of the file can hold.
    pub fn count(&mut self, min: u64) -> Result<u64> {
        let at = self.input.offset();
        let n = self.length()?;
        self.check_count(at, n, min)?;
        Ok(n)
    }

    pub fn check_count(&self, at: u64, n: u64, min: u64) -> Result<()> {
        match n.saturating_mul(min).checked_sub(self.input.remaining()) {
            Some(needed @ 1..) => Err(Error::truncated(at, needed)),
            _ => Ok(()),
        }
    }

    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.input.array()?))
    }

    pub fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.input.array()?))
    }

    /// A string, handed to `f`.
    #[inline]
    pub fn string<R>(&mut self, scratch: &mut Scratch, f: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
        self.blob(scratch, |blob| f(blob.bytes))
    }

    /// A string that is a packed value, handed to `f`.
    #[inline]
    pub fn blob<R>(&mut self, scratch: &mut Scratch, f: impl FnOnce(Blob<'_>) -> Result<R>) -> Result<R> {
        loop {
            let buf = self.input.buffered();
            match piece(buf, 0, self.rules) {
                Ok((piece, used)) => {
                    let start = self.input.offset();
                    let (skip, packed) = match piece {
                        Piece::Plain { from, .. } => (from as u64, false),
                        _ => (0, true),
                    };
                    let result = match scratch.bytes(piece, buf) {
                        Ok(bytes) => {
                            let (offset, end) = (start.saturating_add(skip), start.saturating_add(used as u64));
                            f(Blob { bytes, offset, end, packed })?
                        }
                        Err(short) => return Err(self.make_room(short).err().unwrap_or_else(|| unreadable(start))),
                    };
                    self.input.consume(used);
                    return Ok(result);
                }
                Err(short) => self.make_room(short)?,
            }
        }
    }

    /// A string and `N` plain bytes after it.
    #[inline]
    pub fn one<const N: usize, R>(
        &mut self,
        scratch: &mut Scratch,
        f: impl FnOnce(&[u8], &[u8; N]) -> Result<R>,
    ) -> Result<R> {
        loop {
            let buf = self.input.buffered();
            let found = piece(buf, 0, self.rules).and_then(|(piece, at)| Ok((piece, bytes_at::<N>(buf, at)?, at + N)));
            match found {
                Ok((piece, suffix, used)) => {
                    let start = self.input.offset();
                    let result = match scratch.bytes(piece, buf) {
                        Ok(bytes) => f(bytes, &suffix)?,
                        Err(short) => return Err(self.make_room(short).err().unwrap_or_else(|| unreadable(start))),
                    };
                    self.input.consume(used);
                    return Ok(result);
                }
                Err(short) => self.make_room(short)?,
            }
        }
    }

    /// Two strings and `N` plain bytes after them, side by side.
    #[inline]
    pub fn pair<const N: usize, R>(
        &mut self,
        scratch: &mut (Scratch, Scratch),
        f: impl FnOnce(&[u8], &[u8], &[u8; N]) -> Result<R>,
    ) -> Result<R> {
        loop {
            let buf = self.input.buffered();
            match two_pieces::<N>(buf, self.rules) {
                Ok((first, second, suffix, used)) => {
                    let faulty = match (scratch.0.bytes(first, buf), scratch.1.bytes(second, buf)) {
                        (Ok(first), Ok(second)) => {
                            let result = f(first, second, &suffix)?;
                            self.input.consume(used);
                            return Ok(result);
                        }
                        (Err(short), _) | (_, Err(short)) => short,
                    };
                    let start = self.input.offset();
                    return Err(self.make_room(faulty).err().unwrap_or_else(|| unreadable(start)));
                }
                Err(short) => self.make_room(short)?,
            }
        }
    }

    /// A string appended to `out`.
    pub fn string_into(&mut self, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        self.string(scratch, |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })
    }

    /// Passes over a string.
    pub fn skip_string(&mut self) -> Result<()> {
        self.skip_strings::<0>(1)
    }

    /// Passes over `n` strings, each with `N` plain bytes after it.
    pub fn skip_strings<const N: usize>(&mut self, mut n: u64) -> Result<()> {
        let old_lengths = self.rules.old_lengths;
        while n > 0 {
            let buf = self.input.buffered();
            let mut pos = 0;
            // Everything that is wholly at hand in one go …
            let short = loop {
                if n == 0 {
                    break None;
                }
                match head(buf, pos, old_lengths) {
                    Ok((head, at)) => {
                        let rest = (buf.len() - at) as u64;
                        match head.body.checked_add(N as u64) {
                            Some(step) if step <= rest => pos = at + step as usize,
                            _ => break Some(Err(head.body)),
                        }
                        n -= 1;
                    }
                    Err(short) => break Some(Ok(short)),
                }
            };
            self.input.consume(pos);
            // … then what reaches beyond.
            match short {
                None => {}
                Some(Ok(Short::More(needed))) => self.input.fill(needed - pos)?,
                Some(Ok(short)) => self.make_room(short)?,
                Some(Err(body)) => {
                    let at = self.input.offset();
                    let used = head(self.input.buffered(), 0, old_lengths).map_or(0, |(_, at)| at);
                    self.input.consume(used);
                    let step =
                        body.checked_add(N as u64).ok_or_else(|| Error::corrupt(at, "a length beyond 64 bits"))?;
                    self.input.skip(step)?;
                    n -= 1;
                }
            }
        }
        Ok(())
    }
}

fn unreadable(offset: u64) -> Error {
    Error::corrupt(offset, "a string that cannot be read")
}

#[inline]
fn two_pieces<const N: usize>(buf: &[u8], rules: Rules) -> std::result::Result<(Piece, Piece, [u8; N], usize), Short> {
    let (first, at) = piece(buf, 0, rules)?;
    let (second, at) = piece(buf, at, rules)?;
    Ok((first, second, bytes_at::<N>(buf, at)?, at + N))
}
