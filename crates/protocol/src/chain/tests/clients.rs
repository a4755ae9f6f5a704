//! Clients of these tests: what they ask, and what they are answered. One that is `stubborn` tries one replica after the other until it is answered.

use super::world::{World, ms};
use crate::chain::message::{Refusal, RequestId};
use crate::chain::{Lsn, Message, NodeId, Outcome, ReplicaId, SessionId, Transaction};
use base::Nanos;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Clients {
    pub(super) asked: BTreeMap<(u64, RequestId), Asked>,
    /// Sessions that were opened, by the client and its token.
    pub(super) sessions: BTreeMap<(u64, u64), SessionId>,
    pub(super) refusals: Vec<(u64, RequestId, Refusal)>,
    pub(super) told: Vec<(u64, Message)>,
}

/// A request and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) transaction: Transaction,
    /// The highest LSN that anybody had been answered when it was asked first.
    pub(super) floor: Lsn,
    pub(super) outcome: Option<Outcome>,
    /// It will never be answered: its session or its place was used otherwise.
    pub(super) is_lost: bool,
    to: u16,
    again_at: Nanos,
}

impl Clients {
    pub(super) fn next_deadline(&self) -> Nanos {
        let waiting = self.asked.values().filter(|asked| asked.outcome.is_none() && !asked.is_lost);
        waiting.map(|asked| asked.again_at).min().unwrap_or(Nanos::MAX)
    }
}

impl World {
    /// Asks a replica, once.
    pub(super) fn ask(&mut self, client: u64, to: u16, id: RequestId, transaction: &Transaction) {
        let floor = self.judge.answered;
        let asked = Asked {
            transaction: transaction.clone(),
            floor,
            outcome: None,
            is_lost: false,
            to,
            again_at: Nanos::MAX,
        };
        self.clients.asked.entry((client, id)).or_insert(asked);
        let request = Message::Request { id, transaction: transaction.clone() };
        self.send(NodeId::Client(client), NodeId::Replica(ReplicaId(to)), request);
    }

    /// Asks until it is answered.
    pub(super) fn insist(&mut self, client: u64, to: u16, id: RequestId, transaction: &Transaction) {
        self.ask(client, to, id, transaction);
        let again_at = self.now.plus(ms(60));
        self.clients.asked.get_mut(&(client, id)).expect("it was asked").again_at = again_at;
    }

    pub(super) fn try_again(&mut self) {
        let now = self.now;
        let replicas = u16::try_from(self.running.len() + self.disks.len()).expect("a few");
        let waiting = self
            .clients
            .asked
            .iter_mut()
            .filter(|(_, a)| a.outcome.is_none() && !a.is_lost && a.again_at <= now);
        let mut again = Vec::new();
        for (&(client, id), asked) in waiting {
            asked.to = asked.to % replicas + 1;
            asked.again_at = now.plus(ms(60));
            again.push((client, asked.to, Message::Request { id, transaction: asked.transaction.clone() }));
        }
        for (client, to, request) in again {
            self.send(NodeId::Client(client), NodeId::Replica(ReplicaId(to)), request);
        }
    }

    pub(super) fn hear_answer(&mut self, client: u64, message: Message) {
        match message {
            Message::Opened { token, session, .. } => {
                self.clients.sessions.entry((client, token)).or_insert(session);
            }
            Message::Reply { id, outcome } => self.hear_outcome(client, id, outcome),
            Message::Refused { id, why } => {
                self.hear_refusal(client, id, &why);
                self.clients.refusals.push((client, id, why));
            }
            message => self.clients.told.push((client, message)),
        }
    }

    fn hear_outcome(&mut self, client: u64, id: RequestId, outcome: Outcome) {
        let asked = self.clients.asked.get_mut(&(client, id)).expect("only what was asked is answered");
        self.judge.answered = self.judge.answered.max(outcome.lsn);
        let nameless =
            |outcome: &Outcome| Outcome { copies: 0, durability: Default::default(), ..outcome.clone() };
        match &asked.outcome {
            Some(before) if id.session != SessionId(0) && nameless(before) != nameless(&outcome) => {
                self.judge.violation(format!("{id:?} was answered {before:?}, then {outcome:?}"));
            }
            Some(_) => {}
            None => {
                asked.outcome = Some(outcome);
                asked.is_lost = false;
            }
        }
    }

    fn hear_refusal(&mut self, client: u64, id: RequestId, why: &Refusal) {
        let now = self.now;
        let Some(asked) = self.clients.asked.get_mut(&(client, id)) else { return };
        match why {
            Refusal::NoSession | Refusal::Forgotten | Refusal::Malformed(_) | Refusal::Denied(_) => {
                asked.is_lost = true
            }
            Refusal::Elsewhere(Some(other)) if asked.again_at != Nanos::MAX && asked.to != other.0 => {
                // The next one to be tried is that one.
                asked.to = other.0.saturating_sub(1);
                asked.again_at = now.plus(Nanos::from_micros(50));
            }
            Refusal::Elsewhere(_) | Refusal::Busy => {}
        }
    }

    /// A session of a client, through this head.
    pub(super) fn open(&mut self, client: u64, head: u16) -> SessionId {
        let token = client + 1000 * self.clients.sessions.len() as u64;
        self.send(NodeId::Client(client), NodeId::Replica(ReplicaId(head)), Message::Open { token });
        let is_open = self.run_until(|w| w.clients.sessions.contains_key(&(client, token)));
        assert!(is_open, "a session is opened");
        self.clients.sessions[&(client, token)]
    }

    /// What it was answered.
    pub(super) fn outcome(&self, client: u64, id: RequestId) -> Option<&Outcome> {
        self.clients.asked.get(&(client, id))?.outcome.as_ref()
    }

    /// Asks once, and waits until it is answered.
    pub(super) fn done(&mut self, client: u64, to: u16, id: RequestId, transaction: &Transaction) -> Outcome {
        self.ask(client, to, id, transaction);
        let is_answered = self.run_until(|w| w.outcome(client, id).is_some());
        assert!(is_answered, "{id:?} is answered; {:?}", self.clients.refusals);
        self.outcome(client, id).expect("as above").clone()
    }
}
