//! The Go package (`clients/go`), by cgo and the library's pkg-config file, as it is installed.

use super::served::{skip, skip_without};
use super::{Folder, ROOT, node, succeeded};
use std::process::Command;

/// Go's, or none where something is not there that it needs.
fn go(folder: &Folder) -> Option<Command> {
    let is_there = |program: &str, word: &str| {
        Command::new(program).arg(word).output().is_ok_and(|o| o.status.success())
    };
    if !is_there("go", "version") {
        skip_without("go", "no go here (golang-go)");
        return None;
    }
    if !is_there("pkg-config", "--version") || !is_there("cc", "--version") {
        skip("cgo wants a C compiler and pkg-config (Debian: gcc, pkgconf)");
        return None;
    }
    let template =
        std::fs::read_to_string(format!("{ROOT}/crates/client-c/millrace.pc.in")).expect("it is committed");
    let written = template
        .replace("@prefix@", folder.path().to_str().expect("a name of ours"))
        .replace("${prefix}/@libdir@", "${prefix}")
        .replace("${prefix}/@includedir@", &format!("{ROOT}/crates/client-c/include"))
        .replace("@version@", env!("CARGO_PKG_VERSION"));
    assert!(!written.contains('@'), "{written}");
    std::fs::write(folder.path().join("millrace.pc"), written).expect("a file");
    let mut command = Command::new("go");
    command.current_dir(format!("{ROOT}/clients/go")).env("CGO_ENABLED", "1");
    // Go keeps what pkg-config said of another run's folder, and notices only its own variables.
    command.env("CGO_LDFLAGS", format!("-L{}", folder.file("")));
    command.env("PKG_CONFIG_PATH", folder.path()).env("LD_LIBRARY_PATH", folder.path());
    Some(command)
}

#[test]
fn every_operation() {
    let folder = Folder::new();
    let Some(mut go) = go(&folder) else { return };
    let (by_rings, shm) = folder.shm(&[]);
    let users = folder.file("users");
    std::fs::write(&users, "ann:one\n").expect("a file");
    let with_users = node(&["-Y", &users]);
    go.env("MILLRACE_TEST_SERVERS", format!("{shm} {}", by_rings.address));
    go.env("MILLRACE_TEST_USERS", &with_users.address);
    let output = go.args(["test", "-count=1", "-v", "./..."]).output().expect("it was found before");
    let said = succeeded("go test", &output);
    // All of each, of both servers.
    assert!(said.matches("--- PASS").count() >= 20 && !said.contains("--- SKIP"), "{said}");
    by_rings.stop();
    with_users.stop();
}

#[test]
fn it_is_formatted_and_vetted() {
    let folder = Folder::new();
    let Some(mut go) = go(&folder) else { return };
    succeeded("go vet", &go.args(["vet", "./..."]).output().expect("it was found before"));
    let unformatted =
        Command::new("gofmt").args(["-l", "."]).current_dir(format!("{ROOT}/clients/go")).output();
    // Some packages have no gofmt beside go.
    if let Ok(output) = unformatted {
        assert_eq!(succeeded("gofmt", &output), "");
    }
}
