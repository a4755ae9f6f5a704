//! What is kept: the payload of an entry in a log, an outcome in an image. Whatever keeps them has sums of its own.
//!
//! ```text
//!  payload:  u64 committed │ u128 session │ u64 sequence │ u16 tuples │ for each: u32 length │ u64 offset │ data
//!  slots:    u16 ranges │ for each: u16 first │ u16 last                 of a configuration in a registry
//!  outcome:  u64 lsn │ abort │ u16 reads, each: u8 found? u64 version │ u32 length │ value │ u16 sums, each: i64 │ u8 durability │ u8 copies
//! ```

use super::field::{Field, Reader};
use crate::chain::transaction::Abort;
use crate::chain::{Entry, Epoch, Lsn, Outcome, Slots, Tuple};

/// Bytes of a payload without tuples.
const PAYLOAD: usize = 34;
/// Bytes of a tuple without its data.
const TUPLE: usize = 12;
/// Bytes of an outcome without abort, reads and sums.
const OUTCOME: usize = 15;
/// Bytes of something found, without the value.
const FOUND: usize = 13;

/// Its ranges, which rise with a gap between them.
impl Field for Slots {
    fn put(&self, out: &mut Vec<u8>) {
        (self.ranges().len() as u16).put(out);
        self.ranges().iter().for_each(|(first, last)| {
            first.put(out);
            last.put(out);
        });
    }

    fn take(from: &mut Reader<'_>) -> Option<Slots> {
        let count = u16::take(from)?;
        let mut ranges = Vec::new();
        for _ in 0..count {
            ranges.push((u16::take(from)?, u16::take(from)?));
        }
        // Others would be the same slots in another form.
        Slots::new(ranges.clone()).ok().filter(|slots| slots.ranges() == ranges)
    }

    #[cfg(test)]
    fn show(&self, out: &mut String) {
        out.push_str(&format!("\"{self}\""));
    }
}

impl Entry {
    /// Appends what a log keeps, beside the LSN and the epoch.
    pub fn emit_payload(&self, out: &mut Vec<u8>) {
        self.put_payload(out);
    }

    /// The entry with this payload; `None` if it is no payload.
    pub fn parse_payload(lsn: Lsn, epoch: Epoch, payload: &[u8]) -> Option<Entry> {
        let mut reader = Reader::new(payload);
        Entry::take_payload(lsn, epoch, &mut reader).filter(|_| reader.is_empty())
    }

    /// Bytes of its payload.
    pub fn payload_bytes(&self) -> usize {
        PAYLOAD + self.tuples.iter().map(Tuple::bytes).sum::<usize>()
    }

    /// Bytes that it takes in a message.
    pub fn bytes(&self) -> usize {
        16 + self.payload_bytes()
    }
}

impl Tuple {
    /// Bytes that it takes in an entry.
    pub fn bytes(&self) -> usize {
        TUPLE + self.data.len()
    }
}

impl Outcome {
    /// Appends what an image keeps of it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// The outcome that these bytes are; `None` if they are none.
    pub fn parse(bytes: &[u8]) -> Option<Outcome> {
        let mut reader = Reader::new(bytes);
        Outcome::take(&mut reader).filter(|_| reader.is_empty())
    }

    /// Bytes that it takes in an image and in a message.
    pub fn bytes(&self) -> usize {
        let abort = self.abort.map_or(0, |abort| match abort {
            Abort::Condition(_) | Abort::NotANumber(_) | Abort::Overflow(_) => 5,
            Abort::NoRoom | Abort::LongReply | Abort::Claimed => 1,
        });
        let found = |found: &Option<_>| {
            found.as_ref().map_or(1, |found: &super::super::transaction::Found| FOUND + found.value.len())
        };
        OUTCOME + abort + self.reads.iter().map(found).sum::<usize>() + 8 * self.sums.len()
    }
}
