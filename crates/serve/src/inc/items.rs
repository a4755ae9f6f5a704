//! Items of a home in a [`Store`], as the coherence machine sees them: what a home of its own process has ([`StoreItems`]), and what the one of a node goes
//! by, whose store memcached's commands work on, too (`kv::service`).
//!
//! **Time.** The store counts seconds of the wall clock, the home nanoseconds of the process's. What the home sets lives to the end of its
//! second; what the store has ends, for the home, when that second begins to be over: so a copy ends before its original. The clock that the store is
//! told may be up to 50 ms behind, which only makes originals live longer. Where the wall clock jumps ahead, originals go before their copies, as if they had
//! been evicted: the home says so only when no box has a copy.
//!
//! **Kinds.** Numbers are what is one; stale and claimed items are those that `mg` and `md` say are.
//!
//! **Numbers.** Memcached pads a number that becomes shorter with blanks. The home of a node does not see them ([`unpad`]): its clients can count on. No
//! number is longer than 20 digits: what is has its blanks from somebody else. A home of its own has no blanks but what a proxy stored.

use base::{Bytes, Clock, Nanos};
use protocol::coherence::compute::{self, Item};
use protocol::coherence::home::items::Items;
use protocol::wire::{Kind, Version};
use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};
use store::{Config, ConfigError, DeleteHow, GetHow, Key, Mode, SetHow, Store};

const SECOND: u64 = 1_000_000_000;
/// Bytes of the longest number.
const DIGITS: usize = 20;
/// How often the wall clock is looked at.
pub const WALL_CLOCK: Nanos = Nanos::from_millis(50);

/// How the seconds of a store go with the clock of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seconds {
    /// What it is, since 1970.
    pub now: u32,
    /// When the process's clock began, in nanoseconds since 1970.
    pub clock_began: u64,
}

impl Seconds {
    /// The second at whose beginning what ends at `end` is gone; 0 is never.
    fn expiry_of(self, end: Nanos) -> u32 {
        if end == Nanos::MAX {
            return 0;
        }
        let seconds = end.0.saturating_add(self.clock_began).div_ceil(SECOND);
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }

    /// When an item with this expiry ends.
    fn end_of(self, expiry: u32) -> Nanos {
        match expiry {
            0 => Nanos::MAX,
            _ => Nanos((u64::from(expiry) * SECOND).saturating_sub(self.clock_began)),
        }
    }
}

/// The item of a key, and that it was asked for.
pub fn read(store: &mut Store, at: Seconds, key: Key<'_>) -> Option<Item> {
    let (stale, claimed) = store.peek(at.now, key).map(|item| (item.stale, item.win_sent))?;
    let hit = store.get(at.now, key, &GetHow::PLAIN)?;
    let value = hit.value().to_vec();
    let (flags, version, expiry) = (hit.flags(), Version(hit.version()), hit.expiry());
    let kind = kind_of(&value, stale, claimed);
    Some(Item { value, flags, kind, version, end: at.end_of(expiry) })
}

/// Stores an item; false where there is no room.
pub fn put(store: &mut Store, at: Seconds, key: Key<'_>, item: &Item) -> bool {
    let how = SetHow {
        flags: item.flags,
        expiry: at.expiry_of(item.end),
        version: Some(item.version.0),
        ..SetHow::default()
    };
    if store.set(at.now, key, &item.value, &how).is_err() {
        return false;
    }
    match item.kind {
        Kind::Stale => drop(store.mark(at.now, key, true, false)),
        Kind::Claimed => drop(store.mark(at.now, key, false, true)),
        Kind::StaleClaimed => drop(store.mark(at.now, key, true, true)),
        _ => {}
    }
    true
}

/// An item as a home sees it whose memcached clients pad numbers.
pub fn unpad(mut item: Item) -> Item {
    let len = unpadded(&item.value).len();
    if len < item.value.len() {
        item.value.truncate(len);
        if item.kind == Kind::Bytes {
            item.kind = kind_of(&item.value, false, false);
        }
    }
    item
}

/// A number without the blanks that memcached pads it with.
pub fn unpadded(value: &[u8]) -> &[u8] {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = value.split_at(digits);
    let is_padded = digits > 0
        && value.len() <= DIGITS
        && rest.iter().all(|byte| *byte == b' ')
        && compute::number(number).is_some();
    if is_padded { number } else { value }
}

fn kind_of(value: &[u8], stale: bool, claimed: bool) -> Kind {
    match (stale, claimed) {
        (true, true) => Kind::StaleClaimed,
        (true, false) => Kind::Stale,
        (false, true) => Kind::Claimed,
        (false, false) => {
            let is_plain = value == b"0" || value.first() != Some(&b'0');
            if is_plain && compute::number(value).is_some() { Kind::Number } else { Kind::Bytes }
        }
    }
}

/// A seed for the hash of keys. Strangers choose them: with a fixed one they could aim all at one bucket. Random bits from the system, or from address and time
/// where it has none to give.
pub fn random_seed() -> u64 {
    RandomState::new().hash_one(SystemTime::now())
}

/// The items of a home of its own process: a cache of so many bytes, that forgets what was not asked for lately.
pub struct StoreItems {
    store: Store,
    at: Seconds,
    /// The process's clock when the wall clock was looked at.
    read_at: Nanos,
}

impl StoreItems {
    /// For so many bytes, index and all.
    ///
    /// # Errors
    /// Says what to change, or that the system has no room.
    pub fn new(memory: Bytes) -> Result<StoreItems, ConfigError> {
        let mut config = Config::new(Mode::Cache, memory.as_usize());
        config.hash_seed = random_seed();
        let mut items =
            StoreItems { store: Store::new(config)?, at: Seconds::default(), read_at: Nanos::ZERO };
        items.read_wall_clock(Clock::shared().now());
        Ok(items)
    }

