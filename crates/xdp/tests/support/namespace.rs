//! Network namespaces with veth pairs between them; gone when dropped, after a panic too. What a killed run left is swept up by the
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
    _own: Namespaces,
}

impl Pair {
    /// None, after a line that says why, where this process may not make namespaces.
    pub fn new(what: &str) -> Option<Pair> {
        let own = Namespaces::new(what, &["c", "b"])?;
        let [client, boxed] = [0, 1].map(|i| own.0[i].clone());
        connect((&client, "c0", "10.77.0.1/24"), (&boxed, "b0", "10.77.0.2/24"));
        Some(Pair { client, boxed, _own: own })
    }
}

/// Client, box and server in a row, each in its own: 10.77.0.1 on `c0`, 10.77.0.2 on `b0`; 10.78.0.2 on `b1`, 10.78.0.1 on `s0`. The
/// box's machine routes between the two networks, and knows the server's hardware address from the beginning.
pub struct Path {
    pub client: String,
    pub boxed: String,
    pub server: String,
    _own: Namespaces,
}

impl Path {
    /// As [`Pair::new`].
    pub fn new(what: &str) -> Option<Path> {
        let own = Namespaces::new(what, &["c", "b", "s"])?;
        let [client, boxed, server] = [0, 1, 2].map(|i| own.0[i].clone());
        connect((&client, "c0", "10.77.0.1/24"), (&boxed, "b0", "10.77.0.2/24"));
        connect((&server, "s0", "10.78.0.1/24"), (&boxed, "b1", "10.78.0.2/24"));
        ip(&["-n", &client, "route", "add", "default", "via", "10.77.0.2"]);
        ip(&["-n", &server, "route", "add", "default", "via", "10.78.0.2"]);
        let forwarding = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        let server_mac = mac(&server, "s0");
        ip(&[
            "-n",
            &boxed,
            "neigh",
            "replace",
            "10.78.0.1",
            "lladdr",
            &server_mac,
            "dev",
            "b1",
            "nud",
            "permanent",
        ]);
        within(&boxed, forwarding).expect("a namespace's settings are its own");
        Some(Path { client, boxed, server, _own: own })
    }
}

struct Namespaces(Vec<String>);

impl Namespaces {
    fn new(what: &str, letters: &[&str]) -> Option<Namespaces> {
        // SAFETY: it only asks.
        if unsafe { libc::geteuid() } != 0 {
            skip(what, "network namespaces need root");
            return None;
        }
        sweep();
        let own = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let names = Namespaces(letters.iter().map(|letter| format!("{own}-{letter}")).collect());
        for name in &names.0 {
            if let Err(error) = try_ip(&["netns", "add", name]) {
                skip(what, &format!("ip netns add: {error}"));
                return None;
            }
            ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        Some(names)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _may_be_gone = try_ip(&["netns", "delete", name]);
        }
    }
}

/// A veth pair: namespace, interface and address of each end.
fn connect(one: (&str, &str, &str), other: (&str, &str, &str)) {
    ip(&["link", "add", one.1, "netns", one.0, "type", "veth", "peer", "name", other.1, "netns", other.0]);
    for (namespace, name, address) in [one, other] {
        ip(&["-n", namespace, "address", "add", address, "dev", name]);
        ip(&["-n", namespace, "link", "set", name, "up"]);
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

/// An interface's hardware address, as text.
pub fn mac(namespace: &str, interface: &str) -> String {
    let output = Command::new("ip").args(["-n", namespace, "-br", "link", "show", interface]).output();
    let text = String::from_utf8(output.expect("ip is there").stdout).expect("text");
    text.split_whitespace().nth(2).expect("the third column").to_string()
}

/// # Panics
/// Where it fails.
pub fn ip(arguments: &[&str]) {
    try_ip(arguments).unwrap_or_else(|error| panic!("ip {arguments:?}: {error}"));
}

fn try_ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Deletes what processes left that are no more.
fn sweep() {
    let Ok(names) = std::fs::read_dir("/run/netns") else { return };
    for name in names.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !std::path::Path::new(&format!("/proc/{process}")).exists()) {
            let _somebody_else_may_sweep = try_ip(&["netns", "delete", &name]);
        }
    }
}
