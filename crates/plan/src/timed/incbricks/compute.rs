//! I-E5: conditional put and increment, at the client, the server, and in boxes (Fig. 12). Keys and operands are uniform; every fourth key is at its client's
//! ToR.
//!
//! `IncBricks` has the keys that are computed on in the boxes of the clients' ToRs, `IncBricks, n % held` that share of them. The paper's keys are "uniform
//! random" and its boxes hold 4096; how many keys there were it does not say, and its text has computations answered by boxes.
//!
//! A box that computes tells the home, and no other box (G5): of a key that two ToRs' boxes have, each counts for itself.

use super::bench::{Bench, Caching, Entries, Ran, Traffic};
use super::hardware::Valued;
use super::{PLATFORM, judged};
use crate::timed::users::{Doing, Pace};
use base::Picos;
use base::zipf::Zipf;
use model::experiment::Rows;
use model::platform::{LoadError, Platform, Platforms};
use model::system::incbricks::rack::Deployment;
use protocol::wire::Verb;

const ID: &str = "I-E5";
/// Operations under way, of so many clients: 12 are what the published rates and latencies come to.
const LOADS: [(usize, usize); 7] = [(1, 1), (4, 1), (8, 1), (12, 1), (20, 1), (20, 4), (20, 16)];
const SPAN: Picos = Picos::from_micros(10_000);
/// Entries that are enough for all of them.
const KEYS: u64 = 4096;

/// Operands are below this.
const OPERANDS: u64 = 1 << 32;
const PRIMITIVES: [(&str, Verb); 2] = [("conditional put", Verb::CondPut), ("increment", Verb::Incr)];

/// Who computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Client,
    Server,
    /// Boxes, where they have so many of the keys.
    Boxes(u64),
}

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    for load in LOADS {
        let point = format!("{} outstanding", load.0 * load.1);
        for (primitive, verb) in PRIMITIVES {
            let at = |place| one(&platform, (place, verb), load, seed);
            let places = [
                ("client-side", at(Place::Client)?),
                ("server-side", at(Place::Server)?),
                ("IncBricks", at(Place::Boxes(KEYS))?),
            ];
            let rate = |i: usize| places[i].1.rate();
            let mean = |i: usize| places[i].1.users.all().mean();
            for (i, (place, ran)) in places.iter().enumerate() {
                let variant = format!("{primitive}, {place}");
                let at = (ID, &*variant, &*point);
                add(&mut rows, at, ran);
                rows.add(at, "speed-up over client-side", "ratio", rate(i) / rate(0));
                rows.add(at, "speed-up over server-side", "ratio", rate(i) / rate(1));
                rows.add(at, "latency over client-side", "ratio", mean(i) / mean(0));
                rows.add(at, "latency over server-side", "ratio", mean(i) / mean(1));
            }
        }
    }
    for percent in [0, 25, 50, 60, 75, 100] {
        let place = Place::Boxes(KEYS * percent / 100);
        let ran = one(&platform, (place, Verb::CondPut), (12, 1), seed)?;
        let variant = format!("conditional put, IncBricks, {percent} % held");
        add(&mut rows, (ID, &variant, "12 outstanding"), &ran);
    }
    Ok(rows)
}

fn one(
    platform: &Platform,
    (place, verb): (Place, Verb),
    (clients, window): (usize, usize),
    seed: u64,
) -> Result<Ran, LoadError> {
    let traffic = Traffic { zipf: Zipf::new(KEYS, 0.0), skew: 0.0, reads: 1.0 };
    let entries = Entries { tor: KEYS, root: 0 };
    let bench = Bench::empty(platform, Deployment::Full, (traffic.clone(), Valued::Number), entries, seed)?;
    let caching = match place {
        Place::Boxes(held) => {
            bench.hold(held);
            Caching::Boxes
        }
        Place::Client | Place::Server => Caching::None,
    };
    let keys = bench.keys().clone();
    let draw = move |prng: &mut base::Prng, client: u32| {
        let key = keys.key(client as usize - 1, traffic.zipf.sample(prng));
        let by = prng.below(OPERANDS);
        (if place == Place::Client { Doing::GetThenSet } else { Doing::Compute(verb, by) }, key)
    };
    let pace = Pace::Closed { clients, window };
    bench.run(caching, pace, draw, (Picos::from_micros(1000), SPAN))
}

fn add(rows: &mut Rows, at: (&'static str, &str, &str), ran: &Ran) {
    let all = ran.users.all();
    rows.add(at, "throughput", "Kops", ran.rate() / 1e3);
    rows.add(at, "latency", "us", all.mean() * 1e6);
    rows.add(at, "p50", "us", all.quantile(0.5) * 1e6);
    rows.add(at, "p99", "us", all.quantile(0.99) * 1e6);
    rows.add(at, "server CPU", "cores", ran.server_cores);
    rows.add(at, "packets per operation", "packets", ran.packets);
    judged(rows, at, ran);
}
