//! Those who misbehave: a thread with many links.

use super::kinds::{Kind, Way};
use super::rig::Places;
use fabric::channel::{CallOptions, Channel, Options};
use fabric::link::Address;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Links that have nothing to send are looked at so often.
const IDLE_LOOK_EVERY: Duration = Duration::from_millis(10);
/// One that was put out comes back after this, one after the other: an attack by connections alone is another one.
const REOPEN_AFTER: Duration = Duration::from_millis(10);
/// Between two turns in which nothing went.
const WRITE_RETRY_AFTER: Duration = Duration::from_millis(1);
/// Sent and read at once. One long system call keeps others from this core, whatever its thread's priority; another machine's would not.
const AT_ONCE: usize = 4 << 10;
/// From the first byte until the polite client's time counts, and after the last.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// What `work` gives while the attack runs.
///
/// # Errors
/// The attacker itself failed, so there was no attack.
pub fn during<T>(kind: &Kind, places: &Places, work: impl FnOnce() -> T) -> Result<T, String> {
    let over = AtomicBool::new(false);
    let to = (kind.to)(places);
    let result = std::thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            work_when_nobody_else_does()?;
            match kind.way {
                Way::Stay(bytes) => links(to, kind.links, &bytes(), Manner::Stay, &over),
                Way::Repeat(bytes) | Way::Load(bytes) => {
                    links(to, kind.links, &bytes(), Manner::Repeat, &over)
                }
                Way::Deaf(bytes) => links(to, kind.links, &bytes(), Manner::Deaf, &over),
                Way::Call(method, body) => calls(to, method, &body(), &over),
            }
        });
        std::thread::sleep(SETTLE_TIME);
        let result = work();
        over.store(true, Ordering::Relaxed);
        match attacker.join() {
            Ok(done) => done.map(|()| result),
            Err(_) => Err("the attacker panicked".to_owned()),
        }
    });
    std::thread::sleep(SETTLE_TIME);
    result
}

/// Attackers have machines of their own: what theirs costs here is done in the time that the server and the polite client leave.
fn work_when_nobody_else_does() -> Result<(), String> {
    // What the kernel's sched_param is. The C library's call is none in musl.
    let parameters: libc::c_int = 0;
    // SAFETY: it reads the parameters, which live here, and concerns this thread alone.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(format!("the attacker's priority: {}", std::io::Error::last_os_error())),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Stay,
    Repeat,
    Deaf,
}

struct Link {
    stream: TcpStream,
    sent: usize,
}

impl Link {
    fn open(to: SocketAddr) -> Option<Link> {
        let stream = TcpStream::connect_timeout(&to, Duration::from_millis(500)).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Link { stream, sent: 0 })
    }

    /// Sends and reads what goes; whether anything did. `Err` when the link is over.
    fn turn(&mut self, bytes: &[u8], manner: Manner, room: &mut [u8]) -> Result<bool, ()> {
        let mut went = false;
        if self.sent == bytes.len() && manner != Manner::Stay {
            self.sent = 0;
        }
        if self.sent < bytes.len() {
            let rest = &bytes[self.sent..];
            match self.stream.write(&rest[..rest.len().min(AT_ONCE)]) {
                Ok(n) => (self.sent, went) = (self.sent + n, true),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Err(()),
            }
        }
        if manner != Manner::Deaf {
            match self.stream.read(room) {
                Ok(0) => return Err(()),
                Ok(_) => went = true,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Err(()),
            }
        }
        Ok(went)
    }
}

fn links(
    to: SocketAddr,
    count: usize,
    bytes: &[u8],
    manner: Manner,
    over: &AtomicBool,
) -> Result<(), String> {
    let mut all: Vec<Option<Link>> = (0..count).map(|_| Link::open(to)).collect();
    if all.iter().all(Option::is_none) {
        return Err(format!("nobody listens at {to}"));
    }
    let mut room = [0; AT_ONCE];
    let mut returned = Instant::now();
    while !over.load(Ordering::Relaxed) {
        let (mut went, mut is_sending) = (false, false);
        for slot in &mut all {
            let Some(link) = slot else { continue };
            match link.turn(bytes, manner, &mut room) {
                Ok(did) => went |= did,
                Err(()) => *slot = None,
            }
            is_sending |= slot.as_ref().is_some_and(|link| link.sent < bytes.len());
        }
        if !went {
            std::thread::sleep(if is_sending { WRITE_RETRY_AFTER } else { IDLE_LOOK_EVERY });
        }
        if returned.elapsed() >= REOPEN_AFTER
            && let Some(slot) = all.iter_mut().find(|slot| slot.is_none())
        {
            *slot = Link::open(to);
            returned = Instant::now();
        }
    }
    Ok(())
}

fn calls(to: SocketAddr, path: &str, body: &[u8], over: &AtomicBool) -> Result<(), String> {
    let address: Address = format!("tcp:{to}").parse().map_err(|e| format!("{e}"))?;
    let mut refused = 0;
    while !over.load(Ordering::Relaxed) {
        let Ok(mut channel) = Channel::connect(&address, &Options::default()) else {
            refused += 1;
            std::thread::sleep(REOPEN_AFTER);
            continue;
        };
        let Some(method) = channel.method(path) else { return Err(format!("there is no {path}")) };
        while channel.is_open() && !over.load(Ordering::Relaxed) {
            // That it is refused is what is hoped for.
            let _ = channel.call_bytes(method, &CallOptions::within(Duration::from_secs(5)), body);
        }
        std::thread::sleep(REOPEN_AFTER);
    }
    if refused > 100 { Err("the server took no connections".to_owned()) } else { Ok(()) }
}
