//! A client of a chain: operations under way, each of which ends exactly once.
//!
//! ```text
//!  only reads   Sent ──reply──▶ done                                  to the tail, or whom the option says
//!  writes       Waiting ──session, window──▶ Sent ──reply──▶ done     to the head
//!  all          ──refused for good──▶ Refused     ──patience over──▶ NotDone, or Unknown where a write was sent
//! ```
//!
//! A write keeps its session and number however often it is sent, and whomever it is sent to: so it is done once. Who is head a client learns by
//! asking: a replica that is not says who is, if it knows; who stays silent twice is followed by the next.
//!
//! **By the home.** Where a home of boxes has [claimed](super::claim) the chain, a write that did not come by it is not done, and the chain remembers that.
//! A client that follows homes ([`Client::follows_homes`]) asks for it again under a new number, at the home. Where the home is gone it asks the chain, under
//! the same number: then either is the answer, and if the claim is gone the chain does it. After `CLAIMED` such refusals that is the outcome.
//! A home that itself is told so has been replaced.
//!
//! A session that the chain has forgotten is opened anew. What was sent in the old one ends as Unknown: what became of it cannot be told.
//!
//! Invariants: 1. an operation ends once, by its deadline; 2. a write is sent in one session, under one number; 3. between the oldest number of a
//! session that is under way and the newest are fewer than its window, so no reply is forgotten that is still waited for.
//!
//! Bounds: [`Config::window`] operations, ended ones that nobody took included; as many ended as Unknown are remembered for [`Client::id_of`].
//!
//! Files: this one declares, begins and sends; `replies` hears; `homes` goes by those that have claimed the chain; `session` has the numbers, `route`
//! whom to ask.

mod homes;
mod replies;
mod route;
mod session;
#[cfg(test)]
mod tests;

pub use route::Reads;

use super::claim::CLAIM;
use super::message::{Refusal, RequestId};
use super::wire::MAX_NUMBER;
use super::{Config, Message, NodeId, Out, Outcome, ReplicaId, SessionId, Transaction};
use base::Nanos;
use base::prng::mix64;
use homes::Homes;
use route::Route;
use session::Session;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Why an operation has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// It was sent. It may have been done, or may yet be; once, or not at all. Of a question: no answer, or that nothing is known yet.
    Unknown,
    /// It was not done, and will not be: it was never sent, or it only reads.
    NotDone,
    /// It was not done, and will not be, because of this.
    Refused(Refusal),
}

/// As much is under way, or ended and not taken, as may be. Of a question: or the request is still under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// What a client counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stats {
    /// Messages sent.
    pub sent: u64,
    /// Of these, because nobody had answered.
    pub again: u64,
    /// Of these, because another replica was named.
    pub followed: u64,
    /// Refused because too much was under way there.
    pub busy: u64,
    /// Sessions opened.
    pub sessions: u64,
    /// Messages dropped: late, doubled, or nothing for a client.
    pub dropped: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum What {
    Open,
    Do(Transaction),
    /// In a session that somebody else has.
    Relay(Transaction),
    Ask,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Op {
    what: What,
    /// None as long as it waits for its number.
    id: Option<RequestId>,
    to: ReplicaId,
    deadline: Nanos,
    send_at: Nanos,
    timeout: Nanos,
    /// Sent so often under its number.
    attempts: u32,
    /// Timeouts in a row of whom it was sent to.
    silent: u32,
    /// Times that it followed a hint, since it was sent by the clock.
    hops: u32,
    /// It is the home that is asked.
    by_home: bool,
    /// Times that the chain did not do it since a home has claimed it.
    claimed: u32,
}

impl Op {
    fn only_reads(&self) -> bool {
        matches!(&self.what, What::Do(transaction) if transaction.only_reads())
    }

    /// Whether a home that has claimed the chain could do it instead: it writes, and is about no claim.
    fn may_go_by_home(&self) -> bool {
        let What::Do(transaction) = &self.what else { return false };
        let is_of_claim = transaction.writes.iter().any(|(key, _)| key == CLAIM);
        !transaction.only_reads() && transaction.claim == 0 && !is_of_claim
    }
}

/// The ticket of the request for a session.
const OPENING: u64 = 0;
/// Timeouts in a row after which another replica is asked.
const SILENT: u32 = 2;
/// Hints followed at once; two replicas that name each other are asked by the clock.
const HOPS: u32 = 4;

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    config: Config,
    seed: u64,
    route: Route,
    session: Option<Session>,
    ops: BTreeMap<u64, Op>,
    timers: BTreeSet<(Nanos, u64)>,
    /// Writes that have no number yet.
    waiting: BTreeSet<u64>,
    /// Those that were sent.
    sent: BTreeMap<RequestId, u64>,
    done: VecDeque<(u64, Result<Outcome, Failure>)>,
    unknown: VecDeque<(u64, RequestId)>,
    next_ticket: u64,
    next_token: u64,
    homes: Homes,
    stats: Stats,
}

