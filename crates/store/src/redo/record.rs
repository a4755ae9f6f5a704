//! A record's bytes.
//!
//! ```text
//!  0      4      8          16         24         32          36       40     44             48
//!  │ magic│ crc  │ lsn      │ epoch    │ position │ generation│ behind │ len  │ crc(payload)│ payload … zeros to 8
//! ```
//! Little-endian. `crc` (CRC32C) covers the header behind it, and both checksums start from a seed that the log's identity gives, so that
//! records of another log are none here. `behind`: how many records before this one were not known to be durable when it was written, itself
//! included. A record with LSN 0 is a filler: its payload is nothing.

/// Bytes of a header: what a record takes besides its payload, rounded up to 8.
pub const HEADER: usize = 48;

/// "REDO".
const MAGIC: u32 = 0x4F44_4552;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) lsn: u64,
    pub(super) epoch: u64,
    pub(super) position: u64,
    pub(super) generation: u32,
    pub(super) behind: u32,
    pub(super) len: u32,
    pub(super) payload_crc: u32,
}

impl Header {
    pub(super) fn emit(&self, seed: u32, out: &mut [u8]) {
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..16].copy_from_slice(&self.lsn.to_le_bytes());
        out[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        out[24..32].copy_from_slice(&self.position.to_le_bytes());
        out[32..36].copy_from_slice(&self.generation.to_le_bytes());
        out[36..40].copy_from_slice(&self.behind.to_le_bytes());
        out[40..44].copy_from_slice(&self.len.to_le_bytes());
        out[44..48].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c::crc32c_append(seed, &out[8..HEADER]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// The header in these bytes, if it is one, at that position.
    pub(super) fn parse(bytes: &[u8], seed: u32, position: u64) -> Option<Header> {
        let (word, long) = (|at| word_at(bytes, at), |at| long_at(bytes, at));
        if word(0) != MAGIC
            || long(24) != position
            || word(4) != crc32c::crc32c_append(seed, &bytes[8..HEADER])
        {
            return None;
        }
        let header = Header {
            lsn: long(8),
            epoch: long(16),
            position,
            generation: word(32),
            behind: word(36),
            len: word(40),
            payload_crc: word(44),
        };
        // A record is never known to be durable before it is written.
        (header.is_filler() || (1..=header.lsn).contains(&u64::from(header.behind))).then_some(header)
    }

    pub(super) fn is_filler(&self) -> bool {
        self.lsn == 0
    }

    /// Bytes of the whole record.
    pub(super) fn size(&self) -> u64 {
        size(self.len as usize)
    }

    /// Everything up to here was durable when it was written.
    pub(super) fn durable(&self) -> u64 {
        self.lsn.saturating_sub(u64::from(self.behind))
    }

    pub(super) fn is_payload(&self, payload: &[u8], seed: u32) -> bool {
        payload.len() == self.len as usize && self.payload_crc == crc32c::crc32c_append(seed, payload)
    }
}

/// Bytes of a record with that much payload.
pub(super) fn size(payload: usize) -> u64 {
    (HEADER + payload.next_multiple_of(8)) as u64
}

pub(super) fn word_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(super) fn long_at(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_any_flipped_bit_unmakes_it() {
        let header =
            Header { lsn: 7, epoch: 3, position: 4096, generation: 2, behind: 7, len: 13, payload_crc: 99 };
        let mut bytes = [0; HEADER];
        header.emit(5, &mut bytes);
        assert_eq!(Header::parse(&bytes, 5, 4096), Some(header));
        assert_eq!((header.size(), header.durable()), (64, 0));
        assert_eq!(Header::parse(&bytes, 6, 4096), None, "another log's");
        assert_eq!(Header::parse(&bytes, 5, 4104), None, "another turn's");
        for bit in 0..HEADER * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::parse(&bytes, 5, 4096), None, "bit {bit}");
        }
    }
}
