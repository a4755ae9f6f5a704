//! Every command of `docs/tutorials`, run as a reader would: one shell for each page, in an empty folder, with this program. What a page says that a command
//! prints has to be in what it prints, line by line and in order; `…` stands for anything. Ports are others, which are free.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than any command takes that works.
const PATIENCE: Duration = Duration::from_secs(120);
/// Ports that pages name, and how many from there on are theirs.
const PORTS: &[(u16, u16)] =
    &[(11211, 1), (9211, 1), (27001, 1), (50051, 1), (7101, 5), (7401, 3), (7500, 2)];

/// A command of a page, and what it is said to print.
#[derive(Debug)]
struct Step {
    command: String,
    prints: Vec<String>,
}

fn pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorials");
    let mut pages: Vec<PathBuf> =
        fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    pages.sort();
    pages
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().expect("there is one");
        for line in block.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => steps.push(Step { command: command.to_owned(), prints: Vec::new() }),
                None => steps.last_mut().expect("a command comes first").prints.push(line.to_owned()),
            }
        }
    }
    steps
}

/// The page with ports that are free.
fn with_free_ports(mut page: String) -> String {
    for &(port, count) in PORTS {
        let is_free =
            |first: &u16| (0..count).all(|more| TcpListener::bind(("127.0.0.1", first + more)).is_ok());
        let mut candidates = (0..500).map(|_| {
            let any = TcpListener::bind("127.0.0.1:0").expect("a port");
            any.local_addr().expect("it is bound").port().min(u16::MAX - count)
        });
        let free = candidates.find(is_free).expect("some ports in a row are free");
        // Later ones first: the first is the beginning of none of them.
        for more in (0..count).rev() {
            page = page.replace(&(port + more).to_string(), &(free + more).to_string());
        }
    }
    page
}

/// Whether `line` is what the page has, where `…` is anything.
fn matches(pattern: &str, line: &str) -> bool {
    let parts: Vec<&str> = pattern.split('…').collect();
    let [first, middle @ .., last] = &parts[..] else { return line.trim_end() == pattern.trim_end() };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The first line of the page that is not there.
fn missing<'a>(prints: &'a [String], lines: &[String]) -> Option<&'a String> {
    let mut lines = lines.iter();
    prints.iter().find(|pattern| *pattern != "…" && !lines.any(|line| matches(pattern, line)))
}

/// A shell, and all that it and what it starts print.
struct Shell {
    shell: Child,
    input: ChildStdin,
    output: Receiver<String>,
    lines: Vec<String>,
}

impl Shell {
    fn start(folder: &Path) -> Shell {
        let program = Path::new(env!("CARGO_BIN_EXE_millrace")).parent().expect("it is in a folder");
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = Command::new("bash");
        command.args(["-u"]).current_dir(folder).env("PATH", path).env("XDG_RUNTIME_DIR", folder);
        let both = (writer.try_clone().expect("a descriptor"), writer);
        let mut shell =
            command.stdin(Stdio::piped()).stdout(both.0).stderr(both.1).spawn().expect("bash is here");
        drop(command);
        let (sender, output) = channel();
        std::thread::spawn(move || {
            BufReader::new(reader).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let input = shell.stdin.take().expect("it is piped");
        Shell { shell, input, output, lines: Vec::new() }
    }

    /// Runs a command until `is_done` of its status and what was printed since it began.
    fn run(&mut self, command: &str, is_done: impl Fn(&str, &[String]) -> bool) -> Result<(), String> {
        let begun = self.lines.len();
        writeln!(self.input, "{command}\nprintf '\\n@status %s\\n' $?").map_err(|error| error.to_string())?;
        let (mut status, end) = (String::new(), Instant::now() + PATIENCE);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.output.recv_timeout(left) else {
                return Err(format!("it printed (status {status:?}):\n{}", self.lines[begun..].join("\n")));
            };
            match line.strip_prefix("@status ") {
                Some(code) => status = code.to_owned(),
                None => self.lines.push(line),
            }
            if !status.is_empty() && is_done(&status, &self.lines[begun..]) {
                return Ok(());
            }
            if !status.is_empty() && status != "0" {
                return Err(format!("status {status}, and it printed:\n{}", self.lines[begun..].join("\n")));
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Servers that it started, and no others; they answer what has come, and end.
        let _ = writeln!(self.input, "kill $(jobs -p) 2>/dev/null; wait; exit");
        let _ = self.shell.wait();
    }
}

fn try_page(name: &str) {
    let page =
        pages().into_iter().find(|page| page.file_stem().is_some_and(|stem| stem == name)).expect(name);
    let text = fs::read_to_string(&page).expect("a page");
    if text.contains("$ curl") && Command::new("curl").arg("--version").output().is_err() {
        println!("SKIPPED: the tutorial {name} wants curl, which is not installed");
        return;
    }
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let mut shell = Shell::start(folder.path());
    for Step { command, prints } in steps(&with_free_ports(text)) {
        // What a server prints comes when it likes; a command that ended has printed all.
        let result = shell.run(&command, |status, lines| status == "0" && missing(&prints, lines).is_none());
        if let Err(why) = result {
            panic!("{name}: `{command}` does not print {prints:#?}: {why}");
        }
    }
}

#[test]
fn cache() {
    try_page("cache");
}

#[test]
fn rpc() {
    try_page("rpc");
}

#[test]
fn rack() {
    try_page("rack");
}

#[test]
fn transactions() {
    try_page("transactions");
}

#[test]
fn recommend() {
    try_page("recommend");
}

#[test]
fn plan() {
    try_page("plan");
}

#[test]
fn every_page_is_tried() {
    let names: Vec<String> =
        pages().iter().map(|page| page.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["cache", "plan", "rack", "recommend", "rpc", "transactions"]);
}

#[test]
fn a_page_that_says_otherwise_is_found() {
    assert!(matches("version …, answered by a box in …", "version 7, answered by a box in 9 µs"));
    assert!(!matches("version …, answered by a box in …", "version 7, answered by the home in 9 µs"));
    assert!(matches("blue", "blue") && !matches("blue", "green"));
    let lines = ["a".to_owned(), "b".to_owned()];
    assert_eq!(missing(&["b".to_owned(), "a".to_owned()], &lines).map(String::as_str), Some("a"));
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let wrong = Shell::start(folder.path()).run("false", |status, _| status == "0");
    assert!(wrong.is_err_and(|why| why.contains("status 1")));
}
