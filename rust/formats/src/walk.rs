//! The index pass: every item of a file, values passed over.

use std::sync::Arc;

use crate::behind::Behind;
use crate::context::{Context, Limits};
use crate::decode::Decoder;
use crate::error::{Error, ErrorKind, Result};
use crate::header::{Family, Frame, Header};
use crate::input::Input;
use crate::item::{Checksum, Function, Item, KeyEntry};
use crate::kind::{Encoding, Kind, MetaClass, ModuleId, Shape};
use crate::opcode;
use crate::parse::Reader;
use crate::skip;
use crate::visit::Visitor;

/// What stands before a key and holds for it alone.
#[derive(Default)]
struct Modifiers {
    from: Option<u64>,
    expire_at_ms: Option<i64>,
    lru_idle_s: Option<u64>,
    lfu_freq: Option<u8>,
    has_meta: bool,
}

/// What holds for the keys that follow, until the file says otherwise.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    db: u64,
    slot: Option<u64>,
}

/// A key whose bytes are in the walker.
#[derive(Clone, Copy)]
struct Head {
    rdb_type: u8,
    shape: Shape,
    kind: Kind,
    encoding: Encoding,
    module: Option<ModuleId>,
    expire_at_ms: Option<i64>,
    lru_idle_s: Option<u64>,
    lfu_freq: Option<u8>,
    slot: Option<u64>,
    entry_offset: u64,
    value_offset: u64,
}

/// An item whose bytes are in the walker.
enum Step {
    Aux,
    ModuleAux { id: ModuleId, when: u64, items: u64, bytes: u64 },
    Function { pre_release: bool },
    SelectDb(u64),
    ResizeDb { keys: u64, expires: u64 },
    SlotInfo { slot: u64, keys: u64, expires: u64 },
    SlotImport { ranges: u64 },
    HashTemplate { id: u64, fields: u64 },
    Vendor { opcode: u8, value: u64 },
    Key(Head),
    End(Checksum),
}

#[derive(Clone, Copy)]
enum State {
    Between,
    /// At the value of a key.
    AtValue(Head),
    Ended,
    Failed,
}

/// Walks a file from its header to its checksum.
pub struct Walker<I> {
    input: I,
    header: Header,
    frame: Option<Frame>,
    ctx: Context,
    place: Place,
    modifiers: Modifiers,
    state: State,
    stray_modifiers: u64,
    checksum_offset: u64,
    key: Vec<u8>,
    /// Bytes of the other items.
    text: [Vec<u8>; 3],
    key_meta: Vec<MetaClass>,
    decoder: Decoder,
}

impl<I: Input> Walker<I> {
    /// Reads the header. A frame that replication puts around a snapshot is taken off.
    pub fn open(mut input: I, limits: Limits) -> Result<Self> {
        let frame = Frame::read(&mut input)?;
        let header = Header::read(&mut input, limits.allow_newer)?;
        let ctx = Context::new(header.family, header.version, limits);
        Ok(Walker { frame, ..Self::resume(input, header, ctx, Place::default()) })
    }

