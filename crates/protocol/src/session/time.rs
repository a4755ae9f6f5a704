//! What happens because nothing does: packets lost, answers late, credit asked for, the peer silent.

use super::wire::REASON_TIMEOUT;
use super::{Farewell, Lost, Phase, Session};
use base::units::Nanos;

/// Packets given up, and asked after, by one timeout.
const PROBES: u32 = 2;
/// Timeouts in a row after which the network is taken for jammed, not for unlucky.
const JAMMED: u32 = 3;

impl Session {
    /// When [`Session::poll_transmit`] must be called though nothing happened; [`Nanos::MAX`] for never.
    pub fn next_deadline(&self) -> Nanos {
        let send_at = match self.phase {
            Phase::Opening { send_at, .. } => send_at,
            Phase::Established => self.received.due.min(self.close_at()),
            _ => Nanos::MAX,
        };
        self.next_timer().min(send_at)
    }

    /// The earliest of what [`Session::handle_timers`] does.
    pub(super) fn next_timer(&self) -> Nanos {
        match self.phase {
            Phase::Opening { .. } | Phase::Accepted { .. } => self.silence_at(),
            Phase::Established => self
                .silence_at()
                .min(self.flight.loss_at())
                .min(self.timeout_at())
                .min(self.ask_credit_at())
                .min(self.keep_alive_at()),
            Phase::Over(_) => Nanos::MAX,
        }
    }

    pub(super) fn handle_timers(&mut self, now: Nanos) {
        if now >= self.silence_at() {
            return self.end(Lost::Timeout, Some(Farewell::Reset(REASON_TIMEOUT)));
        }
        if self.phase != Phase::Established {
            return;
        }
        if now >= self.flight.loss_at() {
            self.detect_losses(now);
        }
        if now >= self.timeout_at() {
            self.handle_timeout();
        }
        if now >= self.ask_credit_at() {
            self.asked_credit += 1;
            self.ping = true;
        }
        if now >= self.keep_alive_at() {
            self.ping = true;
        }
    }

    /// No answer came: the oldest packets' content goes out again, whatever the window says, and asks for one.
    fn handle_timeout(&mut self) {
        self.stats.timeouts += 1;
        self.backoff += 1;
        self.probes = PROBES;
        for _ in 0..PROBES {
            let Some(packet) = self.flight.give_up_oldest() else { break };
            self.outbox.lose(packet.first, packet.count);
            self.ping |= packet.count == 0;
            self.stats.lost_packets += 1;
        }
        if self.backoff >= JAMMED {
            self.congestion.collapse();
        }
    }

    /// How long to wait for an answer after `tries` without one.
    pub(super) fn timeout(&self, tries: u32) -> Nanos {
        let once = self.rtt.timeout().plus(self.peer_ack_delay).max(self.config.min_timeout);
        Nanos(once.0.saturating_mul(1 << tries.min(16))).min(self.config.max_timeout)
    }

    fn silence_at(&self) -> Nanos {
        let silence = match self.phase {
            Phase::Opening { .. } | Phase::Accepted { .. } => self.began.plus(self.config.open_timeout),
            _ => self.heard_at.plus(self.config.lost_after),
        };
        self.closing.map_or(silence, |closing| closing.by.min(silence))
    }

    fn timeout_at(&self) -> Nanos {
        if self.flight.is_empty() {
            return Nanos::MAX;
        }
        self.flight.last_sent_at().plus(self.timeout(self.backoff))
    }

    fn ask_credit_at(&self) -> Nanos {
        if !self.told_blocked || self.ping || !self.flight.is_empty() || !self.outbox.is_blocked() {
            return Nanos::MAX;
        }
        self.flight.last_sent_at().plus(self.timeout(self.asked_credit))
    }

    fn keep_alive_at(&self) -> Nanos {
        if self.ping || !self.flight.is_empty() {
            return Nanos::MAX;
        }
        self.heard_at.plus(self.config.keep_alive)
    }

    fn close_at(&self) -> Nanos {
        self.closing.filter(|_| self.outbox.is_empty()).map_or(Nanos::MAX, |closing| closing.send_at)
    }
}
