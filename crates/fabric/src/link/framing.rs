//! Frames in a stream of bytes: each behind its length, a u32, little-endian. Sans-IO.
//!
//! Bounds: [`Deframer`] holds one frame, as much of it as came, and one chunk beyond; a length that is announced costs nothing until
//! its bytes come.
//!
//! Errors: a length that no frame has is a [`BadLength`]; nothing behind it can be understood.
//!
//! Tests: fuzz target `fabric_framing`.

use crate::frame::{HEADER, MAX_FRAME};

/// Bytes of a length.
const PREFIX: usize = 4;
/// Bytes that are read at a time, and that stay allocated.
const CHUNK: usize = 64 << 10;

/// Appends a frame to `output`: the concatenation of `head` and `body`.
#[inline]
pub fn push(output: &mut Vec<u8>, head: &[u8], body: &[u8]) {
    let len = (head.len() + body.len()) as u32;
    output.extend_from_slice(&len.to_le_bytes());
    output.extend_from_slice(head);
    output.extend_from_slice(body);
}

/// A length beyond what frames have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLength(pub u32);

/// Takes bytes as they come and gives frames.
#[derive(Debug, Default)]
pub struct Deframer {
    /// Bytes from `from` to `to` came and were not given out; beyond `to` is space.
    buffer: Vec<u8>,
    from: usize,
    to: usize,
}

impl Deframer {
    /// Space for further bytes; say how many came by [`Deframer::filled`]. Call it when no whole frame is left.
    pub fn space(&mut self) -> &mut [u8] {
        if self.from > 0 {
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        // As much again as came, so that a long frame is copied a few times at most, and grows only as it comes.
        let enough = CHUNK.max(2 * self.to);
        if self.buffer.len() < enough {
            self.buffer.resize(enough, 0);
        } else if self.to == 0 && self.buffer.len() > 4 * CHUNK {
            self.buffer = vec![0; CHUNK];
        }
        &mut self.buffer[self.to..]
    }

    /// `count` bytes of the space were filled.
    ///
    /// # Panics
    /// When there is not as much space.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.buffer.len() - self.to, "{count} bytes in less space");
        self.to += count;
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// [`BadLength`]; it will not get better.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<&[u8]>, BadLength> {
        let Some(len) = self.next_len()? else { return Ok(None) };
        let start = self.from + PREFIX;
        self.from = start + len;
        Ok(Some(&self.buffer[start..start + len]))
    }

    /// Bytes of the next frame, if it is whole.
    #[inline]
    fn next_len(&self) -> Result<Option<usize>, BadLength> {
        let came = &self.buffer[self.from..self.to];
        let Some(prefix) = came.first_chunk::<PREFIX>() else { return Ok(None) };
        let len = u32::from_le_bytes(*prefix);
        if !(HEADER..=MAX_FRAME).contains(&(len as usize)) {
            return Err(BadLength(len));
        }
        Ok((came.len() - PREFIX >= len as usize).then_some(len as usize))
    }

    /// Whether [`Deframer::pop`] has something to say.
    pub fn is_ready(&self) -> bool {
        !matches!(self.next_len(), Ok(None))
    }

    /// Whether the bytes that came end within a frame.
    pub fn is_within_frame(&self) -> bool {
        self.from != self.to && !self.is_ready()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives `stream` in pieces of at most these lengths, again and again, and collects what comes out.
    fn deframe(stream: &[u8], pieces: &[usize]) -> Result<Vec<Vec<u8>>, BadLength> {
        let (mut deframer, mut frames, mut rest) = (Deframer::default(), Vec::new(), stream);
        for &piece in pieces.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let space = deframer.space();
            let len = piece.clamp(1, space.len()).min(rest.len());
            space[..len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
            deframer.filled(len);
            assert_eq!(deframer.is_ready(), deframer.next_len() != Ok(None));
            while let Some(frame) = deframer.pop()? {
                frames.push(frame.to_vec());
            }
            assert!(deframer.buffer.len() <= 2 * (PREFIX + MAX_FRAME));
        }
        assert_eq!(deframer.is_within_frame(), deframer.from != deframer.to);
        Ok(frames)
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 200 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn frames_come_out_as_they_went_in(
            lengths in proptest::collection::vec(prop_oneof![HEADER..200, HEADER..200_000usize], 0..20),
            pieces in proptest::collection::vec(1usize..100_000, 1..8),
        ) {
            let frames: Vec<_> = (0u8..).zip(&lengths).map(|(n, &len)| vec![n; len]).collect();
            let mut stream = Vec::new();
            for frame in &frames {
                let (head, body) = frame.split_at(HEADER);
                push(&mut stream, head, body);
            }
            prop_assert!(deframe(&stream, &pieces) == Ok(frames));
        }
    }

    #[test]
    fn a_length_that_no_frame_has_ends_it() {
        for len in [0, HEADER as u32 - 1, MAX_FRAME as u32 + 1, u32::MAX] {
            let mut stream = Vec::new();
            push(&mut stream, &[7; HEADER], &[]);
            stream.extend_from_slice(&len.to_le_bytes());
            let mut deframer = Deframer::default();
            deframer.space()[..stream.len()].copy_from_slice(&stream);
            deframer.filled(stream.len());
            assert_eq!(deframer.pop(), Ok(Some(&[7; HEADER][..])));
            for _ in 0..2 {
                assert!(deframer.is_ready() && !deframer.is_within_frame());
                assert_eq!(deframer.pop(), Err(BadLength(len)));
            }
        }
    }

    #[test]
    fn an_announced_length_takes_no_memory_until_it_comes() {
        let mut deframer = Deframer::default();
        deframer.space()[..4].copy_from_slice(&(MAX_FRAME as u32).to_le_bytes());
        deframer.filled(4);
        assert_eq!(deframer.pop(), Ok(None));
        assert!(deframer.is_within_frame() && deframer.space().len() < 2 * CHUNK);
    }
}
