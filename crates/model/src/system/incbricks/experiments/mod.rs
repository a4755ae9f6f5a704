//! I-E1 (latency and throughput), I-E2 (where a SET's time goes), I-E3 (cache sizes), I-E4 (skew), I-E5 (conditional put, increment).

mod breakdown;
mod caches;
mod compute;
mod load;

use super::copies::{Copies, Entries, Traffic};
use super::rack::{Deployment, Rack};
use super::run::{Operations, Outcome, Pace, run};
use super::world::Caching;
use crate::experiment::{Experiment, Rows};
use crate::platform::{LoadError, Platform};
use base::{Picos, Prng};

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment { id: "I-E1", title: "latency and throughput with and without boxes", run: &load::run },
    Experiment { id: "I-E2", title: "where the time of an operation goes", run: &breakdown::run },
    Experiment { id: "I-E3", title: "entries of ToRs' and roots' boxes", run: &caches::by_size },
    Experiment { id: "I-E4", title: "skew of keys", run: &caches::by_skew },
    Experiment { id: "I-E5", title: "conditional put and increment by place", run: &compute::run },
];

/// Of all experiments here.
const PLATFORM: &str = "xpliant-octeon";
/// Operations before anything is measured, for each ToR with clients: the usual ones of their entries have values.
const SETTLE: u64 = 60_000;
const BOTH: [Deployment; 2] = [Deployment::Within, Deployment::Cross];

fn caching_name(caching: Caching) -> &'static str {
    match caching {
        Caching::None => "vanilla",
        Caching::Boxes => "IncBricks",
        Caching::Filtered => "IncBricks with key-hit filter",
    }
}

/// A rack whose boxes are filled.
struct Bench<'a> {
    platform: &'a Platform,
    deployment: Deployment,
    traffic: Traffic,
    copies: Copies,
    seed: u64,
}

impl<'a> Bench<'a> {
    fn new(
        platform: &'a Platform,
        deployment: Deployment,
        traffic: Traffic,
        entries: Entries,
        seed: u64,
    ) -> Result<Bench<'a>, LoadError> {
        let rack = Rack::new(platform, deployment, seed)?;
        let mut copies = Copies::new(&rack, &traffic, entries);
        copies.settle(&rack, &traffic, SETTLE * rack.client_tors() as u64, &mut Prng::for_entity(seed, 0, 3));
        Ok(Bench { platform, deployment, traffic, copies, seed })
    }

    /// Long enough for so many operations.
    fn run(&self, caching: Caching, pace: Pace, operations: f64) -> Result<Outcome, LoadError> {
        let rack = Rack::new(self.platform, self.deployment, self.seed)?;
        let guess = match pace {
            Pace::Open(rate) => rate,
            Pace::Closed { clients, window } => (clients as f64 * window as f64 / 45e-6).min(2e6),
        };
        let span = crate::platform::picos(operations / guess);
        let copies = (caching, self.copies.clone());
        let what = (self.traffic.clone(), Operations::ReadsAndWrites);
        let warm_up = Picos::from_micros(1000);
        Ok(run(rack, copies, what, pace, self.seed, (warm_up, span)))
    }
}

/// Everything that a run of reads and writes says.
fn report(rows: &mut Rows, at: (&'static str, &str, &str), outcome: &Outcome) {
    let all = outcome.all();
    rows.add(at, "throughput", "Mops", outcome.rate() / 1e6);
    rows.add(at, "latency", "us", all.mean() * 1e6);
    rows.add(at, "p50", "us", all.quantile(0.5) * 1e6);
    rows.add(at, "p99", "us", all.quantile(0.99) * 1e6);
    rows.add(at, "GET latency", "us", outcome.reads.mean() * 1e6);
    rows.add(at, "GET p99", "us", outcome.reads.quantile(0.99) * 1e6);
    rows.add(at, "SET latency", "us", outcome.writes.mean() * 1e6);
    rows.add(at, "SET p99", "us", outcome.writes.quantile(0.99) * 1e6);
    let (first, any) = outcome.hits();
    rows.add(at, "ToR hit rate", "%", first * 100.0);
    rows.add(at, "root hit rate", "%", (any - first) * 100.0);
    rows.add(at, "hit rate", "%", any * 100.0);
    let writes = outcome.answers.writes.max(1) as f64;
    rows.add(at, "invalidations per SET", "count", outcome.answers.invalidations as f64 / writes);
    rows.add(at, "server CPU", "cores", outcome.server_cores);
    rows.add(at, "client CPU", "%", outcome.client_threads * 100.0);
    rows.add(at, "busiest box", "%", outcome.busiest_box * 100.0);
    rows.add(at, "server bandwidth", "Gbps", outcome.server_bits / 1e9);
    rows.add(at, "packets per operation", "packets", outcome.packets);
}
