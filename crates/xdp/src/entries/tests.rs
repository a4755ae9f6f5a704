//! The table against a map, its choice of victims, and the seqlock with a reader that would notice.

use super::*;
use proptest::prelude::*;
use protocol::wire::{HEADER, Header, Message, Opcode, Verb};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

fn item<'a>(key: &'a [u8], value: &'a [u8]) -> Item<'a> {
    Item {
        key,
        value,
        version: Version(7),
        item_flags: 0,
        kind: Kind::Bytes,
        lease_end: Nanos::MAX,
        expires: Nanos::MAX,
    }
}

/// So many keys of one bucket.
fn neighbours(entries: &Entries, count: usize) -> Vec<Vec<u8>> {
    let keys = (0u32..).map(|i| i.to_le_bytes().to_vec());
    keys.filter(|key| entries.bucket(key_hash(key).0) == 0).take(count).collect()
}

#[test]
fn what_is_put_is_found_until_it_is_removed() {
    let mut entries = Entries::private(64);
    assert_eq!(entries.put(&item(b"key", b"value"), Nanos(0)), Ok(None));
    assert_eq!(entries.find(b"key").map(|held| held.value), Some(b"value".to_vec()));
    assert_eq!(entries.put(&item(b"key", b"another"), Nanos(0)), Ok(None));
    assert_eq!((entries.find(b"key").map(|held| held.value), entries.len()), (Some(b"another".to_vec()), 1));
    assert!(entries.remove(b"key") && !entries.remove(b"key") && entries.is_empty());
    assert_eq!(entries.find(b"key"), None);
}

#[test]
fn a_value_that_is_too_large_ends_the_older_copy() {
    let mut entries = Entries::private(4);
    assert_eq!(entries.put(&item(b"key", &[1; MAX_VALUE]), Nanos(0)), Ok(None));
    let refused = entries.put(&item(b"key", &[2; MAX_VALUE + 1]), Nanos(0));
    assert_eq!(refused, Err(TooLarge(MAX_VALUE + 1)));
    assert_eq!(entries.find(b"key"), None);
}

#[test]
fn a_full_bucket_gives_up_what_is_over_then_what_is_asked_for_least() {
    let mut entries = Entries::private(64);
    let keys = neighbours(&entries, 7);
    for (i, key) in keys[..4].iter().enumerate() {
        entries.put(&item(key, b""), Nanos(0)).unwrap();
        entries.hits[i].store(10 + i as u64, Relaxed);
    }
    entries.put(&Item { lease_end: Nanos(5), ..item(&keys[2], b"") }, Nanos(0)).unwrap();
    let over = entries.put(&item(&keys[4], b""), Nanos(5)).unwrap().expect("the bucket is full");
    assert_eq!((over.key(), over.hits), (&keys[2][..], 12));
    assert_eq!(entries.hits(&keys[4]), Some(0));
    entries.hits[2].store(100, Relaxed);
    let least = entries.put(&item(&keys[5], b""), Nanos(5)).unwrap().expect("the bucket is full");
    assert_eq!((least.key(), least.hits), (&keys[0][..], 10));
    entries.remove(&keys[3]);
    assert_eq!(entries.put(&item(&keys[6], b""), Nanos(5)), Ok(None));
    entries.age(|_, _| {});
    assert_eq!(entries.hits(&keys[4]), Some(50));
}

#[test]
fn hits_are_told_once_and_fade() {
    let mut entries = Entries::private(64);
    let told = |entries: &mut Entries| {
        let mut fresh = Vec::new();
        entries.age(|hash, hits| fresh.push((hash, hits)));
        fresh
    };
    entries.put(&item(b"key", b""), Nanos(0)).unwrap();
    assert_eq!(told(&mut entries), []);
    let index = entries.index_of(key_hash(b"key").0, b"key").unwrap();
    entries.hits[index].store(9, Relaxed);
    assert_eq!(told(&mut entries), [(key_hash(b"key"), 9)]);
    assert_eq!((told(&mut entries), entries.hits(b"key")), (vec![], Some(2)));
    entries.hits[index].fetch_add(5, Relaxed);
    // Put again it keeps its hits; another in its place does not have them.
    entries.put(&item(b"key", b"again"), Nanos(0)).unwrap();
    assert_eq!(told(&mut entries), [(key_hash(b"key"), 5)]);
    entries.remove(b"key");
    entries.put(&item(b"key", b""), Nanos(0)).unwrap();
    assert_eq!((told(&mut entries), entries.hits(b"key")), (vec![], Some(0)));
}

#[test]
fn only_what_is_to_be_kept_of_a_hash_stays() {
    let mut entries = Entries::private(64);
    entries.put(&item(b"key", b""), Nanos(0)).unwrap();
    entries.put(&item(b"other", b""), Nanos(0)).unwrap();
    entries.retain_of(key_hash(b"key"), |key| key == b"key");
    assert_eq!(entries.len(), 2);
    entries.retain_of(key_hash(b"key"), |_| false);
    assert!(entries.find(b"key").is_none() && entries.find(b"other").is_some());
}

