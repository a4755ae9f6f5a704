//! Doorbells that are lent to ports and come back when a port is done with them.
//!
//! Why: the table belongs to the core's thread, ports are opened on others. So all doorbells are made beforehand; opening a
//! port takes one from a locked list, which no ring and no scan ever touches.
//!
//! Bounds: as many as the table was made for.

use ring::doorbell::{Doorbell, Tracker};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts are not used: a doorbell says where to look. So one is enough of a capacity.
pub(super) const CAPACITY: u32 = 1;

/// The doorbells that nobody has.
pub(super) struct Bells(Mutex<Vec<(usize, Doorbell)>>);

/// A doorbell that is lent.
pub(super) struct Bell {
    entry: usize,
    /// `None` only while it is given back.
    doorbell: Option<Doorbell>,
    home: Arc<Bells>,
}

impl Bells {
    /// A table for `max` doorbells, and all of them.
    pub(super) fn new(max: usize) -> (Tracker, Arc<Bells>) {
        let mut tracker = Tracker::heap(max);
        let mut all: Vec<_> = std::iter::from_fn(|| tracker.attach(CAPACITY)).collect();
        // Only those that a port has are scanned: see `Ports`.
        (0..all.len()).for_each(|entry| tracker.detach(entry));
        all.reverse();
        (tracker, Arc::new(Bells(Mutex::new(all))))
    }

    /// One that is free; the lowest that was not lent before, if there is.
    pub(super) fn lend(self: &Arc<Bells>) -> Option<Bell> {
        let (entry, doorbell) = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Bell { entry, doorbell: Some(doorbell), home: self.clone() })
    }
}

impl Bell {
    /// Its place in the table.
    pub(super) fn entry(&self) -> usize {
        self.entry
    }

    #[inline]
    pub(super) fn ring(&mut self, n: u32) {
        if let Some(doorbell) = &mut self.doorbell {
            doorbell.ring(n);
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if let Some(doorbell) = self.doorbell.take() {
            self.home.0.lock().unwrap_or_else(PoisonError::into_inner).push((self.entry, doorbell));
        }
    }
}
