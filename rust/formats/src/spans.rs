//! A file cut into spans of whole keys, so that several threads can decode it.

use crate::behind::Behind;
use crate::context::{Context, Limits};
use crate::error::Result;
use crate::header::Header;
use crate::input::FileInput;
use crate::item::{Checksum, Item};
use crate::lines::Facts;
use crate::positioned::{At, Positioned};
use crate::walk::{Place, Walker};

/// Bytes of file that make a span; one large key may make it larger.
const SPAN: u64 = 1 << 20;

/// Keys that stand together, and what must be known to read them.
pub(crate) struct Span {
    pub from: u64,
    pub to: u64,
    pub place: Place,
    pub ctx: Context,
}

/// What the walk from the first key to the end has come to.
pub(crate) struct End {
    pub checksum: Checksum,
    /// Where the checksum stands.
    pub checksum_offset: u64,
    pub behind: Behind,
}

pub(crate) struct Spans<'p, P: ?Sized> {
    walker: Walker<FileInput<At<'p, P>>>,
    end: Option<Result<End>>,
}

impl<'p, P: Positioned + ?Sized> Spans<'p, P> {
    pub fn open(evidence: &'p P, len: u64, limits: Limits) -> Result<Self> {
        Ok(Spans { walker: Walker::open(FileInput::new(At::new(evidence, 0), len, true), limits)?, end: None })
    }

    pub fn header(&self) -> &Header {
        self.walker.header()
    }

    /// What stands before the first key and database.
    pub fn facts(&mut self) -> Facts {
        let mut facts = Facts::default();
        while matches!(self.walker.at_key_or_database(), Ok(false)) {
            match self.walker.next() {
                Ok(Some(Item::Aux { name, value })) => facts.learn(name, value),
                Ok(_) => {}
                Err(error) => {
                    self.end = Some(Err(error));
                    break;
                }
            }
        }
        facts
    }

    /// Whether field names come next that earlier spans do not know: while those are being read, the names they do
    /// know cannot be added to without a copy.
    pub fn at_template(&mut self) -> bool {
        self.end.is_none() && self.walker.at_template()
    }

    /// The next span; `None` when there is no whole key any more.
    pub fn next(&mut self) -> Option<Span> {
        let mut span: Option<Span> = None;
        while self.end.is_none() {
            let (from, place) = (self.walker.offset(), self.walker.place());
            if span.is_some() && self.walker.at_template() {
                break;
            }
            match self.walker.next() {
                Ok(Some(Item::Key(entry))) => {
                    let to = entry.end_offset;
                    // Templates stand before the keys that need them: known now is what was known before this key.
                    let span = span.get_or_insert_with(|| Span { from, to, place, ctx: self.walker.context() });
                    span.to = to;
                    if span.to - span.from >= SPAN {
                        break;
                    }
                }
                Ok(Some(Item::End(checksum))) => {
                    let checksum_offset = self.walker.checksum_offset();
                    self.end = Some(self.walker.behind().map(|behind| End { checksum, checksum_offset, behind }));
                }
                Ok(_) => {}
                Err(error) => self.end = Some(Err(error)),
            }
        }
        span
    }

    /// After the last span.
    pub fn end(self) -> Option<Result<End>> {
        self.end
    }
}
