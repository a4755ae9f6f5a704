//! One request of N.

/// Counts down from N and is at its end once in N times.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    n: u32,
    left: u32,
}

impl Sampler {
    /// One of `n`; with 0 none.
    pub fn new(n: u32) -> Sampler {
        // With N = 0 the count wraps; its end, after 2³² requests, is not counted as one.
        Sampler { n, left: n }
    }

    /// From now on one of `n`. The same number changes nothing.
    pub fn set(&mut self, n: u32) {
        if n != self.n {
            *self = Sampler::new(n);
        }
    }

    /// Whether this request is one that is sampled.
    #[inline(always)]
    pub fn hit(&mut self) -> bool {
        self.left = self.left.wrapping_sub(1);
        self.left == 0 && self.again()
    }

    #[cold]
    fn again(&mut self) -> bool {
        self.left = self.n;
        self.n != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_n_is_sampled_and_none_of_zero() {
        for n in [1u32, 3, 10] {
            let mut sampler = Sampler::new(n);
            let hits: Vec<u32> = (1..=30).filter(|_| sampler.hit()).collect();
            let expected: Vec<u32> = (1..=30).filter(|at| at % n == 0).collect();
            assert_eq!(hits, expected, "1 of {n}");
        }
        let mut sampler = Sampler::new(2);
        sampler.hit();
        sampler.set(2);
        assert!(sampler.hit(), "the same number goes on counting");
        sampler.set(0);
        assert!((0..1000).all(|_| !sampler.hit()));
        sampler.set(1);
        assert!((0..10).all(|_| sampler.hit()));
    }
}
