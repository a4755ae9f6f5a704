//! Base64: written with the standard alphabet and padding, read with either alphabet, padded or not.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes`.
pub(super) fn encode(bytes: &[u8], out: &mut String) {
    for group in bytes.chunks(3) {
        let word =
            group.iter().enumerate().fold(0, |word, (at, &byte)| word | u32::from(byte) << (16 - 8 * at));
        for at in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= group.len() { char::from(digit) } else { '=' });
        }
    }
}

/// The bytes, or nothing if the text is no base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if padding > 2 || padding > 0 && !text.len().is_multiple_of(4) || digits.len() % 4 == 1 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.as_bytes().chunks(4) {
        let mut word = 0;
        for &digit in group {
            word = word << 6 | value(digit)?;
        }
        word <<= 6 * (4 - group.len());
        out.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

fn value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn there_and_back(bytes: Vec<u8>) {
            let mut text = String::new();
            encode(&bytes, &mut text);
            prop_assert_eq!(text.len() % 4, 0);
            prop_assert_eq!(decode(&text), Some(bytes.clone()));
            let url = text.replace('+', "-").replace('/', "_");
            prop_assert_eq!(decode(url.trim_end_matches('=')), Some(bytes));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["a", "ab=", "a===", "ab c", "abcd====", "=", "ab=c", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(decode(""), Some(vec![]));
    }
}
