//! E2: a key-value store of 100 M pairs on host cores, on the SmartNIC, on the accelerator.
//!
//! Ten client instances keep a batch under way each. A point is `GET 100 %, Zipf 0.9, batch 32`; what differs from the setup (64 B, ten host
//! cores) is said after it.

use super::super::clients::{Batches, run as run_batches};
use super::super::machine::Machine;
use super::super::serve::{Data, Popularity, Rings, Servers, Work};
use super::{LOCAL, PROTOTYPE};
use crate::experiment::Rows;
use crate::kernel::ResourceId;
use crate::load::{Mix, Seen};
use crate::platform::{LoadError, Platform, Platforms};
use crate::sim::Sim;
use base::Picos;

/// Pairs.
const KEYS: u64 = 100_000_000;
/// 1, 4, 16, 32 are the paper's.
const BATCHES: [u64; 8] = [1, 2, 4, 8, 16, 24, 32, 64];
/// Places of a batch that are told apart.
const PLACES: u32 = 16;
/// Uniform, and the paper's skew.
const SKEWS: [f64; 2] = [0.0, 0.9];

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Cpu,
    SmartNic,
    Orca(Rings),
    Local(usize),
}

impl Who {
    pub(super) const MAIN: [Who; 5] =
        [Who::Cpu, Who::SmartNic, Who::Orca(Rings::Pointers), Who::Local(0), Who::Local(1)];

    pub(super) fn name(self) -> &'static str {
        match self {
            Who::Cpu => "CPU",
            Who::SmartNic => "Smart NIC",
            Who::Orca(Rings::Pointers) => "ORCA",
            Who::Orca(Rings::Pinned) => "ORCA, rings pinned",
            Who::Orca(Rings::TwoWrites) => "ORCA, two WQEs",
            Who::Local(which) => LOCAL[which].0,
        }
    }

    pub(super) fn platform(self) -> &'static str {
        if let Who::Local(which) = self { LOCAL[which].1 } else { PROTOTYPE }
    }
}

/// A point of the axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub gets: f64,
    pub skew: f64,
    pub batch: u64,
    pub pair: u64,
    pub cores: u64,
    pub keys: u64,
    /// Accesses that the SmartNIC makes to the host, 0 to 1; by its cache, if not given.
    pub missing: Option<f64>,
}

impl Point {
    pub(super) const PEAK: Point =
        Point { gets: 1.0, skew: 0.9, batch: 32, pair: 64, cores: 10, keys: KEYS, missing: None };

    pub(super) fn label(&self) -> String {
        let skew = if self.skew == 0.0 { "uniform".into() } else { format!("Zipf {}", self.skew) };
        let mut label = format!("GET {} %, {skew}, batch {}", (self.gets * 100.0).round(), self.batch);
        if self.pair != Point::PEAK.pair {
            label += &format!(", {} B", self.pair);
        }
        if self.cores != Point::PEAK.cores {
            label += &format!(", {} cores", self.cores);
        }
        if self.keys != Point::PEAK.keys {
            label += &format!(", {} M pairs", self.keys / 1_000_000);
        }
        if let Some(missing) = self.missing {
            label += &format!(", {} % host accesses", (missing * 100.0).round());
        }
        label
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub seen: Seen,
    values: Vec<(&'static str, &'static str, f64)>,
}

impl Measured {
    pub(super) fn rate(&self) -> f64 {
        self.seen.rate()
    }

    pub(super) fn report(&self, rows: &mut Rows, who: Who, point: &str) {
        let at = ("E2", who.name(), point);
        rows.add(at, "throughput", "Mops", self.rate() / 1e6);
        rows.add(at, "mean", "us", self.seen.mean() * 1e6);
        for (name, of) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
            rows.add(at, name, "us", self.seen.quantile(of) * 1e6);
        }
        for (metric, unit, value) in &self.values {
            rows.add(at, metric, unit, *value);
        }
    }
}

