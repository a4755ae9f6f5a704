//! Links between the nodes of a chain: one between each two that have something to tell each other.
//!
//! ```text
//!  replica 2 ── dials ──▶ replica 1        the higher number dials the lower; a replica dials controllers, and so does an operator
//!            ◀─ HELLO, PROOF ─▶  both ends prove that they have the cluster's key (`handshake`)
//!            ◀─ messages (`protocol::chain::wire`), a frame each ─▶
//! ```
//! Any fabric transport carries them: rings in shared memory within a machine, UDP sessions, Unix or TCP streams between.
//! Whoever has the key may be a replica of the chain, or an operator; whether it belongs to the chain is the controller's to say. So one that is to
//! join is let in by members that were started before anybody knew of it ([`Links::learn`] says where those are that must be dialled).
//!
//! Invariants:
//! 1. A message is sent once, whole, or not at all: nothing of a link that was lost is sent again. The machines send again what matters.
//! 2. A link carries messages only when the other end has proven itself, and only then is the link before it dropped. A process that has the
//!    name of another that is alive is refused, and both ends say so: of two processes with one number the first stays.
//! 3. On this machine a member is a process of the same user, or of root: others are hung up on before they say anything.
//! 4. Nothing here blocks. What may take long, to dial, is done by a thread of its own (`dials`).
//!
//! Bounds: `MOST_QUEUED` bytes that wait for room, for each peer; beyond it messages are dropped and counted. `ARRIVALS_MAX` links
//! that have not proven themselves, beyond which the oldest is dropped. `UNINVITED_MAX` replicas and as many operators that nobody named; one
//! more takes the place of one that is gone, or is refused.
//!
//! Errors: a link that is lost, silent for `SILENCE`, or says what is no message of this chain, is dropped and dialled again, after
//! 5 ms at first and `LONGEST_PAUSE` at most. Who is behind a proven link is known; what travels on it is encrypted, and cannot be changed on its way,
//! at `tls:` addresses alone.

mod dials;
mod handshake;
mod peer;

pub use peer::Counts;

use base::Nanos;
use base::key::{Key, random};
use dials::Dials;
use fabric::link::{self, Address, Frames, Link, LinkOptions, Listener, TlsOptions};
use handshake::{Handshake, Hello, Refusal, Side, Step};
use peer::{Peer, State};
use protocol::chain::{Message, NodeId, ReplicaId, wire};
use rustix::fd::BorrowedFd;
use std::io;

/// Bytes that wait for room in the link to one peer.
const MOST_QUEUED: usize = 32 << 20;
/// Links that were accepted and have not proven themselves.
const ARRIVALS_MAX: usize = 64;
/// Replicas that came by themselves, and operators.
const UNINVITED_MAX: usize = 32;
/// Frames taken from one peer before it is another's turn.
const QUANTUM: usize = 64;
/// A peer to which nothing was said for as long is sent a BEAT.
const BEAT: Nanos = Nanos::from_millis(500);
/// A peer of which nothing was heard for as long is out of reach.
const SILENCE: Nanos = Nanos::from_secs(3);
/// A peer of which something was heard within this is alive: no other process takes its name.
const ALIVE: Nanos = Nanos::from_millis(1200);
/// The same trouble with the same peer is said once within this.
const NOTICE_INTERVAL: Nanos = Nanos::from_secs(60);
/// Between two attempts to dial.
const FIRST_PAUSE: Nanos = Nanos::from_millis(5);
const LONGEST_PAUSE: Nanos = Nanos::from_millis(500);
/// How often a node that is busy looks for new links; one that sleeps is woken by them.
const LOOK_EVERY: Nanos = Nanos::from_millis(1);

/// The links of one node.
pub struct Links {
    key: Key,
    /// This node. Each link begins with it, and a nonce of its own.
    hello: Hello,
    listener: Option<Box<dyn Listener>>,
    look_at: Nanos,
    peers: Vec<Peer>,
    /// Links on which the other end has not proven itself.
    handshakes: Vec<Handshake>,
    dials: Dials,
    frames: Frames,
    /// A message on its way into a link.
    bytes: Vec<u8>,
    refused: Refused,
    notices: Vec<String>,
}

