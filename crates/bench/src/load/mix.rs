//! Which operations a workload makes, in what shares; YCSB's six by letter.

use crate::tally::Kind;
use base::Prng;
use serde::{Serialize, Serializer};
use std::fmt;

/// A kind of operation, as it is counted and timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// Reads one key, or `--multiget` keys.
    Get,
    /// Writes a key that may exist.
    Set,
    /// Writes the next key that does not exist yet.
    Insert,
    /// Deletes a key.
    Delete,
    /// Gives a key a new expiry.
    Touch,
    /// Reads a key and writes it back if nobody else did: `gets` and `cas`, timed together.
    Modify,
    /// Reads consecutive key ids with one multi-get: memcached has no scan.
    Scan,
}

impl OpKind {
    /// All kinds, in the order of tables.
    pub const ALL: [OpKind; 7] = [
        OpKind::Get,
        OpKind::Set,
        OpKind::Insert,
        OpKind::Delete,
        OpKind::Touch,
        OpKind::Modify,
        OpKind::Scan,
    ];

    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Get => "get",
            OpKind::Set => "set",
            OpKind::Insert => "insert",
            OpKind::Delete => "delete",
            OpKind::Touch => "touch",
            OpKind::Modify => "modify",
            OpKind::Scan => "scan",
        }
    }
}

impl Kind for OpKind {
    fn index(self) -> usize {
        self as usize
    }
}

/// Shares of operations, which add up to one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    shares: [f64; OpKind::ALL.len()],
}

impl Mix {
    /// From weights by kind: they are scaled to add up to one.
    ///
    /// # Errors
    /// When a weight is negative or no number, or all are zero.
    pub fn new(weights: &[(OpKind, f64)]) -> Result<Mix, String> {
        let mut shares = [0.0; OpKind::ALL.len()];
        for &(kind, weight) in weights {
            if !(weight.is_finite() && weight >= 0.0) {
                return Err(format!(
                    "the share of {} must be a number of 0 or more, not {weight}",
                    kind.name()
                ));
            }
            shares[kind as usize] += weight;
        }
        let sum: f64 = shares.iter().sum();
        if sum <= 0.0 {
            return Err("all shares are zero: there is nothing to do".to_string());
        }
        shares.iter_mut().for_each(|share| *share /= sum);
        Ok(Mix { shares })
    }

    /// Only operations of one kind.
    pub fn only(kind: OpKind) -> Mix {
        let mut shares = [0.0; OpKind::ALL.len()];
        shares[kind as usize] = 1.0;
        Mix { shares }
    }

    /// The share of `kind`.
    pub fn share(&self, kind: OpKind) -> f64 {
        self.shares[kind as usize]
    }

    /// The kind of the next operation.
    #[inline]
    pub fn draw(&self, prng: &mut Prng) -> OpKind {
        let mut u = prng.unit_f64();
        let mut last = OpKind::Get;
        for kind in OpKind::ALL {
            let share = self.shares[kind as usize];
            if share > 0.0 {
                if u < share {
                    return kind;
                }
                u -= share;
                last = kind;
            }
        }
        last
    }
}

impl Serialize for Mix {
    /// As a map from kind to share, without the kinds that do not occur.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let present = OpKind::ALL.into_iter().filter(|&kind| self.share(kind) > 0.0);
        serializer.collect_map(present.map(|kind| (kind.name(), self.share(kind))))
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = OpKind::ALL.into_iter().filter(|&kind| self.share(kind) > 0.0);
        let words: Vec<String> =
            kinds.map(|kind| format!("{} {:.4}", kind.name(), self.share(kind))).collect();
        let short: Vec<&str> = words.iter().map(|w| w.trim_end_matches('0').trim_end_matches('.')).collect();
        f.write_str(&short.join(", "))
    }
}

/// YCSB's core workloads (Cooper et al., SoCC 2010).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Ycsb {
    /// Update heavy: half reads, half writes, Zipf.
    A,
    /// Read mostly: 95 % reads, 5 % writes, Zipf.
    B,
    /// Read only, Zipf.
    C,
    /// Read latest: 95 % reads of mostly new keys, 5 % inserts.
    D,
    /// Short scans: 95 % multi-gets of up to 100 consecutive key ids (memcached has no scan), 5 % inserts.
    E,
    /// Read-modify-write: half reads, half `gets` + `cas`, Zipf.
    F,
}

impl Ycsb {
    /// Its shares of operations.
    pub fn mix(self) -> Mix {
        use OpKind::{Get, Insert, Modify, Scan, Set};
        let shares: &[(OpKind, f64)] = match self {
            Ycsb::A => &[(Get, 0.5), (Set, 0.5)],
            Ycsb::B => &[(Get, 0.95), (Set, 0.05)],
            Ycsb::C => &[(Get, 1.0)],
            Ycsb::D => &[(Get, 0.95), (Insert, 0.05)],
            Ycsb::E => &[(Scan, 0.95), (Insert, 0.05)],
            Ycsb::F => &[(Get, 0.5), (Modify, 0.5)],
        };
        Mix::new(shares).expect("the published shares are good")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_shares() {
        let mix = Mix::new(&[(OpKind::Get, 90.0), (OpKind::Delete, 10.0)]).expect("good");
        let mut prng = Prng::new(1);
        let deletes = (0..100_000).filter(|_| mix.draw(&mut prng) == OpKind::Delete).count();
        assert!((9_500..10_500).contains(&deletes), "{deletes}");
        assert_eq!(mix.to_string(), "get 0.9, delete 0.1");
        assert!((0..1000).all(|_| Mix::only(OpKind::Scan).draw(&mut prng) == OpKind::Scan));
    }

    #[test]
    fn senseless_shares_are_refused() {
        assert!(Mix::new(&[]).is_err());
        assert!(Mix::new(&[(OpKind::Get, -1.0)]).is_err());
        assert!(Mix::new(&[(OpKind::Get, f64::NAN)]).is_err());
    }
}
