//! The items of a server that lie in a chain: what is asked of them goes to [`Chained`], and its transactions to whoever does them.
//!
//! ```text
//!  command ─▶ a place in its connection's line ┐                 ┌─▶ transactions ─▶ ChainClient (a thread) ─▶ replicas
//!  packet, of the home ────────────────────────┴─▶ Chained ──────┤                        │ Post::due: edge 0 has the service look
//!  reply ◀── its place; the home is told how it ended ◀── turn ◀─┴──────── outcomes ◀─────┘
//! ```
//! For the home of boxes ([`super::homed`]) they are a store that takes time ([`protocol::coherence::home::slow`], where it says what such a store promises).
//!
//! Transactions of clients go by the home, too, and have no place in the lines of [`Chained`]: [`super::by_home`].
//!
//! Cost: a command is copied once, and its key once more.

use super::access::access;
use super::by_home::{self, ByHome, Callers};
use super::chained::{Chained, Planted, Told};
use super::commands::Commands;
use super::homed::HomeStore;
use super::parked::{Next, Origin, Owned, Promise};
use super::stats::ChainReport;
use crate::kv::chain_client::Transactions;
use crate::kv::registers::Id;
use base::Nanos;
use protocol::chain::at_home::{self, Step};
use protocol::coherence::compute::Item;
use protocol::coherence::home::items::Items;
use protocol::coherence::home::{Access, Ticket};
use protocol::memcache::{KEY_MAX, Line};
use protocol::planted::{Bugs, NoBugs};
use protocol::wire::{Message, Version};
use std::sync::Arc;

/// Who asked for something.
pub enum Whose {
    /// A command, whose reply has this place, and what the home lets it change.
    Command(Promise, Changes),
    /// A packet.
    Packet(Arc<Message>),
}

/// What the home has admitted.
pub enum Changes {
    /// Nothing: it reads, or there is no home.
    Nothing,
    /// The item of this key.
    Key(Box<[u8]>),
    /// A flush.
    All,
}

impl Changes {
    /// As the home names it.
    pub fn access(&self) -> Option<Access<'_>> {
        match self {
            Changes::Nothing => None,
            Changes::Key(key) => Some(Access::Write(key)),
            Changes::All => Some(Access::Flush),
        }
    }
}

/// See the head of the file.
pub struct ChainItems<B = NoBugs> {
    pub(super) chained: Chained<Whose, B>,
    transactions: Box<dyn Transactions>,
    by_home: Option<ByHome<B>>,
}

impl<B: Bugs<Planted> + Bugs<at_home::Planted>> ChainItems<B> {
    /// Items of the chain whose transactions are done there.
    pub fn new(chained: Chained<Whose, B>, transactions: Box<dyn Transactions>) -> ChainItems<B> {
        ChainItems { chained, transactions, by_home: None }
    }

    /// The same, before boxes; clients' transactions go by their home.
    #[must_use]
    pub fn with_callers(self, callers: Box<dyn Callers>) -> ChainItems<B> {
        self.with_callers_and_bugs(callers, B::default())
    }

    /// The same, with mistakes made on purpose.
    #[must_use]
    pub fn with_callers_and_bugs(self, callers: Box<dyn Callers>, bugs: B) -> ChainItems<B> {
        let most = self.chained.commands.registers.size(Id::ChainedQueue);
        ChainItems { by_home: Some(ByHome::new(callers, most, bugs)), ..self }
    }

    /// What was counted, and commands that wait.
    pub fn report(&self) -> ChainReport {
        let by_home = self.by_home.as_ref().map(ByHome::report).unwrap_or_default();
        ChainReport { counters: self.chained.counters(), waiting: self.chained.waiting() as u64, by_home }
    }

    /// What became of transactions is heard, those that began leave: what is said since the last time.
    pub fn turn(&mut self) -> Vec<Told<Whose>> {
        for (number, answer) in self.transactions.take_done() {
            self.chained.hear(number, answer);
        }
        if let Some(by_home) = &mut self.by_home {
            by_home.turn(&mut *self.transactions);
        }
        self.transactions.send(self.chained.leaving());
        self.chained.said()
    }
}

impl<B: Bugs<Planted> + Bugs<at_home::Planted>> HomeStore for ChainItems<B> {
    #[inline]
    fn commands(&self) -> &Commands {
        &self.chained.commands
    }

    #[inline]
    fn commands_mut(&mut self) -> &mut Commands {
        &mut self.chained.commands
    }

    fn go_on(&mut self, origin: Origin, command: Owned) {
        let changes = match access(&command.command().0, &mut [0; KEY_MAX]) {
            None | Some(Access::Read(_)) => Changes::Nothing,
            Some(Access::Write(key)) => Changes::Key(key.into()),
            Some(Access::Flush) => Changes::All,
        };
        let promise = self.commands_mut().parked.promise(origin);
        self.chained.ask_owned(command, Whose::Command(promise, changes));
    }

    fn turn(&mut self) -> Option<Vec<Told<Whose>>> {
        Some(ChainItems::turn(self))
    }

    fn take_steps(&mut self) -> Vec<Step> {
        self.by_home.as_mut().map(ByHome::take_steps).unwrap_or_default()
    }

    fn chain(&self) -> Option<ChainReport> {
        Some(self.report())
    }
}

/// Nobody asks it for anything that cannot wait.
const WAITS: &str = "a home does not ask a store that takes time for an answer at once";

impl<B: Bugs<Planted> + Bugs<at_home::Planted>> Items for ChainItems<B> {
    fn takes_time(&self) -> bool {
        true
    }

    fn begin(&mut self, request: &Message, now: Nanos) -> bool {
        let request = Arc::new(request.clone());
        self.chained.ask_by_packet(&request, now, Whose::Packet(Arc::clone(&request)))
    }

    fn run(&mut self, ticket: Ticket, _now: Nanos) {
        if let Some(by_home) = self.by_home.as_mut().filter(|_| by_home::is_its(ticket)) {
            return by_home.admitted(ticket, true);
        }
        let (origin, head) = self.commands_mut().parked.begin(ticket);
        let Next::Command(command) = head else { unreachable!("only commands were given tickets") };
        self.commands_mut().parked.release(origin);
        self.go_on(origin, command);
    }

    fn refuse(&mut self, ticket: Ticket) {
        if let Some(by_home) = self.by_home.as_mut().filter(|_| by_home::is_its(ticket)) {
            return by_home.admitted(ticket, false);
        }
        let commands = self.commands_mut();
        let (origin, head) = commands.parked.begin(ticket);
        let Next::Command(command) = head else { unreachable!("only commands were given tickets") };
        let reply = commands.say_refused(&command.command().0, Line::Busy.bytes());
        commands.parked.end(origin, reply);
    }

    /// What an owner does would be in no replica.
    fn may_be_given(&self) -> bool {
        false
    }

    /// The chain gives them, whatever home there is.
    fn begin_versions(&mut self, _last: Version) {}

    fn take_versions(&mut self, _count: u64) -> Version {
        unreachable!("{WAITS}")
    }

    fn read(&mut self, _key: &[u8], _now: Nanos) -> Option<Item> {
        unreachable!("{WAITS}")
    }

    fn store(&mut self, _key: &[u8], _item: Item) -> bool {
        unreachable!("{WAITS}")
    }

    fn remove(&mut self, _key: &[u8]) {
        unreachable!("{WAITS}")
    }

    fn clear(&mut self) {
        unreachable!("{WAITS}")
    }
}
