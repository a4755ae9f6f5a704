//! Messages either way, independent of each other: no tags, no replies, nothing owed.
//!
//! Shape: two rings of 128-byte slots, an arena each way, and for each side a line of words:
//! ```text
//! slot   seq u32 │ word u32: length and kind │ 120 bytes: the message, or where it is in the arena
//! words  asleep │ wants room │ closed
//! ```
//! A message of at most [`INLINE`] bytes is in the slot, and only the lines that it fills move. A longer one is in the arena; one
//! that is longer than half the arena goes in pieces, each a slot, and what does not fit yet is kept here: one message at a
//! time, so no other is taken meanwhile.
//!
//! Invariants:
//! 1. Between a peer's last word and its end nothing is lost: `closed` and the socket's end come after what was published.
//! 2. Whoever was refused and sleeps is woken by whoever makes room: the sleeper sets `wants room`, marks itself asleep, and looks
//!    again; the other tells of the room, and looks at the word (label `dekker` of [`crate::wait`], on both sides a fence between).
//! 3. Nothing the peer writes makes this side hold more than one message of `max_message` bytes beside what its caller asked for.
//!
//! Cost: one fence per [`Lanes::flush`] that publishes something, none per message; see `docs/measurements/links.md`.
//!
//! Errors: [`SendError`], [`Violation`].

mod packet;

pub use packet::{Packet, Padded};

use super::segment::{Form, Layout, Segment};
use super::wire::{SendError, Side, Violation, Wire};
use crate::spsc::{Consume, Hybrid, InSlot, Index, Kind, Produce, Variant};
use crate::sync::{AtomicU32, Ordering, fence};
use crate::{Mapping, Plain};
use packet::{Content, take, write_inline, write_packet};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of a message that fit the slot itself.
pub const INLINE: usize = 120;
/// Pieces that a lane's arena holds of a message in pieces: enough that both sides copy at the same time.
const PIECES: u64 = 8;
/// Bytes of the kept message and of the one being put together that stay allocated between two.
const KEEP: usize = 1 << 20;

/// A variant of ring that lanes are made of.
///
/// # Safety
/// `Item` begins with a [`Packet`].
pub unsafe trait LaneKind: Kind {
    /// The same as a value.
    const VARIANT: Variant;
    /// What fills a slot of 128 bytes.
    type Item: Plain;
}

// SAFETY: it is one.
unsafe impl LaneKind for InSlot {
    const VARIANT: Variant = Variant::InSlot;
    type Item = Packet;
}

// SAFETY: it is one.
unsafe impl LaneKind for Hybrid {
    const VARIANT: Variant = Variant::Hybrid;
    type Item = Packet;
}

// SAFETY: `Padded` is laid out as C does, its first field first.
unsafe impl LaneKind for Index {
    const VARIANT: Variant = Variant::Index;
    type Item = Padded;
}

/// Bytes of one lane's ring.
pub(super) fn mapped_bytes(variant: Variant, entries: u32) -> usize {
    fn of<K: LaneKind>(entries: u32) -> usize {
        K::mapped_bytes::<K::Item>(entries)
    }
    match variant {
        Variant::InSlot => of::<InSlot>(entries),
        Variant::Index => of::<Index>(entries),
        Variant::Hybrid => of::<Hybrid>(entries),
    }
}

/// One side's words, behind the one on which it sleeps.
struct Words {
    line: NonNull<[AtomicU32; 3]>,
    _memory: Arc<Mapping>,
}

// SAFETY: atomics in memory that the mapping keeps.
unsafe impl Send for Words {}

impl Words {
    fn new(memory: &Arc<Mapping>, offset: usize) -> Words {
        Words { line: memory.at(offset, 1), _memory: memory.clone() }
    }

    fn line(&self) -> &[AtomicU32; 3] {
        // SAFETY: it lives as long as the mapping.
        unsafe { self.line.as_ref() }
    }

    fn wants_room(&self) -> &AtomicU32 {
        &self.line()[1]
    }

    fn closed(&self) -> &AtomicU32 {
        &self.line()[2]
    }
}

/// What a message that was refused, or a kept one, waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    Nothing,
    Slot,
    Bytes,
}

/// One side of a segment of form [`Form::Lanes`]. One per side and segment.
pub struct Lanes<K: LaneKind> {
    out: K::Producer<K::Item>,
    inn: K::Consumer<K::Item>,
    wire: Wire,
    mine: Words,
    theirs: Words,
    /// Something was put into the ring since the last flush.
    unsent: bool,
    /// Something was taken, and a peer that sleeps for room was not looked after since; whether it could see all of the room.
    owes_room: bool,
    told: bool,
    /// A message was refused, and its sender not told of room since; and what lacked last, for it or for the kept one.
    refused: bool,
    lack: Lack,
    /// Longest message that goes as one, and longest piece of one that does not.
    whole: usize,
    piece: usize,
    /// The message of which pieces remain, and how much of it is gone.
    kept: Vec<u8>,
    kept_from: usize,
    /// The pieces received of a message.
    partial: Vec<u8>,
}

