//! `--record FILE`: requests of this process are written down, for `millrace plan --trace`. [docs/recording.md] has the lines.
//!
//! ```text
//!  services ─▶ base::recording::Recording (a queue) ─▶ Recorder, a thread: lines of JSON ─▶ FILE
//!                                          PUT /record: one of how many, or off
//! ```
//! Nothing on a request's way waits for file or thread: what the queue has no room for is dropped and counted. The file is replaced if it is there.
//!
//! Bounds: the file has `--record-size` bytes at most; then the recording ends. So it does when it cannot be written: the disk is full, say. Either is
//! logged, and the services serve on.
//!
//! [docs/recording.md]: ../../../docs/recording.md

use crate::metrics::Page;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{MethodRouter, get};
use base::json::Text;
use base::recording::{Counts, Recording, Request};
use base::trace::Tracer;
use base::units::Bytes;
use base::{Clock, Nanos};
use clap::Args;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Of the lines that are written; a reader refuses others.
pub const VERSION: u32 = 1;
/// One key of so many, unless it is said: a million requests a second then fill a file of usual size in about two minutes, and of 100,000 keys 1,500
/// are left to see how popular they are.
const ONE_OF: u32 = 64;
const SIZE_MAX: Bytes = Bytes(256 << 20);
/// How often what was recorded is taken.
const INTERVAL: Duration = Duration::from_millis(50);
/// How often it is written how many requests came.
const SEEN_INTERVAL: Nanos = Nanos::from_secs(1);
/// Bytes that are kept for the last lines of a file.
const LAST_LINES: u64 = 16 << 10;
/// Kinds of services whose requests are recorded.
const RECORDED: [&str; 3] = ["kv", "rpc", "rec"];

/// What was said to this process.
static SAID: OnceLock<RecordArgs> = OnceLock::new();

/// Whether requests are recorded, and where.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Recording")]
pub struct RecordArgs {
    /// Record requests into this file: when each came, what it was, its sizes, where it was answered and how long that took; for millrace plan --trace
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// One key of N with all its requests; of what has no key, one request of N. off: until PUT /record of the admin port says a number [default: 1/64]
    #[arg(long, value_name = "1/N|off", value_parser = one_of, requires = "record")]
    record_sample: Option<u32>,

    /// End the recording when the file has this size [default: 256m]
    #[arg(long, value_name = "SIZE", requires = "record")]
    record_size: Option<Bytes>,
}

/// `1/64`, `64`, or `off`, which is 0.
fn one_of(text: &str) -> Result<u32, String> {
    let number = match text.trim() {
        "off" => Some(0),
        text => text.strip_prefix("1/").unwrap_or(text).parse().ok().filter(|n| *n > 0),
    };
    number.ok_or_else(|| format!("{text:?} is no sample: write 1/64 for one of 64, or off"))
}

impl RecordArgs {
    /// From here on this process records so.
    pub fn apply(&self) {
        if self.record.is_some() {
            // The first stays: one process is one server.
            let _ = SAID.set(self.clone());
        }
    }
}

crate::families! { "millrace_";
    REQUESTS counter "recorded_requests" count [] "Requests written to the recording (--record).";
    DROPPED counter "recorded_requests_dropped" count [] "Requests of the sample that were not written, since the thread that writes was behind.";
    WRITTEN gauge "recording" bytes [] "Bytes of the recording's file.";
    IS_ON gauge "recording_one_of" count [] "One key of so many is recorded; 0: none, or the recording has ended.";
}

/// What is known of a recording from outside its thread.
#[derive(Debug)]
struct Shown {
    path: PathBuf,
    most: u64,
    recording: Recording,
    requests: AtomicU64,
    dropped: AtomicU64,
    written: AtomicU64,
    /// Why it is over.
    ended: Mutex<Option<String>>,
}

