//! A client: operations under way, each of which ends exactly once.
//!
//! ```text
//!  GET                 Reading ──reply──▶ Done
//!  may change nothing  Reading (a try) ──changes nothing──▶ Done
//!                                      └─would change──▶ as a write      (what an owner may do: as a write)
//!  write               Waiting ──session, window──▶ Writing ──reply──▶ Done
//!  all                 ──patience over──▶ Failed: NotDone, or Unknown where a write was sent
//! ```
//!
//! Reads go to the client's box first, and when sent again straight to the home, not to be kept: so a box that is dead or lost
//! the way costs one timeout. After two such timeouts in a row the box is passed by for a while; a box that seldom answers is asked by
//! samples only (`worth`). Writes go to the home; with [`Compute::Own`] those that an owner may do go to the box when they are sent first,
//! and only then: what the box hears of them later is the network's doing.
//!
//! A write keeps its session and number however often it is sent. A *try* is a read: it is never done, only answered; so it may be
//! lost, doubled and answered by anybody, and the write that may follow it is another operation to the network.
//!
//! Invariants: 1. an operation ends once, by its deadline; 2. a write is done at most once, for it is sent in one session, under one
//! number; 3. between the oldest write under way and the newest are fewer than `window` numbers.
//!
//! A box that is being drained is gone round without a timeout: homes say so in what they answer to requests that it passed on, and from then on to those that
//! name it, until one says nothing of it any more.
//!
//! Bounds: `operations` of [`Config`]; outcomes wait to be polled, so they count too.
//!
//! Homes may move ([`super::moved`]), and nobody tells clients: one that a home does not answer asks boxes where homes are, its own first and the others in
//! turn, and sends what waits for a home that has moved there.
//!
//! Files: this one declares, begins and sends; `replies` hears; `session` is what a client knows of a home, `worth` what it thinks of its
//! box; `whereabouts` is where homes are.

mod replies;
mod session;
mod whereabouts;
mod worth;

pub use worth::Stats;

use super::compute::may_change_nothing;
use super::ownership::is_ownable;
use super::table::Layout;
use super::{Compute, Config, NodeId, Out};
use crate::wire::{
    BoxId, ClientId, Flags, HomeId, Kind, MAX_DATAGRAM, MAX_KEY, MAX_VALUE, Message, OpNumber, RequestId,
    Status, Ttl, Verb, Version,
};
use base::{Nanos, Prng};
use session::Sessions;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use whereabouts::Whereabouts;
use worth::Worth;

/// What a client wants done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// What.
    pub verb: Verb,
    /// To which key; empty for FLUSH.
    pub key: Vec<u8>,
    /// To be stored or appended.
    pub value: Vec<u8>,
    /// Argument of arithmetic; limit of an append.
    pub operand: u64,
    /// For CAS, DELETE and TOUCH.
    pub version: Version,
    /// Stored with the value.
    pub flags: u32,
    /// What the value is.
    pub kind: Kind,
    /// How long what is stored lives; [`Nanos::MAX`]: for ever; that of [`Ttl::KEPT`]: as long as what was there.
    pub life: Nanos,
    /// Past all boxes.
    pub no_cache: bool,
    /// Whose keys a FLUSH forgets.
    pub home: HomeId,
}

impl Call {
    /// With nothing said but this.
    pub fn new(verb: Verb, key: &[u8]) -> Call {
        Call {
            verb,
            key: key.into(),
            value: Vec::new(),
            operand: 0,
            version: Version(0),
            flags: 0,
            kind: Kind::Bytes,
            life: Nanos::MAX,
            no_cache: false,
            home: HomeId(0),
        }
    }

    /// Of what is at `home`, forget everything.
    pub fn flush(home: HomeId) -> Call {
        Call { home, ..Call::new(Verb::Flush, &[]) }
    }

    /// With this value.
    #[must_use]
    pub fn value(mut self, value: &[u8]) -> Call {
        self.value = value.into();
        self
    }

    /// With this argument.
    #[must_use]
    pub fn operand(mut self, operand: u64) -> Call {
        self.operand = operand;
        self
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// How it went.
    pub status: Status,
    /// The value that was read.
    pub value: Vec<u8>,
    /// Stored with it.
    pub flags: u32,
    /// What it is.
    pub kind: Kind,
    /// What is left of its life; [`Nanos::MAX`]: for ever.
    pub life: Nanos,
    /// Of what was read or stored.
    pub version: Version,
    /// The result of arithmetic.
    pub number: u64,
    /// A box answered.
    pub from_box: bool,
}

impl Answer {
    /// With nothing said but this.
    pub fn of(status: Status) -> Answer {
        Answer {
            status,
            value: Vec::new(),
            flags: 0,
            kind: Kind::Bytes,
            life: Nanos::MAX,
            version: Version(0),
            number: 0,
            from_box: false,
        }
    }
}

/// Why nothing came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failed {
    /// It was not done, and will not be.
    NotDone,
    /// Whether it was done, or will be, is not known.
    Unknown,
}

