//! What crosses for messages of known shape, exactly.

use super::{BLOB, INNER, NAME, Rig, class, id, types};
use crate::crossing::Counts;
use crate::decode::Writes;
use crate::encode::{Bell, Strategy};
use crate::memory::{CHUNK, Place};
use crate::object::dynamic::Value;

/// Bytes of an object of class M.
fn object() -> u64 {
    u64::from(types().table().message(class()).size)
}

fn part(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::encode::tests::shapes::delimited(number, bytes, &mut out);
    out
}

/// What receiving `wire` makes cross, besides the doorbell and the notification, which are one each.
fn crossed(rig: &mut Rig, wire: &[u8]) -> (u64, u64) {
    let before = rig.counts();
    drop(rig.receive(class(), wire));
    let counts = rig.counts() - before;
    assert_eq!((counts.doorbells, counts.notifications, counts.reads), (1, 1, 0));
    assert!(rig.is_empty());
    (counts.writes, counts.write_bytes)
}

#[test]
fn a_message_crosses_in_as_few_writes_as_it_has_chunks() {
    let mut rig = Rig::new(types().table().clone());
    // One kilobyte, the fields with the target bit not counted: one write, strings in whole words.
    let small = [part(1, &[b'a'; 500]), part(2, &[1; 3000]), vec![3 << 3, 7], part(6, &[2; 497])].concat();
    assert_eq!(crossed(&mut rig, &small), (1, 504 + 504 + object()));
    // Four texts of 1000 bytes fill a chunk: 4 + 4 + 2, and behind those the array and the object.
    let texts: Vec<u8> = (0..10).flat_map(|_| part(4, &[b'x'; 1000])).collect();
    assert_eq!(crossed(&mut rig, &texts), (3, 10_000 + 10 * 16 + object()));
    // Longer than the buffer: from where it is.
    let long = part(6, &[3; CHUNK + 1]);
    assert_eq!(crossed(&mut rig, &long), (2, CHUNK as u64 + 1 + object()));
    // All but the object stays.
    assert_eq!(crossed(&mut rig, &part(2, &[3; 100_000])), (1, object()));
    assert_eq!(crossed(&mut rig, &[]), (1, object()));
    // Three objects, one write.
    let nested = part(5, &part(5, &part(1, b"deep")));
    assert_eq!(crossed(&mut rig, &nested), (1, 8 + 3 * object()));
}

#[test]
fn field_by_field_each_object_and_each_value_is_a_write() {
    let mut rig = Rig::new(types().table().clone());
    rig.accelerator.registers().set_writes(Writes::FieldByField);
    // The object, three slots, and two texts of which one is in the accelerator's memory.
    let small = [part(1, b"name"), part(2, b"blob"), vec![3 << 3, 7]].concat();
    assert_eq!(crossed(&mut rig, &small), (1 + 3 + 1, object() + 16 + 16 + 4 + 4));
    // Two objects, the slot of the inner one, its slot, its text.
    let nested = part(5, &part(1, b"deep"));
    assert_eq!(crossed(&mut rig, &nested), (2 + 1 + 1 + 1, 2 * object() + 8 + 16 + 4));
    // An array of two texts.
    let texts = [part(4, b"a"), part(4, b"b")].concat();
    assert_eq!(crossed(&mut rig, &texts), (1 + 1 + 1 + 2, object() + 16 + 32 + 2));
    // A oneof's case word goes with its slot.
    assert_eq!(crossed(&mut rig, &part(7, b"this")), (1 + 1 + 1, object() + 24 + 4));
}

#[test]
fn a_move_reads_or_writes_each_part_once() {
    let mut rig = Rig::new(types().table().clone());
    let wire = [part(2, &[9; 1000]), part(5, &[part(1, b"deep"), part(4, b"x")].concat())].concat();
    let mut message = rig.receive(class(), &wire);
    let mut moved = |field: u32, to| {
        let before = rig.counts();
        rig.accelerator.move_field(&mut message, &[id(field)], to).expect("room");
        let counts = rig.counts() - before;
        (
            counts.doorbells,
            counts.notifications,
            counts.reads,
            counts.read_bytes,
            counts.writes,
            counts.write_bytes,
        )
    };
    assert_eq!(moved(BLOB, Place::Host), (1, 1, 0, 0, 1, 1000));
    assert_eq!(moved(BLOB, Place::Host), (0, 0, 0, 0, 0, 0), "it is there");
    assert_eq!(moved(BLOB, Place::Acc), (1, 1, 1, 1000, 0, 0));
    // The object, a text, the array of one, that one.
    assert_eq!(moved(INNER, Place::Acc), (1, 1, 4, object() + 4 + 16 + 1, 0, 0));
    // In one go: all that is in it, in whole words.
    assert_eq!(moved(INNER, Place::Host), (1, 1, 0, 0, 1, object() + 8 + 16 + 8));
    let blob = message.dynamic(types()).is_in_acc(BLOB);
    assert!(blob);
    let inner = message.dynamic(types()).get(INNER).and_then(Value::as_message).expect("it is there");
    assert_eq!(inner.get(NAME).and_then(Value::as_str), Some("deep"));
}

#[test]
fn sending_rings_once_and_fetches_once_where_the_host_prepared() {
    let mut rig = Rig::new(types().table().clone());
    let message = rig.receive(class(), &part(2, &[9; 1000]));
    let before = rig.counts();
    rig.accelerator.send(&message, Strategy::MemoryAffinity, 0).expect("a good message");
    // One record: a far text, and the bytes stay where they are.
    let expected = Counts {
        doorbells: 1,
        doorbell_bytes: Bell::BYTES as u64,
        reads: 1,
        read_bytes: 16,
        notifications: 1,
        notify_bytes: 16,
        ..Counts::default()
    };
    assert_eq!(rig.counts() - before, expected);
}
