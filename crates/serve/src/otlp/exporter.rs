//! The thread that sends.
//!
//! Spans are sent when there are some, at most [`SPANS_MAX`] a request; those that a collector could not take now (it is away; 408, 429, 502, 503, 504)
//! are sent again, later and later, up to [`RETRY_MAX`] apart. What it refuses is dropped. Metrics are sent at their interval, and again at the next.
//!
//! Invariant: a span is in one request that was taken, or is counted as dropped, or is still in the ring; one whose answer was lost may be in two.

use super::metrics::{About, body};
use super::{REQUESTS, SPANS_DROPPED, Target};
use crate::admin::{Shown, unix_offset_ns};
use crate::metrics::Page;
use crate::process::logger;
use ::client::web::Web;
use base::trace::{Batch, otlp};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Spans of one request.
pub(super) const SPANS_MAX: usize = 512;
/// How often it looks whether there are spans.
const SPANS_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after the first failure; it doubles with each that follows.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for the last ones, while the process ends.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of an answer that are read.
const ANSWER_MAX: u64 = 64 << 10;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It is there, but for so many spans or samples that the collector did not want.
    Taken { rejected: u64 },
    /// The collector does not want it, now or later.
    Refused,
    /// It may want it later.
    Failed,
}

/// Requests of one signal, by outcome.
#[derive(Debug)]
struct Counts {
    taken: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug)]
struct Counters {
    traces: Counts,
    metrics: Counts,
    spans_dropped: AtomicU64,
}

impl Counts {
    const fn new() -> Counts {
        Counts { taken: AtomicU64::new(0), refused: AtomicU64::new(0), failed: AtomicU64::new(0) }
    }
}

static COUNTERS: Counters =
    Counters { traces: Counts::new(), metrics: Counts::new(), spans_dropped: AtomicU64::new(0) };

/// There is an exporter in this process.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Adds what was sent, where something is.
pub(crate) fn collect(page: &mut Page) {
    if !IS_ON.load(Ordering::Relaxed) {
        return;
    }
    let Counters { traces, metrics, spans_dropped } = &COUNTERS;
    for (signal, counts) in [("traces", traces), ("metrics", metrics)] {
        let Counts { taken, refused, failed } = counts;
        for (outcome, count) in [("taken", taken), ("refused", refused), ("failed", failed)] {
            page.add(REQUESTS, &[signal, outcome], count.load(Ordering::Relaxed));
        }
    }
    page.add(SPANS_DROPPED, &[], spans_dropped.load(Ordering::Relaxed));
}

/// The thread that sends. Dropped, it sends what is left, once.
pub struct Exporter {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Whether this process was told of a collector.
    pub fn is_wanted() -> bool {
        Target::of_process().is_ok_and(|target| target.is_some())
    }

