//! The word on which a sleeper is marked, and sleeping on it: a futex, in one process or across two.
//!
//! Under loom the futex is a mutex and a condition variable beside the word: as in the kernel, looking at the word and
//! going to sleep are one step for whoever wakes.

use crate::Mapping;
use crate::sync::AtomicU32;
#[cfg(loom)]
use crate::sync::Ordering;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// The word, on a line of its own.
#[repr(align(128))]
pub(super) struct Spot {
    word: AtomicU32,
    #[cfg(loom)]
    gate: loom::sync::Mutex<()>,
    #[cfg(loom)]
    rung: loom::sync::Condvar,
}

/// A handle to the word.
#[derive(Clone)]
pub(super) enum Word {
    Heap(Arc<Spot>),
    Mapped(#[allow(dead_code)] Arc<Mapping>, NonNull<AtomicU32>),
}

// SAFETY: the word is an atomic in memory that the handle keeps.
unsafe impl Send for Word {}
// SAFETY: as above.
unsafe impl Sync for Word {}

impl Word {
    pub(super) fn heap() -> Word {
        Word::Heap(Arc::new(Spot {
            word: AtomicU32::new(super::AWAKE),
            #[cfg(loom)]
            gate: loom::sync::Mutex::new(()),
            #[cfg(loom)]
            rung: loom::sync::Condvar::new(),
        }))
    }

    #[cfg(not(loom))]
    pub(super) fn mapped(memory: &Arc<Mapping>, offset: usize) -> Word {
        Word::Mapped(memory.clone(), memory.at(offset, 1))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> &AtomicU32 {
        match self {
            Word::Heap(spot) => &spot.word,
            // SAFETY: it lives as long as the mapping that the handle keeps.
            Word::Mapped(_, word) => unsafe { word.as_ref() },
        }
    }

    /// Sleeps while the word is `marked`, until woken, for at most `timeout`. May return early.
    #[cfg(not(any(loom, miri)))]
    pub(super) fn sleep(&self, marked: u32, timeout: Option<Duration>) {
        let timeout = timeout.map(super::descriptor::timespec);
        // Every result means the same to the caller: look at the condition again.
        let _ = rustix::thread::futex::wait(self.get(), self.flags(), marked, timeout.as_ref());
    }

    /// Wakes the sleeper.
    #[cfg(not(any(loom, miri)))]
    pub(super) fn wake(&self) {
        let _ = rustix::thread::futex::wake(self.get(), self.flags(), 1);
    }

    /// Miri rejects the form of rustix's futex call; a sleep that ends at once keeps every promise but the rest.
    #[cfg(miri)]
    pub(super) fn sleep(&self, _: u32, _: Option<Duration>) {
        std::thread::yield_now();
    }

    #[cfg(miri)]
    pub(super) fn wake(&self) {}

    #[cfg(not(any(loom, miri)))]
    fn flags(&self) -> rustix::thread::futex::Flags {
        match self {
            Word::Heap(_) => rustix::thread::futex::Flags::PRIVATE,
            Word::Mapped(..) => rustix::thread::futex::Flags::empty(),
        }
    }

    #[cfg(loom)]
    fn spot(&self) -> &Spot {
        let Word::Heap(spot) = self else { unreachable!("mappings do not exist under loom") };
        spot
    }

    #[cfg(loom)]
    pub(super) fn sleep(&self, marked: u32, _: Option<Duration>) {
        let spot = self.spot();
        let gate = spot.gate.lock().expect("never poisoned");
        if spot.word.load(Ordering::Relaxed) == marked {
            drop(spot.rung.wait(gate).expect("never poisoned"));
        }
    }

    #[cfg(loom)]
    pub(super) fn wake(&self) {
        let spot = self.spot();
        let _gate = spot.gate.lock().expect("never poisoned");
        spot.rung.notify_one();
    }
}
