//! All keys in memory, and what happens to them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use jobsleuth_formats::{Error, Kind};

use crate::moves::{Cause, Change, Graves, Move, Witness};
use crate::value::{Bytes, Field, Stream, Value, Zset};

/// A key's value and expiry.
#[derive(Clone, Debug)]
pub struct Entry {
    pub value: Value,
    pub expire_at_ms: Option<i64>,
    /// About how many bytes of the value no file brought: commands made them.
    made: usize,
}

impl Entry {
    pub fn new(value: Value, expire_at_ms: Option<i64>) -> Self {
        Entry { value, expire_at_ms, made: 0 }
    }
}

/// Why a command has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The key holds another type.
    WrongType,
    /// Arguments that no server takes.
    Arguments,
    /// A value that should be a number and is none, or one that is too large.
    Number,
    /// Something that should be there is not, or the other way round.
    Missing,
    /// A value of an unknown type.
    Unknown,
    /// The command takes elements at random.
    Random,
    /// A payload that cannot be read.
    Payload,
    /// It makes more out of little than there is room for.
    Room,
}

impl Refused {
    pub fn as_str(self) -> &'static str {
        match self {
            Refused::WrongType => "the key holds another type",
            Refused::Arguments => "its arguments make no sense",
            Refused::Number => "a number is wanted",
            Refused::Missing => "what it needs is not there",
            Refused::Unknown => "what it brings is of an unknown type",
            Refused::Random => "it takes elements at random",
            Refused::Payload => "its payload cannot be read",
            Refused::Room => "a few bytes would have become more than there is room for",
        }
    }
}

/// What became of a command.
pub type Outcome = Result<(), Refused>;

/// The databases.
#[derive(Default)]
pub struct Space {
    dbs: BTreeMap<u64, HashMap<Bytes, Entry>>,
    log: Log,
    /// Bytes that commands made, and how many those may be.
    made: usize,
    room: Option<usize>,
}

/// Tells the changes on.
#[derive(Default)]
struct Log {
    witness: Option<Box<dyn Witness>>,
    /// What happens is no change.
    restoring: bool,
    graves: Graves,
    cause: Cause,
    failed: Option<Error>,
}

impl Log {
    fn is_watched(&self) -> bool {
        self.witness.is_some() && !self.restoring
    }

    fn tell(&mut self, db: u64, key: &[u8], kind: Kind, member: Option<&[u8]>, change: Change) {
        if self.restoring {
            return;
        }
        if let (Some(witness), None) = (&mut self.witness, &self.failed) {
            self.failed = witness.saw(&Move { db, key, kind, member, change, cause: &self.cause }).err();
        }
    }

    fn tell_all(&mut self, db: u64, key: &[u8], value: &Value, change: Change) {
        if self.is_watched() {
            for member in value.members() {
                self.tell(db, key, value.kind(), Some(&member), change);
            }
        }
    }

    fn bury(&mut self, db: u64, key: &[u8], value: &Value) {
        self.tell(db, key, value.kind(), None, Change::Deleted);
        if self.is_watched() {
            self.graves.bury(db, key, value);
        }
    }
}

macro_rules! typed {
    ($get:ident, $make:ident, $variant:ident, $type:ty) => {
        /// The value of that type, if the key is there.
        pub fn $get(&mut self, db: u64, key: &[u8]) -> Result<Option<&mut $type>, Refused> {
            match self.dbs.get_mut(&db).and_then(|keys| keys.get_mut(key)).map(|entry| &mut entry.value) {
                None => Ok(None),
                Some(Value::$variant(value)) => Ok(Some(value)),
                Some(_) => Err(Refused::WrongType),
            }
        }

        /// The value of that type; an empty one if the key was not there.
        pub fn $make(&mut self, db: u64, key: &[u8]) -> Result<&mut $type, Refused> {
            let value = self.value_or(db, key, || Value::$variant(Default::default()));
            match value {
                Value::$variant(value) => Ok(value),
                _ => Err(Refused::WrongType),
            }
        }
    };
}

impl Space {
    /// Every change goes to the witness from here on.
    pub fn watch(&mut self, witness: Box<dyn Witness>) {
        self.log.witness = Some(witness);
    }

