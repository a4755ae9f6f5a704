//! P-E7, P-E8, P-E9: the same two ideas on a SmartNIC's cores, over a coherent link, and beside an accelerator on the chip.

use super::{alone, by_message, by_traffic, compare, drawn};
use crate::experiment::Rows;
use crate::kernel::Step;
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, Platforms, picos, transfer};
use crate::system::rpcacc::accelerator::{Accelerator, Placing};
use crate::system::rpcacc::onchip::OnChip;
use crate::system::rpcacc::smartnic::{Serialising, SmartNic};
use crate::system::rpcacc::traffic::Bench;
use base::Picos;

const SER: &str = "serialization time";
const DES: &str = "deserialization time";

/// BlueField-3, and the accelerator beside it.
pub(super) fn bluefield(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E7";
    let benches = &drawn(platforms)?;
    let (smart, pcie) = (platforms.named("bluefield3")?, platforms.named("pcie-rpc-accelerator")?);
    let mut rows = Rows::default();
    let ways = [
        ("BF3", Serialising::Walking),
        ("BF3-MemoryAffinity", Serialising::Presented),
        ("BF3-DSA", Serialising::PresentedWithCopies),
    ];
    for (variant, how) in ways {
        by_message(benches, &mut rows, (E, variant), |_, shape| {
            let mut machine = SmartNic::new(&smart, None, seed)?;
            let steps = machine.send(shape, how);
            let (time, arm) = alone(&mut machine.kernel, steps, machine.cores.at);
            Ok(vec![(SER, "us", time), ("time of the SmartNIC's cores", "us", arm)])
        })?;
    }
    for (variant, one_shot) in [("BF3", false), ("BF3-Oneshot", true)] {
        by_message(benches, &mut rows, (E, variant), |_, shape| {
            let mut machine = SmartNic::new(&smart, None, seed)?;
            let steps = machine.receive(shape, one_shot);
            Ok(vec![(DES, "us", alone(&mut machine.kernel, steps, machine.cores.at).0)])
        })?;
    }
    by_message(benches, &mut rows, (E, "RPCAcc"), |_, shape| {
        let mut machine = Accelerator::new(&pcie, None, seed)?;
        let (send, receive) = (machine.send_presented(shape, true), machine.receive(shape, Placing::OneShot));
        let cores = machine.host.cores.at;
        Ok(vec![
            (SER, "us", alone(&mut machine.kernel, send, cores).0),
            (DES, "us", alone(&mut machine.kernel, receive, cores).0),
        ])
    })?;
    for variant in ["BF3-MemoryAffinity", "BF3-DSA", "RPCAcc"] {
        compare(benches, &mut rows, E, (variant, "BF3"), (SER, "normalised serialization time"), variant);
        compare(benches, &mut rows, E, ("BF3", variant), (SER, "serialization speed-up over BF3"), variant);
    }
    for rival in [
        ("BF3-MemoryAffinity", "serialization speed-up over BF3-MemoryAffinity"),
        ("BF3-DSA", "serialization speed-up over BF3-DSA"),
    ] {
        compare(benches, &mut rows, E, (rival.0, "RPCAcc"), (SER, rival.1), "RPCAcc");
    }
    for variant in ["BF3-Oneshot", "RPCAcc"] {
        compare(benches, &mut rows, E, ("BF3", variant), (DES, "deserialization speed-up over BF3"), variant);
    }
    compare(
        benches,
        &mut rows,
        E,
        ("BF3-Oneshot", "RPCAcc"),
        (DES, "deserialization speed-up over BF3-Oneshot"),
        "RPCAcc",
    );
    Ok(rows)
}

/// A coherent link whose writes are lines, so many under way.
struct Coherent {
    latency: Picos,
    bits: f64,
    line: u64,
    window: usize,
}

impl Coherent {
    fn load(platform: &Platform) -> Result<Coherent, LoadError> {
        Ok(Coherent {
            latency: platform.span("upi.latency")?,
            bits: platform.bandwidth("upi.bandwidth")?,
            line: platform.bytes("upi.line")?,
            window: platform.count("upi.window")? as usize,
        })
    }

