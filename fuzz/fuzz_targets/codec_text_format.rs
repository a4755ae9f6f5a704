//! Arbitrary text as a message in text format: refused with a place in the text, or a message within the memory limits that encodes,
//! decodes as the same, and reads back from what it prints as.
//!
//! The first byte chooses the message. `cargo +nightly fuzz run codec_text_format`; random messages of random schemas are in
//! `crates/codec/tests/differential`.
#![no_main]

#[path = "../../crates/codec/tests/differential/read.rs"]
#[allow(dead_code, reason = "the differential test reads more")]
mod read;
#[path = "../../crates/codec/tests/differential/text.rs"]
mod text;
#[path = "../../crates/codec/tests/differential/tree.rs"]
mod tree;
#[path = "../../crates/codec/tests/differential/wire.rs"]
#[allow(dead_code, reason = "the writer is the tests'")]
mod wire;

use codec::compile::Compiler;
use codec::schema::Types;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use text::{Format, check};

const FILES: [&str; 3] = ["test_messages_proto2", "test_messages_proto3", "test_messages_edition2023"];
const CLASSES: [&str; 5] = [
    "protobuf_test_messages.proto3.TestAllTypesProto3",
    "protobuf_test_messages.proto2.TestAllTypesProto2",
    "protobuf_test_messages.editions.TestAllTypesEdition2023",
    "google.protobuf.Value",
    "google.protobuf.Any",
];

static TYPES: LazyLock<Types> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/codec/tests/proto");
    let files = FILES.map(|file| format!("google/protobuf/{file}.proto"));
    Types::new(Compiler::new().include(folder).compile(&files).expect("they compile"))
});

fuzz_target!(|input: &str| {
    let Some(first) = input.chars().next() else { return };
    let class = CLASSES[first as usize % CLASSES.len()];
    let class = TYPES.schema().class(class).expect("it is in these files");
    if let Err(why) = check(Format::Text, &TYPES, class, &input[first.len_utf8()..]) {
        panic!("{why}");
    }
});
