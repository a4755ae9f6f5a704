//! What is left for the driver by those who found the dispatcher taken, and by futures: a list behind a lock, which the driver takes as a whole.
//!
//! Why one for all: whoever finds the dispatcher free needs none, so it is rarely used, and the driver has one place to look.
//!
//! Invariants:
//! 1. What was put is seen by a driver: whoever put it calls [`Hub::settle`](super::hub::Hub::settle), which is `ring::baton`'s invariant 2.
//! 2. A closed tray takes nothing, and what it had was dropped, which settles it ([`Promise`]).
//! 3. A member's key is given again, with another generation, only after the driver has heard that it left.
//!
//! Bounds: `futures` calls of futures are open, each in the list at most twice (start, cancel); `members` members, each here with requests of
//! its bound of bytes. Requests of futures that were not started yet: `bytes`.

use super::call::{Promise, State};
use super::desk::Desk;
use super::letters::Letters;
use crate::port::Packet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is left, beside members' requests.
pub(super) enum Entry {
    /// A member comes.
    Join(Box<Desk>),
    /// A member is gone.
    Leave(u32),
    /// A future's call.
    Start(Promise, Packet),
    /// Nobody waits for it any more.
    Cancel(Arc<State>),
}

pub(super) struct Tray {
    futures: usize,
    bytes: usize,
    members: usize,
    /// Calls of futures whose outcome was not given yet.
    open: AtomicUsize,
    /// Bytes of their requests that were not started.
    waiting: AtomicUsize,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    closed: bool,
    entries: Vec<Entry>,
    letters: Letters,
    /// Keys that can be given, and how many places have had one.
    keys: Vec<u32>,
    places: u32,
}

impl Tray {
    pub(super) fn new(futures: usize, bytes: usize, members: usize) -> Tray {
        let (open, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Tray { futures, bytes, members, open, waiting, list: Mutex::default() }
    }

    /// Takes a place among the open calls of futures for a request of so many bytes, if there is one.
    pub(super) fn enter(&self, bytes: usize) -> bool {
        let fits =
            |waiting: usize| (waiting == 0 || waiting + bytes <= self.bytes).then_some(waiting + bytes);
        if self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            return false;
        }
        let more = |open: usize| (open < self.futures).then_some(open + 1);
        let entered = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if !entered {
            self.started(bytes);
        }
        entered
    }

    /// A future's request waits no longer.
    pub(super) fn started(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Gives a place back.
    pub(super) fn leave(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Calls that have a place.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Leaves an entry; given back when nobody takes it any more.
    pub(super) fn push(&self, entry: Entry) -> Option<Entry> {
        let mut list = self.list();
        if list.closed {
            return Some(entry);
        }
        list.entries.push(entry);
        None
    }

    /// Leaves a member's letters, whether or not anybody takes them.
    pub(super) fn leave_letters(&self, letters: &mut Letters) {
        let mut list = self.list();
        if list.closed {
            letters.clear();
        } else {
            list.letters.append(letters);
        }
    }

    /// A key for a member, if there is room for one.
    pub(super) fn key(&self) -> Option<u32> {
        let mut list = self.list();
        if list.keys.is_empty() && (list.places as usize) < self.members {
            list.places += 1;
            return Some(list.places - 1);
        }
        list.keys.pop()
    }

    /// Its member is gone, and the driver has heard of it.
    pub(super) fn free_key(&self, key: u32) {
        self.list().keys.push(key.wrapping_add(1 << 16));
    }

    /// Takes everything into buffers that are empty.
    pub(super) fn take(&self, entries: &mut Vec<Entry>, letters: &mut Letters) {
        let mut list = self.list();
        std::mem::swap(&mut list.entries, entries);
        letters.append(&mut list.letters);
    }

    /// Takes no more; what was not taken.
    pub(super) fn close(&self) -> Vec<Entry> {
        let mut list = self.list();
        list.closed = true;
        list.letters.clear();
        std::mem::take(&mut list.entries)
    }

    fn list(&self) -> MutexGuard<'_, List> {
        // Each change is one step, so what a panic left behind is whole.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
