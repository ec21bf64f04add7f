//! The files of commands, one after the other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use jobsleuth_formats::{Checksum, Error, ErrorKind, FileInput, Input, Item, Limits, Result, Walker};
use jobsleuth_spool::Notes;

use crate::build::Builder;
use crate::call::Call;
use crate::commands::{Effect, effect};
use crate::libraries::Libraries;
use crate::resp::{Args, Commands, Unit, number};
use crate::space::{Entry, Refused, Space};

/// One file of an append-only file: the only one, or the base or an increment of several.
pub struct Part {
    pub name: String,
    pub file: File,
    /// It holds what was there when it was written, be it as commands, and not what happened.
    pub base: bool,
}

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Keep what came before a fault.
    pub salvage: bool,
    pub max_value_bytes: u64,
    /// Commands after this moment (Unix ms) are left out.
    pub until_ms: Option<i64>,
    /// Number of a part and an offset in it: commands that end behind it are left out.
    pub until_offset: Option<(usize, u64)>,
    /// Lines of plain words are commands, too.
    pub inline: bool,
}

/// Why the replay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    End,
    Time,
    Offset,
    Fault,
}

/// What a replay found.
#[derive(Debug)]
pub struct Report {
    /// Commands in the files, as far as they were read.
    pub commands: u64,
    /// Those that change keys and were run.
    pub replayed: u64,
    pub transactions: u64,
    /// Names of commands, in capitals, and how often each came.
    pub names: BTreeMap<Vec<u8>, u64>,
    /// Functions and scripts that were loaded or dropped.
    pub library_commands: u64,
    /// First and last time noted, Unix seconds.
    pub first_time_s: Option<i64>,
    pub last_time_s: Option<i64>,
    /// Facts that the snapshot at the start tells.
    pub aux: BTreeMap<String, Vec<u8>>,
    /// Libraries of functions that are there in the end.
    pub functions: Libraries,
    pub notes: Notes,
    pub fault: Option<Error>,
    pub stop: Stop,
    /// Part and offset of the first byte that had no effect.
    pub end: (usize, u64),
}

/// Bytes between two reports of progress.
const STEP: u64 = 8 << 20;
/// Why a command has no effect that no table here has.
const UNKNOWN: &str = "it is not known";
/// Commands may make this much more than they bring, or so many times the size of all files.
const ROOM: u64 = 1 << 30;
const ROOM_TIMES: u64 = 16;
/// Most names of unknown commands that are told apart.
const MAX_NAMES: usize = 1000;

/// Runs all commands of the parts, in order, on `space`. How much they may make of little is decided here unless the space
/// was told before.
///
/// # Errors
/// A fault in a file, unless it is salvaged or the last file simply ends too early; those of reading; those of the
/// witness.
pub fn replay(
    parts: &[Part],
    space: &mut Space,
    options: Options,
    progress: &mut dyn FnMut(u64, u64) -> io::Result<()>,
) -> Result<Report> {
    let mut total = 0;
    for part in parts {
        total += part.file.metadata()?.len();
    }
    let room = total.saturating_mul(ROOM_TIMES).max(ROOM);
    space.allow_unless_told(usize::try_from(room).unwrap_or(usize::MAX));
    let mut run = Run {
        space,
        options,
        limits: Limits { max_value_bytes: options.max_value_bytes, ..Limits::default() },
        report: Report {
            commands: 0,
            replayed: 0,
            transactions: 0,
            names: BTreeMap::new(),
            library_commands: 0,
            first_time_s: None,
            last_time_s: None,
            aux: BTreeMap::new(),
            functions: Libraries::default(),
            notes: Notes::default(),
            fault: None,
            stop: Stop::End,
            end: (0, 0),
        },
        part: 0,
        db: 0,
        now_ms: None,
        before_7: false,
        open: None,
        refused: BTreeMap::new(),
        lost_expiries: 0,
        done: 0,
        total,
        next_report: STEP,
        progress,
    };
    for (number, part) in parts.iter().enumerate() {
        if options.until_offset.is_some_and(|(last, _)| number > last) {
            run.report.stop = Stop::Offset;
            break;
        }
        run.part = number;
        let last = number + 1 == parts.len();
        run.space.restore(part.base);
        match run.file(part, last) {
            Ok(Stop::End) => {}
            Ok(stop) => {
                run.report.stop = stop;
                break;
            }
            Err(error) if options.salvage && !matches!(error.kind, ErrorKind::Io(_) | ErrorKind::Stopped) => {
                run.report.fault = Some(error);
                run.report.stop = Stop::Fault;
                break;
            }
            Err(error) => return Err(error),
        }
        run.done = run.done.saturating_add(part.file.metadata()?.len());
    }
    Ok(run.finish())
}

