//! Which key an operation takes, and how a key id is written on the wire.
//!
//! Shape: a [`KeyView`] is the part of the key space that one connection sees: all of it, or (under strict checking)
//! only the ids that are its own, so that no other connection writes them. Inside a view, keys are ranks `0..len`;
//! a [`KeyChooser`] draws ranks, and the view turns a rank into the key's id.
//!
//! Popular ranks are scattered over the ids by a bijection, so that hot keys are no neighbours and, unlike YCSB's
//! hash, none collide: the popularity stays exactly Zipf's.

use base::Prng;
use base::zipf::{Scatter, Zipf};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// How popular each key is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// Zipf's law with this skew, scattered over the key space.
    Zipf(f64),
    /// Zipf's law with this skew over age: the newest key is the most popular.
    Latest(f64),
}

/// YCSB's skew.
pub const YCSB_THETA: f64 = 0.99;

impl FromStr for Popularity {
    type Err = String;

    fn from_str(s: &str) -> Result<Popularity, String> {
        let (name, theta) = s.split_once(':').map_or((s, None), |(name, theta)| (name, Some(theta)));
        let theta = match theta {
            None => Ok(YCSB_THETA),
            Some(text) => text.parse().ok().filter(|t| (0.0..=10.0).contains(t)).ok_or(text),
        }
        .map_err(|text| format!("the skew {text:?} is not a number from 0 to 10"))?;
        match name {
            "uniform" => Ok(Popularity::Uniform),
            "zipf" => Ok(Popularity::Zipf(theta)),
            "latest" => Ok(Popularity::Latest(theta)),
            _ => {
                Err(format!("{s:?} is no distribution; write uniform, zipf, zipf:0.9, latest or latest:0.9"))
            }
        }
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Popularity::Uniform => f.write_str("uniform"),
            Popularity::Zipf(theta) => write!(f, "zipf:{theta}"),
            Popularity::Latest(theta) => write!(f, "latest:{theta}"),
        }
    }
}

/// The ids `offset`, `offset + stride`, `offset + 2 × stride`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyView {
    /// The first id.
    pub offset: u64,
    /// The distance of two ids.
    pub stride: u64,
}

impl KeyView {
    /// Every id.
    pub const ALL: KeyView = KeyView { offset: 0, stride: 1 };

    /// How many ids below `keys` are in this view.
    pub fn count_below(&self, keys: u64) -> u64 {
        keys.saturating_sub(self.offset).div_ceil(self.stride)
    }

    /// The id of `rank`.
    pub fn id(&self, rank: u64) -> u64 {
        rank * self.stride + self.offset
    }

    /// The rank of `id`, which must be in this view.
    pub fn rank(&self, id: u64) -> u64 {
        debug_assert_eq!(id % self.stride, self.offset % self.stride, "key {id} is in another view");
        (id - self.offset) / self.stride
    }
}

/// Draws ranks.
#[derive(Clone, Debug)]
pub struct KeyChooser {
    law: Law,
    len: u64,
}

#[derive(Clone, Debug)]
enum Law {
    Uniform,
    Zipf(Zipf, Scatter),
    Latest(Zipf),
}

impl KeyChooser {
    /// A chooser over `len` ranks, at least one.
    pub fn new(popularity: Popularity, len: u64) -> KeyChooser {
        assert!(len > 0, "no key to choose from");
        let law = match popularity {
            Popularity::Uniform => Law::Uniform,
            Popularity::Zipf(theta) => Law::Zipf(Zipf::new(len, theta), Scatter::new(len)),
            Popularity::Latest(theta) => Law::Latest(Zipf::new(len, theta)),
        };
        KeyChooser { law, len }
    }

    /// A rank below `len` (at least one), which may have grown since the last call; only `latest` follows the growth,
    /// the other laws stay on the keys that were there at first, as in YCSB.
    #[inline]
    pub fn choose(&mut self, len: u64, prng: &mut Prng) -> u64 {
        match &mut self.law {
            Law::Uniform => prng.below(self.len),
            Law::Zipf(zipf, scatter) => scatter.place(zipf.sample(prng)),
            Law::Latest(zipf) => {
                if zipf.ranks() != len {
                    zipf.resize(len);
                }
                len - 1 - zipf.sample(prng)
            }
        }
    }
}

/// What every key starts with, so that a run against a shared server meets no foreign key.
pub const KEY_PREFIX: &[u8] = b"mr";

/// Writes key ids as keys of one size: the prefix, then the id in decimal with leading zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFormat {
    size: usize,
}

