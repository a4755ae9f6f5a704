//! What comes back to the server from elsewhere: answers of deferred calls, futures that can go on, items to be sent.
//!
//! Why one queue behind a lock: what passes here has left the fast path already, and a lock that nobody else wants costs some
//! 20 ns. A poll without anything to take is one load.
//!
//! Ordering: **pending** (Release in `push`, Acquire in `take`) pairs what was pushed with the look; before sleeping
//! the server looks once more after it has armed its sleeper, and `push` wakes after it has set the flag.
//!
//! Bounds: two entries for each call that is open (one that it was deferred, one answer), one for each future and for each
//! stream, since each is marked while it is queued.

use super::tasks::TaskId;
use crate::service::{BoxFuture, CallState};
use ring::wait::Waker;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Something for the server.
pub(crate) enum Return {
    /// A handler deferred a call; here the server may say that nobody waits.
    Deferred { connection: u64, call: u32, state: Arc<CallState> },
    /// The Reply of a deferred call.
    Answer { connection: u64, call: u32, frame: Vec<u8> },
    /// A future can go on.
    Woken(TaskId),
    /// A stream has something to send.
    Pump { connection: u64, call: u32 },
    /// A future to be run.
    Spawn(BoxFuture),
}

/// The queue.
pub(crate) struct Returns {
    queue: Mutex<Vec<Return>>,
    pending: AtomicBool,
    waker: Waker,
    /// Futures spawned and not ended.
    spawned: AtomicUsize,
}

impl Returns {
    pub(super) fn new(waker: Waker) -> Returns {
        let (queue, pending) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        Returns { queue, pending, waker, spawned: AtomicUsize::new(0) }
    }

    pub(crate) fn push(&self, what: Return) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(what);
        self.pending.store(true, Ordering::Release); // label: pending
        self.waker.wake();
    }

    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire) // label: pending
    }

    /// Exchanges what is there with `into`, which is empty.
    pub(super) fn take(&self, into: &mut Vec<Return>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.pending.store(false, Ordering::Relaxed);
        std::mem::swap(&mut *queue, into);
    }

    pub(super) fn spawn_ended(&self) {
        self.spawned.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Returns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Returns")
    }
}

/// Runs futures on the server's thread, so that a handler can call other services without one of its own.
#[derive(Clone, Debug)]
pub struct Spawner {
    pub(super) returns: Arc<Returns>,
    pub(super) max: usize,
}

/// No room for another future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server runs as many futures as it may")
    }
}

impl std::error::Error for TooMany {}

impl Spawner {
    /// Has the server run `future`. A panic ends the future and nothing else.
    ///
    /// # Errors
    /// [`TooMany`] run already ([`Options::max_tasks`](super::Options::max_tasks)).
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Result<(), TooMany> {
        if self.returns.spawned.fetch_add(1, Ordering::Relaxed) >= self.max {
            self.returns.spawn_ended();
            return Err(TooMany);
        }
        self.returns.push(Return::Spawn(Box::pin(async move {
            future.await;
            Ok(())
        })));
        Ok(())
    }
}
