//! Links between the nodes of a chain: one between each two that have something to tell each other.
//!
//! ```text
//!  replica 2 ── dials ──▶ replica 1        the higher number dials the lower; a replica dials controllers
//!            ── greeting (chain, who, where it serves) ──▶  first, and again whenever there was silence; whoever is someone else is hung up on
//!            ◀─ greeting ──────────────
//!            ◀─ messages (`protocol::chain::wire`), a frame each ─▶
//! ```
//! Any fabric transport carries them: rings in shared memory within a machine, UDP sessions, Unix or TCP streams between.
//!
//! Invariants:
//! 1. A message is sent once, whole, or not at all: nothing of a link that was lost is sent again. The machines send again what matters.
//! 2. A node that greets anew over another link is believed, and the link before is dropped: it may not have noticed its end yet.
//! 3. Nothing here blocks. What may take long, to dial, is done by a thread of its own (`dials`).
//!
//! Bounds: `MOST_QUEUED` bytes that wait for room, for each peer; beyond it messages are dropped and counted. `MOST_ARRIVALS` links
//! that have not greeted, each for `SILENCE`.
//!
//! Errors: a link that is lost, silent for `SILENCE`, or says what is no message of this chain, is dropped and dialled again, after
//! 5 ms at first and `LONGEST_PAUSE` at most. No authentication: whoever reaches the address can be anyone.

mod dials;
mod greeting;

use base::Nanos;
use dials::Dials;
use fabric::link::{self, Address, Frames, Link, LinkOptions, Listener, SendError};
use greeting::Greeting;
use protocol::chain::{Message, NodeId, ReplicaId, wire};
use rustix::fd::BorrowedFd;
use std::collections::VecDeque;
use std::io;

/// Bytes that wait for room in the link to one peer.
const MOST_QUEUED: usize = 32 << 20;
/// Links that were accepted and have not greeted.
const MOST_ARRIVALS: usize = 64;
/// Frames taken from one peer before it is another's turn.
const QUANTUM: usize = 64;
/// A peer to which nothing was said for as long is greeted again.
const BEAT: Nanos = Nanos::from_millis(500);
/// A peer of which nothing was heard for as long is out of reach.
const SILENCE: Nanos = Nanos::from_secs(3);
/// Between two attempts to dial.
const FIRST_PAUSE: Nanos = Nanos::from_millis(5);
const LONGEST_PAUSE: Nanos = Nanos::from_millis(500);
/// How often a node that is busy looks for new links; one that sleeps is woken by them.
const LOOK_EVERY: Nanos = Nanos::from_millis(1);

/// The links of one node.
pub struct Links {
    chain: u32,
    /// What every link begins with.
    greeting: Vec<u8>,
    listener: Option<Box<dyn Listener>>,
    look_at: Nanos,
    peers: Vec<Peer>,
    arrivals: Vec<Arrival>,
    dials: Dials,
    frames: Frames,
    /// A message on its way into a link.
    bytes: Vec<u8>,
    /// Links of nodes that are not expected here.
    strangers: u64,
}

/// Another node.
struct Peer {
    node: NodeId,
    /// Where this node dials it; `None`: it dials.
    address: Option<Address>,
    state: State,
    /// Messages that found no room.
    queue: VecDeque<Vec<u8>>,
    queued: usize,
    /// Where clients find it, as it says; empty if it does not.
    serves: String,
    heard: Nanos,
    said: Nanos,
    /// Before the next attempt.
    pause: Nanos,
    counts: Counts,
}

enum State {
    /// Dialled again then; never, if it is the one that dials.
    Down(Nanos),
    Dialling,
    Up(Box<dyn Link>),
}

/// A link that was accepted and has not greeted.
struct Arrival {
    link: Box<dyn Link>,
    since: Nanos,
}

/// What went between this node and another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages.
    pub sent: u64,
    /// Messages.
    pub received: u64,
    /// Messages for which there was no link or no room.
    pub dropped: u64,
    /// Frames that were no message of this chain.
    pub malformed: u64,
    /// Times that a link came to be.
    pub links: u64,
}

