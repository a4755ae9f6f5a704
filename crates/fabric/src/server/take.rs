//! What each frame of a client means.
//!
//! A Request of a method without streams is the fast path: it is handled and answered where it lies in the batch, and leaves nothing
//! behind. Everything else that breaks an invariant of the design is a [`Violation`], which ends the connection.
//!
//! Cost: one frame's header is read once; nothing is allocated.

use super::calls::{self, Open};
use super::connection::{Batch, Connection, End, Phase};
use super::executor::Origin;
use super::places::{At, Target};
use super::router::{Executed, deadline, too_late, unknown_method};
use super::tasks::Of;
use super::watched::{Watch, code_of};
use super::{Core, failure};
use crate::connection::switch::{Noted, Received, Side};
use crate::frame::{Frame, HEADER, Header, Kind, Violation};
use crate::monitor::Point;
use crate::service::{Place, Shape, Shared, StreamCall};
use crate::status::{Code, Status};
use base::rights::Peer;
use base::units::Nanos;
use std::sync::Arc;

/// Whether the next frame may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Go,
    Stop,
}

impl Flow {
    fn when(sent: bool) -> Flow {
        if sent { Flow::Go } else { Flow::Stop }
    }
}

#[cold]
fn draining() -> Status {
    Status::new(Code::Unavailable, "the server is shutting down")
}

/// The method may run nowhere that there is.
#[cold]
fn no_place(core: &Core, method: u16) -> Status {
    let entry = core.router.entry(method).expect("the method was found before");
    let places: Vec<&str> = entry.places.iter().map(Place::name).collect();
    let (path, places) = (core.router.path(entry), places.join(" or "));
    let text = format!(
        "{path} runs on {places} only, as its .proto file says, and this server has none: set workers.count, or give it an engine core"
    );
    Status::new(Code::FailedPrecondition, text)
}

impl Core {
    /// Whether a client may have a request handled; one for a method that there is not is no matter of rights.
    #[cold]
    #[inline(never)]
    fn admits(&self, peer: &mut Peer, frame: &Frame<'_>) -> Result<(), Status> {
        let (Some(gate), Some(entry)) = (&self.gate, self.router.entry(frame.header.method)) else {
            return Ok(());
        };
        gate.admits(peer, &entry.path, frame.metadata, Some(frame.body))
    }

    /// Submits a request; false if there is no room, or no place.
    fn submit(&mut self, target: Target, origin: Origin, request: &[u8]) -> bool {
        let (Target::There(at), Some(places)) = (target, &mut self.places) else { return false };
        let is_taken = places.submit(at, origin, request).is_ok();
        self.submitted |= is_taken;
        if is_taken {
            self.watch_run(at);
        }
        is_taken
    }
}

impl Connection {
    /// Takes up to a quantum of frames; how many.
    #[inline]
    pub(super) fn turn(&mut self, core: &mut Core, now: Nanos) -> usize {
        if !self.may_take(core, now) || !self.submit_refused(core, now) {
            return 0;
        }
        let mut batch = if self.kept.frames.is_empty() {
            match self.receive(core, now) {
                Some(batch) => batch,
                None => return 0,
            }
        } else {
            std::mem::replace(&mut self.kept, core.spare(now))
        };
        let mut taken = 0;
        while let Some(bytes) = batch.frames.pop() {
            taken += 1;
            self.counters.bytes_in += bytes.len() as u64;
            match self.take(core, bytes, batch.side, batch.arrived, now) {
                Ok(Flow::Go) => {}
                Ok(Flow::Stop) => break,
                Err(Violation(what)) => {
                    self.end(End::Violation(what));
                    break;
                }
            }
        }
        self.counters.frames_in += taken as u64;
        if !self.dirty {
            self.watch_traffic();
        }
        self.taken = taken;
        if batch.frames.is_empty() {
            core.frames = batch.frames;
        } else {
            self.kept = batch;
        }
        taken
    }

