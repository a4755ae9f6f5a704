//! The stamp of a request: what the server writes before it, in the room that its client left.
//!
//! ```text
//!  0      4     8     16         24             48       52         56    60       64
//!  │ magic│ crc │ lsn │ position │ effect: head │ key_at │ value_at │ crc │ behind │ the request, as its client wrote it
//! ```
//! Little-endian. The first `crc` (CRC32C) is of what is behind it in the stamp, the second of key and value; both begin from a seed that the log's identity
//! gives. `key_at` and `value_at` count from the end of the stamp; how long both are is in the effect's head. `behind`: how many effects before this one,
//! itself included, were not known to be durable when it was stamped.
//!
//! Errors: bytes that no stamp has are none. Tests: at the end; fuzz target `ring_log`.

use super::super::effect::{Effect, HEAD};
use crate::redo::Refused;

/// Bytes of a stamp: a request begins so far behind where its entry begins, and entries begin at multiples of it.
pub const STAMP: usize = 64;

/// "RING".
const MAGIC: u32 = 0x474E_4952;

/// What a stamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) lsn: u64,
    pub(super) position: u64,
    pub(super) effect: [u8; HEAD],
    pub(super) key_at: u32,
    pub(super) value_at: u32,
    pub(super) crc: u32,
    pub(super) behind: u32,
}

/// The checksum of what an effect has beside its head.
pub(super) fn sum(seed: u32, key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(seed, key), value)
}

impl Stamp {
    pub(super) fn emit(&self, seed: u32) -> [u8; STAMP] {
        let mut out = [0; STAMP];
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..16].copy_from_slice(&self.lsn.to_le_bytes());
        out[16..24].copy_from_slice(&self.position.to_le_bytes());
        out[24..48].copy_from_slice(&self.effect);
        for (at, word) in [(48, self.key_at), (52, self.value_at), (56, self.crc), (60, self.behind)] {
            out[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(seed, &out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The stamp in these bytes, which lie at `index` of a lane of `capacity` bytes, if it is one and all that it names is in the lane.
    pub(super) fn parse(bytes: &[u8; STAMP], seed: u32, index: u64, capacity: u64) -> Option<Stamp> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if word(0) != MAGIC || word(4) != crc32c::crc32c_append(seed, &bytes[8..]) {
            return None;
        }
        let mut effect = [0; HEAD];
        effect.copy_from_slice(&bytes[24..48]);
        let stamp = Stamp {
            lsn: long(8),
            position: long(16),
            effect,
            key_at: word(48),
            value_at: word(52),
            crc: word(56),
            behind: word(60),
        };
        let is_in_place = stamp.position % capacity == index && index + stamp.len() <= capacity;
        // An effect is never known to be durable before it is stamped; and nobody counts so far.
        let makes_sense = (1..=stamp.lsn).contains(&u64::from(stamp.behind)) && stamp.lsn < u64::MAX >> 1;
        (is_in_place && makes_sense && stamp.position < u64::MAX >> 1).then_some(stamp)
    }

    pub(super) fn key_len(&self) -> usize {
        usize::from(self.effect[2])
    }

    pub(super) fn value_len(&self) -> usize {
        let [a, b, c, d] = [12, 13, 14, 15].map(|at| self.effect[at]);
        u32::from_le_bytes([a, b, c, d]) as usize
    }

    /// Bytes from the beginning of the stamp to the end of what it names.
    pub(super) fn len(&self) -> u64 {
        let end = |at: u32, len: usize| if len == 0 { 0 } else { u64::from(at) + len as u64 };
        STAMP as u64 + end(self.key_at, self.key_len()).max(end(self.value_at, self.value_len()))
    }

    /// Everything up to here was durable when it was made.
    pub(super) fn durable(&self) -> u64 {
        self.lsn - u64::from(self.behind)
    }

    /// The effect as bytes, with key and value that were read where the stamp says; none where they are not what they were.
    pub(super) fn payload(&self, seed: u32, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        if sum(seed, key, value) != self.crc {
            return None;
        }
        let bytes = [&self.effect[..], key, value].concat();
        matches!(Effect::parse(&bytes), Some((_, []))).then_some(bytes)
    }
}

/// How far an effect is behind what is durable.
pub(super) fn behind(lsn: u64, durable: u64) -> Result<u32, Refused> {
    u32::try_from(lsn - durable).map_err(|_| Refused::Full)
}

#[cfg(test)]
mod tests {
    use super::super::super::effect::State;
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written_and_any_flipped_bit_unmakes_it() {
        let effect = Effect::Put { key: b"key", value: b"value", state: State::default() };
        let stamp = Stamp {
            lsn: 9,
            position: 4096 + 128,
            effect: effect.head(),
            key_at: 4,
            value_at: 20,
            crc: sum(5, b"key", b"value"),
            behind: 2,
        };
        let bytes = stamp.emit(5);
        assert_eq!(Stamp::parse(&bytes, 5, 128, 4096), Some(stamp));
        assert_eq!((stamp.len(), stamp.durable()), (64 + 25, 7));
        assert_eq!(Stamp::parse(&bytes, 6, 128, 4096), None, "another log's");
        assert_eq!(Stamp::parse(&bytes, 5, 192, 4096), None, "elsewhere");
        assert_eq!(Stamp::parse(&bytes, 5, 128, 128 + 64 + 24), None, "the lane ends before");
        for bit in 0..STAMP * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Stamp::parse(&bytes, 5, 128, 4096), None, "bit {bit}");
        }
        assert_eq!(stamp.payload(5, b"key", b"value").map(|bytes| bytes.len()), Some(HEAD + 8));
        assert_eq!(stamp.payload(5, b"key", b"walue"), None);
    }
}
