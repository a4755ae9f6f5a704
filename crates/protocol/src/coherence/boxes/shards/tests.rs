//! Shards beside one that is whole, and what they tell each other.

use super::divided::Divided;
use super::*;
use crate::coherence::table::Layout;
use crate::coherence::{CacheBox, Config, Life};
use crate::wire::{BoxId, Incarnation, Verb, key_hash};
use base::Nanos;
use proptest::prelude::*;
use std::sync::Arc;

const HOME: NodeId = NodeId::Home(HomeId(1));

fn divided(of: u8, planted: Option<Planted>) -> Divided<Option<Planted>> {
    let layout = Arc::new(Layout::two_levels(1, 0, 1, 8).expect("a layout"));
    let life = (Incarnation(7), Life::First);
    let config = Config::default();
    Divided::new(&CacheBox::with_bugs(&config, BoxId(1), layout, life, Nanos(1), planted), of, false)
}

fn flush(round: u64) -> Message {
    let mut message = Message::new(Opcode::Control(Control::Invalidate), &[]);
    (message.header.home, message.header.round) = (HomeId(1), Round(round));
    message
}

fn control(what: Control, epoch: u32) -> Message {
    let mut message = Message::new(Opcode::Control(what), &[]);
    (message.header.epoch, message.header.operand) = (Epoch(epoch), 1);
    message
}

/// What is told is heard, at once and in order.
fn settle(cache: &mut Divided<Option<Planted>>, out: &mut Out) {
    loop {
        let told = cache.take_asides();
        if told.is_empty() {
            return;
        }
        told.into_iter().for_each(|(by, at, aside)| cache.hear((by, at), aside, Nanos(2), out));
    }
}

#[test]
fn a_flush_is_answered_once_when_all_have() {
    for of in 1..=Shard::MOST {
        let (mut cache, mut out) = (divided(of, None), Out::new());
        cache.handle(0, Nanos(2), (HOME, &flush(5)), &mut out);
        assert_eq!(out.is_empty(), of > 1, "{of}");
        settle(&mut cache, &mut out);
        let rounds: Vec<_> = out.iter().map(|(to, said)| (*to, said.header.round, said.key.len())).collect();
        assert_eq!(rounds, [(HOME, Round(5), 0)]);
    }
}

#[test]
fn what_was_lost_between_shards_is_told_again_when_it_is_asked_for_again() {
    let (mut cache, mut out) = (divided(3, None), Out::new());
    cache.handle(0, Nanos(2), (HOME, &flush(5)), &mut out);
    // One of two hears it, and its answer comes; the other's is lost, then what it is told.
    let told = cache.take_asides();
    cache.hear((0, told[0].1), told[0].2.clone(), Nanos(2), &mut out);
    settle(&mut cache, &mut out);
    for _ in 0..2 {
        cache.handle(0, Nanos(2), (HOME, &flush(5)), &mut out);
        assert!(out.is_empty());
        let told = cache.take_asides();
        assert_eq!(told.iter().map(|(by, at, _)| (*by, *at)).collect::<Vec<_>>(), [(0, 2)]);
    }
    cache.handle(0, Nanos(2), (HOME, &flush(5)), &mut out);
    settle(&mut cache, &mut out);
    assert_eq!(out.len(), 1);
}

#[test]
fn flushes_that_are_never_answered_take_no_room() {
    let (mut cache, mut out) = (divided(2, None), Out::new());
    for round in 0..1000 {
        cache.handle(0, Nanos(2), (HOME, &flush(round)), &mut out);
    }
    assert_eq!(cache.shards[0].0.flushes.len(), MOST_FLUSHES);
    cache.take_asides();
    cache.handle(0, Nanos(2), (HOME, &flush(3)), &mut out);
    settle(&mut cache, &mut out);
    assert_eq!(out.iter().map(|(_, said)| said.header.round).collect::<Vec<_>>(), [Round(3)]);
}

