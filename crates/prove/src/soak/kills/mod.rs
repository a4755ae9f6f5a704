//! `millrace soak kills`: processes of every role die under mixed load, one after the other, and nothing that was acknowledged is lost.
//!
//! ```text
//!  cluster   a process per member of one cluster's file: boxes, a home with a log or over the chain, controllers, a chain of three
//!  clients ──┬── memcached  at the node: get, set, delete, incr      ┐
//!            ├── in-network by the boxes (lab's user)                ├ one history ─▶ sim::joint
//!            └── transfers  transactions at the chain                ┘
//!  conduct   who dies next, as the seed says; it comes back, all is whole, every client goes on: then the next
//!  stalls    how long clients stood still after each death, beside how long they may
//! ```
//! With `--durability chain` the home's items lie in the chain, and transactions go by it and are on the same keys as all else. All is judged as one: strictly
//! serializable over all keys and all three kinds of clients.
//!
//! Nothing here waits for a certain time: a death follows when the cluster says that it is whole and every client has done some operations since the last
//! one. So the verdict does not depend on how fast the machine is; only the stalls do.
//!
//! Bounds: every operation is recorded, half a kilobyte each; [`Kills::rate`] of them in a second.

mod conduct;
mod memcached;
mod show;
mod stalls;
#[cfg(test)]
mod tests;
mod transfers;

use super::SoakError;
use crate::cluster::{BOXES, Durability, Members};
use crate::lab::run::load::{Load, Pace};
use crate::lab::run::record::{Part, Recorded, now};
use crate::lab::run::user::{Mix, User};
use base::Nanos;
use clap::Args;
use conduct::{Death, Gauge, conduct};
use serve::process::{interrupt, progress};
use sim::check::{Report, Rules};
use sim::joint;
use stalls::{End, Group, Stall};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// Kill -9 processes of every role under mixed load, and check that nothing acknowledged is lost.
///
/// Starts a cluster on this machine's loopback, each member a process: a node with --durability log that is the home of two boxes, their controller, and a
/// chain of three replicas with its controller. Clients of memcached's protocol at the node and in-network clients by the boxes work on the same keys;
/// others do transactions at the chain; with --durability chain the node's items lie there, and these are on the same keys, too. Then, as often as is said,
/// a member that the seed draws is killed on the spot, comes back, and when all is whole again and every client has gone on, the next.
///
/// The verdict: over all keys, all protocols and all deaths the history is strictly serializable, so no acknowledged write is lost, no read is stale, and
/// nobody sees half of a transaction. The exit status is 1 if not, or, with --strict, if clients stood still for longer than they may.
#[derive(Args, Debug)]
pub struct Kills {
    /// How many die
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    kills: u64,

    /// Who dies when, and what clients ask for
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// What the node keeps its items in
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    durability: Durability,

    /// Keys of memcached's and in-network clients
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u64).range(4..=1_000_000))]
    keys: u64,

    /// Clients of each of the three kinds
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,

    /// Operations in a second, of all clients of a kind: all are recorded and judged
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,

    /// Fail also where clients stood still for longer than they may
    #[arg(long)]
    strict: bool,

    /// Write what all clients saw, for `millrace check` (docs/history.md)
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,

    /// Keep the folder with the members' data and what they said, instead of removing it
    #[arg(long)]
    keep: bool,

    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What came of it.
#[derive(Debug)]
struct Outcome {
    /// Of all keys.
    report: Report,
    /// How long that took.
    judged: Nanos,
    deaths: Vec<Death>,
    stalls: Vec<Stall>,
    /// Operations that began, by group.
    begun: [u64; 3],
    /// Of these, those that were answered.
    answered: [u64; 3],
    took: Nanos,
}

impl Outcome {
    /// Promises that were broken.
    fn broken(&self) -> u64 {
        self.report.violations.len() as u64
    }

    /// Parts of which a judge knows nothing.
    fn undecided(&self) -> u64 {
        self.report.gave_up.len() as u64
    }

    /// Stalls that were longer than they may be.
    fn long(&self) -> u64 {
        self.stalls.iter().filter(|stall| !stall.is_bounded()).count() as u64
    }
}

impl Kills {
    /// Runs it.
    ///
    /// # Errors
    /// When it could not be run, or a promise was broken.
    pub fn run(&self) -> Result<(), SoakError> {
        let interrupted =
            interrupt::flag().map_err(|e| SoakError::Run(format!("Ctrl-C cannot be caught: {e}")))?;
        let outcome = self.measure(&interrupted).map_err(SoakError::Run)?;
        show::print(self, &outcome).map_err(|e| SoakError::Run(format!("cannot write the result: {e}")))?;
        let long = if self.strict { outcome.long() } else { 0 };
        match (outcome.broken() + long, outcome.undecided()) {
            (0, 0) => Ok(()),
            (0, undecided) => Err(SoakError::Run(format!(
                "{undecided} parts of the history could not be decided; take more --keys or a lower --rate"
            ))),
            (broken, _) => Err(SoakError::Broken(broken)),
        }
    }

