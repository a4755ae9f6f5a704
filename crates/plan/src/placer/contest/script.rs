//! The script: a load, and what changes of it, from a seed.

use super::caches;
use base::Prng;
use bench::report::format::short;
use serde::Serialize;

/// What clients ask in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Load {
    /// What changed, in words.
    pub change: &'static str,
    pub kv_rate: u64,
    pub kv_value: u64,
    pub kv_sets_percent: u64,
    /// Exponent of Zipf's law; 0: all keys alike.
    pub kv_skew: f64,
    pub rpc_rate: u64,
    pub rpc_payload: u64,
    pub rec_rate: u64,
    pub rec_queries: u64,
    /// In place of all that, what two caches are asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheLoad>,
}

/// What a cache is asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CacheLoad {
    /// Requests a second.
    pub rate: u64,
    /// Exponent of Zipf's law; 0: all keys alike.
    pub skew: f64,
}

impl Load {
    /// Each service with what it is asked, for people.
    pub(super) fn asked(&self) -> Vec<(&'static str, String)> {
        let law = |skew: f64| if skew > 0.0 { "zipf" } else { "uniform" };
        if !self.caches.is_empty() {
            let of = |one: &CacheLoad| format!("{}/s {}", short(one.rate as f64), law(one.skew));
            return caches::SERVICES.into_iter().zip(self.caches.iter().map(of)).collect();
        }
        let (rate, skew) = (short(self.kv_rate as f64), law(self.kv_skew));
        vec![
            ("kv", format!("{rate}/s {} B {} % set {skew}", self.kv_value, self.kv_sets_percent)),
            ("rpc", format!("{}/s {} B", self.rpc_rate, self.rpc_payload)),
            ("rec", format!("{}/s × {}", self.rec_rate, self.rec_queries)),
        ]
    }
}

/// Values that sizes are drawn of, in bytes.
const SIZES: [u64; 4] = [32, 256, 1024, 4096];
const PAYLOADS: [u64; 3] = [16, 512, 2048];
const QUERIES: [u64; 3] = [1, 4, 16];
/// Between which rates of the key-value service are, times `scale`.
pub(super) const KV_RATES: (f64, f64) = (15e3, 60e3);
const SETS_PERCENT: [u64; 3] = [2, 10, 50];
/// What a change may be.
const CHANGES: [&str; 4] = ["rate", "size", "mix", "skew"];

/// A load and so many changes of it; `scale` multiplies rates.
pub(super) fn script(seed: u64, changes: u32, scale: f64) -> Vec<Load> {
    let mut random = Prng::new(seed);
    let mut load = Load {
        change: "start",
        kv_rate: rate(&mut random, KV_RATES.0, KV_RATES.1, scale),
        kv_value: SIZES[0],
        kv_sets_percent: SETS_PERCENT[1],
        kv_skew: 0.99,
        rpc_rate: rate(&mut random, 10e3, 50e3, scale),
        rpc_payload: PAYLOADS[0],
        rec_rate: rate(&mut random, 1e3, 5e3, scale),
        rec_queries: QUERIES[1],
        caches: Vec::new(),
    };
    let mut all = vec![load.clone()];
    let shift = random.below(CHANGES.len() as u64) as usize;
    for change in 0..changes as usize {
        load.change = CHANGES[(change + shift) % CHANGES.len()];
        match load.change {
            "rate" => {
                load.kv_rate = rate(&mut random, KV_RATES.0, KV_RATES.1, scale);
                load.rpc_rate = rate(&mut random, 10e3, 50e3, scale);
                load.rec_rate = rate(&mut random, 1e3, 5e3, scale);
            }
            "size" => {
                load.kv_value = other(&mut random, &SIZES, load.kv_value);
                load.rpc_payload = other(&mut random, &PAYLOADS, load.rpc_payload);
                load.rec_queries = other(&mut random, &QUERIES, load.rec_queries);
            }
            "mix" => load.kv_sets_percent = other(&mut random, &SETS_PERCENT, load.kv_sets_percent),
            _ => load.kv_skew = if load.kv_skew > 0.0 { 0.0 } else { 0.99 },
        }
        all.push(load.clone());
    }
    all
}

/// Between two rates, their logarithms alike.
fn rate(random: &mut Prng, low: f64, high: f64, scale: f64) -> u64 {
    let part = random.below(1 << 20) as f64 / f64::from(1 << 20);
    (scale * low * f64::powf(high / low, part)).round().max(1.0) as u64
}

/// Another than `now`.
fn other(random: &mut Prng, of: &[u64], now: u64) -> u64 {
    let others: Vec<u64> = of.iter().copied().filter(|one| *one != now).collect();
    others[random.below(others.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_changes_what_it_says_and_a_seed_says_all() {
        for seed in 0..50 {
            let all = script(seed, 6, 1.0);
            assert_eq!((all.len(), &all), (7, &script(seed, 6, 1.0)));
            for two in all.windows(2) {
                let [before, after] = two else { continue };
                let unnamed = |load: &Load| Load { change: "", ..load.clone() };
                assert_ne!(unnamed(before), unnamed(after), "seed {seed}");
            }
            let kinds: std::collections::BTreeSet<_> = all[1..].iter().map(|load| load.change).collect();
            assert_eq!(kinds.len(), 4, "seed {seed}: all kinds of change are in six");
        }
    }
}
