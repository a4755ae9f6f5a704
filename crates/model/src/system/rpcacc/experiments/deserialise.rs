//! P-E1, P-E4: throughput of the deserialisers alone, every field to the memory in question; messages are at hand in the NIC.

use super::{Measured, by_traffic, compare};
use crate::experiment::Rows;
use crate::load::{Loop, closed};
use crate::platform::{LoadError, Platform, Platforms};
use crate::sim::Sim;
use crate::system::rpcacc::accelerator::{Accelerator, Placing};
use crate::system::rpcacc::host::NOTIFICATION;
use crate::system::rpcacc::mean::{average, geomean};
use crate::system::rpcacc::traffic::{Bench, Traffic};
use base::Picos;

/// Messages under way: two for each lane.
const WINDOW: u64 = 8;

/// Deserialises one message over and over.
fn measure(
    platform: &Platform,
    placing: Placing,
    of: &dyn Traffic,
    seed: u64,
) -> Result<Vec<Measured>, LoadError> {
    let mut machine = Accelerator::new(platform, None, seed)?;
    let mut steps = machine.deserialise(of, placing);
    let mut transactions = 0;
    if placing != Placing::OffChip {
        // Who writes to the host tells it.
        transactions = machine.transactions(of, placing);
        steps.push(machine.host.dma.write(NOTIFICATION));
    }
    let program = machine.kernel.program("deserialise", steps);
    let alone = machine.kernel.unloaded(program);
    let sim = Sim::new(machine.kernel);
    let one = Loop { mix: program.into(), window: WINDOW, arguments: 1 };
    let spans = |times: u64| Picos(alone.0 * times);
    let seen = &closed(&sim, seed, &[one], spans(4), spans(24))[0];
    let rate = seen.rate();
    Ok(vec![
        ("throughput", "Gbps", rate * of.wire() as f64 * 8.0 / 1e9),
        ("messages", "Kops", rate / 1e3),
        ("latency", "us", alone.as_secs_f64() * 1e6),
        ("latency under load", "us", seen.mean() * 1e6),
        ("PCIe transactions", "count", transactions as f64),
        ("bytes of a message", "B", of.wire() as f64),
        ("average field", "B", average_field(of)),
    ])
}

/// Bytes of a field on the wire, on average.
fn average_field(of: &dyn Traffic) -> f64 {
    of.wire() as f64 / of.shape().fields().max(1) as f64
}

const OFF_CHIP: &str = "off-chip memory";
const FIELDS: &str = "field-by-field";
const ONE_SHOT: &str = "one-shot";

fn run(
    benches: &[Bench],
    platforms: &Platforms,
    experiment: &'static str,
    variants: &[(&str, Placing)],
    seed: u64,
) -> Result<Rows, LoadError> {
    let platform = platforms.named("pcie-rpc-accelerator")?;
    let mut rows = Rows::default();
    for (variant, placing) in variants {
        let one = |_: &str, of: &dyn Traffic| measure(&platform, *placing, of, seed);
        by_traffic(benches, &mut rows, (experiment, variant), one)?;
        totals(benches, &mut rows, experiment, variant);
    }
    Ok(rows)
}

/// A bench as a whole: its bytes over the time of its messages one after the other.
fn totals(benches: &[Bench], rows: &mut Rows, experiment: &'static str, variant: &str) {
    for (bench, messages) in benches {
        let rate = |of: &dyn Traffic| {
            let point = format!("{bench} {}", of.shape().name);
            rows.find(experiment, variant, &point, "messages").expect("it was just added").value * 1e3
        };
        let time: f64 = messages.iter().map(|of| 1.0 / rate(&**of)).sum();
        let bytes: u64 = messages.iter().map(|of| of.wire()).sum();
        rows.add(
            (experiment, variant, bench),
            "throughput of totals",
            "Gbps",
            bytes as f64 * 8.0 / time / 1e9,
        );
    }
}

pub(super) fn across(benches: &[Bench], platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E1";
    let variants = [(FIELDS, Placing::FieldByField), (OFF_CHIP, Placing::OffChip)];
    let mut rows = run(benches, platforms, E, &variants, seed)?;
    compare(
        benches,
        &mut rows,
        E,
        (OFF_CHIP, FIELDS),
        ("throughput", "speed-up over field-by-field"),
        OFF_CHIP,
    );
    Ok(rows)
}

pub(super) fn one_shot(benches: &[Bench], platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E4";
    let ratio = "speed-up over field-by-field";
    let mut rows = run(
        benches,
        platforms,
        E,
        &[(FIELDS, Placing::FieldByField), (ONE_SHOT, Placing::OneShot), (OFF_CHIP, Placing::OffChip)],
        seed,
    )?;
    compare(benches, &mut rows, E, (ONE_SHOT, FIELDS), ("throughput", ratio), ONE_SHOT);
    compare(benches, &mut rows, E, (OFF_CHIP, ONE_SHOT), ("throughput", "speed-up over one-shot"), OFF_CHIP);
    by_field_size(benches, &mut rows, E, ratio);
    Ok(rows)
}

/// The means of messages whose fields are of like size.
fn by_field_size(benches: &[Bench], rows: &mut Rows, experiment: &'static str, ratio: &'static str) {
    const EDGES: [u64; 11] = [0, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, u64::MAX];
    for edge in EDGES.windows(2) {
        let inside = |of: &dyn Traffic| (edge[0]..edge[1]).contains(&(average_field(of) as u64));
        let points: Vec<String> = benches
            .iter()
            .flat_map(|(bench, messages)| {
                let inside = messages.iter().filter(|of| inside(&***of));
                inside.map(move |of| format!("{bench} {}", of.shape().name))
            })
            .collect();
        if points.is_empty() {
            continue;
        }
        let name = match edge[1] {
            u64::MAX => format!("average field of {} B and more", edge[0]),
            below => format!("average field of {}-{} B", edge[0], below - 1),
        };
        for (variant, metric, unit) in
            [(FIELDS, "throughput", "Gbps"), (ONE_SHOT, "throughput", "Gbps"), (ONE_SHOT, ratio, "ratio")]
        {
            let value = |point: &String| {
                rows.find(experiment, variant, point, metric).expect("every message has it").value
            };
            let values: Vec<f64> = points.iter().map(value).collect();
            rows.add((experiment, variant, &name), metric, unit, average(&values));
            rows.add((experiment, variant, &format!("{name}, geomean")), metric, unit, geomean(&values));
        }
        rows.add((experiment, ONE_SHOT, &name), "messages of this kind", "count", points.len() as f64);
    }
}
