//! The generator's output for `tests/proto` and the examples, committed beside them.
//!
//! `MILLRACE_BLESS=1 cargo test -p millrace-fabric --test generated` writes the files anew.

use fabric::build::Config;
use std::fs;
use std::path::Path;

/// The committed files in `folder` are those that `config` makes of `files`.
fn committed(folder: &str, name: &str, config: Config, file: &str) {
    committed_of_several(folder, name, config, &[file]);
}

/// The same, made of several files together.
fn committed_of_several(folder: &str, name: &str, config: Config, files: &[&str]) {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = home.join(folder);
    let bless = std::env::var_os("MILLRACE_BLESS").is_some();
    let fresh = if bless { committed.clone() } else { Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder) };
    fs::create_dir_all(&fresh).expect("a folder");
    config
        .out_dir(&fresh)
        .name(name)
        .compile(&files.iter().map(|file| home.join(file)).collect::<Vec<_>>())
        .expect("the files are right");
    for file in [format!("{name}.rs"), format!("{name}.desc")] {
        let same = fs::read(committed.join(&file)).ok() == fs::read(fresh.join(&file)).ok();
        assert!(same, "{folder}/{file} is not what the generator writes: run with MILLRACE_BLESS=1");
    }
}

fn config(include: &str) -> Config {
    Config::new().include(Path::new(env!("CARGO_MANIFEST_DIR")).join(include))
}

#[test]
fn the_stubs_of_the_tests_are_what_the_generator_writes() {
    let config = config("tests/proto").deferred("/parts.Echo/Later");
    committed("tests/generated", "parts", config, "tests/proto/parts.proto");
    let config = crate::config("tests/proto").deferred("/picture.Images/Later");
    committed("tests/generated", "picture", config, "tests/proto/picture.proto");
}

#[test]
fn the_stubs_of_the_example_are_what_the_generator_writes() {
    committed("examples/echo", "echo", config("examples/echo"), "examples/echo/echo.proto");
}

#[test]
fn the_stubs_of_the_program_are_what_the_generator_writes() {
    let demo = config("../serve/proto").deferred("/demo.Echo/Wait");
    committed("../serve/proto", "demo", demo, "../serve/proto/demo.proto");
    let txn = ["Execute", "Open", "Close", "Status", "Info", "Export"]
        .iter()
        .fold(config("../client/proto"), |config, method| config.deferred(format!("/millrace.Txn/{method}")));
    committed("../client/proto", "txn", txn, "../client/proto/txn.proto");
    let rec = config("../serve/proto");
    committed("../serve/proto", "recommend", rec, "../serve/proto/recommend.proto");
    let rec = config("../serve/proto");
    committed("../serve/proto", "inference", rec, "../serve/proto/inference.proto");
    let grpc = ["reflection/v1/reflection", "reflection/v1alpha/reflection", "health/v1/health"]
        .map(|file| format!("../serve/proto/grpc/{file}.proto"));
    committed_of_several(
        "../serve/proto",
        "grpc",
        config("../serve/proto"),
        &grpc.each_ref().map(|file| &**file),
    );
    let shop = config("../prove/proto");
    committed("../prove/proto", "shop", shop, "../prove/proto/shop.proto");
    let memory = config("../remote/proto");
    committed("../remote/proto", "memory", memory, "../remote/proto/memory.proto");
}

#[test]
fn a_method_that_is_not_there_cannot_be_deferred() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    for wrong in ["/parts.Echo/Latr", "/parts.Echo/Count"] {
        let config = config("tests/proto").deferred(wrong).out_dir(folder).name("wrong");
        let compiled = std::panic::catch_unwind(|| config.compile(&[home.join("tests/proto/parts.proto")]));
        assert!(compiled.is_err(), "{wrong}");
    }
}
