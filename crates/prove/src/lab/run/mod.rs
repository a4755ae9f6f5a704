//! `millrace lab run`: load, nodes that die and come back, and a verdict.
//!
//! ```text
//!   spaces: a process per role in namespaces ─┐                             ┌─▶ sim::check ─▶ verdict
//!   loopback: threads of this process ────────┴─ conduct: kills ─▶ record ──┴─▶ stall: how long the load stood still
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `load`, `user`, `solo` | what clients ask for; a client; a client as a process |
//! | `record`, `journal` | what clients saw, in memory and in files that survive them |
//! | `kill`, `conduct` | who dies when, as a schedule; the schedule at work |
//! | `loopback`, `spaces` | where the roles live |
//! | `stall`, `show` | how long the load stood still; what is printed |
//!
//! Who is killed says nothing to anybody; all that it knew is gone. It comes back empty, with a higher incarnation. A home's death is in the
//! history as what it is: a flush, from the death until nothing of the earlier life can be seen, by a client of the highest number. So a
//! write that was acknowledged and is gone is a violation, unless its home died since.
//!
//! All clients read one clock, so what they recorded is merged by time.
//!
//! Bounds: `--operations`; about half a kilobyte for each.

mod conduct;
mod journal;
mod kill;
pub(crate) mod load;
mod loopback;
pub(crate) mod record;
mod show;
pub mod solo;
mod spaces;
pub(crate) mod stall;
#[cfg(test)]
mod tests;
pub(crate) mod user;

use super::LabError;
use super::plan::Plan;
use super::state::parse_name;
use base::Nanos;
use conduct::Death;
use kill::{Kill, Role, all_roles};
use load::Load;
use protocol::coherence::{Compute, NodeId};
use protocol::wire::BoxId;
use record::{Part, Recorded, Wipe};
use serve::inc::rack::Rack;
use serve::inc::{self, Topology};
use serve::process::parse::duration;
use sim::check::{Report, Rules, check};
use stall::{Stall, stalls};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// After a home is back, and its copies' leases are over, nothing of its earlier life is seen; allowing for who was late to say that it is
/// back.
const SETTLED: Nanos = Nanos::from_secs(1);

/// Put load on a rack, kill nodes, and judge what the clients saw.
///
/// Builds boxes, homes, controllers and clients in network namespaces, a process each (or, with --loopback, in this process), and takes them
/// down in the end, also after Ctrl-C. Whoever is killed loses all that it knew, says nothing to anybody, and comes back.
///
/// The verdict is that every key is linearizable: no stale read, no acknowledged write lost (a home is a cache in memory: its items are gone
/// when it dies, all at one moment; with coherence.compute=own_lossy so are, one by one, keys that a box owned when it died: as many as homes
/// count as lost, and no more). The exit status is 1 if one is not. For each death it also says how long no operation at all was
/// answered, how long the client that waited longest waited, and how long that may be: for a box lease + retransmission, for a home until it
/// is back + lease + retransmission, for a controller or another client nothing.
///
/// Namespaces need root and iproute2.
#[derive(clap::Args, Clone, Debug)]
pub struct Run {
    #[command(flatten)]
    plan: Plan,

    #[command(flatten)]
    load: Load,

    /// In this process over loopback, without namespaces and without root
    #[arg(long, conflicts_with_all = ["topology", "links", "xdp", "name", "replace"])]
    loopback: bool,

    /// What the lab is called: 1 to 16 small letters and digits
    #[arg(long, value_name = "NAME", default_value = "run", value_parser = parse_name)]
    name: String,

    /// First remove the lab of this name. What a run that was killed has left is removed in any case
    #[arg(long)]
    replace: bool,

    /// Kill this role at this time, as in box:1@2s, client:1@3s or, the first --link, link:1@4s; may be repeated
    #[arg(long, value_name = "ROLE@TIME", value_parser = Kill::parse)]
    kill: Vec<Kill>,

    /// Kill a ToR box, a root box, a home, a controller, a client and a link program, one after the other, with time to recover. Without a
    /// --link there is one of 50 µs that loses a frame in a thousand. --seconds is as long as it takes, --rate so that --operations last
    #[arg(long)]
    kill_all_roles: bool,

    /// Who is killed comes back after this
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    back: Duration,

    /// Fail also where the load stood still for longer than it may
    #[arg(long)]
    strict: bool,