#[test]
fn all_go_by_a_table_that_one_heard_and_one_answers() {
    let (mut cache, mut out) = (divided(4, None), Out::new());
    let from = NodeId::Controller(0);
    cache.handle(0, Nanos(2), (from, &control(Control::Table, 9)), &mut out);
    assert_eq!(out.len(), 1, "{out:?}");
    // What the others are told is lost; with the next sign of life they are told again.
    cache.take_asides();
    cache.handle(0, Nanos(2), (from, &control(Control::Heartbeat, 9)), &mut out);
    settle(&mut cache, &mut out);
    assert!(cache.shards().all(|machine| machine.table().epoch() == Epoch(9)));
    cache.handle(0, Nanos(2), (from, &control(Control::Heartbeat, 9)), &mut out);
    let told = cache.take_asides();
    let is_beat = |aside: &Aside| match aside {
        Aside::Heard { message, .. } => message.header.opcode == Opcode::Control(Control::Heartbeat),
        _ => false,
    };
    assert!(told.iter().all(|(.., aside)| is_beat(aside)), "they have said so: {told:?}");
    assert_eq!((told.len(), out.len()), (3, 3), "one answer each");
    // An older one is not handed on.
    cache.handle(0, Nanos(2), (from, &control(Control::Table, 8)), &mut out);
    assert!(cache.take_asides().is_empty());
}

#[test]
fn a_box_of_which_a_shard_stands_still_gives_no_sign_of_life_until_it_goes_on() {
    let (mut cache, mut out) = (divided(3, None), Out::new());
    let from = NodeId::Controller(0);
    let beat = |cache: &mut Divided<_>, out: &mut Out, stands: Option<u8>| {
        out.clear();
        cache.handle(0, Nanos(2), (from, &control(Control::Heartbeat, 9)), out);
        for (by, at, aside) in cache.take_asides() {
            if stands != Some(at) {
                cache.hear((by, at), aside, Nanos(2), out);
            }
        }
        settle(cache, out);
        out.len()
    };
    for _ in 0..3 * MOST_MISSED {
        assert_eq!(beat(&mut cache, &mut out, None), 1);
    }
    let answered: usize = (0..3 * MOST_MISSED).map(|_| beat(&mut cache, &mut out, Some(2))).sum();
    assert_eq!(answered, usize::from(MOST_MISSED));
    assert!(cache.shards[0].0.stands_still());
    // Its answer to this one comes after shard 0's silence.
    assert_eq!([beat(&mut cache, &mut out, None), beat(&mut cache, &mut out, None)], [0, 1]);
}

#[test]
fn what_is_left_is_left_in_all_shards() {
    let (mut cache, mut out) = (divided(3, None), Out::new());
    let from = NodeId::Controller(0);
    let mut table = control(Control::Table, 9);
    (table.header.operand, table.header.version) = (0, crate::wire::Version(1));
    cache.handle(0, Nanos(2), (from, &table), &mut out);
    let left = |out: &Out| out.last().map(|(_, said)| said.header.operand);
    // Two have not said that they go by it.
    assert_eq!(left(&out), Some(2));
    settle(&mut cache, &mut out);
    assert!(cache.shards().all(|machine| machine.is_draining()));
    cache.handle(0, Nanos(2), (from, &control(Control::Heartbeat, 9)), &mut out);
    assert_eq!(left(&out), Some(0));
    let has_left = Aside::Goes { epoch: Epoch(9), left: 5 };
    cache.hear((2, 0), has_left, Nanos(2), &mut out);
    cache.handle(0, Nanos(2), (from, &control(Control::Heartbeat, 9)), &mut out);
    assert_eq!(left(&out), Some(5));
}

#[test]
fn a_packet_at_the_wrong_shard_is_as_good_as_lost() {
    let key = b"key".to_vec();
    let whose = Shard::of_hash(key_hash(&key), 2);
    let (mut cache, mut out) = (divided(2, None), Out::new());
    for (at, heard) in [(1 - whose, false), (whose, true)] {
        cache.handle(
            at,
            Nanos(2),
            (HOME, &Message::new(Opcode::Control(Control::Invalidate), &key)),
            &mut out,
        );
        assert_eq!(!out.is_empty(), heard);
    }
    out.clear();
    cache.handle(1, Nanos(2), (HOME, &flush(1)), &mut out);
    assert!(out.is_empty() && cache.take_asides().is_empty(), "what has no key is the first's");
    assert_eq!((0..2).map(|at| cache.shards[at].0.strays()).sum::<u64>(), 2);
}

