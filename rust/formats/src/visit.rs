//! What a value consists of, handed over piece by piece.

use std::fmt;

use crate::error::Result;
use crate::kind::ModuleId;

/// Takes the pieces of one value, in the order in which they are stored. Byte strings are borrowed for the call.
/// Every method may stop the reading with an error ([`Error::stopped`](crate::Error::stopped) when nothing is wrong).
#[allow(unused_variables)]
pub trait Visitor {
    fn string(&mut self, value: &[u8]) -> Result<()> {
        Ok(())
    }

    fn list_item(&mut self, value: &[u8]) -> Result<()> {
        Ok(())
    }

    fn set_member(&mut self, member: &[u8]) -> Result<()> {
        Ok(())
    }

    /// `score` may be NaN, with which no server would load the file.
    fn zset_member(&mut self, member: &[u8], score: f64) -> Result<()> {
        Ok(())
    }

    /// `expire_at_ms`: when the field expires, in unix ms; `None` if it does not.
    fn hash_field(&mut self, field: &[u8], value: &[u8], expire_at_ms: Option<i64>) -> Result<()> {
        Ok(())
    }

    /// The path that the fields after it belong to (Valkey 81 path hashes only).
    fn hash_path(&mut self, path: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Opens an entry of a stream; its fields follow.
    fn stream_entry(&mut self, id: StreamId) -> Result<()> {
        Ok(())
    }

    fn stream_field(&mut self, field: &[u8], value: &[u8]) -> Result<()> {
        Ok(())
    }

    fn stream_entry_end(&mut self) -> Result<()> {
        Ok(())
    }

    /// An entry that was deleted and whose place is still in the file.
    fn stream_deleted_entry(&mut self, id: StreamId) -> Result<()> {
        Ok(())
    }

    /// After the last entry.
    fn stream_meta(&mut self, meta: &StreamMeta) -> Result<()> {
        Ok(())
    }

    /// Opens a consumer group; its pending entries follow, then its consumers.
    fn stream_group(&mut self, group: &StreamGroup<'_>) -> Result<()> {
        Ok(())
    }

    fn stream_pending(&mut self, pending: &StreamPending<'_>) -> Result<()> {
        Ok(())
    }

    fn stream_consumer(&mut self, consumer: &StreamConsumer<'_>) -> Result<()> {
        Ok(())
    }

    fn stream_group_end(&mut self) -> Result<()> {
        Ok(())
    }

    /// An item that an idempotent producer has added (Redis 8.6).
    fn stream_produced(&mut self, producer: &[u8], item: &[u8], id: StreamId) -> Result<()> {
        Ok(())
    }

    /// After the last group and producer (Redis 8.6).
    fn stream_idempotence(&mut self, meta: &StreamIdempotence) -> Result<()> {
        Ok(())
    }

    /// Before the items of an array.
    fn array_meta(&mut self, meta: &ArrayMeta) -> Result<()> {
        Ok(())
    }

    fn array_item(&mut self, index: u64, value: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Before the elements of a vector set.
    fn vectorset_meta(&mut self, meta: &VectorsetMeta) -> Result<()> {
        Ok(())
    }

    /// `attributes` is JSON text, `vector` the quantised numbers as stored.
    fn vectorset_element(&mut self, name: &[u8], attributes: Option<&[u8]>, vector: &[u8]) -> Result<()> {
        Ok(())
    }

    /// A value that only its module can read.
    fn module(&mut self, module: &ModuleValue) -> Result<()> {
        Ok(())
    }

    /// A value of a type whose extent is known and whose meaning is not.
    fn opaque(&mut self, rdb_type: u8, bytes: u64) -> Result<()> {
        Ok(())
    }
}

/// Passes over everything: a value decoded into it is checked and nothing else.
impl Visitor for () {}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    pub ms: u64,
    pub seq: u64,
}

impl StreamId {
    pub(crate) fn from_be_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        StreamId { ms: (both >> 64) as u64, seq: both as u64 }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamMeta {
    /// Entries that the stream says it has, and how many were found.
    pub length: u64,
    pub found: u64,
    pub last_id: StreamId,
    /// From Redis 7.0.
    pub since_7: Option<StreamMeta7>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamMeta7 {
    pub first_id: StreamId,
    pub max_deleted_id: StreamId,
    pub entries_added: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamGroup<'a> {
    pub name: &'a [u8],
    pub last_id: StreamId,
    /// From Redis 7.0, and only where the server knew it.
    pub entries_read: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPending<'a> {
    pub id: StreamId,
    /// `None`: handed back by its consumer (Redis 8.8), or nobody's by damage.
    pub consumer: Option<&'a [u8]>,
    pub delivery_time_ms: i64,
    pub delivery_count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConsumer<'a> {
    pub name: &'a [u8],
    pub seen_ms: i64,
    /// From Redis 7.2; `None` too when it was never active.
    pub active_ms: Option<i64>,
    /// Number of its pending entries.
    pub pending: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamIdempotence {
    pub duration_s: u64,
    pub max_entries: u64,
    pub producers: u64,
    pub items_added: u64,
    pub items_duplicate: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayMeta {
    /// Items present.
    pub count: u64,
    /// Where the last insertion went, if there was one.
    pub insert_index: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorsetMeta {
    pub dim: u64,
    pub count: u64,
    /// As stored: 0 float, 1 int8, 2 binary.
    pub quantisation: u8,
    /// Dimensions of the vectors before they were reduced.
    pub original_dim: Option<u64>,
    pub has_attributes: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleValue {
    pub id: ModuleId,
    /// Tagged items and bytes that the value consists of.
    pub items: u64,
    pub bytes: u64,
}
