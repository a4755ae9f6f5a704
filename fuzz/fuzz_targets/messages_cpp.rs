//! Arbitrary text as a value file of HyperProtoBench: taken or refused with a line, and what is taken is a message that the codec decodes and writes
//! again byte for byte.
//!
//! The reader's two files are part of this target, since the crate that has them brings servers with it.
//!
//! `cargo +nightly fuzz run messages_cpp`
#![no_main]
#![allow(dead_code)]

#[path = "../../crates/plan/src/messages/cpp.rs"]
mod cpp;
#[path = "../../crates/plan/src/messages/tree.rs"]
mod tree;

use codec::compile::Compiler;
use codec::decode::Decoder;
use codec::encode::Encoder;
use codec::memory::Arena;
use codec::schema::Schema;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const PROTO: &str = "syntax = \"proto2\"; message M1 { optional bytes f1 = 2; optional int32 f2 = 3; message M2 { \
    optional double f1 = 1; repeated uint64 f2 = 4; repeated M1 f3 = 5; } optional M2 f3 = 6; enum E1 { E1_CONST_1 = 8; \
    E1_CONST_2 = 108; } optional E1 f4 = 9; optional float f5 = 10; optional bool f6 = 11; optional sint64 f7 = 12; \
    repeated bytes f8 = 13; optional fixed32 f9 = 14; }";

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| Compiler::new().source("t.proto", PROTO).compile(&["t.proto"]).expect("it is right"));

fuzz_target!(|body: &str| {
    let text = format!("int M1_Set_F1(M1* message, M1* other_message, std::string* serialized) {{\n{body}\n  return 0;\n}}\n");
    let found = match cpp::messages(&text, &SCHEMA) {
        Ok(found) => found,
        Err(why) => return assert!(why.contains("line") || why.contains("M") || why.contains("bytes"), "{why}"),
    };
    let table = SCHEMA.table();
    for (_, message) in found {
        let (class, wire) = (message.class(0), message.wire(&SCHEMA));
        let arena = Arena::default();
        let view = Decoder::default().owned(&table, class, &wire, &arena).expect("what was written is a message");
        // SAFETY: decoded as this class of this table.
        let again = unsafe { Encoder::default().encoded(&table, class, view).expect("what was decoded").to_vec() };
        // An enum's number that is none of its values is an unknown field, which comes last.
        let mut sorted = [again, wire];
        sorted.iter_mut().for_each(|bytes| bytes.sort_unstable());
        assert_eq!(sorted[0], sorted[1]);
    }
});
