//! The run as a reader wants it: a table per distance and window, or JSON.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::Contest;
use crate::fold::{self, Figure, Ratios};
use crate::rounds::{Dropped, Outcome, Plan};
use crate::spread::{Spread, short};
use crate::systems::System;

/// Everything, as tables; median [least..most] of the samples.
pub fn text(contest: &Contest, plan: &Plan, outcome: &Outcome, figures: &[Figure]) -> String {
    let mut out = head(contest, plan, outcome);
    let mut section = None;
    for figure in figures {
        if section.replace((figure.distance, figure.window)) != Some((figure.distance, figure.window)) {
            let ours = System::OURS.name();
            let title = format!("{}, window {}", figure.distance, figure.window);
            let _ = writeln!(
                out,
                "\n{title:<24}{:>4}{:>25}{:>25}{:>25}{:>9}{:>9}   {:<25}p50 by {ours}'s",
                "n",
                "thousand calls/s",
                "client ns/call",
                "server ns/call",
                "p50 us",
                "p99 us",
                format!("{ours} by calls/s"),
            );
        }
        out.push_str(&line(figure));
    }
    out
}

fn head(contest: &Contest, plan: &Plan, outcome: &Outcome) -> String {
    let [client, server] = plan.cores;
    let (all, moved) = fold::dropped(outcome, Dropped::Moved);
    let (_, busy) = fold::dropped(outcome, Dropped::Busy);
    let (counted, lost) = fold::pairs(outcome);
    let probes = Spread::of(outcome.probes.iter().copied());
    format!(
        "{}; client on core {client}, server on core {server}; {} bytes a message; tonic's connections: {}\n\
         {} rounds of {} ms samples; a cache line there and back: {} ns\n\
         of {all} samples {busy} dropped, since another program had a core, and {moved}, since the probes around them differ;\n\
         {lost} of {} comparisons dropped, since their two samples do not count or differ in distance\n",
        base::cpu::model_name(),
        contest.payload,
        contest.channels,
        outcome.rounds.len(),
        plan.sample.0 / 1_000_000,
        probes.map_or("no probe".into(), |spread| spread.to_string()),
        counted + lost,
    )
}

fn line(figure: &Figure) -> String {
    let micros =
        |quantile| figure.round_trips.as_ref().map_or(String::new(), |all| short(micros(all, quantile)));
    let rate = figure.ours.as_ref().map_or(String::new(), |ours| ours.rate.to_string());
    let round_trip = figure.ours.as_ref().and_then(|ours| ours.round_trip);
    let line = format!(
        "  {:<22}{:>4}{:>25}{:>25}{:>25}{:>9}{:>9}   {rate:<25}{}",
        figure.system,
        figure.krps.n,
        figure.krps,
        figure.client_ns,
        figure.server_ns,
        micros(0.5),
        micros(0.99),
        round_trip.map_or(String::new(), |spread| spread.to_string()),
    );
    format!("{}\n", line.trim_end())
}

fn micros(all: &Histogram<u64>, quantile: f64) -> f64 {
    all.value_at_quantile(quantile) as f64 / 1e3
}

/// The whole run for machines.
pub fn json(contest: &Contest, plan: &Plan, outcome: &Outcome, figures: &[Figure]) -> Value {
    let (all, moved) = fold::dropped(outcome, Dropped::Moved);
    let (_, busy) = fold::dropped(outcome, Dropped::Busy);
    let (counted, lost) = fold::pairs(outcome);
    json!({
        "processor": base::cpu::model_name(),
        "cores": { "client": plan.cores[0], "server": plan.cores[1] },
        "payload_bytes": contest.payload,
        "tonic_channels": contest.channels,
        "sample_ms": plan.sample.0 / 1_000_000,
        "rounds": outcome.rounds.len(),
        "probe_round_trip_ns": Spread::of(outcome.probes.iter().copied()).map(spread),
        "samples": { "all": all, "other_program": busy, "moved": moved },
        "comparisons": { "counted": counted, "dropped": lost },
        "figures": figures.iter().map(figure).collect::<Vec<_>>(),
    })
}

fn figure(figure: &Figure) -> Value {
    let round_trips = figure
        .round_trips
        .as_ref()
        .map(|all| json!({ "n": all.len(), "p50_us": micros(all, 0.5), "p99_us": micros(all, 0.99) }));
    let ours = figure.ours.as_ref().map(|Ratios { rate, round_trip }| {
        json!({ "times_its_rate": spread(*rate), "its_p50_by_ours": round_trip.map(spread) })
    });
    json!({
        "distance": figure.distance.to_string(),
        "window": figure.window,
        "system": figure.system.name(),
        "krps": spread(figure.krps),
        "client_cpu_ns": spread(figure.client_ns),
        "server_cpu_ns": spread(figure.server_ns),
        "round_trip": round_trips,
        "ours": ours,
    })
}

fn spread(spread: Spread) -> Value {
    json!({ "min": spread.min, "median": spread.median, "max": spread.max, "n": spread.n })
}
