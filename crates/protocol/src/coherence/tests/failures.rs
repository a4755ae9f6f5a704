//! Scenarios: one for each failure, and for what time does to leases and lives. The rack is that of [`super::gaps`].

use super::super::client::Call;
use super::super::{Config, NodeId, Planted};
use super::gaps::{HOME, R, config, is, is_reply, rack, rack_of, tor};
use super::world::{DELAY, Fate, World};
use crate::wire::{BoxId, ClientId, Control, HomeId, Message, Opcode, Round, Token, Ttl, Verb, Version};
use base::Nanos;

const CLIENT_1: ClientId = ClientId(1);

/// A dead box delays a write until its lease is over, and no longer; its clients go round it (F7).
pub(super) fn dead_box(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    w.script(
        |from, to, _, _| {
            if *to == tor(1) && *from != NodeId::Client(CLIENT_1) { Fate::Lost } else { Fate::Arrives }
        },
    );
    let write = w.set(2, "k", "new");
    w.run(Nanos::from_millis(400));
    expect!(w, "waits for the lease", w.answer(2, write), None);
    w.run(Nanos::from_millis(100));
    expect!(w, "done", w.answer(2, write), Some("Ok".to_string()));
    w.crash_box(1);
    let read = w.get(0, "k");
    w.run(Nanos::from_millis(10));
    expect!(w, "past its box", w.answer(0, read), Some("new".to_string()));
    w.restart_box(1);
    w.well();
    expect!(w, "cold", w.read(0, "k"), "new".to_string());
    w
}

/// An upper box that lost its directory does not answer for the children of its earlier life.
pub(super) fn forgotten_children(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    w.read(1, "k");
    expect!(w, "a child", w.copies(2), 1);
    w.crash_box(4);
    w.restart_box(4);
    let write = w.set(2, "k", "new");
    w.settle();
    w.run(Nanos::from_millis(50));
    expect!(w, "waits", w.answer(2, write), None);
    w.run(w.config.lease);
    expect!(w, "done", w.answer(2, write), Some("Ok".to_string()));
    w
}

/// A lease is counted from when its token was given, and a reply may be slow.
pub(super) fn slow_reply(planted: Option<Planted>) -> World {
    let mut w = rack_of(Config { fill_patience: Nanos::from_secs(1), ..config() }, planted);
    w.call(2, Call { life: Nanos::from_millis(450), ..Call::new(Verb::Set, b"short").value(b"lived") });
    w.write(2, "k", "old");
    w.script(|from, to, m, _| {
        let slow = *from == R && *to == tor(1) && is_reply(m, Verb::Get);
        if slow { Fate::Late(Nanos::from_millis(300)) } else { Fate::Arrives }
    });
    w.get(0, "k");
    w.get(0, "short");
    w.settle();
    w.script(
        |_, to, m, _| if *to == tor(1) && is(m, Control::Invalidate) { Fate::Lost } else { Fate::Arrives },
    );
    w.run(Nanos::from_millis(310));
    expect!(w, "copies", w.copies(1), 2);
    let write = w.set(2, "k", "new");
    w.run(Nanos::from_millis(300));
    expect!(w, "done", w.answer(2, write), Some("Ok".to_string()));
    expect!(w, "copies", w.copies(1), 0);
    w
}

/// A child's lease ends with that of the box above it.
pub(super) fn short_lease_below(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    w.run(Nanos::from_millis(300));
    w.read(1, "k");
    w.script(|_, to, m, _| if *to == R && is(m, Control::Invalidate) { Fate::Lost } else { Fate::Arrives });
    let write = w.set(2, "k", "new");
    w.run(Nanos::from_millis(250));
    expect!(w, "done", w.answer(2, write), Some("Ok".to_string()));
    expect!(w, "afterwards", w.read(1, "k"), "new".to_string());
    w
}