    /// Receives a quantum.
    #[inline]
    fn receive(&mut self, core: &mut Core, now: Nanos) -> Option<Batch> {
        let mut frames = std::mem::take(&mut core.frames);
        frames.clear();
        let side = match self.links.recv(now, core.options.quantum, &mut frames) {
            Ok(Received::Frames(1.., side)) => side,
            Ok(Received::Frames(..)) => {
                core.frames = frames;
                return None;
            }
            Ok(Received::OldLost(_)) => {
                core.frames = frames;
                self.end_streams_of_old_link(core, now);
                return None;
            }
            Err(lost) => {
                core.frames = frames;
                self.end(End::Lost(lost));
                return None;
            }
        };
        self.heard = now;
        Some(Batch { frames, side, arrived: now })
    }

    #[inline]
    fn take(
        &mut self,
        core: &mut Core,
        bytes: &[u8],
        side: Side,
        arrived: Nanos,
        now: Nanos,
    ) -> Result<Flow, Violation> {
        let frame = Frame::parse(bytes)?;
        if frame.header.kind == Kind::Request {
            return self.request(core, &frame, bytes, arrived, now);
        }
        self.take_other(core, &frame, bytes, side, now)
    }

    #[inline]
    fn request(
        &mut self,
        core: &mut Core,
        frame: &Frame<'_>,
        bytes: &[u8],
        arrived: Nanos,
        now: Nanos,
    ) -> Result<Flow, Violation> {
        let Header { call, method, .. } = frame.header;
        if self.calls.len() >= self.max_calls {
            return Err(Violation("more calls in flight than the Welcome allows"));
        }
        if self.calls.contains(call) {
            return Err(Violation("a call's number is used while the call is open"));
        }
        self.counters.requests += 1;
        let watch = core.watch_request(self.number, frame, arrived, arrived < now);
        if !matches!(self.phase, Phase::Open) {
            return Ok(self.refuse(&frame.header, core, watch, &draining(), now));
        }
        if let Some(peer) = &mut self.peer
            && let Err(status) = core.admits(peer, frame)
        {
            return Ok(self.refuse(&frame.header, core, watch, &status, now));
        }
        match core.router.entry(method) {
            None => return Ok(self.refuse(&frame.header, core, watch, &unknown_method(method), now)),
            Some(entry) if !entry.descriptor.is_unary() => {
                return self.open_stream(core, frame, watch, arrived, now);
            }
            Some(_) if core.elsewhere => match core.target(frame, self.number) {
                Target::Here => {}
                Target::Nowhere => {
                    let status = no_place(core, method);
                    return Ok(self.refuse(&frame.header, core, watch, &status, now));
                }
                target => return Ok(self.submit(core, target, frame, bytes, watch, arrived, now)),
            },
            _ => {}
        }
        let origin = Origin { connection: self.number, arrived };
        core.watch_pass(watch, Point::Begun);
        core.watch_run(At::Edge);
        let Core { router, scratch, watched, .. } = core;
        match router.execute(scratch, frame, origin, now) {
            Executed::Reply(head, body) => {
                self.counters.replies += 1;
                self.counters.failed += u64::from(head[2..4] != [0, 0]);
                let mut watched = watched.as_mut();
                if let Some(watched) = &mut watched {
                    watched.recorder.pass(watch.stamp, Point::Ended);
                    watched.recorder.moved(watch.stamp, body.len(), 0);
                }
                let sent = self.send(&head, body, now);
                if let Some(watched) = watched {
                    watched.recorder.ended(watch.stamp, watch.method, code_of(&head));
                }
                Ok(Flow::when(sent))
            }
            Executed::Deferred => {
                self.open_deferred(core, frame, watch, arrived);
                Ok(Flow::Go)
            }
        }
    }

    /// Answers a Request that is not handled.
    #[cold]
    fn refuse(
        &mut self,
        request: &Header,
        core: &mut Core,
        watch: Watch,
        status: &Status,
        now: Nanos,
    ) -> Flow {
        core.watch_end(watch, status.code());
        if !core.router.is_unary(request.method) {
            self.calls.ended(request.call);
        }
        Flow::when(self.reply(&failure(request.call, 0, status), now))
    }

    fn open_deferred(&mut self, core: &mut Core, frame: &Frame<'_>, watch: Watch, arrived: Nanos) {
        let (call, deadline) = (frame.header.call, deadline(&frame.header, arrived));
        core.remember_timer(deadline, self.number, call);
        let kind = calls::Kind::Deferred { state: None, cancelled: false };
        self.calls.insert(call, Open { deadline, kind, watch });
    }

