//! Values, piece by piece.

use crate::context::Context;
use crate::encoding::listpack::Listpack;
use crate::encoding::ziplist::Ziplist;
use crate::encoding::zipmap::Zipmap;
use crate::encoding::{Entries, Entry, intset};
use crate::error::{Error, ErrorKind, Result};
use crate::input::Input;
use crate::kind::Shape;
use crate::parse::{Blob, Reader, Scratch, Spot};
use crate::visit::{ArrayMeta, Visitor};
use crate::{hash, module, skip, stream};

/// Reads one value, of which `rdb_type` is the type byte and at which `input` stands, and hands its pieces to `v`.
///
/// A value that turns out damaged gives an error after the pieces before the damage. For many values in a row a
/// [`Decoder`] is faster: it keeps its buffers.
pub fn decode<I: Input, V: Visitor>(ctx: &Context, rdb_type: u8, input: &mut I, v: &mut V) -> Result<()> {
    Decoder::default().decode(ctx, rdb_type, input, v)
}

/// [`decode`] with buffers that are used again.
#[derive(Default)]
pub struct Decoder {
    pub(crate) pair: (Scratch, Scratch),
}

/// Keeps what one value yields within reason of what it takes in the file.
pub(crate) struct Budget {
    start: u64,
    factor: u64,
    spent: u64,
}

/// Any value may yield this much.
const FREE: u64 = 64 << 10;

impl Budget {
    pub fn new(ctx: &Context, start: u64) -> Self {
        Budget { start, factor: ctx.limits.max_expansion, spent: 0 }
    }

    /// `now` is the offset up to which the value has been read.
    #[inline]
    pub fn spend(&mut self, bytes: usize, now: u64) -> Result<()> {
        self.spent = self.spent.saturating_add(bytes as u64);
        let cap = now.saturating_sub(self.start).saturating_mul(self.factor).saturating_add(FREE);
        if self.spent > cap {
            let asked = self.spent;
            return Err(Error::new(self.start, ErrorKind::Limit { what: "what one value expands to", asked, cap }));
        }
        Ok(())
    }
}

impl Decoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// See [`decode`].
    pub fn decode<I: Input, V: Visitor>(
        &mut self,
        ctx: &Context,
        rdb_type: u8,
        input: &mut I,
        v: &mut V,
    ) -> Result<()> {
        let start = input.offset();
        let Some(shape) = Shape::of(ctx.family, ctx.version, rdb_type) else {
            return Err(Error::new(start, ErrorKind::UnknownType(rdb_type)));
        };
        let r = &mut Reader { input, rules: ctx.into() };
        let scratch = &mut self.pair.0;
        match shape {
            Shape::String => r.string(scratch, |s| v.string(s)),
            Shape::List => {
                for _ in 0..r.count(1)? {
                    r.string(scratch, |s| v.list_item(s))?;
                }
                Ok(())
            }
            Shape::ListZiplist => r.blob(scratch, |b| items(b, Ziplist::new(b.bytes), |s| v.list_item(s))),
            Shape::ListZiplists => {
                for _ in 0..r.count(1)? {
                    r.blob(scratch, |b| items(b, Ziplist::new(b.bytes), |s| v.list_item(s)))?;
                }
                Ok(())
            }
            Shape::ListNodes => list_nodes(r, scratch, v),
            Shape::Set => {
                for _ in 0..r.count(1)? {
                    r.string(scratch, |s| v.set_member(s))?;
                }
                Ok(())
            }
            Shape::SetIntset => r.blob(scratch, |b| {
                let mut digits = itoa::Buffer::new();
                let member = |n| v.set_member(digits.format::<i64>(n).as_bytes());
                intset::each(b.bytes, member).unwrap_or_else(|spot| Err(b.fault(spot)))
            }),
            Shape::SetListpack => r.blob(scratch, |b| items(b, Listpack::new(b.bytes), |s| v.set_member(s))),
            Shape::ZsetText => zset_text(r, scratch, v),
            Shape::Zset => {
                for _ in 0..r.count(9)? {
                    zset_binary(r, &mut self.pair, v)?;
                }
                Ok(())
            }
            Shape::ZsetZiplist => r.blob(scratch, |b| scored(b, Ziplist::new(b.bytes), v)),
            Shape::ZsetListpack => r.blob(scratch, |b| scored(b, Listpack::new(b.bytes), v)),
            Shape::Hash => {
                for _ in 0..r.count(2)? {
                    r.pair::<0, _>(&mut self.pair, |field, value, _| v.hash_field(field, value, None))?;
                }
                Ok(())
            }
            Shape::HashZipmap => r.blob(scratch, |b| zipmap(b, v)),
            Shape::HashZiplist => r.blob(scratch, |b| fields(b, Ziplist::new(b.bytes), v)),
            Shape::HashListpack => r.blob(scratch, |b| fields(b, Listpack::new(b.bytes), v)),
            Shape::HashTtl { relative } => hash::with_ttl(r, &mut self.pair, relative, v),
            Shape::HashListpackTtl { min } => hash::listpack_with_ttl(r, scratch, min, v),
            Shape::HashExpiry => hash::with_expiry(r, &mut self.pair, v),
            Shape::HashPaths => hash::with_paths(r, &mut self.pair, v),
            Shape::Template { packed, by_id } => hash::templated(ctx, r, scratch, packed, by_id, v),
            Shape::Stream(version) => stream::decode(ctx, r, scratch, version, v),
            Shape::Array => array(r, scratch, v),
            Shape::Module => module::decode(r, scratch, v),
            Shape::ModulePreRelease => Err(module::pre_release(start)),
            Shape::Reserved | Shape::KeydbCron => {
                skip::value(ctx, r, scratch, shape)?;
                v.opaque(rdb_type, r.input.offset().saturating_sub(start))
            }
        }
    }
}

