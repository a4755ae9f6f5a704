//! The datagrams of a session, as bytes and as values; `docs/wire-session.md` is the same for those who write another end.
//!
//! Shape (little-endian; every datagram begins with the same 24 bytes):
//! ```text
//!  0  u32  checksum  CRC-32C of all that follows
//!  4  u16  magic     4d 53 ("MS")
//!  6  u8   version   1
//!  7  u8   kind      below
//!  8  u64  session   chosen by the opener
//! 16  u64  token     Open, Retry, Refuse: the opener's epoch; else what the accepter chose for this session
//!
//! Open 1, Accept 3          Retry 2           Refuse 4            Close 7, Closed 8, Reset 9
//! 24 u64 cookie | epoch *   24 u64 cookie     24 u8 reason        24 u64 epoch of the sender
//! 32 u32 datagram bytes                       25 u8 version       32 u8  reason
//! 36 u32 longest message                      26 6 × 0            33 7 × 0
//! 40 u64 granted bytes
//! 48 u32 granted messages
//! 52 u32 longest delay of an ack, µs
//! 56 u64 0 | accepter's epoch *               * in an Open | in an Accept, where the first is the opener's epoch again
//!
//! Data 5, Ack 6
//! 24 u64 packet     Data: its number, from 0, never used twice; Ack: the number the next Data will have
//! 32 u64 floor      the sender waits for no ack of a packet below
//! 40 u64 granted bytes, 48 u64 granted messages: totals since the session began
//! 56 u64 next       one more than the highest packet received; 0 for none
//! 64 u32 delay      µs between that packet's arrival and this datagram
//! 68 u8  runs       of acks, at most 8
//! 69 u8  flags      bit 0 BLOCKED: the sender has messages and no credit
//! 70 u16 pieces     0 in an Ack
//! 72 runs × (u16 received, u16 missing)   downwards from `next`
//!    where pieces > 0:
//!    u64 message, u32 fragment  which fragment the first piece is
//!    u16 unit                   bytes of a fragment that is not its message's last
//!    pieces × (u32 total, bytes)
//!       `total` is the length of the piece's message, from which the piece's own length follows. The next piece is the
//!       message's next fragment, or after its last one fragment 0 of the next message.
//! ```
//!
//! Why runs of consecutive fragments: eight small messages cost 4 bytes each beside their own, and the sender remembers
//! of a packet only which fragments it carried, from and to. Why fragments of one size: the receiver needs one bit for
//! each, however often and with what neighbours they are sent again.
//!
//! Why the checksum: UDP's own is 16 bits and may be off on virtual links.
//!
//! Errors: [`parse`] takes any bytes and reads nothing that does not belong together; [`ParseError`].

mod emit;
mod parse;

pub use emit::emit;
pub(super) use emit::{Writer, room_for_pieces};
pub use parse::parse;
#[cfg(test)]
pub(super) use parse::parse_unsummed;

use std::fmt;

/// Of every datagram.
pub const MAGIC: [u8; 2] = *b"MS";
/// The version spoken here.
pub const VERSION: u8 = 1;
/// Bytes of what all datagrams begin with.
pub const HEADER: usize = 24;
/// Bytes of an Open; no answer to an unproven address is longer.
pub const OPEN: usize = 64;
/// Bytes of a Close, a Closed, a Reset.
pub const NOTICE: usize = 40;
/// Runs of acks in a datagram.
pub const MAX_RUNS: usize = 8;
/// Bytes of a Data that are no message, at most, where it carries one piece.
pub const OVERHEAD: usize = STATE + 4 * MAX_RUNS + RUN + PIECE;
/// Packets are numbered below this.
pub const MAX_PACKET: u64 = 1 << 62;

const RETRY: usize = 32;
const REFUSE: usize = 32;
const STATE: usize = 72;
const RUN: usize = 14;
/// Bytes before each piece.
pub(super) const PIECE: usize = 4;
const BLOCKED: u8 = 1;

/// A datagram's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Open = 1,
    Retry = 2,
    Accept = 3,
    Refuse = 4,
    Data = 5,
    Ack = 6,
    Close = 7,
    Closed = 8,
    Reset = 9,
}

/// A datagram that parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Which session.
    pub session: u64,
    /// Open, Retry, Refuse: the opener's epoch; else the token of the session.
    pub token: u64,
    /// What it says.
    pub body: Body<'a>,
}

/// What a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Opener: a session, please.
    Open {
        /// From a Retry; 0 before.
        cookie: u64,
        /// What the opener offers.
        terms: Terms,
    },
    /// Accepter: prove your address with this cookie.
    Retry {
        /// To be sent back.
        cookie: u64,
    },
    /// Accepter: granted.
    Accept {
        /// The Open's.
        opener: u64,
        /// The accepter's own.
        epoch: u64,
        /// What the accepter offers.
        terms: Terms,
    },
    /// Accepter: no.
    Refuse {
        /// Why.
        reason: u8,
        /// The version it speaks.
        version: u8,
    },
    /// Numbered and acknowledged: pieces of messages, or none, to be answered.
    Data(State, Pieces<'a>),
    /// Acknowledgement and credit alone.
    Ack(State),
    /// All is said and acknowledged; asks for a Closed.
    Close(Notice),
    /// Answer to a Close.
    Closed(Notice),
    /// There is no such session here (any more).
    Reset(Notice),
}

/// What an end offers when a session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Bytes of its longest datagram; the smaller of both counts.
    pub datagram_bytes: u32,
    /// Bytes of the longest message it takes.
    pub max_message: u32,
    /// Its first grant.
    pub granted_bytes: u64,
    /// Its first grant.
    pub granted_messages: u32,
    /// How long it may keep an ack back.
    pub max_ack_delay_us: u32,
}

