//! Random spans, the same on every machine: only additions, multiplications and divisions of IEEE numbers, which are exact
//! everywhere, where a system's `ln` is not.

use base::{Picos, Prng};

const LN_2: f64 = std::f64::consts::LN_2;

/// Natural logarithm of a positive, normal number, to about 1 in 10¹².
pub fn ln(x: f64) -> f64 {
    assert!(x.is_normal() && x > 0.0, "{x} has no logarithm here");
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut fraction = f64::from_bits(bits & !(0x7ff << 52) | 1023 << 52);
    if fraction > std::f64::consts::SQRT_2 {
        fraction /= 2.0;
        exponent += 1;
    }
    // ln f = 2 atanh((f − 1) / (f + 1)), where the argument is at most 0.172: thirteen odd terms are enough.
    let z = (fraction - 1.0) / (fraction + 1.0);
    let square = z * z;
    let mut sum = 0.0;
    let mut term = 25;
    while term > 0 {
        sum = sum * square + 1.0 / f64::from(term);
        term -= 2;
    }
    2.0 * z * sum + exponent as f64 * LN_2
}

/// The exponential function, to about 1 in 10¹²; 0 and infinity beyond what a number can be.
pub fn exp(x: f64) -> f64 {
    let halvings = (x / LN_2).round();
    if halvings.abs() > 1000.0 {
        return if x < 0.0 { 0.0 } else { f64::INFINITY };
    }
    let rest = x - halvings * LN_2;
    // |rest| is at most 0.35: fourteen terms of Taylor's series are enough.
    let mut sum = 1.0;
    for term in (1..=14).rev() {
        sum = 1.0 + sum * rest / f64::from(term);
    }
    sum * f64::from_bits(((halvings as i64 + 1023) as u64) << 52)
}

/// `base` to the power of `exponent`, for a positive base.
pub fn power(base: f64, exponent: f64) -> f64 {
    exp(exponent * ln(base))
}

/// A span with this mean, exponentially distributed.
pub fn exponential(prng: &mut Prng, mean: Picos) -> Picos {
    // From (0, 1]: `unit_f64` is from [0, 1).
    let uniform = 1.0 - prng.unit_f64();
    Picos((-ln(uniform) * mean.0 as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_logarithm() {
        for i in 1..4000 {
            let x = f64::from(i) * 0.37;
            assert!((ln(x) - x.ln()).abs() < 1e-11 * x.ln().abs().max(1.0), "{x}: {} {}", ln(x), x.ln());
        }
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(ln(10.0).to_bits(), 0x4002_6BB1_BBB5_5515, "the same bits on every machine");
    }

    #[test]
    fn it_is_the_exponential_function() {
        for i in -400..400 {
            let x = f64::from(i) * 0.7;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-11, "{x}: {} {}", exp(x), x.exp());
        }
        assert_eq!((exp(0.0), exp(-1e6), exp(1e6)), (1.0, 0.0, f64::INFINITY));
        assert!((power(3.0, -0.99) - 3f64.powf(-0.99)).abs() < 1e-12);
    }

    #[test]
    fn spans_have_their_mean_and_spread() {
        let mut prng = Prng::new(1);
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|_| exponential(&mut prng, Picos(1000)).0 as f64).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let square = draws.iter().map(|d| d * d).sum::<f64>() / f64::from(n);
        assert!((mean - 1000.0).abs() < 10.0, "{mean}");
        assert!((square / (mean * mean) - 2.0).abs() < 0.05, "{square}");
    }
}
