//! Latencies by queueing theory: good enough to choose which combinations are worth simulating.
//!
//! * Each resource is a station M/G/c on its own: its customers are all uses, of all alternatives, arriving at random; the packets of a message are one
//!   customer. Waits are Lee and Longton's approximation of M/G/c (`queueing::mgc_wait`), with the variation between kinds of customers.
//! * An operation's latency is what it takes unloaded and the waits of its stops, taken as independent of each other.
//! * Tails: whoever must wait (Erlang's C) waits exponentially long; mean and variance of all waits are added up, and the sum is taken as a gamma
//!   distribution, or where it varies more than an exponential one, as nothing with some probability and exponential otherwise. Quantiles are those of
//!   the mixture over classes and alternatives.
//!
//! * A thread that sleeps is woken first; with the probability that it has work, or had some lately, that is spared.
//!
//! Wrong where arrivals are not random (closed loops with few clients, bursts beyond a message), where waits depend on each other (a slow stage smooths
//! what comes after it: waits are overstated), and near saturation. A test holds it against simulation; `simulate` has the last word.

use super::graph::{Graph, Kind, Part, Stop};
use crate::queueing::{erlang_c, mgc_wait};
use crate::random::exp;

/// Latencies, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Latencies {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// A wait at a station: mean and variance.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    mean: f64,
    variance: f64,
}

/// What customers find at a station.
#[derive(Clone, Copy, Debug, Default)]
struct Station {
    wait: Wait,
    /// Turns of customers, per second.
    turns: f64,
    /// Of its capacity.
    utilisation: f64,
}

/// A latency: what is always there, and waits.
#[derive(Clone, Copy, Debug)]
struct Tail {
    weight: f64,
    least: f64,
    wait: Wait,
}

/// Latencies of operations that come at these rates (of each way, per second); `None` if something has more to do than it can.
pub fn latencies(graph: &Graph, rates: &[f64]) -> Option<Latencies> {
    let utilisation = graph.utilisation(rates);
    let full = |(row, used): (&super::graph::Row, &f64)| {
        matches!(row.kind, Kind::Resource | Kind::Tokens) && *used >= 1.0
    };
    if graph.rows.iter().zip(&utilisation).any(full) {
        return None;
    }
    let stations: Vec<Station> = (0..graph.rows.len()).map(|row| station(graph, rates, row)).collect();
    let whole: f64 = rates.iter().sum();
    let mut tails = Vec::new();
    for (way, rate) in graph.ways.iter().zip(rates).filter(|(_, rate)| **rate > 0.0) {
        tails.extend(way.parts.iter().map(|part| tail(part, rate / whole, &stations)));
    }
    let mean = tails.iter().map(|tail| tail.weight * (tail.least + tail.wait.mean)).sum();
    Some(Latencies { mean, p50: quantile(&tails, 0.5), p99: quantile(&tails, 0.99) })
}

/// Latencies of each class of the graph, in order, of operations that come at these rates, whoever asks for them; `None` of those that nobody serves, and of
/// all if something has more to do than it can.
pub fn by_class(graph: &Graph, rates: &[f64]) -> Vec<Option<Latencies>> {
    let none = || vec![None; graph.classes.len()];
    if latencies(graph, rates).is_none() {
        return none();
    }
    let stations: Vec<Station> = (0..graph.rows.len()).map(|row| station(graph, rates, row)).collect();
    let whole: f64 = rates.iter().sum();
    let of = |class: usize| {
        let used = graph.ways.iter().zip(rates).filter(|(_, rate)| **rate > 0.0);
        let parts = used.flat_map(|(way, rate)| way.parts.iter().map(move |part| (part, rate / whole)));
        // A class that clients do not ask has one part of each way, whose share is 0.
        let tails = parts.filter(|(part, _)| part.class == class).map(|(part, share)| {
            let by = if part.share > 0.0 { part.share } else { 1.0 };
            Tail { weight: share * by, ..tail(part, share, &stations) }
        });
        let mut tails: Vec<Tail> = tails.collect();
        let sum: f64 = tails.iter().map(|tail| tail.weight).sum();
        tails.iter_mut().for_each(|tail| tail.weight /= sum);
        let mean = tails.iter().map(|tail| tail.weight * (tail.least + tail.wait.mean)).sum();
        (sum > 0.0).then(|| Latencies { mean, p50: quantile(&tails, 0.5), p99: quantile(&tails, 0.99) })
    };
    (0..graph.classes.len()).map(of).collect()
}

/// Host cores that operations at these rates keep busy: with their work, with waking threads that sleep, and with threads that look for work before they sleep.
pub fn host_cores(graph: &Graph, rates: &[f64]) -> f64 {
    let stations: Vec<Station> = (0..graph.rows.len()).map(|row| station(graph, rates, row)).collect();
    let waking = |way: &super::graph::Way| -> f64 {
        let stops = way.parts.iter().flat_map(|part| part.stops.iter().map(move |stop| (part.share, stop)));
        stops.map(|(share, stop)| share * stop.wake_cores * stations[stop.row].asleep(stop.awake)).sum()
    };
    let waking: f64 =
        graph.ways.iter().zip(rates).map(|(way, rate)| rate / graph.together * waking(way)).sum();
    // Threads of a row look for as long as any of its stops has them look.
    let looking = |(at, row): (usize, &super::graph::Row)| {
        let used = graph.ways.iter().zip(rates).filter(|(_, rate)| **rate > 0.0);
        let stops = used.flat_map(|(way, _)| &way.parts).flat_map(|part| &part.stops);
        let awake = stops.filter(|stop| stop.row == at && stop.wake > 0.0).map(|stop| stop.awake);
        let awake = awake.fold(0.0, f64::max);
        let station = &stations[at];
        if awake > 0.0 {
            f64::from(row.servers) * station.looking(awake / f64::from(row.servers))
        } else {
            0.0
        }
    };
    let looking: f64 = graph.rows.iter().enumerate().map(looking).sum();
    graph.host_cores(rates) + waking + looking
}

