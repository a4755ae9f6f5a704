//! An engine core for the services of a fabric server: what register `place.handlers` calls `engine`.
//!
//! ```text
//!  server's thread ── OnEngine: port, doorbell, wake ──▶ engine: Handlers, staged
//!                  ◀──────────────────────── replies ──┘
//! ```
//! Replies are packets in the ring's slots; longer ones have memory of their own, so none waits for room and no request is executed twice.

use crate::admin::health::Beat;
use crate::engine_thread::{Driven, Way, engine_thread};
use crate::guard::AbortOnPanic;
use base::{Clock, Nanos};
use engine::{EdgePort, Engine, EngineOptions, Messages, Progress, Service, ServiceOptions, Settings};
use fabric::frame::Frame;
use fabric::port::Packet;
use fabric::server::{Courier, Executor, Full, Handler, Origin, Router, Server};
use ring::arena;
use ring::wait::{Sleeper, WaitPolicy, waiting_on_eventfd};
use rustix::fd::BorrowedFd;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

#[cfg(test)]
mod tests;

/// Requests under way at most; what is beyond waits on its connection.
const ENTRIES: u32 = 1024;

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
    way: Way,
    sleeper: Sleeper,
    clock: Clock,
}

impl Executor for OnEngine {
    fn takes(&self) -> bool {
        !self.way.is_gone()
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
        submitted.map(drop).map_err(|_| Full)
    }

    fn flush(&mut self) {
        self.port.ring();
        self.way.announce();
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

/// The engine with its settings.
struct Core {
    engine: Engine,
    settings: Settings,
}

impl Driven for Core {
    fn pass(&mut self) -> Progress {
        self.engine.pass(&self.settings)
    }

    fn has_work(&mut self) -> bool {
        self.engine.has_work()
    }

    fn next_deadline(&mut self) -> Nanos {
        self.engine.next_deadline()
    }

    fn idle(&mut self, steps: usize) -> bool {
        self.engine.idle(steps)
    }

    fn policies(&self) -> [WaitPolicy; 2] {
        [WaitPolicy { block: false, ..WaitPolicy::default() }, WaitPolicy::BLOCK]
    }
}

/// An engine core that runs, until it is dropped: after the server that has it.
pub struct EngineCore {
    way: Way,
    thread: Option<JoinHandle<()>>,
}

impl EngineCore {
    /// Starts one for the services that `server` has by now.
    ///
    /// # Errors
    /// The system gives no descriptor or no thread.
    pub fn start(server: Server, beat: Beat) -> io::Result<(Server, EngineCore)> {
        let router = server.router();
        let handlers = Handlers(Handler::new(Arc::clone(&router)));
        let mut engine = Engine::new(EngineOptions::default());
        let service = engine.add(handlers, ServiceOptions::default());
        let port = engine.open(service, ENTRIES, 4096).expect("it is the first");
        let (mut thread, way) = engine_thread(beat);
        let (sleeper, waker) = waiting_on_eventfd()?;
        thread.waiting.push(waker);
        let mut core = Core { engine, settings: Settings::default() };
        let run = move || {
            // Calls in flight would never be answered.
            let _guard = AbortOnPanic("an engine core");
            thread.run(&mut core);
        };
        let thread = std::thread::Builder::new().name("rpc-engine".to_owned()).spawn(run)?;
        let (courier, clock) = (Courier::default(), Clock::shared());
        let edge = OnEngine { port, courier, router, way: way.clone(), sleeper, clock };
        Ok((server.engine(Box::new(edge)), EngineCore { way, thread: Some(thread) }))
    }

    /// What wakes it, for those who ask whether it turns.
    pub fn way(&self) -> &Way {
        &self.way
    }
}

impl Drop for EngineCore {
    fn drop(&mut self) {
        self.way.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in it ended the process.
            let _ = thread.join();
        }
    }
}
