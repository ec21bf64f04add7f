//! Passing over values without decoding them.

use crate::context::Context;
use crate::encoding::{intset, listpack, ziplist, zipmap};
use crate::error::{Error, Result};
use crate::hash;
use crate::input::Input;
use crate::kind::{Shape, StreamVersion};
use crate::lzf;
use crate::module;
use crate::parse::{self, Form, Reader, Scratch};
use crate::{decode, stream};

/// Passes over one value; the number of its elements where that is written at a place that costs nothing to read.
pub(crate) fn value<I: Input>(
    ctx: &Context,
    r: &mut Reader<'_, I>,
    scratch: &mut Scratch,
    shape: Shape,
) -> Result<Option<u64>> {
    Ok(match shape {
        Shape::String => {
            r.skip_string()?;
            None
        }
        Shape::List | Shape::Set => strings::<0, I>(r, 1, 1)?,
        Shape::Hash => strings::<0, I>(r, 2, 2)?,
        Shape::Zset => strings::<8, I>(r, 9, 1)?,
        Shape::ZsetText => {
            let n = r.count(2)?;
            for _ in 0..n {
                r.skip_string()?;
                match r.input.u8()? {
                    253..=255 => {}
                    len => r.input.skip(u64::from(len))?,
                }
            }
            Some(n)
        }
        Shape::ListZiplist => packed(r, ziplist_count)?,
        Shape::HashZiplist | Shape::ZsetZiplist => packed(r, ziplist_count)?.map(|n| n / 2),
        Shape::SetIntset => packed(r, intset_count)?,
        Shape::HashZipmap => packed(r, zipmap_count)?,
        Shape::SetListpack => packed(r, listpack_count)?,
        Shape::HashListpack | Shape::ZsetListpack => packed(r, listpack_count)?.map(|n| n / 2),
        Shape::HashListpackTtl { min } => {
            if min {
                r.input.skip(8)?;
            }
            packed(r, listpack_count)?.map(|n| n / 3)
        }
        Shape::ListZiplists => {
            let mut total = Some(0);
            for _ in 0..r.count(1)? {
                total = sum(total, packed(r, ziplist_count)?);
            }
            total
        }
        Shape::ListNodes => {
            let mut total = Some(0);
            for _ in 0..r.count(2)? {
                let at = r.input.offset();
                total = match r.length()? {
                    1 => {
                        r.skip_string()?;
                        sum(total, Some(1))
                    }
                    2 => sum(total, packed(r, listpack_count)?),
                    _ => return Err(Error::corrupt(at, "a list node of unknown form")),
                };
            }
            total
        }
        Shape::HashTtl { relative } => {
            if relative {
                r.input.skip(8)?;
            }
            let n = r.count(3)?;
            for _ in 0..n {
                r.length()?;
                r.skip_strings::<0>(2)?;
            }
            Some(n)
        }
        Shape::HashExpiry => {
            let n = r.count(10)?;
            for _ in 0..n {
                r.skip_string()?;
                r.skip_strings::<8>(1)?;
            }
            Some(n)
        }
        Shape::HashPaths => {
            let mut total = Some(0);
            for _ in 0..r.count(2)? {
                r.skip_string()?;
                total = sum(total, strings::<0, I>(r, 2, 2)?);
            }
            total
        }
        Shape::Stream(version) => Some(stream(r, version)?),
        Shape::Array => {
            let n = r.count(3)?;
            decode::array_cursor(r)?;
            for _ in 0..n {
                r.length()?;
                let at = r.input.offset();
                match r.length()? {
                    0 | 3 => r.skip_string()?,
                    1 | 2 => r.input.skip(8)?,
                    _ => return Err(Error::corrupt(at, "an array item of unknown form")),
                }
            }
            Some(n)
        }
        Shape::Template { packed: is_packed, by_id } => template(ctx, r, scratch, is_packed, by_id)?,
        Shape::Module => {
            r.length()?;
            module::skip_items(r)?.second
        }
        Shape::ModulePreRelease => return Err(module::pre_release(r.input.offset())),
        Shape::Reserved => {
            r.length()?;
            None
        }
        Shape::KeydbCron => {
            r.skip_string()?;
            r.input.skip(16)?;
            for _ in 0..2 {
                let n = r.count(1)?;
                r.skip_strings::<0>(n)?;
            }
            None
        }
    })
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a?.checked_add(b?)
}

/// A count of items of at least `min` bytes and `each` strings for each of them.
fn strings<const N: usize, I: Input>(r: &mut Reader<'_, I>, min: u64, each: u64) -> Result<Option<u64>> {
    let n = r.count(min)?;
    r.skip_strings::<N>(n.saturating_mul(each))?;
    Ok(Some(n))
}

