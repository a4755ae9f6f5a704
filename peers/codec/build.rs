//! Generates every peer's types from `proto/` without protoc: protox parses once; prost and buffa take its descriptors, pb-rs
//! (for quick-protobuf) reads the `.proto` files itself.
//!
//! prost is generated twice: with its defaults, and with `bytes::Bytes` for bytes fields, which share the input.

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message;

const FILES: [&str; 5] = ["log.proto", "nested.proto", "wide.proto", "micro.proto", "large.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let descriptors = protox::compile(FILES, [&proto])?;

    prost_build::Config::new().out_dir(fresh(&out, "prost")?).compile_fds(descriptors.clone())?;
    prost_build::Config::new()
        .bytes(["."])
        .out_dir(fresh(&out, "prost_bytes")?)
        .compile_fds(descriptors.clone())?;

    let set = out.join("peers.binpb");
    std::fs::write(&set, descriptors.encode_to_vec())?;
    buffa_build::Config::new()
        .descriptor_set(set)
        .files(&FILES)
        .lazy_views(true)
        .out_dir(fresh(&out, "buffa")?)
        .include_file("all.rs")
        .compile()?;

    let files: Vec<PathBuf> = FILES.iter().map(|file| proto.join(file)).collect();
    let quick = fresh(&out, "quick")?;
    let configs = pb_rs::ConfigBuilder::new(&files, None, Some(&quick), &[proto])?.headers(false).build();
    pb_rs::types::FileDescriptor::run(&configs)?;
    Ok(())
}

/// An empty folder for one generator's output.
fn fresh(out: &Path, name: &str) -> Result<PathBuf, Box<dyn Error>> {
    let folder = out.join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
