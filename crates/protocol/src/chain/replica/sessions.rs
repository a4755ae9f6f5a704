//! The sessions of a chain as its head sees them: where each has its places in the image, what is remembered there, and which was used least recently.
//!
//! A session is an item of `Space::Session`, its number as key and the epoch in which it was opened as value. What it was answered is in
//! `Space::Reply`: `sequence mod window` is the place, whose value is the sequence number and the outcome. So replies are logged, copied and
//! checked as all items are.
//!
//! Invariants:
//! 1. A number is given once: it is a function, which nobody without the replica's secret can compute, of the replica's life and of the LSN
//!    at which the session was opened. So a log that was cut short gives its LSNs again, and never a session.
//! 2. A session that was opened before a reset is not known any more (`Configuration::reset`).
//!
//! Bounds: the table has an entry for each session in the image.

use crate::chain::image::{Image, Key, Space};
use crate::chain::message::RequestId;
use crate::chain::transaction::Outcome;
use crate::chain::{Epoch, Incarnation, Lsn, ReplicaId, SessionId};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The session that a replica opens at `lsn`.
pub(super) fn new_session(
    secret: &base::key::Key,
    replica: ReplicaId,
    life: Incarnation,
    lsn: Lsn,
) -> SessionId {
    let parts = [&replica.0.to_le_bytes()[..], &life.0.to_le_bytes(), &lsn.0.to_le_bytes()];
    // 0 is no session.
    SessionId(u128::from_be_bytes(secret.tag(&parts).0).max(1))
}

/// The item of a session.
pub(super) fn session_key(session: SessionId) -> Key {
    Key { space: Space::Session, bytes: session.to_bytes().to_vec() }
}

/// The value of a session's item.
pub(super) fn session_value(opened: Epoch) -> [u8; 8] {
    opened.0.to_be_bytes()
}

/// The place of a request's reply.
pub(super) fn reply_key(id: RequestId, window: u64) -> Key {
    let mut bytes = id.session.to_bytes().to_vec();
    bytes.extend_from_slice(&(id.sequence % window).to_be_bytes());
    Key { space: Space::Reply, bytes }
}

/// All that belongs to a session: its item and its places.
pub(super) fn keys_of(session: SessionId, window: u64) -> Vec<Key> {
    let places = (0..window).map(|sequence| reply_key(RequestId { session, sequence }, window));
    std::iter::once(session_key(session)).chain(places).collect()
}

/// The session that a key of these two spaces belongs to.
fn session_of(key: &[u8]) -> Option<SessionId> {
    SessionId::from_bytes(key.get(..16)?)
}

/// What is known of a request.
pub(super) enum Memory {
    /// Nothing: it may be done.
    Fresh,
    /// It was done, with this outcome.
    Done(Outcome),
    /// Its place was used for a later one.
    Forgotten,
    /// Its session is not known.
    NoSession,
}

/// What the image remembers of a request, if its session was not opened before `reset`.
pub(super) fn recall(image: &impl Image, id: RequestId, window: u64, reset: Epoch) -> Memory {
    let Some(item) = image.read(&session_key(id.session)) else { return Memory::NoSession };
    let opened = item.value[..].try_into().map(u64::from_be_bytes);
    if opened.is_ok_and(|opened| opened < reset.0) {
        return Memory::NoSession;
    }
    let Some(item) = image.read(&reply_key(id, window)) else { return Memory::Fresh };
    let Some((sequence, outcome)) = item.value.split_first_chunk() else { return Memory::Fresh };
    match u64::from_be_bytes(*sequence).cmp(&id.sequence) {
        Ordering::Less => Memory::Fresh,
        Ordering::Equal => Outcome::parse(outcome).map_or(Memory::Forgotten, Memory::Done),
        Ordering::Greater => Memory::Forgotten,
    }
}

/// What the image is to remember of a request.
pub(super) fn remembered(sequence: u64, outcome: &Outcome) -> Vec<u8> {
    let mut value = sequence.to_be_bytes().to_vec();
    outcome.emit(&mut value);
    value
}

/// The sessions, by when they were used last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sessions {
    used: BTreeMap<SessionId, Lsn>,
    by_use: BTreeSet<(Lsn, SessionId)>,
}

impl Sessions {
    /// Those in an image.
    pub(super) fn of(image: &impl Image) -> Sessions {
        let mut sessions = Sessions::default();
        image.items(Space::Session, &mut |key, item| {
            if let Some(session) = session_of(key) {
                sessions.insert(session, item.version);
            }
        });
        image.items(Space::Reply, &mut |key, item| {
            if let Some(session) = session_of(key) {
                sessions.touch(session, item.version);
            }
        });
        sessions
    }

    pub(super) fn len(&self) -> usize {
        self.used.len()
    }

    /// A session, used at `lsn`.
    pub(super) fn insert(&mut self, session: SessionId, lsn: Lsn) {
        self.remove(session);
        self.used.insert(session, lsn);
        self.by_use.insert((lsn, session));
    }

    /// One that is known was used.
    pub(super) fn touch(&mut self, session: SessionId, lsn: Lsn) {
        if self.used.get(&session).is_some_and(|used| *used < lsn) {
            self.insert(session, lsn);
        }
    }

    /// It is no more; when it was used last.
    pub(super) fn remove(&mut self, session: SessionId) -> Option<Lsn> {
        let used = self.used.remove(&session)?;
        self.by_use.remove(&(used, session));
        Some(used)
    }

    /// From the one that was used least recently on.
    pub(super) fn by_use(&self) -> impl Iterator<Item = SessionId> {
        self.by_use.iter().map(|(_, session)| *session)
    }

    /// What an entry did that another head made: of each session item, whether it is there.
    pub(super) fn follow(&mut self, image: &impl Image, keys: &[Key]) {
        for key in keys.iter().filter(|key| key.space == Space::Session) {
            let Some(session) = session_of(&key.bytes) else { continue };
            match image.read(key) {
                Some(item) => self.insert(session, item.version),
                None => {
                    self.remove(session);
                }
            }
        }
    }
}
