//! What was written, and so what may be read: every value that a client of the demonstration sees is held against it.
//!
//! Texts are profiles, which the shop writes, and carts, which memcached's clients do. A text is its user, a number that grows with every write, and
//! bytes that follow from both. A read sees one that was begun, and none that is older than the last that was acknowledged before the read began.

use super::shop::key;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Users of the shop.
pub const USERS: usize = 64;
/// Its goods.
pub const GOODS: usize = 8;
/// Of each in stock in the beginning.
pub const STOCK: i64 = 1_000_000;
/// Bytes of a text.
pub const PROFILE: usize = 200;
/// Texts: a profile and a cart of each user.
pub const TEXTS: usize = 2 * USERS;
/// Bytes of a picture.
pub const PICTURE: usize = 64 << 10;

/// The name of a user.
pub fn user(number: usize) -> String {
    format!("user{number}")
}

/// The name of a good.
pub fn good(number: usize) -> String {
    format!("good{number}")
}

/// The cart of a user, among the texts, of which the first are profiles.
pub fn cart(user: usize) -> usize {
    USERS + user
}

/// The key of a text's item.
pub fn text_key(text: usize) -> Vec<u8> {
    match text.checked_sub(USERS) {
        None => key("profile", &user(text)),
        Some(of) => key("cart", &user(of)),
    }
}

/// Of one text.
#[derive(Debug, Default)]
struct Writes {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

/// See the head of the file.
#[derive(Debug)]
pub struct Book {
    profiles: Vec<Writes>,
    /// Orders of each user of which it is known that they were taken, and those of which it is not known.
    taken: Vec<AtomicI64>,
    unknown: Vec<AtomicI64>,
    /// What each user was told of the model's scores.
    scores: Mutex<Vec<Option<Vec<u32>>>>,
}

/// A moment before a read.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    user: usize,
    acknowledged: u64,
}

impl Default for Book {
    fn default() -> Book {
        let numbers = || (0..USERS).map(|_| AtomicI64::default()).collect();
        Book {
            profiles: (0..TEXTS).map(|_| Writes::default()).collect(),
            taken: numbers(),
            unknown: numbers(),
            scores: Mutex::new(vec![None; USERS]),
        }
    }
}

/// Bytes that follow from two numbers, and are like no others'; `len` of them.
fn filler(user: usize, number: u64, len: usize) -> impl Iterator<Item = u8> {
    let letter = move |i: usize| b'a' + ((user as u64 * 7 + number * 13 + i as u64 * 5) % 26) as u8;
    (0..len).map(letter)
}

/// The `number`-th profile of a user.
fn profile(user: usize, number: u64) -> Vec<u8> {
    let mut text = format!("{} #{number} ", self::user(user)).into_bytes();
    let left = PROFILE - text.len();
    text.extend(filler(user, number, left));
    text
}

/// The `number`-th picture of a user: some of it is alike, as in pictures.
pub fn picture(user: usize, number: u64) -> Vec<u8> {
    let noise = filler(user, number, PICTURE).zip(0_u64..);
    noise
        .map(|(letter, at)| if at % 64 < 40 { letter } else { (at / 64).wrapping_mul(number) as u8 })
        .collect()
}

impl Book {
    /// A profile to be written next. One writer writes it.
    pub fn next_profile(&self, user: usize) -> (u64, Vec<u8>) {
        let number = self.profiles[user].begun.fetch_add(1, Ordering::SeqCst) + 1;
        (number, profile(user, number))
    }

    /// It was stored.
    pub fn stored(&self, user: usize, number: u64) {
        self.profiles[user].acknowledged.fetch_max(number, Ordering::SeqCst);
    }

    /// A read of a profile begins.
    pub fn before(&self, user: usize) -> Before {
        Before { user, acknowledged: self.profiles[user].acknowledged.load(Ordering::SeqCst) }
    }

