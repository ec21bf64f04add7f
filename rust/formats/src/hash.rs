//! Hashes beyond fields and values: with times to live, with field names kept elsewhere, with paths.

use crate::context::{Context, Limits, Templates};
use crate::decode::Budget;
use crate::encoding::listpack::Listpack;
use crate::encoding::{Entries, Entry};
use crate::error::{Error, Result};
use crate::input::Input;
use crate::parse::{Reader, Scratch, Spot};
use crate::visit::Visitor;

/// Redis keeps times of fields in 48 bits.
const MAX_EXPIRY: u64 = (1 << 48) - 1;

fn absolute(ttl: u64, min: Option<i64>, at: u64) -> Result<Option<i64>> {
    if ttl == 0 {
        return Ok(None);
    }
    let ms = match min {
        Some(min) => u64::try_from(min).ok().and_then(|min| min.checked_add(ttl - 1)),
        None => Some(ttl),
    };
    match ms {
        Some(ms @ ..=MAX_EXPIRY) => Ok(Some(ms as i64)),
        _ => Err(Error::corrupt(at, "a field that expires later than can be")),
    }
}

/// Types 24 (`relative`) and 22 of Redis.
pub(crate) fn with_ttl<I: Input, V: Visitor>(
    r: &mut Reader<'_, I>,
    scratch: &mut (Scratch, Scratch),
    relative: bool,
    v: &mut V,
) -> Result<()> {
    let min = if relative { Some(r.i64()?) } else { None };
    for _ in 0..r.count(3)? {
        let at = r.input.offset();
        let expiry = absolute(r.length()?, min, at)?;
        r.pair::<0, _>(scratch, |field, value, _| v.hash_field(field, value, expiry))?;
    }
    Ok(())
}

/// Types 25 (`min` in front) and 23 of Redis.
pub(crate) fn listpack_with_ttl<I: Input, V: Visitor>(
    r: &mut Reader<'_, I>,
    scratch: &mut Scratch,
    min: bool,
    v: &mut V,
) -> Result<()> {
    if min {
        // Only a copy of the earliest time below.
        r.i64()?;
    }
    r.blob(scratch, |blob| {
        let mut digits = (itoa::Buffer::new(), itoa::Buffer::new());
        let mut entries = Listpack::new(blob.bytes).map_err(|spot| blob.fault(spot))?;
        let mut next = || Ok::<_, Error>((entries.next().map_err(|spot| blob.fault(spot))?, entries.position()));
        while let (Some(field), _) = next()? {
            let (value, _) = next()?;
            let (ttl, at) = next()?;
            let (Some(value), Some(ttl)) = (value, ttl) else {
                return Err(blob.fault(Spot { at, what: "a field without its value or time" }));
            };
            let Some(ttl) = ttl.int().and_then(|ttl| u64::try_from(ttl).ok()) else {
                return Err(blob.fault(Spot { at, what: "a field whose time is no time" }));
            };
            let expiry = absolute(ttl, None, blob.offset)?;
            v.hash_field(field.bytes(&mut digits.0), value.bytes(&mut digits.1), expiry)?;
        }
        Ok(())
    })
}

/// Type 22 of Valkey.
pub(crate) fn with_expiry<I: Input, V: Visitor>(
    r: &mut Reader<'_, I>,
    scratch: &mut (Scratch, Scratch),
    v: &mut V,
) -> Result<()> {
    for _ in 0..r.count(10)? {
        r.pair::<8, _>(scratch, |field, value, expiry| {
            let expiry = i64::from_le_bytes(*expiry);
            v.hash_field(field, value, (expiry != -1).then_some(expiry))
        })?;
    }
    Ok(())
}

/// Type 23 of Valkey 81.
pub(crate) fn with_paths<I: Input, V: Visitor>(
    r: &mut Reader<'_, I>,
    scratch: &mut (Scratch, Scratch),
    v: &mut V,
) -> Result<()> {
    for _ in 0..r.count(2)? {
        r.string(&mut scratch.0, |path| v.hash_path(path))?;
        for _ in 0..r.count(2)? {
            r.pair::<0, _>(scratch, |field, value, _| v.hash_field(field, value, None))?;
        }
    }
    Ok(())
}

