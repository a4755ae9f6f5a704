//! A datagram goes out.
//!
//! What comes first: a Reset for a stray; lost fragments before fresh ones; a Data carries acknowledgement and credit with it,
//! so that an Ack alone goes out only when there is no Data; Close when all is acknowledged.

use super::wire::{self, Body, Datagram, Notice, REASON_CLOSED, REASON_UNKNOWN, State, Writer};
use super::{Farewell, Phase, Session};
use base::units::Nanos;

impl Session {
    /// Appends the next datagram to `out` and returns its length; `None` when there is nothing to send now.
    ///
    /// To be called until it says so, after every other call and at [`Session::next_deadline`].
    pub fn poll_transmit(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<usize> {
        if now >= self.next_timer() {
            self.handle_timers(now);
        }
        let len = match self.phase {
            Phase::Over(_) => self.write_farewell(out),
            Phase::Opening { .. } => self.write_stray(out).or_else(|| self.write_open(now, out)),
            Phase::Accepted { .. } => self.write_stray(out).or_else(|| self.write_accept(out)),
            Phase::Established => self
                .write_stray(out)
                .or_else(|| self.write_data(now, out))
                .or_else(|| self.write_ack(now, out))
                .or_else(|| self.write_close(now, out)),
        }?;
        self.stats.datagrams_sent += 1;
        Some(len)
    }

    fn emit(&self, out: &mut Vec<u8>, token: u64, body: Body<'_>) -> Option<usize> {
        Some(wire::emit(out, &Datagram { session: self.id, token, body }))
    }

    fn write_open(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<usize> {
        let wait = self.timeout(self.opening_tries()?);
        let Phase::Opening { cookie, send_at, tries } = &mut self.phase else { return None };
        if *send_at > now {
            return None;
        }
        *send_at = now.plus(wait);
        *tries += 1;
        let cookie = *cookie;
        self.emit(out, self.epoch, Body::Open { cookie, terms: self.config.terms() })
    }

    fn opening_tries(&self) -> Option<u32> {
        if let Phase::Opening { tries, .. } = self.phase { Some(tries) } else { None }
    }

    fn write_accept(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        let Phase::Accepted { owed: owed @ true } = &mut self.phase else { return None };
        *owed = false;
        let (opener, epoch, terms) = (self.peer_epoch, self.epoch, self.config.terms());
        self.emit(out, self.token, Body::Accept { opener, epoch, terms })
    }

    fn write_stray(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        let token = self.stray.take()?;
        self.emit(out, token, Body::Reset(Notice { epoch: self.epoch, reason: REASON_UNKNOWN }))
    }

    fn write_data(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<usize> {
        if self.outbox.is_blocked() && !self.told_blocked {
            self.ping = true;
        }
        let (lost, fresh) = (self.outbox.has_lost(), self.outbox.has_fresh());
        if !(lost || fresh || self.ping) {
            self.limited = false;
            return None;
        }
        let room =
            self.flight.bytes < self.congestion.window && self.flight.span() < self.config.max_in_flight;
        if !room && self.probes == 0 {
            self.limited = lost || fresh;
            return None;
        }
        let state = self.state(now);
        let mut writer = Writer::state(out, true, self.id, self.token, &state);
        let room = wire::room_for_pieces(&writer, self.datagram_bytes);
        let (first, count) = if lost {
            let renumber = self.planted_renumbering();
            self.outbox.write_lost(&mut writer, room, renumber)
        } else {
            self.outbox.write_fresh(&mut writer, room)
        };
        let len = writer.seal(count);
        self.flight.sent(now, first, u32::from(count), len);
        self.told_blocked |= state.blocked;
        self.ping = false;
        self.probes = self.probes.saturating_sub(1);
        Some(len)
    }

    fn write_ack(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<usize> {
        if self.received.due > now && !self.inbox.owes_credit(self.peer_blocked) {
            return None;
        }
        let state = self.state(now);
        Some(Writer::state(out, false, self.id, self.token, &state).seal(0))
    }

    /// What a Data or Ack says beside its pieces; acknowledgement and credit count as told.
    fn state(&mut self, now: Nanos) -> State {
        let (granted_bytes, granted_messages) = self.inbox.grant();
        let (acks, delay) = self.received.acks(now);
        #[cfg(test)]
        let acks = self.planted_acks(acks);
        self.received.told();
        State {
            packet: self.flight.next(),
            floor: self.flight.floor(),
            granted_bytes,
            granted_messages,
            acks,
            ack_delay_us: u32::try_from(delay.0 / 1000).unwrap_or(u32::MAX),
            blocked: self.outbox.is_blocked(),
        }
    }

    fn write_close(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<usize> {
        let tries = self.closing.filter(|c| c.send_at <= now && self.outbox.is_empty())?.tries;
        let wait = self.timeout(tries);
        let closing = self.closing.as_mut()?;
        closing.tries += 1;
        closing.send_at = now.plus(wait);
        self.emit(out, self.token, Body::Close(Notice { epoch: self.epoch, reason: REASON_CLOSED }))
    }

    fn write_farewell(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        if !std::mem::take(&mut self.farewell_due) {
            return None;
        }
        let notice = |reason| Notice { epoch: self.epoch, reason };
        let body = match self.farewell? {
            Farewell::Closed => Body::Closed(notice(REASON_CLOSED)),
            Farewell::Reset(reason) => Body::Reset(notice(reason)),
        };
        self.emit(out, self.token, body)
    }

    #[cfg(not(test))]
    const fn planted_renumbering(&self) -> u64 {
        0
    }

    #[cfg(test)]
    fn planted_renumbering(&self) -> u64 {
        u64::from(self.config.planted == Some(super::tests::Planted::ResentAsAnother))
    }

    #[cfg(test)]
    fn planted_acks(&self, acks: wire::Acks) -> wire::Acks {
        if self.config.planted != Some(super::tests::Planted::AckedUnreceived) {
            return acks;
        }
        let mut all = wire::Acks::below(acks.next);
        all.push(u16::try_from(acks.next).unwrap_or(u16::MAX), 0);
        all
    }
}
