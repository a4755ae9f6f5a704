//! Frames in a stream of bytes: each behind its length, a u32, little-endian. Sans-IO.
//!
//! Bounds: [`Deframer`] holds one frame, as much of it as came, and one chunk beyond; a length that is announced costs nothing until
//! its bytes come. What exceeds a chunk is taken from [`BUFFERS`], which all links of the process share: without it a hundred connections that
//! each begin a frame of 8 MiB take 1.6 GiB.
//!
//! Errors: a length that no frame has is a [`BadLength`]; nothing behind it can be understood.
//!
//! Tests: fuzz target `fabric_framing`.

use crate::frame::{HEADER, MAX_FRAME};
use base::budget::{Budget, Share};

/// Bytes for frames of which not all has come, beyond `CHUNK` for each link. Register `link.buffers`.
pub static BUFFERS: Budget = Budget::new(64 << 20);

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

/// [`BUFFERS`] has no room for the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Takes bytes as they come and gives frames.
#[derive(Debug)]
pub struct Deframer {
    /// Bytes from `from` to `to` came and were not given out; beyond `to` is space.
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    max_frame: usize,
    /// What the buffer has beyond a chunk.
    share: Share<&'static Budget>,
}

impl Default for Deframer {
    fn default() -> Deframer {
        Deframer::within(&BUFFERS)
    }
}

impl Deframer {
    /// One that takes what exceeds a chunk from `budget`.
    pub fn within(budget: &'static Budget) -> Deframer {
        Deframer { buffer: Vec::new(), from: 0, to: 0, max_frame: MAX_FRAME, share: Share::new(budget) }
    }

    /// Space for further bytes; say how many came by [`Deframer::filled`]. Call it when no whole frame is left.
    ///
    /// # Errors
    /// [`NoRoom`]: the frame is longer than what may be buffered just now.
    pub fn space(&mut self) -> Result<&mut [u8], NoRoom> {
        if self.from > 0 {
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        // As much again as came, so that a long frame is copied a few times at most, and grows only as it comes.
        let enough = CHUNK.max(2 * self.to).min(self.longest()).max(self.to + 1);
        if self.buffer.len() < enough {
            if !self.share.resize(enough.saturating_sub(CHUNK)) {
                return Err(NoRoom);
            }
            self.buffer.resize(enough, 0);
        } else if self.to == 0 && self.buffer.len() > 4 * CHUNK {
            self.trim();
        }
        Ok(&mut self.buffer[self.to..])
    }

    /// Bytes of the frame that comes, or of the longest that may.
    fn longest(&self) -> usize {
        let len = self.buffer[..self.to].first_chunk::<PREFIX>().map(|len| u32::from_le_bytes(*len) as usize);
        let frame = PREFIX + len.map_or(self.max_frame, |len| len.min(self.max_frame));
        // A short one is read together with those behind it.
        if self.max_frame < CHUNK { PREFIX + self.max_frame } else { frame.max(CHUNK) }
    }

    /// Gives back what exceeds a chunk, if nothing is buffered.
    pub fn trim(&mut self) {
        if self.from == self.to && self.buffer.len() > CHUNK {
            (self.from, self.to) = (0, 0);
            self.buffer.truncate(CHUNK);
            self.buffer.shrink_to_fit();
            assert!(self.share.resize(0), "less is always there");
        }
    }

    /// Longer frames are bad from now on; see [`Link::set_max_frame`](super::Link::set_max_frame).
    pub fn set_max_frame(&mut self, bytes: usize) {
        self.max_frame = bytes.clamp(HEADER, MAX_FRAME);
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
        if !(HEADER..=self.max_frame).contains(&(len as usize)) {
            return Err(BadLength(len));
        }
        Ok((came.len() - PREFIX >= len as usize).then_some(len as usize))
    }

    /// What came and was not given out.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    /// Whether a frame has begun for which bytes of [`BUFFERS`] are held.
    pub fn is_long(&self) -> bool {
        self.share.bytes() > 0 && self.is_within_frame()
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
            let space = deframer.space().expect("one link is within the budget");
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
            deframer.space().expect("room")[..stream.len()].copy_from_slice(&stream);
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
        deframer.space().expect("room")[..4].copy_from_slice(&(MAX_FRAME as u32).to_le_bytes());
        deframer.filled(4);
        assert_eq!(deframer.pop(), Ok(None));
        assert!(deframer.is_within_frame() && deframer.space().expect("room").len() < 2 * CHUNK);
    }

    /// A hundred connections that each began a frame of 8 MiB took 1.6 GiB.
    #[test]
    fn unfinished_frames_of_many_links_take_no_more_than_the_budget() {
        let budget: &'static Budget = Box::leak(Box::new(Budget::new(20 * CHUNK)));
        let mut links: Vec<_> = (0..10).map(|_| Deframer::within(budget)).collect();
        let mut refused = 0;
        let begin = |link: &mut Deframer| {
            link.space().expect("a chunk is always there")[..4]
                .copy_from_slice(&(MAX_FRAME as u32).to_le_bytes());
            link.filled(4);
        };
        links.iter_mut().for_each(begin);
        for _ in 0..20 {
            for link in &mut links {
                match link.space() {
                    Ok(space) => {
                        let came = space.len();
                        link.filled(came);
                    }
                    Err(NoRoom) => refused += 1,
                }
                assert!(budget.taken() <= 20 * CHUNK);
            }
        }
        let buffered: usize = links.iter().map(|link| link.buffer.len()).sum();
        assert!(refused > 0 && buffered <= (20 + 10) * CHUNK, "{refused} refused, {buffered} bytes");
        links.truncate(1);
        assert!(budget.taken() <= 20 * CHUNK && links[0].is_long());
        links.clear();
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn before_the_handshake_a_link_buffers_one_short_frame_and_after_it_gives_back_what_was_long() {
        let budget: &'static Budget = Box::leak(Box::new(Budget::new(MAX_FRAME)));
        let mut link = Deframer::within(budget);
        link.set_max_frame(1024);
        assert_eq!(link.space().expect("room").len(), PREFIX + 1024);
        link.space().expect("room")[..4].copy_from_slice(&1025u32.to_le_bytes());
        link.filled(4);
        assert_eq!(link.pop(), Err(BadLength(1025)));
        let mut link = Deframer::within(budget);
        let mut stream = Vec::new();
        push(&mut stream, &[7; HEADER], &vec![7; 5 * CHUNK]);
        while !stream.is_empty() {
            let space = link.space().expect("room");
            let len = space.len().min(stream.len());
            space[..len].copy_from_slice(&stream[..len]);
            link.filled(len);
            stream.drain(..len);
        }
        assert!(budget.taken() > 4 * CHUNK && budget.taken() <= PREFIX + HEADER + 5 * CHUNK);
        assert_eq!(link.pop().expect("good").expect("whole").len(), HEADER + 5 * CHUNK);
        link.trim();
        assert_eq!((budget.taken(), link.buffer.capacity()), (0, CHUNK));
    }
}
