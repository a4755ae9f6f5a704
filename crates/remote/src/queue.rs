//! Queues of works, and the contract that all of them keep.
//!
//! 1. Works are done in the order in which they were posted, each wholly before the next begins: what a WRITE changed a later READ of the queue finds, and
//!    others see its WRITEs in their order. (Verbs need a fence between a READ and what follows; here there is none to ask for.)
//! 2. Nothing is done before [`Queue::ring`]. Many works behind one ring cost the doorbell once.
//! 3. Completions come in the order of the works; of one that is not signaled only if it failed.
//! 4. A work is within its region and what that is lent for, or it is denied and nothing of it is done. The first that fails breaks the queue: those after it
//!    are flushed, and nothing is posted any more. A new queue begins anew.
//! 5. A READ beside somebody's WRITE shows each aligned word of eight bytes as it was before or after, and words of both. Atomics are atomic with everything.
//! 6. A region that was taken back is denied; what was read of it when that happened is not handed out as done.
//! 7. An owner that is gone is noticed: at once where calls are, within a millisecond of use elsewhere ([`shm::LOOK`](crate::shm::LOOK)).
//!
//! Bounds: a queue has room for its depth of works that were posted and not polled, and for its local memory.

use crate::regions::{Access, Info};
use crate::work::{Completion, Local, Outcome, Work};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Bytes of local memory at most.
pub const LOCAL_MAX: usize = 1 << 30;

/// Why a work was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// As many works as the queue is deep wait to be polled.
    Full,
    /// It leaves local memory, or is atomic and has not eight bytes of it.
    Local,
    /// A work failed, or the owner is gone.
    Broken,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PostError::Full => "the queue is full: poll for completions first",
            PostError::Local => "beyond the queue's local memory, or an atomic of other than eight bytes",
            PostError::Broken => "the queue is broken: make a new one",
        })
    }
}

impl std::error::Error for PostError {}

/// Why a region was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The owner has none of this name.
    NotFound,
    /// It is not lent for that, or not over this queue.
    Denied,
    /// The owner cannot be asked, and why.
    Unreachable(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotFound => f.write_str("no region of this name is lent"),
            OpenError::Denied => f.write_str("the region is not lent for this, or not this way"),
            OpenError::Unreachable(why) => write!(f, "the owner of the memory cannot be asked: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// See the head of the file.
pub trait Queue: Send {
    /// Finds a region by its name, for this.
    ///
    /// # Errors
    /// [`OpenError`].
    fn open(&mut self, name: &str, access: Access) -> Result<Info, OpenError>;

    /// Bytes of local memory.
    fn local_len(&self) -> usize;

    /// Puts bytes into local memory. What works that are under way use of it must be left alone until they are done.
    ///
    /// # Panics
    /// They leave it.
    fn put(&mut self, at: u32, bytes: &[u8]);

    /// Takes bytes out of local memory.
    ///
    /// # Panics
    /// They leave it.
    fn take(&self, at: u32, bytes: &mut [u8]);

    /// Posts a work, for the next [`Queue::ring`].
    ///
    /// # Errors
    /// [`PostError`]; nothing was posted.
    fn post(&mut self, work: Work) -> Result<(), PostError>;

    /// Has all that was posted done.
    fn ring(&mut self);

    /// Adds what has become of works to `done`; how many were added.
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize;

    /// Sleeps until a poll would find something, for so long at most. It returns at once where works are done by whoever rings.
    fn wait(&mut self, timeout: Duration) {
        let _ = timeout;
    }
}

/// What queues share: local memory, works that were posted and their completions.
#[derive(Debug)]
pub(crate) struct Ledger {
    local: Vec<u8>,
    /// Bytes of local memory, wherever that is.
    local_len: usize,
    depth: usize,
    /// Posted, and not rung for.
    posted: VecDeque<Work>,
    /// Rung for, and not completed: ids, and whether they are told.
    under_way: VecDeque<(u64, bool)>,
    completed: VecDeque<Completion>,
    is_broken: bool,
}

impl Ledger {
    /// # Panics
    /// Without depth, or with more local memory than [`LOCAL_MAX`].
    pub fn new(depth: usize, local: usize) -> Ledger {
        Ledger { local: vec![0; local], ..Ledger::beside(depth, local) }
    }

    /// For a queue whose local memory is not here.
    ///
    /// # Panics
    /// As [`Ledger::new`].
    pub fn beside(depth: usize, local_len: usize) -> Ledger {
        assert!(depth > 0 && local_len <= LOCAL_MAX, "a queue has depth, and bounded memory");
        Ledger {
            local: Vec::new(),
            local_len,
            depth,
            posted: VecDeque::new(),
            under_way: VecDeque::new(),
            completed: VecDeque::new(),
            is_broken: false,
        }
    }

    pub fn local_len(&self) -> usize {
        self.local_len
    }

    #[inline]
    pub fn local(&self, Local { at, len }: Local) -> &[u8] {
        &self.local[at as usize..at as usize + len as usize]
    }

    #[inline]
    pub fn local_mut(&mut self, Local { at, len }: Local) -> &mut [u8] {
        &mut self.local[at as usize..at as usize + len as usize]
    }

    pub fn put(&mut self, at: u32, bytes: &[u8]) {
        self.local[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    pub fn take(&self, at: u32, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.local[at as usize..][..bytes.len()]);
    }

    #[inline]
    pub fn post(&mut self, work: Work) -> Result<(), PostError> {
        if self.is_broken {
            return Err(PostError::Broken);
        }
        if self.posted.len() + self.under_way.len() + self.completed.len() >= self.depth {
            return Err(PostError::Full);
        }
        let Local { at, len } = work.local;
        let is_inside = u64::from(at) + u64::from(len) <= self.local_len as u64;
        if !is_inside || (work.verb.is_atomic() && len != 8) {
            return Err(PostError::Local);
        }
        self.posted.push_back(work);
        Ok(())
    }

    /// The next work that is rung for.
    #[inline]
    pub fn begin(&mut self) -> Option<Work> {
        let work = self.posted.pop_front()?;
        self.under_way.push_back((work.id, work.is_signaled));
        Some(work)
    }

    /// Works that were posted and are not rung for.
    pub fn posted(&self) -> usize {
        self.posted.len()
    }

    /// Whether there is something to poll.
    pub fn has_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    /// Works that are under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The oldest that is under way ended so. The first failure flushes all behind it.
    #[inline]
    pub fn end(&mut self, outcome: Outcome) {
        let Some((id, is_told)) = self.under_way.pop_front() else { return };
        if is_told || outcome != Outcome::Done {
            self.completed.push_back(Completion { id, outcome });
        }
        if outcome != Outcome::Done {
            self.break_down();
        }
    }

    /// The owner is gone.
    pub fn lose(&mut self) {
        if self.under_way.is_empty() {
            let _ = self.begin();
        }
        match self.under_way.len() {
            0 => self.break_down(),
            _ => self.end(Outcome::Unreachable),
        }
    }

    /// Nothing is done any more; what is under way or posted is flushed.
    pub fn break_down(&mut self) {
        self.is_broken = true;
        while self.begin().is_some() {}
        let flushed = |(id, _)| Completion { id, outcome: Outcome::Flushed };
        self.completed.extend(self.under_way.drain(..).map(flushed));
    }

    #[inline]
    pub fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let count = self.completed.len();
        done.extend(self.completed.drain(..));
        count
    }
}
