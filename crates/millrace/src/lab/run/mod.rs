//! `millrace lab run`: load, nodes that die and come back, and a verdict.
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
mod load;
mod rack;
mod record;
mod show;
#[cfg(test)]
mod tests;
mod user;

use super::LabError;
use super::plan::Plan;
use crate::inc;
use crate::load::args::duration;
use base::{Clock, Nanos};
use kill::Kill;
use load::Load;
use protocol::coherence::{Life, NodeId};
use rack::Rack;
use record::Recorded;
use sim::check::{Report, Rules, check};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use user::{Mix, User};

/// Run boxes, homes, controllers and clients, and judge what the clients saw.
///
/// Every key must be linearizable: that is the verdict, and the exit status is 1 if one is not. Nodes may be killed under load; they lose all
/// they know and come back.
#[derive(clap::Args, Clone, Debug)]
pub struct Run {
    #[command(flatten)]
    plan: Plan,

    #[command(flatten)]
    load: Load,

    /// In this process over loopback, without namespaces and without root
    #[arg(long, required = true)]
    loopback: bool,

    /// Kill this node at this time, as in box:1@2s; may be repeated
    #[arg(long, value_name = "NODE@TIME", value_parser = Kill::parse)]
    kill: Vec<Kill>,

    /// A killed node comes back after this
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    back: Duration,

    /// Write what the clients saw, as docs/history.md describes it
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
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

impl Run {
    /// Runs, prints and judges.
    ///
    /// # Errors
    /// A key is not linearizable, or it could not be run.
    pub fn run(&self) -> Result<(), LabError> {
        let stop = inc::stop_flag()?;
        let outcome = self.measure(&stop)?;
        show::print(self, &outcome).map_err(LabError::io("cannot write"))?;
        match &outcome.report {
            report if !report.violations.is_empty() => Err(LabError::Violated(report.violations.len())),
            report if !report.gave_up.is_empty() => Err(LabError::Undecided(report.gave_up.len())),
            _ => Ok(()),
        }
    }

    /// Runs and judges, ending early at `stop`.
    ///
    /// # Errors
    /// It could not be run, or the history not be written.
    pub fn measure(&self, stop: &AtomicBool) -> Result<Outcome, LabError> {
        self.measure_on(Rack::start(&self.plan.shape, &self.plan.registers()?)?, stop)
    }

    fn measure_on(&self, mut rack: Rack, stop: &AtomicBool) -> Result<Outcome, LabError> {
        let mix = Mix::new(self.load.writes, self.load.compute).map_err(LabError::Mix)?;
        let schedule = kill::schedule(&self.kill, self.back, &rack.topology().nodes())?;
        let begun = Clock::shared().now();
        let left = AtomicU64::new(self.load.operations);
        let over = AtomicBool::new(false);
        let users: Vec<User> = (0..self.plan.clients)
            .map(|number| {
                let tor = 1 + (number % u32::from(self.plan.shape.tors)) as u16;
                User::new(rack.topology(), (number, self.plan.clients), tor, &mix, &self.load)
            })
            .collect::<Result<_, LabError>>()?;
        let (parts, kills) = std::thread::scope(|scope| {
            let work = |user: User| scope.spawn(|| user.work(&left, &over));
            let threads: Vec<_> = users.into_iter().map(work).collect();
            let is_over =
                || stop.load(Ordering::Relaxed) || threads.iter().all(|thread| thread.is_finished());
            let end = begun.plus(Nanos::from(self.load.seconds));
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
            recorded.write(path).map_err(|cause| LabError::History(path.clone(), cause))?;
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
) -> Result<usize, LabError> {
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
