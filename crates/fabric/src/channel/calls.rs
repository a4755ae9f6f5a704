//! The call table: a slot for each call in flight, found by the number that its frames carry.
//!
//! Shape: a call's number is its slot (16 bits) and the slot's generation (16 bits above), so that a number of a call that
//! ended names nothing, until its slot was used 65,536 times more.
//! ```text
//!          open                 Reply, all items handed out
//!   Free ────────▶ Waiting ──────────────────────────────────▶ Free
//!                     │ deadline, cancel: the outcome is given        ▲
//!                     └──────────────▶ Zombie ────────────────────────┘ Reply, all items counted
//! ```
//!
//! Invariants:
//! 1. A call's outcome is given exactly when it leaves Waiting.
//! 2. A slot is used again only after the Reply to its last call came, so a late Reply is never taken for another call's.
//! 3. The server, which counts calls from Request to Reply, never sees more of them than there are slots.
//!
//! Bounds: slots are made once, 32 bytes each; a stream adds its [`Stream`].
//!
//! Cost: O(1); the slot freed last is used first, so a few calls in flight stay in a few cache lines.

use super::stream::Stream;
use crate::monitor::Stamp;

/// Names a call of a channel; of another one after the call has ended and 65,536 more have used its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(crate) u32);

impl CallId {
    /// As frames carry it.
    pub fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn slot(self) -> u32 {
        self.0 & 0xffff
    }
}

/// Slots that the 16 bits of a call's number can name.
pub(crate) const MOST: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    /// Its outcome is still to be given.
    Waiting,
    /// Its outcome was given; its Reply is still to come.
    Zombie,
}

pub(crate) struct Slot {
    pub(crate) user: u64,
    /// For calls that stream.
    pub(super) stream: Option<Box<Stream>>,
    generation: u16,
    pub(super) method: u16,
    /// As the monitor knows it.
    pub(super) stamp: Stamp,
    pub(crate) state: State,
    /// The link that its Request went over; see [`Links::epoch`](crate::connection::switch::Links::epoch).
    pub(super) epoch: u8,
    /// It is in the timing wheel.
    pub(super) timed: bool,
    /// A Cancel is to be sent.
    pub(crate) owes_cancel: bool,
    /// It is in the list of slots that owe frames.
    pub(super) listed: bool,
    /// Its Request or Reply may have gone down with a link, so that its Reply may never come.
    pub(super) stranded: bool,
}

pub(crate) struct Calls {
    slots: Box<[Slot]>,
    free: Vec<u32>,
    /// Slots whose Reply may never come.
    stranded: usize,
    /// A planted bug.
    #[cfg(test)]
    pub(super) forgiving: bool,
}

impl Calls {
    pub(crate) fn new(count: usize) -> Calls {
        assert!((1..=MOST).contains(&count), "a call's number has 16 bits for its slot");
        let slot = |_| Slot {
            user: 0,
            stream: None,
            generation: 0,
            method: 0,
            stamp: Stamp::NONE,
            state: State::Free,
            epoch: 0,
            timed: false,
            owes_cancel: false,
            listed: false,
            stranded: false,
        };
        Calls {
            slots: (0..count).map(slot).collect(),
            free: (0..count as u32).rev().collect(),
            stranded: 0,
            #[cfg(test)]
            forgiving: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Calls whose Reply has not come.
    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The number that the next call will have, if there is room for one.
    #[inline]
    pub(crate) fn next(&self) -> Option<CallId> {
        let slot = *self.free.last()?;
        Some(self.id_of(slot))
    }

    /// Opens the call of which [`Calls::next`] told the number.
    #[inline]
    pub(crate) fn open(&mut self, user: u64, method: u16, epoch: u8, stream: Option<Box<Stream>>) {
        let slot = self.free.pop().expect("a call is opened after its number was told");
        let slot = &mut self.slots[slot as usize];
        (slot.user, slot.method, slot.epoch, slot.state) = (user, method, epoch, State::Waiting);
        // A free slot has none, so there is none to be dropped for it.
        if stream.is_some() {
            slot.stream = stream;
        }
    }

    #[inline]
    pub(crate) fn id_of(&self, slot: u32) -> CallId {
        CallId(slot | u32::from(self.slots[slot as usize].generation) << 16)
    }

    #[inline]
    pub(crate) fn slot(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// The call of this number, if its Reply is still to come.
    #[inline]
    pub(crate) fn find(&mut self, id: CallId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.slot() as usize)?;
        let same = u32::from(slot.generation) == id.0 >> 16 && slot.state != State::Free;
        #[cfg(test)]
        let same = same || self.forgiving && slot.state != State::Free;
        same.then_some(slot)
    }

    /// As [`Calls::find`], if its outcome is still to be given.
    #[inline]
    pub(super) fn find_waiting(&mut self, id: CallId) -> Option<&mut Slot> {
        self.find(id).filter(|slot| slot.state == State::Waiting)
    }

    /// Frees a slot: its Reply came, or never will.
    #[inline]
    pub(crate) fn close(&mut self, slot: u32) {
        let at = &mut self.slots[slot as usize];
        assert!(at.state != State::Free, "a slot is freed once");
        at.state = State::Free;
        at.generation = at.generation.wrapping_add(1);
        if at.stream.is_some() {
            at.stream = None;
        }
        (at.timed, at.owes_cancel) = (false, false);
        if std::mem::take(&mut at.stranded) {
            self.stranded -= 1;
        }
        self.free.push(slot);
    }

    /// Notes that a slot's Reply may never come. True when that is so for half of all, and the connection is of no use.
    pub(super) fn strand(&mut self, slot: u32) -> bool {
        let at = &mut self.slots[slot as usize];
        self.stranded += usize::from(!std::mem::replace(&mut at.stranded, true));
        2 * self.stranded >= self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_its_call_and_no_other() {
        let mut calls = Calls::new(2);
        let open = |calls: &mut Calls, user| {
            let id = calls.next()?;
            calls.open(user, 0, 0, None);
            Some(id)
        };
        let (first, second) = (open(&mut calls, 1).expect("room"), open(&mut calls, 2).expect("room"));
        assert_eq!((calls.in_flight(), open(&mut calls, 3)), (2, None));
        assert_eq!(calls.find(first).map(|slot| slot.user), Some(1));
        calls.close(first.slot());
        assert!(calls.find(first).is_none());
        let third = open(&mut calls, 3).expect("room");
        assert_eq!((third.slot(), third == first), (first.slot(), false));
        assert!(calls.find(first).is_none() && calls.find(CallId(77)).is_none());
        assert_eq!(calls.find(second).map(|slot| slot.user), Some(2));
        calls.slot(third.slot()).state = State::Zombie;
        assert!(calls.find(third).is_some() && calls.find_waiting(third).is_none());
    }

    #[test]
    fn half_stranded_is_the_end() {
        let mut calls = Calls::new(4);
        (0..2).for_each(|user| calls.open(user, 0, 0, None));
        assert!(!calls.strand(0) && !calls.strand(0));
        assert!(calls.strand(1));
        calls.close(0);
        assert!(!calls.strand(1), "one of four");
    }
}
