//! How popular the most popular keys are: Zipf's law, in closed form. It is what a large cache that keeps what was used last answers; what such a
//! cache misses by being surprised is not in it.
//!
//! Key `k` of `n`, counted from 1, is asked for in proportion to `1 / k^theta`. Weights of the first thousand keys are added one by one; beyond,
//! Euler and Maclaurin's formula takes their place, which is off by less than one in 10⁹. The same on every machine.
//!
//! Cost: a thousand powers for the first question about a theta, a few for those that follow on the same thread: an experiment asks of one theta some hundred
//! times, and an audit runs it some hundred times, of which these sums were two thirds.

use crate::random::{ln, power};
use std::cell::RefCell;
use std::rc::Rc;

/// Keys whose weights are added one by one.
const HEAD: u64 = 1000;
/// Thetas whose first keys' weights a thread remembers.
const REMEMBERED: usize = 16;

thread_local! {
    /// By the bits of theta, those asked for last at the end: the weight of the first key, of the first two, …
    static HEADS: RefCell<Vec<(u64, Rc<[f64]>)>> = const { RefCell::new(Vec::new()) };
}

/// Weights of the first keys together, from one on to [`HEAD`].
fn heads(theta: f64) -> Rc<[f64]> {
    HEADS.with_borrow_mut(|known| {
        let at = known.iter().position(|(bits, _)| *bits == theta.to_bits());
        let found = at.map(|at| known.remove(at)).unwrap_or_else(|| {
            let together = |sum: &mut f64, k: u64| {
                *sum += power(k as f64, -theta);
                Some(*sum)
            };
            (theta.to_bits(), (1..=HEAD).scan(0.0, together).collect())
        });
        if known.len() == REMEMBERED {
            known.remove(0);
        }
        known.push(found.clone());
        found.1
    })
}

/// The share of requests for the `held` most popular of `keys`.
pub fn head_share(keys: u64, theta: f64, held: u64) -> f64 {
    if held >= keys { 1.0 } else { weight(held, theta) / weight(keys, theta) }
}

/// Of the first `n` keys together.
fn weight(n: u64, theta: f64) -> f64 {
    let head = n.min(HEAD).checked_sub(1).map_or(0.0, |last| heads(theta)[last as usize]);
    if n <= HEAD {
        return head;
    }
    let (from, to) = (HEAD as f64, n as f64);
    let rest = 1.0 - theta;
    let integral =
        if rest.abs() < 1e-9 { ln(to / from) } else { (power(to, rest) - power(from, rest)) / rest };
    let ends = (power(to, -theta) - power(from, -theta)) / 2.0;
    let slopes = theta * (power(from, -theta - 1.0) - power(to, -theta - 1.0)) / 12.0;
    head + integral + ends + slopes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn weights_are_the_sums() {
        for (n, theta) in [(5000_u32, 0.0), (5000, 0.5), (100_000, 0.99), (100_000, 1.0), (30_000, 1.5)] {
            let plain: f64 = (1..=n).map(|k| f64::from(k).powf(-theta)).sum();
            assert!((weight(u64::from(n), theta) / plain - 1.0).abs() < 1e-9, "{n} {theta}");
        }
        // What is remembered is the same to the last bit, whatever was asked between.
        let sums = |theta: f64| (1..=HEAD).map(|n| weight(n, theta).to_bits()).collect::<Vec<_>>();
        let before = sums(0.9);
        (0..40).for_each(|of| drop(sums(f64::from(of) / 40.0)));
        assert_eq!(before, sums(0.9));
        let plain: f64 = (1..=HEAD).map(|k| power(k as f64, -0.9)).sum();
        assert_eq!(before.last(), Some(&plain.to_bits()));
        assert_eq!((head_share(1000, 0.0, 250), head_share(10, 0.99, 10)), (0.25, 1.0));
        // 512 MiB of pairs of 64 B out of 100 M: nearly all of the uniform load misses (ORCA, Sec. VI-B: more than 90 %).
        assert!(head_share(100_000_000, 0.0, (512 << 20) / 64) < 0.1);
    }

    proptest! {
        #[test]
        fn a_share_grows_with_what_is_held_and_with_skew(held in 1_u64..100_000, theta in 0.0_f64..1.2) {
            let keys = 1_000_000;
            prop_assert!(head_share(keys, theta, held) < head_share(keys, theta, held + 1));
            prop_assert!(head_share(keys, theta, held) < head_share(keys, theta + 0.01, held));
        }
    }
}
