//! Memcached's commands, and the packets of in-network clients, on items that lie in a chain of replicas: each becomes a read of its item and, if it changes
//! that, a transaction on the condition that the item is still the same. No clock, no thread, no socket: transactions go out by number, and what became of
//! them comes in.
//!
//! ```text
//!  command ─▶ its key's line ─▶ read ─▶ executed on a scratch store that has this item alone
//!                ▲                         │ changes nothing ─▶ reply
//!                │                         └ changes it ─▶ transaction, if the item is as it was read
//!                └── it was not ◀────────────────┤
//!                                                └ done, as version v ─▶ executed again, to be told v ─▶ reply
//! ```
//! What commands mean is said once, in `Commands`, and what packets mean in `coherence::home::items`; here is only what they did to the item. A command that
//! stores whatever was there is not read for: its transaction has no condition, but where boxes are before the items ([`Chained::before_boxes`]). How items
//! lie in a chain: [`protocol::chain::attributes`].
//!
//! Invariants
//! 1. A reply says what a transaction saw or did that was begun after the command came: reads answer those that waited when they were begun, and no later one.
//! 2. Of a key one transaction is under way, and its commands are executed in the order in which they came. Those of different keys, of one connection too, are
//!    under way together.
//! 3. A transaction whose outcome is not known is not done again: its client is told that it may have been done.
//! 4. Nobody is told that an item has expired before it is removed from the chain: one who read it before might still change it then, and one who is late might
//!    take for gone what others have stored anew since.
//! 5. A flush is begun when nothing is under way, and nothing is begun before it is done.
//! 6. Before boxes: what is not known to be done changes nothing any more after a later write of its item is known to be done, or a later flush; so the home
//!    may give copies again. Whoever finds an item absent has no copy of it, so one that stores where nothing was may be late.
//!
//! Where items lie in several chains, [`spread`] says which transaction goes where.
//!
//! What was flushed is removed by a transaction that nobody waits for.
//!
//! Bounds: commands and packets that wait by `chained.queue`, and the bytes of commands by `net.buffer_limit`; beyond, busy. Conflicts in a row by `ATTEMPTS`.
//!
//! Tests: `tests.rs` holds it against a store; `millrace/tests/over_chain` has the judge of histories look at it, and at [`Planted`].

mod ask;
mod asked;
mod execute;
mod flush;
pub mod item;
pub mod map;
pub mod spread;
#[cfg(test)]
mod tests;

use super::commands::Commands;
use crate::kv::StartError;
use crate::kv::config::Config;
use crate::kv::registers::Id;
use crate::memcached::counters::NetCounters;
use asked::Asked;
use base::Nanos;
use base::budget::Budget;
use execute::stores_whatever_is_there;
use flush::Flush;
use item::{Effect, Seen};
use protocol::chain::transaction::{Abort, MAX_VALUE};
use protocol::chain::{Outcome, Transaction};
use protocol::coherence::home::slow::Ended;
use protocol::memcache::Line;
use protocol::planted::{Bugs, NoBugs};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

pub use asked::{Said, Told};
pub use execute::is_there;

/// A command is tried so often while others change its item each time.
const ATTEMPTS: u32 = 64;

/// Memory of the scratch store: some items of the longest value.
const SCRATCH: u64 = 16 << 20;

/// Mistakes that can be made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Attributes count whatever value they are of.
    TrustAttributes,
    /// What is not known to be done is done again.
    RetryUnknown,
    /// Transactions have no conditions.
    ForgetConditions,
    /// A read answers commands that came after it was begun.
    AnswerLater,
    /// It is said that an item has expired before it is removed.
    AnswerExpired,
    /// Before boxes, too, what stores whatever is there has no condition.
    StoresUnseen,
    /// Before boxes, too, flushes have none.
    FlushesUnseen,
    /// What changed nothing is said to be a write that was done.
    SameIsDone,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This.
    Done(Outcome),
    /// It was not done, and will not be.
    NotDone,
    /// It may have been done.
    Unknown,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChainedCounters {
    /// Transactions that read.
    pub reads: u64,
    /// Transactions that write.
    pub writes: u64,
    /// Of these, not done since the item had changed.
    pub conflicts: u64,
    /// Commands that were given up after too many of them.
    pub contended: u64,
    /// Commands that were not done since the chain did not answer.
    pub unanswered: u64,
    /// Commands of which nobody knows whether they were done.
    pub unknown: u64,
    /// Expired items that were removed.
    pub removed: u64,
}

