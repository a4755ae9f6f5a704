//! Writing cache lines back to memory, with the best instruction that the processor has.
//!
//! `clwb` keeps the line in the cache, `clflushopt` drops it; both are ordered only by the fence that follows. `clflush` is ordered by itself
//! and slow. Where there is none of them (not x86-64) the mapping is flushed by `msync`.

use std::io;

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// How lines are written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flush {
    /// `clwb`, then `sfence`.
    #[cfg(target_arch = "x86_64")]
    Clwb,
    /// `clflushopt`, then `sfence`.
    #[cfg(target_arch = "x86_64")]
    ClflushOpt,
    /// `clflush`: every x86-64 has it.
    #[cfg(target_arch = "x86_64")]
    Clflush,
    /// `msync`.
    #[cfg(not(target_arch = "x86_64"))]
    Msync,
}

impl Flush {
    /// The best one here (CPUID leaf 7, EBX bits 24 and 23).
    #[cfg(target_arch = "x86_64")]
    pub(super) fn best() -> Flush {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        let features = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
        match (features >> 24 & 1, features >> 23 & 1) {
            (1, _) => Flush::Clwb,
            (_, 1) => Flush::ClflushOpt,
            _ => Flush::Clflush,
        }
    }

    /// The best one here.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn best() -> Flush {
        Flush::Msync
    }

    /// Its name, for reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Flush::Clwb => "clwb",
            #[cfg(target_arch = "x86_64")]
            Flush::ClflushOpt => "clflushopt",
            #[cfg(target_arch = "x86_64")]
            Flush::Clflush => "clflush",
            #[cfg(not(target_arch = "x86_64"))]
            Flush::Msync => "msync",
        }
    }

    /// Writes the lines of `len` bytes from `start` back. [`Flush::fence`] waits for them.
    ///
    /// # Safety
    /// The bytes are mapped, and so is the whole page of each of them.
    pub(super) unsafe fn lines(self, start: *const u8, len: usize) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        #[cfg(target_arch = "x86_64")]
        {
            let first = start.wrapping_sub(start as usize % LINE);
            for line in (0..start as usize - first as usize + len).step_by(LINE) {
                let line = first.wrapping_add(line);
                // SAFETY: the line is in a page that is mapped (the caller's promise); `best` saw that the instruction exists. They change no
                // byte that the program sees.
                unsafe {
                    match self {
                        Flush::Clwb => {
                            std::arch::asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags));
                        }
                        Flush::ClflushOpt => {
                            std::arch::asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                        }
                        Flush::Clflush => std::arch::x86_64::_mm_clflush(line),
                    }
                }
            }
            Ok(())
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let first = start.wrapping_sub(start as usize % 4096);
            let len = start as usize - first as usize + len;
            // SAFETY: whole pages that are mapped (the caller's promise).
            Ok(unsafe { rustix::mm::msync(first.cast_mut().cast(), len, rustix::mm::MsyncFlags::SYNC) }?)
        }
    }

    /// Waits until the lines that were written back are there.
    pub(super) fn fence(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 has it.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_that_is_here_changes_nothing() {
        let bytes: Vec<u8> = (0..=255).collect();
        let better = match Flush::best() {
            Flush::Clwb => &[Flush::Clwb, Flush::ClflushOpt, Flush::Clflush][..],
            Flush::ClflushOpt => &[Flush::ClflushOpt, Flush::Clflush],
            Flush::Clflush => &[Flush::Clflush],
        };
        for flush in better {
            // SAFETY: our own bytes.
            unsafe { flush.lines(bytes.as_ptr().wrapping_add(3), 200) }.expect("instructions do not fail");
            flush.fence();
            assert!(bytes.iter().copied().eq(0..=255), "{}", flush.name());
        }
    }
}
