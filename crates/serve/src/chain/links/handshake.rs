//! The handshake of a link: each end proves that it has the cluster's key before anything else is said.
//!
//! ```text
//!   both at once:  HELLO  who, of which chain, a nonce, where it serves clients
//!   then:          PROOF  tag(key, side, own HELLO, other's HELLO), of the end that dialled, and then of the other
//!   or:            REFUSED  why; and the link ends
//! ```
//! The tag covers both nonces, so an old one is worth nothing; and the side, so that a HELLO sent back proves nothing.
//!
//! Layout, little-endian: `MRCG`, version u8 (2), kind u8 (0 HELLO, 1 PROOF, 2 REFUSED, 3 BEAT), then
//!
//! | kind | |
//! |---|---|
//! | HELLO | role u8 (0 replica, 1 controller, 2 operator), u8 0, number u16 (0 of an operator, who is known by his instance), chain u32, u16 0,
//! instance u64, nonce 16 bytes, then the address as text: none for who serves no clients |
//! | PROOF | u16 0, tag 16 bytes |
//! | REFUSED | why u8, 9 bytes of 0 |
//! | BEAT | 10 bytes of 0: it breaks silence on a link that is up |
//!
//! Invariants:
//! 1. A link of which the other end has not proven itself carries frames of the handshake only: others are dropped.
//! 2. Frames may overtake each other: a PROOF that comes before its HELLO is kept.
//!
//! Bounds: [`FRAME_MAX`] bytes a frame before the proof, [`HANDSHAKE_TIMEOUT`].

use super::peer::offer;
use base::Nanos;
use base::key::{Key, TAG_BYTES, Tag};
use fabric::link::{Frames, Link};
use protocol::chain::{NodeId, ReplicaId};
use std::fmt;

const MAGIC: [u8; 4] = *b"MRCG";
const VERSION: u8 = 2;
/// Bytes before the fields.
const HEAD: usize = 6;
/// Bytes of a HELLO without the address.
const HELLO: usize = HEAD + 34;
/// Bytes of the longest address.
const ADDRESS_MAX: usize = 300;
/// Bytes of a frame that is taken from an end that has not proven itself.
pub(super) const FRAME_MAX: usize = 1024;
/// A handshake that takes longer has failed.
pub(super) const HANDSHAKE_TIMEOUT: Nanos = Nanos::from_secs(3);
/// Frames taken from a link in one look.
const QUANTUM: usize = 4;

/// Who is at an end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) chain: u32,
    /// A client is an operator.
    pub(super) node: NodeId,
    /// Drawn at random by each process: two with the same name are told apart.
    pub(super) instance: u64,
    pub(super) nonce: [u8; 16],
    /// Where it serves clients.
    pub(super) serves: String,
}

/// Why a link is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Of another chain, or nobody who is expected here.
    Stranger = 1,
    /// The tag is not that of the cluster's key.
    Unproven = 2,
    /// Another process with that name is connected and alive.
    Twice = 3,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Stranger => {
                "it is of another chain, or not expected there: compare --chain, --id, --peers and --controllers"
            }
            Refusal::Unproven => "the two have different cluster keys: give all members of a chain the same file with --key",
            Refusal::Twice => "another process with that number is connected and alive: end one of the two",
        })
    }
}

/// A frame of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Hello(Hello),
    Proof(Tag),
    Refused(Refusal),
    Beat,
}

