//! What each command does.

mod bits;
mod hashes;
mod keys;
mod lists;
mod sets;
mod sort;
mod streams;
mod strings;
mod zsets;

use crate::call::Call;
use crate::space::{Outcome, Refused};

/// What a command is to a replay.
pub enum Effect {
    /// It changes keys, by this.
    Write(fn(&mut Call<'_>) -> Outcome),
    /// It changes nothing that is kept here.
    Nothing,
    /// It concerns libraries of functions.
    Functions,
    /// It concerns scripts, of which nothing stays.
    Scripts,
    /// It runs a program, whose effect only a server knows.
    Program,
    Unknown,
}

/// The effect of a command, by its name in capitals.
pub fn effect(name: &[u8]) -> Effect {
    let run: fn(&mut Call<'_>) -> Outcome = match name {
        b"SET" => strings::set,
        b"SETNX" => strings::setnx,
        b"SETEX" => strings::setex,
        b"PSETEX" => strings::psetex,
        b"GETSET" => strings::getset,
        b"GETDEL" => strings::getdel,
        b"GETEX" => strings::getex,
        b"MSET" => strings::mset,
        b"MSETNX" => strings::msetnx,
        b"MSETEX" => strings::msetex,
        b"DELEX" => strings::delex,
        b"DELIFEQ" => strings::delifeq,
        b"APPEND" => strings::append,
        b"SETRANGE" => strings::setrange,
        b"INCR" => strings::incr,
        b"DECR" => strings::decr,
        b"INCRBY" => strings::incrby,
        b"DECRBY" => strings::decrby,
        b"INCRBYFLOAT" => strings::incrbyfloat,
        b"SETBIT" => bits::setbit,
        b"BITOP" => bits::bitop,
        b"BITFIELD" => bits::bitfield,
        b"LPUSH" => lists::lpush,
        b"RPUSH" => lists::rpush,
        b"LPUSHX" => lists::lpushx,
        b"RPUSHX" => lists::rpushx,
        b"LPOP" => lists::lpop,
        b"RPOP" => lists::rpop,
        b"BLPOP" => lists::blpop,
        b"BRPOP" => lists::brpop,
        b"LSET" => lists::lset,
        b"LINSERT" => lists::linsert,
        b"LREM" => lists::lrem,
        b"LTRIM" => lists::ltrim,
        b"RPOPLPUSH" | b"BRPOPLPUSH" => lists::rpoplpush,
        b"LMOVE" | b"BLMOVE" => lists::lmove,
        b"LMPOP" => lists::lmpop,
        b"BLMPOP" => lists::blmpop,
        b"SADD" => sets::sadd,
        b"SREM" => sets::srem,
        b"SMOVE" => sets::smove,
        b"SPOP" => sets::spop,
        b"SINTERSTORE" => sets::sinterstore,
        b"SUNIONSTORE" => sets::sunionstore,
        b"SDIFFSTORE" => sets::sdiffstore,
        b"ZADD" => zsets::zadd,
        b"ZINCRBY" => zsets::zincrby,
        b"ZREM" => zsets::zrem,
        b"ZREMRANGEBYSCORE" => zsets::zremrangebyscore,
        b"ZREMRANGEBYRANK" => zsets::zremrangebyrank,
        b"ZREMRANGEBYLEX" => zsets::zremrangebylex,
        b"ZPOPMIN" => zsets::zpopmin,
        b"ZPOPMAX" => zsets::zpopmax,
        b"BZPOPMIN" => zsets::bzpopmin,
        b"BZPOPMAX" => zsets::bzpopmax,
        b"ZMPOP" => zsets::zmpop,
        b"BZMPOP" => zsets::bzmpop,
        b"ZUNIONSTORE" => zsets::zunionstore,
        b"ZINTERSTORE" => zsets::zinterstore,
        b"ZDIFFSTORE" => zsets::zdiffstore,
        b"ZRANGESTORE" => zsets::zrangestore,
        b"HSET" | b"HMSET" => hashes::hset,
        b"HSETNX" => hashes::hsetnx,
        b"HSETEX" => hashes::hsetex,
        b"HDEL" => hashes::hdel,
        b"HGETDEL" => hashes::hgetdel,
        b"HGETEX" => hashes::hgetex,
        b"HINCRBY" => hashes::hincrby,
        b"HINCRBYFLOAT" => hashes::hincrbyfloat,
        b"HEXPIRE" => hashes::hexpire,
        b"HPEXPIRE" => hashes::hpexpire,
        b"HEXPIREAT" => hashes::hexpireat,
        b"HPEXPIREAT" => hashes::hpexpireat,
        b"HPERSIST" => hashes::hpersist,
        b"XADD" => streams::xadd,
        b"XTRIM" => streams::xtrim,
        b"XDEL" => streams::xdel,
        b"XDELEX" => streams::xdelex,
        b"XACKDEL" => streams::xackdel,
        b"XSETID" => streams::xsetid,
        b"XGROUP" => streams::xgroup,
        b"XACK" => streams::xack,
        b"XCLAIM" => streams::xclaim,
        b"DEL" | b"UNLINK" => keys::del,
        b"RENAME" => keys::rename,
        b"RENAMENX" => keys::renamenx,
        b"COPY" => keys::copy,
        b"MOVE" => keys::move_,
        b"RESTORE" | b"RESTORE-ASKING" => keys::restore,
        b"SWAPDB" => keys::swapdb,
        b"FLUSHDB" => keys::flushdb,
        b"FLUSHALL" => keys::flushall,
        b"PERSIST" => keys::persist,
        b"EXPIRE" => keys::expire,
        b"PEXPIRE" => keys::pexpire,
        b"EXPIREAT" => keys::expireat,
        b"PEXPIREAT" => keys::pexpireat,
        b"SORT" => sort::sort,
        b"PUBLISH" | b"SPUBLISH" | b"PING" | b"REPLCONF" | b"TOUCH" | b"CONFIG" | b"CLIENT" | b"ASKING" => {
            return Effect::Nothing;
        }
        b"FUNCTION" => return Effect::Functions,
        b"SCRIPT" => return Effect::Scripts,
        b"EVAL" | b"EVALSHA" | b"FCALL" => return Effect::Program,
        _ => return Effect::Unknown,
    };
    Effect::Write(run)
}

/// A position counted from the end where it is negative; `None` where it lies before the first.
fn position(index: i64, len: usize) -> Option<usize> {
    let len = i64::try_from(len).ok()?;
    let at = if index < 0 { len.checked_add(index)? } else { index };
    usize::try_from(at).ok()
}

/// First and past-the-last position of a range whose both ends are part of it.
fn range(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let first = position(start, len).unwrap_or(0);
    let end = match position(stop, len) {
        Some(last) => last.saturating_add(1).min(len),
        None => 0,
    };
    first.min(end)..end
}

/// Which end of a list or sorted set.
fn end_of(word: &[u8], front: &[u8], back: &[u8]) -> Result<bool, Refused> {
    if word == front {
        Ok(true)
    } else if word == back {
        Ok(false)
    } else {
        Err(Refused::Arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Args, Commands};
    use crate::space::Space;
    use jobsleuth_formats::{Limits, SliceInput};

    fn run(space: &mut Space, words: &[&str]) -> Outcome {
        let argument = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
        let text = format!("*{}\r\n{}", words.len(), words.iter().map(argument).collect::<String>());
        let mut args = Args::default();
        Commands::new(SliceInput::new(text.as_bytes(), 0), 1 << 20, false).next(&mut args).unwrap();
        let limits = Limits::default();
        let mut call = Call { space, args: &args, db: 0, now_ms: None, before_7: false, limits, lost_expiries: 0 };
        match effect(&args.name()) {
            Effect::Write(run) => run(&mut call),
            _ => panic!("{words:?}"),
        }
    }

    /// Commands of a few bytes may make some more of them, and no more than is allowed: a file of a kilobyte must not take
    /// the machine's memory. What is gone has given its room back, and what a file brings itself needs none.
    #[test]
    fn little_does_not_become_much() {
        let mut space = Space::default();
        space.allow(1000);
        for words in [
            &["SETRANGE", "a", "2000", "x"][..],
            &["SETBIT", "a", "80000", "1"],
            &["BITFIELD", "a", "SET", "u8", "80000", "1"],
        ] {
            assert_eq!(run(&mut space, words), Err(Refused::Room), "{words:?}");
        }
        assert!(space.is_empty());
        for round in 0..3 {
            assert_eq!(run(&mut space, &["SETRANGE", "a", "600", "x"]), Ok(()), "{round}");
            assert_eq!(run(&mut space, &["SETRANGE", "b", "600", "x"]), Err(Refused::Room), "{round}");
            run(&mut space, &["RENAME", "a", "b"]).unwrap();
            assert_eq!(run(&mut space, &["SETBIT", "a", "4800", "1"]), Err(Refused::Room), "{round}");
            assert!(!space.contains(0, b"a"));
            let gone: &[&str] = if round == 1 { &["FLUSHALL"] } else { &["DEL", "b"] };
            run(&mut space, gone).unwrap();
        }
        let brought = "y".repeat(900);
        run(&mut space, &["RPUSH", "l", &brought]).unwrap();
        run(&mut space, &["SADD", "t", &brought]).unwrap();
        run(&mut space, &["ZADD", "z", "1", &brought]).unwrap();
        run(&mut space, &["SET", "s", &brought]).unwrap();
        run(&mut space, &["COPY", "l", "l2"]).unwrap();
        for words in [
            &["COPY", "l", "l3"][..],
            &["SORT", "l", "BY", "nosort", "GET", "#", "GET", "#", "STORE", "l4"],
            &["SUNIONSTORE", "t2", "t"],
            &["ZUNIONSTORE", "z2", "1", "z"],
            &["ZRANGESTORE", "z3", "z", "0", "-1"],
            &["BITOP", "OR", "s2", "s"],
        ] {
            assert_eq!(run(&mut space, words), Err(Refused::Room), "{words:?}");
        }
        assert_eq!(space.len(), 5);
        assert_eq!(run(&mut space, &["COPY", "l", "l2", "REPLACE"]), Ok(()));
    }

    /// Entries that a trimmed stream keeps, and those that its group still waits for, are what Redis 8.2.3 said of them.
    #[test]
    fn streams_are_cut_by_the_rule_for_references() {
        for (words, kept, pending) in [
            (&["XTRIM", "x", "MAXLEN", "=", "2", "ACKED"][..], &[1, 3, 4, 5, 6][..], &[1, 3][..]),
            (&["XTRIM", "x", "MAXLEN", "=", "5", "ACKED"], &[1, 3, 4, 5, 6], &[1, 3]),
            (&["XTRIM", "x", "MINID", "=", "4", "ACKED"], &[1, 3, 4, 5, 6], &[1, 3]),
            (&["XTRIM", "x", "MAXLEN", "=", "2", "DELREF"], &[5, 6], &[]),
            (&["XTRIM", "x", "MINID", "=", "3", "DELREF"], &[3, 4, 5, 6], &[3]),
            (&["XTRIM", "x", "MAXLEN", "=", "2", "KEEPREF"], &[5, 6], &[1, 3]),
            (&["XTRIM", "x", "MAXLEN", "2"], &[5, 6], &[1, 3]),
            (&["XADD", "x", "ACKED", "MAXLEN", "=", "2", "9-0", "f", "v"], &[1, 3, 4, 5, 6, 9], &[1, 3]),
            (&["XADD", "x", "DELREF", "MINID", "=", "3", "9-0", "f", "v"], &[3, 4, 5, 6, 9], &[3]),
        ] {
            let mut space = Space::default();
            for id in 1..7 {
                run(&mut space, &["XADD", "x", &format!("{id}-0"), "f", "v"]).unwrap();
            }
            run(&mut space, &["XGROUP", "CREATE", "x", "g", "0"]).unwrap();
            for id in ["1-0", "2-0", "3-0"] {
                let read = ["XCLAIM", "x", "g", "c", "0", id, "TIME", "1", "FORCE", "JUSTID", "LASTID", "3-0"];
                run(&mut space, &read).unwrap();
            }
            run(&mut space, &["XACK", "x", "g", "2-0"]).unwrap();
            run(&mut space, words).unwrap();
            let stream = space.stream(0, b"x").unwrap().unwrap();
            let ids: Vec<u64> = stream.entries.keys().map(|id| id.ms).collect();
            let waiting: Vec<u64> = stream.groups[&b"g"[..]].pending.keys().map(|id| id.ms).collect();
            assert_eq!((&ids[..], &waiting[..]), (kept, pending), "{words:?}");
        }
    }

    /// Entries of producers that name themselves (Redis 8.6) are entries like any other.
    #[test]
    fn entries_of_producers_are_kept() {
        let mut space = Space::default();
        run(&mut space, &["XADD", "x", "IDMP", "press", "order-7", "MAXLEN", "=", "9", "1-0", "f", "v"]).unwrap();
        run(&mut space, &["XADD", "x", "NOMKSTREAM", "IDMPAUTO", "press", "2-0", "f", "v"]).unwrap();
        assert_eq!(space.stream(0, b"x").unwrap().unwrap().entries.len(), 2);
    }
}