/// Links that were not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Of nodes that are not expected here.
    pub strangers: u64,
    /// Of processes without the cluster's key, and those that said nothing in time.
    pub unproven: u64,
    /// Of a second process with the name of one that is alive.
    pub twice: u64,
}

impl Links {
    /// The links of `me` in a chain. It listens at `listen` for those of `peers` that dial it, and dials the others where
    /// they are. It tells all of them that clients find it at `serves`, and believes those that have the cluster's key.
    ///
    /// # Errors
    /// It cannot listen there, or the system gives no eventfd.
    pub fn new(
        key: &Key,
        chain: u32,
        me: NodeId,
        listen: Option<&Address>,
        serves: &str,
        peers: impl IntoIterator<Item = (NodeId, Option<Address>)>,
    ) -> io::Result<Links> {
        let listener = listen.map(|address| link::listen(address, &options())).transpose()?;
        let notices = listen.and_then(in_clear).into_iter().collect();
        let peers = peers
            .into_iter()
            .filter(|(node, _)| *node != me)
            .map(|(node, address)| Peer::new(node, address.filter(|_| dials(me, node))))
            .collect();
        Ok(Links {
            key: key.derive("chain"),
            hello: Hello {
                chain,
                node: me,
                instance: match me {
                    NodeId::Client(instance) => instance,
                    _ => u64::from_le_bytes(random()),
                },
                nonce: [0; 16],
                serves: serves.to_owned(),
            },
            listener,
            look_at: Nanos::ZERO,
            peers,
            handshakes: Vec::new(),
            dials: Dials::new()?,
            frames: Frames::default(),
            bytes: Vec::new(),
            refused: Refused::default(),
            notices,
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
        wire::emit(self.hello.chain, message, &mut self.bytes);
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
            peer.poll(now, self.hello.chain, &mut self.frames, into);
            peer.keep(now, &self.dials);
        }
        let is_operator = |peer: &Peer| matches!(peer.node, NodeId::Client(_));
        self.peers.retain(|peer| !is_operator(peer) || matches!(peer.state, State::Up(_)));
        into.len() - before
    }

    /// Where another node is, as the chain's configuration says. What was said before counts no more.
    pub fn learn(&mut self, node: NodeId, address: Option<Address>) {
        let me = self.hello.node;
        if node == me {
            return;
        }
        let address = address.filter(|_| dials(me, node));
        match self.peers.iter_mut().find(|peer| peer.node == node) {
            None => self.peers.push(Peer::new(node, address)),
            Some(peer) if address.is_none() || peer.address == address => peer.is_invited = true,
            Some(peer) => {
                let counts = peer.counts;
                *peer = Peer::new(node, address);
                peer.counts = counts;
            }
        }
    }

    /// A node that nobody named has proven itself: whether there is a place for it.
    fn invite(&mut self, node: NodeId) -> bool {
        let me = self.hello.node;
        let is_welcome = match node {
            NodeId::Replica(_) => dials(node, me),
            NodeId::Client(_) => matches!(me, NodeId::Controller(_)),
            NodeId::Controller(_) | NodeId::Home => false,
        };
        let is_kind = |other: &Peer| {
            !other.is_invited && matches!(other.node, NodeId::Client(_)) == matches!(node, NodeId::Client(_))
        };
        if is_welcome && self.peers.iter().filter(|peer| is_kind(peer)).count() >= UNINVITED_MAX {
            let is_gone = |peer: &Peer| is_kind(peer) && !matches!(peer.state, State::Up(_));
            let Some(at) = self.peers.iter().position(is_gone) else { return false };
            self.peers.remove(at);
        }
        if is_welcome {
            let mut peer = Peer::new(node, None);
            peer.is_invited = false;
            self.peers.push(peer);
        }
        is_welcome
    }

    /// New links, dials that have ended, and handshakes.
    fn look(&mut self, now: Nanos) {
        while let Some((node, link)) = self.dials.next() {
            match link {
                Ok(link) => {
                    self.handshakes.push(Handshake::new(now, link, Side::Dialled(node), &self.hello));
                }
                Err(_) => self.peer(node).fall(now),
            }
        }
        if let Some(listener) = &mut self.listener {
            // An error is one client's, or passes: there are no descriptors just now.
            while let Ok(Some(link)) = listener.accept(now) {
                if !link.peer_user().is_none_or(is_ours) {
                    self.refused.strangers += 1;
                    continue;
                }
                let is_arrival = |handshake: &Handshake| handshake.side == Side::Accepted;
                if self.handshakes.iter().filter(|handshake| is_arrival(handshake)).count() >= ARRIVALS_MAX {
                    // Whoever has something to prove does so at once: the oldest is the least likely to.
                    let oldest = self.handshakes.iter().position(is_arrival).expect("there are many");
                    self.handshakes.remove(oldest);
                    self.refused.unproven += 1;
                }
                self.handshakes.push(Handshake::new(now, link, Side::Accepted, &self.hello));
            }
        }
        let mut at = 0;
        while at < self.handshakes.len() {
            match self.handshakes[at].step(now, self.hello.chain, &self.key, &mut self.frames) {
                Step::Wait => at += 1,
                step => {
                    let handshake = self.handshakes.remove(at);
                    self.end_handshake(now, handshake, step);
                }
            }
        }
    }

    fn peer(&mut self, node: NodeId) -> &mut Peer {
        self.peers.iter_mut().find(|peer| peer.node == node).expect("only peers are dialled")
    }

    fn end_handshake(&mut self, now: Nanos, handshake: Handshake, step: Step) {
        let side = handshake.side;
        let why = match step {
            Step::Proven(hello) => match self.admit(now, side, &hello) {
                Ok(()) => {
                    let link = handshake.into_link(&self.key);
                    let peer = self.peer(hello.node);
                    (peer.instance, peer.serves) = (hello.instance, hello.serves);
                    return peer.rise(now, link);
                }
                Err(why) => {
                    handshake.refuse(now, why);
                    self.refused.twice += u64::from(why == Refusal::Twice);
                    if why == Refusal::Twice {
                        self.notice(now, hello.node, "has been refused here: ", why);
                    }
                    why
                }
            },
            Step::Refuse(why) => {
                handshake.refuse(now, why);
                if let Side::Dialled(node) = side {
                    self.notice(now, node, "is not believed: ", why);
                }
                why
            }
            Step::Refused(why) => {
                if let Side::Dialled(node) = side {
                    self.notice(now, node, "refuses this node: ", why);
                    return self.peer(node).fall(now);
                }
                why
            }
            Step::Gone | Step::Wait => Refusal::Unproven,
        };
        match side {
            Side::Dialled(node) => self.peer(node).fall(now),
            Side::Accepted if why == Refusal::Stranger => self.refused.strangers += 1,
            Side::Accepted if why == Refusal::Unproven => self.refused.unproven += 1,
            Side::Accepted => {}
        }
    }

    /// Whether a node that has proven itself may have its link (invariant 2).
    fn admit(&mut self, now: Nanos, side: Side, hello: &Hello) -> Result<(), Refusal> {
        let dialled = side != Side::Accepted;
        let is_known = self.peers.iter().any(|peer| peer.node == hello.node);
        if !dialled && !is_known && !self.invite(hello.node) {
            return Err(Refusal::Stranger);
        }
        let expected = |peer: &&Peer| peer.node == hello.node && peer.address.is_some() == dialled;
        let peer = self.peers.iter().find(expected).ok_or(Refusal::Stranger)?;
        let is_alive = matches!(peer.state, State::Up(_)) && now < peer.heard.plus(ALIVE);
        if is_alive && peer.instance != hello.instance { Err(Refusal::Twice) } else { Ok(()) }
    }

    /// Keeps a sentence for whoever runs this node.
    fn notice(&mut self, now: Nanos, node: NodeId, what: &str, why: Refusal) {
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.node == node) else { return };
        if peer.noticed.is_none_or(|noticed| now >= noticed.plus(NOTICE_INTERVAL)) {
            peer.noticed = Some(now);
            let name = match node {
                NodeId::Replica(ReplicaId(number)) => format!("replica {number}"),
                NodeId::Controller(number) => format!("controller {number}"),
                NodeId::Client(_) | NodeId::Home => "an operator".to_owned(),
            };
            self.notices.push(format!("{name} {what}{why}"));
        }
    }

