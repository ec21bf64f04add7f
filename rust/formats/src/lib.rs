//! Reads snapshots of Redis (RDB versions 1 to 15) and Valkey (80, 81) and DUMP payloads.
//!
//! A file is read in two ways that share all code: a [`Walker`] goes over its items and passes over the values, which
//! gives an index; [`decode`] reads one value at a known offset and hands its pieces to a [`Visitor`]. Nothing here
//! trusts a length, a count or an offset in a file: damaged or hostile bytes give an [`Error`] with the offset and the
//! key, within bounded memory.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod ahead;
mod behind;
mod context;
mod crc;
mod decode;
mod dump;
mod encoding;
mod error;
mod hash;
mod header;
mod input;
mod item;
mod json;
mod kind;
mod lines;
mod lzf;
mod module;
mod ndjson;
mod number;
mod opcode;
mod parallel;
mod parse;
mod positioned;
mod skip;
mod spans;
mod stream;
mod visit;
mod walk;

pub use ahead::Ahead;
pub use behind::Behind;
pub use context::{Context, Limits, Templates};
pub use decode::{Decoder, decode};
pub use dump::{DumpInfo, decode_dump, decode_function_dump, inspect_dump};
pub use error::{Error, ErrorKind, Fault, Result, Shown};
pub use header::{Family, Frame, Header};
pub use input::{FileInput, Input, SliceInput};
pub use item::{Checksum, Function, Item, KeyEntry};
pub use kind::{Encoding, Kind, MetaClass, ModuleId};
pub use ndjson::{CatFailure, CatOptions, CatSummary, cat, cat_dump};
pub use positioned::{At, Positioned};
pub use visit::{
    ArrayMeta, ModuleValue, StreamConsumer, StreamGroup, StreamId, StreamIdempotence, StreamMeta, StreamMeta7,
    StreamPending, VectorsetMeta, Visitor,
};
pub use walk::Walker;