impl Client {
    /// A client that may ask these replicas. `number` is no other client's, past ones included: its tokens follow from it. `seed` spreads what is
    /// sent again.
    ///
    /// # Panics
    /// Without a replica.
    pub fn new(config: &Config, number: u64, replicas: &[ReplicaId], seed: u64, _now: Nanos) -> Client {
        Client {
            config: config.clone(),
            seed,
            route: Route::new(replicas),
            session: None,
            ops: BTreeMap::new(),
            timers: BTreeSet::new(),
            waiting: BTreeSet::new(),
            sent: BTreeMap::new(),
            done: VecDeque::new(),
            unknown: VecDeque::new(),
            next_ticket: OPENING + 1,
            next_token: mix64(number) % (MAX_NUMBER / 2),
            homes: Homes::default(),
            stats: Stats::default(),
        }
    }

    /// The chain has these replicas by now, from head to tail: whom it asks when one does not answer.
    pub fn know(&mut self, replicas: &[ReplicaId]) {
        self.route.know(replicas);
    }

    /// With what only reads sent there.
    #[must_use]
    pub fn reads(mut self, reads: Reads) -> Client {
        self.route.reads = reads;
        self
    }

    /// What begins from now on ends within this.
    pub fn set_patience(&mut self, patience: Nanos) {
        self.config.patience = patience;
    }

