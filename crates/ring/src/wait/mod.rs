//! Waiting for another thread or process, as a policy: spin, then pause, then a monitored wait, then sleep.
//!
//! Why: a wake-up across cores costs tens of microseconds, a spin burns a core. How long to spin is the operator's to say, so
//! it is data. Whoever publishes pays one fence and one load while the other side is awake; a system call only when
//! it sleeps.
//!
//! Shape: one u32 word per sleeper, on the heap or in a mapping: awake (0), asleep on the word itself (1, a futex), asleep
//! on a descriptor (2: an eventfd that may sit in an epoll set, or the socket to the peer), or as 1 but waiting for something
//! that is nobody else's business (3).
//!
//! Invariants:
//! 1. The sleeper marks its word, then looks at its condition once more, then sleeps. The waker publishes, then looks at the
//!    word. With a SeqCst fence between the two steps on each side, at least one sees the other (Dekker), so no wake-up
//!    is lost.
//! 2. The waker that turns a mark back to awake is the one that makes the system call, so many wakers make one.
//! 3. Sleeping ends early at worst (a stale wake-up): the condition is what counts, and it is looked at again.
//!
//! Ordering: **dekker** marks both fences; **condition**: the condition's own loads (Acquire) pair with what was published.
//!
//! Bounds: every wait may have a timeout. On a descriptor that is a socket, the death of the peer ends the wait at once.
//!
//! Errors: none. A wake-up that the system refuses (a full socket buffer) means that one is already waiting there.
//!
//! Cost: [`Waker::wake`] with the other side awake is one fence and one load; publish in bursts and wake once for each.
//!
//! Tests: loom proves invariant 1 with its SeqCst fences (it weakens SeqCst *accesses*, which are not used here; shuttle makes every
//! access SeqCst and so could not see a missing fence).

mod monitor;
mod word;

#[cfg(not(loom))]
mod descriptor;

pub use monitor::is_available as has_monitored_wait;

use crate::Mapping;
use crate::sync::{AtomicU32, Ordering, fence, spin_loop};
use base::Nanos;
#[cfg(not(loom))]
use rustix::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use word::Word;

#[cfg(not(loom))]
pub(crate) use descriptor::Descriptor;

const AWAKE: u32 = 0;
/// Asleep on the word itself.
const ON_WORD: u32 = 1;
/// Asleep on a descriptor.
const ON_DESCRIPTOR: u32 = 2;
/// Asleep on the word itself, and of no use to [`wake_some`].
const ON_WORD_APART: u32 = 3;

/// A pause instruction, about (on Zen 3).
const PAUSE_NS: u64 = 25;

/// How a waiting thread behaves, in the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPolicy {
    /// Looks at the condition without a pause between them.
    pub spin: u32,
    /// Looks with a pause instruction between them (about 25 ns each on Zen 3).
    pub pause: u32,
    /// Monitored waits (umwait, mwaitx), where the processor has them and the wait names a word to watch. Each lasts
    /// at most about 40 µs.
    pub monitor: u32,
    /// Sleep in the kernel at last; when false, go on pausing.
    pub block: bool,
}

impl WaitPolicy {
    /// Never sleep: for a core that belongs to this thread alone.
    pub const SPIN: WaitPolicy = WaitPolicy { spin: 1 << 10, pause: 1 << 10, monitor: 0, block: false };
    /// Sleep at once: for a thread that shares its core with whoever would wake it.
    pub const BLOCK: WaitPolicy = WaitPolicy { spin: 1, pause: 0, monitor: 0, block: true };

    /// How long its looks and pauses take where a look costs nothing. Whoever's looks are system calls, or go over many sockets, stays awake for this
    /// long, not for so many looks: a thousand of them are milliseconds of a core that others may want.
    pub const fn awake(&self) -> Nanos {
        Nanos((self.spin as u64 + self.pause as u64) * PAUSE_NS)
    }

