//! The store of a node that starts, and what becomes of it when the node ends: [`store::warm`], with the wall clock and a line in the log.

use super::commands::{Commands, seconds_of};
use crate::kv::clocks::Clocks;
use base::Bytes;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;
use store::warm::{Asked, Cold, Mistakes, Place, Refusal, Start};
use store::{Config, MIN_MEMORY, Mode, Store};

/// How the memory of items began.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Began {
    /// `anonymous`, `warm` or `cold`.
    pub how: &'static str,
    /// Items that were taken over.
    pub items: u64,
    /// What that took, seconds.
    pub seconds: f64,
}

impl Default for Began {
    fn default() -> Began {
        Began { how: "anonymous", items: 0, seconds: 0.0 }
    }
}

impl Began {
    /// With what an earlier life left.
    pub fn is_warm(&self) -> bool {
        self.how == "warm"
    }
}

/// The store for `settings`, its memory where it is asked for, if it is to lie anywhere; says how it began.
pub(in crate::kv) fn open(
    asked: Option<&Asked>,
    settings: Config,
    (clocks, mistakes): (&Clocks, &impl Mistakes),
) -> Result<(Store, Began), Refusal> {
    let Some(asked) = asked else {
        return Ok((Store::new(settings).map_err(Refusal::Config)?, Began::default()));
    };
    let begun = Instant::now();
    let (store, start) = Store::resume_wrongly(asked, settings, seconds_of(clocks.since_1970()), mistakes)?;
    let took = begun.elapsed();
    // Nobody reads the log of a simulation.
    if let Place::Directory(directory) = &asked.place {
        tell(&start, directory, took.as_millis());
    }
    let (how, items) = match start {
        Start::Warm { items, .. } => ("warm", items as u64),
        Start::Cold(_) => ("cold", 0),
    };
    Ok((store, Began { how, items, seconds: took.as_secs_f64() }))
}

/// The line in the log.
fn tell(start: &Start, directory: &Path, milliseconds: u128) {
    let place = directory.display();
    match start {
        Start::Warm { items, bytes, away, set_back } => {
            let bytes = Bytes(*bytes);
            log::info!(
                "warm: {items} items of {bytes} from {place}, left {away} s ago, in {milliseconds} ms"
            );
            if *set_back > 0 {
                log::warn!(
                    "the clock was set back by {set_back} s meanwhile: items end that much earlier, so that none lives longer"
                );
            }
        }
        Start::Cold(Cold::New) => {
            log::info!("cold: nothing was left in {place}; {milliseconds} ms to take its memory");
        }
        Start::Cold(why) => log::warn!("cold, nothing is taken over from {place}: {why}"),
    }
}

impl Commands {
    /// Leaves the items to the next process, if their memory lies in files. There are none here afterwards.
    pub fn leave_memory(&mut self) {
        if !self.store.is_in_files() {
            return;
        }
        let empty = Store::new(Config::new(Mode::Cache, MIN_MEMORY));
        let Ok(empty) = empty else {
            return log::error!("no memory to end with: the next process starts cold");
        };
        let owed = self.owed_flush();
        let second = seconds_of(self.clocks.since_1970());
        let begun = Instant::now();
        match std::mem::replace(&mut self.store, empty).hand_over_owing(second, owed) {
            Ok(Some(_)) if self.clocks.are_told() => {}
            Ok(Some(left)) => {
                let (items, bytes, took) = (left.items, Bytes(left.bytes), begun.elapsed().as_millis());
                log::info!("left {items} items of {bytes} to the next process, in {took} ms");
            }
            Ok(None) => {}
            Err(why) => log::error!("{why}; the next process starts cold"),
        }
    }
}
