//! What a plan says. Times are in seconds, rates per second.

use super::estimate::Latencies;
use super::graph::Kind;
use super::model_error::ModelError;
use super::{Limits, Objective};
use crate::workload::Slo;
use serde::Serialize;

/// A plan.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The platform's name.
    pub platform: String,
    /// … and as people call it.
    pub platform_title: String,
    /// The workload's name.
    pub workload: String,
    /// … and as people call it.
    pub workload_title: String,
    /// What is best.
    pub objective: Objective,
    /// What must be kept.
    pub limits: Limits,
    /// At which latencies, host cores and watts are compared.
    pub rate: f64,
    /// Whether the most that keeps limits of latency was sought, and not the most.
    pub by_limit: bool,
    /// Whether the rate was given; else it is 70 % of what the best single alternative can serve.
    pub rate_given: bool,
    /// Requests under way, all clients together.
    pub window: u64,
    /// Single alternatives.
    pub alternatives: Vec<Single>,
    /// Mixtures of one, two and three of them that were weighed.
    pub weighed: usize,
    /// The best, the first first.
    pub ranking: Vec<Ranked>,
    /// What to do.
    pub advice: Advice,
    /// What the published guideline gives.
    pub greedy: Greedy,
    /// How sure the first of the ranking is.
    pub confidence: Confidence,
}

/// An alternative on its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Single {
    /// Its name.
    pub name: String,
    /// What it does.
    pub what: String,
    /// Who answers.
    pub place: String,
    /// When nothing else is there.
    pub unloaded: f64,
    /// The most that it serves.
    pub most: f64,
    /// What is full then.
    pub bound_by: String,
    /// Host core time of an operation.
    pub host_core_seconds: f64,
}

/// A mixture.
#[derive(Clone, Debug, Serialize)]
pub struct Ranked {
    /// `A4 + A5`.
    pub name: String,
    /// Whether everybody in it is the host.
    pub host_only: bool,
    /// Shares.
    pub parts: Vec<Share>,
    /// The most that it serves, by the linear programme.
    pub most: f64,
    /// … as simulated, with clients that wait for answers.
    pub saturated: Option<Figures>,
    /// The rate at which it is looked at.
    pub rate: f64,
    /// Latencies at this rate by queueing theory; `None` where it cannot serve so much.
    pub estimate: Option<Latencies>,
    /// … as simulated, with requests at random.
    pub at_rate: Option<Figures>,
    /// What is full, the worst first.
    pub bottlenecks: Vec<Bottleneck>,
    /// All that is used …
    pub links: Vec<Link>,
    /// … at this rate: the most, or that at which the objective's costs are compared.
    pub links_at: f64,
    /// From which load on each further alternative is needed.
    pub switches: Vec<Switch>,
    /// Ways through the machine.
    pub paths: Vec<Path>,
    /// Classes of the workload at this rate, where one calls others or has limits of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassAnswer>,
    /// Limits that it does not keep: sentences.
    pub misses: Vec<String>,
    /// How many times its worst miss is what is allowed; at most 1 where it keeps everything.
    pub excess: f64,
    /// Whether it is as good as the first, as far as the simulation can tell them apart, or but for a hundredth.
    pub tie: bool,
    /// What the objective compares: a rate, or a cost.
    pub value: f64,
}

/// A class of a workload, as a mixture serves it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassAnswer {
    /// Its name.
    pub name: String,
    /// Requests of it per second, with those that other classes call.
    pub rate: f64,
    /// Latencies by queueing theory; `None` where it is not served.
    pub estimate: Option<Latencies>,
    /// … as simulated; `None` of a class that clients do not ask themselves.
    pub simulated: Option<Latencies>,
    /// What it is to keep.
    pub slo: Slo,
    /// How many times what it is allowed the worst of it is, as simulated, else by queueing theory; `None` without limits.
    pub excess: Option<f64>,
    /// Whether it keeps its limits; `None` without.
    pub kept: Option<bool>,
    /// Whether it is the class that comes nearest to its limits, or is beyond them most.
    pub binds: bool,
}

