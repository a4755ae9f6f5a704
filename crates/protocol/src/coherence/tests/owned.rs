//! Scenarios: a box that owns a key, and all that can come between. The rack is that of [`super::gaps`]; `n` is a number that client 0,
//! behind box 1, counts up.

use super::super::client::{Call, OpId};
use super::super::{Compute, Config, NodeId, Planted};
use super::gaps::{HOME, config, is, is_reply, rack_of, tor};
use super::world::{DELAY, Fate, World};
use crate::wire::{ClientId, Control, Flags, HomeId, Message, Opcode, Round, Verb};
use base::Nanos;

const CLIENT_0: NodeId = NodeId::Client(ClientId(1));

fn rack(planted: Option<Planted>) -> World {
    let mut w = rack_of(Config { compute: Compute::Own, ..config() }, planted);
    w.write(2, "n", "10");
    w
}

fn incr(w: &mut World, c: usize) -> OpId {
    w.call(c, Call::new(Verb::Incr, b"n").operand(1))
}

/// The number after one more, and whether a box counted.
fn count(w: &mut World, c: usize) -> (Option<u64>, bool) {
    let op = incr(w, c);
    w.settle();
    (w.number(c, op), w.by_box(c, op))
}

/// Box 1 owns `n`, which is 12: the home has given it away with the second answer.
fn owned(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    expect!(w, "by the home", [count(&mut w, 0), count(&mut w, 0)], [(Some(11), false), (Some(12), false)]);
    expect!(w, "owner", w.owner("n"), Some(1));
    w
}

fn is_grant(m: &Message) -> bool {
    m.header.flags.contains(Flags::OWNED)
}

/// An owner counts by itself, and answers reads; whoever else wants the key gets it by the home.
pub(super) fn counting(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    for n in 13..20 {
        expect!(w, "by the owner", count(&mut w, 0), (Some(n), true));
    }
    let read = w.get(0, "n");
    w.settle();
    expect!(w, "read", (w.answer(0, read), w.by_box(0, read)), (Some("19".into()), true));
    let add = w.call(0, Call::new(Verb::Add, b"n").value(b"1"));
    w.settle();
    expect!(w, "a try", (w.answer(0, add), w.by_box(0, add)), (Some("Exists".into()), true));
    let put = w.call(0, Call::new(Verb::CondPut, b"n").operand(3));
    w.settle();
    expect!(w, "not put", (w.answer(0, put), w.by_box(0, put)), (Some("NotStored".into()), true));
    expect!(w, "nobody was asked", w.heard(Control::Invalidate), 0);
    expect!(w, "elsewhere", w.read(1, "n"), "19".to_string());
    expect!(w, "taken back", w.owner("n"), None);
    expect!(w, "by the home", count(&mut w, 1), (Some(20), false));
    expect!(w, "read", w.read(0, "n"), "20".to_string());
    w
}

/// Two boxes do not take a key from each other with every write.
pub(super) fn no_ping_pong(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    for n in 0..6 {
        expect!(w, "by the home", count(&mut w, n % 2), (Some(11 + n as u64), false));
        expect!(w, "owner", w.owner("n"), None);
    }
    // A read by the same box is no reason not to give it the key.
    w.read(1, "n");
    count(&mut w, 1);
    w.read(1, "n");
    count(&mut w, 1);
    expect!(w, "owner", w.owner("n"), Some(2));
    w
}

/// Half a lease later the owner gives the key back by itself.
pub(super) fn given_back(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    count(&mut w, 0);
    w.run(Nanos::from_millis(240));
    expect!(w, "still", w.owner("n"), Some(1));
    w.run(Nanos::from_millis(20));
    expect!(w, "not asked for", (w.owner("n"), w.heard(Control::Invalidate)), (None, 0));
    expect!(w, "returned", [w.heard(Control::Return), w.heard(Control::ReturnAck)], [1, 1]);
    expect!(w, "elsewhere", w.read(1, "n"), "13".to_string());
    w
}

/// What was under way when the key was given away comes to its owner, who need not give it back.
pub(super) fn under_way(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    count(&mut w, 0);
    let ops: Vec<_> = (0..6).map(|_| incr(&mut w, 0)).collect();
    let read = w.get(0, "n");
    w.settle();
    let numbers: Vec<_> = ops.iter().filter_map(|op| w.number(0, *op)).collect();
    expect!(w, "each once", numbers, (12..=17).collect::<Vec<_>>());
    expect!(w, "read", w.answer(0, read), Some("17".to_string()));
    expect!(w, "kept", (w.owner("n"), w.heard(Control::Invalidate)), (Some(1), 0));
    w
}

