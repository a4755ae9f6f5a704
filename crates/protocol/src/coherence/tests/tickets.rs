//! Scenarios: a client of another protocol, at the home itself. The rack is that of [`super::gaps`].

use super::super::client::Call;
use super::super::{Compute, Config, Planted};
use super::gaps::{config, is, rack, rack_of, tor};
use super::world::{Fate, World};
use crate::wire::{Control, HomeId, Verb, Version};
use base::Nanos;

fn some(text: &str) -> Option<String> {
    Some(text.to_string())
}

/// What is invalidated at box 1 does not arrive.
fn cut_off(w: &mut World) {
    w.script(
        |_, to, m, _| if *to == tor(1) && is(m, Control::Invalidate) { Fate::Held } else { Fate::Arrives },
    );
}

fn well_again(w: &mut World) {
    w.well();
    w.release();
    w.settle();
}

/// A write by ticket waits for copies, as one by packet; a read does not wait for it. Nobody holds copies: all is done at once.
pub(super) fn copies_first(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    let set = w.ask_set("k", "old");
    expect!(w, "at once", w.reply(set), some("Ok"));
    expect!(w, "seen by packet", w.read(0, "k"), "old".to_string());
    cut_off(&mut w);
    let set = w.ask_set("k", "new");
    w.settle();
    expect!(w, "waits", w.reply(set), None);
    let get = w.ask_get("k");
    expect!(w, "not yet", (w.reply(get), w.read(0, "k")), (some("old"), "old".to_string()));
    well_again(&mut w);
    expect!(w, "done", w.reply(set), some("Ok"));
    expect!(w, "seen", w.read(0, "k"), "new".to_string());
    let get = w.ask_get("k");
    expect!(w, "seen by ticket", w.reply(get), some("new"));
    w
}

/// Packets and tickets of a key are done in the order in which they came.
pub(super) fn in_turn(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "n", "10");
    w.read(0, "n");
    cut_off(&mut w);
    let by_packet = w.call(2, Call::new(Verb::Append, b"n").value(b"1").operand(9));
    w.settle();
    let incr = w.ask(1, Call::new(Verb::Incr, b"n").operand(1));
    let second = w.call(1, Call::new(Verb::Append, b"n").value(b"3").operand(9));
    w.settle();
    let add = w.ask(1, Call::new(Verb::Add, b"n").value(b"5"));
    let over = (w.answer(2, by_packet), w.reply(incr), w.answer(1, second), w.reply(add));
    expect!(w, "all wait", over, (None, None, None, None));
    well_again(&mut w);
    let over = (w.answer(2, by_packet), w.reply(incr), w.answer(1, second), w.reply(add));
    expect!(w, "in turn", over, (some("Ok"), some("102"), some("Ok"), some("Exists")));
    expect!(w, "seen", w.read(0, "n"), "1023".to_string());
    w
}

/// A read by ticket of what the store has evicted waits for copies: what is gone stays gone.
fn evicted(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    w.evicts = true;
    w.evict("k");
    cut_off(&mut w);
    let get = w.ask_get("k");
    w.settle();
    expect!(w, "waits", (w.reply(get), w.read(0, "k")), (None, "old".to_string()));
    well_again(&mut w);
    expect!(w, "gone", (w.reply(get), w.read(0, "k")), (some("Miss"), "Miss".to_string()));
    w
}

/// A key that a box owns comes back before it is read or counted by ticket.
pub(super) fn of_owned_keys(planted: Option<Planted>) -> World {
    let mut w = rack_of(Config { compute: Compute::Own, ..config() }, planted);
    w.write(2, "n", "10");
    for (what, number) in [(Call::new(Verb::Get, b"n"), "14"), (Call::new(Verb::Incr, b"n").operand(1), "19")]
    {
        for _ in 0..4 {
            w.call(0, Call::new(Verb::Incr, b"n").operand(1));
            w.settle();
        }
        expect!(w, "owner", w.owner("n"), Some(1));
        let asked = w.ask(1, what);
        w.settle();
        expect!(w, "here", w.owner("n"), None);
        expect!(w, "all counted", w.reply(asked), some(number));
    }
    w
}

