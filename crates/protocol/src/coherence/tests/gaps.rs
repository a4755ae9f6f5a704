//! Scenarios: one for each gap of the published protocol (G1 to G11).
//!
//! The rack: boxes 1, 2, 3 are ToRs with a client each, box 4 is above them, the home is behind box 3.

use super::super::client::Call;
use super::super::{Compute, Config, NodeId, Planted, Policy};
use super::world::{DELAY, Fate, World};
use crate::wire::{BoxId, Control, Epoch, HomeId, Message, Opcode, Verb};
use base::Nanos;

/// What a scenario finds wrong; it does the same with and without a mistake in the machines.
pub(super) type Scenario = fn(Option<Planted>) -> World;

pub(super) fn config() -> Config {
    Config { copies: 64, fills: 64, compute: Compute::AtHome, ..Config::default() }
}

pub(super) fn rack_of(config: Config, planted: Option<Planted>) -> World {
    World::new(config, planted, (3, 1, 1), 0)
}

pub(super) fn rack(planted: Option<Planted>) -> World {
    rack_of(config(), planted)
}

pub(super) fn is(message: &Message, what: Control) -> bool {
    message.header.opcode == Opcode::Control(what)
}

pub(super) fn is_reply(message: &Message, verb: Verb) -> bool {
    message.header.opcode == Opcode::Reply(verb)
}

pub(super) const R: NodeId = NodeId::Box(BoxId(4));
pub(super) const HOME: NodeId = NodeId::Home(HomeId(1));
pub(super) const fn tor(id: u16) -> NodeId {
    NodeId::Box(BoxId(id))
}

/// A hit above: the box below it is a child, and hears of a write (G1). One invalidation per box and write (G8), none for a second
/// write (G9).
pub(super) fn sibling(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    expect!(w, "read", [w.copies(1), w.copies(4), w.copies(3)], [0; 3]);
    for (c, from_box) in [(0, false), (0, true), (1, true)] {
        let op = w.get(c, "k");
        w.settle();
        expect!(w, "read", w.answer(c, op), Some("old".to_string()));
        expect!(w, "by a box", w.by_box(c, op), from_box);
    }
    expect!(w, "copies", [1, 2, 3, 4].map(|id| w.copies(id)), [1; 4]);
    let before = w.heard(Control::Invalidate);
    w.write(2, "k", "new");
    w.run(Nanos::from_millis(2));
    expect!(w, "copies", [1, 2, 3, 4].map(|id| w.copies(id)), [0; 4]);
    // The home asks 1, 3 and 4; 4 asks 2.
    expect!(w, "invalidations", w.heard(Control::Invalidate) - before, 4);
    w.write(2, "k", "newer");
    expect!(w, "no more", w.heard(Control::Invalidate) - before, 4);
    for c in 0..3 {
        let value = w.read(c, "k");
        expect!(w, "afterwards", value, "newer".to_string());
    }
    w
}

/// A reply that was under way while its key was written fills nothing (G2).
pub(super) fn late_fill(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.script(
        |from, _, m, _| if *from == HOME && is_reply(m, Verb::Get) { Fate::Held } else { Fate::Arrives },
    );
    let slow = w.get(0, "k");
    w.settle();
    expect!(w, "written", w.write(2, "k", "new"), "Ok".to_string());
    w.well();
    w.release();
    w.settle();
    expect!(w, "the old one began before", w.answer(0, slow), Some("old".to_string()));
    expect!(w, "copies", [1, 3, 4].map(|id| w.copies(id)), [0; 3]);
    expect!(w, "afterwards", w.read(0, "k"), "new".to_string());
    w
}

/// The same reply twice, the second after the key was written and read again (G11).
pub(super) fn reply_twice(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.script(
        |from, _, m, _| if *from == HOME && is_reply(m, Verb::Get) { Fate::Held } else { Fate::Arrives },
    );
    w.get(0, "k");
    w.settle();
    let copy = w.held_messages();
    w.well();
    w.release();
    w.settle();
    w.write(2, "k", "new");
    for (from, to, message) in copy {
        w.put(w.now.plus(DELAY), from, to, message);
    }
    w.settle();
    expect!(w, "copies", [1, 3, 4].map(|id| w.copies(id)), [0; 3]);
    w
}

