//! What a side did in a slice of time.

use crate::tally::{self, Kind, Merge};

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was committed, or only read.
    Done,
    /// Its conditions did not hold.
    Aborted,
}

impl Kind for Ended {
    fn index(self) -> usize {
        self as usize
    }
}

/// What else is counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Times that a reconnaissance was in vain, or a lock was taken.
    pub retried: u64,
}

impl Merge for Counts {
    fn merge(&mut self, other: &Counts) {
        self.retried += other.retried;
    }
}

/// Latencies are from the first thing that was sent for a transaction to its end.
pub type Tally = tally::Tally<Counts>;
