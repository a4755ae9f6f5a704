//! The accepting end before there is a session: stateless, so that a forged address costs nothing.
//!
//! An Open without a valid cookie is answered with one (Retry, 32 bytes for 64), which proves the address when it comes
//! back. The cookie is a keyed hash of address, session, opener's epoch and time; it is good for 30 to 60 seconds and,
//! within these, as often as it comes: an Open that arrives twice reaches the session that it began, and one that
//! arrives after that has ended begins another, which nobody uses and `open_timeout` ends.

use super::Session;
use super::config::{Config, are_usable};
use super::open::Asked;
use super::wire::{
    self, Body, Datagram, NOTICE, Notice, ParseError, REASON_UNKNOWN, REFUSE_BUSY, REFUSE_TERMS,
    REFUSE_VERSION, VERSION,
};
use base::units::Nanos;
use std::hash::{Hash, Hasher};

/// How long a cookie is good, at least.
const COOKIE_LIFE: Nanos = Nanos::from_secs(30);

/// Answers those who are no peers yet, and makes sessions of those who prove their address.
#[derive(Debug)]
pub struct Listener {
    config: Config,
    secret: [u64; 2],
    epoch: u64,
    accepted: u64,
}

/// What came of a datagram.
#[derive(Debug)]
pub enum Heard {
    /// Nothing: it was no datagram of ours, or deserves no answer.
    Nothing,
    /// An answer of so many bytes was appended.
    Reply(usize),
    /// A session began: poll it.
    Session(Box<Session>),
}

impl Listener {
    /// `secret` comes from the system's generator; it also makes the epoch, so that another secret is another start.
    ///
    /// # Panics
    /// Where [`Config::check`] finds fault.
    pub fn new(config: &Config, secret: [u64; 2]) -> Listener {
        if let Err(why) = config.check() {
            panic!("a listener's configuration is checked by whoever read it: {why}");
        }
        let epoch = keyed(secret, &("epoch", 0u64));
        Listener { config: config.clone(), secret, epoch, accepted: 0 }
    }

    /// This start of the accepting end.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Sessions begun.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Takes a datagram that belongs to no session with `from`. With `room` false nobody new is accepted.
    pub fn handle_datagram(
        &mut self,
        now: Nanos,
        from: &impl Hash,
        room: bool,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Heard {
        let reply = |session, token, body, out: &mut Vec<u8>| {
            Heard::Reply(wire::emit(out, &Datagram { session, token, body }))
        };
        let refuse = |reason| Body::Refuse { reason, version: VERSION };
        let (session, epoch, cookie, terms) = match wire::parse(bytes) {
            Ok(Datagram { session, token, body: Body::Open { cookie, terms } }) => {
                (session, token, cookie, terms)
            }
            Err(ParseError::Version { open: true, session, token, .. }) if bytes.len() >= wire::OPEN => {
                return reply(session, token, refuse(REFUSE_VERSION), out);
            }
            _ => return answer_stray(self.epoch, bytes, out).map_or(Heard::Nothing, Heard::Reply),
        };
        let period = now.0 / COOKIE_LIFE.0;
        let cookie_of = |period: u64| keyed(self.secret, &("cookie", period, session, epoch, from)).max(1);
        if cookie != cookie_of(period)
            && period.checked_sub(1).is_none_or(|before| cookie != cookie_of(before))
        {
            return reply(session, epoch, Body::Retry { cookie: cookie_of(period) }, out);
        }
        if !are_usable(&terms) {
            return reply(session, epoch, refuse(REFUSE_TERMS), out);
        }
        if !room {
            return reply(session, epoch, refuse(REFUSE_BUSY), out);
        }
        self.accepted += 1;
        let token = keyed(self.secret, &("token", self.accepted, session, epoch));
        let asked = Asked { session, epoch, terms };
        Heard::Session(Box::new(Session::accept(&self.config, now, self.epoch, token, &asked)))
    }
}

/// Appends the Reset for a datagram that belongs to no session here, if it deserves one, and returns its length.
/// `epoch` is this process's.
pub fn answer_stray(epoch: u64, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let Datagram { session, token, body } = wire::parse(bytes).ok()?;
    let believes = matches!(body, Body::Data(..) | Body::Ack(_) | Body::Accept { .. } | Body::Close(_));
    if !believes {
        return None;
    }
    debug_assert!(bytes.len() >= NOTICE, "no answer is longer than its cause");
    let notice = Notice { epoch, reason: REASON_UNKNOWN };
    Some(wire::emit(out, &Datagram { session, token, body: Body::Reset(notice) }))
}

/// SipHash-2-4 of `what` under `secret`.
#[expect(deprecated, reason = "the standard library's only hash with a key")]
fn keyed(secret: [u64; 2], what: &impl Hash) -> u64 {
    let mut hasher = std::hash::SipHasher::new_with_keys(secret[0], secret[1]);
    what.hash(&mut hasher);
    hasher.finish()
}
