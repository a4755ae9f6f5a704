//! Calls that are open: deferred, with workers, or streaming. A unary call that is handled at once is never here.
//!
//! A link may let a stream's frames overtake its Request (a long Request over datagrams, or a switch of transports), and others
//! come when the call is over already (they crossed its Reply). The first wait in [`Early`], the second are known by the numbers
//! of the streams that ended last and are dropped.
//!
//! Bounds: `max_calls` entries; [`EARLY_FRAMES`] frames and [`EARLY_BYTES`] that came early (more is a violation, since
//! nothing may be lost silently); [`RECENT`] numbers.

use super::tasks::TaskId;
use super::watched::Watch;
use crate::frame::MAX_FRAME;
use crate::service::{CallState, Shared};
use base::units::Nanos;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

const EARLY_FRAMES: usize = 1024;
const EARLY_BYTES: usize = 2 * MAX_FRAME;
const RECENT: usize = 1024;

/// An open call.
pub(super) struct Open {
    pub(super) deadline: Nanos,
    pub(super) kind: Kind,
    pub(super) watch: Watch,
}

pub(super) enum Kind {
    /// Its answer comes from a responder or a worker.
    Deferred { state: Option<Arc<CallState>>, cancelled: bool },
    /// A future works on it. `stalled`: it is in the queue of streams that wait for room in the link.
    Stream { shared: Arc<Shared>, task: TaskId, stalled: bool },
}

/// The open calls of one connection.
#[derive(Default)]
pub(super) struct Calls {
    open: HashMap<u32, Open>,
    early: VecDeque<(u32, Vec<u8>)>,
    early_bytes: usize,
    recent: VecDeque<u32>,
}

impl Calls {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    #[inline]
    pub(super) fn contains(&self, call: u32) -> bool {
        !self.open.is_empty() && self.open.contains_key(&call)
    }

    pub(super) fn get(&mut self, call: u32) -> Option<&mut Open> {
        self.open.get_mut(&call)
    }

    pub(super) fn insert(&mut self, call: u32, open: Open) {
        if matches!(open.kind, Kind::Stream { .. }) {
            self.recent.retain(|&recent| recent != call);
        }
        self.open.insert(call, open);
    }

    pub(super) fn remove(&mut self, call: u32) -> Option<Open> {
        let open = self.open.remove(&call)?;
        if matches!(open.kind, Kind::Stream { .. }) {
            self.ended(call);
        }
        Some(open)
    }

    /// A stream ended, or was never opened: its frames that still come are dropped.
    pub(super) fn ended(&mut self, call: u32) {
        drop(self.take_early(call));
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(call);
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = (u32, Open)> {
        self.open.drain()
    }

    pub(super) fn numbers(&self) -> Vec<u32> {
        self.open.keys().copied().collect()
    }

    /// Keeps a frame of a stream that is not open, unless it is one that was; false if there is no room.
    #[must_use]
    pub(super) fn keep_early(&mut self, call: u32, frame: &[u8]) -> bool {
        if self.recent.contains(&call) {
            return true;
        }
        if self.early.len() >= EARLY_FRAMES || self.early_bytes + frame.len() > EARLY_BYTES {
            return false;
        }
        self.early_bytes += frame.len();
        self.early.push_back((call, frame.to_vec()));
        true
    }

    /// Takes the frames that came before this call's Request.
    pub(super) fn take_early(&mut self, call: u32) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        if self.early.is_empty() {
            return taken;
        }
        self.early.retain_mut(|(of, frame)| {
            let stays = *of != call;
            if !stays {
                taken.push(std::mem::take(frame));
            }
            stays
        });
        self.early_bytes -= taken.iter().map(Vec::len).sum::<usize>();
        taken
    }
}