/// A command or packet that waits, and whose it is.
struct Wanted<T> {
    asked: Asked,
    whose: T,
}

/// What waits for a key.
struct Queue<T> {
    waiting: VecDeque<Wanted<T>>,
    phase: Phase<T>,
    /// Conflicts of the first since it came to its turn.
    attempts: u32,
}

enum Phase<T> {
    /// Nothing is under way.
    Idle,
    /// The item is read, for so many.
    Reading(usize),
    /// An expired item is removed.
    Removing,
    /// What a command did.
    Writing(Box<Written<T>>),
}

/// A command, the item that it was executed on, none for whatever is there, and the second at which it was.
type Written<T> = (Wanted<T>, Option<Seen>, u32);

/// What a transaction is for.
enum Purpose<T> {
    Key(Box<[u8]>),
    /// When there was a flush last.
    BeforeFlush(Flush<T>),
    Flush(Flush<T>),
    Removal,
}

/// What waits for a flush.
enum Held<T> {
    Item(Box<[u8]>, Wanted<T>),
    Flush(Flush<T>),
}

/// See the head of the file. `T` says whose a command is.
pub struct Chained<T, B = NoBugs> {
    pub(super) commands: Commands,
    keys: HashMap<Box<[u8]>, Queue<T>>,
    /// Transactions under way.
    purposes: HashMap<u64, Purpose<T>>,
    last: u64,
    /// Commands that have no reply yet.
    waiting: usize,
    /// From a flush that waits, or is under way, on.
    held: VecDeque<Held<T>>,
    is_flushing: bool,
    leaving: Vec<(u64, Transaction)>,
    said: Vec<Told<T>>,
    has_boxes: bool,
    counters: ChainedCounters,
    bugs: B,
}

impl<T, B: Bugs<Planted>> Chained<T, B> {
    /// With a scratch store as `config` says, of commands that have these bugs: for tests and simulations.
    ///
    /// # Errors
    /// The store cannot be had.
    pub fn with_bugs(config: &Config, bugs: B) -> Result<Chained<T, B>, StartError> {
        let buffered = Budget::new(config.registers.size(Id::NetBufferLimit));
        Chained::new(config, Arc::default(), Arc::new(buffered), bugs)
    }

    /// With a scratch store as `config` says; the longest value is a chain's at most.
    ///
    /// # Errors
    /// The store cannot be had.
    pub(in crate::kv) fn new(
        config: &Config,
        net: Arc<NetCounters>,
        buffered: Arc<Budget>,
        bugs: B,
    ) -> Result<Chained<T, B>, StartError> {
        Chained::<T, B>::limit(config);
        Ok(Chained::over(Commands::new(config, (store::warm::Whose::Node, false), net, buffered)?, bugs))
    }

    /// Makes these the settings of a scratch store.
    pub(super) fn limit(config: &Config) {
        let registers = &config.registers;
        let longest = registers.read(Id::StoreMaxValue).min(MAX_VALUE as u64);
        // An item is refused rather than evicted, and the memory is that of one item, whatever the chain has.
        for (id, number) in [(Id::StoreMode, 1), (Id::StoreMemory, SCRATCH), (Id::StoreMaxValue, longest)] {
            registers.write(id, number).expect("it is within the register's range");
        }
    }

    /// On the scratch store of these commands.
    pub(super) fn over(commands: Commands, bugs: B) -> Chained<T, B> {
        Chained {
            commands,
            keys: HashMap::new(),
            purposes: HashMap::new(),
            last: 0,
            waiting: 0,
            held: VecDeque::new(),
            is_flushing: false,
            leaving: Vec::new(),
            said: Vec::new(),
            has_boxes: false,
            counters: ChainedCounters::default(),
            bugs,
        }
    }

    /// Boxes have copies of items: see invariant 6.
    #[must_use]
    pub fn before_boxes(self) -> Chained<T, B> {
        Chained { has_boxes: true, ..self }
    }

    /// What was counted.
    pub fn counters(&self) -> ChainedCounters {
        self.counters
    }

    /// Commands that have no reply yet.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The second that it is, for expiry; of the clock by which packets come, nothing has passed.
    pub fn set_now(&mut self, now: u32) {
        self.set_clock(Nanos::ZERO, now);
    }

