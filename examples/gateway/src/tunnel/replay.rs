//! Sequence numbers that were seen: each is taken once, and none that is far behind the highest.
//!
//! Bounds: [`WINDOW`] numbers, one bit each. Sources: RFC 4303, 3.4.3; RFC 6479 (whole words are cleared, nothing is shifted).

/// How far behind the highest a number may be.
pub const WINDOW: u64 = (WORDS as u64 - 1) * 64;
const WORDS: usize = 32;

/// The window.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// One more than the highest; 0: none was seen.
    end: u64,
    seen: [u64; WORDS],
}

impl Window {
    /// Whether a number could be new. It is only taken once its packet was opened: a forger could else use numbers up.
    pub fn is_fresh(&self, number: u64) -> bool {
        if number >= self.end {
            return number < u64::MAX;
        }
        let is_seen = self.seen[word(number)] >> (number % 64) & 1 == 1;
        self.end - number <= WINDOW && !is_seen
    }

    /// Takes a number; whether it was new.
    pub fn take(&mut self, number: u64) -> bool {
        if !self.is_fresh(number) {
            return false;
        }
        if number >= self.end {
            // The words between the highest and this one are new.
            let (old, new) = (self.end.div_ceil(64), number / 64 + 1);
            for at in old.max(new.saturating_sub(WORDS as u64))..new {
                self.seen[at as usize % WORDS] = 0;
            }
            self.end = number + 1;
        }
        self.seen[word(number)] |= 1 << (number % 64);
        true
    }
}

fn word(number: u64) -> usize {
    (number / 64) as usize % WORDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn steps() -> impl Strategy<Value = Vec<(bool, u64)>> {
        let step =
            prop_oneof![Just(0..3_u64), Just(0..200), Just(WINDOW - 70..WINDOW + 70), Just(0..1 << 40)];
        proptest::collection::vec((any::<bool>(), step.prop_flat_map(|range| range)), 1..200)
    }

    proptest! {
        #[test]
        fn each_number_is_taken_once_and_none_from_long_ago(steps in steps()) {
            let (mut window, mut seen, mut highest) = (Window::default(), BTreeSet::new(), 0_u64);
            for (ahead, distance) in steps {
                let number = if ahead { highest.saturating_add(distance) } else { highest.saturating_sub(distance) };
                let end = seen.last().map_or(0, |last: &u64| last + 1);
                let is_new = !seen.contains(&number) && number + WINDOW >= end;
                prop_assert_eq!(window.is_fresh(number), is_new, "{} of {}", number, end);
                prop_assert_eq!(window.take(number), is_new);
                if is_new {
                    seen.insert(number);
                }
                highest = seen.last().copied().unwrap_or(0);
            }
        }
    }

    #[test]
    fn the_last_number_is_none() {
        let mut window = Window::default();
        assert!(!window.take(u64::MAX) && window.take(u64::MAX - 1) && !window.take(u64::MAX - 1));
    }
}
