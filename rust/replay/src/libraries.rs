//! Libraries of functions: no keys, but what a server had loaded when the file ends.

use std::collections::BTreeMap;

use jobsleuth_formats::{Function, Limits, decode_function_dump};

use crate::resp::Args;
use crate::space::Refused;

/// Most libraries that are told apart, and most bytes of a name that are kept.
const MAX_LIBRARIES: usize = 1000;
const MAX_NAME: usize = 200;

/// One of them, as the first line of its source says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    pub engine: Option<Vec<u8>>,
    /// Bytes of source.
    pub size: u64,
}

/// The libraries by name; `None` is that of a source that does not say one.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    loaded: BTreeMap<Option<Vec<u8>>, Library>,
}

impl Libraries {
    pub fn iter(&self) -> impl Iterator<Item = (Option<&[u8]>, &Library)> {
        self.loaded.iter().map(|(name, library)| (name.as_deref(), library))
    }

    pub(crate) fn clear(&mut self) {
        self.loaded.clear();
    }

    pub(crate) fn add(&mut self, function: &Function<'_>) {
        let cut = |text: &[u8]| text.iter().copied().take(MAX_NAME).collect::<Vec<u8>>();
        let name = function.name.map(cut);
        if self.loaded.len() < MAX_LIBRARIES || self.loaded.contains_key(&name) {
            let (engine, size) = (function.engine.map(cut), function.source.len() as u64);
            self.loaded.insert(name, Library { engine, size });
        }
    }

    /// Runs a FUNCTION command. A server writes only those that it has run well: what exists is not asked.
    pub(crate) fn run(&mut self, args: &Args, limits: Limits) -> Result<(), Refused> {
        let word = |i: usize| args.get(i).map(<[u8]>::to_ascii_uppercase);
        match word(1).as_deref() {
            Some(b"LOAD") => {
                let at = if word(2).as_deref() == Some(b"REPLACE") { 3 } else { 2 };
                match args.get(at) {
                    Some(source) if args.len() == at + 1 => self.add(&Function::of_source(source)),
                    _ => return Err(Refused::Arguments),
                }
            }
            Some(b"DELETE") => {
                let name = args.get(2).ok_or(Refused::Arguments)?;
                self.loaded.remove(&Some(name.iter().copied().take(MAX_NAME).collect()));
            }
            Some(b"FLUSH") => self.clear(),
            Some(b"RESTORE") => {
                let mut whole = Libraries::default();
                let payload = args.get(2).ok_or(Refused::Arguments)?;
                decode_function_dump(payload, limits, |function| whole.add(function)).map_err(|_| Refused::Payload)?;
                if word(3).as_deref() == Some(b"FLUSH") {
                    self.clear();
                }
                for (name, library) in whole.loaded {
                    if self.loaded.len() < MAX_LIBRARIES || self.loaded.contains_key(&name) {
                        self.loaded.insert(name, library);
                    }
                }
            }
            _ => return Err(Refused::Arguments),
        }
        Ok(())
    }
}