impl Counts {
    /// Both together.
    pub fn add(&mut self, other: &Counts) {
        self.sent += other.sent;
        self.received += other.received;
        self.dropped += other.dropped;
        self.malformed += other.malformed;
        self.links += other.links;
    }
}

impl Links {
    /// The links of `me` in a chain. It listens at `listen` for those of `peers` that dial it, and dials the others where
    /// they are. It tells all of them that clients find it at `serves`.
    ///
    /// # Errors
    /// It cannot listen there, or the system gives no eventfd.
    pub fn new(
        chain: u32,
        me: NodeId,
        listen: Option<&Address>,
        serves: &str,
        peers: impl IntoIterator<Item = (NodeId, Option<Address>)>,
    ) -> io::Result<Links> {
        let listener = listen.map(|address| link::listen(address, &options())).transpose()?;
        let peers = peers
            .into_iter()
            .filter(|(node, _)| *node != me)
            .map(|(node, address)| Peer::new(node, address.filter(|_| dials(me, node))))
            .collect();
        Ok(Links {
            chain,
            greeting: Greeting { chain, node: me, serves: serves.to_owned() }.emit(),
            listener,
            look_at: Nanos::ZERO,
            peers,
            arrivals: Vec::new(),
            dials: Dials::new()?,
            frames: Frames::default(),
            bytes: Vec::new(),
            strangers: 0,
        })
    }

    /// Where it listens; what the system chose, if that was left to it.
    pub fn address(&self) -> Option<&Address> {
        self.listener.as_ref().map(|listener| listener.address())
    }

    /// Sends a message, if there is a link or will be soon; see [`Links::flush`].
    pub fn send(&mut self, now: Nanos, to: NodeId, message: &Message) {
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.node == to) else { return };
        self.bytes.clear();
        wire::emit(self.chain, message, &mut self.bytes);
        peer.send(now, &self.bytes);
    }

    /// Takes what came, from each peer a quantum; how many messages that is.
    pub fn poll(&mut self, now: Nanos, into: &mut Vec<(NodeId, Message)>) -> usize {
        let before = into.len();
        if now >= self.look_at {
            self.look_at = now.plus(LOOK_EVERY);
            self.look(now);
        }
        for peer in &mut self.peers {
            peer.poll(now, self.chain, &mut self.frames, into);
            peer.keep(now, &self.greeting, &self.dials);
        }
        into.len() - before
    }

    /// New links, and dials that have ended.
    fn look(&mut self, now: Nanos) {
        while let Some((node, link)) = self.dials.next() {
            let peer = self.peers.iter_mut().find(|peer| peer.node == node).expect("it was dialled");
            match link {
                Ok(link) => peer.rise(now, &self.greeting, link),
                Err(_) => peer.fall(now),
            }
        }
        if let Some(listener) = &mut self.listener {
            // An error is one client's, or passes: there are no descriptors just now.
            while let Ok(Some(link)) = listener.accept(now) {
                if self.arrivals.len() < MOST_ARRIVALS {
                    self.arrivals.push(Arrival { link, since: now });
                }
            }
        }
        for at in (0..self.arrivals.len()).rev() {
            match self.arrivals[at].greeting(now, &mut self.frames) {
                Heard::Nothing => {}
                Heard::Gone => drop(self.arrivals.swap_remove(at)),
                Heard::Greeting(theirs) => {
                    let Arrival { link, .. } = self.arrivals.swap_remove(at);
                    let expected = |peer: &&mut Peer| peer.node == theirs.node && peer.address.is_none();
                    match self.peers.iter_mut().find(expected) {
                        Some(peer) if theirs.chain == self.chain => {
                            peer.serves = theirs.serves;
                            peer.rise(now, &self.greeting, link);
                        }
                        _ => self.strangers += 1,
                    }
                }
            }
        }
    }

    /// Puts what was sent on its way.
    pub fn flush(&mut self, now: Nanos) {
        self.peers.iter_mut().for_each(|peer| peer.flush(now));
    }

    /// When [`Links::poll`] is wanted although nothing comes.
    pub fn next_deadline(&self) -> Nanos {
        let peers = self.peers.iter().map(Peer::next_deadline);
        let arrivals =
            self.arrivals.iter().map(|arrival| arrival.link.next_deadline().min(arrival.since.plus(SILENCE)));
        let listener = self.listener.iter().map(|listener| listener.next_deadline());
        peers.chain(arrivals).chain(listener).min().unwrap_or(Nanos::MAX)
    }

    /// Before sleeping on the descriptors: whether there is nothing to do. Whatever it says, [`Links::disarm`] comes next.
    pub fn arm(&mut self) -> bool {
        let armed = self.dials.arm()
            && self.peers.iter_mut().all(Peer::arm)
            && self.arrivals.iter_mut().all(|arrival| arrival.link.arm());
        // One that was armed later may have read what came for one that was armed before.
        armed && !self.all().any(|link| link.has_news())
    }

    /// After sleeping.
    pub fn disarm(&mut self) {
        self.look_at = Nanos::ZERO;
        self.dials.disarm();
        self.peers.iter_mut().filter_map(Peer::link_mut).for_each(|link| link.disarm());
        self.arrivals.iter_mut().for_each(|arrival| arrival.link.disarm());
    }

    /// Readable when there is something to do.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listener = self.listener.iter().map(|listener| listener.descriptor());
        self.all().map(|link| link.descriptor()).chain(listener).chain([self.dials.descriptor()])
    }

    fn all(&self) -> impl Iterator<Item = &dyn Link> {
        let arrivals = self.arrivals.iter().map(|arrival| &*arrival.link);
        self.peers.iter().filter_map(Peer::link).chain(arrivals)
    }

    /// The other nodes: whether there is a link, and what went over it.
    pub fn peers(&self) -> impl Iterator<Item = (NodeId, bool, Counts)> {
        self.peers.iter().map(|peer| (peer.node, matches!(peer.state, State::Up(_)), peer.counts))
    }

    /// Where clients find another node, if it ever said so.
    pub fn serves(&self, node: NodeId) -> Option<&str> {
        let peer = self.peers.iter().find(|peer| peer.node == node)?;
        Some(&*peer.serves).filter(|serves| !serves.is_empty())
    }

    /// Links of nodes that are not expected here.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }
}

