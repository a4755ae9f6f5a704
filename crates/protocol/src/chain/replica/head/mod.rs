//! What a head does: takes requests, locks their keys, runs them one by one, and answers when they are committed.
//!
//! ```text
//!  request ──admit──▶ waiting ──all its keys──▶ ready ──room in the window──▶ run ──▶ under way ──committed, applied──▶ answered
//!                        │                                                    └──▶ answered by what is remembered
//!                        └──no longer head──▶ refused: elsewhere
//! ```
//!
//! Invariants: 1. whoever is under way has all its keys: no two of them touch the same, and what is not committed is not read; 2. a session is
//! forgotten only while nothing of it waits or is under way, since its places are locked for that; 3. an entry that was placed in the image is
//! logged before any other: a full log leaves it in `stuck`, and the head busy; 4. while a claim is under way nothing runs ([`claim`]).
//!
//! Files: this one admits and locks, `run` runs and answers.
//!
//! Bounds: `queue` wait, of `queue_bytes`, `window` and `window_bytes` are under way; BUSY beyond.

mod run;

use super::Replica;
use super::sessions::{Sessions, keys_of, reply_key};
use crate::chain::claim;
use crate::chain::image::{Image, Key};
use crate::chain::locks::Locks;
use crate::chain::message::{Refusal, RequestId};
use crate::chain::transaction::Outcome;
use crate::chain::{Config, Entry, Log, Lsn, Message, NodeId, Out, Planted, SessionId, Transaction};
use crate::planted::Bugs;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Sessions that are looked at, from the one that was used least recently on, for one of which nothing is under way.
const CANDIDATES: usize = 16;

/// A head's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Head<B> {
    locks: Locks<B>,
    next_ticket: u64,
    waiting: BTreeMap<u64, (NodeId, Work)>,
    /// Of those that wait.
    waiting_bytes: usize,
    /// Those that have all their keys, in the order in which they got them.
    ready: VecDeque<u64>,
    under_way: BTreeMap<Lsn, UnderWay>,
    /// Of the entries under way.
    bytes: usize,
    /// Requests that wait or are under way: copies of them are dropped.
    known: BTreeSet<(NodeId, RequestId)>,
    /// Made, and not yet in the log, which is full.
    stuck: Option<Entry>,
    sessions: Sessions,
    /// Sessions that are about to be opened.
    opening: usize,
    /// The number of the claim that the image has; 0: none.
    claim: u64,
    /// The last entry under way that makes, replaces or gives up a claim.
    claiming: Option<Lsn>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    Request(RequestId, Transaction),
    Ask(RequestId),
    /// Forgets a session for the new one.
    Open(u64, Option<SessionId>),
    Close(SessionId),
}

/// An entry that is logged and not committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct UnderWay {
    ticket: u64,
    bytes: usize,
    answer: Answer,
}

/// What follows when it is committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Reply(NodeId, RequestId, Outcome),
    Opened(NodeId, u64, SessionId),
    /// Nothing.
    Closed,
    /// An earlier head knows who asked. These keys were written.
    Inherited(Vec<Key>),
}

impl Work {
    /// How it is told from others of the same client; nothing for what may be asked any number of times.
    fn name(&self) -> Option<RequestId> {
        match self {
            Work::Request(id, _) => Some(*id),
            Work::Open(token, _) => Some(open_id(*token)),
            Work::Ask(_) | Work::Close(_) => None,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Work::Request(_, transaction) => transaction.bytes(),
            Work::Ask(_) | Work::Open(..) | Work::Close(_) => 0,
        }
    }

    fn id(&self) -> RequestId {
        match self {
            Work::Request(id, _) | Work::Ask(id) => *id,
            Work::Open(token, _) => open_id(*token),
            Work::Close(session) => RequestId { session: *session, sequence: 0 },
        }
    }

    fn keys(&self, window: u64) -> Vec<Key> {
        match self {
            Work::Request(id, transaction) => {
                let mut keys: Vec<Key> = transaction.keys().into_iter().map(super::evaluate::user).collect();
                keys.push(reply_key(*id, window));
                keys
            }
            Work::Ask(id) => vec![reply_key(*id, window)],
            Work::Open(_, victim) => victim.map_or(Vec::new(), |victim| keys_of(victim, window)),
            Work::Close(session) => keys_of(*session, window),
        }
    }
}

/// What the answers to an `Open` call it.
fn open_id(token: u64) -> RequestId {
    RequestId { session: SessionId(0), sequence: token }
}

impl<B: Bugs<Planted>> Head<B> {
    fn new(bugs: &B, sessions: Sessions) -> Head<B> {
        Head {
            locks: Locks::new(bugs.clone()),
            next_ticket: 1,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            ready: VecDeque::new(),
            under_way: BTreeMap::new(),
            bytes: 0,
            known: BTreeSet::new(),
            stuck: None,
            sessions,
            opening: 0,
            claim: 0,
            claiming: None,
        }
    }

    /// Those that wait, and those that are under way.
    pub(super) fn load(&self) -> (usize, usize) {
        (self.waiting.len(), self.under_way.len())
    }

    /// The locks, to be looked at.
    pub(super) fn locks(&self) -> &Locks<B> {
        &self.locks
    }

