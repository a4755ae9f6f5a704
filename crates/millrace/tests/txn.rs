//! `millrace txn` against `millrace chain up`, as processes on loopback.

use serve::txn::spawned::{Plan, Spawned};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

fn chain() -> (Spawned, String) {
    let plan = Plan { replicas: 3, media: "memory".to_owned(), data: None, restart: false, more: Vec::new() };
    let chain = Spawned::start(Path::new(PROGRAM), &plan).expect("a chain");
    let addresses: Vec<String> = chain.addresses().iter().map(ToString::to_string).collect();
    let addresses = addresses.join(",");
    (chain, addresses)
}

fn txn(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut process = Command::new(PROGRAM)
        .arg("txn")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    process.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads");
    let Output { status, stdout, stderr } = process.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("it writes text");
    (status.code().expect("it ends by itself"), text(stdout), text(stderr))
}

#[test]
fn every_end_has_its_exit_status_and_every_reply_its_durability() {
    let (chain, all) = chain();
    let (code, said, _) = txn(&["--connect", &all, "put ann 10; put bob 0"], "");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("3 copies") && said.contains("in memory only"), "{said}");

    let (code, said, _) = txn(&["--connect", &all, "if-at-least ann 11; add ann -11; add bob 11"], "");
    assert_eq!(code, 1);
    assert!(said.contains("if-at-least ann 11 does not hold"), "{said}");

    let (code, _, complaint) = txn(&["--connect", &all, "git a"], "");
    assert_eq!(code, 2);
    assert!(complaint.contains("column 1") && complaint.contains("get, put, add"), "{complaint}");

    let (code, said, _) =
        txn(&["--connect", &all, "--json"], "# a comment\n\nadd ann -4; add bob 4\nget ann; get bob\n");
    assert_eq!(code, 0);
    let replies: Vec<serde_json::Value> = said.lines().map(|line| line.parse().expect("JSON")).collect();
    assert_eq!((&replies[0]["sums"][0]["sum"], &replies[0]["durability"]), (&6.into(), &"volatile".into()));
    assert_eq!((&replies[1]["reads"][0]["value"], replies[1]["copies"].as_u64()), (&"6".into(), Some(1)));
    assert_eq!(replies.len(), 2);

    // A line for each transaction, in order, whatever became of it.
    let (code, said, complaint) =
        txn(&["--connect", &all, "--json"], "get ann\ngit a\nput bob x; add bob 1\nget bob\n");
    let replies: Vec<serde_json::Value> = said.lines().map(|line| line.parse().expect("JSON")).collect();
    assert_eq!((code, replies.len(), complaint.as_str()), (2, 4, ""), "{said}");
    assert_eq!((&replies[1]["done"], replies[1]["error"].is_string()), (&false.into(), true), "{said}");
    assert!(replies[2]["error"].is_string() && replies[3]["reads"][0]["value"] == "4", "{said}");

    let (code, said, _) = txn(&["status", "--connect", &all, &"9".repeat(32), "1"], "");
    assert_eq!(code, 3);
    assert!(said.contains("cannot be told"), "{said}");
    drop(chain);
    let (code, _, complaint) = txn(&["--connect", &all, "--timeout", "1s", "get a"], "");
    assert_eq!(code, 2);
    assert!(complaint.contains("no replica was reached"), "{complaint}");
    let (code, said, _) = txn(&["--connect", &all, "--timeout", "1s", "--json", "get a"], "");
    let said: serde_json::Value = said.trim().parse().expect("JSON");
    assert_eq!((code, &said["done"], said["error"].is_string()), (2, &false.into(), true), "{said}");
}

#[test]
fn a_short_benchmark_measures_all_modes() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let page = folder.path().join("page.html");
    let output = Command::new(PROGRAM)
        .args([
            "txn",
            "bench",
            "--replicas",
            "2",
            "--media",
            "memory",
            "--keys",
            "200",
            "--rounds",
            "1",
            "--slice",
            "30ms",
        ])
        .args([
            "--workloads",
            "0-1,4-2,smallbank,tatp,ycsb-t,tpcc",
            "--values",
            "64",
            "--window",
            "4",
            "--json",
            "--plot",
        ])
        .arg(&page)
        .output()
        .expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = result["lines"].as_array().expect("lines");
    // Six workloads, two loads, four modes.
    assert_eq!(lines.len(), 48);
    for line in lines {
        assert!(line["latency"]["count"].as_u64() > Some(0), "{line}");
        assert!(line["latency"]["mean_us"].as_f64() > Some(1.0), "{line}");
    }
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("one-operation-per-pass, locked") && html.contains("<svg"));
}
