//! The same experiment again with one number moved: what the number does not touch is not simulated again, and runs may be shorter.
//!
//! An audit runs an experiment some hundred times, and an experiment simulates some hundred settings. Most numbers decide nothing in most settings. So a
//! [`Recording`] keeps what each simulation of the first run gave, under everything that decides it (programs, resources, load, seed, spans): a later run
//! that comes to the same simulation takes the result, to the last bit.
//!
//! A recording also says by how much runs are shorter than the experiment has them: the span that is accounted for is divided, warm-ups by its root, and what
//! is counted is multiplied. Rates and shares are then those of the shorter span; experiments need not know of it.
//!
//! Experiments are functions of platforms and a seed that build kernels deep inside, so the recording in use belongs to the thread, for as long as a closure
//! runs. Without one, runs are as they always were.

use crate::kernel::Usage;
use crate::load::{BATCHES, Seen};
use crate::sim::Sim;
use base::Picos;
use hdrhistogram::Histogram;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// What one simulation gave.
#[derive(Clone, Debug)]
struct Simulated {
    seen: Vec<Seen>,
    accounts: Vec<Usage>,
    end: Picos,
}

/// Simulations that were run, and how much shorter than an experiment has them.
#[derive(Debug, Default)]
pub struct Recording {
    results: HashMap<String, Simulated>,
    /// What was prepared for simulations, by what decides it.
    prepared: HashMap<String, Arc<dyn Any + Send + Sync>>,
    /// Spans are divided by this.
    divisor: u64,
    events: u64,
}

enum Scope {
    Writes(Recording),
    Reads(Arc<Recording>),
}

thread_local! {
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// Takes the scope away however the closure ends.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        SCOPE.take();
    }
}

/// Runs something and keeps its simulations; spans are divided by `divisor`.
pub fn record<R>(divisor: u64, run: impl FnOnce() -> R) -> (R, Recording) {
    SCOPE.set(Some(Scope::Writes(Recording { divisor: divisor.max(1), ..Recording::default() })));
    let leave = Leave;
    let result = run();
    let Some(Scope::Writes(recording)) = SCOPE.take() else { unreachable!("it was put there") };
    drop(leave);
    (result, recording)
}

/// Runs something with what is known.
pub fn reuse<R>(recording: &Arc<Recording>, run: impl FnOnce() -> R) -> R {
    SCOPE.set(Some(Scope::Reads(Arc::clone(recording))));
    let _leave = Leave;
    run()
}

impl Recording {
    /// Events of all its simulations.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// By how much its spans are shorter.
    pub fn divisor(&self) -> u64 {
        self.divisor
    }
}

/// What takes long to prepare and no number but those in `identity` decides: from the recording, if it has it. A recording keeps all of it in memory.
pub fn prepared<T: Clone + Send + Sync + 'static>(identity: &str, prepare: impl FnOnce() -> T) -> T {
    let known = SCOPE.with_borrow(|scope| match scope {
        Some(Scope::Reads(recording)) => recording.prepared.get(identity).cloned(),
        _ => None,
    });
    if let Some(known) = known.as_deref().and_then(|known| known.downcast_ref::<T>()) {
        return known.clone();
    }
    let made = prepare();
    SCOPE.with_borrow_mut(|scope| {
        if let Some(Scope::Writes(recording)) = scope {
            recording.prepared.insert(identity.into(), Arc::new(made.clone()));
        }
    });
    made
}

/// By how much spans are to be shorter on this thread.
fn divisor() -> u64 {
    SCOPE.with_borrow(|scope| match scope {
        None => 1,
        Some(Scope::Writes(recording)) => recording.divisor,
        Some(Scope::Reads(recording)) => recording.divisor,
    })
}

/// How long a warm-up is to be on this thread.
pub fn warm_up(asked: Picos) -> Picos {
    Picos(asked.0 / divisor().isqrt().max(1))
}

/// Runs until `begin`, then for `span` or a part of it, with accounts, and ends all processes. An operation that was counted stands for so many as it returns;
/// the kernel's accounts are multiplied already. `after_batch` is called after each of the span's equal parts.
pub fn account(sim: &Sim, begin: Picos, span: Picos, at_begin: impl FnOnce(), after_batch: impl Fn()) -> u64 {
    let times = divisor().min(span.0).max(1);
    sim.run_until(begin);
    sim.with(|kernel| kernel.reset_usage());
    at_begin();
    for batch in 1..=BATCHES {
        sim.run_until(begin.plus(Picos(span.0 / times * batch / BATCHES)));
        after_batch();
    }
    sim.end_processes();
    let events = sim.with(|kernel| {
        if times > 1 {
            let more: Vec<Usage> = kernel.accounts().into_iter().map(|usage| usage.times(times)).collect();
            let now = kernel.now();
            kernel.restore(&more, now);
        }
        kernel.events()
    });
    SCOPE.with_borrow_mut(|scope| {
        if let Some(Scope::Writes(recording)) = scope {
            recording.events += events;
        }
    });
    times
}

