//! Transactions over a chain of replicas: clients, replicas and a controller, as state machines.
//! The protocol, with why it is strictly serializable, is in `docs/design/006-chain.md`.
//!
//! ```text
//!  Client ──REQUEST──▶ head ──APPEND──▶ middle ──APPEND──▶ tail         each logs, and only when that is durable sends on
//!         ◀──REPLY───  head ◀───ACK───  middle ◀───ACK───  tail         the tail's log is the commit; each applies on the way back
//!  Client ──READ───────────────────────────────────────▶ tail           or any replica: what is clean at once, else the tail is asked
//!
//!  controller ◀──ALIVE── each replica      ──CONFIGURATION, a lease──▶ each replica
//! ```
//!
//! Each machine is a value: `handle(now, from, message, out)` takes a message, `tick(now, out)` serves deadlines, `next_deadline()` says
//! when. No socket, file, clock, thread, or order of a hash table is in it. A replica owns an [`Image`] (where items are, by offset) and
//! a [`Log`] (the redo log); its driver makes the log durable and calls `tick`, which sees how far that is.
//!
//! Time: each node has its own clock, in nanoseconds from anywhere. Clocks run equally fast to within [`Config::drift_percent`].
//!
//! Bounds: see [`Config`] and [`transaction`]. Errors: what arrives and makes no sense is dropped, counted, and never panics.

pub mod at_home;
pub mod attributes;
pub mod build;
pub mod claim;
pub mod client;
pub mod controller;
pub mod entry;
pub mod image;
pub mod locks;
pub mod log;
pub mod message;
pub mod operator;
pub mod order;
pub mod planted;
pub mod replica;
pub mod slots;
pub mod text;
pub mod transaction;
pub mod wire;

pub use claim::Claim;
pub use client::Client;
pub use controller::Controller;
pub use entry::{Entry, Tuple};
pub use image::{Image, Key, Space};
pub use log::Log;
pub use message::Message;
pub use operator::Operator;
pub use order::{Action, Order, OrderRefused, OrderReply, ReplicaAddress};
pub use planted::Planted;
pub use replica::Replica;
pub use slots::Slots;
pub use transaction::{Outcome, TraceContext, Transaction};

use base::Nanos;
use std::fmt;

/// A place in the order of transactions: the first is 1; 0 is before all. Also the version that a transaction gives to what it writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before the first.
    pub const ZERO: Lsn = Lsn(0);

    /// The one after this.
    pub const fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}

/// Neighbouring places in the order, both of them too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gap {
    /// The first.
    pub first: Lsn,
    /// The last.
    pub last: Lsn,
}

/// The number of a configuration of a chain; grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// A replica's number in its chain; stays the same over restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u16);

/// Which life of a replica: whoever starts one gives it a higher number than all of its lives before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

/// A client's session: what its sequence numbers belong to. Given by the chain: 128 bits that nobody else can guess, so whoever has them is the
/// session's owner. 0 is no session.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u128);

impl SessionId {
    /// As it travels and is kept.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// From its bytes; `None` if there are not 16. No bytes at all are no session.
    pub fn from_bytes(bytes: &[u8]) -> Option<SessionId> {
        match bytes {
            [] => Some(SessionId(0)),
            bytes => Some(SessionId(u128::from_be_bytes(bytes.try_into().ok()?))),
        }
    }
}

/// For its owner: 32 hexadecimal digits.
impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Logs are read by others than the owner: enough to tell sessions apart, too little to use one.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({:04x}..)", self.0 >> 112)
    }
}

/// What `Display` writes.
impl std::str::FromStr for SessionId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<SessionId, &'static str> {
        let is_hex = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
        number.map(SessionId).ok_or("a session is 32 hexadecimal digits")
    }
}

/// Who sends, or is to have, a message. What address that is is the driver's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeId {
    /// A client, or a connection of one: where the reply goes.
    Client(u64),
    /// A replica.
    Replica(ReplicaId),
    /// A controller, by its number.
    Controller(u16),
    /// For clients alone: the home of boxes that has claimed the chain.
    Home,
}

/// Messages to be sent, each with its receiver, in order.
pub type Out = Vec<(NodeId, Message)>;

/// What survives what, for a reply: the weakest of the replicas' media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Lost when the process ends; the other replicas still have it.
    #[default]
    Volatile,
    /// Survives the end of the process (kill -9), not of the machine.
    ProcessCrash,
    /// Survives the end of the operating system and of power, as far as the device keeps what it acknowledged.
    PowerLoss,
}

/// A replica's part in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Has everything; acknowledges; may serve reads.
    Serving,
    /// Always the last; is given everything, acknowledges nothing that the others wait for until it has caught up, serves no reads.
    Syncing,
}

/// A replica in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Which.
    pub replica: ReplicaId,
    /// Which life of it: another life of the same replica is not meant.
    pub incarnation: Incarnation,
    /// Its part.
    pub part: Part,
}

