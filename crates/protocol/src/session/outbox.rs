//! Messages on their way out: bytes in one ring, cut into fragments; credit for beginning a message; fragments to send again.
//!
//! ```text
//!   messages   │ 0 │ 1      │2│ 3                │ …      bytes one after the other in the ring
//!   fragments  │ 0 │ 1  │ 2 │3│ 4  │ 5  │ 6  │ 7 │ …      numbered since the session began
//!                ▲            ▲           ▲
//!              front       acknowledged  next_fresh       acknowledged ones leave at the front
//! ```
//! The first fragment of message `m` goes out when `m` is below the peer's grant of messages, and the bytes of all
//! messages to `m` are within its grant of bytes.
//!
//! Invariants: a fragment is unsent, in one flying packet, in one range of `again`, or acknowledged. Front and first
//! fragment of a message begin at a multiple of the unit within it.
//!
//! Bounds: bytes and messages by the configuration; fragments follow from both; `again` has at most a range per packet
//! ever in flight at once and fragment.
//!
//! Cost: a small message is one copy into the ring and one fragment of 32 bytes; no allocation once the ring has grown.

use super::wire::{PIECE, Writer};
use std::collections::VecDeque;
use std::ops::Range;

#[derive(Clone, Copy, Debug)]
struct Fragment {
    message: u64,
    /// Where its bytes begin, counted since the session began.
    at: u64,
    total: u32,
    index: u32,
    acknowledged: bool,
}

impl Fragment {
    fn len(&self, unit: u16) -> usize {
        let unit = u32::from(unit);
        (self.total - self.index * unit).min(unit) as usize
    }
}

/// What the peer has granted since the session began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grant {
    pub(super) bytes: u64,
    pub(super) messages: u64,
}

/// The messages that were sent and not yet acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    max_bytes: usize,
    max_messages: usize,
    unit: u16,
    bytes: VecDeque<u8>,
    /// Position of the ring's front.
    bytes_from: u64,
    fragments: VecDeque<Fragment>,
    /// Number of the front fragment.
    front: u64,
    /// The first fragment that was never sent.
    next_fresh: u64,
    again: VecDeque<Range<u64>>,
    messages: usize,
    next_message: u64,
    /// Bytes of the messages begun.
    begun: u64,
    pub(super) grant: Grant,
}

/// Rings up to this keep their memory when they are empty.
const KEEP: usize = 256 << 10;

impl Outbox {
    pub(super) fn new(max_bytes: usize, max_messages: usize) -> Outbox {
        Outbox {
            max_bytes,
            max_messages,
            unit: 1,
            bytes: VecDeque::new(),
            bytes_from: 0,
            fragments: VecDeque::new(),
            front: 0,
            next_fresh: 0,
            again: VecDeque::new(),
            messages: 0,
            next_message: 0,
            begun: 0,
            grant: Grant::default(),
        }
    }

    /// Before the first message: what was agreed.
    pub(super) fn agree(&mut self, unit: u16, grant: Grant) {
        self.unit = unit;
        self.grant = grant;
    }

    /// Takes a message; false where there is no room.
    pub(super) fn push(&mut self, parts: &[&[u8]], total: usize) -> bool {
        if self.messages == self.max_messages || self.max_bytes - self.bytes.len() < total {
            return false;
        }
        self.grow(total);
        let mut at = self.bytes_from + self.bytes.len() as u64;
        for part in parts {
            self.bytes.extend(*part);
        }
        let unit = usize::from(self.unit);
        for index in 0..total.div_ceil(unit).max(1) {
            let (message, total) = (self.next_message, total as u32);
            self.fragments.push_back(Fragment {
                message,
                at,
                total,
                index: index as u32,
                acknowledged: false,
            });
            at += unit as u64;
        }
        self.messages += 1;
        self.next_message += 1;
        true
    }

    /// Doubles the ring, but not beyond its bound.
    fn grow(&mut self, more: usize) {
        let (len, capacity) = (self.bytes.len(), self.bytes.capacity());
        if len + more > capacity {
            self.bytes.reserve_exact((2 * capacity).clamp(len + more, self.max_bytes) - len);
        }
    }

    /// Whether nothing is queued or on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Whether fragments wait to be sent again.
    pub(super) fn has_lost(&self) -> bool {
        !self.again.is_empty()
    }

    /// Whether a fragment that was never sent may go out.
    pub(super) fn has_fresh(&self) -> bool {
        self.next_unsent().is_some_and(|f| self.may_begin(f))
    }

    /// Whether there are fragments, but no credit for the next.
    pub(super) fn is_blocked(&self) -> bool {
        self.next_unsent().is_some_and(|f| !self.may_begin(f))
    }

    fn next_unsent(&self) -> Option<&Fragment> {
        self.fragments.get((self.next_fresh - self.front) as usize)
    }