impl KeyFormat {
    /// Keys of `size` bytes.
    ///
    /// # Errors
    /// When ids up to `max_id` do not fit, or the protocol allows no such key.
    pub fn new(size: usize, max_id: u64) -> Result<KeyFormat, String> {
        let need = KEY_PREFIX.len() + max_id.to_string().len();
        if size < need {
            return Err(format!(
                "keys of {size} bytes cannot number {max_id} keys; use --key-size {need} or more"
            ));
        }
        if size > protocol::memcache::client::MAX_KEY {
            return Err(format!("keys of {size} bytes are longer than the protocol's 250"));
        }
        Ok(KeyFormat { size })
    }

    /// The key of `id`, in `room`.
    #[inline]
    pub fn write<'b>(&self, id: u64, room: &'b mut KeyRoom) -> &'b [u8] {
        let key = &mut room.0[..self.size];
        key[..KEY_PREFIX.len()].copy_from_slice(KEY_PREFIX);
        let mut rest = id;
        for digit in key[KEY_PREFIX.len()..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        assert!(rest == 0, "key {id} has more digits than its key has room for");
        key
    }

    /// The id that `key` stands for, or `None` where this format did not write it.
    #[inline]
    pub fn read(&self, key: &[u8]) -> Option<u64> {
        let digits = key.strip_prefix(KEY_PREFIX).filter(|_| key.len() == self.size)?;
        digits.iter().try_fold(0u64, |id, &b| {
            let digit = b.wrapping_sub(b'0');
            if digit > 9 { None } else { id.checked_mul(10)?.checked_add(u64::from(digit)) }
        })
    }
}

/// Room for one key.
#[derive(Clone, Debug)]
pub struct KeyRoom([u8; protocol::memcache::client::MAX_KEY]);

impl KeyRoom {
    /// Empty room.
    pub const fn new() -> KeyRoom {
        KeyRoom([0; protocol::memcache::client::MAX_KEY])
    }
}

impl Default for KeyRoom {
    fn default() -> KeyRoom {
        KeyRoom::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn views_share_the_keys_out(keys in 1u64..500, stride in 1u64..20) {
            let mut owners = vec![0; keys as usize];
            for offset in 0..stride {
                let view = KeyView { offset, stride };
                for rank in 0..view.count_below(keys) {
                    prop_assert_eq!(view.rank(view.id(rank)), rank);
                    owners[view.id(rank) as usize] += 1;
                }
            }
            prop_assert!(owners.iter().all(|&n| n == 1));
        }

        #[test]
        fn keys_read_back(id in 0u64..1_000_000_000, size in 11usize..=250) {
            let format = KeyFormat::new(size, 999_999_999).expect("nine digits fit");
            let mut room = KeyRoom::new();
            let key = format.write(id, &mut room);
            prop_assert_eq!(key.len(), size);
            prop_assert!(protocol::memcache::client::is_plain_key(key));
            prop_assert_eq!(format.read(key), Some(id));
        }

        #[test]
        fn foreign_keys_are_no_ids(key in proptest::collection::vec(any::<u8>(), 0..300)) {
            let format = KeyFormat::new(12, 1 << 20).expect("fits");
            if let Some(id) = format.read(&key) {
                let mut room = KeyRoom::new();
                prop_assert_eq!(format.write(id, &mut room), &key[..]);
            }
        }
    }

    #[test]
    fn latest_follows_the_newest_key() {
        let mut chooser = KeyChooser::new(Popularity::Latest(0.99), 10);
        let mut prng = Prng::new(1);
        let newest = (0..10_000).filter(|_| chooser.choose(1_000, &mut prng) == 999).count();
        assert!(newest > 1_000, "{newest} of 10000 reads took the newest of 1000 keys");
        assert!((0..1_000).all(|_| chooser.choose(1_001, &mut prng) <= 1_000));
    }

    #[test]
    fn distributions_are_read_as_people_write_them() {
        assert_eq!("zipf".parse(), Ok(Popularity::Zipf(0.99)));
        assert_eq!("zipf:1.2".parse(), Ok(Popularity::Zipf(1.2)));
        assert_eq!("latest".parse(), Ok(Popularity::Latest(0.99)));
        assert!("zipf:-1".parse::<Popularity>().is_err());
        assert!("pareto".parse::<Popularity>().is_err());
    }

    #[test]
    fn too_short_keys_are_refused() {
        assert!(KeyFormat::new(8, 999_999).is_ok());
        assert!(KeyFormat::new(8, 1_000_000).is_err());
        assert!(KeyFormat::new(251, 1).is_err());
    }
}
