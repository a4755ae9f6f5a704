//! An image held against a map, with entries that are placed and not yet applied, or never; heads that change; copies.

mod bad;
mod model;

use super::{Config, Image, Space, Write};

/// An entry as it would be logged.
pub(crate) type Tuples = Vec<(u64, Vec<u8>)>;

pub(crate) fn slices(tuples: &[(u64, Vec<u8>)]) -> impl Iterator<Item = (u64, &[u8])> + Clone {
    tuples.iter().map(|(offset, data)| (*offset, &data[..]))
}

/// Sixteen pages of the smallest size.
pub(crate) fn small() -> Config {
    Config { bytes: 256 << 10, page: 16 << 10, items: 4096, hash_seed: 0 }
}

pub(crate) fn image() -> Image {
    Image::new(&small()).expect("256 KiB")
}

pub(crate) fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Write<'a> {
    Write { space: Space(0), key, value: Some(value) }
}

/// Places and applies.
pub(crate) fn write(image: &mut Image, lsn: u64, writes: &[Write<'_>]) -> Tuples {
    let mut tuples = Tuples::new();
    image.place(lsn, writes, |offset, data| tuples.push((offset, data))).expect("room");
    image.apply(lsn, slices(&tuples)).expect("its own tuples");
    tuples
}

pub(crate) fn value(image: &Image, key: &[u8]) -> Option<(u64, Vec<u8>)> {
    image.read(Space(0), key).map(|item| (item.version, item.value.to_vec()))
}

#[test]
fn a_write_of_the_same_class_is_one_tuple_in_place() {
    let mut image = image();
    let first = write(&mut image, 1, &[put(b"key", &[1; 64])]);
    assert_eq!(first.len(), 2, "a page's header and the item");
    let second = write(&mut image, 2, &[put(b"key", &[2; 62])]);
    assert_eq!(second.len(), 1);
    assert_eq!((second[0].0, second[0].1.len()), (first[1].0, 16 + 3 + 62));
    assert_eq!(value(&image, b"key"), Some((2, vec![2; 62])));
    let other = write(&mut image, 3, &[put(b"other", &[3; 60])]);
    assert_eq!(other.len(), 1, "its page is there");
    let gone = write(&mut image, 4, &[Write { space: Space(0), key: b"key", value: None }]);
    assert_eq!((gone.len(), gone[0].1.len()), (1, 16 + 3));
    assert_eq!(value(&image, b"key"), None);
    let absent = write(&mut image, 5, &[Write { space: Space(0), key: b"key", value: None }]);
    assert_eq!((absent.len(), image.applied()), (0, 5));
    image.check();
}

#[test]
fn what_is_placed_is_not_read_before_it_is_applied_and_its_slot_is_not_given_away() {
    let mut image = image();
    let mut entries = Vec::new();
    for lsn in 1..=3u64 {
        let mut tuples = Tuples::new();
        image.place(lsn, &[put(&[lsn as u8], b"v")], |o, d| tuples.push((o, d))).expect("room");
        entries.push(tuples);
    }
    assert!(image.is_empty() && image.held() == 3);
    let mut offsets: Vec<u64> = entries.iter().flatten().map(|(offset, _)| *offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    assert_eq!(offsets.len(), 4, "three slots and a header");
    // The third is cut, then comes otherwise.
    image.release(slices(&entries[2]));
    assert_eq!(image.held(), 2);
    let mut other = Tuples::new();
    image.place(3, &[put(b"x", b"w")], |o, d| other.push((o, d))).expect("room");
    assert_eq!(other[0].0, entries[2][0].0);
    for (lsn, tuples) in [(1, &entries[0]), (2, &entries[1]), (3, &other)] {
        image.apply(lsn, slices(tuples)).expect("its own");
        image.check();
    }
    assert_eq!((image.len(), image.held()), (3, 0));
}

/// The slot of what is deleted is held by two entries at once on a replica that takes over.
#[test]
fn a_slot_that_two_entries_under_way_write_stays_held_until_both_are_applied() {
    let mut head = image();
    let first = write(&mut head, 1, &[put(b"a", b"1")]);
    let second = write(&mut head, 2, &[Write { space: Space(0), key: b"a", value: None }]);
    let mut third = Tuples::new();
    head.place(3, &[put(b"b", b"3")], |o, d| third.push((o, d))).expect("room");
    assert_eq!(third[0].0, second[0].0, "the slot is used again");
    let mut next = image();
    next.apply(1, slices(&first)).expect("the head's");
    next.reserve(slices(&second));
    next.reserve(slices(&third));
    next.apply(2, slices(&second)).expect("the head's");
    let mut fourth = Tuples::new();
    next.place(4, &[put(b"c", b"4")], |o, d| fourth.push((o, d))).expect("room");
    assert_ne!(fourth[0].0, third[0].0);
    next.apply(3, slices(&third)).expect("the head's");
    next.apply(4, slices(&fourth)).expect("its own");
    next.check();
    assert_eq!(value(&next, b"b"), Some((3, b"3".to_vec())));
}

#[test]
fn pages_of_deleted_items_are_given_to_other_sizes() {
    let mut image = image();
    let mut lsn = 0u64;
    let mut replica = self::image();
    for size in [10usize, 5000, 300, 16_000, 40, 2000] {
        let mut keys = Vec::new();
        loop {
            lsn += 1;
            let key = lsn.to_le_bytes();
            let mut tuples = Tuples::new();
            // Space 1 may have the last pages too.
            let item = Write { space: Space(1), key: &key, value: Some(&vec![lsn as u8; size]) };
            if image.place(lsn, &[item], |o, d| tuples.push((o, d))).is_err() {
                break;
            }
            image.apply(lsn, slices(&tuples)).expect("its own");
            replica.apply(lsn, slices(&tuples)).expect("the head's");
            keys.push(key);
        }
        let bytes = keys.len() * (size + 24);
        assert!(bytes * 100 > 256 * 1024 * 49, "{} items of {size} B", keys.len());
        image.check();
        for key in keys {
            lsn += 1;
            let gone = write(&mut image, lsn, &[Write { space: Space(1), key: &key, value: None }]);
            replica.apply(lsn, slices(&gone)).expect("the head's");
        }
        assert!(image.is_empty());
        image.check();
        replica.check();
        assert_eq!(image.digest(), replica.digest());
    }
}

#[test]
fn strangers_leave_room_for_sessions_and_replies() {
    let mut image = image();
    let mut count = 0u64;
    while image.place(count + 1, &[put(&count.to_le_bytes(), &[0; 1000])], |_, _| {}).is_ok() {
        count += 1;
    }
    let reply = Write { space: Space(2), key: b"session", value: Some(&[0; 1000]) };
    image.place(count + 1, &[reply], |_, _| {}).expect("a page is left");
    let held = image.held();
    let long = vec![0; 16 << 10];
    assert!(image.place(count + 2, &[reply, put(b"x", &long)], |_, _| panic!("nothing is emitted")).is_err());
    assert_eq!(image.held(), held, "nothing is taken");
}

#[test]
fn configurations_that_cannot_work_say_so() {
    for bytes in [1, 1 << 20, 100 << 20, 3 << 30] {
        let config = Config::new(bytes);
        config.check().expect("a default works");
        assert!(config.bytes >= bytes && config.bytes < bytes + config.page as u64);
    }
    assert!(Config { page: 5000, ..small() }.check().is_err());
    assert!(Config { bytes: 1000, ..small() }.check().is_err());
    assert!(Config { bytes: 1 << 40, ..small() }.check().is_err());
    assert!(Config { items: 0, ..small() }.check().is_err());
    assert!(Config::new(u64::MAX).check().is_err());
}
