//! Arbitrary bytes as an in-network packet: refused, or read and written back as they were, but for the padding's content.
//!
//! The first byte of the input says whether magic, version, hash and sum are made good first, without which nothing else is
//! looked at; the second whether the codes are. `cargo +nightly fuzz run inc_packet`
#![no_main]

mod dress;

use libfuzzer_sys::fuzz_target;
use protocol::wire::{Packet, is_packet};

fuzz_target!(|input: &[u8]| {
    let Some((&[good, codes], bytes)) = input.split_first_chunk::<2>() else { return };
    let mut bytes = bytes.to_vec();
    if good & 1 == 0 {
        dress::packet(&mut bytes, codes & 1 == 0);
    }
    let Ok(packet) = Packet::parse(&bytes) else { return };
    assert!(is_packet(&bytes));
    let message = packet.to_message();
    let mut again = Vec::new();
    message.emit(&mut again);
    let said = bytes.len() - packet.padding();
    assert_eq!(again.len(), bytes.len());
    assert_eq!(again[..said], bytes[..said]);
    let read = Packet::parse(&again).expect("it was written here");
    assert_eq!(read.to_message(), message);
    let _ = format!("{message:?}");
});
