//! RDB files with every value in its plain encoding.

use std::io::{Seek, Write};
use std::ops::Range;

use jobsleuth_formats::{
    ArrayMeta, Error, Kind, ModuleId, ModuleValue, Result, StreamConsumer, StreamGroup, StreamId, StreamIdempotence,
    StreamMeta, StreamPending, VectorsetMeta, Visitor,
};

use crate::output::Output;
use crate::stream::Stream;

const AUX: u8 = 250;
const EXPIRE_MS: u8 = 252;
const SELECT_DB: u8 = 254;
const EOF: u8 = 255;

/// Type bytes.
const STRING: u8 = 0;
const LIST: u8 = 1;
const SET: u8 = 2;
const HASH: u8 = 4;
const ZSET: u8 = 5;
const MODULE: u8 = 7;
const HASH_WITH_TIMES: u8 = 24;
const ARRAY: u8 = 28;
const RESERVED: u8 = 33;
const KEYDB_CRON: u8 = 64;
/// Settled when the stream is known: 15, 19, 21 or 27.
const STREAM: u8 = 15;

/// Tags of items in module values.
const MODULE_END: u8 = 0;
const MODULE_UINT: u8 = 2;
const MODULE_STRING: u8 = 5;

const VECTORSET_ID: u64 = 0x2f_79cb_68ae_c7ad << 10;
const VECTORSET_ATTRIBUTES: u64 = 2;

/// Times of fields are kept in 48 bits.
const MAX_FIELD_TIME: i64 = (1 << 48) - 1;

/// What hides an entry is cut into pieces of this size, so that a reader need not hold it whole.
const HOLE: u64 = 1 << 20;

/// The form in which a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Plain(Kind),
    /// A hash whose fields may have times to live.
    TimedHash,
}

/// Writes one RDB file. An entry is opened, gets its pieces as a [`Visitor`], and is closed or abandoned.
///
/// The file has no checksum: it lives only as long as the run that reads it.
pub struct Writer<W> {
    out: Output<W>,
    db: Option<u64>,
    entry: Option<Entry>,
    stream: Stream,
    /// A field with a time to live came up in a hash that was opened without them.
    wants_times: bool,
    /// The path that the fields of a hash belong to.
    path: Vec<u8>,
    /// Times of fields outside of what a server can hold, brought to the nearest it can.
    pub clamped_field_times: u64,
}

struct Entry {
    form: Form,
    /// Where the entry starts, and its type byte.
    start: u64,
    type_at: u64,
    count_at: u64,
    count: u64,
    whole: bool,
}

impl<W: Write + Seek> Writer<W> {
    /// Starts the file with the header of an RDB version. `cap` is the size it may not pass.
    pub fn new(to: W, version: u32, cap: u64) -> Self {
        let mut out = Output::new(to, cap);
        out.extend(format!("REDIS{version:04}").as_bytes());
        Writer {
            out,
            db: None,
            entry: None,
            stream: Stream::default(),
            wants_times: false,
            path: Vec::new(),
            clamped_field_times: 0,
        }
    }

    /// A fact about the file.
    pub fn aux(&mut self, name: &[u8], value: &[u8]) {
        self.out.push(AUX);
        self.string(name);
        self.string(value);
    }

