//! How many bytes may be on the way: slow start, then one datagram more per round trip; half after a loss.
//!
//! One reduction per round trip: only the loss of a packet that was sent after the last reduction counts again.
//!
//! Source: RFC 9002, 7 (NewReno); no pacing.

use base::units::Nanos;

/// The window.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    pub(super) window: usize,
    threshold: usize,
    datagram: usize,
    max: usize,
    /// Losses of what was sent before are part of a reduction already made.
    reduced_at: Option<Nanos>,
}

impl Congestion {
    /// Ten datagrams at first; never more than `max_packets` full ones.
    pub(super) fn new(datagram: usize, max_packets: usize) -> Congestion {
        let max = datagram * max_packets;
        Congestion {
            window: (10 * datagram).min(max),
            threshold: usize::MAX,
            datagram,
            max,
            reduced_at: None,
        }
    }

    /// `bytes` of a packet sent at `sent_at` arrived while the window was what `limited` the sender.
    pub(super) fn acknowledged(&mut self, bytes: usize, sent_at: Nanos, limited: bool) {
        if !limited || self.reduced_at.is_some_and(|at| sent_at <= at) {
            return;
        }
        let more = if self.window < self.threshold {
            bytes
        } else {
            // A fraction of a byte is rounded up, so that many small packets grow the window too.
            (self.datagram * bytes).div_ceil(self.window)
        };
        self.window = (self.window + more).min(self.max);
    }

    /// A packet sent at `sent_at` was lost.
    pub(super) fn lost(&mut self, now: Nanos, sent_at: Nanos) {
        if self.reduced_at.is_some_and(|at| sent_at <= at) {
            return;
        }
        self.reduced_at = Some(now);
        self.window = (self.window / 2).max(2 * self.datagram);
        self.threshold = self.window;
    }

    /// Nothing arrives any more.
    pub(super) fn collapse(&mut self) {
        self.threshold = self.threshold.min((self.window / 2).max(2 * self.datagram));
        self.window = 2 * self.datagram;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_then_halves_once_then_creeps() {
        let mut c = Congestion::new(1000, 100);
        assert_eq!(c.window, 10_000);
        for _ in 0..10 {
            c.acknowledged(1000, Nanos(1), true);
        }
        assert_eq!(c.window, 20_000);
        c.lost(Nanos(10), Nanos(5));
        c.lost(Nanos(11), Nanos(9));
        assert_eq!(c.window, 10_000, "one reduction per round trip");
        for _ in 0..10 {
            c.acknowledged(1000, Nanos(11), true);
        }
        assert!((10_900..11_100).contains(&c.window), "{}", c.window);
        c.acknowledged(1000, Nanos(12), false);
        assert!(c.window < 11_100, "unused room does not grow");
    }

    #[test]
    fn two_datagrams_always_pass_and_the_bound_holds() {
        let mut c = Congestion::new(1000, 12);
        for at in 0..20 {
            c.lost(Nanos(2 * at + 1), Nanos(2 * at + 1));
        }
        assert_eq!(c.window, 2000);
        for _ in 0..1000 {
            c.acknowledged(1000, Nanos(1000), true);
        }
        assert_eq!(c.window, 12_000);
        c.collapse();
        assert_eq!(c.window, 2000);
    }
}