    /// When the last of these writes is there: each begins `before` after the one before it, and its lines when the window has a place.
    fn last(&self, writes: &[(Picos, u64)]) -> Picos {
        let round_trip = Picos(self.latency.0 * 2);
        let mut sent: Vec<Picos> = vec![];
        let mut now = Picos::ZERO;
        for (before, bytes) in writes {
            now = now.plus(*before);
            for _ in 0..bytes.div_ceil(self.line) {
                let place =
                    sent.len().checked_sub(self.window).map_or(Picos::ZERO, |i| sent[i].plus(round_trip));
                now = now.max(place).plus(transfer(self.line, self.bits));
                sent.push(now);
            }
        }
        now.plus(self.latency)
    }

    /// One transfer that keeps the link full.
    fn stream(&self, bytes: u64) -> Picos {
        transfer(bytes, self.bits)
    }
}

/// The simulated Dagger with either deserialiser: a message alone, at the simulation's clock.
pub(super) fn dagger(platforms: &Platforms, _: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E8";
    let platform = platforms.named("pcie-rpc-accelerator")?;
    let benches = &drawn(platforms)?;
    let link = Coherent::load(&platform)?;
    let hertz = platform.value("upi.clock", Dimension::Frequency)?;
    let number = |name: &str| platform.value(&format!("accelerator.{name}"), Dimension::Cycles);
    let (field, message) = (number("field")?, number("message")?);
    let (width, buffer) = (platform.bytes("accelerator.width")?, platform.bytes("accelerator.buffer")?);
    let cycles = |count: f64| picos(count / hertz);
    let mut rows = Rows::default();
    by_message(benches, &mut rows, (E, "Dagger-ProtoACC"), |_, shape| {
        let mut writes: Vec<_> = shape.writes().iter().map(|bytes| (cycles(field), *bytes)).collect();
        writes[0].0 = cycles(field + message);
        Ok(vec![
            (DES, "us", link.last(&writes).as_secs_f64() * 1e6),
            (
                "link transactions",
                "count",
                writes.iter().map(|(_, bytes)| bytes.div_ceil(link.line)).sum::<u64>() as f64,
            ),
        ])
    })?;
    by_message(benches, &mut rows, (E, "Dagger-RPCAcc"), |_, shape| {
        let parse = message + shape.writes().len() as f64 * field + shape.wire().div_ceil(width) as f64;
        let time = cycles(parse).plus(link.stream(shape.memory())).plus(link.latency);
        Ok(vec![
            (DES, "us", time.as_secs_f64() * 1e6),
            ("link transactions", "count", shape.memory().div_ceil(buffer) as f64),
        ])
    })?;
    let rpcacc = "Dagger-RPCAcc";
    compare(
        benches,
        &mut rows,
        E,
        ("Dagger-ProtoACC", rpcacc),
        (DES, "speed-up over Dagger-ProtoACC"),
        rpcacc,
    );
    compare(benches, &mut rows, E, (rpcacc, "Dagger-ProtoACC"), (DES, "normalised time"), rpcacc);
    Ok(rows)
}

