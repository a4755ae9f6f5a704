//! F10: the disaggregated store (YCSB C on DrTM-KV): latency of each way, throughput by client machines, A4 and A5 together, and how many values
//! the SoC has cached.

use super::PLATFORM;
use crate::alternative::{Alternative, Offered, Place, Ran, Setting};
use crate::experiment::Rows;
use crate::platform::{LoadError, Platform, Platforms};
use crate::system::offpath::disaggregated::with;
use crate::system::offpath::machine::Card;
use crate::workload::{Class, Workload};
use base::Picos;

/// Client machines.
const MACHINES: u64 = 11;
/// Keys: about as many as fill the 10 GB that addresses are drawn from.
const KEYS: u64 = 100_000_000;
/// Requests of a machine under way: four of each of its threads.
const WINDOW: u64 = 96;
/// As long as all requests take a few times: cores of the SoC do few per microsecond, and the first come in a crowd.
const WARM_UP: Picos = Picos::from_micros(30);
const WARM_UP_OF_CORES: Picos = Picos::from_micros(300);
const SPAN: Picos = Picos::from_micros(50);
const SPAN_OF_CORES: Picos = Picos::from_micros(200);

/// More than these do not gain by A5: half of them fill the SoC's cores.
const MOST_OF_FIRST: u64 = 6;

/// Fig. 18's ways, and all others.
const WAYS: [&str; 9] = ["A1", "A2", "A2 by ③", "A3", "A3 by ③", "A4", "A5", "A5 by READ", "host cores"];

/// Gets: an 8 B key, a bucket of 64 B, a value of 64 B.
fn gets(window: u64) -> Workload {
    Workload {
        name: "ycsb-c".into(),
        title: "YCSB C".into(),
        keys: KEYS,
        skew: 0.99,
        working_set: 10 << 30,
        window,
        rate: None,
        host_cores: None,
        places: None,
        classes: vec![Class {
            name: "GET".into(),
            share: 1.0,
            request: 16,
            reply: 64,
            lookups: 2,
            lookup: 64,
            rows: 0,
            row: 0,
            store: 0,
            copies: 0,
            cycles: 0.0,
            fields: 0,
            cacheable: true,
            calls: Vec::new(),
            slo: crate::workload::Slo::default(),
        }],
    }
}

/// Values that the SoC has cached: all, unless said otherwise.
fn build(
    platform: &Platform,
    card: Card,
    (machines, cached): (u64, u64),
    seed: u64,
) -> Result<(Setting, u64), LoadError> {
    let window = machines * WINDOW;
    Ok((with(platform, card, &gets(window), (machines, Some(cached)), seed)?, window))
}

/// One for this way, nothing for the others.
fn only(setting: &Setting, way: &str) -> Vec<f64> {
    setting.alternatives.iter().map(|one| f64::from(u8::from(one.name == way))).collect()
}

/// Runs a combination, long enough for the cores that have a part in it.
fn go(setting: Setting, shares: &[f64], window: u64, seed: u64) -> Ran {
    let by_cores = |(one, share): (&Alternative, &f64)| {
        *share > 0.0 && matches!(one.place, Place::NicCores | Place::Host)
    };
    let slow = setting.alternatives.iter().zip(shares).any(by_cores);
    // Together with clients' own requests, which are many, the crowd is gone sooner.
    let alone = shares.iter().filter(|share| **share > 0.0).count() == 1;
    let (warm_up, span) = match (slow, alone) {
        (true, true) => (WARM_UP_OF_CORES, SPAN_OF_CORES),
        (true, false) => (Picos(2 * WARM_UP.0), SPAN),
        (false, _) => (WARM_UP, SPAN),
    };
    setting.run(shares, Offered::Window(window), seed, warm_up, span)
}

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    one_way(&mut rows, &platform, ("RNIC", Card::Rnic, "A1"), seed)?;
    one_way(&mut rows, &platform, ("RNIC host cores", Card::Rnic, "host cores"), seed)?;
    for way in WAYS {
        one_way(&mut rows, &platform, (way, Card::Snic, way), seed)?;
    }
    together(&mut rows, &platform, seed)?;
    partly_cached(&mut rows, &platform, seed)?;
    ratios(&mut rows);
    Ok(rows)
}

/// Latency of one get, and throughput by client machines.
fn one_way(
    rows: &mut Rows,
    platform: &Platform,
    (variant, card, way): (&str, Card, &str),
    seed: u64,
) -> Result<(), LoadError> {
    let (setting, _) = build(platform, card, (1, KEYS), seed)?;
    let parts = &setting.alternatives.iter().find(|one| one.name == way).expect("it is listed").parts;
    let alone =
        |part: &crate::alternative::Part| part.share * setting.kernel.unloaded(part.program).as_secs_f64();
    rows.add(("F10", variant, "1 client"), "latency", "us", parts.iter().map(alone).sum::<f64>() * 1e6);
    for machines in 1..=MACHINES {
        let (setting, window) = build(platform, card, (machines, KEYS), seed)?;
        let shares = only(&setting, way);
        let ran = go(setting, &shares, window, seed);
        let point = clients(machines);
        let at = ("F10", variant, &*point);
        rows.add(at, "throughput", "Mops", ran.all.rate() / 1e6);
        rows.add(at, "mean latency under load", "us", ran.all.mean() * 1e6);
        rows.add(at, "p50 latency under load", "us", ran.all.quantile(0.5) * 1e6);
        rows.add(at, "p99 latency under load", "us", ran.all.quantile(0.99) * 1e6);
        let soc = ran.resources.iter().find(|one| one.name == "SoC cores");
        rows.add(at, "SoC cores", "cores", soc.map_or(0.0, |soc| soc.utilisation * 8.0));
        rows.add(at, "host cores", "cores", ran.host_cores);
        if machines == MACHINES {
            rows.add(("F10", variant, ""), "peak", "Mops", ran.all.rate() / 1e6);
        }
    }
    Ok(())
}

