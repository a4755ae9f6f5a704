//! What clients ask: which operation, in what shares, and for which key.
//!
//! A [`Mix`] draws the same on every machine. [`Keys`] with a skew go through powers and logarithms, which mathematical libraries round
//! in their own way: where two differ in the last bit, a draw in some millions may be the neighbouring rank.

use base::Prng;
use base::prng::mix64;
use base::zipf::{Scatter, Zipf};

/// A choice among things with whole-number weights, so that it is the same on every machine.
#[derive(Clone, Debug)]
pub struct Mix<T> {
    /// Things, each with the sum of the weights up to and with it.
    choices: Vec<(u64, T)>,
    sum: u64,
}

impl<T: Clone> Mix<T> {
    /// A choice by weight. At least one weight must not be zero, and their sum must be below 2⁶⁴.
    pub fn new(weights: &[(u64, T)]) -> Mix<T> {
        let mut sum = 0u64;
        let mut choices = Vec::new();
        for (weight, thing) in weights {
            sum = sum.checked_add(*weight).expect("weights add up to less than 2⁶⁴");
            choices.push((sum, thing.clone()));
        }
        assert!(sum > 0, "a mix needs a weight that is not zero");
        Mix { choices, sum }
    }

    /// The next one. Draws once.
    pub fn draw(&self, random: &mut Prng) -> &T {
        let at = random.below(self.sum);
        let place = self.choices.partition_point(|choice| choice.0 <= at);
        &self.choices[place].1
    }
}

/// How popular keys are: by Zipf's law with some skew (0: all alike). Which of them are the popular ones depends on a number.
#[derive(Clone, Debug)]
pub struct Keys {
    zipf: Zipf,
    scatter: Scatter,
    first: u64,
}

impl Keys {
    /// Keys `0..count`, at least one and fewer than 2⁶³, with skew `theta`; `order` decides which of them are popular.
    pub fn new(count: u64, theta: f64, order: u64) -> Keys {
        assert!(count < 1 << 63, "{count} keys are too many");
        Keys { zipf: Zipf::new(count, theta), scatter: Scatter::new(count), first: mix64(order) % count }
    }

    /// The next key.
    pub fn draw(&self, random: &mut Prng) -> u64 {
        self.of_rank(self.zipf.sample(random))
    }

    /// The key of a rank, 0 being the most popular.
    pub fn of_rank(&self, rank: u64) -> u64 {
        (self.scatter.place(rank) + self.first) % self.zipf.ranks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mix_follows_its_weights() {
        let mix = Mix::new(&[(95, 'r'), (0, 'x'), (5, 'w')]);
        let mut random = Prng::new(1);
        let drawn: Vec<char> = (0..100_000).map(|_| *mix.draw(&mut random)).collect();
        let writes = drawn.iter().filter(|&&c| c == 'w').count();
        assert!((4_500..5_500).contains(&writes) && !drawn.contains(&'x'), "{writes}");
    }

    #[test]
    fn the_popular_key_depends_on_the_order() {
        let top: Vec<u64> = (0..20).map(|order| Keys::new(1_000, 0.99, order).of_rank(0)).collect();
        assert!(top.windows(2).any(|pair| pair[0] != pair[1]));
        let keys = Keys::new(1_000, 0.99, 7);
        let mut random = Prng::new(2);
        let hits = (0..10_000).filter(|_| keys.draw(&mut random) == keys.of_rank(0)).count();
        // Its share is 1 / Σ i^-0.99, about 0.129.
        assert!((1_150..1_450).contains(&hits), "{hits}");
    }

    proptest! {
        #[test]
        fn ranks_and_keys_are_one_to_one(count in 1u64..500, order: u64) {
            let keys = Keys::new(count, 0.5, order);
            let mut seen: Vec<u64> = (0..count).map(|rank| keys.of_rank(rank)).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }
    }
}
