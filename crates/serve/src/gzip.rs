//! Gzip of messages and bodies, within bounds.

use flate2::Compression;
use flate2::read::{GzEncoder, MultiGzDecoder};
use std::fmt;
use std::io::{self, Read as _};

/// Why bytes are not unpacked.
#[derive(Debug)]
pub enum GzipError {
    /// They are no gzip, or end early.
    Malformed(io::Error),
    /// There would be more than this.
    TooLong(usize),
}

impl fmt::Display for GzipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GzipError::Malformed(error) => write!(f, "it is no gzip: {error}"),
            GzipError::TooLong(most) => write!(f, "it is longer than {most} bytes when it is unpacked"),
        }
    }
}

impl std::error::Error for GzipError {}

/// What was packed, if it is `most` bytes at most. No more memory than twice that is taken, however short `packed` is.
///
/// # Errors
/// [`GzipError`]
pub fn unpacked(packed: &[u8], most: usize) -> Result<Vec<u8>, GzipError> {
    let mut bytes = Vec::new();
    let mut unpacking = MultiGzDecoder::new(packed).take(most as u64 + 1);
    unpacking.read_to_end(&mut bytes).map_err(GzipError::Malformed)?;
    if bytes.len() > most { Err(GzipError::TooLong(most)) } else { Ok(bytes) }
}

/// The bytes packed, if that is shorter.
pub fn packed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut packed = Vec::new();
    GzEncoder::new(bytes, Compression::fast()).read_to_end(&mut packed).ok()?;
    (packed.len() < bytes.len()).then_some(packed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: usize = 1 << 16;

    #[test]
    fn what_grows_beyond_the_bound_is_refused() {
        let zeros = packed(&[0; MOST]).expect("zeros are shorter");
        assert!(zeros.len() < MOST / 100);
        assert_eq!(unpacked(&zeros, MOST).expect("just within").len(), MOST);
        let refused = |bytes: &[u8]| matches!(unpacked(bytes, MOST), Err(GzipError::TooLong(MOST)));
        assert!(refused(&packed(&[0; MOST + 1]).expect("zeros are shorter")));
        // So is one of many members, each of which is within bounds.
        let half = packed(&[0; MOST / 2 + 1]).expect("zeros are shorter");
        assert!(refused(&[&half[..], &half].concat()));
    }

    #[test]
    fn what_is_no_gzip_or_ends_early_is_refused() {
        let whole = packed(&[7; 1000]).expect("one byte often is shorter");
        for wrong in [&b""[..], b"plain", &whole[..whole.len() - 1], &[&whole[..], b"more"].concat()] {
            assert!(matches!(unpacked(wrong, MOST), Err(GzipError::Malformed(_))), "{} bytes", wrong.len());
        }
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back(bytes in proptest::collection::vec(0u8..3, 0..5000)) {
            if let Some(packed) = packed(&bytes) {
                prop_assert!(packed.len() < bytes.len());
                prop_assert_eq!(unpacked(&packed, bytes.len()).expect("within"), bytes);
            }
        }

        #[test]
        fn anything_is_unpacked_within_bounds_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
        ) {
            let mut damaged = packed(&[9; 500]).expect("one byte often is shorter");
            let at = at.index(damaged.len());
            damaged.splice(at..at, bytes);
            if let Ok(bytes) = unpacked(&damaged, 400) {
                prop_assert!(bytes.len() <= 400);
            }
        }
    }
}
