//! How skewed a popularity is, by requests for keys: Zipf's theta, by the greatest likelihood.
//!
//! Whoever ranks keys by how often they were asked for and then counts the same requests finds a skew where there is none: of keys that are asked for alike
//! some were asked for more often. So keys are ranked by one half of the requests and counted by the other, and the other way round. Keys that are asked for
//! as often in the first half have the mean of their ranks' logarithms.
//!
//! Of keys of which one in N is looked at the n-th has about the rank N·n of all, and Zipf's law has the same theta for both.

use std::cmp::Reverse;

/// Fewer keys or requests say nothing.
const KEYS_MIN: usize = 20;
const REQUESTS_MIN: u64 = 500;
/// Nothing is as skewed.
const THETA_MAX: f64 = 5.0;
/// Halvings: to the sixth digit.
const STEPS: usize = 24;

/// Zipf's theta of keys by their requests in two halves of the time; 0 is uniform. None: there are too few.
pub fn theta(keys: &[[u32; 2]]) -> Option<f64> {
    let requests: u64 = keys.iter().flatten().map(|count| u64::from(*count)).sum();
    if keys.len() < KEYS_MIN || requests < REQUESTS_MIN {
        return None;
    }
    let of = |ranked: usize| {
        let mut pairs: Vec<(u32, u32)> =
            keys.iter().map(|halves| (halves[ranked], halves[1 - ranked])).collect();
        pairs.sort_unstable_by_key(|(count, _)| Reverse(*count));
        likeliest(&pairs)
    };
    Some((of(0)? + of(1)?) / 2.0)
}

/// Of keys by the counts that rank them, in descending order, and those that are counted.
fn likeliest(pairs: &[(u32, u32)]) -> Option<f64> {
    // Logarithm of the rank, how many keys have it, their requests.
    let mut groups: Vec<(f64, f64, f64)> = Vec::new();
    let mut rank = 0usize;
    for group in pairs.chunk_by(|a, b| a.0 == b.0) {
        let logarithms: f64 = (1..=group.len()).map(|n| ((rank + n) as f64).ln()).sum();
        rank += group.len();
        let size = group.len() as f64;
        let requests = group.iter().map(|(_, count)| f64::from(*count)).sum();
        groups.push((logarithms / size, size, requests));
    }
    let all: f64 = groups.iter().map(|(_, _, requests)| requests).sum();
    if all <= 0.0 {
        return None;
    }
    let seen = groups.iter().map(|(log, _, requests)| log * requests).sum::<f64>() / all;
    let expected = |theta: f64| {
        let (sum, weights) = groups.iter().fold((0.0, 0.0), |(sum, weights), (log, size, _)| {
            let weight = size * (-theta * log).exp();
            (sum + weight * log, weights + weight)
        });
        sum / weights
    };
    // The more skewed, the lower the mean logarithm of a rank.
    let (mut low, mut high) = (0.0, THETA_MAX);
    if seen >= expected(low) {
        return Some(low);
    }
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if expected(middle) > seen { low = middle } else { high = middle }
    }
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;
    use base::hash::Hasher64;
    use base::recording::Keys;
    use base::zipf::Zipf;
    use std::collections::HashMap;

    /// So many requests for so many keys, of which one key of `one_of` is looked at.
    fn drawn(theta: f64, keys: u64, requests: u64, one_of: u32, seed: u64) -> Vec<[u32; 2]> {
        let (mut prng, zipf, hasher) = (Prng::new(seed), Zipf::new(keys, theta), Hasher64::new(seed));
        let chosen = Keys::one_of(one_of);
        let mut counts: HashMap<u64, [u32; 2]> = HashMap::new();
        let mut kept = 0;
        for _ in 0..requests {
            let key = if theta == 0.0 { prng.below(keys) } else { zipf.sample(&mut prng) };
            if chosen.has(hasher.hash(&key.to_le_bytes())) {
                counts.entry(key).or_default()[kept % 2] += 1;
                kept += 1;
            }
        }
        counts.into_values().collect()
    }

    #[test]
    fn the_skew_that_was_drawn_is_found_in_a_part_of_the_keys() {
        for (theta, keys, one_of) in [
            (0.99, 100_000, 1),
            (0.99, 100_000, 16),
            (0.7, 100_000, 16),
            (0.99, 1_000_000, 64),
            (1.2, 100_000, 16),
        ] {
            let found = theta_of(theta, keys, one_of);
            assert!((found - theta).abs() <= 0.12, "{theta} with one key of {one_of} of {keys}: {found}");
        }
    }

    fn theta_of(theta: f64, keys: u64, one_of: u32) -> f64 {
        let seeds = [1, 2, 3, 4];
        let found =
            seeds.map(|seed| super::theta(&drawn(theta, keys, 2_000_000, one_of, seed)).expect("enough"));
        found.iter().sum::<f64>() / seeds.len() as f64
    }

    /// Ranked and counted by the same requests these would seem skewed by 0.2 and more.
    #[test]
    fn keys_that_are_asked_for_alike_have_no_skew() {
        for requests in [20_000, 200_000] {
            let found = theta(&drawn(0.0, 10_000, requests, 4, 7)).expect("enough");
            assert!(found < 0.05, "{requests}: {found}");
        }
    }

    #[test]
    fn few_requests_say_nothing() {
        assert_eq!(theta(&[]), None);
        assert_eq!(theta(&[[100, 100]; 19]), None);
        assert_eq!(theta(&[[1, 1]; 100]), None);
        assert!(theta(&[[u32::MAX, 0]; 100]).is_none());
    }
}