/// The box never hears that it owns the key.
pub(super) fn grant_lost(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    count(&mut w, 0);
    w.script(|_, _, m, _| if is_grant(m) { Fate::Lost } else { Fate::Arrives });
    let second = incr(&mut w, 0);
    w.run(Nanos::from_millis(20));
    expect!(w, "answered when asked again", w.number(0, second), Some(12));
    expect!(w, "owner", w.owner("n"), Some(1));
    expect!(w, "elsewhere", w.read(1, "n"), "12".to_string());
    expect!(w, "once each", count(&mut w, 0), (Some(13), false));
    // And if nobody wants it: the home asks in time.
    count(&mut w, 0);
    w.run(Nanos::from_millis(400));
    w.well();
    expect!(w, "asked for", w.owner("n"), None);
    expect!(w, "elsewhere", w.read(1, "n"), "14".to_string());
    w
}

/// The grant comes when the key was taken back: it is void.
pub(super) fn late_grant(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    count(&mut w, 0);
    w.script(|_, _, m, _| if is_grant(m) { Fate::Held } else { Fate::Arrives });
    let second = incr(&mut w, 0);
    w.settle();
    expect!(w, "elsewhere", w.read(1, "n"), "12".to_string());
    w.well();
    w.release();
    w.settle();
    expect!(w, "answered", w.number(0, second), Some(12));
    expect!(w, "owner", w.owner("n"), None);
    expect!(w, "by the home", count(&mut w, 1), (Some(13), false));
    expect!(w, "read", w.read(0, "n"), "13".to_string());
    w
}

/// What is returned is sent until it comes; who asked for it waits.
pub(super) fn return_lost(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    count(&mut w, 0);
    w.script(|_, _, m, _| if is(m, Control::Return) { Fate::Lost } else { Fate::Arrives });
    let read = w.get(1, "n");
    w.run(Nanos::from_millis(30));
    expect!(w, "waits", w.answer(1, read), None);
    w.well();
    w.run(Nanos::from_millis(100));
    expect!(w, "returned", w.answer(1, read), Some("13".to_string()));
    // The same with the answer to it: it is not taken for another.
    for _ in 0..2 {
        count(&mut w, 0);
    }
    expect!(w, "owner", w.owner("n"), Some(1));
    w.script(|_, _, m, _| if is(m, Control::ReturnAck) { Fate::Lost } else { Fate::Arrives });
    expect!(w, "elsewhere", w.read(1, "n"), "15".to_string());
    expect!(w, "by the home", count(&mut w, 1), (Some(16), false));
    w.well();
    w.run(Nanos::from_millis(100));
    expect!(w, "afterwards", w.read(2, "n"), "16".to_string());
    w
}

/// A client that hears nothing from the owner asks the home, which learns what the owner did.
pub(super) fn repeated_at_home(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    w.script(|from, to, m, _| {
        let lost = *from == tor(1) && *to == CLIENT_0 && is_reply(m, Verb::Incr);
        if lost { Fate::Lost } else { Fate::Arrives }
    });
    let third = incr(&mut w, 0);
    w.run(Nanos::from_millis(20));
    expect!(w, "the owner's answer", w.number(0, third), Some(13));
    expect!(w, "once", w.read(1, "n"), "13".to_string());
    w
}

/// The first copy of a write comes to the owner after the home did it; doubled ones come after the owner did.
pub(super) fn late_first_copies(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.script(|from, to, m, _| {
        let first = *from == CLIENT_0 && *to == tor(1) && m.header.opcode == Opcode::Request(Verb::Incr);
        if first { Fate::Held } else { Fate::Arrives }
    });
    let first = incr(&mut w, 0);
    w.run(Nanos::from_millis(20));
    expect!(w, "by the home", w.number(0, first), Some(11));
    let copy = w.held_messages();
    w.well();
    let put = |w: &mut World| {
        for (from, to, message) in &copy {
            w.put(w.now.plus(DELAY), *from, *to, message.clone());
        }
        w.settle();
    };
    put(&mut w);
    expect!(w, "by the home", count(&mut w, 0), (Some(12), false));
    expect!(w, "owner", w.owner("n"), Some(1));
    put(&mut w);
    expect!(w, "it was done before", count(&mut w, 0), (Some(13), true));
    // Now of one that the owner did.
    w.script(|from, to, m, _| {
        let first = *from == CLIENT_0 && *to == tor(1) && m.header.opcode == Opcode::Request(Verb::Incr);
        if first { Fate::Twice } else { Fate::Arrives }
    });
    count(&mut w, 0);
    w.well();
    w.run(Nanos::from_millis(200));
    expect!(w, "done once", w.read(0, "n"), "14".to_string());
    expect!(w, "returned", w.read(1, "n"), "14".to_string());
    w.run(w.config.lease);
    w.run(w.config.lease);
    expect!(w, "for ever", w.read(1, "n"), "14".to_string());
    w
}

