//! Warm restarts against the model, against a store that never stopped, and against damage.
//!
//! Whose memory it is, and files without names: `owned`.
//!
//! All of them map files, which Miri does not; what of this can run there is in `meta`.
#![cfg(not(miri))]

mod owned;

use super::ground::{ALL, Part};
use super::*;
use crate::tests::model::{Pair, Source, perform};
use crate::{Cursor, GetHow, SetHow, SetOutcome};
use proptest::prelude::*;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// As in `tests::tiny`: long chains, and equal tags in one bucket.
const MASK: u64 = 0xFE00_0000_0000_007F;

thread_local! {
    /// The mistake that is made.
    static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// That mistake.
pub(super) struct Chosen;

impl Mistakes for Chosen {
    fn has(&self, planted: Planted) -> bool {
        PLANTED.get() == Some(planted)
    }
}

/// A directory for memory, gone when this is.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let in_memory = TempDir::with_prefix_in("millrace-", "/dev/shm");
        Place(in_memory.or_else(|_| TempDir::with_prefix("millrace-")).expect("a folder"))
    }

    /// It is not there yet.
    fn path(&self) -> PathBuf {
        self.0.path().join("memory")
    }

    fn file(&self, part: Part) -> PathBuf {
        self.path().join(part.name())
    }

    fn copy(&self) -> Place {
        let copy = Place::new();
        std::fs::create_dir(copy.path()).expect("a directory");
        for part in ALL.into_iter().filter(|part| self.file(*part).exists()) {
            std::fs::copy(self.file(part), copy.file(part)).expect("a copy");
        }
        copy
    }

    /// Flips bits of byte `at` of `part`.
    fn flip(&self, part: Part, at: usize, bits: u8) {
        let mut bytes = std::fs::read(self.file(part)).expect("a file");
        bytes[at] ^= bits;
        std::fs::write(self.file(part), bytes).expect("a file of ours");
    }

    fn resume(&self, mode: Mode, now: u32) -> (Store, Start) {
        Store::resume_hashing((&self.asked(), &Chosen), config(mode), now, MASK).expect("room for 1 MiB")
    }

    fn asked(&self) -> Asked {
        Asked::of(&self.path(), Whose::Node)
    }
}

fn config(mode: Mode) -> Config {
    Config { max_value: 96 << 10, memory_ceiling: 4 << 20, ..Config::new(mode, 1 << 20) }
}

fn set(store: &mut Store, now: u32, key: &[u8], value: &[u8], expiry: u32) -> u64 {
    let how = SetHow { expiry, ..SetHow::default() };
    let key = store.key(key).expect("1 to 250 bytes");
    match store.set(now, key, value, &how).expect("room") {
        SetOutcome::Stored { version, .. } => version,
        other => panic!("{other:?}"),
    }
}

fn get(store: &mut Store, now: u32, key: &[u8]) -> Option<(Vec<u8>, u64)> {
    let key = store.key(key).expect("1 to 250 bytes");
    store.get(now, key, &GetHow::PLAIN).map(|hit| (hit.value().to_vec(), hit.version()))
}

/// A closed store with small, large, deleted and expiring values.
fn closed(mode: Mode) -> Place {
    let place = Place::new();
    let (mut store, start) = place.resume(mode, 1000);
    assert_eq!(start, Start::Cold(Cold::New));
    for number in 0..1500u32 {
        let value = vec![number as u8; if number % 100 == 0 { 20_000 } else { number as usize % 300 }];
        set(&mut store, 1000, number.to_string().as_bytes(), &value, if number % 3 == 0 { 5000 } else { 0 });
    }
    let left = store.hand_over(1000).expect("room").expect("files");
    assert!(left.items > 100 && left.bytes > 100_000, "{left:?}");
    place
}

fn reason(place: &Place) -> Cold {
    match place.resume(Mode::Cache, 2000).1 {
        Start::Cold(why) => why,
        warm => panic!("{warm:?}"),
    }
}

