//! What the table does not know: runs of the input that are kept as they came.

use super::Walk;
use crate::decode::error::Fault;
use crate::decode::sink::Sink;
use crate::object::{Addr, Ref};

impl<S: Sink, const BORROW: bool> Walk<'_, S, BORROW> {
    /// An unknown value of a closed enum: the field is kept as it came; in a map, the whole entry is.
    #[cold]
    pub(super) fn stray(&mut self, start: usize, end: usize) -> Result<(), Fault> {
        if self.is_in_map() {
            self.frame.stray = true;
            return Ok(());
        }
        self.unknown(start, end)
    }

    /// The bytes from `start` to `end` are an unknown field of the open message.
    pub(super) fn unknown(&mut self, start: usize, end: usize) -> Result<(), Fault> {
        if end > self.frame.end as usize {
            return Err(Fault::Truncated);
        }
        if self.frame.unknown.1 as usize == start && start != 0 {
            self.frame.unknown.1 = end as u32;
            return Ok(());
        }
        if self.frame.unknown.1 != 0 {
            self.keep_run()?;
        }
        self.frame.unknown = (start as u32, end as u32);
        Ok(())
    }

    /// Stores the run of unknown fields that was gathered.
    #[cold]
    pub(super) fn keep_run(&mut self) -> Result<(), Fault> {
        let (start, end) = std::mem::take(&mut self.frame.unknown);
        let run = &self.input[start as usize..end as usize];
        if !BORROW {
            return self.keep(run);
        }
        let run = Ref { addr: Addr::host(run.as_ptr().cast_mut()), len: run.len() as u32, capacity: 0 };
        self.keep_ref(run)
    }

    /// Copies bytes to the unknown fields of the open message.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let addr = self.sink.bytes(self.frame.open.place, bytes)?;
        self.keep_ref(Ref { addr, len: bytes.len() as u32, capacity: 0 })
    }

    pub(super) fn keep_ref(&mut self, run: Ref) -> Result<(), Fault> {
        let (object, offset) = (self.frame.open.object, self.message.unknown);
        // SAFETY: every object has a Ref of runs there.
        let mut runs: Ref = unsafe { object.read(offset) };
        if runs.len == runs.capacity {
            runs = self.sink.grow(self.frame.open.place, runs, size_of::<Ref>(), 1)?;
        }
        // SAFETY: `grow` gave room.
        unsafe { self.sink.element(runs, size_of::<Ref>(), runs.len).cast::<Ref>().write(run) };
        runs.len += 1;
        // SAFETY: as above.
        unsafe { object.write(offset, runs) };
        Ok(())
    }
}

/// Writes a varint at `at`; the position behind it.
pub(super) fn put_varint(out: &mut [u8; 20], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        out[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value as u8;
    at + 1
}
