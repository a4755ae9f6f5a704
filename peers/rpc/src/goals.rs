//! What the fabric is to reach against its peers, and whether it did in this run, by the distance of the cores.

use std::fmt::Write;

use ring::probe::Distance;

use crate::fold::{DISTANCES, Figure, Ratios};
use crate::spread::{Spread, short};
use crate::systems::System;

const RATE_KRPS: f64 = 12_400.0;
const ROUND_TRIP_US: f64 = 1.0;
const TIMES_TONIC: f64 = 20.0;
const TIMES_ICEORYX: f64 = 1.0;
/// Calls in flight where the rate is held against tonic's.
const TONIC_WINDOW: usize = 32;

/// A line per goal that this run has the figures for.
pub fn text(figures: &[Figure]) -> String {
    let mut out = String::new();
    for distance in DISTANCES {
        let here: Vec<&Figure> = figures.iter().filter(|figure| figure.distance == distance).collect();
        absolute(&mut out, distance, &here);
        relative(&mut out, distance, &here);
    }
    out
}

/// Ours alone.
fn absolute(out: &mut String, distance: Distance, figures: &[&Figure]) {
    let ours = || figures.iter().filter(|figure| figure.system == System::OURS);
    if let Some(best) = ours().max_by(|a, b| a.krps.median.total_cmp(&b.krps.median)) {
        let what = format!("{RATE_KRPS} thousand calls/s");
        let got = format!("{} at window {}", best.krps, best.window);
        line(out, distance, &what, &got, best.krps.median >= RATE_KRPS);
    }
    if let Some(round_trips) = ours().find_map(|figure| figure.round_trips.as_ref()) {
        let us = round_trips.value_at_quantile(0.5) as f64 / 1e3;
        let what = format!("median round trip of {ROUND_TRIP_US} us");
        line(out, distance, &what, &format!("{} us", short(us)), us <= ROUND_TRIP_US);
    }
}

/// Against each peer.
fn relative(out: &mut String, distance: Distance, figures: &[&Figure]) {
    for figure in figures {
        let Some(Ratios { rate, round_trip }) = &figure.ours else { continue };
        let least = match figure.system {
            System::MillraceShm => continue,
            System::TonicUnix | System::TonicTcp => TIMES_TONIC,
            System::IceoryxCalls | System::IceoryxTopics => TIMES_ICEORYX,
        };
        let mut goal = |what: String, seen: &Spread| {
            line(out, distance, &what, &seen.to_string(), seen.median >= least);
        };
        let (system, window) = (figure.system, figure.window);
        if least < TIMES_TONIC || window == TONIC_WINDOW {
            goal(format!("{least} x or more of {system}'s calls/s, window {window}"), rate);
        }
        if let Some(round_trip) = round_trip {
            goal(format!("{system}'s median round trip {least} x ours or more"), round_trip);
        }
    }
}

fn line(out: &mut String, distance: Distance, what: &str, got: &str, met: bool) {
    let verdict = if met { "met" } else { "missed" };
    let _ = writeln!(out, "{distance:<14}{what:<56}{got:<38}{verdict}");
}