/// The owner dies: nothing older comes back, and what its clients repeat is not done twice.
pub(super) fn owner_dies(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    for n in 13..16 {
        expect!(w, "by the owner", count(&mut w, 0), (Some(n), true));
    }
    w.script(
        |_, to, m, _| {
            if *to == CLIENT_0 && is_reply(m, Verb::Incr) { Fate::Lost } else { Fate::Arrives }
        },
    );
    let unheard = incr(&mut w, 0);
    w.settle();
    w.crash_box(1);
    w.well();
    let read = w.get(1, "n");
    w.run(Nanos::from_millis(400));
    expect!(w, "waits", (w.answer(0, unheard), w.answer(1, read)), (None, None));
    w.run(Nanos::from_millis(200));
    expect!(w, "gone", w.answer(1, read), Some("Miss".to_string()));
    expect!(w, "not done again", w.answer(0, unheard), Some("Unknown".to_string()));
    expect!(w, "stored", w.write(1, "n", "0"), "Ok".to_string());
    expect!(w, "new", w.read(1, "n"), "0".to_string());
    expect!(w, "a new session", count(&mut w, 1), (Some(1), false));
    w
}

/// An owner that restarts at once does not say that it never had the key.
pub(super) fn owner_restarts(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    count(&mut w, 0);
    w.crash_box(1);
    w.restart_box(1);
    let read = w.get(1, "n");
    w.run(Nanos::from_millis(450));
    expect!(w, "waits", w.answer(1, read), None);
    w.run(Nanos::from_millis(100));
    expect!(w, "gone", w.answer(1, read), Some("Miss".to_string()));
    w
}

/// An owner that is cut off from the home serves for half a lease and no longer.
pub(super) fn owner_cut_off(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    w.script(|from, to, _, _| {
        let cut = [(tor(1), HOME), (HOME, tor(1))].contains(&(*from, *to));
        if cut { Fate::Lost } else { Fate::Arrives }
    });
    expect!(w, "by the owner", count(&mut w, 0), (Some(13), true));
    let read = w.get(1, "n");
    w.run(Nanos::from_millis(230));
    expect!(w, "by the owner", count(&mut w, 0), (Some(14), true));
    w.run(Nanos::from_millis(240));
    let late = incr(&mut w, 0);
    w.settle();
    expect!(w, "too late", (w.answer(0, late), w.answer(1, read)), (None, None));
    w.run(Nanos::from_millis(200));
    expect!(w, "gone", w.answer(1, read), Some("Miss".to_string()));
    expect!(w, "gone", w.answer(0, late), Some("Unknown".to_string()));
    w.well();
    w.run(Nanos::from_millis(100));
    expect!(w, "what comes too late is no more", w.read(1, "n"), "Miss".to_string());
    w
}

/// A flush waits for what is owned, as for copies.
pub(super) fn flush_while_owned(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    count(&mut w, 0);
    w.script(|_, _, m, _| if is(m, Control::Return) { Fate::Lost } else { Fate::Arrives });
    let (flush, read) = (w.call(1, Call::flush(HomeId(1))), w.get(2, "n"));
    w.run(Nanos::from_millis(10));
    expect!(w, "wait", (w.answer(1, flush), w.answer(2, read)), (None, None));
    w.well();
    w.run(Nanos::from_millis(100));
    expect!(w, "done", w.answer(1, flush), Some("Ok".to_string()));
    expect!(w, "over", w.answer(2, read).is_some(), true);
    expect!(w, "gone", [w.read(0, "n"), w.read(1, "n")], ["Miss".to_string(), "Miss".to_string()]);
    expect!(w, "owner", w.owner("n"), None);
    w
}

