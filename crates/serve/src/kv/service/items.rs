//! What a home does to the store of a node, as the coherence machine sees it: [`Items`] over [`store::Store`].
//!
//! **Time.** The store counts seconds of the wall clock, the home nanoseconds of the process's. What the home sets lives to the end of its
//! second; what the store has ends, for the home, when that second begins to be over: so a copy ends before its original. The clock that the store is
//! told is up to 50 ms behind, which only makes originals live longer. Where the wall clock jumps ahead, originals go before their copies, as if they had been
//! evicted: the home says so only when no box has a copy.
//!
//! **Kinds.** Numbers are what is one; stale and claimed items are those that `mg` and `md` say are.
//!
//! **Numbers.** Memcached pads a number that becomes shorter with blanks. The home does not see them: its clients can count on. No number is longer than
//! [`DIGITS`]: what is has its blanks from somebody else.

use super::commands::Commands;
use super::parked::{LateReply, Next};
use super::{VALUE_BOUND, refuse};
use base::Nanos;
use protocol::coherence::compute::{self, Item};
use protocol::coherence::home::Ticket;
use protocol::coherence::home::items::Items;
use protocol::memcache::emit::{self, SMALL_BOUND};
use protocol::memcache::{Command, Line};
use protocol::wire::{Kind, Version};
use store::durable::What;
use store::{DeleteHow, GetHow, Key, SetHow};

/// The ticket of a flush that was put off by its command.
pub const FLUSH: Ticket = Ticket(0);

const SECOND: u64 = 1_000_000_000;
/// Bytes of the longest number.
const DIGITS: usize = 20;

impl Commands {
    fn key_of<'k>(&self, key: &'k [u8]) -> Option<Key<'k>> {
        self.store.key(key)
    }

    /// What the home sees of a key: its version and value.
    pub(super) fn peek(&self, key: &[u8]) -> Option<(Version, &[u8])> {
        let item = self.store.peek(self.now, self.key_of(key)?)?;
        Some((Version(item.version), unpadded(item.value)))
    }

    /// The second at whose beginning what ends at `end` is gone; 0 is never.
    fn expiry_of(&self, end: Nanos) -> u32 {
        if end == Nanos::MAX {
            return 0;
        }
        let seconds = end.0.saturating_add(self.clock_began).div_ceil(SECOND);
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }

    /// When an item with this expiry ends.
    fn end_of(&self, expiry: u32) -> Nanos {
        match expiry {
            0 => Nanos::MAX,
            _ => Nanos((u64::from(expiry) * SECOND).saturating_sub(self.clock_began)),
        }
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
        let mut reply = emit::Reply::new(&mut room);
        refuse(command, why, &mut reply);
        let len = reply.len();
        LateReply::of(room[..len].to_vec())
    }
}

/// A number without the blanks that memcached pads it with.
fn unpadded(value: &[u8]) -> &[u8] {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = value.split_at(digits);
    let is_padded = digits > 0
        && value.len() <= DIGITS
        && rest.iter().all(|byte| *byte == b' ')
        && compute::number(number).is_some();
    if is_padded { number } else { value }
}

fn kind_of(value: &[u8], stale: bool, claimed: bool) -> Kind {
    match (stale, claimed) {
        (true, true) => Kind::StaleClaimed,
        (true, false) => Kind::Stale,
        (false, true) => Kind::Claimed,
        (false, false) => {
            let is_plain = value == b"0" || value.first() != Some(&b'0');
            if is_plain && compute::number(value).is_some() { Kind::Number } else { Kind::Bytes }
        }
    }
}

impl Items for Commands {
    fn read(&mut self, key: &[u8], _now: Nanos) -> Option<Item> {
        let now = self.now;
        let key = self.key_of(key)?;
        let (stale, claimed) = self.store.peek(now, key).map(|item| (item.stale, item.win_sent))?;
        let hit = self.store.get(now, key, &GetHow::PLAIN)?;
        let value = unpadded(hit.value()).to_vec();
        let (flags, version, expiry) = (hit.flags(), Version(hit.version()), hit.expiry());
        let kind = kind_of(&value, stale, claimed);
        Some(Item { value, flags, kind, version, end: self.end_of(expiry) })
    }

    fn has(&mut self, key: &[u8], _now: Nanos) -> bool {
        self.key_of(key).is_some_and(|key| self.store.peek(self.now, key).is_some())
    }

    fn store(&mut self, key: &[u8], item: Item) -> bool {
        let Some(key) = self.key_of(key) else { return false };
        let how = SetHow {
            flags: item.flags,
            expiry: self.expiry_of(item.end),
            version: Some(item.version.0),
            ..SetHow::default()
        };
        let (before, has_room) = self.before(key, item.value.len());
        if !has_room || self.store.set(self.now, key, &item.value, &how).is_err() {
            return false;
        }
        match item.kind {
            Kind::Stale => drop(self.store.mark(self.now, key, true, false)),
            Kind::Claimed => drop(self.store.mark(self.now, key, false, true)),
            Kind::StaleClaimed => drop(self.store.mark(self.now, key, true, true)),
            _ => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_seen_without_blanks() {
        for (value, seen) in [("9 ", "9"), ("9", "9"), ("9 a", "9 a"), (" ", " "), ("", ""), ("a ", "a ")] {
            assert_eq!(unpadded(value.as_bytes()), seen.as_bytes(), "{value:?}");
        }
        let long = [b"9".to_vec(), vec![b' '; DIGITS]].concat();
        assert_eq!(unpadded(&long), long);
        assert_eq!(unpadded(&long[..DIGITS]), b"9");
        assert_eq!(kind_of(b"10", false, false), Kind::Number);
        assert_eq!(kind_of(b"010", false, false), Kind::Bytes);
        assert_eq!(kind_of(b"0", false, false), Kind::Number);
        assert_eq!(kind_of(b"10", true, false), Kind::Stale);
    }
}
