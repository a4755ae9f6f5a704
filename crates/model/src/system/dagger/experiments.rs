//! D-E1 (interfaces), D-E2 (beside other stacks), D-E3 (latency by load); D-E4 and D-E5 are in `scaling.rs`, D-E6 in `sizes.rs`.
//!
//! "Saturated" is a thread with as many calls under way as it may have; "4 Mrps" a client that calls evenly at that rate, as the authors' does,
//! or at random where a variant says so.

use super::echo::{Calls, Drive, Echo, echo};
use super::interface::Interface;
use super::machine::{Machine, Side};
use super::{PLATFORM, scaling, sizes};
use crate::experiment::{Experiment, Rows};
use crate::load::Seen;
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, Platforms, picos};
use base::Picos;

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment { id: "D-E1", title: "interfaces between core and NIC", run: &interfaces },
    Experiment {
        id: "D-E2",
        title: "round trip and one core's rate beside other stacks",
        run: &other_stacks,
    },
    Experiment { id: "D-E3", title: "latency by load of one core", run: &latency_by_load },
    Experiment { id: "D-E4", title: "calls by threads", run: &scaling::threads },
    Experiment { id: "D-E5", title: "raw reads of the interconnect by threads", run: &scaling::raw_reads },
    Experiment { id: "D-E6", title: "sizes of requests in microservices", run: &sizes::sizes },
];

/// Batches that are compared, beside those of the paper.
const BATCHES: [u64; 9] = [1, 2, 3, 4, 7, 8, 11, 16, 32];
/// The load at which the paper compares latencies.
const FIXED: f64 = 4e6;

/// Interfaces that are compared.
fn all_interfaces() -> Vec<Interface> {
    let mut all = vec![Interface::MMIO];
    for of in [Interface::doorbell, Interface::upi, Interface::upi_direct] {
        all.extend(BATCHES.map(of));
    }
    all
}

/// The published benchmark: a line there, a line back, nothing between.
pub(super) fn line_echo(platform: &Platform) -> Result<Calls, LoadError> {
    let (window, jitter) = (platform.count("client.window")?, platform.ratio("client.jitter")?);
    Ok(Calls { request: 64, reply: 64, handler: Picos::ZERO, window, jitter })
}

/// How long warm-up and account of a run are: until what all callers began at once has passed through a thread, twice; then for some thousand
/// calls, of all threads together when they do all they can.
fn spans(machine: &Machine, calls: &Calls, drive: Drive) -> (Picos, Picos) {
    let thread = machine.post(calls.request).plus(machine.close()).plus(machine.complete(calls.request));
    let pairs = machine.clients.len() as u64;
    match drive {
        Drive::Saturate => {
            let each = thread.plus(calls.handler).0;
            let count = if pairs == 1 { 12_000 } else { 24_000 };
            (Picos(each * calls.window * 2), Picos(each * count / pairs))
        }
        Drive::Paced(rate) | Drive::Random(rate) => {
            let span = picos(2500.0 / rate / pairs as f64);
            (Picos::from_micros(150), span.max(Picos::from_micros(200)))
        }
    }
}

/// Runs `pairs` of threads.
pub(super) fn run(
    platform: &Platform,
    interface: Interface,
    pairs: usize,
    calls: Calls,
    drive: Drive,
    seed: u64,
) -> Result<Echo, LoadError> {
    let machine = Machine::new(platform, interface, pairs, seed)?;
    // A batch that fills, one at the server, and those that travel: a larger batch needs more calls under way.
    let calls = Calls { window: calls.window + 4 * interface.batch, ..calls };
    let spans = spans(&machine, &calls, drive);
    Ok(echo(machine, calls, drive, seed, spans))
}

/// Mean and quantiles.
pub(super) fn latencies(rows: &mut Rows, at: (&'static str, &str, &str), seen: &Seen) {
    rows.add(at, "latency", "us", seen.mean() * 1e6);
    for (metric, of) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        rows.add(at, metric, "us", seen.quantile(of) * 1e6);
    }
}

