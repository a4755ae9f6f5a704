//! F1 (latency and throughput by path), F3 (address range), F4 (packets on PCIe), F8 (both responders at once).

use super::PLATFORM;
use super::machine::{Card, Machine, Side};
use super::verbs::Verb;
use crate::experiment::{Experiment, Rows};
use crate::load::{Loop, closed};
use crate::platform::{LoadError, Platform};
use crate::sim::Sim;
use base::Picos;

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment { id: "F1", title: "latency and throughput of READ and WRITE by path", run: by_path },
    Experiment { id: "F3", title: "requests to a small range of addresses", run: address_range },
    Experiment { id: "F4", title: "packets on PCIe by payload", run: pcie_packets },
    Experiment { id: "F8", title: "one responder after the other, and both at once", run: both_responders },
];

const PATHS: [(&str, Card, Side); 3] = [
    ("RNIC ①", Card::Rnic, Side::Host),
    ("SNIC ①", Card::Snic, Side::Host),
    ("SNIC ②", Card::Snic, Side::Soc),
];
const PAYLOADS: [u64; 8] = [0, 16, 64, 256, 512, 1024, 4096, 16_384];
/// Requester machines at the peak.
const CLIENTS: usize = 11;
/// Addresses are random in 10 GB.
const FAR: u64 = 10 << 30;

fn platform() -> Result<Platform, LoadError> {
    Platform::parse(PLATFORM, "bluefield2-ib.toml")
}

fn point(verb: Verb, bytes: u64) -> String {
    format!("{} {bytes} B", verb.name())
}

/// Operations per second of so many clients at their windows.
fn peak(
    platform: &Platform,
    (card, side): (Card, Side),
    verb: Verb,
    bytes: u64,
    range: u64,
    seed: u64,
) -> Result<f64, LoadError> {
    let mut machine = Machine::new(platform, card, CLIENTS, seed)?;
    let window = platform.count("client.window")?;
    let arguments = machine.banks_of(range);
    let loops: Vec<_> = (0..CLIENTS)
        .map(|client| Loop { program: machine.one_sided(client, verb, side, bytes), window, arguments })
        .collect();
    let sim = Sim::new(machine.kernel);
    let (warm_up, span) = (Picos::from_micros(100), Picos::from_micros(200));
    Ok(closed(&sim, seed, &loops, warm_up, span).iter().map(crate::load::Seen::rate).sum())
}

fn by_path(seed: u64) -> Result<Rows, LoadError> {
    let platform = platform()?;
    let mut rows = Rows::default();
    for (variant, card, side) in PATHS {
        for verb in [Verb::Read, Verb::Write] {
            for bytes in PAYLOADS {
                let mut machine = Machine::new(&platform, card, 1, seed)?;
                let program = machine.one_sided(0, verb, side, bytes);
                let at = ("F1", variant, &*point(verb, bytes));
                rows.add(at, "latency", "us", machine.kernel.unloaded(program).as_secs_f64() * 1e6);
                let rate = peak(&platform, (card, side), verb, bytes, FAR, seed)?;
                rows.add(at, "throughput", "Mops", rate / 1e6);
                rows.add(at, "bandwidth", "Gbps", rate * bytes as f64 * 8.0 / 1e9);
            }
        }
    }
    Ok(rows)
}

fn address_range(seed: u64) -> Result<Rows, LoadError> {
    let platform = platform()?;
    let mut rows = Rows::default();
    for (variant, card, side) in PATHS {
        for verb in [Verb::Read, Verb::Write] {
            for range in [1536, 6 << 10, 12 << 10, 24 << 10, 48 << 10, 1 << 20] {
                let rate = peak(&platform, (card, side), verb, 64, range, seed)?;
                rows.add(
                    ("F3", variant, &format!("{} in {range} B", verb.name())),
                    "throughput",
                    "Mops",
                    rate / 1e6,
                );
            }
        }
    }
    Ok(rows)
}

fn pcie_packets(seed: u64) -> Result<Rows, LoadError> {
    let platform = platform()?;
    let mut rows = Rows::default();
    for (variant, card, side) in PATHS {
        for verb in [Verb::Read, Verb::Write] {
            for bytes in [64, 512, 4096, 65_536, 1 << 20] {
                let mut machine = Machine::new(&platform, card, 1, seed)?;
                let program = machine.one_sided(0, verb, side, bytes);
                let links = machine.links();
                let demand = machine.kernel.demand(program);
                for (name, link) in ["PCIe1 packets", "PCIe0 packets"].into_iter().zip(links) {
                    // Data go one way: the other carries requests, which the paper's counters omit.
                    let data = if verb == Verb::Read { link.to_device } else { link.to_host };
                    let packets = demand.iter().find(|d| d.at == data).map_or(0, |d| d.units);
                    rows.add(("F4", variant, &point(verb, bytes)), name, "packets", packets as f64);
                }
            }
        }
    }
    Ok(rows)
}

fn both_responders(seed: u64) -> Result<Rows, LoadError> {
    let platform = platform()?;
    let mut rows = Rows::default();
    let window = platform.count("client.window")?;
    for (variant, sides) in
        [("①", [Side::Host; 2]), ("②", [Side::Soc; 2]), ("① + ②", [Side::Host, Side::Soc])]
    {
        let mut machine = Machine::new(&platform, Card::Snic, CLIENTS, seed)?;
        let loops: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let program = machine.one_sided(client, Verb::Write, sides[client % 2], 0);
                Loop { program, window, arguments: 16 }
            })
            .collect();
        let sim = Sim::new(machine.kernel);
        let seen = closed(&sim, seed, &loops, Picos::from_micros(100), Picos::from_micros(200));
        let rate: f64 = seen.iter().map(crate::load::Seen::rate).sum();
        rows.add(("F8", variant, "0 B"), "throughput", "Mops", rate / 1e6);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_those_of_the_papers_table() {
        let rows = pcie_packets(1).expect("the platform is complete");
        let of = |variant: &str, point: &str, metric: &str| {
            rows.find("F4", variant, point, metric).unwrap_or_else(|| panic!("{variant} {point}")).value
        };
        for (bytes, host, soc) in [(64, 1.0, 1.0), (4096, 8.0, 32.0), (1 << 20, 2048.0, 8192.0)] {
            for verb in [Verb::Read, Verb::Write] {
                let at = point(verb, bytes);
                assert_eq!(
                    (of("SNIC ①", &at, "PCIe1 packets"), of("SNIC ①", &at, "PCIe0 packets")),
                    (host, host)
                );
                assert_eq!(
                    (of("SNIC ②", &at, "PCIe1 packets"), of("SNIC ②", &at, "PCIe0 packets")),
                    (soc, 0.0)
                );
            }
        }
    }
}