/// Hardware's part of sending and receiving, beside what a core does to begin it.
pub(super) fn on_chip(benches: &[Bench], platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E9";
    const CLOCKS: [(&str, f64); 2] = [("250 MHz", 0.25), ("2 GHz", 2.0)];
    let (pcie, chip) = (platforms.named("pcie-rpc-accelerator")?, platforms.named("onchip-rpc-accelerator")?);
    let mut rows = Rows::default();
    let both = |(send, core): (f64, f64), receive: f64| {
        vec![
            ("TX time", "us", send),
            ("RX time", "us", receive),
            ("RPC layer time", "us", send + receive),
            ("TX CPU time", "us", core),
        ]
    };
    // Changed platforms remember nothing of what is read: ask the unchanged one once.
    OnChip::new(&chip, None, seed)?;
    for (clock, value) in CLOCKS {
        // The clock's unit is the platform's: MHz here, GHz there.
        let platform = pcie.with("accelerator.clock", value * 1e3);
        for (name, walking) in [("RPCAcc", false), ("ProtoACC-PCIe", true)] {
            by_traffic(benches, &mut rows, (E, &format!("{name} {clock}")), |_, of| {
                let mut machine = Accelerator::new(&platform, None, seed)?;
                let (send, placing) = if walking {
                    (machine.send_walking(of), Placing::FieldByField)
                } else {
                    (machine.send_presented(of, true), Placing::OneShot)
                };
                let mut receive = machine.deserialise(of, placing);
                receive.push(Step::Wait(machine.host.dma.one_way()));
                let cores = machine.host.cores.at;
                let k = &mut machine.kernel;
                Ok(both(alone(k, send, cores), alone(k, receive, cores).0))
            })?;
        }
        let platform = chip.with("accelerator.clock", value);
        by_traffic(benches, &mut rows, (E, &format!("ProtoACC-OnChip {clock}")), |_, of| {
            let mut machine = OnChip::new(&platform, None, seed)?;
            let mut send = machine.serialise(of);
            send.extend(machine.depart(of));
            let mut receive = machine.arrive(of).to_vec();
            receive.extend(machine.deserialise(of));
            let cores = machine.host.cores.at;
            let k = &mut machine.kernel;
            Ok(both(alone(k, send, cores), alone(k, receive, cores).0))
        })?;
    }
    by_traffic(benches, &mut rows, (E, "CPU-only"), |_, of| {
        let mut machine = Accelerator::new(&pcie, None, seed)?;
        let (send, receive) = (machine.host.send(of.shape()), machine.host.receive(of.shape()));
        let cores = machine.host.cores.at;
        let k = &mut machine.kernel;
        Ok(both(alone(k, send, cores), alone(k, receive, cores).0))
    })?;
    ratios(benches, &mut rows, E, &CLOCKS.map(|(name, _)| name));
    Ok(rows)
}

/// Each time over the on-chip rival's of the same clock, and the other rivals' over ours.
fn ratios(benches: &[Bench], rows: &mut Rows, experiment: &'static str, clocks: &[&str]) {
    let over_chip = [
        ("TX time", "TX time over OnChip"),
        ("RX time", "RX time over OnChip"),
        ("RPC layer time", "RPC layer time over OnChip"),
    ];
    let speed_ups =
        [("TX time", "TX speed-up"), ("RX time", "RX speed-up"), ("RPC layer time", "RPC layer speed-up")];
    for clock in clocks {
        let (ours, chip) = (format!("RPCAcc {clock}"), format!("ProtoACC-OnChip {clock}"));
        for metrics in over_chip {
            compare(benches, rows, experiment, (&ours, &chip), metrics, &ours);
        }
        for rival in ["ProtoACC-PCIe 250 MHz", "ProtoACC-OnChip 250 MHz", "ProtoACC-OnChip 2 GHz", "CPU-only"]
        {
            for metrics in speed_ups {
                compare(benches, rows, experiment, (rival, &ours), metrics, &format!("{ours} over {rival}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_window_waits_for_its_first_write() {
        let link = Coherent { latency: Picos::from_nanos(400), bits: 64.0 * 8e9, line: 64, window: 2 };
        let line = Picos::from_nanos(1);
        assert_eq!(link.last(&[(Picos::ZERO, 8)]), line.plus(link.latency));
        // The third waits until the first is acknowledged, 800 ns after it was sent at 1 ns.
        assert_eq!(link.last(&[(Picos::ZERO, 8); 3]), Picos::from_nanos(801 + 1 + 400));
        assert_eq!(link.last(&[(Picos::ZERO, 192)]), link.last(&[(Picos::ZERO, 8); 3]));
        assert!(link.stream(6400) < link.last(&[(Picos::ZERO, 6400)]));
    }
}
