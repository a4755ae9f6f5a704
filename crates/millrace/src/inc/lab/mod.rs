//! `millrace inc lab`: a whole network in one process over loopback, load on it, nodes that die and come back, and a verdict.
//!
//! ```text
//!   rack: a thread and socket per node ◀── kills, by a schedule
//!   users: a thread per client, one operation at a time ──▶ record ──▶ sim::check ──▶ verdict
//! ```
//!
//! A node that is killed stops between two datagrams and says nothing to anybody; all that it knew is gone. It comes back empty,
//! with a higher incarnation.
//!
//! All threads read one clock, so what they recorded is merged by time.
//!
//! Bounds: `--operations`; about half a kilobyte for each.

mod kill;
mod rack;
mod record;
mod show;
#[cfg(test)]
mod tests;
mod user;

use super::IncError;
use super::plan::{registers, setting};
use super::topology::Shape;
use crate::load::args::duration;
use base::{Clock, Nanos};
use kill::Kill;
use protocol::coherence::{Life, NodeId};
use rack::Rack;
use record::Recorded;
use sim::check::{Report, Rules, check};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use user::{Mix, User};

/// Run boxes, homes, controllers and clients in this process, and judge what the clients saw.
///
/// Every key must be linearizable: that is the verdict, and the exit status is 1 if one is not. Nodes may be killed under load; they lose all
/// they know and come back.
#[derive(clap::Args, Clone, Debug)]
pub struct Lab {
    #[command(flatten)]
    shape: Shape,

    /// Clients, each with one operation under way; they share the ToRs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,

    /// For how long
    #[arg(long, value_name = "S", default_value = "5", value_parser = duration)]
    seconds: Duration,

    /// But not more operations than this: all are recorded and judged
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    operations: u64,

    /// Keys; three of four have text, the fourth a number. All are stored in the beginning
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    keys: u64,

    /// Of their popularity, by Zipf's law; 0: all alike
    #[arg(long, value_name = "THETA", default_value_t = 0.99)]
    skew: f64,

    /// Of a hundred operations, those that store or remove
    #[arg(long, value_name = "PERCENT", default_value_t = 8, value_parser = clap::value_parser!(u64).range(0..=100))]
    writes: u64,

    /// Of a hundred operations, those that compute: cas, append, incr, cond_put
    #[arg(long, value_name = "PERCENT", default_value_t = 4, value_parser = clap::value_parser!(u64).range(0..=100))]
    compute: u64,

    /// Bytes of a text
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(24..=60_000))]
    value_size: u16,

    /// Kill this node at this time, as in box:1@2s; may be repeated
    #[arg(long, value_name = "NODE@TIME", value_parser = Kill::parse)]
    kill: Vec<Kill>,

    /// A killed node comes back after this
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    back: Duration,

    /// Which keys are popular, and what is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Write what the clients saw, as docs/history.md describes it
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,

    /// A register of the cache, as in coherence.lease=200000; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

/// What a run left.
#[derive(Debug)]
pub struct Outcome {
    recorded: Recorded,
    rack: Rack,
    took: Nanos,
    /// Nodes that were killed.
    pub kills: usize,
    /// What the judge says.
    pub report: Report,
}

impl Lab {
    /// Runs, prints and judges.
    ///
    /// # Errors
    /// A key is not linearizable, or it could not be run.
    pub fn run(&self) -> Result<(), IncError> {
        let stop = super::stop_flag()?;
        let outcome = self.measure(&stop)?;
        show::print(self, &outcome).map_err(IncError::Output)?;
        match &outcome.report {
            report if !report.violations.is_empty() => Err(IncError::Violated(report.violations.len())),
            report if !report.gave_up.is_empty() => Err(IncError::Undecided(report.gave_up.len())),
            _ => Ok(()),
        }
    }

    /// Runs and judges, ending early at `stop`.
    ///
    /// # Errors
    /// It could not be run, or the history not be written.
    pub fn measure(&self, stop: &AtomicBool) -> Result<Outcome, IncError> {
        self.measure_on(Rack::start(&self.shape, &registers(&self.settings)?)?, stop)
    }

    fn measure_on(&self, mut rack: Rack, stop: &AtomicBool) -> Result<Outcome, IncError> {
        let mix = Mix::new(self.writes, self.compute).map_err(IncError::Mix)?;
        let schedule = kill::schedule(&self.kill, self.back, &rack.topology().nodes())?;
        let begun = Clock::shared().now();
        let left = AtomicU64::new(self.operations);
        let over = AtomicBool::new(false);
        let users: Vec<User> = (0..self.clients)
            .map(|number| {
                let tor = 1 + (number % u32::from(self.shape.tors)) as u16;
                User::new(rack.topology(), number, tor, &mix, self)
            })
            .collect::<Result<_, IncError>>()?;
        let (parts, kills) = std::thread::scope(|scope| {
            let work = |user: User| scope.spawn(|| user.work(&left, &over));
            let threads: Vec<_> = users.into_iter().map(work).collect();
            let is_over =
                || stop.load(Ordering::Relaxed) || threads.iter().all(|thread| thread.is_finished());
            let end = begun.plus(Nanos::from(self.seconds));
            let result = conduct(&mut rack, &schedule, begun, end, &is_over);
            over.store(true, Ordering::Relaxed);
            let parts: Vec<_> =
                threads.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect();
            result.map(|kills| (parts, kills))
        })?;
        let took = Clock::shared().now().since(begun);
        rack.stop()?;
        let recorded = Recorded::merge(parts.into_iter().collect::<Result<_, _>>()?, begun);
        if let Some(path) = &self.history {
            recorded.write(path).map_err(|cause| IncError::History(path.clone(), cause))?;
        }
        // A home that died, or ran out of room, has lost items: each as if it had been deleted.
        let home_died = self.kill.iter().any(|kill| matches!(kill.node, NodeId::Home(_)));
        let rules = Rules { may_evict: home_died || rack.evicted() > 0, ..Rules::default() };
        let report = check(&recorded.history, &rules);
        Ok(Outcome { recorded, rack, took, kills, report })
    }
}

/// Kills and revives by the schedule until the end; how many were killed.
fn conduct(
    rack: &mut Rack,
    schedule: &[kill::Step],
    begun: Nanos,
    end: Nanos,
    is_over: &impl Fn() -> bool,
) -> Result<usize, IncError> {
    const STEP: Nanos = Nanos::from_millis(10);
    let mut steps = schedule.iter().peekable();
    let mut kills = 0;
    loop {
        let now = Clock::shared().now();
        if is_over() {
            return Ok(kills);
        }
        match steps.next_if(|step| now >= begun.plus(step.at)) {
            Some(step) if step.lives => rack.revive(step.node, Life::Again)?,
            Some(step) => {
                rack.kill(step.node)?;
                kills += 1;
            }
            None if now >= end => return Ok(kills),
            None => std::thread::sleep(end.since(now).min(STEP).into()),
        }
    }
}
