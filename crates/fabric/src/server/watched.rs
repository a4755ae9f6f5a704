//! What a server tells its monitor; a server without one does none of this.
//!
//! A call is *received* when its frame came, *begun* when its handler (or whoever runs it) gets it, *ended* when the answer is there, and
//! over when the Reply was handed to the link. For a call that runs on workers the second stage has the way to the worker and back
//! in it.
//!
//! Cost: without a monitor a test of one pointer at each point; clocks are read for sampled calls alone.

use super::Core;
use super::connection::{Connection, Counters};
use super::places::{At, Target};
use crate::frame::{Frame, Header};
use crate::link::Transport;
use crate::monitor::trace::carry;
use crate::monitor::{self, Event, MethodId, Monitor, Point, Side, Stamp, Watched};
use crate::status::Code;
use base::units::Nanos;

/// A call, as the monitor knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub(super) stamp: Stamp,
    pub(super) method: MethodId,
}

impl Watch {
    /// Of a server without a monitor.
    pub(super) const NONE: Watch = Watch { stamp: Stamp::NONE, method: MethodId::OTHER };
}

/// What went over a connection's link, as far as the monitor was told.
#[derive(Debug)]
pub(super) struct Traffic {
    connection: monitor::Connection,
    told: Counters,
}

impl Traffic {
    /// Tells the monitor what has happened since the last time.
    #[inline]
    pub(super) fn tell(&mut self, now: &Counters) {
        let told = std::mem::replace(&mut self.told, *now);
        self.connection.sent_many(now.frames_out - told.frames_out, now.bytes_out - told.bytes_out);
        let (frames, bytes) = (now.frames_in - told.frames_in, now.bytes_in - told.bytes_in);
        self.connection.received(frames as usize, bytes as usize);
        (told.full..now.full).for_each(|_| self.connection.happened(Event::Full));
        (told.cancelled..now.cancelled).for_each(|_| self.connection.happened(Event::Cancel));
    }
}

impl super::Server {
    /// Tells a monitor what it does, from the next connection on; calls are sampled as `monitor.sample` and `trace.sample` of the
    /// monitor's registers say.
    #[must_use]
    pub fn monitor(mut self, monitor: &Monitor) -> Self {
        self.core.watched = Some(Box::new(Watched::new(monitor, Side::Server)));
        self.core.show_accelerator();
        // A server that has one already goes on with its tracer.
        let _ = self.core.router.tracer.set(monitor.tracer());
        self
    }
}

impl Core {
    /// Counts what a new connection does, or one that goes on over another transport.
    pub(super) fn watch_connection(&mut self, number: u64, transport: Transport) -> Option<Traffic> {
        let watched = self.watched.as_mut()?;
        watched.learn(self.router.services());
        watched.record();
        let connection = watched.recorder.connection(number as u32, transport);
        Some(Traffic { connection, told: Counters::default() })
    }

    /// A Request was taken that arrived then; whether it had to wait for that.
    #[inline]
    pub(super) fn watch_request(
        &mut self,
        connection: u64,
        request: &Frame<'_>,
        arrived: Nanos,
        has_waited: bool,
    ) -> Watch {
        if self.watched.is_none() {
            return Watch::NONE;
        }
        self.watch_known(connection, request, arrived, has_waited)
    }

    #[inline(never)]
    fn watch_known(
        &mut self,
        connection: u64,
        request: &Frame<'_>,
        arrived: Nanos,
        has_waited: bool,
    ) -> Watch {
        let watched = self.watched.as_mut().expect("asked before");
        let method = watched.method(request.header.method);
        let stamp = watched.recorder.started(method, connection as u32, request.metadata);
        if stamp.is_sampled() {
            watched.recorder.moved(stamp, 0, request.body.len());
            self.scratch.span = watched.recorder.traceparent(stamp).unwrap_or_default();
            // A worker's spans begin when the request arrived, and lie in the call's.
            if has_waited || !self.scratch.span.is_empty() {
                watched.recorder.came_at(stamp, arrived);
            }
        } else if !self.scratch.span.is_empty() {
            self.scratch.span.clear();
        }
        Watch { stamp, method }
    }

    /// The request as it is submitted elsewhere, if that is not as it came: one that leaves spans carries its own, so that what is done with it
    /// there are parts of it.
    #[inline]
    pub(super) fn carried(&self, frame: &Frame<'_>) -> Option<Vec<u8>> {
        if self.scratch.span.is_empty() { None } else { self.carry(frame) }
    }

    #[cold]
    fn carry(&self, frame: &Frame<'_>) -> Option<Vec<u8>> {
        let mut metadata = Vec::new();
        // Where there is no room for it the request goes as it came, and its parts belong to its caller.
        let len = carry(frame.metadata, &self.scratch.span, &mut metadata).then_some(metadata.len())?;
        let header = Header { metadata: len as u32, ..frame.header };
        Some([&header.emit()[..], &metadata, frame.body].concat())
    }

    /// A sampled call passes this point now.
    #[inline]
    pub(super) fn watch_pass(&mut self, watch: Watch, point: Point) {
        if let Some(watched) = &mut self.watched {
            watched.recorder.pass(watch.stamp, point);
        }
    }

    /// A call, sampled or not, is run at that place.
    #[inline]
    pub(super) fn watch_run(&mut self, at: At) {
        if let Some(watched) = &mut self.watched {
            watched.recorder.run(at.shown());
        }
    }

    /// A sampled call is handled at that place.
    #[inline]
    pub(super) fn watch_place(&mut self, watch: Watch, target: Target) {
        if let (Some(watched), Target::There(at)) = (&mut self.watched, target) {
            watched.recorder.placed(watch.stamp, At::shown(at));
        }
    }

    /// The reply to a sampled call has so many bytes.
    #[inline]
    pub(super) fn watch_reply(&mut self, watch: Watch, bytes: usize) {
        if let Some(watched) = &mut self.watched {
            watched.recorder.moved(watch.stamp, bytes, 0);
        }
    }

    /// The Reply of a call was handed to the link, or never will be.
    #[inline]
    pub(super) fn watch_end(&mut self, watch: Watch, code: Code) {
        if let Some(watched) = &mut self.watched {
            watched.recorder.ended(watch.stamp, watch.method, code);
        }
    }
}

impl Connection {
    /// The Reply of an open call was handed to the link, or never will be.
    pub(super) fn watch_end_of(&mut self, core: &mut Core, call: u32, code: Code) {
        if let Some(open) = self.calls.get(call) {
            core.watch_end(open.watch, code);
        }
    }

    /// From now on traffic goes over another transport.
    pub(super) fn switch_traffic(&mut self, core: &mut Core) {
        self.watch_traffic();
        if let Some(traffic) = &mut self.traffic {
            let fresh = core.watch_connection(self.number, self.links.transport());
            traffic.connection = fresh.expect("a monitor stays").connection;
        }
    }

    /// Tells the monitor what went over the link.
    #[inline]
    pub(super) fn watch_traffic(&mut self) {
        if let Some(traffic) = &mut self.traffic {
            traffic.tell(&self.counters);
        }
    }
}

/// The code of a Reply.
#[inline]
pub(super) fn code_of(reply: &[u8]) -> Code {
    Code::of(u16::from_le_bytes([reply[2], reply[3]]))
}
