//! Warm restarts of the real program: what a node that was stopped in order leaves is there for the next one, and nothing else is believed.

mod served;

use served::node::Node;
use served::{Client, pattern};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A folder on a tmpfs if there is one, gone in the end.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        let in_memory = TempDir::with_prefix_in("millrace-", "/dev/shm");
        Folder(in_memory.or_else(|_| TempDir::with_prefix("millrace-")).expect("a folder"))
    }

    fn memory(&self) -> PathBuf {
        self.0.path().join("memory")
    }

    /// A node whose memory, of so much, lies in this folder.
    fn node(&self, limit: &str) -> Node {
        let memory = self.memory();
        Node::start(&[
            "up",
            "-p",
            "0",
            "-m",
            limit,
            "-A",
            "--admin",
            "0",
            "-e",
            memory.to_str().expect("a name of ours"),
        ])
    }
}

/// The answer to one line, up to `END`, or that line if it is no hit.
fn ask(client: &mut Client, line: &str) -> String {
    client.send(format!("{line}\r\n"));
    let mut answer = String::new();
    loop {
        let line = client.line();
        answer.push_str(&line);
        answer.push('\n');
        let goes_on = answer.starts_with("VALUE") || answer.starts_with("STAT");
        if !goes_on || line.starts_with("END") {
            return answer;
        }
    }
}

fn stat(client: &mut Client, which: &str, name: &str) -> Option<String> {
    let all = ask(client, which);
    let found = all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    found.map(|value| value.trim().to_owned())
}

/// Small values with flags, numbers, lives and a lease, and large ones.
fn fill(client: &mut Client) {
    for n in 0..500 {
        assert_eq!(ask(client, &format!("ms k{n} 4 T{} F{n}\r\nv{n:03}", n % 2 * 5000)), "HD\n");
    }
    for n in 0..5 {
        client.set(&format!("large{n}"), pattern(n, 900_000));
    }
    assert_eq!(ask(client, "set number 7 0 2\r\n41"), "STORED\n");
    assert_eq!(ask(client, "incr number 1"), "42\n");
    assert_eq!(ask(client, "md k3 I T600"), "HD\n");
    assert_eq!(ask(client, "set gone 0 -1 1\r\nx"), "STORED\n");
}

/// What every key answers; without what time changes.
fn answers(client: &mut Client) -> Vec<String> {
    let mut all: Vec<String> = (0..500).map(|n| ask(client, &format!("gets k{n}"))).collect();
    all.extend(["number", "gone", "k3"].map(|key| ask(client, &format!("gets {key}"))));
    all
}

#[test]
fn a_node_that_was_stopped_goes_on_where_it_was() {
    let folder = Folder::new();
    let node = folder.node("64");
    assert!(node.said.contains("cold: nothing was left"), "{}", node.said);
    let mut client = node.client();
    fill(&mut client);
    let before = answers(&mut client);
    let life: u64 = ask(&mut client, "mg k1 t").trim().trim_start_matches("HD t").parse().expect("seconds");
    let cas: u64 =
        stat(&mut client, "stats", "total_items").expect("it is counted").parse().expect("a number");
    let memory_file = stat(&mut client, "stats settings", "memory_file");
    assert_eq!(memory_file.as_deref(), folder.memory().to_str());
    let said = node.stop();
    assert!(said.contains("left 506 items of"), "{said}");

    // Again and again, also by the command that clients have, and with another limit.
    for round in 0..3 {
        let node = folder.node(if round == 1 { "128" } else { "64" });
        assert!(node.said.contains("warm: 506 items of"), "{}", node.said);
        let mut client = node.client();
        assert_eq!(answers(&mut client), before, "round {round}");
        for n in 0..5 {
            assert_eq!(client.get(&format!("large{n}")), Some(pattern(n, 900_000)));
        }
        let now = ask(&mut client, "mg k1 t");
        let left: u64 = now.trim().trim_start_matches("HD t").parse().expect("seconds");
        assert!(left <= life && left + 600 > life, "{life} s were left, now {left}");
        assert!(ask(&mut client, "mg k3 c").contains("HD c"));
        client.send("ms new 1 c\r\nx\r\n");
        let given = client.line();
        let given: u64 = given.trim_start_matches("HD c").trim().parse().expect("a version");
        assert!(given > cas, "version {given} is not above {cas}");
        assert_eq!(ask(&mut client, "delete new"), "DELETED\n");
        if round == 2 {
            client.send("shutdown graceful\r\n");
            let (status, said) = node.ended();
            assert!(status.success() && said.contains("left 506 items"), "{said}");
        } else {
            node.stop();
        }
    }
    assert!(folder.node("64").said.contains("warm: 506 items"));
}

