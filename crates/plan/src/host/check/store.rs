//! The real store's GET, plain and staged, by working set.
//!
//! Each GET's key follows from the answer of the one before (of the group before, where they are staged): a request is not known before the last one
//! is answered. Otherwise the core itself would overlap neighbours of a plain loop, and the loop would be no baseline.

use super::{Bench, Kind, Row, code};
use ::store::{Config, GetHow, Key, Mode, SetHow, Store};
use base::hash::Hasher64;
use base::pages::{PageKind, Region};
use base::{Clock, Nanos};
use bench::probe::memory::chase::Chain;
use bench::probe::memory::sets_up_to;
use model::system::host::{Form, Host, Lookup, Sets};
use std::error::Error;
use std::hint::black_box;

const NOW: u32 = 1_000_000;
/// Requests between two readings of the clock.
const STRETCH: usize = 512;
/// Of the store: header, key of 16, value of 48.
const ITEM: u64 = 96;
const GROUPS: [usize; 3] = [4, 16, 32];

/// A store with so many items.
pub struct Stocked {
    store: Store,
    hasher: Hasher64,
    items: u64,
    /// The next key follows from it.
    last: u64,
}

impl Stocked {
    /// Filled, on huge pages where the system grants them.
    ///
    /// # Panics
    /// Without the address space.
    pub fn new(items: u64) -> Stocked {
        let memory = (items as usize * 113).max(4 << 20) * 17 / 16 + (32 << 20);
        let mut config = Config::new(Mode::Store, memory);
        config.expected_items = items as usize;
        let mut store = Store::new(config).expect("the address space");
        let hasher = *store.hasher();
        for number in 0..items {
            let bytes = key_bytes(number);
            let key = Key::new(&bytes, &hasher).expect("16 bytes are a key");
            let value = [number as u8; 48];
            store.set(NOW, key, &value, &SetHow::default()).expect("room was reckoned for all items");
        }
        Stocked { store, hasher, items, last: 1 }
    }

    /// Bytes that GETs touch.
    pub fn sets(&self) -> Sets {
        let stats = self.store.stats();
        Sets { index: stats.buckets as u64 * 64, items: self.items * ITEM, item: ITEM }
    }

    /// Nanoseconds for each GET, one after the other, a sample per stretch.
    pub fn plain(&mut self, span: Nanos) -> Vec<f64> {
        timed(span, || {
            for _ in 0..STRETCH {
                let bytes = key_bytes(self.draw());
                let key = Key::new(&bytes, &self.hasher).expect("16 bytes are a key");
                let hit = self.store.get(NOW, key, &GetHow::PLAIN);
                self.last = hit.map_or(0, |hit| u64::from(hit.value()[47])).wrapping_add(self.last);
            }
        })
    }

    /// The same in groups.
    pub fn staged(&mut self, group: usize, span: Nanos) -> Vec<f64> {
        let mut bytes = vec![[0u8; 16]; group];
        timed(span, || {
            for _ in 0..STRETCH / group {
                bytes.iter_mut().for_each(|bytes| *bytes = key_bytes(self.draw()));
                let hasher = &self.hasher;
                let mut keys = [Key::with_hash(b"-", 0); 64];
                for (key, bytes) in keys.iter_mut().zip(&bytes) {
                    *key = Key::new(bytes, hasher).expect("16 bytes are a key");
                }
                let mut sum = 0;
                self.store.get_batch(NOW, &keys[..group], group, &GetHow::PLAIN, |_, hit| {
                    sum += hit.map_or(0, |hit| u64::from(hit.value()[47]));
                });
                self.last = self.last.wrapping_add(sum);
            }
        })
    }

    /// A number below `items` that nobody knows before the last answer.
    #[inline(always)]
    fn draw(&mut self) -> u64 {
        self.last = base::prng::mix64(self.last.wrapping_add(0x9E37_79B9_7F4A_7C15));
        ((u128::from(self.last) * u128::from(self.items)) >> 64) as u64
    }
}