fn interfaces(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = &platforms.named(PLATFORM)?;
    let calls = line_echo(platform)?;
    let mut rows = Rows::default();
    let rate_of =
        |interface| -> Result<Echo, LoadError> { run(platform, interface, 1, calls, Drive::Saturate, seed) };
    let bases = [
        ("throughput over MMIO", "p50 over MMIO", Interface::MMIO),
        ("throughput over doorbell B=1", "p50 over doorbell B=1", Interface::doorbell(1)),
        ("throughput over UPI B=1", "p50 over UPI B=1", Interface::upi(1)),
    ];
    let mut over = Vec::new();
    for (rate, median, interface) in bases {
        let paced = run(platform, interface, 1, calls, Drive::Paced(FIXED), seed)?;
        over.push((rate, rate_of(interface)?.seen.rate(), median, paced.seen.quantile(0.5)));
    }
    for interface in all_interfaces() {
        let variant = interface.to_string();
        let at = ("D-E1", &*variant, "saturated");
        let full = rate_of(interface)?;
        rows.add(at, "throughput", "Mrps", full.seen.rate() / 1e6);
        rows.add(at, "CPU time per RPC", "ns", full.client_threads / full.seen.rate() * 1e9);
        rows.add(at, "client threads busy", "threads", full.client_threads);
        rows.add(at, "server threads busy", "threads", full.server_threads);
        for (metric, rate, ..) in &over {
            rows.add(at, metric, "ratio", full.seen.rate() / rate);
        }
        bus(&mut rows, platform, interface)?;
        for load in [0.5e6, 1e6, 2e6, 3e6, FIXED] {
            let seen = run(platform, interface, 1, calls, Drive::Paced(load), seed)?.seen;
            let point = format!("{} Mrps", load / 1e6);
            let at = ("D-E1", &*variant, &*point);
            latencies(&mut rows, at, &seen);
            if load == FIXED {
                for (_, _, metric, median) in &over {
                    rows.add(at, metric, "ratio", seen.quantile(0.5) / median);
                }
            }
        }
    }
    Ok(rows)
}

/// What a call and its reply put on buses, each one's share of its batch.
fn bus(rows: &mut Rows, platform: &Platform, interface: Interface) -> Result<(), LoadError> {
    let mut machine = Machine::new(platform, interface, 1, 1)?;
    let cross = machine.cross(Side::Client, interface.batch, 64);
    let demand = machine.kernel.demand(cross);
    let variant = interface.to_string();
    for (metric, unit, at) in [
        ("PCIe packets to device per RPC", "packets", machine.pcie.to_device),
        ("PCIe packets to host per RPC", "packets", machine.pcie.to_host),
        ("UPI lines read per RPC", "lines", machine.endpoint.reads),
        ("UPI lines written per RPC", "lines", machine.endpoint.writes),
    ] {
        let units = demand.iter().find(|d| d.at == at).map_or(0, |d| d.units);
        let both_ways = 2.0 * units as f64 / interface.batch as f64;
        rows.add(("D-E1", &variant, "one RPC"), metric, unit, both_ways);
    }
    Ok(())
}

fn other_stacks(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = &platforms.named(PLATFORM)?;
    let calls = line_echo(platform)?;
    let mut rows = Rows::default();
    let tor = platform.span("network.tor")?.as_secs_f64();
    let median = run(platform, Interface::upi(1), 1, calls, Drive::Paced(FIXED), seed)?.seen.quantile(0.5);
    let rate = run(platform, Interface::upi(4), 1, calls, Drive::Saturate, seed)?.seen.rate();
    let ours = ("D-E2", "Dagger", "");
    rows.add(ours, "RTT", "us", (median + tor) * 1e6);
    rows.add(ours, "throughput", "Mrps", rate / 1e6);
    for (variant, rtt, their_rate, ratios) in [
        ("IX", "rivals.ix_rtt", Some("rivals.ix_rate"), ("throughput over IX", "RTT of IX over Dagger's")),
        (
            "FaSST",
            "rivals.fasst_rtt",
            Some("rivals.fasst_rate"),
            ("throughput over FaSST", "RTT of FaSST over Dagger's"),
        ),
        (
            "eRPC",
            "rivals.erpc_rtt",
            Some("rivals.erpc_rate"),
            ("throughput over eRPC", "RTT of eRPC over Dagger's"),
        ),
        ("NetDIMM", "rivals.netdimm_rtt", None, ("", "RTT of NetDIMM over Dagger's")),
    ] {
        let rtt = platform.value(rtt, Dimension::Time)?;
        rows.add(("D-E2", variant, ""), "RTT, as published", "us", rtt * 1e6);
        rows.add(ours, ratios.1, "ratio", rtt / (median + tor));
        if let Some(name) = their_rate {
            let their_rate = platform.value(name, Dimension::Frequency)?;
            rows.add(("D-E2", variant, ""), "throughput, as published", "Mrps", their_rate / 1e6);
            rows.add(ours, ratios.0, "ratio", rate / their_rate);
        }
    }
    Ok(rows)
}

