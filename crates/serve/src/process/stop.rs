//! How a program is told to stop: once for all of its threads, however it is told.
//!
//! ```text
//!  SIGINT, SIGTERM ─┐                     ┌─▶ flag: loops look at it between two turns
//!  end of input ────┼─▶ Stop ─────────────┤
//!  a thread's end ──┘   (SIGHUP: a hint)  └─▶ bell: a socket; whoever waits is woken at once
//! ```
//! The first signal is told to the program, which answers what has come; the second ends it at once, with 128 and its number. Nothing polls: who waits
//! sleeps on the bell.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// See the head of the file. Clones are of the same.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_set: Arc<AtomicBool>,
    hung_up: Arc<AtomicBool>,
    /// The next signal ends the process.
    ends_at_once: Arc<AtomicBool>,
    /// Signals set it.
    by_signals: bool,
    bell: UnixStream,
    heard: UnixStream,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The program is to stop.
    Stop,
    /// SIGHUP.
    HangUp,
    /// Nothing for so long.
    TimedOut,
}

impl Stop {
    /// One that only the program itself sets.
    ///
    /// # Errors
    /// The system gives no descriptors.
    pub fn new() -> io::Result<Stop> {
        Stop::of(false)
    }

    fn of(by_signals: bool) -> io::Result<Stop> {
        let (bell, heard) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        let [is_set, hung_up, ends_at_once] = [(); 3].map(|()| Arc::default());
        Ok(Stop(Arc::new(Inner { is_set, hung_up, ends_at_once, by_signals, bell, heard })))
    }

    /// One that Ctrl-C and SIGTERM set.
    ///
    /// # Errors
    /// The system's, when the signals cannot be caught.
    pub fn on_signals() -> io::Result<Stop> {
        let stop = Stop::of(true)?;
        let Inner { is_set, ends_at_once, bell, .. } = &*stop.0;
        for signal in [SIGINT, SIGTERM] {
            // In this order: what the first signal sets ends the program at the second.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(ends_at_once))?;
            flag::register(signal, Arc::clone(ends_at_once))?;
            flag::register(signal, Arc::clone(is_set))?;
            pipe::register(signal, bell.try_clone()?)?;
        }
        Ok(stop)
    }

    /// If signals set it, SIGHUP wakes whoever waits, too; unless the process was started so that it ignores it, as nohup does.
    ///
    /// # Errors
    /// The system's, when the signal cannot be caught.
    pub fn catch_hang_ups(&self) -> io::Result<()> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        if self.0.by_signals && ignored >> (SIGHUP - 1) & 1 == 0 {
            flag::register(SIGHUP, Arc::clone(&self.0.hung_up))?;
            pipe::register(SIGHUP, self.0.bell.try_clone()?)?;
        }
        Ok(())
    }

    /// Whether the first signal is to end the process at once: while there is nothing to bring to an end.
    pub fn set_ends_at_once(&self, ends: bool) {
        self.0.ends_at_once.store(ends, Ordering::Relaxed);
    }

    /// Tells the program to stop.
    pub fn stop(&self) {
        self.0.is_set.store(true, Ordering::Relaxed);
        // A bell that is full of rings has been rung.
        let _ = (&self.0.bell).write(b"x");
    }

    /// Tells it when standard input is closed, too.
    pub fn at_eof(&self) {
        let stop = self.clone();
        std::thread::spawn(move || {
            // An error ends it as the end does.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            stop.stop();
        });
    }

    /// Whether it was told to.
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Relaxed)
    }

    /// The same, for loops that look at it between two turns.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.0.is_set
    }

    /// Waits until it is set, or for so long. One thread waits.
    pub fn wait(&self, longest: Duration) -> Woken {
        if self.is_set() {
            return Woken::Stop;
        }
        let span = Timespec {
            tv_sec: longest.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: longest.subsec_nanos().into(),
        };
        // Errors mean the same as a wake-up: look again.
        let _ = poll(&mut [PollFd::new(&self.0.heard, PollFlags::IN)], Some(&span));
        // Before the flags: a ring from now on is heard by the next wait.
        while matches!((&self.0.heard).read(&mut [0; 64]), Ok(1..)) {}
        match self.0.hung_up.swap(false, Ordering::Relaxed) {
            _ if self.is_set() => Woken::Stop,
            true => Woken::HangUp,
            false => Woken::TimedOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_is_woken_once_it_is_set() {
        let stop = Stop::new().expect("descriptors");
        assert_eq!(stop.wait(Duration::ZERO), Woken::TimedOut);
        let other = stop.clone();
        let waiting = std::thread::spawn(move || other.wait(Duration::from_secs(600)));
        stop.stop();
        assert_eq!(waiting.join().expect("it returns"), Woken::Stop);
        assert_eq!(stop.wait(Duration::from_secs(600)), Woken::Stop, "once set it stays so");
    }
}
