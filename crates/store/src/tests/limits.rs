//! Memory: limits that hold, stores that fill up, caches that keep what is asked for.

use super::tiny;
use crate::*;
use base::Prng;

const NOW: u32 = 1000;

fn set(store: &mut Store, name: u64, value: &[u8], expiry: u32) -> Result<SetOutcome, SetError> {
    let bytes = name.to_le_bytes();
    let key = store.key(&bytes).expect("a key");
    store.set(NOW, key, value, &SetHow { expiry, ..SetHow::default() })
}

/// Sets every name of `names`; what a full store refuses is not there afterwards.
fn fill(store: &mut Store, names: std::ops::Range<u64>, value: &[u8], expiry: u32) {
    for name in names {
        let _ = set(store, name, value, expiry);
    }
}

fn has(store: &mut Store, name: u64) -> bool {
    let bytes = name.to_le_bytes();
    let key = store.key(&bytes).expect("a key");
    store.get(NOW, key, &GetHow::PLAIN).is_some()
}

fn within_budget(store: &Store) {
    let stats = store.stats();
    assert!(stats.memory <= stats.memory_limit, "{stats:?}");
}

#[test]
fn bad_settings_say_what_to_do() {
    let with = |change: &dyn Fn(&mut Config)| {
        let mut config = Config::new(Mode::Cache, 8 << 20);
        change(&mut config);
        Store::new(config).expect_err("it is refused").to_string()
    };
    assert!(with(&|c| c.memory = 1000).contains("give at least 1.0 MiB"));
    assert!(with(&|c| c.max_value = 8 << 20).contains("need at least 32.0 MiB"));
    assert!(with(&|c| c.max_value = 1 << 30).contains("at most 128.0 MiB"));
    assert!(with(&|c| c.expected_items = 1 << 40).contains("fewer items"));
}

/// Sizes from one byte to the longest, and nothing leaks.
#[test]
fn mixed_sizes_stay_in_the_budget_and_clear_gives_all_back() {
    for (mode, memory) in [(Mode::Cache, 1 << 20), (Mode::Cache, 8 << 20), (Mode::Store, 4 << 20)] {
        let mut store = Store::new(Config::new(mode, memory)).expect("enough");
        let empty = store.stats();
        let mut prng = Prng::new(5);
        let value = vec![7; store.config().max_value];
        for number in 0..20_000 {
            let len = (1 << prng.below(value.len().ilog2() as u64 + 1)) as usize;
            let stored = set(&mut store, prng.below(4000), &value[..len], 0);
            assert!(stored.is_ok() || mode == Mode::Store, "{len} B refused: {:?}", store.stats());
            within_budget(&store);
            if number % 2000 == 0 {
                store.check();
            }
        }
        store.clear();
        store.check();
        let stats = store.stats();
        assert_eq!((stats.items, stats.item_bytes, stats.large_memory, stats.segment_memory), (0, 0, 0, 0));
        assert_eq!(stats.ghost_memory, empty.ghost_memory);
        set(&mut store, 1, b"again", 0).expect("an empty store has room");
    }
}

#[test]
fn a_store_takes_nine_tenths_and_overwrites_at_random() {
    let mut store = Store::new(Config::new(Mode::Store, 32 << 20)).expect("enough");
    let mut prng = Prng::new(11);
    let mut lens = Vec::new();
    let value = [9u8; 400];
    while store.stats().item_bytes * 100 < store.stats().live_limit * 97 {
        let len = prng.below(400) as usize;
        set(&mut store, lens.len() as u64, &value[..len], 0).expect("there is room yet");
        lens.push(len);
    }
    let stats = store.stats();
    assert!(stats.item_bytes as usize * 100 > stats.segments * stats.segment_bytes * 90, "{stats:?}");
    let (mut stored, before) = (0u64, stats.bytes_copied);
    for _ in 0..200_000 {
        let name = prng.below(lens.len() as u64);
        // Sizes change, so that most overwrites make garbage; the mean stays.
        let len = prng.below(400) as usize;
        if set(&mut store, name, &value[..len], 0).is_ok() {
            lens[name as usize] = len;
            stored += 1;
        }
    }
    assert!(stored > 190_000, "{stored} of 200000 stored");
    for (name, &len) in lens.iter().enumerate() {
        let bytes = (name as u64).to_le_bytes();
        let key = store.key(&bytes).expect("a key");
        assert_eq!(store.get(NOW, key, &GetHow::PLAIN).map(|h| h.value().len()), Some(len));
    }
    store.check();
    within_budget(&store);
    let amplification = (store.stats().bytes_copied - before) as f64 / (stored as f64 * 240.0);
    assert!(amplification < 16.0, "{amplification} bytes moved for each written");
}

#[test]
fn a_full_store_says_so_and_takes_more_after_deletes() {
    let mut store = Store::new(Config::new(Mode::Store, 2 << 20)).expect("enough");
    let mut count = 0;
    while set(&mut store, count, &[1; 100], 0).is_ok() {
        count += 1;
    }
    assert_eq!(set(&mut store, count, &[1; 100], 0), Err(SetError::OutOfMemory));
    assert!((0..count).all(|n| has(&mut store, n)), "nothing acknowledged was lost");
    assert_eq!(set(&mut store, 0, &[1; 2000], 0), Err(SetError::OutOfMemory));
    assert!(has(&mut store, 0), "a failed overwrite leaves the old value");
    for n in 0..count / 4 {
        let bytes = n.to_le_bytes();
        let key = store.key(&bytes).expect("a key");
        assert_eq!(store.delete(NOW, key, &DeleteHow::default()), Ok(DeleteOutcome::Deleted));
    }
    for n in 0..count / 5 {
        set(&mut store, count + n, &[2; 100], 0).expect("room was made");
    }
    store.check();
}