    fn measure(&self, interrupted: &AtomicBool) -> Result<Outcome, String> {
        let (durability, is_joint) = (self.durability, self.durability == Durability::Chain);
        let node =
            Box::new(move |folder: &Path, ports: &[SocketAddr]| durability.node(folder, ports[0].port()));
        let mut members = Members::new("kills", self.keep, is_joint, node)?;
        members.start_all()?;
        let bar = progress::bar(self.json);
        let played = self.play(&mut members, interrupted, &|fraction, what| {
            progress::show(&bar, fraction, what);
        });
        bar.finish_and_clear();
        let (played, deaths) = played?;
        self.judge(played, deaths, &members)
    }

    /// Clients work while members die.
    fn play(
        &self,
        members: &mut Members,
        interrupted: &AtomicBool,
        tell: &dyn Fn(f64, &str),
    ) -> Result<(Played, Vec<Death>), String> {
        let begun = now();
        let (over, left) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
        let gauges: Vec<Gauge> = (0..2 * self.clients).map(|_| Gauge::default()).collect();
        let (of_node, of_chain) = gauges.split_at(self.clients as usize);
        let users = self.users(members)?;
        let history = transfers::History::new(begun, 2 * self.clients);
        let (node, chain, members_cell) = (members.node(), members.chain(), members);
        let (parts, deaths) = std::thread::scope(|scope| {
            let (over, left, history, chain) = (&over, &left, &history, &chain);
            let in_network: Vec<_> =
                users.into_iter().map(|user| scope.spawn(move || user.work(left, over))).collect();
            let at_node = of_node.iter().enumerate().map(|(i, gauge)| {
                let client = memcached::Client::new(self, i as u32, node, gauge);
                scope.spawn(move || client.work(over))
            });
            let at_node: Vec<_> = at_node.collect();
            let at_chain = of_chain.iter().enumerate().map(|(i, gauge)| {
                let client = transfers::Client::new(self, i as u32, chain, history, gauge);
                scope.spawn(move || client.work(over))
            });
            let at_chain: Vec<_> = at_chain.collect();
            let watched = conduct::Watched { gauges: &gauges, left, users: self.clients };
            let deaths = conduct((self.kills, self.seed), members_cell, &watched, begun, interrupted, tell);
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            let join = "a client does not panic";
            let mut parts = Vec::new();
            for thread in in_network {
                parts.push(thread.join().expect(join).map_err(|error| error.to_string()));
            }
            parts.extend(at_node.into_iter().map(|thread| Ok(thread.join().expect(join))));
            at_chain.into_iter().for_each(|thread| thread.join().expect(join));
            (parts, deaths)
        });
        let parts = parts.into_iter().collect::<Result<Vec<Part>, String>>()?;
        Ok((Played { parts, history, begun, took: now().since(begun) }, deaths?))
    }

    /// In-network clients, each behind one of the boxes.
    fn users(&self, members: &Members) -> Result<Vec<User>, String> {
        let load = Load {
            duration: Duration::MAX,
            operations: u64::MAX,
            rate: None,
            keys: self.keys,
            skew: 0.0,
            writes: 20,
            compute: 20,
            value_size: 32,
            seed: self.seed,
        };
        let mix = Mix::new(load.writes, load.compute)?;
        let pace = Pace::of(self.rate, self.clients);
        let user = |number: u32| {
            let tor = 1 + (number % BOXES) as u16;
            let place = (number, Some(self.clients));
            User::new(members.topology(), place, tor, &mix, &load, (Part::new(number), pace))
                .map_err(|error| error.to_string())
        };
        (0..self.clients).map(user).collect()
    }

    fn judge(&self, played: Played, deaths: Vec<Death>, members: &Members) -> Result<Outcome, String> {
        let Played { parts, history, begun, took } = played;
        let recorded = Recorded::merge(parts, &[], &[], begun);
        let transfers::Told { history, ends: told, begun: transactions } = history.into_told();
        let history = joint::merge(&recorded.history, &history);
        if let Some(path) = &self.history {
            write(&history, path).map_err(|e| format!("the history {}: {e}", path.display()))?;
        }
        let group = |client: u32| match client / self.clients {
            0 => Group::InNetwork,
            1 => Group::Memcached,
            _ => Group::Transactions,
        };
        let mut ends: Vec<End> = recorded
            .ends
            .iter()
            .map(|end| End { at: end.at, client: end.client, group: group(end.client) })
            .collect();
        ends.extend(told.iter().map(|&(at, client)| End { at, client, group: Group::Transactions }));
        ends.sort_by_key(|end| end.at);
        let answered = Group::ALL.map(|of| ends.iter().filter(|end| end.group == of).count() as u64);
        let calls = |of: Group| {
            let of_group = |call: &sim::history::Operation<'_, _, _>| group(call.client) == of;
            recorded.history.operations().filter(of_group).count() as u64
        };
        let called = [calls(Group::Memcached), calls(Group::InNetwork), transactions];
        let clients = 3 * self.clients;
        let stalls = stalls::stalls(&ends, &deaths, (clients, self.clients), took, &members.times());
        let begun = now();
        let report = joint::check(&history, &Rules::default());
        Ok(Outcome { report, judged: now().since(begun), deaths, stalls, begun: called, answered, took })
    }
}

fn write(history: &joint::History, path: &Path) -> io::Result<()> {
    let mut out = io::BufWriter::new(std::fs::File::create(path)?);
    history.write(&mut out)?;
    out.flush()
}

/// What clients left.
struct Played {
    parts: Vec<Part>,
    history: transfers::History,
    begun: Nanos,
    took: Nanos,
}