impl Shown {
    fn ended(&self) -> Option<String> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(&self, why: String) {
        self.recording.set(0);
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn json(&self) -> String {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let ended = self.ended().map_or("null".to_owned(), |why| Text(&why).to_string());
        format!(
            "{{\"file\":{},\"one_of\":{},\"requests\":{},\"dropped\":{},\"bytes\":{},\"bytes_max\":{},\"ended\":{ended}}}\n",
            Text(&self.path.display().to_string()),
            self.recording.one_of(),
            read(&self.requests),
            read(&self.dropped),
            read(&self.written),
            self.most
        )
    }
}

/// The thread that writes. Dropped, it writes what is left.
pub struct Recorder {
    shown: Arc<Shown>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// One that writes what is recorded where this tracer says, if this process was told to, by services of these kinds.
    ///
    /// # Errors
    /// The file cannot be written, or there is no thread. A sentence.
    pub(crate) fn of_process<'k>(
        tracer: &Tracer,
        kinds: impl Iterator<Item = &'k str>,
    ) -> Result<Option<Recorder>, String> {
        let Some(RecordArgs { record: Some(path), record_sample, record_size }) = SAID.get() else {
            return Ok(None);
        };
        for kind in kinds.filter(|kind| !RECORDED.contains(kind)) {
            log::warn!("requests of {kind} services are not recorded: those of {} are", RECORDED.join(", "));
        }
        let most = record_size.unwrap_or(SIZE_MAX).0;
        let recorder =
            Recorder::start(path, most, record_sample.unwrap_or(ONE_OF), tracer.recording().clone());
        recorder.map(Some).map_err(|cause| {
            format!("--record {}: {cause}; name a file in a folder that this user may write", path.display())
        })
    }

    /// One that writes into this file, of `most` bytes at most, one key of `one_of`.
    ///
    /// # Errors
    /// The system's.
    pub fn start(path: &Path, most: u64, one_of: u32, recording: Recording) -> io::Result<Recorder> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        recording.set(one_of);
        let shown = Arc::new(Shown {
            path: path.to_owned(),
            most,
            recording,
            requests: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            written: AtomicU64::new(0),
            ended: Mutex::new(None),
        });
        let mut writer = Writer::new(file, Arc::clone(&shown));
        writer.write().inspect_err(|_| shown.recording.set(0))?;
        let (stop, stopped) = channel();
        let thread =
            std::thread::Builder::new().name("recorder".to_owned()).spawn(move || writer.run(&stopped))?;
        log::info!("recording one key of {one_of} into {}, {} at most", path.display(), Bytes(most));
        Ok(Recorder { shown, stop: Some(stop), thread: Some(thread) })
    }

    /// Adds what was recorded.
    pub(crate) fn collect(&self) -> impl Fn(&mut Page) + Send + Sync + 'static {
        let shown = Arc::clone(&self.shown);
        move |page| {
            for (family, counter) in
                [(REQUESTS, &shown.requests), (DROPPED, &shown.dropped), (WRITTEN, &shown.written)]
            {
                page.add(family, &[], counter.load(Ordering::Relaxed));
            }
            page.add(IS_ON, &[], shown.recording.one_of());
        }
    }

    /// `GET /record` and `PUT /record` of the admin port.
    pub(crate) fn route(&self) -> MethodRouter {
        let show =
            async |State(shown): State<Arc<Shown>>| ([("content-type", "application/json")], shown.json());
        let set = async |State(shown): State<Arc<Shown>>, text: String| match (one_of(&text), shown.ended()) {
            (Err(why), _) => (StatusCode::BAD_REQUEST, why + "\n"),
            (_, Some(why)) => (StatusCode::CONFLICT, format!("the recording is over: {why}\n")),
            (Ok(one_of), None) => {
                log::info!("told to record one key of {one_of} from now on (0: none)");
                shown.recording.set(one_of);
                (StatusCode::OK, shown.json())
            }
        };
        get(show).put(set).with_state(Arc::clone(&self.shown))
    }

    /// Why it is over, if it is.
    pub fn ended(&self) -> Option<String> {
        self.shown.ended()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It panics in a broken invariant alone, which was said.
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct Writer {
    file: File,
    shown: Arc<Shown>,
    began: Nanos,
    taken: Vec<Request>,
    text: String,
    /// As the last lines say.
    one_of: u32,
    counts: Counts,
    counted_at: Nanos,
}

impl Writer {
    fn new(file: File, shown: Arc<Shown>) -> Writer {
        let (began, one_of) = (Clock::shared().now(), shown.recording.one_of());
        let text = begin_line(one_of, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let (taken, counts) = (Vec::new(), Counts::default());
        Writer { file, shown, began, taken, text, one_of, counts, counted_at: began }
    }

    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            let is_last = stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Disconnected);
            let is_full = self.step(is_last);
            let written = self.write();
            let path = self.shown.path.display();
            if let Err(cause) = written {
                log::error!("the recording {path} ends: {cause}; the services serve on");
                return self.shown.end(cause.to_string());
            }
            if is_full {
                let most = Bytes(self.shown.most);
                log::warn!("the recording {path} ends: it has {most} (--record-size); the services serve on");
                return self.shown.end(format!("its file has {most} (--record-size)"));
            }
            if is_last {
                return;
            }
        }
    }

    /// Puts what was recorded into words; whether the file is full then.
    fn step(&mut self, is_last: bool) -> bool {
        let now = Clock::shared().now();
        let counts = self.shown.recording.take(&mut self.taken);
        let room = self.shown.most.saturating_sub(self.shown.written.load(Ordering::Relaxed) + LAST_LINES);
        let mut is_full = false;
        let mut put = 0;
        for request in &self.taken {
            let before = self.text.len();
            request_line(&mut self.text, request, self.began);
            is_full = self.text.len() as u64 > room;
            if is_full {
                self.text.truncate(before);
                break;
            }
            put += 1;
        }
        self.shown.requests.fetch_add(put, Ordering::Relaxed);
        self.shown.dropped.store(counts.dropped, Ordering::Relaxed);
        let one_of = self.shown.recording.one_of();
        let is_due = counts != self.counts && now.since(self.counted_at) >= SEEN_INTERVAL;
        if is_due || is_last || is_full || one_of != self.one_of {
            seen_lines(&mut self.text, now.since(self.began), &counts);
            (self.counts, self.counted_at) = (counts, now);
        }
        if one_of != self.one_of {
            sample_line(&mut self.text, now.since(self.began), one_of);
            self.one_of = one_of;
        }
        if is_last || is_full {
            end_line(&mut self.text, now.since(self.began), if is_full { "full" } else { "stopped" });
        }
        is_full
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.write_all(self.text.as_bytes())?;
        self.shown.written.fetch_add(self.text.len() as u64, Ordering::Relaxed);
        self.text.clear();
        Ok(())
    }
}

