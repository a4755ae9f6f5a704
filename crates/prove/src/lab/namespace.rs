//! Network namespaces with names: entering, listing, deleting, and whose processes are in them.
//!
//! Only such are touched whose name begins with [`PREFIX`]. What belongs to a lab is asked of the kernel, not of a list of process numbers:
//! whoever is in one of its namespaces, started by whomever. So a lab can be cleared away after its maker was killed at any moment.

use super::LabError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Of all namespaces of all labs.
pub const PREFIX: &str = "mrlab-";
/// Where `ip netns` has them.
const FOLDER: &str = "/run/netns";
/// Processes that were killed are gone within this.
const PATIENCE: Duration = Duration::from_secs(5);

/// Those whose names begin so.
pub fn beginning_with(prefix: &str) -> Vec<String> {
    assert!(prefix.starts_with(PREFIX), "only namespaces of labs are looked at");
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names
}

/// Moves the calling thread, which should stay there or end soon.
pub fn enter(namespace: &str) -> Result<(), LabError> {
    let failed = |cause| LabError::Io(format!("entering the namespace {namespace}"), cause);
    let file = fs::File::open(format!("{FOLDER}/{namespace}")).map_err(failed)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|errno| failed(errno.into()))
}

/// Runs in a namespace, on a thread of its own. A process that is started there is in it.
pub fn within<T: Send>(
    namespace: &str,
    run: impl FnOnce() -> Result<T, LabError> + Send,
) -> Result<T, LabError> {
    let inside = || {
        enter(namespace)?;
        run()
    };
    std::thread::scope(|scope| {
        scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// What the kernel knows a namespace by.
type Identity = (u64, u64);

fn identity(path: &str) -> Option<Identity> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// The namespace that the process is in.
fn of_process(pid: u32) -> Option<Identity> {
    identity(&format!("/proc/{pid}/ns/net"))
}

/// Processes in any of these.
fn members(namespaces: &BTreeSet<Identity>) -> io::Result<Vec<u32>> {
    let numbers =
        fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(numbers.filter(|pid| of_process(*pid).is_some_and(|of| namespaces.contains(&of))).collect())
}

/// Processes in a namespace.
///
/// # Errors
/// The kernel does not tell.
pub fn pids(namespace: &str) -> Result<Vec<u32>, LabError> {
    let known = identity(&format!("{FOLDER}/{namespace}")).into_iter().collect();
    members(&known).map_err(LabError::io("reading /proc"))
}

/// Ends all processes in namespaces that begin with `prefix`, and deletes those; how many there were of both.
///
/// # Errors
/// The caller is in one of them, a process does not end, or the kernel refuses.
pub fn clear(prefix: &str) -> Result<(usize, usize), LabError> {
    let names = beginning_with(prefix);
    let known: BTreeSet<Identity> =
        names.iter().filter_map(|name| identity(&format!("{FOLDER}/{name}"))).collect();
    let lab = prefix.trim_start_matches(PREFIX).trim_end_matches('-').to_string();
    if of_process(std::process::id()).is_some_and(|own| known.contains(&own)) {
        return Err(LabError::Inside(lab));
    }
    let until = Instant::now() + PATIENCE;
    let mut ended = 0;
    loop {
        let pids = members(&known).map_err(LabError::io("reading /proc"))?;
        if pids.is_empty() {
            break;
        }
        if Instant::now() > until {
            return Err(LabError::Survived(lab, pids));
        }
        ended += pids.into_iter().filter(|pid| kill(*pid, &known)).count();
    }
    for name in &names {
        let lines = vec![format!("netns delete {name}")];
        super::ip::run(&super::network::Batch { namespace: None, lines })?;
    }
    Ok((ended, names.len()))
}

/// Kills a process and waits for its end, if it is in one of these. Its number may have become another's since: the descriptor holds on to
/// it, then it is asked again.
fn kill(pid: u32, namespaces: &BTreeSet<Identity>) -> bool {
    let Some(number) = Pid::from_raw(pid as i32) else { return false };
    let Ok(process) = pidfd_open(number, PidfdFlags::empty()) else { return false };
    if !of_process(pid).is_some_and(|of| namespaces.contains(&of)) {
        return false;
    }
    // One that has just ended is what was wanted.
    let _ = pidfd_send_signal(&process, Signal::KILL);
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&second)).is_ok_and(|ended| ended == 1)
}
