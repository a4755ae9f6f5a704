//! Our compiler against protoc: the same schema from the same files.
//!
//! protoc is not needed to build or to test. Set `MILLRACE_PROTOC` to a command, such as `protoc` or
//! `python3 -m grpc_tools.protoc` (PyPI `grpcio-tools` carries one), and the comparison runs; else it says that it did not.
#![cfg(feature = "compile")]

use std::process::Command;

use codec::compile::Compiler;
use codec::schema::Schema;

const FILES: [&str; 11] = [
    "google/protobuf/test_messages_proto2.proto",
    "google/protobuf/test_messages_proto3.proto",
    "google/protobuf/test_messages_proto2_editions.proto",
    "google/protobuf/test_messages_proto3_editions.proto",
    "google/protobuf/test_messages_edition2023.proto",
    "conformance/conformance.proto",
    "schema/legacy.proto",
    "schema/plain.proto",
    "schema/features.proto",
    "millrace/options.proto",
    "google/protobuf/descriptor.proto",
];

const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proto");

fn compile(files: &[&str]) -> Schema {
    Compiler::new().include(TESTS).compile(files).unwrap_or_else(|error| panic!("{files:?}: {error}"))
}

/// What protoc makes of a file and its imports.
fn protoc(command: &str, files: &[&str]) -> Schema {
    let set = format!("{}/{}.set", env!("CARGO_TARGET_TMPDIR"), files[0].replace('/', "."));
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().expect("MILLRACE_PROTOC is a command"))
        .args(words)
        .args([format!("-I{OURS}"), format!("-I{TESTS}"), format!("-o{set}"), "--include_imports".into()])
        .args(files)
        .output()
        .expect("MILLRACE_PROTOC can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&set).expect("protoc wrote its set");
    Schema::from_descriptor_set(&bytes).unwrap_or_else(|error| panic!("{files:?} from protoc: {error}"))
}

#[test]
fn every_file_compiles_and_has_a_table() {
    for file in FILES {
        let schema = compile(&[file]);
        assert_eq!(schema.table().classes() as usize, schema.messages().len());
    }
    assert!(compile(&FILES).message("schema.features.Request.Nested").is_some());
}

#[test]
fn the_same_schema_as_protocs() {
    let Ok(command) = std::env::var("MILLRACE_PROTOC") else {
        eprintln!("skipped: MILLRACE_PROTOC is not set");
        return;
    };
    for file in FILES {
        let (ours, theirs) = (compile(&[file]), protoc(&command, &[file]));
        let names = |schema: &Schema| schema.messages().iter().map(|m| m.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs), "{file}");
        for (ours, theirs) in ours.messages().iter().zip(theirs.messages()) {
            assert_eq!(ours, theirs, "{file}");
        }
        assert_eq!(ours, theirs, "{file}");
        assert_eq!(ours.table(), theirs.table(), "{file}");
    }
}
