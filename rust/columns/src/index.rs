//! The index pass: one walk over a file gives its keys table and what there is to say of it.

use std::fs::File;
use std::io;

use jobsleuth_formats::{
    self as formats, Ahead, Checksum, Context, ErrorKind, FileInput, Input, Item, KeyEntry, Kind, Limits, Walker,
};

use crate::announced::{Slots, judge_databases, slot_info};
use crate::error::{Error, Result};
use crate::summary::{Summary, salvageable};
use crate::table::{KeyTable, KeyTableBuilder, NewKey};

/// Bytes between two reports of progress.
const STEP: u64 = 8 << 20;

/// Names may unfold to so many times the bytes of the file, and so much more: a name compressed well is a rare thing, and
/// all names are kept in memory.
const NAMES_PER_BYTE: u64 = 4;
const NAMES_AT_LEAST: u64 = 64 << 20;

/// Databases above this cannot be made with a server's own configuration.
const ODD_DB: u64 = 1 << 31;

/// A file after the pass.
#[derive(Debug)]
pub struct Indexed {
    pub table: KeyTable,
    pub summary: Summary,
    /// What the values are decoded with.
    pub context: Context,
}

/// Walks the whole file. `salvage` keeps what stands before a fault, and takes a wrong checksum as a warning.
/// `progress` gets bytes done and bytes in all now and then; an error from it ends the pass.
pub fn index(
    file: &File,
    limits: Limits,
    salvage: bool,
    progress: &mut dyn FnMut(u64, u64) -> io::Result<()>,
) -> Result<Indexed> {
    let bytes = file.metadata().map_err(formats::Error::from)?.len();
    let ahead = file.try_clone().and_then(Ahead::new).map_err(formats::Error::from)?;
    let input = FileInput::new(ahead, bytes, true);
    let mut walker = Walker::open(input, limits)?;
    let mut pass = Pass {
        table: KeyTableBuilder::new(),
        summary: Summary::start(walker.header(), bytes),
        run: Run::default(),
        slots: Slots::default(),
        checksum: None,
        names: 0,
        names_cap: bytes.saturating_mul(NAMES_PER_BYTE).saturating_add(NAMES_AT_LEAST),
    };
    let mut next_report = STEP;
    let outcome = loop {
        let at = walker.offset();
        if at >= next_report {
            next_report = at.saturating_add(STEP);
            progress(at, bytes).map_err(formats::Error::from)?;
        }
        match walker.next() {
            Ok(Some(Item::Key(entry))) => match pass.room_for(&entry) {
                Ok(()) => pass.key(&entry)?,
                Err(error) => break Err(error),
            },
            Ok(Some(item)) => pass.item(at, &item),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    pass.run.count_into(&mut pass.summary);
    let end = walker.offset();
    pass.summary.end_offset = end;
    if let Err(error) = outcome {
        if !salvage || !salvageable(&error) {
            return Err(error.into());
        }
        pass.summary.fail(&error);
    } else {
        pass.ended(end, &mut walker, salvage)?;
    }
    // After a fault too: it tells how much is missing.
    pass.slots.close(&mut pass.summary);
    judge_databases(&mut pass.summary);
    if walker.frame().is_some() {
        let message = "the snapshot stands in a replication frame".to_owned();
        pass.summary.note("replication_frame", Some(0), 1, message);
    }
    progress(end, bytes).map_err(formats::Error::from)?;
    Ok(Indexed { table: pass.table.finish()?, summary: pass.summary, context: walker.context() })
}

/// Keys of one database that came one after another: counted here, since to look up who keeps the count takes as long
/// as to pass over a short key.
#[derive(Default)]
struct Run {
    db: u64,
    expires: u64,
    kinds: [u64; Kind::ALL.len()],
}

impl Run {
    fn count_into(&mut self, summary: &mut Summary) {
        let keys = self.kinds.iter().sum::<u64>();
        if keys > 0 {
            summary.count(self.db, keys, self.expires, Kind::ALL.into_iter().zip(self.kinds));
        }
        *self = Run { db: self.db, ..Run::default() };
    }
}

struct Pass {
    table: KeyTableBuilder,
    summary: Summary,
    run: Run,
    slots: Slots,
    checksum: Option<Checksum>,
    /// Bytes of all names so far, and at most.
    names: u64,
    names_cap: u64,
}

impl Pass {
    fn room_for(&mut self, entry: &KeyEntry<'_>) -> formats::Result<()> {
        self.names = self.names.saturating_add(entry.key.len() as u64);
        if self.names <= self.names_cap {
            return Ok(());
        }
        let kind = ErrorKind::Limit { what: "names of keys", asked: self.names, cap: self.names_cap };
        Err(formats::Error::new(entry.entry_offset, kind))
    }

    fn key(&mut self, entry: &KeyEntry<'_>) -> Result<()> {
        let summary = &mut self.summary;
        let expires = entry.expire_at_ms.is_some();
        if let Some(count) = self.run.kinds.get_mut(usize::from(entry.kind.code())) {
            *count += 1;
        }
        self.run.expires += u64::from(expires);
        self.slots.key(expires);
        if let Some(id) = entry.module {
            summary.learn_module(id, 1);
        }
        let at = entry.entry_offset;
        if entry.elements == Some(0) && !matches!(entry.kind, Kind::String | Kind::Stream) {
            summary.warn("empty_key", at, || "a collection without elements, which servers do not keep".to_owned());
        }
        if entry.db >= ODD_DB {
            summary.warn("odd_database", at, || format!("a key in database {}, which no server has", entry.db));
        }
        if !entry.key_meta.is_empty() {
            summary.warn("key_metadata", at, || "metadata of modules beside keys was passed over".to_owned());
        }
        self.table.push(&NewKey {
            db: entry.db,
            key: entry.key,
            kind: entry.kind,
            encoding: entry.encoding,
            expire_at: entry.expire_at_ms,
            offset: at,
            value_offset: entry.value_offset,
            end: entry.end_offset,
            elements: entry.elements,
            rdb_type: entry.rdb_type,
        })
    }

    fn item(&mut self, at: u64, item: &Item<'_>) {
        let summary = &mut self.summary;
        match *item {
            Item::Aux { name: b"slot-info", value } => match slot_info(value) {
                Some((slot, keys, expires)) => self.slots.open(summary, at, slot, keys, expires),
                None => summary.learn_aux(b"slot-info", value, at),
            },
            Item::SlotInfo { slot, keys, expires } => self.slots.open(summary, at, slot, keys, expires),
            Item::Aux { name, value } => summary.learn_aux(name, value, at),
            Item::ModuleAux { id, .. } => {
                summary.counts.module_aux += 1;
                summary.learn_module(id, 0);
            }
            Item::Function(ref function) => {
                if function.pre_release {
                    let message = || "a function stored as only release candidates of Redis 7.0 did".to_owned();
                    summary.warn("pre_release_function", at, message);
                }
                summary.learn_function(function.name, function.engine, function.source.len());
            }
            Item::SelectDb(db) => {
                self.run.count_into(summary);
                self.run.db = db;
                self.slots.close(summary);
                summary.database(db);
            }
            Item::ResizeDb { keys, expires } => {
                if let Some(database) = summary.database(self.run.db) {
                    database.hint_keys = Some(keys);
                    database.hint_expires = Some(expires);
                }
            }
            Item::SlotImport { .. } => {
                summary.warn("slot_import", at, || "a migration of cluster slots was under way".to_owned());
            }
            Item::HashTemplate { .. } => summary.counts.hash_templates += 1,
            Item::Vendor { opcode, .. } => {
                summary.warn("vendor_opcode", at, || format!("opcode {opcode} of a fork was passed over"));
            }
            Item::End(checksum) => {
                self.checksum = Some(checksum);
                summary.checksum = checksum.into();
            }
            _ => {}
        }
    }

    fn ended<I: Input>(&mut self, end: u64, walker: &mut Walker<I>, salvage: bool) -> Result<()> {
        let (behind, stray_modifiers) = (walker.behind()?, walker.stray_modifiers());
        let summary = &mut self.summary;
        summary.trailing_bytes = behind.bytes();
        if let Some(kind) = behind.kind() {
            summary.note(kind, Some(end), behind.bytes(), behind.to_string());
        }
        if stray_modifiers > 0 {
            let message = "an expiry time or the like belongs to no key".to_owned();
            summary.note("stray_modifier", None, stray_modifiers, message);
        }
        if let Some(Checksum::Mismatch { stored, computed }) = self.checksum {
            let kind = ErrorKind::Checksum { stored, computed };
            let error = formats::Error::new(walker.checksum_offset(), kind);
            if !salvage {
                return Err(Error::Evidence(error));
            }
            let message = error.message();
            summary.note("wrong_checksum", Some(error.offset), 1, message);
        }
        Ok(())
    }
}
