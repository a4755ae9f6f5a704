//! E4: transactions on a chain of two replicas, one by one: ORCA in one pass, HyperLoop in one for each pair.

use super::super::transactions::{Chain, Transaction};
use super::PROTOTYPE;
use crate::experiment::Rows;
use crate::load::{Loop, Seen, closed};
use crate::platform::{LoadError, Platform, Platforms};
use crate::sim::Sim;
use base::Picos;

/// Of the paper's sizes more transactions are run.
const PAPERS: [u64; 2] = [64, 1024];
const SIZES: [u64; 7] = [16, 64, 128, 256, 512, 1024, 4096];
/// Pairs read and written; the paper's are (0,1) and (4,2).
const SHAPES: [(u64, u64); 10] =
    [(0, 1), (0, 2), (0, 4), (1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (8, 4), (8, 8)];

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PROTOTYPE)?;
    let mut rows = Rows::default();
    for (reads, writes) in SHAPES {
        for bytes in SIZES {
            let of = Transaction { reads, writes, bytes };
            let point = format!("({reads},{writes}) {bytes} B");
            let all = ["HyperLoop", "ORCA"].map(|who| (who, measure(&platform, who, of, seed)));
            let mut seen = vec![];
            for (who, result) in all {
                let (latency, result) = result?;
                report(&mut rows, (who, &point), latency, &result);
                seen.push(result);
            }
            compare(&mut rows, &point, &seen[0], &seen[1]);
        }
    }
    Ok(rows)
}

/// Mean of what the path says, and what a client sees that issues one by one.
fn measure(platform: &Platform, who: &str, of: Transaction, seed: u64) -> Result<(f64, Seen), LoadError> {
    let mut chain = Chain::new(platform, seed)?;
    let program = if who == "ORCA" { chain.orca(of)? } else { chain.hyperloop(of)? };
    let alone = chain.kernel.unloaded(program);
    let one = Loop { mix: program.into(), window: 1, arguments: 1 };
    let sim = Sim::new(chain.kernel);
    let span = Picos(alone.0 * if PAPERS.contains(&of.bytes) { 4000 } else { 1000 });
    let seen = closed(&sim, seed, &[one], Picos::ZERO, span).remove(0);
    Ok((alone.as_secs_f64(), seen))
}

fn report(rows: &mut Rows, (who, point): (&str, &str), alone: f64, seen: &Seen) {
    let at = ("E4", who, point);
    rows.add(at, "unloaded", "us", alone * 1e6);
    rows.add(at, "mean", "us", seen.mean() * 1e6);
    for (name, of) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        rows.add(at, name, "us", seen.quantile(of) * 1e6);
    }
    rows.add(at, "throughput", "Kops", seen.rate() / 1e3);
}

fn compare(rows: &mut Rows, point: &str, hyperloop: &Seen, orca: &Seen) {
    let at = ("E4", "ORCA", point);
    let mean = orca.mean() / hyperloop.mean();
    let tail = orca.quantile(0.99) / hyperloop.quantile(0.99);
    rows.add(at, "mean over HyperLoop", "ratio", mean);
    rows.add(at, "p99 over HyperLoop", "ratio", tail);
    rows.add(at, "mean reduction", "%", 100.0 * (1.0 - mean));
    rows.add(at, "p99 reduction", "%", 100.0 * (1.0 - tail));
}
