//! A medium with a thread of its own: who writes and persists goes on at once, however long the device takes.
//!
//! ```text
//!   write_at ──▶ queued ──start──▶ job ──channel──▶ thread: writes, persist ──channel──▶ is_done, persist
//!        └── read_at sees all that is queued or under way, laid over what the reader says
//! ```
//! Why a thread and not io_uring ([`super::Uring`]): it is there in every container, and a write that blocks (`O_DSYNC`, a full page cache)
//! blocks nobody else.
//!
//! Invariants: (1) jobs are done in order, one at a time; (2) the bytes of a job are laid over reads until it is done, so what a reader says of
//! them meanwhile does not matter; (3) after an error the thread does nothing more, and every call says that error.
//!
//! Bounds: what is written and not done is kept in memory; the writer decides how much that is.
//! Cost: a wake-up there and one back, 35 µs each on the machine of `docs/measurements/redo.md`.

use super::{Class, Media, within};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Bytes and where they belong.
type Write = (u64, Arc<[u8]>);

/// What the thread does at once.
struct Job {
    writes: Vec<Write>,
    ranges: Vec<Range<u64>>,
}

/// See the file's head.
pub struct Threaded {
    reader: Box<dyn Media + Send>,
    /// `None` while it is dropped.
    jobs: Option<Sender<Job>>,
    results: Receiver<io::Result<()>>,
    thread: Option<JoinHandle<()>>,
    /// Written, and not given to the thread.
    queued: Vec<Write>,
    /// What each job writes that is not done.
    under_way: VecDeque<Vec<Write>>,
    failed: Option<(io::ErrorKind, String)>,
}

impl Threaded {
    /// `writer` on a thread of its own. `reader` is the same medium once more: it says what the writer wrote. `wake` is called, on that thread, after
    /// each job.
    ///
    /// # Errors
    /// The system's: no thread can be had.
    pub fn start(
        name: &str,
        reader: impl Media + Send + 'static,
        writer: impl Media + Send + 'static,
        wake: impl Fn() + Send + 'static,
    ) -> io::Result<Threaded> {
        let (jobs, to_do) = channel();
        let (tell, results) = channel();
        let run = move || work(writer, &to_do, &tell, wake);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Threaded {
            reader: Box::new(reader),
            jobs: Some(jobs),
            results,
            thread: Some(thread),
            queued: Vec::new(),
            under_way: VecDeque::new(),
            failed: None,
        })
    }

    /// # Errors
    /// That of the first job that failed.
    fn usable(&self) -> io::Result<()> {
        let told = |(kind, text): &(io::ErrorKind, String)| Err(io::Error::new(*kind, text.clone()));
        self.failed.as_ref().map_or(Ok(()), told)
    }

    fn note(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => drop(self.under_way.pop_front()),
            Err(error) => self.failed = self.failed.take().or(Some((error.kind(), error.to_string()))),
        }
    }

    fn gone() -> io::Error {
        io::Error::other("the thread that writes it has ended")
    }
}

/// Does jobs until there are no more, or one fails.
fn work(mut writer: impl Media, jobs: &Receiver<Job>, results: &Sender<io::Result<()>>, wake: impl Fn()) {
    for Job { writes, ranges } in jobs {
        let written = writes.iter().try_for_each(|(at, bytes)| writer.write_at(*at, bytes));
        let result = written.and_then(|()| writer.persist(&ranges));
        let has_failed = result.is_err();
        // Who does not listen any more has dropped the other end, too.
        let is_heard = results.send(result).is_ok();
        wake();
        if has_failed || !is_heard {
            return;
        }
    }
}

