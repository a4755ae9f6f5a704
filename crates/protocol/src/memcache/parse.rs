//! The incremental parser: it is shown the unconsumed bytes of a connection and takes one step at a time.
//!
//! Why steps over a buffer of the caller's: values stay where the socket put them, nothing is copied or allocated here,
//! and the memory of a connection is the caller's to bound.
//!
//! Shape:
//! ```text
//!            ┌──────── get a b … ───────▶ Keys ── line end ──┐
//!   Line ────┤ set, ms: whole value there ─────────────────▶ ├──▶ Line
//!            ├──────── refused value ───▶ Swallow ── spent ──┤
//!            └──────── broken key list ─▶ DropLine ─ newline ┘        anything hopeless ──▶ Closed
//! ```
//! Where clients log in, a connection begins in `Locked`, and what may be sent there is in [`login`](super::login).
//!
//! Invariants
//! 1. The caller shows the same bytes again, and perhaps more, until a step consumes them; it drops what was consumed.
//! 2. Every step but `Incomplete` and `Close` consumes at least one byte, and `Incomplete` asks for at least one more
//!    byte than was shown.
//! 3. The steps depend on the bytes only, never on how they were split.
//!
//! Bounds: `Incomplete` never asks for more than [`Parser::buffer_bound`] bytes in total. Retrievals that exceed
//! [`LINE_MAX`] are handed out key by key as they come.
//!
//! Cost: 18 ns for a `get` of an 8-byte key, 36 for a `set` with a 64-byte value (`cargo bench -p millrace-protocol`,
//! 2-core VM, shared).
//!
//! Tests: `tests/splits.rs` (every split gives the same steps), `tests/oracle.rs`, `fuzz/`.

mod locked;

use super::binary::{self, REQUEST_MAGIC};
use super::classic::{self, Parsed, Retrieval, malformed};
use super::command::{Command, Get};
use super::exptime::Exptime;
use super::lines::Line;
use super::login::{Entry, LOGIN_MAX, Login, Protocol};
use super::tokens::Tokens;
use super::{KEY_MAX, LINE_MAX};
use memchr::{memchr, memchr2};

/// What the front of the buffer turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// Nothing yet: show at least `wants` bytes in total, none of the present ones consumed.
    Incomplete {
        /// Bytes needed at the front of the buffer before the next call can do more.
        wants: usize,
    },
    /// A command. Its slices point into the shown bytes, of which the first `consumed` are now spent.
    Command {
        /// What is asked.
        command: Command<'a>,
        /// Bytes to drop once the command is done with.
        consumed: usize,
    },
    /// A client says who it is. Whoever knows the users answers with [`Parser::answer`], before the next step.
    Login {
        /// What it says.
        login: Login<'a>,
        /// Bytes to drop once it is answered.
        consumed: usize,
    },
    /// Nothing to do but to drop bytes, for example of a value that was refused.
    Skip {
        /// Bytes to drop.
        consumed: usize,
    },
    /// The connection cannot go on: write the reason's line if it has one, then close.
    Close {
        /// Why.
        reason: CloseReason,
    },
}

/// Why a connection must be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// [`LINE_MAX`] bytes without a newline.
    LineTooLong,
    /// A binary request that cannot be read on; its reply says why.
    Refused,
    /// Between binary requests, a byte that begins none.
    NotBinary,
    /// Too many logins that failed, [`LOGIN_FAILURES_MAX`](super::LOGIN_FAILURES_MAX).
    LoginsFailed,
    /// The client said that it ends the connection, and got its reply.
    Quit,
    /// A web browser, perhaps on behalf of a hostile page.
    Http,
}