    /// What follows for a thread that has been awake for as long as this says: it sleeps at once, if this ever sleeps.
    pub const fn at_last(self) -> WaitPolicy {
        WaitPolicy { block: self.block, ..WaitPolicy::BLOCK }
    }

    /// Of a thread that waits for both: awake as long as whoever wants it longest.
    pub const fn longest(self, other: WaitPolicy) -> WaitPolicy {
        const fn most(a: u32, b: u32) -> u32 {
            if a > b { a } else { b }
        }
        WaitPolicy {
            spin: most(self.spin, other.spin),
            pause: most(self.pause, other.pause),
            monitor: most(self.monitor, other.monitor),
            block: self.block && other.block,
        }
    }
}

impl Default for WaitPolicy {
    /// About as long awake as a wake-up would cost (a few tens of microseconds), then asleep.
    fn default() -> WaitPolicy {
        WaitPolicy { spin: 64, pause: 1 << 10, monitor: 4, block: true }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The condition holds.
    Ready,
    /// The time is over and it does not.
    TimedOut,
    /// The peer at the other end of the socket is gone, and the condition does not hold.
    PeerGone,
}

/// A sleeper and the waker for it, in one process.
pub fn waiting() -> (Sleeper, Waker) {
    let word = Word::heap();
    (Sleeper::over(word.clone(), Bell::Word), Waker { word, bell: Bell::Word })
}

/// As [`waiting`], with an eventfd for a sleeper that sleeps in epoll: see [`Sleeper::arm`].
///
/// # Errors
/// The system's, when no descriptor can be had.
#[cfg(not(loom))]
pub fn waiting_on_eventfd() -> std::io::Result<(Sleeper, Waker)> {
    let (word, bell) = (Word::heap(), Bell::Descriptor(Descriptor::eventfd()?));
    Ok((Sleeper::over(word.clone(), bell.clone()), Waker { word, bell }))
}

/// What is rung when the sleeper is asleep.
#[derive(Clone)]
pub(crate) enum Bell {
    Word,
    #[cfg(not(loom))]
    Descriptor(Descriptor),
}

/// The side that waits.
pub struct Sleeper {
    word: Word,
    bell: Bell,
    /// It waits for something that [`wake_some`] does not tell of.
    apart: bool,
}

/// The side that wakes; as many clones as there are publishers.
#[derive(Clone)]
pub struct Waker {
    word: Word,
    bell: Bell,
}

impl Waker {
    /// The waker of a sleeper whose word is at `offset` of a mapping and who sleeps on that word.
    #[cfg(not(loom))]
    pub fn mapped(memory: &Arc<Mapping>, offset: usize) -> Waker {
        Waker { word: Word::mapped(memory, offset), bell: Bell::Word }
    }

    #[cfg(not(loom))]
    pub(crate) fn mapped_with(memory: &Arc<Mapping>, offset: usize, descriptor: Descriptor) -> Waker {
        Waker { word: Word::mapped(memory, offset), bell: Bell::Descriptor(descriptor) }
    }

    /// Wakes the sleeper if it sleeps; call it after publishing. Returns whether that took a system call.
    #[inline]
    pub fn wake(&self) -> bool {
        fence(Ordering::SeqCst); // label: dekker
        if self.word.get().load(Ordering::Relaxed) == AWAKE {
            return false;
        }
        self.ring()
    }

    #[cold]
    fn ring(&self) -> bool {
        // Invariant 2: one of many wakers takes the mark.
        match self.word.get().swap(AWAKE, Ordering::AcqRel) {
            AWAKE => return false,
            mark => self.call(mark),
        }
        true
    }

