//! Scenarios: homes whose stores take time. The rack is that of [`super::gaps`].

use super::super::Planted;
use super::super::client::Call;
use super::super::home::late::{How, Unknown};
use super::gaps::{config, rack_of};
use super::world::World;
use crate::wire::{HomeId, Verb};
use base::Nanos;

fn rack(planted: Option<Planted>) -> World {
    rack_of(config(), planted).slow(0.0)
}

const LONG: Nanos = Nanos::from_secs(100);

fn some(text: &str) -> Option<String> {
    Some(text.to_string())
}

/// While a write is with the store, by packet or ticket, reads are answered and nobody keeps a copy.
pub(super) fn while_under_way(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    for by_ticket in [false, true] {
        (1..=4).for_each(|id| w.drop_copy(id));
        w.stall(LONG);
        // The store has taken the read first, and its answer comes when the write has followed it.
        let get = w.get(0, "k");
        w.settle();
        if by_ticket {
            w.ask_set("k", "by ticket");
        } else {
            w.set(2, "k", "by packet");
        }
        w.settle();
        w.end_first(How::Done);
        w.settle();
        expect!(w, "what it was", w.answer(0, get).is_some(), true);
        expect!(w, "no copies", [1, 2, 3, 4].map(|id| w.copies(id)), [0; 4]);
        w.end_first(How::Done);
        w.stall(Nanos::ZERO);
        let now = if by_ticket { "by ticket" } else { "by packet" };
        expect!(w, "seen", [w.read(0, "k"), w.read(0, "k")], [now; 2].map(String::from));
        expect!(w, "a copy", w.copies(1), 1);
    }
    w
}

/// A write that may still be done: its key is copied again when a later one was done.
pub(super) fn unknown(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.stall(LONG);
    let set = w.ask_set("k", "late");
    w.end_first(How::Unknown(Unknown::Later));
    expect!(w, "unknown", w.reply(set), some("Forgotten"));
    w.stall(Nanos::ZERO);
    expect!(w, "still the same", w.read(0, "k"), "old".to_string());
    expect!(w, "no copies", w.copies(1), 0);
    w.do_late();
    expect!(w, "done after all", w.read(0, "k"), "late".to_string());
    w.write(2, "k", "new");
    expect!(w, "new", w.read(0, "k"), "new".to_string());
    expect!(w, "a copy", w.copies(1), 1);
    w
}

/// The same of a flush: of nothing are there copies before a later one was done.
fn unknown_flush(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "k", "old");
    w.stall(LONG);
    let flush = w.ask(1, Call::flush(HomeId(1)));
    w.end_first(How::Unknown(Unknown::Later));
    w.stall(Nanos::ZERO);
    expect!(w, "unknown", w.reply(flush), some("Forgotten"));
    expect!(w, "no copies", (w.read(0, "k"), w.copies(1)), ("old".to_string(), 0));
    w.do_late();
    w.write(2, "k", "new");
    expect!(w, "no copies", (w.read(0, "k"), w.copies(1)), ("new".to_string(), 0));
    let flush = w.call(2, Call::flush(HomeId(1)));
    w.settle();
    expect!(w, "flushed", (w.answer(2, flush), w.read(0, "k")), (some("Ok"), "Miss".to_string()));
    w.write(2, "k", "newer");
    expect!(w, "a copy", (w.read(0, "k"), w.copies(1)), ("newer".to_string(), 1));
    w
}

/// A write that may have been done is not done again when its client asks again; one that was not, is.
pub(super) fn asked_again(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    w.write(2, "n", "10");
    w.stall(LONG);
    let incr = w.call(0, Call::new(Verb::Incr, b"n").operand(1));
    w.settle();
    w.end_first(How::NotDone);
    w.stall(Nanos::ZERO);
    w.run(Nanos::from_millis(100));
    expect!(w, "counted", w.number(0, incr), Some(11));
    w.stall(LONG);
    w.call(0, Call::new(Verb::Incr, b"n").operand(1));
    w.settle();
    w.end_first(How::Unknown(Unknown::Done));
    w.stall(Nanos::ZERO);
    w.run(Nanos::from_secs(3));
    expect!(w, "once", (w.under_way(), w.read(1, "n")), (0, "12".to_string()));
    w
}

scenarios! {
    while_under_way unknown unknown_flush asked_again
}