    /// Whether the commands to come only put there what was there before: that is told to nobody.
    pub fn restore(&mut self, restoring: bool) {
        self.log.restoring = restoring;
    }

    /// Allows commands to make so many bytes more than they bring.
    pub fn allow(&mut self, room: usize) {
        self.room = Some(room);
    }

    /// The same, where nothing was said before.
    pub fn allow_unless_told(&mut self, room: usize) {
        self.room.get_or_insert(room);
    }

    /// Whether a command may make so many bytes more. A server has room for half a gigabyte of zeros from forty bytes;
    /// a file made to fill the memory has a thousand of those.
    ///
    /// # Errors
    /// It may not.
    pub fn has_room(&self, bytes: usize) -> Outcome {
        if self.made.saturating_add(bytes) <= self.room.unwrap_or(0) { Ok(()) } else { Err(Refused::Room) }
    }

    /// The same for a value in place of that of a key, which gives its room back.
    ///
    /// # Errors
    /// It may not.
    pub fn has_room_at(&self, db: u64, key: &[u8], bytes: usize) -> Outcome {
        self.has_room(bytes.saturating_sub(self.get(db, key).map_or(0, |old| old.made)))
    }

    /// The value of a key has got so many bytes that no file brought.
    pub fn grown(&mut self, db: u64, key: &[u8], bytes: usize) {
        if let Some(entry) = self.get_mut(db, key) {
            entry.made = entry.made.saturating_add(bytes);
            self.made = self.made.saturating_add(bytes);
        }
    }

    /// The command that causes the changes to come.
    pub fn cause(&mut self) -> &mut Cause {
        &mut self.log.cause
    }

    /// No changes are told any more; which keys are gone is still known.
    ///
    /// # Errors
    /// Those of the witness.
    pub fn dismiss(&mut self) -> jobsleuth_formats::Result<()> {
        self.log.witness.take().map_or(Ok(()), |mut witness| witness.dismissed())
    }

    /// What the witness failed with.
    ///
    /// # Errors
    /// Just that.
    pub fn told(&mut self) -> jobsleuth_formats::Result<()> {
        self.log.failed.take().map_or(Ok(()), Err)
    }

    pub fn graves(&self) -> &Graves {
        &self.log.graves
    }

    typed!(string, string_or_new, String, Vec<u8>);
    typed!(list, list_or_new, List, VecDeque<Bytes>);
    typed!(set, set_or_new, Set, BTreeSet<Bytes>);
    typed!(zset, zset_or_new, Zset, Zset);
    typed!(hash, hash_or_new, Hash, BTreeMap<Bytes, Field>);
    typed!(stream, stream_or_new, Stream, Box<Stream>);

    fn value_or(&mut self, db: u64, key: &[u8], make: impl FnOnce() -> Value) -> &mut Value {
        let keys = self.dbs.entry(db).or_default();
        if !keys.contains_key(key) {
            let value = make();
            self.log.tell(db, key, value.kind(), None, Change::Created);
            keys.insert(key.into(), Entry::new(value, None));
        }
        &mut keys.entry(key.into()).or_insert_with(|| Entry::new(Value::Opaque(0), None)).value
    }

    pub fn get(&self, db: u64, key: &[u8]) -> Option<&Entry> {
        self.dbs.get(&db)?.get(key)
    }

    pub fn get_mut(&mut self, db: u64, key: &[u8]) -> Option<&mut Entry> {
        self.dbs.get_mut(&db)?.get_mut(key)
    }

    pub fn contains(&self, db: u64, key: &[u8]) -> bool {
        self.get(db, key).is_some()
    }

    /// A member entered the structure of a key.
    pub fn added(&mut self, db: u64, key: &[u8], kind: Kind, member: &[u8]) {
        self.log.tell(db, key, kind, Some(member), Change::Added);
    }

    pub fn removed(&mut self, db: u64, key: &[u8], kind: Kind, member: &[u8]) {
        self.log.tell(db, key, kind, Some(member), Change::Removed);
    }

    /// Removes a key; whether it was there.
    pub fn delete(&mut self, db: u64, key: &[u8]) -> bool {
        match self.take(db, key) {
            Some(entry) => {
                self.log.bury(db, key, &entry.value);
                true
            }
            None => false,
        }
    }

