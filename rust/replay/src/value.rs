//! Values in memory.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use jobsleuth_formats::{Kind, ModuleId, StreamId, StreamIdempotence};

pub type Bytes = Box<[u8]>;

/// What a key holds.
#[derive(Clone, Debug)]
pub enum Value {
    String(Vec<u8>),
    List(VecDeque<Bytes>),
    Set(BTreeSet<Bytes>),
    Zset(Zset),
    Hash(BTreeMap<Bytes, Field>),
    Stream(Box<Stream>),
    Array(BTreeMap<u64, Bytes>),
    /// Dimensions, and elements with their attributes.
    Vectorset(u64, BTreeMap<Bytes, Option<Bytes>>),
    Module(ModuleId),
    /// A type whose values nobody can read.
    Opaque(u8),
}

impl Value {
    pub fn kind(&self) -> Kind {
        match self {
            Value::String(_) => Kind::String,
            Value::List(_) => Kind::List,
            Value::Set(_) => Kind::Set,
            Value::Zset(_) => Kind::Zset,
            Value::Hash(_) => Kind::Hash,
            Value::Stream(_) => Kind::Stream,
            Value::Array(_) => Kind::Array,
            Value::Vectorset(..) => Kind::Vectorset,
            Value::Module(_) | Value::Opaque(_) => Kind::Module,
        }
    }

    /// A collection without elements: servers do not keep its key.
    pub fn is_gone(&self) -> bool {
        match self {
            Value::List(items) => items.is_empty(),
            Value::Set(members) => members.is_empty(),
            Value::Zset(zset) => zset.len() == 0,
            Value::Hash(fields) => fields.is_empty(),
            _ => false,
        }
    }

    /// About what it takes in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Value::String(bytes) => bytes.len(),
            Value::List(items) => items.iter().map(|item| item.len() + 16).sum(),
            Value::Set(members) => members.iter().map(|member| member.len() + 16).sum(),
            Value::Zset(zset) => zset.iter().map(|(member, _)| member.len() + 24).sum(),
            Value::Hash(fields) => fields.iter().map(|(name, field)| name.len() + field.value.len() + 32).sum(),
            Value::Stream(stream) => {
                let of =
                    |fields: &Vec<(Bytes, Bytes)>| fields.iter().map(|(f, v)| f.len() + v.len()).sum::<usize>() + 32;
                stream.entries.values().map(of).sum()
            }
            _ => 64,
        }
    }

    /// The members of a structure that holds ids, in order.
    pub fn members(&self) -> Vec<Bytes> {
        match self {
            Value::List(items) => items.iter().cloned().collect(),
            Value::Set(members) => members.iter().cloned().collect(),
            Value::Zset(zset) => zset.iter().map(|(member, _)| member.into()).collect(),
            _ => Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    pub value: Bytes,
    pub expire_at_ms: Option<i64>,
}

/// A number that is no NaN, in its order.
#[derive(Clone, Copy, Debug)]
pub struct Score(pub f64);

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        // Both zeros are one score.
        (self.0 + 0.0).total_cmp(&(other.0 + 0.0))
    }
}

/// A sorted set.
#[derive(Clone, Debug, Default)]
pub struct Zset {
    scores: HashMap<Rc<[u8]>, f64>,
    order: BTreeSet<(Score, Rc<[u8]>)>,
}

impl Zset {
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Sets a score; whether the member is new.
    pub fn set(&mut self, member: &[u8], score: f64) -> bool {
        let old = self.remove(member);
        let member: Rc<[u8]> = member.into();
        self.scores.insert(Rc::clone(&member), score);
        self.order.insert((Score(score), member));
        old.is_none()
    }

    /// Removes a member; its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (member, score) = self.scores.remove_entry(member)?;
        self.order.remove(&(Score(score), member));
        Some(score)
    }

    /// Members with their scores, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        self.order.iter().map(|(score, member)| (&**member, score.0))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub entries: BTreeMap<StreamId, Vec<(Bytes, Bytes)>>,
    pub last_id: StreamId,
    pub max_deleted_id: StreamId,
    pub entries_added: u64,
    pub groups: BTreeMap<Bytes, Group>,
    pub produced: Vec<(Bytes, Bytes, StreamId)>,
    pub idempotence: Option<StreamIdempotence>,
}

#[derive(Clone, Debug, Default)]
pub struct Group {
    pub last_id: StreamId,
    pub entries_read: Option<i64>,
    pub pending: BTreeMap<StreamId, Pending>,
    pub consumers: BTreeMap<Bytes, Consumer>,
}

#[derive(Clone, Debug, Default)]
pub struct Pending {
    pub consumer: Option<Bytes>,
    pub delivery_time_ms: i64,
    pub delivery_count: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Consumer {
    pub seen_ms: i64,
    pub active_ms: Option<i64>,
}