/// What the sender of a Data or Ack knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Number of this packet (Data), or of the next one (Ack).
    pub packet: u64,
    /// No ack below is of interest.
    pub floor: u64,
    /// Bytes of all messages that may be begun since the session began.
    pub granted_bytes: u64,
    /// Messages that may be begun since the session began.
    pub granted_messages: u64,
    /// What was received.
    pub acks: Acks,
    /// How long the newest of it waited for this datagram.
    pub ack_delay_us: u32,
    /// The sender lacks credit.
    pub blocked: bool,
}

/// Which packets were received, from the newest downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    /// One more than the highest packet received; 0 for none.
    pub next: u64,
    runs: [(u16, u16); MAX_RUNS],
    count: u8,
}

impl Acks {
    /// Acks below `next`.
    pub fn below(next: u64) -> Acks {
        Acks { next, ..Acks::default() }
    }

    /// Adds `received` packets and the `missing` ones below them; false where there is no room.
    pub fn push(&mut self, received: u16, missing: u16) -> bool {
        let Some(slot) = self.runs.get_mut(usize::from(self.count)) else { return false };
        *slot = (received, missing);
        self.count += 1;
        true
    }

    /// The received packets as half-open ranges, downwards.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut end = self.next;
        self.runs[..usize::from(self.count)].iter().map(move |&(received, missing)| {
            let start = end - u64::from(received);
            let range = (start, end);
            end = start.saturating_sub(u64::from(missing));
            range
        })
    }

    fn is_sound(&self) -> bool {
        let mut left = self.next;
        self.runs[..usize::from(self.count)].iter().all(|&(received, missing)| {
            let run = u64::from(received) + u64::from(missing);
            let fits = run <= left;
            left = left.saturating_sub(run);
            fits
        })
    }
}

/// Why a session ends, or that it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The sender's.
    pub epoch: u64,
    /// One of the reasons in this module.
    pub reason: u8,
}

/// Notice: as agreed.
pub const REASON_CLOSED: u8 = 0;
/// Reset: the sender knows no such session.
pub const REASON_UNKNOWN: u8 = 1;
/// Reset: the receiver broke the protocol.
pub const REASON_VIOLATION: u8 = 2;
/// Reset: nothing was heard for too long.
pub const REASON_TIMEOUT: u8 = 3;
/// Refuse: another version is spoken.
pub const REFUSE_VERSION: u8 = 1;
/// Refuse: no more sessions now.
pub const REFUSE_BUSY: u8 = 2;
/// Refuse: the terms cannot be met.
pub const REFUSE_TERMS: u8 = 3;

/// A run of consecutive fragments, checked when it was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces<'a> {
    /// How many.
    pub count: u16,
    /// Bytes of every fragment but a message's last; not 0 where there is a piece.
    pub unit: u16,
    message: u64,
    fragment: u32,
    bytes: &'a [u8],
}

/// A fragment of a message, or the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Number of the message, from 0.
    pub message: u64,
    /// Which fragment of it, from 0.
    pub fragment: u32,
    /// Length of the message.
    pub total: u32,
    /// The fragment.
    pub bytes: &'a [u8],
}

impl<'a> Pieces<'a> {
    /// None at all.
    pub const NONE: Pieces<'static> = Pieces { count: 0, unit: 0, message: 0, fragment: 0, bytes: &[] };

    fn split_first(&mut self) -> Option<Piece<'a>> {
        if self.count == 0 {
            return None;
        }
        let (total, rest) = self.bytes.split_first_chunk::<PIECE>()?;
        let total = u32::from_le_bytes(*total);
        let (message, fragment) = (self.message, self.fragment);
        let start = u64::from(fragment) * u64::from(self.unit);
        if start > 0 && start >= u64::from(total) {
            return None;
        }
        let left = u64::from(total) - start;
        let (bytes, rest) = rest.split_at_checked(left.min(u64::from(self.unit)) as usize)?;
        (self.message, self.fragment) =
            if left > u64::from(self.unit) { (message, fragment + 1) } else { (message.checked_add(1)?, 0) };
        self.count -= 1;
        self.bytes = rest;
        Some(Piece { message, fragment, total, bytes })
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        self.split_first()
    }
}

/// Why bytes are no datagram of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Too short, or without the magic.
    Foreign,
    /// Changed on the way.
    Checksum,
    /// Another version than [`VERSION`].
    Version {
        /// Which.
        version: u8,
        /// Whether the kind is that of an Open.
        open: bool,
        /// As in every version.
        session: u64,
        /// As in every version.
        token: u64,
    },
    /// The fields contradict each other or the length.
    Malformed,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Foreign => f.write_str("not a datagram of a session"),
            ParseError::Checksum => f.write_str("the datagram was changed on its way"),
            ParseError::Version { version, .. } => write!(f, "version {version}, where {VERSION} is spoken"),
            ParseError::Malformed => f.write_str("the datagram contradicts itself"),
        }
    }
}

impl std::error::Error for ParseError {}

/// The session that a datagram says it belongs to: for finding it. Nothing was checked but length and magic.
#[inline]
pub fn session_of(bytes: &[u8]) -> Option<u64> {
    (bytes.len() >= HEADER && bytes[4..6] == MAGIC).then(|| u64_at(bytes, 8))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let eight: &[u8; 8] = bytes[at..].first_chunk().expect("the length was checked");
    u64::from_le_bytes(*eight)
}
