//! The soak itself, for a second or some deaths: processes start, die and are replaced, the verdict comes out, and nothing is left behind.

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

/// As long as the machine takes: each waits until all is whole and every client has gone on.
#[test]
fn members_of_a_cluster_are_killed_and_nothing_acknowledged_is_lost() {
    killed("log");
}

/// The same where the node's items lie in the chain, and all clients work on the same keys.
#[test]
fn members_of_a_cluster_are_killed_while_all_clients_use_the_same_keys() {
    killed("chain");
}

fn killed(durability: &str) {
    let words =
        ["kills", "--kills", "8", "--keys", "60", "--seed", "5", "--durability", durability, "--json"];
    let out = soak(&words);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}\n{text}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    let outcome: serde_json::Value = serde_json::from_str(&text).expect("JSON");
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
