//! How long work took: processor time of its thread, so that what other threads take of its core does not count.
//!
//! Cost: a system call each, so count once for many requests where there are many.

use super::counters::add;
use base::Nanos;
use base::cpu::thread_time;
use std::sync::atomic::AtomicU64;

/// See the head of the file. Of the thread that made it.
pub struct Busy {
    counted: Nanos,
}

impl Busy {
    /// Work begins.
    pub fn start() -> Busy {
        Busy { counted: thread_time() }
    }

    /// Work since it began, or since it was counted, is added to `counter`, and is what it gives.
    pub fn count(&mut self, counter: &AtomicU64) -> Nanos {
        let now = thread_time();
        let spent = now.since(self.counted);
        add(counter, spent.0);
        self.counted = now;
        spent
    }
}
