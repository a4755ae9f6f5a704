//! How long nobody's transfer was done, after each kill.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One replica's end.
#[derive(Clone, Debug)]
struct Kill {
    /// Which part of the chain it was.
    part: &'static str,
    /// What was done to it.
    what: &'static str,
    at: Instant,
    /// The longest time between two transfers that were done, of those that overlap the time since.
    longest: Duration,
}

#[derive(Debug, Default)]
struct Seen {
    done: u64,
    last: Option<Instant>,
    kills: Vec<Kill>,
}

/// What threads see of the service.
#[derive(Debug, Default)]
pub struct Service(Mutex<Seen>);

impl Service {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transfer was done.
    pub fn done(&self) {
        let mut seen = self.seen();
        let now = Instant::now();
        seen.note_gap(now);
        seen.done += 1;
        seen.last = Some(now);
    }

    /// A replica was shot, or stopped.
    pub fn killed(&self, part: &'static str, what: &'static str) {
        self.seen().kills.push(Kill { part, what, at: Instant::now(), longest: Duration::ZERO });
    }

    /// Transfers so far, and for how long there has been none.
    pub fn progress(&self) -> (u64, Duration) {
        let seen = self.seen();
        (seen.done, seen.last.map_or(Duration::ZERO, |last| last.elapsed()))
    }

    /// Prints the gaps.
    pub fn verdict(&self, bound: Duration) -> Result<(), String> {
        let seen = self.seen();
        let mut all: BTreeMap<(&str, &str), Vec<Duration>> = BTreeMap::new();
        seen.kills.iter().for_each(|kill| all.entry((kill.part, kill.what)).or_default().push(kill.longest));
        for ((part, what), mut stalls) in all {
            stalls.sort();
            println!(
                "{part} {what} {} times: then nothing was done for {} ms (median), {} ms at most",
                stalls.len(),
                stalls[stalls.len() / 2].as_millis(),
                stalls[stalls.len() - 1].as_millis()
            );
        }
        match seen.kills.iter().map(|kill| kill.longest).max() {
            None => Ok(()),
            Some(longest) if longest <= bound => {
                println!(
                    "the longest, {} ms, is within the bound of {} ms",
                    longest.as_millis(),
                    bound.as_millis()
                );
                Ok(())
            }
            Some(longest) => Err(format!(
                "after a kill nothing was done for {} ms, longer than the bound of {} ms",
                longest.as_millis(),
                bound.as_millis()
            )),
        }
    }
}

impl Seen {
    fn note_gap(&mut self, now: Instant) {
        let Some(last) = self.last else { return };
        let gap = now.duration_since(last);
        if let Some(kill) = self.kills.last_mut()
            && now >= kill.at
        {
            kill.longest = kill.longest.max(gap);
        }
    }
}
