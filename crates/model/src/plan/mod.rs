//! The planner: who should serve a workload on a machine, what that gives, and what bounds it.
//!
//! ```text
//!   platform × workload ──families──▶ Setting: alternatives in one machine
//!        │ graph: what an operation of each takes of each resource (the kernel's own programs, summed)
//!        ▼
//!   mixture: linear programmes over singles, pairs, triples ──▶ most they serve, prices of limits
//!        │ estimate: waits by queueing theory
//!        ▼
//!   simulate: the best few run in the kernel, closed for throughput, open for latency
//!        │ rank
//!        ▼
//!   answer: ranking, bottleneck and what 10 % more of it buys, switch points, advice, confidence
//! ```
//!
//! A *mixture* gives each alternative a share of the requests. `confidence` moves each number of the platform to the ends of its range, and the
//! answer's range follows.
//!
//! Not weighed: different alternatives for different classes of one workload; clients that choose by what they see (a share is fixed).
//! [`cost`] puts a price on an answer, [`curve`] draws it over the load.
//!
//! Sources: Wei et al. (OSDI 2023) §4.2 for the guideline that `greedy` is; Kleinrock for queues; LogNIC (Guo et al., MICRO 2023) is the nearest
//! relative, with mean latencies of one SmartNIC.

pub mod answer;
mod candidate;
mod confidence;
pub mod cost;
pub mod curve;
mod describe;
pub mod estimate;
pub mod families;
pub mod graph;
pub mod mixture;
pub mod model_error;
pub mod programme;
mod rank;
mod simulate;

pub use answer::Plan;
pub use rank::Runner;
pub use simulate::{Simulated, Simulation};

use crate::alternative::Setting;
use crate::platform::{LoadError, Platform};
use crate::workload::{Workload, calls};
use serde::Serialize;
use std::fmt;

/// What is best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The most requests per second; with a limit of latency, the most that keep it.
    #[default]
    Throughput,
    /// The lowest 99th percentile at the rate.
    P99,
    /// The fewest watts at the rate.
    Power,
    /// The fewest host cores at the rate.
    HostCpu,
}

impl Objective {
    /// All, by name.
    pub const ALL: [(&'static str, Objective); 4] = [
        ("throughput", Objective::Throughput),
        ("p99", Objective::P99),
        ("power", Objective::Power),
        ("host-cpu", Objective::HostCpu),
    ];
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Objective::ALL.iter().find(|(_, objective)| objective == self);
        f.pad(named.map_or("", |(name, _)| name))
    }
}

/// What must be kept: a service-level objective. `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Seconds of the mean, at most.
    pub mean: Option<f64>,
    /// Seconds of the median, at most.
    pub p50: Option<f64>,
    /// Seconds of the 99th percentile, at most.
    pub p99: Option<f64>,
    /// Host cores that are busy, at most.
    pub host_cores: Option<f64>,
    /// Watts, at most.
    pub watts: Option<f64>,
    /// Requests per second that must be possible.
    pub throughput: Option<f64>,
}

impl Limits {
    /// Whether there is one of latency.
    pub fn of_latency(&self) -> bool {
        self.mean.or(self.p50).or(self.p99).is_some()
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// What is best.
    pub objective: Objective,
    /// What must be kept.
    pub limits: Limits,
    /// Requests per second to be served, instead of the workload's.
    pub rate: Option<f64>,
    /// So many are simulated and ranked.
    pub top: usize,
    /// Of what is random.
    pub seed: u64,
}

impl Default for Question {
    fn default() -> Question {
        Question { objective: Objective::Throughput, limits: Limits::default(), rate: None, top: 5, seed: 1 }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanError {
    /// The platform lacks a number.
    Platform(LoadError),
    /// Nobody composes this platform's family for planning.
    Family {
        /// Its name.
        platform: String,
        /// Its family.
        family: String,
    },
    /// What is asked cannot be answered: a sentence that says why.
    Question(String),
    /// The linear programme's solver failed.
    Solver(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Platform(error) => error.fmt(f),
            PlanError::Family { platform, family } => {
                let known: Vec<_> = families::ALL.iter().map(|family| family.name).collect();
                write!(
                    f,
                    "platform {platform} is of family {family}, which the planner does not know; it knows {}",
                    known.join(", ")
                )
            }
            PlanError::Question(why) | PlanError::Solver(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for PlanError {}

impl From<LoadError> for PlanError {
    fn from(error: LoadError) -> PlanError {
        PlanError::Platform(error)
    }
}

/// Makes the setting of a workload on a platform; the number is the kernel's seed. A workload's `host_cores`, if given, is at least 1.
pub type Builder = fn(&Platform, &Workload, u64) -> Result<Setting, LoadError>;

/// What is to be planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) builder: Builder,
    pub(crate) platform: &'a Platform,
    pub(crate) workload: &'a Workload,
    pub(crate) question: &'a Question,
}

impl Task<'_> {
    /// The setting on a platform. Where the workload leaves the host no cores, the machine has its cores all the same, and `graph` says which ways do without.
    pub(crate) fn setting(&self, platform: &Platform) -> Result<Setting, LoadError> {
        let host_cores = self.workload.host_cores.filter(|cores| *cores > 0);
        let workload = Workload { host_cores, ..self.workload.clone() };
        let mut setting = (self.builder)(platform, &calls::flat(&workload), self.question.seed)?;
        for way in &mut setting.alternatives {
            calls::compose(&mut setting.kernel, way, &workload);
        }
        if let Some(places) = &workload.places {
            setting.alternatives.retain(|way| places.contains(&way.place));
        }
        Ok(setting)
    }
}

/// The setting that a plan of a workload on a platform weighs: its alternatives in one machine, calls of classes and allowed places seen to.
///
/// # Errors
/// See [`PlanError`].
pub fn setting(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, PlanError> {
    let question = &Question { seed, ..Question::default() };
    let task = Task { builder: families::builder(platform, workload)?, platform, workload, question };
    Ok(task.setting(platform)?)
}

/// The plan of a workload on a platform.
///
/// # Errors
/// See [`PlanError`].
pub fn plan(platform: &Platform, workload: &Workload, question: &Question) -> Result<Plan, PlanError> {
    plan_on(families::builder(platform, workload)?, platform, workload, question)
}

/// The plan with a setting of the caller's.
///
/// # Errors
/// See [`PlanError`].
pub fn plan_on(
    builder: Builder,
    platform: &Platform,
    workload: &Workload,
    question: &Question,
) -> Result<Plan, PlanError> {
    let mut in_turn = |all: Vec<Simulation<'_>>| all.into_iter().map(Simulation::run).collect();
    plan_by(builder, platform, workload, question, &mut in_turn)
}

/// The same, with the simulations run as the caller likes: on threads, with a bar.
///
/// # Errors
/// See [`PlanError`].
pub fn plan_by(
    builder: Builder,
    platform: &Platform,
    workload: &Workload,
    question: &Question,
    run: Runner<'_>,
) -> Result<Plan, PlanError> {
    rank::plan(&Task { builder, platform, workload, question }, run)
}

#[cfg(test)]
mod tests;
