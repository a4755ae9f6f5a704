//! A home whose store takes time: items lie in a chain of replicas, or wherever else an answer has to be waited for.
//!
//! ```text
//!  packet ─▶ no box has a copy ─▶ Items::begin ··▶ the store ··▶ read_done, write_done ─▶ reply
//!  ticket ─▶ no box has a copy ─▶ Now, or Items::run ··▶ the store ··▶ ticket_done
//! ```
//! What the store does between the two nobody here knows. So no copy of a key is granted while a write of it is *under way*, from when it was handed on to
//! when the home is told what became of it; of no key, while a flush is.
//!
//! A write of which nobody knows whether it was done may still be done, long after. Its key is *unsettled*: no copy of it is granted before a later write of
//! it is known to be done, or a flush.
//!
//! **Aside.** What is not in order with the other requests of its key, a transaction of several items, ends by [`Home::done_aside`]. A read that was handed on
//! before it ended may have found what was there before, and be heard after: it is answered, and no copy is given on it.
//!
//! What the store promises
//! 1. Requests of a key are done, and told, in the order in which they were handed on; flushes, in order with all; what is done aside, in any.
//! 2. One whose end is not known changes nothing any more once a later write of its key was done and changed something, or a later flush was done: a write has
//!    the condition that its item is what was read, and what was read before a flush is flushed.
//! 3. Nobody else writes. What is handed on after something was done aside, and told, sees what that did.
//!
//! Bounds: keys under way by what the store takes at once; of unsettled keys `MOST_UNSETTLED`: beyond, all are, until a flush is done.

use super::super::compute::Item;
use super::super::{Out, Planted, is_read, way_back};
use super::items::Items;
use super::sessions::Answer;
use super::{Access, Home};
use crate::planted::Bugs;
use crate::wire::{Message, Opcode, Verb};
use base::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// Keys of which it is remembered that they are unsettled.
const MOST_UNSETTLED: usize = 1 << 16;

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ended<T> {
    /// This.
    Done(T),
    /// This, and nothing was changed: no proof that what nobody knows of is not done later.
    Same(T),
    /// It was not done, and will not be.
    NotDone,
    /// It was done, or will be, or neither.
    Unknown,
}

impl<T> Ended<T> {
    /// The same, of something else that was done.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Ended<U> {
        match self {
            Ended::Done(done) => Ended::Done(of(done)),
            Ended::Same(done) => Ended::Same(of(done)),
            Ended::NotDone => Ended::NotDone,
            Ended::Unknown => Ended::Unknown,
        }
    }
}

/// Writes that were handed on to a store, and whose end is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct UnderWay {
    keys: BTreeMap<Vec<u8>, u32>,
    flushes: u32,
    unsettled: BTreeSet<Vec<u8>>,
    all_unsettled: bool,
    reads: BTreeMap<Vec<u8>, Reads>,
}

/// Reads of a key that were handed on and not told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Reads {
    count: u32,
    /// Of these so many, the first, may have found what was there before something was done aside.
    old: u32,
}

impl UnderWay {
    /// Whether what is read of this key may be another thing in a moment, with nobody asking the home.
    pub(super) fn bars(&self, key: &[u8]) -> bool {
        self.flushes > 0 || self.all_unsettled || self.keys.contains_key(key) || self.unsettled.contains(key)
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.flushes == 0 && self.keys.is_empty()
    }

    /// A write of this key, or a flush, is handed on.
    pub(super) fn begin(&mut self, key: Option<&[u8]>) {
        match key {
            Some(key) => *self.keys.entry(key.to_vec()).or_default() += 1,
            None => self.flushes += 1,
        }
    }

    fn read_begins(&mut self, key: &[u8]) {
        self.reads.entry(key.to_vec()).or_default().count += 1;
    }

    /// The first read of this key has ended; whether it may be older than what was done aside.
    fn read_ends(&mut self, key: &[u8]) -> bool {
        let Some(reads) = self.reads.get_mut(key) else { return false };
        let is_old = reads.old > 0;
        reads.count -= 1;
        reads.old = reads.old.saturating_sub(1);
        if reads.count == 0 {
            self.reads.remove(key);
        }
        is_old
    }

    /// Something may have changed this key, or all, out of order with reads that are under way.
    fn was_aside(&mut self, key: Option<&[u8]>) {
        let age = |reads: &mut Reads| reads.old = reads.count;
        match key {
            Some(key) => self.reads.get_mut(key).into_iter().for_each(age),
            None => self.reads.values_mut().for_each(age),
        }
    }

    /// One of this key has ended, or a flush has.
    fn end(&mut self, key: Option<&[u8]>, ended: &Ended<()>) {
        match key {
            None => self.flushes = self.flushes.checked_sub(1).expect("a flush is under way"),
            Some(key) => {
                let count = self.keys.get_mut(key).expect("a write of the key is under way");
                *count -= 1;
                if *count == 0 {
                    self.keys.remove(key);
                }
            }
        }
        match (ended, key) {
            (Ended::NotDone | Ended::Same(()), _) => {}
            (Ended::Done(()), Some(key)) => drop(self.unsettled.remove(key)),
            (Ended::Done(()), None) => {
                self.unsettled.clear();
                self.all_unsettled = false;
            }
            (Ended::Unknown, Some(key)) if self.unsettled.len() < MOST_UNSETTLED => {
                self.unsettled.insert(key.to_vec());
            }
            (Ended::Unknown, _) => self.all_unsettled = true,
        }
    }
}

/// Whether a request that was handed on is a read: what was found is told to [`Home::read_done`].
pub fn reads(request: &Message) -> bool {
    matches!(request.header.opcode, Opcode::Request(verb) if is_read(verb, request.header.flags))
}