    /// Begins a transaction, and says under which ticket it ends. One that is malformed ends at once, and is not sent.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn start(&mut self, now: Nanos, transaction: Transaction, out: &mut Out) -> Result<u64, TooMany> {
        let malformed = transaction.check().err();
        let only_reads = transaction.only_reads();
        let ticket = self.begin(now, What::Do(transaction))?;
        if let Some(why) = malformed {
            self.end(ticket, Err(Failure::Refused(Refusal::Malformed(why))));
        } else if only_reads {
            let id = RequestId { session: SessionId(0), sequence: self.token() };
            self.send_first(now, ticket, id, out);
        } else {
            self.waiting.insert(ticket);
            self.send_waiting(now, out);
        }
        Ok(ticket)
    }

    /// Sends what somebody else asked for, in his session and under his number, so that it is done once whichever way it goes. Refused as
    /// [`Refusal::NoSession`] or [`Refusal::Forgotten`] it will not be done any more, though it may have been.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn relay(
        &mut self,
        now: Nanos,
        id: RequestId,
        transaction: Transaction,
        out: &mut Out,
    ) -> Result<u64, TooMany> {
        if self.sent.contains_key(&id) {
            return Err(TooMany);
        }
        let malformed = transaction.check().err();
        let ticket = self.begin(now, What::Relay(transaction))?;
        match malformed {
            Some(why) => self.end(ticket, Err(Failure::Refused(Refusal::Malformed(why)))),
            None => self.send_first(now, ticket, id, out),
        }
        Ok(ticket)
    }

    /// Asks what became of a request: its outcome; or [`Failure::Unknown`] if nothing yet, or nobody answers; or refused if it cannot be told any more.
    /// Where nothing became of it yet, a copy of it that is still in the network may be done later.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn ask(&mut self, now: Nanos, id: RequestId, out: &mut Out) -> Result<u64, TooMany> {
        if self.sent.contains_key(&id) {
            return Err(TooMany);
        }
        let ticket = self.begin(now, What::Ask)?;
        self.send_first(now, ticket, id, out);
        Ok(ticket)
    }

    /// Which request an operation was that ended as Unknown; the latest ones are remembered.
    pub fn id_of(&self, ticket: u64) -> Option<RequestId> {
        self.unknown.iter().find(|(other, _)| *other == ticket).map(|(_, id)| *id)
    }

    /// An operation that ended, and how.
    pub fn next_done(&mut self) -> Option<(u64, Result<Outcome, Failure>)> {
        self.done.pop_front()
    }

    /// Closes the session if there is one, so that the chain need not remember it. For a client that ends; what is under way ends as Unknown.
    pub fn close(&mut self, now: Nanos, out: &mut Out) {
        let Some(session) = self.session.as_ref().map(Session::id) else { return };
        self.lose_session(session);
        self.send(NodeId::Replica(self.route.head), Message::Close { session }, out);
        self.send_waiting(now, out);
    }

    /// Serves what is due at `now`.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        while let Some(&(when, ticket)) = self.timers.first()
            && when <= now
        {
            let op = &self.ops[&ticket];
            if op.deadline <= now {
                self.give_up(ticket);
                self.send_waiting(now, out);
            } else if matches!(op.what, What::Open) && self.waiting.is_empty() {
                self.remove(ticket);
            } else {
                self.send_again(now, ticket, out);
            }
        }
    }

    /// When [`Client::tick`] wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        self.timers.first().map_or(Nanos::MAX, |(when, _)| *when)
    }

    /// Operations under way.
    pub fn under_way(&self) -> usize {
        self.ops.len() - usize::from(self.ops.contains_key(&OPENING))
    }

    /// The session, if one is open.
    pub fn session(&self) -> Option<SessionId> {
        self.session.as_ref().map(Session::id)
    }

    /// What it counted.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Counts tell states apart that are the same.
    pub fn forget_stats(&mut self) {
        self.stats = Stats::default();
    }

    fn begin(&mut self, now: Nanos, what: What) -> Result<u64, TooMany> {
        if self.under_way() + self.done.len() >= self.config.window {
            return Err(TooMany);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.insert(ticket, what, now.plus(self.config.patience));
        Ok(ticket)
    }

    fn insert(&mut self, ticket: u64, what: What, deadline: Nanos) {
        let mut op = Op {
            what,
            id: None,
            to: self.route.head,
            deadline,
            send_at: Nanos::MAX,
            timeout: self.config.retransmit,
            attempts: 0,
            silent: 0,
            hops: 0,
            by_home: false,
            claimed: 0,
        };
        if op.only_reads() {
            op.to = self.route.reader();
        }
        self.timers.insert((deadline, ticket));
        self.ops.insert(ticket, op);
    }

    /// Gives numbers to those that wait for one, as far as the window goes. Without a session, asks for one.
    fn send_waiting(&mut self, now: Nanos, out: &mut Out) {
        while let Some(&ticket) = self.waiting.first() {
            let Some(session) = &mut self.session else {
                if !self.ops.contains_key(&OPENING) {
                    self.insert(OPENING, What::Open, Nanos::MAX);
                    let id = RequestId { session: SessionId(0), sequence: self.token() };
                    self.send_first(now, OPENING, id, out);
                }
                return;
            };
            let Some(id) = session.next_id() else { return };
            self.waiting.remove(&ticket);
            self.send_first(now, ticket, id, out);
        }
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn send_first(&mut self, now: Nanos, ticket: u64, id: RequestId, out: &mut Out) {
        self.sent.insert(id, ticket);
        let head = self.route.head;
        let is_claimed = self.homes.are_followed && self.homes.is_claimed;
        let op = self.ops.get_mut(&ticket).expect("what is sent is under way");
        op.id = Some(id);
        op.by_home = is_claimed && op.may_go_by_home();
        if !op.only_reads() {
            op.to = head;
        }
        self.send_op(now, ticket, out);
    }

    /// Nobody answered in time: once more, and after some times to another replica.
    fn send_again(&mut self, now: Nanos, ticket: u64, out: &mut Out) {
        let op = self.ops.get_mut(&ticket).expect("a timer's operation is under way");
        op.silent += 1;
        op.hops = 0;
        op.timeout = Nanos(op.timeout.0.saturating_mul(2)).min(self.config.retransmit_max);
        if op.by_home {
            // A home that lives may wait for boxes; no answer means nothing.
            op.by_home = !self.homes.is_lost;
            op.silent = 0;
        } else if op.silent >= SILENT {
            op.silent = 0;
            op.to = self.route.instead_of(op.to, op.only_reads());
        }
        self.stats.again += 1;
        self.send_op(now, ticket, out);
    }

    /// Sends an operation to whom it goes, and sets the time after which it is sent again.
    fn send_op(&mut self, now: Nanos, ticket: u64, out: &mut Out) {
        let op = self.ops.get_mut(&ticket).expect("what is sent is under way");
        let Some(id) = op.id else { return };
        self.timers.remove(&(op.send_at.min(op.deadline), ticket));
        let spread = mix64(self.seed ^ ticket << 32 ^ u64::from(op.attempts)) % (op.timeout.0 / 4 + 1);
        op.attempts += 1;
        op.send_at = now.plus(op.timeout).plus(Nanos(spread));
        self.timers.insert((op.send_at.min(op.deadline), ticket));
        let message = match &op.what {
            What::Open => Message::Open { token: id.sequence },
            What::Do(transaction) | What::Relay(transaction) => {
                Message::Request { id, transaction: transaction.clone() }
            }
            What::Ask => Message::Ask { id },
        };
        let to = if op.by_home { NodeId::Home } else { NodeId::Replica(op.to) };
        self.send(to, message, out);
    }

    fn send(&mut self, to: NodeId, message: Message, out: &mut Out) {
        self.stats.sent += 1;
        out.push((to, message));
    }

    fn give_up(&mut self, ticket: u64) {
        let op = &self.ops[&ticket];
        let is_open_question = op.id.is_some() && !op.only_reads();
        self.end(ticket, Err(if is_open_question { Failure::Unknown } else { Failure::NotDone }));
    }

    /// An operation ends. Whoever waits for its number may go on: [`Client::send_waiting`].
    fn end(&mut self, ticket: u64, result: Result<Outcome, Failure>) {
        let Some(op) = self.remove(ticket) else { return };
        if let Some(id) = op.id.filter(|_| result == Err(Failure::Unknown)) {
            self.unknown.push_back((ticket, id));
            if self.unknown.len() > self.config.window {
                self.unknown.pop_front();
            }
        }
        self.done.push_back((ticket, result));
    }

    /// Takes it out of all tables.
    fn remove(&mut self, ticket: u64) -> Option<Op> {
        let op = self.ops.remove(&ticket)?;
        self.timers.remove(&(op.send_at.min(op.deadline), ticket));
        self.waiting.remove(&ticket);
        if let Some(id) = op.id {
            self.sent.remove(&id);
            if let Some(session) = &mut self.session {
                session.ended(id);
            }
        }
        Some(op)
    }

    /// The chain knows this session no more, or we want it no more: what was sent in it ends as Unknown.
    fn lose_session(&mut self, id: SessionId) {
        self.session.take_if(|session| session.id() == id);
        let lost: Vec<u64> =
            self.sent.iter().filter(|(sent, _)| sent.session == id).map(|(_, ticket)| *ticket).collect();
        for ticket in lost {
            if matches!(self.ops[&ticket].what, What::Do(_)) {
                self.end(ticket, Err(Failure::Unknown));
            }
        }
    }
}
