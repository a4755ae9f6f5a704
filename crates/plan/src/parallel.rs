//! Independent jobs on threads: each takes the next, results are heard as they come.
//!
//! For runs of the model, which take milliseconds to minutes: the lock and the channel between them cost nothing beside that.

use serve::process::progress;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};

/// As many as this process has cores.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Does `job` on items in turn, on so many threads; `hear` takes what came out, in any order, on this thread. When it breaks, no further item is begun; what
/// is under way is waited for and heard.
pub fn each<T: Send, R: Send>(
    items: impl Iterator<Item = T> + Send,
    threads: usize,
    job: impl Fn(T) -> R + Sync,
    mut hear: impl FnMut(R) -> ControlFlow<()>,
) {
    let items = Mutex::new(items);
    let stopped = AtomicBool::new(false);
    let (done, ended) = mpsc::sync_channel(threads);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let done = done.clone();
            scope.spawn(|| {
                let done = done;
                // A flag: one more item may be begun after it is set.
                while !stopped.load(Ordering::Relaxed) {
                    let Some(item) = items.lock().expect("no thread panics here").next() else { break };
                    if done.send(job(item)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        for result in ended {
            if hear(result).is_break() {
                stopped.store(true, Ordering::Relaxed);
            }
        }
    });
}

/// What `job` makes of each item, in their order; a bar shows how many are done.
pub fn map<T: Send, R: Send>(items: Vec<T>, what: &str, job: impl Fn(T) -> R + Sync) -> Vec<R> {
    let bar = progress::bar(false);
    let (count, threads) = (items.len(), threads().min(items.len()));
    let mut results: Vec<Option<R>> = (0..count).map(|_| None).collect();
    let mut done = 0;
    each(
        items.into_iter().enumerate(),
        threads,
        |(at, item)| (at, job(item)),
        |(at, result)| {
            results[at] = Some(result);
            done += 1;
            progress::show(&bar, f64::from(done) / count as f64, what);
            ControlFlow::Continue(())
        },
    );
    bar.finish_and_clear();
    results.into_iter().map(|result| result.expect("each item was done")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_a_break_stops() {
        assert_eq!(map((0..100).collect(), "", |x| x * x), (0..100).map(|x| x * x).collect::<Vec<_>>());
        let mut heard = 0;
        each(
            0..1_000_000u64,
            2,
            |x| x,
            |_| {
                heard += 1;
                if heard < 10 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        );
        assert!((10..100).contains(&heard), "{heard}");
        each(std::iter::empty::<u64>(), 0, |x| x, |_| ControlFlow::Break(()));
    }
}
