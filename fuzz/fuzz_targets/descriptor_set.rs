//! Arbitrary bytes as a descriptor set: refused, or a schema whose table keeps its own rules; never a panic.
//!
//! `cargo +nightly fuzz run descriptor_set`; `crates/codec/src/schema/tests/layout.rs` checks more of the table in `cargo test`.
#![no_main]

use codec::schema::Schema;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(schema) = Schema::from_descriptor_set(input) else { return };
    let table = schema.table();
    for names in schema.messages() {
        let message = table.message(names.class);
        for (index, (entry, field)) in table.entries(message).iter().zip(&names.fields).enumerate() {
            assert_eq!(table.find(message, field.number), Some(index));
            assert!(entry.offset as usize + entry.slot() <= message.size as usize);
        }
    }
    assert!(!table.describe(&schema).is_empty());
});