/// Random operations with restarts between them, checked against the model as a whole after each.
fn live(mode: Mode, seed: u64, restarts: usize, steps: usize, keys: u64) -> Pair {
    let place = Place::new();
    let mut source = Source::new(seed);
    source.keys = keys;
    let mut pair = Pair::new(place.resume(mode, source.now).0);
    for number in 0..restarts * steps {
        let step = source.step();
        pair.step(&step);
        source.seen = pair.last_version;
        if number % steps == steps / 2 && source.prng.below(3) == 0 {
            let at = source.now + source.prng.below(30) as u32;
            pair.flush_all(source.now, at);
        }
        if number % steps < steps - 1 {
            continue;
        }
        let other = Store::new(config(mode)).expect("1 MiB");
        let store = std::mem::replace(&mut pair.store, other);
        let before = store.stats();
        store.hand_over(source.now).expect("room");
        source.now += source.prng.below(20) as u32;
        let (store, start) = place.resume(mode, source.now);
        assert!(matches!(start, Start::Warm { .. }), "{start:?}");
        pair.store = store;
        let after = pair.store.stats();
        assert_eq!((before.version, before.evicted), (after.version, after.evicted));
        assert!(after.memory <= after.memory_limit);
        pair.store.maintain(source.now, 0);
        pair.due(source.now);
        pair.store.check();
        pair.compare_all(source.now);
    }
    pair
}

