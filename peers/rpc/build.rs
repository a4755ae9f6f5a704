//! Generates the fabric's stubs and tonic's from `proto/`, without protoc: the fabric parses by itself; for tonic protox does, and
//! hands on descriptors.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let descriptors = protox::compile(["echo.proto"], [&proto])?;
    // `Bytes` share the buffer that was received: the echo hands its request's payload back without a copy.
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    fabric::build::Config::new()
        .include(&proto)
        .name("fabric_contest")
        .compile(&[proto.join("echo.proto")])?;
    Ok(())
}