/// The first line: which lines follow, which part of the keys, and when it began.
fn begin_line(one_of: u32, since_1970: Duration) -> String {
    let unix_ms = since_1970.as_millis();
    format!(
        "{{\"line\":\"begin\",\"millrace_recording\":{VERSION},\"one_of\":{one_of},\"unix_ms\":{unix_ms}}}\n"
    )
}

/// Microseconds with three digits behind the point.
struct Micros(Nanos);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0.0 / 1000, self.0.0 % 1000)
    }
}

// Writing to a string does not fail.
fn request_line(text: &mut String, request: &Request, began: Nanos) {
    let Request { service, method, key, at, request, reply, place, took } = request;
    let (at, took, place) = (Micros(at.since(began)), Micros(*took), place.name());
    let (service, method) = (Text(service), Text(method));
    let _ = write!(text, "{{\"line\":\"request\",\"at_us\":{at},\"service\":{service},\"method\":{method}");
    if let Some(key) = key {
        let _ = write!(text, ",\"key\":\"{key:016x}\"");
    }
    let _ =
        writeln!(text, ",\"request\":{request},\"reply\":{reply},\"place\":\"{place}\",\"took_us\":{took}}}");
}

fn seen_lines(text: &mut String, at: Nanos, counts: &Counts) {
    let (at, dropped) = (Micros(at), counts.dropped);
    for (service, requests) in &counts.seen {
        let service = Text(service);
        let _ = writeln!(
            text,
            "{{\"line\":\"seen\",\"at_us\":{at},\"service\":{service},\"requests\":{requests},\"dropped\":{dropped}}}"
        );
    }
}

