//! Values of modules: streams of tagged items. Vector sets are one of them.

use crate::error::{Error, ErrorKind, Result};
use crate::input::Input;
use crate::kind::ModuleId;
use crate::parse::{Reader, Scratch};
use crate::visit::{ModuleValue, VectorsetMeta, Visitor};

const END: u64 = 0;
const SINT: u64 = 1;
const UINT: u64 = 2;
const FLOAT: u64 = 3;
const DOUBLE: u64 = 4;
const STRING: u64 = 5;

/// What passing over a module value tells.
#[derive(Default)]
pub(crate) struct Passed {
    pub items: u64,
    /// The second item, if it was an unsigned number: how many elements a vector set has.
    pub second: Option<u64>,
}

/// Passes over tagged items up to and with the end mark.
pub(crate) fn skip_items<I: Input>(r: &mut Reader<'_, I>) -> Result<Passed> {
    let mut passed = Passed::default();
    loop {
        let at = r.input.offset();
        let second = passed.items == 1;
        match r.length()? {
            END => return Ok(passed),
            SINT => {
                r.length()?;
            }
            UINT => {
                let n = r.length()?;
                if second {
                    passed.second = Some(n);
                }
            }
            FLOAT => r.input.skip(4)?,
            DOUBLE => r.input.skip(8)?,
            STRING => r.skip_string()?,
            _ => return Err(Error::corrupt(at, "a module item of unknown form")),
        }
        passed.items += 1;
    }
}

#[cold]
pub(crate) fn pre_release(at: u64) -> Error {
    let what = "a module value of a release candidate (type 6), which has no marks to find its end by";
    Error::new(at, ErrorKind::Unsupported(what.into()))
}

pub(crate) fn decode<I: Input, V: Visitor>(r: &mut Reader<'_, I>, scratch: &mut Scratch, v: &mut V) -> Result<()> {
    let start = r.input.offset();
    let id = ModuleId(r.length()?);
    if id.is_vectorset() {
        return vectorset(r, scratch, v);
    }
    let items = skip_items(r)?.items;
    v.module(&ModuleValue { id, items, bytes: r.input.offset().saturating_sub(start) })
}

fn expect<I: Input>(r: &mut Reader<'_, I>, tag: u64) -> Result<()> {
    let at = r.input.offset();
    if r.length()? == tag {
        Ok(())
    } else {
        Err(Error::corrupt(at, "a vector set whose items are not those of a vector set"))
    }
}

fn uint<I: Input>(r: &mut Reader<'_, I>) -> Result<u64> {
    expect(r, UINT)?;
    r.length()
}

const PROJECTED: u64 = 1;
const ATTRIBUTES: u64 = 2;

fn vectorset<I: Input, V: Visitor>(r: &mut Reader<'_, I>, scratch: &mut Scratch, v: &mut V) -> Result<()> {
    let dim = uint(r)?;
    let at = r.input.offset();
    let count = uint(r)?;
    // Name, vector and number of neighbours take two bytes each at least.
    r.check_count(at, count, 6)?;
    let quantisation = (uint(r)? & 0xff) as u8;
    let flags = uint(r)?;
    let mut original_dim = None;
    if flags & PROJECTED != 0 {
        original_dim = Some(uint(r)?);
        expect(r, STRING)?;
        r.skip_string()?;
    }
    let has_attributes = flags & ATTRIBUTES != 0;
    v.vectorset_meta(&VectorsetMeta { dim, count, quantisation, original_dim, has_attributes })?;
    let mut name = Vec::new();
    let mut attributes = Vec::new();
    for _ in 0..count {
        name.clear();
        attributes.clear();
        expect(r, STRING)?;
        r.string_into(scratch, &mut name)?;
        if has_attributes {
            expect(r, STRING)?;
            r.string_into(scratch, &mut attributes)?;
        }
        let present = (!attributes.is_empty()).then_some(&*attributes);
        expect(r, STRING)?;
        r.string(scratch, |vector| v.vectorset_element(&name, present, vector))?;
        for _ in 0..uint(r)? {
            uint(r)?;
        }
    }
    expect(r, END)
}
