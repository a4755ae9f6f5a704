//! A datagram either is refused, or its frame is written back as it was read and its text means commands.
//!
//! `cargo +nightly fuzz run memcache_udp`
#![no_main]

#[path = "../../crates/protocol/tests/trace/mod.rs"]
mod trace;

use libfuzzer_sys::fuzz_target;
use protocol::memcache::udp::{FRAME_LEN, Frame, datagrams};

fuzz_target!(|datagram: &[u8]| {
    let Ok((frame, text)) = Frame::parse(datagram) else { return };
    assert_eq!(frame.emit()[..6], datagram[..6], "all fields but the reserved one");
    assert_eq!(text, &datagram[FRAME_LEN..]);
    trace::holds_in_pieces(text, 64, &[1, 7]);
    let parts: Vec<&[u8]> = datagrams(frame.request_id, text, 100).expect("few datagrams").map(|p| p.1).collect();
    assert_eq!(parts.concat(), text);
});
