//! How a thread that waits is woken: numbers of a host, for programs ([`super::Node`]) and for who steps threads by himself in virtual time.
//!
//! ```text
//!   whoever wakes:  ── call ──▶ goes on
//!   the sleeper:              ── way, and longer after a long sleep ──▶ its first instruction
//! ```

use super::Host;
use crate::kernel::program::deeper;
use base::Picos;

/// A wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// Whoever wakes is busy for so long.
    pub call: Picos,
    /// From there to the first instruction of a thread that has just gone to sleep.
    pub way: Picos,
    /// How much longer that is after a long sleep, and how long that is: of a shorter one its share.
    pub deep: (Picos, Picos),
}

impl WakeUp {
    /// The way of a thread that has had nothing to do for so long and looks for work for `awake` before it sleeps; none, if it still looks.
    pub fn way_of(&self, free: Picos, awake: Picos) -> Option<Picos> {
        (free > awake).then(|| self.way.plus(deeper(free.since(awake), self.deep)))
    }
}

impl Host {
    /// By a thread of another processor, that rings a bell of so long beside its call.
    pub fn wake_up(&self, bell: Picos) -> WakeUp {
        let way = self.wake_soon.since(self.wake_call);
        let deep = (self.wake.since(self.wake_soon), self.long_sleep);
        WakeUp { call: self.wake_call.plus(bell), way, deep }
    }

    /// By another thread of the same node: a switch, where all share a processor.
    pub fn wake_within(&self, is_shared: bool) -> WakeUp {
        match is_shared {
            true => WakeUp { call: self.switch, way: Picos::ZERO, deep: (Picos::ZERO, Picos::ZERO) },
            false => self.wake_up(Picos::ZERO),
        }
    }
}