#[test]
fn a_restarted_store_answers_as_if_nothing_had_been() {
    for (mode, keys) in
        [(Mode::Store, 1500), (Mode::Store, 12_000), (Mode::Cache, 1500), (Mode::Cache, 30_000)]
    {
        let pair = live(mode, keys, 10, 4000, keys);
        let stats = pair.store.stats();
        assert!(
            stats.items > 100 && (mode == Mode::Store || keys < 2000 || stats.evicted > 300),
            "{stats:?}"
        );
        assert!(mode == Mode::Cache || pair.missing == 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_seed_any_key_space(seed in any::<u64>(), keys in 8u64..8000, steps in 2usize..1500, cache in any::<bool>()) {
        live(if cache { Mode::Cache } else { Mode::Store }, seed, 4, steps, keys);
    }
}

#[test]
fn one_that_never_stopped_gives_the_same_answers() {
    let place = Place::new();
    let mut steady = crate::tests::tiny(Mode::Store);
    let mut store = place.resume(Mode::Store, 1000).0;
    let mut source = Source::new(7);
    source.keys = 300;
    for number in 0..20_000 {
        let step = source.step();
        assert_eq!(perform(&mut store, &step), perform(&mut steady, &step), "operation {number}");
        if number % 2500 == 2499 {
            store.hand_over(source.now).expect("room");
            source.now += 3;
            store = place.resume(Mode::Store, source.now).0;
        }
    }
    assert!(store.stats().large_memory > 0 && store.stats().items > 50);
}

#[test]
fn a_store_that_was_not_closed_is_not_believed() {
    let place = closed(Mode::Cache);
    let (mut store, start) = place.resume(Mode::Cache, 1001);
    assert!(matches!(start, Start::Warm { away: 1, set_back: 0, .. }), "{start:?}");
    set(&mut store, 1001, b"new", b"value", 0);
    drop(store);
    assert_eq!(reason(&place), Cold::NotClosed);
    // That one was not closed either.
    assert_eq!(reason(&place), Cold::NotClosed);
}

#[test]
fn two_processes_do_not_have_one_store() {
    let place = closed(Mode::Cache);
    let (store, _) = place.resume(Mode::Cache, 1001);
    let refusal = Store::resume(&place.asked(), config(Mode::Cache), 1001).expect_err("it is taken");
    assert_eq!(refusal, Refusal::Locked(place.path()));
    store.hand_over(1001).expect("room");
    assert!(matches!(place.resume(Mode::Cache, 1002).1, Start::Warm { .. }));
}

#[test]
fn what_is_not_ours_stays_as_it_is() {
    let foreign = |place: &Place, file: &Path| {
        let bytes = std::fs::read(file).ok();
        let (mut store, start) = place.resume(Mode::Cache, 1000);
        assert!(matches!(start, Start::Cold(Cold::Foreign(_))), "{start:?}");
        set(&mut store, 1000, b"key", b"value", 0);
        assert_eq!(store.hand_over(1000), Ok(None), "it lies in no file");
        assert_eq!(std::fs::read(file).ok(), bytes);
    };
    for part in ALL {
        let place = Place::new();
        std::fs::create_dir(place.path()).expect("a directory");
        std::fs::write(place.file(part), "somebody's diary").expect("a file");
        foreign(&place, &place.file(part));
        assert_eq!(std::fs::read_dir(place.path()).expect("a directory").count(), 1, "nothing was added");
    }
    let place = Place::new();
    std::fs::write(place.path(), "a file of the directory's name").expect("a file");
    foreign(&place, &place.path().clone());
    let place = closed(Mode::Cache);
    std::fs::remove_file(place.file(Part::Heap)).expect("ours");
    std::os::unix::fs::symlink("/etc/hostname", place.file(Part::Heap)).expect("a link");
    foreign(&place, &place.file(Part::Heap));
}

#[test]
fn damage_is_named_or_harmless() {
    let whole = closed(Mode::Cache);
    let bytes = std::fs::read(whole.file(Part::Meta)).expect("a file");
    let image = u64::from_le_bytes(bytes[16..24].try_into().expect("8 bytes")) as usize;
    // Every single bit is flipped in `meta::tests`.
    for at in (0..meta::PAGE + image).step_by(211) {
        let place = whole.copy();
        place.flip(Part::Meta, at, 0x10);
        // The name is what makes it ours.
        let expected = if at < 6 {
            matches!(reason(&place), Cold::Foreign(_))
        } else {
            matches!(reason(&place), Cold::Damaged(_))
        };
        assert!(expected, "byte {at}");
    }
    for part in [Part::Heap, Part::Index, Part::Overflow, Part::Large] {
        let place = whole.copy();
        let file = std::fs::File::options().write(true).open(place.file(part)).expect("a file");
        file.set_len(2048).expect("ours");
        assert_eq!(reason(&place), Cold::Shorter(part.name()));
    }
    let (mut refused, mut harmless) = (0, 0);
    let mut prng = base::Prng::new(3);
    for number in 0..600 {
        let place = whole.copy();
        let part = [Part::Heap, Part::Index, Part::Overflow][number % 3];
        let bytes = std::fs::read(place.file(part)).expect("a file");
        let written = bytes.iter().rposition(|&b| b != 0).expect("something was written") as u64;
        place.flip(part, prng.below(written + 1) as usize, 1 << prng.below(8));
        match place.resume(Mode::Cache, 2000) {
            (store, Start::Warm { .. }) => {
                store.check();
                harmless += 1;
            }
            (store, Start::Cold(Cold::Damaged(_))) => {
                assert_eq!(store.stats().items, 0);
                refused += 1;
            }
            (_, other) => panic!("{other:?}"),
        }
    }
    assert!(refused > 100 && harmless > 100, "{refused} refused, {harmless} harmless");
}

#[test]
fn another_limit_evicts_or_grows() {
    let place = closed(Mode::Cache);
    let before = place.resume(Mode::Cache, 1000).0;
    let items = before.stats().items;
    before.hand_over(1000).expect("room");
    let larger = Config { memory: 4 << 20, ..config(Mode::Cache) };
    let (mut store, start) =
        Store::resume_hashing((&place.asked(), &Chosen), larger, 1000, MASK).expect("room");
    assert!(matches!(start, Start::Warm { items: found, .. } if found == items), "{start:?}");
    for number in 0..9000u32 {
        set(&mut store, 1000, &number.to_be_bytes(), &[1; 200], 0);
    }
    store.check();
    let stats = store.stats();
    assert!(stats.items > 6000 && stats.memory > 5 << 19 && stats.memory <= 4 << 20, "{stats:?}");
    store.hand_over(1000).expect("room");
    let (store, start) = place.resume(Mode::Cache, 1000);
    store.check();
    assert!(matches!(start, Start::Warm { items, .. } if items > 1000 && items < 6000), "{start:?}");
    assert!(store.stats().memory <= 1 << 20);
    store.hand_over(1000).expect("room");
    // Refused for want of room, even where nothing could have been taken over: what is there stays.
    let much = Config { memory: 1 << 44, memory_ceiling: 1 << 44, ..config(Mode::Cache) };
    let refusal = Store::resume_hashing((&place.asked(), &Chosen), much, 1000, MASK).expect_err("16 TiB");
    assert!(matches!(refusal, Refusal::NoRoom { .. }), "{refusal:?}");
    let (store, start) = place.resume(Mode::Cache, 1000);
    assert!(matches!(start, Start::Warm { .. }), "{start:?}");
    store.hand_over(1000).expect("room");
    // Segments of 16 KiB are too many for it.
    let wide = Config { memory_ceiling: 2 << 30, ..config(Mode::Cache) };
    let start = Store::resume_hashing((&place.asked(), &Chosen), wide, 1000, MASK).expect("room").1;
    assert_eq!(start, Start::Cold(Cold::OtherSize(16384)));
}

#[test]
fn a_store_is_not_cut_down_and_stays_closed() {
    let place = Place::new();
    let wide = Config { memory: 4 << 20, ..config(Mode::Store) };
    let (mut store, _) =
        Store::resume_hashing((&place.asked(), &Chosen), wide.clone(), 1000, MASK).expect("room");
    for number in 0..9000u32 {
        set(&mut store, 1000, &number.to_be_bytes(), &[1; 200], 0);
    }
    store.hand_over(1000).expect("room");
    let refusal = Store::resume_hashing((&place.asked(), &Chosen), config(Mode::Store), 1000, MASK)
        .expect_err("2 MiB into 1");
    assert!(matches!(refusal, Refusal::Config(ConfigError::BelowUse { .. })), "{refusal:?}");
    let (store, start) = Store::resume_hashing((&place.asked(), &Chosen), wide, 1000, MASK).expect("room");
    assert!(matches!(start, Start::Warm { items: 9000, .. }), "{start:?}");
    store.check();
}

#[test]
fn no_room_and_no_directory_are_refused() {
    let place = Place::new();
    let much = 1 << 44;
    let config = Config { memory: much, memory_ceiling: much, ..config(Mode::Cache) };
    let refusal = Store::resume(&place.asked(), config.clone(), 1000).expect_err("16 TiB");
    assert_eq!(refusal, Refusal::NoRoom { directory: place.path(), memory: much });
    assert!(refusal.to_string().contains("has no room for 16.0 TiB"), "{refusal}");
    let taken: u64 = ALL
        .map(|part| place.file(part).metadata().map_or(0, |m| std::os::unix::fs::MetadataExt::blocks(&m)))
        .iter()
        .sum();
    assert!(taken <= 16, "what is of no use is given back: {taken} blocks");
    let refusal = Store::resume(&Asked::of(&place.path().join("a/b"), Whose::Node), config, 1000)
        .expect_err("nothing there");
    assert_eq!(refusal, Refusal::NoDirectory(place.path().join("a/b")));
}

#[test]
fn memory_in_files_is_held_to_the_limit_and_not_beyond() {
    let place = Place::new();
    let held = || -> u64 {
        let blocks =
            |part| place.file(part).metadata().map_or(0, |m| std::os::unix::fs::MetadataExt::blocks(&m));
        [Part::Heap, Part::Index, Part::Overflow, Part::Ghosts].map(blocks).iter().sum::<u64>() * 512
    };
    let (mut store, _) = place.resume(Mode::Cache, 1000);
    assert!(held() > (1 << 20) - (64 << 10) && held() <= 1 << 20, "{} B at the start", held());
    for number in 0..20_000u32 {
        let len = if number % 50 == 0 { 30_000 } else { 10 };
        set(&mut store, 1000, &number.to_be_bytes(), &vec![1; len], 0);
        if number % 500 == 0 {
            let all = held() + store.stats().large_memory as u64;
            assert!(all <= 1 << 20, "{all} B after {number}");
        }
    }
    store.set_memory_limit(2 << 20).expect("room");
    assert!(held() + store.stats().large_memory as u64 > (2 << 20) - (64 << 10));
    store.set_memory_limit(1 << 20).expect("less");
    while store.maintain(1000, 1 << 16) {}
    store.check();
    assert!(held() + store.stats().large_memory as u64 <= 1 << 20);
}

/// Small items that a store of values that may not be lost takes after large ones have come and gone.
fn small_after_large(mut store: Store) -> usize {
    let key = |number: u32| [b"large", &number.to_be_bytes()[..]].concat();
    let large = (0..20).filter(|&n| {
        let how = SetHow::default();
        let bytes = key(n);
        let key = store.key(&bytes).expect("short");
        store.set(1000, key, &[1; 30_000], &how).is_ok()
    });
    let large: Vec<u32> = large.collect();
    assert!(large.len() > 10, "{}", large.len());
    for number in large {
        let bytes = key(number);
        let key = store.key(&bytes).expect("short");
        store.delete(1000, key, &crate::DeleteHow::default()).expect("it is there");
    }
    let mut number = 0u32;
    loop {
        let bytes = number.to_be_bytes();
        let key = store.key(&bytes).expect("short");
        if store.set(1000, key, &[1; 200], &SetHow::default()).is_err() {
            store.check();
            return number as usize;
        }
        number += 1;
    }
}

#[test]
fn what_large_values_gave_back_is_used_again() {
    let place = Place::new();
    let anonymous = small_after_large(Store::new(config(Mode::Store)).expect("1 MiB"));
    let files = small_after_large(place.resume(Mode::Store, 1000).0);
    assert!(files * 20 >= anonymous * 19, "{files} items in files, {anonymous} in anonymous memory");
}

#[test]
fn lives_go_on_and_a_clock_set_back_lengthens_none() {
    let place = Place::new();
    let (mut store, _) = place.resume(Mode::Cache, 1000);
    set(&mut store, 1000, b"short", b"1", 1010);
    set(&mut store, 1000, b"long", b"2", 1100);
    set(&mut store, 1000, b"ever", b"3", 0);
    store.hand_over(1000).expect("room");
    let (mut store, _) = place.resume(Mode::Cache, 1020);
    assert_eq!(get(&mut store, 1020, b"short"), None);
    assert_eq!(get(&mut store, 1099, b"long").map(|hit| hit.0), Some(b"2".to_vec()));
    store.flush_all(1020, 1090);
    store.hand_over(1020).expect("room");
    let (mut store, start) = place.resume(Mode::Cache, 520);
    assert!(matches!(start, Start::Warm { away: 0, set_back: 500, .. }), "{start:?}");
    store.check();
    assert!(get(&mut store, 589, b"long").is_some() && get(&mut store, 589, b"ever").is_some());
    assert_eq!(
        (get(&mut store, 590, b"long"), get(&mut store, 590, b"ever")),
        (None, None),
        "the flush is due"
    );
}

#[test]
fn a_flush_that_is_to_come_can_be_taken_away_and_is_then_not_done() {
    let place = Place::new();
    let (mut store, _) = place.resume(Mode::Cache, 1000);
    set(&mut store, 1000, b"k", b"v", 0);
    assert_eq!(store.take_flush(), None);
    store.flush_all(1000, 1010);
    store.hand_over(1000).expect("room");
    let (mut store, start) = place.resume(Mode::Cache, 1020);
    assert!(matches!(start, Start::Warm { items: 1, .. }), "{start:?}");
    assert_eq!(store.take_flush(), Some(1010), "though it is due");
    assert!(get(&mut store, 1030, b"k").is_some());
    assert_eq!(store.take_flush(), None);
    // Whoever took it owes it, and may leave that, too: nothing is flushed meanwhile.
    store.hand_over_owing(1030, Some(1010)).expect("room");
    let (mut store, start) = place.resume(Mode::Cache, 1031);
    assert!(matches!(start, Start::Warm { items: 1, .. }), "{start:?}");
    assert_eq!(store.take_flush(), Some(1010));
}

#[test]
fn planted_bugs_are_found() {
    let found = |bug, run: fn()| {
        PLANTED.set(Some(bug));
        let outcome = std::panic::catch_unwind(run);
        PLANTED.set(None);
        assert!(outcome.is_err(), "{bug:?} goes unnoticed");
    };
    found(Planted::EntriesAreBelieved, damage_is_named_or_harmless);
    found(Planted::InUseIsNotSaid, a_store_that_was_not_closed_is_not_believed);
    found(Planted::VersionIsForgotten, a_restarted_store_answers_as_if_nothing_had_been);
    found(Planted::LargeStayBehind, a_restarted_store_answers_as_if_nothing_had_been);
}

#[test]
fn a_listing_begun_before_is_one_after() {
    let place = closed(Mode::Cache);
    let (store, _) = place.resume(Mode::Cache, 1000);
    let mut keys = Vec::new();
    let mut cursor = Some(Cursor::default());
    while let Some(at) = cursor {
        cursor = store.list(1000, at, |peek| keys.push(peek.key.to_vec()));
    }
    assert_eq!(keys.len(), store.stats().items);
}