impl Station {
    /// Of its time, that a thread sleeps: it has nothing to do, and nothing came for as long as it stays awake.
    fn asleep(&self, awake: f64) -> f64 {
        (1.0 - self.utilisation) * exp(-self.turns * awake)
    }

    /// Of its time, that it has nothing to do and does not sleep yet.
    fn looking(&self, awake: f64) -> f64 {
        (1.0 - self.utilisation) - self.asleep(awake)
    }
}

/// A row, as its customers find it.
fn station(graph: &Graph, rates: &[f64], at: usize) -> Station {
    let row = &graph.rows[at];
    if row.kind != Kind::Resource {
        return Station::default();
    }
    // Of all customers: their rate, their service and its square.
    let (mut customers, mut work, mut squares) = (0.0, 0.0, 0.0);
    for (way, rate) in graph.ways.iter().zip(rates) {
        for part in &way.parts {
            for stop in part.stops.iter().filter(|stop| stop.row == at) {
                for (visits, service) in [(stop.visits, stop.service), (stop.behind, stop.behind_service)] {
                    if visits > 0.0 {
                        customers += rate * part.share * visits;
                        work += rate * part.share * service;
                        squares += rate * part.share * service * service / visits;
                    }
                }
            }
        }
    }
    if customers <= 0.0 || work <= 0.0 {
        return Station::default();
    }
    let service = work / customers;
    let variation = (squares / customers / (service * service) - 1.0).max(0.0);
    let utilisation = (work / row.capacity).min(0.9999);
    let mean = mgc_wait(row.servers, utilisation, service, variation);
    let waiting = erlang_c(row.servers, utilisation).max(1e-9);
    let wait = Wait { mean, variance: mean * mean * (2.0 / waiting - 1.0) };
    Station { wait, turns: customers / graph.together, utilisation }
}

fn tail(part: &Part, share: f64, stations: &[Station]) -> Tail {
    let sum = part.stops.iter().fold(Wait::default(), |sum, stop| Wait {
        mean: sum.mean + stop.visits * stations[stop.row].wait.mean,
        variance: sum.variance + stop.visits * stations[stop.row].wait.variance,
    });
    let spared = |stop: &Stop| stop.wake * (1.0 - stations[stop.row].asleep(stop.awake));
    let spared: f64 = part.stops.iter().filter(|stop| stop.wake > 0.0).map(spared).sum();
    Tail { weight: share * part.share, least: part.unloaded - spared, wait: sum }
}

impl Tail {
    /// The probability that it is longer than `span`.
    fn beyond(&self, span: f64) -> f64 {
        let (over, Wait { mean, variance }) = (span - self.least, self.wait);
        if over < 0.0 {
            return 1.0;
        }
        if mean <= 0.0 || variance <= 0.0 {
            return 0.0;
        }
        let variation = variance / (mean * mean);
        if variation >= 1.0 {
            // Nothing, or exponential: mean m = p·a, second moment 2·p·a².
            let second = variance + mean * mean;
            let scale = second / (2.0 * mean);
            return mean / scale * exp(-over / scale);
        }
        // Gamma, after Wilson and Hilferty: its cube root is nearly normal.
        let spread = variation / 9.0;
        normal_beyond(((over / mean).cbrt() - 1.0 + spread) / spread.sqrt())
    }
}

/// The probability that a normal variable is beyond `z` (Abramowitz and Stegun 26.2.17, to 1 in 10⁷).
fn normal_beyond(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let beyond = exp(-z * z / 2.0) / (2.0 * std::f64::consts::PI).sqrt() * sum;
    if z >= 0.0 { beyond } else { 1.0 - beyond }
}

/// The quantile of a mixture, by halving.
fn quantile(tails: &[Tail], of: f64) -> f64 {
    let beyond = |span: f64| tails.iter().map(|tail| tail.weight * tail.beyond(span)).sum::<f64>();
    let least = tails.iter().map(|tail| tail.least).fold(f64::INFINITY, f64::min);
    let mut high = tails.iter().map(|tail| tail.least + tail.wait.mean).fold(1e-12, f64::max);
    while beyond(high) > 1.0 - of {
        high *= 2.0;
    }
    let mut low = least.min(high);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if beyond(middle) > 1.0 - of { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_have_the_quantiles_of_known_distributions() {
        let of = |wait: Wait| quantile(&[Tail { weight: 1.0, least: 2.0, wait }], 0.99) - 2.0;
        // Exponential: ln 100; an atom of a half and an exponential of mean 2: 2 ln 50; gamma of shape 4, mean 4: 10.045.
        assert!((of(Wait { mean: 1.0, variance: 1.0 }) - 100f64.ln()).abs() < 1e-6);
        assert!((of(Wait { mean: 1.0, variance: 3.0 }) - 2.0 * 50f64.ln()).abs() < 1e-6);
        assert!((of(Wait { mean: 4.0, variance: 4.0 }) / 10.045 - 1.0).abs() < 0.01);
        assert_eq!(of(Wait::default()), 0.0);
        assert!(
            (normal_beyond(1.959_964) - 0.025).abs() < 1e-6 && (normal_beyond(-1.0) - 0.841_345).abs() < 1e-6
        );
    }
}
