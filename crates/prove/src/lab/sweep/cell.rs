//! One point of the sweep: a network of one shape under one load, warmed up, then counted.

use super::network::{Network, Shape};
use super::theory::Load;
use base::{Nanos, Prng};
use protocol::coherence::{Config, Policy, lease};
use serde::Serialize;
use sim::workload::Keys;

/// So many requests per copy and box before anything is counted, …
const WARM_PER_COPY: u64 = 40;
/// … but at least for so many leases.
const WARM_LEASES: f64 = 3.0;
/// Counted, per copy and box, …
const COUNTED_PER_COPY: u64 = 20;
/// … and at least.
const COUNTED: u64 = 100_000;
/// Leases that no run sees the end of.
const ENDLESS: Nanos = Nanos::from_secs(3600);

/// What takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// Whether leases end.
    pub leases: bool,
    /// Whether there are writes.
    pub writes: bool,
    /// Whether an upper box leaves copies to those below it.
    pub exclusive: bool,
}

/// A point: what was asked of which network.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The boxes.
    pub shape: Shape,
    /// At each box that clients ask.
    pub load: Load,
    /// Of all machines, but for what the case says.
    pub config: Config,
    /// What takes part.
    pub case: Case,
}

/// Who answered the reads, as shares of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// The boxes that clients ask.
    pub tors: f64,
    /// The box above them.
    pub root: f64,
}

impl Cell {
    /// What the machines are made with.
    fn config(&self) -> Config {
        Config {
            lease: if self.case.leases { self.config.lease } else { ENDLESS },
            policy: if self.case.exclusive { Policy::Exclusive } else { Policy::Inclusive },
            ..self.config.clone()
        }
    }

    /// The load, without writes where the case has none.
    pub fn load(&self) -> Load {
        Load { writes: if self.case.writes { self.load.writes } else { 0.0 }, ..self.load }
    }

    /// What a box that clients ask answers at best.
    pub fn theory(&self) -> f64 {
        self.answered(&self.load(), self.shape.copies)
    }

    /// What one box would answer at best that all clients ask, and that has the copies of a whole way from client to home.
    pub fn theory_both(&self) -> f64 {
        let load = self.load();
        let all = Load { rate: load.rate * load.boxes, boxes: 1.0, ..load };
        self.answered(&all, self.on_the_way())
    }

    fn answered(&self, load: &Load, entries: usize) -> f64 {
        if !self.case.leases && !self.case.writes {
            return load.coverage(entries);
        }
        // A box counts a lease shorter, for clocks may differ.
        let shorter = 1.0 - 1.0 / lease::DRIFT as f64;
        load.answered(entries, self.config().lease.as_secs_f64() * shorter)
    }

    fn on_the_way(&self) -> usize {
        self.shape.copies + self.shape.root.unwrap_or(0)
    }

    /// Runs it.
    pub fn measure(&self, seed: u64) -> Shares {
        let mut random = Prng::for_entity(seed, self.shape.copies as u64, 0x5eed);
        let load = self.load();
        let keys = Keys::new(load.keys, load.skew, seed);
        let config = self.config();
        let mut network = Network::new(self.shape, &config, load.keys, &mut random);
        let tors = usize::from(self.shape.tors);
        let mut ask = |network: &mut Network, requests: u64| {
            let span = Nanos((1e9 / load.rate) as u64);
            for _ in 0..requests {
                network.pass(span);
                for at in 0..tors {
                    let key = keys.draw(&mut random);
                    if random.chance(load.writes) { network.write(at, key) } else { network.read(at, key) }
                }
            }
        };
        let copies = self.on_the_way() as u64;
        let leases =
            if self.case.leases { WARM_LEASES * config.lease.as_secs_f64() * load.rate } else { 0.0 };
        ask(&mut network, (WARM_PER_COPY * copies).max(leases as u64));
        let before = answered(&network);
        ask(&mut network, (COUNTED_PER_COPY * copies).max(COUNTED));
        let after = answered(&network);
        let reads = (after.reads - before.reads) as f64;
        Shares {
            tors: (after.tors - before.tors) as f64 / reads,
            root: (after.root - before.root) as f64 / reads,
        }
    }
}

struct Answered {
    reads: u64,
    tors: u64,
    root: u64,
}

fn answered(network: &Network) -> Answered {
    let (tors, root) = network.stats();
    Answered {
        reads: tors.iter().map(|stats| stats.hits + stats.misses).sum(),
        tors: tors.iter().map(|stats| stats.hits).sum(),
        root: root.map_or(0, |stats| stats.hits),
    }
}

/// A figure over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Their mean.
    pub mean: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Spread {
    /// Of these, at least one.
    pub fn of(figures: &[f64]) -> Spread {
        assert!(!figures.is_empty(), "a spread is over at least one figure");
        Spread {
            mean: figures.iter().sum::<f64>() / figures.len() as f64,
            low: figures.iter().copied().fold(f64::INFINITY, f64::min),
            high: figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}