/// While a write waits for an answer, reads at the home see what was before it and fill nothing (G2).
pub(super) fn read_while_writing(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    // Box 3's answer is slow, that of others is not.
    w.script(
        |from, _, m, _| {
            if *from == tor(3) && is(m, Control::InvalidateAck) { Fate::Held } else { Fate::Arrives }
        },
    );
    let write = w.set(2, "k", "new");
    w.settle();
    expect!(w, "waits", w.answer(2, write), None);
    expect!(w, "what was before", w.read(1, "k"), "old".to_string());
    expect!(w, "copies", [1, 2, 3, 4].map(|id| w.copies(id)), [0; 4]);
    w.well();
    w.release();
    w.settle();
    expect!(w, "done", w.answer(2, write), Some("Ok".to_string()));
    expect!(w, "afterwards", w.read(1, "k"), "new".to_string());
    w
}

/// Writes of a key are done one after the other (G3).
pub(super) fn two_writers(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    // A box of which nothing is heard: its copy stays.
    let copy_stays = |_: &NodeId, to: &NodeId, m: &Message| *to == tor(1) && is(m, Control::Invalidate);
    w.script(move |from, to, m, _| if copy_stays(from, to, m) { Fate::Lost } else { Fate::Arrives });
    let first = w.set(1, "k", "one");
    w.settle();
    let second = w.set(2, "k", "two");
    w.settle();
    expect!(w, "wait", [w.answer(1, first), w.answer(2, second)], [None, None]);
    w.run(w.config.lease);
    w.well();
    expect!(w, "done", [w.answer(1, first).is_some(), w.answer(2, second).is_some()], [true; 2]);
    expect!(w, "in order", w.read(0, "k"), "two".to_string());
    w
}

/// An answer to an earlier round does not count for a later one (G3, G8).
pub(super) fn old_answer(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    w.script(
        |from, _, m, _| {
            if *from == tor(1) && is(m, Control::InvalidateAck) { Fate::Held } else { Fate::Arrives }
        },
    );
    w.set(2, "k", "new");
    // The invalidation is sent again; two answers are under way, one arrives.
    w.run(Nanos::from_millis(8));
    let late = w.held_messages().pop();
    w.well();
    w.release();
    w.settle();
    w.read(0, "k");
    w.script(
        |_, to, m, _| if *to == tor(1) && is(m, Control::Invalidate) { Fate::Lost } else { Fate::Arrives },
    );
    let second = w.set(2, "k", "newer");
    w.settle();
    let (from, to, message) = late.expect("it was answered twice");
    w.put(w.now.plus(DELAY), from, to, message);
    w.settle();
    expect!(w, "waits", w.answer(2, second), None);
    w.run(w.config.lease);
    expect!(w, "done", w.answer(2, second), Some("Ok".to_string()));
    w
}

/// An upper box answers when those below it have (G1).
pub(super) fn slow_child(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    w.read(1, "k");
    w.script(
        |_, to, m, _| if *to == tor(2) && is(m, Control::Invalidate) { Fate::Held } else { Fate::Arrives },
    );
    let write = w.set(2, "k", "new");
    w.settle();
    expect!(w, "waits", w.answer(2, write), None);
    expect!(w, "its copy is good", w.read(1, "k"), "old".to_string());
    w.well();
    w.release();
    w.settle();
    expect!(w, "done", w.answer(2, write), Some("Ok".to_string()));
    w
}

/// An invalidation of an earlier write arrives late at an upper box, whose children answer it while it grants again.
pub(super) fn doubled_invalidation(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    w.script(|_, to, m, _| if *to == R && is(m, Control::Invalidate) { Fate::Held } else { Fate::Arrives });
    w.set(2, "k", "new");
    w.settle();
    let late = w.held_messages();
    w.well();
    w.release();
    w.settle();
    // Boxes 4 and 1 have it by the home, box 2 by 4.
    w.read(0, "k");
    w.read(1, "k");
    w.script(|from, to, m, _| {
        if *from == tor(2) && *to == R && is(m, Control::InvalidateAck) { Fate::Held } else { Fate::Arrives }
    });
    for (from, to, message) in late {
        w.put(w.now.plus(DELAY), from, to, message);
    }
    w.settle();
    // Box 4 has nothing and waits for 2. It gets it again by 1, which drops its own; then 2 asks.
    w.drop_copy(1);
    w.read(0, "k");
    w.read(1, "k");
    w.well();
    w.release();
    w.settle();
    expect!(w, "written", w.write(2, "k", "newer"), "Ok".to_string());
    expect!(w, "afterwards", w.read(1, "k"), "newer".to_string());
    w
}