/// Bytes of a packed value in which its count stands.
const START: usize = ziplist::HEADER;
/// Compressed bytes that yield [`START`] in the worst case, and the lengths before them.
const LOOK_AHEAD: u64 = 64;

/// Passes over a packed value after a look at its first bytes.
fn packed<I: Input>(r: &mut Reader<'_, I>, count: fn(&[u8]) -> Option<u64>) -> Result<Option<u64>> {
    r.input.fill(r.input.remaining().min(LOOK_AHEAD) as usize)?;
    let buf = r.input.buffered();
    let mut start = [0; START];
    let known = match parse::head(buf, 0, r.rules.old_lengths) {
        Ok((head, at)) => {
            let body = buf.get(at..).unwrap_or_default();
            let body = body.get(..head.body.min(body.len() as u64).min(LOOK_AHEAD) as usize).unwrap_or_default();
            match head.form {
                Form::Plain => count(body),
                Form::Lzf { .. } => {
                    let n = lzf::expand_start(body, &mut start);
                    count(start.get(..n).unwrap_or_default())
                }
                Form::Int => None,
            }
        }
        Err(_) => None,
    };
    r.skip_string()?;
    Ok(known)
}

fn u16_at(start: &[u8], at: usize) -> Option<u64> {
    let n = u16::from_le_bytes(*start.get(at..)?.first_chunk()?);
    (n != listpack::UNCOUNTED).then_some(u64::from(n))
}

fn listpack_count(start: &[u8]) -> Option<u64> {
    u16_at(start, listpack::HEADER - 2)
}

fn ziplist_count(start: &[u8]) -> Option<u64> {
    u16_at(start, ziplist::HEADER - 2)
}

fn intset_count(start: &[u8]) -> Option<u64> {
    Some(u64::from(u32::from_le_bytes(*start.get(intset::HEADER - 4..)?.first_chunk()?)))
}

fn zipmap_count(start: &[u8]) -> Option<u64> {
    start.first().filter(|&&n| n < zipmap::UNCOUNTED).map(|&n| u64::from(n))
}

/// Passes over a stream; its number of live entries.
fn stream<I: Input>(r: &mut Reader<'_, I>, version: StreamVersion) -> Result<u64> {
    let nodes = r.count(stream::MIN_NODE)?;
    r.skip_strings::<0>(nodes.saturating_mul(2))?;
    let length = r.length()?;
    lengths(r, if version >= stream::SINCE_COUNTERS { 7 } else { 2 })?;
    for _ in 0..r.count(5)? {
        r.skip_string()?;
        lengths(r, if version >= stream::SINCE_COUNTERS { 3 } else { 2 })?;
        for _ in 0..r.count(stream::MIN_PENDING)? {
            r.input.skip(24)?;
            r.length()?;
        }
        for _ in 0..r.count(stream::min_consumer(version))? {
            r.skip_string()?;
            r.input.skip(if version >= stream::SINCE_ACTIVE_TIME { 16 } else { 8 })?;
            let owned = r.count(stream::MIN_OWNED)?;
            r.input.skip(owned.saturating_mul(16))?;
        }
        if version >= stream::SINCE_UNOWNED {
            let unowned = r.count(stream::MIN_OWNED)?;
            r.input.skip(unowned.saturating_mul(16))?;
        }
    }
    if version >= stream::SINCE_PRODUCERS {
        lengths(r, 2)?;
        for _ in 0..r.count(2)? {
            r.skip_string()?;
            for _ in 0..r.count(3)? {
                r.skip_string()?;
                lengths(r, 2)?;
            }
        }
        lengths(r, 2)?;
    }
    Ok(length)
}

fn lengths<I: Input>(r: &mut Reader<'_, I>, n: usize) -> Result<()> {
    for _ in 0..n {
        r.length()?;
    }
    Ok(())
}

fn template<I: Input>(
    ctx: &Context,
    r: &mut Reader<'_, I>,
    scratch: &mut Scratch,
    is_packed: bool,
    by_id: bool,
) -> Result<Option<u64>> {
    let at = r.input.offset();
    Ok(match (is_packed, by_id) {
        (true, by_id) => {
            if !by_id {
                match r.length()? {
                    0 => r.skip_string()?,
                    1 => {
                        strings::<0, I>(r, 1, 1)?;
                    }
                    _ => return Err(Error::corrupt(at, "a hash template of unknown form")),
                }
            }
            // The first element is the number of the template.
            packed(r, listpack_count)?.and_then(|n| n.checked_sub(1))
        }
        (false, by_id) => {
            let fields = if by_id {
                let id = r.length()?;
                hash::fields_of(&ctx.templates, id, at)?.len()
            } else {
                hash::own_template(ctx, r, scratch)?.field_count(0).unwrap_or(0)
            } as u64;
            r.skip_strings::<0>(fields)?;
            Some(fields)
        }
    })
}