impl Frame {
    pub(super) fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HELLO);
        bytes.extend_from_slice(&MAGIC);
        bytes.push(VERSION);
        match self {
            Frame::Hello(hello) => {
                let (role, number) = match hello.node {
                    NodeId::Replica(ReplicaId(number)) => (0, number),
                    NodeId::Controller(number) => (1, number),
                    NodeId::Client(_) | NodeId::Home => (2, 0),
                };
                bytes.extend_from_slice(&[0, role, 0]);
                bytes.extend_from_slice(&number.to_le_bytes());
                bytes.extend_from_slice(&hello.chain.to_le_bytes());
                bytes.extend_from_slice(&[0; 2]);
                bytes.extend_from_slice(&hello.instance.to_le_bytes());
                bytes.extend_from_slice(&hello.nonce);
                if hello.serves.len() <= ADDRESS_MAX {
                    bytes.extend_from_slice(hello.serves.as_bytes());
                }
            }
            Frame::Proof(tag) => {
                bytes.extend_from_slice(&[1, 0, 0]);
                bytes.extend_from_slice(&tag.0);
            }
            Frame::Refused(why) => {
                bytes.extend_from_slice(&[2, *why as u8]);
                bytes.extend_from_slice(&[0; 9]);
            }
            Frame::Beat => {
                bytes.push(3);
                bytes.extend_from_slice(&[0; 10]);
            }
        }
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Frame> {
        let (head, fields) = bytes.split_first_chunk::<HEAD>()?;
        if head[..4] != MAGIC || head[4] != VERSION {
            return None;
        }
        match (head[5], fields) {
            (0, _) => parse_hello(fields).map(Frame::Hello),
            (1, [0, 0, tag @ ..]) => <[u8; TAG_BYTES]>::try_from(tag).ok().map(|tag| Frame::Proof(Tag(tag))),
            (2, [why, 0, 0, 0, 0, 0, 0, 0, 0, 0]) => {
                let all = [Refusal::Stranger, Refusal::Unproven, Refusal::Twice];
                all.into_iter().find(|refusal| *refusal as u8 == *why).map(Frame::Refused)
            }
            (3, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]) => Some(Frame::Beat),
            _ => None,
        }
    }
}

fn parse_hello(fields: &[u8]) -> Option<Hello> {
    let (head, serves) = fields.split_first_chunk::<{ HELLO - HEAD }>()?;
    let number = u16::from_le_bytes([head[2], head[3]]);
    let node = match head[0] {
        0 => NodeId::Replica(ReplicaId(number)),
        1 => NodeId::Controller(number),
        2 if number == 0 => NodeId::Client(u64::from_le_bytes(head[10..18].try_into().expect("8 bytes"))),
        _ => return None,
    };
    if head[1] != 0 || head[8..10] != [0; 2] {
        return None;
    }
    Some(Hello {
        chain: u32::from_le_bytes(head[4..8].try_into().expect("4 bytes")),
        node,
        instance: u64::from_le_bytes(head[10..18].try_into().expect("8 bytes")),
        nonce: head[18..34].try_into().expect("16 bytes"),
        serves: std::str::from_utf8(serves).ok().filter(|text| text.len() <= ADDRESS_MAX)?.to_owned(),
    })
}

/// Which end of the link this node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// It dialled this node.
    Dialled(NodeId),
    /// It was dialled.
    Accepted,
}

impl Side {
    fn label(self) -> &'static [u8] {
        match self {
            Side::Dialled(_) => b"dialled",
            Side::Accepted => b"accepted",
        }
    }

    fn other(self) -> &'static [u8] {
        match self {
            Side::Dialled(_) => b"accepted",
            Side::Accepted => b"dialled",
        }
    }
}

/// A link whose other end has not proven itself.
pub(super) struct Handshake {
    pub(super) link: Box<dyn Link>,
    pub(super) side: Side,
    since: Nanos,
    mine: Vec<u8>,
    /// What it was sent as, and what it says.
    theirs: Option<(Vec<u8>, Hello)>,
    proof: Option<Tag>,
    said_hello: bool,
    proved: bool,
}

/// How far a handshake is.
pub(super) enum Step {
    Wait,
    /// The link ended, or it took too long.
    Gone,
    /// Nothing it says is believed.
    Refuse(Refusal),
    /// The other end will not have us.
    Refused(Refusal),
    Proven(Hello),
}

impl Handshake {
    pub(super) fn new(now: Nanos, mut link: Box<dyn Link>, side: Side, mine: &Hello) -> Handshake {
        link.set_max_frame(FRAME_MAX);
        let mine = Frame::Hello(Hello { nonce: base::key::random(), ..mine.clone() }).emit();
        Handshake {
            link,
            side,
            since: now,
            mine,
            theirs: None,
            proof: None,
            said_hello: false,
            proved: false,
        }
    }

