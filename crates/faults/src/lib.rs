//! A faulty kernel: system calls of a process that was started with this library preloaded fail, come short, are late, or are answered with a
//! clock that jumps, as a seed says. For tests of what stands between the machines and the kernel; nothing of it is in the program.
//!
//! Why not libc's functions, interposed: rustix calls the kernel itself, so the program under test would be another one than the one that is
//! shipped. Here a seccomp filter has the kernel send SIGSYS for the calls in `call::TRAPPED`, whoever makes them, and the handler
//! (`trap`) decides, makes the call (from the one instruction that the filter lets through) and writes the result into the
//! registers. The vDSO's clocks are turned into system calls, and `rdtsc` into a fault that is answered (`clock`).
//!
//! ```text
//!  test ── Control (a file, mapped by both) ── armed, seed, rate per kind ──▶ handler in the program
//!                                          ◀── calls seen, faults done, log ──
//! ```
//!
//! What is decided: each thread has a stream of numbers of its own, from the seed, the thread's name and which of that name it is, and draws one number
//! per call. A run is therefore *not* the same run again: real threads make their calls in an order that the system chooses. What was done
//! is in the log.
//!
//! Invariants:
//! 1. Only what a kernel may do is done (the table in `decide`): the program has no excuse. In particular nothing that is registered with an
//!    edge-triggered epoll comes short or is said to be empty, because no edge would follow.
//! 2. A [`Lie`] is the exception: what a kernel would never do, and has the effect that a certain bug of a driver would have. With each of them the
//!    checks must fail; so they are known to look.
//! 3. The handler allocates nothing and takes no lock.
//!
//! Bounds: x86-64 Linux. 1,024 threads; those beyond have no faults. Programs that are *started by* the process under test inherit the filter
//! and would have no handler while they are loaded, and die: [`ONLY`] names a word of the command line without which a process is left alone.
//! io_uring and mapped files bypass all of it.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod call;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod clock;
mod control;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod decide;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod raw;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod trap;

pub use control::{Control, Fault, Kind, Lie, Rates, State};

/// The variable that names the file of a [`Control`].
pub const CONTROL: &str = "MILLRACE_FAULTS";
/// The variable with the word that a process must have in its command line to have faults.
pub const ONLY: &str = "MILLRACE_FAULTS_ONLY";
/// The variable that has the clocks trapped; without it they are the system's, and cost what they cost.
pub const CLOCKS: &str = "MILLRACE_FAULTS_CLOCKS";

/// Where the library is that is to be preloaded: beside the test that runs.
///
/// # Errors
/// With a sentence, when it is not there.
pub fn library() -> Result<std::path::PathBuf, String> {
    let here = std::env::current_exe().map_err(|e| format!("where this test is: {e}"))?;
    let folders = here.ancestors().skip(1).take(2);
    let mut candidates = folders.map(|folder| folder.join("libfaults.so"));
    candidates.find(|path| path.is_file()).ok_or_else(|| {
        format!("libfaults.so is not beside {}: cargo build -p millrace-faults", here.display())
    })
}
