//! A thread that copies.
//!
//! ```text
//! submit ──ring of jobs──▶ worker: copy, count
//!    ▲                        │
//!    └──── copies done ◀──────┘   one counter; copies are done in the order in which they were submitted
//! ```
//!
//! Ordering: **done**: the worker adds to the counter with Release after each copy; whoever waits loads it with Acquire and
//! sees the bytes. The ring's own pair orders a job's source bytes before the copy.
//! Bounds: as many copies wait as the ring has slots; one more is made by the caller, inline.
//! Cost: `docs/measurements/codec.md`; a wake-up when the worker sleeps, so small copies are not worth it.

use super::{CopyEngine, Ticket};
use ring::spsc::{Consume, Hybrid, Kind, Produce};
use ring::wait::{Sleeper, WaitPolicy, Waker, waiting};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

struct Job {
    from: *const u8,
    to: *mut u8,
    len: usize,
}

// SAFETY: submit's caller gave the bytes to the engine, on whatever thread it copies.
unsafe impl Send for Job {}

type Jobs = <Hybrid as Kind>::Producer<Job>;

/// A copy engine that is a thread.
pub struct Worker {
    /// None once it is being dropped.
    jobs: Option<Jobs>,
    waker: Waker,
    done: Arc<AtomicU64>,
    submitted: u64,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread; `capacity` copies (a power of two) may wait, and without any it waits as `policy` says.
    ///
    /// # Errors
    /// The system's, when there can be no more threads.
    pub fn spawn(capacity: u32, policy: WaitPolicy) -> io::Result<Worker> {
        let (jobs, waiting_jobs) = Hybrid::heap(capacity);
        let (sleeper, waker) = waiting();
        let done = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&done);
        let thread = std::thread::Builder::new()
            .name("copies".into())
            .spawn(move || copy_until_abandoned(waiting_jobs, sleeper, policy, &counter))?;
        Ok(Worker { jobs: Some(jobs), waker, done, submitted: 0, thread: Some(thread) })
    }

    fn jobs(&mut self) -> &mut Jobs {
        self.jobs.as_mut().expect("a worker has its ring until it is dropped")
    }
}

fn copy_until_abandoned(
    mut jobs: impl Consume<Job>,
    mut sleeper: Sleeper,
    policy: WaitPolicy,
    done: &AtomicU64,
) {
    loop {
        if let Some(Job { from, to, len }) = jobs.try_pop() {
            // SAFETY: submit's promise; the ticket is not complete yet.
            unsafe { to.copy_from_nonoverlapping(from, len) };
            done.fetch_add(1, Ordering::Release); // label: done
        } else if jobs.is_abandoned() && !jobs.is_ready() {
            return;
        } else {
            sleeper.wait_until(policy, None, || jobs.is_ready() || jobs.is_abandoned());
        }
    }
}

impl CopyEngine for Worker {
    unsafe fn submit(&mut self, from: *const u8, to: *mut u8, len: usize) -> Ticket {
        match self.jobs().try_push(Job { from, to, len }) {
            Ok(()) => {
                self.jobs().publish();
                self.waker.wake();
                self.submitted += 1;
                Ticket(self.submitted)
            }
            Err(_full) => {
                // SAFETY: the caller's promise.
                unsafe { to.copy_from_nonoverlapping(from, len) };
                Ticket(0)
            }
        }
    }

    fn is_complete(&mut self, ticket: Ticket) -> bool {
        self.done.load(Ordering::Acquire) >= ticket.0 // label: done
    }

    fn drain(&mut self) {
        let last = Ticket(self.submitted);
        for looks in 0_u64.. {
            if self.is_complete(last) {
                return;
            }
            if looks < 64 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
            assert!(
                !self.jobs().is_abandoned(),
                "the thread that copies is gone, with bytes that it was given"
            );
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.drain();
        self.jobs = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It panics for no reason of its own; drain said so if it did.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let done = self.done.load(Ordering::Relaxed);
        write!(f, "Worker({done} of {} copies done)", self.submitted)
    }
}
