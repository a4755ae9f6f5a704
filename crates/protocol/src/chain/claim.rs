//! A claim on a chain: somebody answers for its items beside it, a home with boxes, and whoever writes them any other way would leave copies there
//! that are not true any more. So the chain refuses what does not come by the home.
//!
//! ```text
//!  0x00 0x00 ─▶ claim:  0      1        9
//!                       │ 1    │ number │ address of the home, UTF-8 │      little-endian
//! ```
//! **Rules.** 1. A transaction that writes is done only under the claim that counts when it is given its place in the order: [`Transaction::claim`] is that
//! claim's number, or 0 and there is none. Else it is aborted ([`Abort::Claimed`](super::transaction::Abort)), and that is remembered as all outcomes are.
//! 2. One that only reads under a claim is answered only as long as that one counts; under none it always is. 3. A claim is made, replaced and given up
//! by a transaction that writes its item and nothing else: these need no claim.
//!
//! **No lock.** The claim is in no transaction's keys, so those that write do not wait for each other. A head runs nothing from when it has
//! logged a claim until
//! that is committed; so what counts is always what its image has.
//!
//! **Nobody need wait for writes under way** when it claims: they have earlier places in the order, and are committed before the claim is.
//!
//! Invariants: once a claim is committed nothing is written that does not carry it, whoever is head, until another claim, or its end, is committed.
//!
//! Bounds: an address has at most [`MAX_ADDRESS`] bytes. Errors: bytes that no claim has are none. Tests: at the end, `tests/claims.rs`; fuzz target
//! `chain_claim`.

use super::attributes::RESERVED;
use super::image::{Image, Key, Space};
use super::order::MAX_ADDRESS;
use super::transaction::{Change, Transaction};
use std::fmt;

/// Where a claim lies: beside a key that begins with a zero byte, which no item has.
pub const CLAIM: &[u8] = &[RESERVED, RESERVED];

const FORMAT: u8 = 1;
/// Bytes before the address.
const HEAD: usize = 9;

/// Who answers for a chain's items.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Random, so that nobody has the same by chance; not 0.
    pub number: u64,
    /// Where it takes transactions.
    pub address: String,
}

impl Claim {
    /// As a chain has it.
    ///
    /// # Panics
    /// If the number is 0, or the address longer than [`MAX_ADDRESS`].
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(self.number != 0, "0 is no claim");
        assert!(self.address.len() <= MAX_ADDRESS, "an address has at most {MAX_ADDRESS} bytes");
        let mut bytes = Vec::with_capacity(HEAD + self.address.len());
        bytes.push(FORMAT);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(self.address.as_bytes());
        bytes
    }

    /// What these bytes say, if they are a claim.
    pub fn parse(bytes: &[u8]) -> Option<Claim> {
        let (head, address) = bytes.split_first_chunk::<HEAD>()?;
        let (format, number) = head.split_first_chunk::<1>()?;
        let number = u64::from_le_bytes(number.try_into().ok()?);
        if *format != [FORMAT] || number == 0 || address.len() > MAX_ADDRESS {
            return None;
        }
        Some(Claim { number, address: String::from_utf8(address.to_vec()).ok()? })
    }

    /// What makes this the claim that counts, whatever there was before.
    pub fn make(&self) -> Transaction {
        Transaction::new().put(CLAIM, self.to_bytes())
    }

    /// What gives up a claim, if this version of its item is there.
    pub fn give_up(version: u64) -> Transaction {
        Transaction::new().if_version(CLAIM, version).delete(CLAIM)
    }

    /// What tells which claim there is: the only thing that it reads.
    pub fn ask() -> Transaction {
        Transaction::new().get(CLAIM)
    }
}

/// For people: where transactions go.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} by the home at {}", self.number, self.address)
    }
}

/// The claim that counts in an image.
pub fn of(image: &impl Image) -> Option<Claim> {
    let item = image.read(&key())?;
    Claim::parse(item.value)
}

/// The number of the claim that counts in an image; 0: none.
pub fn number_of(image: &impl Image) -> u64 {
    of(image).map_or(0, |claim| claim.number)
}

/// The key of a claim in an image.
pub fn key() -> Key {
    Key { space: Space::User, bytes: CLAIM.to_vec() }
}

/// Whether this is the key of a claim.
pub fn is_its_key(key: &Key) -> bool {
    key.space == Space::User && key.bytes == CLAIM
}

/// Whether a transaction may be done where this claim counts (0: none).
pub fn allows(number: u64, transaction: &Transaction) -> bool {
    match (transaction.only_reads(), transaction.claim) {
        (true, 0) => true,
        (_, claim) => claim == number || is_claim(transaction),
    }
}

/// Whether it makes, replaces or gives up a claim, and writes nothing else.
fn is_claim(transaction: &Transaction) -> bool {
    match &transaction.writes[..] {
        [(key, Change::Put(value))] => key == CLAIM && Claim::parse(value).is_some(),
        [(key, Change::Delete)] => key == CLAIM,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Claim {
        Claim { number: 0x0102_0304_0506_0708, address: "tcp:10.0.0.1:7500".to_owned() }
    }

    #[test]
    fn claims_are_read_as_they_were_written_and_nothing_else_is() {
        let bytes = claim().to_bytes();
        assert_eq!(Claim::parse(&bytes), Some(claim()));
        assert!((0..HEAD).all(|len| Claim::parse(&bytes[..len]).is_none()));
        let without = Claim { address: String::new(), ..claim() };
        assert_eq!(Claim::parse(&bytes[..HEAD]), Some(without));
        let none = [vec![], vec![2], [&[FORMAT][..], &[0; 8]].concat(), [&bytes[..], &[0xff]].concat()];
        assert!(none.iter().all(|bytes| Claim::parse(bytes).is_none()));
        assert_eq!(Claim::parse(&[&bytes[..], &[b'x'; MAX_ADDRESS]].concat()), None, "too long");
        assert_eq!(claim().to_string(), "0102030405060708 by the home at tcp:10.0.0.1:7500");
    }

    #[test]
    fn what_may_be_done_under_which_claim() {
        let put = Transaction::new().put("a", "1");
        let get = Transaction::new().get("a");
        let none = Transaction::new().put(CLAIM, "no claim");
        let more = claim().make().put("a", "1");
        for (transaction, by_none, by_claim) in [
            (put.clone(), true, false),
            (put.clone().under(7), false, true),
            (put.under(8), false, false),
            (get.clone(), true, true),
            (get.clone().under(7), false, true),
            (get.under(8), false, false),
            (claim().make(), true, true),
            (Claim::give_up(3), true, true),
            (none, true, false),
            (more, true, false),
        ] {
            assert_eq!(allows(0, &transaction), by_none, "{transaction} under {}", transaction.claim);
            assert_eq!(allows(7, &transaction), by_claim, "{transaction} under {}", transaction.claim);
        }
    }
}
