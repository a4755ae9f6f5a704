//! The parser of a connection whose client logs in: until it has, and when it does so again.

use super::super::binary::{Asks, Binary, HEADER_LEN, Sasl};
use super::super::classic::malformed;
use super::super::login::{self, LOGIN_FAILURES_MAX, Login, SaslRequest, TextLogin};
use super::super::{Command, Line};
use super::{CloseReason, Parser, State, Step};

impl Parser {
    /// Says whether a login is right; the command that its client is answered with.
    pub fn answer<'a>(&mut self, login: &Login<'a>, is_right: bool) -> Command<'a> {
        if is_right {
            (self.is_locked, self.has_begun_login, self.failures) = (false, false, 0);
            self.state = self.between();
        } else {
            self.failures += 1;
            if self.failures >= LOGIN_FAILURES_MAX {
                self.state = State::Closed(CloseReason::LoginsFailed);
            }
        }
        match (login.header, is_right) {
            ([], true) => Command::Answered { line: Line::Stored, noreply: false },
            ([], false) => malformed(Line::LoginFailed),
            (header, true) => Command::Binary(Binary { header, asks: Asks::Sasl(Sasl::Authenticated) }),
            (header, false) => Command::Binary(Binary { header, asks: Asks::Refused(Line::LoginFailed) }),
        }
    }

    /// Takes over from the parser of an earlier message of the same client whether it has logged in, and how often it failed to.
    pub fn follow(&mut self, earlier: &Parser) {
        self.failures = earlier.failures;
        if self.is_locked && !earlier.is_locked {
            self.is_locked = false;
            self.state = if matches!(self.state, State::FirstLocked) { State::First } else { self.between() };
        }
    }

    /// Where it is between two requests.
    pub(super) fn between(&self) -> State {
        match self.is_binary {
            _ if self.is_locked => State::Locked,
            true => State::Binary,
            false => State::Line,
        }
    }

    /// At the first byte of what a client sends that has not logged in.
    pub(super) fn locked<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        if self.is_binary {
            return match login::of_users(input) {
                Some(header) => {
                    self.state = State::Closed(CloseReason::Refused);
                    let asks = Asks::Refused(Line::Unauthenticated);
                    Step::Command { command: Command::Binary(Binary { header, asks }), consumed: HEADER_LEN }
                }
                None => self.binary(input),
            };
        }
        match login::text(input) {
            TextLogin::Incomplete(wants) => {
                self.wants = wants;
                Step::Incomplete { wants }
            }
            TextLogin::Login(login, consumed) => Step::Login { login, consumed },
            TextLogin::Refused { command, len, rest } => {
                if rest > 0 {
                    self.state = State::Swallow { left: rest };
                }
                Step::Command { command, consumed: len }
            }
            TextLogin::TooLong => self.close(CloseReason::LineTooLong),
        }
    }

    /// A request to log in, of `consumed` bytes and `rest` that nobody wants. Whoever has logged in before has not any more, until it is answered.
    pub(super) fn sasl<'a>(&mut self, request: &SaslRequest<'a>, consumed: usize, rest: u64) -> Step<'a> {
        self.is_locked = true;
        self.state = if rest > 0 { State::Swallow { left: rest } } else { State::Locked };
        if !request.is_step {
            self.has_begun_login = request.is_beginning();
        }
        if request.is_beginning() {
            let asks = Asks::Sasl(Sasl::Continues);
            let command = Command::Binary(Binary { header: request.header, asks });
            return Step::Command { command, consumed };
        }
        Step::Login { login: request.login(self.has_begun_login), consumed }
    }
}
