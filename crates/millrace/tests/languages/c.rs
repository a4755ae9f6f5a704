//! A program of C, `client-c/tests/c/exercise.c`, that uses every function.

use super::served::skip;
use super::{Folder, ROOT, node, succeeded};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// The program, compiled; none where there is no compiler.
fn exercise(folder: &Folder) -> Option<String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if !Command::new(&compiler).arg("--version").output().is_ok_and(|output| output.status.success()) {
        skip(&format!("{compiler} is no C compiler; set CC to one"));
        return None;
    }
    let program = folder.file("exercise");
    let output = Command::new(&compiler)
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o", &program])
        .arg(format!("-I{ROOT}/crates/client-c/include"))
        .arg(format!("{ROOT}/crates/client-c/tests/c/exercise.c"))
        .args([&format!("-L{}", folder.file("")), "-lmillrace", &format!("-Wl,-rpath,{}", folder.file(""))])
        .output()
        .expect("the compiler");
    succeeded("the header and the program compile without a warning", &output);
    Some(program)
}

fn run(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().expect("the program");
    succeeded(&words.join(" "), &output)
}

#[test]
fn every_operation_over_every_transport() {
    let folder = Folder::new();
    let Some(program) = exercise(&folder) else { return };
    let (by_rings, shm) = folder.shm(&[]);
    run(&program, &["items", &shm]);
    assert!(run(&program, &["rpc", &folder.rpc().addresses[0]]).is_empty());
    by_rings.stop();
    let tcp = node(&[]);
    run(&program, &["items", &tcp.address]);
    tcp.stop();
    let socket = folder.file("m.sock");
    let unix = node(&["-s", &socket]);
    run(&program, &["items", &format!("unix:{socket}")]);
    unix.stop();
    let (tls, address, ca) = folder.tls();
    run(&program, &["items", &address, &ca]);
    tls.stop();
}

#[test]
fn users_log_in() {
    let folder = Folder::new();
    let Some(program) = exercise(&folder) else { return };
    let users = folder.file("users");
    std::fs::write(&users, "ann:one\n").expect("a file");
    let (node, shm) = folder.shm(&["-Y", &users]);
    run(&program, &["login", &shm]);
    run(&program, &["login", &node.address]);
    node.stop();
}

#[test]
fn a_server_that_is_killed_is_an_error() {
    let folder = Folder::new();
    let Some(program) = exercise(&folder) else { return };
    let (by_rings, shm) = folder.shm(&[]);
    let by_tcp = node(&[]);
    for (victim, address) in [(&by_rings, &shm), (&by_tcp, &by_tcp.address)] {
        let mut client = Command::new(&program)
            .args(["killed", address])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut said = BufReader::new(client.stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n");
        victim.signal(Signal::KILL);
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("text");
        assert!(client.wait().expect("it is ours").success(), "{rest}");
        assert_eq!(rest, "gone\n");
    }
    // Nobody is there any more, and the message says what to do.
    assert!(run(&program, &["nobody", &shm]).contains("start the server again"));
    assert!(run(&program, &["nobody", &by_tcp.address]).contains("millrace up"));
}
