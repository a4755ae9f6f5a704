//! The switches and counters that a test and the program under test have in common: a file that both map.

use std::fs::OpenOptions;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Faults that are remembered.
const LOG: usize = 8192;
/// Rates are out of so many.
pub(crate) const OUT_OF: u64 = 10_000;
const MAGIC: u64 = u64::from_le_bytes(*b"MRFAULT1");

macro_rules! kinds {
    ($(#[doc = $doc:literal] $name:ident)*) => {
        /// What goes wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Kind { $(#[doc = $doc] $name),* }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Kind] = &[$(Kind::$name),*];
        }
    };
}

kinds! {
    /// A read or write of fewer bytes, or of fewer datagrams, than there are.
    Short
    /// EAGAIN where somebody asked not to wait.
    Again
    /// EINTR from a call that waits.
    Interrupted
    /// A connection that is reset.
    Reset
    /// EMFILE or ENFILE.
    NoDescriptors
    /// ECONNABORTED from accept.
    Aborted
    /// ENOSPC from a file.
    NoSpace
    /// EIO from a file.
    Broken
    /// A file's sync that takes [`State::slow_ns`].
    Slow
    /// A datagram that does not arrive.
    Lost
    /// ENOBUFS from a send of datagrams.
    NoBuffers
    /// The wall clock is set, by up to an hour forth or back.
    WallStep
    /// The cycle counter goes on later, by up to [`State::jump_ns`]: a machine that slept.
    CounterJump
    /// It goes on earlier: a machine that was moved.
    CounterBack
}

const KINDS: usize = Kind::CounterBack as usize + 1;

/// What no kernel does: it has the effect of a bug in a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Lie {
    /// None.
    No,
    /// A short write is taken for a whole one.
    ShortTakenForWhole,
    /// After a short write all is written again.
    ShortWrittenAgain,
    /// A short read is taken for the end.
    ShortTakenForEnd,
    /// EAGAIN closes the connection.
    AgainCloses,
    /// After EMFILE nothing is accepted any more.
    NoDescriptorsEndsAccepting,
    /// A log write that failed is acknowledged.
    NoSpaceTakenForWritten,
    /// Somebody who sleeps is not woken: a bell that does not ring.
    BellLost,
}

impl Lie {
    const ALL: [Lie; 8] = [
        Lie::No,
        Lie::ShortTakenForWhole,
        Lie::ShortWrittenAgain,
        Lie::ShortTakenForEnd,
        Lie::AgainCloses,
        Lie::NoDescriptorsEndsAccepting,
        Lie::NoSpaceTakenForWritten,
        Lie::BellLost,
    ];
}

/// How many of 10,000 calls that may go wrong in this way do.
pub type Rates<'a> = &'a [(Kind, u32)];

/// What is in the file.
#[repr(C)]
pub struct State {
    magic: AtomicU64,
    /// Drawn from by all threads.
    pub seed: AtomicU64,
    armed: AtomicU32,
    lie: AtomicU32,
    rates: [AtomicU32; KINDS],
    /// Processes that began to draw: each draws otherwise, so that one which is started again does not fail in the same place for ever.
    processes: AtomicU32,
    /// How long a slow sync takes.
    pub slow_ns: AtomicU64,
    /// How far the cycle counter jumps at most.
    pub jump_ns: AtomicU64,
    /// Faults to come.
    pub budget: AtomicI64,
    /// Calls seen while it was armed.
    pub calls: AtomicU64,
    /// How far the wall clock is from the system's.
    pub(crate) wall_ns: AtomicI64,
    /// How far the cycle counter is from the system's monotonic clock.
    pub(crate) counter_ns: AtomicI64,
    done: [AtomicU64; KINDS],
    logged: AtomicU64,
    log: [AtomicU64; LOG],
}

impl State {
    /// Whether anything goes wrong now.
    pub fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn lie(&self) -> Lie {
        Lie::ALL.get(self.lie.load(Ordering::Relaxed) as usize).copied().unwrap_or(Lie::No)
    }

    pub(crate) fn rate(&self, kind: Kind) -> u64 {
        self.rates[kind as usize].load(Ordering::Relaxed).into()
    }

