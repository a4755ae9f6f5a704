//! The log of decisions: JSON, a line each; and a log played again.
//!
//! | line | direction | what it has |
//! |---|---|---|
//! | `setup` | in | options, moves of the minute before, the file of the platform that predictions come of; of a machine of the model what else they come of |
//! | `seen` | in | an observation, and when it was taken in |
//! | `told` | in | what became of a decision: registers set, or why not |
//! | `missed` | in | that the node did not answer, or not with what an admin port answers |
//! | `frozen` | in | that decisions are to stop, or to go on |
//! | `tuned` | in | what an operator set at the placer's own port |
//! | `decision` | out | what was compared, what was chosen and why, what is expected |
//! | `evaluation` | out | what was expected of a move, what came, and the verdict |
//! | `ignored` | out | what was not gone by, and why |
//! | `note` | out | what else an operator should know |
//!
//! What goes in says all that comes out: [`replay`] feeds the one to a brain and holds the other against it, byte for byte.

use super::brain::Brain;
use super::choice::{Choice, Setting};
use super::of_model::{Modelled, OfModel};
use super::options::Options;
use super::predict::{Predict, Prediction, Predictor, Range};
use super::verdict::{Gain, Measured};
use crate::observed::Observation;
use protocol::planted::NoBugs;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a service is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// It is better there, and that is sure.
    Better,
    /// Too little is known, and it may be better.
    Try,
    /// A size of which the model says nothing: whether it is better is seen by trying it.
    Size,
    /// Memory goes from a cache to another, that finds more by it.
    Memory,
    /// What came was worse than before, or not worth staying.
    Back,
    /// The guideline says so.
    Greedy,
    /// The operator says so.
    Fixed,
}

/// The words of a type whose values are words, as the log and metrics have them.
macro_rules! words {
    ($kind:ident $($value:ident $word:literal),*) => {
        impl $kind {
            /// All of them.
            pub const ALL: &[$kind] = &[$($kind::$value),*];

            /// As the log has it.
            pub fn word(self) -> &'static str {
                match self { $($kind::$value => $word),* }
            }
        }
    };
}

words!(Reason Better "better", Try "try", Size "size", Memory "memory", Back "back", Greedy "greedy", Fixed "fixed");
words!(Verdict Kept "kept", Back "back", Void "void");
words!(Cause Repeated "repeated", Stale "stale", Empty "empty", Figures "figures");

/// Why something is not gone by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// It was there before.
    Repeated,
    /// It is too old, or not of yet.
    Stale,
    /// It is over no time.
    Empty,
    /// Its figures cannot be so.
    Figures,
}

/// What an operator may set while a placer runs; as in [`Options`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// See [`Options`].
    pub moves_per_minute: u32,
    /// See [`Options`].
    pub hysteresis: f64,
    /// See [`Options`].
    pub dwell_us: u64,
    /// See [`Options`].
    pub p99_max_ns: Option<f64>,
}

/// A choice among those that were compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Which.
    pub choice: Choice,
    /// What the predictor said.
    pub predicted: Prediction,
    /// The same, corrected by what came before.
    pub corrected: Prediction,
    /// It was tried lately.
    pub tried: bool,
    /// Over where the service is.
    pub gain: Gain,
    /// Why it could not be chosen, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Which half of an exchange of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Half {
    /// The first: one may have less.
    Gives,
    /// The second: another may have more.
    Takes,
}

/// Memory that goes from one cache to another. Both halves are one move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryMove {
    /// Which service gives; the one that takes, where it was left over.
    pub from: String,
    /// Which takes.
    pub to: String,
    /// How many bytes.
    pub bytes: u64,
    /// Which half this decision is.
    pub half: Half,
    /// Hits a second that are expected to come by it, times what a miss costs.
    pub gain: Range,
    /// The same that are expected to go.
    pub loss: Range,
}

/// A service is to be moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Counted from 1.
    pub number: u64,
    /// When.
    pub now_us: u64,
    /// By which observation.
    pub sequence: u64,
    /// Which service.
    pub service: String,
    /// Why.
    pub reason: Reason,
    /// The same in words.
    pub why: String,
    /// Where it is.
    pub from: Choice,
    /// Where it is to be.
    pub to: Choice,
    /// Registers to set, in this order.
    pub settings: Vec<Setting>,
    /// What was measured where it is.
    pub seen: Measured,
    /// All that could have been chosen.
    pub compared: Vec<Compared>,
    /// What is expected there.
    pub expected: Option<Prediction>,
    /// Of memory, between which caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryMove>,
    /// Moves that are left of this minute's.
    pub budget_left: usize,
    /// It is not to be obeyed.
    pub is_dry_run: bool,
}

/// What became of a move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Of which decision.
    pub decision: u64,
    /// When.
    pub now_us: u64,
    /// Which service.
    pub service: String,
    /// Where it went.
    pub to: Choice,
    /// What was expected.
    pub expected: Option<Prediction>,
    /// What was measured before.
    pub before: Measured,
    /// What was measured since it settled.
    pub came: Measured,
    /// Of memory: misses a second, times what they cost, that both caches would have had before of what they are asked now, and have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<[f64; 2]>,
    /// What that is worth, as a share.
    pub gain: f64,
    /// What follows.
    pub verdict: Verdict,
}