impl Media for Threaded {
    fn len(&self) -> u64 {
        self.reader.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.reader.read_at(offset, out)?;
        let end = offset + out.len() as u64;
        for (at, bytes) in self.under_way.iter().flatten().chain(&self.queued) {
            let (from, to) = ((*at).max(offset), (at + bytes.len() as u64).min(end));
            if from < to {
                let piece = &bytes[(from - at) as usize..(to - at) as usize];
                out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(piece);
            }
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.usable()?;
        within(offset, bytes.len(), self.len())?;
        self.queued.push((offset, bytes.into()));
        Ok(())
    }

    fn start(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        self.usable()?;
        let writes = std::mem::take(&mut self.queued);
        self.under_way.push_back(writes.clone());
        let job = Job { writes, ranges: ranges.to_vec() };
        // A thread that has ended is seen where its results are.
        let _ = self.jobs.as_ref().expect("it is not dropped").send(job);
        Ok(())
    }

    fn is_done(&mut self) -> bool {
        while self.failed.is_none() && !self.under_way.is_empty() {
            match self.results.try_recv() {
                Ok(result) => self.note(result),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => self.note(Err(Threaded::gone())),
            }
        }
        true
    }

    /// What was written and is done is persisted already.
    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        if !self.queued.is_empty() {
            self.start(ranges)?;
        }
        while self.failed.is_none() && !self.under_way.is_empty() {
            let result = self.results.recv().unwrap_or_else(|_| Err(Threaded::gone()));
            self.note(result);
        }
        self.usable()
    }

    fn class(&self) -> Class {
        self.reader.class()
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It has the file's lock; one that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// One medium that two have: a writer and a reader.
impl<M: Media> Media for Arc<Mutex<M>> {
    fn len(&self) -> u64 {
        self.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.lock().unwrap_or_else(PoisonError::into_inner).read_at(offset, out)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.lock().unwrap_or_else(PoisonError::into_inner).write_at(offset, bytes)
    }

    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        self.lock().unwrap_or_else(PoisonError::into_inner).persist(ranges)
    }

    fn class(&self) -> Class {
        self.lock().unwrap_or_else(PoisonError::into_inner).class()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Crashing, Fault};
    use super::*;

    /// A medium whose persisting waits until it is let.
    struct Gated<M>(M, Receiver<()>);

    impl<M: Media> Media for Gated<M> {
        fn len(&self) -> u64 {
            self.0.len()
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read_at(offset, out)
        }

        fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write_at(offset, bytes)
        }

        fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
            let _ = self.1.recv();
            self.0.persist(ranges)
        }

        fn class(&self) -> Class {
            self.0.class()
        }
    }

    fn gated(medium: Crashing) -> (Threaded, Arc<Mutex<Crashing>>, Sender<()>, Receiver<()>) {
        let shared = Arc::new(Mutex::new(medium));
        let (open, gate) = channel();
        let (woken, wakes) = channel();
        let wake = move || {
            let _ = woken.send(());
        };
        let writer = Gated(Arc::clone(&shared), gate);
        let threaded = Threaded::start("test", Arc::clone(&shared), writer, wake).expect("a thread");
        (threaded, shared, open, wakes)
    }

    #[test]
    fn who_writes_goes_on_and_reads_what_it_wrote_while_the_device_takes_its_time() {
        let (mut medium, below, open, wakes) = gated(Crashing::new(256));
        medium.write_at(10, &[1; 20]).expect("it is queued");
        medium.start(&[10..30]).expect("it is begun");
        medium.write_at(20, &[2; 20]).expect("it is queued");
        let mut out = [0; 40];
        medium.read_at(5, &mut out).expect("inside");
        assert_eq!((out[4], out[5], out[14], out[15], out[34], out[35]), (0, 1, 1, 2, 2, 0));
        assert!(!medium.is_done(), "nobody has let it");
        open.send(()).expect("it listens");
        wakes.recv().expect("it wakes who waits");
        assert!(medium.is_done());
        open.send(()).expect("it listens");
        medium.persist(&[20..40]).expect("no fault");
        assert_eq!(below.lock().expect("nobody panicked").undecided(), 0, "all of it is durable");
    }

    #[test]
    fn an_error_is_told_and_nothing_is_done_after_it() {
        let mut failing = Crashing::new(256);
        failing.inject(1, Fault::Error);
        let (mut medium, below, open, wakes) = gated(failing);
        medium.write_at(0, &[1; 8]).expect("it is queued");
        medium.start(&[0..8]).expect("it is begun");
        medium.write_at(64, &[2; 8]).expect("it is queued");
        medium.start(&[64..72]).expect("it is begun");
        drop(open);
        wakes.recv().expect("it wakes who waits");
        assert!(medium.persist(&[]).is_err() && medium.write_at(0, &[3]).is_err() && medium.is_done());
        drop(medium);
        assert_eq!(below.lock().expect("nobody panicked").operations(), 2, "the second job was not begun");
    }
}
