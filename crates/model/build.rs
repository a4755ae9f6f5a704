//! Tells the crate what its sources are, as a number: results of sweeps are kept under it, so that rows of two models are never mixed.
//!
//! Only what can change a row counts: this crate, and the two below it whose queue and random streams it uses.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?);
    let mut files = Vec::new();
    for folder in ["src", "platforms", "../base/src", "../sim/src"] {
        let folder = here.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        collect(&folder, &mut files)?;
    }
    files.sort();
    let mut hash = Fnv(0xCBF2_9CE4_8422_2325);
    for file in &files {
        let name = file.strip_prefix(&here).unwrap_or(file).to_string_lossy().replace('\\', "/");
        hash.take(name.as_bytes());
        // A checkout with other line ends has the same sources.
        hash.take(&fs::read(file)?.into_iter().filter(|byte| *byte != b'\r').collect::<Vec<_>>());
    }
    println!("cargo::rustc-env=MILLRACE_MODEL_SOURCES={:016x}", hash.0);
    Ok(())
}

/// Files below `folder`; none if there is no such folder, as in a package of this crate alone.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// FNV-1a, 64 bits.
struct Fnv(u64);

impl Fnv {
    fn take(&mut self, bytes: &[u8]) {
        // The length first, so that two texts are not taken for one.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}
