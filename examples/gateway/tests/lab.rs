//! The lab, as its command runs it: real packets between namespaces. Where nobody may make namespaces it is skipped; with
//! `MILLRACE_REQUIRE_LAB=1` it fails instead.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

const NOT_HERE: i32 = 77;

fn lab(options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    command.arg("lab").args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// What it printed, if it ended well; none where it cannot be.
fn ended(what: &str, mut child: Child, printed: String) -> Option<String> {
    let mut errors = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("piped"), &mut errors).expect("text");
    let status = child.wait().expect("it ends");
    if status.code() == Some(NOT_HERE) {
        assert!(std::env::var_os("MILLRACE_REQUIRE_LAB").is_none(), "{what} must run here, but: {errors}");
        // Not eprintln: the test harness would swallow it.
        writeln!(std::io::stderr(), "SKIPPED {what}: {}", errors.trim()).expect("stderr takes a line");
        return None;
    }
    assert!(status.success(), "{what}: {status}\n{printed}\n{errors}");
    Some(printed)
}

#[test]
fn every_placement_carries_every_byte_with_nat_on_either_side() {
    for nat in ["a", "b"] {
        let mut child = lab(&["--seconds", "1", "--nat", nat]);
        let mut printed = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().expect("piped"), &mut printed).expect("text");
        let Some(printed) = ended("the lab", child, printed) else { return };
        let rows = printed.lines().filter(|line| line.starts_with("host ") || line.starts_with("acc  "));
        assert_eq!(rows.count(), 8, "{printed}");
        for said in ["10.1.0.1 says so", "10.8.0.2 says so", "interface in is gone"] {
            assert!(printed.contains(said), "{said}: {printed}");
        }
        let seen = if nat == "a" { "10.9.0.1" } else { "10.2.0.1" };
        assert!(printed.contains(&format!("the server saw the client as {seen}")), "{printed}");
    }
}

#[test]
fn an_interrupt_ends_it_in_order() {
    let mut child = lab(&["--seconds", "600"]);
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut printed = String::new();
    // The first line that a packet came through for.
    while !printed.contains("ping 10.2.0.2") && out.read_line(&mut printed).expect("text") > 0 {}
    if printed.contains("ping 10.2.0.2") {
        // SAFETY: it sends a signal to a child that was not waited for, so the number is its own.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    }
    std::io::Read::read_to_string(&mut out, &mut printed).expect("text");
    let Some(printed) = ended("the lab's end", child, printed) else { return };
    assert!(printed.contains("gateway B since its start"), "{printed}");
}