/// Each element of a packed list or set.
fn items<'a>(
    blob: Blob<'a>,
    entries: std::result::Result<impl Entries<'a>, Spot>,
    mut f: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut entries = entries.map_err(|spot| blob.fault(spot))?;
    let mut digits = itoa::Buffer::new();
    while let Some(entry) = entries.next().map_err(|spot| blob.fault(spot))? {
        f(entry.bytes(&mut digits))?;
    }
    Ok(())
}

/// Each two elements of a packed hash or sorted set; `f` also gets the place of the second one.
pub(crate) fn pairs<'a>(
    blob: Blob<'a>,
    entries: std::result::Result<impl Entries<'a>, Spot>,
    mut f: impl FnMut(Entry<'a>, Entry<'a>, usize) -> Result<()>,
) -> Result<()> {
    let mut entries = entries.map_err(|spot| blob.fault(spot))?;
    while let Some(first) = entries.next().map_err(|spot| blob.fault(spot))? {
        let at = entries.position();
        match entries.next().map_err(|spot| blob.fault(spot))? {
            Some(second) => f(first, second, at)?,
            None => return Err(blob.fault(Spot { at, what: "a packed value with an odd number of elements" })),
        }
    }
    Ok(())
}

fn fields<'a, V: Visitor>(
    blob: Blob<'a>,
    entries: std::result::Result<impl Entries<'a>, Spot>,
    v: &mut V,
) -> Result<()> {
    let mut digits = (itoa::Buffer::new(), itoa::Buffer::new());
    pairs(blob, entries, |field, value, _| v.hash_field(field.bytes(&mut digits.0), value.bytes(&mut digits.1), None))
}

fn scored<'a, V: Visitor>(
    blob: Blob<'a>,
    entries: std::result::Result<impl Entries<'a>, Spot>,
    v: &mut V,
) -> Result<()> {
    let mut digits = itoa::Buffer::new();
    pairs(blob, entries, |member, score, at| {
        let score = match score {
            Entry::Int(n) => Some(n as f64),
            Entry::Text(text) => number(text),
        };
        match score {
            Some(score) => v.zset_member(member.bytes(&mut digits), score),
            None => Err(blob.fault(Spot { at, what: "a score that is no number" })),
        }
    })
}

/// A score as text. NaN, which no server loads, is handed on: it is for the visitor to tell.
fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn zipmap<V: Visitor>(blob: Blob<'_>, v: &mut V) -> Result<()> {
    let mut map = Zipmap::new(blob.bytes).map_err(|spot| blob.fault(spot))?;
    while let Some((field, value)) = map.next().map_err(|spot| blob.fault(spot))? {
        v.hash_field(field, value, None)?;
    }
    Ok(())
}

fn list_nodes<I: Input, V: Visitor>(r: &mut Reader<'_, I>, scratch: &mut Scratch, v: &mut V) -> Result<()> {
    for _ in 0..r.count(2)? {
        let at = r.input.offset();
        match r.length()? {
            1 => r.string(scratch, |s| v.list_item(s))?,
            2 => r.blob(scratch, |b| items(b, Listpack::new(b.bytes), |s| v.list_item(s)))?,
            _ => return Err(Error::corrupt(at, "a list node of unknown form")),
        }
    }
    Ok(())
}

fn zset_text<I: Input, V: Visitor>(r: &mut Reader<'_, I>, scratch: &mut Scratch, v: &mut V) -> Result<()> {
    let mut member = Vec::new();
    for _ in 0..r.count(2)? {
        member.clear();
        r.string_into(scratch, &mut member)?;
        let at = r.input.offset();
        let score = match r.input.u8()? {
            253 => Some(f64::NAN),
            254 => Some(f64::INFINITY),
            255 => Some(f64::NEG_INFINITY),
            n => number(r.input.take(usize::from(n))?),
        };
        match score {
            Some(score) => v.zset_member(&member, score)?,
            None => return Err(Error::corrupt(at, "a score that is no number")),
        }
    }
    Ok(())
}

#[inline]
fn zset_binary<I: Input, V: Visitor>(r: &mut Reader<'_, I>, scratch: &mut (Scratch, Scratch), v: &mut V) -> Result<()> {
    r.one::<8, _>(&mut scratch.0, |member, score| v.zset_member(member, f64::from_le_bytes(*score)))
}

fn array<I: Input, V: Visitor>(r: &mut Reader<'_, I>, scratch: &mut Scratch, v: &mut V) -> Result<()> {
    let count = r.count(3)?;
    let insert_index = array_cursor(r)?;
    v.array_meta(&ArrayMeta { count, insert_index })?;
    for _ in 0..count {
        let index = r.length()?;
        let at = r.input.offset();
        match r.length()? {
            0 | 3 => r.string(scratch, |s| v.array_item(index, s))?,
            1 => v.array_item(index, itoa::Buffer::new().format(r.i64()?).as_bytes())?,
            2 => v.array_item(index, crate::number::pointed(r.f64()?).as_bytes())?,
            _ => return Err(Error::corrupt(at, "an array item of unknown form")),
        }
    }
    Ok(())
}

pub(crate) fn array_cursor<I: Input>(r: &mut Reader<'_, I>) -> Result<Option<u64>> {
    let at = r.input.offset();
    match r.length()? {
        0 => Ok(None),
        1 => r.length().map(Some),
        _ => Err(Error::corrupt(at, "an array with an unknown flag")),
    }
}
