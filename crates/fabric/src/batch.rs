//! When to show what was put into a ring.
//!
//! Why: showing an entry at once makes it arrive soonest; showing several together costs each less, since the other side takes
//! the line that it watches away once and not once an entry. Which is better depends on the load, so the size of a batch is a
//! register, and may follow the load by itself.
//!
//! * **fixed**: after every B entries.
//! * **adaptive**: as long as the other side has enough to do without them. Entries wait for company only up to a share
//!   ([`Batch::SHARE`]) of all that are out there; so a lone call is shown at once, and a window of calls moves in batches that
//!   are a part of it, never the whole. Whoever does not know how many are out there goes by the most that a poll has found lately
//!   ([`Batch::peak`]). There is no clock, and nothing to tune to a machine.
//!
//! Where publishing is a system call ([`Policy::over`]), company is worth waiting for whatever the load: adaptive is then as many as one
//! turn brings.
//!
//! Contract: the caller tells of every entry it puts ([`Batch::put`]), of every poll ([`Batch::polled`]), and asks
//! before it sleeps ([`Batch::take`]); whenever the answer is true it publishes the ring, rings the doorbell, or flushes the link.
//!
//! Invariants:
//! 1. At most [`Policy`]'s B − 1 entries wait.
//! 2. None waits after a poll that found nothing, after [`Batch::PATIENCE`] polls that found something, nor after [`Batch::take`].
//! 3. Adaptive: none waits alone, that is, while all that are out there wait.
//!
//! Cost: an addition, a multiplication and two comparisons an entry; a comparison a poll. Against fixed batches: see
//! `docs/measurements/fabric-batch.md`.
//!
//! Sources: Dagger items 16 and 19 (which leaves the policy open).

use crate::link::Transport;
use crate::registers::{Id, Registers};

/// How many entries become visible together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// After every so many.
    Fixed(u32),
    /// As the load makes it worth, at most so many.
    Adaptive(u32),
}

impl Default for Policy {
    /// As registers have it at first.
    fn default() -> Policy {
        Policy::Adaptive(16)
    }
}

impl Policy {
    /// As the registers say now.
    pub fn of(registers: &Registers) -> Policy {
        let size = registers.read(Id::BatchSize) as u32;
        match registers.read(Id::BatchMode) {
            0 => Policy::Fixed(size),
            _ => Policy::Adaptive(size),
        }
    }

    /// For a link of this transport.
    pub fn over(self, transport: Transport) -> Policy {
        match self {
            Policy::Adaptive(_) if !transport.is_ring() => Policy::Fixed(Batch::TURN),
            other => other,
        }
    }
}

/// The entries that were put into one ring and not shown yet.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    policy: Policy,
    waiting: u32,
    peak: u32,
    /// Polls that something has waited for.
    age: u32,
    /// Polls until the peak falls by one.
    fall: u32,
}

impl Batch {
    /// The part of what is out there that may wait: a numerator and a denominator.
    pub const SHARE: (u32, u32) = (3, 8);
    /// Polls that found something, but less than the peak, after which the peak falls by one.
    pub const FALL: u32 = 64;
    /// Polls that found something, after which what waits does so no longer: others may keep the link busy for ever.
    pub const PATIENCE: u32 = 8;
    /// Entries of one turn that leave together, where each publication is a system call.
    pub const TURN: u32 = 64;

    /// Nothing waits yet.
    pub fn new(policy: Policy) -> Batch {
        Batch { policy, waiting: 0, peak: 0, age: 0, fall: Batch::FALL }
    }

