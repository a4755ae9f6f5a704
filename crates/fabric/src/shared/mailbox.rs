//! Where a member finds outcomes that others took from the channel, and what wakes it when it sleeps.
//!
//! Ordering: **news**: set (Release) after the letters are there, seen (Acquire) before they are taken; both under the lock, a look without it is
//! a hint that a sleeping member does not rely on: its bell is rung after `news` (see `ring::wait`).
//!
//! Bounds: one outcome for each open call of the member.

use super::letters::Letters;
use ring::wait::Waker;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct Mailbox {
    news: AtomicBool,
    letters: Mutex<Letters>,
    bell: Waker,
    /// Bytes of the member's requests that wait for a driver or for room in the channel.
    pub(super) waiting: AtomicUsize,
}

impl Mailbox {
    pub(super) fn new(bell: Waker) -> Mailbox {
        let (news, waiting) = (AtomicBool::new(false), AtomicUsize::new(0));
        Mailbox { news, letters: Mutex::default(), bell, waiting }
    }

    /// Puts outcomes in. Ring afterwards, without the dispatcher.
    pub(super) fn put(&self, outcomes: &mut Letters) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.append(outcomes);
        self.news.store(true, Ordering::Release); // label: news
    }

    /// Takes what is there; whether something was.
    #[inline]
    pub(super) fn take(&self, into: &mut Letters) -> bool {
        if !self.news.load(Ordering::Acquire) {
            return false; // label: news
        }
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        self.news.store(false, Ordering::Relaxed);
        into.append(&mut letters);
        true
    }

    /// Wakes the member if it sleeps.
    pub(super) fn ring(&self) {
        self.bell.wake();
    }
}

/// Whom a driver has to wake once it has put the dispatcher back: what a task's waker does is its executor's affair.
#[derive(Default)]
pub(super) struct Told {
    pub(super) members: Vec<Arc<Mailbox>>,
    pub(super) tasks: Vec<std::task::Waker>,
}

impl Told {
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.tasks.is_empty()
    }

    /// Wakes them all, also if one of the wakers panics.
    #[inline]
    pub(super) fn tell(&mut self) {
        if !self.is_empty() {
            Telling(self).tell();
        }
    }
}

struct Telling<'a>(&'a mut Told);

impl Telling<'_> {
    fn tell(&mut self) {
        while let Some(member) = self.0.members.pop() {
            member.ring();
        }
        while let Some(task) = self.0.tasks.pop() {
            task.wake();
        }
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.tell();
    }
}