/// The key that a request by another protocol changes: none, if it flushes; nothing, if it only reads.
fn changed(access: Access<'_>) -> Option<Option<&[u8]>> {
    match access {
        Access::Read(_) => None,
        Access::Write(key) => Some(Some(key)),
        Access::Flush => Some(None),
    }
}

impl<I: Items, B: Bugs<Planted>> Home<I, B> {
    /// What was admitted goes to the store.
    pub(super) fn goes_on(&mut self, access: Access<'_>) {
        if self.items.takes_time()
            && let Some(key) = changed(access)
        {
            self.under_way.begin(key);
        }
    }

    /// The store is asked; without room for that, the client is told so, and may ask again.
    pub(super) fn hand_on(&mut self, now: Nanos, request: &Message, out: &mut Out) {
        if !self.items.begin(request, now) {
            self.undo(request);
            return self.refuse(request, out);
        }
        let flushes = request.header.opcode == Opcode::Request(Verb::Flush);
        self.under_way.begin(if flushes { None } else { Some(&request.key) });
    }

    /// A read goes to the store; without room for that, the client is told so.
    pub(super) fn hand_on_read(&mut self, now: Nanos, request: &Message, out: &mut Out) {
        match self.items.begin(request, now) {
            true => self.under_way.read_begins(&request.key),
            false => self.refuse(request, out),
        }
    }

    /// A read that was handed on found this, or nothing.
    pub fn read_done(&mut self, now: Nanos, request: &Message, ended: Ended<Option<Item>>, out: &mut Out) {
        let is_old = self.under_way.read_ends(&request.key) && !self.planted.has(Planted::GrantWhatIsOld);
        match ended {
            Ended::Done(item) | Ended::Same(item) => self.read_found(now, request, (item, is_old), out),
            Ended::NotDone | Ended::Unknown => self.refuse(request, out),
        }
    }

    /// A write or flush by packet that was handed on has ended.
    ///
    /// # Panics
    /// None was handed on.
    pub fn write_done(&mut self, request: &Message, ended: Ended<Answer>, out: &mut Out) {
        let Opcode::Request(verb) = request.header.opcode else {
            unreachable!("only requests are handed on")
        };
        let is_forgotten = ended == Ended::Unknown && self.planted.has(Planted::UnknownForgotten);
        let known = if is_forgotten { Ended::NotDone } else { ended.clone().map(drop) };
        self.under_way.end(if verb == Verb::Flush { None } else { Some(&request.key) }, &known);
        match ended {
            Ended::Done(answer) | Ended::Same(answer) => {
                let reply = self.conclude(request, answer);
                out.push((way_back(&reply.header, None), reply));
            }
            Ended::NotDone => {
                self.undo(request);
                self.refuse(request, out);
            }
            Ended::Unknown if self.planted.has(Planted::UnknownUndone) => self.undo(request),
            // Whoever asks again is not answered, and in the end does not know either.
            Ended::Unknown => {}
        }
    }

    /// What was handed on by another protocol has ended: each that was admitted, once. Of reads nothing needs to be said.
    ///
    /// # Panics
    /// None was handed on.
    pub fn ticket_done(&mut self, access: Access<'_>, ended: &Ended<()>) {
        if let Some(key) = changed(access) {
            let is_forgotten = *ended == Ended::Unknown && self.planted.has(Planted::UnknownForgotten);
            self.under_way.end(key, if is_forgotten { &Ended::NotDone } else { ended });
        }
    }

    /// The same of what was not in order with the other requests of its key: reads that are under way may have found what was there before.
    ///
    /// # Panics
    /// None was handed on.
    pub fn done_aside(&mut self, access: Access<'_>, ended: &Ended<()>) {
        if let Some(key) = changed(access)
            && !matches!(ended, Ended::NotDone)
        {
            self.under_way.was_aside(key);
        }
        self.ticket_done(access, ended);
    }

    fn undo(&mut self, request: &Message) {
        self.sessions.undo(request.header.round, request.header.operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: &[u8] = b"k";
    const OTHER: &[u8] = b"other";

    #[test]
    fn a_key_is_barred_while_a_write_is_under_way_and_after_one_that_nobody_knows_of() {
        let mut under_way = UnderWay::default();
        assert!(!under_way.bars(K));
        under_way.begin(Some(K));
        under_way.begin(Some(K));
        under_way.end(Some(K), &Ended::NotDone);
        assert!(under_way.bars(K) && !under_way.bars(OTHER) && !under_way.is_empty());
        under_way.end(Some(K), &Ended::Unknown);
        assert!(under_way.bars(K) && under_way.is_empty());
        for (ended, bars) in [(Ended::NotDone, true), (Ended::Same(()), true), (Ended::Done(()), false)] {
            under_way.begin(Some(K));
            under_way.end(Some(K), &ended);
            assert_eq!(under_way.bars(K), bars);
        }
    }

    #[test]
    fn a_flush_bars_all_keys_and_settles_them() {
        let mut under_way = UnderWay::default();
        for ended in [Ended::Unknown, Ended::NotDone, Ended::Done(())] {
            under_way.begin(None);
            assert!(under_way.bars(OTHER));
            under_way.end(None, &ended);
            assert_eq!(under_way.bars(OTHER), ended != Ended::Done(()));
        }
        for key in 0..=MOST_UNSETTLED as u64 {
            assert!(!under_way.bars(OTHER));
            under_way.begin(Some(&key.to_le_bytes()));
            under_way.end(Some(&key.to_le_bytes()), &Ended::Unknown);
        }
        assert!(under_way.bars(OTHER), "of one there is no memory: so of any");
        under_way.begin(None);
        under_way.end(None, &Ended::Done(()));
        assert!(!under_way.bars(&0u64.to_le_bytes()) && !under_way.bars(OTHER));
    }
}
