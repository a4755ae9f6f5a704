//! What a call has besides its slot when messages stream: windows, and items put into order.
//!
//! Items are numbered in each direction from 0, and a link may let one overtake another, so those that come early wait for the ones
//! before them. The Reply says how many items came before it, so the end waits as well.
//!
//! Invariants (numbers modulo 2³²): items below `delivered` were handed out; `early[i]` is item `delivered + i`; the server
//! may send items below `allowed`, we below `granted`. An item outside the window, or one that came before, is a violation.
//!
//! Bounds: at most [`MAX_WINDOW`] items wait in `early`, each of a frame's length at most.

use crate::frame::Violation;
use crate::status::Status;
use std::collections::VecDeque;

/// Items that a peer may be allowed ahead, whatever it asks for.
pub(super) const MAX_WINDOW: u32 = 4096;

/// A streaming call.
pub(crate) struct Stream {
    /// The method's server streams: items may come.
    pub(super) incoming: bool,
    /// The method's client streams: items may be sent.
    pub(super) outgoing: bool,
    /// Credit is granted by whoever reads, not as items are handed out.
    pub(super) explicit: bool,
    /// Items sent; the next one's number.
    pub(super) sent: u32,
    /// Items that may be sent.
    granted: u32,
    /// Finish was sent.
    pub(super) finished: bool,
    /// The number of the item to be handed out next.
    delivered: u32,
    /// Items that came.
    arrived: u32,
    /// Items that the server may send.
    allowed: u32,
    /// Items that it may send besides, once a Credit says so.
    pub(super) owed: u32,
    /// Credit is owed from this many on.
    half: u32,
    early: VecDeque<Option<Kept>>,
    /// The Reply came: how many items there are, and what comes after them.
    ending: Option<(u32, Option<Ending>)>,
    /// A planted bug: items are handed out as they come.
    #[cfg(test)]
    pub(super) hasty: bool,
}

/// An item that waits.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) body: Box<[u8]>,
    pub(super) metadata: Box<[u8]>,
}

/// What comes after the last item: the stream's end, or how the call failed.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) failed: Option<Status>,
    pub(super) metadata: Box<[u8]>,
}

/// What to do with an item that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the next one.
    Next,
    /// It waits.
    Early,
}

impl Stream {
    pub(super) fn new(incoming: bool, outgoing: bool, explicit: bool, window: u32) -> Stream {
        Stream {
            incoming,
            outgoing,
            explicit,
            sent: 0,
            granted: window,
            finished: false,
            delivered: 0,
            arrived: 0,
            allowed: window,
            owed: 0,
            half: (window / 2).max(1),
            early: VecDeque::new(),
            ending: None,
            #[cfg(test)]
            hasty: false,
        }
    }

    /// Whether an item may be sent now.
    pub(super) fn may_send(&self) -> bool {
        self.granted != self.sent
    }

    /// The server takes more items.
    pub(super) fn credit(&mut self, items: u32) -> Result<(), Violation> {
        let ahead = self.granted.wrapping_sub(self.sent);
        if ahead.checked_add(items).is_none_or(|ahead| ahead > u32::MAX / 2) {
            return Err(Violation("more credit than a stream has numbers"));
        }
        self.granted = self.granted.wrapping_add(items);
        Ok(())
    }

    /// An item came.
    pub(super) fn place(&mut self, number: u32, keep: impl FnOnce() -> Kept) -> Result<Place, Violation> {
        self.count(number)?;
        let ahead = number.wrapping_sub(self.delivered) as usize;
        #[cfg(test)]
        if self.hasty {
            self.delivered = self.delivered.wrapping_add(1);
            return Ok(Place::Next);
        }
        if ahead == 0 && self.early.front().is_none_or(Option::is_none) {
            self.early.pop_front();
            self.delivered = self.delivered.wrapping_add(1);
            return Ok(Place::Next);
        }
        if self.early.len() <= ahead {
            self.early.resize_with(ahead + 1, || None);
        }
        match &mut self.early[ahead] {
            Some(_) => Err(Violation("an item came twice")),
            empty => {
                *empty = Some(keep());
                Ok(Place::Early)
            }
        }
    }

    /// An item came, if only to be counted: its call has its outcome.
    pub(super) fn count(&mut self, number: u32) -> Result<(), Violation> {
        if number.wrapping_sub(self.delivered) >= self.allowed.wrapping_sub(self.delivered) {
            return Err(Violation("an item outside its window"));
        }
        self.arrived = self.arrived.wrapping_add(1);
        match self.ending {
            Some((total, _)) if self.remaining(total) > MAX_WINDOW => {
                Err(Violation("more items than the Reply says"))
            }
            _ => Ok(()),
        }
    }

    fn remaining(&self, total: u32) -> u32 {
        total.wrapping_sub(self.arrived)
    }

    /// The Reply came.
    pub(super) fn end(&mut self, total: u32, ending: Option<Ending>) -> Result<(), Violation> {
        if self.ending.is_some() {
            return Err(Violation("a second Reply"));
        }
        // What is still to come must fit the window, and what came must not be more than all.
        let window = self.allowed.wrapping_sub(self.delivered);
        let beyond = total.wrapping_sub(self.delivered) > window;
        if beyond || self.remaining(total) > window {
            return Err(Violation("a Reply that counts other items than there were"));
        }
        self.ending = Some((total, ending));
        Ok(())
    }

    /// Whether the Reply and all items came.
    pub(super) fn is_complete(&self) -> bool {
        self.ending.as_ref().is_some_and(|&(total, _)| self.remaining(total) == 0)
    }

    /// Whether the Reply came.
    pub(super) fn is_replied(&self) -> bool {
        self.ending.is_some()
    }

    /// Whether [`Stream::next_early`] or [`Stream::take_ending`] has something.
    pub(super) fn is_ready(&self) -> bool {
        self.early.front().is_some_and(Option::is_some) || self.at_end()
    }

    fn at_end(&self) -> bool {
        matches!(self.ending, Some((total, Some(_))) if total == self.delivered)
    }

    /// The next item, if it came early.
    pub(super) fn next_early(&mut self) -> Option<Kept> {
        let kept = self.early.front_mut()?.take()?;
        self.early.pop_front();
        self.delivered = self.delivered.wrapping_add(1);
        Some(kept)
    }

    /// What comes after all items, once they were handed out.
    pub(super) fn take_ending(&mut self) -> Option<Ending> {
        if self.at_end() { self.ending.as_mut().and_then(|(_, ending)| ending.take()) } else { None }
    }

    /// Forgets what waits: the call has its outcome. Numbers are counted on.
    pub(super) fn forget(&mut self) {
        self.early = VecDeque::new();
    }

    /// An item was handed out; true if a Credit should be sent.
    pub(super) fn handed_out(&mut self) -> bool {
        if self.explicit || self.is_replied() {
            return false;
        }
        self.owed += 1;
        self.owed >= self.half
    }

    /// Whoever reads wants more items, up to [`MAX_WINDOW`] ahead.
    pub(super) fn grant(&mut self, items: u32) {
        let ahead = self.allowed.wrapping_sub(self.delivered) + self.owed;
        self.owed += items.min(MAX_WINDOW.saturating_sub(ahead));
    }

    /// The Credit that is owed was sent.
    pub(super) fn credited(&mut self) {
        self.allowed = self.allowed.wrapping_add(std::mem::take(&mut self.owed));
    }
}
