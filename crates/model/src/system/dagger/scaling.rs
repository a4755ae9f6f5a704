//! D-E4 (calls by threads) and D-E5 (raw reads of the coherent interconnect by threads).
//!
//! `n threads` are n that call and n that serve, on one processor: what it does altogether is twice the calls.
//! Raw reads: a thread gives up lines as fast as it can and the FPGA reads them; there is no request in them. The paper says no more
//! about its benchmark than that; that a thread's rate is that of handing lines over is our reading.

use super::PLATFORM;
use super::echo::{Drive, Echo};
use super::experiments::{latencies, line_echo, run};
use super::interface::Interface;
use super::machine::Machine;
use crate::component::LINE;
use crate::experiment::Rows;
use crate::kernel::{Service, Step};
use crate::load::{Loop, Seen, closed};
use crate::platform::{LoadError, Platform, Platforms};
use crate::sim::Sim;
use base::Picos;

const MOST_THREADS: usize = 12;

const INTERFACES: [Interface; 7] = [
    Interface::upi(1),
    Interface::upi(4),
    Interface::upi_direct(4),
    Interface::MMIO,
    Interface::doorbell(1),
    Interface::doorbell(3),
    Interface::doorbell(11),
];

pub(super) fn threads(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = &platforms.named(PLATFORM)?;
    let calls = line_echo(platform)?;
    let mut rows = Rows::default();
    for interface in INTERFACES {
        let variant = interface.to_string();
        let alone = run(platform, interface, 1, calls, Drive::Saturate, seed)?.seen.rate();
        let mut rates = Vec::new();
        for n in 1..=MOST_THREADS {
            let full = run(platform, interface, n, calls, Drive::Saturate, seed)?;
            let point = format!("{n} threads");
            let at = ("D-E4", &*variant, &*point);
            by_threads(&mut rows, at, platform, &full, n as f64, alone)?;
            rates.push(full.seen.rate());
            let half = Drive::Paced(full.seen.rate() / n as f64 / 2.0);
            let half = run(platform, interface, n, calls, half, seed)?;
            latencies(&mut rows, ("D-E4", &variant, &format!("{n} threads, half the load")), &half.seen);
        }
        saturation(&mut rows, ("D-E4", &variant), &rates);
    }
    raw(&mut rows, "D-E4", platform, seed)?;
    Ok(rows)
}

/// The least number of threads that reaches the most, but for a fiftieth.
fn enough(rates: &[f64], most: f64) -> f64 {
    (rates.iter().take_while(|rate| **rate < 0.98 * most).count() + 1) as f64
}

/// The most that any number of threads reaches.
fn saturation(rows: &mut Rows, (experiment, variant): (&'static str, &str), rates: &[f64]) {
    let most = rates.iter().copied().fold(0.0, f64::max);
    let at = (experiment, variant, "saturation");
    rows.add(at, "throughput", "Mrps", most / 1e6);
    rows.add(at, "processor-level throughput", "Mrps", 2.0 * most / 1e6);
    rows.add(at, "threads", "threads", enough(rates, most));
}

/// Rates, what of the machine they take, and how far from linear they are.
fn by_threads(
    rows: &mut Rows,
    at: (&'static str, &str, &str),
    platform: &Platform,
    full: &Echo,
    n: f64,
    alone: f64,
) -> Result<(), LoadError> {
    let rate = full.seen.rate();
    rows.add(at, "throughput", "Mrps", rate / 1e6);
    rows.add(at, "processor-level throughput", "Mrps", 2.0 * rate / 1e6);
    rows.add(at, "throughput per thread", "Mrps", rate / n / 1e6);
    let cores = (n / platform.count("host.threads_per_core")? as f64).ceil();
    rows.add(at, "client cores", "cores", cores);
    rows.add(at, "throughput per core", "Mrps", rate / cores / 1e6);
    rows.add(at, "linear throughput", "Mrps", alone * n / 1e6);
    rows.add(at, "share of linear", "ratio", rate / n / alone);
    rows.add(at, "client threads busy", "threads", full.client_threads);
    rows.add(at, "server threads busy", "threads", full.server_threads);
    // Payload one way, as the paper counts it.
    let bandwidth = 2.0 * rate * LINE as f64;
    rows.add(at, "bandwidth", "GB/s", bandwidth / 1e9);
    rows.add(at, "UPI head-room", "ratio", platform.bandwidth("upi.bandwidth")? / 8.0 / bandwidth);
    for (metric, busy) in [
        ("utilisation of UPI endpoint", full.reads.busy),
        ("utilisation of UPI endpoint, writes", full.writes.busy),
        ("utilisation of UPI link", full.link.busy),
        ("utilisation of NIC pipeline", full.pipeline.busy),
        ("utilisation of PCIe to host", full.pcie_to_host.busy),
        ("utilisation of PCIe to device", full.pcie_to_device.busy),
    ] {
        rows.add(at, metric, "ratio", busy);
    }
    Ok(())
}

pub(super) fn raw_reads(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = &platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    raw(&mut rows, "D-E5", platform, seed)?;
    Ok(rows)
}

fn raw(rows: &mut Rows, experiment: &'static str, platform: &Platform, seed: u64) -> Result<(), LoadError> {
    let mut rates = Vec::new();
    for n in 1..=MOST_THREADS {
        let mut machine = Machine::new(platform, Interface::upi(1), n, seed)?;
        let hand_over = Service::Fixed(machine.hand_over());
        let reads = machine.endpoint.read(1);
        let threads = machine.clients.clone();
        let loops = threads.iter().map(|at| {
            let give = Step::Use { at: *at, service: hand_over, units: 1, after: Picos::ZERO };
            let program = machine.kernel.program("raw read", [give, reads[0], reads[1]]);
            Loop { mix: program.into(), window: 64, arguments: 1 }
        });
        let loops: Vec<_> = loops.collect();
        let sim = Sim::new(machine.kernel);
        let seen = closed(&sim, seed, &loops, Picos::from_micros(50), Picos::from_micros(200));
        let rate: f64 = seen.iter().map(Seen::rate).sum();
        rates.push(rate);
        let point = format!("{n} threads");
        let at = (experiment, "raw reads", &*point);
        rows.add(at, "throughput", "Mrps", rate / 1e6);
        rows.add(at, "throughput per thread", "Mrps", rate / n as f64 / 1e6);
        rows.add(at, "bandwidth", "GB/s", rate * LINE as f64 / 1e9);
    }
    let most = rates.iter().copied().fold(0.0, f64::max);
    rows.add((experiment, "raw reads", "saturation"), "throughput", "Mrps", most / 1e6);
    rows.add((experiment, "raw reads", "saturation"), "threads", "threads", enough(&rates, most));
    Ok(())
}
