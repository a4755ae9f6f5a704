//! ARITH: `incr`, `decr` and `ma` on values that are decimal numbers.
//!
//! As memcached 1.6.18 does (tried against it): a value may have white space in front, a plus sign, and anything after white
//! space behind the digits; a result that is not longer than the value is written over it and padded with spaces; a longer
//! one replaces the item, with flags and expiry kept and a mark of staleness lost.

use crate::item::Item;
use crate::key::Key;
use crate::ops::get::note_access;
use crate::ops::set::SetError;
use crate::store::{Fresh, Source, Store};

/// The options of an ARITH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArithHow {
    /// What to add or take.
    pub delta: u64,
    /// Take instead of add. Taking stops at 0, adding wraps at 2⁶⁴.
    pub decrement: bool,
    /// Where the key is absent: the value to make and its expiry (meta J and N).
    pub create: Option<(u64, u32)>,
    /// New expiry (meta T).
    pub touch: Option<u32>,
    /// Only if the item has this version (meta C). `Some(0)` is as good as `None`, as in memcached.
    pub compare: Option<u64>,
    /// The version to give (meta E).
    pub version: Option<u64>,
}

impl Default for ArithHow {
    fn default() -> Self {
        ArithHow { delta: 1, decrement: false, create: None, touch: None, compare: None, version: None }
    }
}

/// What became of an ARITH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithOutcome {
    /// The number is now this.
    Done {
        /// The new value.
        value: u64,
        /// Its version.
        version: u64,
        /// Its expiry before a touch; 0, never, where it was made.
        expiry_before: u32,
        /// Its expiry now.
        expiry: u32,
        /// Whether it was made by this operation.
        created: bool,
    },
    /// The value is no decimal number below 2⁶⁴.
    NotNumeric,
    /// There is no such item.
    NotFound,
    /// It has another version than the one to compare with.
    Exists,
}

impl Store {
    /// Adds to or takes from the number under `key`.
    ///
    /// # Errors
    /// [`SetError::OutOfMemory`] where a longer number or a new item finds no room; the old value stays.
    pub fn arith(&mut self, now: u32, key: Key<'_>, how: &ArithHow) -> Result<ArithOutcome, SetError> {
        self.advance(now);
        self.prepare(now, crate::item::footprint(key.bytes().len(), 20));
        let Some(slot) = self.lookup(now, key) else { return self.create(now, key, how) };
        let item = self.item_in(slot);
        let header = item.load();
        // Before the version is looked at, as memcached does.
        if header.value_len == 0 {
            return Ok(ArithOutcome::NotNumeric);
        }
        if how.compare.is_some_and(|version| version != 0 && version != header.version) {
            return Ok(ArithOutcome::Exists);
        }
        // As memcached says of a value in chunks: too long to be a number.
        if item.is_large() {
            return Ok(ArithOutcome::NotNumeric);
        }
        // SAFETY: the borrow ends with the parsing.
        let Some(number) = number(unsafe { item.value() }) else { return Ok(ArithOutcome::NotNumeric) };
        let value = match how.decrement {
            true => number.saturating_sub(how.delta),
            false => number.wrapping_add(how.delta),
        };
        let version = self.next_version(how.version);
        let mut digits = [0; 20];
        let digits = decimal(value, &mut digits);
        let expiry = how.touch.unwrap_or(header.expiry);
        if digits.len() <= header.value_len as usize {
            overwrite(item, digits, header.value_len as usize);
            item.set_version(version);
            item.set_expiry(expiry);
            self.log.extend(self.offset_of(item), expiry);
            note_access(now, item);
        } else {
            let fresh = Fresh { flags: header.flags, expiry, version, state: 0 };
            self.write(now, key, Some(slot), Source::Whole(digits), fresh)?;
        }
        Ok(ArithOutcome::Done { value, version, expiry_before: header.expiry, expiry, created: false })
    }

    fn create(&mut self, now: u32, key: Key<'_>, how: &ArithHow) -> Result<ArithOutcome, SetError> {
        let Some((value, expiry)) = how.create else { return Ok(ArithOutcome::NotFound) };
        let version = self.next_version(how.version);
        let mut digits = [0; 20];
        let fresh = Fresh { flags: 0, expiry, version, state: 0 };
        self.write(now, key, None, Source::Whole(decimal(value, &mut digits)), fresh)?;
        Ok(ArithOutcome::Done { value, version, expiry_before: 0, expiry, created: true })
    }
}

fn overwrite(item: Item, digits: &[u8], len: usize) {
    let mut padded = [b' '; 20];
    padded[..digits.len()].copy_from_slice(digits);
    item.put_value(&padded[..len.min(20)], &[]);
    // A value can be longer than any number: spaces from there on.
    for at in 20..len {
        item.put_byte(at, b' ');
    }
}

/// The number in `value`, as memcached reads it: blanks before it, a plus sign, and anything behind a blank are allowed.
pub fn number(value: &[u8]) -> Option<u64> {
    let is_space = |b: u8| b.is_ascii_whitespace() || b == 0x0B;
    let start = value.iter().position(|&b| !is_space(b))?;
    let digits = value[start..].strip_prefix(b"+").unwrap_or(&value[start..]);
    let end = digits.iter().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
    if end == 0 || digits.get(end).is_some_and(|&b| !is_space(b)) {
        return None;
    }
    digits[..end]
        .iter()
        .try_fold(0u64, |number, &digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// `value` in decimal, without leading zeros.
fn decimal(mut value: u64, out: &mut [u8; 20]) -> &[u8] {
    let mut at = out.len();
    loop {
        at -= 1;
        out[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &out[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_memcached_reads_them() {
        let cases: [(&[u8], Option<u64>); 12] = [
            (b"12", Some(12)),
            (b"0012", Some(12)),
            (b"12 ab", Some(12)),
            (b" 12", Some(12)),
            (b"+12", Some(12)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"", None),
            (b"  ", None),
            (b"12ab", None),
            (b"-1", None),
            (b"x", None),
        ];
        for (text, value) in cases {
            assert_eq!(number(text), value, "{text:?}");
        }
    }

    #[test]
    fn decimal_is_what_the_standard_library_prints() {
        for value in [0, 1, 9, 10, 99, 100, 12_345_678_901, u64::MAX] {
            assert_eq!(decimal(value, &mut [0; 20]), value.to_string().as_bytes());
        }
    }
}