struct Run<'r> {
    space: &'r mut Space,
    options: Options,
    limits: Limits,
    report: Report,
    part: usize,
    db: u64,
    now_ms: Option<i64>,
    before_7: bool,
    /// Commands of the transaction that has begun, with their offsets.
    open: Option<Vec<(u64, Args)>>,
    /// Commands without effect, by name and reason.
    refused: BTreeMap<(Vec<u8>, &'static str), (u64, u64)>,
    lost_expiries: u64,
    done: u64,
    total: u64,
    next_report: u64,
    progress: &'r mut dyn FnMut(u64, u64) -> io::Result<()>,
}

impl Run<'_> {
    fn file(&mut self, part: &Part, last: bool) -> Result<Stop> {
        let len = part.file.metadata()?.len();
        let mut input = FileInput::new(&part.file, len, true);
        (self.db, self.open) = (0, None);
        self.report.end = (self.part, 0);
        if starts_snapshot(&mut input)? {
            input = self.snapshot(input)?;
        }
        self.report.end.1 = input.offset();
        let mut commands = Commands::new(input, self.options.max_value_bytes, self.options.inline);
        let outcome = self.commands(&mut commands);
        if let Some(open) = self.open.take() {
            // What a server has begun and not ended has not happened.
            let (at, count) = (self.report.end.1, open.len() as u64);
            let message = || "commands of a transaction whose end is not there are left out".to_owned();
            self.report.notes.add_many("unfinished_transaction", Some(at), count, message);
        }
        match outcome {
            Err(error) if last && matches!(error.kind, ErrorKind::Truncated { .. }) => {
                let whole = self.report.end.1;
                let message = || {
                    format!(
                        "the file ends in the middle of a command, as after a crash; all before byte {whole} is there"
                    )
                };
                let left = len.saturating_sub(whole);
                self.report.notes.add_many("aof_cut_short", Some(whole), left, message);
                Ok(Stop::End)
            }
            other => other,
        }
    }

    /// Loads the snapshot that the file begins with; what is left of the input.
    fn snapshot<I: Input>(&mut self, input: I) -> Result<I> {
        let mut walker = Walker::open(input, self.limits)?;
        self.report.functions.clear();
        loop {
            self.tell_progress(walker.offset())?;
            let Some(item) = walker.next_undecoded()? else { break };
            match item {
                Item::Aux { name, value } => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    self.report.aux.entry(name).or_insert_with(|| value.to_vec());
                }
                Item::Function(ref function) => self.report.functions.add(function),
                Item::Key(entry) => {
                    let (db, key, expire_at_ms) = (entry.db, entry.key.to_vec(), entry.expire_at_ms);
                    let mut builder = Builder::new(entry.kind);
                    walker.decode_value(&mut builder)?;
                    self.space.load(db, &key, Entry::new(builder.finish(), expire_at_ms));
                }
                Item::End(Checksum::Mismatch { stored, computed }) => {
                    let error = Error::new(walker.offset().saturating_sub(8), ErrorKind::Checksum { stored, computed });
                    if !self.options.salvage {
                        return Err(error);
                    }
                    let message = || error.to_string();
                    self.report.notes.add("wrong_checksum", Some(error.offset), message);
                }
                _ => {}
            }
        }
        let version = self.report.aux.get("redis-ver");
        let major = version.and_then(|text| number::<u32>(text.split(|&b| b == b'.').next()?));
        self.before_7 = major.is_some_and(|major| major < 7);
        Ok(walker.into_input())
    }

    fn commands<I: Input>(&mut self, commands: &mut Commands<I>) -> Result<Stop> {
        let mut args = Args::default();
        let limit = self.options.until_offset.filter(|&(part, _)| part == self.part).map(|(_, offset)| offset);
        loop {
            let at = commands.offset();
            self.tell_progress(at)?;
            let Some(unit) = commands.next(&mut args)? else { return Ok(Stop::End) };
            if limit.is_some_and(|limit| commands.offset() > limit) {
                return Ok(Stop::Offset);
            }
            match unit {
                Unit::Time(seconds) => {
                    let ms = seconds.saturating_mul(1000);
                    if self.options.until_ms.is_some_and(|until| ms > until) {
                        return Ok(Stop::Time);
                    }
                    self.now_ms = Some(ms);
                    self.report.first_time_s.get_or_insert(seconds);
                    self.report.last_time_s = Some(seconds);
                }
                Unit::Note => {
                    let message = || "notes that are not understood were passed over".to_owned();
                    self.report.notes.add("unknown_note", Some(at), message);
                }
                Unit::Command => self.command(at, &args)?,
            }
            if self.open.is_none() {
                self.report.end.1 = commands.offset();
            }
        }
    }

    fn command(&mut self, at: u64, args: &Args) -> Result<()> {
        self.report.commands += 1;
        let name = args.name();
        if let Some(count) = self.report.names.get_mut(&name) {
            *count += 1;
        } else if self.report.names.len() < MAX_NAMES {
            self.report.names.insert(name.clone(), 1);
        }
        match name.as_slice() {
            b"MULTI" => self.open = Some(Vec::new()),
            b"DISCARD" => self.open = None,
            b"EXEC" => {
                if let Some(open) = self.open.take() {
                    self.report.transactions += 1;
                    for (at, args) in open {
                        self.run(at, &args, self.report.transactions)?;
                    }
                }
            }
            _ => match &mut self.open {
                Some(open) => open.push((at, args.clone())),
                None => self.run(at, args, 0)?,
            },
        }
        Ok(())
    }

    fn run(&mut self, at: u64, args: &Args, transaction: u64) -> Result<()> {
        let name = args.name();
        if name == b"SELECT" {
            match args.get(1).and_then(number) {
                Some(db) => self.db = db,
                None => self.refuse(name, at, Refused::Arguments.as_str()),
            }
            return Ok(());
        }
        match effect(&name) {
            Effect::Nothing => {}
            Effect::Scripts => self.report.library_commands += 1,
            Effect::Functions => {
                self.report.library_commands += 1;
                if let Err(refused) = self.report.functions.run(args, self.limits) {
                    self.refuse(name, at, refused.as_str());
                }
            }
            Effect::Program => self.refuse(name, at, "it runs a program, which only a server can"),
            Effect::Unknown => self.refuse(name, at, UNKNOWN),
            Effect::Write(run) => {
                let cause = self.space.cause();
                cause.command.clone_from(&name);
                cause.at_ms = self.now_ms;
                cause.part = u16::try_from(self.part).unwrap_or(u16::MAX);
                (cause.offset, cause.transaction) = (at, transaction);
                cause.step = self.report.replayed;
                self.report.replayed += 1;
                let mut call = Call {
                    space: self.space,
                    args,
                    db: self.db,
                    now_ms: self.now_ms,
                    before_7: self.before_7,
                    limits: self.limits,
                    lost_expiries: 0,
                };
                let outcome = run(&mut call);
                self.lost_expiries += call.lost_expiries;
                if let Err(refused) = outcome {
                    self.refuse(name, at, refused.as_str());
                }
                self.space.told()?;
            }
        }
        Ok(())
    }

    /// Counts a command that has no effect here.
    fn refuse(&mut self, mut name: Vec<u8>, at: u64, why: &'static str) {
        name.truncate(40);
        if self.refused.len() >= MAX_NAMES && !self.refused.contains_key(&(name.clone(), why)) {
            name = b"others".to_vec();
        }
        self.refused.entry((name, why)).or_insert((0, at)).0 += 1;
    }

    fn tell_progress(&mut self, at: u64) -> Result<()> {
        let done = self.done.saturating_add(at);
        if done >= self.next_report {
            self.next_report = done.saturating_add(STEP);
            (self.progress)(done, self.total)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Report {
        for ((name, why), (count, at)) in self.refused {
            let name = name.escape_ascii().to_string();
            let kind = if why == UNKNOWN { "unknown_command" } else { "command_without_effect" };
            let message = format!("the effect of {name} is missing: {why}");
            self.report.notes.push(kind, Some(at), count, message);
        }
        if self.lost_expiries > 0 {
            let message = || "times to live that count from an unknown moment were left out".to_owned();
            self.report.notes.add_many("expiry_unknown", None, self.lost_expiries, message);
        }
        self.report
    }
}

/// Whether the file begins with a snapshot.
fn starts_snapshot<I: Input>(input: &mut I) -> Result<bool> {
    match input.fill(6) {
        Err(error) if !matches!(error.kind, ErrorKind::Truncated { .. }) => return Err(error),
        _ => {}
    }
    let bytes = input.buffered();
    Ok(bytes.starts_with(b"REDIS") || bytes.starts_with(b"VALKEY"))
}
