//! What a home has that outlives it: the medium of its redo log, and its newest snapshot.
//!
//! The log and the snapshots are those of servers ([`store::durable`], opened by [`serve::kv::machine`]); only what they lie on is simulated. A sync and the
//! publishing of a snapshot take as long as the world says. When the process ends, of what was written and not synced any lines of 64 bytes are
//! there, and words of them that are older: the log is torn anywhere, and its superblock may be an old one. Of a snapshot that was being published
//! either it or the one before is the newest.

use base::Prng;
use serve::kv::machine;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::durable::Shelf;
use store::redo::media::{Crashing, Fault};
use store::redo::{Class, Media};

/// Bytes before the records of a log.
const LOG_HEAD: usize = 8192;

/// What the disk does, which takes a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Makes the log durable.
    Sync,
    /// Makes a snapshot durable, and the newest.
    Publish,
    /// Nothing: the engine is idle, and goes on with a snapshot.
    Walk,
}

/// What a disk says before it is so, to see that this is found: whoever believes it answers before an effect is durable, or has the log forget what the newest
/// snapshot does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The log is durable. It never will be.
    Durable,
    /// The snapshot is the newest.
    Published,
}

#[derive(Debug)]
struct State {
    lie: Option<Lie>,
    log: Crashing,
    newest: Option<Vec<u8>>,
    building: Vec<u8>,
    is_syncing: bool,
    is_publishing: bool,
    is_published: bool,
}

/// See the head of the file.
#[derive(Clone, Debug)]
pub struct Disk {
    state: Arc<Mutex<State>>,
    has_log: bool,
}

impl Disk {
    /// An empty one, for a log of so many bytes.
    pub fn new(log: usize) -> Disk {
        let state = State {
            lie: None,
            log: Crashing::new(LOG_HEAD + log),
            newest: None,
            building: Vec::new(),
            is_syncing: false,
            is_publishing: false,
            is_published: false,
        };
        Disk { state: Arc::new(Mutex::new(state)), has_log: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a life that begins.
    pub fn lend(&mut self, lie: Option<Lie>) -> machine::Disk {
        self.state().lie = lie;
        machine::Disk {
            medium: Box::new(self.clone()),
            is_new: !std::mem::replace(&mut self.has_log, true),
            snapshot: self.state().newest.clone(),
            shelf: Box::new(self.clone()),
        }
    }

    /// What it is doing.
    pub fn does(&self, deed: Deed) -> bool {
        let state = self.state();
        match deed {
            Deed::Sync => state.is_syncing,
            Deed::Publish => state.is_publishing,
            Deed::Walk => false,
        }
    }

    /// It has done it.
    pub fn done(&self, deed: Deed) {
        let mut state = self.state();
        match deed {
            Deed::Sync => state.is_syncing = false,
            Deed::Publish if state.is_publishing => state.publish(),
            Deed::Publish | Deed::Walk => {}
        }
    }

    /// One of the next writes or syncs of the log fails: this one, counted from now.
    pub fn spoil(&self, after: u64, fault: Fault) {
        let log = &mut self.state().log;
        log.inject(log.operations() + after, fault);
    }

    /// None does.
    pub fn heal(&self) {
        self.state().log.heal();
    }

    /// A byte of the records, or of the newest snapshot, changes.
    pub fn rot(&self, luck: &mut Prng) {
        let mut state = self.state();
        let flipped = 1 << luck.below(8);
        if let Some(snapshot) = state.newest.as_mut().filter(|_| luck.below(4) == 0) {
            let at = luck.below(snapshot.len() as u64) as usize;
            snapshot[at] ^= flipped;
            return;
        }
        let mut bytes = vec![0; state.log.len() as usize];
        state.log.read_at(0, &mut bytes).expect("all of it");
        let used: Vec<usize> = (LOG_HEAD..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        if !used.is_empty() {
            let at = used[luck.below(used.len() as u64) as usize];
            state.log.corrupt(at as u64, flipped);
        }
    }

    /// The process ends, or power fails.
    pub fn end(&self, luck: &mut Prng) {
        let mut state = self.state();
        if state.is_publishing && luck.below(2) == 0 {
            state.publish();
        }
        let log = std::mem::replace(&mut state.log, Crashing::new(0));
        state.log = log.crash(luck);
        (state.is_syncing, state.is_publishing, state.is_published) = (false, false, false);
        state.building.clear();
    }
}

impl State {
    fn publish(&mut self) {
        self.newest = Some(std::mem::take(&mut self.building));
        (self.is_publishing, self.is_published) = (false, true);
    }
}

impl Media for Disk {
    fn len(&self) -> u64 {
        self.state().log.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.state().log.read_at(offset, out)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.state().log.write_at(offset, bytes)
    }

    fn start(&mut self, _: &[Range<u64>]) -> io::Result<()> {
        self.state().is_syncing = true;
        Ok(())
    }

    fn is_done(&mut self) -> bool {
        let state = self.state();
        !state.is_syncing || state.lie == Some(Lie::Durable)
    }

    /// Who does not wait until it is done is a server that starts: nobody asks it for anything meanwhile.
    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        let mut state = self.state();
        state.is_syncing = false;
        if state.lie == Some(Lie::Durable) {
            return Ok(());
        }
        state.log.persist(ranges)
    }

    fn class(&self) -> Class {
        Class::PowerLoss
    }
}

impl Shelf for Disk {
    fn begin(&mut self) {
        let mut state = self.state();
        state.building.clear();
        (state.is_publishing, state.is_published) = (false, false);
    }

    fn write(&mut self, mut bytes: Vec<u8>) {
        self.state().building.append(&mut bytes);
    }

    fn is_ready(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn publish(&mut self) {
        self.state().is_publishing = true;
    }

    fn is_published(&mut self) -> io::Result<bool> {
        let state = self.state();
        Ok(state.is_published || (state.is_publishing && state.lie == Some(Lie::Published)))
    }
}
