//! Arbitrary bytes as a claim on a chain: none, or the same when it is written again.
//!
//! `cargo +nightly fuzz run chain_claim`
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::chain::Claim;

fuzz_target!(|bytes: &[u8]| {
    if let Some(claim) = Claim::parse(bytes) {
        assert_eq!(claim.to_bytes(), bytes);
        assert!(claim.make().check().is_ok());
    }
});