/// As if each value had been recorded so many times.
pub fn repeated(histogram: &Histogram<u64>, times: u64) -> Histogram<u64> {
    if times == 1 {
        return histogram.clone();
    }
    let mut whole = Histogram::new_from(histogram);
    for kind in histogram.iter_recorded() {
        whole.saturating_record_n(kind.value_iterated_to(), kind.count_at_value() * times);
    }
    whole
}

/// What is known of a simulation; the kernel's accounts are then those of its end.
pub(crate) fn known(sim: &Sim, identity: &str) -> Option<Vec<Seen>> {
    SCOPE.with_borrow(|scope| {
        let Some(Scope::Reads(recording)) = scope else { return None };
        let result = recording.results.get(identity)?;
        sim.with(|kernel| kernel.restore(&result.accounts, result.end));
        Some(result.seen.clone())
    })
}

/// Keeps what a simulation gave.
pub(crate) fn keep(sim: &Sim, identity: String, seen: &[Seen]) {
    SCOPE.with_borrow_mut(|scope| {
        let Some(Scope::Writes(recording)) = scope else { return };
        let (accounts, end) = sim.with(|kernel| (kernel.accounts(), kernel.now()));
        recording.results.insert(identity, Simulated { seen: seen.to_vec(), accounts, end });
    });
}

/// Whether anybody would use what says that two simulations are the same.
pub(crate) fn is_on() -> bool {
    SCOPE.with_borrow(|scope| scope.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Kernel, ResourceId, Service, Step};
    use crate::load::{Loop, closed};

    /// Two programs, each at a station of its own; the first is run.
    fn run(first: u64, second: u64) -> (Vec<Seen>, Vec<Usage>, u64) {
        let mut kernel = Kernel::new(1);
        let stations = [kernel.resource("a", 1), kernel.resource("b", 1)];
        let visit = |at: ResourceId, nanos| {
            [Step::Use {
                at,
                service: Service::Exponential(Picos::from_nanos(nanos)),
                units: 3,
                after: Picos::ZERO,
            }]
        };
        let of = kernel.program("first", visit(stations[0], first));
        kernel.program("second", visit(stations[1], second));
        let sim = Sim::new(kernel);
        let loops = [Loop { mix: of.into(), window: 2, arguments: 7 }];
        let seen = closed(&sim, 1, &loops, Picos::from_micros(5), Picos::from_micros(400));
        sim.with(|kernel| (seen, kernel.accounts(), kernel.events()))
    }

    fn figures(of: &(Vec<Seen>, Vec<Usage>, u64)) -> (u64, f64, f64, f64, Vec<Usage>) {
        let seen = &of.0[0];
        (seen.count(), seen.mean(), seen.quantile(0.99), seen.rate_error(), of.1.clone())
    }

    #[test]
    fn what_was_prepared_in_the_first_run_is_taken_again() {
        let times = std::cell::Cell::new(0);
        let ask = |identity| {
            prepared(identity, || {
                times.set(times.get() + 1);
                vec![identity.len()]
            })
        };
        let (first, recording) = record(1, || ask("one"));
        let recording = Arc::new(recording);
        assert_eq!((reuse(&recording, || ask("one")), times.get()), (first, 1));
        assert_eq!((reuse(&recording, || ask("three")), times.get()), (vec![5], 2));
        assert_eq!((ask("one"), times.get()), (vec![3], 3), "without a recording nothing is kept");
    }

    #[test]
    fn what_a_change_does_not_touch_is_not_run_again_and_is_the_same_to_the_last_bit() {
        let plain = run(100, 100);
        let (first, recording) = record(1, || run(100, 100));
        let recording = Arc::new(recording);
        assert!(first.2 > 1000 && recording.events() == first.2);
        let same = reuse(&recording, || run(100, 900));
        assert_eq!(same.2, 0, "nothing was simulated");
        assert_eq!(figures(&plain), figures(&same));
        let other = reuse(&recording, || run(200, 100));
        assert!(other.2 > 500 && other.0[0].mean() > 1.5 * plain.0[0].mean());
        assert_eq!(figures(&other), figures(&run(200, 100)));
    }

    #[test]
    fn shorter_runs_say_the_same_but_for_noise() {
        let plain = run(100, 100);
        let (short, recording) = record(8, || run(100, 100));
        assert!(recording.events() * 6 < plain.2, "{} of {}", recording.events(), plain.2);
        let (whole, part) = (figures(&plain), figures(&short));
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.15;
        assert!(near(part.0 as f64, whole.0 as f64) && near(part.1, whole.1), "{part:?} {whole:?}");
        assert!(near(part.4[0].busy.as_secs_f64(), whole.4[0].busy.as_secs_f64()));
        assert_eq!(figures(&run(100, 100)), whole, "the scope has ended");
    }

    #[test]
    fn a_panic_ends_the_scope() {
        let caught = std::panic::catch_unwind(|| record(8, || panic!("as planned")));
        assert!(caught.is_err() && !is_on());
    }
}
