//! Resources that serve in order of arrival, and tokens.
//!
//! **Why there is no queue in memory.** A resource of `servers` equal servers that takes requests in order of arrival (FIFO, no priorities)
//! is wholly described by when each server is free: a request that arrives now starts at the earliest of them and its end is known at
//! once. Requests arrive in the order of virtual time, so this is exact, for any distribution of service, and it costs one event per use
//! where a queue would cost two.

use super::{OpSlot, Service};
use crate::random::exponential;
use base::{Picos, Prng};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

impl Usage {
    /// As it would be of a span so many times as long.
    #[must_use]
    pub(crate) fn times(self, times: u64) -> Usage {
        Usage {
            uses: self.uses * times,
            units: self.units * times,
            busy: Picos(self.busy.0 * times),
            waited: Picos(self.waited.0 * times),
        }
    }
}

/// What a resource did since it was last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Uses begun.
    pub uses: u64,
    /// Units that the uses stated: bytes, packets, operations.
    pub units: u64,
    /// Time that servers worked, all together.
    pub busy: Picos,
    /// Time that uses waited before they began, all together.
    pub waited: Picos,
}

#[derive(Debug)]
pub(super) struct Resource {
    pub(super) name: Box<str>,
    /// When each server is free, the earliest on top.
    free_at: BinaryHeap<Reverse<u64>>,
    prng: Prng,
    usage: Usage,
    /// Work that was begun before the last reset and ends after it.
    carried: u64,
}

impl Resource {
    pub(super) fn new(name: &str, servers: usize, prng: Prng) -> Resource {
        assert!(servers > 0, "{name} needs a server");
        let free_at = vec![Reverse(0); servers].into();
        Resource { name: name.into(), free_at, prng, usage: Usage::default(), carried: 0 }
    }

    pub(super) fn servers(&self) -> usize {
        self.free_at.len()
    }

    /// Takes a server for a use that arrives at `now`; when it ends.
    pub(super) fn serve(&mut self, now: Picos, service: Service, units: u64) -> Picos {
        let span = match service {
            Service::Fixed(span) => span,
            Service::Exponential(mean) => exponential(&mut self.prng, mean),
        };
        let mut earliest = self.free_at.peek_mut().expect("there is a server");
        let start = now.0.max(earliest.0);
        let end = start + span.0;
        earliest.0 = end;
        drop(earliest);
        self.usage.uses += 1;
        self.usage.units += units;
        self.usage.busy.0 += span.0;
        self.usage.waited.0 += start - now.0;
        Picos(end)
    }

    /// When a use that arrives at `now` would begin.
    pub(super) fn begins(&self, now: Picos) -> Picos {
        Picos(self.free_at.peek().map_or(0, |earliest| earliest.0)).max(now)
    }

    /// Work of servers that lies after `now`. What was begun has no gaps in it.
    fn ahead(&self, now: Picos) -> u64 {
        self.free_at.iter().map(|free| free.0.saturating_sub(now.0)).sum()
    }

    pub(super) fn usage(&self, now: Picos) -> Usage {
        Usage { busy: Picos(self.carried + self.usage.busy.0 - self.ahead(now)), ..self.usage }
    }

    pub(super) fn reset(&mut self, now: Picos) {
        self.usage = Usage::default();
        self.carried = self.ahead(now);
    }

    /// Right after a reset: an account that is another's.
    pub(super) fn put(&mut self, usage: Usage) {
        self.usage = usage;
    }
}

/// Tokens that operations take and give: credits, places of a queue, entries of an in-flight table. Whoever finds too few waits, in order.
#[derive(Debug)]
pub(super) struct TokenPool {
    pub(super) name: Box<str>,
    pub(super) whole: u64,
    pub(super) free: u64,
    /// Of threads: since when each that is free is free, the latest last. It is the first to be taken again.
    free_since: Option<Vec<Picos>>,
    waiting: VecDeque<(OpSlot, u64)>,
}

impl TokenPool {
    pub(super) fn new(name: &str, tokens: u64) -> TokenPool {
        TokenPool {
            name: name.into(),
            whole: tokens,
            free: tokens,
            free_since: None,
            waiting: VecDeque::new(),
        }
    }

    /// Takes `count`, or enters `op` into the line of those who wait.
    pub(super) fn take(&mut self, op: OpSlot, count: u64) -> bool {
        assert!(count <= self.whole, "{} has {} tokens and never {count}", self.name, self.whole);
        if self.waiting.is_empty() && self.free >= count {
            self.remove(count);
            return true;
        }
        self.waiting.push_back((op, count));
        false
    }

    /// Its tokens are threads, all asleep so far.
    pub(super) fn be_threads(&mut self) {
        self.free_since.get_or_insert_with(|| vec![Picos::ZERO; self.free as usize]);
    }

    pub(super) fn are_threads(&self) -> bool {
        self.free_since.is_some()
    }

    /// Takes a thread, or enters `op` into the line: how long it has been free.
    pub(super) fn take_thread(&mut self, op: OpSlot, now: Picos) -> Option<Picos> {
        let since = self.free_since.as_ref().and_then(|since| since.last().copied());
        self.take(op, 1).then(|| now.since(since.expect("a thread that is free has its time")))
    }

    /// Some that are free are so no more.
    fn remove(&mut self, count: u64) {
        self.free -= count;
        if let Some(since) = &mut self.free_since {
            since.truncate(self.free as usize);
        }
    }

    pub(super) fn give(&mut self, count: u64, now: Picos) {
        if let Some(free_since) = &mut self.free_since {
            free_since.extend((0..count).map(|_| now));
        }
        self.free += count;
        assert!(self.free <= self.whole, "{} got more tokens than it has", self.name);
    }

    /// The first who waits, if there are enough for him now.
    pub(super) fn serve_next(&mut self) -> Option<OpSlot> {
        let (op, count) = *self.waiting.front()?;
        if count > self.free {
            return None;
        }
        self.remove(count);
        self.waiting.pop_front();
        Some(op)
    }
}
