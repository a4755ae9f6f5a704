//! What the smallest things cost: reading a clock, a pause, an atomic, a fence.

use super::session::{Session, Unit};
use super::timing::per_call;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

/// Steps that [`measure`] announces.
pub const STEPS: u64 = 1;

/// Measures them all on this thread.
pub fn measure(session: &mut Session) {
    session.step("clocks, pause, atomics");
    if base::cpu::has_constant_cycles() {
        let cycles = || base::clock::cycles();
        note(
            session,
            "rdtsc",
            "cycle counter",
            cycles,
            "a timestamp per request is affordable at this price",
        );
    } else {
        session.skip("cycle counter", "it is not constant here; millrace uses the system's clock");
    }
    let instant = || Instant::now();
    note(session, "instant", "Instant::now", instant, "what a timestamp costs by the standard library");
    let coarse = || clock_gettime(ClockId::MonotonicCoarse);
    note(
        session,
        "coarse",
        "coarse clock",
        coarse,
        "cheap, but moves once per timer tick: for expiry, not latency",
    );
    note(session, "pause", "pause", std::hint::spin_loop, "one turn of a polite spin");
    let own = AtomicU64::new(0);
    let add = || own.fetch_add(1, Ordering::AcqRel);
    note(session, "locked_add", "locked add, own line", add, "an atomic that nobody else touches");
    let full = || fence(Ordering::SeqCst);
    note(session, "fence", "full fence", full, "what a sleep/wake handshake pays once");
}

fn note<T>(session: &mut Session, key: &str, label: &str, call: impl FnMut() -> T, reading: &str) {
    let samples = per_call(session, call);
    session.record(key, label, &samples, Unit::Nanos, "loop", reading);
}