/// Names an operation of a client, in the order of their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// Why an operation cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// So many are under way, or not polled, as may be.
    Full,
    /// Key or value do not fit, or the verb is none of a client's.
    Bad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Reading,
    /// For a session, or for the window.
    Waiting,
    Writing {
        session: crate::wire::Round,
        number: OpNumber,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Op {
    call: Call,
    home: HomeId,
    phase: Phase,
    deadline: Nanos,
    send_at: Nanos,
    timeout: Nanos,
    attempt: u16,
    /// It was sent to the box first.
    by_box: bool,
    /// It was sent round the box, which was asked about: whether it is being drained.
    around: bool,
    /// Bytes that the reply needs, where one was too long for a request that is not sealed.
    room: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    Op(u64),
    Session(HomeId),
}

/// The number of a read says its operation; writes are numbered per session, from 1.
pub(super) const READ: u64 = 1 << 63;
/// Timeouts of a box in a row after which it is passed by.
const SILENT: u32 = 2;

/// The machine.
#[derive(Clone, Debug)]
pub struct Client {
    config: Config,
    id: ClientId,
    tor: BoxId,
    layout: Arc<Layout>,
    ops: BTreeMap<u64, Op>,
    timers: BTreeSet<(Nanos, Timer)>,
    sessions: Sessions,
    next: u64,
    outcomes: VecDeque<(OpId, Result<Answer, Failed>)>,
    silent: u32,
    bypass_until: Nanos,
    /// A home said that the box is being drained, and none said that it is not any more.
    around: bool,
    whereabouts: Whereabouts,
    worth: Worth,
    prng: Prng,
}

impl Client {
    /// Behind the box `tor`. `id` is drawn at random and never used again; `prng` spreads retransmissions.
    pub fn new(config: &Config, id: ClientId, tor: BoxId, layout: Arc<Layout>, prng: Prng) -> Client {
        Client {
            id,
            tor,
            whereabouts: Whereabouts::new(config, tor, &layout),
            layout,
            ops: BTreeMap::new(),
            timers: BTreeSet::new(),
            sessions: Sessions::default(),
            next: 1,
            outcomes: VecDeque::new(),
            silent: 0,
            bypass_until: Nanos::ZERO,
            around: false,
            worth: Worth::new(config.worth),
            prng,
            config: config.clone(),
        }
    }

    /// Begins an operation.
    ///
    /// # Errors
    /// Where it cannot begin: nothing was sent.
    pub fn start(&mut self, now: Nanos, call: Call, out: &mut Out) -> Result<OpId, Refused> {
        let is_flush = call.verb == Verb::Flush;
        let key_fits = if is_flush { call.key.is_empty() } else { (1..=MAX_KEY).contains(&call.key.len()) };
        if !key_fits || call.value.len() > MAX_VALUE || matches!(call.verb, Verb::Noop | Verb::Session) {
            return Err(Refused::Bad);
        }
        if self.ops.len() + self.outcomes.len() >= self.config.operations {
            return Err(Refused::Full);
        }
        let home = if is_flush { call.home } else { self.layout.home_of(crate::wire::key_hash(&call.key)) };
        let tries = match self.config.compute {
            Compute::AtHome => false,
            Compute::TryFirst => may_change_nothing(call.verb),
            // One way there and back, whoever owns the key, is better than two where nobody has it.
            Compute::Own => may_change_nothing(call.verb) && !is_ownable(call.verb),
        };
        let reads = call.verb == Verb::Get || (tries && !call.no_cache);
        let id = self.next;
        self.next += 1;
        let deadline = now.plus(self.config.patience);
        let op = Op {
            call,
            home,
            phase: if reads { Phase::Reading } else { Phase::Waiting },
            deadline,
            send_at: Nanos::MAX,
            timeout: self.config.retransmit,
            attempt: 0,
            by_box: false,
            around: false,
            room: 0,
        };
        self.timers.insert((deadline, Timer::Op(id)));
        self.ops.insert(id, op);
        if reads {
            self.send(now, id, out);
        } else {
            self.begin_write(now, id, out);
        }
        Ok(OpId(id))
    }

    /// An operation that ended, and how.
    pub fn poll_outcome(&mut self) -> Option<(OpId, Result<Answer, Failed>)> {
        self.outcomes.pop_front()
    }

    /// Serves what is due at `now`.
    pub fn tick(&mut self, now: Nanos, out: &mut Out) {
        while let Some(&(when, timer)) = self.timers.first()
            && when <= now
        {
            match timer {
                Timer::Session(home) => {
                    self.timers.pop_first();
                    if self.ask_session(now, home, out) {
                        self.ask_whereabouts(now, out);
                    }
                }
                Timer::Op(id) if self.ops[&id].deadline <= now => self.give_up(now, id, out),
                Timer::Op(id) => {
                    let op = &self.ops[&id];
                    if op.attempt == 0 && op.by_box {
                        self.silent += 1;
                        if self.silent >= SILENT {
                            self.bypass_until = now.plus(self.config.bypass);
                            self.silent = 0;
                        }
                    } else if op.attempt > 0 {
                        self.ask_whereabouts(now, out);
                    }
                    let op = self.ops.get_mut(&id).expect("a timer's operation is under way");
                    op.attempt = op.attempt.saturating_add(1);
                    op.timeout = Nanos(op.timeout.0.saturating_mul(2)).min(self.config.retransmit_max);
                    self.send(now, id, out);
                }
            }
        }
    }

    /// When [`Client::tick`] wants to be called.
    pub fn next_deadline(&self) -> Nanos {
        self.timers.first().map_or(Nanos::MAX, |(when, _)| *when)
    }

    /// Its name.
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// What it counted.
    pub fn stats(&self) -> Stats {
        self.worth.stats()
    }

    /// Whether it goes round its box, because that is being drained.
    pub fn goes_round(&self) -> bool {
        self.around
    }

    /// Operations under way.
    pub fn under_way(&self) -> usize {
        self.ops.len()
    }

    fn give_up(&mut self, now: Nanos, id: u64, out: &mut Out) {
        let sent = matches!(self.ops[&id].phase, Phase::Writing { .. });
        self.end(now, id, Err(if sent { Failed::Unknown } else { Failed::NotDone }), out);
    }

    fn end(&mut self, now: Nanos, id: u64, outcome: Result<Answer, Failed>, out: &mut Out) {
        let Some(op) = self.ops.remove(&id) else { return };
        self.timers.remove(&(op.send_at.min(op.deadline), Timer::Op(id)));
        self.outcomes.push_back((OpId(id), outcome));
        if op.phase != Phase::Reading {
            self.sessions.of(op.home).ended(id, op.phase);
            self.begin_waiting(now, op.home, out);
        }
    }

    /// Sends what the operation's phase asks for, and sets the time after which it is sent again.
    fn send(&mut self, now: Nanos, id: u64, out: &mut Out) {
        let wait = self.ops[&id].timeout;
        let wait = wait.plus(Nanos(self.prng.below(wait.0 / 4 + 1)));
        let bypass = now < self.bypass_until || self.around;
        let op = self.ops.get_mut(&id).expect("what is sent is under way");
        self.timers.remove(&(op.send_at.min(op.deadline), Timer::Op(id)));
        op.send_at = now.plus(wait);
        self.timers.insert((op.send_at.min(op.deadline), Timer::Op(id)));
        let call = &op.call;
        let mut message = Message::request(call.verb, &call.key);
        let header = &mut message.header;
        header.client = self.id;
        header.home = op.home;
        header.attempt = op.attempt;
        header.operand = call.operand;
        header.version = call.version;
        header.item_flags = call.flags;
        header.kind = call.kind;
        header.ttl = Ttl::new(call.life);
        let mut to = NodeId::Home(op.home);
        match op.phase {
            Phase::Reading => {
                header.operation = OpNumber(id | READ);
                if call.verb != Verb::Get {
                    header.flags = header.flags.with(Flags::TRY);
                }
                op.by_box |= op.attempt == 0 && !bypass && !call.no_cache && self.worth.asks(&mut self.prng);
                if op.by_box && op.attempt == 0 {
                    to = NodeId::Box(self.tor);
                } else {
                    header.flags = header.flags.with(Flags::NO_CACHE);
                }
            }
            Phase::Writing { session, number } => {
                header.round = session;
                header.operation = number;
                let owns = self.config.compute == Compute::Own && is_ownable(call.verb);
                op.by_box = owns && op.attempt == 0 && !bypass && !call.no_cache;
                if op.by_box {
                    header.flags = header.flags.with(Flags::OWNABLE);
                    to = NodeId::Box(self.tor);
                }
            }
            Phase::Waiting => return,
        }
        op.around = self.around;
        if op.around {
            // The home says with its reply how it is with this box.
            header.at = self.tor;
            header.flags = header.flags.with(Flags::NO_CACHE);
        }
        header.request = RequestId(header.operation.0 as u16);
        message.value.clone_from(&call.value);
        message.padding = op.room.min(MAX_DATAGRAM).saturating_sub(message.length());
        out.push((to, message));
    }
}
