//! How a session ends.

use super::flight::Flight;
use super::wire::Notice;
use super::{Closing, Farewell, Lost, Phase, Session};
use base::units::Nanos;

impl Session {
    /// Takes no more messages, delivers those it has, then ends. Within `lost_after`, or as lost.
    pub fn close(&mut self, now: Nanos) {
        match self.phase {
            Phase::Over(_) => {}
            Phase::Opening { .. } => self.end(Lost::Closed, None),
            Phase::Accepted { .. } | Phase::Established => {
                let by = now.plus(self.config.lost_after);
                self.closing.get_or_insert(Closing { by, send_at: now, tries: 0 });
            }
        }
    }

    pub(super) fn handle_reset(&mut self, token: u64, notice: &Notice) {
        if !self.is_established() || token != self.token {
            return;
        }
        // Without a session the peer cannot answer a Close otherwise.
        let said_close = self.closing.is_some_and(|closing| closing.tries > 0);
        let lost = match notice.epoch == self.peer_epoch {
            true if said_close => Lost::Closed,
            true => Lost::Reset,
            false => Lost::Restarted,
        };
        self.end(lost, None);
    }

    pub(super) fn end(&mut self, lost: Lost, farewell: Option<Farewell>) {
        self.phase = Phase::Over(lost);
        self.closing = None;
        self.farewell = farewell;
        self.farewell_due = farewell.is_some();
        self.flight = Flight::default();
        self.outbox.clear();
        self.inbox.clear_partial();
    }
}