impl<K: LaneKind> Lanes<K> {
    /// One side of `segment`, with the socket over which it was handed.
    ///
    /// # Panics
    /// When the segment is not one of lanes of this variant.
    pub fn new(segment: &Segment, side: Side, socket: impl Into<OwnedFd>) -> Lanes<K> {
        assert_eq!(segment.form(), Form::Lanes(K::VARIANT), "lanes over something else");
        let (memory, entries) = (&segment.memory, segment.geometry.entries);
        let Layout { server_wake, client_wake, rings, .. } = segment.layout;
        let [requests, responses] = [rings, rings + mapped_bytes(K::VARIANT, entries)];
        let (mine, theirs, out, inn, arena) = match side {
            Side::Client => (client_wake, server_wake, requests, responses, segment.geometry.request_arena),
            Side::Server => (server_wake, client_wake, responses, requests, segment.geometry.response_arena),
        };
        Lanes {
            out: K::map_producer(memory, out, entries),
            inn: K::map_consumer(memory, inn, entries),
            wire: Wire::new(segment, side, socket.into()),
            mine: Words::new(memory, mine),
            theirs: Words::new(memory, theirs),
            unsent: false,
            owes_room: false,
            told: false,
            refused: false,
            lack: Lack::Nothing,
            whole: (arena / 2) as usize,
            piece: (arena / PIECES) as usize,
            kept: Vec::new(),
            kept_from: 0,
            partial: Vec::new(),
        }
    }

