//! memcached's `watch`: clients that are shown, line by line, what a server does: items looked up, stored and evicted, connections that come and go.
//!
//! ```text
//!  engine, edges ─▶ say: a line for each watcher of the stream ─▶ its queue ─▶ its edge, woken where the queue was empty ─▶ its socket
//! ```
//! A watcher that does not read has its queue fill up: lines are left out then, and the next that finds room says how many (`skipped=N`).
//!
//! Cost: while nobody watches one relaxed load in a turn of an edge, and where a connection comes or goes. While somebody watches items every command takes
//! the way of those that are counted ([`super::service::prefixes`]), and a lock for each line.
//!
//! Bounds: [`WATCHERS_MAX`] watchers, for each a queue of [`BUFFER_BYTES`] unless `-o watcher_logbuf_size` says otherwise.

use crate::kv::clocks::Clocks;
use crate::memcached::accept::Inbox;
use protocol::memcache::watch::Streams;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Watchers of a server at once, as in memcached.
pub const WATCHERS_MAX: usize = 20;
/// Bytes of lines that wait for a watcher, as in memcached.
pub const BUFFER_BYTES: usize = 256 << 10;

/// How a server may be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchPlan {
    /// Whether it may be.
    pub is_allowed: bool,
    /// Bytes of lines that wait for a watcher.
    pub buffer_bytes: usize,
}

impl Default for WatchPlan {
    fn default() -> WatchPlan {
        WatchPlan { is_allowed: true, buffer_bytes: BUFFER_BYTES }
    }
}

/// Those of a server. Clones are of the same.
#[derive(Clone, Debug)]
pub struct Watchers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    plan: WatchPlan,
    /// What anybody watches, as [`Streams::bits`].
    streams: AtomicU8,
    counts: Counts,
    clocks: Clocks,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
}

/// What `stats` shows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Lines that came up.
    pub written: u64,
    /// Lines for watchers, each for itself.
    pub sent: u64,
    /// Lines left out, since a watcher did not read.
    pub skipped: u64,
    /// Watchers.
    pub watchers: u64,
}

#[derive(Debug, Default)]
struct Log {
    /// Of the last line.
    number: u64,
    next_watcher: u64,
    watchers: Vec<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    number: u64,
    streams: Streams,
    lines: Vec<u8>,
    skipped: u64,
    inbox: Arc<Inbox>,
}

impl Default for Watchers {
    fn default() -> Watchers {
        Watchers::new(WatchPlan::default())
    }
}

impl Watchers {
    /// Nobody yet.
    pub fn new(plan: WatchPlan) -> Watchers {
        let (streams, counts, log) = (AtomicU8::new(0), Counts::default(), Mutex::default());
        Watchers(Arc::new(Shared { plan, streams, counts, clocks: Clocks::system(), log }))
    }

    /// Those of another server, that may be watched as this one may.
    #[must_use]
    pub fn apart(&self) -> Watchers {
        Watchers::new(self.0.plan)
    }

    /// The same, not to be watched.
    #[must_use]
    pub fn refusing(&self) -> Watchers {
        Watchers::new(WatchPlan { is_allowed: false, ..self.0.plan })
    }

    /// How it may be watched.
    pub fn plan(&self) -> WatchPlan {
        self.0.plan
    }

    /// What anybody watches.
    #[inline]
    pub fn streams(&self) -> Streams {
        Streams::from_bits(self.0.streams.load(Ordering::Relaxed))
    }

    /// Another one, whose edge looks into `inbox`; none if there are as many as may be.
    pub fn enter(&self, streams: Streams, inbox: &Arc<Inbox>) -> Option<Subscription> {
        let mut log = self.0.lock();
        if log.watchers.len() == WATCHERS_MAX {
            return None;
        }
        log.next_watcher += 1;
        let (number, inbox) = (log.next_watcher, Arc::clone(inbox));
        log.watchers.push(Watcher { number, streams, lines: Vec::new(), skipped: 0, inbox });
        self.0.publish(&log);
        Some(Subscription { number, of: self.clone() })
    }

