//! Base64 (RFC 4648, with padding) for the binary keys of meta commands.
//!
//! Strict: only the canonical spelling of a key is accepted, so that the text of the request may be echoed as it stands
//! and one key has one spelling. memcached skips foreign characters and re-encodes.

const INVALID: u8 = 0xFF;

static VALUES: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [INVALID; 256];
    let mut i = 0;
    while i < alphabet.len() {
        values[alphabet[i] as usize] = i as u8;
        i += 1;
    }
    values
};

/// Bytes that `text` stands for, or `None` where it is not canonical base64 of at least one byte.
pub(super) fn decoded_len(text: &[u8]) -> Option<usize> {
    if text.is_empty() || !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text);
    if digits.iter().any(|&c| VALUES[usize::from(c)] == INVALID) {
        return None;
    }
    let padding = text.len() - digits.len();
    // The bits of the last digit that no byte uses must be zero: 4 of them before `==`, 2 before `=`.
    let spare = [0, 0b11, 0b1111][padding];
    let last = VALUES[usize::from(*digits.last()?)];
    (last & spare == 0).then_some(text.len() / 4 * 3 - padding)
}

/// Decodes `text`, which [`decoded_len`] has accepted, into the front of `out` and returns the length.
///
/// `out` must hold the decoded bytes.
pub(super) fn decode(text: &[u8], out: &mut [u8]) -> usize {
    let mut len = 0;
    for block in text.chunks_exact(4) {
        let mut word = 0u32;
        for &c in block {
            // Padding counts as zero bits; the bytes it would make are not kept.
            word = word << 6 | u32::from(if c == b'=' { 0 } else { VALUES[usize::from(c)] });
        }
        let kept = 3 - block.iter().filter(|&&c| c == b'=').count();
        out[len..len + kept].copy_from_slice(&word.to_be_bytes()[1..1 + kept]);
        len += kept;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(bytes: &[u8]) -> Vec<u8> {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = Vec::new();
        for chunk in bytes.chunks(3) {
            let mut word = [0; 4];
            word[1..1 + chunk.len()].copy_from_slice(chunk);
            let word = u32::from_be_bytes(word);
            for i in 0..4 {
                let digit = alphabet[(word >> (18 - 6 * i) & 63) as usize];
                text.push(if i <= chunk.len() { digit } else { b'=' });
            }
        }
        text
    }

    #[test]
    fn only_the_canonical_spelling_is_a_key() {
        assert_eq!(decoded_len(b"Zm9v"), Some(3));
        assert_eq!(decoded_len(b"Zg=="), Some(1));
        assert_eq!(decoded_len(b"Zm8="), Some(2));
        for bad in ["", "Z", "Zg", "Zm9", "Zh==", "Zm9=", "====", "Z===", "Zm9v!", "Zm!v", "Zm=v", "Zg==Zg=="]
        {
            assert_eq!(decoded_len(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn decode_inverts_encode(bytes in proptest::collection::vec(any::<u8>(), 1..187)) {
            let text = encode(&bytes);
            prop_assert_eq!(decoded_len(&text), Some(bytes.len()));
            let mut out = [0; 187];
            let len = decode(&text, &mut out);
            prop_assert_eq!(&out[..len], &bytes[..]);
        }

        #[test]
        fn what_is_accepted_is_canonical(text in "[A-Za-z0-9+/=]{4,12}") {
            if let Some(len) = decoded_len(text.as_bytes()) {
                let mut out = [0; 16];
                prop_assert_eq!(decode(text.as_bytes(), &mut out), len);
                prop_assert_eq!(encode(&out[..len]), text.as_bytes());
            }
        }
    }
}