    /// Takes a message, the concatenation of `head` and `body`; it is on its way at the latest after [`Lanes::flush`].
    ///
    /// # Errors
    /// See [`SendError`]. What was taken before a [`SendError::Full`] is flushed.
    #[inline]
    pub fn try_send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        let len = head.len() + body.len();
        if len <= INLINE && self.kept.is_empty() && !self.wire.is_over() && self.out.free() > 0 {
            // SAFETY: the ring has a free slot, as just asked; it is in a mapping, and the consumer looks at `len` bytes.
            unsafe { self.out.fill_granted(|place| write_inline(place.cast(), head, body)) };
            self.unsent = true;
            return Ok(());
        }
        self.send_otherwise(head, body)
    }

    #[cold]
    fn send_otherwise(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        let len = head.len() + body.len();
        if self.wire.is_over() {
            return Err(SendError::Gone);
        }
        if len > self.wire.max_message as usize {
            return Err(SendError::TooLarge);
        }
        self.pump();
        let taken = self.kept.is_empty()
            && match len {
                ..=INLINE => self.has_slot(),
                _ if len <= self.whole => self.push_span(Content::InArena, head, body),
                _ => true,
            };
        self.refused = !taken;
        if !taken {
            self.flush();
            return Err(SendError::Full);
        }
        if len <= INLINE {
            // SAFETY: as in try_send.
            unsafe { self.out.fill_granted(|place| write_inline(place.cast(), head, body)) };
            self.unsent = true;
        } else if len > self.whole {
            self.kept.extend_from_slice(head);
            self.kept.extend_from_slice(body);
            self.pump();
        }
        Ok(())
    }

    fn has_slot(&mut self) -> bool {
        let has = self.out.free() > 0;
        if !has {
            self.lack = Lack::Slot;
        }
        has
    }

    /// Puts bytes into the arena and a packet that names them into the ring, or says what is lacking.
    fn push_span(&mut self, content: Content, first: &[u8], second: &[u8]) -> bool {
        if !self.has_slot() {
            return false;
        }
        let Some(claim) = self.wire.out.push_both(first, second) else {
            self.lack = Lack::Bytes;
            return false;
        };
        let word = content.word(claim.len as usize);
        // SAFETY: the ring has a free slot, as just asked; it is in a mapping, and the consumer looks at eight bytes.
        unsafe {
            self.out
                .fill_granted(|place| write_packet(place.cast(), word, &claim.position.to_le_bytes(), &[]))
        };
        self.unsent = true;
        true
    }

    /// Sends pieces of the kept message while there is room.
    fn pump(&mut self) {
        while self.kept_from < self.kept.len() {
            let mut kept = std::mem::take(&mut self.kept);
            let rest = &kept[self.kept_from..];
            let (content, len) = if rest.len() <= self.piece {
                (Content::LastPiece, rest.len())
            } else {
                (Content::Piece, self.piece)
            };
            let pushed = self.push_span(content, &rest[..len], &[]);
            if pushed {
                self.kept_from += len;
            }
            if self.kept_from == kept.len() {
                kept.clear();
                kept.shrink_to(KEEP);
                self.kept_from = 0;
            }
            self.kept = kept;
            if !pushed {
                return;
            }
            self.lack = Lack::Nothing;
        }
    }

    /// Whether nothing that was taken waits here for room.
    pub fn is_drained(&self) -> bool {
        self.kept.is_empty()
    }

    /// Sends what was taken on its way, and wakes the peer if it sleeps. Costs nothing when there is nothing.
    #[inline]
    pub fn flush(&mut self) {
        if !self.kept.is_empty() {
            self.pump();
        }
        if self.unsent {
            self.unsent = false;
            // A peer that sleeps is woken, whatever it sleeps for.
            self.owes_room &= !self.told;
            self.out.publish();
            self.wire.wake_peer();
        }
    }

    /// Appends messages to `into`, at most `max` and only while it has less than `enough` bytes, and calls `each` with its length after
    /// every one. Returns how many.
    ///
    /// # Errors
    /// [`Violation`]: the peer broke the protocol and the connection is over.
    #[inline]
    pub fn recv(
        &mut self,
        max: usize,
        into: &mut Vec<u8>,
        enough: usize,
        mut each: impl FnMut(usize),
    ) -> Result<usize, Violation> {
        if self.wire.is_over() || into.len() >= enough {
            return Ok(0);
        }
        if !self.kept.is_empty() {
            self.flush();
        }
        let (wire, partial) = (&mut self.wire, &mut self.partial);
        let (mut messages, mut violation) = (0, None);
        let packets = self.inn.drain_in_place(max, |place| {
            // SAFETY: the slot's item begins with a packet and is readable now.
            match unsafe { take(place.cast(), wire, partial, into) } {
                Ok(true) => {
                    messages += 1;
                    each(into.len());
                }
                Ok(false) => {}
                Err(broken) => violation = Some(broken),
            }
            violation.is_none() && into.len() < enough
        });
        if let Some(violation) = violation {
            self.give_up();
            return Err(violation);
        }
        if packets > 0 {
            self.owes_room = true;
            // A ring that was found empty has told its producer.
            self.told = packets < max && into.len() < enough;
            if self.told {
                self.wire.inn.publish();
            }
        }
        // Whoever got messages is likely to answer, and that flush wakes the peer for both.
        if messages == 0 && self.owes_room {
            self.tell_of_room();
        }
        Ok(messages)
    }

    /// What was taken is told, and a peer that sleeps for it is woken.
    #[cold]
    fn tell_of_room(&mut self) {
        self.owes_room = false;
        self.wire.inn.publish();
        fence(Ordering::SeqCst); // label: dekker
        // Only the peer takes its wish back: were it done here, the wish of its next sleep could be what is lost.
        if self.theirs.wants_room().load(Ordering::Relaxed) != 0 {
            self.wire.wake_peer();
        }
    }

    /// Flushes, and says that this side is about to sleep on [`Lanes::descriptor`]. False when there is something to do already:
    /// then it is awake as before. With `receives` a message is something; room for a message that was refused always is.
    pub fn park(&mut self, receives: bool) -> bool {
        self.flush();
        if self.owes_room {
            // Tells the ring's room if it is empty.
            self.inn.is_ready();
            self.tell_of_room();
        }
        let waits = self.refused || !self.kept.is_empty();
        self.mine.wants_room().store(u32::from(waits), Ordering::Relaxed);
        self.wire.sleeper().arm();
        let has_room = waits && self.has_room();
        if has_room {
            self.refused = false;
        }
        let has_news = has_room || (receives && self.inn.is_ready()) || self.peer_closed();
        if has_news {
            // What else this could tell, the descriptor goes on telling.
            self.unpark();
        }
        !has_news
    }

    /// Whether what lacked last came since.
    fn has_room(&mut self) -> bool {
        match self.lack {
            Lack::Nothing => true,
            Lack::Slot => self.out.free() > 0,
            Lack::Bytes => self.wire.out.has_news(),
        }
    }

    /// Awake again, after the descriptor became readable. Returns whether the peer is gone; what it sent before can still be
    /// received.
    pub fn unpark(&mut self) -> bool {
        self.mine.wants_room().store(0, Ordering::Relaxed);
        self.wire.sleeper().disarm()
    }

    /// What a parked side sleeps on: readable when the peer rings or is gone.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wire.descriptor()
    }

    /// Whether something came that was not received.
    pub fn is_ready(&mut self) -> bool {
        self.inn.is_ready()
    }

    /// Whether the peer said that it is closing. One load.
    #[inline]
    pub fn peer_closed(&self) -> bool {
        self.theirs.closed().load(Ordering::Acquire) != 0 // label: closed
    }

    /// Whether the peer is gone, by its socket: a system call.
    pub fn peer_is_gone(&self) -> bool {
        self.wire.peer_is_gone()
    }

    /// The connection is over: nothing is sent or received any more.
    pub fn give_up(&mut self) {
        self.wire.give_up();
        self.wire.hang_up();
    }
}

impl<K: LaneKind> Drop for Lanes<K> {
    fn drop(&mut self) {
        self.flush();
        self.mine.closed().store(1, Ordering::Release); // label: closed
        self.wire.wake_peer();
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
