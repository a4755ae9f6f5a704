//! Of a key-value server what its memory does: what it has, what it finds, and what it would have found with more.
//!
//! A node counts gets that missed a key which had been evicted lately, by quarters of the keys that it remembers (`millrace_kv_ghost_misses_total`): those of
//! the first quarter it would have found with memory for a quarter of them more, and so on.

use super::difference::Since;
use super::observation::{Figure, Register};
use serde::{Deserialize, Serialize};
use serve::metrics::read::{samples, sum};

/// Parts of what a cache remembers of evicted keys.
pub const QUARTERS: usize = 4;
/// Their labels.
const QUARTER: [&str; QUARTERS] = ["1", "2", "3", "4"];
/// The register that says how much memory a server may have.
pub const MEMORY: &str = "store.memory";

/// What the memory of a key-value server did since it was last looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// Bytes that it may have.
    pub limit: Figure,
    /// Bytes that it has.
    pub memory: Figure,
    /// Items in it.
    pub items: Figure,
    /// Gets a second that found their key.
    pub hits: Figure,
    /// Gets a second that did not.
    pub misses: Figure,
    /// Of these a second whose key was evicted lately, the latest quarter first.
    pub ghosts: [Figure; QUARTERS],
    /// Keys of evicted items that it remembers at most.
    pub ghost_room: Figure,
    /// Items a second that made room for others.
    pub evicted: Figure,
    /// Why its memory is not another's to take or to give, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
}

impl Cache {
    /// Its figures, what each is, and the most that it can be.
    pub(super) fn figures(&self) -> impl Iterator<Item = (&'static str, Figure, f64)> {
        const BYTES_MAX: f64 = 1e18;
        const RATE_MAX: f64 = 1e12;
        let ghosts = self.ghosts.map(|rate| ("the rate of misses of evicted keys", rate, RATE_MAX));
        let own = [
            ("the limit of its memory", self.limit, BYTES_MAX),
            ("its memory", self.memory, BYTES_MAX),
            ("its items", self.items, BYTES_MAX),
            ("the rate of hits", self.hits, RATE_MAX),
            ("the rate of misses", self.misses, RATE_MAX),
            ("what it remembers of evicted keys", self.ghost_room, BYTES_MAX),
            ("the rate of evictions", self.evicted, RATE_MAX),
        ];
        own.into_iter().chain(ghosts)
    }
}

/// The same as it stands: counters of ours, and what is now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CacheReading {
    counters: [f64; QUARTERS + 3],
    limit: f64,
    memory: f64,
    items: f64,
    ghost_room: f64,
    bound: Option<String>,
}

impl CacheReading {
    /// Of the service with these labels and registers; none where the node does not say.
    pub(super) fn of(page: &str, labels: &[(&str, &str)], registers: &[Register]) -> Option<CacheReading> {
        let with = |more: &[(&'static str, &'static str)]| -> Vec<(&str, &str)> {
            labels.iter().copied().chain(more.iter().copied()).collect()
        };
        let one = |family: &str, more: &[(&'static str, &'static str)]| sum(page, family, &with(more));
        let outcomes = "millrace_kv_command_outcomes_total";
        let mut counters = [0.0; QUARTERS + 3];
        for (counter, quarter) in counters.iter_mut().zip(QUARTER) {
            *counter = one("millrace_kv_ghost_misses_total", &[("quarter", quarter)])?;
        }
        counters[QUARTERS] = one(outcomes, &[("command", "get"), ("outcome", "hit")])?;
        counters[QUARTERS + 1] = one(outcomes, &[("command", "get"), ("outcome", "miss")])?;
        counters[QUARTERS + 2] = one("millrace_kv_items_removed_total", &[("reason", "evicted")])?;
        Some(CacheReading {
            counters,
            limit: one("millrace_kv_memory_limit_bytes", &[])?,
            memory: one("millrace_kv_memory_bytes", &[])?,
            items: one("millrace_kv_items", &[])?,
            ghost_room: one("millrace_kv_ghost_room_items", &[])?,
            bound: bound(page, &with(&[]), registers),
        })
    }
}

/// Why memory is a promise to somebody else.
fn bound(page: &str, labels: &[(&str, &str)], registers: &[Register]) -> Option<String> {
    let register = |name: &str| registers.iter().find(|register| register.name == name);
    let is_own = |found: &str| {
        labels.iter().all(|(name, value)| serve::metrics::read::label(found, name) == Some(*value))
    };
    let is_there = |family: &str, is_it: &dyn Fn(&str, f64) -> bool| {
        samples(page, family).any(|(found, value)| is_own(found) && is_it(found, value))
    };
    let is_in_file = |found: &str, _| serve::metrics::read::label(found, "how") != Some("anonymous");
    let why = if register("store.mode").is_none_or(|mode| mode.text_of(mode.number) != "cache") {
        "it loses nothing (store.mode)"
    } else if is_there("millrace_kv_log_bytes", &|_, bytes| bytes > 0.0) {
        "it has a durable log"
    } else if is_there("millrace_kv_chain_silent", &|_, _| true) {
        "its items are a chain's"
    } else if registers.iter().any(|register| register.name.starts_with("coherence.")) {
        "boxes are before it"
    } else if is_there("millrace_kv_memory_began_info", &is_in_file) {
        "its memory lies in a file, for the process after it"
    } else if register(MEMORY).is_none() {
        "it has no register store.memory"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// What a cache did between two readings; none where it does not say, or did not before.
pub(super) fn cache(since: &mut Since<'_>) -> Option<Cache> {
    let (now, then) = (since.now.cache.as_ref()?, since.then.cache.as_ref()?);
    let mut rates = [Figure(0.0); QUARTERS + 3];
    for (rate, (then, now)) in rates.iter_mut().zip(then.counters.iter().zip(now.counters)) {
        let more = since.rise("of its memory", *then, now);
        *rate = since.rate(more);
    }
    let [ghosts @ .., hits, misses, evicted] = rates;
    Some(Cache {
        limit: Figure(now.limit),
        memory: Figure(now.memory),
        items: Figure(now.items),
        hits,
        misses,
        ghosts,
        ghost_room: Figure(now.ghost_room),
        evicted,
        bound: now.bound.clone(),
    })
}
