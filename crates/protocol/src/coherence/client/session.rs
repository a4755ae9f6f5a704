//! What a client knows of its homes: the session at each, and which writes use or wait for it.

use super::super::{NodeId, Out};
use super::replies::answer;
use super::{Client, Phase, Timer};
use crate::wire::{HomeId, Message, OpNumber, Round, Status, Verb};
use base::Nanos;
use std::collections::{BTreeMap, VecDeque};

/// One home.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    number: Option<Round>,
    /// The last one it had. A session that was once refused is never known again, so numbers must grow.
    last: Round,
    next: u64,
    /// Asked for by the request with this number; sent again after so long.
    asking: Option<(OpNumber, Nanos)>,
    /// Number → operation.
    writing: BTreeMap<OpNumber, u64>,
    waiting: VecDeque<u64>,
}

/// All homes.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions(BTreeMap<HomeId, Session>);

impl Sessions {
    pub(super) fn of(&mut self, home: HomeId) -> &mut Session {
        self.0.entry(home).or_default()
    }

    /// One that was asked for something.
    pub(super) fn known(&mut self, home: HomeId) -> Option<&mut Session> {
        self.0.get_mut(&home)
    }
}

impl Session {
    pub(super) fn ended(&mut self, id: u64, phase: Phase) {
        match phase {
            Phase::Writing { session, number } if self.number == Some(session) => {
                self.writing.remove(&number);
            }
            _ => self.waiting.retain(|waits| *waits != id),
        }
    }

    /// The operation under this number of this session.
    pub(super) fn operation(&self, session: Round, number: OpNumber) -> Option<u64> {
        if self.number == Some(session) { self.writing.get(&number).copied() } else { None }
    }

    /// The home does not know it. The operations that were sent in it.
    pub(super) fn refused(&mut self) -> Vec<u64> {
        self.number = None;
        std::mem::take(&mut self.writing).into_values().collect()
    }

    fn has_room(&self, window: u64) -> bool {
        self.writing.first_key_value().is_none_or(|(oldest, _)| self.next - oldest.0 < window)
    }
}

impl Client {
    /// A write takes its place in the session of its home, or waits for one.
    pub(super) fn begin_write(&mut self, now: Nanos, id: u64, out: &mut Out) {
        let op = self.ops.get_mut(&id).expect("what begins is under way");
        op.phase = Phase::Waiting;
        op.attempt = 0;
        op.timeout = self.config.retransmit;
        let home = op.home;
        self.timers.remove(&(op.send_at.min(op.deadline), Timer::Op(id)));
        op.send_at = Nanos::MAX;
        self.timers.insert((op.deadline, Timer::Op(id)));
        self.sessions.of(home).waiting.push_back(id);
        self.begin_waiting(now, home, out);
    }

    /// Sends what waits and may be sent.
    pub(super) fn begin_waiting(&mut self, now: Nanos, home: HomeId, out: &mut Out) {
        loop {
            let session = self.sessions.of(home);
            let Some(&id) = session.waiting.front() else { return };
            let Some(number) = session.number else {
                if session.asking.is_none() {
                    session.asking = Some((OpNumber(0), self.config.retransmit));
                    self.ask_session(now, home, out);
                }
                return;
            };
            if !session.has_room(self.config.window) {
                return;
            }
            session.waiting.pop_front();
            let operation = OpNumber(session.next);
            session.next += 1;
            session.writing.insert(operation, id);
            let op = self.ops.get_mut(&id).expect("what waits is under way");
            op.phase = Phase::Writing { session: number, number: operation };
            self.send(now, id, out);
        }
    }

    /// Asks a home for a session, unless nobody wants it any more; whether it was asked in vain before, more than once.
    pub(super) fn ask_session(&mut self, now: Nanos, home: HomeId, out: &mut Out) -> bool {
        let session = self.sessions.of(home);
        if session.waiting.is_empty() {
            session.asking = None;
        }
        let Some((request, timeout)) = &mut session.asking else { return false };
        let is_silent =
            *timeout > Nanos(self.config.retransmit.0.saturating_mul(2)).min(self.config.retransmit_max);
        *request = OpNumber(self.next);
        self.next += 1;
        let mut message = Message::request(Verb::Session, &[]);
        message.header.client = self.id;
        message.header.home = home;
        message.header.operation = *request;
        self.timers.insert((now.plus(*timeout), Timer::Session(home)));
        *timeout = Nanos(timeout.0.saturating_mul(2)).min(self.config.retransmit_max);
        out.push((NodeId::Home(home), message));
        is_silent
    }

    /// A home gave a session.
    pub(super) fn hear_session(&mut self, now: Nanos, reply: &Message, out: &mut Out) {
        let (header, home) = (&reply.header, reply.header.home);
        let Some(session) = self.sessions.known(home) else { return };
        if session.asking.is_none_or(|(request, _)| request != header.operation)
            || (header.round <= session.last && header.status != Status::Unproven)
        {
            return;
        }
        session.asking = None;
        if header.status == Status::Unproven {
            let refused: Vec<u64> = session.waiting.drain(..).collect();
            self.timers.retain(|(_, timer)| *timer != Timer::Session(home));
            return refused.into_iter().for_each(|id| self.end(now, id, Ok(answer(reply)), out));
        }
        session.number = Some(header.round);
        session.last = header.round;
        session.next = 1;
        self.timers.retain(|(_, timer)| *timer != Timer::Session(home));
        self.begin_waiting(now, home, out);
    }
}
