//! Default values, as descriptor.proto writes them: text, with bytes escaped as in C.

use super::{Enum, Problem};
use crate::table::Kind;

/// What an absent field reads as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// A number, bool or enum: the bits that an object would hold, zero-extended.
    Bits(u64),
    /// A string's or bytes field's bytes.
    Bytes(Box<[u8]>),
}

impl DefaultValue {
    /// The value that `text` stands for in a field of that kind.
    pub(super) fn parse(text: &str, kind: Kind, values: Option<&Enum>) -> Result<DefaultValue, Problem> {
        let bits = match kind {
            Kind::Double => text.parse::<f64>().ok().map(f64::to_bits),
            Kind::Float => text.parse::<f32>().ok().map(|v| u64::from(v.to_bits())),
            Kind::Int64 | Kind::Sfixed64 | Kind::Sint64 => text.parse::<i64>().ok().map(|v| v as u64),
            Kind::Uint64 | Kind::Fixed64 => text.parse::<u64>().ok(),
            Kind::Int32 | Kind::Sfixed32 | Kind::Sint32 => text.parse::<i32>().ok().map(bits_of),
            Kind::Uint32 | Kind::Fixed32 => text.parse::<u32>().ok().map(u64::from),
            Kind::Bool => text.parse::<bool>().ok().map(u64::from),
            Kind::Enum => values.and_then(|v| v.values.iter().find(|v| v.0 == text)).map(|v| bits_of(v.1)),
            Kind::String => return Ok(DefaultValue::Bytes(text.as_bytes().into())),
            Kind::Bytes => {
                let bytes = unescape(text).ok_or_else(|| Problem::Default(text.into()))?;
                return Ok(DefaultValue::Bytes(bytes.into()));
            }
            Kind::Group | Kind::Message => None,
        };
        bits.map(DefaultValue::Bits).ok_or_else(|| Problem::Default(text.into()))
    }

    /// What an enum field without a default of its own reads as: the first value, if that is not zero.
    pub(super) fn first(values: &Enum) -> Option<DefaultValue> {
        let first = values.values[0].1;
        (first != 0).then(|| DefaultValue::Bits(bits_of(first)))
    }

    /// True for zero and empty, which need no mention.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            DefaultValue::Bits(bits) => *bits == 0,
            DefaultValue::Bytes(bytes) => bytes.is_empty(),
        }
    }
}

fn bits_of(value: i32) -> u64 {
    u64::from(value as u32)
}

/// The bytes that C escapes stand for.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes().peekable();
    let mut out = vec![];
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            same @ (b'\\' | b'\'' | b'"' | b'?') => same,
            b'x' | b'X' => number(&mut bytes, 16, 2, 0)?,
            digit @ b'0'..=b'7' => number(&mut bytes, 8, 2, u32::from(digit - b'0'))?,
            _ => return None,
        });
    }
    Some(out)
}

/// Up to `most` more digits after `value`; at least one for hexadecimal, which begins with none.
fn number(
    bytes: &mut std::iter::Peekable<std::str::Bytes<'_>>,
    radix: u32,
    most: usize,
    mut value: u32,
) -> Option<u8> {
    for i in 0..most {
        let Some(digit) = bytes.peek().and_then(|b| char::from(*b).to_digit(radix)) else {
            if i == 0 && radix == 16 {
                return None;
            }
            break;
        };
        value = value * radix + digit;
        bytes.next();
    }
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str, kind: Kind) -> Option<u64> {
        match DefaultValue::parse(text, kind, None) {
            Ok(DefaultValue::Bits(bits)) => Some(bits),
            _ => None,
        }
    }

    #[test]
    fn numbers_are_the_bits_an_object_holds() {
        assert_eq!(bits("-1", Kind::Int32), Some(0xffff_ffff));
        assert_eq!(bits("-1", Kind::Sint64), Some(u64::MAX));
        assert_eq!(bits("4294967296", Kind::Uint32), None);
        assert_eq!(bits("true", Kind::Bool), Some(1));
        assert_eq!(bits("1.5", Kind::Float), Some(0x3fc0_0000));
        for text in ["inf", "-inf", "nan", "1e300", "-0"] {
            let value = bits(text, Kind::Double).map(f64::from_bits).expect(text);
            assert_eq!(value.to_string(), text.parse::<f64>().unwrap().to_string());
        }
        assert_eq!(bits("x", Kind::Double), None);
        assert_eq!(bits("x", Kind::Message), None);
    }

    #[test]
    fn bytes_are_unescaped() {
        assert_eq!(unescape(r#"a\0\x1f\377\n\"\'\\é"#), Some(b"a\x00\x1f\xff\n\"'\\\xc3\xa9".to_vec()));
        assert_eq!(unescape(r"\0012"), Some(vec![1, b'2']));
        for bad in [r"\", r"\q", r"\x", r"\400"] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
    }
}
