//! M-E1: the real store's GET on a modelled core, plain, in groups and as coroutines, by working set and requests in flight.
//!
//! The store is real and answers every request; what its touches cost is that of a working set of the size that the point names, as `this-host` was
//! measured. A group is so many coroutines that begin together and of which all end before the next begin: in virtual time that is
//! what `Store::staged` does, whose phases are the same touches.

use super::core::{Core, Cost};
use base::{Picos, Prng};
use model::experiment::Rows;
use model::platform::{LoadError, Platforms};
use model::sim::Sim;
use model::system::host::{Host, Lookup, Sets};
use std::cell::RefCell;
use std::rc::Rc;
use store::{Config, GetHow, Key, Mode, SetHow, SharedStore, Store};

const EXPERIMENT: &str = "M-E1";
/// Items of the store: few, for its answers matter and its size does not.
const ITEMS: u64 = 4_000;
/// GETs of a cell.
const GETS: u64 = 4_096;
/// Unix seconds.
const NOW: u32 = 1_000_000;
/// Bytes of an item in the log: header, key of 16, value of 48.
const ITEM: u64 = 96;
/// Bytes of the index for each of the log, at its target of 4.5 entries in a bucket of 64.
const INDEX_SHARE: f64 = 64.0 / 4.5 / ITEM as f64;

/// How requests are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One after the other.
    Plain,
    /// So many begin together, and all end before the next.
    Groups(usize),
    /// So many under way all the time.
    Coroutines(usize),
}

/// What a cell came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Until the last answer.
    pub span: Picos,
    /// Latencies, from small to large.
    pub latencies: Vec<Picos>,
    /// Sum of all answers' first bytes: that they are the store's.
    pub checksum: u64,
    /// Share of the time in which the way to memory was taken.
    pub memory_busy: f64,
}

/// A store with its items, shared by coroutines.
pub fn filled() -> SharedStore {
    let mut config = Config::new(Mode::Store, 8 << 20);
    config.expected_items = ITEMS as usize;
    let mut store = Store::new(config).expect("8 MiB are enough");
    let hasher = *store.hasher();
    for number in 0..ITEMS {
        let bytes = key(number);
        let key = Key::new(&bytes, &hasher).expect("16 bytes are a key");
        store.set(NOW, key, &value(number), &SetHow::default()).expect("there is room");
    }
    SharedStore::new(store)
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    for (at, digit) in key[4..].iter_mut().rev().zip(0..) {
        *at = b'0' + (number / 10u64.pow(digit) % 10) as u8;
    }
    key
}

fn value(number: u64) -> [u8; 48] {
    [number as u8; 48]
}

async fn get(store: Rc<SharedStore>, number: u64) -> u64 {
    let hasher = store.with(|store| *store.hasher());
    let bytes = key(number);
    let key = Key::new(&bytes, &hasher).expect("16 bytes are a key");
    store.get(NOW, key, GetHow::PLAIN, |hit| hit.map_or(u64::MAX, |hit| u64::from(hit.value()[0]))).await
}

/// Numbers of the keys asked for, the same for every way.
fn asked() -> impl Iterator<Item = u64> {
    let mut prng = Prng::new(7);
    (0..GETS).map(move |_| prng.below(ITEMS))
}

/// Does all GETs in this way, on a working set of so many bytes.
pub fn measure(host: &Host, store: &Rc<SharedStore>, bytes: u64, way: Way) -> Cell {
    let index = (bytes as f64 * INDEX_SHARE) as u64;
    let sets = Sets { index, items: bytes, item: ITEM };
    let Lookup { mut kernel, bucket, item, memory } = Lookup::new(host, sets, 1);
    let at = kernel.resource("core", 1);
    let sim = Sim::new(kernel);
    // Coroutines pay for being resumed; groups and plain loops only for what they do.
    let (in_flight, group, cost) = match way {
        Way::Plain => (1, u64::MAX, Cost { resume: Picos::ZERO, execute: host.get }),
        Way::Groups(group) => (group, group as u64, Cost { resume: Picos::ZERO, execute: host.get_staged }),
        Way::Coroutines(many) => (many, u64::MAX, Cost { resume: host.resume, execute: host.get }),
    };
    let core = Core::new(&sim, at, &[bucket, item], cost);
    let seen = Rc::new(RefCell::new(Cell {
        span: Picos::ZERO,
        latencies: Vec::with_capacity(GETS as usize),
        checksum: 0,
        memory_busy: 0.0,
    }));
    let (into, clock, store) = (Rc::clone(&seen), sim.clone(), Rc::clone(store));
    sim.spawn(async move {
        let mut numbers = asked().peekable();
        while numbers.peek().is_some() {
            let mut left = group;
            let next = || {
                left = left.checked_sub(1)?;
                numbers.next().map(|number| get(Rc::clone(&store), number))
            };
            core.run(in_flight, next, |ended| {
                let mut into = into.borrow_mut();
                into.checksum += ended.output;
                into.latencies.push(ended.latency);
                into.span = clock.now();
            })
            .await;
        }
    });
    sim.run_until(Picos::from_secs(1));
    let busy = sim.with(|kernel| kernel.usage(memory.resource()).busy);
    sim.end_processes();
    let mut cell = seen.borrow().clone();
    cell.memory_busy = busy.as_secs_f64() / cell.span.as_secs_f64();
    cell.latencies.sort_unstable();
    cell
}

