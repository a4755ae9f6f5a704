//! The name by which programs find the library when they run: of the versions that they can run with.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Before 1.0 every minor version may change what programs were compiled with.
    let (major, minor) = (env("CARGO_PKG_VERSION_MAJOR"), env("CARGO_PKG_VERSION_MINOR"));
    let abi = if major == "0" { format!("0.{minor}") } else { major };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmillrace.so.{abi}");
}

fn env(name: &str) -> String {
    std::env::var(name).expect("Cargo says it")
}