#[test]
fn an_answer_without_a_key_comes_to_the_shard_that_asked() {
    for index in 0..4u8 {
        let shard = Shard { index, of: 4 };
        let (first, step) = shard.numbers((99 << 32) + 1);
        let (mut cache, mut out) = (divided(4, None), Out::new());
        for count in [0, 1, 12345] {
            let mut ack = Message::new(Opcode::Control(Control::InvalidateAck), &[]);
            ack.header.round = Round(first + count * step);
            cache.handle(0, Nanos(2), (NodeId::Box(BoxId(1)), &ack), &mut out);
            let told: Vec<_> = cache.take_asides().into_iter().map(|(_, at, _)| at).collect();
            assert_eq!(told, if index == 0 { vec![] } else { vec![index] });
        }
    }
    // One that no shard of ours has given.
    let (mut cache, mut out) = (divided(2, None), Out::new());
    let mut ack = Message::new(Opcode::Control(Control::InvalidateAck), &[]);
    ack.header.round = Round(6);
    cache.handle(0, Nanos(2), (NodeId::Box(BoxId(1)), &ack), &mut out);
    assert!(cache.take_asides().is_empty() && out.is_empty());
}

proptest! {
    #[test]
    fn shards_divide_all_hashes_and_numbers(hash: u32, of in 1..=Shard::MOST, count in 0u64..1 << 20) {
        let hash = KeyHash(hash);
        let whose = Shard::of_hash(hash, of);
        let mut bytes = vec![0; HASH_AT];
        bytes.extend(hash.0.to_le_bytes());
        prop_assert_eq!(Shard::of_datagram(&bytes, of), whose);
        let has: Vec<_> = Shard::all(of).filter(|shard| shard.has_group(hash.0 as usize)).collect();
        prop_assert_eq!(has.iter().map(|shard| shard.index()).collect::<Vec<_>>(), vec![whose]);
        let numbers = |shard: Shard| { let (first, step) = shard.numbers(1); first + count * step };
        let all: std::collections::BTreeSet<_> = Shard::all(of).map(numbers).collect();
        prop_assert_eq!(all.len(), usize::from(of));
        if of > 1 {
            prop_assert!(Shard::all(of).all(|shard| Shard::of_round(Round(numbers(shard))) == shard.index()));
        }
    }

    /// Whoever says what, to whichever shard: nothing panics, and only what a box says leaves it.
    #[test]
    fn anything_may_be_said(said in prop::collection::vec((0u8..4, 0u8..12, 0u64..20, any::<bool>()), 0..60)) {
        let (mut cache, mut out) = (divided(4, None), Out::new());
        for (at, what, number, is_heard) in said {
            let control = |what| Opcode::Control(what);
            let (opcode, from) = match what {
                0 => (control(Control::Invalidate), NodeId::Home(HomeId(1))),
                1 => (control(Control::Invalidate), NodeId::Box(BoxId(2))),
                2 => (control(Control::InvalidateAck), NodeId::Box(BoxId(2))),
                3 => (control(Control::Table), NodeId::Controller(1)),
                4 => (control(Control::Heartbeat), NodeId::Controller(0)),
                5 => (control(Control::ReturnAck), HOME),
                6 => (Opcode::Request(Verb::Flush), NodeId::Client(crate::wire::ClientId(3))),
                7 => (Opcode::Request(Verb::Session), NodeId::Client(crate::wire::ClientId(3))),
                8 => (Opcode::Reply(Verb::Noop), HOME),
                9 => (Opcode::Request(Verb::Get), NodeId::Client(crate::wire::ClientId(3))),
                10 => (Opcode::Reply(Verb::Get), HOME),
                _ => (control(Control::HeartbeatAck), NodeId::Box(BoxId(3))),
            };
            let key: &[u8] = if what >= 9 { b"some key" } else { &[] };
            let mut message = Message::new(opcode, key);
            (message.header.round, message.header.home) = (Round(number), HomeId(1));
            message.header.epoch = Epoch(number as u32);
            cache.handle(at, Nanos(2), (from, &message), &mut out);
            if is_heard {
                settle(&mut cache, &mut out);
            }
        }
    }
}
