//! The store of a node that starts, and what becomes of it when the node ends: [`store::warm`], with the wall clock and a line in the log.

use super::commands::{Commands, unix_seconds};
use base::Bytes;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;
use store::warm::{Cold, Refusal, Start};
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

/// The store for `settings`, its memory in `place` if there is one; says how it began.
pub(super) fn open(place: Option<&Path>, settings: Config) -> Result<(Store, Began), Refusal> {
    let Some(place) = place else {
        return Ok((Store::new(settings).map_err(Refusal::Config)?, Began::default()));
    };
    let begun = Instant::now();
    let (store, start) = Store::resume(place, settings, unix_seconds())?;
    let took = begun.elapsed();
    let (milliseconds, place) = (took.as_millis(), place.display());
    let (how, items) = match &start {
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
            ("warm", *items as u64)
        }
        Start::Cold(Cold::New) => {
            log::info!("cold: nothing was left in {place}; {milliseconds} ms to take its memory");
            ("cold", 0)
        }
        Start::Cold(why) => {
            log::warn!("cold, nothing is taken over from {place}: {why}");
            ("cold", 0)
        }
    };
    Ok((store, Began { how, items, seconds: took.as_secs_f64() }))
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
        self.leave_flush();
        let begun = Instant::now();
        match std::mem::replace(&mut self.store, empty).hand_over(unix_seconds()) {
            Ok(Some(left)) => {
                let (items, bytes, took) = (left.items, Bytes(left.bytes), begun.elapsed().as_millis());
                log::info!("left {items} items of {bytes} to the next process, in {took} ms");
            }
            Ok(None) => {}
            Err(why) => log::error!("{why}; the next process starts cold"),
        }
    }
}
