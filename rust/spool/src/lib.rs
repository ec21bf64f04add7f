//! Evidence that is no snapshot, turned into one.
//!
//! There is one reader of values: that of RDB files. Everything else (an export, a file of commands) is first written as
//! an RDB file that lives as long as the run, by the [`Writer`] of this crate. What such a file cannot say is told beside
//! it: where each key stood ([`Ledger`]), what was odd, when the export was made.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod foreign;
mod json;
mod ledger;
mod listpack;
mod names;
mod ndjson;
mod notes;
mod output;
mod stream;
mod tee;
mod values;
mod writer;

pub use foreign::{Foreign, Layout, Tool, read_foreign};
pub use ledger::{Ledger, Origin};
pub use names::{encoding_named, kind_named, module_named};
pub use ndjson::{Export, Reading, read_ndjson};
pub use notes::{Note, Notes};
pub use writer::{Form, Writer};
