//! P-E3: a gateway whose data lie in the right or in the wrong memory.
//!
//! L2/L3 switching and NAT look at headers on the host's cores; packets are decrypted or encrypted by the NIC's compute units.
//! Header, payload and result are each
//! placed at one side: what is placed at the wrong one crosses PCIe to be used and back.

use crate::experiment::Rows;
use crate::kernel::Step;
use crate::load::{Loop, closed};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, Platforms};
use crate::sim::Sim;
use crate::system::rpcacc::accelerator::{Accelerator, Placing};
use crate::system::rpcacc::image::Side;
use crate::system::rpcacc::shape::Shape;
use base::Picos;

/// Ethernet, IP and transport headers that the host's functions read and write.
const HEADER: u64 = 54;
/// Packets under way: enough for the line at the longest path.
const WINDOW: u64 = 256;

#[derive(Clone, Copy)]
struct Placement {
    header: Side,
    payload: Side,
    result: Side,
}

impl Placement {
    fn all() -> impl Iterator<Item = Placement> {
        const SIDES: [Side; 2] = [Side::Accelerator, Side::Host];
        let mut all = vec![];
        for header in [Side::Host, Side::Accelerator] {
            for payload in SIDES {
                all.extend(SIDES.map(|result| Placement { header, payload, result }));
            }
        }
        all.into_iter()
    }

    fn name(self) -> String {
        let side = |of| if of == Side::Host { "host" } else { "accelerator" };
        let Placement { header, payload, result } = self;
        format!("header {}, payload {}, result {}", side(header), side(payload), side(result))
    }
}

/// A packet from cable to cable.
fn forward(machine: &Accelerator, packet: u64, cycles: f64, placement: Placement) -> Vec<Step> {
    let host = &machine.host;
    let payload = packet.saturating_sub(HEADER).max(1);
    let header = Shape::flat("header", 0, &[HEADER]);
    let mut steps = vec![host.port.send(packet)];
    // Fields for the host go through the one-shot buffer, all in one write.
    let to_host = match (placement.header, placement.payload) {
        (Side::Host, Side::Host) => Some(Shape::flat("packet", 0, &[HEADER, payload])),
        (Side::Host, Side::Accelerator) => Some(header),
        (Side::Accelerator, Side::Host) => Some(Shape::flat("payload", 0, &[payload])),
        (Side::Accelerator, Side::Accelerator) => None,
    };
    steps.push(machine.lanes.enter());
    match &to_host {
        Some(shape) => {
            let inner = machine.deserialise(shape, Placing::OneShot);
            steps.extend_from_slice(&inner[1..inner.len() - 1]);
        }
        None => steps.push(machine.lanes.work(0.0, packet)),
    }
    steps.push(machine.lanes.leave());
    steps.extend(host.notified());
    if placement.header == Side::Accelerator {
        steps.extend(machine.move_to_host(HEADER));
    }
    steps.push(host.cores.work(cycles));
    if placement.payload == Side::Host {
        steps.extend(machine.move_to_device(payload));
    }
    steps.extend(machine.compute(payload));
    if placement.result == Side::Host {
        steps.extend(machine.move_to_host(payload));
    }
    let resident = if placement.result == Side::Accelerator { payload } else { 0 };
    let out = Shape::flat("packet", 0, &[HEADER, payload]);
    steps.extend(host.tell(0.0));
    steps.extend(machine.encode(&out, resident));
    steps.push(host.port.reply(packet));
    steps
}

fn rate(platform: &Platform, packet: u64, placement: Placement, seed: u64) -> Result<(f64, f64), LoadError> {
    let mut machine = Accelerator::new(platform, None, seed)?;
    let cycles = platform.value("service.switch", Dimension::Cycles)?;
    let steps = forward(&machine, packet, cycles, placement);
    let program = machine.kernel.program("forward", steps);
    let alone = machine.kernel.unloaded(program).as_secs_f64();
    let one = Loop { mix: program.into(), window: WINDOW, arguments: 1 };
    let (warm_up, span) = (Picos::from_micros(200), Picos::from_micros(600));
    Ok((closed(&Sim::new(machine.kernel), seed, &[one], warm_up, span)[0].rate(), alone))
}

/// Throughput of every placement by packet.
pub(super) fn placements(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    const E: &str = "P-E3";
    let platform = platforms.named("pcie-rpc-accelerator")?;
    let default = platform.bytes("service.packet")?;
    let mut rows = Rows::default();
    for packet in [64, 128, 256, 512, 1024, 1500, 4096, 9000] {
        let mut seen = vec![];
        for placement in Placement::all() {
            seen.push((placement.name(), rate(&platform, packet, placement, seed)?));
        }
        let rates = || seen.iter().map(|(_, (rate, _))| *rate);
        let (best, worst) = (rates().fold(0.0, f64::max), rates().fold(f64::MAX, f64::min));
        let mut points = vec![format!("{packet} B")];
        points.extend((packet == default).then(String::new));
        for point in &points {
            for (name, (rate, alone)) in &seen {
                rows.add((E, name, point), "throughput", "Gbps", rate * packet as f64 * 8.0 / 1e9);
                rows.add((E, name, point), "packets", "Mpps", rate / 1e6);
                rows.add((E, name, point), "latency", "us", alone * 1e6);
                rows.add((E, name, point), "throughput of the best over it", "ratio", best / rate);
            }
            rows.add((E, "best", point), "throughput", "Gbps", best * packet as f64 * 8.0 / 1e9);
            rows.add((E, "worst", point), "throughput", "Gbps", worst * packet as f64 * 8.0 / 1e9);
            rows.add((E, "best", point), "speed-up over worst", "ratio", best / worst);
        }
    }
    Ok(rows)
}