/// Runs one.
pub(super) fn measure(
    platforms: &Platforms,
    who: Who,
    point: Point,
    seed: u64,
) -> Result<Measured, LoadError> {
    let platform = platforms.named(who.platform())?;
    let popularity = Popularity { keys: point.keys, skew: point.skew, entry: point.pair };
    let mut servers = Servers::new(&platform, point.cores, popularity, point.batch, seed)?;
    let mut mix = vec![];
    for (share, work) in operations(&platform, point)? {
        mix.extend(programs(&mut servers, who, &work, point.missing)?.iter().map(|(of, p)| (share * of, *p)));
    }
    let Machine { kernel, client, .. } = servers.machine;
    let clients = Batches {
        cores: client.expect("an experiment has clients").cores,
        instances: platform.count("client.instances")?,
        batch: point.batch,
        post: post(&platform, who)?,
        mix: Mix::new(&mix),
    };
    let sim = Sim::new(kernel);
    // About as many requests whatever the batch.
    let span = Picos::from_micros((6_400 / point.batch.max(4)).max(150));
    let seen = run_batches(&sim, seed, &clients, Picos::from_micros(40), span);
    let values = sim.with(|kernel| usage(kernel, &seen, span));
    Ok(Measured { seen, values })
}

/// A client core takes so long for a request; two-sided, it posts a receive and polls a completion besides.
fn post(platform: &Platform, who: Who) -> Result<Picos, LoadError> {
    let post = platform.cycles("client.post", "client.clock")?;
    let two_sided = matches!(who, Who::Cpu | Who::SmartNic);
    let more = if two_sided { platform.cycles("client.two_sided", "client.clock")? } else { Picos::ZERO };
    Ok(post.plus(more))
}

/// The store's operations with their shares.
pub(super) fn operations(platform: &Platform, point: Point) -> Result<Vec<(f64, Work)>, LoadError> {
    let key = platform.bytes("rpc.key")?;
    let get = Work {
        request: key,
        reply: point.pair - key,
        accesses: platform.count("rpc.get_accesses")?,
        access: 64,
        ..Work::default()
    };
    let more = point.pair.saturating_sub(64);
    let get = Work { rows: u64::from(more > 0), row: more, ..get };
    let put = Work { request: point.pair, reply: 0, accesses: platform.count("rpc.put_accesses")?, ..get };
    let put = Work { rows: 0, row: 0, store: more, ..put };
    let all = [(point.gets, get), (1.0 - point.gets, put)];
    Ok(all.into_iter().filter(|(share, _)| *share > 0.0).collect())
}

fn programs(
    servers: &mut Servers<'_>,
    who: Who,
    work: &Work,
    missing: Option<f64>,
) -> Result<Vec<(f64, crate::ProgramId)>, LoadError> {
    Ok(match (who, missing) {
        (Who::Cpu | Who::SmartNic, _) => {
            let mut all = vec![];
            for i in 0..PLACES {
                servers.at_place((f64::from(i) + 0.5) / f64::from(PLACES));
                let here = match (who, missing) {
                    (Who::Cpu, _) => vec![(1.0, servers.host(work)?)],
                    (_, None) => servers.soc(work)?,
                    (_, Some(missing)) => vec![
                        (1.0 - missing, servers.soc_program(work, true)?),
                        (missing, servers.soc_program(work, false)?),
                    ],
                };
                all.extend(here.iter().map(|(share, program)| (share / f64::from(PLACES), *program)));
            }
            all
        }
        (Who::Orca(rings), _) => vec![(1.0, servers.accelerator(work, Data::Host, rings)?)],
        (Who::Local(_), _) => vec![(1.0, servers.accelerator(work, Data::Local, Rings::Pointers)?)],
    })
}