/// Of two nodes, which dials the other.
fn dials(me: NodeId, peer: NodeId) -> bool {
    match (me, peer) {
        (NodeId::Replica(ReplicaId(me)), NodeId::Replica(ReplicaId(peer))) => me > peer,
        (NodeId::Replica(_), _) => true,
        _ => false,
    }
}

/// Room for a batch of entries or a few chunks of an image.
fn options() -> LinkOptions {
    LinkOptions { bytes: 4 << 20, ..LinkOptions::default() }
}

/// What a link that was accepted said.
enum Heard {
    Nothing,
    Gone,
    Greeting(Greeting),
}

impl Arrival {
    fn greeting(&mut self, now: Nanos, frames: &mut Frames) -> Heard {
        frames.clear();
        if self.link.next_deadline() <= now {
            self.link.flush(now);
        }
        match self.link.recv(now, 1, frames) {
            Err(_) => Heard::Gone,
            // What overtook the greeting is sent again.
            Ok(_) => match frames.pop().and_then(Greeting::parse) {
                Some(greeting) => Heard::Greeting(greeting),
                None if now >= self.since.plus(SILENCE) => Heard::Gone,
                None => Heard::Nothing,
            },
        }
    }
}

impl Peer {
    fn new(node: NodeId, address: Option<Address>) -> Peer {
        let dial_at = if address.is_some() { Nanos::ZERO } else { Nanos::MAX };
        Peer {
            node,
            address,
            state: State::Down(dial_at),
            queue: VecDeque::new(),
            queued: 0,
            serves: String::new(),
            heard: Nanos::ZERO,
            said: Nanos::ZERO,
            pause: FIRST_PAUSE,
            counts: Counts::default(),
        }
    }

    fn link(&self) -> Option<&dyn Link> {
        match &self.state {
            State::Up(link) => Some(&**link),
            _ => None,
        }
    }

    fn link_mut(&mut self) -> Option<&mut dyn Link> {
        match &mut self.state {
            State::Up(link) => Some(&mut **link),
            _ => None,
        }
    }

