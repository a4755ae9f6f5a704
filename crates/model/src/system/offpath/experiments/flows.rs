//! F2: two requesters with twelve threads each, 4 KB: bandwidth of flows in one direction, in opposite directions, and of paths together.

use super::{Flow, PLATFORM, Requesters, gbps, measure, size, total, warm_up};
use crate::experiment::Rows;
use crate::platform::{LoadError, Platforms};
use crate::system::offpath::machine::{Card, Machine, Side};
use crate::system::offpath::verbs::Verb::{self, Read, Write};

const HOST: Side = Side::Host;
const SOC: Side = Side::Soc;

const fn one(side: Side, verb: Verb) -> Flow {
    Flow::OneSided(side, verb)
}

const fn inner(from: Side, verb: Verb) -> Flow {
    Flow::Internal(from, verb)
}

/// A variant, its card, and which of its flows go together.
type Combinations = (&'static str, Card, &'static [(&'static str, &'static [Flow])]);

/// Every flow is done by both requesters, or by the cores of its side.
const COMBINATIONS: [Combinations; 10] = [
    (
        "RNIC ①",
        Card::Rnic,
        &[
            ("READ", &[one(HOST, Read)]),
            ("WRITE", &[one(HOST, Write)]),
            ("READ + WRITE", &[one(HOST, Read), one(HOST, Write)]),
        ],
    ),
    (
        "SNIC ①",
        Card::Snic,
        &[
            ("READ", &[one(HOST, Read)]),
            ("WRITE", &[one(HOST, Write)]),
            ("READ + WRITE", &[one(HOST, Read), one(HOST, Write)]),
        ],
    ),
    (
        "SNIC ②",
        Card::Snic,
        &[
            ("READ", &[one(SOC, Read)]),
            ("WRITE", &[one(SOC, Write)]),
            ("READ + WRITE", &[one(SOC, Read), one(SOC, Write)]),
        ],
    ),
    (
        "SNIC ③ S2H",
        Card::Snic,
        &[
            ("READ", &[inner(SOC, Read)]),
            ("WRITE", &[inner(SOC, Write)]),
            ("READ + WRITE", &[inner(SOC, Read), inner(SOC, Write)]),
        ],
    ),
    (
        "SNIC ③ H2S",
        Card::Snic,
        &[
            ("READ", &[inner(HOST, Read)]),
            ("WRITE", &[inner(HOST, Write)]),
            ("READ + WRITE", &[inner(HOST, Read), inner(HOST, Write)]),
        ],
    ),
    (
        "SNIC ③*",
        Card::Snic,
        &[
            ("READ", &[Flow::Dma(Read)]),
            ("WRITE", &[Flow::Dma(Write)]),
            ("READ + WRITE", &[Flow::Dma(Read), Flow::Dma(Write)]),
        ],
    ),
    (
        "SNIC ① + ②",
        Card::Snic,
        &[
            ("READ + READ", &[one(HOST, Read), one(SOC, Read)]),
            ("WRITE + WRITE", &[one(HOST, Write), one(SOC, Write)]),
            ("READ + WRITE", &[one(HOST, Read), one(SOC, Write)]),
            ("WRITE + READ", &[one(HOST, Write), one(SOC, Read)]),
        ],
    ),
    (
        "SNIC ① + ③ H2S",
        Card::Snic,
        &[
            ("READ + READ", &[one(HOST, Read), inner(HOST, Read)]),
            ("WRITE + WRITE", &[one(HOST, Write), inner(HOST, Write)]),
            ("READ + WRITE", &[one(HOST, Read), inner(HOST, Write)]),
            ("WRITE + READ", &[one(HOST, Write), inner(HOST, Read)]),
        ],
    ),
    (
        "SNIC ② + ③ S2H",
        Card::Snic,
        &[
            ("READ + READ", &[one(SOC, Read), inner(SOC, Read)]),
            ("WRITE + WRITE", &[one(SOC, Write), inner(SOC, Write)]),
            ("READ + WRITE", &[one(SOC, Read), inner(SOC, Write)]),
            ("WRITE + READ", &[one(SOC, Write), inner(SOC, Read)]),
        ],
    ),
    (
        "SNIC ① + ③*",
        Card::Snic,
        &[
            ("READ + READ", &[one(HOST, Read), Flow::Dma(Read)]),
            ("WRITE + WRITE", &[one(HOST, Write), Flow::Dma(Write)]),
            ("READ + WRITE", &[one(HOST, Read), Flow::Dma(Write)]),
            ("WRITE + READ", &[one(HOST, Write), Flow::Dma(Read)]),
        ],
    ),
];

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let requesters =
        Requesters { window: 12 * Requesters::new(&platform)?.each_core, ..Requesters::new(&platform)? };
    let mut rows = Rows::default();
    for (variant, card, combinations) in COMBINATIONS {
        for (name, flows) in combinations {
            for bytes in [4096, 65_536, 262_144] {
                let mut machine = Machine::new(&platform, card, 2, seed)?;
                let mut loops = vec![];
                let mut begins = vec![];
                for flow in *flows {
                    begins.push(loops.len());
                    loops.extend(requesters.loops(&mut machine, *flow, &[0, 1], bytes, 1));
                }
                let links = machine.links();
                let (sim, seen) = measure(machine, &loops, bytes, seed);
                let point = format!("{name} {}", size(bytes));
                let at = ("F2", variant, &*point);
                rows.add(at, "bandwidth", "Gbps", gbps(total(&seen), bytes));
                rows.add(at, "throughput", "Mops", total(&seen) / 1e6);
                begins.push(seen.len());
                for (number, part) in begins.windows(2).enumerate().filter(|_| flows.len() > 1) {
                    let metric = ["bandwidth of the first", "bandwidth of the second"][number];
                    rows.add(at, metric, "Gbps", gbps(total(&seen[part[0]..part[1]]), bytes));
                }
                for (metric, link) in ["PCIe1 packets", "PCIe0 packets"].into_iter().zip(links) {
                    let packets = sim.with(|k| k.usage(link.to_host).units + k.usage(link.to_device).units);
                    let over = 2.0 * warm_up(bytes).as_secs_f64();
                    rows.add(at, metric, "Mpps", packets as f64 / over / 1e6);
                }
            }
        }
    }
    Ok(rows)
}
