//! A prewritten file behind io_uring: writes and their `fdatasync` go to the kernel in one call as a chain of linked requests, and nobody need
//! wait for them.
//!
//! Why beside [`File`]: one sync is no faster than there, but a driver with one thread goes on after 2 µs instead of 110 (`docs/measurements/redo.md`).
//!
//! Invariants: (1) from `submit` to the end of `wait`, `writes` and its buffers are not touched (`started` says so; `wait` is called before
//! any change and on drop); (2) reads see what is queued: it is laid over what the file says.

use super::{Class, File, Media, within};
use io_uring::{IoUring, opcode, squeue, types};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Writes of one chain; one request more is its `fdatasync`.
const WRITES: usize = 15;

/// Bytes of one write: the kernel takes no 2 GiB at once.
const PIECE: usize = 1 << 30;

/// A locked, prewritten file behind io_uring.
pub struct Uring {
    file: File,
    ring: IoUring,
    writes: Vec<(u64, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// The chain was given to the kernel.
    started: bool,
    /// Requests of it that are not done.
    outstanding: usize,
    /// The first thing that went wrong with them.
    error: Option<io::Error>,
}

impl Uring {
    /// Over a file that was made or opened with [`super::How::Fdatasync`].
    ///
    /// # Errors
    /// The system's; `PermissionDenied` or `Unsupported` where io_uring is switched off: use [`File`] then.
    pub fn new(file: File) -> io::Result<Uring> {
        let ring = IoUring::new(WRITES as u32 + 1)?;
        Ok(Uring {
            file,
            ring,
            writes: Vec::new(),
            spare: Vec::new(),
            started: false,
            outstanding: 0,
            error: None,
        })
    }

    /// Gives the queued writes and a sync to the kernel.
    fn submit(&mut self) -> io::Result<()> {
        let fd = types::Fd(self.file.inner().as_raw_fd());
        let mut queue = self.ring.submission();
        let sync = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build().user_data(u64::MAX);
        let writes = self.writes.iter().zip(0..).map(|((offset, bytes), number)| {
            opcode::Write::new(fd, bytes.as_ptr(), bytes.len() as u32)
                .offset(*offset)
                .build()
                .flags(squeue::Flags::IO_LINK)
                .user_data(number)
        });
        for request in writes.chain([sync]) {
            // SAFETY: the file outlives the ring's requests and the buffers stay where they are until `wait` has seen every completion
            // (invariant 1).
            unsafe { queue.push(&request) }.expect("the ring has a place for each of a chain");
        }
        drop(queue);
        (self.started, self.outstanding) = (true, self.writes.len() + 1);
        self.ring.submit()?;
        Ok(())
    }

    /// Takes the completions that are there.
    fn reap(&mut self) {
        for completion in self.ring.completion() {
            self.outstanding -= 1;
            let number = completion.user_data();
            let expected = if number == u64::MAX { 0 } else { self.writes[number as usize].1.len() as i32 };
            let failed = match completion.result() {
                result if result == expected => continue,
                result if result < 0 => io::Error::from_raw_os_error(-result),
                short => io::Error::new(
                    io::ErrorKind::WriteZero,
                    format!("{short} of {expected} bytes were written"),
                ),
            };
            // What follows a request that failed is cancelled: the first error says why.
            self.error.get_or_insert(failed);
        }
    }

    /// Waits until nothing is with the kernel.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            self.reap();
            if self.outstanding == 0 {
                break;
            }
            match self.ring.submit_and_wait(1) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
        }
        self.started = false;
        self.spare.extend(self.writes.drain(..).map(|(_, bytes)| bytes));
        self.error.take().map_or(Ok(()), Err)
    }
}

impl Media for Uring {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)?;
        let end = offset + out.len() as u64;
        for (at, bytes) in &self.writes {
            let (from, to) = ((*at).max(offset), (at + bytes.len() as u64).min(end));
            if from < to {
                let piece = &bytes[(from - at) as usize..(to - at) as usize];
                out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(piece);
            }
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        within(offset, bytes.len(), self.len())?;
        for (bytes, number) in bytes.chunks(PIECE).zip(0..) {
            if self.started || self.writes.len() == WRITES {
                self.persist(&[])?;
            }
            let mut buffer = self.spare.pop().unwrap_or_default();
            buffer.clear();
            buffer.extend_from_slice(bytes);
            self.writes.push((offset + number * PIECE as u64, buffer));
        }
        Ok(())
    }

    fn start(&mut self, _: &[Range<u64>]) -> io::Result<()> {
        if self.started { Ok(()) } else { self.submit() }
    }

    fn is_done(&mut self) -> bool {
        self.reap();
        self.outstanding == 0
    }

    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        self.start(ranges)?;
        self.wait()
    }

    fn class(&self) -> Class {
        self.file.class()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel may still read the buffers. Where even waiting fails they are left to it.
        if self.started && self.wait().is_err() && self.outstanding > 0 {
            std::mem::forget(std::mem::take(&mut self.writes));
        }
    }
}
