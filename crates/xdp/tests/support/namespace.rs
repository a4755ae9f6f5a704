//! Two network namespaces with a veth pair between them; gone when dropped, after a panic too. What a killed run left is swept up by the
//! next one.

use super::skip;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "millrace-xdp-";
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Client in one (10.77.0.1 on `c0`), box in the other (10.77.0.2 on `b0`).
pub struct Pair {
    pub client: String,
    pub boxed: String,
}

impl Pair {
    /// None, after a line that says why, where this process may not make namespaces.
    pub fn new(what: &str) -> Option<Pair> {
        // SAFETY: it only asks.
        if unsafe { libc::geteuid() } != 0 {
            skip(what, "network namespaces need root");
            return None;
        }
        sweep();
        let own = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let pair = Pair { client: format!("{own}-c"), boxed: format!("{own}-b") };
        for name in [&pair.client, &pair.boxed] {
            if let Err(error) = ip(&["netns", "add", name]) {
                skip(what, &format!("ip netns add: {error}"));
                return None;
            }
        }
        pair.build().unwrap_or_else(|error| panic!("veth pair: {error}"));
        Some(pair)
    }

    fn build(&self) -> Result<(), String> {
        let (c, b) = (&self.client[..], &self.boxed[..]);
        ip(&["link", "add", "c0", "netns", c, "type", "veth", "peer", "name", "b0", "netns", b])?;
        for (namespace, name, address) in [(c, "c0", "10.77.0.1/24"), (b, "b0", "10.77.0.2/24")] {
            ip(&["-n", namespace, "address", "add", address, "dev", name])?;
            ip(&["-n", namespace, "link", "set", name, "up"])?;
            ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in [&self.client, &self.boxed] {
            let _may_be_gone = ip(&["netns", "delete", name]);
        }
    }
}

/// Runs in a namespace, on a thread of its own.
pub fn within<T: Send>(namespace: &str, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                enter(namespace);
                run()
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Moves the calling thread, which should end soon or stay there.
pub fn enter(namespace: &str) {
    let file = std::fs::File::open(format!("/run/netns/{namespace}")).expect("the namespace was made");
    // SAFETY: a descriptor that is open; only this thread moves.
    let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(result, 0, "setns: {}", std::io::Error::last_os_error());
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Deletes what processes left that are no more.
fn sweep() {
    let Ok(names) = std::fs::read_dir("/run/netns") else { return };
    for name in names.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !std::path::Path::new(&format!("/proc/{process}")).exists()) {
            let _somebody_else_may_sweep = ip(&["netns", "delete", &name]);
        }
    }
}
