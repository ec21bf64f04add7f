//! Append-only files. The first byte says how: 1, lines of words are commands, too; 2, it is a base.
#![no_main]

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Cursor, Seek, Write};
use std::rc::Rc;

use jobsleuth_formats::{CatOptions, Limits, Result, cat};
use jobsleuth_fuzz::{check, check_error, limits};
use jobsleuth_replay::{Change, Move, Options, Part, Report, Space, Stop, Witness, replay, save_history, save_space};
use jobsleuth_spool::Writer;
use libfuzzer_sys::fuzz_target;

/// Commands make much out of little; this bounds what all of them make.
const ROOM: usize = 4 << 20;

/// What was told of the moves: how often each member is where, and which keys are there.
#[derive(Default)]
struct Told {
    members: HashMap<(u64, Vec<u8>, Vec<u8>), i64>,
    keys: HashMap<(u64, Vec<u8>), i64>,
    last: u64,
    /// Something was there before, which is told to nobody.
    late: bool,
}

struct Ear(Rc<RefCell<Told>>);

impl Witness for Ear {
    fn saw(&mut self, change: &Move<'_>) -> Result<()> {
        let mut told = self.0.borrow_mut();
        assert!(change.cause.offset >= told.last, "moves come in the order of the file");
        told.last = change.cause.offset;
        let by = match change.change {
            Change::Added | Change::Created => 1,
            Change::Removed | Change::Deleted => -1,
        };
        let count = match change.member {
            Some(member) => {
                assert!(matches!(change.change, Change::Added | Change::Removed));
                told.members.entry((change.db, change.key.to_vec(), member.to_vec())).or_default()
            }
            None => {
                assert!(matches!(change.change, Change::Created | Change::Deleted));
                told.keys.entry((change.db, change.key.to_vec())).or_default()
            }
        };
        *count += by;
        let missing = *count < 0;
        assert!(told.late || !missing, "what leaves was there");
        Ok(())
    }
}

fn run(file: &mut File, bytes: &[u8], how: u8, salvage: bool) -> (Space, Rc<RefCell<Told>>, Result<Report>) {
    let mut write = || -> std::io::Result<File> {
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(bytes)?;
        file.rewind()?;
        file.try_clone()
    };
    let part = Part { name: "a".to_owned(), file: write().expect("a file"), base: how & 2 != 0 };
    let options = Options {
        salvage,
        max_value_bytes: limits().max_value_bytes,
        until_ms: None,
        until_offset: None,
        inline: how & 1 != 0,
    };
    let late = how & 2 != 0 || bytes.starts_with(b"REDIS") || bytes.starts_with(b"VALKEY");
    let told = Rc::new(RefCell::new(Told { late, ..Told::default() }));
    let mut space = Space::default();
    space.allow(ROOM);
    space.watch(Box::new(Ear(Rc::clone(&told))));
    let outcome = replay(&[part], &mut space, options, &mut |_, _| Ok(()));
    check(&outcome, bytes.len());
    if let Ok(report) = &outcome {
        assert!(report.end.0 == 0 && report.end.1 <= bytes.len() as u64);
        assert_eq!(report.fault.is_some(), report.stop == Stop::Fault);
        if let Some(fault) = &report.fault {
            check_error(fault, bytes.len());
        }
        for note in report.notes.iter() {
            assert!(!note.message.chars().any(char::is_control), "{}", note.message);
        }
    }
    (space, told, outcome)
}

fn saved(space: &Space, history: bool) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), 15, 256 << 20);
    let written = if history { save_history(space, &mut writer) } else { save_space(space, &mut writer) };
    written.expect("what a replay made can be written");
    writer.finish().expect("it can be ended").0.into_inner()
}

fn lines(snapshot: &[u8]) -> String {
    let mut lines = Vec::new();
    let options = CatOptions { first_line: None, ..CatOptions::default() };
    cat(snapshot, snapshot.len() as u64, Limits::default(), &mut lines, &options).expect("what was written is sound");
    String::from_utf8(lines).expect("lines are text")
}

thread_local! {
    static FILE: RefCell<File> = {
        let path = std::env::temp_dir().join(format!("jobsleuth-fuzz-replay-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).expect("a file");
        // Nobody else needs its name.
        std::fs::remove_file(&path).expect("the file is there");
        file.into()
    };
}

fuzz_target!(|data: &[u8]| FILE.with_borrow_mut(|file| {
    let Some((&how, text)) = data.split_first() else { return };
    let (space, told, outcome) = run(file, text, how, true);
    outcome.expect("what stands before a fault is kept");
    let snapshot = saved(&space, false);
    let shown = lines(&snapshot);
    lines(&saved(&space, true));

    let told = told.borrow();
    if !told.late {
        let mut there: BTreeMap<(u64, Vec<u8>, Vec<u8>), i64> = BTreeMap::new();
        let mut keys = 0;
        for db in space.databases() {
            for key in space.keys(db) {
                keys += 1;
                assert_eq!(
                    told.keys.get(&(db, key.to_vec())),
                    Some(&1),
                    "a key that is there was made once more than gone"
                );
                let Some(entry) = space.get(db, &key) else { continue };
                assert!(!entry.value.is_gone(), "an empty collection has no key");
                for member in entry.value.members() {
                    *there.entry((db, key.to_vec(), member.to_vec())).or_default() += 1;
                }
            }
        }
        assert_eq!(keys, space.len());
        assert_eq!(told.keys.values().filter(|&&n| n != 0).count() as u64, keys);
        let left: BTreeMap<_, _> =
            told.members.iter().filter(|(_, n)| **n != 0).map(|(k, n)| (k.clone(), *n)).collect();
        assert_eq!(left, there, "all that came and went is what is there");
    }

    let (again, _, outcome) = run(file, &snapshot, 2, false);
    outcome.expect("what was written is sound");
    assert!(shown == lines(&saved(&again, false)), "read and written again it is the same");
    let (strict, _, outcome) = run(file, text, how, false);
    if outcome.is_ok() {
        assert!(snapshot == saved(&strict, false), "without a fault salvage changes nothing");
    }
}));
