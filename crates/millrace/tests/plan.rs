//! `millrace plan` as people use it.

use std::process::{Command, Output};
use tempfile::TempDir;

fn millrace(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).args(words).output().expect("millrace runs")
}

fn stdout(words: &[&str]) -> String {
    let output = millrace(words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn refused(words: &[&str]) -> String {
    let output = millrace(words);
    assert!(!output.status.success() && output.stdout.is_empty(), "{words:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// What lists print for people and for programs is the same.
#[test]
fn lists_are_json_for_programs() {
    let json = |words: &[&str]| -> serde_json::Value {
        serde_json::from_str(&stdout(&[words, &["--json"]].concat())).expect("JSON")
    };
    for (words, key) in [(&["repro", "list"][..], "id"), (&["model", "platforms"], "platform")] {
        let (all, text) = (json(words), stdout(words));
        let all = all.as_array().expect("a list");
        assert_eq!(all.len(), text.lines().count() - 1, "{words:?}");
        for one in all {
            let name = one[key].as_str().expect("a name");
            assert!(text.contains(name), "{name} in {words:?}");
        }
    }
    let numbers = json(&["model", "platforms", "bluefield2-ib"]);
    let first = &numbers[0];
    assert!(
        first["value"].is_number() && first["unit"].is_string() && first["range"][1].is_number(),
        "{first}"
    );

    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let history = folder.path().join("history.jsonl");
    std::fs::write(&history, "").expect("a file");
    let judged = json(&["check", history.to_str().expect("a plain path")]);
    assert_eq!(judged["verdict"], "good", "{judged}");
}

#[test]
fn a_plan_says_what_to_do_and_why() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let page = folder.path().join("page.html");
    let page_name = page.to_str().expect("a plain path");
    let words = ["plan", "-w", "disaggregated-kv", "-p", "bluefield2-ib", "--top", "2", "--explain"];
    let text = stdout(&[&words[..], &["--report", page_name]].concat());
    for part in ["advice: ", "full: ", "switch: ", "guideline", "confidence: ", "→", "simulated"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let html = std::fs::read_to_string(&page).expect("it was written");
    assert!(html.contains("<svg") && html.contains("through the machine") && !html.contains("NaN"));
}

#[test]
fn json_has_what_the_tables_have() {
    let text = stdout(&[
        "plan",
        "-w",
        "file-replication",
        "-p",
        "bluefield2-ib",
        "--json",
        "--top",
        "1",
        "--objective",
        "host-cpu",
    ]);
    let plan: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(plan["objective"], "host-cpu");
    let first = &plan["ranking"][0];
    assert!(first["most"].as_f64().is_some_and(|rate| rate > 0.0));
    assert!(first["links"].as_array().is_some_and(|links| !links.is_empty()));
    assert!(plan["confidence"]["range"].is_array() && plan["greedy"]["order"].is_array());
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right() {
    let said = refused(&["plan", "-w", "nothing", "-p", "bluefield2-ib"]);
    assert!(said.contains("disaggregated-kv"), "{said}");
    let said = refused(&["plan", "-w", "disaggregated-kv", "-p", "nowhere"]);
    assert!(said.contains("bluefield2-ib"), "{said}");
    let said = refused(&["plan", "-w", "disaggregated-kv", "-p", "bluefield2-ib", "--slo", "p98=1us"]);
    assert!(said.contains("there is no limit of p98"), "{said}");
    let said = refused(&["plan", "-w", "disaggregated-kv"]);
    assert!(said.contains("--platform"), "{said}");
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "name = \"x\"\ntitle = \"x\"\nkeys = 1\nworking_set = 1\nwindow = 0\nclass = []\n")
        .expect("a file");
    let said = refused(&["plan", "-w", file.to_str().expect("plain"), "-p", "bluefield2-ib"]);
    assert!(said.contains(".toml:5: window must be"), "{said}");
    assert!(stdout(&["plan", "--list"]).contains("embedding-reduction"));
}
