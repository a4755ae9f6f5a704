//! Where snapshots lie in tests: it takes its time, fails now and then, and loses power.

use crate::durable::Shelf;
use base::Prng;
use std::io;
use std::sync::{Arc, Mutex};

/// See the head of the file.
#[derive(Default)]
pub(in super::super) struct Slow {
    /// The newest snapshot.
    pub(in super::super) newest: Option<Vec<u8>>,
    building: Vec<u8>,
    /// Looks until it is published.
    left: Option<u64>,
    fails: bool,
    pub(in super::super) prng: Option<Prng>,
}

pub(in super::super) type Shared = Arc<Mutex<Slow>>;

impl Slow {
    /// Power fails: what is being published may be the newest or not.
    pub(in super::super) fn crash(&mut self, prng: &mut Prng) {
        if self.left.take().is_some() && prng.below(2) == 0 {
            self.newest = Some(std::mem::take(&mut self.building));
        }
        self.building.clear();
    }
}

impl Shelf for Shared {
    fn begin(&mut self) {
        let mut slow = self.lock().expect("no panic");
        (slow.building, slow.left) = (Vec::new(), None);
        slow.fails = slow.prng.as_mut().expect("given").below(8) == 0;
    }

    fn write(&mut self, mut bytes: Vec<u8>) {
        self.lock().expect("no panic").building.append(&mut bytes);
    }

    fn is_ready(&mut self) -> io::Result<bool> {
        Ok(self.lock().expect("no panic").prng.as_mut().expect("given").below(3) > 0)
    }

    fn publish(&mut self) {
        let mut slow = self.lock().expect("no panic");
        slow.left = Some(slow.prng.as_mut().expect("given").below(20));
    }

    fn is_published(&mut self) -> io::Result<bool> {
        let mut slow = self.lock().expect("no panic");
        if slow.fails {
            return Err(io::Error::other("no room"));
        }
        let left = slow.left.expect("it is being published");
        slow.left = left.checked_sub(1);
        if slow.left.is_none() {
            slow.newest = Some(std::mem::take(&mut slow.building));
        }
        Ok(slow.left.is_none())
    }
}
