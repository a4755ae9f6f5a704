//! What a task waits for with [`Cx::durable`](crate::Cx::durable): a log that says how far it is durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A log whose entries are numbered from 0 and become durable in that order. The engine asks once per pass.
pub trait Log: Send {
    /// Entries that are durable: all below this number. It only grows.
    ///
    /// Whoever makes it grow from another thread wakes the engine's thread afterwards.
    fn durable(&self) -> u64;
}

/// A log without entries in memory that is as durable as it is told: for tests, and for services that keep nothing.
#[derive(Clone, Debug, Default)]
pub struct MemoryLog {
    /// Appended, and durable.
    state: Arc<(AtomicU64, AtomicU64)>,
}

impl MemoryLog {
    /// Appends an entry; its number.
    pub fn append(&self) -> u64 {
        self.state.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Entries appended.
    pub fn appended(&self) -> u64 {
        self.state.0.load(Ordering::Relaxed)
    }

    /// Makes at most `n` more entries durable.
    pub fn sync(&self, n: u64) {
        let durable = self.state.1.load(Ordering::Relaxed);
        self.state.1.store(durable.saturating_add(n).min(self.appended()), Ordering::Release);
    }
}

impl Log for MemoryLog {
    fn durable(&self) -> u64 {
        self.state.1.load(Ordering::Acquire)
    }
}
