//! Means, with operations that give the same bits on every machine.

/// The arithmetic mean.
pub fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The geometric mean of positive values.
pub fn geomean(values: &[f64]) -> f64 {
    let (least, most) = values.iter().fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)));
    // Where the product of value/x is 1: bisection, for a power with a fraction is not the same everywhere.
    let above = |x: f64| values.iter().map(|v| v / x).product::<f64>() > 1.0;
    let (mut low, mut high) = (least, most);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if above(middle) { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_the_means() {
        assert!((geomean(&[1.0, 4.0, 16.0]) - 4.0).abs() < 1e-12);
        assert!((geomean(&[2.5]) - 2.5).abs() < 1e-12 && (average(&[1.0, 2.0]) - 1.5).abs() < 1e-12);
        assert!(geomean(&[1e-3; 60]) > 0.9e-3, "a product of many small values does not vanish");
    }
}
