//! Lines of many spans, made by several threads and written in the order of the file.
//!
//! Threads take spans in order and may be a few spans ahead of the writer, each with a few buffers, so memory stays
//! bounded; the caller's thread writes those of the first unfinished span.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::{Error, Result};
use crate::lines::{Direct, Lines, Outlet};
use crate::ndjson::Job;
use crate::positioned::Positioned;
use crate::spans::{Span, Spans};

/// Buffers that a span may have waiting: room for all that a span of ordinary size yields.
const WAITING: usize = 16;

struct Shared<'p, P: ?Sized> {
    spans: Mutex<Spans<'p, P>>,
    window: usize,
    state: Mutex<State>,
    /// For the threads: a span may be taken, a buffer left.
    room: Condvar,
    /// For the writer: a buffer, or the end of a span.
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of the first span in `slots`.
    first: u64,
    slots: VecDeque<Slot>,
    /// Empty buffers to be used again.
    spare: Vec<Vec<u8>>,
    /// There are no more spans to take.
    all_taken: bool,
    stopped: bool,
}

#[derive(Default)]
struct Slot {
    buffers: VecDeque<Vec<u8>>,
    outcome: Option<(u64, Result<()>)>,
    /// Its thread has left it.
    closed: bool,
}

/// Writes the keys of all spans, and counts those written; the spans are given back for their end.
pub(crate) fn write<'p, P: Positioned + ?Sized, W: Write>(
    job: &Job<'p, P>,
    spans: Spans<'p, P>,
    threads: usize,
    out: &mut Direct<'_, W>,
    keys: &mut u64,
) -> Result<Spans<'p, P>> {
    let shared = Shared {
        spans: Mutex::new(spans),
        window: threads * 2 + 1,
        state: Mutex::default(),
        room: Condvar::new(),
        news: Condvar::new(),
    };
    thread::scope(|scope| {
        // Whatever happens here, the threads must not wait for it.
        let _stop = Stop(&shared);
        for started in 0..threads {
            let worker = thread::Builder::new().name("jobsleuth-cat".into());
            if let Err(error) = worker.spawn_scoped(scope, || shared.work(job)) {
                if started == 0 {
                    return Err(error.into());
                }
                break;
            }
        }
        shared.deliver(out, keys)
    })?;
    Ok(shared.spans.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'p, P: Positioned + ?Sized> Shared<'p, P> {
    fn wait<'m>(&self, condition: &Condvar, state: MutexGuard<'m, State>) -> MutexGuard<'m, State> {
        condition.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, job: &Job<'p, P>) {
        while let Some((number, span)) = self.take() {
            let place = Hand { shared: self, number };
            let mut lines = Lines::new(place, job.with_encoding);
            let mut keys = 0;
            let written = job.write(&span, &mut lines, &mut keys);
            // What was whole before a fault is good.
            let outcome = written.and(lines.flush());
            // The names that the span knows are free to be added to before its end is told.
            drop(span);
            if let Some(slot) = locked(&self.state).slot(number) {
                slot.outcome = Some((keys, outcome));
            }
        }
    }

    /// The next span and its number.
    fn take(&self) -> Option<(u64, Span)> {
        let mut spans = locked(&self.spans);
        let at_template = spans.at_template();
        let mut state = locked(&self.state);
        loop {
            if state.stopped || state.all_taken {
                return None;
            }
            if state.slots.len() < if at_template { 1 } else { self.window } {
                break;
            }
            state = self.wait(&self.room, state);
        }
        drop(state);
        let span = spans.next();
        let mut state = locked(&self.state);
        let Some(span) = span else {
            state.all_taken = true;
            self.news.notify_all();
            return None;
        };
        let number = state.first + state.slots.len() as u64;
        state.slots.push_back(Slot::default());
        Some((number, span))
    }

    fn deliver<W: Write>(&self, out: &mut Direct<'_, W>, keys: &mut u64) -> Result<()> {
        let mut state = locked(&self.state);
        loop {
            let all_taken = state.all_taken;
            match state.slots.front_mut() {
                None if all_taken => return Ok(()),
                None => {}
                Some(slot) => {
                    if let Some(mut buffer) = slot.buffers.pop_front() {
                        drop(state);
                        self.room.notify_all();
                        out.send(&mut buffer)?;
                        state = locked(&self.state);
                        state.spare.push(buffer);
                        continue;
                    }
                    if slot.closed {
                        let outcome = slot.outcome.take();
                        state.slots.pop_front();
                        state.first += 1;
                        self.room.notify_all();
                        // Without an outcome its thread has panicked, which the end of the scope hands on.
                        let (whole, outcome) = outcome.unwrap_or((0, Err(Error::stopped())));
                        *keys += whole;
                        outcome?;
                        continue;
                    }
                }
            }
            state = self.wait(&self.news, state);
        }
    }
}

impl State {
    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.slots.get_mut(at)
    }
}

/// Ends the threads when the writer is done, for better or worse.
struct Stop<'s, 'p, P: ?Sized>(&'s Shared<'p, P>);

impl<P: ?Sized> Drop for Stop<'_, '_, P> {
    fn drop(&mut self) {
        locked(&self.0.state).stopped = true;
        self.0.room.notify_all();
    }
}

/// A thread's hold on the slot of its span.
struct Hand<'s, 'p, P: ?Sized> {
    shared: &'s Shared<'p, P>,
    number: u64,
}

impl<P: Positioned + ?Sized> Outlet for Hand<'_, '_, P> {
    fn send(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let shared = self.shared;
        let mut state = locked(&shared.state);
        loop {
            if state.stopped {
                return Err(Error::stopped());
            }
            match state.slot(self.number) {
                None => return Err(Error::stopped()),
                Some(slot) if slot.buffers.len() < WAITING => break,
                Some(_) => state = shared.wait(&shared.room, state),
            }
        }
        let next = state.spare.pop().unwrap_or_default();
        if let Some(slot) = state.slot(self.number) {
            slot.buffers.push_back(std::mem::replace(buffer, next));
        }
        drop(state);
        shared.news.notify_all();
        Ok(())
    }
}

impl<P: ?Sized> Drop for Hand<'_, '_, P> {
    fn drop(&mut self) {
        if let Some(slot) = locked(&self.shared.state).slot(self.number) {
            slot.closed = true;
        }
        self.shared.news.notify_all();
    }
}