/// A reply that comes twice does not make the copy live longer.
pub(super) fn revalidation(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.script(
        |from, to, m, _| {
            if *from == R && *to == tor(1) && is_reply(m, Verb::Get) { Fate::Held } else { Fate::Arrives }
        },
    );
    w.get(0, "k");
    w.settle();
    let copy = w.held_messages();
    w.well();
    w.release();
    w.run(Nanos::from_millis(400));
    for (from, to, message) in copy {
        w.put(w.now.plus(DELAY), from, to, message);
    }
    w.script(
        |_, to, m, _| if *to == tor(1) && is(m, Control::Invalidate) { Fate::Lost } else { Fate::Arrives },
    );
    w.settle();
    let write = w.set(2, "k", "new");
    w.run(Nanos::from_millis(110));
    expect!(w, "done", w.answer(2, write), Some("Ok".to_string()));
    expect!(w, "afterwards", w.read(0, "k"), "new".to_string());
    w
}

/// A write that arrives again and again is done once, and answered as often.
pub(super) fn repeated_write(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "n", "10");
    w.script(|_, to, m, _| {
        let lost = matches!(to, NodeId::Client(_)) && is_reply(m, Verb::Incr);
        if lost { Fate::Lost } else { Fate::Arrives }
    });
    let incr = |w: &mut World, by| w.call(0, Call::new(Verb::Incr, b"n").operand(by));
    let first = incr(&mut w, 1);
    let second = incr(&mut w, 100);
    w.run(Nanos::from_millis(30));
    w.well();
    w.run(Nanos::from_millis(200));
    expect!(w, "done", [w.number(0, first), w.number(0, second)], [Some(11), Some(111)]);
    expect!(w, "once each", w.read(1, "n"), "111".to_string());
    w
}

/// A home that crashed serves when the leases of its earlier life are over; its versions go on.
pub(super) fn home_crash(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    for value in ["a", "b", "old"] {
        w.write(2, "k", value);
    }
    w.read(0, "k");
    w.crash_home(1);
    w.restart_home(1);
    expect!(w, "copies serve", w.read(0, "k"), "old".to_string());
    let write = w.call(2, Call::new(Verb::Add, b"k").value(b"new"));
    w.run(Nanos::from_millis(100));
    expect!(w, "silence", w.answer(2, write), None);
    expect!(w, "not older than what is there", w.read(0, "k"), "old".to_string());
    w.run(Nanos::from_millis(500));
    // Its session died with the home: whether it was done before is not known.
    expect!(w, "over", w.answer(2, write), Some("Unknown".to_string()));
    expect!(w, "gone", w.read(0, "k"), "Miss".to_string());
    expect!(w, "a new session", w.write(2, "k", "new"), "Ok".to_string());
    expect!(w, "afterwards", w.read(0, "k"), "new".to_string());
    w
}

/// A flush empties home and boxes, children included.
pub(super) fn flush(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    for key in ["j", "k"] {
        w.write(2, key, "old");
        w.read(0, key);
        w.read(1, key);
    }
    w.script(
        |_, to, m, _| if *to == tor(2) && is(m, Control::Invalidate) { Fate::Held } else { Fate::Arrives },
    );
    let flush = w.call(0, Call::flush(HomeId(1)));
    w.settle();
    expect!(w, "waits", w.answer(0, flush), None);
    expect!(w, "not yet", w.read(1, "k"), "old".to_string());
    w.well();
    w.release();
    w.settle();
    expect!(w, "done", w.answer(0, flush), Some("Ok".to_string()));
    for (c, key) in [(0, "j"), (1, "k"), (1, "j")] {
        expect!(w, "gone", w.read(c, key), "Miss".to_string());
    }
    w
}

