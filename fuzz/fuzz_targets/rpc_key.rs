//! Arbitrary bytes as a request whose key is looked for: it has one or is no message, whatever is asked for.
//!
//! `cargo +nightly fuzz run rpc_key`
#![no_main]

use codec::table::Kind;
use fabric::service::Key;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    let Some(kind) = Kind::from_number(kind % 19) else { return };
    let paths: [&'static [u32]; 3] = [&[1], &[2, 1], &[1, 1, 1]];
    for fields in paths {
        let key = Key { fields, kind };
        assert_eq!(key.of(bytes).is_ok(), key.hash(bytes).is_some());
    }
});
