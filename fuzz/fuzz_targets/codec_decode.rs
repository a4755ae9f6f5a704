//! Arbitrary bytes as a message of protobuf's own test schemas: every way to decode gives the same verdict and the same
//! values within the same memory limits, every serialiser writes the same bytes, and those decode to the same values.
//!
//! The first byte of the input chooses the message. `cargo +nightly fuzz run codec_decode`;
//! `crates/codec/tests/differential` checks the same on random schemas in `cargo test`.
#![no_main]

#[path = "../../crates/codec/tests/differential/ours.rs"]
mod ours;
#[path = "../../crates/codec/tests/differential/read.rs"]
mod read;
#[path = "../../crates/codec/tests/differential/serialisers.rs"]
mod serialisers;
#[path = "../../crates/codec/tests/differential/tree.rs"]
mod tree;
#[path = "../../crates/codec/tests/differential/wire.rs"]
#[allow(dead_code, reason = "the writer is the tests'")]
mod wire;

use codec::compile::Compiler;
use codec::decode::Limits;
use libfuzzer_sys::fuzz_target;
use ours::Ours;
use std::sync::LazyLock;

const CLASSES: [(&str, &str); 5] = [
    ("test_messages_proto2", "protobuf_test_messages.proto2.TestAllTypesProto2"),
    ("test_messages_proto3", "protobuf_test_messages.proto3.TestAllTypesProto3"),
    ("test_messages_edition2023", "protobuf_test_messages.editions.TestAllTypesEdition2023"),
    ("test_messages_proto2", "protobuf_test_messages.proto2.TestAllRequiredTypesProto2"),
    ("test_messages_proto2_editions", "protobuf_test_messages.editions.proto2.TestAllTypesProto2"),
];

static OURS: LazyLock<Vec<Ours>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/codec/tests/proto");
    let compiler = Compiler::new().include(folder);
    let compiled = CLASSES.map(|(file, class)| {
        let set = compiler.descriptor_set(&[format!("google/protobuf/{file}.proto")]).expect("it compiles");
        Ours::new(&set, class)
    });
    compiled.into()
});

fuzz_target!(|input: &[u8]| {
    let Some((&which, bytes)) = input.split_first() else { return };
    if let Err(why) = OURS[usize::from(which) % OURS.len()].check(bytes, Limits::default()) {
        panic!("{why}");
    }
});