/// Copies die before their item does, also those below.
pub(super) fn expiry(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.call(2, Call { life: Nanos::from_millis(100), ..Call::new(Verb::Set, b"k").value(b"short") });
    w.settle();
    w.read(0, "k");
    w.run(Nanos::from_millis(50));
    expect!(w, "alive", w.read(1, "k"), "short".to_string());
    w.run(Nanos::from_millis(50));
    expect!(w, "dead", [w.read(0, "k"), w.read(1, "k")], ["Miss".to_string(), "Miss".to_string()]);
    // Nobody has to be asked for what died.
    let before = w.heard(Control::Invalidate);
    w.write(2, "k", "new");
    expect!(w, "invalidations", w.heard(Control::Invalidate), before);
    w
}

/// What is stored to live as long as what was there before does; who says which version is to live on is heard only if it is there.
pub(super) fn kept_life(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    let (replace, touch) = (Call::new(Verb::Replace, b"k").value(b"later"), Call::new(Verb::Touch, b"k"));
    w.call(2, Call { life: Nanos::from_millis(100), ..Call::new(Verb::Set, b"k").value(b"short") });
    w.settle();
    w.read(0, "k");
    w.run(Nanos::from_millis(50));
    w.call(2, Call { life: Ttl::KEPT.nanos(), ..replace });
    w.call(2, Call { life: Ttl::KEPT.nanos(), ..touch.clone() });
    let other = w.call(2, Call { version: Version(1), ..touch });
    w.settle();
    expect!(w, "another version", w.answer(2, other), Some("Exists".to_string()));
    expect!(w, "alive", w.read(0, "k"), "later".to_string());
    w.run(Nanos::from_millis(60));
    expect!(w, "dead", [w.read(0, "k"), w.read(2, "k")], ["Miss".to_string(), "Miss".to_string()]);
    w
}

/// A home whose store evicts takes the copies back before it says that nothing is there.
pub(super) fn eviction_at_home(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.evicts = true;
    w.write(2, "k", "old");
    w.read(0, "k");
    w.evict("k");
    let past = w.call(2, Call { no_cache: true, ..Call::new(Verb::Get, b"k") });
    w.run(Nanos::from_millis(20));
    expect!(w, "gone", w.answer(2, past), Some("Miss".to_string()));
    expect!(w, "everywhere", w.read(0, "k"), "Miss".to_string());
    w
}

/// Whatever arrives wherever: nobody panics, and all goes on.
pub(super) fn nonsense(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    let nodes = [tor(1), R, HOME, NodeId::Client(CLIENT_1)];
    let opcodes = (0..=255u8).filter_map(Opcode::from_code);
    for opcode in opcodes {
        for key in [&b""[..], b"k", &[b'x'; 250], &[b'y'; 251]] {
            for extreme in [0, 1, u64::MAX] {
                let mut m = Message::new(opcode, key);
                m.header.round = Round(extreme);
                m.header.operand = extreme;
                m.header.version.0 = extreme;
                m.header.operation.0 = extreme;
                m.header.client = CLIENT_1;
                m.header.home = HomeId(extreme as u16 & 1);
                m.header.at = BoxId(extreme as u16);
                m.header.deadline_us = extreme as u32;
                m.header.hops = extreme as u8;
                m.header.sharers.push(BoxId(1 + (extreme as u16 & 0xff)), Token(extreme));
                for (from, to) in nodes.iter().flat_map(|from| nodes.iter().map(move |to| (*from, *to))) {
                    // An invalidation that nobody sent is obeyed; a table that no controller made is believed.
                    if !is(&m, Control::Table) {
                        w.put(w.now, from, to, m.clone());
                    }
                }
            }
        }
    }
    w.run(w.config.lease);
    w.run(w.config.lease);
    expect!(w, "written", w.write(2, "k", "new"), "Ok".to_string());
    expect!(w, "afterwards", w.read(0, "k"), "new".to_string());
    w
}

scenarios! {
    dead_box forgotten_children slow_reply short_lease_below revalidation repeated_write home_crash flush
    expiry kept_life eviction_at_home nonsense
}
