//! How popular the most popular keys are: Zipf's law, in closed form. It is what a large cache that keeps what was used last answers; what such a
//! cache misses by being surprised is not in it.
//!
//! Key `k` of `n`, counted from 1, is asked for in proportion to `1 / k^theta`. Weights of the first thousand keys are added one by one; beyond,
//! Euler and Maclaurin's formula takes their place, which is off by less than one in 10⁹. The same on every machine.

use crate::random::{ln, power};

/// Keys whose weights are added one by one.
const HEAD: u64 = 1000;

/// The share of requests for the `held` most popular of `keys`.
pub fn head_share(keys: u64, theta: f64, held: u64) -> f64 {
    if held >= keys { 1.0 } else { weight(held, theta) / weight(keys, theta) }
}

/// Of the first `n` keys together.
fn weight(n: u64, theta: f64) -> f64 {
    let head: f64 = (1..=n.min(HEAD)).map(|k| power(k as f64, -theta)).sum();
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
