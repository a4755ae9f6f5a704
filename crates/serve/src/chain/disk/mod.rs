//! A replica's directory: `log` and `data` (the checkpoint of its image), and `life`; opening them, which is recovery.
//!
//! ```text
//!  data: checkpoint (redo_from, floor) ──▶ image ◀── apply ── log: redo_from … floor … what was committed │ … what may have been
//! ```
//! The machine applies what is known to be committed; the rest is the chain's to decide on. A directory whose log and checkpoint do not fit
//! together is that of a replica which was being given a copy of the image when it died, or that lost one of them: it has nothing, and says
//! that it is not *whole*; the chain gives it everything. A log or checkpoint of which not even the head can be read is put aside, under the
//! name `….damaged-N`, and a new one made: nothing is removed that somebody might still read. If nobody else has everything, the controller says so.
//!
//! Lives: each has a higher number than all before, also when the directory was lost: microseconds of the clock, and more than the file
//! `life` says.

mod files;
mod image;
mod log;
pub mod start;
#[cfg(test)]
mod tests;

pub use image::{DiskImage, Progress};
pub use log::DiskLog;

use super::error::ChainError;
use super::replica::Storage;
use base::Bytes;
use files::Files;
use protocol::chain::replica::Recovered;
use protocol::chain::{Config, Durability, Incarnation, Lsn, ReplicaId};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::redo::{Class, Media};

/// Any medium.
pub type AnyMedia = Box<dyn Media + Send>;

/// A replica's log and image, recovered.
pub struct Disk {
    /// As its checkpoint has it.
    pub image: DiskImage,
    /// All of it.
    pub log: DiskLog,
    /// For the machine.
    pub recovered: Recovered,
    /// Of this life.
    pub incarnation: Incarnation,
}

/// What recovery found, for people and metrics.
#[derive(Clone, Debug, Default)]
pub struct Found {
    records: u64,
    bytes: u64,
    torn_bytes: u64,
    damaged: usize,
    damaged_blocks: usize,
    opening: Duration,
    replayed: u64,
    applied: Lsn,
    last: Lsn,
    seconds: f64,
    /// What could not be used, in sentences.
    aside: Vec<String>,
}

/// What a medium survives, in the chain's words.
pub fn survives(class: Class) -> Durability {
    match class {
        Class::Volatile => Durability::Volatile,
        Class::ProcessCrash => Durability::ProcessCrash,
        Class::PowerLoss => Durability::PowerLoss,
    }
}

/// Called when a medium that was not waited for is done.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Opens, or makes, what a replica has. What is known to be committed is applied by the machine, when it is made of it.
///
/// # Errors
/// The directory cannot be used, is another replica's or in use, or log or image cannot be opened or made.
pub fn open(
    storage: &Storage,
    config: &Config,
    id: ReplicaId,
    wake: Wake,
) -> Result<(Disk, Found), ChainError> {
    let begun = Instant::now();
    let mut files = Files::new(storage, wake)?;
    let (log, recovery, life) = files.log(u64::from(config.chain) << 16 | u64::from(id.0))?;
    let start = files.image()?;
    let recovery = recovery.unwrap_or_default();
    let found = Found {
        records: recovery.records,
        bytes: recovery.bytes,
        torn_bytes: recovery.torn_bytes,
        damaged: recovery.damaged.len(),
        damaged_blocks: start.damaged,
        opening: begun.elapsed(),
        aside: files.aside.clone(),
        ..Found::default()
    };
    let (recovered, image, log) = start
        .join(log, &recovery, life.born, |name| files.path(name))
        .map_err(|error| files.damaged("data", error))?;
    Ok((Disk { image, log, recovered, incarnation: life.number }, found))
}

impl Found {
    /// With what the machine made of it, which took so long.
    #[must_use]
    pub fn replayed(self, before: Lsn, applied: Lsn, last: Lsn, took: Duration) -> Found {
        Found {
            replayed: applied.0 - before.0.min(applied.0),
            applied,
            last,
            seconds: (self.opening + took).as_secs_f64(),
            ..self
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for aside in &self.aside {
            write!(f, "{aside}; ")?;
        }
        if self.damaged_blocks > 0 {
            write!(f, "{} blocks of its checkpoint are damaged, so it starts empty; ", self.damaged_blocks)?;
        }
        write!(
            f,
            "recovered {} records ({}) and replayed {} in {:.3} s: applied {} of {}, {} torn bytes cut, {} records damaged",
            self.records,
            Bytes(self.bytes),
            self.replayed,
            self.seconds,
            self.applied.0,
            self.last.0,
            self.torn_bytes,
            self.damaged,
        )
    }
}

impl Found {
    /// By name.
    pub fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("recovered_records", self.records as f64),
            ("recovered_bytes", self.bytes as f64),
            ("recovered_torn_bytes", self.torn_bytes as f64),
            ("recovered_damaged", self.damaged as f64),
            ("recovered_files_aside", self.aside.len() as f64),
            ("recovered_damaged_blocks", self.damaged_blocks as f64),
            ("recovered_replayed", self.replayed as f64),
            ("recovery_seconds", self.seconds),
        ]
    }
}