#[test]
fn a_failed_overwrite_in_a_cache_removes_the_old_value() {
    let mut store = tiny(Mode::Cache);
    set(&mut store, 1, b"old", 0).expect("room");
    let long = vec![0; store.config().max_value + 1];
    assert_eq!(set(&mut store, 1, &long, 0), Err(SetError::TooLarge));
    assert!(!has(&mut store, 1));
}

#[test]
fn a_scan_does_not_push_out_what_is_asked_for() {
    let mut store = Store::new(Config::new(Mode::Cache, 4 << 20)).expect("enough");
    let hot = 2000;
    fill(&mut store, 0..hot, &[1; 100], 0);
    for scan in 0..200_000 {
        if scan % 4 == 0 {
            has(&mut store, scan / 4 % hot);
        }
        set(&mut store, 1_000_000 + scan, &[2; 100], 0).expect("a cache takes all");
    }
    let kept = (0..hot).filter(|&n| has(&mut store, n)).count();
    assert!(kept as u64 * 100 >= hot * 99, "{kept} of {hot} kept");
    within_budget(&store);
}

#[test]
fn who_comes_back_soon_skips_probation() {
    let mut store = Store::new(Config::new(Mode::Cache, 1 << 20)).expect("enough");
    fill(&mut store, 0..12_000, &[1; 100], 0);
    let evicted = (0..12_000).rev().find(|&n| !has(&mut store, n)).expect("more than fits");
    let before = store.stats().ghost_hits;
    set(&mut store, evicted, &[1; 100], 0).expect("room");
    assert_eq!(store.stats().ghost_hits, before + 1);
}

#[test]
fn what_expires_together_comes_back_when_idle() {
    let mut store = Store::new(Config::new(Mode::Store, 8 << 20)).expect("enough");
    fill(&mut store, 0..20_000, &[1; 100], NOW + 50);
    fill(&mut store, 20_000..21_000, &[1; 100], 0);
    let copied = store.stats().bytes_copied;
    while store.maintain(NOW + 50, 64 << 10) {}
    let stats = store.stats();
    assert_eq!((stats.items, stats.expired, stats.bytes_copied), (1000, 20_000, copied));
    store.check();
}

#[test]
fn a_reader_keeps_a_large_value_and_it_counts() {
    let mut store = Store::new(Config::new(Mode::Cache, 8 << 20)).expect("enough");
    let value = vec![3; 1 << 20];
    set(&mut store, 1, &value, 0).expect("room");
    let bytes = 1u64.to_le_bytes();
    let key = store.key(&bytes).expect("a key");
    let held = store.get(NOW, key, &GetHow::PLAIN).and_then(|h| h.large()).expect("a large value");
    set(&mut store, 1, b"another", 0).expect("room");
    fill(&mut store, 2..60, &value, 0);
    assert_eq!(&held[..], &value[..]);
    within_budget(&store);
    store.clear();
    assert_eq!(store.stats().large_memory, 1 << 20);
    drop(held);
    assert_eq!(store.stats().large_memory, 0);
}

#[test]
fn a_lowered_limit_is_reached_step_by_step() {
    let mut config = Config::new(Mode::Cache, 4 << 20);
    config.memory_ceiling = 16 << 20;
    let mut store = Store::new(config).expect("enough");
    assert!(store.set_memory_limit(17 << 20).is_err());
    store.set_memory_limit(16 << 20).expect("below the ceiling");
    fill(&mut store, 0..200_000, &[1; 100], 0);
    assert!(store.stats().memory > 14 << 20);
    store.set_memory_limit(5 << 20).expect("a cache can shrink");
    while store.maintain(NOW, 32 << 10) {}
    within_budget(&store);
    store.check();
    fill(&mut store, 0..50_000, &[1; 100], 0);
    within_budget(&store);
    store.check();

    let mut full = Store::new(Config::new(Mode::Store, 8 << 20)).expect("enough");
    fill(&mut full, 0..40_000, &[1; 100], 0);
    assert!(full.set_memory_limit(4 << 20).is_err(), "a store drops nothing");
}

#[test]
fn the_process_takes_no_more_than_the_budget() {
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("Rss:")).unwrap_or("0");
        line.split_whitespace().next().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0) << 10
    };
    // Other tests run beside this one and are small: a budget well above what they take.
    let memory = 256 << 20;
    let before = resident();
    let mut store = Store::new(Config::new(Mode::Cache, memory)).expect("enough");
    let value = [5; 3000];
    for n in 0..250_000 {
        set(&mut store, n, &value[..(n % 3000) as usize], 0).expect("a cache takes all");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < memory + (64 << 20), "{grown} B resident of {memory}");
    assert!(store.stats().evicted > 0);
}

/// Found by conversations held against memcached: a flushed segment that `maintain` had begun to clean was finished by the
/// next set, which then went on to evict live items, with all of the memory free.
#[test]
fn finishing_a_victim_evicts_nothing_while_memory_is_free() {
    let mut store = Store::new(Config::new(Mode::Cache, 64 << 20)).expect("enough");
    for round in 0..20 {
        let old = round * 1_000;
        fill(&mut store, old..old + 500, &[1; 100], 0);
        store.flush_all(NOW, NOW);
        fill(&mut store, old + 500..old + 600, &[2; 100], NOW + 50);
        store.maintain(NOW, 1 << 10);
        fill(&mut store, old + 600..old + 700, &[3; 3_000], 0);
        assert!((old + 500..old + 700).all(|name| has(&mut store, name)), "round {round}");
    }
    assert_eq!(store.stats().evicted, 0);
    store.check();
}
