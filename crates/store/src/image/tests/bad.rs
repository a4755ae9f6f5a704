//! Tuples and bytes that make no sense: an error, and nothing of it done.

use super::{Tuples, image, put, slices, write};
use crate::image::{Image, Space, Write};
use proptest::prelude::*;

/// Three items in two pages, and the tuples that made them.
fn made() -> (Image, Vec<Tuples>) {
    let mut image = image();
    let entries = vec![
        write(&mut image, 1, &[put(b"a", b"1"), put(b"b", b"2")]),
        write(&mut image, 2, &[put(b"c", &[3; 500])]),
    ];
    (image, entries)
}

fn refuses(image: &mut Image, what: &str, tuples: &[(u64, Vec<u8>)]) {
    let before = (image.digest(), image.applied(), image.len());
    assert!(image.apply(9, slices(tuples)).is_err(), "{what}");
    assert_eq!((image.digest(), image.applied(), image.len()), before, "{what}");
    image.check();
}

#[test]
fn tuples_that_make_no_item_are_refused_and_nothing_is_done() {
    let (mut image, entries) = made();
    let (header, a, b) = (&entries[0][0], &entries[0][1], &entries[0][2]);
    let c = &entries[1][1];
    let good = write(&mut self::image(), 3, &[put(b"new", b"item")]);
    let mut fresh = Tuples::new();
    image.place(3, &[put(b"new", b"item")], |o, d| fresh.push((o, d))).expect("room");
    image.release(slices(&fresh));
    let item = &fresh[0];
    let with = |bad: &(u64, Vec<u8>)| vec![item.clone(), bad.clone()];
    let deleted = |key: &[u8]| {
        let mut other = self::image();
        write(&mut other, 1, &[put(key, b"1")]);
        write(&mut other, 2, &[Write { space: Space(0), key, value: None }])[0].1.clone()
    };
    refuses(&mut image, "beyond the end", &with(&(256 << 10, vec![1; 20])));
    refuses(&mut image, "across the end", &with(&((256 << 10) - 4, vec![1; 20])));
    refuses(&mut image, "far beyond the end", &with(&(u64::MAX, vec![1; 20])));
    refuses(&mut image, "no bytes", &with(&(b.0, Vec::new())));
    refuses(&mut image, "one byte", &with(&(b.0, vec![0])));
    refuses(&mut image, "no slot begins there", &with(&(b.0 + 1, b.1.clone())));
    refuses(&mut image, "a page without a class", &with(&(5 * (16 << 10) + 64, b.1.clone())));
    refuses(&mut image, "longer than the slot", &with(&(item.0 + 32, c.1.clone())));
    refuses(&mut image, "cut short", &with(&(item.0, item.1[..19].to_vec())));
    refuses(&mut image, "over another key", &[(a.0, item.1.clone())]);
    refuses(&mut image, "a key a second time", &[(item.0, a.1.clone())]);
    refuses(&mut image, "a key twice in an entry", &with(&(item.0 + 32, item.1.clone())));
    refuses(&mut image, "a slot twice in an entry", &with(item));
    let other = write(&mut self::image(), 1, &[put(b"old", b"item")])[1].1.clone();
    refuses(&mut image, "two keys in one slot", &with(&(item.0, other)));
    refuses(&mut image, "a deletion of what is not there", &with(&(item.0 + 32, deleted(b"zz"))));
    refuses(&mut image, "a deletion of another key", &[(b.0, deleted(b"a"))]);
    refuses(&mut image, "a deletion twice", &[(a.0, deleted(b"a")), (a.0, deleted(b"a"))]);
    refuses(&mut image, "written and deleted", &[a.clone(), (a.0, deleted(b"a"))]);
    refuses(&mut image, "a header over items", &with(header));
    refuses(
        &mut image,
        "a header of no class",
        &with(&(5 * (16 << 10), [&header.1[..4], &[1; 12]].concat())),
    );
    refuses(&mut image, "a header with more", &with(&(5 * (16 << 10), [&header.1[..], &[0]].concat())));
    let page = (5u64 * (16 << 10), header.1.clone());
    refuses(&mut image, "a page twice", &[page.clone(), page.clone()]);
    refuses(&mut image, "a page after its slot", &[page.clone(), (page.0 + 64, item.1.clone()), page]);
    image.apply(3, slices(&fresh)).expect("the good one alone");
    assert_eq!(good.len(), 2);
    image.check();
}

/// The bytes of deleted items do not become items of the next class of their page: a header without its marks is refused.
#[test]
fn a_page_changes_its_class_only_with_a_zero_for_each_old_mark() {
    let mut image = image();
    let key = |n: u64| n.to_le_bytes();
    let mut lsn = 0;
    // Values that look like items of the smallest class, wherever a slot may begin.
    let forged = vec![1; 8000];
    loop {
        let item = Write { space: Space(1), key: &key(lsn), value: Some(&forged) };
        let mut tuples = Tuples::new();
        if image.place(lsn + 1, &[item], |o, d| tuples.push((o, d))).is_err() {
            break;
        }
        lsn += 1;
        image.apply(lsn, slices(&tuples)).expect("its own");
    }
    for n in 0..lsn {
        write(&mut image, lsn + 1 + n, &[Write { space: Space(1), key: &key(n), value: None }]);
    }
    let mut tuples = Tuples::new();
    image.place(1000, &[put(b"x", b"y")], |o, d| tuples.push((o, d))).expect("a page is empty");
    assert!(tuples.len() > 100, "{} tuples", tuples.len());
    let mut few = tuples.clone();
    few.remove(50);
    assert!(image.apply(1000, slices(&few)).is_err());
    image.apply(1000, slices(&tuples)).expect("its own");
    image.check();
    image.index(1000).expect("whole");
    assert_eq!(image.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes of a real image with some changed, and tuples with some changed: no panic, and an image that is whole or refused.
    #[test]
    fn changed_bytes_and_tuples_never_panic(
        changes in prop::collection::vec((0usize..20_000, any::<u8>()), 1..6),
        offset in 0u64..40_000,
        at in 0usize..3,
        byte in 0usize..40,
        to in any::<u8>(),
    ) {
        let (mut image, entries) = made();
        let mut tuples = entries.concat();
        tuples[at].0 = offset / 16 * 16;
        let _ = image.apply(4, slices(&tuples));
        let mut tuples = entries.concat();
        let len = tuples[at + 1].1.len();
        tuples[at + 1].1[byte % len] = to;
        let _ = image.apply(4, slices(&tuples));
        image.check();
        for (at, byte) in changes {
            image.load(at as u64, &[byte]).expect("inside");
        }
        if image.index(4).is_ok() {
            image.check();
        }
    }
}
