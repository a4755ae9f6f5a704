//! What is measured: something that does transactions of a workload for a while.

use super::tally::{Counts, Tally};
use super::workload::{Tasks, Workload};
use crate::drive::{Driven, Lost, Plan, together};
use serde::Serialize;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How much is asked at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Load {
    /// One transaction after the other: latency.
    OneByOne,
    /// So many sessions, each with so many transactions under way: throughput.
    Pipelined {
        /// Sessions, each with a thread and a connection.
        sessions: usize,
        /// Transactions under way of each.
        window: usize,
    },
}

impl Load {
    /// Sessions and transactions under way of each.
    pub fn shape(self) -> (usize, usize) {
        match self {
            Load::OneByOne => (1, 1),
            Load::Pipelined { sessions, window } => (sessions, window),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::OneByOne => f.write_str("one at a time"),
            Load::Pipelined { sessions, window } => write!(f, "{sessions} sessions of {window}"),
        }
    }
}

/// A slice of work.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// What.
    pub workload: Workload,
    /// How much at once.
    pub load: Load,
    /// For how long.
    pub length: Duration,
    /// Of the random numbers.
    pub seed: u64,
}

impl Slice {
    /// What session number `session` does.
    pub fn tasks(&self, session: usize) -> Tasks {
        self.workload.tasks(self.seed.wrapping_mul(1000).wrapping_add(session as u64))
    }

    /// Lets sessions work at the same time.
    ///
    /// # Errors
    /// The first that is lost.
    pub fn run<D: Driven<Counts = Counts> + Send>(&self, sessions: &mut [D]) -> Result<Tally, String> {
        let (plan, stop) = (Plan::full(self.length.into()), AtomicBool::new(false));
        let mut tally = together(sessions, |_| plan.clone(), &[], &stop, None);
        match tally.fatal.take() {
            Some(why) => Err(why),
            None => Ok(tally),
        }
    }
}

/// A session that cannot go on.
pub fn lost(why: impl fmt::Display) -> Lost {
    Lost { failure: "session", why: why.to_string() }
}

/// A side of a comparison.
pub trait Side {
    /// What it is called in tables.
    fn name(&self) -> String;

    /// What its acknowledged transactions survive, in words.
    fn promise(&self) -> String;

    /// Whether it can do this workload as the others do.
    fn can(&self, workload: Workload) -> bool;

    /// Writes what must be there before.
    ///
    /// # Errors
    /// A sentence.
    fn preload(&mut self, workload: Workload) -> Result<(), String>;

    /// Works for a while.
    ///
    /// # Errors
    /// A sentence: it is lost, or its answers make no sense.
    fn run(&mut self, slice: Slice) -> Result<Tally, String>;
}
