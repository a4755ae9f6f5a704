//! The links of a connection: the one that frames go over and, while the transport is being switched, the one before.
//!
//! Both ends of a connection use this. What each does besides: the client opens the new link and says Hello with the
//! connection's token; the server answers Welcome there; each calls [`Links::replace`] when it has done so.
//!
//! Shape, for each side:
//! ```text
//!  one link ── replace ──▶ current + old ── Last sent on the old link, all read that the peer's Last counts,
//!                                │          conclusions (Last with END, over the new link) sent and received ──▶ one link
//!                                └── the old link breaks: a conclusion with fewer frames than were sent,
//!                                    and OldLost on both sides: what went over it may be lost; the rest goes on
//! ```
//!
//! Why conclusions: whoever has read everything knows nothing of what it sent itself. If it dropped the link then, frames still on
//! their way would be lost unnoticed when the link breaks (found by the simulation: a call that waits for ever).
//!
//! Invariants:
//! 1. A frame is sent over one link only, the current one at that moment; `Last` is the last frame sent over the old one.
//! 2. The old link is dropped only when each side knows whether the other has received everything.
//! 3. A second switch begins after the first has ended: [`Links::replace`] while there is an old link is a mistake of ours.
//!
//! The peer's Last may come before this side has switched (its Welcome is still on the way); it is kept with the link.
//!
//! Bounds: two links. Counts are modulo 2³².

use crate::frame::{END, Header, Kind};
use crate::link::{Frames, Link, Lost, SendError, SharedSocket, Transport};
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

/// What a Last means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// All is as it should be.
    Fine,
    /// The peer has not received all that went over the old link: as [`Received::OldLost`].
    OldLost,
    /// It makes no sense; the peer broke the protocol.
    Wrong,
}

/// The links of one connection.
pub struct Links {
    current: Counted,
    old: Option<Old>,
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
}

/// The link before the current one.
struct Old {
    counted: Counted,
    /// Our Last was sent.
    said: bool,
    /// It broke.
    broken: bool,
    /// Our conclusion was sent.
    concluded: bool,
    /// The peer's was received.
    verdict: bool,
}

impl Counted {
    fn new(link: Box<dyn Link>, sent: u32, received: u32) -> Counted {
        Counted { link, sent, received, theirs: None }
    }

    fn recv(&mut self, now: Nanos, max: usize, into: &mut Frames) -> Result<usize, Lost> {
        let count = self.link.recv(now, max, into)?;
        self.received = self.received.wrapping_add(count as u32);
        Ok(count)
    }

    #[inline]
    fn send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        self.link.try_send(head, body)?;
        self.sent = self.sent.wrapping_add(1);
        Ok(())
    }

    fn is_read(&self) -> bool {
        self.theirs == Some(self.received)
    }
}

impl Old {
    fn say_last(&mut self, now: Nanos) {
        if !self.said {
            let last = Header { aux: self.counted.sent, ..Header::new(Kind::Last, 0) };
            self.said = self.counted.link.try_send(&last.emit(), &[]).is_ok();
        }
        self.counted.link.flush(now);
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
        self.current.send(head, body)
    }

    /// Publishes what was sent, and goes on with a switch.
    #[inline]
    pub fn flush(&mut self, now: Nanos) {
        if self.old.is_some() {
            self.flush_old(now);
        }
        self.current.link.flush(now);
    }

    fn flush_old(&mut self, now: Nanos) {
        let Some(old) = &mut self.old else { return };
        #[cfg(test)]
        if self.miscounts && !old.said {
            old.counted.sent -= 1;
        }
        old.say_last(now);
        if !old.concluded && (old.broken || old.counted.is_read()) {
            let conclusion = Header { flags: END, aux: old.counted.received, ..Header::new(Kind::Last, 0) };
            old.concluded = self.current.send(&conclusion.emit(), &[]).is_ok();
        }
        self.drop_old();
    }

    /// Takes frames from one of the links, the old one first.
    ///
    /// # Errors
    /// The current link is lost, and with it the connection.
    #[inline]
    pub fn recv(&mut self, now: Nanos, max: usize, into: &mut Frames) -> Result<Received, Lost> {
        if let Some(old) = self.old.as_mut().filter(|old| !old.broken) {
            match old.counted.recv(now, max, into) {
                Ok(0) => {}
                Ok(count) => return Ok(Received::Frames(count, Side::Old)),
                Err(lost) => {
                    old.broken = true;
                    // When all was read, the peer's conclusion says whether all that we sent was.
                    if !old.counted.is_read() {
                        return Ok(Received::OldLost(lost));
                    }
                }
            }
        }
        Ok(Received::Frames(self.current.recv(now, max, into)?, Side::Current))
    }

    /// A Last came over that link (and was counted by [`Links::recv`]).
    #[must_use]
    pub fn take_last(&mut self, from: Side, header: &Header) -> Noted {
        if header.flags & END != 0 {
            return self.take_conclusion(from, header.aux);
        }
        let link = match (from, &mut self.old) {
            (Side::Current, _) => &mut self.current,
            (Side::Old, Some(old)) => &mut old.counted,
            // It was read to its end, so its Last was taken.
            (Side::Old, None) => return Noted::Wrong,
        };
        link.received = link.received.wrapping_sub(1);
        if link.theirs.replace(header.aux).is_some() { Noted::Wrong } else { Noted::Fine }
    }

    fn take_conclusion(&mut self, from: Side, count: u32) -> Noted {
        let Some(old) = self.old.as_mut().filter(|old| from == Side::Current && !old.verdict) else {
            return Noted::Wrong;
        };
        old.verdict = true;
        let all = count == old.counted.sent;
        self.drop_old();
        if all { Noted::Fine } else { Noted::OldLost }
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
        let counted = std::mem::replace(&mut self.current, Counted::new(link, sent, received));
        self.old = Some(Old { counted, said: false, broken: false, concluded: false, verdict: false });
        self.epoch = self.epoch.wrapping_add(1);
    }

    fn drop_old(&mut self) {
        if self.old.as_ref().is_some_and(|old| old.concluded && old.verdict) {
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

    /// See [`Link::arm_for_room`]; when false nothing stays armed.
    pub fn arm_for_room(&mut self) -> bool {
        let armed = self.all_mut().all(|link| link.arm_for_room());
        if !armed {
            self.disarm();
        }
        armed
    }

    /// See [`Link::is_drained`].
    pub fn is_drained(&self) -> bool {
        self.all().all(|link| link.is_drained())
    }

    /// See [`Link::disarm`].
    pub fn disarm(&mut self) {
        self.all_mut().for_each(|link| link.disarm());
    }

    /// See [`Link::has_news`].
    pub fn has_news(&self) -> bool {
        self.all().any(|link| link.has_news())
    }

    /// See [`Link::shared_socket`]; of the current link.
    pub fn shared_socket(&self) -> Option<SharedSocket> {
        self.current.link.shared_socket()
    }

    /// The descriptors to sleep on; the current link's comes first.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all().map(|link| link.descriptor())
    }

    fn all(&self) -> impl Iterator<Item = &dyn Link> {
        let old = self.old.iter().filter(|old| !old.broken).map(|old| &old.counted);
        std::iter::once(&self.current).chain(old).map(|counted| &*counted.link)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Link>> {
        let old = self.old.iter_mut().filter(|old| !old.broken).map(|old| &mut old.counted);
        std::iter::once(&mut self.current).chain(old).map(|counted| &mut counted.link)
    }
}
