//! A memcached client's connection: what arrived, what is under way, what is not sent yet.
//!
//! Bounds: commands by `Options::pipeline`, and nothing is parsed while replies wait for the client; what arrives by one command, at most
//! a value of `coherence.value_max`, or [`MAX_VALUE`] without streams, and a line; replies that wait by what was under way.

use super::command::Outcome;
use super::flow::{Flow, Leaving};
use super::reply::{Form, append_line, append_reply};
use super::shared::Shared;
use super::translate::{Meaning, meaning, version};
use super::{reply, stats};
use crate::memcached::guest::Guest;
use crate::memcached::input::{BufferLimit, Input, Pool};
use crate::memcached::output::Spill;
use crate::memcached::socket::{ReadError, Socket};
use base::budget::Budget;
use base::closing::Reason;
use base::tls::Received;
use protocol::memcache::{Asked, CloseReason, Command, Line, Parser, Step};
use protocol::wire::MAX_VALUE;
use rustix::event::epoll::EventFlags;
use std::io;

/// Bytes of replies that are put together before they are sent.
const WRITE: usize = 256 << 10;
/// Bytes that all connections of a proxy may buffer; beyond it, what arrives is refused.
pub(super) const BUFFER_LIMIT: usize = 256 << 20;
/// Room for the reply to `version`.
const VERSION_BOUND: usize = 64;
/// Room for the reply to a step of SASL.
const SASL_BOUND: usize = 64;

/// See the file's head.
pub struct Connection {
    /// Nonblocking.
    pub socket: Socket,
    /// Told apart from an earlier connection in the same place.
    pub generation: u32,
    /// Commands that are not answered yet.
    pub flow: Flow,
    /// What epoll watches for.
    pub watched: EventFlags,
    /// Nothing more is read: it ends when all is answered.
    pub ended: bool,
    /// Why it will have ended, if nothing else comes between.
    pub why: Reason,
    /// In the worker's list of connections to be looked at.
    pub is_touched: bool,
    /// In the worker's list of connections that have something to begin.
    pub is_hungry: bool,
    input: Input,
    parser: Parser,
    /// Who asks, where not everybody may do everything.
    pub guest: Guest,
    /// Bytes in one piece that the parser needs before it can go on.
    wants: usize,
    /// Arrived input was not looked at yet.
    has_more: bool,
    spill: Spill,
    /// An error has ended the retrieval whose keys are leaving.
    retrieval_over: bool,
}

impl Connection {
    /// Over a socket that was just accepted.
    pub fn new(socket: Socket, generation: u32, (parser, guest): (Parser, Guest)) -> Connection {
        Connection {
            guest,
            socket,
            generation,
            flow: Flow::default(),
            watched: EventFlags::IN,
            ended: false,
            why: Reason::Client,
            is_touched: false,
            is_hungry: false,
            input: Input::default(),
            parser,
            wants: 0,
            has_more: false,
            spill: Spill::default(),
            retrieval_over: false,
        }
    }

    /// Whether the client has not taken the replies that were sent to it.
    pub fn is_stuck(&self) -> bool {
        !self.spill.is_empty() || self.socket.unsent() > 0
    }

    /// Bytes of replies that wait for the client.
    pub fn unsent(&self) -> usize {
        self.spill.bytes() + self.socket.unsent()
    }

    /// Whether it is over: nothing more will come, and all is answered.
    pub fn is_over(&self) -> bool {
        self.ended && !self.has_more && self.flow.is_empty() && !self.is_stuck()
    }

    /// Whether arrived input may be looked at now.
    pub fn can_parse(&self, pipeline: usize) -> bool {
        self.has_more && !self.is_stuck() && self.flow.len() < pipeline
    }

    /// What to wait for at the socket.
    pub fn wants_events(&self, pipeline: usize) -> EventFlags {
        if self.is_stuck() {
            EventFlags::OUT
        } else if self.ended || self.has_more || self.flow.len() >= pipeline {
            EventFlags::empty()
        } else {
            EventFlags::IN
        }
    }

    /// Reads once: a short read means that the socket is empty, and epoll says when it no longer is.
    ///
    /// # Errors
    /// The client is gone.
    pub fn read(&mut self, pool: &mut Pool) -> Result<usize, ReadError> {
        let Received { bytes, is_end } = self.socket.read(&mut self.input, pool)?;
        self.ended |= is_end;
        self.has_more = self.input.bytes().len() >= self.wants.max(1);
        Ok(bytes)
    }