/// Who is in a chain, from head to tail; at most one member, the last, is syncing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Configuration {
    /// Its number.
    pub epoch: Epoch,
    /// That of the last configuration that accepted loss ([`Controller::reset`]); 0 for none. Sessions from before it are refused: what they
    /// were told may be among what was lost.
    pub reset: Epoch,
    /// Up to here all was committed when this configuration was made, as far as the controller had heard: whoever comes back with less has
    /// lost it.
    pub kept: Lsn,
    /// From head to tail.
    pub members: Vec<Member>,
    /// All replicas that belong to the chain, members or not, and where they are. Empty before the first order: then what the controllers were
    /// started with counts.
    pub roster: Vec<ReplicaAddress>,
    /// Who served, lives, and was left out by the order that made this configuration. Nobody else hears of it before they have, or their leases
    /// are over: they may still read until then.
    pub left: Vec<Member>,
    /// The last order that was obeyed.
    pub ordered: Option<Order>,
    /// The slots whose keys the chain has, from when it began; a replica refuses others. What was written before there were slots has all.
    pub slots: Slots,
}

impl Configuration {
    /// The first serving member.
    pub fn head(&self) -> Option<Member> {
        self.serving().next()
    }

    /// The last serving member.
    pub fn tail(&self) -> Option<Member> {
        self.serving().last()
    }

    /// The serving members in order.
    pub fn serving(&self) -> impl Iterator<Item = Member> {
        self.members.iter().copied().filter(|member| member.part == Part::Serving)
    }

    /// Where a replica stands.
    pub fn position(&self, replica: ReplicaId) -> Option<usize> {
        self.members.iter().position(|member| member.replica == replica)
    }
}

/// Bounds and times of all machines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// A chain answers only messages with its own number.
    pub chain: u32,
    /// The slots that a new chain has; one that has begun goes by its [`Configuration`].
    pub slots: Slots,
    /// Transactions that the head has under way (logged, not committed).
    pub window: usize,
    /// Bytes of their entries.
    pub window_bytes: usize,
    /// Transactions that wait for keys or for the window; BUSY beyond it.
    pub queue: usize,
    /// Bytes of their keys and values; BUSY beyond it.
    pub queue_bytes: usize,
    /// Sessions; opening one more forgets the one that was used least recently.
    pub sessions: usize,
    /// Sequence numbers of a session that may be under way at once, and replies that are remembered for each.
    pub session_window: u64,
    /// Sent again for the first time after this, then after twice that, …
    pub retransmit: Nanos,
    /// … and never later than this.
    pub retransmit_max: Nanos,
    /// Bytes of an image chunk on its way to a syncing replica.
    pub chunk_bytes: usize,
    /// Chunks under way at once.
    pub chunks: usize,
    /// Entries kept in memory below the committed one, for a replica that was away shortly; further back the log is read.
    pub kept: usize,
    /// A replica says that it lives so often.
    pub heartbeat: Nanos,
    /// A replica serves reads so long after it asked for the lease that it got. The controller takes it for dead, and gives its part to
    /// others, after this and the drift.
    pub lease: Nanos,
    /// How much clocks may differ in speed.
    pub drift_percent: u64,
    /// After all replicas were down, a controller waits so long for more of them, before it goes on with those that are there.
    pub gather: Nanos,
    /// A client gives up after this.
    pub patience: Nanos,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            chain: 1,
            slots: Slots::default(),
            window: 1024,
            window_bytes: 16 << 20,
            queue: 4096,
            queue_bytes: 64 << 20,
            sessions: 4096,
            session_window: 64,
            retransmit: Nanos::from_millis(20),
            retransmit_max: Nanos::from_millis(320),
            chunk_bytes: 256 << 10,
            chunks: 4,
            kept: 4096,
            heartbeat: Nanos::from_millis(50),
            lease: Nanos::from_millis(500),
            drift_percent: 1,
            gather: Nanos::from_secs(2),
            patience: Nanos::from_secs(10),
        }
    }
}

/// Why a configuration cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadConfig(&'static str);

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadConfig {}

impl Config {
    /// Whether the bounds agree with each other.
    ///
    /// # Errors
    /// [`BadConfig`], a sentence.
    pub fn check(&self) -> Result<(), BadConfig> {
        let sizes =
            [self.window, self.window_bytes, self.queue, self.sessions, self.chunk_bytes, self.chunks];
        let rules = [
            (sizes.iter().all(|size| *size > 0) && self.session_window > 0, "every table needs a place"),
            (self.retransmit > Nanos::ZERO, "who sends again waits before it"),
            (self.retransmit <= self.retransmit_max, "retransmit must be at most retransmit_max"),
            (
                self.heartbeat > Nanos::ZERO && self.heartbeat.0 * 3 <= self.lease.0,
                "a lease needs three heartbeats",
            ),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err(BadConfig(why)))
    }
}

#[cfg(test)]
mod tests;
