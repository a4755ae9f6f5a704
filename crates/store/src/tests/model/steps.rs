//! The random operations that store and model are both given.

use crate::*;
use base::Prng;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Get(GetHow),
    Set(Vec<u8>, SetHow),
    Delete(DeleteHow),
    Arith(ArithHow),
    Touch(u32),
}

/// One operation on one key at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) now: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) op: Op,
}

/// Makes operations. `keys` bounds the key space; `long` is the longest value.
pub(crate) struct Source {
    pub(crate) prng: Prng,
    pub(crate) now: u32,
    pub(crate) keys: u64,
    pub(crate) long: u64,
    /// A version handed out lately, so that comparing ones sometimes match.
    pub(crate) seen: u64,
}

impl Source {
    pub(crate) fn new(seed: u64) -> Source {
        Source { prng: Prng::new(seed), now: 1000, keys: 3000, long: 600, seen: 0 }
    }

    fn maybe<T>(&mut self, one_in: u64, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.prng.below(one_in) == 0).then(|| make(self))
    }

    fn expiry(&mut self) -> u32 {
        match self.prng.below(8) {
            0 => self.now + self.prng.below(3) as u32,
            1 | 2 => self.now + self.prng.below(40) as u32,
            3 => self.now + self.prng.below(100_000) as u32,
            _ => 0,
        }
    }

    /// A number of any length below 2^`bits`.
    fn number(&mut self, bits: u64) -> u64 {
        let bound = 1 << self.prng.below(bits);
        self.prng.below(bound)
    }

    fn version(&mut self) -> u64 {
        let near = self.prng.below(4);
        (self.seen + near).saturating_sub(2)
    }

    fn value(&mut self) -> Vec<u8> {
        match self.prng.below(64) {
            0 => {
                let len = self.prng.below(40 << 10) as usize;
                vec![self.prng.next_u64() as u8; len]
            }
            1..=12 => self.number(60).to_string().into_bytes(),
            _ => {
                let mut value = vec![0; self.prng.below(self.long) as usize];
                self.prng.fill(&mut value);
                value
            }
        }
    }

    pub(crate) fn step(&mut self) -> Step {
        self.now += u32::from(self.prng.below(50) == 0) * self.prng.below(8) as u32;
        // A third of the keys get most of the traffic; lengths from 1 to 250.
        let number =
            if self.prng.below(3) > 0 { self.prng.below(self.keys / 8) } else { self.prng.below(self.keys) };
        let mut key = number.to_string().into_bytes();
        if number % 17 == 0 {
            key.resize(250, b'k');
        }
        let op = match self.prng.below(16) {
            0..=4 => Op::Get(GetHow {
                touch: self.maybe(8, Self::expiry),
                vivify: self.maybe(8, Self::expiry),
                recache_below: self.maybe(8, |s| s.prng.below(60) as u32),
                touch_first: self.prng.below(2) == 0,
                bump: self.prng.below(8) > 0,
                version: self.maybe(32, Self::version),
                lease: number % 4 > 0,
            }),
            5..=11 => {
                let verb = match self.prng.below(12) {
                    0 => Verb::Add,
                    1 => Verb::Replace,
                    2 => Verb::Append,
                    3 => Verb::Prepend,
                    _ => Verb::Set,
                };
                let how = SetHow {
                    verb,
                    flags: self.prng.next_u64() as u32,
                    expiry: self.expiry(),
                    compare: self.maybe(6, Self::version),
                    invalidate: self.prng.below(3) == 0,
                    version: self.maybe(32, Self::version),
                    vivify: self.maybe(3, Self::expiry),
                };
                Op::Set(self.value(), how)
            }
            12 => Op::Delete(DeleteHow {
                compare: self.maybe(6, Self::version),
                invalidate: self.prng.below(2) == 0,
                touch: self.maybe(3, Self::expiry),
                remove_value: self.prng.below(4) == 0,
                version: self.maybe(16, Self::version),
            }),
            13 | 14 => Op::Arith(ArithHow {
                delta: self.number(63),
                decrement: self.prng.below(2) == 0,
                create: self.maybe(2, |s| (s.prng.below(1000), s.expiry())),
                touch: self.maybe(8, Self::expiry),
                compare: self.maybe(8, Self::version),
                version: self.maybe(32, Self::version),
            }),
            _ => Op::Touch(self.expiry()),
        };
        Step { now: self.now, key, op }
    }
}
