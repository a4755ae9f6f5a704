//! `--caches`: what two caches of a node find of what they are asked, while which of them wants the memory changes.
//!
//! Both have 32 MiB, which makes 64 together, and are asked as often for as many keys: the one by Zipf's law, of which little memory finds the most, the other
//! uniformly, where every byte finds as much. A change is that they swap. Each policy has a node of its own, since a cache is what was asked of it before;
//! nodes whose policy has not its turn are asked nothing. The score is the share of gets that found their key, by what the nodes count.

use super::Registers;
use super::clients::Line;
use super::script::{CacheLoad, Load};
use std::time::Duration;

/// The services.
pub(super) const SERVICES: [&str; 2] = ["left", "right"];
/// The register of their memory.
const MEMORY: [&str; 2] = ["left.store.memory", "right.store.memory"];
/// Percent of the memory that the left has, of placements that nobody moves; the first is that of a node as it starts.
const SPLITS: [u64; 5] = [50, 16, 32, 68, 84];
/// MiB of both together.
const MIB: u64 = 64;
/// What they are asked: keys, bytes of a value, percent of sets, requests a second.
const KEYS: u64 = 100_000;
const VALUE: u64 = 1000;
pub(super) const SETS_PERCENT: u64 = 30;
const RATE: f64 = 12e3;
/// The skew of the one that has one.
const SKEW: f64 = 0.99;
/// Moves a minute of the placer, which moves nothing else, and between two.
pub(super) const MOVES: u32 = 60;
pub(super) const DWELL: Duration = Duration::from_secs(1);

/// Placements that nobody moves.
pub(super) fn placements() -> Vec<Registers> {
    let of = |percent: u64| {
        let left = MIB * percent / 100;
        let value = |mib: u64| format!("{mib}m");
        let both = [(MEMORY[0], value(left)), (MEMORY[1], value(MIB - left))];
        both.map(|(register, value)| (register.to_owned(), value)).to_vec()
    };
    SPLITS.into_iter().map(of).collect()
}

/// The name of one: MiB of the left and of the right.
pub(super) fn name(registers: &Registers) -> String {
    let mib = |wanted: &str| {
        let value = registers.iter().find(|(register, _)| register == wanted).map(|(_, value)| &**value);
        let bytes = value.and_then(|value| value.parse::<base::units::Bytes>().ok());
        bytes.map_or_else(String::new, |bytes| (bytes.0 >> 20).to_string())
    };
    MEMORY.map(mib).join("/")
}

/// The node's file.
pub(super) fn file(admin: u16, ports: &[u16]) -> String {
    let of = |(name, port): (&str, &u16)| {
        format!(
            "[services.{name}]\nkind = \"kv\"\n[services.{name}.store]\nmemory = \"{}m\"\n\
             [[listen]]\nservice = \"{name}\"\naddress = \"tcp:127.0.0.1:{port}\"\n",
            MIB / 2
        )
    };
    let services: String = SERVICES.into_iter().zip(ports).map(of).collect();
    format!("[admin]\nlisten = \"127.0.0.1:{admin}\"\n{services}")
}

/// A load and so many changes of it.
pub(super) fn script(changes: u32, scale: f64) -> Vec<Load> {
    let rate = (RATE * scale).round() as u64;
    let one = |skew| CacheLoad { rate, skew };
    let phase = |nth: u32| Load {
        change: if nth == 0 { "start" } else { "swap" },
        caches: if nth.is_multiple_of(2) { vec![one(SKEW), one(0.0)] } else { vec![one(0.0), one(SKEW)] },
        ..Load::default()
    };
    (0..=changes).map(phase).collect()
}

/// What clients of a phase are told.
pub(super) fn lines(ports: &[u16], load: &Load, times: &str) -> Vec<Line> {
    let of = |((service, port), load): ((&'static str, &u16), &CacheLoad)| {
        let law = if load.skew > 0.0 { format!("zipf:{}", load.skew) } else { "uniform".to_owned() };
        let words = format!(
            "bench 127.0.0.1:{port} -k {KEYS} -v {VALUE} --get {} --set {SETS_PERCENT} --dist {law} -c 4 -P 16 -r {} --no-preload {times}",
            100 - SETS_PERCENT,
            load.rate
        );
        Line { service, asked: load.rate as f64 * (100 - SETS_PERCENT) as f64 / 100.0, words }
    };
    SERVICES.into_iter().zip(ports).zip(&load.caches).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_of_one_sum_and_phases_swap() {
        let names: Vec<String> = placements().iter().map(name).collect();
        assert_eq!(names, ["32/32", "10/54", "20/44", "43/21", "53/11"]);
        let script = script(2, 0.5);
        assert_eq!((script.len(), script[0].caches[0].rate), (3, 6000));
        assert!(script[0].caches[0] == script[1].caches[1] && script[0].caches == script[2].caches);
        assert!(lines(&[1, 2], &script[0], "")[1].words.contains("--dist uniform"));
    }
}
