//! What an engine runs on: a processor core that tells the time, or the model of one.
//!
//! Why a parameter of [`Engine`](crate::Engine): the same loop, with the same services, then runs on a real core and in virtual
//! time, and what is planned on a model is what runs. On a real core everything but the time is a no-op that compiles away.
//!
//! Rules of a model: time moves only in [`Core::touched`] and [`Core::worked`], and between two passes.

use base::{Clock, Nanos};

/// A piece of work that an engine did for some requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// They were taken from their rings.
    Admit,
    /// They were executed, staged.
    Execute,
    /// Their tasks were polled, each once.
    Poll,
}

/// The core that an engine runs on.
pub trait Core: Send + 'static {
    /// The time, from an origin of the core's choice, the one of the stamps that edges give their requests. It never goes back.
    fn now(&mut self) -> Nanos;

    /// Access number `step` of `n` requests was asked for, all of them before the first was waited for: the core goes on when they
    /// are there. A task's accesses have no numbers, so theirs is 0.
    #[inline(always)]
    fn touched(&mut self, step: usize, n: usize) {
        let _ = (step, n);
    }

    /// `work` was done for `n` requests.
    #[inline(always)]
    fn worked(&mut self, work: Work, n: usize) {
        let _ = (work, n);
    }
}

/// The core that runs this program: the process's cycle clock ([`Clock::shared`]), and misses that cost what they cost.
#[derive(Clone, Copy, Debug)]
pub struct CycleCore(Clock);

impl Default for CycleCore {
    fn default() -> CycleCore {
        CycleCore(Clock::shared())
    }
}

impl Core for CycleCore {
    #[inline]
    fn now(&mut self) -> Nanos {
        self.0.now()
    }
}
