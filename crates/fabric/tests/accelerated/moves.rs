//! What crosses: as much as the accelerator alone makes cross for the same messages; and a unit that comes and goes costs one move each way.

use crate::proto::picture::{Stored, Upload};
use crate::rig::{Pair, Store, driven, plain, registers, request, what};
use codec::crossing::{Counts, Crossing, Shared};
use codec::decode::Decoder;
use codec::encode::Strategy;
use codec::memory::Arena;
use codec::place::{Accelerator, Live};
use codec::typed::Message;
use std::sync::Arc;

fn crossed(pair: &Pair) -> Counts {
    pair.server.accelerator_figures().expect("there is one").lanes.crossed
}

/// What crosses to receive that request and to send that reply, by an accelerator alone, as the codec's benches count it.
fn alone(strategy: Strategy, request: &[u8], reply: impl FnOnce(&mut codec::place::Placed)) -> Counts {
    let live = Arc::new(Live::new(Upload::types().table().clone()));
    let crossing = Arc::new(Shared::default());
    let mut accelerator = Accelerator::in_this_thread(vec![live], driven(), crossing).expect("memory");
    accelerator.receive(Upload::CLASS, request.to_vec()).expect("a good message");
    let mut message = accelerator.message(Stored::CLASS).expect("room");
    reply(&mut message);
    accelerator.send(&message, strategy, 16).expect("a good message");
    accelerator.crossing().counts()
}

#[test]
fn a_call_crosses_as_often_as_its_messages_do_alone() {
    for strategy in Strategy::ALL {
        let store = Arc::new(Store::default());
        let server = plain(&store).accelerator(driven()).expect("memory").registers(registers(strategy, 0));
        let mut pair = Pair::new(server);
        let body = request(7, what::BYTES, &[b'x'; 5000]);
        let expected = alone(strategy, &body, |message| {
            let mut reply = Stored::placed_mut(message).expect("of this class");
            reply.set_id(7);
            reply.set_sum(&[b'x'; 5000]).expect("room");
        });
        for _ in 0..3 {
            let before = crossed(&pair);
            pair.call(&body).expect("a good call");
            assert_eq!(crossed(&pair) - before, expected, "{strategy:?}");
        }
    }
}

/// Moves of fields in each call, while the unit is there as `there` says.
fn moves(follow: bool, there: &[bool]) -> Vec<u64> {
    let store = Arc::new(Store::default());
    let registers = registers(Strategy::MemoryAffinity, 1);
    registers.set_live("acc.follow", if follow { "on" } else { "off" }).expect("live");
    let server = plain(&store).accelerator(driven()).expect("memory").registers(Arc::clone(&registers));
    let mut pair = Pair::new(server);
    let moved = |pair: &Pair| {
        let lanes = pair.server.accelerator_figures().expect("there is one").lanes;
        lanes.moved_to_acc + lanes.moved_to_host
    };
    let mut all = Vec::new();
    for (id, &there) in there.iter().enumerate() {
        registers.set_live("acc.units", if there { "1" } else { "0" }).expect("live");
        let before = moved(&pair);
        // PART's kernel alone reads the image of nobody else.
        let body = crate::rig::upload(|message| {
            message.set_id(id as u64);
            message.set_what(what::PART);
            message.part_mut()?.set_data(&[b'x'; 3000])
        });
        let reply = pair.call(&body).expect("none is lost");
        let arena = Arena::default();
        let stored = Stored::decode(&mut Decoder::default(), &reply, &arena).expect("a reply");
        assert_eq!((stored.id(), stored.part().expect("there").data()), (id as u64, &[!b'x'; 3000][..]));
        all.push(moved(&pair) - before);
    }
    let (on_units, on_host) = store.ran();
    assert_eq!(on_units as usize, there.iter().filter(|there| **there).count(), "{on_host} on the host");
    all
}

/// With the unit, without, with it again, without: each long enough that the field's votes have calmed down.
fn comes_and_goes() -> Vec<bool> {
    (0..1200).map(|call| call / 300 % 2 == 0).collect()
}

#[test]
fn a_unit_that_comes_and_goes_makes_few_calls_slow_each_time() {
    let there = comes_and_goes();
    let moves = moves(true, &there);
    // The first call finds the field on the host. A turn makes the next one harder, so a change costs one call, then at most two.
    let slow: Vec<usize> = (0..moves.len()).filter(|&call| moves[call] > 0).collect();
    assert_eq!(slow[..2], [0, 300], "the first change costs one call");
    for change in [0, 300, 600, 900] {
        let of_change = slow.iter().filter(|&&call| (change..change + 300).contains(&call)).count();
        assert!((1..=2).contains(&of_change), "{of_change} slow calls after call {change}: {slow:?}");
        assert!(slow.iter().all(|call| call % 300 < 2), "and they are the first: {slow:?}");
    }
}

#[test]
fn without_automatic_field_updating_every_call_with_the_unit_moves_its_field() {
    let there = comes_and_goes();
    let moves = moves(false, &there);
    assert!(moves.iter().zip(&there).all(|(&moves, &there)| (moves == 1) == there));
}
