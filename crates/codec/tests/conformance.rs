//! Protobuf's public conformance runner, held against `examples/conformance.rs`, once for each way we decode and write.
//!
//! `MILLRACE_CONFORMANCE_RUNNER` names the runner; without it the one that `.ci/conformance-runner` fetches is used.
//! Without either the test says so and passes; `MILLRACE_REQUIRE_PEERS=1` makes that a failure.
//!
//! `tests/conformance-failures.txt` is the ratchet: what it lists must fail, all else must pass.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of the testee, one run each.
const MODES: [[&str; 2]; 6] = [
    ["borrowed", "encoder"],
    ["owned", "cpu-only"],
    ["owned", "accelerator-only"],
    ["borrowed", "memory-affinity"],
    ["one-shot", "memory-affinity"],
    ["field-by-field", "encoder"],
];

fn runner() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("MILLRACE_CONFORMANCE_RUNNER") {
        return Some(named.into());
    }
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/conformance/run");
    fetched.exists().then_some(fetched)
}

/// Builds the testee (a filtered `cargo test` does not) and returns its path.
fn testee() -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--example", "conformance"])
        .status()
        .expect("cargo starts");
    assert!(built.success(), "the testee does not build");
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.ancestors().nth(2).expect("tests lie in target/<profile>/deps");
    profile.with_file_name("debug").join("examples/conformance")
}

/// The lines that count: one for the binary and JSON suite, one for the text suite.
fn run(runner: &Path, testee: &Path, mode: [&str; 2]) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(runner)
        .args(["--maximum_edition", "2023", "--enforce_recommended", "--failure_list"])
        .arg(folder.join("tests/conformance-failures.txt"))
        .arg("--output_dir")
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .arg(testee)
        .args(mode)
        .output()
        .expect("the runner starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let counts: Vec<String> =
        text.lines().filter(|line| line.starts_with("CONFORMANCE SUITE")).map(str::to_owned).collect();
    assert!(output.status.success() && counts.len() == 2, "{text}");
    counts
}

#[test]
fn the_public_runner_passes() {
    let Some(runner) = runner() else {
        let required = std::env::var("MILLRACE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "MILLRACE_REQUIRE_PEERS is set, and there is no conformance runner");
        eprintln!("SKIPPED: no conformance runner; .ci/conformance-runner fetches it");
        return;
    };
    let testee = testee();
    for mode in MODES {
        let counts = run(&runner, &testee, mode);
        println!("{}\n  binary, JSON: {}\n  text: {}", mode.join(" "), counts[0], counts[1]);
        for (line, least) in counts.iter().zip([5000, 800]) {
            let successes = line.split_whitespace().nth(3).and_then(|count| count.parse::<u32>().ok());
            assert!(successes.is_some_and(|count| count > least), "the testee skipped something: {counts:?}");
        }
    }
}
