//! Whether a client's box is worth asking: one that seldom answers only makes the way to the home longer.
//!
//! ```text
//!            a box answered fewer than `worth` percent
//!    Asking ──────────────────────────────────────────▶ Sampling: one read in EIGHTH still goes through the box
//!    all    ◀──────────────────────────────────────────
//!            twice that, but at most halfway to all
//! ```
//!
//! The share is an exponential average over WINDOW reads that went through the box. It begins at all of them: a box is asked
//! until it had the time to learn. Samples keep it measured, and boxes learning what is hot. They are drawn and not counted off: a client
//! that asks for its keys in turn would ask a box for the same ones for ever.
//!
//! What samples find is less than what all reads would: copies live for a lease, and are asked for an eighth as often. So a client whose box is
//! of some use may pass it by; one whose keys are hot does not, for a hot key is hot in samples too.
//!
//! No promise rests on it: a read at the home that nobody keeps is right at any time.

use base::Prng;

/// Reads that the average forgets in.
const WINDOW: u32 = 256;
/// All reads, as the share is counted.
const ALL: u32 = 1 << 16;
/// While its box is not worth it, a client sends one read of so many through it.
const EIGHTH: u64 = 8;

/// What a client counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads that were sent to the box first.
    pub asked: u64,
    /// Of these, reads that a box answered.
    pub answered: u64,
    /// Reads that were sent straight to the home, because the box was not worth asking.
    pub direct: u64,
}

/// What a client thinks of its box.
#[derive(Clone, Debug)]
pub(super) struct Worth {
    /// Percent; 0: always worth it.
    least: u32,
    /// Of [`ALL`].
    share: u32,
    is_sampling: bool,
    stats: Stats,
}

impl Worth {
    pub(super) fn new(least: u32) -> Worth {
        Worth { least, share: ALL, is_sampling: false, stats: Stats::default() }
    }

    pub(super) fn stats(&self) -> Stats {
        self.stats
    }

    /// Whether the next read goes through the box.
    pub(super) fn asks(&mut self, random: &mut Prng) -> bool {
        let asks = !self.is_sampling || random.below(EIGHTH) == 0;
        let counter = if asks { &mut self.stats.asked } else { &mut self.stats.direct };
        *counter += 1;
        asks
    }

    /// A read that went through the box has its answer, from a box or not.
    pub(super) fn note(&mut self, by_box: bool) {
        self.stats.answered += u64::from(by_box);
        self.share -= self.share / WINDOW;
        if by_box {
            self.share += ALL / WINDOW;
        }
        let half_percents = u64::from(self.share) * 200;
        let reaches = |half: u32| half_percents >= u64::from(half) * u64::from(ALL);
        if self.is_sampling {
            self.is_sampling = !reaches((4 * self.least).min(100 + self.least));
        } else {
            self.is_sampling = !reaches(2 * self.least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Call, Client, Failed};
    use super::*;
    use crate::coherence::table::Layout;
    use crate::coherence::{Config, NodeId};
    use crate::wire::{BoxId, ClientId, Flags, Status, Verb};
    use base::Nanos;
    use std::sync::Arc;

    fn client(worth: u32) -> Client {
        let layout = Arc::new(Layout::two_levels(1, 0, 1, 1).expect("a layout"));
        let config = Config { worth, ..Config::default() };
        Client::new(&config, ClientId(1), BoxId(1), layout, Prng::new(7))
    }

    /// Reads, and how many of them went through the box; `held` says whether it has the key.
    fn read(client: &mut Client, reads: u64, verb: Verb, mut held: impl FnMut(u64) -> bool) -> u64 {
        let mut through = 0;
        for i in 0..reads {
            let mut out = Vec::new();
            client.start(Nanos(i), Call::new(verb, b"k").operand(1), &mut out).expect("it begins");
            let (to, request) = out.pop().expect("a request");
            let by_box = to == NodeId::Box(BoxId(1));
            assert_eq!(by_box, !request.header.flags.contains(Flags::NO_CACHE));
            let mut reply = request.reply(Status::NotStored);
            if verb != Verb::Get {
                reply.header.flags = reply.header.flags.with(Flags::TRY);
            }
            if by_box && held(i) {
                reply.header.flags = reply.header.flags.with(Flags::FROM_BOX);
            }
            through += u64::from(by_box);
            client.handle(Nanos(i), to, &reply, &mut out);
            let (_, outcome) = client.poll_outcome().expect("it is over");
            assert_ne!(outcome.err(), Some(Failed::Unknown));
        }
        through
    }

    #[test]
    fn a_box_that_never_answers_is_passed_by_but_for_samples() {
        let mut client = client(10);
        let learning = read(&mut client, 1000, Verb::Get, |_| false);
        assert!((500..800).contains(&learning), "{learning}");
        let sampled = read(&mut client, 8000, Verb::Get, |_| false);
        assert!((850..1150).contains(&sampled), "{sampled}");
        let stats = client.stats();
        assert_eq!((stats.asked, stats.answered), (learning + sampled, 0));
        assert_eq!(stats.asked + stats.direct, 9000);
    }

    #[test]
    fn a_box_that_answers_often_enough_is_always_asked() {
        let mut random = Prng::new(3);
        for percent in [15, 60, 100] {
            let mut client = client(10);
            assert_eq!(read(&mut client, 5000, Verb::Get, |_| random.below(100) < percent), 5000);
        }
        assert_eq!(read(&mut client(0), 5000, Verb::Get, |_| false), 5000, "0: always");
    }

    #[test]
    fn a_client_comes_back_when_the_box_answers_again() {
        for worth in [1, 10, 60, 99] {
            let mut client = client(worth);
            read(&mut client, 3000, Verb::Get, |_| false);
            let back = read(&mut client, 20_000, Verb::Get, |_| true);
            assert!(back > 5000, "{worth}: {back}");
            assert_eq!(read(&mut client, 100, Verb::Get, |_| true), 100, "{worth}");
        }
    }

    #[test]
    fn about_the_bound_it_does_not_waver() {
        let mut worth = Worth::new(10);
        let mut random = Prng::new(5);
        let mut changes = 0;
        for _ in 0..20_000 {
            let before = worth.is_sampling;
            worth.note(random.below(100) < 10);
            changes += u32::from(worth.is_sampling != before);
        }
        assert_eq!(changes, 1, "it goes once and does not come back for as little");
    }

    #[test]
    fn tries_are_reads() {
        let mut client = client(10);
        assert!(read(&mut client, 9000, Verb::CondPut, |_| false) < 2500);
    }
}
