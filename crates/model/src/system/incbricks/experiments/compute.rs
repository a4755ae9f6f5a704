//! I-E5: conditional put and increment, at the client, the server, and in boxes (Fig. 12). Keys and operands are uniform; every fourth key is at its client's
//! ToR.
//!
//! `IncBricks` has the keys that are computed on in the boxes of the clients' ToRs, `IncBricks, n % held` that share of them. The paper's keys are "uniform
//! random" and its boxes hold 4096; how many keys there were it does not say, and its text has computations answered by boxes.

use super::PLATFORM;
use crate::experiment::Rows;
use crate::platform::{LoadError, Platform, Platforms};
use crate::system::incbricks::copies::{Copies, Entries, Traffic};
use crate::system::incbricks::rack::{Deployment, Rack, TORS};
use crate::system::incbricks::run::{Operations, Outcome, Pace, run as run_load};
use crate::system::incbricks::world::Caching;
use base::Picos;
use base::zipf::Zipf;

const ID: &str = "I-E5";
/// Operations under way, of so many clients: 12 are what the published rates and latencies come to.
const LOADS: [(usize, u64); 7] = [(1, 1), (4, 1), (8, 1), (12, 1), (20, 1), (20, 4), (20, 16)];
const SPAN: Picos = Picos::from_micros(10_000);
/// Entries that are enough for all of them.
const KEYS: u64 = 4096;

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    for load in LOADS {
        let point = format!("{} outstanding", load.0 as u64 * load.1);
        let at = |operations, caching, held| one(&platform, (operations, caching), held, load, seed);
        let places = [
            ("client-side", at(Operations::ComputeAtClient, Caching::None, 0)?),
            ("server-side", at(Operations::Compute, Caching::None, 0)?),
            ("IncBricks", at(Operations::Compute, Caching::Boxes, KEYS)?),
        ];
        // Both are a read, an operation in registers, and a write of eight bytes: the same to the machine.
        for primitive in ["conditional put", "increment"] {
            let rate = |i: usize| places[i].1.rate();
            for (place, outcome) in &places {
                let variant = format!("{primitive}, {place}");
                let at = (ID, &*variant, &*point);
                add(&mut rows, at, outcome);
                rows.add(at, "speed-up over client-side", "ratio", outcome.rate() / rate(0));
                rows.add(at, "speed-up over server-side", "ratio", outcome.rate() / rate(1));
                let mean = outcome.reads.mean();
                rows.add(at, "latency over client-side", "ratio", mean / places[0].1.reads.mean());
                rows.add(at, "latency over server-side", "ratio", mean / places[1].1.reads.mean());
            }
        }
    }
    for percent in [0, 25, 50, 60, 75, 100] {
        let held = KEYS * percent / 100;
        let outcome = one(&platform, (Operations::Compute, Caching::Boxes), held, (12, 1), seed)?;
        let variant = format!("conditional put, IncBricks, {percent} % held");
        add(&mut rows, (ID, &variant, "12 outstanding"), &outcome);
    }
    Ok(rows)
}

fn one(
    platform: &Platform,
    (operations, caching): (Operations, Caching),
    held: u64,
    (clients, window): (usize, u64),
    seed: u64,
) -> Result<Outcome, LoadError> {
    let rack = Rack::new(platform, Deployment::Full, seed)?;
    let traffic = Traffic { zipf: Zipf::new(KEYS, 0.0), skew: 0.0, reads: 1.0 };
    let mut copies = Copies::empty(&rack, &traffic, Entries { tor: KEYS, root: 0 });
    for client in 0..TORS {
        for rank in 0..held {
            copies.keep(client, Copies::key(&rack, &traffic, client, rank));
        }
    }
    let pace = Pace::Closed { clients, window };
    let spans = (Picos::from_micros(1000), SPAN);
    Ok(run_load(rack, (caching, copies), (traffic, operations), pace, seed, spans))
}

fn add(rows: &mut Rows, at: (&'static str, &str, &str), outcome: &Outcome) {
    rows.add(at, "throughput", "Kops", outcome.rate() / 1e3);
    rows.add(at, "latency", "us", outcome.reads.mean() * 1e6);
    rows.add(at, "p50", "us", outcome.reads.quantile(0.5) * 1e6);
    rows.add(at, "p99", "us", outcome.reads.quantile(0.99) * 1e6);
    rows.add(at, "server CPU", "cores", outcome.server_cores);
    rows.add(at, "packets per operation", "packets", outcome.packets);
}
