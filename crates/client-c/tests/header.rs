//! The header is what the source makes, and each of its functions is in the library.
//!
//! `MILLRACE_BLESS=1 cargo test -p millrace-client-c --test header` writes it anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const HOME: &str = env!("CARGO_MANIFEST_DIR");

fn header() -> PathBuf {
    Path::new(HOME).join("include/millrace.h")
}

#[test]
fn the_committed_header_is_what_the_source_makes() {
    let config =
        cbindgen::Config::from_file(Path::new(HOME).join("cbindgen.toml")).expect("the config is right");
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_crate(HOME)
        .with_config(config)
        .generate()
        .expect("C can have it")
        .write(&mut made);
    let made = of_callers(&String::from_utf8(made).expect("text"));
    if std::env::var_os("MILLRACE_BLESS").is_some() {
        std::fs::write(header(), &made).expect("the file can be written");
    }
    let committed = std::fs::read_to_string(header()).unwrap_or_default();
    assert!(committed == made, "include/millrace.h is not what the source makes: run with MILLRACE_BLESS=1");
}

/// Without what is said to readers of Rust, and with constants that can be no others'.
fn of_callers(header: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut is_safety = false;
    for line in header.lines() {
        if line.trim() == "* # Safety" {
            is_safety = true;
            // The empty line before it.
            kept.pop();
        }
        is_safety &= !line.contains("*/");
        if !is_safety {
            let is_constant = line.starts_with("  ") && line.contains(" = ") && line.ends_with(',');
            kept.push(if is_constant { line.replacen("  ", "  MILLRACE_", 1) } else { line.to_owned() });
        }
    }
    kept.join("\n") + "\n"
}

/// The names of functions of C that follow `before`.
fn names(text: &str) -> BTreeSet<&str> {
    let is_odd = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    text.split(is_odd).filter(|word| word.starts_with("millrace_")).collect()
}

#[test]
fn the_library_has_the_functions_of_the_header_and_no_others() {
    let library = std::env::current_exe().expect("it runs").with_file_name("libmillrace.so");
    let Ok(nm) = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output() else {
        eprintln!("SKIPPED: no nm here (binutils)");
        return;
    };
    assert!(nm.status.success(), "{}: {}", library.display(), String::from_utf8_lossy(&nm.stderr));
    let symbols = String::from_utf8(nm.stdout).expect("names");
    let text = std::fs::read_to_string(header()).expect("it is committed");
    // Declarations begin in the first column, and are followed by what they take.
    let declared = text.lines().filter(|line| !line.starts_with([' ', '}', '#', '/']));
    let declared: Vec<&str> =
        declared.filter_map(|line| line.split_once('(')).map(|(before, _)| before).collect();
    let declared: BTreeSet<&str> =
        declared.iter().filter_map(|before| before.split([' ', '*']).next_back()).collect();
    assert!(declared.len() > 20 && declared.iter().all(|name| name.starts_with("millrace_")), "{declared:?}");
    assert_eq!(names(&symbols), declared);
}
