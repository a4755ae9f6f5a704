//! One session's work on a chain: tasks, of which a window is under way, each taken through its passes one after the other.

use super::passes::{Mode, Pass, passes};
use super::side::lost;
use super::tally::{Counts, Ended, Tally};
use super::workload::{Task, Tasks};
use crate::drive::{Driven, Lost, Start};
use base::{Clock, Nanos};
use protocol::chain::transaction::Found;
use protocol::chain::{Outcome, Transaction};
use serve::txn::{Client, Ticket};
use std::collections::{HashMap, VecDeque};

/// A task under way.
struct Job {
    task: Task,
    /// Of the keys that are its own; see [`passes`].
    lane: u64,
    began: Nanos,
    /// The reconnaissance is done, or there is none.
    acts: bool,
    left: VecDeque<Pass>,
    /// What its reads found so far.
    found: Vec<Option<Found>>,
    aborted: bool,
}

/// What comes after a pass.
enum Next {
    Pass,
    Again(Pass),
    End,
}

/// A session at work.
pub struct Lane<'c> {
    client: &'c mut Client,
    tasks: Tasks,
    mode: Mode,
    window: usize,
    /// Numbers jobs; the upper half is the session's own.
    made: u64,
    jobs: HashMap<Ticket, (Job, Pass)>,
    /// Nothing came at the last look, and nothing was sent since.
    is_quiet: bool,
}

impl<'c> Lane<'c> {
    /// Session `number` with `window` tasks under way.
    pub fn new(client: &'c mut Client, tasks: Tasks, mode: Mode, number: u64, window: usize) -> Lane<'c> {
        Lane { client, tasks, mode, window, made: number << 32, jobs: HashMap::new(), is_quiet: false }
    }

    /// Sends a job's next pass, or `again`.
    fn send(&mut self, mut job: Job, again: Option<Pass>) -> Result<(), Lost> {
        let pass = again.or_else(|| job.left.pop_front()).ok_or_else(|| lost("a task without a pass"))?;
        let ticket = self.client.start(pass.transaction().clone()).map_err(lost)?;
        self.jobs.insert(ticket, (job, pass));
        self.is_quiet = false;
        Ok(())
    }
}

impl Driven for Lane<'_> {
    type Counts = Counts;

    fn under_way(&self) -> usize {
        self.jobs.len()
    }

    fn start(&mut self, meant: Nanos, _tally: &mut Tally) -> Result<Start, Lost> {
        if !self.has_room() {
            return Ok(Start::Full);
        }
        self.made += 1;
        let mut job = Job::new(self.tasks.next_task(), self.made, meant);
        job.plan(self.mode);
        self.send(job, None)?;
        Ok(Start::Started)
    }

    fn has_room(&self) -> bool {
        self.jobs.len() < self.window
    }

    fn wait(&mut self, now: Nanos, until: Nanos, _is_open: bool) -> Result<(), Lost> {
        if self.is_quiet {
            self.client.wait(Some(until.since(now).into()));
        }
        Ok(())
    }

    fn receive(&mut self, _now: Nanos, tally: &mut Tally) -> Result<usize, Lost> {
        let (clock, mut ended) = (Clock::shared(), 0);
        self.is_quiet = true;
        while let Some((ticket, result)) = self.client.poll() {
            self.is_quiet = false;
            let Some((mut job, pass)) = self.jobs.remove(&ticket) else { continue };
            let outcome = result.map_err(lost)?;
            match job.heard(&pass, outcome, self.mode, tally) {
                Next::Pass => self.send(job, None)?,
                Next::Again(pass) => self.send(job, Some(pass))?,
                Next::End => {
                    ended += 1;
                    let how = if job.aborted { Ended::Aborted } else { Ended::Done };
                    tally.record(how, job.began, clock.now());
                }
            }
        }
        Ok(ended)
    }

    fn abandon(&mut self) -> u64 {
        self.jobs.drain().count() as u64
    }
}

impl Job {
    fn new(task: Task, lane: u64, began: Nanos) -> Job {
        let acts = matches!(task, Task::Once(_));
        Job { task, lane, began, acts, left: VecDeque::new(), found: Vec::new(), aborted: false }
    }

    /// What is to be sent, from here on.
    fn plan(&mut self, mode: Mode) {
        let whole: Transaction = match &self.task {
            Task::Once(transaction) => transaction.clone(),
            Task::Looked { look, .. } if !self.acts => look.clone(),
            Task::Looked { then, .. } => then(&self.found),
        };
        self.found.clear();
        // A reconnaissance takes no locks: what comes after it does.
        let mode = match mode {
            Mode::OneOperationPerPassLocked if !self.acts => Mode::OneOperationPerPass,
            mode => mode,
        };
        self.left = passes(whole, mode, self.lane).into();
    }

    fn heard(&mut self, pass: &Pass, outcome: Outcome, mode: Mode, tally: &mut Tally) -> Next {
        match (pass, outcome.abort) {
            (Pass::Lock(_), Some(_)) => {
                tally.counts.retried += 1;
                return Next::Again(pass.clone());
            }
            (Pass::Work(_), Some(_)) => {
                self.aborted = true;
                // What was locked is unlocked all the same.
                self.left.retain(|pass| matches!(pass, Pass::Unlock(_)));
            }
            _ => self.found.extend(outcome.reads),
        }
        if !self.left.is_empty() {
            return Next::Pass;
        }
        match &self.task {
            Task::Looked { .. } if !self.acts => self.acts = true,
            // Somebody was quicker: from the start again.
            Task::Looked { .. } if self.aborted => {
                tally.counts.retried += 1;
                (self.acts, self.aborted) = (false, false);
            }
            Task::Looked { .. } | Task::Once(_) => return Next::End,
        }
        self.plan(mode);
        Next::Pass
    }
}
