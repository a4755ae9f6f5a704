//! F1: latency with one request under way, throughput and bandwidth at the peak, by path, verb and payload; and the ratios to the RNIC and to the
//! SmartNIC's host path.

use super::{CLIENTS, Flow, PLATFORM, Requesters, add_latencies, alone, gbps, measure, peak, size, total};
use crate::experiment::Rows;
use crate::platform::{LoadError, Platforms};
use crate::system::offpath::machine::{Card, Machine, Side};
use crate::system::offpath::verbs::Verb;

const PAYLOADS: [u64; 13] = [0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 65_536];
/// A datagram has one packet.
const DATAGRAM: u64 = 4096;

type Path = (&'static str, Card, [Flow; 3]);

const PATHS: [Path; 6] = [
    ("RNIC ①", Card::Rnic, clients(Side::Host)),
    ("SNIC ①", Card::Snic, clients(Side::Host)),
    ("SNIC ②", Card::Snic, clients(Side::Soc)),
    ("SNIC ③ S2H", Card::Snic, cores(Side::Soc)),
    ("SNIC ③ H2S", Card::Snic, cores(Side::Host)),
    ("SNIC ③*", Card::Snic, [Flow::Dma(Verb::Read), Flow::Dma(Verb::Write), Flow::Dma(Verb::Read)]),
];

const fn clients(side: Side) -> [Flow; 3] {
    [Flow::OneSided(side, Verb::Read), Flow::OneSided(side, Verb::Write), Flow::TwoSided(side)]
}

const fn cores(from: Side) -> [Flow; 3] {
    [Flow::Internal(from, Verb::Read), Flow::Internal(from, Verb::Write), Flow::InternalMessage(from)]
}

/// Variants that others are compared with, the metrics in which, and what the ratio is called.
const AGAINST: [(&str, &str, &str); 6] = [
    ("RNIC ①", "latency", "latency over RNIC ①"),
    ("RNIC ①", "throughput", "throughput over RNIC ①"),
    ("SNIC ①", "latency", "latency over SNIC ①"),
    ("SNIC ①", "throughput", "throughput over SNIC ①"),
    ("SNIC ②", "latency", "latency over SNIC ②"),
    ("SNIC ②", "throughput", "throughput over SNIC ②"),
];

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    for (variant, card, flows) in PATHS {
        for (number, flow) in flows.into_iter().enumerate() {
            let two_sided = matches!(flow, Flow::TwoSided(_) | Flow::InternalMessage(_));
            // The engine knows no messages.
            let repeated = flows[..number].contains(&flow);
            for bytes in PAYLOADS.into_iter().filter(|bytes| !repeated && (!two_sided || *bytes <= DATAGRAM))
            {
                let point = format!("{} {}", flow.name(), size(bytes));
                let at = ("F1", variant, &*point);
                rows.add(at, "latency", "us", alone(&platform, (card, flow), (bytes, 1))?);
                let machines = if flow.is_internal() { 1 } else { CLIENTS };
                let (rate, seen) = peak(&platform, (card, flow), machines, (bytes, 1), seed)?;
                rows.add(at, "throughput", "Mops", rate / 1e6);
                rows.add(at, "bandwidth", "Gbps", gbps(rate, bytes));
                add_latencies(&mut rows, at, &seen);
            }
        }
    }
    together(&mut rows, platforms, seed)?;
    ratios(&mut rows);
    Ok(rows)
}

/// ① + ② with half of the clients each, ① + ③ with five clients and the host's threads.
fn together(rows: &mut Rows, platforms: &Platforms, seed: u64) -> Result<(), LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let requesters = Requesters::new(&platform)?;
    for verb in Verb::ALL {
        for bytes in [0, 16, 64, 256, 512, 1024, 4096, 16_384] {
            let host = Flow::OneSided(Side::Host, verb);
            let combinations = [
                ("SNIC ① + ②", host, Flow::OneSided(Side::Soc, verb), 0..5, 5..10),
                ("SNIC ① + ③", host, Flow::Internal(Side::Host, verb), 0..5, 0..0),
                ("SNIC ② + ③", Flow::OneSided(Side::Soc, verb), Flow::Internal(Side::Host, verb), 0..5, 0..0),
            ];
            for (variant, first, second, those, others) in combinations {
                let mut machine = Machine::new(&platform, Card::Snic, 10, seed)?;
                let those: Vec<_> = those.collect();
                let others: Vec<_> = others.collect();
                let mut loops = requesters.loops(&mut machine, first, &those, bytes, 1);
                let of_first = loops.len();
                loops.extend(requesters.loops(&mut machine, second, &others, bytes, 1));
                let (_, seen) = measure(machine, &loops, bytes, seed);
                let point = format!("{} {}", verb.name(), size(bytes));
                let at = ("F1", variant, &*point);
                rows.add(at, "throughput", "Mops", total(&seen) / 1e6);
                rows.add(at, "bandwidth", "Gbps", gbps(total(&seen), bytes));
                rows.add(at, "throughput of the first", "Mops", total(&seen[..of_first]) / 1e6);
                rows.add(at, "throughput of the second", "Mops", total(&seen[of_first..]) / 1e6);
            }
        }
    }
    Ok(())
}

fn ratios(rows: &mut Rows) {
    let mut more = Rows::default();
    for row in rows.iter() {
        for (other, metric, name) in AGAINST {
            if row.metric == metric
                && row.variant != other
                && let Some(base) = rows.find("F1", other, &row.point, metric)
            {
                more.add(("F1", &row.variant, &row.point), name, "ratio", row.value / base.value);
            }
        }
    }
    rows.append(more);
}