/// Types 29 to 32 of Redis 8.10.
pub(crate) fn templated<I: Input, V: Visitor>(
    ctx: &Context,
    r: &mut Reader<'_, I>,
    scratch: &mut Scratch,
    packed: bool,
    by_id: bool,
    v: &mut V,
) -> Result<()> {
    let start = r.input.offset();
    let mut budget = Budget::new(ctx, start);
    if packed {
        let own = if by_id { None } else { Some(own_template(ctx, r, scratch)?) };
        return r.blob(scratch, |blob| {
            let mut digits = itoa::Buffer::new();
            let mut entries = Listpack::new(blob.bytes).map_err(|spot| blob.fault(spot))?;
            // The number of the template stands first, also where the fields come along: there it is the writer's own.
            let id = entries.next().map_err(|spot| blob.fault(spot))?.and_then(Entry::int);
            let Some(id) = id.and_then(|id| u64::try_from(id).ok()) else {
                return Err(blob.fault(Spot { at: 0, what: "a templated hash without the number of its template" }));
            };
            let (templates, id) = match &own {
                Some(own) => (own, 0),
                None => (&*ctx.templates, id),
            };
            for name in fields_of(templates, id, start)? {
                let at = entries.position();
                let Some(value) = entries.next().map_err(|spot| blob.fault(spot))? else {
                    return Err(blob.fault(Spot { at, what: "fewer values than the template has fields" }));
                };
                let value = value.bytes(&mut digits);
                budget.spend(name.len() + value.len(), blob.end)?;
                v.hash_field(name, value, None)?;
            }
            let at = entries.position();
            match entries.next().map_err(|spot| blob.fault(spot))? {
                Some(_) => Err(blob.fault(Spot { at, what: "more values than the template has fields" })),
                None => Ok(()),
            }
        });
    }
    let own = if by_id { None } else { Some(own_template(ctx, r, scratch)?) };
    let (templates, id) = match &own {
        Some(own) => (own, 0),
        None => (&*ctx.templates, r.length()?),
    };
    for name in fields_of(templates, id, start)? {
        let now = r.input.offset();
        r.string(scratch, |value| {
            budget.spend(name.len() + value.len(), now)?;
            v.hash_field(name, value, None)
        })?;
    }
    Ok(())
}

pub(crate) fn fields_of(templates: &Templates, id: u64, at: u64) -> Result<impl ExactSizeIterator<Item = &[u8]>> {
    templates.fields(id).ok_or_else(|| Error::corrupt(at, "a hash whose template is not in the file"))
}

/// The field names that types 29 and 31 carry themselves.
pub(crate) fn own_template<I: Input>(ctx: &Context, r: &mut Reader<'_, I>, scratch: &mut Scratch) -> Result<Templates> {
    let at = r.input.offset();
    let mut own = Templates::default();
    match r.length()? {
        0 => r.blob(scratch, |blob| {
            let mut digits = itoa::Buffer::new();
            let mut entries = Listpack::new(blob.bytes).map_err(|spot| blob.fault(spot))?;
            while let Some(name) = entries.next().map_err(|spot| blob.fault(spot))? {
                own.add_name(name.bytes(&mut digits), &ctx.limits, blob.offset)?;
            }
            Ok(())
        })?,
        1 => add_names(&ctx.limits, r, scratch, &mut own)?,
        _ => return Err(Error::corrupt(at, "a hash template of unknown form")),
    }
    own.end_template(0, 0, at)?;
    Ok(own)
}

/// A count and as many names.
pub(crate) fn add_names<I: Input>(
    limits: &Limits,
    r: &mut Reader<'_, I>,
    scratch: &mut Scratch,
    templates: &mut Templates,
) -> Result<()> {
    for _ in 0..r.count(1)? {
        let at = r.input.offset();
        r.string(scratch, |name| templates.add_name(name, limits, at))?;
    }
    Ok(())
}
