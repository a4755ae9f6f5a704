//! *Touch*: a handler says which memory it is about to read, and lets others run while it comes.
//!
//! Why: one core can have about 16 cache misses outstanding, and a request that waits for its own uses one. Prefetch,
//! yield once, and let the next request issue its own.
//!
//! Touch is cost, never correctness: the loads after it are ordinary safe loads, a wrong address prefetches nothing of
//! use and faults never, and polled to the end without other work it is the plain baseline.
//!
//! Cost: a yield and resume of a concrete future in an array is 1–2 ns; boxed or `dyn` futures lose the gain.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes in a cache line on every machine we run on.
pub const LINE: usize = 64;

/// Asks the core to bring the line at `at` into its first-level cache. Any address is allowed; a wrong one costs time only.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it never faults and changes no state that Rust knows of.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// As [`prefetch`], into the second-level cache. For many lines at once: the first level has few places for lines that are under way (gathers of 256-byte
/// rows were 1.6 times as fast so, `docs/measurements/rec-reduce.md`), and what it fetches later from the second costs little.
#[inline(always)]
pub fn prefetch_far(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, as above.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// As [`prefetch`], for a line that will be written: other cores give up theirs. Where a processor does not know it, it does nothing.
#[inline(always)]
pub fn prefetch_for_write(at: *const u8) {
    // The intrinsic becomes a prefetch for reading unless the whole program is built for processors that have this one.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, as above.
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

/// Prefetches every line of `len` bytes at `at`.
#[inline(always)]
pub fn prefetch_span(at: *const u8, len: usize) {
    let lines = (at as usize % LINE + len.max(1)).div_ceil(LINE);
    for line in 0..lines {
        prefetch(at.wrapping_add(line * LINE));
    }
}

/// Prefetches `len` bytes at `at` and yields once.
#[inline(always)]
pub fn touch(at: *const u8, len: usize) -> YieldOnce {
    prefetch_span(at, len);
    yield_once()
}

/// Yields once, for whoever has prefetched by other means.
#[inline(always)]
pub fn yield_once() -> YieldOnce {
    YieldOnce { yielded: false }
}

/// Ready at the second poll. It asks for no wake-up: whoever polls a table of futures polls it again.
#[derive(Debug)]
pub struct YieldOnce {
    yielded: bool,
}

impl Future for YieldOnce {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn touch_yields_exactly_once_and_any_address_is_allowed() {
        let mut cx = Context::from_waker(Waker::noop());
        for address in [std::ptr::null(), usize::MAX as *const u8, [7u8; 3].as_ptr()] {
            let mut future = std::pin::pin!(touch(address, 100));
            assert!(future.as_mut().poll(&mut cx).is_pending());
            assert!(future.as_mut().poll(&mut cx).is_ready());
        }
    }
}
