//! One size after the other: what a server takes per operation, and per item, as its keys become more.
//!
//! At each size all keys are written, also those that are there: connections are opened anew, and only values of their own writes may be read
//! then; sizes that rise tenfold make it a tenth more. Then warm-up, and turns (`versus`), of one server as of two; last the server is asked for
//! its memory. So a size is what a run with that number alone is, but that the server has grown to it.
//!
//! A size whose keys are not all there any more, as hits or the server's own count say, is another load: it is the last one, and the run fails
//! after its figures are shown. What was measured before is never lost to a later size.
//!
//! Bounds: `MOST_SIZES`; of each the turns and one summary a server.

use super::LoadError;
use super::args::BenchArgs;
use super::bench::{prepare, slice};
use super::mix::OpKind;
use super::server::Footprint;
use super::summary::Summary;
use super::target::Target;
use super::versus::{Compared, Side, Turn, alternate, compare, pairs};
use super::workload::Workload;
use crate::contest::maybe;
use crate::report::format::{percent, whole};
use base::spread::Spread;
use indicatif::ProgressBar;
use serde::{Serialize, Serializer};
use serve::process::parse::count;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most sizes of one run.
const MOST_SIZES: usize = 32;

/// One number of keys, or several that rise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyCounts(Vec<u64>);

impl KeyCounts {
    /// All of them, rising; at least one.
    pub fn all(&self) -> &[u64] {
        &self.0
    }

    /// The least.
    pub fn first(&self) -> u64 {
        self.0[0]
    }

    /// Whether there are several.
    pub fn is_list(&self) -> bool {
        self.0.len() > 1
    }
}

impl FromStr for KeyCounts {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyCounts, String> {
        let counts = text.split(',').map(count).collect::<Result<Vec<u64>, String>>()?;
        if let Some(pair) = counts.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(format!(
                "{} comes after {}, and the numbers must rise, since keys are added from one size to the next; \
                 write for example 1k,10k,100k",
                pair[1], pair[0]
            ));
        }
        match counts.len() {
            0..=MOST_SIZES => Ok(KeyCounts(counts)),
            many => Err(format!("{many} sizes are too many; name {MOST_SIZES} at most")),
        }
    }
}

impl fmt::Display for KeyCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.0.iter().map(|&keys| whole(keys)).collect();
        f.write_str(&counts.join(", "))
    }
}

/// One is a number, several are a list.
impl Serialize for KeyCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0[..] {
            [keys] => keys.serialize(serializer),
            _ => self.0.serialize(serializer),
        }
    }
}

/// One server at one size.
#[derive(Clone, Debug, Serialize)]
pub struct At {
    /// Its CPU per operation in microseconds, over the turns; none where it cannot be watched.
    #[serde(serialize_with = "maybe")]
    pub server_cpu_us: Option<Spread>,
    /// What its items take, where it says so.
    pub memory: Option<Footprint>,
    /// Its turns.
    pub turns: Vec<Turn>,
    /// All of them as one.
    pub all: Summary,
}

/// One size.
#[derive(Clone, Debug, Serialize)]
pub struct Size {
    /// How many keys.
    pub keys: u64,
    /// Server by server.
    pub servers: Vec<At>,
    /// Of two servers: metric by metric.
    pub compared: Vec<Compared>,
}

/// Why there are no more sizes than there are.
#[derive(Clone, Debug, Serialize)]
pub struct EndedEarly {
    /// Because of which server.
    pub target: String,
    /// Why.
    pub cause: String,
}

/// All sizes.
#[derive(Clone, Debug, Serialize)]
pub struct Scaling {
    /// Those that were measured, rising.
    pub sizes: Vec<Size>,
    /// Why it ended early, if it did.
    pub ended_early: Option<EndedEarly>,
}

