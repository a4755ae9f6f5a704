//! Scenarios that a reader of memcached's protocol.txt expects, one by one; the numbers are what memcached 1.6.18 answers.

use super::tiny;
use crate::*;

const NOW: u32 = 10_000;

fn store_with(key: &[u8], value: &[u8], how: &SetHow) -> Store {
    let mut store = tiny(Mode::Cache);
    put(&mut store, key, value, how);
    store
}

fn put(store: &mut Store, key: &[u8], value: &[u8], how: &SetHow) -> SetOutcome {
    let key = store.key(key).expect("a key");
    store.set(NOW, key, value, how).expect("room")
}

/// Value, won, sent, stale.
fn lease(store: &mut Store, now: u32, key: &[u8], how: &GetHow) -> Option<(Vec<u8>, bool, bool, bool)> {
    let key = store.key(key).expect("a key");
    let how = GetHow { lease: true, ..*how };
    store.get(now, key, &how).map(|h| (h.value().to_vec(), h.won(), h.win_was_sent(), h.is_stale()))
}

fn version(store: &Store, key: &[u8]) -> u64 {
    store.peek(NOW, store.key(key).expect("a key")).expect("it is there").version
}

#[test]
fn keys_have_1_to_250_bytes() {
    let store = tiny(Mode::Cache);
    let hasher = *store.hasher();
    assert!(Key::new(b"", &hasher).is_none());
    assert!(Key::new(&[0; 250], &hasher).is_some());
    assert!(Key::new(&[0; 251], &hasher).is_none());
}

#[test]
fn a_vivified_item_has_one_winner_until_it_is_set() {
    let mut store = tiny(Mode::Cache);
    let how = GetHow { vivify: Some(NOW + 30), ..GetHow::PLAIN };
    assert_eq!(lease(&mut store, NOW, b"q", &how), Some((vec![], true, false, false)));
    assert_eq!(lease(&mut store, NOW, b"q", &how), Some((vec![], false, true, false)));
    assert_eq!(lease(&mut store, NOW, b"q", &GetHow::PLAIN), Some((vec![], false, true, false)));
    put(&mut store, b"q", b"new", &SetHow::default());
    assert_eq!(lease(&mut store, NOW, b"q", &how), Some((b"new".to_vec(), false, false, false)));
}

#[test]
fn an_ageing_item_is_recached_by_one() {
    let mut store = store_with(b"n", b"v", &SetHow { expiry: NOW + 100, ..SetHow::default() });
    let below = |t| GetHow { recache_below: Some(t), ..GetHow::PLAIN };
    assert_eq!(lease(&mut store, NOW, b"n", &below(100)), Some((b"v".to_vec(), false, false, false)));
    assert_eq!(lease(&mut store, NOW, b"n", &below(101)), Some((b"v".to_vec(), true, false, false)));
    assert_eq!(lease(&mut store, NOW, b"n", &below(101)), Some((b"v".to_vec(), false, true, false)));
}

#[test]
fn a_stale_item_is_served_and_refilled_by_one() {
    let mut store = store_with(b"a", b"9", &SetHow::default());
    let key = store.key(b"a").expect("a key");
    let before = version(&store, b"a");
    let how = DeleteHow { invalidate: true, touch: Some(NOW + 5), ..DeleteHow::default() };
    assert_eq!(store.delete(NOW, key, &how), Ok(DeleteOutcome::Kept(before + 1)));
    assert_eq!(lease(&mut store, NOW, b"a", &GetHow::PLAIN), Some((b"9".to_vec(), true, false, true)));
    assert_eq!(lease(&mut store, NOW, b"a", &GetHow::PLAIN), Some((b"9".to_vec(), false, true, true)));
    // Who read before the invalidation may store, but what it stores is stale as well, and the winner stays the winner.
    let late = SetHow { compare: Some(before), invalidate: true, ..SetHow::default() };
    assert!(matches!(put(&mut store, b"a", b"8", &late), SetOutcome::Stored { .. }));
    assert_eq!(lease(&mut store, NOW, b"a", &GetHow::PLAIN), Some((b"8".to_vec(), false, true, true)));
    assert_eq!(lease(&mut store, NOW + 5, b"a", &GetHow::PLAIN), None);
}

#[test]
fn cas_stores_once() {
    let mut store = store_with(b"c", b"1", &SetHow::default());
    let seen = version(&store, b"c");
    let cas = |v| SetHow { compare: Some(v), ..SetHow::default() };
    assert!(matches!(put(&mut store, b"c", b"2", &cas(seen)), SetOutcome::Stored { .. }));
    assert_eq!(put(&mut store, b"c", b"3", &cas(seen)), SetOutcome::Exists);
    assert_eq!(put(&mut store, b"other", b"3", &cas(seen)), SetOutcome::NotFound);
}

#[test]
fn versions_rise_across_delete_and_add_and_above_given_ones() {
    let mut store = store_with(b"v", b"1", &SetHow { version: Some(500), ..SetHow::default() });
    assert_eq!(version(&store, b"v"), 500);
    let key = store.key(b"v").expect("a key");
    assert_eq!(store.delete(NOW, key, &DeleteHow::default()), Ok(DeleteOutcome::Deleted));
    put(&mut store, b"v", b"2", &SetHow::default());
    assert_eq!(version(&store, b"v"), 501);
    // Nobody can use up the numbers for all.
    put(&mut store, b"v", b"3", &SetHow { version: Some(u64::MAX), ..SetHow::default() });
    put(&mut store, b"w", b"4", &SetHow::default());
    assert_eq!((version(&store, b"v"), version(&store, b"w")), (u64::MAX, 502));
}

