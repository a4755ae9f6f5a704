//! Arbitrary bytes as what a message says of homes that moved: they are refused, or give the same bytes again, and a book that learns them has no address of
//! two nodes; a box that hears them as a table goes by them whole or not at all, and a controller as an answer.
//!
//! `cargo +nightly fuzz run cache_homes`
#![no_main]

use base::Nanos;
use libfuzzer_sys::fuzz_target;
use protocol::coherence::moved::Moved;
use protocol::coherence::ranges::Ranges;
use protocol::coherence::table::Layout;
use protocol::coherence::{Book, CacheBox, Config, Controller, Life, NodeId, Out};
use protocol::wire::{BoxId, Control, Epoch, HomeId, Incarnation, Kind, Message, Opcode};
use std::net::SocketAddr;
use std::sync::Arc;

fuzz_target!(|input: (u8, &[u8], &[u8])| {
    let homes = 1 + u16::from(input.0 % 4);
    let layout = Arc::new(Layout::two_levels(1, 0, homes, 8).expect("a layout"));
    let nodes = (1..=homes).map(|id| NodeId::Home(HomeId(id))).chain([NodeId::Box(BoxId(1))]);
    let at = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
    let mut book = Book::new(nodes.clone().zip((1..).map(at))).expect("they differ");
    for bytes in [input.1, input.2] {
        let Some((moved, rest)) = Moved::split(bytes, &layout) else { continue };
        assert_eq!([&moved.to_bytes(), rest].concat(), bytes);
        book.learn(&moved);
        assert!(!book.learn(&moved), "nothing of it is news");
        for node in nodes.clone() {
            let address = book.address_of(node).expect("nobody is forgotten");
            assert!(book.node_at(address).is_none_or(|at| at == node || book.address_of(at) == Some(address)));
        }
        assert_eq!(book.address_of(NodeId::Box(BoxId(1))), Some(at(homes + 1)));
        let config = Config { copies: 1, fills: 1, ..Config::default() };
        let life = (Incarnation(1), Life::First);
        let mut cache = CacheBox::new(&config, BoxId(1), layout.clone(), life, Nanos(1));
        let mut table = Message::new(Opcode::Control(Control::Table), &[]);
        (table.header.epoch, table.header.kind, table.value) = (Epoch(3), Kind::Homes, bytes.to_vec());
        let mut out = Out::new();
        cache.handle(Nanos(2), NodeId::Controller(0), &table, &mut out);
        let is_good = Ranges::from_bytes(rest, 8).is_some();
        assert_eq!(cache.table().epoch(), Epoch(if is_good { 3 } else { 0 }));
        assert_eq!(**cache.table().moved(), if is_good { moved.clone() } else { Moved::default() });
        let mut controller = Controller::new(&config, 0, 1, layout.clone(), Nanos(0));
        let mut answer = Message::new(Opcode::Control(Control::HeartbeatAck), &[]);
        (answer.header.kind, answer.value) = (Kind::Homes, bytes.to_vec());
        controller.handle(controller.next_deadline(), NodeId::Box(BoxId(1)), &answer, &mut out);
        assert_eq!(**controller.moved(), moved);
        assert!(controller.epoch() >= moved.newest() || !controller.is_active());
    }
});
