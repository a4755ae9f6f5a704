//! A recording of requests: when each came, what it was, its sizes, where it was answered and how long that took. For whoever wants to know later what a
//! load was: `millrace plan --trace`.
//!
//! ```text
//!  edge, call, request: Keys::has, Recording::one_of ─▶ Recording::add ─▶ queue ─▶ Recording::take: a thread that writes
//! ```
//! Of requests with a key all are recorded whose key's hash is in a part of all hashes ([`Keys`]), one of N: then a key is in the recording with each of its
//! requests or not at all, and how much more one key is asked for than another is as it was. Of a sample of requests that would be lost: keys that are
//! asked for now and then would seem to be there once or not at all, and keys that are asked for often be all that is left. Of requests without a key one of N
//! is recorded. Since a key that is asked for very often may be in the part or not, all requests are counted as well ([`Recording::saw`]).
//!
//! Bounds: [`QUEUE_MAX`] requests that are not taken yet; one beyond is dropped, and counted. Nobody waits for whoever takes them.
//!
//! Cost: of what is not recorded a comparison a request, and a load a turn; of what is, a lock that is held for a push.

use crate::Nanos;
use crate::trace::Place;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Requests that wait to be written.
pub const QUEUE_MAX: usize = 64 << 10;

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose it was.
    pub service: Arc<str>,
    /// `get`, `/shop.Cart/Add`.
    pub method: Cow<'static, str>,
    /// The hash of its key, if it has one. The hash's own key is the process's.
    pub key: Option<u64>,
    /// When it came, by the clock of the process.
    pub at: Nanos,
    /// Bytes of it.
    pub request: u64,
    /// Bytes of the reply.
    pub reply: u64,
    /// Where it was answered.
    pub place: Place,
    /// From when it came until its reply was written.
    pub took: Nanos,
}

/// Which keys are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Hashes from 1 to here are.
    last: u64,
}

impl Keys {
    /// One of `n`; with 0 none.
    pub fn one_of(n: u32) -> Keys {
        Keys { last: u64::MAX.checked_div(u64::from(n)).unwrap_or(0) }
    }

    /// Whether requests for the key with this hash are recorded; 0 is the hash of what has no key.
    #[inline(always)]
    pub fn has(self, hash: u64) -> bool {
        hash.wrapping_sub(1) < self.last
    }

    /// Whether there are any.
    pub fn is_none(self) -> bool {
        self.last == 0
    }
}

/// Where requests are recorded, as one service of a process sees it. Clones, and those of other services ([`Recording::of`]), are the same recording.
#[derive(Clone, Debug)]
pub struct Recording {
    shared: Arc<Shared>,
    own: Arc<Own>,
}

#[derive(Debug, Default)]
struct Shared {
    one_of: AtomicU32,
    dropped: AtomicU64,
    queue: Mutex<Vec<Request>>,
    services: Mutex<Vec<Arc<Own>>>,
}

#[derive(Debug)]
struct Own {
    service: Arc<str>,
    seen: AtomicU64,
}

/// What there was beside requests that are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that came while it was on, recorded or not, by service.
    pub seen: Vec<(Arc<str>, u64)>,
    /// Requests for which the queue had no room.
    pub dropped: u64,
}

impl Default for Recording {
    fn default() -> Recording {
        Recording {
            shared: Arc::default(),
            own: Arc::new(Own { service: "".into(), seen: AtomicU64::new(0) }),
        }
    }
}

impl Recording {
    /// The same recording, for the requests of this service.
    #[must_use]
    pub fn of(&self, service: &str) -> Recording {
        let own = Arc::new(Own { service: service.into(), seen: AtomicU64::new(0) });
        lock(&self.shared.services).push(Arc::clone(&own));
        Recording { shared: Arc::clone(&self.shared), own }
    }

    /// From now on one key of `n` is recorded, and of what has no key one request; with 0 none.
    pub fn set(&self, n: u32) {
        self.shared.one_of.store(n, Ordering::Relaxed);
    }

    /// One of so many; 0: none.
    #[inline]
    pub fn one_of(&self) -> u32 {
        self.shared.one_of.load(Ordering::Relaxed)
    }

    /// So many requests came, recorded or not.
    #[inline]
    pub fn saw(&self, requests: u64) {
        self.own.seen.fetch_add(requests, Ordering::Relaxed);
    }

    /// Whose requests it records.
    pub fn service(&self) -> &Arc<str> {
        &self.own.service
    }

    /// Keeps a request, if there is room.
    pub fn add(&self, request: Request) {
        if self.one_of() == 0 {
            return;
        }
        let mut queue = lock(&self.shared.queue);
        if queue.len() < QUEUE_MAX {
            queue.push(request);
        } else {
            drop(queue);
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes what is kept, instead of what is in `into`, whose room is used again.
    pub fn take(&self, into: &mut Vec<Request>) -> Counts {
        into.clear();
        std::mem::swap(&mut *lock(&self.shared.queue), into);
        let services = lock(&self.shared.services);
        let seen = services.iter().map(|own| (Arc::clone(&own.service), own.seen.load(Ordering::Relaxed)));
        Counts {
            seen: seen.filter(|(_, seen)| *seen > 0).collect(),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
        }
    }
}

/// What is behind these locks is sound after a panic too: each is held for a push or a swap.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hasher64;

    fn request(key: u64) -> Request {
        Request {
            service: "cache".into(),
            method: "get".into(),
            key: Some(key),
            at: Nanos(1),
            request: 10,
            reply: 20,
            place: Place::Edge,
            took: Nanos(5),
        }
    }

    #[test]
    fn one_key_of_n_is_recorded_and_nothing_without_a_key() {
        let hasher = Hasher64::new(7);
        for n in [1u32, 4, 64] {
            let keys = Keys::one_of(n);
            let hit = (0..64_000u32).filter(|key| keys.has(hasher.hash(&key.to_le_bytes()))).count();
            let wanted = 64_000 / n as usize;
            assert!(hit.abs_diff(wanted) * 10 <= wanted, "{hit} of {wanted}");
            assert!(!keys.has(0));
        }
        assert!(Keys::one_of(0).is_none() && (0..1000).all(|hash| !Keys::default().has(hash)));
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_counted() {
        let all = Recording::default();
        let recording = all.of("cache");
        recording.add(request(1));
        let mut taken = Vec::new();
        assert_eq!((all.take(&mut taken), taken.len()), (Counts::default(), 0), "it is off");
        all.set(2);
        recording.saw(70_000);
        (0..QUEUE_MAX as u64 + 3).for_each(|key| recording.add(request(key)));
        let counts = all.take(&mut taken);
        assert_eq!((taken.len(), counts.dropped), (QUEUE_MAX, 3));
        assert_eq!(counts.seen, [("cache".into(), 70_000)]);
        recording.add(request(9));
        all.take(&mut taken);
        assert_eq!(taken, [request(9)]);
    }
}