    /// Takes its place in all queues.
    fn enqueue(&mut self, from: NodeId, work: Work, window: u64) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.known.extend(work.name().map(|id| (from, id)));
        if self.locks.enqueue(ticket, &work.keys(window)) {
            self.ready.push_back(ticket);
        }
        self.waiting_bytes += work.bytes();
        self.waiting.insert(ticket, (from, work));
    }

    fn release(&mut self, ticket: u64) {
        let runnable = self.locks.release(ticket);
        self.ready.extend(runnable);
    }

    fn has_room(&self, config: &Config) -> bool {
        self.claiming.is_none()
            && self.stuck.is_none()
            && self.under_way.len() < config.window
            && self.bytes < config.window_bytes
    }

    /// Of the sessions that were used least recently, one that nothing is under way for.
    fn victim(&self, window: u64) -> Option<SessionId> {
        let is_idle =
            |session: &SessionId| keys_of(*session, window).iter().all(|key| self.locks.depth(key) == 0);
        self.sessions.by_use().take(CANDIDATES).find(is_idle)
    }
}

impl<I: Image, L: Log, B: Bugs<Planted>> Replica<I, L, B> {
    /// Becomes head as soon as every entry that is not applied can be read: its keys are locked, its places in the image taken.
    pub(super) fn lead(&mut self) {
        let (applied, last) = (self.image.applied(), self.log.last().0);
        let mut head = Head::new(&self.bugs, Sessions::of(&self.image));
        head.claim = claim::number_of(&self.image);
        for lsn in (applied.0 + 1..=last.0).map(Lsn) {
            let Some(entry) = self.recent.entry(&self.log, lsn) else {
                self.missing.insert(lsn);
                return;
            };
            if lsn > self.placed {
                self.image.reserve(&entry.tuples);
                self.placed = lsn;
            }
            let keys = self.image.keys(&entry.tuples);
            if keys.iter().any(claim::is_its_key) && !self.bugs.has(Planted::ForgetClaim) {
                head.claiming = Some(lsn);
            }
            let locked = if self.bugs.has(Planted::ForgetLocks) { &[][..] } else { &keys[..] };
            head.locks.enqueue(head.next_ticket, locked);
            head.sessions.touch(entry.session, lsn);
            head.bytes += entry.bytes();
            let under_way =
                UnderWay { ticket: head.next_ticket, bytes: entry.bytes(), answer: Answer::Inherited(keys) };
            head.under_way.insert(lsn, under_way);
            head.next_ticket += 1;
        }
        self.head = Some(head);
    }

    /// Is head no more. Who waits is told where to ask.
    pub(super) fn step_down(&mut self, out: &mut Out) {
        let Some(head) = self.head.take() else { return };
        if let Some(entry) = head.stuck {
            self.image.release(&entry.tuples);
            self.placed = self.log.last().0;
        }
        let answers = head.under_way.into_values().map(|under_way| under_way.answer);
        let begun = answers.filter_map(|answer| match answer {
            Answer::Reply(to, id, _) => Some((to, id)),
            Answer::Opened(to, token, _) => Some((to, open_id(token))),
            Answer::Closed | Answer::Inherited(_) => None,
        });
        let waiting = head.waiting.into_values().map(|(from, work)| (from, work.id()));
        for (to, id) in begun.chain(waiting) {
            self.refuse_elsewhere(to, id, self.head_elsewhere(), out);
        }
    }

    pub(super) fn hear_request(
        &mut self,
        from: NodeId,
        id: RequestId,
        transaction: Transaction,
        out: &mut Out,
    ) {
        if id.session == SessionId(0) {
            return self.refuse(from, id, Refusal::NoSession, out);
        }
        self.admit(from, Work::Request(id, transaction), out);
    }

    pub(super) fn hear_ask(&mut self, from: NodeId, id: RequestId, out: &mut Out) {
        self.admit(from, Work::Ask(id), out);
    }

    pub(super) fn hear_close(&mut self, from: NodeId, session: SessionId, out: &mut Out) {
        self.admit(from, Work::Close(session), out);
    }

    pub(super) fn hear_open(&mut self, from: NodeId, token: u64, out: &mut Out) {
        let mut victim = None;
        if let Some(head) = &self.head
            && head.sessions.len() + head.opening >= self.config.sessions
            && !head.known.contains(&(from, open_id(token)))
        {
            victim = head.victim(self.config.session_window);
            if victim.is_none() {
                return self.refuse(from, open_id(token), Refusal::Busy, out);
            }
        }
        self.admit(from, Work::Open(token, victim), out);
    }

    /// Takes what is asked into the queues, or refuses it.
    fn admit(&mut self, from: NodeId, work: Work, out: &mut Out) {
        let Some(head) = &mut self.head else {
            return self.refuse_elsewhere(from, work.id(), self.head_elsewhere(), out);
        };
        if work.name().is_some_and(|id| head.known.contains(&(from, id))) {
            self.stats.repeated += 1;
            return;
        }
        let is_full =
            head.waiting.len() >= self.config.queue || head.waiting_bytes >= self.config.queue_bytes;
        if is_full || head.stuck.is_some() {
            return self.refuse(from, work.id(), Refusal::Busy, out);
        }
        if let Work::Open(_, victim) = &work {
            head.opening += 1;
            if let Some(victim) = victim {
                head.sessions.remove(*victim);
            }
        }
        head.enqueue(from, work, self.config.session_window);
        self.run_ready(out);
    }

    pub(super) fn refuse(&mut self, to: NodeId, id: RequestId, why: Refusal, out: &mut Out) {
        self.stats.busy += u64::from(why == Refusal::Busy);
        self.stats.elsewhere += u64::from(matches!(why, Refusal::Elsewhere(_)));
        out.push((to, Message::Refused { id, why }));
    }
}