    /// Takes a key out, members and all, to be put elsewhere or buried.
    fn take(&mut self, db: u64, key: &[u8]) -> Option<Entry> {
        let entry = self.dbs.get_mut(&db)?.remove(key)?;
        self.made = self.made.saturating_sub(entry.made);
        self.log.tell_all(db, key, &entry.value, Change::Removed);
        Some(entry)
    }

    /// Puts a whole value under a key, in place of what was there.
    pub fn put(&mut self, db: u64, key: &[u8], entry: Entry) {
        let kind = entry.value.kind();
        let same = self.get(db, key).is_some_and(|old| old.value.kind() == kind);
        let old = self.take(db, key);
        match old {
            Some(_) if same => {}
            Some(old) => {
                self.log.bury(db, key, &old.value);
                self.log.tell(db, key, kind, None, Change::Created);
            }
            None => self.log.tell(db, key, kind, None, Change::Created),
        }
        self.log.tell_all(db, key, &entry.value, Change::Added);
        self.made = self.made.saturating_add(entry.made);
        self.dbs.entry(db).or_default().insert(key.into(), entry);
    }

    /// Puts a value that was made of others; an empty collection removes the key.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn put_made(&mut self, db: u64, key: &[u8], mut entry: Entry) -> Outcome {
        if entry.value.is_gone() {
            self.delete(db, key);
            return Ok(());
        }
        entry.made = entry.value.bytes();
        self.has_room_at(db, key, entry.made)?;
        self.put(db, key, entry);
        Ok(())
    }

    /// Puts a key as a snapshot has it: that is no change.
    pub fn load(&mut self, db: u64, key: &[u8], entry: Entry) {
        self.dbs.entry(db).or_default().insert(key.into(), entry);
    }

    /// Removes a key whose collection has lost its last element.
    pub fn tidy(&mut self, db: u64, key: &[u8]) {
        if self.get(db, key).is_some_and(|entry| entry.value.is_gone()) {
            self.delete(db, key);
        }
    }

    /// Gives a key another name, or place; whether it was there.
    pub fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8])) -> bool {
        if from == to {
            return self.contains(from.0, from.1);
        }
        let Some(entry) = self.take(from.0, from.1) else { return false };
        self.log.bury(from.0, from.1, &entry.value);
        self.put(to.0, to.1, entry);
        true
    }

    /// Removes all keys of a database.
    pub fn flush(&mut self, db: u64) {
        if self.log.is_watched() {
            for key in self.keys(db) {
                self.delete(db, &key);
            }
        }
        let gone = self.dbs.remove(&db).unwrap_or_default();
        self.made = self.made.saturating_sub(gone.values().map(|entry| entry.made).sum());
    }

    pub fn flush_all(&mut self) {
        for db in self.databases() {
            self.flush(db);
        }
    }

    /// Exchanges two databases.
    pub fn swap(&mut self, a: u64, b: u64) {
        if a == b {
            return;
        }
        let (first, second) = (self.dbs.remove(&a).unwrap_or_default(), self.dbs.remove(&b).unwrap_or_default());
        if self.log.is_watched() {
            for (from, to, keys) in [(a, b, &first), (b, a, &second)] {
                let mut names: Vec<_> = keys.iter().collect();
                names.sort_by_key(|(key, _)| *key);
                for (key, entry) in names {
                    self.log.tell_all(from, key, &entry.value, Change::Removed);
                    self.log.bury(from, key, &entry.value);
                    self.log.tell(to, key, entry.value.kind(), None, Change::Created);
                    self.log.tell_all(to, key, &entry.value, Change::Added);
                }
            }
        }
        for (db, keys) in [(b, first), (a, second)] {
            if !keys.is_empty() {
                self.dbs.insert(db, keys);
            }
        }
    }

    /// Databases that were used, ascending.
    pub fn databases(&self) -> Vec<u64> {
        self.dbs.keys().copied().collect()
    }

    /// Names of the keys of a database, in the order of their bytes.
    pub fn keys(&self, db: u64) -> Vec<Bytes> {
        let mut keys: Vec<Bytes> = self.dbs.get(&db).into_iter().flat_map(HashMap::keys).cloned().collect();
        keys.sort_unstable();
        keys
    }

    pub fn len(&self) -> u64 {
        self.dbs.values().map(|keys| keys.len() as u64).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
