//! An image of slots against a map.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SLOTS: usize = 5;
const SLOT_BYTES: usize = 20;

fn user(bytes: &[u8]) -> Key {
    Key { space: Space::User, bytes: bytes.to_vec() }
}

/// Places and applies one write.
fn write(image: &mut Plain, lsn: u64, key: &Key, value: Option<&[u8]>) -> Vec<Tuple> {
    let mut tuples = Vec::new();
    image.place(Lsn(lsn), &[(key, value)], &mut tuples).expect("room");
    image.apply(Lsn(lsn), &tuples).expect("its own tuples");
    tuples
}

#[test]
fn what_is_placed_is_not_read_before_it_is_applied() {
    let mut image = Plain::new(SLOTS, SLOT_BYTES);
    let mut tuples = Vec::new();
    image.place(Lsn(1), &[(&user(b"a"), Some(b"1"))], &mut tuples).expect("room");
    assert_eq!(image.read(&user(b"a")), None);
    assert_eq!(image.keys(&tuples), [user(b"a")]);
    image.apply(Lsn(1), &tuples).expect("its own tuples");
    assert_eq!(image.read(&user(b"a")), Some(Item { version: Lsn(1), value: b"1" }));
    assert_eq!(image.applied(), Lsn(1));
    let tuples = write(&mut image, 2, &user(b"a"), None);
    assert_eq!(image.keys(&tuples), [user(b"a")], "a deletion says its key");
    assert_eq!(image.read(&user(b"a")), None);
}

#[test]
fn spaces_are_apart() {
    let mut image = Plain::new(SLOTS, SLOT_BYTES);
    let reply = Key { space: Space::Reply, bytes: b"a".to_vec() };
    write(&mut image, 1, &user(b"a"), Some(b"user"));
    write(&mut image, 2, &reply, Some(b"reply"));
    let mut found = Vec::new();
    image.items(Space::Reply, &mut |key, item| found.push((key.to_vec(), item.value.to_vec())));
    assert_eq!(found, [(b"a".to_vec(), b"reply".to_vec())]);
    assert_eq!(image.read(&user(b"a")).expect("it is there").value, b"user");
}

#[test]
fn slots_of_entries_under_way_are_given_to_nobody_else() {
    let mut image = Plain::new(2, SLOT_BYTES);
    let (a, b, c) = (user(b"a"), user(b"b"), user(b"c"));
    let (mut first, mut second) = (Vec::new(), Vec::new());
    image.place(Lsn(1), &[(&a, Some(b"1"))], &mut first).expect("room");
    let both = image.place(Lsn(2), &[(&b, Some(b"2")), (&c, Some(b"3"))], &mut second);
    assert_eq!((both, second.len()), (Err(NoRoom), 0), "all or nothing");
    image.place(Lsn(2), &[(&b, Some(b"2"))], &mut second).expect("what was refused took nothing");
    assert_ne!(first[0].offset, second[0].offset);
    image.release(&first);
    image.place(Lsn(3), &[(&c, Some(b"3"))], &mut Vec::new()).expect("what was released");
}

#[test]
fn what_makes_no_item_is_refused_and_nothing_applied() {
    let mut image = Plain::new(2, SLOT_BYTES);
    let mut good = Vec::new();
    image.place(Lsn(1), &[(&user(b"a"), Some(b"1"))], &mut good).expect("room");
    let last = (2 * SLOT_BYTES) as u64;
    for (offset, data) in [
        (1, good[0].data.clone()),
        (last, good[0].data.clone()),
        (u64::MAX, good[0].data.clone()),
        (0, good[0].data[..HEADER].to_vec()),
        (0, vec![7; HEADER]),
        (0, vec![]),
    ] {
        let tuples = [good[0].clone(), Tuple { offset, data }];
        assert_eq!(image.apply(Lsn(1), &tuples), Err(BadTuple { offset }));
        assert_eq!((image.extent(), image.applied()), (0, Lsn::ZERO));
    }
    assert!(image.load(last - 1, &[0, 0]).is_err());
    image.load(0, &[9]).expect("inside");
    assert_eq!(image.index(Lsn(1)), Err(BadTuple { offset: 0 }));
}

#[test]
fn two_items_of_one_key_are_damage() {
    let mut image = Plain::new(2, SLOT_BYTES);
    let tuple = &write(&mut image, 1, &user(b"a"), Some(b"1"))[0];
    image.load(SLOT_BYTES as u64, &tuple.data).expect("inside");
    assert_eq!(image.index(Lsn(1)), Err(BadTuple { offset: SLOT_BYTES as u64 }));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Some transactions are cut after they were placed; copies, replays and followers have the same bytes.
    #[test]
    fn behaves_like_a_map(steps in prop::collection::vec((prop::collection::vec((0u8..4, prop::option::of(0usize..7)), 1..3), any::<bool>()), 1..40)) {
        let mut image = Plain::new(SLOTS, SLOT_BYTES);
        let mut follower = image.clone();
        let mut model: BTreeMap<Key, (Lsn, Vec<u8>)> = BTreeMap::new();
        let mut log = Vec::new();
        let mut lsn = Lsn::ZERO;
        for (mut writes, is_cut) in steps {
            writes.sort();
            writes.dedup_by_key(|(key, _)| *key);
            let writes: Vec<(Key, Option<Vec<u8>>)> =
                writes.into_iter().map(|(key, len)| (user(&[key]), len.map(|len| vec![key; len]))).collect();
            let borrowed: Vec<_> = writes.iter().map(|(key, value)| (key, value.as_deref())).collect();
            let mut tuples = Vec::new();
            image.place(lsn.next(), &borrowed, &mut tuples).expect("there are more slots than keys");
            if is_cut {
                image.release(&tuples);
                continue;
            }
            lsn = lsn.next();
            image.apply(lsn, &tuples).expect("its own tuples");
            follower.apply(lsn, &tuples).expect("the same");
            log.push((lsn, tuples));
            for (key, value) in writes {
                match value {
                    Some(value) => model.insert(key, (lsn, value)),
                    None => model.remove(&key),
                };
            }
            for key in (0..4).map(|key| user(&[key])) {
                let found = image.read(&key).map(|item| (item.version, item.value.to_vec()));
                prop_assert_eq!(found.as_ref(), model.get(&key));
            }
        }
        prop_assert_eq!(&image, &follower);
        let mut copy = Plain::new(SLOTS, SLOT_BYTES);
        for offset in (0..image.extent()).step_by(7) {
            copy.load(offset, image.chunk(offset, 7)).expect("inside");
        }
        copy.index(lsn).expect("what was copied is an image");
        for (lsn, tuples) in &log {
            copy.apply(*lsn, tuples).expect("what was applied may be applied again");
        }
        prop_assert_eq!(copy.digest(), image.digest());
        prop_assert_eq!(&copy, &image);
    }
}
