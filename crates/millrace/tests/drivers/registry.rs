//! The controller of a chain whose disks fail: replicas come and go, so that configurations change, and what the controller has said is in most copies
//! of its registry, also when it was killed.

use crate::program::Program;
use crate::{PATIENCE, for_seeds, found};
use faults::{Kind, Lie, Rates};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Disks that are full now and then, or broken, or take less than they are given.
const DISKS: Rates<'static> =
    &[(Kind::NoSpace, 600), (Kind::Broken, 600), (Kind::Short, 1000), (Kind::Interrupted, 300)];
const COPIES: [&str; 3] = ["state", "state.2", "state.3"];

/// A replica without faults, and without anything that outlives it.
struct Replica(Child);

impl Replica {
    fn start(folder: &Path, id: u16) -> Replica {
        let at = |name: &str| format!("unix:{}", folder.join(name).display());
        let peers: Vec<_> = (1..=3).map(|id| format!("{id}={}", at(&format!("peer{id}")))).collect();
        let process = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["chain", "replica", "--until-eof", "--no-key", "--media", "memory"])
            .args(["--log-size", "8m", "--data-size", "8m", "--id", &id.to_string()])
            .args(["--listen", &at(&format!("clients{id}")), "--peers", &peers.join(",")])
            .args(["--controllers", &at("controller")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program");
        Replica(process)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn controller(folder: &Path, seed: u64) -> Program {
    let state = folder.join(COPIES[0]).display().to_string();
    let listen = format!("unix:{}", folder.join("controller").display());
    Program::start(seed, |_| {
        let words = [
            "chain",
            "controller",
            "--no-key",
            "--replicas",
            "1,2,3",
            "--state",
            &state,
            "--listen",
            &listen,
        ];
        words.map(str::to_owned).into()
    })
}

/// The epoch that a line of the controller's tells, and who is in the chain then.
fn told(line: &str) -> Option<(u64, &str)> {
    let (_, rest) = line.split_once(": epoch ")?;
    let (epoch, members) = rest.split_once(": replicas ")?;
    Some((epoch.parse().ok()?, members))
}

/// How many copies have an epoch as high as this.
fn copies_with(folder: &Path, epoch: u64) -> usize {
    let has = |name: &&&str| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let rest = text.split_once("\"epoch\":").map_or("", |(_, rest)| rest);
        rest.split(',').next().and_then(|number| number.parse().ok()).is_some_and(|found: u64| found >= epoch)
    };
    COPIES.iter().filter(has).count()
}

/// The controller, and what it said last.
struct Chain<'a> {
    folder: &'a Path,
    controller: Program,
    epoch: u64,
    patience: Duration,
}

impl Chain<'_> {
    /// Waits until it says a configuration of these, newer than the last.
    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> Result<(), String> {
        let last = self.epoch;
        let is = |line: &str| told(line).is_some_and(|(epoch, members)| epoch > last && is_so(members));
        let line =
            self.controller.line(self.patience, is).ok_or_else(|| format!("it never says that {what}"))?;
        self.epoch = told(&line).expect("it was one").0;
        match copies_with(self.folder, self.epoch) {
            0 | 1 => Err(format!("it says {line:?}, and most copies do not have it")),
            _ => Ok(()),
        }
    }
}

fn scenario(seed: u64, rates: Rates<'_>, lie: Lie, patience: Duration) -> Result<String, String> {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let mut replicas: Vec<_> = (1..=3).map(|id| Some(Replica::start(folder.path(), id))).collect();
    let mut chain =
        Chain { folder: folder.path(), controller: controller(folder.path(), seed), epoch: 0, patience };
    let all_serve = |members: &str| members.matches(',').count() == 2 && !members.contains("catching up");
    chain.until("all serve", all_serve)?;
    let mut summaries = Vec::new();
    for round in 0..3 {
        chain.controller.control.arm(rates, lie);
        let id = 1 + (seed + round) % 3;
        replicas[id as usize - 1] = None;
        let name = id.to_string();
        let is_without =
            |members: &str| members.split(", ").all(|member| member.split(' ').next() != Some(&name));
        let went = chain.until(&format!("{id} is gone"), is_without).and_then(|()| {
            replicas[id as usize - 1] = Some(Replica::start(folder.path(), id as u16));
            chain.until("all serve", all_serve)
        });
        went.map_err(|why| chain.controller.because(&why))?;
        // Killed, so that its next life has nothing but the copies.
        summaries.push(chain.controller.control.summary());
        chain.controller.kill();
        chain.controller = controller(folder.path(), seed + round);
        let is_told = |line: &str| told(line).is_some();
        let line = chain.controller.line(patience, is_told).ok_or("its next life knows no configuration")?;
        let (epoch, _) = told(&line).expect("it is told");
        if epoch < chain.epoch {
            return Err(format!("epoch {} was said, and the next life begins with {line:?}", chain.epoch));
        }
        chain.epoch = epoch;
    }
    Ok(summaries.join("; "))
}

#[test]
fn a_controller_forgets_nothing_when_its_disks_are_full_or_broken() {
    for_seeds(3, |seed| scenario(seed, DISKS, Lie::No, PATIENCE));
}

#[test]
fn a_configuration_that_was_not_written_and_is_acknowledged_is_found() {
    let hung = Duration::from_secs(10);
    found(Lie::NoSpaceTakenForWritten, |seed, lie| scenario(seed, &[(Kind::NoSpace, 5000)], lie, hung));
}
