//! Where homes are, as far as a client knows: by its file, and by what boxes say when a home does not answer for the second time. Once is the network's doing.
//!
//! Bounds: a question at a time, each [`Config::bypass`] at most. Cost: nothing while homes answer.

use super::super::moved::Moved;
use super::super::table::Layout;
use super::super::{Config, NodeId, Out};
use super::{Client, Phase, Timer};
use crate::wire::{BoxId, Message, OpNumber, Verb};
use base::Nanos;
use std::sync::Arc;

/// See the head of the file.
#[derive(Clone, Debug)]
pub(super) struct Whereabouts {
    moved: Arc<Moved>,
    /// The client's own, and all others: asked in turn.
    boxes: Vec<BoxId>,
    turn: usize,
    /// The number of the question that was asked last.
    asked: OpNumber,
    /// Not before.
    ask_at: Nanos,
    pace: Nanos,
}

impl Whereabouts {
    pub(super) fn new(config: &Config, tor: BoxId, layout: &Layout) -> Whereabouts {
        Whereabouts {
            moved: Arc::clone(layout.moved()),
            boxes: [tor].into_iter().chain(layout.boxes().filter(|id| *id != tor)).collect(),
            turn: 0,
            asked: OpNumber(0),
            ask_at: Nanos::ZERO,
            pace: config.bypass.max(config.retransmit_max),
        }
    }
}

impl Client {
    /// Homes that have moved, as far as it knows.
    pub fn moved(&self) -> &Arc<Moved> {
        &self.whereabouts.moved
    }

    /// A home did not answer: asks the next box where homes are, unless one was asked lately.
    pub(super) fn ask_whereabouts(&mut self, now: Nanos, out: &mut Out) {
        let known = &mut self.whereabouts;
        if now < known.ask_at {
            return;
        }
        let id = known.boxes[known.turn % known.boxes.len()];
        known.turn += 1;
        known.ask_at = now.plus(known.pace);
        known.asked = OpNumber(self.next);
        let mut message = Message::request(Verb::Noop, &[]);
        (message.header.client, message.header.operation) = (self.id, known.asked);
        // It is meant for that box, and not to be sent on to a home.
        message.header.at = id;
        self.next += 1;
        out.push((NodeId::Box(id), message));
    }

    /// A box said where homes are: what waits for one that is elsewhere than was known is sent there.
    pub(super) fn hear_whereabouts(&mut self, now: Nanos, from: NodeId, reply: &Message, out: &mut Out) {
        let known = &mut self.whereabouts;
        if !matches!(from, NodeId::Box(_)) || reply.header.operation != known.asked {
            return;
        }
        let Some((told, _)) = Moved::told(reply, &self.layout) else { return };
        let before = Arc::clone(&known.moved);
        if !Moved::learn_into(&mut known.moved, &told) {
            return;
        }
        let is_elsewhere = |home| before.of(home) != told.of(home) && told.of(home).is_some();
        let sent = |phase| phase != Phase::Waiting;
        let waiting = self.ops.iter().filter(|(_, op)| sent(op.phase) && is_elsewhere(op.home));
        let (ids, homes): (Vec<u64>, Vec<_>) = (
            waiting.map(|(id, _)| *id).collect(),
            told.iter().map(|(home, _)| home).filter(|home| is_elsewhere(*home)).collect(),
        );
        for home in homes {
            self.timers.retain(|(_, timer)| *timer != Timer::Session(home));
            self.ask_session(now, home, out);
        }
        for id in ids {
            let op = self.ops.get_mut(&id).expect("it is under way");
            // What was sent to the old place was an attempt, and what is sent now goes to the home.
            op.attempt = op.attempt.saturating_add(1);
            op.timeout = self.config.retransmit;
            self.send(now, id, out);
        }
    }
}
