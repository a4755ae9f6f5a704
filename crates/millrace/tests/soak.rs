//! The soak itself, for a second or some deaths: processes start, die and are replaced, the verdict comes out, and nothing is left behind.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn soak(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).arg("soak").args(words).output().expect("the program runs")
}

#[test]
fn a_second_of_abuse_breaks_no_promise() {
    let out = soak(&["--seconds", "1", "--clients", "3", "--mode", "both", "--json"]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}\n{text}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    let outcomes: Value = serde_json::from_str(&text).expect("JSON");
    for (outcome, mode) in outcomes.as_array().expect("one per mode").iter().zip(["store", "cache"]) {
        assert_eq!(outcome["mode"], mode);
        assert_eq!(outcome["faults"], 0, "{outcome}");
        assert_eq!(outcome["checked_at_end"], outcome["keys"]);
        assert!(outcome["writes"].as_u64() > Some(0) && outcome["reads"].as_u64() > Some(0), "{outcome}");
    }
}

/// As long as the machine takes: each waits until all is whole and every client has gone on.
#[test]
fn members_of_a_cluster_are_killed_and_nothing_acknowledged_is_lost() {
    killed("log", &[]);
}

/// The same where the node's items lie in the chain, and all clients work on the same keys. What they saw is judged again from its file, and is found wrong
/// with an acknowledged write that is not there, and with a read of what was.
#[test]
fn members_of_a_cluster_are_killed_while_all_clients_use_the_same_keys() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let file = Lines(folder.path().join("history.jsonl"));
    killed("chain", &["--history", file.0.to_str().expect("text")]);
    let lines = file.read();
    let (code, said) = judged(&file.0);
    assert_eq!(code, Some(0), "{said}");
    assert!(lines.iter().any(|line| line["op"] == "txn" && line["e"] == "return"), "it has all clients");
    for spoilt in [without_a_write(&lines), with_a_stale_read(&lines)] {
        file.write(&spoilt);
        let (code, said) = judged(&file.0);
        assert_eq!(code, Some(1), "{said}");
    }
}

/// A history's file.
struct Lines(PathBuf);

impl Lines {
    fn read(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.0).expect("it was written");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn write(&self, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&self.0, text).expect("a file");
    }
}

fn judged(file: &Path) -> (Option<i32>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_millrace")).arg("check").arg(file).output();
    let out = out.expect("the program runs");
    (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
}

fn is_answered(line: &Value, op: &str) -> bool {
    line["e"] == "return" && line["op"] == op && line["r"]["s"] == "ok" && line["r"]["ver"].is_u64()
}

/// A write that was acknowledged, and that somebody read, was never asked for.
fn without_a_write(lines: &[Value]) -> Vec<Value> {
    let is_read = |write: &&Value| {
        let same = |read: &Value| read["k"] == write["k"] && read["r"]["ver"] == write["r"]["ver"];
        lines.iter().any(|line| is_answered(line, "get") && same(line))
    };
    let lost = lines.iter().filter(|line| is_answered(line, "set")).find(is_read).expect("a write is read");
    lines.iter().filter(|line| line["id"] != lost["id"]).cloned().collect()
}

/// What was there before is read, after somebody has read what is.
fn with_a_stale_read(lines: &[Value]) -> Vec<Value> {
    let gets: Vec<&Value> = lines.iter().filter(|line| is_answered(line, "get")).collect();
    let pairs = gets.iter().enumerate().flat_map(|(at, old)| {
        let newer =
            move |new: &&&Value| new["k"] == old["k"] && new["r"]["ver"].as_u64() > old["r"]["ver"].as_u64();
        gets[at..].iter().filter(newer).map(move |new| (*old, *new))
    });
    let at = |id: &Value, what: &str| lines.iter().position(|line| line["id"] == *id && line["e"] == what);
    let (old, late) = pairs
        .into_iter()
        .find_map(|(old, new)| {
            let is_later =
                |late: &&&Value| late["k"] == new["k"] && at(&late["id"], "call") > at(&new["id"], "return");
            Some((old, *gets.iter().find(is_later)?))
        })
        .expect("a key is read again");
    let stale = |line: &Value| {
        let mut line = line.clone();
        if line["id"] == late["id"] && line["e"] == "return" {
            line["r"] = old["r"].clone();
        }
        line
    };
    lines.iter().map(stale).collect()
}

fn killed(durability: &str, more: &[&str]) {
    let words =
        ["kills", "--kills", "8", "--keys", "60", "--seed", "5", "--durability", durability, "--json"];
    let out = soak(&[&words, more].concat());
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}\n{text}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    let outcome: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&outcome["kills"], &outcome["violations"], &outcome["undecided"]),
        (&8.into(), &0.into(), &0.into())
    );
    for clients in ["memcached", "in-network", "transactions"] {
        assert!(outcome["answered"][clients].as_u64() > Some(64), "{outcome}");
    }
    assert_eq!(outcome["deaths"].as_array().map(Vec::len), Some(8));
}

#[test]
fn too_little_memory_is_refused_with_a_reason() {
    let out = soak(&["--memory", "1m"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("--memory must be at least"));
}
