//! Every balancer and provisioning under skewed service times: which wins when.
//!
//! `cargo bench -p millrace-fabric --bench balance [-- [cost] [virtual] [real] [--quick] [--requests N] [--svg FILE]]`; without a
//! part's name, all parts.
//!
//! *virtual*: a million requests per run (or N) in virtual time through the balancers and provisionings as they are; the same figures in
//! every run. *real*: threads whose handlers sleep, to see that the order is the same. *cost*: what a provisioning costs.

mod cost;
mod mix;
mod plot;
mod real;
mod simulated;
mod summary;

use mix::{Arrivals, Senders, Times};
use plot::{Line, Panel};
use simulated::Setup;
use summary::{Summary, micros};

const WORKERS: usize = 8;
const SEED: u64 = 42;
const LOADS: [f64; 5] = [0.3, 0.5, 0.7, 0.8, 0.9];
/// Mean service time in virtual time: 10 µs.
const MEAN_NS: f64 = 10_000.0;

const MIXES: [(&str, Times, Senders); 3] = [
    ("0.5 % take 100 × as long", Times::RareLong, Senders::Even),
    ("10 % take 10 × as long", Times::Bimodal, Senders::Even),
    ("exponential", Times::Exponential, Senders::Even),
];
const SENDERS: [(&str, Times, Senders); 2] = [
    ("exponential, connections by Zipf 0.99", Times::Exponential, Senders::Skewed),
    (
        "exponential, a fifth in bursts of 200 from one connection (the others' latency)",
        Times::Exponential,
        Senders::Flood,
    ),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let all = !["cost", "virtual", "real"].into_iter().any(has);
    let quick = has("--quick");
    if all || has("cost") {
        cost::report(if quick { 10_000 } else { 200_000 });
    }
    let value = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    if all || has("virtual") {
        let count = value("--requests").map(|count| count.parse().expect("--requests takes a number"));
        let panels = in_virtual_time(count.unwrap_or(if quick { 50_000 } else { 1_000_000 }));
        if let Some(file) = value("--svg") {
            let caption =
                "8 workers, 10 µs mean service time, Poisson arrivals, virtual time; keys by Zipf 0.99";
            std::fs::write(file, plot::svg(&panels, caption)).expect("the plot is written");
        }
    }
    if all || has("real") {
        for_real(if quick { 500 } else { 2_000 });
    }
}

/// The table, and the plot's lines.
fn in_virtual_time(count: usize) -> Vec<Panel> {
    println!(
        "\nVirtual time: {WORKERS} workers, mean service 10 µs, {count} requests, seed {SEED}; p50 / p99 / p99.9 in µs"
    );
    println!("(* more than 1 % found no room at first: some worker gets more than it can do)");
    let mut panels = Vec::new();
    for (title, times, senders) in MIXES {
        let lines = table(title, times, senders, &LOADS, count);
        panels.push(Panel { title, lines });
    }
    for (title, times, senders) in SENDERS {
        table(title, times, senders, &[0.5, 0.8], count);
    }
    panels
}

/// Prints one mix; the lines of setups that are plotted: per core, and the queue.
fn table(title: &str, times: Times, senders: Senders, loads: &[f64], count: usize) -> Vec<Line> {
    print!("\n{title}\n{:<32}", "");
    loads.iter().for_each(|load| print!("{:>24}", format!("load {load}")));
    println!();
    let mut lines = Vec::new();
    for setup in Setup::all() {
        print!("{:<32}", setup.name());
        let mut points = Vec::new();
        for &load in loads {
            let arrivals = Arrivals::new(times, senders, MEAN_NS, load, WORKERS, SEED);
            let summary = simulated::run(setup, WORKERS, arrivals, senders, count);
            print!("{:>24}", cell(&summary, 1));
            if !summary.is_overloaded() {
                points.push((load, summary.p99_ns as f64));
            }
        }
        println!();
        if setup.provisioning != fabric::workers::Provisioning::PerConnection {
            lines.push(Line { name: setup.name().replace(" per-core", ""), points });
        }
    }
    lines
}

fn cell(summary: &Summary, unit: u64) -> String {
    let [p50, p99, p999] = [summary.p50_ns, summary.p99_ns, summary.p999_ns].map(|ns| micros(ns / unit));
    let mark = if summary.is_overloaded() { "*" } else { "" };
    format!("{p50}/{p99}/{p999}{mark}")
}

/// Each setup for real and, with as many requests, in virtual time.
fn for_real(count: usize) {
    const MEAN_REAL_NS: f64 = 10_000_000.0;
    const LOAD: f64 = 0.7;
    let (title, times, senders) = MIXES[0];
    println!(
        "\nReal threads, handlers that sleep, mean 10 ms, load {LOAD}, {count} requests, {title}: p50/p99/p99.9 in ms"
    );
    println!("{:<32}{:>24}{:>24}", "", "real", "virtual, as many");
    for setup in Setup::all() {
        let arrivals = || Arrivals::new(times, senders, MEAN_REAL_NS, LOAD, WORKERS, SEED);
        let real = real::run(setup, WORKERS, arrivals(), count);
        let simulated = simulated::run(setup, WORKERS, arrivals(), senders, count);
        println!("{:<32}{:>24}{:>24}", setup.name(), cell(&real, 1000), cell(&simulated, 1000));
    }
}