/// Two boxes that the home granted the same key are both asked.
pub(super) fn second_sharer(planted: Option<Planted>) -> World {
    let mut w = rack_of(Config { policy: Policy::Exclusive, ..config() }, planted);
    w.write(2, "k", "old");
    for c in [0, 1] {
        w.read(c, "k");
    }
    expect!(w, "copies", [1, 2, 3, 4].map(|id| w.copies(id)), [1, 1, 0, 0]);
    expect!(w, "written", w.write(2, "k", "new"), "Ok".to_string());
    expect!(w, "afterwards", [w.read(0, "k"), w.read(1, "k")], ["new".to_string(), "new".to_string()]);
    w
}

/// A box that evicted a copy answers its invalidation, and knows its children still (G4).
pub(super) fn eviction_at_box(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    w.read(1, "k");
    w.drop_copy(4);
    expect!(w, "written", w.write(2, "k", "new"), "Ok".to_string());
    expect!(w, "afterwards", w.read(1, "k"), "new".to_string());
    w
}

/// An exclusive upper box gives its copy up to the one below, and stays as its directory.
pub(super) fn exclusive(planted: Option<Planted>) -> World {
    let mut w = rack_of(Config { policy: Policy::Exclusive, ..config() }, planted);
    w.write(2, "k", "old");
    w.read(2, "k");
    expect!(w, "at the home's ToR", [1, 3, 4].map(|id| w.copies(id)), [0, 1, 0]);
    expect!(w, "by box 3", w.read(0, "k"), "old".to_string());
    expect!(w, "below it", [1, 3, 4].map(|id| w.copies(id)), [1, 0, 0]);
    expect!(w, "written", w.write(2, "k", "new"), "Ok".to_string());
    expect!(w, "afterwards", w.read(0, "k"), "new".to_string());
    w
}

/// What changes nothing is answered by a box; what changes something is not (G5).
pub(super) fn computed(planted: Option<Planted>) -> World {
    let mut w = rack_of(Config { compute: Compute::TryFirst, ..config() }, planted);
    w.write(2, "n", "50");
    w.read(0, "n");
    let put = |w: &mut World, n| {
        let op = w.call(0, Call::new(Verb::CondPut, b"n").operand(n));
        w.settle();
        (w.answer(0, op), w.number(0, op), w.by_box(0, op))
    };
    let answer = put(&mut w, 40);
    expect!(w, "not put, by the box", answer, (Some("NotStored".into()), Some(50), true));
    let answer = put(&mut w, 60);
    expect!(w, "put, by the home", answer, (Some("Ok".into()), Some(60), false));
    expect!(w, "afterwards", w.read(1, "n"), "60".to_string());
    w
}

/// A packet that meets a box with another table goes straight to the home, and fills nothing (G10). One whose next box is dead
/// does the same (F7).
pub(super) fn other_table(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    let mut table = Message::new(Opcode::Control(Control::Table), &[]);
    table.header.epoch = Epoch(1 << 16);
    table.header.operand = u64::MAX;
    w.put(w.now, NodeId::Controller(0), R, table.clone());
    w.settle();
    expect!(w, "read", w.read(0, "k"), "old".to_string());
    expect!(w, "not kept", [1, 3, 4].map(|id| w.copies(id)), [0; 3]);
    for id in 1..=3 {
        w.put(w.now, NodeId::Controller(0), tor(id), table.clone());
    }
    w.settle();
    w.neighbour_is_down(1, 4);
    expect!(w, "round it", w.read(0, "k"), "old".to_string());
    expect!(w, "not kept", [1, 3, 4].map(|id| w.copies(id)), [0; 3]);
    expect!(w, "another way", w.read(1, "k"), "old".to_string());
    expect!(w, "kept", [2, 3, 4].map(|id| w.copies(id)), [1; 3]);
    w
}

scenarios! {
    sibling late_fill reply_twice read_while_writing two_writers old_answer slow_child doubled_invalidation
    second_sharer eviction_at_box exclusive computed other_table
}
