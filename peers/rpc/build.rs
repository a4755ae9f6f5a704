//! Generates tonic's client and server from `proto/` without protoc: protox parses, tonic takes the descriptors.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let descriptors = protox::compile(["echo.proto"], [&proto])?;
    // `Bytes` share the buffer that was received: the echo hands its request's payload back without a copy.
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
