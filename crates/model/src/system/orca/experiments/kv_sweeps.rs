//! E2 beyond its figures: skew, share of reads, sizes, cores, pairs, ways of notification, share of host accesses.

use super::super::serve::{Popularity, Rings, Servers};
use super::kv::{Measured, Point, Who, compare, measure, operations};
use crate::experiment::Rows;
use crate::platform::{LoadError, Platforms};

pub(super) fn run(platforms: &Platforms, rows: &mut Rows, seed: u64) -> Result<(), LoadError> {
    let peak = Point::PEAK;
    let skews = [0.3, 0.5, 0.6, 0.7, 0.8, 0.95, 0.99, 1.1].map(|skew| Point { skew, ..peak });
    let reads = [0.0, 0.05, 0.25, 0.75, 0.9, 0.95].map(|gets| Point { gets, ..peak });
    let sizes = [128, 256, 512, 1024].map(|pair| Point { pair, ..peak });
    let pairs = [1_000_000, 10_000_000, 1_000_000_000].map(|keys| Point { keys, ..peak });
    for point in skews.iter().chain(&reads).chain(&sizes).chain(&pairs) {
        side_by_side(platforms, rows, &Who::MAIN, *point, seed)?;
    }
    cores(platforms, rows, seed)?;
    for batch in [1, 4, 16, 32] {
        notification(platforms, rows, Point { batch, ..peak }, seed)?;
    }
    host_accesses(platforms, rows, seed)?;
    core_rates(platforms, rows, seed)
}

fn side_by_side(
    platforms: &Platforms,
    rows: &mut Rows,
    who: &[Who],
    point: Point,
    seed: u64,
) -> Result<Vec<(Who, Measured)>, LoadError> {
    let label = point.label();
    let mut all = vec![];
    for who in who {
        let measured = measure(platforms, *who, point, seed)?;
        measured.report(rows, *who, &label);
        all.push((*who, measured));
    }
    compare(rows, &label, &all);
    Ok(all)
}

fn cores(platforms: &Platforms, rows: &mut Rows, seed: u64) -> Result<(), LoadError> {
    for cores in [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20] {
        side_by_side(platforms, rows, &[Who::Cpu], Point { cores, ..Point::PEAK }, seed)?;
    }
    Ok(())
}

/// Ways of telling the accelerator, against the setup's.
fn notification(platforms: &Platforms, rows: &mut Rows, point: Point, seed: u64) -> Result<(), LoadError> {
    let label = point.label();
    let usual = measure(platforms, Who::Orca(Rings::Pointers), point, seed)?;
    for rings in [Rings::Pinned, Rings::TwoWrites] {
        let who = Who::Orca(rings);
        let measured = measure(platforms, who, point, seed)?;
        measured.report(rows, who, &label);
        let at = ("E2", who.name(), &*label);
        rows.add(at, "throughput over ORCA", "ratio", measured.rate() / usual.rate());
        rows.add(at, "mean over ORCA", "ratio", measured.seen.mean() / usual.seen.mean());
    }
    Ok(())
}

/// The SmartNIC, as more and more of its accesses go to the host.
fn host_accesses(platforms: &Platforms, rows: &mut Rows, seed: u64) -> Result<(), LoadError> {
    // One request after the other: what an access costs, without queues.
    let of = |missing: f64| {
        let point = Point { batch: 1, skew: 0.0, missing: Some(missing), ..Point::PEAK };
        Ok::<_, LoadError>((point.label(), measure(platforms, Who::SmartNic, point, seed)?))
    };
    let ends = [of(0.0)?.1.seen.mean(), of(1.0)?.1.seen.mean()];
    for tenth in 0..=10 {
        let missing = f64::from(tenth) / 10.0;
        let (label, measured) = of(missing)?;
        measured.report(rows, Who::SmartNic, &label);
        let line = ends[0] + missing * (ends[1] - ends[0]);
        rows.add(
            ("E2", Who::SmartNic.name(), &label),
            "mean over a line's",
            "ratio",
            measured.seen.mean() / line,
        );
    }
    Ok(())
}

/// What cores do when no network binds them: GETs that all hit on-board memory.
fn core_rates(platforms: &Platforms, rows: &mut Rows, seed: u64) -> Result<(), LoadError> {
    let point = Point::PEAK;
    let platform = platforms.named(Who::Cpu.platform())?;
    let (_, get) = operations(&platform, point)?[0];
    let uniform = Popularity { keys: point.keys, skew: 0.0, entry: point.pair };
    let host = 1.0 / Servers::new(&platform, 1, uniform, point.batch, seed)?.host_time(&get)?;
    let soc = host * platform.ratio("soc.speed")?;
    let label = format!("GET, batch {}, on-board memory only", point.batch);
    for (who, rate, cores) in
        [(Who::Cpu, host, point.cores), (Who::SmartNic, soc, platform.count("soc.cores")?)]
    {
        let at = ("E2", who.name(), &*label);
        rows.add(at, "throughput of a core", "Mops", rate / 1e6);
        rows.add(at, "throughput of all cores", "Mops", rate * cores as f64 / 1e6);
        rows.add(at, "host cores that do the same", "cores", rate * cores as f64 / host);
    }
    for skew in [0.0, 0.5, 0.9, 0.99] {
        let popularity = Popularity { skew, ..uniform };
        let missing = 100.0 * (1.0 - popularity.hits(platform.bytes("soc.cache")?));
        let label = if skew == 0.0 { "uniform".into() } else { format!("Zipf {skew}") };
        rows.add(("E2", Who::SmartNic.name(), &label), "accesses to host", "%", missing);
    }
    Ok(())
}
