//! Arbitrary text as a .proto file compiles, or is an error with a place; never a panic.
//!
//! `cargo +nightly fuzz run codec_proto`; a corpus to start from: `crates/codec/tests/proto/google/protobuf`.
#![no_main]

use codec::compile::Compiler;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Compiler::new().source("fuzz.proto", text).compile(&["fuzz.proto"]);
});
