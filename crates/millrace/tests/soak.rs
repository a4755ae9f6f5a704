//! The soak itself, for a second: processes start, die and are replaced, the verdict comes out, and nothing is left behind.

use std::process::{Command, Output};

fn soak(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).arg("soak").args(words).output().expect("the program runs")
}

#[test]
fn a_second_of_abuse_breaks_no_promise() {
    let out = soak(&["--seconds", "1", "--clients", "3", "--mode", "both", "--json"]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}\n{text}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    let outcomes: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for (outcome, mode) in outcomes.as_array().expect("one per mode").iter().zip(["store", "cache"]) {
        assert_eq!(outcome["mode"], mode);
        assert_eq!(outcome["faults"], 0, "{outcome}");
        assert_eq!(outcome["checked_at_end"], outcome["keys"]);
        assert!(outcome["writes"].as_u64() > Some(0) && outcome["reads"].as_u64() > Some(0), "{outcome}");
    }
}

#[test]
fn too_little_memory_is_refused_with_a_reason() {
    let out = soak(&["--memory", "1m"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("--memory must be at least"));
}
