//! What a client hears.

use super::session::Session;
use super::{Client, Failure, HOPS, OPENING, SILENT, What};
use crate::chain::message::{Refusal, RequestId, Status};
use crate::chain::{Message, NodeId, Out, Outcome, ReplicaId, SessionId};
use base::Nanos;

impl Client {
    /// Takes a message.
    pub fn handle(&mut self, now: Nanos, from: NodeId, message: Message, out: &mut Out) {
        let from = match from {
            NodeId::Replica(from) => from,
            NodeId::Home => return self.hear_home(now, message, out),
            NodeId::Client(_) | NodeId::Controller(_) => {
                self.stats.dropped += 1;
                return;
            }
        };
        match message {
            Message::Opened { token, session, window } => {
                self.hear_opened(now, from, token, (session, window), out);
            }
            Message::Reply { id, outcome } => self.hear_outcome(now, from, id, outcome, out),
            Message::Refused { id, why } => self.hear_refused(now, from, id, why, out),
            Message::Told { id, status } => match status {
                Status::Done(outcome) => self.hear_outcome(now, from, id, outcome, out),
                Status::Unknown => self.end_question(id, Failure::Unknown),
                Status::Forgotten => self.end_question(id, Failure::Refused(Refusal::Forgotten)),
            },
            _ => self.stats.dropped += 1,
        }
    }

    fn hear_opened(
        &mut self,
        now: Nanos,
        from: ReplicaId,
        token: u64,
        (session, window): (SessionId, u64),
        out: &mut Out,
    ) {
        let id = RequestId { session: SessionId(0), sequence: token };
        if self.sent.get(&id) == Some(&OPENING) {
            self.remove(OPENING);
            self.route.learn(from, false);
            self.session = Some(Session::new(session, window));
            self.stats.sessions += 1;
            self.send_waiting(now, out);
            return;
        }
        self.stats.dropped += 1;
        if self.session() != Some(session) {
            // Two copies of a request for a session open two. Nobody uses this one.
            self.send(NodeId::Replica(from), Message::Close { session }, out);
        }
    }

    fn hear_outcome(&mut self, now: Nanos, from: ReplicaId, id: RequestId, outcome: Outcome, out: &mut Out) {
        let Some(&ticket) = self.sent.get(&id) else {
            self.stats.dropped += 1;
            return;
        };
        let op = &self.ops[&ticket];
        if !op.only_reads() {
            self.route.learn(from, false);
            // It does what did not come by a home.
            self.homes.is_claimed &= op.by_home || outcome.abort.is_some() || !op.may_go_by_home();
        }
        self.end_or_ask_elsewhere(now, ticket, (outcome, false), out);
    }

    fn end_question(&mut self, id: RequestId, failure: Failure) {
        match self.sent.get(&id) {
            Some(&ticket) if self.ops[&ticket].what == What::Ask => self.end(ticket, Err(failure)),
            _ => self.stats.dropped += 1,
        }
    }

    pub(super) fn hear_refused(
        &mut self,
        now: Nanos,
        from: ReplicaId,
        id: RequestId,
        why: Refusal,
        out: &mut Out,
    ) {
        let Some(&ticket) = self.sent.get(&id) else {
            self.stats.dropped += 1;
            return;
        };
        // Neither is in a session of ours.
        let is_others = matches!(self.ops[&ticket].what, What::Ask | What::Relay(_));
        match why {
            Refusal::Elsewhere(whom) => self.follow(now, ticket, from, whom, out),
            Refusal::Busy => {
                self.stats.busy += 1;
                self.ops.get_mut(&ticket).expect("what was sent is under way").silent = 0;
            }
            Refusal::NoSession | Refusal::Forgotten if is_others => {
                self.end(ticket, Err(Failure::Refused(why)));
                self.send_waiting(now, out);
            }
            Refusal::NoSession => {
                // An earlier copy may have been done before the session was forgotten.
                self.lose_session(id.session);
                self.send_waiting(now, out);
            }
            // Not by what we do: our numbers are within the window. So nothing is known.
            Refusal::Forgotten => {
                self.end(ticket, Err(Failure::Unknown));
                self.send_waiting(now, out);
            }
            Refusal::Malformed(_) => {
                self.end(ticket, Err(Failure::Refused(why)));
                self.send_waiting(now, out);
            }
            Refusal::Denied(_) => {
                self.hear_denied(ticket, &why);
                self.send_waiting(now, out);
            }
        }
    }

    /// There is no right to it: that is final. Of a write that was sent before, an earlier copy may have met other rights.
    fn hear_denied(&mut self, ticket: u64, why: &Refusal) {
        let op = &self.ops[&ticket];
        let failed = || Err(Failure::Refused(why.clone()));
        match op.what {
            // What waits for a session has not been sent.
            What::Open => {
                self.remove(ticket);
                for waiting in std::mem::take(&mut self.waiting) {
                    self.end(waiting, failed());
                }
            }
            What::Do(_) | What::Relay(_) if op.attempts > 1 && !op.only_reads() => {
                self.end(ticket, Err(Failure::Unknown));
            }
            What::Do(_) | What::Relay(_) | What::Ask => self.end(ticket, failed()),
        }
    }

    /// Asks whom a replica names, at once; if it names nobody, the next one, when it is time.
    fn follow(&mut self, now: Nanos, ticket: u64, from: ReplicaId, whom: Option<ReplicaId>, out: &mut Out) {
        let op = self.ops.get_mut(&ticket).expect("what was sent is under way");
        if op.to != from {
            self.stats.dropped += 1;
            return;
        }
        op.silent = 0;
        let only_reads = op.only_reads();
        match whom {
            Some(whom) if whom != from && op.hops < HOPS => {
                op.hops += 1;
                // It may be that the one that is named has just died: one timeout is enough to see.
                op.silent = SILENT - 1;
                op.to = whom;
                self.route.learn(whom, only_reads);
                self.stats.followed += 1;
                self.send_op(now, ticket, out);
            }
            _ => op.to = self.route.instead_of(from, only_reads),
        }
    }
}
