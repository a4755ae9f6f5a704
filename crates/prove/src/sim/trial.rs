//! What campaigns, the shrinker and the command line need of a simulation.

use super::world::Violation;
use super::{OPS, indices};
use sim::faults::Plan;
use std::fmt;
use std::io::{self, Write};

/// A run that can be played: everything in it follows from its seed and what was chosen.
pub trait Trial: Clone + Send + Sync {
    /// What can be wrong on purpose.
    type Bug: Copy + PartialEq + fmt::Debug + Send + Sync + 'static;
    /// What comes of a run.
    type Played: Outcome;

    /// All that can be wrong on purpose, in any run.
    const BUGS: &'static [Self::Bug];

    /// As the command line calls it.
    fn bug_name(bug: Self::Bug) -> &'static str;

    /// What [`Summary::marks`] count, in words.
    fn marks(&self) -> [&'static str; 2];
    /// What is looked for in runs like this.
    fn bugs(&self) -> &'static [Self::Bug] {
        Self::BUGS
    }

    /// The same with another seed, and this wrong.
    fn seeded(&self, seed: u64, planted: Option<Self::Bug>) -> Self;
    /// Its seed.
    fn seed(&self) -> u64;

    /// Plays it.
    fn play(&self, traced: bool) -> Self::Played;

    /// The faults of it.
    fn plan(&self) -> Plan;
    /// The same with these faults.
    fn with_plan(&self, plan: Plan) -> Self;
    /// The operations of it, by number.
    fn only(&self) -> Vec<usize>;
    /// The same with these operations.
    fn with_only(&self, only: Vec<usize>) -> Self;

    /// The command that plays it again.
    fn command(&self) -> String;
    /// Who there is, in words.
    fn title(&self) -> String;
    /// Which numbers are which nodes: faults name nodes by them.
    fn legend(&self) -> String;
}

/// What came of a run.
pub trait Outcome {
    /// What a campaign keeps of it.
    fn summary(&self) -> Summary;
    /// The first promise that was broken.
    fn violation(&self) -> Option<&Violation>;
    /// What happened, in lines, if that was wanted.
    fn trace(&self) -> &[String];
    /// Writes what the clients saw.
    ///
    /// # Errors
    /// Those of `out`.
    fn write_history(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// A run in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// The fingerprint of all that happened.
    pub print: u64,
    /// A promise was broken.
    pub violated: bool,
    /// Parts of the history of which the judge knows nothing.
    pub gave_up: u64,
    /// Events.
    pub events: u64,
    /// Operations that began.
    pub operations: u64,
    /// What the simulation counts beside.
    pub marks: [u64; 2],
}

/// The command that begins with `head`, and what of a case with `ops` operations is not as usual.
pub fn replay<T: Trial>(
    mut head: String,
    ops: usize,
    (planted, plan, only): (Option<T::Bug>, Option<&Plan>, Option<&[usize]>),
) -> String {
    if ops != OPS {
        head += &format!(" --ops {ops}");
    }
    if let Some(planted) = planted {
        head += &format!(" --planted {}", T::bug_name(planted));
    }
    if let Some(plan) = plan {
        head += &format!(" --plan '{plan}'");
    }
    if let Some(only) = only {
        head += &format!(" --only {}", indices::show(only));
    }
    head
}
