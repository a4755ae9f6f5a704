//! What the log says about itself, in two places of the medium: the one with the higher number counts.
//!
//! Everything but where the log begins is written to both, one after the other, whenever it changes. So when one of the two decays the
//! other says the same, or only a begin that is earlier, of which nothing has been overwritten yet.

use super::media::Media;
use super::record::{long_at, word_at};
use super::ring::START;
use std::io;

/// The format's name.
const NAME: &[u8; 6] = b"MRREDO";
/// Its version, two digits: that of records and of what replicas keep in them. 02: sessions have 128 bits.
const VERSION: &[u8; 2] = b"02";
const MAGIC: u64 =
    u64::from_le_bytes([NAME[0], NAME[1], NAME[2], NAME[3], NAME[4], NAME[5], VERSION[0], VERSION[1]]);

/// Bytes of one.
const BYTES: usize = 128;

/// A record that is known: its number, its epoch, and where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mark {
    pub(super) lsn: u64,
    pub(super) epoch: u64,
    pub(super) end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Superblock {
    pub(super) number: u64,
    pub(super) identity: u64,
    pub(super) capacity: u64,
    /// Of records that are written from now on.
    pub(super) generation: u32,
    /// Records behind this one that have an earlier generation are void.
    pub(super) void_after: u64,
    /// What is before the first record.
    pub(super) begin: Mark,
    /// Everything up to here was durable when this was written.
    pub(super) durable: Mark,
}

impl Superblock {
    /// In which of the two places it belongs.
    pub(super) fn place(&self) -> usize {
        (self.number % 2) as usize
    }

    /// Where that place is.
    pub(super) fn offset(&self) -> u64 {
        offset(self.place())
    }

    pub(super) fn emit(&self) -> [u8; BYTES] {
        let words = [
            MAGIC,
            self.number,
            self.identity,
            self.capacity,
            u64::from(self.generation),
            self.void_after,
            self.begin.lsn,
            self.begin.epoch,
            self.begin.end,
            self.durable.lsn,
            self.durable.epoch,
            self.durable.end,
        ];
        let mut out = [0; BYTES];
        for (bytes, word) in out.chunks_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out[..BYTES - 4]);
        out[BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn parse(bytes: &[u8; BYTES]) -> Option<Superblock> {
        let long = |number: usize| long_at(bytes, number * 8);
        if long(0) != MAGIC || word_at(bytes, BYTES - 4) != crc32c::crc32c(&bytes[..BYTES - 4]) {
            return None;
        }
        let mark = |number| Mark { lsn: long(number), epoch: long(number + 1), end: long(number + 2) };
        let superblock = Superblock {
            number: long(1),
            identity: long(2),
            capacity: long(3),
            generation: u32::try_from(long(4)).ok()?,
            void_after: long(5),
            begin: mark(6),
            durable: mark(9),
        };
        superblock.makes_sense().then_some(superblock)
    }

    /// Whether it can be of our making; numbers count, and leave room for counting on.
    pub(super) fn makes_sense(&self) -> bool {
        let Superblock { begin, durable, .. } = *self;
        let counts = [self.number, self.void_after, durable.lsn, durable.end, self.capacity];
        counts.iter().all(|count| *count < 1 << 62)
            && self.generation < 1 << 31
            && begin.lsn <= durable.lsn
            && begin.end <= durable.end
            && durable.end - begin.end <= self.capacity
            && begin.end.is_multiple_of(8)
            && durable.end.is_multiple_of(8)
    }

    /// The version of a log of another one, if that is what a medium holds.
    pub(super) fn other_version(media: &impl Media) -> io::Result<Option<String>> {
        for place in 0..2 {
            let mut magic = [0; 8];
            media.read_at(offset(place), &mut magic)?;
            if let Some(version) = magic.strip_prefix(NAME)
                && version != VERSION
                && version.iter().all(u8::is_ascii_digit)
            {
                return Ok(Some(String::from_utf8_lossy(version).into_owned()));
            }
        }
        Ok(None)
    }

    /// Both places of a medium, the one that counts first; those that are none are left out.
    pub(super) fn read(media: &impl Media) -> io::Result<Vec<Superblock>> {
        let mut found = Vec::new();
        for place in 0..2 {
            let mut bytes = [0; BYTES];
            media.read_at(offset(place), &mut bytes)?;
            found.extend(Superblock::parse(&bytes).filter(|superblock| superblock.place() == place));
        }
        found.sort_by_key(|superblock| std::cmp::Reverse(superblock.number));
        Ok(found)
    }
}

fn offset(place: usize) -> u64 {
    place as u64 * (START / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_and_any_flipped_bit_unmakes_it() {
        let superblock = Superblock {
            number: 5,
            identity: 77,
            capacity: 4096,
            generation: 3,
            void_after: 10,
            begin: Mark { lsn: 2, epoch: 1, end: 64 },
            durable: Mark { lsn: 10, epoch: 4, end: 640 },
        };
        let bytes = superblock.emit();
        assert_eq!(Superblock::parse(&bytes), Some(superblock));
        for bit in 0..BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Superblock::parse(&bytes), None, "bit {bit}");
        }
        let torn = Superblock { durable: Mark { lsn: 1, ..superblock.durable }, ..superblock };
        assert_eq!(Superblock::parse(&torn.emit()), None);
    }
}
