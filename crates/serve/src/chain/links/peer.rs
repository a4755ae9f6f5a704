//! Another node, as this one sees it: its link if there is one, what waits for room in it, and what time asks for.
//!
//! ```text
//!  Down(when) ── dials ──▶ Dialling ── proven ──▶ Up(link)
//!      ▲                      │ failed               │ lost, silent
//!      └──────────────────────┴──────────────────────┘
//! ```
//! Invariants are those of the head of `mod.rs`.

use super::dials::Dials;
use super::handshake::Frame;
use super::{BEAT, FIRST_PAUSE, LONGEST_PAUSE, MOST_QUEUED, QUANTUM, SILENCE};
use base::Nanos;
use fabric::link::{Address, Frames, Link, SendError};
use protocol::chain::{Message, NodeId, wire};
use std::collections::VecDeque;

/// Another node.
pub(super) struct Peer {
    pub(super) node: NodeId,
    /// Where this node dials it; `None`: it dials.
    pub(super) address: Option<Address>,
    /// Its name is in a flag, a file or the configuration.
    pub(super) is_invited: bool,
    pub(super) state: State,
    /// Messages that found no room.
    queue: VecDeque<Vec<u8>>,
    queued: usize,
    /// Which process it is, of the link that is up or was last.
    pub(super) instance: u64,
    /// Where clients find it, as it says; empty if it does not.
    pub(super) serves: String,
    /// When trouble with it was said last.
    pub(super) noticed: Option<Nanos>,
    pub(super) heard: Nanos,
    said: Nanos,
    /// Before the next attempt.
    pause: Nanos,
    pub(super) counts: Counts,
}

pub(super) enum State {
    /// Dialled again then; never, if it is the one that dials.
    Down(Nanos),
    Dialling,
    Up(Box<dyn Link>),
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

impl Peer {
    pub(super) fn new(node: NodeId, address: Option<Address>) -> Peer {
        let dial_at = if address.is_some() { Nanos::ZERO } else { Nanos::MAX };
        Peer {
            node,
            address,
            is_invited: true,
            state: State::Down(dial_at),
            queue: VecDeque::new(),
            queued: 0,
            instance: 0,
            serves: String::new(),
            noticed: None,
            heard: Nanos::ZERO,
            said: Nanos::ZERO,
            pause: FIRST_PAUSE,
            counts: Counts::default(),
        }
    }

    pub(super) fn link(&self) -> Option<&dyn Link> {
        match &self.state {
            State::Up(link) => Some(&**link),
            _ => None,
        }
    }

    pub(super) fn link_mut(&mut self) -> Option<&mut dyn Link> {
        match &mut self.state {
            State::Up(link) => Some(&mut **link),
            _ => None,
        }
    }

    /// There is a link now; one before it is dropped (invariant 2), and what waited for it (invariant 1).
    pub(super) fn rise(&mut self, now: Nanos, link: Box<dyn Link>) {
        self.forget_queue();
        self.state = State::Up(link);
        self.counts.links += 1;
        (self.heard, self.said) = (now, now);
        self.pause = FIRST_PAUSE;
    }

    pub(super) fn fall(&mut self, now: Nanos) {
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

    fn beat(&mut self, now: Nanos) {
        self.said = now;
        // One that has no room for it has something else to send.
        let _ = self.link_mut().map(|link| offer(link, &Frame::Beat.emit()));
    }

    pub(super) fn send(&mut self, now: Nanos, bytes: &[u8]) {
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

    pub(super) fn flush(&mut self, now: Nanos) {
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

    pub(super) fn poll(
        &mut self,
        now: Nanos,
        chain: u32,
        frames: &mut Frames,
        into: &mut Vec<(NodeId, Message)>,
    ) {
        let State::Up(link) = &mut self.state else { return };
        frames.clear();
        if link.recv(now, QUANTUM, frames).is_err() {
            return self.fall(now);
        }
        while let Some(frame) = frames.pop() {
            self.heard = now;
            match wire::parse(frame) {
                Ok((theirs, message)) if theirs == chain => {
                    self.counts.received += 1;
                    into.push((self.node, message));
                }
                // A BEAT, or the end of a handshake that overtook it.
                _ if Frame::parse(frame).is_some() => {}
                _ => self.counts.malformed += 1,
            }
        }
    }

    /// Does what time asks for.
    pub(super) fn keep(&mut self, now: Nanos, dials: &Dials) {
        match (&self.state, &self.address) {
            (State::Up(_), _) if now >= self.heard.plus(SILENCE) => self.fall(now),
            (State::Up(_), _) if now >= self.said.plus(BEAT) => self.beat(now),
            (State::Down(at), Some(address)) if now >= *at => {
                dials.start(self.node, address.clone());
                self.state = State::Dialling;
            }
            _ => {}
        }
    }

    pub(super) fn next_deadline(&self) -> Nanos {
        match &self.state {
            State::Up(link) => link.next_deadline().min(self.said.plus(BEAT)).min(self.heard.plus(SILENCE)),
            State::Down(at) => *at,
            State::Dialling => Nanos::MAX,
        }
    }

    /// A link that is lost does not arm; the next look finds out.
    pub(super) fn arm(&mut self) -> bool {
        self.link_mut().is_none_or(|link| link.arm())
    }
}

pub(super) fn offer(link: &mut dyn Link, bytes: &[u8]) -> Result<(), SendError> {
    // Every message is longer than the shortest frame: its envelope alone is.
    let (head, body) = bytes.split_at(fabric::frame::HEADER);
    link.try_send(head, body)
}