    /// Write what the clients saw, as docs/history.md describes it
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// What happened, beside what clients saw.
#[derive(Debug)]
struct Scene {
    /// When it began, by the clock of the record.
    begun: Nanos,
    took: Nanos,
    deaths: Vec<Death>,
    /// Of clients, by their numbers in the history.
    lives: BTreeMap<u32, stall::Life>,
    /// Deaths that were to be.
    planned: usize,
    /// What nodes counted, each in a line.
    nodes: Vec<(NodeId, String)>,
}

/// What a run left.
#[derive(Debug)]
pub struct Outcome {
    recorded: Recorded,
    scene: Scene,
    /// What followed each death.
    stalls: Vec<Stall>,
    /// What the judge says.
    report: Report,
}

/// A count in a node's line, as `box:1: hits 5 xdp hits 7`; 0 where it is not in it. Names have words, counts are what is a number.
pub(super) fn counted(line: &str, name: &str) -> u64 {
    let mut words = Vec::new();
    for word in line.split_whitespace().skip(1) {
        match word.parse() {
            Ok(count) if words.join(" ") == name => return count,
            Ok(_) => words.clear(),
            Err(_) => words.push(word),
        }
    }
    0
}

impl Run {
    /// Runs, prints and judges.
    ///
    /// # Errors
    /// A key is not linearizable, or it could not be run.
    pub fn run(&self) -> Result<(), LabError> {
        let stop = serve::process::Stop::on_signals().map_err(inc::IncError::Signal)?;
        let outcome = self.measure(stop.flag())?;
        show::print(self, &outcome).map_err(LabError::io("cannot write"))?;
        let long = outcome.stalls.iter().filter(|stall| !stall.is_bounded()).count();
        match &outcome.report {
            report if !report.violations.is_empty() => Err(LabError::Violated(report.violations.len())),
            report if !report.gave_up.is_empty() => Err(LabError::Undecided(report.gave_up.len())),
            _ if self.strict && long > 0 => Err(LabError::Stalled(long)),
            _ => Ok(()),
        }
    }

    fn measure(&self, stop: &AtomicBool) -> Result<Outcome, LabError> {
        match self.loopback {
            true => loopback::measure(self, Rack::start(&self.plan.shape, &self.plan.registers()?)?, stop),
            false => spaces::measure(self, stop),
        }
    }

    /// Who is to die, and for how long to run.
    fn kills(&self, roles: &[Role], tor: BoxId, lease: Nanos) -> (Vec<Kill>, Nanos) {
        let seconds = Nanos::from(self.load.duration);
        if !self.kill_all_roles {
            return (self.kill.clone(), seconds);
        }
        let (mut kills, end) = all_roles(roles, NodeId::Box(tor), self.back, lease);
        kills.extend(&self.kill);
        (kills, end.max(seconds))
    }

    /// Operations per second, of all clients; 0: as fast as it goes.
    fn rate(&self, seconds: Nanos) -> u64 {
        let lasting = || (0.9 * self.load.operations as f64 / seconds.as_secs_f64()) as u64;
        self.load.rate.unwrap_or_else(|| if self.kill_all_roles { lasting().max(1) } else { 0 })
    }

    fn judge(&self, parts: Vec<Part>, scene: Scene, topology: &Topology) -> Result<Outcome, LabError> {
        let (wipes, owners) = (wipes(&scene.deaths, topology), owners(&scene.deaths, topology));
        let recorded = Recorded::merge(parts, &wipes, &owners, scene.begun);
        if let Some(path) = &self.history {
            recorded.write(path).map_err(|cause| LabError::History(path.clone(), cause))?;
        }
        // A home that ran out of room has lost items: each as if it had been deleted.
        let may_evict = scene.nodes.iter().any(|(_, line)| counted(line, "evicted") > 0);
        let rules = Rules { may_evict, ..Rules::default() };
        let lost = scene.nodes.iter().map(|(_, line)| counted(line, "lost")).sum();
        let report = forgive(check(&recorded.history, &rules), &recorded, &rules, lost);
        let stalls = stalls(&recorded.ends, &scene.deaths, &scene.lives, scene.took, topology.config());
        Ok(Outcome { recorded, scene, stalls, report })
    }
}

/// When boxes died that may have owned keys.
fn owners(deaths: &[Death], topology: &Topology) -> Vec<Nanos> {
    let owns = topology.config().compute == Compute::Own;
    let boxes = deaths.iter().filter(|death| owns && matches!(death.role, Role::Node(NodeId::Box(_))));
    boxes.map(|death| death.at).collect()
}

/// With `coherence.compute = own_lossy` a box that dies takes keys with it. A key that is explained by such a loss is good, if homes
/// counted as many keys as lost as there are of these; no key beyond their count is.
fn forgive(mut report: Report, recorded: &Recorded, rules: &Rules, lost: u64) -> Report {
    let Some(lossy) = recorded.lossy.as_ref().filter(|_| lost > 0 && !report.violations.is_empty()) else {
        return report;
    };
    let with_losses = check(lossy, rules);
    let is_bad = |key: &[u8]| {
        with_losses.violations.iter().chain(&with_losses.gave_up).any(|finding| finding.key == key)
    };
    let explained = report.violations.iter().filter(|finding| !is_bad(&finding.key)).count();
    if explained as u64 <= lost {
        report.violations.retain(|finding| is_bad(&finding.key));
        report.good += explained;
    }
    report
}

/// The flushes that deaths of homes are. Of several homes one flushes its own keys only; so of the others it must be one that may never be.
fn wipes(deaths: &[Death], topology: &Topology) -> Vec<Wipe> {
    let homes = deaths.iter().filter(|death| matches!(death.role, Role::Node(NodeId::Home(_))));
    let is_only = topology.homes().len() == 1;
    let settled = |back: Nanos| back.plus(topology.config().lease).plus(SETTLED);
    homes.map(|death| Wipe { from: death.at, to: death.back.filter(|_| is_only).map(settled) }).collect()
}
