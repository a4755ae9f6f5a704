//! What to do: the operations of a phase, how fast, and until when; and the keys that exist.

use super::dialect::Dialect;
use super::keys::{KeyChooser, KeyFormat, KeyView, Popularity};
use super::mix::{Mix, OpKind};
use super::sizes::ValueSizes;
use crate::drive::Pace;
use base::{Nanos, Prng};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// The operations of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Shares of operations.
    pub mix: Mix,
    /// How popular each key is.
    pub popularity: Popularity,
    /// How long values are.
    pub values: ValueSizes,
    /// Seconds to live of everything written; 0 for ever.
    pub ttl_s: u32,
    /// Keys per get.
    pub multiget: u32,
    /// The most keys of one scan; each scan draws its length from 1 to this.
    pub longest_scan: u32,
}

/// What a phase does.
#[derive(Clone, Debug)]
pub enum Job {
    /// Writes every key once, until all are there.
    Preload(ValueSizes),
    /// A workload.
    Load {
        /// The operations.
        workload: Workload,
        /// For how long at most.
        length: Nanos,
        /// How many operations each connection makes at most.
        ops_each: u64,
    },
}

/// One phase of a run.
#[derive(Clone, Debug)]
pub struct Phase {
    /// What to do.
    pub job: Job,
    /// In which language.
    pub dialect: Dialect,
    /// How fast.
    pub pace: Pace,
    /// Operations under way per connection, at most.
    pub pipeline: usize,
    /// Free places in the pipeline to gather before the next requests are written together.
    pub batch: usize,
    /// The interval of the series over time.
    pub interval: Nanos,
    /// Counts up with each phase of a fleet, so that phases draw different random numbers.
    pub number: u64,
}

/// The keys of a run against one server. Shared by its connections.
#[derive(Debug)]
pub struct Population {
    /// Keys that the preload writes: ids below this.
    pub preloaded: u64,
    /// How they are written on the wire.
    pub format: KeyFormat,
    /// Whether every connection keeps to keys of its own.
    pub owned: bool,
    /// The next id to insert.
    next: AtomicU64,
    /// Inserts that were answered.
    inserted: AtomicU64,
}

impl Population {
    /// `preloaded` keys (at least one) of `key_size` bytes, with room for up to `inserts` more.
    ///
    /// # Errors
    /// When the keys do not fit.
    pub fn new(preloaded: u64, key_size: usize, inserts: u64, owned: bool) -> Result<Population, String> {
        let format = KeyFormat::new(key_size, (preloaded + inserts).saturating_sub(1))?;
        Ok(Population {
            preloaded,
            format,
            owned,
            next: AtomicU64::new(preloaded),
            inserted: AtomicU64::new(0),
        })
    }
}

/// The keys that one connection draws from.
#[derive(Debug)]
pub struct Keys<'p> {
    population: &'p Population,
    view: KeyView,
    chooser: KeyChooser,
    /// Keys in the view, with the own inserts; used where keys are owned.
    own_len: u64,
}

impl<'p> Keys<'p> {
    /// The keys of connection `index` of `connections`; `own_inserts` is how many it inserted before.
    pub fn new(
        population: &'p Population,
        popularity: Popularity,
        index: u64,
        connections: u64,
        own_inserts: u64,
    ) -> Keys<'p> {
        let view = view_of(population, index, connections);
        let preloaded = view.count_below(population.preloaded).max(1);
        let own_len = preloaded + own_inserts;
        Keys { population, view, chooser: KeyChooser::new(popularity, preloaded), own_len }
    }

    fn len(&self) -> u64 {
        match self.population.owned {
            true => self.own_len,
            false => self.population.preloaded + self.population.inserted.load(Ordering::Relaxed),
        }
    }

    /// A key that exists, unless it was deleted or evicted.
    #[inline]
    pub fn choose(&mut self, prng: &mut Prng) -> u64 {
        let len = self.len();
        self.view.id(self.chooser.choose(len, prng))
    }

    /// `count` consecutive keys of the view from a chosen one on, or fewer at its end.
    pub fn run(&mut self, count: u64, prng: &mut Prng) -> impl Iterator<Item = u64> + use<> {
        let len = self.len();
        let first = self.chooser.choose(len, prng);
        let view = self.view;
        (first..len.min(first + count)).map(move |rank| view.id(rank))
    }

    /// The next key that does not exist yet.
    pub fn insert(&mut self) -> u64 {
        if self.population.owned {
            self.own_len += 1;
            return self.view.id(self.own_len - 1);
        }
        self.population.next.fetch_add(1, Ordering::Relaxed)
    }

    /// An insert was answered.
    pub fn inserted(&self) {
        self.population.inserted.fetch_add(1, Ordering::Relaxed);
    }

    /// How many keys this connection inserted, where keys are owned.
    pub fn own_inserts(&self) -> u64 {
        self.own_len - self.view.count_below(self.population.preloaded).max(1)
    }
}

/// The keys that connection `index` of `connections` may write.
pub fn view_of(population: &Population, index: u64, connections: u64) -> KeyView {
    match population.owned {
        true => KeyView { offset: index, stride: connections },
        false => KeyView::ALL,
    }
}

/// The keys that connection `index` of `connections` preloads: its share, whoever may write them later.
pub fn preload_share(preloaded: u64, index: u64, connections: u64) -> impl Iterator<Item = u64> {
    (index..preloaded).step_by(connections as usize)
}

impl Workload {
    /// Whether reads can tell what they must find: without deletes and expiry every preloaded key is there.
    pub fn keeps_keys(&self) -> bool {
        self.ttl_s == 0 && self.mix.share(OpKind::Delete) == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn owned_keys_are_never_shared(connections in 1u64..6, inserts in 0u64..20, seed: u64) {
            let population = Population::new(50, 12, 1_000, true).expect("fits");
            let mut prng = Prng::new(seed);
            let mut owner = std::collections::HashMap::new();
            for index in 0..connections {
                let mut keys = Keys::new(&population, Popularity::Latest(0.9), index, connections, 0);
                for _ in 0..inserts {
                    let id = keys.insert();
                    prop_assert!(id >= 50);
                    prop_assert_eq!(*owner.entry(id).or_insert(index), index);
                }
                for _ in 0..50 {
                    prop_assert_eq!(*owner.entry(keys.choose(&mut prng)).or_insert(index), index);
                    for id in keys.run(5, &mut prng) {
                        prop_assert_eq!(*owner.entry(id).or_insert(index), index);
                    }
                }
                prop_assert_eq!(keys.own_inserts(), inserts);
            }
        }
    }

    #[test]
    fn the_preload_is_shared_out_whole() {
        let mut all: Vec<u64> = (0..3).flat_map(|i| preload_share(10, i, 3)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }
}
