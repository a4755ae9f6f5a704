//! `millrace lab` as its users run it. What needs network namespaces says that it was skipped where this process may not make them; with
//! `MILLRACE_REQUIRE_LAB=1` it fails instead.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

fn lab(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("lab").args(arguments).output().expect("the program")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

fn ok(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert!(output.status.success(), "{arguments:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

fn fails(arguments: &[&str], words: &str) {
    let output = lab(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stdout(&output));
    assert!(stderr(&output).contains(words), "{words:?} in {}", stderr(&output));
}

/// A lab of a test, gone in the end, after a panic too. Tests of several runs have different names.
struct Rack(String);

impl Rack {
    /// None, after a line that says why, where this process may make no namespaces.
    fn new(test: &str) -> Option<Rack> {
        let name = format!("t{}{test}", std::process::id());
        let works = Command::new("unshare").args(["--net", "ip", "link"]).output();
        if works.is_ok_and(|output| output.status.success()) {
            return Some(Rack(name));
        }
        let required = std::env::var_os("MILLRACE_REQUIRE_LAB").is_some();
        assert!(!required, "network namespaces are required here, and this process may not make any");
        eprintln!("SKIPPED {test}: it needs root, iproute2 and network namespaces");
        None
    }

    fn up(&self, arguments: &[&str]) -> String {
        ok(&[&["up", "--name", &self.0], arguments].concat())
    }

    fn topology(&self) -> String {
        format!("/run/millrace/lab/{}/topology.toml", self.0)
    }

    /// `millrace inc`, in a client's namespace.
    fn ask(&self, client: &str, arguments: &[&str]) -> (String, String) {
        let topology = self.topology();
        let words = [
            &["lab", "exec", "--name", &self.0, client, "--", PROGRAM, "inc"],
            arguments,
            &["--topology", &topology],
        ];
        let output = Command::new(PROGRAM).args(words.concat()).output().expect("the program");
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    }

    fn namespaces(&self) -> usize {
        let prefix = format!("mrlab-{}-", self.0);
        let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
    }

    /// The process of a role.
    fn pid(&self, role: &str) -> String {
        let status = ok(&["status", &self.0]);
        let line = status.lines().find(|line| line.trim_start().starts_with(&format!("{role} ")));
        line.and_then(|line| line.split_whitespace().last()).expect("the role is listed").to_string()
    }

    /// The log of a role, when these words are in it so many times.
    fn await_log(&self, role: &str, words: &str, times: usize) -> String {
        let path = PathBuf::from(format!("/run/millrace/lab/{}/log/{role}.log", self.0));
        loop {
            let log =
                std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if log.matches(words).count() >= times {
                return log;
            }
            std::thread::yield_now();
        }
    }
}

/// A count in a line of counts.
fn count(line: &str, name: &str) -> u64 {
    let after = line.split(&format!("{name} ")).nth(1).unwrap_or_else(|| panic!("{name:?} in {line}"));
    after.split_whitespace().next().expect("a number").parse().expect("a number")
}

impl Drop for Rack {
    fn drop(&mut self) {
        let _ = lab(&["down", &self.0]);
    }
}

#[test]
fn a_rack_goes_up_and_down() {
    let Some(rack) = Rack::new("up") else { return };
    let said = rack.up(&["--tors", "2", "--roots", "2", "--clients", "2"]);
    assert!(said.contains("8 namespaces") && said.contains(&rack.topology()), "{said}");

    // Through two boxes: the client's, one of the roots, the home's.
    assert_eq!(rack.ask("client:1", &["set", "colour", "blue"]).0, "OK\n");
    assert_eq!(rack.ask("client:1", &["get", "colour"]).0, "blue\n");
    let (value, beside) = rack.ask("client:1", &["get", "colour"]);
    assert!(value == "blue\n" && beside.contains("by a box"), "{beside}");
    assert_eq!(rack.ask("client:2", &["get", "colour", "--tor", "2"]).0, "blue\n");

    let status = ok(&["status", &rack.0]);
    for words in ["client:2", "10.77.100.2", "box:4", "home:1", "10.77.2.1", "controller:0", "holder"] {
        assert!(status.contains(words), "{words}: {status}");
    }
    assert!(!status.contains("ended"), "{status}");
    let told: serde_json::Value = serde_json::from_str(&ok(&["status", "--json", &rack.0])).expect("JSON");
    let members = told[0]["members"].as_array().expect("members");
    let holder = members.iter().find(|member| member["node"] == "holder").expect("it is listed");
    assert!(holder["process"]["alive"] == true && holder["address"].is_null(), "{told}");
    assert_eq!(members.len(), status.lines().count() - 2, "{told}");
    assert!(
        ok(&["exec", "--name", &rack.0, "box:1", "--", "ip", "route"]).contains("10.77.100.1 dev to-client1")
    );
    fails(&["exec", "--name", &rack.0, "box:9", "--", "true"], "it has client:1");
    fails(&["exec", "--name", &rack.0, "box:1", "--", "no-such-program"], "cannot run no-such-program");

    fails(&["exec", "--name", &rack.0, "box:1", "--", PROGRAM, "lab", "down", &rack.0], "is in lab");

    // Another of the same name; then in its place.
    fails(&["up", "--name", &rack.0], "`millrace lab down");
    rack.up(&["--replace", "--clients", "1", "--no-nodes"]);
    assert_eq!(rack.namespaces(), 6);
    assert!(ok(&["status", &rack.0]).contains("none"));

    assert!(ok(&["down", &rack.0]).contains("6 namespaces"));
    assert!(ok(&["down", &rack.0]).contains("there is no lab"));
    assert_eq!(rack.namespaces(), 0);
    fails(&["status", &rack.0], "there is no lab");
    fails(&["exec", "--name", &rack.0, "box:1", "--", "true"], "there is no lab");
}

/// Boxes answer in their driver, through cables whose other ends pass such frames on; what they do not have goes its way. A write is seen at
/// once.
#[test]
fn boxes_answer_by_xdp() {
    let Some(rack) = Rack::new("xdp") else { return };
    let output =
        lab(&["up", "--name", &rack.0, "--xdp", "--clients", "2", "--set", "coherence.lease=60000000"]);
    if !output.status.success() && stderr(&output).contains("XDP") {
        assert!(std::env::var_os("MILLRACE_REQUIRE_XDP").is_none(), "{}", stderr(&output));
        return eprintln!("SKIPPED boxes_answer_by_xdp: {}", stderr(&output));
    }
    assert!(output.status.success(), "{}", stderr(&output));
    // The kernel looks at the program for a while; until then clients go past the box.
    for role in ["box1", "box2"] {
        rack.await_log(role, "XDP on", 1);
    }
    for value in ["blue", "green"] {
        rack.ask("client:1", &["set", "colour", value]);
        for (client, tor) in [("client:1", "1"), ("client:2", "2")] {
            for _ in 0..3 {
                assert_eq!(rack.ask(client, &["get", "colour", "--tor", tor]).0, format!("{value}\n"));
            }
        }
    }
    let pid = rack.pid("box:1");
    assert!(Command::new("kill").arg(pid).status().expect("kill").success());
    let counts = rack.await_log("box1", "box:1: ", 1);
    let hits = count(counts.lines().last().expect("a line"), "xdp hits");
    assert!(hits >= 2, "each value was asked for again after it was filled: {counts}");
}

/// Whatever the moment at which the maker is killed, what it left can be taken away, and a new one be made.
#[test]
fn a_maker_that_is_killed_leaves_nothing_for_good() {
    let Some(rack) = Rack::new("killed") else { return };
    let mut most = 0;
    // The maker is killed when so many namespaces are there; there are seven in all.
    for killed_at in [1, 4, 7] {
        let mut maker = Command::new(PROGRAM);
        maker.args(["lab", "up", "--name", &rack.0, "--clients", "2"]).stdout(std::process::Stdio::null());
        let mut maker = maker.spawn().expect("the program");
        while rack.namespaces() < killed_at && maker.try_wait().expect("it is ours").is_none() {
            std::thread::yield_now();
        }
        let _ = maker.kill();
        maker.wait().expect("it is ours");
        most = most.max(rack.namespaces());
        fails(&["up", "--name", &rack.0], "what is left of one");
        ok(&["down", &rack.0]);
        assert_eq!(rack.namespaces(), 0);
        assert!(!PathBuf::from(format!("/run/millrace/lab/{}", rack.0)).exists());
    }
    assert!(most >= 7, "the last maker had made all");
    rack.up(&["--clients", "1"]);
}

#[test]
fn a_link_program_carries_and_loses() {
    let Some(rack) = Rack::new("link") else { return };
    rack.up(&["--clients", "1", "--link", "client:1-box:1,delay=20us,loss=0.2,duplicate=0.1,reorder=0.1"]);
    for number in 0..30 {
        let value = number.to_string();
        rack.ask("client:1", &["set", "key", &value]);
        assert_eq!(rack.ask("client:1", &["get", "key"]).0, format!("{value}\n"));
    }
    let pid = rack.pid("link client:1-box:1");
    assert!(Command::new("kill").arg(pid).status().expect("kill").success());
    let counts = rack.await_log("link-client1-box1", " left ", 2);
    let lines: Vec<&str> = counts.lines().filter(|line| line.contains(" left ")).collect();
    for line in &lines {
        assert!(count(line, "entered") >= 60 && count(line, "dropped") == 0, "{line}");
    }
    let sum = |name| lines.iter().map(|line| count(line, name)).sum::<u64>();
    assert!(sum("lost") > 0 && sum("doubled") > 0 && sum("held back") > 0, "{counts}");
    assert_eq!(sum("left"), sum("entered") - sum("lost") + sum("doubled"));
}

/// Each kind of role dies under load, for good, and another comes in its place; nothing stale is seen, and nothing is left behind.
#[test]
fn a_run_survives_every_death() {
    let Some(rack) = Rack::new("run") else { return };
    let said = ok(&[
        "run",
        "--name",
        &rack.0,
        "--kill-all-roles",
        "--back",
        "100ms",
        "--set",
        "coherence.lease=100000",
        "--roots",
        "2",
        "--keys",
        "100",
        "--operations",
        "30000",
    ]);
    assert!(said.contains("linearizable: 100 of 100 keys") && said.contains(" 6 kills "), "{said}");
    for role in ["box:1", "box:4", "home:1", "controller:0", "client:1", "link:1"] {
        let lines = said.lines().filter(|line| line.starts_with(&format!("{role} ")));
        assert_eq!(lines.count(), 1, "{role}: {said}");
    }
    assert_eq!(rack.namespaces(), 0);
}

/// A `millrace lab run` that goes on for a minute, and has clients at work.
fn long_run(rack: &Rack) -> Child {
    let arguments = ["lab", "run", "--seconds", "60", "--keys", "50", "--name", &rack.0];
    let mut run = Command::new(PROGRAM).args(arguments).stdout(Stdio::piped()).spawn().expect("the program");
    let journal = PathBuf::from(format!("/run/millrace/lab/{}/client3.jsonl", rack.0));
    while !std::fs::metadata(&journal).is_ok_and(|meta| meta.len() > 10_000) {
        assert!(run.try_wait().expect("it is ours").is_none(), "it ended early");
        std::thread::yield_now();
    }
    run
}

fn signal(process: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &process.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

#[test]
fn a_run_that_is_interrupted_takes_its_rack_down() {
    let Some(rack) = Rack::new("stop") else { return };
    let run = long_run(&rack);
    fails(&["down", &rack.0], "under way");
    fails(&["run", "--name", &rack.0], "under way");
    signal(&run, "-INT");
    let output = run.wait_with_output().expect("it is ours");
    assert!(
        output.status.success() && stdout(&output).contains("linearizable: 50 of 50"),
        "{}",
        stdout(&output)
    );
    assert_eq!(rack.namespaces(), 0);

    // One that is killed leaves all; the next run clears it away.
    let mut run = long_run(&rack);
    signal(&run, "-KILL");
    run.wait().expect("it is ours");
    assert!(rack.namespaces() > 0);
    let said = ok(&["run", "--name", &rack.0, "--seconds", "60", "--operations", "2000", "--keys", "50"]);
    assert!(said.contains("ended early"), "{said}");
    assert_eq!(rack.namespaces(), 0);
}

#[test]
fn what_cannot_be_a_lab_says_why() {
    for (arguments, words) in [
        (&["up", "--name", "A-b"][..], "no name of a lab"),
        (&["up", "--link", "box:1-box:9,loss=7"], "no share"),
        (&["up", "--topology", "x", "--tors", "3"], "cannot be used with"),
        (&["exec", "tor:1", "--", "true"], "or client:1"),
        (&["run", "--loopback", "--link", "box:1-box:3"], "cannot be used with"),
        (&["run", "--loopback", "--kill", "home:7@1s"], "there is no home:7 to kill"),
    ] {
        let output = lab(arguments);
        assert!(!output.status.success() && stderr(&output).contains(words), "{words}: {}", stderr(&output));
    }
    let Some(rack) = Rack::new("wrong") else { return };
    for (arguments, words) in [
        (&["--roots", "0"][..], "no way from"),
        (&["--link", "box:1-box:2"], "there are box:1-box:3"),
        (&["--topology", "/nowhere"], "cannot read the topology"),
        (&["--set", "coherence.leese=1"], "millrace registers --inc"),
    ] {
        fails(&[&["up", "--name", &rack.0], arguments].concat(), words);
    }
    fails(&["run", "--name", &rack.0, "--kill", "link:1@1s"], "there is no link:1 to kill");
    fails(&["run", "--name", &rack.0, "--writes", "60", "--compute", "60"], "more than 100");
    assert_eq!(rack.namespaces(), 0);
}

#[test]
fn a_run_over_loopback_prints_a_verdict_and_a_history() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let history = folder.path().join("history.jsonl");
    let path = history.to_str().expect("text");
    let said = ok(&[
        // A busy machine must not be taken for a dead box.
        "run",
        "--set",
        "coherence.retransmit=100000",
        "--loopback",
        "--seconds",
        "60",
        "--operations",
        "4000",
        "--clients",
        "2",
        "--keys",
        "50",
        "--history",
        path,
    ]);
    for words in ["linearizable: ", "median", "read, by a box", "box:1: hits ", "home:1:", "ended early"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let text = std::fs::read_to_string(&history).expect("it was written");
    assert!(text.lines().count() > 4000 && text.contains("\"op\":\"cond_put\""));
}
