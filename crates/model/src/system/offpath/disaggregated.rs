//! A key-value store in the server's memory, and the ways to get at it: the study's second case.
//!
//! | way | index | value |
//! |---|---|---|
//! | A1 | client READs it in host memory | client READs it in host memory |
//! | A2 | SoC reads it in host memory | SoC reads it there and replies |
//! | A3 | SoC looks in its own memory | SoC reads it in host memory and replies |
//! | A4 | client READs it in SoC memory | client READs it in host memory |
//! | A5 | SoC looks in its own memory, or the client READs it there | likewise if it is cached; else the client READs it in host memory |
//! | host cores | a core looks | and replies |
//!
//! The index has buckets of one lookup each, chained: a get reads one bucket more in a share of cases. SoC memory holds the index first and then
//! the values of the most popular keys; how many requests those are is Zipf's law. Hot keys have replicas (Advice #1), so accesses spread over
//! banks. The SoC reads host memory by its DMA engine (③*), or by RDMA (③).
//!
//! What stores is not cached: the way of the client's own is taken for it, with a WRITE at the end.
//!
//! Source: Wei et al. (OSDI 2023), §5.2; DrTM-KV for the index (Wei et al., SOSP 2015, §5).
//!
//! Not modelled: locks and versions of what stores; filling the cache.

use super::machine::{Card, Machine, Side};
use super::verbs::Verb;
use crate::alternative::{Alternative, Part, Place, Setting};
use crate::kernel::{ProgramId, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use crate::popularity::head_share;
use crate::workload::{Class, Workload};

/// Arguments beyond any number of banks.
const ARGUMENTS: u64 = 1 << 20;
/// Bytes of the address that the SoC tells a client.
const ADDRESS: u64 = 16;
/// A place in the index: a key and where its value is (16 B, four to a bucket).
const SLOT: u64 = 16;

/// A way to get at a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One-sided, all in host memory.
    A1,
    /// The SoC's cores, all in host memory; whether by RDMA.
    A2 {
        /// ③ and not ③*.
        rdma: bool,
    },
    /// The SoC's cores, the index in SoC memory; whether by RDMA.
    A3 {
        /// ③ and not ③*.
        rdma: bool,
    },
    /// One-sided, the index in SoC memory.
    A4,
    /// The SoC's cores, or one-sided, with values in SoC memory.
    A5 {
        /// Without cores.
        one_sided: bool,
    },
    /// The host's cores.
    Host,
}

impl Way {
    /// All that a SmartNIC has.
    pub const ALL: [Way; 9] = [
        Way::A1,
        Way::A2 { rdma: false },
        Way::A2 { rdma: true },
        Way::A3 { rdma: false },
        Way::A3 { rdma: true },
        Way::A4,
        Way::A5 { one_sided: false },
        Way::A5 { one_sided: true },
        Way::Host,
    ];

    /// Short.
    pub const fn name(self) -> &'static str {
        match self {
            Way::A1 => "A1",
            Way::A2 { rdma: false } => "A2",
            Way::A2 { rdma: true } => "A2 by ③",
            Way::A3 { rdma: false } => "A3",
            Way::A3 { rdma: true } => "A3 by ③",
            Way::A4 => "A4",
            Way::A5 { one_sided: false } => "A5",
            Way::A5 { one_sided: true } => "A5 by READ",
            Way::Host => "host cores",
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Way::A1 => "clients READ index and value in host memory (①)",
            Way::A2 { rdma: false } => "SoC cores read index and value in host memory by DMA (②, ③*)",
            Way::A2 { rdma: true } => "SoC cores read index and value in host memory by RDMA (②, ③)",
            Way::A3 { rdma: false } => "SoC cores, index in SoC memory, value by DMA (②, ③*)",
            Way::A3 { rdma: true } => "SoC cores, index in SoC memory, value by RDMA (②, ③)",
            Way::A4 => "clients READ the index in SoC memory (②) and the value in host memory (①)",
            Way::A5 { one_sided: false } => {
                "SoC cores answer from SoC memory (②); what is not there clients READ (①)"
            }
            Way::A5 { one_sided: true } => {
                "clients READ SoC memory (②); what is not there in host memory (①)"
            }
            Way::Host => "host cores answer messages (①)",
        }
    }

    const fn place(self) -> Place {
        match self {
            Way::A1 | Way::A4 | Way::A5 { one_sided: true } => Place::Client,
            Way::A2 { .. } | Way::A3 { .. } => Place::NicCores,
            Way::A5 { one_sided: false } => Place::NicCores,
            Way::Host => Place::Host,
        }
    }
}