    fn read_wall_clock(&mut self, now: Nanos) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let clock_began = Nanos::from(since).0.saturating_sub(now.0);
        self.at = Seconds { now: u32::try_from(since.as_secs()).unwrap_or(u32::MAX), clock_began };
        self.read_at = now;
    }

    fn tick(&mut self, now: Nanos) {
        if now.since(self.read_at) >= WALL_CLOCK {
            self.read_wall_clock(now);
        }
    }
}

impl Items for StoreItems {
    fn read(&mut self, key: &[u8], now: Nanos) -> Option<Item> {
        self.tick(now);
        let key = self.store.key(key)?;
        read(&mut self.store, self.at, key)
    }

    fn has(&mut self, key: &[u8], now: Nanos) -> bool {
        self.tick(now);
        self.store.key(key).is_some_and(|key| self.store.peek(self.at.now, key).is_some())
    }

    fn store(&mut self, key: &[u8], item: Item) -> bool {
        self.store.key(key).is_some_and(|key| put(&mut self.store, self.at, key, &item))
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(key) = self.store.key(key) {
            // A plain delete finds room for itself.
            let _ = self.store.delete(self.at.now, key, &DeleteHow::default());
        }
    }

    fn clear(&mut self) {
        self.store.clear();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let stats = self.store.stats();
        vec![("evicted", stats.evicted), ("items", stats.items as u64)]
    }

    fn begin_versions(&mut self, last: Version) {
        self.store.begin_versions(last.0);
    }

    fn take_versions(&mut self, count: u64) -> Version {
        Version(self.store.take_versions(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn numbers_are_seen_without_blanks() {
        for (value, seen) in [("9 ", "9"), ("9", "9"), ("9 a", "9 a"), (" ", " "), ("", ""), ("a ", "a ")] {
            assert_eq!(unpadded(value.as_bytes()), seen.as_bytes(), "{value:?}");
        }
        let long = [b"9".to_vec(), vec![b' '; DIGITS]].concat();
        assert_eq!(unpadded(&long), long);
        assert_eq!(unpadded(&long[..DIGITS]), b"9");
        assert_eq!(kind_of(b"10", false, false), Kind::Number);
        assert_eq!(kind_of(b"010", false, false), Kind::Bytes);
        assert_eq!(kind_of(b"0", false, false), Kind::Number);
        assert_eq!(kind_of(b"10", true, false), Kind::Stale);
        let item = |value: &[u8], kind| Item {
            value: value.to_vec(),
            flags: 0,
            kind,
            version: Version(1),
            end: Nanos::MAX,
        };
        assert_eq!(unpad(item(b"9 ", Kind::Bytes)), item(b"9", Kind::Number));
        assert_eq!(unpad(item(b"9 ", Kind::Stale)), item(b"9", Kind::Stale));
        assert_eq!(unpad(item(b"a ", Kind::Bytes)), item(b"a ", Kind::Bytes));
    }

    #[test]
    fn what_ends_within_a_second_lives_to_its_end_and_copies_end_before() {
        let at = Seconds { now: 7, clock_began: 5 * SECOND + 1 };
        let end = Nanos(2 * SECOND + SECOND / 2);
        assert_eq!(at.expiry_of(end), 8, "2.5 s after 5.000000001 s");
        assert!(at.end_of(8) >= end && at.end_of(8) < end.plus(Nanos(SECOND)));
        assert_eq!((at.expiry_of(Nanos::MAX), at.end_of(0)), (0, Nanos::MAX));
    }

    #[test]
    fn more_than_there_is_room_for_is_refused_and_less_makes_room() {
        let mut items = StoreItems::new(Bytes(1 << 20)).expect("a small store");
        let now = Clock::shared().now();
        let item = |len, version| Item {
            value: vec![b'v'; len],
            flags: 0,
            kind: Kind::Bytes,
            version: Version(version),
            end: Nanos::MAX,
        };
        assert!(!items.store(b"k", item(2 << 20, 1)));
        for version in 1..=4_000u64 {
            assert!(items.store(&version.to_be_bytes(), item(1 << 10, version)), "{version}");
        }
        assert!(items.read(&4_000u64.to_be_bytes(), now).is_some(), "the last is there");
        let counted: BTreeMap<_, _> = items.counters().into_iter().collect();
        assert!(counted["evicted"] > 2_000 && counted["items"] < 1_100, "{counted:?}");
        items.clear();
        assert!(!items.has(&4_000u64.to_be_bytes(), now));
    }

    proptest! {
        /// Whatever is there is what was stored last.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u8..3, 0u8..12, 0usize..300), 1..200)) {
            let mut items = StoreItems::new(Bytes(1 << 20)).expect("a small store");
            let now = Clock::shared().now();
            let mut model = BTreeMap::new();
            for (version, (what, key, len)) in steps.into_iter().enumerate() {
                let key = [key];
                match what {
                    0 => {
                        let (value, version) = (vec![b'v'; len], Version(1 + version as u64));
                        let item = Item { value, flags: 7, kind: Kind::Bytes, version, end: Nanos::MAX };
                        prop_assert!(items.store(&key, item.clone()));
                        model.insert(key, item);
                    }
                    1 => {
                        items.remove(&key);
                        model.remove(&key);
                    }
                    _ => {
                        let found = items.read(&key, now);
                        prop_assert_eq!(found.as_ref(), model.get(&key));
                    }
                }
            }
        }
    }
}
