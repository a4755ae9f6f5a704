//! I-E3 and I-E4: how many entries boxes have, and how skewed keys are (Figs. 10 and 11). One operation of each client under way: latency without queues.

use super::bench::{Bench, Caching, Entries, Traffic};
use super::{BOTH, PLATFORM, SETTLE, caching_name, report};
use crate::timed::users::Pace;
use model::experiment::Rows;
use model::platform::{LoadError, Platform, Platforms};
use model::popularity::head_share;
use model::system::incbricks::rack::Deployment;

const PACE: Pace = Pace::Closed { clients: 20, window: 1 };
const OPERATIONS: f64 = 6000.0;
const TOR: [u64; 9] = [128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768];
const ROOT: [u64; 9] = [0, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
const SKEWS: [f64; 12] = [0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99];

pub(super) fn by_size(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    let (skew, keys) = (platform.ratio("load.skew")?, platform.count("load.keys")?);
    let shipped = Entries::new(&platform)?;
    for entries in TOR.into_iter().chain(ROOT).filter(|entries| *entries > 0) {
        let at = ("I-E3", "coverage", &*format!("{entries} entries"));
        rows.add(at, "most popular keys", "%", head_share(keys, skew, entries) * 100.0);
    }
    for deployment in BOTH {
        let mut at = |point: &str, entries| {
            one(&mut rows, &platform, (deployment, skew), entries, ("I-E3", point), seed)
        };
        for tor in TOR {
            at(&format!("ToR {tor} entries"), Entries { tor, ..shipped })?;
        }
        if deployment == Deployment::Cross {
            for root in ROOT {
                at(&format!("root {root} entries"), Entries { root, ..shipped })?;
            }
        }
    }
    Ok(rows)
}

pub(super) fn by_skew(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    let entries = Entries::new(&platform)?;
    let keys = platform.count("load.keys")?;
    for skew in SKEWS {
        let point = format!("skew {skew}");
        for size in [entries.tor, entries.root] {
            let at = ("I-E4", &*format!("coverage of {size} entries"), &*point);
            rows.add(at, "most popular keys", "%", head_share(keys, skew, size) * 100.0);
        }
        for deployment in BOTH {
            one(&mut rows, &platform, (deployment, skew), entries, ("I-E4", &point), seed)?;
        }
    }
    Ok(rows)
}

/// With and without boxes.
fn one(
    rows: &mut Rows,
    platform: &Platform,
    (deployment, skew): (Deployment, f64),
    entries: Entries,
    (experiment, point): (&'static str, &str),
    seed: u64,
) -> Result<(), LoadError> {
    let bench = Bench::used(platform, deployment, Traffic::new(platform, skew)?, entries, (SETTLE, seed))?;
    // What clients' stacks take is no part of what their ToR sees.
    let stack = 2.0 * platform.span("stack.crossing")?.as_secs_f64() * 1e6;
    let mut vanilla = None;
    for caching in [Caching::None, Caching::Boxes, Caching::Filtered] {
        let outcome = super::run(&bench, caching, PACE, OPERATIONS)?;
        let variant = format!("{} {}", caching_name(caching), deployment.name());
        let at = (experiment, &*variant, point);
        report(rows, at, &outcome);
        let mean = outcome.users.all().mean() * 1e6;
        rows.add(at, "latency at the client's ToR", "us", mean - stack);
        rows.add(at, "GET latency at the client's ToR", "us", outcome.users.gets.mean() * 1e6 - stack);
        let without = *vanilla.get_or_insert(mean);
        if caching != Caching::None {
            rows.add(at, "latency reduction", "us", without - mean);
            rows.add(at, "relative latency reduction", "%", (1.0 - mean / without) * 100.0);
        }
    }
    Ok(())
}
