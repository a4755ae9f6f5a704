//! Arbitrary bytes as a descriptor set are a schema with a table, or an error; never a panic, and never much more memory than
//! their length. Start it from real sets: `crates/codec/tests/proto` compiled, see `codec_proto`.
//!
//! `cargo +nightly fuzz run codec_schema -- -malloc_limit_mb=512`
#![no_main]

use codec::decode::Decoder;
use codec::memory::Arena;
use codec::schema::{Catalog, Schema};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|set: &[u8]| {
    if let Ok(catalog) = Catalog::of(&[set, set]) {
        let services: Vec<&str> = catalog.services().collect();
        for service in services {
            let file = catalog.file_of_symbol(service).expect("where it is declared");
            let files = catalog.with_imports(file);
            assert!(files[0] == file && files.iter().all(|&file| catalog.bytes(file).len() <= set.len()));
        }
    }
    let Ok(schema) = Schema::from_descriptor_set(set) else { return };
    let table = schema.table();
    assert_eq!(table.classes() as usize, schema.messages().len());
    for message in schema.messages() {
        let line = table.message(message.class);
        assert_eq!(usize::from(line.fields), message.fields.len());
        for (index, field) in message.fields.iter().enumerate() {
            assert_eq!(table.find(line, field.number), Some(index), "{}", field.name);
        }
        // The set's own bytes are as good a message as any.
        let _ = Decoder::default().owned(&table, message.class, set, &Arena::default());
    }
    assert!(!table.describe(&schema).is_empty());
});