#[test]
fn a_node_that_was_killed_leaves_nothing_that_is_believed() {
    let folder = Folder::new();
    let node = folder.node("64");
    fill(&mut node.client());
    node.stop();
    let node = folder.node("64");
    assert_eq!(ask(&mut node.client(), "get number"), "VALUE number 7 2\n42\nEND\n");
    node.signal(rustix::process::Signal::KILL);
    let (status, _) = node.ended();
    assert!(!status.success());
    let node = folder.node("64");
    assert!(node.said.contains("did not stop in order"), "{}", node.said);
    let mut client = node.client();
    assert_eq!(ask(&mut client, "get number"), "END\n");
    assert_eq!(stat(&mut client, "stats", "curr_items").as_deref(), Some("0"));
}

#[test]
fn files_of_others_stay_and_a_second_node_is_refused() {
    let folder = Folder::new();
    fs::write(folder.memory(), "somebody's diary").expect("a file");
    let node = folder.node("64");
    assert!(
        node.said.contains("cold, nothing is taken over") && node.said.contains("is no directory"),
        "{}",
        node.said
    );
    assert_eq!(ask(&mut node.client(), "set k 0 0 1\r\nx"), "STORED\n");
    node.stop();
    assert_eq!(fs::read(folder.memory()).expect("it is there"), b"somebody's diary");
    fs::remove_file(folder.memory()).expect("ours");

    let first = folder.node("64");
    assert_eq!(ask(&mut first.client(), "set k 0 0 1\r\nx"), "STORED\n");
    let (status, said) = folder.node("64").ended();
    assert!(!status.success() && said.contains("another process has its memory in"), "{status}: {said}");
    assert_eq!(ask(&mut first.client(), "get k"), "VALUE k 0 1\nx\nEND\n");
    first.stop();
    // A byte of what the store knows beside its memory.
    let meta = folder.memory().join("millrace.meta");
    let mut bytes = fs::read(&meta).expect("it was closed");
    bytes[4100] ^= 1;
    fs::write(&meta, bytes).expect("ours");
    let node = folder.node("64");
    assert!(node.said.contains("it is damaged: its image does not match its checksum"), "{}", node.said);
}

#[test]
fn too_little_room_and_no_directory_are_said_at_the_start() {
    let folder = Folder::new();
    let (status, said) = folder.node("8t").ended();
    assert!(
        !status.success() && said.contains("has no room for 8.0 TiB of memory; make room there"),
        "{said}"
    );
    let nowhere = folder.0.path().join("a/b");
    let (status, said) = Node::start(&["up", "-p", "0", "-e", nowhere.to_str().expect("ours")]).ended();
    assert!(!status.success() && said.contains("there is no directory to make"), "{said}");
}

#[test]
fn a_config_file_says_it_too() {
    let folder = Folder::new();
    let file = folder.0.path().join("node.toml");
    let text = format!(
        "[admin]\nlisten = 0\n[services.cache]\nkind = 'kv'\n[services.cache.store]\nmemory = '64m'\nmemory_file = '{}'\n\
         [[listen]]\nservice = 'cache'\naddress = 'tcp:127.0.0.1:0'\n",
        folder.memory().display()
    );
    fs::write(&file, text).expect("a file");
    let words = ["up", "--config", file.to_str().expect("ours")];
    let node = Node::start(&words);
    assert_eq!(ask(&mut node.client(), "set k 0 0 1\r\nx"), "STORED\n");
    node.stop();
    let node = Node::start(&words);
    assert!(node.said.contains("warm: 1 items"), "{}", node.said);
    assert_eq!(ask(&mut node.client(), "get k"), "VALUE k 0 1\nx\nEND\n");
}
