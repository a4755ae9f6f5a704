//! The machine's log over `store::redo`.
//!
//! Invariant: an error of the medium is kept and ends the replica ([`DiskLog::check`]); until then the log takes nothing, and nothing more is
//! durable.

use super::super::error::ChainError;
use super::{AnyMedia, survives};
use base::{Clock, Nanos};
use protocol::chain::log::Full;
use protocol::chain::{Durability, Entry, Epoch, Log, Lsn};
use std::path::PathBuf;
use store::redo::{self, Class, Media, ReplaceError};

/// A redo log on any medium.
#[derive(Debug)]
pub struct DiskLog<M = AnyMedia> {
    log: redo::Log<M>,
    path: PathBuf,
    /// A copy from a neighbour is not what was here.
    misfit: Option<Lsn>,
    payload: Vec<u8>,
    syncs: u64,
    synced_entries: u64,
    sync_time: Nanos,
    /// When the write that is under way was begun.
    begun: Option<Nanos>,
    /// The longest write since the start.
    sync_max: Nanos,
}

impl<M: Media> DiskLog<M> {
    /// A log that was opened; `path` is for messages.
    pub fn new(log: redo::Log<M>, path: PathBuf) -> DiskLog<M> {
        DiskLog {
            log,
            path,
            misfit: None,
            payload: Vec::new(),
            syncs: 0,
            synced_entries: 0,
            sync_time: Nanos::ZERO,
            begun: None,
            sync_max: Nanos::ZERO,
        }
    }

    /// Whether there is something to make durable.
    pub fn is_behind(&self) -> bool {
        self.log.broken().is_none() && self.log.needs_sync()
    }

    /// Makes everything durable that was appended, and waits for it. What goes wrong is told by [`DiskLog::check`], here and below.
    pub fn sync(&mut self) {
        // The log remembers its error, here and below.
        let _ = self.log.sync();
    }

    /// Begins to make what was appended durable, if nothing is under way; the medium wakes the loop when it is.
    pub fn begin_sync(&mut self) {
        if self.begun.is_none() && self.log.begin_sync() == Ok(true) {
            self.begun = Some(Clock::shared().now());
        }
    }

    /// Has the next write say for good what is durable by now; one is made for it if nothing else is to be written.
    pub fn mark(&mut self) {
        if self.log.class() > Class::Volatile {
            self.log.mark();
        }
    }

    /// Whether what is under way need not be waited for any more.
    pub fn is_synced(&mut self) -> bool {
        self.begun.is_some() && self.log.sync_is_done()
    }

    /// Ends what was begun, waiting for it if need be.
    pub fn end_sync(&mut self) {
        let before = self.log.durable();
        let ended = self.log.end_sync();
        if let (Ok(durable), Some(begun)) = (ended, self.begun.take()) {
            let took = Clock::shared().now().since(begun);
            self.syncs += 1;
            self.synced_entries += durable.saturating_sub(before);
            self.sync_time = self.sync_time.plus(took);
            self.sync_max = self.sync_max.max(took);
        }
    }

    /// For how long the write that is under way has been.
    pub fn outstanding(&self) -> Nanos {
        self.begun.map_or(Nanos::ZERO, |begun| Clock::shared().now().since(begun))
    }

    /// Whether its medium did not fail.
    pub fn is_usable(&self) -> bool {
        self.log.broken().is_none()
    }

    /// What it is on.
    pub fn media(&self) -> &M {
        self.log.media()
    }

    /// What it is on, to make it fail.
    pub fn media_mut(&mut self) -> &mut M {
        self.log.media_mut()
    }

    /// Whether it can be gone on with.
    ///
    /// # Errors
    /// The medium failed.
    pub fn check(&self) -> Result<(), ChainError> {
        if let Some(broken) = self.log.broken() {
            return Err(ChainError::Stopped("redo log", self.path.clone(), broken.to_string()));
        }
        self.misfit.map_or(Ok(()), |lsn| {
            let how = format!("entry {} is damaged, and a neighbour's copy is not what was there", lsn.0);
            Err(ChainError::Damaged("redo log", self.path.clone(), how))
        })
    }

    /// An entry in it does not fit the image, which cannot be.
    pub fn misfit(&self) -> ChainError {
        let how = "an entry does not fit the image, though both are whole: please report it".to_owned();
        ChainError::Damaged("redo log", self.path.clone(), how)
    }

    /// A checkpoint has everything up to here: it may go.
    pub fn release(&mut self, lsn: Lsn) {
        self.log.release(lsn.0 + 1);
    }

    /// How full it is.
    pub fn percent_used(&self) -> u64 {
        100 - self.log.room() * 100 / self.log.capacity().max(1)
    }

    /// Bytes that it can have.
    pub fn capacity(&self) -> u64 {
        self.log.capacity()
    }

    /// Bytes of all entries that were appended.
    pub fn payload_bytes(&self) -> u64 {
        self.log.counters().payload_bytes
    }

    /// Counts, by name.
    pub fn figures(&self) -> Vec<(&'static str, f64)> {
        let counters = self.log.counters();
        vec![
            ("log_records_total", counters.records as f64),
            ("log_payload_bytes_total", counters.payload_bytes as f64),
            ("log_written_bytes_total", counters.written_bytes as f64),
            ("log_persists_total", counters.persists as f64),
            ("log_syncs_total", self.syncs as f64),
            ("log_synced_entries_total", self.synced_entries as f64),
            ("log_sync_seconds_total", self.sync_time.as_secs_f64()),
            ("log_sync_max_seconds", self.sync_max.as_secs_f64()),
            ("log_write_outstanding_seconds", self.outstanding().as_secs_f64()),
            ("log_percent_used", self.percent_used() as f64),
            ("log_capacity_bytes", self.log.capacity() as f64),
            ("log_first_lsn", self.log.first() as f64),
            ("log_marked_lsn", self.log.marked() as f64),
        ]
    }
}

impl<M: Media> Log for DiskLog<M> {
    fn append(&mut self, entry: &Entry) -> Result<(), Full> {
        self.payload.clear();
        entry.emit_payload(&mut self.payload);
        self.log.append(entry.lsn.0, entry.epoch.0, &[&self.payload]).map_err(|_| Full)
    }

    fn last(&self) -> (Lsn, Epoch) {
        (Lsn(self.log.last()), Epoch(self.log.last_epoch()))
    }

    fn durable(&self) -> Lsn {
        Lsn(self.log.durable())
    }

    fn first(&self) -> Lsn {
        Lsn(self.log.first())
    }

    fn read(&self, lsn: Lsn) -> Option<Entry> {
        let record = self.log.read(lsn.0)?;
        Entry::parse_payload(lsn, Epoch(record.epoch), &record.payload)
    }

    fn replace(&mut self, entry: &Entry) {
        let mut payload = Vec::with_capacity(entry.payload_bytes());
        entry.emit_payload(&mut payload);
        match self.log.replace(entry.lsn.0, entry.epoch.0, &payload) {
            // The log remembers an error of its medium.
            Ok(_) | Err(ReplaceError::NotDamaged | ReplaceError::Broken(_)) => {}
            Err(ReplaceError::Misfit) => self.misfit = Some(entry.lsn),
        }
    }

    fn cut(&mut self, lsn: Lsn) {
        // The log remembers its error.
        let _ = self.log.cut(lsn.0);
    }

    fn restart(&mut self, lsn: Lsn, epoch: Epoch) {
        // As above.
        let _ = self.log.restart(lsn.0, epoch.0);
    }

    fn class(&self) -> Durability {
        survives(self.log.class())
    }
}
