//! F9: LineFS: file bandwidth by clients and way, with the host idle and busy, with and without compression; A2 and A3 together; CPU for 8 MB;
//! and how the share of clients on A3 trades bandwidth for the network's.

use super::PLATFORM;
use crate::alternative::{Offered, Ran, Setting};
use crate::experiment::Rows;
use crate::platform::{LoadError, Platform, Platforms};
use crate::system::offpath::replication::{Conditions, Way, with};
use crate::workload::{Class, Workload};
use base::Picos;

const CHUNK: u64 = 256 << 10;
/// Of the CPU breakdown.
const UNIT: f64 = 8e6;
/// Chunks go through the stages in crowds, each under way for up to 1.3 ms: a few times that.
const WARM_UP: Picos = Picos::from_micros(2500);
const SPAN: Picos = Picos::from_micros(3500);

const CLIENTS: [u64; 7] = [1, 2, 4, 6, 8, 12, 16];

/// Chunks to two backups.
fn writes(window: u64) -> Workload {
    Workload {
        name: "file-writes".into(),
        title: "File writes, replicated".into(),
        keys: 1,
        skew: 0.0,
        working_set: CHUNK,
        window,
        rate: None,
        host_cores: None,
        places: None,
        classes: vec![Class { store: CHUNK, copies: 3, ..Class::of_bytes("WRITE", (CHUNK, 0)) }],
    }
}

fn build(platform: &Platform, conditions: Conditions, seed: u64) -> Result<(Setting, u64), LoadError> {
    let window = conditions.clients * platform.count("files.window")?;
    Ok((with(platform, &writes(window), conditions, seed)?, window))
}

/// What the server's port carries one way, in Gbps.
fn port(platform: &Platform) -> Result<f64, LoadError> {
    Ok(platform.bandwidth("network.server_bandwidth")? * platform.ratio("network.efficiency")? / 1e9)
}

/// File bandwidth in Gbps.
fn bandwidth(ran: &Ran) -> f64 {
    super::gbps(ran.all.rate(), CHUNK)
}

fn utilisation(ran: &Ran, name: &str) -> f64 {
    ran.resources.iter().find(|one| one.name == name).map_or(0.0, |one| one.utilisation)
}

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    for ratio in [1.0, platform.ratio("files.ratio")?] {
        for busy in [false, true] {
            for clients in CLIENTS {
                let conditions = Conditions { clients, ratio, busy };
                alone(&mut rows, &platform, conditions, seed)?;
                combined(&mut rows, &platform, conditions, seed)?;
            }
        }
    }
    cpu(&mut rows, &platform)?;
    shares(&mut rows, &platform, seed)?;
    ratios(&mut rows);
    Ok(rows)
}

fn point(Conditions { clients, ratio, busy }: Conditions) -> String {
    let host = if busy { "busy" } else { "idle" };
    let clients = if clients == 1 { "1 client".into() } else { format!("{clients} clients") };
    if ratio < 1.0 {
        format!("{clients}, host {host}, ratio {ratio}")
    } else {
        format!("{clients}, host {host}")
    }
}

