//! What a node did in a step, for who says what that takes.

use std::sync::{Arc, Mutex, PoisonError};

/// A piece of a step. What comes before the first [`Act::Core`] is the edge's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// One call took so many bytes from a client; none, if there were none.
    Read(usize),
    /// One call gave so many bytes to the client of this number.
    Sent(usize, usize),
    /// The thread of this engine core goes on; the edge waits for it.
    Core(usize),
    /// The edge goes on.
    Edge,
    /// So many requests were taken from their rings.
    Admitted(usize),
    /// One access to memory of so many requests was asked for, all at once.
    Touched(usize),
    /// So many requests were executed.
    Executed(usize),
}

/// Where acts are noted, if anybody wants to know. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Acts(Arc<Mutex<Option<Vec<Act>>>>);

impl Acts {
    /// They are wanted from now on.
    pub fn begin(&self) {
        self.with(|acts| _ = acts.get_or_insert_default());
    }

    pub fn note(&self, act: Act) {
        self.with(|acts| acts.iter_mut().for_each(|acts| acts.push(act)));
    }

    /// Moves all that were noted to `into`, in place of what is there.
    pub fn take(&self, into: &mut Vec<Act>) {
        into.clear();
        self.with(|acts| acts.iter_mut().for_each(|acts| std::mem::swap(acts, into)));
    }

    fn with(&self, act: impl FnOnce(&mut Option<Vec<Act>>)) {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