/// Interfaces with what each can do, from the least batch up. At a load the first that has a twentieth to spare is chosen, as somebody
/// would who adjusts the batch to the load. The paper does so and names no rule; this one is ours.
struct Adjusted(Vec<(Interface, f64)>);

impl Adjusted {
    fn at(&self, load: f64) -> Interface {
        let found = self.0.iter().find(|(_, most)| load <= 0.95 * most).or(self.0.last());
        found.expect("there is a choice").0
    }

    fn most(&self) -> f64 {
        self.0.iter().map(|(_, most)| *most).fold(0.0, f64::max)
    }
}

fn latency_by_load(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = &platforms.named(PLATFORM)?;
    let calls = line_echo(platform)?;
    let mut rows = Rows::default();
    let adjusted = |choice: &[Interface]| -> Result<Adjusted, LoadError> {
        let of = |interface: &Interface| {
            let full = run(platform, *interface, 1, calls, Drive::Saturate, seed)?;
            Ok((*interface, full.seen.rate()))
        };
        Ok(Adjusted(choice.iter().map(of).collect::<Result<_, _>>()?))
    };
    let mut variants = vec![
        ("UPI dynamic".to_string(), adjusted(&[Interface::upi(1), Interface::upi(4)])?),
        ("doorbell dynamic".to_string(), adjusted(&BATCHES.map(Interface::doorbell))?),
    ];
    for interface in [
        Interface::upi(1),
        Interface::upi(4),
        Interface::upi_direct(1),
        Interface::upi_direct(4),
        Interface::MMIO,
        Interface::doorbell(1),
        Interface::doorbell(3),
        Interface::doorbell(7),
        Interface::doorbell(11),
    ] {
        variants.push((interface.to_string(), adjusted(&[interface])?));
    }
    for (variant, choice) in variants {
        rows.add(("D-E3", &variant, "saturation"), "throughput", "Mrps", choice.most() / 1e6);
        let loads = (1..).map(|step| f64::from(step) * 0.5e6);
        for load in loads.take_while(|load| *load <= choice.most()) {
            let point = format!("{} Mrps", load / 1e6);
            let at = ("D-E3", &*variant, &*point);
            let interface = choice.at(load);
            rows.add(at, "batch", "RPCs", interface.batch as f64);
            let paced = run(platform, interface, 1, calls, Drive::Paced(load), seed)?;
            latencies(&mut rows, at, &paced.seen);
            rows.add(at, "throughput", "Mrps", paced.seen.rate() / 1e6);
            let random = run(platform, interface, 1, calls, Drive::Random(load), seed)?;
            latencies(&mut rows, ("D-E3", &format!("{variant}, random calls"), &point), &random.seen);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::super::platform;
    use super::*;

    #[test]
    fn a_saturated_thread_does_what_its_work_takes() {
        let platform = platform();
        let calls = line_echo(&platform).expect("it is complete");
        for interface in [Interface::MMIO, Interface::doorbell(3), Interface::upi(4)] {
            let machine = Machine::new(&platform, interface, 1, 1).expect("it is complete");
            let each = machine.post(64).plus(machine.complete(64)).as_secs_f64()
                + machine.close().as_secs_f64() / interface.batch as f64;
            let ran = run(&platform, interface, 1, calls, Drive::Saturate, 1).expect("it is complete");
            assert!((ran.seen.rate() * each - 1.0).abs() < 0.01, "{interface}: {}", ran.seen.rate());
            assert!(ran.client_threads > 0.99, "{interface}: {ran:?}");
        }
    }

    #[test]
    fn calls_keep_their_pace_and_little_s_law() {
        let platform = platform();
        let calls = line_echo(&platform).expect("it is complete");
        let paced =
            run(&platform, Interface::upi(1), 1, calls, Drive::Paced(2e6), 1).expect("it is complete");
        assert!((paced.seen.rate() / 2e6 - 1.0).abs() < 0.01);
        let full = run(&platform, Interface::upi(1), 1, calls, Drive::Saturate, 1).expect("it is complete");
        let under_way = full.seen.rate() * full.seen.mean();
        assert!((under_way / (calls.window + 4) as f64 - 1.0).abs() < 0.02, "{under_way}");
    }
}
