//! The futures' way to the dispatcher: a list behind a lock, which the dispatcher takes as a whole.
//!
//! Why not a port: a port has one thread, and carries bytes. A future may be polled and dropped anywhere, and its outcome goes to its own
//! state, not through a ring that somebody would have to drain.
//!
//! Invariants:
//! 1. An entry is in the list before `news` is set, `news` before the dispatcher is touched; the dispatcher is armed before it looks at
//!    `news`. So it does not sleep over an entry.
//! 2. A closed inbox takes nothing, and what it had was dropped, which settles it ([`Promise`]).
//!
//! Ordering: **news**: set with Release after the list's lock was left; taken with Acquire. `stopped` likewise.
//!
//! Bounds: `max` calls are open; each is in the list at most twice (start, cancel).

use super::call::{Promise, State};
use crate::port::{Opener, Packet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a future asks for.
pub(super) enum Entry {
    Start(Promise, Packet),
    /// Nobody waits for it any more.
    Cancel(Arc<State>),
}

pub(super) struct Inbox {
    opener: Opener,
    max: usize,
    /// Calls of futures whose outcome was not given yet.
    open: AtomicUsize,
    news: AtomicBool,
    stopped: AtomicBool,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    closed: bool,
    entries: Vec<Entry>,
}

impl Inbox {
    pub(super) fn new(opener: Opener, max: usize) -> Inbox {
        Inbox {
            opener,
            max,
            open: AtomicUsize::new(0),
            news: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            list: Mutex::default(),
        }
    }

    pub(super) fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Takes a place among the open calls, if there is one.
    pub(super) fn enter(&self) -> bool {
        let more = |open: usize| (open < self.max).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Gives a place back.
    pub(super) fn leave(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Calls that have a place.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Leaves an entry for the dispatcher; given back when there is none any more.
    pub(super) fn push(&self, entry: Entry) -> Option<Entry> {
        let mut list = self.list();
        if list.closed {
            return Some(entry);
        }
        list.entries.push(entry);
        drop(list);
        self.news.store(true, Ordering::Release); // label: news
        self.opener.touch();
        None
    }

    /// Takes everything into `entries`, which is empty.
    #[inline]
    pub(super) fn take(&self, entries: &mut Vec<Entry>) {
        if self.has_news() {
            self.news.store(false, Ordering::Relaxed);
            std::mem::swap(&mut self.list().entries, entries);
        }
    }

    /// Whether there is something to take.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire) // label: news
    }

    /// No more entries; those that were not taken.
    pub(super) fn close(&self) -> Vec<Entry> {
        let mut list = self.list();
        list.closed = true;
        std::mem::take(&mut list.entries)
    }

    /// Asks the dispatcher to end.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.opener.touch();
    }

    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