/// What follows of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It stays.
    Kept,
    /// It goes back, and does not come again for a while.
    Back,
    /// The load changed meanwhile: nothing can be said.
    Void,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub enum Line {
    /// See the head of the file.
    Setup {
        /// What the operator said.
        options: Options,
        /// When moves were made before.
        made_us: Vec<u64>,
        /// The platform's file, as it is written.
        platform: String,
        /// Predictions are those of a machine of the model, and not of a node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        modelled: Option<Modelled>,
    },
    /// See the head of the file.
    Seen {
        /// When it was taken in.
        now_us: u64,
        /// What the node said.
        observation: Observation,
    },
    /// See the head of the file.
    Told {
        /// When.
        now_us: u64,
        /// Of which decision.
        decision: u64,
        /// Why its registers could not be set, if so.
        refused: Option<String>,
    },
    /// See the head of the file.
    Missed {
        /// When.
        now_us: u64,
        /// Why.
        why: String,
    },
    /// See the head of the file.
    Frozen {
        /// Whether decisions stop.
        is_frozen: bool,
    },
    /// See the head of the file.
    Tuned(Tuning),
    /// See the head of the file.
    Decision(Box<Decision>),
    /// See the head of the file.
    Evaluation(Box<Evaluation>),
    /// See the head of the file.
    Ignored {
        /// When.
        now_us: u64,
        /// Which observation.
        sequence: u64,
        /// Of which service; of all if of none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service: Option<String>,
        /// Why.
        cause: Cause,
        /// The same in words.
        why: String,
    },
    /// See the head of the file.
    Note {
        /// When.
        now_us: u64,
        /// Of which service.
        service: String,
        /// What.
        what: String,
    },
}

impl Line {
    /// As it stands in the log, without the end of the line.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("lines are plain data")
    }

    /// Whether it is what a brain is told, rather than what it says.
    pub fn goes_in(&self) -> bool {
        use Line::{Frozen, Missed, Seen, Setup, Told, Tuned};
        matches!(self, Setup { .. } | Seen { .. } | Told { .. } | Missed { .. } | Frozen { .. } | Tuned(_))
    }
}

/// What came of a log that was played again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Observations that were fed.
    pub observations: u64,
    /// Decisions that came again.
    pub decisions: u64,
    /// Lines of all kinds that came again.
    pub lines: u64,
}

/// Why a log could not be played again, or played otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// A line is none.
    NoLine(usize, String),
    /// It does not begin with `setup`.
    NoSetup(usize),
    /// The platform in it is none that can be predicted by.
    NoPlatform(usize, String),
    /// Another line came than the log has there, or none.
    Differs {
        /// Where in the log.
        line: usize,
        /// What the log has.
        logged: Option<String>,
        /// What came.
        came: Option<String>,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_nothing = |line: &Option<String>| line.clone().unwrap_or_else(|| "nothing".to_owned());
        match self {
            ReplayError::NoLine(line, why) => write!(f, "line {line} is none of a placer's log: {why}"),
            ReplayError::NoPlatform(line, why) => write!(f, "line {line}: its platform: {why}"),
            ReplayError::NoSetup(line) => {
                write!(f, "line {line}: a log begins with its setup; give the file whole, as --log wrote it")
            }
            ReplayError::Differs { line, logged, came } => write!(
                f,
                "line {line}: the log has\n  {}\nand now it would be\n  {}\nAnother version of this program may have written it",
                or_nothing(logged),
                or_nothing(came)
            ),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Plays a log again, and holds what comes against what it has.
///
/// # Errors
/// It is no log, or something else came.
pub fn replay(text: &str) -> Result<Replayed, ReplayError> {
    let mut brain: Option<(Brain<NoBugs>, Box<dyn Predict>)> = None;
    let mut due = std::collections::VecDeque::<Line>::new();
    let mut done = Replayed::default();
    // The last line of a program that was killed may be half of one.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines: Vec<&str> = whole.lines().collect();
    for (number, text) in (1..).zip(&lines) {
        let line: Line =
            serde_json::from_str(text).map_err(|error| ReplayError::NoLine(number, error.to_string()))?;
        if !line.goes_in() {
            let came = due.pop_front().map(|line| line.text());
            if came.as_deref() != Some(*text) {
                return Err(ReplayError::Differs { line: number, logged: Some(text.to_string()), came });
            }
            done.lines += 1;
            done.decisions += u64::from(matches!(line, Line::Decision(_)));
            continue;
        }
        if let Some(missing) = due.pop_front() {
            return Err(ReplayError::Differs { line: number, logged: None, came: Some(missing.text()) });
        }
        if let Line::Setup { options, made_us, platform, modelled } = line {
            let predictor = match &modelled {
                None => Predictor::new(&platform, "platform").map(|of| Box::new(of) as Box<dyn Predict>),
                Some(of) => OfModel::logged(&platform, of).map(|of| Box::new(of) as Box<dyn Predict>),
            };
            let predictor = predictor.map_err(|why| ReplayError::NoPlatform(number, why))?;
            brain = Some((Brain::new(options, &made_us), predictor));
            continue;
        }
        let (brain, predictor) = brain.as_mut().ok_or(ReplayError::NoSetup(number))?;
        due.extend(match line {
            Line::Seen { now_us, observation } => {
                done.observations += 1;
                brain.observe(now_us, &observation, &**predictor)
            }
            Line::Told { now_us, decision, refused } => brain.told(now_us, decision, refused.as_deref()),
            Line::Frozen { is_frozen } => {
                brain.freeze(is_frozen);
                Vec::new()
            }
            Line::Tuned(tuning) => {
                brain.tune(&tuning);
                Vec::new()
            }
            _ => Vec::new(),
        });
    }
    // A program that was killed in the middle of a line's consequences has written some of them.
    Ok(done)
}
