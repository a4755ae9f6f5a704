//! Ranks by Zipf's law: rank `i` of `0..n` with probability proportional to `1 / (i + 1)^theta`.
//!
//! Why not YCSB's formula (Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994): it is
//! exact for the first two ranks only and needs the sum over all `n` whenever `n` changes. Rejection-inversion is exact
//! for every rank, has no table, and a new `n` costs two powers, which the `latest` distribution needs on each insert.
//!
//! Cost: one random number, one power and, for the head ranks, a second one; 1.0–1.3 rounds. No memory.
//!
//! Source: Hörmann & Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions" (1996).
//!
//! Tests: against the exact distribution by a chi-square bound, for several `theta` and `n`.

use crate::Prng;

/// A sampler of ranks.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    theta: f64,
    /// The integral of the weight up to 1.5, less the weight of the first rank: where sampling starts.
    low: f64,
    /// The integral of the weight up to `n + 0.5`: where it ends.
    high: f64,
    /// Candidates this close below their rank are accepted without a second power.
    shortcut: f64,
}

impl Zipf {
    /// A sampler over `n` ranks (at least one) with skew `theta` of 0 (uniform) or more; YCSB uses 0.99.
    pub fn new(n: u64, theta: f64) -> Zipf {
        assert!(n > 0 && theta >= 0.0 && theta.is_finite(), "zipf({n}, {theta}) has no distribution");
        let mut zipf = Zipf { n, theta, low: 0.0, high: 0.0, shortcut: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(n as f64 + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - 2f64.powf(-theta));
        zipf
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u64 {
        self.n
    }

    /// Changes the number of ranks to `n`, at least one.
    pub fn resize(&mut self, n: u64) {
        assert!(n > 0, "a distribution needs a rank");
        self.n = n;
        self.high = self.integral(n as f64 + 0.5);
    }

    /// A rank, the most popular being 0.
    #[inline]
    pub fn sample(&self, prng: &mut Prng) -> u64 {
        loop {
            let u = self.high + prng.unit_f64() * (self.low - self.high);
            let x = self.inverse(u);
            // Clamped: rounding may leave the range by a hair at either end.
            let rank = (x + 0.5).floor().clamp(1.0, self.n as f64);
            if rank - x <= self.shortcut || u >= self.integral(rank + 0.5) - rank.powf(-self.theta) {
                return rank as u64 - 1;
            }
        }
    }

    /// The integral of `x^-theta`, up to a constant that cancels out.
    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.theta;
        let log_x = x.ln();
        if power.abs() < 1e-9 { log_x } else { (power * log_x).exp_m1() / power }
    }

    /// The inverse of [`Zipf::integral`].
    fn inverse(&self, y: f64) -> f64 {
        let power = 1.0 - self.theta;
        if power.abs() < 1e-9 { y.exp() } else { ((power * y).max(-1.0).ln_1p() / power).exp() }
    }
}

/// Scatters popular ranks over the keys, so that they are no neighbours: a bijection on `0..n`, multiplication by a number
/// coprime to `n`, near the golden section of it.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    factor: u64,
    n: u64,
}

impl Scatter {
    /// The bijection on `0..n`, at least one.
    pub fn new(n: u64) -> Scatter {
        let mut factor = ((n as f64 * 0.618_033_988_749_895) as u64).max(1);
        while gcd(factor, n) != 1 {
            factor += 1;
        }
        Scatter { factor, n }
    }

    /// Where `rank`, which is below `n`, goes.
    #[inline]
    pub fn place(&self, rank: u64) -> u64 {
        if self.n <= u64::from(u32::MAX) {
            return rank * self.factor % self.n;
        }
        (u128::from(rank) * u128::from(self.factor) % u128::from(self.n)) as u64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pearson's statistic of `draws` samples against the exact law, with thin ranks pooled, and its degrees of freedom.
    fn chi_square(n: u64, theta: f64, draws: u64, seed: u64) -> (f64, f64) {
        let zipf = Zipf::new(n, theta);
        let mut prng = Prng::new(seed);
        let mut seen = vec![0u64; n as usize];
        (0..draws).for_each(|_| seen[zipf.sample(&mut prng) as usize] += 1);
        let weight = |rank: usize| ((rank + 1) as f64).powf(-theta);
        let total: f64 = (0..n as usize).map(weight).sum();
        let (mut stat, mut groups, mut want, mut got) = (0.0, 0.0, 0.0, 0.0);
        for (rank, &count) in seen.iter().enumerate() {
            want += weight(rank) / total * draws as f64;
            got += count as f64;
            if want >= 10.0 || rank + 1 == seen.len() {
                stat += (got - want) * (got - want) / want.max(1.0);
                groups += 1.0;
                (want, got) = (0.0, 0.0);
            }
        }
        (stat, groups - 1.0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn samples_follow_the_exact_law(n in 1u64..3_000, theta in 0.0f64..2.5, seed: u64) {
            let (stat, freedom) = chi_square(n, theta, 40_000, seed);
            // Six standard deviations of the statistic: one false alarm in more runs than anyone will make.
            prop_assert!(stat <= freedom + 6.0 * (2.0 * freedom).sqrt() + 12.0, "{stat} at {freedom}");
        }

        #[test]
        fn scattering_is_a_bijection(n in 1u64..5_000) {
            let scatter = Scatter::new(n);
            let mut hit = vec![false; n as usize];
            (0..n).for_each(|rank| hit[scatter.place(rank) as usize] = true);
            prop_assert!(hit.iter().all(|&h| h));
        }

        #[test]
        fn resizing_equals_making_anew(n in 1u64..1_000_000, m in 1u64..1_000_000, theta in 0.0f64..2.0, seed: u64) {
            let mut resized = Zipf::new(n, theta);
            resized.resize(m);
            let (mut a, mut b) = (Prng::new(seed), Prng::new(seed));
            let fresh = Zipf::new(m, theta);
            for _ in 0..50 {
                let rank = resized.sample(&mut a);
                prop_assert!(rank < m);
                prop_assert_eq!(rank, fresh.sample(&mut b));
            }
        }
    }

    #[test]
    fn the_checker_finds_a_wrong_law() {
        // Planted: samples of theta 0.99 held against the law of theta 0.9.
        let zipf = Zipf::new(100, 0.99);
        let mut prng = Prng::new(1);
        let first = (0..40_000).filter(|_| zipf.sample(&mut prng) == 0).count() as f64;
        let share = |theta: f64| 1.0 / (1..=100).map(|i| f64::from(i).powf(-theta)).sum::<f64>();
        let sigma = (40_000.0 * share(0.9)).sqrt();
        assert!((first - 40_000.0 * share(0.9)).abs() > 6.0 * sigma);
        assert!((first - 40_000.0 * share(0.99)).abs() < 6.0 * sigma);
    }

    #[test]
    fn billions_of_ranks_need_no_memory() {
        let zipf = Zipf::new(1 << 40, 0.99);
        let mut prng = Prng::new(5);
        assert!((0..10_000).all(|_| zipf.sample(&mut prng) < 1 << 40));
    }
}
