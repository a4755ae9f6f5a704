//! Bytes that a connection has sent and the edge has not yet consumed.
//!
//! A connection that waits for its client holds no buffer: it borrows one from its edge's [`Pool`] when bytes arrive and
//! returns it when all are consumed, so ten thousand idle connections cost no buffer memory.
//!
//! Invariant: while requests parsed from the buffer are in flight, the buffer is neither moved, grown nor written
//! (the edge finishes every request of a turn before it reads again), so requests may borrow from it.

use base::budget::Budget;
use std::sync::Arc;

/// Buffers of the ordinary size, kept for the next connection that needs one.
#[derive(Debug)]
pub struct Pool {
    size: usize,
    spare: Vec<Box<[u8]>>,
    buffered: Arc<Budget>,
}

impl Pool {
    /// A pool of buffers of `size` bytes, counted in `buffered` while lent.
    pub fn new(size: usize, buffered: Arc<Budget>) -> Pool {
        Pool { size, spare: Vec::new(), buffered }
    }

    /// What is counted in.
    pub fn budget(&self) -> &Budget {
        &self.buffered
    }

    /// Changes the size of buffers lent from now on.
    pub fn resize(&mut self, size: usize) {
        if size != self.size {
            self.size = size;
            self.spare.clear();
        }
    }

    fn lend(&mut self) -> Box<[u8]> {
        // Ordinary buffers are always granted: connections are limited in number, and refusing to read would hang them.
        self.buffered.take(self.size);
        self.spare.pop().unwrap_or_else(|| vec![0; self.size].into_boxed_slice())
    }

    fn take_back(&mut self, buffer: Box<[u8]>) {
        const KEPT: usize = 64;
        self.buffered.give(buffer.len());
        if buffer.len() == self.size && self.spare.len() < KEPT {
            self.spare.push(buffer);
        }
    }
}

/// One connection's unconsumed bytes: `buffer[start..end]`.
#[derive(Debug, Default)]
pub struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

/// The buffers of all connections together are at their limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLimit;

impl Input {
    /// What has arrived and is not consumed.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether everything was consumed.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The first `n` bytes are done with.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        assert!(n <= self.end - self.start, "consumed {n} of {} bytes", self.end - self.start);
        self.start += n;
    }

    /// Room to read into: at least one byte, from a pooled buffer if none is held, compacted if the end is reached.
    pub fn space(&mut self, pool: &mut Pool) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = pool.lend();
        }
        if self.end == self.buffer.len() {
            self.compact();
        }
        &mut self.buffer[self.end..]
    }

    /// Adds a copy of `bytes`, growing the buffer as [`Input::reserve`] does.
    ///
    /// # Errors
    /// When the growth would take all connections together past their budget; nothing is added then.
    pub fn append(&mut self, bytes: &[u8], pool: &mut Pool) -> Result<(), BufferLimit> {
        self.space(pool);
        self.reserve(self.end - self.start + bytes.len(), pool)?;
        self.buffer[self.end..][..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
        Ok(())
    }

    /// `n` bytes were read into what [`Input::space`] gave.
    pub fn filled(&mut self, n: usize) {
        assert!(n <= self.buffer.len() - self.end, "a read of {n} bytes beyond the buffer");
        self.end += n;
    }

    /// Makes sure that the unconsumed bytes can grow to `whole` bytes in one piece.
    ///
    /// # Errors
    /// When the growth would take all connections together past their budget; nothing changes then.
    pub fn reserve(&mut self, whole: usize, pool: &mut Pool) -> Result<(), BufferLimit> {
        if whole <= self.buffer.len() {
            if whole > self.buffer.len() - self.start {
                self.compact();
            }
            return Ok(());
        }
        if !pool.buffered.try_take(whole) {
            return Err(BufferLimit);
        }
        let mut grown = vec![0; whole].into_boxed_slice();
        let held = self.end - self.start;
        grown[..held].copy_from_slice(self.bytes());
        let old = std::mem::replace(&mut self.buffer, grown);
        if !old.is_empty() {
            pool.take_back(old);
        }
        (self.start, self.end) = (0, held);
        Ok(())
    }

    /// Gives the buffer back, dropping what is in it.
    pub fn release(&mut self, pool: &mut Pool) {
        if !self.buffer.is_empty() {
            pool.take_back(std::mem::take(&mut self.buffer));
        }
        (self.start, self.end) = (0, 0);
    }

    fn compact(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(input: &mut Input, pool: &mut Pool, bytes: &[u8]) {
        input.space(pool)[..bytes.len()].copy_from_slice(bytes);
        input.filled(bytes.len());
    }

    #[test]
    fn bytes_arrive_are_consumed_and_the_buffer_goes_back() {
        let buffered = Arc::new(Budget::new(1000));
        let mut pool = Pool::new(8, buffered.clone());
        let mut input = Input::default();
        assert_eq!(buffered.taken(), 0);
        fill(&mut input, &mut pool, b"abcdefgh");
        input.consume(3);
        fill(&mut input, &mut pool, b"ij");
        assert_eq!(input.bytes(), b"defghij");
        assert_eq!(buffered.taken(), 8, "holding bytes");
        input.consume(7);
        assert!(input.is_empty());
        input.release(&mut pool);
        assert_eq!((buffered.taken(), pool.spare.len()), (0, 1));
    }

    #[test]
    fn a_large_value_grows_the_buffer_up_to_the_limit_of_all() {
        let buffered = Arc::new(Budget::new(120));
        let mut pool = Pool::new(8, buffered.clone());
        let (mut a, mut b) = (Input::default(), Input::default());
        fill(&mut a, &mut pool, b"12345678");
        a.reserve(100, &mut pool).expect("within the limit");
        assert_eq!((a.bytes(), buffered.taken()), (&b"12345678"[..], 100));
        assert_eq!(b.reserve(100, &mut pool), Err(BufferLimit));
        a.release(&mut pool);
        assert_eq!(buffered.taken(), 0);
        assert_eq!(b.reserve(100, &mut pool), Ok(()));
        assert!(b.space(&mut pool).len() >= 100);
    }

    #[test]
    fn reserving_within_the_buffer_only_compacts() {
        let mut pool = Pool::new(8, Arc::new(Budget::new(0)));
        let mut input = Input::default();
        fill(&mut input, &mut pool, b"abcdef");
        input.consume(5);
        input.reserve(8, &mut pool).expect("no growth, so no limit");
        assert_eq!(input.bytes(), b"f");
        assert_eq!(input.space(&mut pool).len(), 7);
    }
}