    /// Another policy from the next entry on.
    pub fn set(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// What it goes by.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Entries that wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The most entries that a poll found lately: what a server, which sees only the part of its caller's window that has arrived,
    /// takes for what is out there.
    #[inline]
    pub fn peak(&self) -> u32 {
        self.peak
    }

    /// One more entry was put. `out` counts all that the other side has or will get, those that wait included:
    /// a client's calls in flight, or [`Batch::peak`]. Whether to publish.
    #[inline]
    pub fn put(&mut self, out: u32) -> bool {
        self.waiting += 1;
        let enough = match self.policy {
            Policy::Fixed(size) => size,
            Policy::Adaptive(most) => most.min(out.saturating_mul(Batch::SHARE.0) / Batch::SHARE.1),
        };
        self.waiting >= enough && self.take()
    }

    /// A poll found so many entries from the other side. Whether to publish.
    #[inline]
    pub fn polled(&mut self, found: usize) -> bool {
        if found == 0 {
            return self.take();
        }
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if found >= self.peak {
            (self.peak, self.fall) = (found, Batch::FALL);
        } else if self.fall == 0 {
            (self.peak, self.fall) = (self.peak - 1, Batch::FALL);
        } else {
            self.fall -= 1;
        }
        self.age += u32::from(self.waiting > 0);
        self.age > Batch::PATIENCE && self.take()
    }

    /// Before sleeping, and whenever else nothing may wait. Whether to publish.
    #[inline]
    pub fn take(&mut self) -> bool {
        self.age = 0;
        std::mem::take(&mut self.waiting) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a caller does next.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put,
        Polled(usize),
        Take,
        Set(Policy),
    }

    fn policy() -> impl Strategy<Value = Policy> {
        (any::<bool>(), 1..=64u32)
            .prop_map(|(fixed, n)| if fixed { Policy::Fixed(n) } else { Policy::Adaptive(n) })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => Just(Step::Put),
            4 => (0..80usize).prop_map(Step::Polled),
            1 => Just(Step::Take),
            1 => policy().prop_map(Step::Set),
        ]
    }

    proptest! {
        #[test]
        fn nothing_waits_too_long(start in policy(), steps in proptest::collection::vec(step(), 0..300)) {
            let mut batch = Batch::new(start);
            let (mut waiting, mut out, mut age) = (0u32, 0u32, 0u32);
            for step in steps {
                let publish = match step {
                    Step::Put => {
                        (waiting, out) = (waiting + 1, out + 1);
                        batch.put(out)
                    }
                    Step::Polled(found) => {
                        let found = found.min((out - waiting) as usize);
                        out -= found as u32;
                        let publish = batch.polled(found);
                        age += u32::from(found > 0 && waiting > 0);
                        prop_assert!(publish == (waiting > 0 && (found == 0 || age > Batch::PATIENCE)));
                        publish
                    }
                    Step::Take => {
                        let publish = batch.take();
                        prop_assert_eq!(publish, waiting > 0);
                        publish
                    }
                    Step::Set(policy) => {
                        batch.set(policy);
                        false
                    }
                };
                if publish {
                    (waiting, age) = (0, 0);
                }
                prop_assert_eq!(batch.waiting(), waiting);
                if matches!(step, Step::Put) {
                    let (Policy::Fixed(most) | Policy::Adaptive(most)) = batch.policy();
                    prop_assert!(waiting < most, "invariant 1");
                    let adaptive = matches!(batch.policy(), Policy::Adaptive(_));
                    prop_assert!(!adaptive || waiting == 0 || waiting < out, "invariant 3");
                }
            }
        }

        #[test]
        fn the_peak_follows_what_is_found(before in 1..200usize, now in 1..200usize) {
            let mut batch = Batch::new(Policy::Adaptive(16));
            batch.polled(before);
            for _ in 0..=(Batch::FALL + 1) as usize * before.saturating_sub(now) {
                batch.polled(now);
            }
            prop_assert_eq!(batch.peak() as usize, now);
        }
    }

    #[test]
    fn a_lone_call_is_shown_at_once_and_a_window_moves_in_parts() {
        let mut batch = Batch::new(Policy::Adaptive(16));
        assert!(batch.put(1) && batch.put(2), "nothing to wait for");
        let published = (0..64).filter(|_| batch.put(64)).count();
        assert_eq!(published, 4, "sixteen at a time");
        let published = (0..9).filter(|_| batch.put(8)).count();
        assert_eq!(published, 3, "three eighths of eight at a time");
    }

    #[test]
    fn registers_say_which() {
        let registers = Registers::default();
        assert_eq!(Policy::of(&registers), Policy::Adaptive(16));
        registers.set_live("batch.mode", "fixed").expect("live");
        registers.set_live("batch.size", "4").expect("live");
        assert_eq!(Policy::of(&registers), Policy::Fixed(4));
    }
}
