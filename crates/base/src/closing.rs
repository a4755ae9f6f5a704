//! One line for each connection that ends: whose it was, and why. All servers log it here.
//!
//! ```text
//!  millrace: debug: kv: 10.0.0.7:51234 closed: protocol (a line that is too long)
//!  {…,"level":"debug","target":"connections","message":"…","protocol":"kv","peer":"10.0.0.7:51234","reason":"protocol","detail":"a line that is too long"}
//! ```
//! What this end closed is a debug message; that a client ended its connection, as all do, is a trace message.
//!
//! Bounds: [`LINES_PER_SECOND_MAX`] lines a second of a process; how many there were besides is said with the first of a later second. Cost: while nobody wants
//! them, one load for each connection that ends.

use std::fmt;
use std::sync::Mutex;
use std::time::Instant;

/// What filters of the log call these messages.
pub const TARGET: &str = "connections";
/// Lines of one second.
pub const LINES_PER_SECOND_MAX: u32 = 100;

static LIMIT: Mutex<Limit> = Mutex::new(Limit { second: 0, lines: 0, left_out: 0 });

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The client ended it, and has all of its answers.
    Client,
    /// The client is gone: a reset, or what it sends to does not take anything.
    Gone,
    /// What it sent cannot be read on.
    Protocol(&'static str),
    /// No TLS came to be: what was wrong, or that it took too long.
    Tls(String),
    /// It said nothing for too long.
    Idle,
    /// It did not read its answers.
    SlowReader,
    /// A bound of the server: which.
    Limit(&'static str),
    /// Who it is was not proven, or may not be served.
    Refused(String),
    /// The server ends.
    Drain,
}

impl Reason {
    /// For programs: one word.
    pub fn word(&self) -> &'static str {
        match self {
            Reason::Client => "client",
            Reason::Gone => "gone",
            Reason::Protocol(_) => "protocol",
            Reason::Tls(_) => "tls",
            Reason::Idle => "idle",
            Reason::SlowReader => "slow_reader",
            Reason::Limit(_) => "limit",
            Reason::Refused(_) => "refused",
            Reason::Drain => "drain",
        }
    }

    /// What exactly, where the word leaves it open.
    pub fn detail(&self) -> &str {
        match self {
            Reason::Protocol(what) | Reason::Limit(what) => what,
            Reason::Tls(what) | Reason::Refused(what) => what,
            _ => "",
        }
    }

    fn level(&self) -> log::Level {
        if matches!(self, Reason::Client | Reason::Gone) { log::Level::Trace } else { log::Level::Debug }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        let detail = self.detail();
        if detail.is_empty() { Ok(()) } else { write!(f, " ({detail})") }
    }
}

/// Lines of this second.
#[derive(Debug)]
struct Limit {
    second: u64,
    lines: u32,
    left_out: u64,
}

impl Limit {
    /// Whether there may be a line in this second, and how many were left out in those before.
    fn take(&mut self, second: u64) -> (bool, u64) {
        let mut before = 0;
        if second != self.second {
            before = std::mem::take(&mut self.left_out);
            (self.second, self.lines) = (second, 0);
        }
        let is_within = self.lines < LINES_PER_SECOND_MAX;
        self.lines += u32::from(is_within);
        self.left_out += u64::from(!is_within);
        (is_within, before)
    }
}

/// Says that a connection of a client who spoke `protocol` ended. `peer` is asked only where the line is wanted.
pub fn log(protocol: &str, peer: impl FnOnce() -> String, reason: &Reason) {
    let level = reason.level();
    if !log::log_enabled!(target: TARGET, level) {
        return;
    }
    // Seconds since whenever the first was logged.
    static BEGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let second = BEGIN.elapsed().as_secs();
    let (is_within, before) = LIMIT.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take(second);
    if before > 0 {
        log::debug!(target: TARGET, left_out = before; "{before} more connections ended, at over {LINES_PER_SECOND_MAX} a second");
    }
    if is_within {
        let (peer, word, detail) = (peer(), reason.word(), reason.detail());
        log::log!(
            target: TARGET, level, protocol, peer = peer.as_str(), reason = word, detail;
            "{protocol}: {peer} closed: {reason}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_lines_and_the_next_says_how_many_there_were_besides() {
        let mut limit = Limit { second: 0, lines: 0, left_out: 0 };
        let taken: Vec<(bool, u64)> = (0..LINES_PER_SECOND_MAX + 5).map(|_| limit.take(7)).collect();
        assert_eq!(taken.iter().filter(|(is_within, _)| *is_within).count(), LINES_PER_SECOND_MAX as usize);
        assert!(taken.iter().all(|(_, before)| *before == 0));
        assert_eq!(limit.take(9), (true, 5));
        assert_eq!(limit.take(9), (true, 0));
    }

    #[test]
    fn reasons_are_words_with_what_exactly() {
        assert_eq!(Reason::Idle.to_string(), "idle");
        assert_eq!(
            Reason::Protocol("a line that is too long").to_string(),
            "protocol (a line that is too long)"
        );
        assert_eq!(Reason::Tls("no certificate".into()).detail(), "no certificate");
    }
}
