//! A machine that one can work out in the head, for tests of what runs experiments.

use super::published::Results;
use super::response::{Based, Job, Parameter, Response, jobs, logarithms, places};
use super::{Experiment, Rows};
use crate::platform::{LoadError, Platform, Platforms};
use crate::system::System;

/// Its file: a number that is fitted, one that is not, one that nobody reads.
pub(crate) const PLATFORM: &str = r#"
name = "toy"
title = "A NIC"
family = "toys"
[nic]
latency = { value = 100, unit = "ns", class = "fitted", source = "T-1", range = [50, 200] } # why
rate = { value = 10, unit = "Mops", class = "datasheet", source = "its vendor", range = [5, 20] }
units = { value = 4, unit = "count", class = "assumed", source = "so it seems", range = [1, 8] }
"#;

/// What was published of it.
pub(crate) const RESULTS: &str = r#"
system = "toy"
source = "nobody"
[[result]]
id = "T-1"
what = "latency"
where = "Fig. 1"
class = "calibration"
value = 0.25
of = "X1 | NIC | 64 B | latency"
"#;

/// Latency is the NIC's and a service.
pub(crate) const EXPERIMENT: Experiment = Experiment { id: "X1", title: "a toy", run: &run };

pub(crate) fn platform() -> Platform {
    Platform::parse(PLATFORM, "toy.toml").expect("it is right")
}

/// How its rows at the places that results name answer to its numbers, and the numbers.
pub(crate) fn answers(
    platforms: &Platforms,
    results: &Results,
    free_only: bool,
) -> (Vec<Parameter>, Response) {
    let parameters = Parameter::all(&System::of_toys(), platforms).expect("its file is right");
    let based = [Based::run(EXPERIMENT, platforms, 1, (1000, 1)).expect("it is complete")];
    let places = places(results);
    let run = |job: &Job| {
        let of = &parameters[job.parameter];
        let rows = based[0].at(platforms, &[(of.place.clone(), of.value(job.position))]);
        (*job, logarithms(&places, &rows.expect("it is complete")))
    };
    let moved: Vec<_> = jobs(&based, &parameters, free_only).iter().map(run).collect();
    let response = Response::of(&parameters, logarithms(&places, &based[0].rows), &moved);
    (parameters, response)
}

fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named("toy")?;
    let service = platform.service("nic.rate", 1)?;
    let latency = platform.span("nic.latency")?.plus(service);
    let mut rows = Rows::default();
    rows.add(("X1", "NIC", "64 B"), "latency", "us", latency.as_secs_f64() * 1e6);
    rows.add(("X1", "NIC", "64 B"), "throughput", "Mops", 1e-6 / service.as_secs_f64());
    rows.add(("X1", "NIC", "64 B"), "lost", "count", (seed - 1) as f64);
    Ok(rows)
}