fn clients(machines: u64) -> String {
    if machines == 1 { "1 client".into() } else { format!("{machines} clients") }
}

/// A5 for the first client machines, A4 for the others: the best number of the first, by how many there are.
fn together(rows: &mut Rows, platform: &Platform, seed: u64) -> Result<(), LoadError> {
    for (variant, first) in [("A4 + A5", "A5"), ("A4 + A5 by READ", "A5 by READ")] {
        // Where both are the clients' own, one place of the axis says enough.
        let least = if first == "A5" { 1 } else { MACHINES };
        for machines in least..=MACHINES {
            let mut best = (0.0, 0.0, 0);
            for of_first in 0..=machines.min(MOST_OF_FIRST) {
                let (setting, window) = build(platform, Card::Snic, (machines, KEYS), seed)?;
                let share = of_first as f64 / machines as f64;
                let shares: Vec<_> = only(&setting, first)
                    .iter()
                    .zip(only(&setting, "A4"))
                    .map(|(first, other)| first * share + other * (1.0 - share))
                    .collect();
                let ran = go(setting, &shares, window, seed);
                let rate = ran.all.rate() / 1e6;
                if machines == MACHINES {
                    let point = format!("{of_first} of {machines} clients by {first}");
                    let at = ("F10", variant, &*point);
                    rows.add(at, "throughput", "Mops", rate);
                    rows.add(at, "p99 latency under load", "us", ran.all.quantile(0.99) * 1e6);
                }
                if rate > best.0 {
                    best = (rate, ran.all.mean() * 1e6, of_first);
                }
            }
            let point = clients(machines);
            let at = ("F10", variant, &*point);
            rows.add(at, "throughput", "Mops", best.0);
            rows.add(at, "mean latency under load", "us", best.1);
            rows.add(at, "switch point", "clients", best.2 as f64);
            if machines == MACHINES {
                rows.add(("F10", variant, ""), "peak", "Mops", best.0);
            }
        }
    }
    Ok(())
}

/// A5 when the SoC has the values of so many keys; the others' clients READ the host's memory.
fn partly_cached(rows: &mut Rows, platform: &Platform, seed: u64) -> Result<(), LoadError> {
    for way in ["A5", "A5 by READ"] {
        for percent in [0, 1, 5, 10, 25, 50, 75, 100] {
            let (setting, window) = build(platform, Card::Snic, (MACHINES, KEYS / 100 * percent), seed)?;
            let shares = only(&setting, way);
            let ran = go(setting, &shares, window, seed);
            let point = format!("{percent} % of the values cached");
            rows.add(("F10", way, &point), "throughput", "Mops", ran.all.rate() / 1e6);
            rows.add(("F10", way, &point), "p99 latency under load", "us", ran.all.quantile(0.99) * 1e6);
        }
    }
    Ok(())
}

fn ratios(rows: &mut Rows) {
    let against = [
        ("RNIC", "peak", "peak over RNIC"),
        ("RNIC", "latency", "latency over RNIC"),
        ("A1", "peak", "peak over A1"),
        ("A1", "latency", "latency over A1"),
        ("A4", "peak", "peak over A4"),
        ("A4", "latency", "latency over A4"),
        ("A5", "peak", "peak over A5"),
        ("A5", "latency", "latency over A5"),
    ];
    let mut more = Rows::default();
    for row in rows.iter() {
        for (other, metric, name) in against {
            if row.metric == metric
                && row.variant != other
                && let Some(base) = rows.find("F10", other, &row.point, metric)
            {
                more.add(("F10", &row.variant, &row.point), name, "ratio", row.value / base.value);
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
    fn a4_and_a5_together_beat_each_alone() {
        let platform = shipped("bluefield2-ib").expect("it is listed").expect("it is sound");
        let rate = |shares: &[(&str, f64)]| {
            let (setting, window) =
                build(&platform, Card::Snic, (MACHINES, KEYS), 1).expect("it is complete");
            let of =
                |name: &str| shares.iter().find(|(way, _)| *way == name).map_or(0.0, |(_, share)| *share);
            let shares: Vec<_> = setting.alternatives.iter().map(|one| of(&one.name)).collect();
            go(setting, &shares, window, 1).all.rate()
        };
        let (a4, a5) = (rate(&[("A4", 1.0)]), rate(&[("A5", 1.0)]));
        let both = rate(&[("A4", 8.0 / 11.0), ("A5", 3.0 / 11.0)]);
        assert!(both > a4 && a4 > a5, "{both} {a4} {a5}");
    }
}