    fn may_begin(&self, f: &Fragment) -> bool {
        f.index > 0
            || (f.message < self.grant.messages && self.begun + u64::from(f.total) <= self.grant.bytes)
    }

    /// Writes fragments that were never sent while they have credit and fit into `room`; returns the first and how many.
    pub(super) fn write_fresh(&mut self, writer: &mut Writer<'_>, room: usize) -> (u64, u16) {
        let first = self.next_fresh;
        let mut count = 0;
        let mut left = room;
        while let Some(&f) = self.next_unsent() {
            let len = f.len(self.unit);
            if PIECE + len > left || count == u16::MAX || !self.may_begin(&f) {
                break;
            }
            if f.index == 0 {
                self.begun += u64::from(f.total);
            }
            self.write(writer, &f, len, count == 0, 0);
            left -= PIECE + len;
            count += 1;
            self.next_fresh += 1;
        }
        (first, count)
    }

    /// Writes lost fragments, from the oldest on, while they are consecutive and fit into `room`; returns the first and
    /// how many. `renumber` is added to their messages' numbers: 0 but for a planted bug.
    pub(super) fn write_lost(&mut self, writer: &mut Writer<'_>, room: usize, renumber: u64) -> (u64, u16) {
        let first = self.again.front().map_or(self.front, |range| range.start);
        let (mut count, mut left) = (0, room);
        while let Some(range) = self.again.front_mut() {
            let number = range.start;
            let f = self.fragments[(number - self.front) as usize];
            let len = f.len(self.unit);
            if number != first + u64::from(count) || PIECE + len > left || count == u16::MAX {
                break;
            }
            range.start += 1;
            if range.is_empty() {
                self.again.pop_front();
            }
            self.write(writer, &f, len, count == 0, renumber);
            left -= PIECE + len;
            count += 1;
        }
        (first, count)
    }

    fn write(&self, writer: &mut Writer<'_>, f: &Fragment, len: usize, first: bool, renumber: u64) {
        if first {
            writer.run(f.message + renumber, f.index, self.unit);
        }
        let from = (f.at - self.bytes_from) as usize;
        let (head, tail) = self.bytes.as_slices();
        let halves = match from.checked_sub(head.len()) {
            Some(from) => (&tail[from..from + len], &[][..]),
            None if from + len <= head.len() => (&head[from..from + len], &[][..]),
            None => (&head[from..], &tail[..from + len - head.len()]),
        };
        writer.piece(f.total, halves);
    }

    /// The fragments `first .. first + count` arrived; [`Outbox::release`] frees them.
    pub(super) fn acknowledge(&mut self, first: u64, count: u32) {
        for number in first..first + u64::from(count) {
            let index = number.checked_sub(self.front).expect("a fragment leaves only when acknowledged");
            self.fragments[index as usize].acknowledged = true;
        }
    }

    /// Frees what was acknowledged at the front.
    pub(super) fn release(&mut self) {
        let mut bytes = 0;
        while let Some(f) = self.fragments.front().filter(|f| f.acknowledged) {
            let len = f.len(self.unit);
            let last = u64::from(f.index) * u64::from(self.unit) + len as u64 == u64::from(f.total);
            self.messages -= usize::from(last);
            bytes += len;
            self.front += 1;
            self.fragments.pop_front();
        }
        self.bytes.drain(..bytes);
        self.bytes_from += bytes as u64;
        if self.fragments.is_empty() && self.bytes.capacity() > KEEP {
            self.bytes.shrink_to(KEEP);
            self.fragments.shrink_to(KEEP / size_of::<Fragment>());
        }
    }

