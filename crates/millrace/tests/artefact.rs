//! `docs/artefact.md`: each quoted claim stands in the document that it names, each command is one that the program takes, and what takes seconds is run and
//! prints what the page says, and what the document shows of it, line by line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Commands that take longer are not run.
const SECONDS_MAX: u32 = 5;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A row of the page.
#[derive(Debug)]
struct Claim {
    said_in: String,
    command: Option<String>,
    takes: String,
    prints: String,
}

fn claims(page: &str) -> Vec<Claim> {
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(1);
    let claim = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, said_in, command, takes, prints] = cells[..] else { panic!("five cells: {row}") };
        let command = command.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        Claim {
            said_in: said_in.into(),
            command: command.map(Into::into),
            takes: takes.into(),
            prints: prints.into(),
        }
    };
    rows.map(claim).collect()
}

/// Texts in quotation marks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('"').skip(1).step_by(2).collect()
}

/// Whether the document that the cell links to has all that it quotes; what is wrong otherwise.
fn stands(said_in: &str) -> Result<(), String> {
    let link = said_in.split_once("](").and_then(|(_, rest)| rest.split_once(')'));
    let (path, _) = link.ok_or_else(|| format!("no link: {said_in}"))?;
    let text = fs::read_to_string(root().join("docs").join(path)).map_err(|why| format!("{path}: {why}"))?;
    let quotes = quoted(said_in);
    let missing = quotes.iter().find(|quote| !text.contains(**quote));
    match (quotes.is_empty(), missing) {
        (true, _) => Err(format!("nothing is quoted: {said_in}")),
        (_, Some(missing)) => Err(format!("{path} does not say {missing:?}")),
        _ => Ok(()),
    }
}

/// What a document shows of a command: the lines of the first block after it, where there is one before the next command.
fn shown<'a>(document: &'a str, command: &str) -> Vec<&'a str> {
    let rest = document.split_once(&format!("`{command}`")).map_or("", |(_, rest)| rest);
    let Some((before, block)) = rest.split_once("```\n") else { return Vec::new() };
    let is_its = !before.contains("`millrace ") && !before.contains("\n#");
    let block = block.split("```").next().filter(|_| is_its).unwrap_or_default();
    block.lines().filter(|line| !line.trim().is_empty()).collect()
}

fn millrace(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).args(words).output().expect("the program runs")
}

/// Whether a command is one that there is; what is wrong otherwise.
fn is_taken(command: &str) -> Result<(), String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[..] {
        ["millrace", ref words @ ..] => {
            // Arguments are looked at in order, so that all of them have to be right before help is given.
            let output = millrace(&[words, &["--help"]].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(()) } else { Err(format!("{command}: {said}")) }
        }
        ["cargo", "test", "-p", package, ref rest @ ..] => {
            let folder = match package.strip_prefix("millrace-") {
                Some(name) => root().join("crates").join(name),
                None => root().join("crates/millrace"),
            };
            let there = match rest {
                ["--test", name] => {
                    let tests = folder.join("tests");
                    tests.join(format!("{name}.rs")).is_file() || tests.join(name).join("main.rs").is_file()
                }
                ["--lib", ..] => folder.join("src/lib.rs").is_file(),
                _ => false,
            };
            if there { Ok(()) } else { Err(format!("{command}: there is no such test")) }
        }
        _ => Err(format!("{command}: neither millrace nor cargo test")),
    }
}

#[test]
fn every_claim_stands_where_it_is_said_to_and_has_a_command_that_there_is() {
    let page = fs::read_to_string(root().join("docs/artefact.md")).expect("the page");
    let claims = claims(&page);
    assert!(claims.len() > 10, "{}", claims.len());
    for claim in &claims {
        stands(&claim.said_in).unwrap_or_else(|why| panic!("{why}"));
        claim.command.as_deref().map_or(Ok(()), is_taken).unwrap_or_else(|why| panic!("{why}"));
    }
    // What is wrong is found.
    assert!(
        stands("[README](../README.md): \"0.0 to 0.1 %\"").is_err_and(|why| why.contains("does not say"))
    );
    assert!(stands("[README](../README.md)").is_err());
    assert!(is_taken("millrace plan --workloads x").is_err() && is_taken("millrace model validat").is_err());
    assert!(is_taken("cargo test -p millrace-model --test unpublished").is_err());
}

#[test]
fn what_takes_seconds_prints_what_the_page_says() {
    let page = fs::read_to_string(root().join("docs/artefact.md")).expect("the page");
    let mut ran = 0;
    for claim in claims(&page) {
        let seconds = claim.takes.strip_suffix(" s").and_then(|number| number.parse::<u32>().ok());
        let (Some(command), Some(0..=SECONDS_MAX)) = (&claim.command, seconds) else { continue };
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        let output = millrace(&words);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let document = fs::read_to_string(root().join("docs/plan.md")).expect("the page");
        let mut lines = text.lines();
        for line in shown(&document, command) {
            assert!(
                lines.any(|printed| printed == line),
                "{command} does not print this line there:\n{line}\nbut\n{text}"
            );
        }
        for quote in quoted(&claim.prints) {
            assert!(text.contains(quote), "{command} does not print {quote:?}:\n{text}");
        }
        ran += 1;
    }
    assert!(ran >= 5, "{ran}");
    let document = "`millrace plan`:\n\n```\na\n\nb\n```\n`millrace x` and `millrace y`\n```\nc\n```\n";
    assert_eq!((shown(document, "millrace plan"), shown(document, "millrace x")), (vec!["a", "b"], vec![]));
}
