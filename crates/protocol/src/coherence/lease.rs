//! Spans of time that one node grants another: the one place where they become moments.
//!
//! Clocks need not agree; they must run at the same rate to within one part in [`DRIFT`]. The granter counts the whole
//! span from when it *answered*, on its clock; the holder counts a shortened one from before it *asked*, on its own:
//!
//! ```text
//! holder   asked ├───────── span · (1 − 1/DRIFT) ─────────┤ end
//! granter              answered ├───────────── span ─────────────┤ end
//! ```
//!
//! A holder that must not forget before the granter has counted the whole span keeps what it has until [`outlived`].
//!
//! Invariant: the holder's end lies before the granter's, whatever the network did in between. A moment of
//! [`Nanos::MAX`] never comes; a span of it never ends.

use base::Nanos;

/// Clocks may differ by one part in so many.
pub const DRIFT: u64 = 100;

/// When a span ends for who asked for it at `asked`.
pub const fn holder_end(asked: Nanos, span: Nanos) -> Nanos {
    if span.0 == u64::MAX { Nanos::MAX } else { asked.plus(Nanos(span.0 - span.0.div_ceil(DRIFT))) }
}

/// When a span ends for who granted it at `answered`.
pub const fn granter_end(answered: Nanos, span: Nanos) -> Nanos {
    answered.plus(span)
}

/// When a span has ended for who granted it, as who was granted it counts: from when the answer came, or later.
pub const fn outlived(received: Nanos, span: Nanos) -> Nanos {
    received.plus(span).plus(Nanos(span.0.div_ceil(DRIFT - 1)))
}

/// What is left at `now` until `end`, to be granted to somebody else.
pub const fn left(end: Nanos, now: Nanos) -> Nanos {
    if end.0 == u64::MAX { Nanos::MAX } else { end.since(now) }
}

/// Whether what ends at `end` still runs at `now`. Its last moment is the one before `end`.
pub const fn runs(end: Nanos, now: Nanos) -> bool {
    now.0 < end.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_ends_first_by_more_than_the_drift() {
        for span in [1, 2, 99, 100, 101, 1_000_000, u64::MAX - 1] {
            let holder = holder_end(Nanos(5), Nanos(span));
            let granter = granter_end(Nanos(5), Nanos(span));
            assert!(holder < granter || granter == Nanos::MAX, "{span}");
            // A holder whose clock runs slow by the drift still ends in time.
            let real = u128::from(holder.0 - 5) * u128::from(DRIFT) / u128::from(DRIFT - 1);
            assert!(real <= u128::from(span), "{span}");
            // And one whose clock runs fast has not forgotten too early.
            let outlived = outlived(Nanos(5), Nanos(span));
            let real = u128::from(outlived.0 - 5) * u128::from(DRIFT - 1) / u128::from(DRIFT);
            assert!(real >= u128::from(span) || outlived == Nanos::MAX, "{span}");
        }
    }

    #[test]
    fn for_ever_stays_so_and_nothing_wraps() {
        assert_eq!(holder_end(Nanos(7), Nanos::MAX), Nanos::MAX);
        assert_eq!(holder_end(Nanos(u64::MAX - 1), Nanos(1000)), Nanos::MAX);
        assert_eq!(granter_end(Nanos(u64::MAX - 1), Nanos(1000)), Nanos::MAX);
        assert_eq!(left(Nanos::MAX, Nanos(3)), Nanos::MAX);
        assert_eq!(left(Nanos(3), Nanos(5)), Nanos::ZERO);
    }

    #[test]
    fn an_empty_span_has_no_moment() {
        assert!(!runs(holder_end(Nanos(9), Nanos(1)), Nanos(9)));
        assert!(runs(holder_end(Nanos(9), Nanos(2)), Nanos(9)));
    }
}
