//! A listing while the store changes under it.

use super::tiny;
use crate::*;
use base::Prng;
use std::collections::HashMap;

const NOW: u32 = 1000;

fn put(store: &mut Store, name: u64) {
    let bytes = name.to_le_bytes();
    let key = store.key(&bytes).expect("a key");
    store.set(NOW, key, b"v", &SetHow::default()).expect("there is room");
}

fn remove(store: &mut Store, name: u64) {
    let bytes = name.to_le_bytes();
    let key = store.key(&bytes).expect("a key");
    store.delete(NOW, key, &DeleteHow::default()).expect("a store forgets what it is told to");
}

/// Lists everything, with `change` after each step, and says how often each name was seen.
fn list(store: &mut Store, mut change: impl FnMut(&mut Store)) -> HashMap<u64, u32> {
    let mut seen = HashMap::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        cursor = store.list(NOW, from, |peek| {
            let name = u64::from_le_bytes(peek.key.try_into().expect("eight bytes"));
            *seen.entry(name).or_default() += 1;
        });
        change(store);
    }
    seen
}

/// The index grows from 64 buckets to thousands, at every place of the listing.
#[test]
fn every_key_that_stays_is_listed_once_while_the_index_grows() {
    for seed in 0..10 {
        let mut store = Store::new(Config::new(Mode::Store, 32 << 20)).expect("enough");
        let mut prng = Prng::new(seed);
        let before = 100 + prng.below(3000);
        (0..before).for_each(|name| put(&mut store, name));
        let buckets = store.stats().buckets;
        let mut next = 1_000_000;
        let per_step = 20 + prng.below(40);
        let seen = list(&mut store, |store| {
            if next < 1_030_000 {
                (next..next + per_step).for_each(|name| put(store, name));
                next += per_step;
            }
            // Overwritten and, with others that nobody waits for, removed and back again.
            put(store, prng.below(before));
            let comes_and_goes = 1_000_000 + prng.below(100);
            if next > comes_and_goes {
                remove(store, comes_and_goes);
                put(store, comes_and_goes);
            }
        });
        assert!(store.stats().buckets > 4 * buckets, "it has grown: {:?}", store.stats());
        assert!((0..before).all(|name| seen.contains_key(&name)), "seed {seed}");
        assert!(seen.values().all(|&times| times == 1), "seed {seed}");
    }
}

#[test]
fn long_chains_are_listed_whole() {
    let mut store = tiny(Mode::Store);
    (0..5000).for_each(|name| put(&mut store, name));
    let seen = list(&mut store, |_| {});
    assert!(seen.len() == 5000 && seen.values().all(|&times| times == 1));
}