    /// As [`Waker::ring`], for a sleeper that is still marked so.
    #[cold]
    fn ring_marked(&self, mark: u32) -> bool {
        let taken =
            self.word.get().compare_exchange(mark, AWAKE, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if taken {
            self.call(mark);
        }
        taken
    }

    /// The system call for a mark that was taken.
    fn call(&self, mark: u32) {
        match mark {
            #[cfg(not(loom))]
            ON_DESCRIPTOR => {
                if let Bell::Descriptor(descriptor) = &self.bell {
                    descriptor.ring();
                }
            }
            // On the word, or nonsense from a peer: a futex wake without a sleeper is harmless.
            _ => self.word.wake(),
        }
    }
}

/// Wakes at most `most` of many sleepers, the first that sleep; call it after publishing what each of them looks for. Returns how many.
/// Who is awake looks once more before it sleeps.
///
/// One that is marked asleep may just have found something by itself; then the wake-up was in vain, and another sleeps on. So each
/// sleeper, when a wait ended and it took what it found, must [`pass_on`]; and one that waits for something else does so with
/// [`Sleeper::wait_apart`].
#[inline]
pub fn wake_some(wakers: &[Waker], most: usize) -> usize {
    fence(Ordering::SeqCst); // label: dekker
    let mut woken = 0;
    for waker in wakers {
        if woken == most {
            break;
        }
        let mark = waker.word.get().load(Ordering::Relaxed);
        if mark != AWAKE && mark != ON_WORD_APART && waker.ring_marked(mark) {
            woken += 1;
        }
    }
    woken
}

/// After a wait for what [`wake_some`] tells of: wakes one more if there is more. Either this sees what was published, or its
/// publisher sees that the caller is awake.
pub fn pass_on(wakers: &[Waker], is_more: impl FnOnce() -> bool) {
    fence(Ordering::SeqCst); // label: dekker
    if is_more() {
        wake_some(wakers, 1);
    }
}

impl Sleeper {
    fn over(word: Word, bell: Bell) -> Sleeper {
        Sleeper { word, bell, apart: false }
    }

    /// A sleeper whose word is at `offset` of a mapping: a futex that works across processes.
    #[cfg(not(loom))]
    pub fn mapped(memory: &Arc<Mapping>, offset: usize) -> Sleeper {
        Sleeper::over(Word::mapped(memory, offset), Bell::Word)
    }

    #[cfg(not(loom))]
    pub(crate) fn mapped_with(memory: &Arc<Mapping>, offset: usize, descriptor: Descriptor) -> Sleeper {
        Sleeper::over(Word::mapped(memory, offset), Bell::Descriptor(descriptor))
    }

    /// Waits until `condition` holds, for `timeout` at most (`None`: without end).
    pub fn wait_until(
        &mut self,
        policy: WaitPolicy,
        timeout: Option<Duration>,
        condition: impl FnMut() -> bool,
    ) -> Outcome {
        self.wait_on(policy, timeout, std::ptr::null(), condition)
    }

    /// As [`Sleeper::wait_until`], for one of many sleepers that cannot serve now what [`wake_some`] tells of: that skips it.
    ///
    /// # Panics
    /// When it sleeps on a descriptor.
    pub fn wait_apart(
        &mut self,
        policy: WaitPolicy,
        timeout: Option<Duration>,
        condition: impl FnMut() -> bool,
    ) -> Outcome {
        assert!(matches!(self.bell, Bell::Word), "only who sleeps on a word can sleep apart");
        self.apart = true;
        let outcome = self.wait_until(policy, timeout, condition);
        self.apart = false;
        outcome
    }