    /// Opens an entry.
    ///
    /// # Errors
    /// Those of writing.
    pub fn open(&mut self, db: u64, key: &[u8], expire_at_ms: Option<i64>, form: Form) -> Result<()> {
        if self.db != Some(db) {
            self.out.push(SELECT_DB);
            self.length(db);
            self.db = Some(db);
        }
        let start = self.out.offset();
        if let Some(ms) = expire_at_ms {
            self.out.push(EXPIRE_MS);
            self.out.extend(&ms.to_le_bytes());
        }
        let type_at = self.out.offset();
        self.out.push(match form {
            Form::Plain(Kind::String) => STRING,
            Form::Plain(Kind::List) => LIST,
            Form::Plain(Kind::Set) => SET,
            Form::Plain(Kind::Zset) => ZSET,
            Form::Plain(Kind::Hash) => HASH,
            Form::Plain(Kind::Stream) => STREAM,
            Form::Plain(Kind::Array) => ARRAY,
            Form::Plain(Kind::Vectorset | Kind::Module) => MODULE,
            Form::TimedHash => HASH_WITH_TIMES,
        });
        self.string(key);
        if form == Form::TimedHash {
            // The times of fields count from here.
            self.out.extend(&1_i64.to_le_bytes());
        }
        let count_at = self.out.offset();
        let counted = [Kind::List, Kind::Set, Kind::Zset, Kind::Hash, Kind::Stream].map(Form::Plain).contains(&form);
        let counted = counted || form == Form::TimedHash;
        if counted {
            self.reserve();
        }
        let whole = counted && form != Form::Plain(Kind::Stream);
        self.stream.clear();
        self.wants_times = false;
        self.path.clear();
        self.entry = Some(Entry { form, start, type_at, count_at, count: 0, whole });
        self.out.settle()
    }

    /// Whether the entry must be written anew as [`Form::TimedHash`]: then a piece was refused as
    /// [`Stopped`](jobsleuth_formats::ErrorKind::Stopped).
    pub fn wants_times(&self) -> bool {
        self.wants_times
    }

    /// Closes the entry; the bytes that it takes.
    ///
    /// # Errors
    /// Those of writing, and a value of which a part is missing.
    pub fn close(&mut self) -> Result<Range<u64>> {
        let missing = match &self.entry {
            None => Some("a value without a key"),
            Some(Entry { whole: false, form: Form::Plain(kind), .. }) if *kind != Kind::Stream => {
                Some("a value that is not there")
            }
            Some(_) => None,
        };
        if let Some(missing) = missing {
            // The entry stays open, to be abandoned.
            return Err(Error::corrupt(0, missing));
        }
        let Some(entry) = self.entry.take() else { return Ok(0..0) };
        match entry.form {
            Form::Plain(Kind::Stream) => self.close_stream(&entry)?,
            Form::Plain(Kind::Vectorset) => {
                self.patch_count(entry.count_at, entry.count)?;
                self.out.push(MODULE_END);
            }
            Form::Plain(Kind::List | Kind::Set | Kind::Zset | Kind::Hash | Kind::Array) | Form::TimedHash => {
                self.patch_count(entry.count_at, entry.count)?;
            }
            Form::Plain(Kind::String | Kind::Module) => {}
        }
        self.out.settle()?;
        Ok(entry.start..self.out.offset())
    }

    /// Takes the open entry back.
    ///
    /// # Errors
    /// Those of writing.
    pub fn abandon(&mut self) -> Result<()> {
        match self.entry.take() {
            Some(entry) => self.out.truncate(entry.start),
            None => Ok(()),
        }
    }

    /// Hides a closed entry: facts without a name stand in its place, which readers pass over.
    ///
    /// # Errors
    /// Those of writing.
    pub fn hide(&mut self, entry: Range<u64>) -> Result<()> {
        let mut at = entry.start;
        while at < entry.end {
            let left = entry.end - at;
            // An entry takes four bytes at least, and what is left of it after a piece is larger than that.
            let size = if left > HOLE * 2 { HOLE } else { left };
            let mut bytes = vec![AUX, 0];
            match size.saturating_sub(3) {
                short @ 0..64 => bytes.push(short as u8),
                long => {
                    bytes.push(0x80);
                    bytes.extend_from_slice(&(long.saturating_sub(4) as u32).to_be_bytes());
                }
            }
            bytes.resize(usize::try_from(size).unwrap_or(0), 0);
            self.out.patch(at, &bytes)?;
            at += size;
        }
        Ok(())
    }