    /// Takes one fault out of the budget, and remembers it.
    pub(crate) fn note(&self, kind: Kind, nr: i64, fd: i64) -> bool {
        if self.budget.fetch_sub(1, Ordering::Relaxed) <= 0 {
            self.budget.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.done[kind as usize].fetch_add(1, Ordering::Relaxed);
        let at = self.logged.fetch_add(1, Ordering::Relaxed) as usize % LOG;
        let entry = (kind as u64) << 56 | (nr as u64 & 0xFFFF) << 32 | (fd as u64 & 0xFFFF_FFFF);
        self.log[at].store(entry, Ordering::Relaxed);
        true
    }

    /// How often this went wrong.
    pub fn done(&self, kind: Kind) -> u64 {
        self.done[kind as usize].load(Ordering::Relaxed)
    }
}

/// A fault that was done: which, in the system call of this number, on this descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What went wrong.
    pub kind: Kind,
    /// The system call's number.
    pub call: u16,
    /// Its first argument.
    pub fd: i32,
}

/// The file, mapped.
pub struct Control {
    state: &'static State,
    path: PathBuf,
}

impl Deref for Control {
    type Target = State;

    fn deref(&self) -> &State {
        self.state
    }
}

impl Control {
    /// A new file of switches, all of them off; removed by who made it.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path, seed: u64) -> io::Result<Control> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(size_of::<State>() as u64)?;
        let state = map(&file)?;
        state.seed.store(seed, Ordering::Relaxed);
        state.budget.store(i64::MAX / 2, Ordering::Relaxed);
        state.slow_ns.store(20_000_000, Ordering::Relaxed);
        state.jump_ns.store(2_000_000_000, Ordering::Relaxed);
        state.magic.store(MAGIC, Ordering::Release);
        Ok(Control { state, path: path.to_path_buf() })
    }

    /// The state in a file that a test made, and the number of this process among those that opened it.
    pub(crate) fn open(path: &Path) -> io::Result<(&'static State, u32)> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() != size_of::<State>() as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let state = map(&file)?;
        if state.magic.load(Ordering::Acquire) != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok((state, state.processes.fetch_add(1, Ordering::Relaxed)))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on these go wrong, and no others.
    pub fn arm(&self, rates: Rates<'_>, lie: Lie) {
        self.state.armed.store(0, Ordering::SeqCst);
        self.state.rates.iter().for_each(|rate| rate.store(0, Ordering::Relaxed));
        for (kind, rate) in rates {
            self.state.rates[*kind as usize].store(*rate, Ordering::Relaxed);
        }
        self.state.lie.store(lie as u32, Ordering::Relaxed);
        self.state.armed.store(1, Ordering::SeqCst);
    }

    /// From now on nothing goes wrong.
    pub fn disarm(&self) {
        self.state.armed.store(0, Ordering::SeqCst);
    }

    /// The faults that were done, the last `LOG` of them.
    pub fn log(&self) -> Vec<Fault> {
        let logged = self.state.logged.load(Ordering::Relaxed) as usize;
        (logged.saturating_sub(LOG)..logged)
            .map(|at| {
                let entry = self.state.log[at % LOG].load(Ordering::Relaxed);
                let kind = Kind::ALL[(entry >> 56) as usize % KINDS];
                Fault { kind, call: (entry >> 32) as u16, fd: entry as i32 }
            })
            .collect()
    }

    /// How many of each kind were done, in words.
    pub fn summary(&self) -> String {
        let done = Kind::ALL.iter().filter(|kind| self.done(**kind) > 0);
        let words: Vec<_> = done.map(|kind| format!("{kind:?} {}", self.done(*kind))).collect();
        format!("{} calls; {}", self.calls.load(Ordering::Relaxed), words.join(", "))
    }
}

/// Maps a file of this size, for as long as the process lives: the program under test may have threads to its end.
fn map(file: &std::fs::File) -> io::Result<&'static State> {
    // SAFETY: a new mapping, of a file that is as long as the state; the address is the system's choice.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<State>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is mapped and never unmapped, aligned to a page, and any bytes are a state of atomics.
    Ok(unsafe { &*at.cast::<State>() })
}