/// A key that is lost with its owner is gone for tickets, too, and not before the lease is over.
fn owner_dies(planted: Option<Planted>) -> World {
    let mut w = rack_of(Config { compute: Compute::Own, ..config() }, planted);
    w.write(2, "n", "10");
    for _ in 0..3 {
        w.call(0, Call::new(Verb::Incr, b"n").operand(1));
        w.settle();
    }
    expect!(w, "owner", w.owner("n"), Some(1));
    w.crash_box(1);
    let get = w.ask_get("n");
    w.run(Nanos::from_millis(400));
    expect!(w, "waits", w.reply(get), None);
    w.run(Nanos::from_millis(200));
    expect!(w, "gone", w.reply(get), some("Miss"));
    w
}

/// A box that died has copies until its lease is over.
fn dead_box(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    w.crash_box(1);
    let set = w.ask_set("k", "new");
    w.run(Nanos::from_millis(400));
    expect!(w, "waits", w.reply(set), None);
    w.run(Nanos::from_millis(200));
    expect!(w, "done", w.reply(set), some("Ok"));
    w
}

/// After a restart nothing is done by ticket before the earlier life's leases are over.
pub(super) fn after_a_crash(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.read(0, "k");
    w.crash_home(1);
    w.restart_home(1);
    let get = w.ask_get("k");
    let add = w.ask(1, Call::new(Verb::Add, b"k").value(b"new"));
    w.run(Nanos::from_millis(400));
    expect!(w, "silence", (w.reply(get), w.reply(add)), (None, None));
    expect!(w, "copies serve", w.read(0, "k"), "old".to_string());
    w.run(Nanos::from_millis(200));
    expect!(w, "gone, and made", (w.reply(get), w.reply(add)), (some("Miss"), some("Ok")));
    expect!(w, "seen", w.read(0, "k"), "new".to_string());
    w
}

/// Versions rise, whoever writes.
pub(super) fn one_counter(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    let mut last = Version(0);
    for turn in 0..4 {
        w.write(2, "k", &format!("by packet {turn}"));
        let get = w.ask_get("k");
        let set = w.ask_set("k", &format!("by ticket {turn}"));
        expect!(w, "higher", last < w.version_of(get) && w.version_of(get) < w.version_of(set), true);
        last = w.version_of(set);
    }
    w
}

/// A flush by ticket empties all boxes, and waits for flushes that wait.
fn flush(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    let flush = w.ask(1, Call::flush(HomeId(1)));
    expect!(w, "nothing to wait for", w.reply(flush), some("Ok"));
    w.write(2, "k", "old");
    w.read(0, "k");
    cut_off(&mut w);
    let by_packet = w.call(2, Call::flush(HomeId(1)));
    w.settle();
    let flush = w.ask(1, Call::flush(HomeId(1)));
    w.settle();
    expect!(w, "waits", (w.reply(flush), w.read(0, "k")), (None, "old".to_string()));
    well_again(&mut w);
    expect!(w, "done", (w.reply(flush), w.answer(2, by_packet)), (some("Ok"), some("Ok")));
    expect!(w, "gone", w.read(0, "k"), "Miss".to_string());
    w
}

/// Without room to wait it is refused, and not done later. A key of another home is refused, too.
fn bounds(planted: Option<Planted>) -> World {
    let mut w = rack_of(Config { queue: 3, queue_per_key: 2, ..config() }, planted);
    for key in ["j", "k", "l"] {
        w.write(2, key, "old");
        w.read(0, key);
    }
    cut_off(&mut w);
    let [first, second, third] = ["1", "2", "3"].map(|value| w.ask_set("k", value));
    let [other, flush] = [w.ask_set("j", "4"), w.ask(1, Call::flush(HomeId(1)))];
    let free = w.ask_set("n", "nobody has it");
    let replies = [third, flush, free].map(|asked| w.reply(asked));
    expect!(w, "refused", replies, [some("Busy"), some("Busy"), some("Ok")]);
    expect!(w, "wait", [first, second, other].map(|asked| w.reply(asked)), [None, None, None]);
    well_again(&mut w);
    expect!(w, "done", (w.read(1, "k"), w.read(1, "j")), ("2".to_string(), "4".to_string()));
    expect!(w, "over", w.tickets_under_way(), 0);
    let mut two = World::new(config(), planted, (3, 1, 2), 0);
    let asked = [1, 2].map(|home| two.ask(home, Call::new(Verb::Set, b"k").value(b"v")));
    let at_home = usize::from(two.home_of("k").0) - 1;
    let replies = asked.map(|asked| two.reply(asked));
    expect!(w, "its home", &replies[at_home], &some("Ok"));
    expect!(w, "another", &replies[1 - at_home], &some("NotHome"));
    w
}

scenarios! {
    copies_first in_turn evicted of_owned_keys owner_dies dead_box after_a_crash one_counter flush bounds
}
