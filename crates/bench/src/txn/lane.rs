//! One session's work on a chain: tasks, of which a window is under way, each taken through its passes one after the other.

use super::passes::{Mode, Pass, passes};
use super::tally::Tally;
use super::workload::{Task, Tasks};
use base::{Clock, Nanos};
use protocol::chain::transaction::Found;
use protocol::chain::{Outcome, Transaction};
use serve::txn::{Client, Ticket};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// A lane notices that its time is over within this.
const NOTICE: Duration = Duration::from_millis(5);

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

/// Does tasks until `until`, then waits for those under way.
pub fn work(
    client: &mut Client,
    tasks: &mut Tasks,
    (mode, number): (Mode, u64),
    window: usize,
    until: Nanos,
) -> Result<Tally, String> {
    let clock = Clock::shared();
    let began = clock.now();
    let mut tally = Tally::default();
    let mut jobs: HashMap<Ticket, (Job, Pass)> = HashMap::new();
    let mut made = number << 32;
    loop {
        let now = clock.now();
        while now < until && jobs.len() < window {
            made += 1;
            let mut job = Job::new(tasks.next_task(), made, now);
            job.plan(mode);
            send(client, &mut jobs, job, None)?;
        }
        if jobs.is_empty() {
            break;
        }
        let mut waits = true;
        while let Some((ticket, result)) = client.poll() {
            waits = false;
            let Some((mut job, pass)) = jobs.remove(&ticket) else { continue };
            let outcome = result.map_err(|error| error.to_string())?;
            match job.heard(&pass, outcome, mode, &mut tally) {
                Next::Pass => send(client, &mut jobs, job, None)?,
                Next::Again(pass) => send(client, &mut jobs, job, Some(pass))?,
                Next::End => tally.note(job.aborted, clock.now().since(job.began).0),
            }
        }
        if waits {
            client.wait(Some(NOTICE));
        }
    }
    tally.elapsed = clock.now().since(began).into();
    Ok(tally)
}

/// Sends a job's next pass, or `again`.
fn send(
    client: &mut Client,
    jobs: &mut HashMap<Ticket, (Job, Pass)>,
    mut job: Job,
    again: Option<Pass>,
) -> Result<(), String> {
    let pass = again.or_else(|| job.left.pop_front()).ok_or("a task without a pass")?;
    let ticket = client.start(pass.transaction().clone()).map_err(|error| error.to_string())?;
    jobs.insert(ticket, (job, pass));
    Ok(())
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
                tally.retried += 1;
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
                tally.retried += 1;
                (self.acts, self.aborted) = (false, false);
            }
            Task::Looked { .. } | Task::Once(_) => return Next::End,
        }
        self.plan(mode);
        Next::Pass
    }
}
