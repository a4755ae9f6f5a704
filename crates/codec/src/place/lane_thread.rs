//! One thread of lanes, as the host sees it: its ring pair, and whoever drives the other end.
//!
//! Each lane thread has a ring pair of its own, so every ring has one producer and one consumer however many threads there are.
//! They share the memories (whose free lists are locked), the table in use and the registers; no message is seen by two of them.
//!
//! Why a thread that has more to do does not wake the host for every answer: with few cores the host would take the core of another lane thread, for
//! one message at a time. It is woken when the ring is empty, after [`TURNS`] turns at the latest; a host that is awake sees every answer at once.
//!
//! Without a thread ([`LaneThread::here`]) whoever holds it takes the turns: tests put them in any order.

use super::executor::{Executor, Request, Response};
use super::receive::Ground;
use crate::crossing::Crossing;
use ring::Client;
use ring::wait::{Sleeper, WaitPolicy, Waker, waiting};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Turns that a thread with more to do takes before it wakes a host that sleeps: a few dozen messages, or slices of long ones.
const TURNS: u32 = 8;

/// What a thread is started with.
pub(super) struct Setting {
    pub(super) lanes: usize,
    pub(super) requests: u32,
    pub(super) wait: WaitPolicy,
    pub(super) core: Option<usize>,
}

/// See the head of the file.
pub(super) struct LaneThread<C> {
    pub(super) client: Client<Request, Response>,
    far: Far<C>,
}

/// Where the other half is.
enum Far<C> {
    Thread(Thread),
    Here(Box<Executor<C>>),
}

struct Thread {
    stop: Arc<AtomicBool>,
    waker: Waker,
    handle: Option<JoinHandle<()>>,
}

impl<C: Crossing + Send + Sync + 'static> LaneThread<C> {
    fn halves(ground: &Arc<Ground<C>>, setting: &Setting) -> (Client<Request, Response>, Executor<C>) {
        let (client, server) = ring::pair::pair(setting.requests.max(2).next_power_of_two());
        (client, Executor::new(server, Arc::clone(ground), setting.lanes))
    }

    /// Lanes without a thread.
    pub(super) fn here(ground: &Arc<Ground<C>>, setting: &Setting) -> LaneThread<C> {
        let (client, executor) = LaneThread::halves(ground, setting);
        LaneThread { client, far: Far::Here(Box::new(executor)) }
    }

    /// Starts a thread, which wakes the host by `host` when it has answered something, and when it ends.
    pub(super) fn start(
        ground: &Arc<Ground<C>>,
        setting: &Setting,
        number: usize,
        host: Waker,
    ) -> io::Result<LaneThread<C>> {
        let (wait, core) = (setting.wait, setting.core);
        let (client, executor) = LaneThread::halves(ground, setting);
        let (mut sleeper, waker) = waiting();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            // Wakes the host when the thread ends, however it ends, so that nobody waits for the dead. It is dropped after
            // the executor.
            let host = WakeAtEnd(host);
            let mut executor = executor;
            if let Some(core) = core {
                // Pinning is a wish; a core that is not ours to use is no reason to fail.
                let _ = base::cpu::pin_to(core);
            }
            // Relaxed: the flag guards no data, and a sleeper's wake-up has its own fences.
            let mut untold = 0;
            while !stopped.load(Ordering::Relaxed) {
                if executor.turn() {
                    untold += 1;
                    if untold == TURNS || !executor.is_ready() {
                        host.0.wake();
                        untold = 0;
                    }
                } else {
                    // Something came, and went, since the ring was last looked at.
                    if std::mem::take(&mut untold) > 0 {
                        host.0.wake();
                    }
                    sleeper.wait_until(wait, None, || executor.is_ready() || stopped.load(Ordering::Relaxed));
                }
            }
        };
        let handle = std::thread::Builder::new().name(format!("millrace-acc{number}")).spawn(work)?;
        Ok(LaneThread { client, far: Far::Thread(Thread { stop, waker, handle: Some(handle) }) })
    }

    /// Lets the other half work, if whoever holds this drives it; true if it had something to do.
    pub(super) fn take_turn(&mut self) -> bool {
        match &mut self.far {
            Far::Here(executor) => executor.turn(),
            Far::Thread(_) => false,
        }
    }
}

impl<C> LaneThread<C> {
    /// Sends a request on its way; it comes back if the ring is full.
    pub(super) fn post(&mut self, request: Request) -> Result<ring::Tag, Request> {
        let tag = self.client.try_send(request).map_err(|ring::Full(back)| back)?;
        self.client.flush();
        if let Far::Thread(thread) = &self.far {
            thread.waker.wake();
        }
        Ok(tag)
    }

    /// Whether a response is there, or the other half can make one only if it is driven, or it has died.
    pub(super) fn wants_attention(&mut self) -> bool {
        let driven = matches!(self.far, Far::Here(_)) && self.client.in_flight() > 0;
        driven || self.client.is_ready() || self.client.is_abandoned()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(handle) = self.handle.take() {
            // A panic was told to whoever waited.
            let _ = handle.join();
        }
    }
}

struct WakeAtEnd(Waker);

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// What the host sleeps with: on an eventfd if it is to sleep on other descriptors too.
pub(super) fn host_sleeper(eventfd: bool) -> io::Result<(Sleeper, Waker)> {
    if eventfd { ring::wait::waiting_on_eventfd() } else { Ok(waiting()) }
}
