//! Replays append-only files.
//!
//! An append-only file holds the commands that changed a server's keys, in order: run again from the start they give the
//! keyspace as it was at any moment, and on the way every move of every element is seen. Nothing here runs a script or
//! asks a server: commands that only a server can run are counted, and what they did is missing.
//!
//! The keyspace is in memory, as it was in the server's.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod build;
mod call;
mod commands;
mod libraries;
mod moves;
mod replay;
mod resp;
mod save;
mod space;
mod value;

pub use libraries::{Libraries, Library};
pub use moves::{Cause, Change, Move, Witness};
pub use replay::{Options, Part, Report, Stop, replay};
pub use save::{save_history, save_space};
pub use space::Space;
