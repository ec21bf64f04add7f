//! Counts that a file announces of its own contents, held against what is in it.

use crate::summary::Summary;

/// The slot of a cluster whose keys are being read.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    open: Option<Slot>,
}

#[derive(Debug)]
struct Slot {
    at: u64,
    slot: u64,
    announced: Counts,
    read: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    keys: u64,
    expires: u64,
}

impl Slots {
    /// The keys that follow are in this slot.
    pub fn open(&mut self, summary: &mut Summary, at: u64, slot: u64, keys: u64, expires: u64) {
        self.close(summary);
        self.open = Some(Slot { at, slot, announced: Counts { keys, expires }, read: Counts::default() });
    }

    pub fn key(&mut self, expires: bool) {
        if let Some(slot) = &mut self.open {
            slot.read.keys += 1;
            slot.read.expires += u64::from(expires);
        }
    }

    /// The keys that follow are in no slot, or there are none.
    pub fn close(&mut self, summary: &mut Summary) {
        if let Some(Slot { at, slot, announced, read }) = self.open.take()
            && announced != read
        {
            summary.warn("slot_counts", at, || message(&format!("slot {slot}"), read, announced));
        }
    }
}

/// `slot,keys,expires`, as Valkey writes it beside the keys; since 9.0 the number of keys whose fields expire follows.
pub(crate) fn slot_info(text: &[u8]) -> Option<(u64, u64, u64)> {
    let mut numbers = std::str::from_utf8(text).ok()?.split(',').map(str::parse);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(slot)), Some(Ok(keys)), Some(Ok(expires))) => Some((slot, keys, expires)),
        _ => None,
    }
}

/// Notes the databases that have not as many keys as announced: the first in words, the others as a number.
pub(crate) fn judge_databases(summary: &mut Summary) {
    let mut first = None;
    let mut differ = 0;
    for (db, facts) in &summary.databases {
        let read = Counts { keys: facts.keys, expires: facts.expires };
        let (Some(keys), Some(expires)) = (facts.hint_keys, facts.hint_expires) else { continue };
        let announced = Counts { keys, expires };
        if announced != read {
            differ += 1;
            first.get_or_insert_with(|| message(&format!("database {db}"), read, announced));
        }
    }
    if let Some(message) = first {
        summary.note("database_counts", None, differ, message);
    }
}

fn message(part: &str, read: Counts, announced: Counts) -> String {
    let Counts { keys, expires } = read;
    let Counts { keys: announced_keys, expires: announced_expires } = announced;
    format!("{part} has {keys} keys, {expires} that expire; announced were {announced_keys} and {announced_expires}")
}