/// Accounts of a run, by the names of resources.
fn usage(kernel: &crate::Kernel, seen: &Seen, span: Picos) -> Vec<(&'static str, &'static str, f64)> {
    let seconds = span.as_secs_f64();
    let find = |name: &str| {
        kernel.all_resources().filter(|at| kernel.name_of(*at).starts_with(name)).collect::<Vec<_>>()
    };
    let busy =
        |at: &[ResourceId]| at.iter().map(|at| kernel.usage(*at).busy.as_secs_f64()).sum::<f64>() / seconds;
    let units = |name: &str| find(name).iter().map(|at| kernel.usage(*at).units).sum::<u64>() as f64;
    let gigabits = |name: &str| units(name) * 8.0 / seconds / 1e9;
    let mut values = vec![
        ("network bandwidth to server", "Gbps", gigabits("network forth")),
        ("network bandwidth to clients", "Gbps", gigabits("network back")),
        ("network utilisation", "%", 100.0 * busy(&find("network forth")).max(busy(&find("network back")))),
        ("PCIe packets", "packets per request", units("PCIe") / seen.count().max(1) as f64),
        ("host cores busy", "cores", busy(&find("host core"))),
        ("SoC cores busy", "cores", busy(&find("SoC core"))),
    ];
    if !find("coherence controller").is_empty() {
        values.extend([
            ("interconnect bandwidth to device", "GB/s", units("interconnect to device") / seconds / 1e9),
            ("interconnect bandwidth to host", "GB/s", units("interconnect to home") / seconds / 1e9),
            ("interconnect utilisation", "%", 100.0 * busy(&find("interconnect to device"))),
            ("controller utilisation", "%", 100.0 * busy(&find("coherence controller"))),
        ]);
    }
    values
}

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let mut rows = Rows::default();
    for gets in [1.0, 0.5] {
        for skew in SKEWS {
            for batch in BATCHES {
                let point = Point { gets, skew, batch, ..Point::PEAK };
                let label = point.label();
                let mut all = vec![];
                for who in Who::MAIN {
                    let measured = measure(platforms, who, point, seed)?;
                    measured.report(&mut rows, who, &label);
                    all.push((who, measured));
                }
                compare(&mut rows, &label, &all);
            }
        }
    }
    between_points(&mut rows);
    super::kv_sweeps::run(platforms, &mut rows, seed)?;
    Ok(rows)
}

/// Each against CPU and SmartNIC.
pub(super) fn compare(rows: &mut Rows, label: &str, all: &[(Who, Measured)]) {
    let names: [(Who, [&'static str; 4]); 2] = [
        (Who::Cpu, ["throughput over CPU", "mean over CPU", "p50 over CPU", "p99 over CPU"]),
        (
            Who::SmartNic,
            ["throughput over Smart NIC", "mean over Smart NIC", "p50 over Smart NIC", "p99 over Smart NIC"],
        ),
    ];
    for (base, metrics) in names {
        let Some((_, base)) = all.iter().find(|(who, _)| *who == base) else { continue };
        for (who, measured) in all {
            let over = |of: &dyn Fn(&Seen) -> f64| of(&measured.seen) / of(&base.seen);
            let values = [
                over(&Seen::rate),
                over(&Seen::mean),
                over(&|seen| seen.quantile(0.5)),
                over(&|seen| seen.quantile(0.99)),
            ];
            for (metric, value) in metrics.into_iter().zip(values) {
                rows.add(("E2", who.name(), label), metric, "ratio", value);
            }
        }
    }
}

/// Ratios along the axes: what batching gains, what skew gains, what writes cost.
fn between_points(rows: &mut Rows) {
    let value = |rows: &Rows, who: Who, point: Point, metric: &str| {
        rows.find("E2", who.name(), &point.label(), metric).map_or(f64::NAN, |row| row.value)
    };
    for who in Who::MAIN {
        for gets in [1.0, 0.5] {
            for skew in SKEWS {
                for batch in BATCHES {
                    let here = Point { gets, skew, batch, ..Point::PEAK };
                    let label = here.label();
                    let at = ("E2", who.name(), &*label);
                    let over = |rows: &Rows, other: Point, metric| {
                        value(rows, who, here, metric) / value(rows, who, other, metric)
                    };
                    let one = Point { batch: 1, ..here };
                    for (name, metric) in [
                        ("batching gain", "throughput"),
                        ("mean over batch 1", "mean"),
                        ("p99 over batch 1", "p99"),
                    ] {
                        let ratio = over(rows, one, metric);
                        rows.add(at, name, "ratio", ratio);
                    }
                    let skewed = over(rows, Point { skew: 0.9, ..here }, "throughput");
                    rows.add(at, "throughput over Zipf 0.9", "ratio", skewed);
                    let reads = over(rows, Point { gets: 1.0, ..here }, "throughput");
                    rows.add(at, "throughput over GET 100 %", "ratio", reads);
                }
            }
        }
    }
}
