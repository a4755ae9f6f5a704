//! Orders to the controllers of a chain that runs: the operator's machine (`protocol::chain::Operator`) with links, a clock and a line of progress.
//!
//! Nothing here decides: which controller leads, whether an order may be obeyed, and when a replica serves the chain says. Who is interrupted leaves what
//! the chain has by then, which is whole at every moment; the same command once more goes on from there.
//!
//! Bounds: [`PATIENCE`] until a controller answers that leads; then for as long as the chain makes of it.

use super::ClusterError;
use crate::chain::links::Links;
use crate::chain::members::{ChainPlan, ReplicaPlace};
use crate::chain::replica::Secret;
use crate::chain::status::ask;
use crate::process::{interrupt, progress};
use crate::txn::info::Info;
use base::{Bytes, Clock, Nanos};
use fabric::link::Address;
use indicatif::ProgressBar;
use protocol::chain::operator::{Goal, Phase};
use protocol::chain::{Configuration, NodeId, Operator, Out};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A controller that leads answers within this, or it is said that none does: longer than it takes another to take over from a dead one.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two questions.
const PACE: Nanos = Nanos::from_millis(50);
/// Between two looks at how far a replica is.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How the chain is: what its controllers say.
///
/// # Errors
/// None that leads answers, the key is wrong, or Ctrl-C.
pub fn known(chain: &ChainPlan) -> Result<Configuration, ClusterError> {
    carry_out(chain, Goal::default(), None)
}

/// Has the chain do what is wanted; the configuration in which it is so. `joining` is shown how far it is.
///
/// # Errors
/// It is refused, and why; nobody answers; Ctrl-C.
pub fn carry_out(
    chain: &ChainPlan,
    goal: Goal,
    joining: Option<(&ReplicaPlace, &str)>,
) -> Result<Configuration, ClusterError> {
    let stop = interrupt::flag().map_err(ClusterError::Signals)?;
    let clock = Clock::shared();
    let number = u64::from_le_bytes(base::key::random());
    let controllers: Vec<u16> = (0..chain.controllers.len() as u16).collect();
    let mut links = dial(chain, number)?;
    let mut operator = Operator::new(&controllers, goal, PACE, number, clock.now());
    let mut progress = Progress::new(joining);
    let (mut out, mut came) = (Out::new(), Vec::new());
    let begun = Instant::now();
    loop {
        let now = clock.now();
        links.poll(now, &mut came);
        for (from, message) in came.drain(..) {
            operator.handle(now, from, message, &mut out);
        }
        operator.tick(now, &mut out);
        for (to, message) in out.drain(..) {
            links.send(now, to, &message);
        }
        links.flush(now);
        match operator.phase() {
            Phase::Done => {
                progress.end();
                return Ok(operator.configuration().cloned().unwrap_or_default());
            }
            Phase::Refused(why) => {
                progress.end();
                return Err(ClusterError::Refused(format!("chain {}: {why}", chain.number)));
            }
            Phase::Asking if begun.elapsed() > PATIENCE => return Err(nobody(chain, &mut links)),
            phase => progress.show(&phase, &operator),
        }
        // Nothing else is read after the flag is seen, so no order is needed.
        if stop.load(Ordering::Relaxed) {
            progress.end();
            return Err(ClusterError::Refused(
                "stopped: what was done so far stays, and the chain serves; the same command goes on from there".to_owned(),
            ));
        }
        rest(&mut links, operator.next_deadline(), clock);
    }
}

/// Links to all controllers of a chain, as an operator who has its key.
fn dial(chain: &ChainPlan, number: u64) -> Result<Links, ClusterError> {
    let secret = Secret { key: chain.key.clone(), no_key: chain.key.is_none() };
    let addresses: Vec<&Address> = chain.controllers.iter().map(|place| &place.address).collect();
    let key = secret.key(None, addresses.iter().copied());
    let key = key.map_err(|error| ClusterError::Refused(error.to_string()))?;
    let peers = (0..).zip(addresses).map(|(at, address)| (NodeId::Controller(at), Some(address.clone())));
    let links = Links::new(&key, chain.number, NodeId::Client(number), None, "", peers);
    links.map_err(|error| ClusterError::Refused(format!("no links can be had: {error}")))
}

