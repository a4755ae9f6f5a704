//! Arbitrary bytes as a message of a chain, or as a configuration in a registry: refused, or read and written back as they were.
//!
//! The first byte of the input says whether length and sum are made good first, without which nothing else is looked at.
//! `cargo +nightly fuzz run chain_message`
#![no_main]

mod dress;

use libfuzzer_sys::fuzz_target;
use protocol::chain::{Configuration, wire};

fuzz_target!(|input: &[u8]| {
    let Some((good, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if good & 1 == 0 {
        dress::chain_message(&mut bytes);
    }
    if let Ok((chain, message)) = wire::parse(&bytes) {
        let mut again = Vec::new();
        wire::emit(chain, &message, &mut again);
        assert_eq!(again, bytes);
        let _ = format!("{message:?}");
    }
    if let Ok((chain, configuration)) = Configuration::from_bytes(&bytes) {
        assert_eq!(configuration.to_bytes(chain), bytes);
    }
});