    /// Goes on at a place that another walker of the same file has passed.
    pub(crate) fn resume(input: I, header: Header, ctx: Context, place: Place) -> Self {
        Walker {
            input,
            header,
            frame: None,
            ctx,
            place,
            modifiers: Modifiers::default(),
            state: State::Between,
            stray_modifiers: 0,
            checksum_offset: 0,
            key: Vec::new(),
            text: Default::default(),
            key_meta: Vec::new(),
            decoder: Decoder::default(),
        }
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Whether the next item is one of field names.
    pub(crate) fn at_template(&mut self) -> bool {
        self.header.family == Family::Redis && matches!(self.peek(), Ok(opcode::HASH_TEMPLATE))
    }

    /// Whether what stands before the keys and databases is over.
    pub(crate) fn at_key_or_database(&mut self) -> Result<bool> {
        let family = self.header.family;
        Ok(match self.peek()? {
            0..opcode::FIRST | opcode::SELECTDB | opcode::EOF => true,
            opcode::EXPIRETIME | opcode::EXPIRETIME_MS | opcode::FREQ | opcode::IDLE => true,
            opcode::KEY_META => family == Family::Redis,
            _ => false,
        })
    }

    fn peek(&mut self) -> Result<u8> {
        self.input.fill(1)?;
        self.input.buffered().first().copied().ok_or_else(|| Error::truncated(self.input.offset(), 1))
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What values are decoded with. Hash templates stand before the keys: take it after the first key.
    pub fn context(&self) -> Context {
        self.ctx.clone()
    }

    pub fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// After the end of the snapshot, what stands between it and the end of the input.
    pub fn behind(&mut self) -> Result<Behind> {
        Behind::of(&mut self.input)
    }

    /// Where the checksum stands; known after the end.
    pub fn checksum_offset(&self) -> u64 {
        self.checksum_offset
    }

    /// Expiry times and the like that stood before no key.
    pub fn stray_modifiers(&self) -> u64 {
        self.stray_modifiers
    }

    /// Gives the input back, e.g. to read the commands behind the snapshot in an append-only file.
    pub fn into_input(self) -> I {
        self.input
    }

    /// The next item, its value passed over; `None` after the end.
    #[allow(clippy::should_implement_trait)] // The items borrow from the walker, which an iterator cannot express.
    pub fn next(&mut self) -> Result<Option<Item<'_>>> {
        let Some(step) = self.advance()? else { return Ok(None) };
        if let Step::Key(head) = step {
            let elements = self.skip_value()?;
            return Ok(Some(Item::Key(self.entry(head, elements))));
        }
        Ok(Some(self.item(step)))
    }

    /// The next item, with the walker left at the value of a key: follow with [`decode_value`](Self::decode_value),
    /// or go on and the value is passed over.
    pub fn next_undecoded(&mut self) -> Result<Option<Item<'_>>> {
        match self.advance()? {
            Some(step) => Ok(Some(self.item(step))),
            None => Ok(None),
        }
    }

    /// Decodes the value that [`next_undecoded`](Self::next_undecoded) has left the walker at.
    pub fn decode_value<V: Visitor>(&mut self, v: &mut V) -> Result<()> {
        let State::AtValue(head) = self.state else {
            return Err(Error::corrupt(self.input.offset(), "no value to decode here"));
        };
        self.state = State::Failed;
        match self.decoder.decode(&self.ctx, head.rdb_type, &mut self.input, v) {
            Ok(()) => {
                self.state = State::Between;
                Ok(())
            }
            Err(error) => Err(error.in_key(&self.key, Some(head.kind))),
        }
    }

    fn skip_value(&mut self) -> Result<Option<u64>> {
        let State::AtValue(head) = self.state else { return Ok(None) };
        self.state = State::Failed;
        let mut r = Reader { input: &mut self.input, rules: (&self.ctx).into() };
        match skip::value(&self.ctx, &mut r, &mut self.decoder.pair.0, head.shape) {
            Ok(elements) => {
                self.state = State::Between;
                // Only of vector sets is it known which item of a module counts elements.
                Ok(elements.filter(|_| head.kind != Kind::Module))
            }
            Err(error) => Err(error.in_key(&self.key, Some(head.kind))),
        }
    }