/// Goes from size to size; `sides` are connected for the first.
///
/// # Errors
/// When not even the first size could be measured, or a value was wrong in a warm-up.
pub fn climb(
    args: &BenchArgs,
    workload: &Workload,
    mut sides: Vec<Side>,
    stop: &Arc<AtomicBool>,
    bar: &ProgressBar,
) -> Result<Scaling, LoadError> {
    let mut scaling = Scaling { sizes: Vec::new(), ended_early: None };
    for &keys in args.keys.all() {
        let mut ready = Vec::new();
        for (at, mut side) in sides.into_iter().enumerate() {
            let target = side.fleet.target().clone();
            let get_ready = || {
                if !scaling.sizes.is_empty() {
                    side = side.relaunch(&args.fleet(&target, at as u32, keys)?, Arc::clone(stop))?;
                }
                prepare(args, workload, &mut side, keys, bar)?;
                Ok(side)
            };
            match get_ready() {
                Ok(side) => ready.push(side),
                Err(error) => return scaling.end(&target, error),
            }
        }
        sides = ready;
        if sides.iter().any(|side| side.fleet.stopped()) {
            break;
        }
        let size = measure(args, workload, &mut sides, keys, stop, bar);
        scaling.ended_early = sides.iter().zip(&size.servers).find_map(|(side, at)| {
            let cause = at.all.ended_early.clone().or_else(|| gone(args, workload, keys, at))?;
            Some(EndedEarly { target: side.fleet.target().to_string(), cause })
        });
        let wrong = size.servers.iter().any(|at| at.all.wrong_count() > 0);
        scaling.sizes.push(size);
        if wrong || scaling.ended_early.is_some() || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(scaling)
}

impl Scaling {
    /// A size that could not be prepared ends the run; the sizes before it stay.
    fn end(mut self, target: &Target, error: LoadError) -> Result<Scaling, LoadError> {
        let cause = match error {
            error if self.sizes.is_empty() => return Err(error),
            error @ LoadError::WrongValues { .. } => return Err(error),
            LoadError::Ended { cause, .. } => cause,
            error => error.to_string(),
        };
        self.ended_early = Some(EndedEarly { target: target.to_string(), cause });
        Ok(self)
    }
}

fn measure(
    args: &BenchArgs,
    workload: &Workload,
    sides: &mut [Side],
    keys: u64,
    stop: &AtomicBool,
    bar: &ProgressBar,
) -> Size {
    let name = format!("{} keys, in turns", whole(keys));
    let turns = alternate(sides, &slice(args, workload), args.pairs, stop, (bar, &name));
    let compared = compare(&pairs(&turns.by_side));
    let mut servers = Vec::new();
    for ((side, turns), all) in sides.iter().zip(turns.by_side).zip(turns.totals) {
        let server_cpu_us = Spread::of(turns.iter().filter_map(|turn| turn.server_cpu_us));
        let memory = Footprint::read(side.fleet.target());
        servers.push(At { server_cpu_us, memory, turns, all });
    }
    Size { keys, servers, compared }
}

/// Whether keys that were written are gone though nothing of the load removes them, in words. Under inserts a key may be asked for before it is there.
fn gone(args: &BenchArgs, workload: &Workload, keys: u64, at: &At) -> Option<String> {
    if args.no_preload || !workload.keeps_keys() {
        return None;
    }
    let inserts = workload.mix.share(OpKind::Insert) > 0.0;
    let missed = !inserts && at.all.misses > 0;
    let fewer = at.memory.filter(|memory| memory.items < keys);
    if !missed && fewer.is_none() {
        return None;
    }
    let hits = at.all.hit_ratio.map_or(String::new(), |share| format!(": hits {}", percent(share)));
    let items = fewer.map_or(String::new(), |memory| format!(", {} items", whole(memory.items)));
    Some(format!(
        "of {} keys that were written not all are there any more{hits}{items}; the server evicted them\n  \
         give it more memory (-m), or end the list of --keys before this size",
        whole(keys)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_rises_and_one_number_is_a_number() {
        let one: KeyCounts = "100k".parse().expect("good");
        let three: KeyCounts = "1k,10k,2m".parse().expect("good");
        assert_eq!((one.all(), one.is_list(), three.is_list()), (&[100_000][..], false, true));
        assert_eq!(three.all(), [1_000, 10_000, 2_000_000]);
        let json = |counts: &KeyCounts| serde_json::to_string(counts).expect("plain data");
        assert_eq!((json(&one).as_str(), json(&three).as_str()), ("100000", "[1000,10000,2000000]"));
        assert_eq!(three.to_string(), "1\u{202F}000, 10\u{202F}000, 2\u{202F}000\u{202F}000");
    }

    #[test]
    fn bad_lists_say_what_to_do() {
        let error = |text: &str| text.parse::<KeyCounts>().expect_err("bad");
        assert!(error("0").contains("from 1") && error("1k,0").contains("from 1"));
        assert!(error("1k,,2k").contains("for example") && error("").contains("for example"));
        assert!(error("1k,10k,10k").contains("must rise") && error("2k,1k").contains("1k,10k,100k"));
        let many: Vec<String> = (1..=40).map(|keys| keys.to_string()).collect();
        assert!(error(&many.join(",")).contains("32 at most"));
    }
}
