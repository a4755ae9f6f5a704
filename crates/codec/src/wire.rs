//! Reading protobuf's wire format from a slice: the plain, checked way.
//!
//! Why here: descriptors, tools and tests read with these; the deserialiser has a path of its own for speed.
//!
//! Shape: each function takes the bytes and a position and moves the position past what it read. On an error the position
//! is of no meaning.
//!
//! Errors: [`WireError`]; no input panics, and a group skips at most [`MAX_GROUP_DEPTH`] levels down.

/// The highest field number there is.
pub const MAX_FIELD_NUMBER: u32 = (1 << 29) - 1;

/// Bytes of a tag, however little it says.
pub const MAX_TAG_BYTES: usize = 5;

/// How deep [`skip`] follows groups within groups.
pub const MAX_GROUP_DEPTH: u32 = 100;

/// What is wrong with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The bytes end within a value.
    Truncated,
    /// A varint of more than ten bytes.
    VarintTooLong,
    /// A tag of more than [`MAX_TAG_BYTES`].
    TagTooLong,
    /// Field number 0.
    FieldNumber,
    /// Wire types 6 and 7 do not exist.
    WireType,
    /// A group ends that did not begin, or with another number.
    GroupEnd,
    /// Groups within groups beyond [`MAX_GROUP_DEPTH`].
    TooDeep,
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WireError::Truncated => "the bytes end within a value",
            WireError::VarintTooLong => "a varint is longer than ten bytes",
            WireError::TagTooLong => "a tag is longer than five bytes",
            WireError::FieldNumber => "a field has the number 0",
            WireError::WireType => "a wire type does not exist",
            WireError::GroupEnd => "a group ends that did not begin",
            WireError::TooDeep => "groups are nested too deeply",
        })
    }
}

impl std::error::Error for WireError {}

/// The next varint. Bits beyond the 64th are dropped, as all decoders do.
#[inline]
pub fn read_varint(bytes: &[u8], at: &mut usize) -> Result<u64, WireError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at).ok_or(WireError::Truncated)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(WireError::VarintTooLong)
}

/// The next tag: field number and wire type, both possible ones. At most [`MAX_TAG_BYTES`], of which bits beyond the 32nd are
/// dropped, as C++ does.
#[inline]
pub fn read_tag(bytes: &[u8], at: &mut usize) -> Result<(u32, u32), WireError> {
    let start = *at;
    let tag = read_varint(bytes, at)? as u32;
    if *at - start > MAX_TAG_BYTES {
        return Err(WireError::TagTooLong);
    }
    let (number, wire_type) = (tag >> 3, tag & 7);
    if number == 0 {
        return Err(WireError::FieldNumber);
    }
    if wire_type > 5 {
        return Err(WireError::WireType);
    }
    Ok((number, wire_type))
}

/// The next four bytes, little-endian.
#[inline]
pub fn read_fixed32(bytes: &[u8], at: &mut usize) -> Result<u32, WireError> {
    let value = bytes.get(*at..).and_then(|rest| rest.first_chunk()).ok_or(WireError::Truncated)?;
    *at += 4;
    Ok(u32::from_le_bytes(*value))
}

/// The next eight bytes, little-endian.
#[inline]
pub fn read_fixed64(bytes: &[u8], at: &mut usize) -> Result<u64, WireError> {
    let value = bytes.get(*at..).and_then(|rest| rest.first_chunk()).ok_or(WireError::Truncated)?;
    *at += 8;
    Ok(u64::from_le_bytes(*value))
}

/// A length and so many bytes.
#[inline]
pub fn read_bytes<'a>(bytes: &'a [u8], at: &mut usize) -> Result<&'a [u8], WireError> {
    let len = usize::try_from(read_varint(bytes, at)?).map_err(|_| WireError::Truncated)?;
    let end = at.checked_add(len).ok_or(WireError::Truncated)?;
    let value = bytes.get(*at..end).ok_or(WireError::Truncated)?;
    *at = end;
    Ok(value)
}