    /// A line in `stream`, which `write` ends without a line end.
    #[cold]
    pub fn say(&self, stream: Streams, write: impl FnOnce(&mut String)) {
        let Shared { counts, clocks, plan, .. } = &*self.0;
        let at = clocks.since_1970();
        let mut log = self.0.lock();
        if !log.watchers.iter().any(|watcher| watcher.streams.has_any(stream)) {
            return;
        }
        log.number += 1;
        counts.written.fetch_add(1, Ordering::Relaxed);
        // memcached's microseconds have no zeros before them.
        let mut line = format!("ts={}.{} gid={} ", at.as_secs(), at.subsec_micros(), log.number);
        write(&mut line);
        line.push('\n');
        for watcher in log.watchers.iter_mut().filter(|watcher| watcher.streams.has_any(stream)) {
            let was_sent = watcher.hear(&line, plan.buffer_bytes);
            let count = if was_sent { &counts.sent } else { &counts.skipped };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many lines in `stream` could not be told.
    pub fn leave_out(&self, stream: Streams, count: u64) {
        let mut log = self.0.lock();
        for watcher in log.watchers.iter_mut().filter(|watcher| watcher.streams.has_any(stream)) {
            watcher.skipped += count;
            self.0.counts.skipped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// What it counted.
    pub fn counts(&self) -> WatchCounts {
        let Counts { written, sent, skipped } = &self.0.counts;
        let [written, sent, skipped] = [written, sent, skipped].map(|count| count.load(Ordering::Relaxed));
        WatchCounts { written, sent, skipped, watchers: self.0.lock().watchers.len() as u64 }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, log: &Log) {
        let all = log.watchers.iter().fold(Streams::default(), |all, watcher| all.and(watcher.streams));
        self.streams.store(all.bits(), Ordering::Relaxed);
    }
}

impl Watcher {
    /// Takes a line into its queue; whether there was room.
    fn hear(&mut self, line: &str, bytes: usize) -> bool {
        let mut note = String::new();
        if self.skipped > 0 {
            // Writing to a string does not fail.
            let _ = writeln!(note, "skipped={}", self.skipped);
        }
        if self.lines.len() + note.len() + line.len() > bytes {
            self.skipped += 1;
            return false;
        }
        self.skipped = 0;
        let was_empty = self.lines.is_empty();
        self.lines.extend_from_slice(note.as_bytes());
        self.lines.extend_from_slice(line.as_bytes());
        if was_empty {
            self.inbox.wake();
        }
        true
    }
}

/// A connection that watches, until this is dropped.
#[derive(Debug)]
pub struct Subscription {
    number: u64,
    of: Watchers,
}

impl Subscription {
    /// Puts the lines that wait into `lines`, which is empty.
    pub fn take(&self, lines: &mut Vec<u8>) {
        let mut log = self.of.0.lock();
        if let Some(watcher) = log.watchers.iter_mut().find(|watcher| watcher.number == self.number) {
            std::mem::swap(&mut watcher.lines, lines);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut log = self.of.0.lock();
        log.watchers.retain(|watcher| watcher.number != self.number);
        self.of.0.publish(&log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> Arc<Inbox> {
        Arc::new(Inbox::new().expect("a descriptor"))
    }

    fn taken(watching: &Subscription) -> Vec<String> {
        let mut lines = Vec::new();
        watching.take(&mut lines);
        let text = String::from_utf8(lines).expect("text");
        text.lines().map(|line| line.split_once(" gid=").map_or(line, |(_, rest)| rest).to_owned()).collect()
    }

    #[test]
    fn each_watcher_hears_its_streams_until_it_is_gone() {
        let watchers = Watchers::default();
        watchers.say(Streams::FETCHERS, |_| panic!("nobody listens"));
        let one = watchers.enter(Streams::FETCHERS, &inbox()).expect("room");
        let both = Streams::MUTATIONS.and(Streams::FETCHERS);
        let other = watchers.enter(both, &inbox()).expect("room");
        assert_eq!(watchers.streams(), both);
        watchers.say(Streams::FETCHERS, |line| line.push_str("get"));
        watchers.say(Streams::MUTATIONS, |line| line.push_str("store"));
        watchers.say(Streams::EVICTIONS, |_| panic!("nobody listens to that"));
        assert_eq!(taken(&one), ["1 get"]);
        assert_eq!(taken(&other), ["1 get", "2 store"]);
        drop(other);
        assert_eq!(watchers.streams(), Streams::FETCHERS);
        drop(one);
        assert_eq!(watchers.streams(), Streams::default());
        let counts = WatchCounts { written: 2, sent: 3, skipped: 0, watchers: 0 };
        assert_eq!(watchers.counts(), counts);
    }

    #[test]
    fn who_does_not_read_misses_lines_and_is_told_how_many() {
        let watchers = Watchers::new(WatchPlan { buffer_bytes: 100, ..WatchPlan::default() });
        let watching = watchers.enter(Streams::FETCHERS, &inbox()).expect("room");
        let line = "x".repeat(40);
        for _ in 0..5 {
            watchers.say(Streams::FETCHERS, |to| to.push_str(&line));
        }
        assert_eq!(taken(&watching), [format!("1 {line}")], "the second does not fit");
        watchers.say(Streams::FETCHERS, |to| to.push_str("short"));
        assert_eq!(taken(&watching), ["skipped=4", "6 short"]);
        watchers.leave_out(Streams::FETCHERS, 7);
        watchers.say(Streams::FETCHERS, |to| to.push_str("short"));
        assert_eq!(taken(&watching), ["skipped=7", "7 short"]);
        assert_eq!((watchers.counts().skipped, watchers.counts().sent), (11, 3));
    }

    #[test]
    fn there_are_as_many_as_in_memcached() {
        let (watchers, inbox) = (Watchers::default(), inbox());
        let mut all: Vec<Subscription> =
            (0..WATCHERS_MAX).map(|_| watchers.enter(Streams::CONNEVENTS, &inbox).expect("room")).collect();
        assert!(watchers.enter(Streams::CONNEVENTS, &inbox).is_none());
        all.pop();
        assert!(watchers.enter(Streams::CONNEVENTS, &inbox).is_some());
    }
}
