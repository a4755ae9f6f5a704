//! A gateway on packet sockets: a thread for the lane, which has the wire, and one for the host.
//!
//! ```text
//!  lane   frames of each interface ─▶ stages ─▶ frames out, one call for each interface and turn
//!         idle: waits for a unit, else sleeps on sockets and on a bell that the host rings
//!  host   asleep until the lane wakes it
//! ```
//! Bounds: [`BURST`] frames of an interface a turn, so that none starves another. A tenth of a second between looks at what is due: ticks,
//! registers, interfaces,
//! the end.
//!
//! Errors: an interface that goes down is told, and taken up again when it is back; one that is gone ends the gateway.

pub mod interface;
pub mod socket;

use crate::net::Net;
use crate::place::host::Host;
use crate::place::lane::Lane;
use crate::place::{Counters, Setting, places};
use crate::registers::{Placement, Registers, placement};
use crate::tunnel::keys::Secret;
use base::clock::Clock;
use base::registers::Watch;
use codec::crossing::{Counts, Crossing, Shared};
use ring::wait::{Sleeper, WaitPolicy, Waker, waiting, waiting_on_eventfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::rand::{GetRandomFlags, getrandom};
use socket::{Rx, Wires};
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

/// Frames of an interface a turn.
pub const BURST: usize = 64;
const TICK_NS: u64 = 100_000_000;

/// A gateway that runs.
pub struct Running {
    stop: Arc<AtomicBool>,
    /// What it counts.
    pub counters: Arc<Counters>,
    crossing: Arc<dyn Fn() -> Counts + Send + Sync>,
    placement: Arc<Mutex<Placement>>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

/// Bytes that nobody has drawn before.
///
/// # Errors
/// The system has none.
pub fn draw<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Starts a gateway on the interfaces of a network, in the calling thread's namespace.
///
/// # Errors
/// A sentence that says what to do.
pub fn start(
    net: Net,
    secret: Option<Secret>,
    registers: Arc<Registers>,
    wait: WaitPolicy,
) -> Result<Running, String> {
    let mut sockets = Vec::new();
    for interface in &net.interfaces {
        let opened = socket::open(&interface.name).map_err(|error| refusal(&interface.name, &error))?;
        for what in interface::without_offloads(&interface.name, false) {
            eprintln!(
                "{}: {what} offload stays on; frames that it joins are too long for the next link",
                interface.name
            );
        }
        sockets.push(opened);
    }
    let failed = |error: io::Error| format!("starting the gateway: {error}");
    let (rx, tx) = sockets.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    let net = Arc::new(net);
    let at = placement(&registers);
    let setting = Setting {
        net: net.clone(),
        registers: registers.clone(),
        // Without a tunnel nothing is sealed.
        secret: secret.unwrap_or(Secret([0; 32])),
        drawn: draw().map_err(failed)?,
        placement: at,
    };
    let (lane, host) = places(setting, Shared::default(), wait).map_err(failed)?;
    let (lane_sleeper, lane_waker) = waiting_on_eventfd().map_err(failed)?;
    let (host_sleeper, host_waker) = waiting();
    let stop = Arc::new(AtomicBool::new(false));
    let ground = lane.ground().clone();
    let shown = Arc::new(Mutex::new(at));
    let mut running = Running {
        stop: stop.clone(),
        counters: lane.counters(),
        crossing: Arc::new(move || ground.crossing.counts()),
        placement: shown.clone(),
        threads: Vec::new(),
    };
    let wakes = host_waker.clone();
    let lane_thread =
        LaneThread { lane, net, rx, wires: Wires(tx), registers, stop, host: host_waker, shown };
    let host_thread = move || run_host(host, host_sleeper, lane_waker, wait);
    let named = |name: &str| thread::Builder::new().name(name.into());
    running.threads.push(named("gw-host").spawn(host_thread).map_err(failed)?);
    let lane_thread = named("gw-lane").spawn(move || {
        let ended = lane_thread.run(lane_sleeper);
        // The lane is gone: the host sees that once it looks.
        wakes.wake();
        ended
    });
    running.threads.push(lane_thread.map_err(failed)?);
    Ok(running)
}

fn refusal(name: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => format!(
            "taking frames from {name} needs CAP_NET_RAW and CAP_NET_ADMIN: run it as root, or \
             `setcap cap_net_raw,cap_net_admin+ep` the program; `gateway lab` needs neither"
        ),
        Some(libc::ENODEV) => format!("there is no interface {name}: `ip link` lists them"),
        _ => format!("taking frames from {name}: {error}"),
    }
}

impl Running {
    /// What has crossed so far.
    pub fn crossed(&self) -> Counts {
        (self.crossing)()
    }

    /// Where its stages are, since all of them are there.
    pub fn placement(&self) -> Placement {
        *self.placement.lock().expect("no thread panics with it")
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Has it end, and waits for that.
    ///
    /// # Errors
    /// Why it had ended before.
    pub fn end(mut self) -> Result<(), String> {
        self.join()
    }

    fn join(&mut self) -> Result<(), String> {
        self.stop.store(true, Relaxed);
        let mut ended = Ok(());
        for thread in self.threads.drain(..) {
            ended =
                ended.and(thread.join().unwrap_or_else(|_| Err("a thread of the gateway panicked".into())));
        }
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

fn run_host<C: Crossing>(
    mut host: Host<C>,
    mut sleeper: Sleeper,
    lane: Waker,
    wait: WaitPolicy,
) -> Result<(), String> {
    while !host.is_abandoned() {
        if host.step() {
            host.note();
            lane.wake();
        } else {
            sleeper.wait_until(wait, None, || host.is_ready() || host.is_abandoned());
        }
    }
    Ok(())
}

struct LaneThread<C> {
    lane: Lane<C>,
    net: Arc<Net>,
    rx: Vec<Rx>,
    wires: Wires,
    registers: Arc<Registers>,
    stop: Arc<AtomicBool>,
    host: Waker,
    shown: Arc<Mutex<Placement>>,
}

impl<C: Crossing + Send + Sync + 'static> LaneThread<C> {
    fn run(mut self, mut sleeper: Sleeper) -> Result<(), String> {
        let clock = Clock::shared();
        let mut watch = Watch::default();
        let mut due_ns = 0;
        let mut down = vec![false; self.rx.len()];
        while !self.stop.load(Relaxed) {
            let now_ns = clock.now().0;
            if now_ns >= due_ns {
                due_ns = now_ns + TICK_NS;
                self.tick(now_ns, &mut watch, &mut down)?;
            }
            let mut worked = self.receive(now_ns);
            worked |= self.lane.turn(now_ns, &mut self.wires);
            self.flush();
            if worked {
                continue;
            }
            if self.lane.has_tasks() {
                self.lane.wait_for_unit(now_ns, &mut self.wires);
                self.flush();
            } else {
                self.sleep(&mut sleeper, due_ns.saturating_sub(now_ns))?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.host.wake();
        for tx in &mut self.wires.0 {
            tx.flush();
        }
    }

    fn receive(&mut self, now_ns: u64) -> bool {
        let mut worked = false;
        for (number, rx) in self.rx.iter_mut().enumerate() {
            for _ in 0..BURST {
                if !self.lane.has_room() {
                    return worked;
                }
                let Some(frame) = rx.receive() else { break };
                worked = true;
                self.lane.admit(number as u8, now_ns, &mut self.wires, |room| frame.copy(room));
            }
        }
        worked
    }

    fn tick(&mut self, now_ns: u64, watch: &mut Watch, down: &mut [bool]) -> Result<(), String> {
        if self.lane.is_abandoned() {
            return Err("the host's thread has died".into());
        }
        if watch.changed(&self.registers) {
            self.lane.set_placement(placement(&self.registers));
        }
        if self.lane.has_room() {
            *self.shown.lock().expect("no thread panics with it") = self.lane.placement();
        }
        self.lane.tick(now_ns);
        let counters = self.lane.counters();
        for (number, rx) in self.rx.iter().enumerate() {
            counters.missed.fetch_add(rx.missed(), Relaxed);
            let name = &self.net.interfaces[number].name;
            let is_up = interface::is_up(name)
                .map_err(|_| format!("the interface {name} is gone: the gateway ends"))?;
            if is_up == down[number] {
                eprintln!("the interface {name} is {}", if is_up { "up again" } else { "down" });
                down[number] = !is_up;
            }
        }
        Ok(())
    }

    /// Sleeps until a frame, the host, or the next tick. What an interface did not take is tried again in a millisecond.
    fn sleep(&mut self, sleeper: &mut Sleeper, most_ns: u64) -> Result<(), String> {
        sleeper.arm();
        // While stages move nothing is received: what waits in the sockets does not wake the lane then.
        let listens = self.lane.has_room();
        let is_ready = self.lane.is_ready() || (listens && self.rx.iter().any(Rx::is_ready));
        if !is_ready {
            let bell = sleeper.descriptor().expect("the lane's sleeper has one");
            let mut fds = vec![PollFd::from_borrowed_fd(bell, PollFlags::IN)];
            if listens {
                fds.extend(self.rx.iter().map(|rx| PollFd::new(rx, PollFlags::IN)));
            }
            let retries = self.wires.0.iter().any(socket::Tx::waits);
            let most_ns = if retries { most_ns.min(1_000_000) } else { most_ns };
            let timeout = Timespec { tv_sec: 0, tv_nsec: most_ns.min(TICK_NS) as _ };
            match poll(&mut fds, Some(&timeout)) {
                // An error is read, so that it wakes nobody again; the next tick says what is so.
                Ok(_) => fds[1..].iter().zip(&self.rx).for_each(|(fd, rx)| {
                    if fd.revents().contains(PollFlags::ERR) {
                        let _ = socket::error_of(rx);
                    }
                }),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(format!("waiting for frames: {errno}")),
            }
        }
        sleeper.disarm();
        Ok(())
    }
}
