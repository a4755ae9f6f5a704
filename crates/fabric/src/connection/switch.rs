//! The links of a connection: the one that frames go over and, while the transport is being switched, the one before.
//!
//! Both ends of a connection use this. What each does besides: the client opens the new link and says Hello with the
//! connection's token; the server answers Welcome there; each calls [`Links::replace`] when it has done so.
//!
//! Shape:
//! ```text
//!            replace                      Last sent, and as many frames read as the peer's Last says
//!  one link ────────▶ current + old ─────────────────────────────────────────────────────────────────▶ one link
//!                          │ old breaks before that
//!                          └────────▶ Received::OldLost: what went over it may be lost; the rest goes on
//! ```
//!
//! Invariants:
//! 1. A frame is sent over one link only, the current one at that moment; `Last` is the last frame sent over the old one.
//! 2. The old link is dropped only when Last was sent and flushed, and the peer's Last and all that it counts were received.
//! 3. A second switch begins after the first has ended: [`Links::replace`] while there is an old link is a mistake of ours.
//!
//! The peer's Last may come before this side has switched (its Welcome is still on the way); it is kept with the link.
//!
//! Bounds: two links. Counts are modulo 2³².

use crate::frame::{Header, Kind};
use crate::link::{Frames, Link, Lost, SendError, Transport};
use base::units::Nanos;
use rustix::fd::BorrowedFd;

/// Which link frames came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that frames go over now.
    Current,
    /// The one before.
    Old,
}

/// What [`Links::recv`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many frames, all from one link; perhaps none.
    Frames(usize, Side),
    /// The old link broke before it was drained. Calls whose Request went over it (see [`Links::epoch`]) may be lost.
    OldLost(Lost),
}

/// The links of one connection.
pub struct Links {
    current: Counted,
    old: Option<Counted>,
    epoch: u8,
    /// A planted bug: Last says one frame less.
    #[cfg(test)]
    pub(crate) miscounts: bool,
}

/// A link, and how many frames went each way.
struct Counted {
    link: Box<dyn Link>,
    sent: u32,
    received: u32,
    /// What the peer's Last said.
    theirs: Option<u32>,
    /// Our Last was sent.
    said: bool,
    /// And flushed.
    flushed: bool,
}

impl Counted {
    fn new(link: Box<dyn Link>, sent: u32, received: u32) -> Counted {
        Counted { link, sent, received, theirs: None, said: false, flushed: false }
    }

    fn recv(&mut self, now: Nanos, max: usize, into: &mut Frames) -> Result<usize, Lost> {
        let count = self.link.recv(now, max, into)?;
        self.received = self.received.wrapping_add(count as u32);
        Ok(count)
    }

    fn is_drained(&self) -> bool {
        self.flushed && self.theirs == Some(self.received)
    }

    fn say_last(&mut self, now: Nanos) {
        if !self.said {
            let last = Header { aux: self.sent, ..Header::new(Kind::Last, 0) };
            self.said = self.link.try_send(&last.emit(), &[]).is_ok();
        }
        self.link.flush(now);
        self.flushed = self.said;
    }
}

impl Links {
    /// A connection over one link, on which so many frames were sent and received already.
    pub fn new(link: Box<dyn Link>, sent: u32, received: u32) -> Links {
        Links {
            current: Counted::new(link, sent, received),
            old: None,
            epoch: 0,
            #[cfg(test)]
            miscounts: false,
        }
    }

    /// What the current link is.
    pub fn transport(&self) -> Transport {
        self.current.link.transport()
    }

    /// Counts the switches, modulo 256: what was sent in another epoch than this went over the old link.
    #[inline]
    pub fn epoch(&self) -> u8 {
        self.epoch
    }

    /// Whether the old link is still there.
    pub fn is_switching(&self) -> bool {
        self.old.is_some()
    }

    /// Sends a frame over the current link.
    ///
    /// # Errors
    /// As [`Link::try_send`].
    #[inline]
    pub fn send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        self.current.link.try_send(head, body)?;
        self.current.sent = self.current.sent.wrapping_add(1);
        Ok(())
    }

    /// Publishes what was sent, and says Last on the old link as soon as it takes it.
    #[inline]
    pub fn flush(&mut self, now: Nanos) {
        self.current.link.flush(now);
        if let Some(old) = &mut self.old {
            #[cfg(test)]
            if self.miscounts && !old.said {
                old.sent -= 1;
            }
            old.say_last(now);
            self.drop_drained();
        }
    }

    /// Takes frames from one of the links, the old one first.
    ///
    /// # Errors
    /// The current link is lost, and with it the connection.
    #[inline]
    pub fn recv(&mut self, now: Nanos, max: usize, into: &mut Frames) -> Result<Received, Lost> {
        if let Some(old) = &mut self.old {
            match old.recv(now, max, into) {
                Ok(0) => {}
                Ok(count) => return Ok(Received::Frames(count, Side::Old)),
                Err(lost) => {
                    self.old = None;
                    return Ok(Received::OldLost(lost));
                }
            }
        }
        Ok(Received::Frames(self.current.recv(now, max, into)?, Side::Current))
    }

    /// The peer's Last came over that link (and was counted by [`Links::recv`]); false if it had said so before.
    #[must_use]
    pub fn take_last(&mut self, from: Side, count: u32) -> bool {
        // A link that is not there any more was drained, so its Last was taken.
        let Some(link) = (match from {
            Side::Current => Some(&mut self.current),
            Side::Old => self.old.as_mut(),
        }) else {
            return false;
        };
        link.received = link.received.wrapping_sub(1);
        let first = link.theirs.replace(count).is_none();
        self.drop_drained();
        first
    }

    /// Whether the peer has said Last on the current link: it has switched, and we must follow.
    pub fn is_left(&self) -> bool {
        self.current.theirs.is_some()
    }

    /// Goes on over `link`, on which so many frames were sent and received already (the handshake).
    ///
    /// # Panics
    /// If the link before the current one is not drained yet.
    pub fn replace(&mut self, link: Box<dyn Link>, sent: u32, received: u32) {
        assert!(self.old.is_none(), "a switch begins after the one before has ended");
        self.old = Some(std::mem::replace(&mut self.current, Counted::new(link, sent, received)));
        self.epoch = self.epoch.wrapping_add(1);
    }

    fn drop_drained(&mut self) {
        if self.old.as_ref().is_some_and(Counted::is_drained) {
            self.old = None;
        }
    }

    /// See [`Link::next_deadline`].
    pub fn next_deadline(&self) -> Nanos {
        self.all().map(|link| link.next_deadline()).min().unwrap_or(Nanos::MAX)
    }

    /// See [`Link::arm`]; when false nothing stays armed.
    pub fn arm(&mut self) -> bool {
        let armed = self.all_mut().all(|link| link.arm());
        if !armed {
            self.disarm();
        }
        armed
    }

    /// See [`Link::disarm`].
    pub fn disarm(&mut self) {
        self.all_mut().for_each(|link| link.disarm());
    }

    /// The descriptors to sleep on.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all().map(|link| link.descriptor())
    }

    fn all(&self) -> impl Iterator<Item = &dyn Link> {
        std::iter::once(&self.current).chain(&self.old).map(|counted| &*counted.link)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Link>> {
        std::iter::once(&mut self.current).chain(&mut self.old).map(|counted| &mut counted.link)
    }
}
