//! Lanes in turns: who overtakes whom, and which table a message keeps.

use super::{BLOB, Planted, Rig, TEXTS, class, id, types};
use crate::encode::tests::shapes::{Form, World, delimited, field};
use crate::memory::Place;
use crate::object::dynamic::Value;
use crate::place::Ticket;
use crate::table::Kind;

/// Ten slices of texts, then a blob.
fn long() -> Vec<u8> {
    let mut out = Vec::new();
    (0..40).for_each(|index| delimited(4, &[b'a' + index % 26; 1000], &mut out));
    delimited(2, b"at the end", &mut out);
    out
}

fn short() -> Vec<u8> {
    let mut out = Vec::new();
    delimited(1, b"short", &mut out);
    out
}

/// The order in which a long and a short message are done.
fn order(lanes: usize) -> Vec<Ticket> {
    let mut rig = Rig::with(types().table().clone(), |options| options.lanes = lanes);
    let first = rig.accelerator.submit(class(), long()).expect("room");
    let second = rig.accelerator.submit(class(), short()).expect("room");
    let mut done = Vec::new();
    let mut turns = 0;
    while done.len() < 2 {
        turns += 1;
        if let Some((ticket, message)) = rig.accelerator.poll() {
            let message = message.expect("a good message");
            let texts = message.dynamic(types()).get(TEXTS).and_then(Value::as_list);
            assert_eq!(texts.map_or(0, |texts| texts.len()), if ticket == first { 40 } else { 0 });
            done.push(ticket);
        }
    }
    assert!((10..14).contains(&turns), "{turns} turns for ten slices");
    assert!(rig.is_empty());
    if done[0] == second { vec![second, first] } else { vec![first, second] }
}

#[test]
fn a_short_message_overtakes_a_long_one_if_there_is_a_lane() {
    let by_one = order(1);
    let by_two = order(2);
    assert_eq!(by_one.iter().rev().collect::<Vec<_>>(), by_two.iter().collect::<Vec<_>>());
}

/// The target bit turns while a message is under way: it is as its table says, and the next one as the new table.
fn keeps_its_table(planted: Option<Planted>) -> bool {
    let mut rig = Rig::with(types().table().clone(), |options| options.planted = planted);
    let blob = id(BLOB);
    rig.accelerator.submit(class(), long()).expect("room");
    // It is taken, then begun, and has ten slices.
    (0..2).for_each(|_| assert!(rig.accelerator.poll().is_none()));
    rig.accelerator.live().set_target(blob, Place::Host);
    let first = loop {
        if let Some((_, message)) = rig.accelerator.poll() {
            break message.expect("a good message");
        }
    };
    let second = rig.receive(class(), &long());
    assert_eq!((first.place_of(&[blob]), second.place_of(&[blob])), (Some(Place::Acc), Some(Place::Host)));
    [first, second].iter().all(|message| {
        let table = message.table();
        let entry = table.entries(table.message(class()))[blob.entry as usize];
        entry.flags.has(crate::table::Flags::ACC) == message.is_in_acc(&[blob])
    })
}

#[test]
fn a_message_keeps_the_table_that_it_began_with() {
    assert!(keeps_its_table(None));
    assert!(!keeps_its_table(Some(Planted::TableTurnsMidway)));
}

#[test]
fn a_slice_may_become_shorter_at_any_time() {
    let mut rig = Rig::new(types().table().clone());
    rig.accelerator.submit(class(), long()).expect("room");
    rig.accelerator.poll();
    rig.accelerator.registers().slice_bytes.store(0, std::sync::atomic::Ordering::Relaxed);
    rig.receive(class(), &short());
    while rig.accelerator.poll().is_none() {}
    assert!(rig.is_empty());
}

#[test]
fn what_merges_to_more_than_a_slice_is_done_at_once() {
    // Packed on the wire, unpacked by its label: merged, it is twice as long as it came.
    let numbers = field(1, Kind::Sint32, Form::Repeated);
    let schema = World(vec![vec![numbers, field(2, Kind::Message, Form::Explicit)]]).schema();
    let class = schema.class("M0").expect("it is there");
    let mut packed = Vec::new();
    delimited(1, &[2; 1500], &mut packed);
    let mut wire = Vec::new();
    (0..2).for_each(|_| delimited(2, &packed, &mut wire));
    assert!(wire.len() < 4096);
    let mut rig = Rig::new(schema.table());
    let message = rig.receive(class, &wire);
    let sent = rig.accelerator.send(&message, crate::encode::Strategy::CpuOnly, 0).expect("a good message");
    assert_eq!(sent.len(), 3000 * 2 + 3);
    drop(message);
    assert!(rig.is_empty());
}