    fn entry(&self, head: Head, elements: Option<u64>) -> KeyEntry<'_> {
        KeyEntry {
            db: self.place.db,
            key: &self.key,
            rdb_type: head.rdb_type,
            kind: head.kind,
            encoding: head.encoding,
            expire_at_ms: head.expire_at_ms,
            lru_idle_s: head.lru_idle_s,
            lfu_freq: head.lfu_freq,
            slot: head.slot,
            entry_offset: head.entry_offset,
            value_offset: head.value_offset,
            end_offset: self.input.offset(),
            elements,
            module: head.module,
            key_meta: &self.key_meta,
        }
    }

    fn item(&self, step: Step) -> Item<'_> {
        let [a, b, c] = &self.text;
        match step {
            Step::Aux => Item::Aux { name: a, value: b },
            Step::ModuleAux { id, when, items, bytes } => Item::ModuleAux { id, when, items, bytes },
            Step::Function { pre_release: true } => {
                Item::Function(Function { name: Some(a), engine: Some(b), source: c, pre_release: true })
            }
            Step::Function { pre_release: false } => Item::Function(Function::of_source(c)),
            Step::SelectDb(db) => Item::SelectDb(db),
            Step::ResizeDb { keys, expires } => Item::ResizeDb { keys, expires },
            Step::SlotInfo { slot, keys, expires } => Item::SlotInfo { slot, keys, expires },
            Step::SlotImport { ranges } => Item::SlotImport { job: a, ranges },
            Step::HashTemplate { id, fields } => Item::HashTemplate { id, fields },
            Step::Vendor { opcode, value } => Item::Vendor { opcode, value },
            Step::Key(head) => Item::Key(self.entry(head, None)),
            Step::End(checksum) => Item::End(checksum),
        }
    }

    fn advance(&mut self) -> Result<Option<Step>> {
        match self.state {
            State::Between => {}
            State::AtValue(_) => {
                self.skip_value()?;
            }
            State::Ended => return Ok(None),
            State::Failed => {
                return Err(Error::corrupt(self.input.offset(), "nothing can be read behind an earlier fault"));
            }
        }
        self.state = State::Failed;
        let step = self.step()?;
        self.state = match step {
            Step::Key(head) => State::AtValue(head),
            Step::End(_) => State::Ended,
            _ => State::Between,
        };
        Ok(Some(step))
    }

    fn step(&mut self) -> Result<Step> {
        loop {
            let at = self.input.offset();
            let byte = self.input.u8()?;
            if byte < opcode::FIRST {
                return self.key(at, byte).map(Step::Key);
            }
            let mut r = Reader { input: &mut self.input, rules: (&self.ctx).into() };
            match (byte, self.header.family) {
                (opcode::EXPIRETIME, _) => {
                    let seconds = i32::from_le_bytes(r.input.array()?);
                    self.modifiers.expire_at_ms = Some(i64::from(seconds) * 1000);
                }
                (opcode::EXPIRETIME_MS, _) => self.modifiers.expire_at_ms = Some(r.i64()?),
                (opcode::FREQ, _) => self.modifiers.lfu_freq = Some(r.input.u8()?),
                (opcode::IDLE, _) => self.modifiers.lru_idle_s = Some(r.length()?),
                (opcode::KEY_META, Family::Redis) => {
                    opcode::key_meta(&mut r, &mut self.key_meta)?;
                    self.modifiers.has_meta = true;
                }
                _ => return self.other(at, byte),
            }
            self.modifiers.from.get_or_insert(at);
        }
    }

    /// Everything that is neither a key nor a modifier of one.
    fn other(&mut self, at: u64, byte: u8) -> Result<Step> {
        let mut r = Reader { input: &mut self.input, rules: (&self.ctx).into() };
        let scratch = &mut self.decoder.pair.0;
        let [a, b, c] = &mut self.text;
        let mut string = |r: &mut Reader<'_, I>, out: &mut Vec<u8>| {
            out.clear();
            r.string_into(scratch, out)
        };
        Ok(match (byte, self.header.family) {
            (opcode::AUX, _) => {
                string(&mut r, a)?;
                string(&mut r, b)?;
                if a == b"slot-info" {
                    self.place.slot = slot_of(b).or(self.place.slot);
                }
                Step::Aux
            }
            (opcode::MODULE_AUX, _) => {
                let (id, when, items) = opcode::module_aux(&mut r)?;
                Step::ModuleAux { id, when, items, bytes: r.input.offset().saturating_sub(at) }
            }
            (opcode::FUNCTION_PRE_GA, _) => {
                string(&mut r, a)?;
                string(&mut r, b)?;
                if r.length()? != 0 {
                    r.skip_string()?;
                }
                string(&mut r, c)?;
                Step::Function { pre_release: true }
            }
            (opcode::FUNCTION, _) => {
                string(&mut r, c)?;
                Step::Function { pre_release: false }
            }
            (opcode::SELECTDB, _) => {
                self.place = Place { db: r.length()?, slot: None };
                Step::SelectDb(self.place.db)
            }
            (opcode::RESIZEDB, _) => Step::ResizeDb { keys: r.length()?, expires: r.length()? },
            (opcode::SLOT_INFO, _) => {
                let (slot, keys, expires) = (r.length()?, r.length()?, r.length()?);
                self.place.slot = Some(slot);
                Step::SlotInfo { slot, keys, expires }
            }
            (opcode::SLOT_IMPORT, Family::Valkey) => {
                string(&mut r, a)?;
                let ranges = r.count(2)?;
                for _ in 0..ranges {
                    r.length()?;
                    r.length()?;
                }
                Step::SlotImport { ranges }
            }
            (opcode::UPDATE, Family::Valkey) => Step::Vendor { opcode: byte, value: opcode::skip_command(&mut r)? },
            (opcode::HASH_TEMPLATE, Family::Redis) => {
                let (id, fields) = opcode::hash_template(&self.ctx.limits, &mut r, scratch, || {
                    Arc::make_mut(&mut self.ctx.templates)
                })?;
                Step::HashTemplate { id, fields }
            }
            (opcode::EOF, _) => {
                if self.modifiers.from.take().is_some() {
                    self.stray_modifiers += 1;
                }
                Step::End(self.end()?)
            }
            (opcode::ENTERPRISE_LRU, Family::Redis) => Step::Vendor { opcode: byte, value: r.length()? },
            (opcode::ENTERPRISE_SLOT, Family::Redis) => {
                let value = r.length()?;
                self.place.slot = Some(value);
                Step::Vendor { opcode: byte, value }
            }
            (opcode::DRAGONFLY_FLAGS, Family::Redis) => {
                Step::Vendor { opcode: byte, value: u64::from(u32::from_le_bytes(r.input.array()?)) }
            }
            (opcode::DRAGONFLY_SYNCED, Family::Redis) => Step::Vendor { opcode: byte, value: 0 },
            (opcode::DRAGONFLY_ZSTD | opcode::DRAGONFLY_LZ4, Family::Redis) => {
                let what = "a compressed run of entries as Dragonfly writes it";
                return Err(Error::new(at, ErrorKind::Unsupported(what.into())));
            }
            _ => return Err(Error::new(at, ErrorKind::UnknownOpcode(byte))),
        })
    }

    fn key(&mut self, at: u64, rdb_type: u8) -> Result<Head> {
        let Some(shape) = Shape::of(self.ctx.family, self.ctx.version, rdb_type) else {
            return Err(Error::new(at, ErrorKind::UnknownType(rdb_type)));
        };
        let modifiers = std::mem::take(&mut self.modifiers);
        if !modifiers.has_meta {
            self.key_meta.clear();
        }
        let (mut kind, mut encoding) = shape.names();
        let mut module = None;
        let mut r = Reader { input: &mut self.input, rules: (&self.ctx).into() };
        self.key.clear();
        r.string_into(&mut self.decoder.pair.0, &mut self.key)?;
        let value_offset = r.input.offset();
        match shape {
            Shape::String => {
                r.input.fill(1).map_err(|error| error.in_key(&self.key, Some(kind)))?;
                encoding = match r.input.buffered().first() {
                    Some(0xc0..=0xc2) => Encoding::Int,
                    Some(0xc3) => Encoding::Lzf,
                    _ => Encoding::Raw,
                };
            }
            Shape::Module => {
                let id = ModuleId(r.peek_length().map_err(|error| error.in_key(&self.key, Some(kind)))?);
                if id.is_vectorset() {
                    kind = Kind::Vectorset;
                }
                module = Some(id);
            }
            _ => {}
        }
        Ok(Head {
            rdb_type,
            shape,
            kind,
            encoding,
            module,
            expire_at_ms: modifiers.expire_at_ms,
            lru_idle_s: modifiers.lru_idle_s,
            lfu_freq: modifiers.lfu_freq,
            slot: self.place.slot,
            entry_offset: modifiers.from.unwrap_or(at),
            value_offset,
        })
    }

    fn end(&mut self) -> Result<Checksum> {
        let computed = self.input.crc64();
        self.checksum_offset = self.input.offset();
        let checksum = if self.header.version < 5 {
            Checksum::Absent
        } else {
            match (u64::from_le_bytes(self.input.array()?), computed) {
                (0, _) => Checksum::Disabled,
                (stored, None) => Checksum::NotComputed { stored },
                (stored, Some(computed)) if stored == computed => Checksum::Ok(stored),
                (stored, Some(computed)) => Checksum::Mismatch { stored, computed },
            }
        };
        if let Some(frame) = &self.frame {
            frame.finish(&mut self.input)?;
        }
        Ok(checksum)
    }
}

/// The slot in the text `slot,keys,expires` of Valkey.
fn slot_of(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text.split(|&b| b == b',').next()?).ok()?.parse().ok()
}
