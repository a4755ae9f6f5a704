//! One core of a box: its machine, at a driver of its own, and rings to the others.
//!
//! ```text
//!            ┌─ ring ─▶ core 1        what a core's machine is told by another is handled in `tick`: a core that
//!   core 0 ──┼─ ring ─▶ core 2        sleeps is woken by its doorbell
//!            └─ …     ◀─ ring ─ each
//! ```
//! Who tells whom what: `protocol::coherence::boxes::shards`. What finds a ring full is lost, and told again when it is asked for again.
//!
//! Bounds: `RING` in each ring; messages in them are controls without a value, but for tables.

use super::machine::{Counters, Machine};
use base::Nanos;
use protocol::coherence::boxes::shards::{Aside, Asides, Shard, Sharing};
use protocol::coherence::moved::Moved;
use protocol::coherence::{NodeId, Out, Planted};
use protocol::planted::Bugs;
use protocol::wire::Message;
use ring::spsc::{Consume, Hybrid, Kind, Produce, hybrid};
use ring::wait::{Sleeper, Waker, waiting_on_eventfd};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What one core may have told another that has not heard it.
const RING: u32 = 256;

/// A ring to another core, and one from it.
struct Peer {
    index: u8,
    send: hybrid::Producer<Aside>,
    receive: hybrid::Consumer<Aside>,
    waker: Waker,
}

/// A core's ends of all its rings.
pub struct Ends {
    peers: Vec<Peer>,
    sleeper: Sleeper,
}

/// The rings between the first of so many cores and each other.
///
/// # Errors
/// No descriptors are left.
pub fn star(of: u8) -> io::Result<Vec<Ends>> {
    let bells = (0..of).map(|_| waiting_on_eventfd()).collect::<io::Result<Vec<_>>>()?;
    let (sleepers, wakers): (Vec<Sleeper>, Vec<Waker>) = bells.into_iter().unzip();
    let mut all: Vec<Ends> =
        sleepers.into_iter().map(|sleeper| Ends { peers: Vec::new(), sleeper }).collect();
    for index in 1..of {
        let (to, at_other) = Hybrid::heap(RING);
        let (from, at_first) = Hybrid::heap(RING);
        let waker = wakers[usize::from(index)].clone();
        all[0].peers.push(Peer { index, send: to, receive: at_first, waker });
        let waker = wakers[0].clone();
        all[usize::from(index)].peers.push(Peer { index: 0, send: from, receive: at_other, waker });
    }
    Ok(all)
}

/// See the head of the file.
pub struct Core<M, B> {
    machine: M,
    sharing: Sharing<B>,
    ends: Ends,
    /// Empty, but for its memory.
    asides: Asides,
    /// A ring had something when it was looked at last.
    is_told: bool,
    lost: u64,
}

impl<M: Machine, B: Bugs<Planted>> Core<M, B> {
    /// Of a shard's machine that has heard nothing yet.
    pub fn new(machine: M, shard: Shard, ends: Ends, planted: B) -> Core<M, B> {
        let sharing = Sharing::with_bugs(shard, planted);
        Core { machine, sharing, ends, asides: Asides::new(), is_told: false, lost: 0 }
    }

    fn hear_others(&mut self, now: Nanos, out: &mut Out) {
        let Core { machine, sharing, ends, asides, .. } = self;
        for peer in &mut ends.peers {
            // What comes meanwhile waits for the next turn.
            for _ in 0..RING {
                let Some(aside) = peer.receive.try_pop() else { break };
                sharing.hear(peer.index, aside, out, asides, |from, message, out| {
                    machine.handle(now, from, message, out);
                });
            }
        }
    }

    /// Before anything of what the machine said is sent.
    fn tell(&mut self) {
        for (index, aside) in self.asides.drain(..) {
            let peer = self.ends.peers.iter_mut().find(|peer| peer.index == index);
            let peer = peer.expect("the first core has rings to all, the others to it");
            self.lost += u64::from(peer.send.try_push(aside).is_err());
            peer.send.publish();
            peer.waker.wake();
        }
    }
}

impl<M: Machine, B: Bugs<Planted>> Machine for Core<M, B> {
    fn handle(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        let machine = &mut self.machine;
        self.sharing.handle((from, message), out, &mut self.asides, |from, message, out| {
            machine.handle(now, from, message, out);
        });
        self.tell();
    }

    fn tick(&mut self, now: Nanos, out: &mut Out) {
        self.is_told = false;
        self.hear_others(now, out);
        let machine = &mut self.machine;
        self.sharing.act(out, &mut self.asides, |out| machine.tick(now, out));
        self.tell();
    }

    fn next_deadline(&self) -> Nanos {
        if self.is_told { Nanos::ZERO } else { self.machine.next_deadline() }
    }

    fn counters(&self) -> Counters {
        let mut counters = self.machine.counters();
        counters.push(("at the wrong core", self.sharing.strays()));
        counters.push(("lost between cores", self.lost));
        counters
    }

    fn fast_times(&self) -> Vec<(&'static str, Vec<u64>)> {
        self.machine.fast_times()
    }

    fn moved(&self) -> Option<&Arc<Moved>> {
        self.machine.moved()
    }

    fn cores(&self) -> u8 {
        self.sharing.shard().of()
    }

    fn arm(&mut self) {
        self.ends.sleeper.arm();
        self.is_told = self.ends.peers.iter_mut().any(|peer| peer.receive.is_ready());
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.ends.sleeper.descriptor()
    }

    fn disarm(&mut self) {
        self.ends.sleeper.disarm();
        self.is_told |= self.ends.peers.iter_mut().any(|peer| peer.receive.is_ready());
    }
}