    /// Ends the file; what it was written to, and its size.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self) -> Result<(W, u64)> {
        self.abandon()?;
        self.out.push(EOF);
        self.out.extend(&[0; 8]);
        self.out.flush()?;
        let size = self.out.offset();
        Ok((self.out.into_inner(), size))
    }

    fn close_stream(&mut self, entry: &Entry) -> Result<()> {
        let node = self.stream.take_node();
        self.node(node)?;
        let nodes = self.entry_count(entry);
        self.patch_count(entry.count_at, nodes)?;
        let tail = self.stream.tail();
        self.out.extend(&tail.bytes);
        self.out.patch(entry.type_at, &[tail.rdb_type])
    }

    fn entry_count(&self, entry: &Entry) -> u64 {
        entry.count.saturating_add(self.stream.nodes)
    }

    fn node(&mut self, node: Option<(StreamId, Vec<u8>)>) -> Result<()> {
        if let Some((id, bytes)) = node {
            let mut key = [0; 16];
            let (ms, seq) = key.split_at_mut(8);
            ms.copy_from_slice(&id.ms.to_be_bytes());
            seq.copy_from_slice(&id.seq.to_be_bytes());
            self.string(&key);
            self.string(&bytes);
        }
        self.out.settle()
    }

    fn string(&mut self, bytes: &[u8]) {
        self.length(bytes.len() as u64);
        self.out.extend(bytes);
    }

    fn length(&mut self, n: u64) {
        let (bytes, used) = length(n);
        self.out.extend(bytes.get(..used).unwrap_or_default());
    }

    /// Room for a count that is not known yet.
    fn reserve(&mut self) {
        self.out.extend(&[0x80, 0, 0, 0, 0]);
    }

    fn patch_count(&mut self, at: u64, count: u64) -> Result<()> {
        match u32::try_from(count) {
            Ok(count) => self.out.patch(at + 1, &count.to_be_bytes()),
            Err(_) => Err(Error::corrupt(0, "a value of more than 4,294,967,295 elements")),
        }
    }

    /// One more element.
    fn element(&mut self) -> Result<()> {
        if let Some(entry) = &mut self.entry {
            entry.count += 1;
        }
        self.out.settle()
    }

    fn whole(&mut self) {
        if let Some(entry) = &mut self.entry {
            entry.whole = true;
        }
    }
}

/// A length word and how much of it is used.
pub(crate) fn length(n: u64) -> ([u8; 9], usize) {
    let mut out = [0; 9];
    let [first, rest @ ..] = &mut out;
    let used = if n < 64 {
        *first = n as u8;
        1
    } else if n < 16_384 {
        *first = 0x40 | (n >> 8) as u8;
        rest.iter_mut().take(1).for_each(|b| *b = n as u8);
        2
    } else if let Ok(n) = u32::try_from(n) {
        *first = 0x80;
        rest.iter_mut().zip(n.to_be_bytes()).for_each(|(b, n)| *b = n);
        5
    } else {
        *first = 0x81;
        *rest = n.to_be_bytes();
        9
    };
    (out, used)
}

impl<W: Write + Seek> Visitor for Writer<W> {
    fn string(&mut self, value: &[u8]) -> Result<()> {
        self.string(value);
        self.whole();
        self.out.settle()
    }

    fn list_item(&mut self, value: &[u8]) -> Result<()> {
        self.string(value);
        self.element()
    }

    fn set_member(&mut self, member: &[u8]) -> Result<()> {
        self.list_item(member)
    }

    fn zset_member(&mut self, member: &[u8], score: f64) -> Result<()> {
        self.string(member);
        self.out.extend(&score.to_le_bytes());
        self.element()
    }

    fn hash_field(&mut self, field: &[u8], value: &[u8], expire_at_ms: Option<i64>) -> Result<()> {
        if self.entry.as_ref().is_some_and(|entry| entry.form == Form::TimedHash) {
            let time = expire_at_ms.map_or(0, |ms| ms.clamp(1, MAX_FIELD_TIME));
            self.clamped_field_times += u64::from(expire_at_ms.is_some_and(|ms| ms != time));
            self.length(time as u64);
        } else if expire_at_ms.is_some() {
            self.wants_times = true;
            return Err(Error::stopped());
        }
        if self.path.is_empty() {
            self.string(field);
        } else {
            let name = [self.path.as_slice(), b".", field].concat();
            self.string(&name);
        }
        self.string(value);
        self.element()
    }

