//! A datagram comes in.

use super::flight::NeverSent;
use super::inbox::{Took, Violation};
use super::wire::{self, Body, Datagram, ParseError, Pieces, REASON_VIOLATION, State};
use super::{Farewell, Lost, Phase, Session};
use base::units::Nanos;

impl Session {
    /// Takes a datagram that [`session_of`](super::session_of) says is this session's, from the peer's address. Any
    /// bytes will do.
    pub fn handle_datagram(&mut self, now: Nanos, bytes: &[u8]) {
        self.stats.datagrams_received += 1;
        let datagram = match self.parse(bytes) {
            Ok(datagram) if datagram.session == self.id => datagram,
            Ok(_) | Err(_) => {
                self.stats.corrupt += 1;
                return;
            }
        };
        let token = datagram.token;
        match datagram.body {
            Body::Open { .. } => self.handle_open(token),
            Body::Retry { cookie } => self.handle_retry(now, token, cookie),
            Body::Accept { opener, epoch, terms } => self.handle_accept(now, token, opener, epoch, &terms),
            Body::Refuse { reason, version } => self.handle_refuse(token, reason, version),
            Body::Reset(notice) => self.handle_reset(token, &notice),
            Body::Closed(_) if self.closing.is_some() && token == self.token => self.end(Lost::Closed, None),
            Body::Closed(_) => {}
            Body::Data(..) | Body::Ack(_) | Body::Close(_) if !self.admits(token) => {}
            Body::Data(state, pieces) => self.handle_packet(now, &state, Some(pieces)),
            Body::Ack(state) => self.handle_packet(now, &state, None),
            Body::Close(_) => self.end(Lost::Closed, Some(Farewell::Closed)),
        }
    }

    fn parse<'a>(&self, bytes: &'a [u8]) -> Result<Datagram<'a>, ParseError> {
        #[cfg(test)]
        if self.config.planted == Some(super::tests::Planted::ChecksumIgnored) {
            return wire::parse_unsummed(bytes, wire::session_of(bytes).ok_or(ParseError::Foreign)?);
        }
        wire::parse(bytes)
    }

    /// Whether a datagram with `token` belongs to this session as it is now; else what it deserves is put down.
    fn admits(&mut self, token: u64) -> bool {
        #[cfg(test)]
        if self.config.planted == Some(super::tests::Planted::OldEpochAccepted)
            && matches!(self.phase, Phase::Accepted { .. } | Phase::Established)
        {
            return true;
        }
        match self.phase {
            Phase::Over(_) => {
                self.farewell_due = self.farewell.is_some() && token == self.token;
                false
            }
            Phase::Accepted { .. } | Phase::Established if token == self.token => true,
            _ => {
                // Whoever sent this believes in a session that ended. Its own token makes the Reset credible.
                self.stats.stale += 1;
                self.stray = Some(token);
                false
            }
        }
    }

    fn handle_packet(&mut self, now: Nanos, state: &State, pieces: Option<Pieces<'_>>) {
        self.heard_at = now;
        if matches!(self.phase, Phase::Accepted { .. }) {
            self.phase = Phase::Established;
        }
        let sound = self.take_acks(now, state).is_ok();
        self.take_credit(state);
        self.received.raise_floor(state.floor);
        let sound = sound && pieces.is_none_or(|pieces| self.take_pieces(now, state.packet, pieces).is_ok());
        if !sound {
            self.end(Lost::Violation, Some(Farewell::Reset(REASON_VIOLATION)));
        }
    }

    fn take_acks(&mut self, now: Nanos, state: &State) -> Result<(), NeverSent> {
        let Session { flight, outbox, congestion, limited, .. } = self;
        let mut any = false;
        let newest = flight.acknowledge(&state.acks, |packet| {
            any = true;
            outbox.acknowledge(packet.first, packet.count);
            congestion.acknowledged(packet.bytes as usize, packet.sent_at, *limited);
        })?;
        if let Some(sent_at) = newest {
            let delay = Nanos::from_micros(u64::from(state.ack_delay_us)).min(self.peer_ack_delay);
            self.rtt.sample(now.since(sent_at), delay);
        }
        if any {
            self.outbox.release();
            (self.backoff, self.probes) = (0, 0);
            self.detect_losses(now);
        }
        Ok(())
    }

    /// Puts the content of lost packets back to be sent again.
    pub(super) fn detect_losses(&mut self, now: Nanos) {
        let Session { flight, outbox, congestion, stats, ping, rtt, .. } = self;
        flight.detect_losses(now, rtt, |packet| {
            outbox.lose(packet.first, packet.count);
            congestion.lost(now, packet.sent_at);
            *ping |= packet.count == 0;
            stats.lost_packets += 1;
        });
    }

    fn take_credit(&mut self, state: &State) {
        self.peer_blocked = state.blocked;
        let was_blocked = self.outbox.is_blocked();
        self.outbox.raise(state.granted_bytes, state.granted_messages);
        if was_blocked && !self.outbox.is_blocked() {
            self.told_blocked = false;
            self.asked_credit = 0;
        }
    }

    fn take_pieces(&mut self, now: Nanos, packet: u64, pieces: Pieces<'_>) -> Result<(), Violation> {
        if !self.received.note(now, packet, self.config.max_ack_delay) {
            self.stats.duplicate_packets += 1;
            #[cfg(test)]
            if self.config.planted == Some(super::tests::Planted::DuplicateDelivered) {
                return pieces.clone().try_for_each(|piece| self.inbox.take(&piece, pieces.unit).map(|_| ()));
            }
            return Ok(());
        }
        let unit = pieces.unit;
        for piece in pieces {
            let took = self.inbox.take(&piece, unit)?;
            self.stats.duplicate_pieces += u64::from(took == Took::Duplicate);
        }
        Ok(())
    }
}
