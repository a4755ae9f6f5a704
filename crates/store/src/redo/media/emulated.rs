//! A medium that takes the time of another, as stated: persistent memory as it was sold until 2022, on a machine that has none.
//!
//! The model: a persist takes `latency`, and before it the device takes in what was written in whole *blocks* (256 bytes; what fills one
//! only partly is read, changed and written, so it counts as whole) at `bandwidth`, one persist after the other. The time is spent
//! spinning, as an instruction that waits for its device does; all but the last millisecond of it asleep. Reads are not slowed down.
//!
//! Sources: Yang et al., "An empirical guide to the behavior and use of scalable persistent memory" (FAST 2020): 62 to 90 ns for a write, 2.3
//! GB/s per module, 256 bytes; ORCA, section VI-C, which emulates by latency and bandwidth too.

use super::{Class, Media};
use base::{Clock, Nanos};
use std::io;
use std::ops::Range;
use std::time::Duration;

/// Time that is spent spinning at most.
const SPIN_MAX: Nanos = Nanos::from_millis(1);

/// What is emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Traits {
    /// Added to every persist.
    pub latency: Nanos,
    /// Bytes per second that it takes in; 0: any.
    pub bandwidth: u64,
    /// Bytes of a block; 0: whatever is written is all that counts.
    pub block: u64,
}

impl Traits {
    /// One module of Optane, series 100, as published.
    pub const OPTANE: Traits = Traits { latency: Nanos(90), bandwidth: 2_300_000_000, block: 256 };
}

/// Another medium, made slower.
#[derive(Debug)]
pub struct Emulated<M> {
    inner: M,
    traits: Traits,
    clock: Clock,
    /// When the device has taken in everything so far.
    free_at: Nanos,
    /// When what was started is durable.
    done_at: Option<Nanos>,
    written: u64,
    blocks: u64,
}

impl<M: Media> Emulated<M> {
    /// `inner`, with these traits.
    pub fn new(inner: M, traits: Traits) -> Emulated<M> {
        let clock = Clock::shared();
        Emulated { inner, traits, clock, free_at: Nanos::ZERO, done_at: None, written: 0, blocks: 0 }
    }

    /// Bytes in ranges that were persisted, and bytes of the blocks that those touched.
    pub fn bytes_in_and_out(&self) -> (u64, u64) {
        (self.written, self.blocks * self.traits.block.max(1))
    }

    /// Bytes that the device writes for these ranges; counted.
    fn amplified(&mut self, ranges: &[Range<u64>]) -> u64 {
        let block = self.traits.block.max(1);
        let blocks: u64 = ranges
            .iter()
            .filter(|range| !range.is_empty())
            .map(|range| range.end.div_ceil(block) - range.start / block)
            .sum();
        self.written += ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        self.blocks += blocks;
        blocks * block
    }
}

impl<M: Media> Media for Emulated<M> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, out)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn start(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        self.inner.start(ranges)?;
        let bytes = self.amplified(ranges);
        let takes = if self.traits.bandwidth == 0 {
            0
        } else {
            (u128::from(bytes) * 1_000_000_000 / u128::from(self.traits.bandwidth)) as u64
        };
        self.free_at = self.free_at.max(self.clock.now()).plus(Nanos(takes));
        self.done_at = Some(self.free_at.plus(self.traits.latency));
        Ok(())
    }

    fn is_done(&mut self) -> bool {
        self.inner.is_done() && self.done_at.is_none_or(|done| self.clock.now() >= done)
    }

    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        if self.done_at.is_none() {
            self.start(ranges)?;
        }
        self.inner.persist(ranges)?;
        if let Some(done) = self.done_at.take() {
            while let left = done.since(self.clock.now())
                && left > SPIN_MAX
            {
                std::thread::sleep(Duration::from_nanos(left.0 - SPIN_MAX.0));
            }
            while self.clock.now() < done {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// What the medium inside survives: emulation adds time, no durability.
    fn class(&self) -> Class {
        self.inner.class()
    }
}
