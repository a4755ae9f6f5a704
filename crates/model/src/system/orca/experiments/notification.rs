//! E1: a core writes a byte, the accelerator learns of it; and the other way.
//!
//! * cpoll: the store's request for ownership reaches the line's home, which snoops the accelerator that holds it.
//! * polling: a read every so many cycles, of the line that is the core's; the first that reaches the home after the store brings the news. Reads are
//!   uncached, so that the store itself is at once.
//! * MMIO: the core writes a register of the accelerator instead.

use super::PROTOTYPE;
use crate::component::{Coherent, LINE};
use crate::experiment::Rows;
use crate::kernel::Kernel;
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, Platforms};
use crate::random::exponential;
use base::{Picos, Prng};
use hdrhistogram::Histogram;

/// In cycles of the accelerator; the paper's are 15, 30, 50, 100.
const INTERVALS: [u64; 8] = [5, 10, 15, 30, 50, 100, 200, 400];
/// In picoseconds; nothing here takes longer.
const LONGEST: u64 = 1_000_000_000;
/// As in the paper.
const ITERATIONS: u64 = 60_000;

struct Setup<'a> {
    platform: &'a Platform,
    endpoint: Coherent,
    home: Picos,
    jitter: Picos,
}

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PROTOTYPE)?;
    let setup = Setup {
        platform: &platform,
        endpoint: Coherent::new(&mut Kernel::new(seed), &platform)?,
        home: platform.span("host.core_to_home")?,
        jitter: platform.span("jitter.hardware")?,
    };
    let mut rows = Rows::default();
    let cpoll = setup.cpoll(&mut rows, seed);
    setup.polling(&mut rows, seed, &cpoll)?;
    setup.others(&mut rows, seed)?;
    Ok(rows)
}

impl Setup<'_> {
    fn cpoll(&self, rows: &mut Rows, seed: u64) -> Histogram<u64> {
        let e = &self.endpoint;
        let way = self.home.plus(e.link).plus(e.depth).plus(e.check);
        let seen = self.repeat(seed, 1, |_| way);
        report(rows, "cpoll", &seen);
        rows.add(("E1", "cpoll", ""), "interconnect traffic while idle", "GB/s", 0.0);
        seen
    }

    fn polling(&self, rows: &mut Rows, seed: u64, cpoll: &Histogram<u64>) -> Result<(), LoadError> {
        let e = &self.endpoint;
        let clock = self.platform.value("accelerator.clock", Dimension::Frequency)?;
        // Home to the owning core and back, then to the accelerator with the line.
        let way = self.home.plus(self.home).plus(e.link).plus(e.depth).plus(e.interval());
        for cycles in INTERVALS {
            let interval = crate::platform::picos(cycles as f64 / clock).max(e.interval());
            let seen = self.repeat(seed, 2 + cycles, |prng| way.plus(Picos(prng.below(interval.0))));
            let variant = format!("polling-{cycles}");
            report(rows, &variant, &seen);
            let at = ("E1", &*variant, "");
            let polls = 1.0 / interval.as_secs_f64();
            rows.add(at, "interconnect traffic while idle", "GB/s", polls * LINE as f64 / 1e9);
            rows.add(at, "controller utilisation while idle", "%", polls * e.issue.as_secs_f64() * 100.0);
            let less = |of: &dyn Fn(&Histogram<u64>) -> f64| 100.0 * (1.0 - of(cpoll) / of(&seen));
            rows.add(at, "mean reduction by cpoll", "%", less(&Histogram::mean));
            rows.add(at, "p50 reduction by cpoll", "%", less(&|h| h.value_at_quantile(0.5) as f64));
            rows.add(at, "p99 reduction by cpoll", "%", less(&|h| h.value_at_quantile(0.99) as f64));
        }
        Ok(())
    }

    fn others(&self, rows: &mut Rows, seed: u64) -> Result<(), LoadError> {
        let e = &self.endpoint;
        let mmio = self.home.plus(e.link).plus(e.depth);
        report(rows, "MMIO", &self.repeat(seed, 1000, |_| mmio));
        // The accelerator's store takes the line from the core, whose next load misses and finds it at home.
        let store = e.issue.plus(e.depth).plus(e.link).plus(self.home);
        let load = self.home.plus(self.home).plus(self.platform.span("host.llc_latency")?);
        report(rows, "CPU polling", &self.repeat(seed, 1001, |_| store.plus(load)));
        let interrupt = store.plus(self.platform.span("host.interrupt")?);
        report(rows, "CPU interrupt", &self.repeat(seed, 1002, |_| interrupt));
        Ok(())
    }

    fn repeat(&self, seed: u64, stream: u64, mut one: impl FnMut(&mut Prng) -> Picos) -> Histogram<u64> {
        let mut prng = Prng::for_entity(seed, stream, 11);
        let mut seen = Histogram::new_with_bounds(1, LONGEST, 3).expect("three digits are few enough");
        for _ in 0..ITERATIONS {
            let late = exponential(&mut prng, self.jitter);
            seen.saturating_record(one(&mut prng).plus(late).0);
        }
        seen
    }
}

/// From core to accelerator unless the variant says the other way.
fn report(rows: &mut Rows, variant: &str, seen: &Histogram<u64>) {
    let at = ("E1", variant, "");
    rows.add(at, "mean", "ns", seen.mean() / 1e3);
    let quantiles = [("min", 0.0), ("p10", 0.1), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75)];
    for (name, of) in quantiles.into_iter().chain([("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)]) {
        rows.add(at, name, "ns", seen.value_at_quantile(of) as f64 / 1e3);
    }
}