    /// There is a link now; one before it is dropped (invariant 2), and what waited for it (invariant 1).
    fn rise(&mut self, now: Nanos, greeting: &[u8], link: Box<dyn Link>) {
        self.forget_queue();
        self.state = State::Up(link);
        self.counts.links += 1;
        self.heard = now;
        self.greet(now, greeting);
    }

    fn fall(&mut self, now: Nanos) {
        self.forget_queue();
        let dial_at = if self.address.is_some() { now.plus(self.pause) } else { Nanos::MAX };
        self.pause = Nanos(self.pause.0 * 2).min(LONGEST_PAUSE);
        self.state = State::Down(dial_at);
    }

    fn forget_queue(&mut self) {
        self.counts.dropped += self.queue.len() as u64;
        self.queue.clear();
        self.queued = 0;
    }

    fn greet(&mut self, now: Nanos, greeting: &[u8]) {
        self.said = now;
        // One that has no room for it has something else to send.
        let _ = self.link_mut().map(|link| offer(link, greeting));
    }

    fn send(&mut self, now: Nanos, bytes: &[u8]) {
        let State::Up(link) = &mut self.state else {
            self.counts.dropped += 1;
            return;
        };
        let sent = if self.queue.is_empty() { offer(&mut **link, bytes) } else { Err(SendError::Full) };
        match sent {
            Ok(()) => {
                self.counts.sent += 1;
                self.said = now;
            }
            Err(SendError::Full) if self.queued + bytes.len() <= MOST_QUEUED => {
                self.queued += bytes.len();
                self.queue.push_back(bytes.to_vec());
            }
            // Its end is noticed when it is read.
            Err(_) => self.counts.dropped += 1,
        }
    }

    fn flush(&mut self, now: Nanos) {
        let State::Up(link) = &mut self.state else { return };
        while let Some(bytes) = self.queue.front()
            && offer(&mut **link, bytes).is_ok()
        {
            self.queued -= bytes.len();
            self.queue.pop_front();
            self.counts.sent += 1;
            self.said = now;
        }
        link.flush(now);
    }

    fn poll(&mut self, now: Nanos, chain: u32, frames: &mut Frames, into: &mut Vec<(NodeId, Message)>) {
        let State::Up(link) = &mut self.state else { return };
        frames.clear();
        if link.recv(now, QUANTUM, frames).is_err() {
            return self.fall(now);
        }
        while let Some(frame) = frames.pop() {
            self.heard = now;
            match (wire::parse(frame), Greeting::parse(frame)) {
                (Ok((theirs, message)), _) if theirs == chain => {
                    self.counts.received += 1;
                    into.push((self.node, message));
                }
                // It is the one that was dialled, so there is somebody there.
                (_, Some(theirs)) if theirs.chain == chain && theirs.node == self.node => {
                    self.serves = theirs.serves;
                    self.pause = FIRST_PAUSE;
                }
                (_, Some(_)) => return self.fall(now),
                _ => self.counts.malformed += 1,
            }
        }
    }

    /// Does what time asks for.
    fn keep(&mut self, now: Nanos, greeting: &[u8], dials: &Dials) {
        match (&self.state, &self.address) {
            (State::Up(_), _) if now >= self.heard.plus(SILENCE) => self.fall(now),
            (State::Up(_), _) if now >= self.said.plus(BEAT) => self.greet(now, greeting),
            (State::Down(at), Some(address)) if now >= *at => {
                dials.start(self.node, address.clone());
                self.state = State::Dialling;
            }
            _ => {}
        }
    }

    fn next_deadline(&self) -> Nanos {
        match &self.state {
            State::Up(link) => link.next_deadline().min(self.said.plus(BEAT)).min(self.heard.plus(SILENCE)),
            State::Down(at) => *at,
            State::Dialling => Nanos::MAX,
        }
    }

    /// A link that is lost does not arm; the next look finds out.
    fn arm(&mut self) -> bool {
        self.link_mut().is_none_or(|link| link.arm())
    }
}

fn offer(link: &mut dyn Link, bytes: &[u8]) -> Result<(), SendError> {
    // Every message is longer than the shortest frame: its envelope alone is.
    let (head, body) = bytes.split_at(fabric::frame::HEADER);
    link.try_send(head, body)
}

#[cfg(test)]
mod tests;
