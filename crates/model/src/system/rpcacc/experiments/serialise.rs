//! P-E2, P-E5, P-E6: time and cycles of serialising one message when nothing else is there.

use super::{alone, by_message, by_traffic, compare, drawn, means};
use crate::experiment::Rows;
use crate::platform::{LoadError, Platforms};
use crate::system::rpcacc::accelerator::Accelerator;
use crate::system::rpcacc::host::{Handed, Software};
use crate::system::rpcacc::mean::{average, geomean};
use crate::system::rpcacc::messages::{all_benches, deathstarbench};
use crate::system::rpcacc::shape::Shape;
use crate::system::rpcacc::traffic::Bench;
use base::Picos;

/// Accelerator-only serialising of bench 2, the objects' memory near and far.
pub(super) fn by_latency(benches: &[Bench], platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E2";
    const LATENCIES: [u64; 11] = [70, 100, 125, 200, 300, 400, 500, 625, 800, 1000, 1250];
    let platform = platforms.named("pcie-rpc-accelerator")?;
    let mut rows = Rows::default();
    for (bench, messages) in benches {
        let mut near = vec![];
        for ns in LATENCIES {
            let variant = format!("{ns} ns");
            let mut times = vec![];
            for of in messages {
                let mut machine = Accelerator::new(&platform, None, seed)?;
                machine.walk_latency(Picos::from_nanos(ns));
                let steps = machine.walk(&**of);
                times.push(alone(&mut machine.kernel, steps, machine.serialisers.at).0);
            }
            if near.is_empty() {
                near.clone_from(&times);
            }
            let growth: Vec<f64> = times.iter().zip(&near).map(|(far, near)| far / near).collect();
            for (i, of) in messages.iter().enumerate() {
                let at = (E, &*variant, &*format!("{bench} {}", of.shape().name));
                rows.add(at, "serialization time", "us", times[i]);
                rows.add(at, "normalised time", "ratio", growth[i]);
            }
            rows.add((E, &variant, bench), "serialization time", "us", average(&times));
            rows.add((E, &variant, bench), "normalised time", "ratio", average(&growth));
            rows.add(
                (E, &variant, &format!("{bench}, geomean")),
                "normalised time",
                "ratio",
                geomean(&growth),
            );
        }
    }
    for of in benches.iter().filter(|(bench, _)| bench == "bench2").flat_map(|(_, messages)| messages) {
        let at = (E, "message", &*format!("bench2 {}", of.shape().name));
        rows.add(at, "bytes of a message", "B", of.wire() as f64);
        rows.add(at, "dereferences", "count", of.dereferences().iter().sum::<u64>() as f64);
    }
    Ok(rows)
}

const OFFLOADS: [(&str, Handed); 3] = [
    ("no offload", Handed { copies: false, encoding: false }),
    ("memcpy offload", Handed { copies: true, encoding: false }),
    ("memcpy and encoding offload", Handed { copies: true, encoding: true }),
];

/// Cycles of a core.
pub(super) fn cycles(platforms: &Platforms, _: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E5";
    let platform = platforms.named("pcie-rpc-accelerator")?;
    let software = Software::load(&platform)?;
    let (benches, services) = (all_benches(&platform)?, deathstarbench(&platform)?);
    let traffic = &drawn(platforms)?;
    let mut rows = Rows::default();
    let measured = |shapes: &[&Shape], handed: Handed| {
        let cycles = |handed| shapes.iter().map(|shape| software.serialise(shape, handed)).sum::<f64>();
        let all = cycles(OFFLOADS[0].1);
        let with = cycles(handed);
        vec![
            ("CPU cycles", "cycles", with),
            ("normalised CPU cycles", "ratio", with / all),
            ("CPU cycles saved", "%", 100.0 * (1.0 - with / all)),
        ]
    };
    for (variant, handed) in OFFLOADS {
        by_message(traffic, &mut rows, (E, variant), |_, shape| Ok(measured(&[shape], handed)))?;
        for (bench, messages) in &benches {
            let of = measured(&messages.iter().collect::<Vec<_>>(), handed);
            rows.add((E, variant, &format!("{bench}, totals")), of[1].0, of[1].1, of[1].2);
        }
        let mut bars: Vec<Vec<_>> = benches
            .iter()
            .map(|(_, messages)| {
                let of: Vec<_> = messages.iter().map(|shape| measured(&[shape], handed)[1].2).collect();
                vec![("normalised CPU cycles", "ratio", average(&of))]
            })
            .collect();
        let replies: Vec<_> = services.iter().map(|s| measured(&[&s.request, &s.reply], handed)).collect();
        for (service, measured) in services.iter().zip(&replies) {
            for (metric, unit, value) in measured {
                rows.add((E, variant, service.name), metric, unit, *value);
            }
        }
        means(&mut rows, (E, variant), "DeathStarBench", &replies);
        bars.extend(replies.iter().map(|of| vec![of[1]]));
        means(&mut rows, (E, variant), "benches and services", &bars);
    }
    Ok(rows)
}

/// From a core that begins to send to the message in the transport.
pub(super) fn three(benches: &[Bench], platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E6";
    const CPU: &str = "CPU-only";
    const WALKING: &str = "ProtoACC-PCIe";
    const AFFINITY: &str = "memory-affinity";
    const COPYING: &str = "memory-affinity without memcpy offload";
    let platform = platforms.named("pcie-rpc-accelerator")?;
    let mut rows = Rows::default();
    for variant in [CPU, WALKING, AFFINITY, COPYING] {
        by_traffic(benches, &mut rows, (E, variant), |_, of| {
            let mut machine = Accelerator::new(&platform, None, seed)?;
            let steps = match variant {
                CPU => machine.host.send(of.shape()),
                WALKING => machine.send_walking(of),
                AFFINITY => machine.send_presented(of, true),
                _ => machine.send_presented(of, false),
            };
            let (time, busy) = alone(&mut machine.kernel, steps, machine.host.cores.at);
            Ok(vec![
                ("serialization time", "us", time),
                ("CPU time", "us", busy),
                ("CPU cycles", "cycles", machine.host.cores.cycles(busy / 1e6)),
            ])
        })?;
    }
    let time = "serialization time";
    for variant in [WALKING, AFFINITY, COPYING] {
        compare(benches, &mut rows, E, (CPU, variant), (time, "speed-up over CPU-only"), variant);
        compare(benches, &mut rows, E, (variant, CPU), (time, "normalised time"), variant);
        compare(benches, &mut rows, E, (variant, CPU), ("CPU cycles", "normalised CPU cycles"), variant);
    }
    for variant in [CPU, AFFINITY, COPYING] {
        compare(benches, &mut rows, E, (WALKING, variant), (time, "speed-up over ProtoACC-PCIe"), variant);
    }
    Ok(rows)
}
