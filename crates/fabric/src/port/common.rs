//! What the two sides of a port share beside its rings, and what all ports of a core share.
//!
//! Invariants:
//! 1. A side that finds no room sets its flag, then looks once more; the other side takes entries and tells how far it is, then looks
//!    at the flag. A SeqCst fence between the two steps on each side lets at least one see the other. The flag is set again by each
//!    look that finds no room, since being woken does not mean that there is some: so nobody waits for room that is there.
//! 2. New ends are laid out before the epoch says so, and taken before other ones are laid out.
//! 3. Opened, left and moved ports count as events; the core looks at the count in every turn, and a calm core is touched.
//!
//! Ordering: **refused** marks the fences of 1; **epoch**, **left**, **closed**, **event**: stores with Release, loads with Acquire.

use super::attached::Attached;
use super::bells::{Bell, Bells};
use super::ends::{Receiver, Sender};
use super::mode::{Mode, PortOptions};
use super::open::OpenError;

use ring::summary::Touch;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// New ends for the application's side.
pub(super) struct Moved {
    pub(super) up: Sender,
    pub(super) down: Receiver,
}

/// Shared by the two sides of one port.
#[derive(Default)]
pub(super) struct Common {
    /// How many times new ends were laid out.
    pub(super) epoch: AtomicU32,
    moved: Mutex<Option<Moved>>,
    /// The application was refused a packet, for want of room.
    pub(super) up_refused: AtomicBool,
    /// The core was.
    pub(super) down_refused: AtomicBool,
    /// The application's side is gone; everything it sent is in the rings.
    pub(super) left: AtomicBool,
    /// The core's side is gone; likewise.
    pub(super) closed: AtomicBool,
}

impl Common {
    pub(super) fn lay_out(&self, moved: Moved) {
        *self.moved() = Some(moved);
        self.epoch.fetch_add(1, Ordering::Release); // label: epoch
    }

    pub(super) fn take_moved(&self) -> Option<Moved> {
        self.moved().take()
    }

    pub(super) fn is_laid_out(&self) -> bool {
        self.moved().is_some()
    }

    fn moved(&self) -> MutexGuard<'_, Option<Moved>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises `flag` before the last try: see invariant 1.
pub(super) fn raise(flag: &AtomicBool) {
    flag.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst); // label: refused
}

/// Whether there is room for a packet with so many boxed bytes, looked at twice with the flag raised between.
#[inline]
pub(super) fn has_room_or_raises(sender: &mut Sender, bytes: usize, flag: &AtomicBool) -> bool {
    sender.has_room(bytes) || {
        raise(flag);
        sender.has_room(bytes)
    }
}

/// After entries were taken, and one SeqCst fence for any number of flags: whether it was raised, and lowers it.
#[inline]
pub(super) fn lower(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed) && flag.swap(false, Ordering::Relaxed)
}

/// Shared by a core and all its ports.
pub(super) struct Hall {
    pub(super) touch: Touch,
    pub(super) bells: Arc<Bells>,
    events: AtomicU32,
    max: u32,
    desk: Mutex<Desk>,
}

/// Where ports are opened.
#[derive(Default)]
struct Desk {
    closed: bool,
    /// Ports that the core has not seen yet.
    new: Vec<Attached>,
    /// Places that were used before.
    free: Vec<u32>,
    /// Places below this were used.
    used: u32,
    opened: u32,
}

/// A place for a port.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Hall {
    pub(super) fn new(touch: Touch, bells: Arc<Bells>, max: u32) -> Hall {
        Hall { touch, bells, events: AtomicU32::new(0), max, desk: Mutex::default() }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The doorbell that `options` ask for.
    pub(super) fn bell(&self, options: &PortOptions) -> Result<Option<Bell>, OpenError> {
        match options.mode {
            Mode::Doorbell { .. } => self.bells.lend().map(Some).ok_or(OpenError::TooMany),
            Mode::Inline | Mode::Coherent => Ok(None),
        }
    }

    /// Hands the core what `make` makes for a free place.
    pub(super) fn welcome<T>(&self, make: impl FnOnce(Place) -> (T, Attached)) -> Result<T, OpenError> {
        let mut desk = self.desk();
        if desk.closed {
            return Err(OpenError::Closed);
        }
        let index = match desk.free.pop() {
            Some(index) => index,
            None if desk.used == self.max => return Err(OpenError::TooMany),
            None => {
                desk.used += 1;
                desk.used - 1
            }
        };
        desk.opened = desk.opened.wrapping_add(1);
        let (port, attached) = make(Place { index, generation: desk.opened });
        desk.new.push(attached);
        drop(desk);
        self.announce(index);
        Ok(port)
    }

    /// Ports that were opened since.
    pub(super) fn take_new(&self) -> Vec<Attached> {
        std::mem::take(&mut self.desk().new)
    }

    /// The place can be given to another port.
    pub(super) fn give_back(&self, index: u32) {
        self.desk().free.push(index);
    }

    /// No more ports.
    pub(super) fn close(&self) {
        self.desk().closed = true;
    }

    /// Tells the core that something other than an entry happened.
    pub(super) fn announce(&self, index: u32) {
        self.events.fetch_add(1, Ordering::Release); // label: event
        self.touch.touch(index);
    }

    /// How many events there were.
    #[inline]
    pub(super) fn events(&self) -> u32 {
        self.events.load(Ordering::Acquire) // label: event
    }
}
