//! The shipped program over a faulty kernel: its drivers (what stands between the machines and sockets, files, clocks) are held to their promises
//! while system calls come short, say EAGAIN, EINTR, EMFILE, are reset or fail, as a seed says (`crates/faults`).
//!
//! Polite clients, which have no faults, work with a server that has them, and check: every reply is the right one, in order, one for each
//! request; what was acknowledged can be read; nothing hangs; after the clients have left no descriptor stays. Faults that a driver must
//! absorb ([`absorbed`]) may not even close a connection.
//!
//! Beside each checker is a kernel that lies in a way that has the effect of a bug ([`faults::Lie`]), which some seed must find.
//!
//! A seed is not a run: the threads' order is the system's. What a failing run did is in what it prints. `MILLRACE_SEEDS=1000` tries so many
//! seeds, `MILLRACE_SEED=7` that one; nothing here waits for time to pass, and limits ([`PATIENCE`]) are reached by failures only.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../chained/mod.rs"]
mod chained;
mod chains;
#[allow(dead_code)] // Others call more of it.
#[path = "../one_node/grpc.rs"]
mod grpc;
mod inc;
mod node;
mod program;
mod proxy;
mod rec;
mod registry;
mod rpc;
mod talk;

use faults::{Kind, Lie, Rates};
use std::time::Duration;

/// Longer than anything takes that works.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What a driver must absorb without anybody noticing.
pub fn absorbed() -> Rates<'static> {
    &[
        (Kind::Short, 1500),
        (Kind::Again, 500),
        (Kind::Interrupted, 500),
        (Kind::NoDescriptors, 2000),
        (Kind::Aborted, 1000),
    ]
}

/// The same, and connections that are reset, so that clients have to come again.
pub fn rough() -> Rates<'static> {
    &[
        (Kind::Short, 1000),
        (Kind::Again, 300),
        (Kind::Interrupted, 300),
        (Kind::Reset, 60),
        (Kind::NoDescriptors, 2000),
        (Kind::Aborted, 1000),
    ]
}

/// What is tried: `MILLRACE_SEED`, or as many as `MILLRACE_SEEDS` says, or these few.
pub fn seeds(few: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    match (number("MILLRACE_SEED"), number("MILLRACE_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, many) => (1..=many.unwrap_or(few)).collect(),
    }
}

/// Holds for every seed.
pub fn for_seeds(few: u64, scenario: impl Fn(u64) -> Result<String, String>) {
    for seed in seeds(few) {
        match scenario(seed) {
            Ok(done) => println!("seed {seed}: {done}"),
            Err(why) => panic!("MILLRACE_SEED={seed}: {why}"),
        }
    }
}

/// Some seed finds the bug that this lie stands for.
pub fn found(lie: Lie, scenario: impl Fn(u64, Lie) -> Result<String, String>) {
    let why = (1..=20).find_map(|seed| scenario(seed, lie).err().map(|why| (seed, why)));
    let Some((seed, why)) = why else { panic!("{lie:?} is not found") };
    println!("{lie:?}: found by seed {seed}: {}", why.lines().next().unwrap_or_default());
}