/// Moves past the value of a field whose tag was just read; a group with all that is in it.
pub fn skip(bytes: &[u8], at: &mut usize, number: u32, wire_type: u32) -> Result<(), WireError> {
    let mut open = [0; MAX_GROUP_DEPTH as usize];
    let mut depth = 0;
    let (mut number, mut wire_type) = (number, wire_type);
    loop {
        match wire_type {
            0 => drop(read_varint(bytes, at)?),
            1 => drop(read_fixed64(bytes, at)?),
            2 => drop(read_bytes(bytes, at)?),
            3 => {
                *open.get_mut(depth).ok_or(WireError::TooDeep)? = number;
                depth += 1;
            }
            4 => {
                if depth == 0 || open[depth - 1] != number {
                    return Err(WireError::GroupEnd);
                }
                depth -= 1;
            }
            5 => drop(read_fixed32(bytes, at)?),
            _ => return Err(WireError::WireType),
        }
        if depth == 0 {
            return Ok(());
        }
        (number, wire_type) = read_tag(bytes, at)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length_and_the_malformed_ones() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut bytes = vec![];
            let mut rest = value;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
            let mut at = 0;
            assert_eq!(read_varint(&bytes, &mut at), Ok(value));
            assert_eq!(at, bytes.len());
            assert_eq!(read_varint(&bytes[..bytes.len() - 1], &mut 0), Err(WireError::Truncated));
        }
        assert_eq!(read_varint(&[0x80, 0x00], &mut 0), Ok(0), "longer than need be is allowed");
        assert_eq!(read_varint(&[0xff; 11], &mut 0), Err(WireError::VarintTooLong));
        let mut ten = [0xff; 10];
        ten[9] = 3;
        assert_eq!(read_varint(&ten, &mut 0), Ok(u64::MAX), "bits beyond the 64th are dropped");
    }

    #[test]
    fn tags_outside_the_format_are_refused() {
        assert_eq!(read_tag(&[0x08], &mut 0), Ok((1, 0)));
        assert_eq!(read_tag(&[0x00], &mut 0), Err(WireError::FieldNumber));
        assert_eq!(read_tag(&[0x0e], &mut 0), Err(WireError::WireType));
        assert_eq!(read_tag(&[0xfa, 0xff, 0xff, 0xff, 0x0f], &mut 0), Ok((MAX_FIELD_NUMBER, 2)));
        assert_eq!(
            read_tag(&[0xfa, 0xff, 0xff, 0xff, 0x7f], &mut 0),
            Ok((MAX_FIELD_NUMBER, 2)),
            "33rd bit and on"
        );
        assert_eq!(read_tag(&[0x80, 0x80, 0x80, 0x80, 0x10], &mut 0), Err(WireError::FieldNumber));
        for length in 2..=11 {
            let mut tag = vec![0x80; length];
            tag[0] = 0x88;
            tag[length - 1] = 0;
            let expected = match length {
                2..=5 => Ok((1, 0)),
                6..=10 => Err(WireError::TagTooLong),
                _ => Err(WireError::VarintTooLong),
            };
            assert_eq!(read_tag(&tag, &mut 0), expected, "{length} bytes");
        }
    }

    #[test]
    fn lengths_beyond_the_end_are_truncated_not_overflowing() {
        assert_eq!(read_bytes(&[2, 7, 8, 9], &mut 0), Ok(&[7, 8][..]));
        assert_eq!(read_bytes(&[3, 7, 8], &mut 0), Err(WireError::Truncated));
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(read_bytes(&huge, &mut 0), Err(WireError::Truncated));
        assert_eq!(read_fixed32(&[1, 2, 3], &mut 0), Err(WireError::Truncated));
        assert_eq!(read_fixed64(&[1, 0, 0, 0, 0, 0, 0, 0], &mut 0), Ok(1));
    }

    #[test]
    fn skipping_follows_groups_to_their_end() {
        // Field 1 as a group: field 2 varint, field 3 an empty group, end; then one more byte.
        let bytes = [0x10, 0x05, 0x1b, 0x1c, 0x0c, 0x63];
        let mut at = 0;
        assert_eq!(skip(&bytes, &mut at, 1, 3), Ok(()));
        assert_eq!(at, 5);
        assert_eq!(skip(&[0x14], &mut 0, 1, 3), Err(WireError::GroupEnd));
        assert_eq!(skip(&[], &mut 0, 1, 4), Err(WireError::GroupEnd));
        assert_eq!(skip(&[0x0b; 200], &mut 0, 1, 3), Err(WireError::TooDeep));
    }
}
