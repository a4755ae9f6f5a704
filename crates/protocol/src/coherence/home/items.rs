//! What a home keeps its items in, and what it does to them.
//!
//! ```text
//!  packet ──▶ Home ──▶ perform ──▶ ┌───────┐
//!                                  │ Items │  one store, one counter of versions
//!  ticket ──▶ Home::admit ··▶ run ─▶ └───────┘  run: the server of the other protocol does what its client asked for
//! ```
//!
//! [`Tree`] is the store of tests and simulations, with the server of another protocol in it: whoever asks leaves the request there
//! ([`Home::ask`](super::Home::ask)) and takes the reply.

use super::super::compute::{self, Effect, Item, Operation};
use super::super::lease::{granter_end, runs};
use super::sessions::Answer;
use super::{Access, Ticket};
use crate::wire::{Message, Opcode, Status, Ttl, Verb, Version};
use base::Nanos;
use std::collections::{BTreeMap, VecDeque};

/// A store of items. It may forget any of them at any time: a home that finds a key gone while boxes have copies
/// of it takes the copies away before it says so.
///
/// It may have clients of its own, of another protocol, whose requests the home admits by tickets ([`Home::admit`](super::Home::admit)).
pub trait Items {
    /// The item of `key`, if it lives at `now`.
    fn read(&mut self, key: &[u8], now: Nanos) -> Option<Item>;

    /// Whether `key` is there and lives at `now`.
    fn has(&mut self, key: &[u8], now: Nanos) -> bool {
        self.read(key, now).is_some()
    }

    /// Keeps an item under `key`. False where there is no room; then what was there before is there still.
    fn store(&mut self, key: &[u8], item: Item) -> bool;

    /// Removes `key`.
    fn remove(&mut self, key: &[u8]);

    /// Removes everything.
    fn clear(&mut self);

    /// Whether keys may be given to boxes, which then answer writes of them that this store does not see until they are back. Not where it
    /// survives the home's end.
    fn may_be_given(&self) -> bool {
        true
    }

    /// Versions that are given from now on are above `last`. Called before any is given.
    fn begin_versions(&mut self, last: Version);

    /// Gives `count` versions, each one higher than the one before, all higher than all given before: the first of them. With 0 none is
    /// given, and the answer is the next.
    fn take_versions(&mut self, count: u64) -> Version;

    /// What it counts, each with its name, for operators.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Whether an answer has to be waited for. Then what is asked by packet goes to [`Items::begin`], what was admitted by ticket is handed on by
    /// whoever gave it, and the home is told what became of all: see [`super::slow`]. `read`, `store`, `remove`, `clear` are not called.
    fn takes_time(&self) -> bool {
        false
    }

    /// Takes a request that is to be done, behind others of its key. False: there is no room, and it will not be done.
    fn begin(&mut self, request: &Message, now: Nanos) -> bool {
        unreachable!("a store that answers at once was asked to begin {request:?} at {now}");
    }

    /// Does what was admitted with [`Admitted::Later`](super::Admitted::Later): now is its turn.
    fn run(&mut self, ticket: Ticket, now: Nanos) {
        unreachable!("a store without clients of its own gave {ticket:?}, to be run at {now}");
    }

    /// The same, but it is not to be done after all: there was no room for what it must wait for a second time.
    fn refuse(&mut self, ticket: Ticket) {
        unreachable!("a store without clients of its own gave {ticket:?}");
    }
}

/// Here a write takes effect, with a version from `version` if it makes one.
pub fn perform<I: Items>(
    items: &mut I,
    now: Nanos,
    (verb, request): (Verb, &Message),
    version: impl FnOnce(&mut I) -> Version,
) -> Answer {
    let (header, key) = (&request.header, request.key.as_slice());
    let item = items.read(key, now);
    let outcome = compute::apply(&Operation::of(verb, request), item.as_ref());
    let mut answer = Answer { status: outcome.status, version: Version(0), number: outcome.number };
    let end = granter_end(now, header.ttl.nanos());
    match (outcome.effect, item) {
        (Effect::Store { value, flags, kind, lives_on }, old) => {
            let lives_on = lives_on || header.ttl == Ttl::KEPT;
            let end = old.filter(|_| lives_on).map_or(end, |old| old.end);
            let version = version(items);
            if keep(items, now, key, Item { value, flags, kind, version, end }) {
                answer.version = version;
            } else {
                answer = Answer { status: Status::NoRoom, version: Version(0), number: 0 };
            }
        }
        (Effect::Touch, Some(old)) => {
            answer.version = old.version;
            let end = if header.ttl == Ttl::KEPT { old.end } else { end };
            if !keep(items, now, key, Item { end, ..old }) {
                answer.status = Status::NoRoom;
            }
        }
        (Effect::Remove, _) => items.remove(key),
        (Effect::Nothing | Effect::Touch, old) => answer.version = old.map_or(Version(0), |old| old.version),
    }
    answer
}

/// Stores an item; one whose life is over already takes away what was there, for stores may count lives in seconds.
fn keep<I: Items>(items: &mut I, now: Nanos, key: &[u8], item: Item) -> bool {
    if runs(item.end, now) {
        return items.store(key, item);
    }
    items.remove(key);
    true
}

/// Items in an ordered tree: at most so many, and none is evicted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    items: BTreeMap<Vec<u8>, Item>,
    capacity: usize,
    /// The last version that was given.
    version: u64,
    tickets: u64,
    /// Requests of clients of its own, that have not been done.
    asked: BTreeMap<Ticket, Message>,
    replies: VecDeque<Replied>,
    /// For tests: it takes time.
    #[cfg(test)]
    pub(super) late: Option<super::late::Late>,
}

