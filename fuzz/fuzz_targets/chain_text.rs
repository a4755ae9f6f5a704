//! Arbitrary text as a transaction: refused at a column that is there, or shown and read again as it was.
//!
//! `cargo +nightly fuzz run chain_text`
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::chain::Transaction;

fuzz_target!(|text: &str| {
    match text.parse::<Transaction>() {
        Ok(transaction) => assert_eq!(transaction.to_string().parse(), Ok(transaction)),
        Err(error) => assert!((1..=text.chars().count() + 1).contains(&error.column), "{error}"),
    }
});
