//! `millrace lab bench`, `lab compute` and `lab rpc` in network namespaces, with tiny sizes. Where this process may not make namespaces they say
//! that they were skipped; with `MILLRACE_REQUIRE_LAB=1` they fail instead.

use serde_json::Value;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

fn lab(arguments: &str) -> Output {
    Command::new(PROGRAM).arg("lab").args(arguments.split_whitespace()).output().expect("the program")
}

/// A name for a lab, where this process may make namespaces.
fn name(test: &str) -> Option<String> {
    let works = Command::new("unshare").args(["--net", "ip", "link"]).output();
    if works.is_ok_and(|output| output.status.success()) {
        return Some(format!("m{}{test}", std::process::id()));
    }
    let required = std::env::var_os("MILLRACE_REQUIRE_LAB").is_some();
    assert!(!required, "network namespaces are required here, and this process may not make any");
    eprintln!("SKIPPED {test}: it needs root, iproute2 and network namespaces");
    None
}

fn json(arguments: &str) -> Value {
    let output = lab(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {said}");
    serde_json::from_slice(&output.stdout).expect("the result is JSON")
}

fn is_gone(name: &str) -> bool {
    let prefix = format!("mrlab-{name}-");
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    !names.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
}

#[test]
fn every_mode_has_operations_and_no_wrong_value() {
    let Some(name) = name("bench") else { return };
    let sizes = "--keys 300 --copies 200 --rounds 1 --slice 60ms --windows 1,4 --rate 500";
    let result = json(&format!("bench --name {name} {sizes} --json"));
    let lines = result["lines"].as_array().expect("lines");
    let left_out = result["notes"].as_array().expect("notes");
    assert_eq!(lines.len(), (5 - left_out.len()) * 3, "{left_out:?}");
    for line in lines {
        let total = &line["total"];
        assert!(total["ops"].as_u64() > Some(0) && total["verified"].as_u64() > Some(0), "{line}");
        assert_eq!(total["wrong"], serde_json::json!({}), "{line}");
    }
    // On a busy machine a slice may be too short for a box to have what is asked for; but nobody says that one answered who is not there.
    let by_box = |line: &&Value| line["total"]["by_box"].is_object();
    let has_box = |line: &Value| ["box", "xdp"].contains(&line["mode"].as_str().expect("a name"));
    assert!(lines.iter().filter(by_box).all(has_box) && lines.iter().any(|line| by_box(&line)));
    let modes = |mode: &str| lines.iter().filter(|line| line["mode"] == mode).count();
    assert_eq!((modes("no-box"), modes("box")), (3, 3));
    assert!(is_gone(&name));
}

#[test]
fn computations_in_namespaces_are_right() {
    let Some(name) = name("compute") else { return };
    let result = json(&format!("compute --name {name} --clients 1,2 --rounds 1 --slice 30ms --json"));
    let rows = result["rows"].as_array().expect("rows");
    assert!(rows.len() >= 16 && result["setup"].as_str().is_some_and(|text| text.starts_with("namespaces")));
    assert!(rows.iter().all(|row| row["counts"]["done"].as_u64() > Some(0)));
    assert!(is_gone(&name));
}

#[test]
fn calls_are_answered_rightly_in_every_way() {
    let Some(name) = name("rpc") else { return };
    let result = json(&format!("rpc --name {name} --texts 4 --rounds 1 --slice 60ms --json"));
    let rows = result["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6);
    for row in rows {
        let counts = &row["counts"];
        assert!(counts["done"].as_u64() > Some(0) && counts["wrong"] == 0, "{row}");
        assert_eq!(counts["kept"].as_u64() > Some(0), row["way"] == "box" || row["way"] == "xdp", "{row}");
    }
    // What clients found kept, boxes say that they answered: in the driver where there is a program, and only there.
    let kept =
        |way: &str| rows.iter().find(|row| row["way"] == way).and_then(|row| row["counts"]["kept"].as_u64());
    let by = |at: usize, tier: &str| result["boxes"][at][tier].as_u64();
    assert!(by(0, "program") > by(0, "process") && by(0, "program") > Some(0), "{result}");
    assert!(
        by(0, "program").zip(by(0, "process")).map(|(one, other)| one + other) >= kept("xdp"),
        "{result}"
    );
    assert!(by(1, "program") == Some(0) && by(1, "process") >= kept("box"), "{result}");
    assert!(is_gone(&name));
}
