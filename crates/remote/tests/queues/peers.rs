//! Owners that are killed. The test binary runs itself as the owner: `owner` below does nothing unless the environment says so.

use crate::rig::{Kind, Owner, run, work};
use crate::{At, gone};
use remote::{Access, Outcome, Verb};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

const ROLE: &str = "MILLRACE_REMOTE_OWNER";

/// The child's side; a test that passes at once when nobody asked for a child.
#[test]
fn owner() {
    let Ok(kind) = std::env::var(ROLE) else { return };
    let kind = Kind::all().into_iter().find(|known| format!("{known:?}") == kind).expect("a kind");
    let owner = Owner::start(kind);
    let key = owner.lend("table", 4096);
    let at = match owner.at() {
        At::Path(path) => format!("path {}", path.display()),
        At::Address(address) => format!("address {address}"),
        At::Card(address) => format!("card {address}"),
    };
    println!("serves {} {at}", key.0);
    std::io::stdout().flush().expect("a pipe");
    loop {
        std::thread::park();
    }
}

#[test]
fn an_owner_that_is_killed_is_noticed() {
    for kind in Kind::all() {
        eprintln!("{kind:?}");
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "peers::owner", "--nocapture", "--test-threads=1"])
            .env(ROLE, format!("{kind:?}"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let line = output
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("serves ").map(|(_, words)| words.to_owned()));
        let line = line.expect("it serves");
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().expect("three words").to_owned();
        let (key, what, at) = (word(), word(), word());
        let key = remote::Key(key.parse().expect("a number"));
        let at = match &*what {
            "path" => At::Path(at.clone().into()),
            "card" => At::Card(at.parse().expect("an address")),
            _ => At::Address(at.parse().expect("an address")),
        };
        let mut queue = at.queue(4, 64);
        queue.open("table", Access::ALL).expect("lent");
        assert_eq!(run(&mut *queue, &[work(1, Verb::Read, (0, 8), (key, 0))]), [(1, Outcome::Done)]);
        child.kill().and_then(|()| child.wait()).expect("it ran until now");
        gone(&mut *queue, key);
        if let At::Path(path) = &at {
            // It had no time to remove them.
            let _ = std::fs::remove_dir_all(path.parent().expect("a folder"));
        }
    }
}
