//! The shape of the workspace: what `ARCHITECTURE.md` and `CONTRIBUTING.md` promise and a compiler does not check. Needs no tools.
//!
//! A rule is a function from text to findings, each with its place and what to do; beside the test that holds the workspace to it is one that shows,
//! on text made up for it, that the rule can fail. Counts here are ratchets: they may only become smaller.

mod rules;

use rules::{
    LONG_FUNCTIONS, WIDE_COMMENTS, is_proof, kept_folders, length, long_functions, missing_paths,
    missing_tests, planted, refused, trespasses, wide_comments,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(&path)).unwrap_or_else(|e| panic!("{}: {e}", path.as_ref().display()))
}

/// All sources that people write: paths below `crates`, and texts.
fn sources() -> Vec<(String, String)> {
    let attributes = read(".gitattributes");
    let generated = attributes.lines().filter_map(|line| line.strip_suffix(" linguist-generated"));
    let generated: BTreeSet<&str> = generated.filter_map(|path| path.strip_prefix("crates/")).collect();
    let (mut folders, mut found) = (vec![root().join("crates")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("it is a folder") {
            let path = entry.expect("it is there").path();
            let name = path.strip_prefix(root().join("crates")).expect("it is below").display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !generated.contains(&*name) {
                found.push((name, fs::read_to_string(path).expect("it is text")));
            }
        }
    }
    found
}

/// Fails with all findings; with fewer than were allowed, asks for the smaller number.
fn hold(allowed: usize, findings: impl IntoIterator<Item = String>) {
    let found: Vec<String> = findings.into_iter().collect();
    let (count, list) = (found.len(), found.join("\n"));
    assert!(count <= allowed, "{count} findings, {allowed} allowed:\n{list}");
    assert_eq!(count, allowed, "fewer than before: write the new number into tests/tidy/rules.rs");
}

#[test]
fn crates_import_downwards() {
    let crates = fs::read_dir(root().join("crates")).expect("a folder");
    for one in crates.map(|entry| entry.expect("it is there").file_name()) {
        let name = one.to_str().expect("a plain name");
        hold(0, refused(name, &read(format!("crates/{name}/Cargo.toml"))));
    }
    assert_eq!(refused("serve", "[dependencies]\nbase.workspace = true\nbench.workspace = true").len(), 1);
    assert_eq!(refused("store", "[dev-dependencies]\nring = { workspace = true }").len(), 1);
    assert_eq!(refused("util", "").len(), 1);
    assert!(refused("store", "[lib]\nbench = false").is_empty());
}

#[test]
fn services_do_not_know_each_other() {
    hold(0, sources().iter().flat_map(|(path, text)| trespasses(path, text)));
    assert_eq!(trespasses("serve/src/inc/run.rs", "use crate::chain::Error;\nuse crate::inc::x;").len(), 1);
    assert_eq!(trespasses("serve/src/admin.rs", "fn f() { crate::kv::Server::start() }").len(), 1);
    assert_eq!(trespasses("serve/src/proxy/run.rs", "use crate::inc::x;\nuse crate::rec;").len(), 1);
}

#[test]
fn files_are_short() {
    hold(0, sources().iter().filter_map(|(path, text)| length(path, text.lines().count())));
    assert!(length("x.rs", 500).is_none() && length("x.rs", 501).is_some());
}

#[test]
fn functions_fit_a_screen() {
    hold(LONG_FUNCTIONS, sources().iter().flat_map(|(path, text)| long_functions(path, text)));
    let function = |lines| format!("    pub const fn f() {{\n{}    }}\n", "        x();\n".repeat(lines));
    assert!(long_functions("x.rs", &function(68)).is_empty());
    assert_eq!(long_functions("x.rs", &function(69)).len(), 1);
}

#[test]
fn comments_are_narrow() {
    hold(WIDE_COMMENTS, sources().iter().flat_map(|(path, text)| wide_comments(path, text)));
    assert_eq!(wide_comments("x.rs", &format!("// {}\n// {}", "é".repeat(157), "é".repeat(158))).len(), 1);
}

#[test]
fn temporary_folders_go_with_whoever_made_them() {
    let all = sources();
    let others = all.iter().filter(|(path, _)| !path.starts_with("millrace/tests/tidy/"));
    hold(0, others.flat_map(|(path, text)| kept_folders(path, text)));
    assert_eq!(kept_folders("x.rs", "let path = std::env::temp_dir();\nstruct Folder(PathBuf);").len(), 2);
    assert!(kept_folders("serve/src/chain/up.rs", "std::env::temp_dir()").is_empty());
}

#[test]
fn the_map_names_what_is_there() {
    let crates = fs::read_dir(root().join("crates")).expect("a folder");
    let crates = crates.map(|entry| entry.expect("it is there").path());
    let mut within = vec![root(), root().join("crates")];
    within.extend(crates.flat_map(|one| [one.join("src"), one]));
    let is_there = |path: &str| within.iter().any(|folder| folder.join(path).exists());
    let walks = fs::read_dir(root().join("docs/walks")).expect("a folder");
    let walks =
        walks.map(|entry| format!("docs/walks/{}", entry.expect("it is there").file_name().display()));
    let beside = ["bounds", "dependencies", "where-to-add"].map(|name| format!("docs/{name}.md"));
    let maps = walks.chain(beside).chain(["ARCHITECTURE.md".to_owned()]);
    hold(0, maps.flat_map(|map| missing_paths(&map, &read(&map), is_there)));
    assert_eq!(missing_paths("x.md", "see `a/b.rs`, `x::y/z` and\n`a/c`", |path| path == "a/c").len(), 1);
    let map = read("ARCHITECTURE.md");
    assert!(
        map.len() <= 12 << 10,
        "ARCHITECTURE.md has {} bytes: what is about one part goes to docs",
        map.len()
    );
}

#[test]
fn the_table_of_handlers_names_tests_that_there_are() {
    let (map, text) = ("docs/walks/handlers.md", read("docs/walks/handlers.md"));
    hold(0, missing_tests(map, &text, |path| read(format!("crates/{path}"))));
    assert!(text.matches("_").count() > 40, "it names tests");
    let code = |_: &str| "#[test]\nfn a_b() {}\nfn c_d() {}".to_owned();
    assert_eq!(missing_tests("x.md", "| `x/y.rs` `a_b` `c_d` `e_f` | `z.rs` `a_b` |", code).len(), 2);
}

#[test]
fn no_bug_can_be_chosen_in_production() {
    let all = sources();
    let production = all.iter().filter(|(path, _)| path.contains("/src/") && !is_proof(path));
    hold(0, production.flat_map(|(path, text)| planted(path, text)));
    assert_eq!(planted("x.rs", "struct Home {\n    planted: Option<Planted>,\n}").len(), 1);
    assert!(planted("x.rs", "#[cfg(test)]\nplanted: Option<Planted>,").is_empty());
    assert!(is_proof("prove/src/sim/nodes.rs") && !is_proof("serve/src/inc/node.rs"));
}