fn nobody(chain: &ChainPlan, links: &mut Links) -> ClusterError {
    let notices = links.take_notices();
    let why = if notices.is_empty() { String::new() } else { format!(": {}", notices.join("; ")) };
    ClusterError::Refused(format!(
        "no controller of chain {} answers that leads{why}. Start one; `--offline` changes the file alone, of a chain that does not run",
        chain.number
    ))
}

/// Sleeps until something comes or is due.
fn rest(links: &mut Links, due: Nanos, clock: Clock) {
    if links.arm() {
        let next = due.min(links.next_deadline());
        let span = next.since(clock.now()).min(PACE);
        let descriptors = links.descriptors();
        let mut fds: Vec<_> = descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let span = Timespec { tv_sec: 0, tv_nsec: span.0 as _ };
        // Errors mean the same as a wake-up: look again.
        let _ = poll(&mut fds, Some(&span));
    }
    links.disarm();
}

/// A bar at a terminal; elsewhere a line for each change.
struct Progress<'a> {
    joining: Option<(&'a ReplicaPlace, &'a str)>,
    looked: Option<Instant>,
    said: String,
    bar: ProgressBar,
}

impl<'a> Progress<'a> {
    fn new(joining: Option<(&'a ReplicaPlace, &'a str)>) -> Progress<'a> {
        let bar = progress::bar(joining.is_none());
        Progress { joining, looked: None, said: String::new(), bar }
    }

    fn show(&mut self, phase: &Phase, operator: &Operator) {
        let waits = operator.trouble().map_or(String::new(), |why| format!(" ({why})"));
        match (phase, self.joining) {
            (Phase::Adding, _) => self.say(0.0, format!("adding it{waits}")),
            (Phase::Removing, _) => self.say(1.0, format!("removing the old one{waits}")),
            (Phase::CatchingUp, Some((place, start)))
                if self.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) =>
            {
                self.looked = Some(Instant::now());
                let (fraction, line) = catching_up(place, start, operator.configuration());
                self.say(fraction, line);
            }
            _ => {}
        }
    }

    fn say(&mut self, fraction: f64, line: String) {
        progress::show(&self.bar, fraction, &line);
        // Of one that is not there yet a terminal is told how it is started, too: a bar has no room for it.
        if line != self.said && (self.bar.is_hidden() || fraction == 0.0) {
            self.bar.suspend(|| eprintln!("{line}"));
        }
        self.said = line;
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How far a replica is that is given what it lacks.
fn catching_up(place: &ReplicaPlace, start: &str, configuration: Option<&Configuration>) -> (f64, String) {
    let Ok(info) = ask(&place.address, None) else {
        return (0.0, format!("replica {} is not there yet; start it: {start}", place.id));
    };
    if info.replica.0 != place.id {
        return (0.0, format!("replica {} answers at {}", info.replica.0, place.address));
    }
    // The head has the most.
    let head = configuration.and_then(Configuration::head).map(|head| head.replica);
    let head = info.members.iter().find(|member| Some(member.replica) == head);
    let head = head.and_then(|head| head.address.clone()).and_then(|at| ask(&at, None).ok());
    left(&info, head.map_or(info.last.0, |head| head.last.0))
}

/// What is left to be given to a replica, where the chain has transactions up to `last`: the part that it has, and in words.
fn left(info: &Info, last: u64) -> (f64, String) {
    let figure = |name: &str| {
        info.figures.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value as u64)
    };
    let (here, all) = (figure("copy_received_bytes"), figure("copy_extent_bytes"));
    let part = |done: u64, of: u64| if of == 0 { 1.0 } else { done as f64 / of as f64 };
    if all > 0 {
        (part(here, all), format!("replica {}: {} left", info.replica.0, Bytes(all - here.min(all))))
    } else {
        let applied = info.applied.0.min(last);
        (part(applied, last), format!("replica {}: {} transactions left", info.replica.0, last - applied))
    }
}
