//! By the home of boxes that has claimed the chain.

use super::Client;
use crate::chain::message::Refusal;
use crate::chain::transaction::Abort;
use crate::chain::{Message, Out, Outcome};
use base::Nanos;

/// Times that the chain may say that a home has claimed it, before that is the outcome: each follows a timeout of a home that is gone.
pub(super) const CLAIMED: u32 = 16;

/// What is known of a home before the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Homes {
    /// Whether to go there at all.
    pub(super) are_followed: bool,
    /// The last write that did not come by one was refused.
    pub(super) is_claimed: bool,
    /// It cannot be reached, or there is none.
    pub(super) is_lost: bool,
}

impl Client {
    /// With writes going by the home of boxes that has claimed the chain, if one has: to `NodeId::Home`. Where that is, the chain's claim says.
    #[must_use]
    pub fn follows_homes(mut self) -> Client {
        self.homes.are_followed = true;
        self
    }

    /// The home cannot be reached, or there is none: what was sent there is asked of the chain when it is time.
    pub fn home_is_lost(&mut self) {
        self.homes.is_lost = true;
    }

    /// It is to be had again, perhaps elsewhere.
    pub fn home_is_found(&mut self) {
        self.homes.is_lost = false;
    }

    /// The home answers.
    pub(super) fn hear_home(&mut self, now: Nanos, message: Message, out: &mut Out) {
        let (Message::Reply { id, .. } | Message::Refused { id, .. }) = &message else {
            self.stats.dropped += 1;
            return;
        };
        let Some(&ticket) = self.sent.get(id) else {
            self.stats.dropped += 1;
            return;
        };
        match message {
            Message::Reply { outcome, .. } => self.end_or_ask_elsewhere(now, ticket, (outcome, true), out),
            // It takes none: the chain says why.
            Message::Refused { why: Refusal::Elsewhere(_), .. } => {
                let op = self.ops.get_mut(&ticket).expect("what was sent is under way");
                (op.by_home, op.to) = (false, self.route.head);
            }
            Message::Refused { id, why } => self.hear_refused(now, self.route.head, id, why, out),
            _ => unreachable!("looked at just now"),
        }
    }

    pub(super) fn end_or_ask_elsewhere(
        &mut self,
        now: Nanos,
        ticket: u64,
        (outcome, said_by_home): (Outcome, bool),
        out: &mut Out,
    ) {
        let op = &self.ops[&ticket];
        let is_claimed = outcome.abort == Some(Abort::Claimed);
        if is_claimed && self.homes.are_followed && op.may_go_by_home() && op.claimed < CLAIMED {
            return self.ask_elsewhere(now, ticket, said_by_home, out);
        }
        self.end(ticket, Ok(outcome));
        self.send_waiting(now, out);
    }

    /// It was not done, since it did not come by the home that has claimed the chain, and under its number it will not be: it waits for another. The chain
    /// said so itself, or a home, which then is not the one any more: the chain is asked whether another is.
    fn ask_elsewhere(&mut self, now: Nanos, ticket: u64, said_by_home: bool, out: &mut Out) {
        self.homes.is_claimed = !said_by_home;
        let op = self.ops.get_mut(&ticket).expect("what was sent is under way");
        self.timers.remove(&(op.send_at.min(op.deadline), ticket));
        (op.send_at, op.attempts, op.silent, op.hops) = (Nanos::MAX, 0, 0, 0);
        op.claimed += 1;
        self.timers.insert((op.deadline, ticket));
        if let Some(id) = op.id.take() {
            self.sent.remove(&id);
            if let Some(session) = &mut self.session {
                session.ended(id);
            }
        }
        self.stats.followed += 1;
        self.waiting.insert(ticket);
        self.send_waiting(now, out);
    }
}
