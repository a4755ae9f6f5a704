//! Arbitrary text as an experiment's file, by itself and in a sweep: refused with a sentence that begins with the file's name, or an experiment with an id and a platform. Nothing
//! is run: what a file asks for takes as long as it says.
//!
//! `cargo +nightly fuzz run experiment_file`
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::Platforms;
use model::experiment::file::FileExperiment;
use model::sweep::Sweep;

const HEAD: &str = "id = \"E\"\ntitle = \"t\"\nplatforms = [\"bluefield2-ib\"]\nworkload = \"disaggregated-kv\"\n";

fuzz_target!(|text: &str| {
    for text in [text, &format!("{HEAD}{text}")] {
        match FileExperiment::parse(text, "fuzzed.toml") {
            Ok(own) => assert!(!own.id.is_empty() && !own.platforms.is_empty()),
            Err(why) => assert!(why.starts_with("fuzzed.toml"), "{why}"),
        }
    }
    let sweep = format!("title = \"s\"\n{text}\n[[axis]]\nnumber = \"bluefield2-ib | network.latency\"\nvalues = [200]\n");
    if let Err(why) = Sweep::parse(&sweep, "fuzzed.toml", &Platforms::shipped()) {
        assert!(why.starts_with("fuzzed.toml"), "{why}");
    }
});
