//! The stages in two places: the accelerator, where the wire is, and the host.
//!
//! ```text
//!             accelerator                          │                 host
//!  wire ──▶ slot ──▶ stages here ──▶ wire          │
//!            ▲           │  ▲                      │
//!            │           │  │ units (seal, open)   │
//!            │           └──── write, notify ──────┼──▶ slot ──▶ stages here
//!            └──────────── read ◀──── doorbell ────┼─────────────┘
//! ```
//! A packet crosses where the place of its next stage, or of the wire, is the other one; nowhere else. What crosses is counted by
//! [`Crossing`]: to the
//! host one write and one notification, back one doorbell and one read; a packet that ends on the host gives its slot back.
//! So the counts follow from the placement, and `tests.rs` holds them to the byte, for each placement.
//!
//! The accelerator is a thread ([`lane::Lane`]), with a compute unit for sealing and one for opening; the host is another ([`host::Host`]).
//! Neither has a clock or a socket.
//!
//! Moving a stage: no packet is admitted until those on their way have come to their end; then the stage itself, with all that it knows,
//! goes over. So no
//! packet sees two places' state, and none overtakes another.
//!
//! Bounds: [`CAPACITY`] packets on their way, [`WAITING`] that the gateway made itself.

pub mod host;
pub mod lane;
pub mod slots;
pub mod stages;

use crate::nat::Nat;
use crate::net::{Meta, Net, Next, Out, Reason};
use crate::registers::{Placement, Registers};
use crate::route::Route;
use crate::tunnel::Crypto;
use crate::tunnel::keys::Secret;
use codec::crossing::Crossing;
use codec::memory::Place;
use host::Host;
use lane::Lane;
use slots::Slots;
use stages::{Moved, Stages};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Packets on their way through the stages.
pub const CAPACITY: usize = 256;
/// Packets that the gateway made and that wait to be admitted.
pub const WAITING: usize = 1024;

/// What both places stand on.
pub struct Ground<C> {
    /// What moves bytes between the memories.
    pub crossing: C,
    host: Slots,
    acc: Slots,
}

/// What the lane asks of the host.
enum Request {
    /// Take a packet on.
    Packet { slot: u32, meta: Meta, now_ns: u64 },
    /// Do what is due.
    Tick { now_ns: u64 },
    /// Hand a stage over.
    Take(crate::net::Stage),
    /// Have a stage.
    Give(Moved),
}

/// What the host answers.
enum Answer {
    /// Of a packet: where it is now, and what is next.
    Packet { slot: u32, meta: Meta, next: Next, out: Option<Box<Out>> },
    /// It has done what was due.
    Ticked { out: Option<Box<Out>> },
    /// A stage that was asked for, or nothing where one was given.
    Moved(Option<Moved>),
}

/// What a gateway counts. Counters guard no data.
#[derive(Debug, Default)]
pub struct Counters {
    /// Frames from interfaces, and their bytes.
    pub received: [AtomicU64; 2],
    /// Frames to interfaces, and their bytes.
    pub sent: [AtomicU64; 2],
    /// Packets that the gateway made, or had kept.
    pub made: AtomicU64,
    /// Packets for the gateway itself, or kept.
    pub taken: AtomicU64,
    /// Packets that ended, by [`Reason`].
    pub dropped: [AtomicU64; Reason::ALL.len()],
    /// Frames that an interface had no room to keep for us.
    pub missed: AtomicU64,
    /// Flows of NAT, at the last tick.
    pub flows: AtomicU64,
    /// The tunnel's session; 0: there is none.
    pub session: AtomicU64,
    /// Stages that were moved.
    pub moves: AtomicU64,
}

/// What a gateway counted so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// See [`Counters`]; all counts.
    pub received: [u64; 2],
    /// See [`Counters`].
    pub sent: [u64; 2],
    /// See [`Counters`].
    pub made: u64,
    /// See [`Counters`].
    pub taken: u64,
    /// Those that are not 0.
    pub dropped: Vec<(Reason, u64)>,
    /// See [`Counters`].
    pub missed: u64,
    /// See [`Counters`].
    pub flows: u64,
    /// See [`Counters`].
    pub session: u64,
    /// See [`Counters`].
    pub moves: u64,
}

impl Counters {
    fn end(&self, reason: Reason) {
        self.dropped[reason as usize].fetch_add(1, Relaxed);
    }

    fn frame(of: &[AtomicU64; 2], len: usize) {
        of[0].fetch_add(1, Relaxed);
        of[1].fetch_add(len as u64, Relaxed);
    }

    /// As they are now.
    pub fn figures(&self) -> Figures {
        let two = |of: &[AtomicU64; 2]| [of[0].load(Relaxed), of[1].load(Relaxed)];
        let dropped =
            Reason::ALL.iter().map(|reason| (*reason, self.dropped[*reason as usize].load(Relaxed)));
        Figures {
            received: two(&self.received),
            sent: two(&self.sent),
            made: self.made.load(Relaxed),
            taken: self.taken.load(Relaxed),
            dropped: dropped.filter(|(_, count)| *count > 0).collect(),
            missed: self.missed.load(Relaxed),
            flows: self.flows.load(Relaxed),
            session: self.session.load(Relaxed),
            moves: self.moves.load(Relaxed),
        }
    }
}

/// What a gateway is made of.
pub struct Setting {
    /// The network.
    pub net: Arc<Net>,
    /// What is tuned.
    pub registers: Arc<Registers>,
    /// The tunnel's.
    pub secret: Secret,
    /// Of this start: never drawn before, from a source that nobody can guess.
    pub drawn: [u8; 16],
    /// Where the stages are at first.
    pub placement: Placement,
}

/// Both places.
///
/// # Errors
/// The system has no memory.
pub fn places<C: Crossing + Send + Sync + 'static>(
    setting: Setting,
    crossing: C,
    wait: ring::wait::WaitPolicy,
) -> io::Result<(Lane<C>, Host<C>)> {
    let Setting { net, registers, secret, drawn, placement } = setting;
    let ground =
        Ground { crossing, host: Slots::new(CAPACITY as u32 + 1)?, acc: Slots::new(2 * CAPACITY as u32)? };
    let ground = Arc::new(ground);
    let (client, server) = ring::pair::pair(2 * CAPACITY as u32);
    let seed = u64::from_le_bytes(drawn[..8].try_into().expect("eight bytes")).rotate_left(17);
    let all = [
        Moved::Route(Box::new(Route::new(net.clone()))),
        Moved::Nat(Box::new(Nat::new(&net, registers, seed))),
        Moved::Crypto(Box::new(Crypto::new(net.clone(), secret, drawn))),
    ];
    let (mut on_lane, mut on_host) = (Stages::default(), Stages::default());
    for (stage, place) in all.into_iter().zip(placement) {
        if place == Place::Acc { on_lane.give(stage) } else { on_host.give(stage) }
    }
    let lane = Lane::new(client, ground.clone(), net, on_lane, placement, wait);
    let host = Host::new(server, ground, on_host, lane.counters());
    Ok((lane, host))
}

#[cfg(test)]
pub(crate) mod tests;