impl CloseReason {
    /// What was wrong, for people.
    pub const fn what(self) -> &'static str {
        match self {
            CloseReason::LineTooLong => "a line that is too long",
            CloseReason::Refused => "a binary request that cannot be read on",
            CloseReason::NotBinary => "a byte that begins no binary request",
            CloseReason::LoginsFailed => "too many logins that failed",
            CloseReason::Quit => "quit",
            CloseReason::Http => "an HTTP request",
        }
    }

    /// What to say before closing.
    pub const fn line(self) -> Option<Line> {
        match self {
            CloseReason::LineTooLong => Some(Line::LineTooLong),
            CloseReason::Refused
            | CloseReason::NotBinary
            | CloseReason::LoginsFailed
            | CloseReason::Quit
            | CloseReason::Http => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// At the first byte of the connection, which says which protocol it speaks.
    First,
    /// The same, where its client must log in.
    FirstLocked,
    /// Between requests of a client that has not logged in.
    Locked,
    /// At the first byte of a line.
    Line,
    /// At the first byte of a binary request.
    Binary,
    /// Among the keys of a retrieval. `streamed`: the end of its line had not arrived when it began.
    Keys { retrieval: Retrieval, streamed: bool },
    /// Inside a value that nobody wants.
    Swallow { left: u64 },
    /// Inside a line that nobody wants.
    DropLine,
    /// After a `Close`.
    Closed(CloseReason),
}

/// The state of one connection's request stream.
#[derive(Clone, Debug)]
pub struct Parser {
    state: State,
    /// Bytes of the current line that are known to hold no newline.
    scanned: usize,
    /// Bytes that must be shown before another look is worth it.
    wants: usize,
    max_value: u64,
    /// It speaks binary.
    is_binary: bool,
    /// Its clients log in.
    has_login: bool,
    /// This one has not, or not again since it tried to.
    is_locked: bool,
    /// It has said that user and password follow.
    has_begun_login: bool,
    /// Logins that failed since the last that did not.
    failures: u32,
}

impl Parser {
    /// A parser at the start of a connection that refuses values longer than `max_value` bytes.
    pub fn new(max_value: usize) -> Parser {
        Parser::entered(Entry::default(), max_value)
    }

    /// The same for a connection that begins as `entry` says.
    pub fn entered(entry: Entry, max_value: usize) -> Parser {
        let Entry { protocol, has_login } = entry;
        let is_binary = protocol == Protocol::Binary;
        let state = match (protocol, has_login) {
            (Protocol::Any, false) => State::First,
            (Protocol::Any, true) => State::FirstLocked,
            (_, true) => State::Locked,
            (Protocol::Text, false) => State::Line,
            (Protocol::Binary, false) => State::Binary,
        };
        Parser {
            state,
            scanned: 0,
            wants: 1,
            max_value: max_value as u64,
            is_binary,
            has_login,
            is_locked: has_login,
            has_begun_login: false,
            failures: 0,
        }
    }

    /// Bytes of buffer with which every request can be understood.
    pub fn buffer_bound(&self) -> usize {
        let value = self.max_value.min(super::VALUE_LEN_MAX) as usize;
        LINE_MAX + if self.has_login { value.max(LOGIN_MAX) } else { value } + 2
    }

    /// Changes the limit for values whose request line has not been read yet.
    pub fn set_max_value(&mut self, max_value: usize) {
        self.max_value = max_value as u64;
    }

    /// Whether no request has begun that is not handed out in full: a message may end here.
    pub fn is_between_requests(&self) -> bool {
        use State::{Binary, First, FirstLocked, Line, Locked};
        matches!(self.state, First | Line | Binary | FirstLocked | Locked) && self.wants == 1
    }

    /// Whether the connection speaks the binary protocol.
    pub fn is_binary(&self) -> bool {
        self.is_binary
    }

    /// Why nothing is understood any more, if so: after the last command of a binary connection that is known before more arrives.
    pub fn closed(&self) -> Option<CloseReason> {
        match self.state {
            State::Closed(reason) => Some(reason),
            _ => None,
        }
    }

    /// The command that tells its client that the last one is refused: what follows it of a retrieval is not looked at, as after any error there.
    #[cold]
    pub fn refused<'a>(&mut self, command: &Command<'a>, line: Line) -> Command<'a> {
        if matches!(self.state, State::Keys { .. }) {
            self.state = State::DropLine;
        }
        command.refusal(line)
    }

    /// Takes one step over `input`, the unconsumed bytes of the connection.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        if input.len() < self.wants {
            return Step::Incomplete { wants: self.wants };
        }
        self.wants = 1;
        match self.state {
            State::Line => self.line(input),
            State::Keys { retrieval, streamed } => self.key(input, retrieval, streamed),
            _ => self.rare(input),
        }
    }

    #[cold]
    fn rare<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        match self.state {
            State::First if input[0] == REQUEST_MAGIC => {
                self.is_binary = true;
                self.state = State::Binary;
                self.binary(input)
            }
            State::Binary => self.binary(input),
            State::First => {
                self.state = State::Line;
                self.line(input)
            }
            State::FirstLocked => {
                self.is_binary = input[0] == REQUEST_MAGIC;
                self.state = State::Locked;
                self.locked(input)
            }
            State::Locked => self.locked(input),
            State::Swallow { left } => {
                let consumed = left.min(input.len() as u64);
                self.state = match left - consumed {
                    0 => self.between(),
                    left => State::Swallow { left },
                };
                Step::Skip { consumed: consumed as usize }
            }
            State::DropLine => match memchr(b'\n', input) {
                Some(end) => {
                    self.state = State::Line;
                    Step::Skip { consumed: end + 1 }
                }
                None => Step::Skip { consumed: input.len() },
            },
            State::Closed(reason) => Step::Close { reason },
            State::Line | State::Keys { .. } => unreachable!("the caller handles the common states"),
        }
    }

    /// At the first byte of a binary request.
    fn binary<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        match binary::parse::parse(input, self.max_value, self.has_login) {
            binary::parse::Parsed::Incomplete(wants) => {
                self.wants = wants;
                Step::Incomplete { wants }
            }
            binary::parse::Parsed::Command { command, len, rest } => {
                if rest > 0 {
                    self.state = State::Swallow { left: rest };
                }
                Step::Command { command, consumed: len }
            }
            binary::parse::Parsed::Last { command, len, is_quit } => {
                self.state = State::Closed(if is_quit { CloseReason::Quit } else { CloseReason::Refused });
                Step::Command { command, consumed: len }
            }
            binary::parse::Parsed::Sasl { request, len, rest } => self.sasl(&request, len, rest),
            binary::parse::Parsed::NotBinary => self.close(CloseReason::NotBinary),
        }
    }

    /// At the first byte of a line.
    #[inline]
    fn line<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        let window = &input[..input.len().min(LINE_MAX)];
        let from = self.scanned.min(window.len());
        let Some(end) = memchr(b'\n', &window[from..]).map(|i| from + i) else {
            return self.unfinished_line(window);
        };
        self.scanned = 0;
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let after = end + 1;
        match classic::parse_line(line, self.max_value) {
            Parsed::Keys(retrieval, tokens) => self.first_key(line, retrieval, tokens, after),
            Parsed::Value { command, len } => self.value(input, command, after, len),
            Parsed::Command(command) => Step::Command { command, consumed: after },
            Parsed::Refused { command, body } => {
                self.state = State::Swallow { left: body };
                Step::Command { command, consumed: after }
            }
            Parsed::Http => self.close(CloseReason::Http),
        }
    }

    /// The first key of a retrieval whose whole line is there. `after` is where the next line starts.
    #[inline]
    fn first_key<'a>(
        &mut self,
        line: &'a [u8],
        retrieval: Retrieval,
        mut tokens: Tokens<'a>,
        after: usize,
    ) -> Step<'a> {
        // One bad key spoils the whole line; a short line cannot hold one.
        let mut keys = tokens;
        if line.len() > KEY_MAX && keys.any(|key| key.len() > KEY_MAX) {
            return Step::Command { command: malformed(Line::BadFormat), consumed: after };
        }
        let Some(key) = tokens.next() else {
            return Step::Command { command: Command::GetEnd, consumed: after };
        };
        let next_key = tokens.skip_spaces();
        let last = next_key == line.len();
        let consumed = if last {
            after
        } else {
            self.state = State::Keys { retrieval, streamed: false };
            next_key
        };
        let Retrieval { touch, with_cas } = retrieval;
        Step::Command { command: Command::Get(Get { key, touch, with_cas, last }), consumed }
    }

    /// Among the keys of a retrieval, at any byte between two of them.
    fn key<'a>(&mut self, input: &'a [u8], retrieval: Retrieval, streamed: bool) -> Step<'a> {
        let spaces = input.iter().take_while(|&&b| b == b' ').count();
        if spaces > 0 {
            return Step::Skip { consumed: spaces };
        }
        let Some(end) = memchr2(b' ', b'\n', input) else {
            // One byte more than a key may be its line end's `\r`.
            if input.len() > KEY_MAX + 1 {
                self.state = State::DropLine;
                return Step::Command { command: malformed(Line::BadFormat), consumed: input.len() };
            }
            self.wants = input.len() + 1;
            return Step::Incomplete { wants: self.wants };
        };
        let ends_line = input[end] == b'\n';
        let key = &input[..end];
        let key = if ends_line { key.strip_suffix(b"\r").unwrap_or(key) } else { key };
        if key.len() > KEY_MAX {
            self.state = if ends_line { State::Line } else { State::DropLine };
            return Step::Command { command: malformed(Line::BadFormat), consumed: end + 1 };
        }
        if key.is_empty() {
            self.state = State::Line;
            return Step::Command { command: Command::GetEnd, consumed: end + 1 };
        }
        // Whether a streamed line ends after this key may not be known yet, so there the end is always its own step.
        let (last, consumed) = match ends_line {
            true if streamed => (false, key.len()),
            true => (true, end + 1),
            false if streamed => (false, end + 1),
            false => after_spaces(input, end),
        };
        if last {
            self.state = State::Line;
        }
        let Retrieval { touch, with_cas } = retrieval;
        Step::Command { command: Command::Get(Get { key, touch, with_cas, last }), consumed }
    }

    /// A command line whose value of `len` bytes starts at `start`.
    #[inline]
    fn value<'a>(&mut self, input: &'a [u8], command: Command<'a>, start: usize, len: usize) -> Step<'a> {
        let (end, consumed) = (start + len, start + len + 2);
        if input.len() < consumed {
            self.wants = consumed;
            return Step::Incomplete { wants: consumed };
        }
        let mut command = command;
        if &input[end..consumed] != b"\r\n" {
            let noreply = command.noreply();
            command = Command::Malformed { line: Line::BadDataChunk, noreply };
        }
        match &mut command {
            Command::Store(store) => store.value = &input[start..end],
            Command::MetaSet(set) => set.value = &input[start..end],
            _ => {}
        }
        Step::Command { command, consumed }
    }

    /// A line whose end is not among the first [`LINE_MAX`] bytes, or not there yet.
    #[cold]
    fn unfinished_line<'a>(&mut self, window: &'a [u8]) -> Step<'a> {
        if window.len() < LINE_MAX {
            self.scanned = window.len();
            self.wants = window.len() + 1;
            return Step::Incomplete { wants: self.wants };
        }
        self.scanned = 0;
        let mut tokens = Tokens::new(window);
        let spaces = tokens.skip_spaces();
        if spaces > 0 {
            return Step::Skip { consumed: spaces };
        }
        let verb = tokens.next();
        let (with_cas, touches) = match verb {
            Some(b"get" | b"bget") => (false, false),
            Some(b"gets") => (true, false),
            Some(b"gat") => (false, true),
            Some(b"gats") => (true, true),
            _ => return self.close(CloseReason::LineTooLong),
        };
        let mut retrieval = Retrieval { touch: None, with_cas };
        if touches {
            let exptime = tokens.next();
            // A number that reaches the end of the window may go on behind it.
            let Some(exptime) = exptime.filter(|_| !tokens.is_done()) else {
                return self.close(CloseReason::LineTooLong);
            };
            retrieval.touch = Exptime::parse(exptime);
            if retrieval.touch.is_none() {
                self.state = State::DropLine;
                return Step::Command { command: malformed(Line::InvalidExptime), consumed: window.len() };
            }
        }
        self.state = State::Keys { retrieval, streamed: true };
        Step::Skip { consumed: tokens.skip_spaces() }
    }

    fn close<'a>(&mut self, reason: CloseReason) -> Step<'a> {
        self.state = State::Closed(reason);
        Step::Close { reason }
    }
}

/// Skips the spaces at `at`: whether the line ends there, and where the next word or the next line starts.
fn after_spaces(input: &[u8], at: usize) -> (bool, usize) {
    let rest = &input[at..];
    let spaces = rest.iter().take_while(|&&b| b == b' ').count();
    match &rest[spaces..] {
        [b'\n', ..] => (true, at + spaces + 1),
        [b'\r', b'\n', ..] => (true, at + spaces + 2),
        _ => (false, at + spaces),
    }
}