fn sample_line(text: &mut String, at: Nanos, one_of: u32) {
    let _ = writeln!(text, "{{\"line\":\"sample\",\"at_us\":{},\"one_of\":{one_of}}}", Micros(at));
}

fn end_line(text: &mut String, at: Nanos, why: &str) {
    let _ = writeln!(text, "{{\"line\":\"end\",\"at_us\":{},\"why\":\"{why}\"}}", Micros(at));
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::trace::Place;
    use tempfile::TempDir;

    fn request(key: u64) -> Request {
        Request {
            service: "cache".into(),
            method: "get".into(),
            key: Some(key),
            at: Clock::shared().now(),
            request: 10,
            reply: 20,
            place: Place::Edge,
            took: Nanos(5_500),
        }
    }

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).expect("it is there");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn what_was_recorded_is_in_the_file_when_it_has_ended() {
        let (folder, recording) =
            (TempDir::with_prefix("millrace-").expect("a folder"), Recording::default());
        let path = folder.path().join("whole");
        let own = recording.of("cache");
        let recorder = Recorder::start(&path, 1 << 20, 2, recording).expect("a file");
        own.saw(5);
        own.add(request(0xAB));
        drop(recorder);
        let lines = lines(&path);
        let kinds: Vec<_> = lines.iter().map(|line| line["line"].as_str().expect("a word")).collect();
        assert_eq!(kinds, ["begin", "request", "seen", "end"]);
        assert_eq!((&lines[0]["millrace_recording"], &lines[0]["one_of"]), (&1.into(), &2.into()));
        assert_eq!((&lines[1]["key"], &lines[1]["took_us"]), (&"00000000000000ab".into(), &5.5.into()));
        assert_eq!((&lines[2]["requests"], &lines[3]["why"]), (&5.into(), &"stopped".into()));
    }

    #[test]
    fn a_full_file_ends_the_recording_within_its_size() {
        let (folder, recording) =
            (TempDir::with_prefix("millrace-").expect("a folder"), Recording::default());
        let path = folder.path().join("full");
        let own = recording.of("cache");
        let most = LAST_LINES + 4000;
        let recorder = Recorder::start(&path, most, 1, recording.clone()).expect("a file");
        (1..500).for_each(|key| own.add(request(key)));
        drop(recorder);
        assert_eq!(recording.one_of(), 0, "nothing is recorded from then on");
        assert!(std::fs::metadata(&path).expect("it is there").len() <= most);
        let lines = lines(&path);
        assert_eq!(lines.last().expect("a last line")["why"], "full");
        assert!((10..100).contains(&lines.len()), "{}", lines.len());
    }

    /// `/dev/full` is a disk that is full.
    #[test]
    fn a_full_disk_ends_the_recording_and_nothing_else() {
        let recording = Recording::default();
        let refused = Recorder::start(Path::new("/dev/full"), 1 << 20, 1, recording.clone());
        assert!(refused.is_err_and(|cause| cause.kind() == io::ErrorKind::StorageFull));
        assert_eq!(recording.one_of(), 0);
        // One that fills while it is written.
        let file = OpenOptions::new().write(true).open("/dev/full").expect("there is one");
        let shown = Arc::new(Shown {
            path: "/dev/full".into(),
            most: 1 << 20,
            recording: recording.clone(),
            requests: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            written: AtomicU64::new(0),
            ended: Mutex::new(None),
        });
        recording.set(1);
        recording.of("cache").add(request(1));
        let (_stop, stopped) = channel();
        Writer::new(file, Arc::clone(&shown)).run(&stopped);
        assert!(shown.ended().is_some_and(|why| why.contains("space")), "{:?}", shown.ended());
        assert_eq!(recording.one_of(), 0);
    }

    #[test]
    fn samples_are_read_as_people_write_them() {
        assert_eq!((one_of("1/64"), one_of("8"), one_of("off\n")), (Ok(64), Ok(8), Ok(0)));
        for wrong in ["0", "1/0", "2/64", "some", ""] {
            assert!(one_of(wrong).is_err_and(|why| why.contains("1/64")), "{wrong}");
        }
    }
}
