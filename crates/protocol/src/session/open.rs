//! How a session begins, at both ends: Open, perhaps Retry, Accept or Refuse; and what the ends agree on.

use super::config::{Config, are_usable, unit};
use super::congestion::Congestion;
use super::flight::Flight;
use super::inbox::Inbox;
use super::outbox::{Grant, Outbox};
use super::received::Received;
use super::rtt::Rtt;
use super::wire::{REASON_VIOLATION, REFUSE_BUSY, REFUSE_VERSION, Terms, VERSION};
use super::{Farewell, Lost, Phase, Refusal, Session, Stats};
use base::units::Nanos;

impl Session {
    /// Opens a session: Open is the first datagram that [`Session::poll_transmit`] writes.
    ///
    /// `epoch` is a random number of this process, the same for all its sessions; `id` a random number of this session.
    /// Both keep strangers out, so they come from the system's generator, and not from a `Prng`.
    ///
    /// # Panics
    /// Where [`Config::check`] finds fault.
    pub fn open(config: &Config, now: Nanos, epoch: u64, id: u64) -> Session {
        if let Err(why) = config.check() {
            panic!("a session's configuration is checked by whoever read it: {why}");
        }
        Session::new(config, now, epoch, id)
    }

    /// The accepting end, for an opener whose address is proven.
    pub(super) fn accept(config: &Config, now: Nanos, epoch: u64, token: u64, asked: &Asked) -> Session {
        let mut session = Session::new(config, now, epoch, asked.session);
        session.is_opener = false;
        session.token = token;
        session.peer_epoch = asked.epoch;
        session.phase = Phase::Accepted { owed: true };
        session.agree(&asked.terms);
        session
    }

    fn new(config: &Config, now: Nanos, epoch: u64, id: u64) -> Session {
        let config = config.clone();
        #[cfg_attr(not(test), expect(unused_mut, reason = "a test plants bugs"))]
        let mut inbox = Inbox::new(config.max_message, config.receive_bytes, config.receive_messages);
        #[cfg(test)]
        {
            inbox.planted = config.planted;
        }
        Session {
            id,
            token: 0,
            epoch,
            peer_epoch: 0,
            is_opener: true,
            phase: Phase::Opening { cookie: 0, send_at: now, tries: 0 },
            closing: None,
            datagram_bytes: config.datagram_bytes,
            max_message: config.max_message,
            peer_ack_delay: Nanos::ZERO,
            outbox: Outbox::new(config.send_bytes, config.send_messages),
            inbox,
            received: Received::new(),
            flight: Flight::default(),
            rtt: Rtt::new(config.initial_rtt),
            congestion: Congestion::new(config.datagram_bytes, config.max_in_flight),
            began: now,
            heard_at: now,
            backoff: 0,
            probes: 0,
            ping: false,
            limited: false,
            told_blocked: false,
            asked_credit: 0,
            peer_blocked: false,
            stray: None,
            farewell: None,
            farewell_due: false,
            stats: Stats::default(),
            config,
        }
    }

    /// Takes the peer's terms, which are usable.
    fn agree(&mut self, terms: &Terms) {
        self.datagram_bytes = self.config.datagram_bytes.min(terms.datagram_bytes as usize);
        self.max_message = self.config.max_message.min(terms.max_message as usize);
        // A peer that claims to keep acknowledgements for long may not stop retransmission.
        self.peer_ack_delay =
            Nanos::from_micros(u64::from(terms.max_ack_delay_us)).min(self.config.max_timeout);
        let unit = unit(self.datagram_bytes);
        self.inbox.agree(unit);
        let grant = Grant { bytes: terms.granted_bytes, messages: u64::from(terms.granted_messages) };
        self.outbox.agree(unit, grant);
        self.congestion = Congestion::new(self.datagram_bytes, self.config.max_in_flight);
    }

    /// An Open for a session that exists here.
    pub(super) fn handle_open(&mut self, opener: u64) {
        match &mut self.phase {
            _ if self.is_opener => self.stats.stale += 1,
            Phase::Accepted { owed } if opener == self.peer_epoch => *owed = true,
            // A new process with an old number, or an old Open that comes late: whoever is there answers the ping, with
            // an acknowledgement or with a Reset.
            Phase::Established if opener != self.peer_epoch => self.ping |= self.flight.is_empty(),
            _ => {}
        }
    }

    pub(super) fn handle_retry(&mut self, now: Nanos, opener: u64, proof: u64) {
        if let Phase::Opening { cookie, send_at, .. } = &mut self.phase
            && opener == self.epoch
            && *cookie != proof
        {
            (*cookie, *send_at) = (proof, now);
        }
    }

    pub(super) fn handle_accept(&mut self, now: Nanos, token: u64, opener: u64, epoch: u64, terms: &Terms) {
        if !matches!(self.phase, Phase::Opening { .. }) || opener != self.epoch {
            self.stats.stale += u64::from(token != self.token);
            return;
        }
        self.token = token;
        self.peer_epoch = epoch;
        if !are_usable(terms) {
            return self.end(Lost::Refused(Refusal::Terms), Some(Farewell::Reset(REASON_VIOLATION)));
        }
        self.agree(terms);
        self.phase = Phase::Established;
        self.heard_at = now;
        // The accepter sends nothing until it has heard the token.
        self.ping = true;
    }

    pub(super) fn handle_refuse(&mut self, opener: u64, reason: u8, version: u8) {
        if matches!(self.phase, Phase::Opening { .. }) && opener == self.epoch {
            let refusal = match reason {
                REFUSE_VERSION if version != VERSION => Refusal::Version(version),
                REFUSE_BUSY => Refusal::Busy,
                _ => Refusal::Terms,
            };
            self.end(Lost::Refused(refusal), None);
        }
    }
}

/// What an Open asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) session: u64,
    pub(super) epoch: u64,
    pub(super) terms: Terms,
}