const WAYS: [Way; 12] = [
    Way::Plain,
    Way::Groups(2),
    Way::Groups(4),
    Way::Groups(8),
    Way::Groups(16),
    Way::Groups(32),
    Way::Groups(64),
    Way::Coroutines(2),
    Way::Coroutines(4),
    Way::Coroutines(8),
    Way::Coroutines(16),
    Way::Coroutines(32),
];

impl Way {
    fn variant(self) -> String {
        match self {
            Way::Plain => "plain".into(),
            Way::Groups(group) => format!("groups of {group}"),
            Way::Coroutines(many) => format!("{many} coroutines"),
        }
    }
}

/// The experiment. Nothing in it is drawn from the seed: keys do not matter to what it measures.
///
/// # Errors
/// `this-host` lacks a number.
pub fn run(platforms: &Platforms, _seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named("this-host")?;
    let host = Host::of(&platform)?;
    let store = Rc::new(filled());
    let mut rows = Rows::default();
    for (bytes, point) in [
        (16 << 10, "16 KiB"),
        (256 << 10, "256 KiB"),
        (2 << 20, "2 MiB"),
        (16 << 20, "16 MiB"),
        (64 << 20, "64 MiB"),
        (256 << 20, "256 MiB"),
        (1 << 30, "1 GiB"),
    ] {
        let mut plain = f64::NAN;
        for way in WAYS {
            let cell = measure(&host, &store, bytes, way);
            let rate = GETS as f64 / cell.span.as_secs_f64();
            if way == Way::Plain {
                plain = rate;
            }
            let variant = way.variant();
            let at = (EXPERIMENT, &*variant, point);
            let quantile = |of: f64| {
                let place = (cell.latencies.len() - 1) as f64 * of;
                cell.latencies[place as usize].as_secs_f64() * 1e9
            };
            let mean = cell.latencies.iter().map(|latency| latency.as_secs_f64()).sum::<f64>();
            rows.add(at, "throughput", "Mops", rate / 1e6);
            rows.add(at, "time per GET", "ns", 1e9 / rate);
            rows.add(at, "mean latency", "ns", mean / cell.latencies.len() as f64 * 1e9);
            rows.add(at, "p50", "ns", quantile(0.5));
            rows.add(at, "p99", "ns", quantile(0.99));
            rows.add(at, "memory busy", "%", cell.memory_busy * 100.0);
            rows.add(at, "speed-up over plain", "ratio", rate / plain);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host::of(&Platforms::shipped().named("this-host").expect("it is shipped")).expect("it is complete")
    }

    /// The answers of the store itself, asked in a loop.
    fn answers(store: &SharedStore) -> u64 {
        store.with(|store| {
            let hasher = *store.hasher();
            asked()
                .map(|number| {
                    let bytes = key(number);
                    let key = Key::new(&bytes, &hasher).expect("16 bytes are a key");
                    u64::from(store.get(NOW, key, &GetHow::PLAIN).expect("it is there").value()[0])
                })
                .sum()
        })
    }

    #[test]
    fn every_way_gives_the_stores_answers() {
        let (host, store) = (host(), Rc::new(filled()));
        let wanted = answers(&store);
        for way in WAYS {
            let cell = measure(&host, &store, 1 << 30, way);
            assert_eq!((cell.checksum, cell.latencies.len() as u64), (wanted, GETS), "{way:?}");
        }
    }

    #[test]
    fn plain_waits_for_both_misses_and_groups_share_them() {
        let (host, store) = (host(), Rc::new(filled()));
        let bytes = 1 << 30;
        let (latency, line) = host.miss(bytes);
        let (bucket, bucket_line) = host.miss((bytes as f64 * INDEX_SHARE) as u64);
        let follow = model::platform::transfer(ITEM - 64, host.stream);
        let each = [bucket, latency, follow, host.get].into_iter().fold(Picos::ZERO, Picos::plus);
        let plain = measure(&host, &store, bytes, Way::Plain);
        assert_eq!(plain.span, Picos(each.0 * GETS), "one at a time hides nothing");
        for group in [4u64, 16] {
            let staged = measure(&host, &store, bytes, Way::Groups(group as usize));
            // A group waits at least for two latencies, and its lines come at their pace.
            let least = bucket.plus(latency).plus(Picos(host.get_staged.0)).0;
            let most = least + group * (bucket_line.0 + line.0 + follow.0) + group * host.get_staged.0;
            let each_group = staged.span.0 / (GETS / group);
            assert!((least..=most).contains(&each_group), "{group}: {least} ≤ {each_group} ≤ {most}");
            assert!(staged.span.0 * 2 < plain.span.0, "{group}");
        }
    }

    #[test]
    fn more_in_flight_is_never_slower_until_memory_is_full() {
        let (host, store) = (host(), Rc::new(filled()));
        let span = |many| measure(&host, &store, 1 << 30, Way::Coroutines(many)).span;
        let spans = [1, 2, 4, 8].map(span);
        assert!(spans.is_sorted_by(|a, b| a >= b), "{spans:?}");
    }
}