    /// Goes on. `chain` and `key` are this node's.
    pub(super) fn step(&mut self, now: Nanos, chain: u32, key: &Key, frames: &mut Frames) -> Step {
        self.said_hello = self.said_hello || offer(&mut *self.link, &self.mine).is_ok();
        for _ in 0..QUANTUM {
            // What follows the proof is for the peer, not for the handshake: it stays in the link.
            if self.theirs.is_some() && self.proof.is_some() {
                break;
            }
            frames.clear();
            if self.link.recv(now, 1, frames).is_err() {
                return Step::Gone;
            }
            let Some(bytes) = frames.pop() else { break };
            match Frame::parse(bytes) {
                Some(Frame::Hello(hello)) if self.theirs.is_none() => {
                    let is_expected = hello.chain == chain
                        && match self.side {
                            Side::Dialled(node) => hello.node == node,
                            Side::Accepted => true,
                        };
                    if !is_expected {
                        return Step::Refuse(Refusal::Stranger);
                    }
                    self.theirs = Some((bytes.to_vec(), hello));
                }
                Some(Frame::Proof(tag)) => self.proof = Some(tag),
                Some(Frame::Refused(why)) => return Step::Refused(why),
                // Invariant 1.
                _ => {}
            }
        }
        let mut step = Step::Wait;
        // Whoever dialled proves itself first: a stranger is told nothing.
        if let Side::Dialled(_) = self.side {
            self.prove(key);
        }
        if let Some((theirs, hello)) = &self.theirs {
            match self.proof {
                Some(tag) if !key.verifies(&[self.side.other(), theirs, &self.mine], tag) => {
                    return Step::Refuse(Refusal::Unproven);
                }
                Some(_) => step = Step::Proven(hello.clone()),
                None => {}
            }
        }
        self.link.flush(now);
        if matches!(step, Step::Wait) && now >= self.since.plus(HANDSHAKE_TIMEOUT) {
            Step::Gone
        } else {
            step
        }
    }

    /// Says its own proof, once.
    fn prove(&mut self, key: &Key) {
        if let Some((theirs, _)) = &self.theirs
            && !self.proved
        {
            let tag = key.tag(&[self.side.label(), &self.mine, theirs]);
            self.proved = offer(&mut *self.link, &Frame::Proof(tag).emit()).is_ok();
        }
    }

    /// Says why it ends here, and hands over the link, of which nobody is to hear more.
    pub(super) fn refuse(mut self, now: Nanos, why: Refusal) {
        // One that has no room for it learns it by the end of the link.
        let _ = offer(&mut *self.link, &Frame::Refused(why).emit());
        self.link.flush(now);
    }

    /// The other end has proven itself, and may have its link, which carries what links carry from now on.
    pub(super) fn into_link(mut self, key: &Key) -> Box<dyn Link> {
        self.prove(key);
        self.link.set_max_frame(fabric::frame::MAX_FRAME);
        self.link
    }

    pub(super) fn next_deadline(&self) -> Nanos {
        self.link.next_deadline().min(self.since.plus(HANDSHAKE_TIMEOUT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> impl Strategy<Value = Hello> {
        (any::<(u32, u16, u8, u64, [u8; 16])>(), "[a-z:/.0-9]{0,80}").prop_map(
            |((chain, number, role, instance, nonce), serves)| {
                let node = match role % 3 {
                    0 => NodeId::Replica(ReplicaId(number)),
                    1 => NodeId::Controller(number),
                    _ => NodeId::Client(instance),
                };
                Hello { chain, node, instance, nonce, serves }
            },
        )
    }

    fn frame() -> impl Strategy<Value = Frame> {
        prop_oneof![
            hello().prop_map(Frame::Hello),
            any::<[u8; 16]>().prop_map(|tag| Frame::Proof(Tag(tag))),
            prop::sample::select(vec![Refusal::Stranger, Refusal::Unproven, Refusal::Twice])
                .prop_map(Frame::Refused),
            Just(Frame::Beat),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_frame_reads_as_it_was_written_and_nothing_else_does(frame in frame(), at in 0..16usize, flip in 1u8..) {
            let mut bytes = frame.emit();
            prop_assert!(bytes.len() >= 16 && bytes.len() <= FRAME_MAX);
            prop_assert_eq!(Frame::parse(&bytes), Some(frame.clone()));
            bytes[at] ^= flip;
            prop_assert_ne!(Frame::parse(&bytes), Some(frame));
            prop_assert_eq!(Frame::parse(&bytes[..at]), None);
        }
    }
}
