//! A session: whole messages, reliable, over datagrams that get lost, overtake each other, arrive twice or changed.
//!
//! Why: calls need messages that arrive at most once, and exactly once while both ends live; UDP promises neither.
//! Unordered on purpose: a message is handed out as soon as it is complete, whatever is missing of others; who needs an
//! order numbers what it sends.
//!
//! No clock, thread, socket or randomness in here; the driver brings them:
//! ```text
//!            send ──▶ ┌─────────┐ ──▶ poll_transmit ──▶ socket     after every other call, until there is nothing,
//!                     │ Session │                                  and again at next_deadline
//!    poll_message ◀── └─────────┘ ◀── handle_datagram ◀── socket
//!                                             ▲ session_of finds the session, else
//!                                     Listener::handle_datagram (accepting end), answer_stray (others)
//! ```
//! ```text
//!  opener:    Opening ──Accept──▶ Established ─┬─ close, all acknowledged ──▶ Close ⇄ Closed ──▶ Over(Closed)
//!  accepter:  Accepted ──any Data─▶     "      └─ silence, restart, violation ──────────────────▶ Over(…)
//! ```
//!
//! One file per verb and part: this one declares; `open` begins and agrees, [`listen`] accepts without memory for the
//! unproven, `receive` takes datagrams, `transmit` writes them, `time` has the deadlines, `close` ends. The parts:
//! [`wire`] bytes, [`config`] bounds, `outbox` what is to be sent, `flight` what is on its way, `received` what
//! arrived, `inbox` what is being put together, `rtt` and `congestion` how patient and how much at once.
//!
//! Invariants (held by the simulation in `tests`, for many seeds and against planted bugs):
//! 1. A message that [`Session::send`] took is handed out by the peer once and unchanged, or the session is lost on
//!    both sides, within twice `lost_after`. It is never handed out twice.
//! 2. Messages sent before [`Session::close`] are handed out before the peer sees `Closed`.
//! 3. Memory stays below [`Session::memory_bound`], whatever the peer sends.
//! 4. An address that has not proven itself costs no memory and gets no more bytes than it sent.
//!
//! Trust: the checksum and the token guard against accidents and against forgers who do not see the datagrams; not
//! against those who do.
//!
//! Cost: constant work per datagram; a small message is copied once at each end and allocates nothing in the steady state.
//!
//! Sources: RFC 9000 and 9002 (packet numbers never used twice, acknowledgement ranges, loss detection, address
//! validation), RFC 6298, eRPC (credits per session).

mod close;
pub mod config;
mod congestion;
mod flight;
mod inbox;
pub mod listen;
mod open;
mod outbox;
mod receive;
mod received;
mod rtt;
#[cfg(test)]
mod tests;
mod time;
mod transmit;
pub mod wire;

pub use config::Config;
pub use listen::{Heard, Listener, answer_stray};
pub use wire::session_of;

use base::units::Nanos;
use congestion::Congestion;
use flight::Flight;
use inbox::Inbox;
use outbox::Outbox;
use received::Received;
use rtt::Rtt;
use std::fmt;

/// One end of a session.
#[derive(Debug)]
pub struct Session {
    config: Config,
    id: u64,
    /// Chosen by the accepter; 0 while opening.
    token: u64,
    epoch: u64,
    peer_epoch: u64,
    is_opener: bool,
    phase: Phase,
    closing: Option<Closing>,

    /// Agreed at the beginning.
    datagram_bytes: usize,
    max_message: usize,
    peer_ack_delay: Nanos,

    outbox: Outbox,
    inbox: Inbox,
    received: Received,
    flight: Flight,
    rtt: Rtt,
    congestion: Congestion,

    began: Nanos,
    heard_at: Nanos,
    /// Timeouts since the last acknowledgement of something new.
    backoff: u32,
    /// Packets that may go out though the window is full.
    probes: u32,
    /// A Data is wanted, with or without pieces.
    ping: bool,
    /// The window was what held data back.
    limited: bool,
    /// The peer was told that credit is missing; so often it was asked again.
    told_blocked: bool,
    asked_credit: u32,
    peer_blocked: bool,
    /// The token of a datagram for an earlier session of this number: to be answered with a Reset.
    stray: Option<u64>,
    farewell: Option<Farewell>,
    farewell_due: bool,
    stats: Stats,
}

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for an Accept; sends Open at `send_at`.
    Opening {
        cookie: u64,
        send_at: Nanos,
        tries: u32,
    },
    /// The opener has not been heard with the token; an Accept is owed.
    Accepted {
        owed: bool,
    },
    Established,
    Over(Lost),
}

/// A close that has begun.
#[derive(Clone, Copy, Debug)]
struct Closing {
    by: Nanos,
    send_at: Nanos,
    tries: u32,
}

/// What a session that is over answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    Closed,
    Reset(u8),
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// By [`Session::close`] of either end.
    Closed,
    /// Nothing was heard for too long, or a close took too long.
    Timeout,
    /// The peer is another process than before.
    Restarted,
    /// The peer has given the session up.
    Reset,
    /// The peer broke the protocol.
    Violation,
    /// The peer would not have it.
    Refused(Refusal),
}