/// A store cannot evict what is not in it.
pub(super) fn evicted_while_owned(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    w.evict("n");
    count(&mut w, 0);
    expect!(w, "there", w.read(1, "n"), "13".to_string());
    w
}

/// A home that crashes loses what its boxes own, too; the box serves it for a while yet.
pub(super) fn home_crash_while_owned(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    w.crash_home(1);
    w.restart_home(1);
    expect!(w, "by the owner", count(&mut w, 0), (Some(13), true));
    w.run(Nanos::from_millis(600));
    expect!(w, "gone", [w.read(0, "n"), w.read(1, "n")], ["Miss".to_string(), "Miss".to_string()]);
    expect!(w, "its session is gone, too", w.write(2, "n", "1"), "Unknown".to_string());
    expect!(w, "stored", w.write(2, "n", "1"), "Ok".to_string());
    expect!(w, "read", w.read(0, "n"), "1".to_string());
    w
}

/// Of a session that the grant does not name only the home can judge.
pub(super) fn unknown_session(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    let mut stranger = Message::request(Verb::Incr, b"n");
    let header = &mut stranger.header;
    (header.client, header.home, header.flags, header.operand) = (ClientId(77), HomeId(1), Flags::OWNABLE, 5);
    header.operation.0 = 1;
    for round in [0, 1, u64::MAX] {
        stranger.header.round = Round(round);
        w.put(w.now, NodeId::Client(ClientId(77)), tor(1), stranger.clone());
    }
    w.settle();
    expect!(w, "not counted, not taken back", count(&mut w, 0), (Some(13), true));
    w
}

/// What the network doubles the owner does once.
pub(super) fn doubled(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    w.script(|from, _, _, _| if *from == CLIENT_0 { Fate::Held } else { Fate::Arrives });
    let third = incr(&mut w, 0);
    w.settle();
    let copies = w.held_messages();
    w.well();
    for _ in 0..2 {
        w.release();
        w.settle();
        expect!(w, "the same answer", w.number(0, third), Some(13));
        for (from, to, message) in copies.clone() {
            w.put(w.now.plus(DELAY), from, to, message);
        }
        w.settle();
    }
    expect!(w, "once", count(&mut w, 0), (Some(14), true));
    w
}

/// Who gave a key back does not answer for it while another owns it.
pub(super) fn two_owners(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    expect!(w, "by the owner", count(&mut w, 0), (Some(13), true));
    expect!(w, "taken back", count(&mut w, 1), (Some(14), false));
    expect!(w, "by the home", count(&mut w, 0), (Some(15), false));
    expect!(w, "read", w.read(1, "n"), "15".to_string());
    w
}

/// What the owner answered has the version that the home goes on from.
pub(super) fn returned_version(planted: Option<Planted>) -> World {
    let mut w = owned(planted);
    let op = incr(&mut w, 0);
    w.settle();
    let version = |w: &World, c: usize, op: OpId| match w.outcomes.get(&(c, op)) {
        Some(Ok(answer)) => Some(answer.version),
        _ => None,
    };
    let by_owner = version(&w, 0, op);
    let read = [0, 1].map(|c| {
        let read = w.get(c, "n");
        w.settle();
        version(&w, c, read)
    });
    expect!(w, "as it was answered", read, [by_owner; 2]);
    // What nobody has: the home's, which it does not give an owner.
    let other = w.set(2, "other", "1");
    w.settle();
    expect!(w, "one version each", version(&w, 2, other) > by_owner, true);
    w
}

/// An owner gives the key back when it can remember no more, and may have it again.
pub(super) fn many(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    let (mut by_box, mut last) = (0, None);
    for _ in 0..1200 {
        let op = incr(&mut w, 0);
        w.run(Nanos::from_micros(100));
        by_box += u32::from(w.by_box(0, op));
        last = w.number(0, op);
    }
    expect!(w, "each once", last, Some(1210));
    expect!(w, "most by the owner", by_box > 1180, true);
    expect!(w, "given back when full", w.heard(Control::Return), 2);
    expect!(w, "elsewhere", w.read(1, "n"), "1210".to_string());
    w
}

scenarios! {
    counting no_ping_pong given_back under_way grant_lost late_grant return_lost repeated_at_home
    late_first_copies owner_dies owner_restarts owner_cut_off flush_while_owned evicted_while_owned
    home_crash_while_owned unknown_session doubled two_owners returned_version many
}
