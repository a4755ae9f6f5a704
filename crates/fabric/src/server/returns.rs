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
use std::cell::RefCell;
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
        self.put(what);
        self.waker.wake();
    }

    /// As [`Returns::push`] of an answer, which may wake the server later: see [`gather`].
    pub(crate) fn answer(self: &Arc<Self>, what: Return) {
        self.put(what);
        let is_gathered = GATHERED.with_borrow_mut(|gathered| {
            let Some(servers) = gathered else { return false };
            if !servers.iter().any(|server| Arc::ptr_eq(server, self)) {
                servers.push(Arc::clone(self));
            }
            true
        });
        if !is_gathered {
            self.waker.wake();
        }
    }

    fn put(&self, what: Return) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(what);
        self.pending.store(true, Ordering::Release); // label: pending
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

thread_local! {
    /// Servers that have answers of this thread and were not woken for them; none while nobody gathers.
    static GATHERED: RefCell<Option<Vec<Arc<Returns>>>> = const { RefCell::new(None) };
}

/// Does `work`, in which this thread answers deferred calls: their servers are woken once, at its end (also by a panic) or by [`wake_gathered`], and not for
/// each answer. One that shares the processor with this thread would otherwise take it for every one of them. Within itself it changes nothing.
pub fn gather<T>(work: impl FnOnce() -> T) -> T {
    struct Gathers(bool);
    impl Drop for Gathers {
        fn drop(&mut self) {
            if self.0 {
                wake_gathered();
                GATHERED.set(None);
            }
        }
    }
    let _gathers = Gathers(GATHERED.with_borrow_mut(|gathered| {
        let is_first = gathered.is_none();
        gathered.get_or_insert_default();
        is_first
    }));
    work()
}

/// Wakes the servers that have answers of this thread, and gathers on. For whoever is about to work for longer than a wake-up takes.
pub fn wake_gathered() {
    GATHERED.with_borrow_mut(|gathered| {
        gathered.iter_mut().flat_map(|servers| servers.drain(..)).for_each(|server| _ = server.waker.wake());
    });
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

#[cfg(test)]
mod tests {
    use super::*;
    use ring::wait::waiting_on_eventfd;
    use std::os::fd::{AsFd, OwnedFd};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A queue whose server sleeps, and whether it was woken since the last look.
    fn asleep() -> (Arc<Returns>, impl FnMut() -> bool) {
        let (mut sleeper, waker) = waiting_on_eventfd().expect("an eventfd");
        let bell: OwnedFd =
            sleeper.descriptor().expect("an eventfd").try_clone_to_owned().expect("a descriptor");
        sleeper.arm();
        let woken = move || {
            let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut fds =
                [rustix::event::PollFd::from_borrowed_fd(bell.as_fd(), rustix::event::PollFlags::IN)];
            let rung = rustix::event::poll(&mut fds, Some(&zero)).expect("a look") > 0;
            if rung {
                sleeper.disarm();
                sleeper.arm();
            }
            rung
        };
        (Arc::new(Returns::new(waker)), woken)
    }

    fn answer(returns: &Arc<Returns>) {
        returns.answer(Return::Answer { connection: 0, call: 0, frame: Vec::new() });
    }

    fn taken(returns: &Returns) -> usize {
        let mut all = Vec::new();
        returns.take(&mut all);
        all.len()
    }

    #[test]
    fn gathered_answers_wake_their_server_at_the_end() {
        let (returns, mut woken) = asleep();
        answer(&returns);
        assert!(woken() && taken(&returns) == 1);
        gather(|| {
            // Within itself it changes nothing.
            gather(|| answer(&returns));
            answer(&returns);
            assert!(!woken() && returns.is_pending());
            wake_gathered();
            assert!(woken());
            answer(&returns);
            assert!(!woken());
        });
        assert!(woken() && taken(&returns) == 3);
        answer(&returns);
        assert!(woken());
    }

    #[test]
    fn a_panic_wakes_them_too() {
        let (returns, mut woken) = asleep();
        let panics = catch_unwind(AssertUnwindSafe(|| {
            gather(|| {
                answer(&returns);
                panic!("as planned");
            })
        }));
        assert!(panics.is_err() && woken());
        answer(&returns);
        assert!(woken(), "nobody gathers any more");
    }
}
