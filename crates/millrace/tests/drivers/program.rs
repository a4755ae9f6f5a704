//! The program, with the faulty kernel preloaded.

use crate::PATIENCE;
use faults::Control;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// Switches of a kernel for this seed, in a folder.
pub fn control(folder: &Path, seed: u64) -> Control {
    Control::create(&folder.join("faults"), seed).expect("a file")
}

/// What a process must have in its environment.
pub fn environment(control: &Control) -> Vec<(&'static str, PathBuf)> {
    let library = faults::library().expect("it was built with this test");
    vec![("LD_PRELOAD", library), (faults::CONTROL, control.path().to_path_buf())]
}

#[derive(Default)]
struct Said {
    lines: Vec<String>,
    has_ended: bool,
}

/// A running server.
pub struct Program {
    process: Child,
    pub control: Control,
    ends_at_eof: bool,
    said: Arc<(Mutex<Said>, Condvar)>,
    _folder: TempDir,
}

impl Program {
    /// Starts it; nothing goes wrong before the control is armed.
    pub fn start(seed: u64, words: impl FnOnce(&Path) -> Vec<String>) -> Program {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let control = control(folder.path(), seed);
        let words = words(folder.path());
        let ends_at_eof = words.iter().any(|word| word == "--until-eof");
        let mut process = Command::new(PROGRAM)
            .args(words)
            .envs(environment(&control))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let said: Arc<(Mutex<Said>, Condvar)> = Arc::default();
        let (out, err) = (process.stdout.take().expect("piped"), process.stderr.take().expect("piped"));
        listen(Box::new(out), &said, false);
        listen(Box::new(err), &said, true);
        Program { process, control, ends_at_eof, said, _folder: folder }
    }

    /// What is behind `before` in the first line that has it.
    pub fn word(&self, before: &str) -> String {
        let said = self.said.0.lock().expect("nobody panics with it");
        let none = |said: &mut Said| !said.has_ended && !said.lines.iter().any(|line| line.contains(before));
        let (said, _) = self.said.1.wait_timeout_while(said, PATIENCE, none).expect("as above");
        let line = said.lines.iter().find_map(|line| line.split_once(before));
        let Some((_, rest)) = line else { panic!("it does not say {before:?}: {:?}", said.lines) };
        rest.split([' ', ',']).next().unwrap_or_default().trim_end_matches('/').to_owned()
    }

    /// The first line of which this holds; none within `patience`.
    pub fn line(&self, patience: Duration, is: impl Fn(&str) -> bool) -> Option<String> {
        let find = |said: &Said| said.lines.iter().find(|line| is(line)).cloned();
        let said = self.said.0.lock().expect("nobody panics with it");
        let none = |said: &mut Said| !said.has_ended && find(said).is_none();
        let (said, _) = self.said.1.wait_timeout_while(said, patience, none).expect("as above");
        find(&said)
    }

    pub fn descriptors(&self) -> Vec<String> {
        let folder = format!("/proc/{}/fd", self.process.id());
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.map(|link| link.display().to_string()).collect()
    }

    /// Nothing goes wrong any more, and no more than `before` are open after a while.
    pub fn until_as_before(&self, before: &[String]) -> Result<(), String> {
        self.control.disarm();
        let begun = Instant::now();
        loop {
            let now = self.descriptors();
            if now.len() <= before.len() {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("descriptors stay behind: {before:?}, now {now:?}"));
            }
            std::thread::yield_now();
        }
    }

    /// Says to it that it is to end; it does, without complaint.
    pub fn end(mut self) -> Result<String, String> {
        self.control.disarm();
        drop(self.process.stdin.take());
        if !self.ends_at_eof {
            let pid = rustix::process::Pid::from_child(&self.process);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let begun = Instant::now();
        loop {
            match self.process.try_wait().map_err(|e| e.to_string())? {
                Some(status) if status.success() => return Ok(self.control.summary()),
                Some(status) => return Err(self.because(&format!("it ended with {status}"))),
                None if begun.elapsed() > PATIENCE => return Err(self.because("it does not end")),
                None => std::thread::yield_now(),
            }
        }
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// A sentence with what led to it.
    pub fn because(&self, what: &str) -> String {
        let said = self.said.0.lock().expect("nobody panics with it");
        let log = self.control.log();
        let last = &log[log.len().saturating_sub(30)..];
        format!("{what}\n{}\nit said {:#?}\nthe last faults: {last:?}", self.control.summary(), said.lines)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

fn listen(from: Box<dyn Read + Send>, into: &Arc<(Mutex<Said>, Condvar)>, is_last: bool) {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            into.0.lock().expect("nobody panics with it").lines.push(line);
            into.1.notify_all();
        }
        into.0.lock().expect("nobody panics with it").has_ended |= is_last;
        into.1.notify_all();
    });
}
