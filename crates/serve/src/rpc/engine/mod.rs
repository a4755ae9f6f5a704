//! The services of a fabric server on an [engine core](crate::engine_cores): what register `place.handlers` calls `engine`.
//!
//! ```text
//!  server's thread ── OnEngine: port, doorbell, wake ──▶ engine: Handlers, staged
//!                  ◀──────────────────────── replies ──┘
//! ```
//! Replies are packets in the ring's slots; longer ones have memory of their own, so none waits for room and no request is executed twice.

use crate::engine_cores::{EngineCore, EngineError, Hosting, OnCore};
use base::{Clock, Nanos};
use engine::{EdgePort, Messages, Service, Settings};
use fabric::frame::Frame;
use fabric::port::Packet;
use fabric::registers::{Registers, wait_policy};
use fabric::server::{Courier, Executor, Full, Handler, Origin, Router, Server, wants_engine};
use ring::arena;
use ring::wait::{Sleeper, WaitPolicy, waiting_on_eventfd};
use rustix::fd::BorrowedFd;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Requests under way at most; what is beyond waits on its connection.
const ENTRIES: u32 = 1024;
/// Of these on the engine at once.
const IN_FLIGHT: usize = 256;

/// All services of a server as one of an engine.
pub struct Handlers(Handler);

impl Messages for Handlers {
    type Request = Packet;
    type Reply = Packet;
}

impl Service for Handlers {
    /// What a handler reads is its own to say: a task would.
    const TOUCHES: usize = 0;

    fn touch_key(_: &Packet) -> u64 {
        0
    }

    fn touch(&self, _: usize, _: u64) {}

    fn tick(&mut self, _: Nanos) {}

    fn execute(&mut self, request: &Packet, _: &mut arena::Producer) -> Option<Packet> {
        Some(self.0.execute(request))
    }

    fn expire(&mut self, request: &Packet, _: &mut arena::Producer) -> Option<Packet> {
        Some(self.0.refuse(request))
    }
}

/// The server's way to the engine.
struct OnEngine {
    port: EdgePort<Handlers>,
    courier: Courier,
    /// Says which requests leave spans.
    router: Arc<Router>,
    on_core: Arc<OnCore<Handlers>>,
    /// Some requests were not answered, and so the thread is counted on: wherever handlers run by now.
    is_counting: bool,
    /// Some were not announced.
    is_silent: bool,
    sleeper: Sleeper,
    clock: Clock,
}

impl Executor for OnEngine {
    fn takes(&self) -> bool {
        !self.port.is_closed()
    }

    fn submit(&mut self, origin: Origin, request: &[u8]) -> Result<(), Full> {
        if self.port.free() == 0 {
            return Err(Full);
        }
        let frame = Frame::parse(request).expect("the server parsed it");
        let (packet, now) = (self.courier.pack(origin, request), self.clock.now());
        let submitted = match self.router.scope(&frame) {
            None => self.port.submit(now, packet),
            Some(scope) => self.port.submit_traced(now, packet, &scope),
        };
        submitted.map_err(|_| Full)?;
        self.is_silent = true;
        if !std::mem::replace(&mut self.is_counting, true) {
            self.on_core.count_on_thread();
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.port.in_flight()
    }

    fn flush(&mut self) {
        if std::mem::take(&mut self.is_silent) {
            self.port.ring();
            self.on_core.announce();
        }
    }

    fn collect(&mut self, _: Nanos, each: &mut dyn FnMut(u64, &[u8])) -> usize {
        let mut count = 0;
        while let Some(answer) = self.port.poll() {
            count += 1;
            let answer = answer.body;
            if !answer.bytes().is_empty() {
                each(self.courier.connection(&answer), answer.bytes());
            }
        }
        if self.port.in_flight() == 0 {
            self.count_no_more();
        }
        count
    }

    fn arm(&mut self) -> bool {
        self.sleeper.arm();
        !self.port.is_ready()
    }

    fn disarm(&mut self) {
        self.sleeper.disarm();
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.extend(self.sleeper.descriptor());
    }
}

impl OnEngine {
    fn count_no_more(&mut self) {
        if std::mem::take(&mut self.is_counting) {
            self.on_core.count_no_more();
        }
    }
}

impl Drop for OnEngine {
    fn drop(&mut self) {
        self.count_no_more();
    }
}

/// The services of a server on an engine core: until this is dropped, after the server.
pub struct OnThisCore(Arc<OnCore<Handlers>>);

impl Drop for OnThisCore {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// How the core's thread stays awake, and how it sleeps after that.
fn policies(wait: WaitPolicy) -> [WaitPolicy; 2] {
    // Nothing else watches one word of the engine's.
    [WaitPolicy { monitor: 0, block: false, ..wait }, wait.at_last()]
}

/// The services that `server` has by now come to `core`, whose thread they need while `registers` say so.
///
/// # Errors
/// The core has no room, or the system gives no descriptor or no thread.
pub fn come(
    server: Server,
    core: &Arc<EngineCore>,
    registers: &Arc<Registers>,
) -> Result<(Server, OnThisCore), EngineError> {
    let (sleeper, waker) = waiting_on_eventfd().map_err(EngineError::System)?;
    let (registers, waits) = (Arc::clone(registers), Arc::clone(registers));
    let hosting = Hosting {
        in_flight: IN_FLIGHT,
        settings: Box::new(Settings::default),
        policies: Box::new(move || policies(wait_policy(&waits))),
        needs_thread: Box::new(move || wants_engine(&registers)),
        waiting: vec![waker],
    };
    let router = server.router();
    let handlers = Handlers(Handler::new(Arc::clone(&router)));
    let on_core = Arc::new(OnCore::add(core, handlers, hosting)?);
    let port = on_core.open(ENTRIES, 4096)?;
    let edge = OnEngine {
        port,
        courier: Courier::default(),
        router,
        on_core: Arc::clone(&on_core),
        is_counting: false,
        is_silent: false,
        sleeper,
        clock: Clock::shared(),
    };
    Ok((server.engine(Box::new(edge)), OnThisCore(on_core)))
}
