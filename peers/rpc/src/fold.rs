//! All rounds folded into one figure per distance, window and system.

use hdrhistogram::Histogram;
use ring::probe::Distance;

use crate::rounds::{Dropped, Outcome, Reading};
use crate::spread::Spread;
use crate::systems::System;

/// The classes of distance, nearest first.
pub const DISTANCES: [Distance; 3] = [Distance::SmtSiblings, Distance::SameL3, Distance::AcrossL3];

/// One system at one window, of the samples between cores so far apart.
pub struct Figure {
    /// How far apart.
    pub distance: Distance,
    /// Calls in flight.
    pub window: usize,
    /// Whose.
    pub system: System,
    /// Thousand calls a second.
    pub krps: Spread,
    /// Processor time of the client's thread per call, ns.
    pub client_ns: Spread,
    /// Processor time of the server's thread per call, ns.
    pub server_ns: Spread,
    /// Round trips in ns of all samples together, where one call at a time was made.
    pub round_trips: Option<Histogram<u64>>,
    /// Against ours, by rounds.
    pub ours: Option<Ratios>,
}

/// How many times better ours is, one value per round.
pub struct Ratios {
    /// Our calls a second by theirs.
    pub rate: Spread,
    /// Their median round trip by ours.
    pub round_trip: Option<Spread>,
}

/// Every figure that there are samples for, in the order of the tables.
pub fn figures(outcome: &Outcome, windows: &[usize]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for distance in DISTANCES {
        for &window in windows {
            let of = |system| figure(outcome, distance, window, system);
            figures.extend(outcome.systems.iter().filter_map(|&system| of(system)));
        }
    }
    figures
}

/// How many samples there are, and how many of them do not count for this reason.
pub fn dropped(outcome: &Outcome, why: Dropped) -> (usize, usize) {
    let all = || outcome.rounds.iter().flatten();
    (all().count(), all().filter(|reading| reading.distance == Err(why)).count())
}

/// Rounds in which both samples of a comparison count, and those in which one does not or they differ in distance.
pub fn pairs(outcome: &Outcome) -> (usize, usize) {
    let (mut counted, mut lost) = (0, 0);
    for round in &outcome.rounds {
        for reading in round.iter().filter(|reading| reading.system != System::OURS) {
            match find(round, reading.window, System::OURS) {
                Some(ours) if ours.distance.is_ok() && ours.distance == reading.distance => counted += 1,
                Some(_) => lost += 1,
                None => (),
            }
        }
    }
    (counted, lost)
}

fn figure(outcome: &Outcome, distance: Distance, window: usize, system: System) -> Option<Figure> {
    let counts = |reading: &&Reading| reading.distance == Ok(distance);
    let rounds = || outcome.rounds.iter();
    let readings: Vec<&Reading> =
        rounds().filter_map(|round| find(round, window, system).filter(counts)).collect();
    let spread = |value: fn(&Reading) -> f64| Spread::of(readings.iter().map(|reading| value(reading)));
    let pairs: Vec<(&Reading, &Reading)> = rounds()
        .filter(|_| system != System::OURS)
        .filter_map(|round| {
            let ours = find(round, window, System::OURS).filter(counts)?;
            Some((ours, find(round, window, system).filter(counts)?))
        })
        .collect();
    Some(Figure {
        distance,
        window,
        system,
        krps: spread(krps)?,
        client_ns: spread(|reading| per_call(reading.sample.client.cpu.0, reading.sample.calls))?,
        server_ns: spread(|reading| per_call(reading.served.usage.cpu.0, reading.served.calls))?,
        round_trips: merged(&readings),
        ours: ratios(&pairs),
    })
}

fn ratios(pairs: &[(&Reading, &Reading)]) -> Option<Ratios> {
    let rate = pairs.iter().map(|(ours, theirs)| krps(ours) / krps(theirs));
    let round_trip = pairs.iter().filter_map(|(ours, theirs)| Some(median_ns(theirs)? / median_ns(ours)?));
    Some(Ratios { rate: Spread::of(rate)?, round_trip: Spread::of(round_trip) })
}

fn find(round: &[Reading], window: usize, system: System) -> Option<&Reading> {
    round.iter().find(|reading| reading.window == window && reading.system == system)
}

fn krps(reading: &Reading) -> f64 {
    1e6 / reading.sample.ns_per_call
}

fn per_call(ns: u64, calls: u64) -> f64 {
    ns as f64 / calls.max(1) as f64
}

fn median_ns(reading: &Reading) -> Option<f64> {
    Some(reading.sample.round_trips.as_ref()?.value_at_quantile(0.5) as f64)
}

fn merged(readings: &[&Reading]) -> Option<Histogram<u64>> {
    let mut all = readings.first()?.sample.round_trips.clone()?;
    for reading in &readings[1..] {
        all.add(reading.sample.round_trips.as_ref()?).expect("all have the same bounds");
    }
    Some(all)
}