/// What a request by ticket was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replied {
    /// Which.
    pub ticket: Ticket,
    /// As a reply of this protocol.
    pub reply: Message,
    /// Whether it made the version that it shows.
    pub made: bool,
}

impl Tree {
    /// For at most `capacity` items.
    pub fn new(capacity: usize) -> Tree {
        Tree {
            items: BTreeMap::new(),
            capacity,
            version: 0,
            tickets: 0,
            asked: BTreeMap::new(),
            replies: VecDeque::new(),
            #[cfg(test)]
            late: None,
        }
    }

    /// The item of `key`, alive or not.
    pub fn peek(&self, key: &[u8]) -> Option<&Item> {
        self.items.get(key)
    }

    /// Makes room by dropping what is dead at `now`.
    pub fn expire(&mut self, now: Nanos) {
        self.items.retain(|_, item| runs(item.end, now));
    }

    /// Somebody asks for this; [`Items::run`] does it, [`Items::refuse`] answers BUSY.
    pub(super) fn leave(&mut self, request: Message) -> Ticket {
        self.tickets += 1;
        self.asked.insert(Ticket(self.tickets), request);
        Ticket(self.tickets)
    }

    /// What was answered, in the order in which it was done.
    pub fn poll_reply(&mut self) -> Option<Replied> {
        self.replies.pop_front()
    }

    /// Answers what was asked with this ticket.
    pub(super) fn reply(&mut self, ticket: Ticket, how: impl FnOnce(&mut Tree, &Message) -> Message) {
        let request = self.asked.remove(&ticket).expect("a ticket is answered once");
        let before = self.version;
        let reply = how(self, &request);
        self.replies.push_back(Replied { ticket, reply, made: self.version > before });
    }

    /// Does what a client of its own asks for.
    pub(super) fn serve(&mut self, now: Nanos, request: &Message) -> Message {
        let Opcode::Request(verb) = request.header.opcode else {
            unreachable!("who asks by ticket asks with a request")
        };
        let mut reply = request.reply(Status::Ok);
        match verb {
            Verb::Get => match self.read(&request.key, now) {
                Some(item) => (reply.header.version, reply.value) = (item.version, item.value),
                None => reply.header.status = Status::Miss,
            },
            Verb::Flush => self.clear(),
            verb => {
                let answer = perform(self, now, (verb, request), |tree| tree.take_versions(1));
                let header = &mut reply.header;
                (header.status, header.version, header.operand) =
                    (answer.status, answer.version, answer.number);
            }
        }
        reply
    }
}

/// What a request of another protocol needs of the home, where it is written as one of this.
pub(super) fn access_of(request: &Message) -> Access<'_> {
    match request.header.opcode {
        Opcode::Request(Verb::Flush) => Access::Flush,
        Opcode::Request(Verb::Get) => Access::Read(&request.key),
        _ => Access::Write(&request.key),
    }
}

impl Items for Tree {
    fn read(&mut self, key: &[u8], now: Nanos) -> Option<Item> {
        let item = self.items.get(key)?;
        if runs(item.end, now) {
            return Some(item.clone());
        }
        self.items.remove(key);
        None
    }

    fn store(&mut self, key: &[u8], item: Item) -> bool {
        if self.items.len() >= self.capacity && !self.items.contains_key(key) {
            return false;
        }
        self.items.insert(key.to_vec(), item);
        true
    }

    fn remove(&mut self, key: &[u8]) {
        self.items.remove(key);
    }

    fn clear(&mut self) {
        self.items.clear();
    }

    fn begin_versions(&mut self, last: Version) {
        self.version = last.0;
    }

    fn take_versions(&mut self, count: u64) -> Version {
        let first = self.version + 1;
        self.version += count;
        Version(first)
    }

    #[cfg(test)]
    fn may_be_given(&self) -> bool {
        self.late.is_none()
    }

    #[cfg(test)]
    fn takes_time(&self) -> bool {
        self.late.is_some()
    }

    #[cfg(test)]
    fn begin(&mut self, request: &Message, _now: Nanos) -> bool {
        self.line_up(request.clone(), None);
        true
    }

    fn run(&mut self, ticket: Ticket, now: Nanos) {
        #[cfg(test)]
        if ticket >= super::late::OF_TRANSACTIONS {
            return self.tell(ticket, true);
        }
        #[cfg(test)]
        if self.late.is_some() {
            let request = self.asked[&ticket].clone();
            return self.line_up(request, Some(ticket));
        }
        self.reply(ticket, |tree, request| tree.serve(now, request));
    }

    fn refuse(&mut self, ticket: Ticket) {
        #[cfg(test)]
        if ticket >= super::late::OF_TRANSACTIONS {
            return self.tell(ticket, false);
        }
        self.reply(ticket, |_, request| request.reply(Status::Busy));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Kind;

    #[test]
    fn dead_items_are_gone_and_full_is_full() {
        let item =
            |end| Item { value: vec![], flags: 0, kind: Kind::Bytes, version: Version(1), end: Nanos(end) };
        let mut tree = Tree::new(2);
        assert!(tree.store(b"a", item(5)) && tree.store(b"b", item(9)) && tree.store(b"a", item(6)));
        assert!(!tree.store(b"c", item(9)));
        assert!(tree.read(b"a", Nanos(5)).is_some() && tree.read(b"a", Nanos(6)).is_none());
        assert!(tree.store(b"c", item(9)));
        tree.expire(Nanos(9));
        assert!(tree.peek(b"b").is_none() && tree.peek(b"c").is_none());
    }
}