    /// Takes commands from what arrived. How many.
    pub fn parse(&mut self, now: u32, shared: &Shared) -> usize {
        let mut taken = 0;
        while self.can_parse(shared.options.pipeline) {
            self.wants = 0;
            match self.parser.next(self.input.bytes()) {
                Step::Command { command: Command::Quit, .. } => self.stop_reading(),
                Step::Command { command, consumed } => {
                    let command = self.guest.admit(command, &mut self.parser);
                    push(&mut self.flow, &command, now, shared);
                    self.input.consume(consumed);
                    taken += 1;
                    if let Some(reason) = self.parser.closed() {
                        if reason != CloseReason::Quit {
                            shared.net.protocol_kicks.add(1);
                            self.why = Reason::Protocol(reason.what());
                        }
                        self.stop_reading();
                    }
                }
                Step::Login { login, consumed } => {
                    let is_right = shared.entrance.admits(&login, &shared.net);
                    self.guest.set_user(login.credentials.filter(|_| is_right).map(|(user, _)| user));
                    push(&mut self.flow, &self.parser.answer(&login, is_right), now, shared);
                    self.input.consume(consumed);
                    taken += 1;
                    if let Some(reason) = self.parser.closed() {
                        shared.net.protocol_kicks.add(1);
                        self.why = Reason::Protocol(reason.what());
                        self.stop_reading();
                    }
                }
                Step::Skip { consumed } => self.input.consume(consumed),
                Step::Incomplete { wants } => {
                    self.wants = wants;
                    self.has_more = false;
                }
                Step::Close { reason } => {
                    shared.net.protocol_kicks.add(1);
                    self.why = Reason::Protocol(reason.what());
                    reason.line().into_iter().for_each(|line| push_line(&mut self.flow, None, line));
                    self.stop_reading();
                }
            }
        }
        taken
    }

    fn stop_reading(&mut self) {
        self.ended = true;
        self.has_more = false;
    }

    /// Makes room for what the parser waits for, or gives the buffer back.
    ///
    /// # Errors
    /// All connections together buffer too much; the client is told.
    pub fn make_room(&mut self, pool: &mut Pool) -> Result<(), BufferLimit> {
        if self.has_more {
            return Ok(());
        }
        if self.ended || self.input.is_empty() {
            self.input.release(pool);
            return Ok(());
        }
        let room = self.input.reserve(self.wants, pool);
        if room.is_err() {
            // Best effort: the connection closes whether or not the client hears why.
            let _ = self.socket.send(&[Line::OutOfMemoryReading.bytes()], pool.budget());
        }
        room
    }

    /// Sends the replies that are ready, as far as the client takes them. Bytes sent.
    ///
    /// # Errors
    /// The socket's: the client is gone.
    pub fn write(&mut self, out: &mut Vec<u8>, shared: &Shared) -> io::Result<usize> {
        let mut all_sent = 0;
        while !self.is_stuck() {
            out.clear();
            while out.len() < WRITE
                && let Some(leaving) = self.flow.pop()
            {
                self.append(out, leaving, shared);
            }
            if out.is_empty() {
                break;
            }
            let sent = self.socket.send(&[out], &shared.buffered)?;
            if sent < out.len() {
                self.spill.copy(&out[sent..], &shared.buffered);
            }
            all_sent += sent;
        }
        Ok(all_sent)
    }

    fn append(&mut self, out: &mut Vec<u8>, leaving: Leaving, shared: &Shared) {
        match leaving {
            // The line that would have ended the retrieval.
            Leaving::Ready(_) if self.retrieval_over => self.retrieval_over = false,
            Leaving::Ready(reply) => out.extend_from_slice(&reply),
            Leaving::Done(work) => {
                let (task, form, outcome) = work.done();
                shared.commands.count(task.what(), outcome);
                let is_last = !matches!(form, Form::Get { last: false, .. });
                if !self.retrieval_over && !append_reply(out, form, task.key(), outcome) {
                    debug_assert!(!matches!(outcome, Outcome::Hit(_) | Outcome::Miss), "only errors end it");
                    self.retrieval_over = true;
                }
                self.retrieval_over &= !is_last;
            }
        }
    }

    /// Sends what waited for the client. Bytes sent.
    ///
    /// # Errors
    /// The socket's: the client is gone.
    pub fn resend(&mut self, buffered: &Budget) -> io::Result<usize> {
        let before = self.unsent();
        self.spill.flush(&mut self.socket, buffered)?;
        Ok(before - self.unsent())
    }

    /// Gives back what it holds.
    pub fn release(&mut self, pool: &mut Pool, buffered: &Budget) {
        self.input.release(pool);
        self.spill.clear(buffered);
        self.socket.end(buffered);
    }
}

fn push_line(flow: &mut Flow, asked: Option<Asked>, line: Line) {
    let mut out = Vec::new();
    append_line(&mut out, asked, line);
    flow.push_ready(out);
}

fn push(flow: &mut Flow, command: &Command<'_>, now: u32, shared: &Shared) {
    let asked = command.asked();
    match meaning(command, now, &shared.homes) {
        Meaning::Task(task, form) => flow.push(task.with_stream(shared.value_max > MAX_VALUE), form),
        Meaning::Line(line) => push_line(flow, asked, line),
        Meaning::Stats(which) => flow.push_ready(stats::reply(&which, asked, shared)),
        Meaning::Sasl(answer) => {
            let mut out = Vec::new();
            reply::append(&mut out, asked, SASL_BOUND, |reply| reply.sasl(answer));
            flow.push_ready(out);
        }
        Meaning::Silence => {}
        Meaning::Version => {
            let mut out = Vec::new();
            reply::append(&mut out, asked, VERSION_BOUND, version);
            flow.push_ready(out);
        }
    }
}