    /// One that sends what is shown, if this process was told where to. What it was told and cannot heed is logged.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn of_process(shown: Arc<Shown>) -> io::Result<Option<Exporter>> {
        match Target::of_process() {
            Ok(target) => target.map(|target| Exporter::start(target, shown)).transpose(),
            Err(why) => {
                log::error!("nothing is sent to a collector: {why}");
                Ok(None)
            }
        }
    }

    fn start(target: Target, shown: Arc<Shown>) -> io::Result<Exporter> {
        IS_ON.store(true, Ordering::Relaxed);
        let (stop, stopped) = channel();
        let sender = Sending::new(target, shown);
        let thread = std::thread::Builder::new().name("otlp".into()).spawn(move || sender.run(&stopped))?;
        Ok(Exporter { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed.
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct Sending {
    target: Target,
    shown: Arc<Shown>,
    web: Web,
    begin_ns: u64,
    /// Spans up to here were taken or given up.
    sent: u64,
    /// The pause that is being kept, if the last request of spans failed.
    retry: Option<Duration>,
    next_spans: Instant,
    next_metrics: Instant,
    /// The collector took nothing the last time: that was said.
    is_away: bool,
}

impl Sending {
    fn new(target: Target, shown: Arc<Shown>) -> Sending {
        let now = Instant::now();
        let web = web(&target, REQUEST_TIMEOUT);
        let (next_spans, next_metrics) = (now + SPANS_INTERVAL, now + target.interval);
        let (begin_ns, sent, retry, is_away) = (unix_ns(), 0, None, false);
        Sending { target, shown, web, begin_ns, sent, retry, next_spans, next_metrics, is_away }
    }

    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            let pause = self.next_spans.min(self.next_metrics).saturating_duration_since(Instant::now());
            if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            if Instant::now() >= self.next_spans {
                self.send_spans();
            }
            if Instant::now() >= self.next_metrics {
                self.send_metrics();
                self.next_metrics = Instant::now() + self.target.interval;
            }
        }
        // What the last requests left, as long as it is taken.
        self.web = web(&self.target, LAST_TIMEOUT);
        self.send_metrics();
        self.retry = None;
        self.send_spans();
    }

    /// Sends spans until there are none, or the collector does not take them.
    fn send_spans(&mut self) {
        self.next_spans = Instant::now() + SPANS_INTERVAL;
        let (Some(tracer), Some(url)) = (self.shown.tracer().cloned(), self.target.traces.clone()) else {
            return;
        };
        loop {
            let Batch { spans, end, missed } = tracer.next(self.sent, SPANS_MAX);
            COUNTERS.spans_dropped.fetch_add(missed, Ordering::Relaxed);
            self.sent += missed;
            if spans.is_empty() {
                return;
            }
            match self.post(&url, &otlp(&spans, unix_offset_ns(), &self.target.resource), &COUNTERS.traces) {
                Outcome::Failed => {
                    let pause = self.retry.map_or(RETRY_MIN, |pause| (2 * pause).min(RETRY_MAX));
                    self.retry = Some(pause);
                    self.next_spans = Instant::now() + pause;
                    return;
                }
                Outcome::Taken { rejected } => COUNTERS.spans_dropped.fetch_add(rejected, Ordering::Relaxed),
                Outcome::Refused => COUNTERS.spans_dropped.fetch_add(spans.len() as u64, Ordering::Relaxed),
            };
            (self.sent, self.retry) = (end, None);
        }
    }

    fn send_metrics(&mut self) {
        let Some(url) = self.target.metrics.clone() else { return };
        let page = self.shown.page();
        let (resource, service) = (&self.target.resource, logger::service());
        let about = About { resource, service, begin_ns: self.begin_ns, now_ns: unix_ns() };
        let body = body(&page, &about);
        self.post(&url, &body, &COUNTERS.metrics);
    }

    fn post(&mut self, url: &str, body: &str, counts: &Counts) -> Outcome {
        let answer = self.web.post_with(url, &self.target.headers, body);
        let (outcome, why) = match answer {
            Ok(page) => (outcome_of(&page.status, &page.text), page.status),
            Err(why) => (Outcome::Failed, why),
        };
        let (count, is_away) = match outcome {
            Outcome::Taken { .. } => (&counts.taken, false),
            Outcome::Refused => (&counts.refused, true),
            Outcome::Failed => (&counts.failed, true),
        };
        count.fetch_add(1, Ordering::Relaxed);
        match (is_away, std::mem::replace(&mut self.is_away, is_away)) {
            (true, false) => {
                log::warn!("the collector at {url} takes nothing: {why} (said once until it does)")
            }
            (false, true) => log::info!("the collector at {url} takes what is sent again"),
            _ => {}
        }
        outcome
    }
}

fn web(target: &Target, timeout: Duration) -> Web {
    match &target.tls {
        Some(tls) => Web::with_tls(timeout, ANSWER_MAX, Some(tls)),
        None => Web::new(timeout, ANSWER_MAX),
    }
}

/// What an answer says: its status, and what it holds if a part was not wanted.
fn outcome_of(status: &str, text: &str) -> Outcome {
    match status.split(' ').next().unwrap_or_default() {
        "408" | "429" | "502" | "503" | "504" => Outcome::Failed,
        code if code.starts_with('2') => {
            let said: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
            let part = &said["partialSuccess"];
            let rejected = [&part["rejectedSpans"], &part["rejectedDataPoints"]];
            // A 64-bit number is a text in protobuf's JSON, and often is a number all the same.
            let count =
                rejected.iter().find_map(|count| count.as_u64().or_else(|| count.as_str()?.parse().ok()));
            Outcome::Taken { rejected: count.unwrap_or(0) }
        }
        _ => Outcome::Refused,
    }
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

#[cfg(test)]
mod tests;
