//! Messages on their way in: fragments put together, each message handed out once, credit for more.
//!
//! ```text
//!  slots   base ─▶ │ taken │ waiting │ partial │ ready │ waiting │ …        by message number; taken ones leave at the front
//!  ready   numbers of complete messages in the order they became complete; small ones' bytes lie in one buffer
//! ```
//!
//! Invariants: a message is handed out once, because its slot leaves `waiting` or `partial` once and numbers below
//! `base` are over. `held` (bytes of messages begun and not taken) never exceeds the window: a peer that begins more
//! has broken the protocol.
//!
//! Credit: messages `base + window`, bytes of all taken messages + window. So one message missing at the front stops
//! the peer one window later; in return both bounds hold whatever the peer does.
//!
//! Bounds: `held` bytes and one slot of 16 bytes per message; the buffer of small messages at most doubles its share of
//! `held` twice.
//!
//! Cost: a small message is one copy, and one more by the user; no allocation once the buffers have grown.

use super::wire::Piece;
use std::collections::VecDeque;

#[derive(Debug)]
enum Slot {
    Waiting,
    Partial(Box<Partial>),
    Ready,
    Taken,
}

#[derive(Debug)]
struct Partial {
    bytes: Vec<u8>,
    /// A bit per fragment.
    seen: Vec<u64>,
    missing: u32,
}

#[derive(Debug)]
struct Ready {
    message: u64,
    bytes: Content,
}

#[derive(Debug)]
enum Content {
    /// So many bytes of the buffer.
    Small(usize),
    Whole(Vec<u8>),
}

/// What a piece was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Took {
    /// New, and kept.
    New,
    /// Here before.
    Duplicate,
}

/// The peer did what it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation;

/// The messages being received and those not yet taken.
#[derive(Debug)]
pub(super) struct Inbox {
    max_message: usize,
    window_bytes: usize,
    window_messages: usize,
    unit: u16,
    slots: VecDeque<Slot>,
    /// Number of the front slot.
    base: u64,
    ready: VecDeque<Ready>,
    small: Vec<u8>,
    /// Where the oldest small message begins.
    small_from: usize,
    /// The last message handed out, where it was a whole one.
    current: Vec<u8>,
    held: usize,
    taken_bytes: u64,
    /// What the peer was told last.
    told: (u64, u64),
    #[cfg(test)]
    pub(super) planted: Option<super::tests::Planted>,
}

/// Buffers up to this keep their memory when they are empty.
const KEEP: usize = 256 << 10;

impl Inbox {
    pub(super) fn new(max_message: usize, window_bytes: usize, window_messages: usize) -> Inbox {
        Inbox {
            max_message,
            window_bytes,
            window_messages,
            unit: 1,
            slots: VecDeque::new(),
            base: 0,
            ready: VecDeque::new(),
            small: Vec::new(),
            small_from: 0,
            current: Vec::new(),
            held: 0,
            taken_bytes: 0,
            told: (window_bytes as u64, window_messages as u64),
            #[cfg(test)]
            planted: None,
        }
    }

    /// Before the first piece: what was agreed.
    pub(super) fn agree(&mut self, unit: u16) {
        self.unit = unit;
    }

    /// Takes a piece of `unit`-sized fragments.
    ///
    /// # Errors
    /// [`Violation`]: beyond what was granted, or at odds with an earlier piece of the message.
    pub(super) fn take(&mut self, piece: &Piece<'_>, unit: u16) -> Result<Took, Violation> {
        let total = piece.total as usize;
        if unit != self.unit || total > self.max_message {
            return Err(Violation);
        }
        #[cfg(test)]
        if self.planted == Some(super::tests::Planted::DuplicateDelivered) && self.is_over(piece.message) {
            if total <= usize::from(unit) {
                self.push_small(piece.message, piece.bytes);
                self.held += total;
            }
            return Ok(Took::New);
        }
        let Some(index) = piece.message.checked_sub(self.base) else { return Ok(Took::Duplicate) };
        if index >= self.window_messages as u64 {
            return Err(Violation);
        }
        let index = index as usize;
        while self.slots.len() <= index {
            self.slots.push_back(Slot::Waiting);
        }
        if let Slot::Waiting = self.slots[index] {
            if self.window_bytes - self.held < total {
                return Err(Violation);
            }
            self.held += total;
            if total <= usize::from(unit) {
                self.push_small(piece.message, piece.bytes);
                self.slots[index] = Slot::Ready;
                return Ok(Took::New);
            }
            self.slots[index] = Slot::Partial(Box::new(Partial::new(total, unit)));
        }
        let Slot::Partial(partial) = &mut self.slots[index] else { return Ok(Took::Duplicate) };
        if partial.bytes.len() != total {
            return Err(Violation);
        }
        let took = partial.take(piece, unit);
        if partial.missing == 0 {
            let whole = std::mem::take(&mut partial.bytes);
            self.slots[index] = Slot::Ready;
            self.ready.push_back(Ready { message: piece.message, bytes: Content::Whole(whole) });
        }
        Ok(took)
    }

