//! memcached's `-d`: the process starts itself again in the background, and ends once that one serves, or with what that one said of why it does not.
//!
//! Why not fork: a process that has threads cannot, and the program may have had some by then. A service manager needs neither: deploy/systemd.

use crate::process::say;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// Tells the process in the background that it is.
const MARK: &str = "MILLRACE_IN_BACKGROUND";
/// What it says once it serves.
const READY: &str = "millrace serves in the background";

/// Which of the two processes this is.
#[derive(Debug, PartialEq, Eq)]
pub enum Process {
    /// The one that was started; the other serves.
    Starter,
    /// The one that is to serve.
    Background,
}

/// Starts this program again with the same arguments in a session of its own, and waits until it serves.
///
/// # Errors
/// It cannot be started, or ended before it served; it has said why.
pub fn detach() -> Result<Process, String> {
    if std::env::var_os(MARK).is_some() {
        // Fails where it leads a group already, and then it needs no other.
        let _ = rustix::process::setsid();
        return Ok(Process::Background);
    }
    let failed = |cause| format!("cannot start this program in the background (-d): {cause}");
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(MARK, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    for line in lines.map_while(Result::ok) {
        if line == READY {
            return Ok(Process::Starter);
        }
        say(&line);
    }
    let status = child.wait().map_err(failed)?;
    Err(format!("the process in the background ended ({status}) before it served"))
}

/// Tells who started it that it serves, and holds on to no terminal from now on; to standard error neither, unless it is to be `verbose`.
///
/// # Errors
/// There is no /dev/null.
pub fn ready(verbose: bool) -> Result<(), String> {
    say(READY);
    let null = std::fs::File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(|cause| format!("cannot open /dev/null: {cause}"))?;
    let redirected = rustix::stdio::dup2_stdin(&null).and_then(|()| rustix::stdio::dup2_stdout(&null));
    let redirected =
        redirected.and_then(|()| if verbose { Ok(()) } else { rustix::stdio::dup2_stderr(&null) });
    redirected.map_err(|cause| format!("cannot let go of the terminal: {cause}"))
}