    /// Gives a Request to where it is to run; if there is no room, it waits here.
    #[allow(clippy::too_many_arguments)] // what a request is
    fn submit(
        &mut self,
        core: &mut Core,
        target: Target,
        frame: &Frame<'_>,
        bytes: &[u8],
        watch: Watch,
        arrived: Nanos,
        now: Nanos,
    ) -> Flow {
        if now >= deadline(&frame.header, arrived) {
            return self.refuse(&frame.header, core, watch, &too_late(), now);
        }
        core.watch_pass(watch, Point::Begun);
        core.watch_place(watch, target);
        let carried = core.carried(frame);
        let bytes = carried.as_deref().unwrap_or(bytes);
        let origin = Origin { connection: self.number, arrived };
        let flow = if core.submit(target, origin, bytes) {
            Flow::Go
        } else {
            self.refused = Some((bytes.to_vec(), arrived));
            Flow::Stop
        };
        // Open in both cases: it was taken.
        self.open_deferred(core, frame, watch, arrived);
        flow
    }

    /// Offers the Request that there was no room for again; false if there still is none.
    #[inline]
    fn submit_refused(&mut self, core: &mut Core, now: Nanos) -> bool {
        self.refused.is_none() || self.submit_again(core, now)
    }

    #[cold]
    fn submit_again(&mut self, core: &mut Core, now: Nanos) -> bool {
        let Some((bytes, arrived)) = self.refused.take() else { return true };
        let origin = Origin { connection: self.number, arrived };
        let Ok(frame) = Frame::parse(&bytes) else { return true };
        let header = frame.header;
        let target = if core.elsewhere { core.target(&frame, self.number) } else { Target::Here };
        if target == Target::Here {
            return self.execute_refused(core, &bytes, origin, now);
        }
        if core.submit(target, origin, &bytes) {
            return true;
        }
        if target == Target::Nowhere {
            let status = no_place(core, header.method);
            self.watch_end_of(core, header.call, status.code());
            self.close_call(core, header.call);
            return self.reply(&failure(header.call, 0, &status), now);
        }
        if now >= deadline(&header, arrived) {
            self.watch_end_of(core, header.call, Code::DeadlineExceeded);
            self.close_call(core, header.call);
            return self.reply(&failure(header.call, 0, &too_late()), now);
        }
        self.refused = Some((bytes, arrived));
        false
    }

    /// Runs a Request here that waited for workers, of which there are none any more.
    #[cold]
    fn execute_refused(&mut self, core: &mut Core, bytes: &[u8], origin: Origin, now: Nanos) -> bool {
        let frame = Frame::parse(bytes).expect("it was parsed when it was taken");
        core.watch_run(At::Edge);
        let Core { router, scratch, .. } = core;
        // It carries its own span, if it leaves one.
        scratch.span.clear();
        let Executed::Reply(head, body) = router.execute(scratch, &frame, origin, now) else { return true };
        let reply = [&head[..], body].concat();
        if let Some(open) = self.calls.get(frame.header.call) {
            core.watch_reply(open.watch, reply.len() - HEADER);
        }
        self.watch_end_of(core, frame.header.call, code_of(&reply));
        self.close_call(core, frame.header.call);
        self.reply(&reply, now)
    }

    #[inline(never)]
    fn open_stream(
        &mut self,
        core: &mut Core,
        frame: &Frame<'_>,
        watch: Watch,
        arrived: Nanos,
        now: Nanos,
    ) -> Result<Flow, Violation> {
        let Header { call, method, .. } = frame.header;
        let entry = core.router.entry(method).cloned().expect("the method was found before");
        let descriptor = entry.descriptor;
        if descriptor.client_streaming && !frame.body.is_empty() {
            return Err(Violation("the Request of a client's stream has a message"));
        }
        let deadline = deadline(&frame.header, arrived);
        if now >= deadline {
            return Ok(self.refuse(&frame.header, core, watch, &too_late(), now));
        }
        let (client_streaming, server_streaming) = (descriptor.client_streaming, descriptor.server_streaming);
        let shape = Shape { client_streaming, server_streaming, window: self.window };
        let shared = Arc::new(Shared::new(shape, &core.returns, &self.held, self.number, call));
        if !client_streaming {
            shared.put(0, frame.body)?;
            shared.finish(1)?;
        }
        let stream = StreamCall::new(&shared, frame.metadata, self.number, deadline);
        let future = entry.service.stream(entry.index, stream);
        core.watch_pass(watch, Point::Begun);
        let of = Of::Stream { connection: self.number, call };
        let task = core.tasks.add(future, of, &core.returns);
        core.remember_timer(deadline, self.number, call);
        let kind = calls::Kind::Stream { shared, task, stalled: false };
        self.calls.insert(call, Open { deadline, kind, watch });
        core.fresh.push(task);
        for early in self.calls.take_early(call) {
            self.take(core, &early, Side::Current, arrived, now)?;
        }
        Ok(Flow::Go)
    }