    #[cfg(test)]
    fn is_over(&self, message: u64) -> bool {
        message < self.base
            || matches!(self.slots.get((message - self.base) as usize), Some(Slot::Ready | Slot::Taken))
    }

    fn push_small(&mut self, message: u64, bytes: &[u8]) {
        if self.small_from > self.small.len() / 2 && self.small.len() + bytes.len() > self.small.capacity() {
            self.small.drain(..self.small_from);
            self.small_from = 0;
        }
        self.small.extend_from_slice(bytes);
        self.ready.push_back(Ready { message, bytes: Content::Small(bytes.len()) });
    }

    /// The next complete message; it is taken with that.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        if self.small_from == self.small.len() {
            self.small.clear();
            self.small.shrink_to(KEEP);
            self.small_from = 0;
        }
        self.current = Vec::new();
        let Ready { message, bytes } = self.ready.pop_front()?;
        self.retire(message);
        match bytes {
            Content::Small(len) => {
                self.count_taken(len);
                let start = self.small_from;
                self.small_from += len;
                Some(&self.small[start..start + len])
            }
            Content::Whole(whole) => {
                self.count_taken(whole.len());
                self.current = whole;
                Some(&self.current)
            }
        }
    }

    fn count_taken(&mut self, len: usize) {
        self.held -= len;
        #[cfg(test)]
        if self.planted == Some(super::tests::Planted::CreditKept) {
            return;
        }
        self.taken_bytes += len as u64;
    }

    fn retire(&mut self, message: u64) {
        // Below the base only by a planted bug: every other message in `ready` has its slot.
        if let Some(slot) = message.checked_sub(self.base).and_then(|i| self.slots.get_mut(i as usize)) {
            *slot = Slot::Taken;
        }
        while let Some(Slot::Taken) = self.slots.front() {
            self.slots.pop_front();
            self.base += 1;
        }
    }

    /// Whether a complete message waits.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Bytes and messages granted since the session began; the peer is being told.
    pub(super) fn grant(&mut self) -> (u64, u64) {
        self.told = self.granted();
        self.told
    }

    fn granted(&self) -> (u64, u64) {
        (self.taken_bytes + self.window_bytes as u64, self.base + self.window_messages as u64)
    }

    /// Whether the peer should hear of new credit now: when a quarter of a window is new, or, where it is blocked, anything.
    pub(super) fn owes_credit(&self, blocked: bool) -> bool {
        let (bytes, messages) = self.granted();
        let (new_bytes, new_messages) = (bytes - self.told.0, messages - self.told.1);
        (blocked && new_bytes + new_messages > 0)
            || new_bytes > self.window_bytes as u64 / 4
            || new_messages > self.window_messages as u64 / 4
    }

    /// Forgets what is incomplete: the session is over. Complete messages can still be taken.
    pub(super) fn clear_partial(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Partial(partial) = slot {
                self.held -= partial.bytes.len();
                *slot = Slot::Waiting;
            }
        }
    }

    /// Bytes of messages begun and not taken.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let whole = |r: &Ready| if let Content::Whole(w) = &r.bytes { w.capacity() } else { 0 };
        let partial = |s: &Slot| if let Slot::Partial(p) = s { p.memory() } else { 0 };
        self.small.capacity()
            + self.current.capacity()
            + self.slots.capacity() * size_of::<Slot>()
            + self.ready.capacity() * size_of::<Ready>()
            + self.ready.iter().map(whole).sum::<usize>()
            + self.slots.iter().map(partial).sum::<usize>()
    }
}

impl Partial {
    fn new(total: usize, unit: u16) -> Partial {
        let fragments = total.div_ceil(usize::from(unit));
        Partial { bytes: vec![0; total], seen: vec![0; fragments.div_ceil(64)], missing: fragments as u32 }
    }

    fn take(&mut self, piece: &Piece<'_>, unit: u16) -> Took {
        let (word, bit) = (piece.fragment as usize / 64, 1 << (piece.fragment % 64));
        if self.seen[word] & bit != 0 {
            return Took::Duplicate;
        }
        self.seen[word] |= bit;
        self.missing -= 1;
        let from = piece.fragment as usize * usize::from(unit);
        self.bytes[from..from + piece.bytes.len()].copy_from_slice(piece.bytes);
        Took::New
    }