/// `port` is what the server's port carries one way, in Gbps.
fn add(rows: &mut Rows, at: (&'static str, &str, &str), ran: &Ran, port: f64) {
    rows.add(at, "bandwidth", "Gbps", bandwidth(ran));
    rows.add(at, "mean latency", "us", ran.all.mean() * 1e6);
    rows.add(at, "p99 latency", "us", ran.all.quantile(0.99) * 1e6);
    rows.add(at, "host cores", "cores", ran.host_cores);
    rows.add(at, "SoC cores", "cores", utilisation(ran, "SoC cores") * 8.0);
    let network = utilisation(ran, "server port back");
    rows.add(at, "network bandwidth", "Gbps", network * port);
    rows.add(at, "network utilisation", "ratio", network);
    rows.add(at, "PCIe1 utilisation", "ratio", utilisation(ran, "PCIe1 to device"));
}

fn alone(rows: &mut Rows, platform: &Platform, conditions: Conditions, seed: u64) -> Result<(), LoadError> {
    for (number, way) in Way::ALL.into_iter().enumerate() {
        let (setting, window) = build(platform, conditions, seed)?;
        let shares = [0, 1, 2].map(|at| f64::from(u8::from(at == number)));
        let ran = setting.run(&shares, Offered::Window(window), seed, WARM_UP, SPAN);
        add(rows, ("F9", way.name(), &point(conditions)), &ran, port(platform)?);
    }
    Ok(())
}

/// A2 for the first clients and A3 for the others: the best of some numbers of the first.
fn combined(
    rows: &mut Rows,
    platform: &Platform,
    conditions: Conditions,
    seed: u64,
) -> Result<(), LoadError> {
    let all = conditions.clients;
    let mut tried: Vec<u64> = vec![all / 4, all / 2, all * 3 / 4];
    tried.dedup();
    let mut best: Option<(Ran, u64)> = None;
    for first in tried {
        let (setting, window) = build(platform, conditions, seed)?;
        let share = first as f64 / all as f64;
        let ran = setting.run(&[0.0, share, 1.0 - share], Offered::Window(window), seed, WARM_UP, SPAN);
        if best.as_ref().is_none_or(|(best, _)| bandwidth(&ran) > bandwidth(best)) {
            best = Some((ran, first));
        }
    }
    if let Some((ran, first)) = best {
        let point = point(conditions);
        let at = ("F9", "A2 + A3", &*point);
        add(rows, at, &ran, port(platform)?);
        rows.add(at, "switch point", "clients", first as f64);
    }
    Ok(())
}

/// Time of cores for 8 MB.
fn cpu(rows: &mut Rows, platform: &Platform) -> Result<(), LoadError> {
    for ratio in [1.0, platform.ratio("files.ratio")?] {
        let (setting, _) = build(platform, Conditions { clients: 1, ratio, busy: false }, 1)?;
        for alternative in &setting.alternatives {
            let demand = setting.kernel.demand(alternative.parts[0].program);
            let of = |wanted: &dyn Fn(crate::ResourceId) -> bool| {
                let spans = demand.iter().filter(|d| wanted(d.at)).map(|d| d.service.as_secs_f64());
                spans.sum::<f64>() * UNIT / CHUNK as f64 * 1e3
            };
            let point = if ratio < 1.0 { format!("8 MB, ratio {ratio}") } else { "8 MB".into() };
            let at = ("F9", &*alternative.name, &*point);
            rows.add(at, "host CPU time", "ms", of(&|id| setting.host_cores.contains(&id)));
            rows.add(at, "host CPU time beside the client's", "ms", of(&|id| id == setting.host_cores[0]));
            rows.add(at, "SoC CPU time", "ms", of(&|id| setting.kernel.name_of(id) == "SoC cores"));
        }
    }
    Ok(())
}

/// Fig. 15: clients on A3, the others on A2, at the platform's compression.
fn shares(rows: &mut Rows, platform: &Platform, seed: u64) -> Result<(), LoadError> {
    let ratio = platform.ratio("files.ratio")?;
    for clients in [8, 16] {
        for percent in (0..=100).step_by(10) {
            let (setting, window) = build(platform, Conditions { clients, ratio, busy: false }, seed)?;
            let share = f64::from(percent) / 100.0;
            let ran = setting.run(&[0.0, 1.0 - share, share], Offered::Window(window), seed, WARM_UP, SPAN);
            let point = format!("{clients} clients, {percent} % on A3, ratio {ratio}");
            add(rows, ("F9", "A2 + A3", &point), &ran, port(platform)?);
        }
    }
    Ok(())
}

fn ratios(rows: &mut Rows) {
    let mut more = Rows::default();
    for row in rows.iter() {
        for (other, metric, name) in [
            ("A1", "bandwidth", "bandwidth over A1"),
            ("A2", "bandwidth", "bandwidth over A2"),
            ("A3", "bandwidth", "bandwidth over A3"),
            ("A3", "host CPU time", "host CPU time over A3"),
        ] {
            if row.metric == metric
                && row.variant != other
                && let Some(base) = rows.find("F9", other, &row.point, metric)
            {
                more.add(("F9", &row.variant, &row.point), name, "ratio", row.value / base.value);
            }
        }
    }
    rows.append(more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::shipped::shipped;

    #[test]
    fn a1_stays_below_what_pcie_gives_by_its_ratio_and_falls_with_it() {
        let platform = shipped("bluefield2-ib").expect("it is listed").expect("it is sound");
        // Compression shall not bound it here.
        let platform = platform.with("files.compress", 100.0);
        let mut before = f64::INFINITY;
        for ratio in [0.3, 0.5, 0.7, 0.9, 1.0] {
            let conditions = Conditions { clients: 16, ratio, busy: false };
            let (setting, window) = build(&platform, conditions, 1).expect("it is complete");
            let ran = setting.run(&[1.0, 0.0, 0.0], Offered::Window(window), 1, WARM_UP, SPAN);
            let (bound, rate) = (256.0 / (1.0 + ratio), bandwidth(&ran));
            assert!(rate < bound && rate < before, "{ratio}: {rate} of {bound}");
            assert!(
                rate > 0.8 * bound || utilisation(&ran, "PCIe1 to device") < 0.98,
                "{ratio}: {rate} of {bound}"
            );
            before = rate;
        }
    }
}
