//! Predictions from a model of the machine that a service is on: each word of register `place` is a way of its planner, and what it would do there is the
//! planner's arithmetic.
//!
//! It knows the platform and what requests are like (cycles, lookups, what may be kept, which keys are wanted); of the load what a node shows: the rate, and
//! rates and sizes of methods. How skewed requests are it does not see. What follows of that, corrections learn by what came.
//!
//! A predictor that is made of the very machine that it predicts would prove nothing, so [`off`] makes a platform whose numbers are wrong.
//!
//! A prediction may be as wrong as the model was where it was held against others' measurements ([`ModelError`]).

use super::choice::Choice;
use super::predict::{Known, Predict, Prediction, Range};
use crate::observed::{Observation, Service};
use base::Prng;
use model::Platform;
use model::plan::estimate::{host_cores, latencies};
use model::plan::graph::Graph;
use model::plan::mixture;
use model::plan::model_error::ModelError;
use model::plan::{Limits, PlanError, families};
use model::platform::unit::Dimension;
use model::workload::{Workload, shipped};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;

/// How wrong a model may be that nobody has held against anything.
const UNKNOWN_ERROR: f64 = 0.5;
/// From this part of its capacity on a place's latency is that of clients which wait for each other.
const NEARLY_FULL: f64 = 0.98;
/// How far numbers of [`off`] are off.
const OFF: (f64, f64) = (0.1, 0.3);

/// What predictions of a machine of the model come of, beside its platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modelled {
    /// What requests are like: a shipped workload.
    pub workload: String,
    /// The seed by which its numbers are off, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<u64>,
}

/// Predicts what a service does at each place of a machine of the model, under the load that is seen.
#[derive(Debug)]
pub struct OfModel {
    platform: Platform,
    /// What requests are like where nothing is seen otherwise.
    like: Workload,
    /// What predictions may be wrong by.
    factor: f64,
    /// Of the load that was seen last.
    last: RefCell<Option<(Workload, Rc<Graph>)>>,
}

/// A service on that machine, under the load that was seen.
struct Loaded {
    graph: Rc<Graph>,
    rate: f64,
    factor: f64,
}

/// The platform with every number that says how fast something is 10 to 30 % off, up or down, each by its own, from a seed. Counts, sizes and ratios, which
/// can be looked up, are as they were.
pub fn off(platform: &Platform, seed: u64) -> Platform {
    let is_speed = |dimension| {
        matches!(dimension, Dimension::Time | Dimension::Cycles | Dimension::Frequency | Dimension::Bandwidth)
    };
    let mut random = Prng::for_entity(seed, 0, 0x0ff);
    let numbers = platform.numbers().filter(|(_, number)| is_speed(number.unit.dimension));
    numbers.fold(platform.unread(), |changed, (name, number)| {
        let by = OFF.0 + (OFF.1 - OFF.0) * random.unit_f64();
        let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
        changed.with(name, number.value * (1.0 + sign * by))
    })
}

impl OfModel {
    /// Of a service on this platform's machine, with requests like these.
    ///
    /// # Errors
    /// The platform cannot serve them.
    pub fn new(platform: &Platform, like: &Workload) -> Result<OfModel, PlanError> {
        families::builder(platform, like)?(platform, like, 1)?;
        let error = ModelError::of_platform(platform).map_or(UNKNOWN_ERROR, ModelError::size);
        let (platform, like, last) = (platform.unread(), like.clone(), RefCell::default());
        Ok(OfModel { platform, like, factor: 1.0 + error, last })
    }

    /// As a log has it: the platform's file, and what it says of the rest.
    ///
    /// # Errors
    /// The platform is none, or there is no such workload, or it cannot be served there.
    pub fn logged(text: &str, of: &Modelled) -> Result<OfModel, String> {
        let platform = Platform::parse(text, "platform").map_err(|error| error.to_string())?;
        let like =
            shipped::shipped(&of.workload).ok_or_else(|| format!("there is no workload {}", of.workload))?;
        let like = like.map_err(|why| why.to_string())?;
        let known = of.off.map_or_else(|| platform.unread(), |seed| off(&platform, seed));
        OfModel::new(&known, &like).map_err(|why| why.to_string())
    }