/// A part of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The alternative.
    pub name: String,
    /// Of the requests, when as much is served as possible.
    pub at_most: f64,
    /// Of the requests at the rate.
    pub at_rate: f64,
}

/// What a simulation saw.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Requests answered per second.
    pub rate: f64,
    /// Mean latency.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Host cores that were busy.
    pub host_cores: f64,
    /// With what idles; `None` where the platform knows no watts.
    pub watts: Option<f64>,
    /// Requests that this rests on.
    pub operations: u64,
    /// Half of the 95 % confidence interval of the rate, as a share of it.
    pub rate_error: f64,
    /// … of the 99th percentile, as a share of it.
    pub p99_error: f64,
}

/// A limit that is reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Which.
    pub name: String,
    /// The linear programme's price: by how many per cent throughput grows per per cent of it, at the margin.
    pub elasticity: f64,
    /// By what share throughput grows with a tenth more of it, shares chosen anew.
    pub gain_of_tenth: f64,
}

/// A resource on the way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its kind.
    #[serde(serialize_with = "kind")]
    pub kind: Kind,
    /// Of its capacity, by arithmetic.
    pub utilisation: f64,
    /// … as simulated, where the most is served.
    pub simulated: Option<f64>,
    /// Whose share of that is whose, in the order of the parts.
    pub by: Vec<f64>,
}

fn kind<S: serde::Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match kind {
        Kind::Resource => "resource",
        Kind::Tokens => "tokens",
        Kind::Window => "window",
        Kind::Budget => "budget",
    })
}

/// When a further alternative is needed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Switch {
    /// So far these serve.
    pub before: Vec<String>,
    /// From here on this one as well.
    pub add: String,
    /// They are full at this rate.
    pub rate: f64,
    /// Requests that are then under way (Little's law, without waits): so many clients with one each.
    pub under_way: f64,
}

/// The way of one alternative through the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Path {
    /// Whose.
    pub alternative: String,
    /// What it does.
    pub what: String,
    /// Names of resources, in the order in which they come.
    pub steps: Vec<String>,
    /// Resources that work for it while nobody waits.
    pub behind: Vec<String>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Whether anything of the ranking serves what is asked within the limits; else there is nothing to advise.
    pub possible: bool,
    /// Mixtures that are as good as the first.
    pub ties: Vec<String>,
    /// Whether anything but the host should serve.
    pub offload: bool,
    /// How much better the best mixture is than the host alone: a ratio. `None` where the host alone is no alternative, or all are.
    pub gain: Option<f64>,
    /// Why.
    pub why: String,
}

/// The guideline's answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Greedy {
    /// Alternatives as it ranks them.
    pub order: Vec<String>,
    /// What it takes of each, in this order.
    pub rates: Vec<f64>,
    /// What it serves.
    pub throughput: f64,
    /// What the linear programme over all alternatives serves.
    pub programme: f64,
}

/// How sure an answer is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Confidence {
    /// Of what.
    pub of: String,
    /// The answer by arithmetic.
    pub answer: f64,
    /// Its ends, relative to it: both parts of the doubt, taken as independent.
    pub range: (f64, f64),
    /// Its ends, relative to it, if numbers err independently of each other within their ranges, and the model does not.
    pub by_numbers: (f64, f64),
    /// How wrong the model itself was about results that it was not built on; `None` where there are none.
    pub model: Option<ModelError>,
    /// The share of the doubt that assumed and fitted numbers have.
    pub doubtful: f64,
    /// The share of each class of numbers.
    pub classes: Vec<(String, f64)>,
    /// Numbers that move it most.
    pub numbers: Vec<Doubt>,
    /// Numbers whose believable range contains a value at which another mixture of the ranking would be first.
    pub would_change_it: Vec<String>,
}

/// A number that moves an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Doubt {
    /// Its name.
    pub number: String,
    /// Its class.
    pub class: String,
    /// The answer at the lower end of its range, relative to the answer.
    pub low: f64,
    /// … at the upper end.
    pub high: f64,
}
