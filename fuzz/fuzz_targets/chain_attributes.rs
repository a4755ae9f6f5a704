//! Arbitrary bytes beside a memcached item in a chain: no attributes, or the same when they are written again.
//!
//! `cargo +nightly fuzz run chain_attributes`
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::chain::attributes::Attributes;

fuzz_target!(|bytes: &[u8]| {
    if let Some(attributes) = Attributes::parse(bytes) {
        assert_eq!(attributes.to_bytes(), bytes);
    }
});
