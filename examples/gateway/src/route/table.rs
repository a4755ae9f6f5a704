//! Routes by destination: of those whose prefix the address has, the one with the longest.
//!
//! Shape: a map for each length of prefix, asked from the longest in use on. Cost: a look-up for each length in use, at most 33; tables of
//! a gateway use a
//! handful. A trie would ask once for each bit or spend megabytes to ask twice.
//!
//! Tests: against a linear search over the list.

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;

/// The first bits of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    bits: u32,
    len: u8,
}

impl Prefix {
    /// The first `len` bits of an address, 32 at most; what is behind them is ignored.
    pub fn new(address: Ipv4Addr, len: u8) -> Prefix {
        let len = len.min(32);
        Prefix { bits: u32::from(address) & mask(len), len }
    }

    /// Of `10.0.0.0/8`, and the address as it stands there.
    ///
    /// # Errors
    /// It is none; the sentence says what one looks like.
    pub fn parse(text: &str) -> Result<(Prefix, Ipv4Addr), String> {
        let wrong = || format!("{text:?} is no network: 10.1.0.0/16 is one");
        let (address, len) = text.split_once('/').ok_or_else(wrong)?;
        let address = address.parse().map_err(|_| wrong())?;
        let len = len.parse().ok().filter(|len| *len <= 32).ok_or_else(wrong)?;
        Ok((Prefix::new(address, len), address))
    }

    /// Whether an address begins so.
    pub fn has(self, address: Ipv4Addr) -> bool {
        u32::from(address) & mask(self.len) == self.bits
    }

    /// Bits.
    pub fn bits(self) -> u8 {
        self.len
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.bits), self.len)
    }
}

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// Values by prefix.
#[derive(Clone, Debug)]
pub struct Table<T> {
    maps: Vec<HashMap<u32, T>>,
    /// Bit `n`: there are prefixes of `n` bits.
    in_use: u64,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { maps: (0..33).map(|_| HashMap::new()).collect(), in_use: 0 }
    }
}

impl<T> Table<T> {
    /// Adds a route; what was at this prefix before.
    pub fn insert(&mut self, prefix: Prefix, value: T) -> Option<T> {
        self.in_use |= 1 << prefix.len;
        self.maps[usize::from(prefix.len)].insert(prefix.bits, value)
    }

    /// Takes a route away.
    pub fn remove(&mut self, prefix: Prefix) -> Option<T> {
        let map = &mut self.maps[usize::from(prefix.len)];
        let removed = map.remove(&prefix.bits);
        if map.is_empty() {
            self.in_use &= !(1 << prefix.len);
        }
        removed
    }

    /// What stands at the longest prefix that the address has.
    pub fn find(&self, address: Ipv4Addr) -> Option<&T> {
        let mut left = self.in_use;
        while left != 0 {
            let len = 63 - left.leading_zeros() as u8;
            if let Some(found) = self.maps[usize::from(len)].get(&(u32::from(address) & mask(len))) {
                return Some(found);
            }
            left &= !(1 << len);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near_prefix() -> impl Strategy<Value = Prefix> {
        // Few bits differ, so that prefixes are in each other.
        (any::<u32>(), 0..=32_u8).prop_map(|(bits, len)| Prefix::new(Ipv4Addr::from(bits & 0xC000_00C3), len))
    }

    proptest! {
        #[test]
        fn it_finds_what_a_linear_search_finds(
            changes in proptest::collection::vec((near_prefix(), any::<Option<u8>>()), 0..60),
            asked in proptest::collection::vec(any::<u32>(), 20),
        ) {
            let (mut table, mut list) = (Table::default(), Vec::<(Prefix, u8)>::new());
            for (prefix, value) in changes {
                let before = list.iter().position(|(other, _)| *other == prefix).map(|at| list.swap_remove(at).1);
                let had = match value {
                    Some(value) => { list.push((prefix, value)); table.insert(prefix, value) }
                    None => table.remove(prefix),
                };
                prop_assert_eq!(had, before);
            }
            for address in asked.into_iter().flat_map(|bits| [bits, bits & 0xC000_00C3]).map(Ipv4Addr::from) {
                let linear = list.iter().filter(|(prefix, _)| prefix.has(address)).max_by_key(|(prefix, _)| prefix.bits());
                prop_assert_eq!(table.find(address), linear.map(|(_, value)| value));
            }
        }
    }

    #[test]
    fn networks_are_read_and_shown() {
        let (prefix, address) = Prefix::parse("10.1.2.3/16").expect("a network");
        assert_eq!((prefix.to_string(), address), ("10.1.0.0/16".into(), Ipv4Addr::new(10, 1, 2, 3)));
        assert!(Prefix::parse("0.0.0.0/0").expect("everything").0.has(Ipv4Addr::BROADCAST));
        for wrong in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/-1", "a/8"] {
            assert!(Prefix::parse(wrong).is_err(), "{wrong}");
        }
    }
}