/// Why a session was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The peer speaks this version.
    Version(u8),
    /// The peer has no room for another session.
    Busy,
    /// The ends' bounds do not fit together.
    Terms,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Closed => f.write_str("the session was closed"),
            Lost::Timeout => f.write_str("the peer was silent for too long"),
            Lost::Restarted => f.write_str("the peer was started anew"),
            Lost::Reset => f.write_str("the peer has given the session up"),
            Lost::Violation => f.write_str("the peer broke the protocol"),
            Lost::Refused(Refusal::Version(version)) => {
                write!(f, "the peer speaks version {version}, not {}", wire::VERSION)
            }
            Lost::Refused(Refusal::Busy) => f.write_str("the peer has no room for another session"),
            Lost::Refused(Refusal::Terms) => f.write_str("the bounds of the two ends do not fit together"),
        }
    }
}

impl std::error::Error for Lost {}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No room yet: the session is not established, or too much is unacknowledged.
    Full,
    /// Longer than the ends have agreed on.
    TooLarge,
    /// The session is over or being closed.
    Gone,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Full => "the session has no room yet",
            SendError::TooLarge => "the message is longer than agreed",
            SendError::Gone => "the session is over",
        })
    }
}

impl std::error::Error for SendError {}

/// What happened in a session so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Datagrams written.
    pub datagrams_sent: u64,
    /// Datagrams given to the session.
    pub datagrams_received: u64,
    /// Of these, changed on the way, or none of ours.
    pub corrupt: u64,
    /// Of these, for an earlier session of the same number.
    pub stale: u64,
    /// Packets that arrived again.
    pub duplicate_packets: u64,
    /// Pieces that arrived again, in another packet.
    pub duplicate_pieces: u64,
    /// Packets taken for lost; what they carried was sent again.
    pub lost_packets: u64,
    /// Times that no answer came at all.
    pub timeouts: u64,
    /// Messages taken by [`Session::send`].
    pub messages_sent: u64,
    /// Messages handed out.
    pub messages_received: u64,
    /// Round trip, smoothed.
    pub rtt: Nanos,
    /// Round trip, shortest; [`Nanos::MAX`] before the first.
    pub min_rtt: Nanos,
    /// Bytes that may be on their way.
    pub window_bytes: usize,
    /// Bytes that are.
    pub in_flight_bytes: usize,
    /// Messages not acknowledged.
    pub queued_messages: usize,
    /// Their bytes.
    pub queued_bytes: usize,
}

impl Session {
    /// The number that the opener chose.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether messages can be sent.
    pub fn is_established(&self) -> bool {
        matches!(self.phase, Phase::Accepted { .. } | Phase::Established)
    }

    /// How it ended, if it has. Messages that are complete can still be taken.
    pub fn lost(&self) -> Option<Lost> {
        match self.phase {
            Phase::Over(lost) => Some(lost),
            _ => None,
        }
    }

    /// Whether the peer has acknowledged everything that was sent; so too once the session is over, when nothing is kept.
    pub fn is_drained(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Takes a message, the concatenation of `parts`, to be sent by [`Session::poll_transmit`].
    ///
    /// # Errors
    /// [`SendError`]; nothing was taken then.
    pub fn send(&mut self, parts: &[&[u8]]) -> Result<(), SendError> {
        match self.phase {
            Phase::Over(_) => return Err(SendError::Gone),
            _ if self.closing.is_some() => return Err(SendError::Gone),
            Phase::Opening { .. } => return Err(SendError::Full),
            Phase::Accepted { .. } | Phase::Established => {}
        }
        let total = parts.iter().map(|part| part.len()).sum();
        if total > self.max_message {
            return Err(SendError::TooLarge);
        }
        if !self.outbox.push(parts, total) {
            return Err(SendError::Full);
        }
        self.stats.messages_sent += 1;
        Ok(())
    }

    /// The next complete message, once; the credit for it goes out with the next datagrams.
    pub fn poll_message(&mut self) -> Option<&[u8]> {
        self.stats.messages_received += u64::from(self.inbox.has_ready());
        self.inbox.next()
    }

    /// Counters and gauges.
    pub fn stats(&self) -> Stats {
        let (queued_messages, queued_bytes) = self.outbox.queued();
        Stats {
            rtt: self.rtt.smoothed,
            min_rtt: self.rtt.min,
            window_bytes: self.congestion.window,
            in_flight_bytes: self.flight.bytes,
            queued_messages,
            queued_bytes,
            ..self.stats
        }
    }

    /// Bytes of messages that the peer has begun and that were not taken by [`Session::poll_message`]; at most `receive_bytes`.
    pub fn held_bytes(&self) -> usize {
        self.inbox.held()
    }

    /// Bytes allocated, beside the session itself.
    pub fn memory(&self) -> usize {
        self.outbox.memory() + self.inbox.memory() + self.flight.memory() + self.received.memory()
    }

    /// What [`Session::memory`] never exceeds. Reached only with the worst mix of messages in both directions; what is not used
    /// is not allocated.
    pub fn memory_bound(&self) -> usize {
        let c = &self.config;
        let unit = usize::from(config::unit(self.datagram_bytes));
        let fragments = c.send_messages + c.send_bytes / unit;
        let outgoing = c.send_bytes + 2 * fragments * (32 + 16);
        let incoming =
            5 * c.receive_bytes + c.receive_messages * 2 * (16 + 48) + 2 * c.receive_bytes / unit * 100;
        outgoing + incoming + 2 * (c.max_in_flight + 16) * 40 + (8 << 10)
    }
}
