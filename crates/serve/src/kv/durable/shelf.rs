//! Where snapshots lie: `snapshot` in the server's directory, written beside it by a thread of its own, and put in its place when it is durable.
//!
//! Invariant: `snapshot` is a whole one at every moment, whatever happens.
//! Bounds: [`AHEAD`] bytes that the disk has not taken, and one chunk or item more.
//! Errors: one that cannot be written is told by its number; the next begins anew.

use base::files::Locked;
use base::private;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use store::durable::Shelf;

/// Bytes that may wait for the disk.
const AHEAD: u64 = 1 << 20;

enum Job {
    Begin(u64),
    Write(Vec<u8>),
    Publish,
}

#[derive(Default)]
struct Told {
    /// Bytes that wait.
    waiting: AtomicU64,
    /// The last that is the newest.
    published: AtomicU64,
    /// One that failed.
    failed: Mutex<Option<(u64, io::Error)>>,
}

/// See the head of the file.
pub(super) struct FileShelf {
    jobs: Option<Sender<Job>>,
    told: Arc<Told>,
    number: u64,
    thread: Option<JoinHandle<()>>,
    /// The directory's.
    _lock: Locked,
}

impl FileShelf {
    /// Snapshots at `path`, whose directory is locked by `lock`; `wake` is called, on the thread, when it takes more, has one, or has none.
    pub(super) fn start(
        path: &Path,
        lock: Locked,
        wake: impl Fn() + Send + 'static,
    ) -> io::Result<FileShelf> {
        let (jobs, to_do) = channel();
        let told = Arc::<Told>::default();
        let mut writer = Writer { path: path.to_owned(), file: None, number: 0, told: Arc::clone(&told) };
        let run = move || writer.run(&to_do, wake);
        let thread = std::thread::Builder::new().name("kv-snapshot".to_owned()).spawn(run)?;
        Ok(FileShelf { jobs: Some(jobs), told, number: 0, thread: Some(thread), _lock: lock })
    }

    fn send(&self, job: Job) {
        // A thread that has ended has panicked, and said so: nothing is published any more.
        let _ = self.jobs.as_ref().expect("it is not dropped").send(job);
    }

    fn check(&self) -> io::Result<()> {
        let mut failed = self.told.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match failed.take() {
            Some((number, error)) if number == self.number => Err(error),
            _ if self.thread.as_ref().is_none_or(JoinHandle::is_finished) => {
                Err(io::Error::other("the thread that writes it has ended"))
            }
            _ => Ok(()),
        }
    }
}

impl Shelf for FileShelf {
    fn begin(&mut self) {
        self.number += 1;
        self.send(Job::Begin(self.number));
    }

    fn write(&mut self, bytes: Vec<u8>) {
        self.told.waiting.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.send(Job::Write(bytes));
    }

    fn is_ready(&mut self) -> io::Result<bool> {
        self.check()?;
        Ok(self.told.waiting.load(Ordering::Relaxed) < AHEAD)
    }

    fn publish(&mut self) {
        self.send(Job::Publish);
    }

    fn is_published(&mut self) -> io::Result<bool> {
        self.check()?;
        Ok(self.told.published.load(Ordering::Acquire) == self.number)
    }
}

impl Drop for FileShelf {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

struct Writer {
    path: PathBuf,
    file: Option<File>,
    number: u64,
    told: Arc<Told>,
}

impl Writer {
    fn beside(&self) -> PathBuf {
        self.path.with_extension("new")
    }

    fn run(&mut self, jobs: &Receiver<Job>, wake: impl Fn()) {
        for job in jobs {
            let mut is_news = false;
            let done = match job {
                Job::Begin(number) => {
                    self.number = number;
                    private::create(&self.beside()).map(|file| self.file = Some(file))
                }
                Job::Write(bytes) => {
                    let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(&bytes));
                    let len = bytes.len() as u64;
                    let before = self.told.waiting.fetch_sub(len, Ordering::Relaxed);
                    is_news = before >= AHEAD / 2 && before - len < AHEAD / 2;
                    written
                }
                Job::Publish => {
                    is_news = true;
                    self.publish()
                }
            };
            if let Err(error) = done {
                is_news = true;
                self.fail(error);
            }
            if is_news {
                wake();
            }
        }
    }

    fn publish(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        file.sync_all()?;
        fs::rename(self.beside(), &self.path)?;
        private::sync_folder(&self.path)?;
        self.told.published.store(self.number, Ordering::Release);
        Ok(())
    }

    /// What was written of it goes, and gives its room back.
    fn fail(&mut self, error: io::Error) {
        self.file = None;
        let _ = fs::remove_file(self.beside());
        let error = io::Error::new(error.kind(), format!("{}: {error}", self.path.display()));
        *self.told.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.number, error));
    }
}
