//! Records of works and of their results, in messages [`Works`](crate::proto::millrace::Works) and [`Results`](crate::proto::millrace::Results).
//!
//! ```text
//! work    verb u8 │ 0 u8×3 │ len u32 │ key u64 │ offset u64 │ ahead u32 │ WRITE: len bytes, CAS: expected u64, new u64, ADD: add u64
//! result  outcome u8 │ 0 u8×3 │ len u32 │ len bytes: what was read, or what a word was
//! ```
//! Little-endian. A long work travels as several records, each with how many bytes of it are still ahead, so that the first is denied
//! if the last would be; a message's records ask for and bring [`BATCH_MAX`] bytes together at most.
//!
//! Errors: [`Malformed`], which ends a connection.

use crate::work::{Address, Key, Outcome, Verb};

/// Bytes of one record's data at most.
pub const PIECE_MAX: usize = 16 << 10;
/// Bytes that the records of a message carry there and back at most, beside their heads.
pub const BATCH_MAX: usize = 64 << 10;

const HEAD: usize = 8;

/// What is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A work, or a piece of one, as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'b> {
    /// What is to be done.
    pub verb: Verb,
    /// Where.
    pub remote: Address,
    /// Bytes of it.
    pub len: usize,
    /// Bytes of the same work that come after it.
    pub ahead: u32,
    /// What is written; nothing for others.
    pub data: &'b [u8],
}

impl Piece<'_> {
    /// Appends its record.
    pub fn emit(&self, to: &mut Vec<u8>) {
        let number: u8 = match self.verb {
            Verb::Read => 1,
            Verb::Write => 2,
            Verb::CompareSwap { .. } => 3,
            Verb::FetchAdd { .. } => 4,
        };
        to.extend_from_slice(&[number, 0, 0, 0]);
        to.extend_from_slice(&(self.len as u32).to_le_bytes());
        to.extend_from_slice(&self.remote.key.0.to_le_bytes());
        to.extend_from_slice(&self.remote.offset.to_le_bytes());
        to.extend_from_slice(&self.ahead.to_le_bytes());
        match self.verb {
            Verb::Read => {}
            Verb::Write => to.extend_from_slice(self.data),
            Verb::CompareSwap { expected, new } => {
                to.extend_from_slice(&expected.to_le_bytes());
                to.extend_from_slice(&new.to_le_bytes());
            }
            Verb::FetchAdd { add } => to.extend_from_slice(&add.to_le_bytes()),
        }
    }
}

/// Takes so many bytes off the front.
fn cut<'b>(from: &mut &'b [u8], len: usize) -> Result<&'b [u8], Malformed> {
    let (front, rest) = from.split_at_checked(len).ok_or(Malformed)?;
    *from = rest;
    Ok(front)
}

fn number(from: &mut &[u8]) -> Result<u64, Malformed> {
    Ok(u64::from_le_bytes(cut(from, 8)?.try_into().expect("eight")))
}

/// The first four bytes of a record as its first and nothing, and its length.
fn head(from: &mut &[u8]) -> Result<(u8, usize), Malformed> {
    let &[kind, 0, 0, 0, a, b, c, d] = cut(from, HEAD)? else { return Err(Malformed) };
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    if len > PIECE_MAX { Err(Malformed) } else { Ok((kind, len)) }
}

/// The next work of a message; none at its end.
///
/// # Errors
/// [`Malformed`].
pub fn next_work<'b>(from: &mut &'b [u8]) -> Result<Option<Piece<'b>>, Malformed> {
    if from.is_empty() {
        return Ok(None);
    }
    let (kind, len) = head(from)?;
    let remote = Address { key: Key(number(from)?), offset: number(from)? };
    let ahead = u32::from_le_bytes(cut(from, 4)?.try_into().expect("four"));
    let mut data: &[u8] = &[];
    let verb = match kind {
        1 => Verb::Read,
        2 => {
            data = cut(from, len)?;
            Verb::Write
        }
        3 => Verb::CompareSwap { expected: number(from)?, new: number(from)? },
        4 => Verb::FetchAdd { add: number(from)? },
        _ => return Err(Malformed),
    };
    if verb.is_atomic() && len != 8 {
        return Err(Malformed);
    }
    Ok(Some(Piece { verb, remote, len, ahead, data }))
}

/// Appends a result's record.
pub fn emit_result(outcome: Outcome, data: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(&[u8::from(outcome != Outcome::Done), 0, 0, 0]);
    to.extend_from_slice(&(data.len() as u32).to_le_bytes());
    to.extend_from_slice(data);
}

/// The next result of a message, with what it brings; none at its end.
///
/// # Errors
/// [`Malformed`].
pub fn next_result<'b>(from: &mut &'b [u8]) -> Result<Option<(Outcome, &'b [u8])>, Malformed> {
    if from.is_empty() {
        return Ok(None);
    }
    let (kind, len) = head(from)?;
    let data = cut(from, len)?;
    match kind {
        0 => Ok(Some((Outcome::Done, data))),
        1 if data.is_empty() => Ok(Some((Outcome::Denied, data))),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn verb() -> impl Strategy<Value = (Verb, Vec<u8>, usize)> {
        prop_oneof![
            (0..=PIECE_MAX).prop_map(|len| (Verb::Read, Vec::new(), len)),
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(|data| {
                let len = data.len();
                (Verb::Write, data, len)
            }),
            any::<(u64, u64)>().prop_map(|(expected, new)| (
                Verb::CompareSwap { expected, new },
                Vec::new(),
                8
            )),
            any::<u64>().prop_map(|add| (Verb::FetchAdd { add }, Vec::new(), 8)),
        ]
    }

    proptest! {
        #[test]
        fn works_arrive_as_they_were(works in proptest::collection::vec((verb(), any::<(u64, u64)>()), 0..20)) {
            let pieces: Vec<Piece<'_>> = works.iter().map(|((verb, data, len), (key, offset))| Piece {
                verb: *verb,
                remote: Address { key: Key(*key), offset: *offset },
                len: *len,
                ahead: *key as u32,
                data,
            }).collect();
            let mut bytes = Vec::new();
            pieces.iter().for_each(|piece| piece.emit(&mut bytes));
            let mut rest = &bytes[..];
            for piece in &pieces {
                prop_assert_eq!(next_work(&mut rest), Ok(Some(*piece)));
            }
            prop_assert_eq!(next_work(&mut rest), Ok(None));
        }

        #[test]
        fn whatever_comes_is_a_record_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for first in 0..6 {
                let mut bytes = bytes.clone();
                bytes.splice(0..0, [first, 0, 0, 0]);
                let mut works = &bytes[..];
                while let Ok(Some(piece)) = next_work(&mut works) {
                    prop_assert!(piece.len <= PIECE_MAX && piece.data.len() <= piece.len);
                }
                let mut results = &bytes[..];
                while let Ok(Some((_, data))) = next_result(&mut results) {
                    prop_assert!(data.len() <= PIECE_MAX);
                }
            }
        }
    }
}
