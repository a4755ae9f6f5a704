//! One client's connection, as its edge keeps it: what arrived, where the parser stands, and the [`Wire`] to the client.
//!
//! Two shapes of wire: a *stream* has no boundaries, so the parser sees all that arrived and replies leave as they come; over
//! *messages* (shared-memory rings, datagrams) the parser sees one message at a time, and a message has one reply.
//! [`Connection::step`] is where they differ on the way in, [`Connection::write`] on the way out; the edge sees neither.

use super::datagrams::Datagrams;
use super::messages::Messages;
use super::rings::Rings;
use super::service::{LateReply, Listing, Reply};
use super::stream::{Piece, Stream, joined, pieces_of};
use super::watchers::Subscription;
use crate::memcached::connections::Entry;
use crate::memcached::guest::Guest;
use crate::memcached::input::{BufferLimit, Input, Pool};
use crate::memcached::socket::Interest;
use base::Nanos;
use base::budget::Budget;
use base::closing::Reason;
use base::tls::HELLO;
use protocol::memcache::{CloseReason, Command, Line, Login, Parser, Step};
use ring::arena::Span;
use rustix::event::epoll;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Requests of a fresh connection in its first turn.
const FIRST_TURN: usize = 8;

/// What a turn's replies may leave waiting before the next turn is made smaller.
const SPILL_WANTED: usize = 1 << 20;

/// A connection.
pub struct Connection {
    /// The way to the client.
    pub wire: Wire,
    /// Bytes that arrived and wait to be parsed.
    pub input: Input,
    /// The messages that these bytes are; none for a stream.
    pub messages: Messages,
    parser: Parser,
    /// Who asks, where not everybody may do everything.
    pub guest: Guest,
    /// A parser that has seen nothing, for the next message.
    fresh: Parser,
    /// Bytes in one piece that the parser needs before it can go on; 0 when any more bytes do.
    pub wants: usize,
    /// Requests that it may have in flight per turn, beside `net.pipeline`: fewer after replies that its socket did not take,
    /// or a client that pipelines requests for large values would have more waiting than all together may buffer,
    /// however fast it reads.
    pub turn: usize,
    /// Requests that it had in flight in its last turn.
    pub submitted: usize,
    /// What those have cost, their replies included.
    pub spent: usize,
    /// The listing of keys that its client is being sent.
    pub listing: Option<Listing>,
    /// It is shown what happens, and asks nothing more.
    pub watching: Option<Subscription>,
    /// Replies that wait for boxes, in order: how many, and whether a message ends with them. Nothing of what follows is written before.
    pub late: VecDeque<(usize, bool)>,
    /// The first of them can be collected.
    pub is_ready: bool,
    /// What its requests have cost beyond what it had for them; it is taken from its next turns.
    pub debt: usize,
    /// It has had its turn since it last ran out of requests: it goes on behind those that have not.
    pub lags: bool,
    /// When the client last made room for replies that wait; when they began to wait, if it has not.
    pub made_room: Nanos,
    /// When the client last sent something.
    pub heard: Nanos,
    /// Nothing more is read; the connection closes once its replies are out.
    pub closing: bool,
    /// Nothing more comes; what has come is still answered.
    pub has_said_all: bool,
    /// What the client sent cannot be read on; for the edge to count.
    pub unreadable: bool,
    /// Why it will have ended, if nothing else comes between.
    pub why: Reason,
    /// The client is gone; the connection closes once nothing of it is in flight.
    pub broken: bool,
    /// What `stats conns` shows of it.
    pub entry: Option<Arc<Entry>>,
    /// In the edge's list of connections with input to parse.
    pub runnable: bool,
    /// Told apart from an earlier connection in the same place.
    pub generation: u32,
}

/// The way to a client. Boxed where it is large: most connections are streams.
pub enum Wire {
    /// TCP or a Unix socket.
    Stream(Stream),
    /// Shared memory.
    Rings(Box<Rings>),
    /// A UDP socket, with all its clients.
    Datagrams(Box<Datagrams>),
}