    /// Whether [`Links::take_notices`] has any.
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Sentences for an operator that were not taken yet.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Puts what was sent on its way.
    pub fn flush(&mut self, now: Nanos) {
        self.peers.iter_mut().for_each(|peer| peer.flush(now));
    }

    /// When [`Links::poll`] is wanted although nothing comes.
    pub fn next_deadline(&self) -> Nanos {
        let peers = self.peers.iter().map(Peer::next_deadline);
        let handshakes = self.handshakes.iter().map(Handshake::next_deadline);
        let listener = self.listener.iter().map(|listener| listener.next_deadline());
        peers.chain(handshakes).chain(listener).min().unwrap_or(Nanos::MAX)
    }

    /// Before sleeping on the descriptors: whether there is nothing to do. Whatever it says, [`Links::disarm`] comes next.
    pub fn arm(&mut self) -> bool {
        let armed = self.dials.arm()
            && self.peers.iter_mut().all(Peer::arm)
            && self.handshakes.iter_mut().all(|handshake| handshake.link.arm());
        // One that was armed later may have read what came for one that was armed before.
        armed && !self.all().any(|link| link.has_news())
    }

    /// After sleeping.
    pub fn disarm(&mut self) {
        self.look_at = Nanos::ZERO;
        self.dials.disarm();
        self.peers.iter_mut().filter_map(Peer::link_mut).for_each(|link| link.disarm());
        self.handshakes.iter_mut().for_each(|handshake| handshake.link.disarm());
    }

