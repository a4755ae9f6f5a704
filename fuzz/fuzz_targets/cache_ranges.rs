//! Arbitrary bytes as the part of a registration table that says where copies may be kept: they are refused, or are ranges that give the same bytes
//! again and an answer for every slot; a box that hears them as a table goes by them whole or not at all.
//!
//! `cargo +nightly fuzz run cache_ranges`
#![no_main]

use base::Nanos;
use libfuzzer_sys::fuzz_target;
use protocol::coherence::ranges::Ranges;
use protocol::coherence::table::Layout;
use protocol::coherence::{CacheBox, Config, Life, NodeId, Out};
use protocol::wire::{BoxId, Control, Epoch, Incarnation, Message, Opcode};
use std::sync::Arc;

fuzz_target!(|input: (u8, &[u8])| {
    let slots = 1 << (input.0 % 17);
    let bytes = input.1;
    let ranges = Ranges::from_bytes(bytes, slots);
    if let Some(ranges) = &ranges {
        assert_eq!(ranges.to_bytes(), bytes);
        let said = ranges.iter().map(|range| u64::from(range.last - range.first) + 1).sum::<u64>();
        assert_eq!(ranges.slots().iter().sum::<u64>(), said);
        assert!(ranges.iter().all(|range| {
            [range.first, range.last].iter().all(|slot| ranges.of(usize::from(*slot)) == range.caching)
        }));
    }
    let layout = Arc::new(Layout::two_levels(1, 0, 1, slots).expect("a layout"));
    let config = Config { copies: 1, fills: 1, ..Config::default() };
    let mut cache = CacheBox::new(&config, BoxId(1), layout, (Incarnation(1), Life::First), Nanos(1));
    let mut table = Message::new(Opcode::Control(Control::Table), &[]);
    (table.header.epoch, table.value) = (Epoch(3), bytes.to_vec());
    let mut out = Out::new();
    cache.handle(Nanos(2), NodeId::Controller(0), &table, &mut out);
    assert_eq!(cache.table().epoch(), Epoch(if ranges.is_some() { 3 } else { 0 }));
    assert_eq!(out.len(), 1);
});
