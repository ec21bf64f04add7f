//! Snapshots as Arrow columns.
//!
//! [`index()`] walks a file once and gives its [`KeyTable`]; a [`Source`] then reads the values of chosen rows in
//! parallel, as the columns that a [`Projection`] asks for. What queues mean by their keys is known elsewhere.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod affix;
mod announced;
mod cells;
mod elements;
mod error;
mod extract;
#[cfg(fuzzing)]
pub mod fuzzing;
mod groups;
mod index;
mod json;
mod lookup;
mod projection;
mod protobuf;
mod records;
mod sink;
mod source;
mod streams;
mod strings;
mod summary;
mod table;
mod text;

pub use affix::{Prefixes, Suffixes, cut, find_prefix, find_suffix};
pub use error::{Error, Result};
pub use extract::{Batches, Options, elements, records, stream_entries, stream_groups, strings};
pub use index::{Indexed, index};
pub use lookup::{Lookup, Spelled};
pub use projection::Projection;
pub use source::Source;
pub use summary::{FaultFacts, Summary, kind_of, offset_of, salvageable};
pub use table::{KeyTable, KeyTableBuilder, NewKey, Place};
pub use text::{escaped, text_schema, to_text};