    /// As [`Sleeper::wait_until`], with the word that changes when the condition may have come to hold, for processors with a
    /// monitored wait. Only its address is used; null for none.
    pub fn wait_on(
        &mut self,
        policy: WaitPolicy,
        timeout: Option<Duration>,
        watched: *const AtomicU32,
        mut condition: impl FnMut() -> bool,
    ) -> Outcome {
        for _ in 0..policy.spin.max(1) {
            if condition() {
                return Outcome::Ready;
            }
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        for _ in 0..policy.pause {
            spin_loop();
            if condition() {
                return Outcome::Ready;
            }
        }
        if !watched.is_null() {
            for _ in 0..policy.monitor {
                if monitor::wait(watched.cast(), &mut condition) {
                    return Outcome::Ready;
                }
            }
        }
        if policy.block {
            self.sleep_until(deadline, condition)
        } else {
            self.pause_until(deadline, condition)
        }
    }

    fn pause_until(&mut self, deadline: Option<Instant>, mut condition: impl FnMut() -> bool) -> Outcome {
        let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        // Who has no time for more has looked as its policy says: a round of pauses would keep the core from others for tens of microseconds.
        if is_over() {
            return Outcome::TimedOut;
        }
        loop {
            for _ in 0..1024 {
                if condition() {
                    return Outcome::Ready;
                }
                spin_loop();
            }
            let gone = self.peer_is_gone();
            // The peer's last words came before its end.
            if condition() {
                return Outcome::Ready;
            }
            if gone {
                return Outcome::PeerGone;
            }
            if is_over() {
                return Outcome::TimedOut;
            }
        }
    }

    fn sleep_until(&mut self, deadline: Option<Instant>, mut condition: impl FnMut() -> bool) -> Outcome {
        let outcome = loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            self.mark();
            if condition() {
                break Outcome::Ready;
            }
            if left == Some(Duration::ZERO) {
                break Outcome::TimedOut;
            }
            let gone = self.sleep(left);
            if condition() {
                break Outcome::Ready;
            }
            if gone {
                break Outcome::PeerGone;
            }
        };
        self.word.get().store(AWAKE, Ordering::Relaxed);
        outcome
    }

    /// Says "about to sleep". What is published after this, or was before, is either seen by a look that follows or its
    /// publisher rings.
    fn mark(&self) {
        self.word.get().store(self.asleep(), Ordering::Relaxed);
        fence(Ordering::SeqCst); // label: dekker
    }

    /// The mark of this sleeper.
    fn asleep(&self) -> u32 {
        match self.bell {
            Bell::Word if self.apart => ON_WORD_APART,
            Bell::Word => ON_WORD,
            #[cfg(not(loom))]
            Bell::Descriptor(_) => ON_DESCRIPTOR,
        }
    }

    /// Sleeps until rung, at most `left`; whether the peer is known to be gone.
    fn sleep(&self, left: Option<Duration>) -> bool {
        match &self.bell {
            Bell::Word => {
                self.word.sleep(self.asleep(), left);
                false
            }
            #[cfg(not(loom))]
            Bell::Descriptor(descriptor) => {
                descriptor.sleep(left);
                descriptor.hush()
            }
        }
    }

    /// Whether the peer at the other end of the socket is gone; false for a sleeper without one. A system call.
    pub(crate) fn peer_is_gone(&self) -> bool {
        match &self.bell {
            Bell::Word => false,
            #[cfg(not(loom))]
            Bell::Descriptor(descriptor) => descriptor.peer_is_gone(),
        }
    }

    /// The descriptor to put into an epoll set (readable when rung), if this sleeper has one.
    #[cfg(not(loom))]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.bell {
            Bell::Word => None,
            Bell::Descriptor(descriptor) => Some(descriptor.as_fd()),
        }
    }

    /// For a sleeper that sleeps in epoll: call this, **then look at every ring once more**, and only then sleep on
    /// [`Sleeper::descriptor`]. Afterwards call [`Sleeper::disarm`].
    #[cfg(not(loom))]
    pub fn arm(&mut self) {
        assert!(self.descriptor().is_some(), "only a sleeper with a descriptor can sleep in epoll");
        self.mark();
    }

    /// Awake again: wakers stop ringing and the descriptor is quiet. Returns whether the peer is known to be gone.
    #[cfg(not(loom))]
    pub fn disarm(&mut self) -> bool {
        self.word.get().store(AWAKE, Ordering::Relaxed);
        match &self.bell {
            Bell::Word => false,
            Bell::Descriptor(descriptor) => descriptor.hush(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