/// Numbers of the store.
struct Store {
    /// Share of lookups that read one bucket more.
    chained: f64,
    /// Cycles of a core to look up and to copy.
    cycles: f64,
    /// Share of requests whose value SoC memory has.
    hit: f64,
    /// Whether SoC memory has the index.
    indexed: bool,
}

/// Bytes of SoC memory that a store may fill, and what of a workload's requests it then answers.
fn store(platform: &Platform, workload: &Workload, cached: Option<u64>) -> Result<Store, LoadError> {
    let room = platform.bytes("kv.soc_memory")?;
    let index = workload.keys.saturating_mul(SLOT);
    let pair = (workload.working_set / workload.keys.max(1)).max(1);
    let held = cached.unwrap_or(room.saturating_sub(index) / pair);
    Ok(Store {
        chained: platform.ratio("kv.chained")?,
        cycles: platform.value("kv.lookup", Dimension::Cycles)?,
        hit: head_share(workload.keys, workload.skew, held),
        indexed: index <= room,
    })
}

/// The ways of a workload on a machine with the SmartNIC. Clients are as many machines as keep its window under way, eleven at most.
///
/// # Errors
/// The platform lacks a number.
pub fn setting(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, LoadError> {
    let machines = workload.window.div_ceil(platform.count("client.cores")?).clamp(1, 11);
    with(platform, Card::Snic, workload, (machines, None), seed)
}

/// The same with a card, so many client machines, and so many cached values if not as many as fit. An RNIC has way A1, and the host's cores.
///
/// # Errors
/// The platform lacks a number.
pub fn with(
    platform: &Platform,
    card: Card,
    workload: &Workload,
    (machines, cached): (u64, Option<u64>),
    seed: u64,
) -> Result<Setting, LoadError> {
    let mut machine = Machine::of_fleet(platform, card, machines, seed)?;
    let store = store(platform, workload, cached)?;
    let there = |way: &Way| match way {
        Way::A1 => true,
        Way::Host => workload.host_cores != Some(0),
        Way::A2 { .. } => card == Card::Snic,
        Way::A3 { .. } | Way::A4 | Way::A5 { .. } => card == Card::Snic && store.indexed,
    };
    let alternatives = Way::ALL.into_iter().filter(there).map(|way| Alternative {
        name: way.name().into(),
        what: way.what().into(),
        place: way.place(),
        parts: workload.classes.iter().flat_map(|class| parts(&mut machine, &store, class, way)).collect(),
    });
    let alternatives = alternatives.collect();
    let host_cores = vec![machine.processor(Side::Host).cores.at];
    Ok(Setting { kernel: machine.kernel, alternatives, host_cores, power: vec![], arguments: ARGUMENTS })
}

/// A class's operations by a way: with one bucket or two, the value cached or not.
fn parts(machine: &mut Machine, store: &Store, class: &Class, way: Way) -> Vec<Part> {
    let cached = matches!(way, Way::A5 { .. });
    // What must be stored, or must not be kept twice, goes where its one place is.
    let way = match way {
        Way::A5 { .. } if !class.cacheable || class.store > 0 => Way::A4,
        other => other,
    };
    let mut parts = vec![];
    for (chain, of_chain) in [(0, 1.0 - store.chained), (1, store.chained)] {
        for (hit, of_hit) in [(true, store.hit), (false, 1.0 - store.hit)] {
            let share = class.share * if class.lookups > 1 { of_chain } else { 1.0 };
            let share = share * if cached { of_hit } else { 1.0 };
            let repeated = (!cached && !hit) || (class.lookups < 2 && chain > 0);
            if share <= 0.0 || repeated {
                continue;
            }
            // The last of the dependent accesses is the value's.
            let buckets = class.lookups.saturating_sub(1) + if class.lookups > 1 { chain } else { 0 };
            let program = operation(machine, store, class, (way, buckets, hit));
            parts.push(Part { class: class.name.clone(), share, program });
        }
    }
    parts
}

fn operation(
    machine: &mut Machine,
    store: &Store,
    class: &Class,
    (way, buckets, hit): (Way, u64, bool),
) -> ProgramId {
    let steps = match way {
        Way::A1 => one_sided(machine, class, buckets, (Side::Host, Side::Host)),
        Way::A4 => one_sided(machine, class, buckets, (Side::Soc, Side::Host)),
        Way::A5 { one_sided: true } => {
            let value = if hit { Side::Soc } else { Side::Host };
            one_sided(machine, class, buckets, (Side::Soc, value))
        }
        Way::A2 { rdma } => {
            let index = (0..buckets).flat_map(|_| fetch(machine, Verb::Read, class.lookup, rdma));
            let index: Vec<_> = index.collect();
            let value = value(machine, class, rdma);
            answered(machine, store, class, (Side::Soc, class.reply), [index, value].concat())
        }
        Way::A3 { rdma } => {
            let value = value(machine, class, rdma);
            answered(machine, store, class, (Side::Soc, class.reply), value)
        }
        Way::A5 { one_sided: false } if hit => {
            answered(machine, store, class, (Side::Soc, class.reply), vec![])
        }
        Way::A5 { one_sided: false } => {
            let asked = answered(machine, store, class, (Side::Soc, ADDRESS), vec![]);
            [asked, one_sided(machine, class, 0, (Side::Soc, Side::Host))].concat()
        }
        Way::Host => answered(machine, store, class, (Side::Host, class.reply), vec![]),
    };
    machine.kernel.program(way.name(), steps)
}

/// A client READs buckets one after the other, and then READs or WRITEs the value.
fn one_sided(machine: &mut Machine, class: &Class, buckets: u64, (index, value): (Side, Side)) -> Vec<Step> {
    let mut steps = vec![];
    for _ in 0..buckets {
        steps.extend(machine.one_sided_steps(0, Verb::Read, index, class.lookup, 1));
    }
    let (verb, bytes) = if class.store > 0 { (Verb::Write, class.store) } else { (Verb::Read, class.reply) };
    steps.extend(machine.one_sided_steps(0, verb, value, bytes, 1));
    steps
}

/// A client asks cores of a side, which look up, do `work` and reply.
fn answered(
    machine: &mut Machine,
    store: &Store,
    class: &Class,
    (side, reply): (Side, u64),
    work: Vec<Step>,
) -> Vec<Step> {
    let request = class.request + class.store;
    machine.two_sided_steps(0, side, (request, reply), (store.cycles + class.cycles, work))
}

/// The SoC gets the value in host memory, or puts it there.
fn value(machine: &mut Machine, class: &Class, rdma: bool) -> Vec<Step> {
    if class.store > 0 {
        fetch(machine, Verb::Write, class.store, rdma)
    } else {
        fetch(machine, Verb::Read, class.reply, rdma)
    }
}

fn fetch(machine: &mut Machine, verb: Verb, bytes: u64, rdma: bool) -> Vec<Step> {
    if rdma {
        machine.through_nic_steps(Side::Soc, verb, bytes, BATCH)
    } else {
        machine.by_dma_steps(verb, bytes)
    }
}

/// Doorbells of the SoC's own requests, where it posts any: the study batches them.
const BATCH: u64 = 16;
