//! Network namespaces without names: gone with their last descriptor, whatever became of who made them.
//!
//! Why not those of `prove`'s lab: they have names in a folder of root's, so that a lab outlives its maker; this one is to leave nothing,
//! and to need no root.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Output};
use std::thread;

/// A network of its own.
pub struct Namespace {
    file: File,
}

/// Makes the process root of a user namespace of its own, if it is not root already. To be called before there are threads.
///
/// # Errors
/// The system has it off; the sentence says how to turn it on.
pub fn become_root() -> Result<(), String> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if uid == 0 {
        return Ok(());
    }
    let refused = |error: io::Error| {
        format!(
            "no namespaces without root here ({error}): run `gateway lab` as root, or allow them: \
             sysctl kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=1000"
        )
    };
    // SAFETY: it changes this process's namespaces, and no memory.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
        return Err(refused(io::Error::last_os_error()));
    }
    std::fs::write("/proc/self/setgroups", "deny").map_err(refused)?;
    std::fs::write("/proc/self/uid_map", format!("0 {uid} 1")).map_err(refused)?;
    std::fs::write("/proc/self/gid_map", format!("0 {gid} 1")).map_err(refused)
}

impl Namespace {
    /// An empty one.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new() -> io::Result<Namespace> {
        let make = || {
            // SAFETY: it changes this thread's namespace, and no memory; the thread ends.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            File::open("/proc/thread-self/ns/net")
        };
        let file = thread::scope(|scope| scope.spawn(make).join()).expect("it does not panic")?;
        let namespace = Namespace { file };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Moves the calling thread here: it should stay or end soon.
    ///
    /// # Errors
    /// The system refuses.
    pub fn enter(&self) -> io::Result<()> {
        let kind = rustix::thread::LinkNameSpaceType::Network;
        Ok(rustix::thread::move_into_link_name_space(self.file.as_fd(), Some(kind))?)
    }

    /// Runs here, on a thread of its own.
    ///
    /// # Errors
    /// The system refuses, or what `run` says.
    pub fn within<T: Send>(&self, run: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let inside = || {
            self.enter()?;
            run()
        };
        thread::scope(|scope| {
            scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// What stands for it in `ip`'s arguments.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Runs a program here.
    ///
    /// # Errors
    /// It is not there, or the system refuses.
    pub fn run(&self, command: &mut Command) -> io::Result<Output> {
        self.within(|| command.output())
    }

    /// Runs `ip` with these words here.
    ///
    /// # Errors
    /// It is not there, or it refuses.
    pub fn ip(&self, words: &str) -> io::Result<()> {
        let output = self.run(Command::new("ip").args(words.split(' ')))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(io::Error::other(format!("ip {words}: {}", said.trim())))
            }
        }
    }
}
