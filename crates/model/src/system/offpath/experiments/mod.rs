//! The study's setups. Each file reports everything that its setups measure; what was published is not known here.
//!
//! | id | figure | file |
//! |---|---|---|
//! | F1 | 3: latency and throughput by path | `paths` |
//! | F2 | 5b: flows in the same and in opposite directions | `flows` |
//! | F3 | 7: requests to a small range of addresses | `ranges` |
//! | F4, F5 | 8, 9: bandwidth and packets on PCIe by payload | `packets` |
//! | F6 | 10: posting, doorbell batches | `doorbells` |
//! | F7 | 11: RDMA and DMA between SoC and host | `engine` |
//! | F8 | 12: one responder after the other, and both at once | `responders` |
//! | F9 | 13, 15: file replication | `files` |
//! | F10 | 17, 18: disaggregated key-value store | `pairs` |

mod doorbells;
mod engine;
mod files;
mod flows;
mod packets;
mod pairs;
mod paths;
mod ranges;
mod responders;

use super::machine::{Card, Machine, Side};
use super::verbs::Verb;
use crate::experiment::{Experiment, Rows};
use crate::kernel::ProgramId;
use crate::load::{Loop, Seen, closed};
use crate::platform::{LoadError, Platform};
use crate::sim::Sim;
use base::Picos;

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment { id: "F1", title: "latency and throughput by path", run: &paths::run },
    Experiment { id: "F2", title: "bandwidth of flows and their combinations", run: &flows::run },
    Experiment { id: "F3", title: "requests to a small range of addresses", run: &ranges::run },
    Experiment {
        id: "F4",
        title: "bandwidth and packets on PCIe, client and server",
        run: &packets::network,
    },
    Experiment { id: "F5", title: "bandwidth and packets on PCIe, SoC and host", run: &packets::internal },
    Experiment { id: "F6", title: "posting and doorbell batches", run: &doorbells::run },
    Experiment { id: "F7", title: "RDMA and DMA between SoC and host", run: &engine::run },
    Experiment { id: "F8", title: "one responder after the other, and both at once", run: &responders::run },
    Experiment { id: "F9", title: "file replication by alternative and combined", run: &files::run },
    Experiment {
        id: "F10",
        title: "disaggregated key-value store by alternative and combined",
        run: &pairs::run,
    },
];

/// Of all experiments here.
const PLATFORM: &str = "bluefield2-ib";
/// Requester machines at the peak.
const CLIENTS: usize = 11;
/// Addresses are random in 10 GB.
const FAR: u64 = 10 << 30;

/// What a requester does, to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// ①, ②: a client's one-sided operation.
    OneSided(Side, Verb),
    /// ①, ②: a client's message to cores that answer.
    TwoSided(Side),
    /// ③: of this side, on the other's memory.
    Internal(Side, Verb),
    /// ③: of this side, to the other's cores.
    InternalMessage(Side),
    /// ③*.
    Dma(Verb),
}

impl Flow {
    /// The operation's name.
    const fn name(self) -> &'static str {
        match self {
            Flow::OneSided(_, verb) | Flow::Internal(_, verb) | Flow::Dma(verb) => verb.name(),
            Flow::TwoSided(_) | Flow::InternalMessage(_) => "SEND/RECV",
        }
    }

    /// Whose memory is worked on.
    const fn responder(self) -> Side {
        match self {
            Flow::OneSided(side, _) | Flow::TwoSided(side) => side,
            Flow::Internal(from, _) | Flow::InternalMessage(from) => from.other(),
            Flow::Dma(_) => Side::Host,
        }
    }

    /// The program of it; `client` matters for those that clients do.
    fn program(self, machine: &mut Machine, client: usize, bytes: u64, batch: u64) -> ProgramId {
        match self {
            Flow::OneSided(side, verb) => machine.one_sided_batch(client, verb, side, bytes, batch),
            Flow::TwoSided(side) => machine.two_sided(client, side, bytes, bytes),
            Flow::Internal(from, verb) => machine.through_nic(from, verb, bytes, batch),
            Flow::InternalMessage(from) => machine.message_through_nic(from, bytes, batch),
            Flow::Dma(verb) => machine.by_dma(verb, bytes),
        }
    }

    fn is_internal(self) -> bool {
        !matches!(self, Flow::OneSided(..) | Flow::TwoSided(_))
    }
}