/// What is next in a connection's input.
pub enum Parsed<'a> {
    /// A request.
    Request(Command<'a>),
    /// Its client says who it is: [`Connection::answer`] has the request that this becomes.
    Login(Login<'a>),
    /// The end of a message: what was handed out since the last end is what it asked.
    MessageEnd,
    /// Nothing before more arrives.
    Dry,
}

impl Wire {
    /// Has `epoll` say `token` when something comes.
    ///
    /// # Errors
    /// The system's.
    pub fn watch(&mut self, epoll: &OwnedFd, token: u64) -> io::Result<()> {
        match self {
            Wire::Stream(stream) => stream.socket.watch(epoll, token, Interest::Read, true),
            other => {
                let (token, flags) = (epoll::EventData::new_u64(token), epoll::EventFlags::IN);
                Ok(epoll::add(epoll, other.descriptor(), token, flags)?)
            }
        }
    }

    /// Its socket.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Wire::Stream(stream) => stream.socket.as_fd(),
            Wire::Rings(rings) => rings.descriptor(),
            Wire::Datagrams(datagrams) => datagrams.descriptor(),
        }
    }
}

impl Connection {
    /// A connection over `wire`.
    pub fn new(wire: Wire, parser: Parser, generation: u32, now: Nanos) -> Connection {
        Connection {
            guest: Guest::default(),
            wire,
            input: Input::default(),
            messages: Messages::default(),
            fresh: parser.clone(),
            parser,
            wants: 0,
            turn: FIRST_TURN,
            submitted: 0,
            spent: 0,
            listing: None,
            watching: None,
            late: VecDeque::new(),
            is_ready: false,
            debt: 0,
            lags: false,
            made_room: now,
            heard: now,
            closing: false,
            has_said_all: false,
            unreadable: false,
            why: Reason::Client,
            broken: false,
            entry: None,
            runnable: false,
            generation,
        }
    }

    /// How much it costs all others that this client does not read: bytes times time. None where nothing waits.
    pub fn burden(&self, now: Nanos) -> Option<u128> {
        let stalled = now.since(self.made_room).0.max(1);
        self.is_stuck().then(|| self.unsent() as u128 * u128::from(stalled))
    }

    /// Sizes the next turn by what the last one left waiting and what it cost; never beyond `most`, in requests as in cost.
    pub fn size_turn(&mut self, most: usize) {
        let waiting = self.unsent();
        if waiting > SPILL_WANTED {
            self.turn = (self.submitted * SPILL_WANTED / waiting).max(1);
        } else if waiting == 0 {
            self.turn = (self.turn * 2).min(most);
        }
        // A reply's cost is known too late to stop at: the next ones are taken to be like the last.
        if self.spent > most {
            self.turn = self.turn.min((self.submitted * most / self.spent).max(1));
        }
    }

    /// What its requests may cost in this turn, of a quantum of `quantum`; 0 while it is in debt for more.
    pub fn allowance(&mut self, quantum: usize) -> usize {
        let paid = self.debt.min(quantum);
        self.debt -= paid;
        quantum - paid
    }

