//! What a home does to the store of a node, as the coherence machine sees it: [`Items`] over [`store::Store`], by [`crate::inc::items`], with what the log
//! keeps of it and who waits.

use super::commands::Commands;
use super::parked::{LateReply, Next};
use super::{VALUE_BOUND, refuse};
use crate::inc::items::{Seconds, put, read, unpad, unpadded};
use base::Nanos;
use protocol::coherence::compute::Item;
use protocol::coherence::home::Ticket;
use protocol::coherence::home::items::Items;
use protocol::memcache::emit::{self, SMALL_BOUND};
use protocol::memcache::{Command, Line};
use protocol::wire::Version;
use store::durable::What;
use store::{DeleteHow, Key};

/// The ticket of a flush that was put off by its command.
pub const FLUSH: Ticket = Ticket(0);

impl Commands {
    fn key_of<'k>(&self, key: &'k [u8]) -> Option<Key<'k>> {
        self.store.key(key)
    }

    /// What the home sees of a key: its version and value.
    pub(super) fn peek(&self, key: &[u8]) -> Option<(Version, &[u8])> {
        let item = self.store.peek(self.now, self.key_of(key)?)?;
        Some((Version(item.version), unpadded(item.value)))
    }

    fn seconds(&self) -> Seconds {
        Seconds { now: self.now, clock_began: self.clock_began }
    }

    /// Does `command` outside a port, and says what it is answered. Nothing of it is logged.
    pub(super) fn say_unlogged(&mut self, command: &Command<'_>, hash: u64) -> LateReply {
        let (mut producer, consumer) = self.parked.take_arena();
        let reply = self.execute(command, hash, &mut producer).expect("the arena has room for any reply");
        let value = reply.beside.and_then(|beside| beside.value);
        self.parked.made((producer, consumer), reply.span, value)
    }

    /// What is said to `command`, which is not done.
    pub(super) fn say_refused(&mut self, command: &Command<'_>, why: &[u8]) -> LateReply {
        let mut room = [0; SMALL_BOUND];
        let mut reply = emit::Reply::to(&mut room, command.asked());
        refuse(command, why, &mut reply);
        let len = reply.len();
        LateReply::of(room[..len].to_vec())
    }
}

impl Items for Commands {
    fn read(&mut self, key: &[u8], _now: Nanos) -> Option<Item> {
        let (key, at) = (self.key_of(key)?, self.seconds());
        read(&mut self.store, at, key).map(unpad)
    }

    fn has(&mut self, key: &[u8], _now: Nanos) -> bool {
        self.key_of(key).is_some_and(|key| self.store.peek(self.now, key).is_some())
    }

    fn store(&mut self, key: &[u8], item: Item) -> bool {
        let Some(key) = self.key_of(key) else { return false };
        let (before, has_room) = self.before(key, item.value.len());
        let at = self.seconds();
        if !has_room || !put(&mut self.store, at, key, &item) {
            return false;
        }
        self.after(key, before, What::AllUnseen);
        true
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(key) = self.key_of(key) {
            // The log keeps room for what cannot be refused.
            let (before, _) = self.before(key, 0);
            // A plain delete finds room for itself.
            let _ = self.store.delete(self.now, key, &DeleteHow::default());
            self.after(key, before, What::All);
        }
    }

    fn clear(&mut self) {
        self.flush_now();
    }

    /// What an owner does is in no log: its writes would be acknowledged, and gone with this home's life.
    fn may_be_given(&self) -> bool {
        self.durable.is_none() || self.gives_what_is_logged
    }

    fn begin_versions(&mut self, last: Version) {
        if self.goes_by_memory {
            return;
        }
        self.store.begin_versions(last.0);
    }

    fn take_versions(&mut self, count: u64) -> Version {
        Version(self.store.take_versions(count))
    }

    fn run(&mut self, ticket: Ticket, _now: Nanos) {
        if ticket == FLUSH {
            return self.clear();
        }
        let (origin, head) = self.parked.begin(ticket);
        let reply = match head {
            Next::Command(owned) => {
                let (command, hash) = owned.command();
                self.say(&command, hash)
            }
            Next::Said(bytes) => LateReply::of(bytes),
        };
        self.parked.end(origin, reply);
    }

    fn refuse(&mut self, ticket: Ticket) {
        if ticket == FLUSH {
            // It is tried again.
            self.put_off.waits = false;
            return;
        }
        let (origin, head) = self.parked.begin(ticket);
        let reply = match head {
            Next::Command(owned) => self.say_refused(&owned.command().0, Line::Busy.bytes()),
            Next::Said(bytes) => LateReply::of(bytes),
        };
        self.parked.end(origin, reply);
    }
}

const _: () = assert!(VALUE_BOUND < 64 << 10, "a reply fits the arena of late replies");
