//! Payloads of the DUMP command: one value, its version and a checksum.

use std::ops::Range;

use crate::context::{Context, Limits};
use crate::crc;
use crate::decode::Decoder;
use crate::error::{Error, ErrorKind, Result};
use crate::header::Family;
use crate::input::{Input, SliceInput};
use crate::item::Function;
use crate::kind::{Encoding, Kind, MetaClass, Shape};
use crate::opcode;
use crate::parse::{Reader, Scratch};
use crate::visit::Visitor;

/// What a payload says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpInfo {
    pub family: Family,
    pub version: u32,
    pub rdb_type: u8,
    pub kind: Kind,
    /// As the type alone tells it.
    pub encoding: Encoding,
    pub key_meta: Vec<MetaClass>,
    /// Where in the payload the value stands.
    pub value: Range<usize>,
}

impl DumpInfo {
    /// What the value is decoded with.
    pub fn context(&self, limits: Limits) -> Context {
        Context::new(self.family, self.version, limits)
    }
}

/// Version and checksum.
const TRAILER: usize = 10;

/// Checks a payload and hands the pieces of its value to `v`.
///
/// # Errors
/// Those of [`inspect_dump`]; damage to the value; bytes left over.
pub fn decode_dump<V: Visitor>(payload: &[u8], limits: Limits, v: &mut V) -> Result<DumpInfo> {
    let info = inspect_dump(payload, limits)?;
    decode_inspected(payload, &info, limits, v)?;
    Ok(info)
}

/// The second half of [`decode_dump`].
pub(crate) fn decode_inspected<V: Visitor>(payload: &[u8], info: &DumpInfo, limits: Limits, v: &mut V) -> Result<()> {
    let mut input = SliceInput::new(payload.get(info.value.clone()).unwrap_or_default(), info.value.start as u64);
    Decoder::default().decode(&info.context(limits), info.rdb_type, &mut input, v)?;
    if input.remaining() > 0 {
        return Err(Error::corrupt(input.offset(), "bytes between the value and its trailer"));
    }
    Ok(())
}

/// Checks what FUNCTION DUMP gives and hands over its libraries, in order: items as in a file, with the trailer of a DUMP
/// payload behind them.
///
/// # Errors
/// A wrong checksum, a version newer than known, anything but libraries; those before it were handed over.
pub fn decode_function_dump(payload: &[u8], limits: Limits, mut each: impl FnMut(&Function<'_>)) -> Result<()> {
    let (body, family, version) = trailed(payload, limits)?;
    let ctx = Context::new(family, version, limits);
    let mut input = SliceInput::new(body, 0);
    let (mut scratch, mut source) = (Scratch::default(), Vec::new());
    while input.remaining() > 0 {
        let at = input.offset();
        match input.u8()? {
            opcode::FUNCTION => {
                source.clear();
                Reader { input: &mut input, rules: (&ctx).into() }.string_into(&mut scratch, &mut source)?;
                each(&Function::of_source(&source));
            }
            other => return Err(Error::new(at, ErrorKind::UnknownType(other))),
        }
    }
    Ok(())
}

/// Checks a payload and tells what stands before its value.
///
/// # Errors
/// A wrong checksum (0 is no exception here), a version newer than known, an unknown type.
pub fn inspect_dump(payload: &[u8], limits: Limits) -> Result<DumpInfo> {
    let (body, family, version) = trailed(payload, limits)?;
    let ctx = Context::new(family, version, limits);
    let mut input = SliceInput::new(body, 0);
    let mut key_meta = Vec::new();
    let mut rdb_type = input.u8()?;
    if rdb_type == opcode::KEY_META && family == Family::Redis {
        opcode::key_meta(&mut Reader { input: &mut input, rules: (&ctx).into() }, &mut key_meta)?;
        rdb_type = input.u8()?;
    }
    let Some(shape) = Shape::of(family, version, rdb_type) else {
        return Err(Error::new(input.offset().saturating_sub(1), ErrorKind::UnknownType(rdb_type)));
    };
    let (mut kind, encoding) = shape.names();
    if shape == Shape::Module {
        let mut r = Reader { input: &mut input, rules: (&ctx).into() };
        if crate::kind::ModuleId(r.peek_length()?).is_vectorset() {
            kind = Kind::Vectorset;
        }
    }
    let value = body.len().saturating_sub(input.buffered().len())..body.len();
    Ok(DumpInfo { family, version, rdb_type, kind, encoding, key_meta, value })
}

/// What stands before the trailer, and whose version the trailer has.
fn trailed(payload: &[u8], limits: Limits) -> Result<(&[u8], Family, u32)> {
    let len = payload.len() as u64;
    let Some((body, trailer)) = payload.split_last_chunk::<TRAILER>() else {
        let kind = match len {
            0 => ErrorKind::Empty,
            _ => ErrorKind::Truncated { needed: (TRAILER as u64).saturating_sub(len) },
        };
        return Err(Error::new(0, kind));
    };
    let [low, high, sum @ ..] = *trailer;
    let version = u32::from(u16::from_le_bytes([low, high]));
    let stored = u64::from_le_bytes(sum);
    let computed = crc::of(payload.get(..payload.len() - 8).unwrap_or_default());
    if stored != computed {
        return Err(Error::new(len - 8, ErrorKind::Checksum { stored, computed }));
    }
    let family = Family::of_version(version);
    if version > family.newest_known() && !limits.allow_newer {
        let magic = "a DUMP payload".to_string();
        return Err(Error::new(len - TRAILER as u64, ErrorKind::UnsupportedVersion { magic, version }));
    }
    Ok((body, family, version))
}
