//! A snapshot as bytes: everything there is, as of a moment and somewhat later, in chunks with checksums.
//!
//! ```text
//!  │ "MRSNAP01" │ identity │ from │ version │ flush_at, 0 │ crc, 0 │  48 bytes
//!  │ len │ crc │ effects …  │   as often as there is something
//!  │ 0   │ crc │ items      │   the end
//! ```
//! Little-endian. Each CRC32C goes on from the one before, the first from the log's identity, so a chunk that is missing, or stands elsewhere, is
//! missed. `from`: the log's effects up to there are in it; those behind may be, and are to be done again.
//!
//! Bounds: a chunk is [`CHUNK`], or one item; nothing is allocated for bytes that do not come.

use super::effect::Effect;
use std::io::{self, Read};

const MAGIC: &[u8; 8] = b"MRSNAP01";
const HEADER: usize = 48;
/// Bytes after which a chunk ends.
pub(super) const CHUNK: usize = 64 << 10;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Of the log that goes with it.
    pub identity: u64,
    /// Everything up to here is in it.
    pub from: u64,
    /// The last version given by then.
    pub version: u64,
    /// When everything was to be flushed, as it was said by then.
    pub flush_at: Option<u32>,
}

/// Makes one, chunk by chunk.
#[derive(Debug)]
pub(super) struct Writer {
    chunk: Vec<u8>,
    crc: u32,
    items: u64,
}

impl Writer {
    /// The first chunk has this head.
    pub(super) fn new(head: &Head) -> Writer {
        let mut chunk = MAGIC.to_vec();
        for word in [head.identity, head.from, head.version, head.flush_at.map_or(0, u64::from)] {
            chunk.extend_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c(&chunk);
        chunk.extend_from_slice(&u64::from(crc).to_le_bytes());
        chunk.resize(HEADER + 8, 0);
        Writer { chunk, crc, items: 0 }
    }

    pub(super) fn add(&mut self, effect: &Effect<'_>) {
        effect.emit(&mut self.chunk);
        self.items += 1;
    }

    pub(super) fn is_full(&self) -> bool {
        self.chunk.len() >= CHUNK
    }

    /// The bytes so far; the next chunk begins.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let at = if self.chunk.starts_with(MAGIC) { HEADER } else { 0 };
        self.crc = crc32c::crc32c_append(self.crc, &self.chunk[at + 8..]);
        let len = (self.chunk.len() - at - 8) as u32;
        self.chunk[at..at + 4].copy_from_slice(&len.to_le_bytes());
        self.chunk[at + 4..at + 8].copy_from_slice(&self.crc.to_le_bytes());
        std::mem::replace(&mut self.chunk, vec![0; 8])
    }

    /// What is left, and the end; and how many items there are.
    pub(super) fn finish(mut self) -> (Vec<u8>, u64) {
        let is_empty = self.chunk.len() == 8;
        let mut bytes = if is_empty { Vec::new() } else { self.take() };
        // A first chunk without an item would be the end.
        if bytes.len() == HEADER + 8 {
            bytes.truncate(HEADER);
        }
        let items = self.items.to_le_bytes();
        bytes.extend_from_slice(&0u32.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c_append(self.crc, &items).to_le_bytes());
        bytes.extend_from_slice(&items);
        (bytes, self.items)
    }
}

/// Reads one.
pub struct Reader<R> {
    from: R,
    crc: u32,
    /// What it begins with.
    pub head: Head,
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<R: Read> Reader<R> {
    /// Of these bytes.
    ///
    /// # Errors
    /// The system's; `InvalidData` where they are none.
    pub fn new(mut from: R) -> io::Result<Reader<R>> {
        let mut bytes = [0; HEADER];
        from.read_exact(&mut bytes).map_err(cut)?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if &bytes[..8] != MAGIC {
            return Err(damaged("it is no snapshot of this version of the program"));
        }
        let crc = crc32c::crc32c(&bytes[..40]);
        let flush_at = u32::try_from(word(32)).map_err(|_| damaged("its head says what cannot be"))?;
        if word(40) != u64::from(crc) {
            return Err(damaged("its head does not match its checksum"));
        }
        let flush_at = (flush_at != 0).then_some(flush_at);
        let head = Head { identity: word(8), from: word(16), version: word(24), flush_at };
        Ok(Reader { from, crc, head })
    }

    /// Calls `each` with everything in it, and says how much that was. What is given before an error is not to be used.
    ///
    /// # Errors
    /// The system's; `InvalidData` where it is damaged; what `each` says.
    pub fn read<E: From<io::Error>>(
        mut self,
        mut each: impl FnMut(Effect<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let (mut items, mut chunk) = (0, Vec::new());
        loop {
            let mut head = [0; 8];
            self.from.read_exact(&mut head).map_err(cut)?;
            let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let crc = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            let wanted = if len == 0 { 8 } else { u64::from(len) };
            chunk.clear();
            // By and by: a length that lies has nothing allocated for it.
            let came = (&mut self.from).take(wanted).read_to_end(&mut chunk)?;
            self.crc = crc32c::crc32c_append(self.crc, &chunk);
            if came as u64 != wanted {
                return Err(damaged("it is shorter than it was").into());
            }
            if self.crc != crc {
                return Err(damaged("a part of it does not match its checksum").into());
            }
            if len == 0 {
                let is_whole = chunk == u64::to_le_bytes(items) && self.from.read(&mut [0])? == 0;
                return if is_whole {
                    Ok(items)
                } else {
                    Err(damaged("it has another end than it had").into())
                };
            }
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let (effect, behind) =
                    Effect::parse(rest).ok_or_else(|| damaged("an item of it makes no sense"))?;
                each(effect)?;
                items += 1;
                rest = behind;
            }
        }
    }
}

fn cut(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it is shorter than it was"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::super::effect::State;
    use super::*;

    fn write(items: usize) -> Vec<u8> {
        let head = Head { identity: 5, from: 77, version: 9, flush_at: Some(3) };
        let mut writer = Writer::new(&head);
        let mut bytes = Vec::new();
        for n in 0..items {
            let (key, value) = (format!("key {n}"), vec![n as u8; n * 37 % 9000]);
            writer.add(&Effect::Put { key: key.as_bytes(), value: &value, state: State::default() });
            if writer.is_full() {
                bytes.append(&mut writer.take());
            }
        }
        let (mut end, count) = writer.finish();
        assert_eq!(count, items as u64);
        bytes.append(&mut end);
        bytes
    }

    fn read(bytes: &[u8]) -> io::Result<(Head, u64)> {
        let reader = Reader::new(bytes)?;
        let head = reader.head;
        let mut seen = 0u64;
        let count = reader.read::<io::Error>(|_| {
            seen += 1;
            Ok(())
        })?;
        assert_eq!(seen, count);
        Ok((head, count))
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        for items in [0, 1, 2, 1000] {
            let (head, count) = read(&write(items)).expect("it is whole");
            assert_eq!((head.identity, head.from, head.version, head.flush_at), (5, 77, 9, Some(3)));
            assert_eq!(count, items as u64);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_shorter_or_longer_one_is_refused() {
        let whole = write(4);
        for byte in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[byte] ^= 1 << (byte % 8);
            assert!(read(&bytes).is_err(), "byte {byte} of {}", whole.len());
        }
        assert!((0..whole.len()).all(|len| read(&whole[..len]).is_err()));
        assert!(read(&[&whole[..], &[0]].concat()).is_err());
    }
}