    fn hash_path(&mut self, path: &[u8]) -> Result<()> {
        self.path.clear();
        self.path.extend_from_slice(path);
        Ok(())
    }

    fn stream_entry(&mut self, id: StreamId) -> Result<()> {
        self.stream.begin(id);
        Ok(())
    }

    fn stream_field(&mut self, field: &[u8], value: &[u8]) -> Result<()> {
        self.stream.field(field, value);
        Ok(())
    }

    fn stream_entry_end(&mut self) -> Result<()> {
        let full = self.stream.end();
        self.node(full)
    }

    fn stream_meta(&mut self, meta: &StreamMeta) -> Result<()> {
        self.stream.meta = Some(meta.clone());
        Ok(())
    }

    fn stream_group(&mut self, group: &StreamGroup<'_>) -> Result<()> {
        self.stream.group(group);
        Ok(())
    }

    fn stream_pending(&mut self, pending: &StreamPending<'_>) -> Result<()> {
        self.stream.pending(pending);
        Ok(())
    }

    fn stream_consumer(&mut self, consumer: &StreamConsumer<'_>) -> Result<()> {
        self.stream.consumer(consumer);
        Ok(())
    }

    fn stream_produced(&mut self, producer: &[u8], item: &[u8], id: StreamId) -> Result<()> {
        self.stream.produced(producer, item, id);
        Ok(())
    }

    fn stream_idempotence(&mut self, meta: &StreamIdempotence) -> Result<()> {
        self.stream.idempotence = Some(meta.clone());
        Ok(())
    }

    fn array_meta(&mut self, meta: &ArrayMeta) -> Result<()> {
        if let Some(entry) = &mut self.entry {
            entry.count_at = self.out.offset();
        }
        self.reserve();
        self.length(u64::from(meta.insert_index.is_some()));
        if let Some(index) = meta.insert_index {
            self.length(index);
        }
        self.whole();
        Ok(())
    }

    fn array_item(&mut self, index: u64, value: &[u8]) -> Result<()> {
        self.length(index);
        self.length(0);
        self.string(value);
        self.element()
    }

    fn vectorset_meta(&mut self, meta: &VectorsetMeta) -> Result<()> {
        self.length(VECTORSET_ID);
        self.out.push(MODULE_UINT);
        self.length(meta.dim);
        self.out.push(MODULE_UINT);
        if let Some(entry) = &mut self.entry {
            entry.count_at = self.out.offset();
        }
        self.reserve();
        for n in [u64::from(meta.quantisation), VECTORSET_ATTRIBUTES] {
            self.out.push(MODULE_UINT);
            self.length(n);
        }
        self.whole();
        Ok(())
    }

    fn vectorset_element(&mut self, name: &[u8], attributes: Option<&[u8]>, vector: &[u8]) -> Result<()> {
        for text in [name, attributes.unwrap_or_default(), vector] {
            self.out.push(MODULE_STRING);
            self.string(text);
        }
        self.out.push(MODULE_UINT);
        self.length(0);
        self.element()
    }

    /// Of a module's value only its name is kept: nobody but the module can read more.
    fn module(&mut self, module: &ModuleValue) -> Result<()> {
        // A module that only calls itself so is not the one that is read.
        let ModuleId(id) = module.id;
        self.length(if id == VECTORSET_ID { id | 1 } else { id });
        self.out.push(MODULE_END);
        self.whole();
        Ok(())
    }

    fn opaque(&mut self, rdb_type: u8, _bytes: u64) -> Result<()> {
        let rdb_type = if rdb_type == KEYDB_CRON {
            // Two lengths, two times, two lists: all empty.
            self.out.extend(&[0; 19]);
            KEYDB_CRON
        } else {
            self.length(0);
            RESERVED
        };
        self.whole();
        match &self.entry {
            Some(entry) => self.out.patch(entry.type_at, &[rdb_type]),
            None => Ok(()),
        }
    }
}