/// Who keeps how many requests under way.
#[derive(Clone, Copy, Debug)]
struct Requesters {
    /// Of each client machine.
    window: u64,
    /// Of a core of host or SoC.
    each_core: u64,
}

impl Requesters {
    fn new(platform: &Platform) -> Result<Requesters, LoadError> {
        let window = platform.count("client.window")?;
        Ok(Requesters { window, each_core: window.div_ceil(platform.count("client.cores")?) })
    }

    /// Loops of all clients for a flow of theirs, or the loop of the cores for an internal one; large requests need fewer under way.
    fn loops(
        self,
        machine: &mut Machine,
        flow: Flow,
        clients: &[usize],
        bytes: u64,
        batch: u64,
    ) -> Vec<Loop> {
        let arguments = machine.blocks(flow.responder(), FAR);
        let fewer = |window: u64| window.min((FEW_BYTES / bytes.max(1)).max(4));
        if flow.is_internal() {
            let cores = match flow {
                Flow::Internal(from, _) | Flow::InternalMessage(from) => machine.processor(from).cores.at,
                _ => machine.processor(Side::Soc).cores.at,
            };
            let window = fewer(machine.kernel.servers(cores) as u64 * self.each_core.max(batch));
            let mix = flow.program(machine, 0, bytes, batch).into();
            return vec![Loop { mix, window, arguments: arguments.max(BLOCKS) }];
        }
        let loops = clients.iter().map(|client| {
            let mix = flow.program(machine, *client, bytes, batch).into();
            Loop { mix, window: fewer(self.window), arguments: arguments.max(BLOCKS) }
        });
        loops.collect()
    }
}

/// Bytes under way of each requester: a hundred Gbps for twenty microseconds saturate every link here.
const FEW_BYTES: u64 = 256 << 10;
/// Far addresses are in any block: enough of them that none is preferred.
const BLOCKS: u64 = 1 << 20;

fn warm_up(bytes: u64) -> Picos {
    Picos::from_micros(25 + bytes / 2048)
}

/// Runs them together long enough for what takes longest: operations of so many bytes.
fn measure(machine: Machine, loops: &[Loop], bytes: u64, seed: u64) -> (Sim, Vec<Seen>) {
    // So many bytes take 40 ns for each KiB at 200 Gbps.
    let long = warm_up(bytes);
    let sim = Sim::new(machine.kernel);
    let seen = closed(&sim, seed, loops, long, Picos(2 * long.0));
    (sim, seen)
}

fn total(seen: &[Seen]) -> f64 {
    seen.iter().map(Seen::rate).sum()
}

fn gbps(rate: f64, bytes: u64) -> f64 {
    rate * bytes as f64 * 8.0 / 1e9
}

/// Mean, median and 99th percentile of all of them together, in rows.
fn add_latencies(rows: &mut Rows, at: (&'static str, &str, &str), seen: &[Seen]) {
    let Some((first, others)) = seen.split_first() else { return };
    let all = others.iter().fold(first.clone(), Seen::and);
    rows.add(at, "mean latency at peak", "us", all.mean() * 1e6);
    rows.add(at, "p50 latency at peak", "us", all.quantile(0.5) * 1e6);
    rows.add(at, "p99 latency at peak", "us", all.quantile(0.99) * 1e6);
}

/// Throughput of a flow by so many clients, or by the cores of its side.
fn peak(
    platform: &Platform,
    (card, flow): (Card, Flow),
    clients: usize,
    (bytes, batch): (u64, u64),
    seed: u64,
) -> Result<(f64, Vec<Seen>), LoadError> {
    let mut machine = Machine::new(platform, card, clients, seed)?;
    let all: Vec<_> = (0..clients).collect();
    let loops = Requesters::new(platform)?.loops(&mut machine, flow, &all, bytes, batch);
    let (_, seen) = measure(machine, &loops, bytes, seed);
    Ok((total(&seen), seen))
}

/// Latency of an operation when nothing else is there, in microseconds.
fn alone(
    platform: &Platform,
    (card, flow): (Card, Flow),
    (bytes, batch): (u64, u64),
) -> Result<f64, LoadError> {
    let mut machine = Machine::new(platform, card, 1, 1)?;
    let program = flow.program(&mut machine, 0, bytes, batch);
    Ok(machine.kernel.unloaded(program).as_secs_f64() * 1e6)
}

fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{} MB", b >> 20),
        b if b >= 8192 && b % 1024 == 0 => format!("{} KB", b >> 10),
        b => format!("{b} B"),
    }
}
