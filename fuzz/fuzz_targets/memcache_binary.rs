//! Arbitrary bytes on a connection that speaks the binary protocol, arbitrarily split, mean the same commands as in one piece; and none makes the parser
//! panic, stand still or ask for more than its bound. What is refused has a reply that fits its room. The first bytes of the input choose the splits.
//!
//! `cargo +nightly fuzz run memcache_binary`; `crates/protocol/tests/splits.rs` checks the same property in `cargo test`.
#![no_main]

#[path = "../../crates/protocol/tests/trace/mod.rs"]
mod trace;

use libfuzzer_sys::fuzz_target;
use protocol::memcache::binary::{HEADER_LEN, REQUEST_MAGIC};
use protocol::memcache::emit::{Reply, SMALL_BOUND};
use protocol::memcache::{Asks, Binary, Command, Parser, Step};
use trace::holds_in_pieces;

const MAX_VALUE: usize = 64;
const SPLITS: usize = 4;

fuzz_target!(|input: &[u8]| {
    let Some((splits, bytes)) = input.split_first_chunk::<SPLITS>() else { return };
    let bytes = [&[REQUEST_MAGIC], bytes].concat();
    holds_in_pieces(&bytes, MAX_VALUE, splits);
    let (mut parser, mut rest) = (Parser::new(MAX_VALUE), &bytes[..]);
    loop {
        match parser.next(rest) {
            Step::Command { command, consumed } => {
                let mut room = [0; SMALL_BOUND];
                let mut reply = Reply::to(&mut room, command.asked());
                if let Command::Binary(Binary { asks: Asks::Refused(line), .. }) = command {
                    reply.line(line);
                    let said = reply.written();
                    assert!(said.len() >= HEADER_LEN && said[1] == rest[1] && said[12..16] == rest[12..16]);
                }
                rest = &rest[consumed..];
            }
            Step::Skip { consumed } => rest = &rest[consumed..],
            Step::Login { .. } => unreachable!("nobody logs in here"),
            Step::Incomplete { .. } | Step::Close { .. } => return,
        }
    }
});