#[test]
fn decr_pads_and_stops_at_zero_and_incr_wraps() {
    let mut store = store_with(b"n", b"100", &SetHow { flags: 7, ..SetHow::default() });
    let key = store.key(b"n").expect("a key");
    let mut arith = |how: ArithHow| match store.arith(NOW, key, &how) {
        Ok(ArithOutcome::Done { value, .. }) => {
            (value, lease(&mut store, NOW, b"n", &GetHow::PLAIN).expect("it is there").0)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(arith(ArithHow { decrement: true, ..ArithHow::default() }), (99, b"99 ".to_vec()));
    assert_eq!(arith(ArithHow { decrement: true, delta: 1000, ..ArithHow::default() }), (0, b"0  ".to_vec()));
    assert_eq!(arith(ArithHow { delta: u64::MAX, ..ArithHow::default() }).0, u64::MAX);
    assert_eq!(arith(ArithHow { delta: 2, ..ArithHow::default() }), (1, b"1                   ".to_vec()));
    assert_eq!(store.peek(NOW, key).expect("it is there").flags, 7);
}

#[test]
fn a_tombstone_has_no_value_and_no_flags() {
    let mut store = store_with(b"t", b"value", &SetHow { flags: 7, ..SetHow::default() });
    let key = store.key(b"t").expect("a key");
    let how =
        DeleteHow { remove_value: true, invalidate: true, touch: Some(NOW + 9), ..DeleteHow::default() };
    assert!(matches!(store.delete(NOW, key, &how), Ok(DeleteOutcome::Kept(_))));
    let peek = store.peek(NOW, key).expect("it is there");
    assert_eq!((peek.value, peek.flags, peek.expiry, peek.stale), (&b""[..], 0, NOW + 9, true));
}

#[test]
fn a_delayed_flush_kills_what_was_stored_before_it_is_due() {
    let mut store = store_with(b"early", b"1", &SetHow::default());
    store.flush_all(NOW, NOW + 10);
    let key = |name: &'static [u8]| Key::with_hash(name, store_hash(name));
    fn store_hash(name: &[u8]) -> u64 {
        tiny(Mode::Cache).key(name).expect("a key").hash()
    }
    store.set(NOW + 9, key(b"late"), b"2", &SetHow::default()).expect("room");
    assert!(store.peek(NOW + 9, key(b"early")).is_some());
    assert!(store.peek(NOW + 10, key(b"early")).is_none(), "also for who only looks");
    store.set(NOW + 10, key(b"after"), b"3", &SetHow::default()).expect("room");
    assert!(store.get(NOW + 10, key(b"early"), &GetHow::PLAIN).is_none());
    assert!(store.get(NOW + 10, key(b"late"), &GetHow::PLAIN).is_none());
    assert!(store.get(NOW + 10, key(b"after"), &GetHow::PLAIN).is_some());
    store.check();
}

#[cfg(not(miri))]
#[test]
fn flushes_beyond_the_epochs_resurrect_nothing() {
    let mut store = store_with(b"k", b"1", &SetHow::default());
    let key = store.key(b"k").expect("a key");
    for _ in 0..=u16::MAX {
        store.flush_all(NOW, NOW);
        assert!(store.peek(NOW, key).is_none());
    }
    store.check();
}

/// Whatever a full store holds when it is flushed, from inline values to large ones: the next write has room.
#[cfg(not(miri))]
#[test]
fn a_full_store_that_is_flushed_has_room_at_once() {
    for seed in 0..60 {
        let mut store = tiny(Mode::Store);
        let mut random = base::Prng::new(seed);
        let (mut refused, longest) = (0, 256 << random.below(7));
        while refused < 20 {
            let (key, len) = (random.below(40_000).to_le_bytes(), random.below(longest) as usize);
            let key = store.key(&key).expect("a key");
            refused += u32::from(store.set(NOW, key, &vec![b'x'; len], &SetHow::default()).is_err());
            if random.chance(0.2) {
                let any = random.below(40_000).to_le_bytes();
                let key = store.key(&any).expect("a key");
                store.delete(NOW, key, &DeleteHow::default()).expect("a plain delete needs no room");
            }
        }
        store.flush_all(NOW, NOW);
        for len in [longest as usize, 1, 5000] {
            let name = len.to_le_bytes();
            let key = store.key(&name).expect("a key");
            let stored = store.set(NOW, key, &vec![b'y'; len], &SetHow::default());
            assert!(stored.is_ok(), "seed {seed}: {len} bytes into an empty store: {stored:?}");
        }
        store.check();
    }
}

#[test]
fn touch_moves_the_end_and_not_the_version() {
    let mut store = store_with(b"k", b"1", &SetHow { expiry: NOW + 1, ..SetHow::default() });
    let (key, before) = (store.key(b"k").expect("a key"), version(&store, b"k"));
    assert!(store.touch(NOW, key, NOW + 50));
    assert_eq!(store.get(NOW + 49, key, &GetHow::PLAIN).map(|h| h.version()), Some(before));
    assert!(!store.touch(NOW + 50, key, 0));
}