    /// Readable when there is something to do.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listener = self.listener.iter().map(|listener| listener.descriptor());
        self.all().map(|link| link.descriptor()).chain(listener).chain([self.dials.descriptor()])
    }

    fn all(&self) -> impl Iterator<Item = &dyn Link> {
        let handshakes = self.handshakes.iter().map(|handshake| &*handshake.link);
        self.peers.iter().filter_map(Peer::link).chain(handshakes)
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

    /// Links that were not taken.
    pub fn refused(&self) -> Refused {
        self.refused
    }
}

/// Of two nodes, which dials the other.
fn dials(me: NodeId, peer: NodeId) -> bool {
    match (me, peer) {
        (NodeId::Replica(ReplicaId(me)), NodeId::Replica(ReplicaId(peer))) => me > peer,
        (NodeId::Replica(_) | NodeId::Client(_), NodeId::Controller(_)) => true,
        _ => false,
    }
}

/// What is said of links that other machines reach, of a process that has a certificate and does not use it for them.
fn in_clear(address: &Address) -> Option<String> {
    let (Address::Tcp(endpoint) | Address::Udp(endpoint)) = address else { return None };
    let is_near = endpoint.resolve().is_ok_and(|at| at.ip().to_canonical().is_loopback());
    let has_certificate = TlsOptions::of_process().certificate.is_some();
    (has_certificate && !is_near).then(|| {
        format!(
            "links of members at {address} prove who is there and hide nothing: with the certificate of this process they are encrypted at              tls:{endpoint}, which all members must be told"
        )
    })
}

/// Room for a batch of entries or a few chunks of an image.
fn options() -> LinkOptions {
    LinkOptions { bytes: 4 << 20, ..LinkOptions::default() }
}

/// Whether a process of this user may be a member beside one of ours. One of root's has the key anyway.
fn is_ours(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests;