#[test]
fn sums_are_those_of_the_packet() {
    let mut entries = Entries::private(4);
    for (key, value) in [(&b"k"[..], &b""[..]), (b"12345678", b"1"), (&[7; 250], &[9; 1024])] {
        entries.clear();
        entries.put(&item(key, value), Nanos(0)).unwrap();
        let mut bytes = Vec::new();
        Message { value: value.into(), ..Message::request(Verb::Set, key) }.emit(&mut bytes);
        let entry = &entries.entries[entries.index_of(key_hash(key).0, key).unwrap()];
        let body = &bytes[HEADER..];
        assert_eq!(entry.sum.load(Relaxed), extend(0, body));
        assert_eq!(entry.power.load(Relaxed), power(body.len() / 4));
        assert_eq!(entry.key_sum.load(Relaxed), extend(0, &body[..padded(key.len())]));
        assert_eq!(entry.key_power.load(Relaxed), power(padded(key.len()) / 4));
    }
    assert_eq!(Header::new(Opcode::Request(Verb::Get)).opcode.code(), 1);
}

#[test]
fn what_a_dead_writer_left_is_repaired() {
    let mut entries = Entries::private(64);
    let keys = neighbours(&entries, 4);
    for key in &keys {
        entries.put(&item(key, b"v"), Nanos(0)).unwrap();
    }
    entries.tear(&keys[0]);
    entries.buckets[0].tag[1].store(0, Relaxed);
    entries.entries[2].hash.store(1, Relaxed);
    entries.repair();
    let left: Vec<_> = keys.iter().map(|key| entries.find(key).is_some()).collect();
    assert_eq!(left, [false, false, false, true]);
    assert!(entries.entries.iter().all(|entry| entry.seq.load(Relaxed) & 1 == 0));
    for key in &keys[..3] {
        assert_eq!(entries.put(&item(key, b"v"), Nanos(0)), Ok(None));
    }
    assert_eq!(entries.len(), 4);
}

/// A reader as the program is one: whatever it takes for whole has one number in all of its words.
#[test]
fn a_reader_sees_whole_entries_or_knows_that_it_does_not() {
    let mut table = Entries::private(4);
    table.put(&item(b"key", &[0; 64]), Nanos(0)).unwrap();
    let index = table.index_of(key_hash(b"key").0, b"key").unwrap();
    let seen = Region::<Entry>::private(1);
    let done = AtomicBool::new(false);
    let entry = &seen[0];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..20_000u64 {
                write(entry, || entry.value.iter().for_each(|word| word.store(round, Relaxed)));
            }
            done.store(true, Release);
        });
        while !done.load(Acquire) {
            let before = entry.seq.load(Acquire);
            let first = entry.value[0].load(Relaxed);
            let same = entry.value.iter().all(|word| word.load(Relaxed) == first);
            fence(std::sync::atomic::Ordering::Acquire);
            let whole = before & 1 == 0 && entry.seq.load(Relaxed) == before;
            assert!(same || !whole, "a mixed entry passed for whole");
        }
    });
    assert_eq!(table.entries[index].seq.load(Relaxed) & 1, 0);
}

#[test]
fn keys_go_by_their_hashes() {
    let mut entries = Entries::private(64);
    let keys: Vec<_> = neighbours(&entries, 3).into_iter().chain([b"other".to_vec()]).collect();
    for key in &keys {
        entries.put(&item(key, b"v"), Nanos(0)).unwrap();
    }
    assert_eq!((entries.remove_hash(key_hash(&keys[1])), entries.remove_hash(key_hash(&keys[1]))), (1, 0));
    let bucket = |hash: KeyHash| hash.0.is_multiple_of(16);
    assert_eq!(entries.remove_where(bucket), 2);
    let left: Vec<_> = keys.iter().map(|key| entries.find(key).is_some()).collect();
    assert_eq!(left, [false, false, false, !bucket(key_hash(b"other"))]);
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Vec<u8>),
    Remove(u8),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..40u8, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(key, value)| Step::Put(key, value)),
        4 => (0..40u8).prop_map(Step::Remove),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn a_table_is_a_map_that_says_what_it_forgets(steps in steps()) {
        let mut entries = Entries::private(16);
        let mut model = HashMap::new();
        for step in steps {
            match step {
                Step::Put(key, value) => {
                    let evicted = entries.put(&item(&[key + 1], &value), Nanos(0)).expect("it is short");
                    model.insert(key, value);
                    if let Some(evicted) = evicted {
                        prop_assert!(model.remove(&(evicted.key()[0] - 1)).is_some());
                    }
                }
                Step::Remove(key) => prop_assert_eq!(entries.remove(&[key + 1]), model.remove(&key).is_some()),
                Step::Clear => {
                    entries.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(entries.len(), model.len());
            for key in 0..40 {
                prop_assert_eq!(entries.find(&[key + 1]).map(|held| held.value), model.get(&key).cloned());
            }
        }
    }
}

/// Each core writes the buckets of its hashes, and all are one table to whoever reads it.
#[test]
fn cores_of_a_box_share_a_table_and_no_bucket() {
    for of in 1..=4 {
        let mut first = Entries::private(Entries::DIVISIBLE);
        let mut parts = first.split(of);
        parts.insert(0, first);
        let keys: Vec<_> = (0..100u32).map(|i| i.to_le_bytes()).collect();
        for key in &keys {
            let part = &mut parts[usize::from(Shard::of_hash(key_hash(key), of))];
            part.put(&item(key, b"value"), Nanos(1)).expect("it fits");
        }
        let held = |part: &Entries| keys.iter().filter(|key| part.find(*key).is_some()).count();
        let all = held(&parts[0]);
        assert!(all > 90 && parts.iter().all(|part| held(part) == all), "all read all");
        assert_eq!(parts.iter().map(Entries::len).sum::<usize>(), all);
        // One that forgets everything forgets its own.
        let gone = parts[usize::from(of - 1)].len();
        parts[usize::from(of - 1)].clear();
        assert_eq!(held(&parts[0]), all - gone);
    }
}
