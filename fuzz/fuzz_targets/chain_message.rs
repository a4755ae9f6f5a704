//! Arbitrary bytes as a message of a chain, or as a configuration in a registry: refused, or read and written back as they were.
//!
//! The first byte of the input says whether length and sum are made good first, without which nothing else is looked at.
//! `cargo +nightly fuzz run chain_message`
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::chain::{Configuration, wire};

/// Makes bytes worth reading.
fn dress(bytes: &mut [u8]) {
    if bytes.len() < wire::HEADER {
        return;
    }
    bytes[4..6].copy_from_slice(&wire::MAGIC);
    bytes[6] = wire::VERSION;
    bytes[7] %= wire::STORED_CONFIGURATION + 1;
    let length = (bytes.len() - wire::HEADER) as u32;
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}

fuzz_target!(|input: &[u8]| {
    let Some((good, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if good & 1 == 0 {
        dress(&mut bytes);
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
