//! IncBricks (Liu et al., ASPLOS 2017): its published protocol (`protocol::coherence::published`), run on its published hardware
//! (`model::system::incbricks::rack`). Its other parts are in `model::system::incbricks`, which knows no protocol.
//!
//! | file | what |
//! |---|---|
//! | [`machines`] | the protocol's machines, as drivers know machines |
//! | [`hardware`] | what their messages cost, by the platform's numbers |
//! | [`mod@bench`] | a rack of both: filled, settled, measured |
//! | others | I-E1 latency and throughput, I-E2 where a SET's time goes, I-E3 cache sizes, I-E4 skew, I-E5 conditional put and increment |
//!
//! Each row of a run says beside its figures what became of the answers: `stale reads` show an older value than an operation had shown that ended before they
//! were asked, and of `keys without an order` no order of operations explains all answers. The published protocol promises neither (gaps G1 to G3, G5 of the
//! paper's review). That no read shows what nobody wrote is asserted.

pub mod bench;
mod breakdown;
mod caches;
mod compute;
pub mod hardware;
mod load;
pub mod machines;
#[cfg(test)]
mod tests;

use super::users::Pace;
use base::Picos;
use bench::{Bench, Caching, Ran};
use model::experiment::{Experiment, Rows};
use model::platform::LoadError;
use model::system::incbricks::rack::Deployment;

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

/// Reads and writes, long enough for so many operations.
fn run(bench: &Bench<'_>, caching: Caching, pace: Pace, operations: f64) -> Result<Ran, LoadError> {
    let guess = match pace {
        Pace::Open { rate, .. } => rate,
        Pace::Closed { clients, window } => (clients as f64 * window as f64 / 45e-6).min(2e6),
    };
    let span = model::platform::picos(operations / guess);
    bench.run(caching, pace, bench.reads_and_writes(), (Picos::from_micros(1000), span))
}

/// Everything that a run of reads and writes says.
fn report(rows: &mut Rows, at: (&'static str, &str, &str), ran: &Ran) {
    let (users, all) = (&ran.users, ran.users.all());
    rows.add(at, "throughput", "Mops", ran.rate() / 1e6);
    rows.add(at, "latency", "us", all.mean() * 1e6);
    rows.add(at, "p50", "us", all.quantile(0.5) * 1e6);
    rows.add(at, "p99", "us", all.quantile(0.99) * 1e6);
    rows.add(at, "GET latency", "us", users.gets.mean() * 1e6);
    rows.add(at, "GET p99", "us", users.gets.quantile(0.99) * 1e6);
    rows.add(at, "SET latency", "us", users.sets.mean() * 1e6);
    rows.add(at, "SET p99", "us", users.sets.quantile(0.99) * 1e6);
    let share = |count: u64| count as f64 / (users.by.boxes() + users.by.home).max(1) as f64 * 100.0;
    rows.add(at, "ToR hit rate", "%", share(users.by.first_box));
    rows.add(at, "root hit rate", "%", share(users.by.later_box));
    rows.add(at, "hit rate", "%", share(users.by.boxes()));
    let (writes, invalidations) = ran.told;
    rows.add(at, "invalidations per SET", "count", invalidations as f64 / writes.max(1) as f64);
    rows.add(at, "server CPU", "cores", ran.server_cores);
    rows.add(at, "client CPU", "%", ran.client_threads * 100.0);
    rows.add(at, "busiest box", "%", ran.busiest_box * 100.0);
    rows.add(at, "server bandwidth", "Gbps", ran.server_bits / 1e9);
    rows.add(at, "packets per operation", "packets", ran.packets);
    judged(rows, at, ran);
}

/// What became of the answers.
fn judged(rows: &mut Rows, at: (&'static str, &str, &str), ran: &Ran) {
    let of = ran.users.judged;
    rows.add(at, "stale reads", "%", of.stale as f64 / of.reads.max(1) as f64 * 100.0);
    let (keys, disordered) = ran.disordered;
    rows.add(at, "keys without an order", "%", disordered as f64 / keys.max(1) as f64 * 100.0);
}
