//! Stepping over a field that the table does not know.

use super::error::Fault;
use crate::wire::MAX_TAG_BYTES;

/// The position after the value of an unknown field whose tag ends at `at`; it must end by `end`.
///
/// Groups may hold groups, up to `depth` of them.
pub(super) fn skip(input: &[u8], at: usize, end: usize, tag: u32, depth: u32) -> Result<usize, Fault> {
    match tag & 7 {
        0 => varint(input, at, end).map(|(_, at)| at),
        1 => fixed(at, 8, end),
        2 => {
            let (len, at) = varint(input, at, end)?;
            let len = usize::try_from(len).map_err(|_| Fault::Truncated)?;
            fixed(at, len, end)
        }
        3 => group(input, at, end, tag >> 3, depth),
        4 => Err(Fault::EndGroup),
        5 => fixed(at, 4, end),
        _ => Err(Fault::Tag),
    }
}

fn fixed(at: usize, len: usize, end: usize) -> Result<usize, Fault> {
    at.checked_add(len).filter(|&after| after <= end).ok_or(Fault::Truncated)
}

fn group(input: &[u8], mut at: usize, end: usize, number: u32, depth: u32) -> Result<usize, Fault> {
    let depth = depth.checked_sub(1).ok_or(Fault::Depth)?;
    loop {
        let (tag, after) = tag(input, at, end)?;
        if tag & 7 == 4 {
            return if tag >> 3 == number { Ok(after) } else { Err(Fault::EndGroup) };
        }
        at = skip(input, after, end, tag, depth)?;
    }
}

/// A legal tag of any length (so never the one of the lane's `NONE`), and the position after it. As in C++ it has at most five
/// bytes, and bits beyond the 32nd are dropped.
pub(super) fn tag(input: &[u8], at: usize, end: usize) -> Result<(u32, usize), Fault> {
    let (value, after) = varint(input, at, end)?;
    let tag = value as u32;
    if tag >> 3 == 0 || tag & 7 > 5 || after - at > MAX_TAG_BYTES {
        return Err(Fault::Tag);
    }
    Ok((tag, after))
}

/// A varint, and the position after it.
pub(super) fn varint(input: &[u8], at: usize, end: usize) -> Result<(u64, usize), Fault> {
    let mut value = 0;
    for (index, &byte) in input[at..end].iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok((value, at + index + 1));
        }
    }
    Err(if end - at < 10 { Fault::Truncated } else { Fault::Varint })
}
