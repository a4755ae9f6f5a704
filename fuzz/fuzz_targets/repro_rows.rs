//! Arbitrary text as the rows of a run: refused with a sentence, or rows of which there are no more than lines, which say the same when they are read again.
//!
//! The reader's file is part of this target, since the crate that has it brings servers with it.
//!
//! `cargo +nightly fuzz run repro_rows`
#![no_main]
#![allow(dead_code)]

#[path = "../../crates/plan/src/model/diff/read.rs"]
mod read;

use libfuzzer_sys::fuzz_target;
use read::Saved;

fn look(text: &str) {
    match Saved::parse(text, "fuzzed.jsonl") {
        Ok(saved) => {
            assert!(!saved.rows.is_empty() && saved.rows.len() <= text.lines().count());
            let again = Saved::parse(text, "fuzzed.jsonl").expect("it was read before");
            assert!(again.made == saved.made && again.rows.len() == saved.rows.len());
        }
        Err(why) => assert!(why.starts_with("fuzzed.jsonl"), "{why}"),
    }
}

fuzz_target!(|input: (&str, [&str; 3], f64)| {
    let (text, [variant, point, model], value) = input;
    look(text);
    // What a run writes, with any words in it.
    let row = serde_json::json!({
        "experiment": "F1", "variant": variant, "point": point, "metric": "latency", "unit": "us", "value": value, "ci95": 0.0,
        "model": model, "seed": 1, "platforms": [point],
    });
    look(&format!("{row}\n{text}"));
    assert!(Saved::parse(&format!("{row}\n{row}\n"), "fuzzed.jsonl").is_ok_and(|saved| saved.rows.len() == 1));
});