    /// The workload with what is seen of it; none if nothing is.
    fn seen(&self, service: &Service) -> Option<Workload> {
        let mut workload = self.like.clone();
        let load = &service.load;
        let rate: f64 = load.methods.iter().map(|method| method.rate.0).sum();
        for class in &mut workload.classes {
            let method = load.methods.iter().find(|method| method.name == class.name);
            class.share = method.map_or(0.0, |method| method.rate.0 / rate);
            let bytes =
                |size: Option<f64>, otherwise: u64| size.map_or(otherwise, |size| size.round() as u64);
            let Some(method) = method else { continue };
            class.request = bytes(method.request_bytes.map(|size| size.0), class.request);
            class.reply = bytes(method.reply_bytes.map(|size| size.0), class.reply);
            class.store = method.stored_bytes.0.round() as u64;
        }
        workload.classes.retain(|class| class.share > 0.0);
        workload.working_set = (service.stored_bytes.0 as u64).max(1);
        workload.check().ok().map(|()| workload)
    }

    fn graph(&self, workload: Workload) -> Option<Rc<Graph>> {
        let mut last = self.last.borrow_mut();
        if let Some((_, graph)) = last.as_ref().filter(|(of, _)| *of == workload) {
            return Some(Rc::clone(graph));
        }
        let setting =
            families::builder(&self.platform, &workload).ok()?(&self.platform, &workload, 1).ok()?;
        let graph = Rc::new(Graph::of(&setting, &workload, &Limits::default()));
        *last = Some((workload, Rc::clone(&graph)));
        Some(graph)
    }
}

impl Predict for OfModel {
    fn of<'a>(&'a self, _: &Observation, service: &'a Service) -> Option<Box<dyn Known + 'a>> {
        let graph = self.graph(self.seen(service)?)?;
        Some(Box::new(Loaded { graph, rate: service.rate.0, factor: self.factor }))
    }
}

impl Loaded {
    fn way(&self, name: &str) -> Option<usize> {
        self.graph.ways.iter().position(|way| way.name == name)
    }
}

impl Known for Loaded {
    fn predict(&self, to: &Choice) -> Option<Prediction> {
        let Loaded { graph, rate, factor } = self;
        let mut shares = vec![0.0; graph.ways.len()];
        for (name, share) in to.shares() {
            shares[self.way(name)?] += share;
        }
        let capacity = mixture::capacity(graph, &shares);
        let at_most = rate.min(NEARLY_FULL * capacity);
        let rates: Vec<f64> = shares.iter().map(|share| share * at_most).collect();
        // Little's law of what clients have under way.
        let waiting = graph.window as f64 / capacity;
        let alone = latencies(graph, &rates).filter(|_| *rate <= NEARLY_FULL * capacity);
        let [p50, p99] = alone.map_or([waiting; 2], |found| [found.p50, found.p99]);
        let around = |mid: f64| Range::around(mid, *factor);
        let prediction = Prediction {
            capacity: around(capacity),
            p50_ns: around(p50 * 1e9),
            p99_ns: around(p99 * 1e9),
            cores: around(host_cores(graph, &rates)),
        };
        prediction.is_sound().then_some(prediction)
    }

    fn shares(&self, pair: &Choice) -> Vec<f64> {
        let ways: Vec<usize> = pair.shares().into_iter().filter_map(|(name, _)| self.way(name)).collect();
        let [one, other] = ways[..] else { return Vec::new() };
        mixture::shares(&self.graph, [one, other], self.rate).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_off_by_a_seed_and_what_can_be_counted_is_not() {
        let platform = crate::model::platform("cxl-type2").expect("it is shipped");
        let wrong = off(&platform, 7);
        let pairs: Vec<_> = platform.numbers().zip(wrong.numbers()).collect();
        let mut changed = 0;
        for ((name, was), (_, is)) in pairs {
            let by = (is.value / was.value - 1.0).abs();
            match was.unit.dimension {
                Dimension::Count | Dimension::Size | Dimension::Ratio => assert_eq!(was, is, "{name}"),
                Dimension::Power | Dimension::Money => assert_eq!(was, is, "{name}"),
                _ if was.value == 0.0 => {}
                _ => {
                    assert!((0.1 - 1e-9..=0.3 + 1e-9).contains(&by), "{name}: {by}");
                    changed += 1;
                }
            }
        }
        assert!(changed > 20, "{changed}");
        assert_eq!(off(&platform, 7), wrong);
        assert_ne!(off(&platform, 8), wrong);
    }
}
