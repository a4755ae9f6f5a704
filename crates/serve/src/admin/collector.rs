//! A thread for what an admin port asks of its server and may have to wait for: a lock, a loop's turn. Between two questions it does what is to be done in
//! intervals.
//!
//! Why: the port's own thread goes on answering `/healthz` while the server stalls. Why one thread, made at the start: when there are no threads to
//! be had any more, it is there.
//!
//! Bounds: [`JOBS_MAX`] jobs that wait; a job that takes longer than [`JOB_TIMEOUT`] is not waited for.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Jobs that wait.
const JOBS_MAX: usize = 64;
/// How long a job is waited for.
const JOB_TIMEOUT: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;
/// Is given the time since it was called before.
pub(super) type Tick = Box<dyn Fn(Duration) + Send>;

/// See the head of the file; the thread ends when this is dropped.
#[derive(Clone)]
pub(super) struct Collector(SyncSender<Job>);

impl Collector {
    /// With something that is to be done in intervals, from the start on.
    pub fn start(every: Option<(Duration, Tick)>) -> io::Result<Collector> {
        let (give, jobs) = sync_channel::<Job>(JOBS_MAX);
        std::thread::Builder::new().name("admin-collect".into()).spawn(move || match every {
            Some((interval, tick)) => attend(&jobs, interval, &tick),
            None => jobs.into_iter().for_each(guarded),
        })?;
        Ok(Collector(give))
    }

    /// What `job` gives; none when the server does not come to it.
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (tell, told) = oneshot::channel();
        let job = move || {
            if !tell.is_closed() {
                // Who went away does not want it any more.
                let _ = tell.send(job());
            }
        };
        self.0.try_send(Box::new(job)).ok()?;
        timeout(JOB_TIMEOUT, told).await.ok()?.ok()
    }
}

/// A panic is printed, and answered with an error: the asker's end is dropped.
fn guarded(job: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(job));
}

/// Does jobs until there can be no more, and between two of them what is to be done in intervals.
fn attend(jobs: &Receiver<Job>, interval: Duration, tick: &Tick) {
    let (mut last, mut next) = (Instant::now(), Instant::now());
    loop {
        if Instant::now() >= next {
            guarded(|| tick(last.elapsed()));
            last = Instant::now();
            next = last + interval;
        }
        match jobs.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(job) => guarded(job),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