    #[inline(never)]
    fn take_other(
        &mut self,
        core: &mut Core,
        frame: &Frame<'_>,
        bytes: &[u8],
        side: Side,
        now: Nanos,
    ) -> Result<Flow, Violation> {
        let header = frame.header;
        match header.kind {
            Kind::Item | Kind::Finish | Kind::Credit => self.take_of_stream(frame, bytes)?,
            Kind::Cancel => self.cancel(core, &header, bytes, now)?,
            Kind::Ping => {
                let pong = Header { aux: header.aux, ..Header::new(Kind::Pong, header.call) };
                return Ok(Flow::when(self.send_header(pong, now)));
            }
            Kind::Pong => {
                if let Phase::Draining { answered, .. } = &mut self.phase {
                    *answered = true;
                }
            }
            Kind::Last => {
                let noted = self.links.take_last(side, &header);
                if noted == Noted::Wrong || self.links.is_left() {
                    return Err(Violation("a link was left that is the only one"));
                }
                if noted == Noted::OldLost {
                    self.end_streams_of_old_link(core, now);
                }
            }
            Kind::Request => unreachable!("taken before"),
            Kind::Hello | Kind::Welcome | Kind::Refuse | Kind::Reply | Kind::Goodbye => {
                return Err(Violation("a frame that no client sends in a connection"));
            }
        }
        Ok(Flow::Go)
    }

    fn take_of_stream(&mut self, frame: &Frame<'_>, bytes: &[u8]) -> Result<(), Violation> {
        let Header { kind, call, aux, .. } = frame.header;
        let Some(open) = self.calls.get(call) else {
            return match self.calls.keep_early(call, bytes) {
                true => Ok(()),
                false => Err(Violation("too many frames of streams that are not open")),
            };
        };
        let calls::Kind::Stream { shared, .. } = &open.kind else {
            return Err(Violation("a stream's frame for a call without one"));
        };
        match kind {
            Kind::Item => shared.put(aux, frame.body)?,
            Kind::Finish => shared.finish(aux)?,
            _ => shared.credit(aux)?,
        }
        Ok(())
    }

    /// A Cancel may overtake its Request. One of a stream waits for it, since nobody else would end that stream; a call without
    /// streams ends anyway.
    fn cancel(
        &mut self,
        core: &mut Core,
        header: &Header,
        bytes: &[u8],
        now: Nanos,
    ) -> Result<(), Violation> {
        let call = header.call;
        let Some(open) = self.calls.get(call) else {
            let streams = core.router.entry(header.method).is_some() && !core.router.is_unary(header.method);
            return match streams && !self.calls.keep_early(call, bytes) {
                false => Ok(()),
                true => Err(Violation("too many frames of streams that are not open")),
            };
        };
        self.counters.cancelled += 1;
        match &mut open.kind {
            calls::Kind::Deferred { state, cancelled } => {
                *cancelled = true;
                if let Some(state) = state {
                    state.cancel();
                }
            }
            calls::Kind::Stream { .. } => {
                self.end_stream(core, call, &Status::new(Code::Cancelled, "the caller cancelled"), now);
            }
        }
        Ok(())
    }

    /// The link before the current one broke before it was empty. Items may have been on it, so no stream can be trusted to be whole.
    #[cold]
    fn end_streams_of_old_link(&mut self, core: &mut Core, now: Nanos) {
        let status = Status::new(Code::Unavailable, "a link was lost that may have had items of this stream");
        for call in self.calls.numbers() {
            self.end_stream(core, call, &status, now);
        }
    }
}
