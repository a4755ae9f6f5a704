//! I-E1: latency over throughput (Figs. 7 and 8), sizes of values, mixes, and what bounds throughput.

use super::bench::{Bench, Caching, Entries, Ran, Traffic, open};
use super::{BOTH, PLATFORM, SETTLE, caching_name, report};
use crate::timed::users::Pace;
use model::experiment::Rows;
use model::platform::{LoadError, Platform, Platforms};
use model::system::incbricks::rack::Deployment;

const ID: &str = "I-E1";
const SYSTEMS: [Caching; 3] = [Caching::None, Caching::Boxes, Caching::Filtered];
/// Millions of operations per second that are offered.
const RATES: [f64; 16] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.5, 1.6, 1.8, 1.9];
const WINDOWS: [usize; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 32];
const VALUES: [u64; 5] = [64, 128, 256, 512, 1024];
const READS: [u64; 4] = [50, 80, 95, 100];
const CLIENTS: [usize; 4] = [5, 10, 15, 20];
/// Each run.
const OPERATIONS: f64 = 4000.0;
/// What the paper calls low to medium load ends here.
const MEDIUM: f64 = 1.0;

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    for deployment in BOTH {
        let bench = bench(&platform, deployment, seed)?;
        offered(&mut rows, &bench)?;
        windows(&mut rows, &bench)?;
        values(&mut rows, &bench)?;
        mixes(&mut rows, &bench)?;
    }
    Ok(rows)
}

fn bench(platform: &Platform, deployment: Deployment, seed: u64) -> Result<Bench<'_>, LoadError> {
    let traffic = Traffic::new(platform, platform.ratio("load.skew")?)?;
    Bench::used(platform, deployment, traffic, Entries::new(platform)?, (SETTLE, seed))
}

fn variant(caching: Caching, deployment: Deployment) -> String {
    format!("{} {}", caching_name(caching), deployment.name())
}

/// How much lower latency is than without boxes.
fn gains(rows: &mut Rows, at: (&'static str, &str, &str), with: &Ran, without: &Ran) {
    let of = |ran: &Ran| ran.users.all().mean() * 1e6;
    rows.add(at, "latency reduction", "us", of(without) - of(with));
    rows.add(at, "relative latency reduction", "%", (1.0 - of(with) / of(without)) * 100.0);
    let gets = |ran: &Ran| ran.users.gets.mean() * 1e6;
    rows.add(at, "GET latency reduction", "us", gets(without) - gets(with));
    rows.add(at, "relative GET latency reduction", "%", (1.0 - gets(with) / gets(without)) * 100.0);
    rows.add(at, "SET latency ratio", "ratio", with.users.sets.mean() / without.users.sets.mean());
    rows.add(at, "speed-up over vanilla", "ratio", with.rate() / without.rate());
    rows.add(at, "throughput gain over vanilla", "Kops", (with.rate() - without.rate()) / 1e3);
}

/// An open loop that serves what is offered, at every rate that the system bears.
fn offered(rows: &mut Rows, bench: &Bench<'_>) -> Result<(), LoadError> {
    let mut best = [0.0_f64; SYSTEMS.len()];
    for rate in RATES {
        let point = format!("{rate} Mops offered");
        let mut vanilla = None;
        for (best, caching) in best.iter_mut().zip(SYSTEMS) {
            let outcome = super::run(bench, caching, open(rate * 1e6), OPERATIONS)?;
            if outcome.rate() < 0.97 * rate * 1e6 {
                continue;
            }
            let name = variant(caching, bench.deployment);
            let at = (ID, &*name, &*point);
            report(rows, at, &outcome);
            match &vanilla {
                None if caching == Caching::None => vanilla = Some(outcome),
                None => {}
                Some(without) => {
                    gains(rows, at, &outcome, without);
                    if rate < MEDIUM {
                        *best = best.max((without.users.all().mean() - outcome.users.all().mean()) * 1e6);
                    }
                }
            }
        }
    }
    for (best, caching) in best.into_iter().zip(SYSTEMS).skip(1) {
        let name = variant(caching, bench.deployment);
        rows.add((ID, &name, "low and medium load"), "greatest latency reduction", "us", best);
    }
    Ok(())
}

/// Closed loops: each client with more and more under way; how many clients it takes.
fn windows(rows: &mut Rows, bench: &Bench<'_>) -> Result<(), LoadError> {
    let mut most = Vec::new();
    for caching in SYSTEMS {
        let name = variant(caching, bench.deployment);
        let mut best = 0.0_f64;
        for window in WINDOWS {
            let outcome = super::run(bench, caching, Pace::Closed { clients: 20, window }, OPERATIONS)?;
            report(rows, (ID, &name, &format!("{window} per client")), &outcome);
            best = best.max(outcome.rate());
        }
        rows.add((ID, &name, "most"), "throughput", "Mops", best / 1e6);
        for clients in CLIENTS {
            let outcome = super::run(bench, caching, Pace::Closed { clients, window: 32 }, OPERATIONS)?;
            rows.add(
                (ID, &name, &format!("most, {clients} clients")),
                "throughput",
                "Mops",
                outcome.rate() / 1e6,
            );
        }
        most.push((name, best));
    }
    let vanilla = most[0].1;
    for (name, best) in &most[1..] {
        rows.add((ID, name, "most"), "speed-up over vanilla", "ratio", best / vanilla);
        rows.add((ID, name, "most"), "throughput gain over vanilla", "Kops", (best - vanilla) / 1e3);
    }
    Ok(())
}

/// With and without boxes, at this pace.
fn pair(rows: &mut Rows, bench: &Bench<'_>, point: &str, pace: Pace) -> Result<(), LoadError> {
    let vanilla = super::run(bench, Caching::None, pace, OPERATIONS)?;
    report(rows, (ID, &variant(Caching::None, bench.deployment), point), &vanilla);
    let outcome = super::run(bench, Caching::Boxes, pace, OPERATIONS)?;
    let name = variant(Caching::Boxes, bench.deployment);
    report(rows, (ID, &name, point), &outcome);
    gains(rows, (ID, &name, point), &outcome, &vanilla);
    Ok(())
}

/// Sizes of values, at a load that everybody bears.
fn values(rows: &mut Rows, full: &Bench<'_>) -> Result<(), LoadError> {
    for value in VALUES {
        let platform = &full.platform.with("packet.item", value as f64);
        pair(rows, &full.on(platform), &format!("{value} B values, 0.4 Mops offered"), open(0.4e6))?;
    }
    Ok(())
}

/// Shares of reads, at that load and at the most.
fn mixes(rows: &mut Rows, full: &Bench<'_>) -> Result<(), LoadError> {
    for reads in READS {
        let platform = full.platform.with("load.reads", reads as f64 / 100.0);
        let bench = bench(&platform, full.deployment, full.seed())?;
        pair(rows, &bench, &format!("{reads} % GET, 0.4 Mops offered"), open(0.4e6))?;
        let most = Pace::Closed { clients: 20, window: 32 };
        pair(rows, &bench, &format!("{reads} % GET, most"), most)?;
    }
    Ok(())
}
