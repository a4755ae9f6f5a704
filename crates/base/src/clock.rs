//! Time for measurements: the cycle counter, calibrated once against the system's monotonic clock.
//!
//! Why not `Instant`: it costs 30 ns here, the counter 11. State machines never read a clock at all; they are given `now`.
//!
//! Bounds: a machine whose counter is not constant (no `constant_tsc`) falls back to the system clock.

use crate::Nanos;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds since the first clock of this process was made. Copy it freely; all copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Nanoseconds per cycle in 32.32 fixed point; 0 where the counter cannot be trusted.
    scale: u64,
    origin_cycles: u64,
    origin: Instant,
}

static SHARED: OnceLock<Clock> = OnceLock::new();

impl Clock {
    /// The process's clock. The first call spends 10 ms on calibration.
    pub fn shared() -> Clock {
        *SHARED.get_or_init(|| {
            let origin = Instant::now();
            let origin_cycles = cycles();
            let scale = if crate::cpu::has_constant_cycles() { calibrate(origin, origin_cycles) } else { 0 };
            Clock { scale, origin_cycles, origin }
        })
    }

    /// Now.
    #[inline]
    pub fn now(&self) -> Nanos {
        if self.scale == 0 {
            return Nanos::from(self.origin.elapsed());
        }
        self.span(self.elapsed(cycles()))
    }

    /// From the first clock of this process to where the counter is; none where it was set back to before it. (As a difference that wraps around it were
    /// longer than a century, where deadlines end.)
    #[inline]
    fn elapsed(&self, cycles: u64) -> u64 {
        let elapsed = cycles.wrapping_sub(self.origin_cycles);
        if elapsed > i64::MAX as u64 { 0 } else { elapsed }
    }

    /// What [`Clock::now`] must be advanced by to be the machine's `CLOCK_MONOTONIC`, which all its processes have in common; as of now.
    pub fn monotonic(&self) -> Nanos {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 - self.now().0)
    }

    /// What `cycles` of the counter are in time; zero where the counter cannot be trusted.
    #[inline]
    pub fn span(&self, cycles: u64) -> Nanos {
        Nanos(((u128::from(cycles) * u128::from(self.scale)) >> 32) as u64)
    }

    /// Ticks of the cycle counter per second, or `None` where it cannot be trusted.
    pub fn cycles_per_sec(&self) -> Option<f64> {
        (self.scale != 0).then(|| 1e9 * (1u64 << 32) as f64 / self.scale as f64)
    }
}

/// How long somebody may block, by the system's clock: the cycle counter may be set back meanwhile, and a deadline by it be days away.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    begun: Instant,
    span: Duration,
}

impl Timeout {
    /// It begins now.
    pub fn new(span: Duration) -> Timeout {
        Timeout { begun: Instant::now(), span }
    }

    /// What is left; zero when it is over.
    pub fn left(&self) -> Nanos {
        self.span.saturating_sub(self.begun.elapsed()).into()
    }
}

fn calibrate(origin: Instant, origin_cycles: u64) -> u64 {
    // Three spans, the middle scale: a stolen time slice between the two reads spoils one of them, rarely two; and so does a counter that jumps,
    // for each span has a beginning of its own.
    let scale = |from: (Instant, u64), to: (Instant, u64)| {
        let ticks = to.1.wrapping_sub(from.1).max(1);
        ((to.0.duration_since(from.0).as_nanos() << 32) / u128::from(ticks)) as u64
    };
    let mut at = (origin, origin_cycles);
    let mut scales = [0; 3].map(|_| {
        let begun = at;
        while begun.0.elapsed() < Duration::from_millis(3) {
            std::hint::spin_loop();
        }
        at = (Instant::now(), cycles());
        scale(begun, at)
    });
    scales.sort_unstable();
    // The longest span says it most exactly, unless something came between.
    let whole = scale((origin, origin_cycles), at);
    if whole.abs_diff(scales[1]) < scales[1] / 1000 { whole } else { scales[1] }
}

/// The raw cycle counter; 0 where the machine has none.
#[inline(always)]
pub fn cycles() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 has rdtsc and no kernel we run on forbids it to user code.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_set_back_to_before_the_first_look_stands_still() {
        let clock = Clock { scale: 1 << 32, origin_cycles: 1000, origin: Instant::now() };
        assert_eq!([1000, 1007].map(|cycles| clock.elapsed(cycles)), [0, 7]);
        assert_eq!([0, 999].map(|cycles| clock.elapsed(cycles)), [0, 0]);
        // One that began just before the counter's own end.
        let clock = Clock { origin_cycles: u64::MAX, ..clock };
        assert_eq!(clock.elapsed(4), 5);
    }

    #[test]
    fn it_moves_forward_and_agrees_with_the_system() {
        let clock = Clock::shared();
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        if let Some(hz) = clock.cycles_per_sec() {
            assert!((1e8..2e10).contains(&hz), "{hz}");
        }
    }
}