fn key_bytes(number: u64) -> [u8; 16] {
    let mut bytes = *b"key:\0\0\0\0\0\0\0\0\0\0\0\0";
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn timed(span: Nanos, mut stretch: impl FnMut()) -> Vec<f64> {
    let clock = Clock::shared();
    let (start, mut samples) = (clock.now(), Vec::new());
    while samples.len() < 3 || clock.now().since(start) < span {
        let from = clock.now();
        stretch();
        samples.push(clock.now().since(from).0 as f64 / STRETCH as f64);
    }
    black_box(&samples);
    samples
}

fn median(samples: &[f64]) -> Option<f64> {
    base::spread::Spread::of_all(samples).map(|summary| summary.median)
}

/// All rows of the store.
pub(super) fn check(bench: &mut Bench<'_>) -> Result<Vec<Row>, Box<dyn Error>> {
    let core = bench.cores.0;
    // On one thread from filling to measuring: pages and caches stay its own.
    std::thread::scope(|scope| {
        let all = scope.spawn(|| {
            base::cpu::pin_to(core).map_err(|e| e.to_string())?;
            measure(bench).map_err(|e| e.to_string())
        });
        all.join().expect("measuring does not panic").map_err(Into::into)
    })
}

fn measure(bench: &mut Bench<'_>) -> Result<Vec<Row>, Box<dyn Error>> {
    let largest = bench.host()?.sets.last().map_or(0, |set| set.bytes as usize);
    let mut regions = sets_up_to(largest)
        .map(|bytes| {
            let mut region = Region::map(bytes.max(2 << 20), PageKind::Transparent)?;
            region.populate(0..region.len());
            Ok((bytes, region))
        })
        .collect::<std::io::Result<Vec<_>>>()?;
    let chains: Vec<_> =
        regions.iter_mut().map(|(bytes, region)| (*bytes, Chain::lay(region, *bytes))).collect();
    let items: &[u64] =
        if bench.quick { &[20_000, 200_000, 1_000_000] } else { &[20_000, 200_000, 1_000_000, 5_000_000] };
    let mut rows = Vec::new();
    for items in items {
        let mut stocked = Stocked::new(*items);
        rows.extend(of_size(bench, &chains, &mut stocked)?);
    }
    Ok(rows)
}

fn of_size(
    bench: &mut Bench<'_>,
    chains: &[(usize, Chain<'_>)],
    stocked: &mut Stocked,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let sets = stocked.sets();
    let mib = (sets.index + sets.items) as f64 / f64::from(1 << 20);
    let forms = || std::iter::once(Form::Plain).chain(GROUPS.map(|group| Form::Staged(group as u32)));
    let name = |form| match form {
        Form::Plain => format!("GET plain, {} items ({mib:.0} MiB)", stocked.items),
        Form::Staged(group) => format!("GET staged by {group}, {} items ({mib:.0} MiB)", stocked.items),
    };
    let mut rows: Vec<Row> = forms().map(|form| Row::new(name(form), Kind::Span("ns", 1.0))).collect();
    let predict = |host: &Host, form| Lookup::new(host, sets, 1).seconds(host, form) * 1e9;
    for _ in 0..bench.rounds() {
        for (form, row) in forms().zip(&mut rows) {
            probe(bench, chains, sets);
            let before = predict(&bench.host()?, form);
            let span = bench.span(Nanos::from_millis(20));
            let seen = match form {
                Form::Plain => stocked.plain(span),
                Form::Staged(group) => stocked.staged(group as usize, span),
            };
            probe(bench, chains, sets);
            row.note(before, median(&seen), predict(&bench.host()?, form));
        }
    }
    Ok(rows)
}

/// Replaces the figures that GETs in these sets rest on.
fn probe(bench: &mut Bench<'_>, chains: &[(usize, Chain<'_>)], sets: Sets) {
    let span = Nanos::from_millis(3);
    // Those that a set is interpolated between, and the first, whose hits are in the code's own time.
    let neighbours = |size: u64| {
        let above = chains.partition_point(|(bytes, _)| (*bytes as u64) < size);
        [above, above + 1]
    };
    for (number, (_, chain)) in (1..).zip(chains) {
        if number == 1 || neighbours(sets.index).contains(&number) || neighbours(sets.items).contains(&number)
        {
            let name = |what| format!("memory.set_{number}.{what}");
            bench.figures.note(&name("latency"), &chain.latencies(span), "ns", "pointer chase");
            bench.figures.note(&name("line"), &chain.pace(Nanos(2 * span.0)), "ns", "independent chases");
        }
    }
    code::store(bench.figures, Nanos::from_millis(2));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_find_every_item() {
        let mut stocked = Stocked::new(500);
        for number in 0..500 {
            let bytes = key_bytes(number);
            let key = Key::new(&bytes, &stocked.hasher).expect("16 bytes are a key");
            let hit = stocked.store.get(NOW, key, &GetHow::PLAIN).expect("it was stored");
            assert_eq!(hit.value(), [number as u8; 48]);
        }
        assert!(stocked.plain(Nanos::ZERO).iter().all(|ns| *ns > 0.0));
        assert!(stocked.staged(16, Nanos::ZERO).iter().all(|ns| *ns > 0.0));
        let sets = stocked.sets();
        assert!(sets.items == 500 * ITEM && sets.index >= 500 * 64 / 7);
    }
}
