//! Bytes that stand where a type could, and what comes with them.

use crate::context::{Limits, Templates};
use crate::error::{Error, Result};
use crate::hash;
use crate::input::Input;
use crate::kind::{MetaClass, ModuleId};
use crate::module;
use crate::parse::{Reader, Scratch};

/// Numbers below are value types (the highest known is 64, KeyDB's).
pub(crate) const FIRST: u8 = 100;

pub(crate) const ENTERPRISE_LRU: u8 = 107;
pub(crate) const ENTERPRISE_SLOT: u8 = 121;
pub(crate) const DRAGONFLY_SYNCED: u8 = 200;
pub(crate) const DRAGONFLY_ZSTD: u8 = 201;
pub(crate) const DRAGONFLY_LZ4: u8 = 202;
pub(crate) const DRAGONFLY_FLAGS: u8 = 220;
/// Redis 8.10.
pub(crate) const HASH_TEMPLATE: u8 = 242;
/// Valkey 81.
pub(crate) const UPDATE: u8 = 242;
/// Redis 8.6.
pub(crate) const KEY_META: u8 = 243;
/// Valkey 9.
pub(crate) const SLOT_IMPORT: u8 = 243;
pub(crate) const SLOT_INFO: u8 = 244;
pub(crate) const FUNCTION: u8 = 245;
pub(crate) const FUNCTION_PRE_GA: u8 = 246;
pub(crate) const MODULE_AUX: u8 = 247;
pub(crate) const IDLE: u8 = 248;
pub(crate) const FREQ: u8 = 249;
pub(crate) const AUX: u8 = 250;
pub(crate) const RESIZEDB: u8 = 251;
pub(crate) const EXPIRETIME_MS: u8 = 252;
pub(crate) const EXPIRETIME: u8 = 253;
pub(crate) const SELECTDB: u8 = 254;
pub(crate) const EOF: u8 = 255;

/// The most classes that a key can have metadata of.
const MAX_CLASSES: u64 = 7;

/// Classes of the metadata beside a key; the metadata itself is passed over.
pub(crate) fn key_meta<I: Input>(r: &mut Reader<'_, I>, classes: &mut Vec<MetaClass>) -> Result<()> {
    classes.clear();
    let at = r.input.offset();
    let n = r.length()?;
    if n > MAX_CLASSES {
        return Err(Error::corrupt(at, "more classes of metadata than a key can have"));
    }
    for _ in 0..n {
        classes.push(MetaClass(u32::from_le_bytes(r.input.array()?)));
        module::skip_items(r)?;
    }
    Ok(())
}

/// Module, time and number of items of what a module stores beside the keys.
pub(crate) fn module_aux<I: Input>(r: &mut Reader<'_, I>) -> Result<(ModuleId, u64, u64)> {
    let id = ModuleId(r.length()?);
    let at = r.input.offset();
    if r.length()? != 2 {
        return Err(Error::corrupt(at, "data of a module that does not say when it was saved"));
    }
    let when = r.length()?;
    Ok((id, when, module::skip_items(r)?.items))
}

/// Adds a template; its id and number of fields.
pub(crate) fn hash_template<'t, I: Input>(
    limits: &Limits,
    r: &mut Reader<'_, I>,
    scratch: &mut Scratch,
    templates: impl FnOnce() -> &'t mut Templates,
) -> Result<(u64, u64)> {
    let at = r.input.offset();
    let id = r.length()?;
    let templates = templates();
    let from = templates.name_count();
    hash::add_names(limits, r, scratch, templates)?;
    templates.end_template(id, from, at)?;
    match templates.field_count(id) {
        Some(fields @ 1..) => Ok((id, fields as u64)),
        _ => Err(Error::corrupt(at, "a hash template without fields")),
    }
}

/// Passes over one command as clients send it; the number of its arguments.
pub(crate) fn skip_command<I: Input>(r: &mut Reader<'_, I>) -> Result<u64> {
    let at = r.input.offset();
    let arguments = prefixed(r, b'*')?;
    // An argument takes `$0`, CR LF and CR LF at least.
    r.check_count(at, arguments, 6)?;
    for _ in 0..arguments {
        let len = prefixed(r, b'$')?;
        r.input.skip(len)?;
        if r.input.array::<2>()? != *b"\r\n" {
            return Err(Error::corrupt(at, "a command whose arguments do not end where they should"));
        }
    }
    Ok(arguments)
}

/// A line of a mark and a number.
fn prefixed<I: Input>(r: &mut Reader<'_, I>, mark: u8) -> Result<u64> {
    let at = r.input.offset();
    let bad = || Error::corrupt(at, "a command that is not in the form of the protocol");
    if r.input.u8()? != mark {
        return Err(bad());
    }
    let mut n: Option<u64> = None;
    loop {
        match r.input.u8()? {
            digit @ b'0'..=b'9' => {
                let next = n.unwrap_or(0).checked_mul(10).and_then(|n| n.checked_add(u64::from(digit - b'0')));
                n = Some(next.ok_or_else(bad)?);
            }
            b'\r' if r.input.u8()? == b'\n' => return n.ok_or_else(bad),
            _ => return Err(bad()),
        }
    }
}
