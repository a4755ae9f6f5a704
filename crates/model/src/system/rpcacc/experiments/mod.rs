//! P-E1 … P-E12. Files by what is measured: `deserialise` (E1, E4), `serialise` (E2, E5, E6), `rivals` (E7, E8, E9), `gateway` (E3),
//! `service` (E10, E11, E12).
//!
//! A bench's value is the mean over its ten messages, each counting the same, and "all" is that over all sixty; what the sum of a bench's bytes
//! and times gives is a metric of its own.

mod deserialise;
mod gateway;
mod rivals;
mod serialise;
mod service;

use super::mean::{average, geomean};
use super::messages::all_benches;
use super::shape::Shape;
use super::traffic::{Bench, Traffic};
use crate::experiment::{Experiment, Rows};
use crate::kernel::{Kernel, ResourceId, Step};
use crate::platform::{LoadError, Platforms};
use std::rc::Rc;

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        id: "P-E1",
        title: "deserialising across PCIe and to the accelerator's memory",
        run: &|platforms, seed| deserialise::across(&drawn(platforms)?, platforms, seed),
    },
    Experiment {
        id: "P-E2",
        title: "serialising by latency of the memory behind it",
        run: &|platforms, seed| serialise::by_latency(&drawn(platforms)?, platforms, seed),
    },
    Experiment {
        id: "P-E3",
        title: "a gateway with data in the right and in the wrong memory",
        run: &gateway::placements,
    },
    Experiment {
        id: "P-E4",
        title: "one-shot and field-by-field deserialising",
        run: &|platforms, seed| deserialise::one_shot(&drawn(platforms)?, platforms, seed),
    },
    Experiment {
        id: "P-E5",
        title: "CPU cycles of serialising by what is offloaded",
        run: &serialise::cycles,
    },
    Experiment {
        id: "P-E6",
        title: "three serialisers",
        run: &|platforms, seed| serialise::three(&drawn(platforms)?, platforms, seed),
    },
    Experiment { id: "P-E7", title: "BlueField-3 with the same ideas", run: &rivals::bluefield },
    Experiment {
        id: "P-E8",
        title: "field-by-field and one-shot over a coherent link",
        run: &rivals::dagger,
    },
    Experiment {
        id: "P-E9",
        title: "PCIe-attached and on-chip accelerators",
        run: &|platforms, seed| rivals::on_chip(&drawn(platforms)?, platforms, seed),
    },
    Experiment { id: "P-E10", title: "automatic field updating", run: &service::updating },
    Experiment { id: "P-E11", title: "image service by host cores", run: &service::image },
    Experiment { id: "P-E12", title: "services of DeathStarBench", run: &service::social },
];

/// How long steps take when nothing else is there, and how long of it a resource works: microseconds.
fn alone(kernel: &mut Kernel, steps: Vec<Step>, at: ResourceId) -> (f64, f64) {
    let program = kernel.program("alone", steps);
    let demand = kernel.demand(program);
    let busy =
        demand.iter().find(|demand| demand.at == at).map_or(0.0, |demand| demand.service.as_secs_f64());
    (kernel.unloaded(program).as_secs_f64() * 1e6, busy * 1e6)
}

/// Something to measure of a message: metric, unit, value.
type Measured = (&'static str, &'static str, f64);

/// Measures every message of every bench and adds rows for each, for each bench and for all.
fn by_message(
    benches: &[Bench],
    rows: &mut Rows,
    at: (&'static str, &str),
    mut measure: impl FnMut(&str, &Shape) -> Result<Vec<Measured>, LoadError>,
) -> Result<(), LoadError> {
    by_traffic(benches, rows, at, |point, of| measure(point, of.shape()))
}

/// The messages that profiles give.
fn drawn(platforms: &Platforms) -> Result<Vec<Bench>, LoadError> {
    let traffic = |shape: Shape| Rc::new(shape) as Rc<dyn Traffic>;
    let bench = |(name, messages): (String, Vec<Shape>)| (name, messages.into_iter().map(traffic).collect());
    let benches = all_benches(&*platforms.named("pcie-rpc-accelerator")?)?;
    Ok(benches.into_iter().map(bench).collect())
}

/// P-E1, P-E2, P-E4, P-E6 and P-E9 with these messages in place of those that profiles give.
///
/// # Errors
/// A platform lacks a number.
pub fn of_traffic(benches: &[Bench], platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let mut rows = deserialise::across(benches, platforms, seed)?;
    rows.append(serialise::by_latency(benches, platforms, seed)?);
    rows.append(deserialise::one_shot(benches, platforms, seed)?);
    rows.append(serialise::three(benches, platforms, seed)?);
    rows.append(rivals::on_chip(benches, platforms, seed)?);
    Ok(rows)
}

/// As [`by_message`], of these messages.
fn by_traffic(
    benches: &[Bench],
    rows: &mut Rows,
    (experiment, variant): (&'static str, &str),
    mut measure: impl FnMut(&str, &dyn Traffic) -> Result<Vec<Measured>, LoadError>,
) -> Result<(), LoadError> {
    let mut all: Vec<Vec<Measured>> = vec![];
    for (bench, messages) in benches {
        let mut of_bench = vec![];
        for of in messages {
            let point = format!("{bench} {}", of.shape().name);
            let measured = measure(&point, &**of)?;
            for (metric, unit, value) in &measured {
                rows.add((experiment, variant, &point), metric, unit, *value);
            }
            of_bench.push(measured);
        }
        means(rows, (experiment, variant), bench, &of_bench);
        all.append(&mut of_bench);
    }
    means(rows, (experiment, variant), "all", &all);
    Ok(())
}

/// Rows for the means of what was measured of several messages.
fn means(rows: &mut Rows, (experiment, variant): (&'static str, &str), point: &str, of: &[Vec<Measured>]) {
    for (i, (metric, unit, _)) in of[0].iter().enumerate() {
        let values: Vec<f64> = of.iter().map(|measured| measured[i].2).collect();
        rows.add((experiment, variant, point), metric, unit, average(&values));
        rows.add((experiment, variant, &format!("{point}, geomean")), metric, unit, geomean(&values));
    }
}

/// Divides, at every point that both have, one variant's values by another's: a metric of its own, and its means.
fn compare(
    benches: &[Bench],
    rows: &mut Rows,
    experiment: &'static str,
    (over, under): (&str, &str),
    (metric, ratio): (&'static str, &'static str),
    variant: &str,
) {
    let mut all = vec![];
    for (bench, messages) in benches {
        let mut of_bench = vec![];
        for of in messages {
            let point = format!("{bench} {}", of.shape().name);
            let value = |of: &str| rows.find(experiment, of, &point, metric).map(|row| row.value);
            let (Some(over), Some(under)) = (value(over), value(under)) else { continue };
            rows.add((experiment, variant, &point), ratio, "ratio", over / under);
            of_bench.push(vec![(ratio, "ratio", over / under)]);
        }
        means(rows, (experiment, variant), bench, &of_bench);
        all.append(&mut of_bench);
    }
    means(rows, (experiment, variant), "all", &all);
}
