//! Several loops at the same time, a thread each.

use super::{Driven, Plan, drive};
use crate::tally::Tally;
use base::Clock;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often the one who waits is told how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(5);

/// Drives all at the same time, each as `plan` says, on `cores` in turns (none: wherever the system puts the threads); what all did together.
/// `progress` hears now and then how many operations are done. Without it, one alone is driven on the calling thread.
pub fn together<D: Driven<Counts: Send> + Send>(
    all: &mut [D],
    plan: impl Fn(u64) -> Plan,
    cores: &[usize],
    stop: &AtomicBool,
    progress: Option<&mut dyn FnMut(u64)>,
) -> Tally<D::Counts> {
    let (clock, done) = (Clock::shared(), AtomicU64::new(0));
    if let ([one], [], None) = (&mut *all, cores, &progress) {
        return drive(one, &plan(0), clock.now(), stop, &done);
    }
    std::thread::scope(|scope| {
        let mut running = Vec::with_capacity(all.len());
        for (number, driven) in all.iter_mut().enumerate() {
            let (plan, done) = (plan(number as u64), &done);
            let core = cores.get(number % cores.len().max(1)).copied();
            running.push(scope.spawn(move || {
                settle(core);
                drive(driven, &plan, clock.now(), stop, done)
            }));
        }
        if let Some(progress) = progress {
            while running.iter().any(|thread| !thread.is_finished()) {
                progress(done.load(Ordering::Relaxed));
                std::thread::sleep(PROGRESS_INTERVAL);
            }
        }
        let mut sum = Tally::default();
        for thread in running {
            sum.merge(&thread.join().expect("a thread of the load does not panic"));
        }
        sum
    })
}

/// Pins the thread, and asks the system to wake it on time rather than in convenient groups. Both are favours: on a core that is not ours the
/// figures are what they are, and the run goes on.
pub fn settle(core: Option<usize>) {
    if let Some(core) = core {
        let _ = base::cpu::pin_to(core);
    }
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