    fn memory(&self) -> usize {
        size_of::<Partial>() + self.bytes.capacity() + self.seen.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: u16 = 10;

    fn inbox() -> Inbox {
        let mut inbox = Inbox::new(50, 100, 8);
        inbox.agree(UNIT);
        inbox
    }

    fn piece(message: u64, fragment: u32, whole: &[u8]) -> Piece<'_> {
        let from = fragment as usize * usize::from(UNIT);
        let bytes = &whole[from..whole.len().min(from + usize::from(UNIT))];
        Piece { message, fragment, total: whole.len() as u32, bytes }
    }

    #[test]
    fn a_message_is_handed_out_when_complete_and_once() {
        let mut inbox = inbox();
        let whole: Vec<u8> = (0..25).collect();
        assert_eq!(inbox.take(&piece(0, 2, &whole), UNIT), Ok(Took::New));
        assert_eq!(inbox.take(&piece(0, 2, &whole), UNIT), Ok(Took::Duplicate));
        assert_eq!(inbox.take(&piece(1, 0, b"small"), UNIT), Ok(Took::New));
        assert_eq!(inbox.next(), Some(&b"small"[..]), "it does not wait for its elder");
        assert_eq!(inbox.next(), None);
        assert_eq!(inbox.take(&piece(0, 0, &whole), UNIT), Ok(Took::New));
        assert_eq!(inbox.take(&piece(0, 1, &whole), UNIT), Ok(Took::New));
        assert_eq!(inbox.next(), Some(&whole[..]));
        for message in [0, 1] {
            assert_eq!(inbox.take(&piece(message, 0, &whole), UNIT), Ok(Took::Duplicate));
        }
        assert_eq!(inbox.next(), None);
        assert_eq!(inbox.held(), 0);
    }

    #[test]
    fn what_exceeds_the_grant_or_contradicts_is_a_violation() {
        let mut inbox = inbox();
        assert_eq!(inbox.take(&piece(0, 0, &[0; 51]), UNIT), Err(Violation), "too long");
        assert_eq!(inbox.take(&piece(8, 0, b"x"), UNIT), Err(Violation), "too many");
        assert_eq!(inbox.take(&piece(0, 0, b"x"), UNIT + 1), Err(Violation), "another unit");
        assert_eq!(inbox.take(&piece(0, 0, &[0; 50]), UNIT), Ok(Took::New));
        assert_eq!(inbox.take(&piece(0, 1, &[0; 49]), UNIT), Err(Violation), "another length");
        assert_eq!(inbox.take(&piece(1, 0, &[0; 50]), UNIT), Ok(Took::New));
        assert_eq!(inbox.take(&piece(2, 0, b"x"), UNIT), Err(Violation), "too many bytes");
    }

    #[test]
    fn taking_gives_credit() {
        let mut inbox = inbox();
        assert_eq!(inbox.grant(), (100, 8));
        for message in 0..2 {
            inbox.take(&piece(message, 0, &[7; 10]), UNIT).expect("granted");
        }
        assert!(inbox.next().is_some() && !inbox.owes_credit(false) && inbox.owes_credit(true));
        assert_eq!(inbox.grant(), (110, 9));
        assert!(!inbox.owes_credit(true));
        assert!(inbox.next().is_some());
        inbox.take(&piece(2, 0, &[7; 10]), UNIT).expect("granted");
        assert!(inbox.next().is_some() && !inbox.owes_credit(false));
        inbox.take(&piece(3, 0, &[7; 10]), UNIT).expect("granted");
        assert!(inbox.next().is_some() && inbox.owes_credit(false), "more than a quarter of the window");
    }

    proptest! {
        #[test]
        fn in_any_order_with_any_repetition_each_message_comes_out_once(
            lengths in proptest::collection::vec(0usize..=50, 1..8),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 0..80),
        ) {
            let wholes: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, &len)| vec![i as u8; len]).collect();
            let all: Vec<(usize, u32)> = wholes
                .iter()
                .enumerate()
                .flat_map(|(i, whole)| (0..whole.len().div_ceil(10).max(1) as u32).map(move |f| (i, f)))
                .collect();
            let mut inbox = Inbox::new(50, 400, 8);
            inbox.agree(UNIT);
            let mut out = Vec::new();
            for (i, fragment) in order.iter().map(|o| all[o.index(all.len())]).chain(all.iter().copied()) {
                inbox.take(&piece(i as u64, fragment, &wholes[i]), UNIT).expect("granted");
                while let Some(message) = inbox.next() {
                    out.push(message.to_vec());
                }
            }
            let mut expected = wholes;
            out.sort();
            expected.sort();
            prop_assert_eq!(out, expected);
            prop_assert_eq!((inbox.held(), inbox.base, inbox.slots.len()), (0, lengths.len() as u64, 0));
        }
    }
}
