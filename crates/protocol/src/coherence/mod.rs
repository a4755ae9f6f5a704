//! A cache in the network that stays coherent: clients, boxes on the way, homes, and a controller, as state machines.
//! The protocol, with why it is linearizable, is in `docs/design/004-box.md`.
//!
//! ```text
//!  Client ──GET──▶ Box ──GET, its token──▶ Box ──GET, both tokens──▶ Home      a hit on the way answers; what is on the way back
//!         ◀─────── keeps ◀──────────────── keeps ◀──value, lease────            is kept only by whose token is in it
//!
//!  Client ──SET──────────────────────────────────────────────▶ Home            the home waits for every box that it granted a
//!                   Box ◀──INVALIDATE── Box ◀──INVALIDATE──────                 lease, or for the lease's end; then it applies
//!                       ──ACK──▶            ──ACK──▶                            the write, and answers
//! ```
//!
//! Each machine is a value: `handle(now, from, message, out)` takes a message, `tick(now, out)` serves deadlines,
//! `next_deadline()` says when. No socket, clock, thread, or order of a hash table is in it, and the only randomness is a
//! [`Prng`](base::Prng) with a given seed. Who is who: [`NodeId`]; what address that is is the driver's business, and so is
//! [`Header::origin`](crate::wire::Header::origin), which machines carry along and never read.
//!
//! | file | what |
//! |---|---|
//! | [`lease`] | the one place where spans become moments |
//! | [`compute`] | what operations do to items |
//! | [`ownership`] | what a home and the box that it gives a key to tell each other |
//! | [`holders`], [`rounds`] | who may hold a copy; asking them to drop it. Of homes, and of boxes for those below them |
//! | [`table`], [`ranges`] | topology, slots, designated boxes, ways round dead ones; where copies may be kept, by slots |
//! | [`client`], [`boxes`], [`home`], [`controller`] | the four machines |
//! | [`moved`], [`book`] | homes that are elsewhere than the file says; who is at which address, by that |
//! | [`guard`] | who may say what: beside a machine, in whatever drives it |
//!
//! Time: each node has its own clock, in nanoseconds from anywhere. Clocks run equally fast to within [`lease::DRIFT`].
//!
//! Bounds: every table is made with its size; see [`Config`]. Errors: what arrives and makes no sense is dropped, counted, and never
//! panics.

pub mod book;
pub mod boxes;
pub mod client;
pub mod compute;
pub mod controller;
pub mod guard;
pub mod holders;
pub mod home;
pub mod lease;
pub mod moved;
pub mod ownership;
pub mod planted;
pub mod published;
pub mod ranges;
pub mod rounds;
pub mod table;
#[cfg(test)]
mod tests;

pub use book::Book;
pub use boxes::Box as CacheBox;
pub use client::Client;
pub use controller::Controller;
pub use guard::Guard;
pub use home::Home;
pub use planted::Planted;

use crate::wire::{BoxId, ClientId, Flags, Header, HomeId, KeyRule, MAX_KEY, MAX_VALUE, Message, Verb};
use base::Nanos;
use std::fmt;

/// Who sends, or is to have, a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeId {
    /// A client.
    Client(ClientId),
    /// A box.
    Box(BoxId),
    /// A home.
    Home(HomeId),
    /// A controller, by its index.
    Controller(u8),
}

/// Messages to be sent, each with its receiver, in order.
pub type Out = Vec<(NodeId, Message)>;

/// Whether a node was there before. What an earlier life granted may run still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Life {
    /// It was not.
    First,
    /// It was, or may have been.
    Again,
}

/// Where copies stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Every designated box on the way keeps one.
    Inclusive,
    /// A box leaves a copy to the one below it, and stays as its directory.
    Exclusive,
}

/// Where a client has operations done that compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// At the home.
    AtHome,
    /// Those that may change nothing first as a read, which a box may answer; at the home if they would change something.
    TryFirst,
    /// Arithmetic in the client's box where that owns the key, or else at the home, which may give it the key; others as with
    /// `TryFirst`. A box that dies takes the keys with it that it owns.
    Own,
}

