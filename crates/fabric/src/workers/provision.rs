//! Buffer provisioning: which rings lead from the front to the workers (Dagger, item 24).
//!
//! | provisioning | ways to the workers | a worker finds work by | buffers, at most |
//! |---|---|---|---|
//! | per connection | a *lane* for each (connection, worker) that met | looking at each of its lanes in turn | `lanes` × way |
//! | per core | one for each worker, shared by all connections | looking at one ring | `workers` × way |
//! | single | one queue for all workers, and a way back for each | taking from the queue | queue + `workers` × way |
//!
//! A way is two rings of `ring.entries` × 128 bytes and up to `ring.boxed_bytes` in each direction; the queue is `queue_entries` ×
//! 128 bytes and up to `ring.boxed_bytes`. The ways of *per core* and *single* and the queue always exist, so the sum of all three
//! rows bounds the memory, whatever is chosen while it runs. A connection that finds no lane left uses the worker's shared way.
//!
//! Why have them all: lanes keep one connection's burst from delaying the others and cost a look each; a shared way is the cheapest; one
//! queue leaves no worker idle while a request waits, but all workers write one word, and no balancer has a say.
//!
//! Shape: a lane's life
//! ```text
//!   opened ──▶ in use ──▶ retired (its connection closed, or the provisioning changed) ──▶ answered all ──▶ closed
//!                 ▲────────────┘ needed again
//! ```
//! Invariant: a way is closed only when each of its requests was answered, so a change loses nothing. Requests submitted before
//! and after a change may overtake each other.

use super::balance::UnknownWord;
use crate::port::PortId;
use base::prng::mix64;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::str::FromStr;

/// A provisioning as registers have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provisioning {
    /// Rings for each connection and worker.
    PerConnection,
    /// Rings for each worker.
    PerCore,
    /// One queue.
    Single,
}

impl Provisioning {
    /// All of them.
    pub const ALL: [Provisioning; 3] =
        [Provisioning::PerConnection, Provisioning::PerCore, Provisioning::Single];

    /// As registers write it.
    pub fn name(self) -> &'static str {
        match self {
            Provisioning::PerConnection => "per-connection",
            Provisioning::PerCore => "per-core",
            Provisioning::Single => "single",
        }
    }
}

impl fmt::Display for Provisioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Provisioning {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Provisioning, UnknownWord> {
        let found = Provisioning::ALL.into_iter().find(|provisioning| provisioning.name() == word);
        found.ok_or_else(|| UnknownWord(word.to_string()))
    }
}

/// What a port leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A worker's shared rings.
    Core(usize),
    /// A worker's way back for what it took from the queue.
    Queue(usize),
    /// A connection's rings to a worker.
    Lane { connection: u32, worker: usize },
}

/// A port of the front's.
pub(super) struct Used {
    pub(super) id: PortId,
    pub(super) way: Way,
    /// Requests that were not answered.
    pub(super) outstanding: u32,
    retired: bool,
}

/// Numbers given by us need no hashing against strangers.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = mix64(self.0 ^ n);
    }
}

/// The front's book of ways: by port, and lanes by connection and worker.
#[derive(Default)]
pub(super) struct Ways {
    used: Vec<Option<Used>>,
    lanes: HashMap<u64, PortId, BuildHasherDefault<Mix>>,
    /// Retired lanes that owe no answers any more.
    idle_retired: Vec<PortId>,
    /// A bug that the tests must find: a lane is closed without waiting for its answers.
    #[cfg(test)]
    pub(super) planted: bool,
}

fn lane_key(connection: u32, worker: usize) -> u64 {
    u64::from(connection) << 32 | worker as u64
}

impl Ways {
    pub(super) fn add(&mut self, id: PortId, way: Way) {
        if self.used.len() <= id.index() {
            self.used.resize_with(id.index() + 1, || None);
        }
        assert!(self.used[id.index()].is_none(), "two ways through one port");
        self.used[id.index()] = Some(Used { id, way, outstanding: 0, retired: false });
        if let Way::Lane { connection, worker } = way {
            self.lanes.insert(lane_key(connection, worker), id);
        }
    }

    /// The lane of a connection to a worker, in use again if it was retired.
    #[inline]
    pub(super) fn lane(&mut self, connection: u32, worker: usize) -> Option<PortId> {
        let id = *self.lanes.get(&lane_key(connection, worker))?;
        if let Some(used) = &mut self.used[id.index()] {
            used.retired = false;
        }
        Some(id)
    }

    /// A request went through this port.
    #[inline]
    pub(super) fn sent(&mut self, id: PortId) {
        self.of(id).outstanding += 1;
    }

    /// An answer came through this port: where from.
    #[inline]
    pub(super) fn answered(&mut self, id: PortId) -> Way {
        let used = self.of(id);
        let way = used.way;
        if !matches!(way, Way::Queue(_)) {
            assert!(used.outstanding > 0, "an answer without a request");
            used.outstanding -= 1;
            if used.retired && used.outstanding == 0 {
                self.idle_retired.push(id);
            }
        }
        way
    }

    #[inline]
    fn of(&mut self, id: PortId) -> &mut Used {
        let used = self.used.get_mut(id.index()).and_then(Option::as_mut);
        used.expect("packets come and go through ports in use")
    }

    /// Retires the lanes that `which` says, by connection.
    pub(super) fn retire(&mut self, which: impl Fn(u32) -> bool) {
        for used in self.used.iter_mut().flatten() {
            if let Way::Lane { connection, .. } = used.way
                && !used.retired
                && which(connection)
            {
                used.retired = true;
                #[cfg(test)]
                if self.planted {
                    used.outstanding = 0;
                }
                if used.outstanding == 0 {
                    self.idle_retired.push(used.id);
                }
            }
        }
    }

    /// A lane to close: retired, and everything answered.
    #[inline]
    pub(super) fn next_to_close(&mut self) -> Option<(PortId, usize)> {
        while let Some(id) = self.idle_retired.pop() {
            let used =
                self.used[id.index()].take_if(|used| used.id == id && used.retired && used.outstanding == 0);
            if let Some(Used { way: Way::Lane { connection, worker }, .. }) = used {
                self.lanes.remove(&lane_key(connection, worker));
                return Some((id, worker));
            }
        }
        None
    }

    /// Lanes that are open.
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// All ports.
    pub(super) fn ids(&self) -> impl Iterator<Item = PortId> {
        self.used.iter().flatten().map(|used| used.id)
    }
}
