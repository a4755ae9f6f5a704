//! What the server's frames mean for the calls of a channel.
//!
//! | frame | for a call that | is |
//! |---|---|---|
//! | Reply | is Waiting | its outcome, after the items that it counts |
//! | | is a Zombie | the end of its slot |
//! | | is not known | a violation: the number is free only after the Reply |
//! | Item | streams, Waiting | an event, in order of the numbers |
//! | | streams, Zombie | counted |
//! | | is not known, or does not stream | a violation: the Reply waits for all items |
//! | Credit | streams | more to send |
//! | | is not known | nothing: the Reply overtook it |
//! | Ping, Pong, Goodbye, Last | | what they say |
//! | anything else | | a violation |
//!
//! A violation ends the connection; see [`Core::violated`].

use super::calls::{CallId, State};
use super::core::{Core, PONGS, Phase};
use super::event::{Happened, Waiting, What};
use super::stream::{Ending, Kept, Place};
use crate::connection::switch::{Noted, Side};
use crate::frame::{END, Frame, Kind, Violation};
use crate::link::Lost;
use crate::status::{Code, Status};

impl Core {
    /// Takes a frame that came over that link.
    #[inline]
    pub(super) fn handle<'f>(
        &mut self,
        bytes: &'f [u8],
        from: Side,
    ) -> Result<Option<Happened<'f>>, Violation> {
        let frame = Frame::parse(bytes)?;
        match frame.header.kind {
            Kind::Reply => self.reply(&frame),
            Kind::Item => self.item(&frame),
            _ => self.control(&frame, from).map(|()| None),
        }
    }

    #[inline]
    fn reply<'f>(&mut self, frame: &Frame<'f>) -> Result<Option<Happened<'f>>, Violation> {
        let call = CallId(frame.header.call);
        let Some(slot) = self.calls.find(call) else { return Err(Violation("a Reply to no call")) };
        if slot.stream.as_ref().is_some_and(|stream| stream.incoming) {
            return self.reply_to_stream(frame);
        }
        if frame.header.aux != 0 {
            return Err(Violation("a Reply that counts items of a method without any"));
        }
        let (state, user, stamp, method) = (slot.state, slot.user, slot.stamp, slot.method);
        self.untime(call.slot());
        self.calls.close(call.slot());
        if state == State::Zombie {
            return Ok(None);
        }
        if let Some(watched) = &mut self.watched {
            watched.answered(stamp, method, Code::of(frame.header.method));
        }
        let what = match status_of(frame) {
            None => What::Reply(frame.body),
            Some(status) => What::Failed(status),
        };
        Ok(Some(Happened { call, user, what, metadata: frame.metadata }))
    }

    /// The Reply of a stream may come before items that it counts.
    #[inline(never)]
    fn reply_to_stream<'f>(&mut self, frame: &Frame<'f>) -> Result<Option<Happened<'f>>, Violation> {
        let call = CallId(frame.header.call);
        let slot = self.calls.find(call).expect("found just now");
        let waits = slot.state == State::Waiting;
        let ending = waits.then(|| Ending { failed: status_of(frame), metadata: frame.metadata.into() });
        let stream = slot.stream.as_mut().expect("it streams");
        stream.end(frame.header.aux, ending)?;
        if waits {
            if stream.is_ready() {
                self.ready.push_back(call);
            }
        } else if stream.is_complete() {
            self.calls.close(call.slot());
        }
        Ok(None)
    }

    #[inline(never)]
    fn item<'f>(&mut self, frame: &Frame<'f>) -> Result<Option<Happened<'f>>, Violation> {
        let call = CallId(frame.header.call);
        let number = frame.header.aux;
        let Some(slot) = self.calls.find(call) else { return Err(Violation("an item of no call")) };
        let (state, user) = (slot.state, slot.user);
        let Some(stream) = slot.stream.as_mut().filter(|stream| stream.incoming) else {
            return Err(Violation("an item of a method without any"));
        };
        if state == State::Zombie {
            stream.count(number)?;
            if stream.is_complete() {
                self.calls.close(call.slot());
            }
            return Ok(None);
        }
        let keep = || Kept { body: frame.body.into(), metadata: frame.metadata.into() };
        match stream.place(number, keep)? {
            Place::Early => {
                if stream.is_ready() {
                    self.ready.push_back(call);
                }
                Ok(None)
            }
            Place::Next => {
                if stream.is_ready() {
                    self.ready.push_back(call);
                }
                let what = What::Item(frame.body);
                Ok(Some(Happened { call, user, what, metadata: frame.metadata }))
            }
        }
    }

    /// What a stream has ready: an item that came early, or its end.
    pub(super) fn next_ready(&mut self) -> Option<Waiting> {
        while let Some(&call) = self.ready.front() {
            let happened = self.ready_of(call);
            if happened.is_some() {
                return happened;
            }
            self.ready.pop_front();
        }
        None
    }

    fn ready_of(&mut self, call: CallId) -> Option<Waiting> {
        let slot = self.calls.find_waiting(call)?;
        let user = slot.user;
        let stream = slot.stream.as_mut()?;
        if let Some(Kept { body, metadata }) = stream.next_early() {
            return Some(Waiting::item(call, user, body, metadata));
        }
        let Ending { failed, metadata } = stream.take_ending()?;
        if let Some(watched) = &mut self.watched {
            watched.answered(slot.stamp, slot.method, failed.as_ref().map_or(Code::Ok, Status::code));
        }
        self.untime(call.slot());
        self.calls.close(call.slot());
        Some(Waiting::ending(call, user, failed, metadata))
    }

    #[inline(never)]
    fn control(&mut self, frame: &Frame<'_>, from: Side) -> Result<(), Violation> {
        let header = frame.header;
        match header.kind {
            Kind::Credit => {
                // Its call may be over: the Reply overtook it.
                let Some(slot) = self.calls.find(CallId(header.call)) else { return Ok(()) };
                match &mut slot.stream {
                    Some(stream) if stream.outgoing => stream.credit(header.aux),
                    _ => Err(Violation("credit for a method that takes no stream")),
                }
            }
            Kind::Ping if self.pongs.len() < PONGS => {
                self.pongs.push_back(header.aux);
                Ok(())
            }
            Kind::Ping => Err(Violation("more pings than it takes answers to")),
            Kind::Pong => {
                self.pong = Some(header.aux);
                Ok(())
            }
            Kind::Goodbye => {
                if matches!(self.phase, Phase::Open) {
                    self.phase = Phase::Draining;
                }
                Ok(())
            }
            Kind::Last
                if from == Side::Current && header.flags & END == 0 && !self.switching.is_joining() =>
            {
                Err(Violation("Last on the only link"))
            }
            Kind::Last => {
                match self.links.as_mut().map(|links| links.take_last(from, &header)) {
                    Some(Noted::Fine) => {}
                    Some(Noted::OldLost) => self.old_lost(Lost::Dead),
                    Some(Noted::Wrong) | None => return Err(Violation("a second Last")),
                }
                Ok(())
            }
            Kind::Refuse => {
                // The last frame of a connection that the server ends; the first reason that is given counts.
                self.end(&format!(
                    "the server ended the connection: {}",
                    String::from_utf8_lossy(frame.body)
                ));
                Err(Violation("nothing comes behind a Refuse"))
            }
            _ => Err(Violation("a frame that only a client sends, or a second Welcome")),
        }
    }
}

/// How a Reply says that the call failed.
#[inline]
fn status_of(frame: &Frame<'_>) -> Option<Status> {
    if frame.header.method == Code::Ok as u16 { None } else { Some(failed(frame)) }
}

#[cold]
fn failed(frame: &Frame<'_>) -> Status {
    Status::new(Code::of(frame.header.method), String::from_utf8_lossy(frame.body))
}
