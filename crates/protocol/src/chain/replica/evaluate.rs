//! What a transaction comes to, on an image in which nobody else touches its keys.
//!
//! Numbers are decimal text, 64-bit signed.

use crate::chain::image::{Image, Key, Space};
use crate::chain::transaction::{Abort, Change, Condition, Found};
use crate::chain::{Transaction, claim};

/// What it comes to.
pub(super) struct Evaluated {
    /// Nothing is written, because of this.
    pub(super) abort: Option<Abort>,
    pub(super) reads: Vec<Option<Found>>,
    pub(super) sums: Vec<i64>,
    /// What each written key becomes; `None`: absent.
    pub(super) writes: Vec<(Key, Option<Vec<u8>>)>,
}

/// A user's key.
pub(super) fn user(bytes: &[u8]) -> Key {
    Key { space: Space::User, bytes: bytes.to_vec() }
}

/// The same where this claim counts: nothing is looked at if it is not the one that the transaction is made under.
pub(super) fn evaluate_under(image: &impl Image, claim: u64, transaction: &Transaction) -> Evaluated {
    if claim::allows(claim, transaction) {
        return evaluate(image, transaction);
    }
    Evaluated { abort: Some(Abort::Claimed), reads: Vec::new(), sums: Vec::new(), writes: Vec::new() }
}

/// Looks at conditions, reads and writes. Where it aborts, sums and writes are empty.
pub(super) fn evaluate(image: &impl Image, transaction: &Transaction) -> Evaluated {
    let reads = transaction.reads.iter().map(|key| read(image, key)).collect();
    let mut evaluated = Evaluated { abort: None, reads, sums: Vec::new(), writes: Vec::new() };
    let broken = transaction.conditions.iter().position(|(key, condition)| !holds(image, key, condition));
    evaluated.abort = broken.map(|place| Abort::Condition(place as u32));
    if evaluated.abort.is_some() {
        return evaluated;
    }
    for (place, (key, change)) in transaction.writes.iter().enumerate() {
        let value = match change {
            Change::Put(value) => Some(value.clone()),
            Change::Delete => None,
            Change::Add(amount) => match sum(image, key, *amount, place as u32) {
                Ok(sum) => {
                    evaluated.sums.push(sum);
                    Some(sum.to_string().into_bytes())
                }
                Err(abort) => {
                    return Evaluated { abort: Some(abort), sums: vec![], writes: vec![], ..evaluated };
                }
            },
        };
        evaluated.writes.push((user(key), value));
    }
    evaluated
}

fn read(image: &impl Image, key: &[u8]) -> Option<Found> {
    image.read(&user(key)).map(|item| Found { version: item.version, value: item.value.to_vec() })
}

/// The number at a key; absent counts as 0. `None`: something else is there.
fn number(image: &impl Image, key: &[u8]) -> Option<i64> {
    let Some(item) = image.read(&user(key)) else { return Some(0) };
    std::str::from_utf8(item.value).ok()?.parse().ok()
}

fn holds(image: &impl Image, key: &[u8], condition: &Condition) -> bool {
    let item = image.read(&user(key));
    match condition {
        Condition::Version(version) => item.map_or(0, |item| item.version.0) == *version,
        Condition::Exists => item.is_some(),
        Condition::Value(value) => item.is_some_and(|item| item.value == value),
        Condition::AtLeast(least) => number(image, key).is_some_and(|number| number >= *least),
    }
}

fn sum(image: &impl Image, key: &[u8], amount: i64, place: u32) -> Result<i64, Abort> {
    let number = number(image, key).ok_or(Abort::NotANumber(place))?;
    number.checked_add(amount).ok_or(Abort::Overflow(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Lsn;
    use crate::chain::image::plain::Plain;

    fn image(items: &[(&str, &str)]) -> Plain {
        let mut image = Plain::new(16, 64);
        for (i, (key, value)) in items.iter().enumerate() {
            let lsn = Lsn(i as u64 + 1);
            let mut tuples = Vec::new();
            image.place(lsn, &[(&user(key.as_bytes()), Some(value.as_bytes()))], &mut tuples).expect("room");
            image.apply(lsn, &tuples).expect("its own");
        }
        image
    }

    fn abort_of(condition: (&str, Condition)) -> Option<Abort> {
        let image = image(&[("n", "7"), ("s", "text")]);
        let condition = (condition.0.as_bytes().to_vec(), condition.1);
        evaluate(&image, &Transaction { conditions: vec![condition], ..Transaction::default() }).abort
    }

    #[test]
    fn conditions_see_what_is_there() {
        let failed = Some(Abort::Condition(0));
        for (key, condition, abort) in [
            ("n", Condition::Version(1), None),
            ("n", Condition::Version(2), failed),
            ("none", Condition::Version(0), None),
            ("s", Condition::Exists, None),
            ("none", Condition::Exists, failed),
            ("s", Condition::Value(b"text".to_vec()), None),
            ("none", Condition::Value(Vec::new()), failed),
            ("n", Condition::AtLeast(7), None),
            ("n", Condition::AtLeast(8), failed),
            ("none", Condition::AtLeast(0), None),
            ("s", Condition::AtLeast(i64::MIN), failed),
        ] {
            assert_eq!(abort_of((key, condition.clone())), abort, "{key} {condition:?}");
        }
    }

    #[test]
    fn all_is_read_before_anything_is_written_and_an_abort_writes_nothing() {
        let image = image(&[("n", "7"), ("s", "text"), ("max", "9223372036854775807")]);
        let add = |key: &str| (key.as_bytes().to_vec(), Change::Add(1));
        let mut transaction = Transaction {
            reads: vec![b"n".to_vec(), b"none".to_vec()],
            writes: vec![add("n"), add("none")],
            ..Transaction::default()
        };
        let well = evaluate(&image, &transaction);
        assert_eq!((well.abort, well.sums), (None, vec![8, 1]));
        assert_eq!(well.reads, [Some(Found { version: Lsn(1), value: b"7".to_vec() }), None]);
        assert_eq!(well.writes, [(user(b"n"), Some(b"8".to_vec())), (user(b"none"), Some(b"1".to_vec()))]);
        for (key, abort) in [("s", Abort::NotANumber(2)), ("max", Abort::Overflow(2))] {
            transaction.writes.truncate(2);
            transaction.writes.push(add(key));
            let aborted = evaluate(&image, &transaction);
            assert_eq!((aborted.abort, aborted.sums, aborted.writes), (Some(abort), vec![], vec![]));
            assert_eq!(aborted.reads.len(), 2);
        }
    }
}