    /// What it saw.
    ///
    /// # Errors
    /// It cannot have been that. A sentence.
    pub fn check(&self, before: Before, seen: Option<&[u8]>) -> Result<(), String> {
        let Before { user, acknowledged } = before;
        let name = self::user(user);
        let Some(seen) = seen else { return Err(format!("{name}: nothing was there")) };
        let text = String::from_utf8_lossy(&seen[..seen.len().min(40)]);
        let number = text.split(['#', ' ']).nth(2).and_then(|number| number.parse::<u64>().ok());
        let number = number.ok_or_else(|| format!("{name}: {text:?} is no profile"))?;
        let begun = self.profiles[user].begun.load(Ordering::SeqCst);
        if seen != profile(user, number) {
            return Err(format!("{name}: the bytes of profile {number} are not what was written"));
        }
        if number > begun {
            return Err(format!("{name}: profile {number} was never written, {begun} was the last"));
        }
        if number < acknowledged {
            return Err(format!("{name}: profile {number} was read after {acknowledged} had been stored"));
        }
        Ok(())
    }

    /// A receipt of a user, whose orders one client places.
    ///
    /// # Errors
    /// It cannot be. A sentence.
    pub fn ordered(&self, user: usize, orders: i64) -> Result<(), String> {
        let taken = self.taken[user].fetch_add(1, Ordering::SeqCst) + 1;
        let most = taken + self.unknown[user].load(Ordering::SeqCst);
        match (taken..=most).contains(&orders) {
            true => Ok(()),
            false => Err(format!("{}: {orders} orders, but {taken} to {most} were placed", self::user(user))),
        }
    }

    /// Nobody knows whether an order was taken.
    pub fn maybe_ordered(&self, user: usize) {
        self.unknown[user].fetch_add(1, Ordering::SeqCst);
    }

    /// Orders that were taken: at least, at most.
    pub fn orders(&self) -> (i64, i64) {
        let sum = |of: &[AtomicI64]| of.iter().map(|one| one.load(Ordering::SeqCst)).sum::<i64>();
        let taken = sum(&self.taken);
        (taken, taken + sum(&self.unknown))
    }

    /// Scores that the model gave for a user's goods: bit by bit the same each time, wherever they were computed.
    ///
    /// # Errors
    /// They are others than before. A sentence.
    pub fn scored(&self, user: usize, scores: &[f32]) -> Result<(), String> {
        let bits: Vec<u32> = scores.iter().map(|score| score.to_bits()).collect();
        let mut all = self.scores.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all[user].get_or_insert_with(|| bits.clone());
        match (known == &bits, scores.len()) {
            (true, GOODS) => Ok(()),
            (true, other) => Err(format!("{}: {other} scores of {GOODS} goods", self::user(user))),
            (false, _) => Err(format!("{}: other scores than before", self::user(user))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_sees_what_was_begun_and_nothing_older_than_what_was_stored() {
        let book = Book::default();
        let (first, one) = book.next_profile(3);
        assert_eq!((first, one.len()), (1, PROFILE));
        let early = book.before(3);
        book.stored(3, first);
        let (_, two) = book.next_profile(3);
        let late = book.before(3);
        for seen in [&one, &two] {
            assert_eq!(book.check(early, Some(seen)), Ok(()));
            assert_eq!(book.check(late, Some(seen)), Ok(()));
        }
        book.stored(3, 2);
        let wrong = |before, seen: &[u8]| book.check(before, Some(seen)).expect_err("it is wrong");
        assert!(wrong(book.before(3), &one).contains("profile 1 was read after 2 had been stored"));
        assert!(wrong(late, &profile(3, 3)).contains("never written"));
        assert!(wrong(late, &profile(4, 2)).contains("not what was written"));
        let mut torn = one.clone();
        torn[100..].copy_from_slice(&two[100..]);
        assert!(wrong(early, &torn).contains("not what was written"));
        assert!(wrong(early, b"").contains("is no profile"));
        assert!(book.check(early, None).is_err());
    }

    #[test]
    fn orders_are_those_that_were_placed() {
        let book = Book::default();
        assert_eq!(book.ordered(0, 1), Ok(()));
        assert!(book.ordered(0, 1).is_err());
        book.maybe_ordered(0);
        assert_eq!(book.ordered(0, 4), Ok(()));
        assert!(book.ordered(0, 6).is_err());
        assert_eq!(book.orders(), (4, 5));
    }

    #[test]
    fn scores_are_the_same_bits_each_time() {
        let book = Book::default();
        let scores = [0.5; GOODS];
        assert_eq!(book.scored(1, &scores), Ok(()));
        assert_eq!(book.scored(1, &scores), Ok(()));
        let mut other = scores;
        other[7] = f32::from_bits(0.5_f32.to_bits() + 1);
        assert!(book.scored(1, &other).is_err());
        assert!(book.scored(2, &scores[..3]).is_err());
    }
}