    /// The second that it is at that time of the clock by which packets come.
    pub fn set_clock(&mut self, now: Nanos, second: u32) {
        self.commands.set_clock(now, second);
    }

    /// The hash of a key, as [`Chained::ask`] wants it.
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.commands.store.hasher().hash(key)
    }

    /// Transactions to be done, each with its number.
    pub fn leaving(&mut self) -> Vec<(u64, Transaction)> {
        std::mem::take(&mut self.leaving)
    }

    /// What is said since the last time.
    pub fn said(&mut self) -> Vec<Told<T>> {
        std::mem::take(&mut self.said)
    }

    /// Of that the replies to commands, as bytes.
    pub fn said_bytes(&mut self) -> Vec<(T, Vec<u8>)> {
        let bytes = |Told { whose, said, .. }| match said {
            Said::Reply(reply) => (whose, reply.into_bytes()),
            _ => unreachable!("only commands were asked"),
        };
        self.said().into_iter().map(bytes).collect()
    }

    fn line_up(&mut self, key: Box<[u8]>, wanted: Wanted<T>) {
        let idle = || Queue { waiting: VecDeque::new(), phase: Phase::Idle, attempts: 0 };
        let queue = self.keys.entry(key.clone()).or_insert_with(idle);
        queue.waiting.push_back(wanted);
        if matches!(queue.phase, Phase::Idle) {
            self.go_on(&key);
        }
    }

    fn say(&mut self, told: Told<T>) {
        self.waiting -= 1;
        self.said.push(told);
    }

    fn begin(&mut self, purpose: Purpose<T>, transaction: Transaction) {
        let count =
            if transaction.only_reads() { &mut self.counters.reads } else { &mut self.counters.writes };
        *count += 1;
        self.last += 1;
        self.purposes.insert(self.last, purpose);
        self.leaving.push((self.last, transaction));
    }

    /// Whether transactions have conditions that only boxes need.
    fn is_before_boxes(&self) -> bool {
        self.has_boxes && !self.bugs.has(Planted::FlushesUnseen)
    }

    /// What was held may go on, up to a flush for which something is under way.
    fn release(&mut self) {
        while !self.is_flushing {
            match self.held.pop_front() {
                None => return,
                Some(Held::Item(key, wanted)) => self.line_up(key, wanted),
                Some(flush @ Held::Flush(..)) if !self.keys.is_empty() => {
                    return self.held.push_front(flush);
                }
                Some(Held::Flush(flush)) => self.begin_flush(flush),
            }
        }
    }

    // ---- keys

    /// The next command of a key, of which nothing is under way.
    fn go_on(&mut self, key: &[u8]) {
        let Some(queue) = self.keys.get_mut(key) else { return };
        let Some(first) = queue.waiting.pop_front() else {
            self.keys.remove(key);
            return;
        };
        let needs_to_see = self.has_boxes && !self.bugs.has(Planted::StoresUnseen);
        if !needs_to_see && first.asked.command().as_ref().is_some_and(stores_whatever_is_there) {
            let now = self.commands.now;
            // What ends at once leaves nothing to store: it is read what that ends.
            if let (_, effect @ Effect::Put(_)) =
                self.commands.try_on(key, &first.asked, &Seen::default(), now, None)
            {
                return self.write(key, first, None, (effect, now));
            }
        }
        let queue = self.keys.get_mut(key).expect("it is there");
        queue.waiting.push_front(first);
        queue.phase = Phase::Reading(queue.waiting.len());
        self.begin(Purpose::Key(key.into()), item::read(key));
    }

    fn write(&mut self, key: &[u8], wanted: Wanted<T>, seen: Option<Seen>, (effect, now): (Effect, u32)) {
        let transaction = effect.transaction(key, seen.as_ref(), &self.bugs);
        self.keys.get_mut(key).expect("it is there").phase = Phase::Writing(Box::new((wanted, seen, now)));
        self.begin(Purpose::Key(key.into()), transaction);
    }

    /// What became of the transaction of this number. One that is not under way changes nothing.
    pub fn hear(&mut self, number: u64, answer: Answer) {
        match self.purposes.remove(&number) {
            None => return,
            Some(Purpose::Removal) => {}
            Some(Purpose::BeforeFlush(flush)) => self.hear_before_flush(flush, answer),
            Some(Purpose::Flush(flush)) => self.hear_flush(flush, &answer),
            Some(Purpose::Key(key)) => {
                let queue = self
                    .keys
                    .get_mut(&key)
                    .expect("a key has a queue while a transaction of it is under way");
                match std::mem::replace(&mut queue.phase, Phase::Idle) {
                    Phase::Reading(count) => self.hear_read(&key, count, answer),
                    // Whoever came first: it is read again.
                    Phase::Removing if matches!(answer, Answer::Done(_)) => self.go_on(&key),
                    Phase::Removing => self.give_up(&key),
                    Phase::Writing(written) => self.hear_written(&key, *written, answer),
                    Phase::Idle => unreachable!("something was under way"),
                }
            }
        }
        self.release();
    }

    fn hear_read(&mut self, key: &[u8], count: usize, answer: Answer) {
        let seen = match answer {
            Answer::Done(outcome) => Seen::of(outcome, &self.bugs),
            Answer::NotDone | Answer::Unknown => None,
        };
        let Some(seen) = seen else { return self.give_up(key) };
        let count = if self.bugs.has(Planted::AnswerLater) { usize::MAX } else { count };
        let now = self.commands.now;
        if seen.item.is_some() && !is_there(&seen, now) && !self.bugs.has(Planted::AnswerExpired) {
            self.counters.removed += 1;
            self.keys.get_mut(key).expect("it is there").phase = Phase::Removing;
            return self
                .begin(Purpose::Key(key.into()), Effect::Delete.transaction(key, Some(&seen), &self.bugs));
        }
        let mut is_gone = false;
        for _ in 0..count {
            let queue = self.keys.get_mut(key).expect("it is there");
            let Some(wanted) = queue.waiting.pop_front() else { break };
            let (said, effect) = self.commands.try_on(key, &wanted.asked, &seen, now, None);
            if effect != Effect::Nothing {
                return self.write(key, wanted, Some(seen), (effect, now));
            }
            is_gone = !is_there(&seen, now);
            self.keys.get_mut(key).expect("it is there").attempts = 0;
            let ended = if self.bugs.has(Planted::SameIsDone) { Ended::Done(()) } else { Ended::Same(()) };
            self.say(Told { whose: wanted.whose, ended, said });
        }
        if is_gone && seen.is_anything() {
            self.counters.removed += 1;
            self.begin(Purpose::Removal, Effect::Delete.transaction(key, Some(&seen), &self.bugs));
        }
        self.go_on(key);
    }

    fn hear_written(&mut self, key: &[u8], (wanted, seen, now): Written<T>, answer: Answer) {
        let before = seen.unwrap_or_default();
        let (line, ended) = match answer {
            Answer::Done(Outcome { abort: None, lsn, .. }) => {
                let (said, _) = self.commands.try_on(key, &wanted.asked, &before, now, Some(lsn.0));
                self.keys.get_mut(key).expect("it is there").attempts = 0;
                self.say(Told { whose: wanted.whose, ended: Ended::Done(()), said });
                return self.go_on(key);
            }
            Answer::Done(Outcome { abort: Some(Abort::Condition(_)), .. }) => {
                self.counters.conflicts += 1;
                let queue = self.keys.get_mut(key).expect("it is there");
                queue.attempts += 1;
                if queue.attempts < ATTEMPTS {
                    queue.waiting.push_front(wanted);
                    return self.go_on(key);
                }
                self.counters.contended += 1;
                (Line::Contended, Ended::NotDone)
            }
            Answer::Done(_) => (Line::OutOfMemory, Ended::NotDone),
            Answer::NotDone => {
                self.keys.get_mut(key).expect("it is there").waiting.push_front(wanted);
                return self.give_up(key);
            }
            Answer::Unknown if self.bugs.has(Planted::RetryUnknown) => {
                self.keys.get_mut(key).expect("it is there").waiting.push_front(wanted);
                return self.go_on(key);
            }
            Answer::Unknown => {
                self.counters.unknown += 1;
                (Line::UnknownOutcome, Ended::Unknown)
            }
        };
        self.keys.get_mut(key).expect("it is there").attempts = 0;
        self.refuse(wanted, line, ended);
        self.go_on(key);
    }

    /// The chain does not answer: nobody who waits for this key waits longer.
    fn give_up(&mut self, key: &[u8]) {
        let Some(queue) = self.keys.remove(key) else { return };
        for wanted in queue.waiting {
            self.counters.unanswered += 1;
            self.refuse(wanted, Line::Unanswered, Ended::NotDone);
        }
    }
}
