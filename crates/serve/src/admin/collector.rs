//! A thread for what an admin port asks of its server and may have to wait for: a lock, a loop's turn. Between two questions it does what is to be done in
//! intervals.
//!
//! Why: the port's own thread goes on answering `/healthz` while the server stalls. Why one thread, made at the start: when there are no threads to
//! be had any more, it is there.
//!
//! Bounds: [`JOBS_MAX`] jobs that wait; a job that takes longer than [`JOB_TIMEOUT`] is not waited for.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Jobs that wait.
const JOBS_MAX: usize = 64;
/// How long a job is waited for.
const JOB_TIMEOUT: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// See the head of the file; the thread ends when this is dropped.
#[derive(Clone)]
pub(super) struct Collector(SyncSender<Job>);

impl Collector {
    /// `tick` is called at the start, and then in intervals, with the time since it was called before.
    pub fn start(interval: Duration, tick: impl Fn(Duration) + Send + 'static) -> io::Result<Collector> {
        let (give, jobs) = sync_channel::<Job>(JOBS_MAX);
        let guarded = |job: &mut dyn FnMut()| {
            // Printed, and answered with an error: the asker's end is dropped.
            let _ = catch_unwind(AssertUnwindSafe(job));
        };
        std::thread::Builder::new().name("admin-collect".into()).spawn(move || {
            let (mut last, mut next) = (Instant::now(), Instant::now());
            loop {
                if Instant::now() >= next {
                    guarded(&mut || tick(last.elapsed()));
                    last = Instant::now();
                    next = last + interval;
                }
                match jobs.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(job) => {
                        let mut job = Some(job);
                        guarded(&mut || job.take().into_iter().for_each(|job| job()));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
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
