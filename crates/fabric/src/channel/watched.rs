//! What a channel tells its monitor; a channel without one does none of this.
//!
//! A call is *started* when its Request was taken by the link, *sent* when it is published, *noticed* when the poll that found its
//! outcome began, and over when the outcome is handed out. A call that leaves a span sends that span's `traceparent` instead of its
//! caller's, so that the server's span becomes its child.
//!
//! Cost: without a monitor a test of one pointer at each point. With one the times are those that the channel has read anyway.

use super::CallOptions;
use super::calls::Slot;
use super::core::Core;
use crate::connection::handshake::ServiceInfo;
use crate::connection::switch::Links;
use crate::link::Frames;
use crate::monitor::trace::carry;
use crate::monitor::{Connection, Event, Monitor, Point, Side, Stamp};
use crate::status::Code;
use base::units::Nanos;

/// A channel's way to its monitor.
#[derive(Debug)]
pub(super) struct Watched {
    inner: crate::monitor::Watched,
    number: u32,
    traffic: Connection,
    /// The link that the traffic goes over; see [`Links::epoch`].
    epoch: u8,
    /// Sampled calls that were not published yet.
    unsent: Vec<Stamp>,
    /// When the poll began that found the frames being handled.
    noticed: Nanos,
    /// A call's metadata with another `traceparent`.
    metadata: Vec<u8>,
}

impl Watched {
    pub(super) fn new(monitor: &Monitor, services: &[ServiceInfo], number: u64, links: &Links) -> Watched {
        let mut inner = crate::monitor::Watched::new(monitor, Side::Client);
        inner.learn(services);
        // Spans and metrics have 32 bits for it.
        let number = number as u32;
        let traffic = inner.recorder.connection(number, links.transport());
        let (unsent, metadata) = (Vec::new(), Vec::new());
        Watched { inner, number, traffic, epoch: links.epoch(), unsent, noticed: Nanos::ZERO, metadata }
    }

    /// A call is about to be started: its stamp.
    #[inline]
    pub(super) fn look(&mut self, options: &CallOptions<'_>) -> Stamp {
        self.inner.recorder.look(self.number, options.metadata)
    }

    /// The metadata to send with a sampled call, if it is not the caller's own.
    #[cold]
    pub(super) fn metadata(&mut self, stamp: Stamp, own: &[u8]) -> Option<&[u8]> {
        let parent = self.inner.recorder.traceparent(stamp)?;
        self.metadata.clear();
        // Where there is no room for it the caller's own goes out: the server's span is then a sibling.
        carry(own, &parent, &mut self.metadata).then_some(&self.metadata)
    }

    /// The call was started.
    #[inline]
    pub(super) fn started(&mut self, stamp: Stamp, method: u16) {
        self.inner.recorder.count(self.inner.method(method));
        if stamp.is_sampled() {
            self.unsent.push(stamp);
        }
    }

    /// A frame was taken by the link.
    #[inline]
    pub(super) fn sent(&mut self, bytes: usize) {
        self.traffic.sent(bytes);
    }

    /// A frame was refused by the link.
    #[cold]
    pub(super) fn full(&mut self) {
        self.traffic.happened(Event::Full);
    }

    /// What was started is published now.
    #[inline]
    pub(super) fn published(&mut self, links: &Links, now: Nanos) {
        self.inner.refresh();
        for stamp in self.unsent.drain(..) {
            self.inner.recorder.pass_at(stamp, Point::Sent, now);
        }
        if links.epoch() != self.epoch {
            self.switched(links);
        }
    }

    #[cold]
    fn switched(&mut self, links: &Links) {
        self.epoch = links.epoch();
        self.traffic = self.inner.recorder.connection(self.number, links.transport());
    }

    /// These frames were found by a poll that began now.
    #[inline]
    pub(super) fn received(&mut self, frames: &Frames, now: Nanos) {
        self.noticed = now;
        self.traffic.received(frames.len(), frames.bytes());
    }

    /// A frame ended a call.
    #[inline]
    pub(super) fn answered(&mut self, stamp: Stamp, method: u16, code: Code) {
        if stamp.is_sampled() {
            self.inner.recorder.pass_at(stamp, Point::Noticed, self.noticed);
        }
        self.inner.recorder.ended(stamp, self.inner.method(method), code);
    }

    /// This side ended a call.
    #[cold]
    pub(super) fn given_up(&mut self, call: &Slot, code: Code) {
        match code {
            Code::Cancelled => self.traffic.happened(Event::Cancel),
            Code::DeadlineExceeded => self.traffic.happened(Event::Deadline),
            _ => {}
        }
        self.inner.recorder.ended(call.stamp, self.inner.method(call.method), code);
    }
}

impl Core {
    /// A frame was taken by the link, or not.
    #[inline]
    pub(super) fn count_sent(&mut self, bytes: usize) {
        if let Some(watched) = &mut self.watched {
            watched.sent(bytes);
        }
    }

    /// This side ended the call of a slot: its outcome is given.
    pub(super) fn count_given_up(&mut self, slot: u32, code: Code) {
        if let Some(watched) = &mut self.watched {
            watched.given_up(self.calls.slot(slot), code);
        }
    }
}
