//! Scenario: keys that some boxes may not keep, by the table, and who is told of their writes all the same.

use super::super::home::items::Tree;
use super::super::ranges::{Caching, Range, Ranges};
use super::super::table::Layout;
use super::super::{CacheBox, Home, Life, NodeId, Out, Planted};
use super::gaps::{HOME, config, is, is_reply, rack, tor};
use super::world::World;
use crate::wire::{
    BoxId, ClientId, Control, Epoch, Flags, HomeId, Incarnation, Kind, Message, OpNumber, Opcode, Status,
    Verb, Version,
};
use base::Nanos;
use std::sync::Arc;

const CLIENT: NodeId = NodeId::Client(ClientId(1));
const NOW: Nanos = Nanos(2);

fn layout(caching: Caching) -> Arc<Layout> {
    let ranges = Ranges::new(vec![Range { first: 0, last: 7, caching }], 8).expect("ranges");
    Arc::new(Layout::two_levels(1, 0, 1, 8).expect("a layout").with_ranges(ranges).expect("its boxes"))
}

fn request(verb: Verb) -> Message {
    let mut message = Message::request(verb, if verb == Verb::Session { b"" } else { b"k" });
    (message.header.client, message.header.home) = (ClientId(1), HomeId(1));
    message
}

/// What the box asks the home for: whether it would keep it.
fn asks_to_keep(cache: &mut CacheBox<Option<Planted>>, epoch: u32) -> (bool, Message) {
    let mut out = Out::new();
    cache.handle(NOW, CLIENT, &request(Verb::Get), &mut out);
    let (to, asked) = out.pop().expect("it misses");
    assert_eq!((to, asked.header.epoch), (HOME, Epoch(epoch)));
    (asked.header.sharers.token_of(BoxId(1)).is_some(), asked)
}

fn table(epoch: u32, ranges: &Ranges) -> Message {
    let mut table = Message::new(Opcode::Control(Control::Table), &[]);
    (table.header.epoch, table.header.operand, table.header.kind) = (Epoch(epoch), 1, Kind::Table);
    table.value = ranges.to_bytes();
    table
}

/// A box keeps what the table in force lets it, gives up what a newer one does not, and whoever was granted a copy is told of a write.
pub(super) fn kept_and_told(planted: Option<Planted>) -> World {
    let mut w = rack(planted);
    let life = (Incarnation(1), Life::First);
    let nowhere = layout(Caching::Nowhere);
    let mut cache = CacheBox::with_bugs(&config(), BoxId(1), nowhere.clone(), life, Nanos(1), planted);
    expect!(w, "nowhere", asks_to_keep(&mut cache, 0).0, false);
    let mut out = Out::new();
    let mut count = request(Verb::Incr);
    count.header.flags = Flags::OWNABLE;
    cache.handle(NOW, CLIENT, &count, &mut out);
    expect!(w, "owned nowhere", out.pop().expect("it goes home").1.header.sharers.is_empty(), true);

    // A newer table allows it; the home's file still does not.
    cache.handle(NOW, NodeId::Controller(0), &table(3, &Ranges::default()), &mut out);
    let (keeps, asked) = asks_to_keep(&mut cache, 3);
    expect!(w, "everywhere", keeps, true);
    let mut home =
        Home::with_bugs(&config(), HomeId(1), nowhere.clone(), life, Nanos(1), Tree::new(8), planted);
    out.clear();
    home.handle(NOW, CLIENT, &request(Verb::Session), &mut out);
    let session = out.pop().expect("an answer").1.header.round;
    for (operation, value) in [(1, "old"), (2, "new")] {
        let mut write = request(Verb::Set);
        (write.header.round, write.header.operation) = (session, OpNumber(operation));
        write.value = value.into();
        out.clear();
        home.handle(NOW, CLIENT, &write, &mut out);
        if operation == 1 {
            out.clear();
            home.handle(NOW, tor(1), &asked, &mut out);
            let (to, granted) = out.pop().expect("a grant");
            expect!(w, "granted", to == tor(1) && granted.header.deadline_us > 0, true);
            cache.handle(NOW, HOME, &granted, &mut out);
            expect!(w, "kept", cache.copies().count(), 1);
        }
    }
    let told = out.iter().any(|(to, said)| *to == tor(1) && is(said, Control::Invalidate));
    expect!(w, "told", (told, out.iter().any(|(_, said)| is_reply(said, Verb::Set))), (true, false));

    // A table that makes no sense changes nothing; one that forbids it has the copy given up, and a fill that is under way.
    let mut nonsense = table(4, &Ranges::default());
    nonsense.value = vec![9; 16];
    cache.handle(NOW, NodeId::Controller(0), &nonsense, &mut out);
    expect!(w, "epoch", cache.table().epoch(), Epoch(3));
    cache.evict_all();
    let (_, asked) = asks_to_keep(&mut cache, 3);
    let mut late = asked.reply(Status::Ok);
    (late.value, late.header.version, late.header.deadline_us) = (b"v".to_vec(), Version(9), 500_000);
    cache.handle(NOW, NodeId::Controller(0), &table(5, nowhere.ranges()), &mut out);
    cache.handle(NOW, HOME, &late, &mut out);
    expect!(w, "kept against the table", cache.copies().count(), 0);
    w
}

scenarios! { kept_and_told }