    /// The fragments `first .. first + count` were lost and are to be sent again.
    pub(super) fn lose(&mut self, first: u64, count: u32) {
        let range = first..first + u64::from(count);
        match self.again.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            _ => self.again.push_back(range),
        }
    }

    /// The peer grants this much in total; less than before is old news.
    pub(super) fn raise(&mut self, bytes: u64, messages: u64) {
        self.grant.bytes = self.grant.bytes.max(bytes);
        self.grant.messages = self.grant.messages.max(messages);
    }

    /// Messages not yet acknowledged, and their bytes.
    pub(super) fn queued(&self) -> (usize, usize) {
        (self.messages, self.bytes.len())
    }

    /// Forgets everything: the session is over.
    pub(super) fn clear(&mut self) {
        let (max_bytes, max_messages) = (self.max_bytes, self.max_messages);
        *self = Outbox::new(max_bytes, max_messages);
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.fragments.capacity() * size_of::<Fragment>()
            + self.again.capacity() * size_of::<Range<u64>>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{self, Acks, Body, Datagram, State};
    use super::*;

    const UNIT: u16 = 10;

    fn outbox(grant: Grant) -> Outbox {
        let mut outbox = Outbox::new(100, 5);
        outbox.agree(UNIT, grant);
        outbox
    }

    fn plenty() -> Grant {
        Grant { bytes: 1 << 20, messages: 1 << 20 }
    }

    /// Message, fragment, bytes.
    type Cut = (u64, u32, Vec<u8>);

    /// Writes one datagram with `write`; what it returned, and the pieces.
    fn written(write: impl FnOnce(&mut Writer<'_>) -> (u64, u16)) -> ((u64, u16), Vec<Cut>) {
        let acks = Acks::default();
        let (packet, floor, granted_bytes, granted_messages) = (0, 0, 0, 0);
        let state =
            State { packet, floor, granted_bytes, granted_messages, acks, ack_delay_us: 0, blocked: false };
        let mut out = Vec::new();
        let mut writer = Writer::state(&mut out, true, 1, 2, &state);
        let sent = write(&mut writer);
        writer.seal(sent.1);
        let Ok(Datagram { body: Body::Data(_, pieces), .. }) = wire::parse(&out) else { panic!("no Data") };
        (sent, pieces.map(|p| (p.message, p.fragment, p.bytes.to_vec())).collect())
    }

    #[test]
    fn fragments_fill_a_datagram_and_lost_ones_go_again() {
        let mut outbox = outbox(plenty());
        let message: Vec<u8> = (0..25).collect();
        assert!(outbox.push(&[&message[..7], &message[7..]], 25) && outbox.push(&[b"next"], 4));
        let (sent, pieces) = written(|w| outbox.write_fresh(w, 30));
        assert_eq!(sent, (0, 2), "two fragments of 14 bytes fit into 30");
        assert_eq!(pieces, [(0, 0, message[..10].to_vec()), (0, 1, message[10..20].to_vec())]);
        let (sent, pieces) = written(|w| outbox.write_fresh(w, 30));
        assert_eq!((sent, pieces), ((2, 2), vec![(0, 2, message[20..].to_vec()), (1, 0, b"next".to_vec())]));
        outbox.acknowledge(2, 2);
        outbox.release();
        assert_eq!(outbox.queued(), (2, 29), "what is behind a hole is kept");
        outbox.lose(0, 2);
        let (sent, pieces) = written(|w| outbox.write_lost(w, 20, 0));
        assert_eq!((sent, pieces.len()), ((0, 1), 1), "a smaller datagram takes fewer");
        let (sent, _) = written(|w| outbox.write_lost(w, 30, 0));
        assert_eq!(sent, (1, 1));
        outbox.acknowledge(0, 1);
        outbox.acknowledge(1, 1);
        outbox.release();
        assert!(outbox.is_empty() && outbox.queued() == (0, 0) && !outbox.has_lost());
    }

    #[test]
    fn a_message_begins_only_with_credit_and_then_is_finished() {
        let mut outbox = outbox(Grant { bytes: 30, messages: 2 });
        for len in [0usize, 25, 6] {
            assert!(outbox.push(&[&[1; 25][..len]], len));
        }
        let (sent, _) = written(|w| outbox.write_fresh(w, 1000));
        assert_eq!(sent, (0, 4), "the empty message and the three fragments of 25 bytes");
        assert!(outbox.is_blocked() && !outbox.has_fresh());
        outbox.raise(31, 2);
        assert!(outbox.is_blocked(), "bytes suffice, messages do not");
        outbox.raise(0, 3);
        assert_eq!(written(|w| outbox.write_fresh(w, 1000)).0, (4, 1));
    }

    #[test]
    fn both_bounds_hold_and_the_ring_wraps() {
        let mut outbox = outbox(plenty());
        assert!(outbox.push(&[&[1; 90]], 90));
        assert!(!outbox.push(&[&[2; 11]], 11), "bytes");
        let sent = written(|w| outbox.write_fresh(w, 1000)).0;
        outbox.acknowledge(sent.0, u32::from(sent.1));
        outbox.release();
        for round in 0..50u8 {
            let message: Vec<u8> = (0..33).map(|i| i ^ round).collect();
            assert!(outbox.push(&[&message], 33) && outbox.push(&[&message], 33));
            let (sent, pieces) = written(|w| outbox.write_fresh(w, 1000));
            let bytes: Vec<u8> = pieces.into_iter().flat_map(|p| p.2).collect();
            assert_eq!(bytes, [&message[..], &message].concat());
            outbox.acknowledge(sent.0, u32::from(sent.1));
            outbox.release();
        }
        (0..5).for_each(|_| assert!(outbox.push(&[], 0)));
        assert!(!outbox.push(&[], 0), "messages");
        assert!(outbox.bytes.capacity() <= 100);
    }
}
