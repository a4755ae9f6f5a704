//! Values in histories: bytes up to [`Value::LONGEST`], beyond it their length and a hash.
//!
//! The hash is that of Rabin and Karp: the bytes, each plus one, are the digits of a number in a fixed base, modulo 2⁶¹ − 1. So the
//! hash of two values put together can be told from theirs, and appending means the same for both forms.
//!
//! Invariant: a value is in the short form exactly if it is short; so equal values are equal in form.

use std::fmt;
use std::sync::Arc;

const MODULUS: u64 = (1 << 61) - 1;
const BASE: u64 = 0x0B5E_9C4A_7F31_D683;

/// A value, or what stands for a long one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// At most [`Value::LONGEST`] bytes, themselves.
    Bytes(Arc<[u8]>),
    /// More.
    Digest {
        /// How many.
        len: u64,
        /// Their hash, below 2⁶¹ − 1.
        hash: u64,
    },
}

impl Value {
    /// The longest value that is kept as it is.
    pub const LONGEST: usize = 256;

    /// What stands for `bytes`.
    pub fn of(bytes: &[u8]) -> Value {
        if bytes.len() <= Value::LONGEST {
            return Value::Bytes(bytes.into());
        }
        Value::Digest { len: bytes.len() as u64, hash: hash(bytes) }
    }

    /// A number, as decimal text.
    pub fn number(number: u64) -> Value {
        Value::of(number.to_string().as_bytes())
    }

    /// The number that it is, if it is one.
    pub fn as_number(&self) -> Option<u64> {
        match self {
            Value::Bytes(bytes) if bytes.iter().all(u8::is_ascii_digit) => {
                std::str::from_utf8(bytes).ok()?.parse().ok()
            }
            _ => None,
        }
    }

    /// This one, and then `other`.
    pub fn joined(&self, other: &Value) -> Value {
        if let (Value::Bytes(left), Value::Bytes(right)) = (self, other) {
            return Value::of(&[&left[..], &right[..]].concat());
        }
        let ((left_len, left), (right_len, right)) = (self.parts(), other.parts());
        let hash = (times(left, power(right_len)) + right) % MODULUS;
        Value::Digest { len: left_len.saturating_add(right_len), hash }
    }

    fn parts(&self) -> (u64, u64) {
        match self {
            Value::Bytes(bytes) => (bytes.len() as u64, hash(bytes)),
            Value::Digest { len, hash } => (*len, *hash),
        }
    }
}

fn times(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |hash, &byte| (times(hash, BASE) + u64::from(byte) + 1) % MODULUS)
}

/// `BASE` to the `exponent`.
fn power(mut exponent: u64) -> u64 {
    let (mut square, mut out) = (BASE, 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            out = times(out, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    out
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bytes(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Value::Digest { len, hash } => write!(f, "{len} bytes #{hash:016x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn joining_is_the_same_in_both_forms(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5)) {
            let joined = parts.iter().map(|part| Value::of(part)).reduce(|a, b| a.joined(&b)).expect("not empty");
            prop_assert_eq!(joined, Value::of(&parts.concat()));
        }
    }

    #[test]
    fn numbers_are_decimal_text() {
        let number = |text: &str| Value::of(text.as_bytes()).as_number();
        assert_eq!([number("0"), number("18446744073709551615")], [Some(0), Some(u64::MAX)]);
        assert!(["", "-1", "+1", "1 ", "x", "18446744073709551616"].iter().all(|bad| number(bad).is_none()));
        assert_eq!(Value::number(12), Value::of(b"12"));
    }

    #[test]
    fn long_values_differ() {
        let zeros = |n| Value::of(&vec![0; n]);
        assert_ne!(zeros(300), zeros(301));
        assert_ne!(Value::of(&[b'a'; 300]), Value::of(&[b'b'; 300]));
        assert_eq!(format!("{:?}", Value::of(b"a\0")), "\"a\\x00\"");
    }
}
