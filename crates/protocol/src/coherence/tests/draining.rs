//! Scenario: a box is drained under load, stopped, started again, and serves again. The rack is that of [`super::gaps`].

use super::super::client::Call;
use super::super::controller::Drain;
use super::super::{Compute, Config, Planted};
use super::gaps::{HOME, config, is_reply, rack_of, tor};
use super::world::{Fate, World};
use crate::wire::{Control, Opcode, Verb};
use base::Nanos;

/// Long enough for a controller to take over, and for heartbeats and tables.
const BEATS: Nanos = Nanos::from_millis(500);

fn incr(w: &mut World) -> Option<u64> {
    let op = w.call(0, Call::new(Verb::Incr, b"n").value(b"0").operand(1));
    w.settle();
    w.number(0, op)
}

/// A read of client 0, behind box 1, and who answered.
fn read(w: &mut World, key: &str) -> (Option<String>, bool) {
    let op = w.get(0, key);
    w.settle();
    (w.answer(0, op), w.by_box(0, op))
}

/// While box 1 has copies, owns a key, and a request of its is under way, it is to be stopped: nobody grants it anything any more, what it owned goes home, its
/// client goes round it, and when it is said to be drained nobody waits for it. Started again and ordered back, it serves.
pub(super) fn drained(planted: Option<Planted>) -> World {
    let mut w = rack_of(Config { compute: Compute::Own, ..config() }, planted).with_controllers(1);
    w.run(BEATS);
    w.write(2, "k", "old");
    read(&mut w, "k");
    expect!(w, "a copy", read(&mut w, "k"), (Some("old".to_string()), true));
    let counted: Vec<_> = (0..4).map(|_| incr(&mut w)).collect();
    expect!(w, "counted", counted, vec![Some(0), Some(1), Some(2), Some(3)]);
    expect!(w, "owner", w.owner("n"), Some(1));
    // On its way to the home, with box 1's token.
    w.write(2, "late", "v");
    w.script(|_, to, m, _| {
        let is_late = *to == HOME && m.key == b"late" && m.header.opcode == Opcode::Request(Verb::Get);
        if is_late { Fate::Held } else { Fate::Arrives }
    });
    w.get(0, "late");
    w.settle();
    w.well();

    w.drain(&[1]);
    w.run(Nanos::from_millis(20));
    expect!(w, "left to the home", (w.owner("n"), w.ownership()[2]), (None, 0));
    expect!(w, "nothing here", (w.copies(1), w.drain_of(1)), (0, Some(Drain::Waiting)));
    // The first request finds out, the others go round.
    read(&mut w, "k");
    expect!(w, "goes round", w.clients[0].goes_round(), true);
    w.script(|_, to, _, _| if *to == tor(1) { Fate::Held } else { Fate::Arrives });
    expect!(w, "round it", read(&mut w, "k"), (Some("old".to_string()), false));
    expect!(w, "counted round it", incr(&mut w), Some(4));
    w.well();
    w.release();
    // Just when it is said: what was granted to the late request would run for 20 ms more.
    w.run(Nanos::from_millis(490));
    expect!(w, "drained", w.drain_of(1), Some(Drain::Drained));

    // Stopped: nobody asks it, nobody waits.
    w.crash_box(1);
    let before = w.heard(Control::Invalidate);
    w.script(|_, to, m, _| {
        let asks = *to == tor(1) && !matches!(m.header.opcode, Opcode::Control(Control::Heartbeat));
        if asks { Fate::Held } else { Fate::Arrives }
    });
    expect!(w, "written", w.write(0, "k", "new"), "Ok".to_string());
    expect!(w, "read", read(&mut w, "k"), (Some("new".to_string()), false));
    expect!(w, "counted", incr(&mut w), Some(5));
    expect!(w, "nobody was asked", (w.heard(Control::Invalidate) - before, w.held_messages().len()), (0, 0));
    w.well();
    w.run(Nanos::from_millis(600));
    expect!(w, "still", w.drain_of(1), Some(Drain::Drained));

    w.restart_box(1);
    w.run(BEATS);
    expect!(w, "not before the order", read(&mut w, "k").1, false);
    w.drain(&[]);
    w.run(Nanos::from_millis(600));
    expect!(w, "no more", w.drain_of(1), None);
    read(&mut w, "k");
    expect!(w, "goes by it again", w.clients[0].goes_round(), false);
    read(&mut w, "k");
    expect!(w, "a copy again", read(&mut w, "k"), (Some("new".to_string()), true));
    w
}

/// A reply that was under way to a box that is drained meanwhile is answered, and not kept.
pub(super) fn late_grant(planted: Option<Planted>) -> World {
    let mut w = rack_of(config(), planted).with_controllers(1);
    w.run(BEATS);
    w.write(2, "k", "v");
    w.script(
        |from, _, m, _| if *from == HOME && is_reply(m, Verb::Get) { Fate::Held } else { Fate::Arrives },
    );
    let op = w.get(0, "k");
    w.settle();
    w.well();
    w.drain(&[1]);
    w.run(Nanos::from_millis(2));
    w.release();
    w.settle();
    expect!(w, "answered", w.answer(0, op), Some("v".to_string()));
    expect!(w, "kept", w.copies(1), 0);
    // It never was at home of what it did not take.
    w.run(Nanos::from_millis(800));
    expect!(w, "drained", w.drain_of(1), Some(Drain::Drained));
    w
}

/// The controller that made the tables dies: the next goes on, and says *drained* no sooner.
pub(super) fn another_controller(planted: Option<Planted>) -> World {
    let mut w = rack_of(config(), planted).with_controllers(2);
    w.run(BEATS);
    w.drain(&[1, 4]);
    w.run(BEATS);
    w.script(|from, to, _, _| {
        let first = super::super::NodeId::Controller(0);
        if *from == first || *to == first { Fate::Lost } else { Fate::Arrives }
    });
    w.run(Nanos::from_millis(800));
    expect!(w, "active", w.controllers[1].is_active(), true);
    w.run(Nanos::from_millis(800));
    expect!(w, "drained", [1, 4].map(|id| w.drain_of(id)), [Some(Drain::Drained); 2]);
    w.well();
    w.run(Nanos::from_millis(300));
    expect!(w, "others", w.drain_of(2), None);
    w
}

scenarios! { drained late_grant another_controller }