    /// What the edge's epoll watches.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wire.descriptor()
    }

    /// Its number in logs and `stats conns`.
    pub fn number(&self) -> i32 {
        self.descriptor().as_raw_fd()
    }

    /// Whether it has something for a turn: replies to collect, more of a listing, or enough that arrived for another look at the input. What
    /// comes behind commands that wait stays where it is, unless messages are its bound: a client has only so many of them.
    pub fn has_work(&self) -> bool {
        if self.is_ready || self.late.is_empty() {
            return self.is_ready || self.listing.is_some() || self.can_parse();
        }
        self.has_messages() && self.listing.is_none() && self.can_parse()
    }

    /// Whether enough has arrived for another look at the input.
    pub fn can_parse(&self) -> bool {
        match &self.wire {
            Wire::Stream(_) => self.input.bytes().len() >= self.wants.max(1),
            Wire::Rings(_) | Wire::Datagrams(_) => !self.messages.is_empty(),
        }
    }

    /// What [`Connection::step`] may look at.
    #[inline]
    pub fn visible(&self) -> &[u8] {
        let all = self.input.bytes();
        if self.has_messages() { &all[..self.messages.left()] } else { all }
    }

    /// Whether [`Connection::step`] would say that a message ends here, which needs no place in the ring.
    pub fn is_at_message_end(&self) -> bool {
        self.has_messages() && self.messages.is_read() && self.parser.is_between_requests()
    }

    /// One step over `input`, which is what [`Connection::visible`] gave.
    #[inline]
    pub fn step<'a>(&mut self, input: &'a [u8]) -> Parsed<'a> {
        match self.wire {
            Wire::Stream(_) => self.step_in_stream(input),
            _ => self.step_in_message(input),
        }
    }

    #[inline]
    fn step_in_stream<'a>(&mut self, mut input: &'a [u8]) -> Parsed<'a> {
        self.wants = 0;
        if self.closing {
            return Parsed::Dry;
        }
        loop {
            match self.parser.next(input) {
                Step::Command { command: Command::Quit, .. } => {
                    self.closing = true;
                    return Parsed::Dry;
                }
                Step::Command { command, consumed } => {
                    self.input.consume(consumed);
                    if let (Command::Binary(_), Some(reason)) = (command, self.parser.closed()) {
                        self.closing = true;
                        if reason != CloseReason::Quit {
                            self.set_unreadable(reason.what());
                        }
                    }
                    return Parsed::Request(command);
                }
                Step::Login { login, consumed } => {
                    self.input.consume(consumed);
                    return Parsed::Login(login);
                }
                Step::Skip { consumed } => {
                    self.input.consume(consumed);
                    input = &input[consumed..];
                }
                Step::Incomplete { wants } => {
                    self.wants = wants;
                    // It would wait for an answer to its hello, and hears of its mistake at once instead.
                    if input.starts_with(&HELLO) {
                        self.closing = true;
                        self.set_unreadable("TLS at a port without");
                    }
                    return Parsed::Dry;
                }
                Step::Close { reason } => {
                    self.closing = true;
                    self.set_unreadable(reason.what());
                    let last_words = |line| Parsed::Request(Command::Malformed { line, noreply: false });
                    return reason.line().map_or(Parsed::Dry, last_words);
                }
            }
        }
    }

    fn set_unreadable(&mut self, what: &'static str) {
        self.unreadable = true;
        self.why = Reason::Protocol(what);
    }

    /// The client does not take its replies any more.
    pub fn set_gone(&mut self) {
        self.broken = true;
        self.why = Reason::Gone;
    }

    fn step_in_message<'a>(&mut self, mut input: &'a [u8]) -> Parsed<'a> {
        if self.messages.is_empty() {
            return Parsed::Dry;
        }
        loop {
            if let Some(line) = self.messages.refusal() {
                return Parsed::Request(Command::Malformed { line, noreply: false });
            }
            if input.is_empty() && self.parser.is_between_requests() {
                self.messages.end();
                self.parser = self.fresh.clone();
                return Parsed::MessageEnd;
            }
            let line = match self.parser.next(input) {
                Step::Command { command: Command::Quit, .. } => {
                    // There is no connection that a datagram could end.
                    self.closing |= matches!(self.wire, Wire::Rings(_));
                    None
                }
                Step::Command { command, consumed } => {
                    self.consume(consumed);
                    let quits = self.parser.closed() == Some(CloseReason::Quit);
                    self.closing |= quits && matches!(self.wire, Wire::Rings(_));
                    return Parsed::Request(command);
                }
                Step::Login { login, consumed } => {
                    self.consume(consumed);
                    return Parsed::Login(login);
                }
                Step::Skip { consumed } => {
                    self.consume(consumed);
                    input = &input[consumed..];
                    continue;
                }
                // Whoever speaks binary reads no lines.
                Step::Incomplete { .. } | Step::Close { .. } if self.parser.is_binary() => None,
                Step::Incomplete { .. } => Some(Line::IncompleteMessage),
                // The message cannot be read on; the next one can.
                Step::Close { reason } => Some(reason.line().unwrap_or(Line::Error)),
            };
            let unread = self.messages.cut(line);
            self.input.consume(unread);
            self.parser = self.fresh.clone();
            input = &[];
        }
    }

    /// Says whether a login is right; the request that tells its client. One too many that failed ends the connection.
    #[cold]
    pub fn answer<'a>(&mut self, login: &Login<'a>, is_right: bool) -> Command<'a> {
        let command = self.parser.answer(login, is_right);
        self.guest.set_user(login.credentials.filter(|_| is_right).map(|(user, _)| user));
        if let Some(reason) = self.parser.closed() {
            self.closing = true;
            self.set_unreadable(reason.what());
        }
        self.fresh.follow(&self.parser);
        command
    }

    /// What is to be done for a request that [`Connection::step`] gave last.
    #[inline]
    pub fn admit<'a>(&mut self, command: Command<'a>) -> Command<'a> {
        self.guest.admit(command, &mut self.parser)
    }

    fn consume(&mut self, n: usize) {
        self.messages.consume(n);
        self.input.consume(n);
    }

    /// Whether replies have boundaries.
    pub fn has_messages(&self) -> bool {
        !matches!(self.wire, Wire::Stream(_))
    }

    /// Makes room for what the parser waits for; gives the buffer back where nothing is in it.
    ///
    /// # Errors
    /// When all connections together buffer too much.
    pub fn make_room(&mut self, pool: &mut Pool) -> Result<(), BufferLimit> {
        if self.input.is_empty() {
            self.input.release(pool);
            return Ok(());
        }
        self.input.reserve(self.wants, pool)
    }

    /// Writes `replies`, whose bytes `bytes` finds; `ends` says that a message ends with them. What the client does not take
    /// is kept. Returns the bytes written.
    ///
    /// # Errors
    /// The socket's: the client is gone.
    pub fn write<'a>(
        &mut self,
        replies: &'a [Reply],
        bytes: impl Fn(Span) -> &'a [u8],
        ends: bool,
        buffered: &Budget,
    ) -> io::Result<usize> {
        self.write_pieces(&joined(replies, bytes), ends, buffered)
    }

    /// The same of replies that waited for boxes.
    ///
    /// # Errors
    /// The socket's: the client is gone.
    pub fn write_late(&mut self, replies: &[LateReply], ends: bool, buffered: &Budget) -> io::Result<usize> {
        let pieces: Vec<_> = replies.iter().flat_map(pieces_of).collect();
        self.write_pieces(&pieces, ends, buffered)
    }

    fn write_pieces(&mut self, pieces: &[Piece<'_>], ends: bool, buffered: &Budget) -> io::Result<usize> {
        let slices = || pieces.iter().map(Piece::bytes).filter(|piece| !piece.is_empty()).collect::<Vec<_>>();
        match &mut self.wire {
            Wire::Stream(stream) => stream.write(pieces, buffered),
            Wire::Rings(rings) => Ok(rings.write(&slices(), ends, buffered)),
            Wire::Datagrams(datagrams) => Ok(datagrams.write(&slices(), ends)),
        }
    }

    /// Whether what is still to come of the reply would be dropped.
    pub fn reply_is_too_long(&self) -> bool {
        match &self.wire {
            Wire::Stream(_) => false,
            Wire::Rings(rings) => rings.reply_is_too_long(),
            Wire::Datagrams(datagrams) => datagrams.reply_is_too_long(),
        }
    }

    /// All replies of this turn are written: sends them on their way where that is a step of its own.
    pub fn flush(&mut self) {
        if let Wire::Rings(rings) = &mut self.wire {
            rings.flush();
        }
    }

    /// Whether replies wait for the client to take others.
    pub fn is_stuck(&self) -> bool {
        match &self.wire {
            Wire::Stream(stream) => stream.is_stuck(),
            Wire::Rings(rings) => rings.is_stuck(),
            Wire::Datagrams(_) => false,
        }
    }

    /// Bytes of replies that wait.
    pub fn unsent(&self) -> usize {
        match &self.wire {
            Wire::Stream(stream) => stream.unsent(),
            Wire::Rings(rings) => rings.unsent(),
            Wire::Datagrams(_) => 0,
        }
    }

    /// Sends what waited, as far as the client has made room.
    ///
    /// # Errors
    /// The socket's: the client is gone.
    pub fn resend(&mut self, buffered: &Budget) -> io::Result<bool> {
        match &mut self.wire {
            Wire::Stream(stream) => stream.flush(buffered),
            Wire::Rings(rings) => Ok(rings.resend(buffered)),
            Wire::Datagrams(_) => Ok(true),
        }
    }

    /// Drops the replies that wait.
    pub fn clear(&mut self, buffered: &Budget) {
        match &mut self.wire {
            Wire::Stream(stream) => stream.clear(buffered),
            Wire::Rings(rings) => rings.clear(buffered),
            Wire::Datagrams(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
