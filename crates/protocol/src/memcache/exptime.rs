//! Expiration times as clients write them, and as a store wants them.
//!
//! A client writes seconds from now (up to 30 days), a Unix time (anything larger), 0 for never, or a negative number
//! for "already expired". A store wants one number: the Unix second from which the item is gone, 0 for never.

use super::number;

/// Largest number that still means "seconds from now"; beyond it lies Unix time.
pub const RELATIVE_MAX: u32 = 60 * 60 * 24 * 30;

/// An expiry in the past that is not 0, for items that are expired from the start.
const LONG_AGO: u32 = 1;

/// An expiration time as written in a request: 32 bits, because it travels in commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exptime(u32);

impl Exptime {
    /// Never expires.
    pub const NEVER: Exptime = Exptime(0);
    /// Expired from the start; what every negative number means. 4294967295 reads as this too, since memcached wraps it to −1.
    pub const PAST: Exptime = Exptime(u32::MAX);

    /// `n` as a client writes it: at most [`RELATIVE_MAX`] counts from now, more is a Unix time.
    pub const fn new(n: u32) -> Exptime {
        Exptime(n)
    }

    /// Reads a number between −2³¹ and 2³² − 1; memcached wraps what lies above 2³¹ − 1 into the past.
    #[inline]
    pub fn parse(text: &[u8]) -> Option<Exptime> {
        match text {
            [b'-', digits @ ..] if digits.first().is_some_and(u8::is_ascii_digit) => {
                let n = number::decimal(digits)?;
                let magnitude = u32::try_from(n).ok().filter(|&n| n <= 1 << 31)?;
                Some(if magnitude == 0 { Exptime::NEVER } else { Exptime::PAST })
            }
            _ => number::decimal_u32(text).map(Exptime),
        }
    }

    /// The expiry for a store whose clock reads `now` (Unix seconds): 0 = never, otherwise gone once expiry ≤ now.
    #[inline]
    pub const fn expiry(self, now: u32) -> u32 {
        match self.0 {
            0 => 0,
            u32::MAX => LONG_AGO,
            relative @ 1..=RELATIVE_MAX => now.saturating_add(relative),
            unix => unix,
        }
    }

    /// The delay of a `flush_all` from `now` in Unix seconds: a negative delay means at once, like 0.
    #[inline]
    pub const fn moment(self, now: u32) -> u32 {
        match self.0 {
            0 | u32::MAX => now,
            _ => self.expiry(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u32 = 1_800_000_000;

    #[test]
    fn the_four_kinds_of_time() {
        for (text, want) in [
            ("0", 0),
            ("-0", 0),
            ("1", NOW + 1),
            ("+5", NOW + 5),
            ("2592000", NOW + 2_592_000),
            ("2592001", 2_592_001),
            ("1799999999", 1_799_999_999),
            ("2147483647", 2_147_483_647),
            ("3000000000", 3_000_000_000),
            ("-1", 1),
            ("-2147483648", 1),
            ("4294967295", 1),
        ] {
            let exptime = Exptime::parse(text.as_bytes()).expect(text);
            assert_eq!(exptime.expiry(NOW), want, "{text}");
        }
        for bad in ["", "-", "x", "1x", "--1", "-+1", "4294967296", "-2147483649", "99999999999999999999"] {
            assert_eq!(Exptime::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Exptime::new(10).expiry(u32::MAX), u32::MAX);
    }

    #[test]
    fn flush_delays_never_lie_in_the_past_by_sign() {
        assert_eq!(Exptime::NEVER.moment(NOW), NOW);
        assert_eq!(Exptime::PAST.moment(NOW), NOW);
        assert_eq!(Exptime::new(10).moment(NOW), NOW + 10);
    }
}
