//! What a service manager is told that speaks systemd's protocol (`sd_notify`, $NOTIFY_SOCKET): that the process serves, drains, and whether its loops turn
//! (`WatchdogSec=`, $WATCHDOG_USEC). Where there is none, nothing. And what it hands over: listeners that it opened before (socket activation, $LISTEN_FDS), so
//! that clients can connect while a process ends and the next begins.
//!
//! Invariant: a descriptor that was handed over has one owner: the list, then whoever listens at its address.

use crate::admin::health::{Pulse, STALL_TIMEOUT, stalled};
use rustix::net::SocketAddrAny;
use sd_notify::NotifyState;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Tells it. Whoever does not listen does not stop a server.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        log::warn!("the service manager at $NOTIFY_SOCKET cannot be told {states:?}: {error}");
    }
}

/// It serves, under these addresses.
pub fn ready(addresses: &[String]) {
    tell(&[NotifyState::Ready, NotifyState::Status(&format!("serves {}", addresses.join(", ")))]);
}

/// It answers what has come, and ends.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

/// Listeners that were handed over and that nobody has taken.
static HANDED_OVER: LazyLock<Mutex<Vec<OwnedFd>>> = LazyLock::new(|| {
    let handed = sd_notify::listen_fds().map(Iterator::collect::<Vec<_>>).unwrap_or_else(|error| {
        log::error!("what the service manager hands over by $LISTEN_FDS is not taken: {error}");
        Vec::new()
    });
    // SAFETY: systemd's protocol gives them to this process, which is $LISTEN_PID, and nothing else here makes owners of descriptors that it did not
    // open; this runs once.
    Mutex::new(handed.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect())
});

fn take(is_it: impl Fn(&SocketAddrAny) -> bool) -> Option<OwnedFd> {
    let mut handed = HANDED_OVER.lock().unwrap_or_else(PoisonError::into_inner);
    let at = handed
        .iter()
        .position(|socket| rustix::net::getsockname(socket).is_ok_and(|address| is_it(&address)))?;
    Some(handed.swap_remove(at))
}

/// The listener at this address that the service manager opened, if it did.
///
/// # Errors
/// The system's.
pub fn tcp_listener(address: SocketAddr) -> io::Result<Option<TcpListener>> {
    let found = take(|bound| SocketAddr::try_from(bound.clone()).is_ok_and(|bound| bound == address));
    let listener = found.map(TcpListener::from);
    listener.as_ref().map_or(Ok(()), |listener| listener.set_nonblocking(true))?;
    Ok(listener)
}

/// That listener, or one of our own.
///
/// # Errors
/// The system's, for example when the address is taken.
pub fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    tcp_listener(address)?.map_or_else(|| TcpListener::bind(address), Ok)
}

/// The same of a Unix socket at a path.
///
/// # Errors
/// The system's.
pub fn unix_listener(path: &Path) -> io::Result<Option<OwnedFd>> {
    let is_at = |bound: &SocketAddrAny| {
        let bound = rustix::net::SocketAddrUnix::try_from(bound.clone()).ok();
        bound.is_some_and(|bound| bound.path_bytes() == Some(path.as_os_str().as_encoded_bytes()))
    };
    let found = take(is_at);
    found.as_ref().map_or(Ok(()), |socket| rustix::io::ioctl_fionbio(socket, true))?;
    Ok(found)
}

/// Addresses of listeners that were handed over and at which nothing of this process listens.
pub fn left_over() -> Vec<String> {
    let handed = HANDED_OVER.lock().unwrap_or_else(PoisonError::into_inner);
    handed
        .iter()
        .map(|socket| rustix::net::getsockname(socket).map_or("no socket".to_owned(), |at| named(&at)))
        .collect()
}

fn named(address: &SocketAddrAny) -> String {
    match SocketAddr::try_from(address.clone()) {
        Ok(address) => address.to_string(),
        Err(_) => format!("{address:?}"),
    }
}

/// Whether loops are to be watched.
pub fn has_watchdog() -> bool {
    sd_notify::watchdog_enabled().is_some()
}

/// Tells the manager that all loops turn, as often as it wants to hear it. It is not told while one stalls, and starts the process anew.
pub struct Watchdog {
    pulses: Vec<Pulse>,
    runtime: Runtime,
    interval: Duration,
    next: Instant,
}

impl Watchdog {
    /// One for these loops, where the manager wants to hear of them.
    ///
    /// # Errors
    /// The system gives no descriptors.
    pub fn of(pulses: Vec<Pulse>) -> io::Result<Option<Watchdog>> {
        let Some(limit) = sd_notify::watchdog_enabled() else { return Ok(None) };
        let runtime = Builder::new_current_thread().enable_time().build()?;
        // systemd's advice is half of the limit; a look takes time, too.
        Ok(Some(Watchdog { pulses, runtime, interval: limit / 3, next: Instant::now() }))
    }

    /// How long until the next look.
    pub fn patience(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Looks, if it is time, and tells.
    pub fn turn(&mut self) {
        if !self.patience().is_zero() {
            return;
        }
        self.next = Instant::now() + self.interval;
        let stalled = self.runtime.block_on(stalled(&self.pulses, self.interval.min(STALL_TIMEOUT)));
        match stalled.is_empty() {
            true => tell(&[NotifyState::Watchdog]),
            false => {
                log::error!("the watchdog is not told that all is well: {} does not turn", stalled.join(", "))
            }
        }
    }
}