/// Bounds and times of all machines. Leases must agree: [`Config::lease`] is the longest that any home ever grants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// A home grants so long. Also how long a home, and a box as directory, stays silent after a start.
    pub lease: Nanos,
    /// A box with less left of its lease asks for a new one, rather than to grant the rest to those below it.
    pub min_grant: Nanos,
    /// Sent again for the first time after this, then after twice that, …
    pub retransmit: Nanos,
    /// … and never later than this.
    pub retransmit_max: Nanos,
    /// Where copies stay.
    pub policy: Policy,
    /// A box keeps what was asked for so often lately; 0 and 1 are everything.
    pub admission: u32,
    /// Copies of a box.
    pub copies: usize,
    /// Fills that a box waits for.
    pub fills: usize,
    /// A fill is given up after this.
    pub fill_patience: Nanos,
    /// Keys that a box or home has in its directory.
    pub holders: usize,
    /// Invalidations that a box or home waits for.
    pub rounds: usize,
    /// Writes that wait at a home.
    pub queue: usize,
    /// Writes that wait for one key.
    pub queue_per_key: usize,
    /// Sessions of a home.
    pub sessions: usize,
    /// Operations of a session that can be told apart: between a client's oldest in progress and its newest.
    pub window: u64,
    /// Operations that a client has under way.
    pub operations: usize,
    /// A client gives an operation up after this.
    pub patience: Nanos,
    /// So long a client that heard nothing from its box asks homes directly.
    pub bypass: Nanos,
    /// Percent of a client's reads that a box must answer, or it is asked for samples only; 0: it is always asked.
    pub worth: u32,
    /// Where clients have operations done that compute.
    pub compute: Compute,
    /// Keys that a box owns at a time.
    pub owned: usize,
    /// A controller asks for signs of life so often.
    pub heartbeat: Nanos,
    /// A node that was silent for so long is taken for dead; a controller, by others, for twice as long.
    pub health: Nanos,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            lease: Nanos::from_millis(500),
            min_grant: Nanos::from_millis(20),
            retransmit: Nanos::from_millis(5),
            retransmit_max: Nanos::from_millis(100),
            policy: Policy::Inclusive,
            admission: 0,
            copies: 4096,
            fills: 1024,
            fill_patience: Nanos::from_millis(100),
            holders: 1 << 20,
            rounds: 1 << 12,
            queue: 1 << 14,
            queue_per_key: 1 << 10,
            sessions: 1 << 12,
            window: 256,
            operations: 256,
            patience: Nanos::from_secs(3),
            bypass: Nanos::from_millis(500),
            worth: 10,
            compute: Compute::TryFirst,
            owned: 256,
            heartbeat: Nanos::from_millis(50),
            health: Nanos::from_millis(200),
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

/// A reply says its lease in microseconds of 32 bits.
const LONGEST_LEASE: Nanos = Nanos(u32::MAX as u64 * 1000);

impl Config {
    /// Whether the bounds agree with each other.
    ///
    /// # Errors
    /// [`BadConfig`], a sentence.
    pub fn check(&self) -> Result<(), BadConfig> {
        let sizes = [self.copies, self.fills, self.holders, self.rounds, self.queue, self.queue_per_key];
        let rules = [
            (sizes.iter().all(|size| *size > 0), "every table needs a place"),
            (
                self.sessions > 0 && self.window > 0 && self.operations > 0 && self.owned > 0,
                "every table needs a place",
            ),
            (self.lease <= LONGEST_LEASE, "a lease has at most 4294 seconds"),
            (self.worth < 100, "a box cannot answer more than all: worth is 0 to 99"),
            (self.retransmit > Nanos::ZERO, "who sends again waits before it"),
            (self.retransmit <= self.retransmit_max, "retransmit must be at most retransmit_max"),
            (
                self.heartbeat > Nanos::ZERO && self.heartbeat < self.health,
                "a node must be asked before it is dead",
            ),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err(BadConfig(why)))
    }
}

/// Whether a request of this verb is a read: answered where a copy is, done as often as it arrives.
fn is_read(verb: Verb, flags: Flags) -> bool {
    let can_be_tried = !matches!(verb, Verb::Flush | Verb::Noop | Verb::Session);
    verb == Verb::Get || (can_be_tried && flags.contains(Flags::TRY))
}

/// Whether it could be put into a packet: what came out of one can be.
fn is_well_formed(message: &Message) -> bool {
    let key = message.key.len();
    let key_fits = match message.header.opcode.key_rule() {
        KeyRule::One => (1..=MAX_KEY).contains(&key),
        KeyRule::None => key == 0,
        KeyRule::OneOrAll => key <= MAX_KEY,
    };
    key_fits && message.value.len() <= MAX_VALUE
}

/// Where a reply goes next: to the sharer before `here`, the last one if `here` is none, and after them to the client.
fn way_back(header: &Header, here: Option<BoxId>) -> NodeId {
    let before = header.sharers.iter().take_while(|sharer| Some(sharer.at) != here);
    before.last().map_or(NodeId::Client(header.client), |sharer| NodeId::Box(sharer.at))
}
