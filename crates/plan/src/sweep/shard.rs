//! Which runs are whose: of N shards, shard i has the runs i, i + N, i + 2 N, …

use std::fmt;
use std::str::FromStr;

/// One of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    at: u64,
    of: u64,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(at, of)| Some((at.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((at, of)) if at < of => Ok(Shard { at, of }),
            _ => Err("a shard is i/N, where i counts from 0 and is below N: 0/4, 1/4, 2/4, 3/4".into()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.at, self.of)
    }
}

impl Shard {
    /// Whether it is all.
    pub fn is_whole(self) -> bool {
        self.of == 1
    }

    /// Its runs, of so many.
    pub fn runs(self, all: u64) -> impl Iterator<Item = u64> + Send {
        (0..self.count(all)).map(move |n| self.at + n * self.of)
    }

    /// How many those are.
    pub fn count(self, all: u64) -> u64 {
        all.saturating_sub(self.at).div_ceil(self.of)
    }

    /// The name of its file.
    pub fn file(self) -> String {
        format!("shard-{}-of-{}.csv", self.at, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_run_is_in_one_shard(all in 0u64..500, of in 1u64..40) {
            let mut runs: Vec<_> = (0..of)
                .flat_map(|at| {
                    let shard: Shard = format!("{at}/{of}").parse().expect("it is one");
                    assert_eq!(shard.runs(all).count() as u64, shard.count(all));
                    shard.runs(all)
                })
                .collect();
            runs.sort_unstable();
            prop_assert_eq!(runs, (0..all).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for text in ["4/4", "1", "a/b", "-1/3", "0/0", "1/2/3"] {
            assert!(text.parse::<Shard>().is_err_and(|why| why.contains("from 0")), "{text}");
        }
        assert!("0/1".parse::<Shard>().is_ok_and(Shard::is_whole));
    }
}
