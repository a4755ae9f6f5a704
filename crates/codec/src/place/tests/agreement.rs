//! What is decoded through the accelerator, wherever its fields lie and however they crossed, is what was sent.
//!
//! The messages are canonical, so their bytes are the model: what is sent again must be the bytes that were received.

use super::Rig;
use crate::decode::{Decoder, Writes};
use crate::encode::tests::shapes::World;
use crate::encode::{Encoder, Strategy};
use crate::memory::{Arena, Place};
use crate::place::{FieldId, Placed};
use crate::table::{Flags, Table};
use base::prng::Prng;
use proptest::prelude::*;
use std::sync::atomic::Ordering::Relaxed;

const CASES: u32 = if cfg!(miri) { 3 } else { 100 };

/// Decoded into ordinary memory and encoded again, by this thread alone.
fn direct(table: &Table, class: u32, wire: &[u8]) -> Option<Vec<u8>> {
    let arena = Arena::default();
    let root = Decoder::default().owned(table, class, wire, &arena).ok()?;
    let mut out = Vec::new();
    // SAFETY: decoded as this class of this table.
    unsafe { Encoder::default().encode(table, class, root, &mut out) }.expect("it was just decoded");
    Some(out)
}

/// The root's dereference fields that are there, and where they are.
fn fields(message: &Placed) -> Vec<(FieldId, Flags, Place)> {
    let table = message.table();
    let entries = table.entries(table.message(message.class()));
    let dereference = entries.iter().enumerate().filter(|(_, entry)| entry.is_dereference());
    let all = dereference.map(|(index, entry)| {
        let field = FieldId { class: message.class(), entry: index as u32 };
        Some((field, entry.flags, message.place_of(&[field])?))
    });
    all.flatten().collect()
}

/// Serialised where fields may be anywhere.
fn sends(rig: &mut Rig, message: &Placed, wire: &[u8]) {
    for strategy in [Strategy::AcceleratorOnly, Strategy::MemoryAffinity] {
        let sent = rig.accelerator.send(message, strategy, 5).expect("a good message");
        assert_eq!(sent[..5], [0; 5]);
        assert_eq!(&sent[5..], wire, "{strategy:?}");
    }
}

fn moves(rig: &mut Rig, message: &mut Placed, wire: &[u8]) {
    for to in [Place::Acc, Place::Host] {
        for (field, _, from) in fields(message) {
            let moved = rig.accelerator.move_field(message, &[field], to).expect("there is room");
            assert_eq!(moved, from != to);
            assert_eq!(message.place_of(&[field]), Some(to));
        }
        sends(rig, message, wire);
    }
    let sent = rig.accelerator.send(message, Strategy::CpuOnly, 0);
    assert_eq!(sent.as_deref(), Ok(wire), "everything is on the host now");
}

/// A rig for random messages of a random schema.
fn rig(table: &Table, prng: &mut Prng) -> Rig {
    let (threads, lanes) = (1 + prng.below(3) as usize, 1 + prng.below(4) as usize);
    let rig = Rig::with(table.clone(), |options| (options.threads, options.lanes) = (threads, lanes));
    let slice = [64, 200, 4096][prng.below(3) as usize];
    rig.accelerator.registers().slice_bytes.store(slice, Relaxed);
    let writes = [Writes::OneShot, Writes::FieldByField][prng.below(2) as usize];
    rig.accelerator.registers().set_writes(writes);
    rig
}

fn mutate(bytes: &mut Vec<u8>, prng: &mut Prng) {
    for _ in 0..1 + prng.below(3) {
        let at = prng.below(bytes.len() as u64 + 1) as usize;
        match prng.below(3) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, prng.next_u64() as u8),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << prng.below(8);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_arrives_is_what_was_sent_wherever_it_lies(seed in any::<u64>()) {
        let mut prng = Prng::new(seed);
        let world = World::random(&mut prng);
        let schema = world.schema();
        let (table, class) = (schema.table(), schema.class("M0").expect("the type"));
        let mut rig = rig(&table, &mut prng);
        let wire = world.message(0, &mut prng, 3);
        let mut message = rig.receive(class, &wire);
        for (field, flags, place) in fields(&message) {
            prop_assert_eq!(place == Place::Acc, flags.has(Flags::ACC), "{:?}", field);
        }
        sends(&mut rig, &message, &wire);
        moves(&mut rig, &mut message, &wire);
        drop(message);
        prop_assert!(rig.is_empty());
    }

    #[test]
    fn messages_in_pieces_merge(seed in any::<u64>()) {
        let mut prng = Prng::new(seed);
        let world = World::random(&mut prng);
        let schema = world.schema();
        let (table, class) = (schema.table(), schema.class("M0").expect("the type"));
        let mut rig = rig(&table, &mut prng);
        // By protobuf's rules what stands twice, one behind the other, merges.
        let wire = [world.message(0, &mut prng, 3), world.message(0, &mut prng, 3)].concat();
        let merged = direct(&table, class, &wire).expect("two good messages");
        let message = rig.receive(class, &wire);
        sends(&mut rig, &message, &merged);
        drop(message);
        prop_assert!(rig.is_empty());
    }

    #[test]
    fn hostile_bytes_are_refused_or_taken_as_the_direct_decoder_does(seed in any::<u64>()) {
        let mut prng = Prng::new(seed);
        let world = World::random(&mut prng);
        let schema = world.schema();
        let (table, class) = (schema.table(), schema.class("M0").expect("the type"));
        let mut rig = rig(&table, &mut prng);
        let good = world.message(0, &mut prng, 3);
        for _ in 0..10 {
            let mut wire = good.clone();
            mutate(&mut wire, &mut prng);
            let expected = direct(&table, class, &wire);
            let received = rig.accelerator.receive(class, wire);
            prop_assert_eq!(received.is_ok(), expected.is_some(), "{:?}", received);
            if let (Ok(message), Some(expected)) = (received, expected) {
                sends(&mut rig, &message, &expected);
            }
            prop_assert!(rig.is_empty());
        }
    }
}
