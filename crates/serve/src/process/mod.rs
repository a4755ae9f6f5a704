//! What every command of this program does alike: how it is stopped, what it prints while it runs, what it reads from its command line.
//!
//! | file | what it is |
//! |---|---|
//! | `stop` | how servers are told to stop |
//! | `table`, `cluster_file` | of `client`: config files, with the line of what is wrong; which tables the file of a cluster has |
//! | `parse` | times, counts, rates, addresses and `--set` as people write them |
//! | `progress` | progress bars |
//! | `logger`, `log_filter` | what servers log: text or JSON; whose messages from which level on |
//! | `interrupt` | Ctrl-C that ends a measurement early |
//! | `systemd` | what a service manager is told |
//! | `panics` | panics of machines under test, caught |

pub mod interrupt;
pub mod listen;
pub mod log_filter;
pub mod logger;
pub mod panics;
pub mod parse;
pub mod progress;
pub mod stop;
pub mod systemd;
pub mod tls;

pub use ::client::file as cluster_file;
pub use ::client::table;
pub use stop::Stop;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Prints a line that others may wait for.
pub fn say(line: &str) {
    let mut out = io::stdout().lock();
    // Whoever does not listen any more does not stop a server.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The command is killed when this process, or the thread that starts it, ends.
pub fn end_with_this_process(command: &mut Command) {
    let parent = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Had the parent ended before, nobody would be told.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    };
    // SAFETY: between fork and exec it makes two system calls, and touches no memory but its own stack.
    unsafe { command.pre_exec(bind) };
}
