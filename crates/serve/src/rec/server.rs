//! All threads of a server, from their start to their end.
//!
//! The end follows a request's way: edges take nothing more and wait for what is under way, then the engine is stopped, then the host threads.

use super::counters::Counters;
use super::driver::Driver;
use super::edge::Edge;
use super::front::Front;
use super::held::Held;
use super::inference::IN_FLIGHT;
use super::oip::Http;
use super::preprocess::Preprocess;
use super::shelf::{Shelf, Source};
use crate::admin::health::{Beat, Pulse};
use crate::engine_thread::{Way, engine_thread};
use crate::http::{Limits, Port};
use crate::rec::registers::{Id, Registers};
use base::Clock;
use base::trace::Tracer;
use engine::HostPool;
use fabric::link::Address;
use ring::wait::{WaitPolicy, Waker};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

/// Of the port for inference over HTTP. What is under way at the end has the time of `drain`.
const LIMITS: Limits = Limits {
    connections: 1024,
    head_timeout: Duration::from_secs(30),
    drain: Duration::from_secs(5),
    reserved: 0,
};

/// What is to be served where.
pub struct Plan {
    /// Where the model comes from.
    pub source: Source,
    /// Over the fabric.
    pub listen: Vec<Address>,
    /// Over HTTP.
    pub http: Option<SocketAddr>,
    /// Cores of host threads and engine.
    pub cores: Option<[usize; 2]>,
    /// What is tuned.
    pub registers: Arc<Registers>,
}

/// How a server is watched, also while its model is being loaded.
#[derive(Clone, Default)]
pub struct Watched {
    /// What it counts.
    pub counters: Arc<Counters>,
    /// Who says that its threads turn.
    pub beats: Beats,
    /// Where its requests leave spans.
    pub tracer: Tracer,
}

/// Of the threads of a server.
#[derive(Clone, Default)]
pub struct Beats {
    fabric: Beat,
    /// Of host threads the first: the others take what it has no time for.
    host: Beat,
    engine: Beat,
    /// Wakes the host thread; there once the server is.
    host_waker: Arc<OnceLock<Waker>>,
}

impl Beats {
    /// The other ends. While the model is loaded there are no threads, and all is well.
    pub fn pulses(&self) -> [Pulse; 3] {
        // Only the host thread sleeps until it is woken.
        let woken = |beat: &Beat, name: &str, sleeps: bool| {
            let (waker, own) = (Arc::clone(&self.host_waker), beat.clone());
            beat.pulse(name).woken_by(move || match waker.get() {
                Some(waker) if sleeps => drop(waker.wake()),
                Some(_) => {}
                None => own.turn(),
            })
        };
        [
            woken(&self.fabric, "rec-fabric", false),
            woken(&self.host, "rec-host", true),
            woken(&self.engine, "rec-engine", false),
        ]
    }
}

/// Why there is no server.
#[derive(Debug)]
pub enum ServeError {
    /// The model does not load.
    Model(String),
    /// An address of the fabric cannot be listened on.
    Listen(Address, io::Error),
    /// An address of HTTP cannot be listened on.
    Http(SocketAddr, io::Error),
    /// The system gives no thread, core or descriptor.
    Thread(io::Error),
    /// A flag.
    Flag(String),
    /// Signals cannot be caught.
    Signal(io::Error),
    /// A thread of the server ended before its time; its words are above.
    Died(&'static str),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Model(why) => write!(f, "the model does not load: {why}"),
            ServeError::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            ServeError::Http(address, error) => write!(f, "cannot listen on http://{address}: {error}"),
            ServeError::Thread(error) => write!(f, "the system gives no thread, core or descriptor: {error}"),
            ServeError::Flag(why) => f.write_str(why),
            ServeError::Signal(error) => write!(f, "signals cannot be caught: {error}"),
            ServeError::Died(thread) => {
                write!(f, "thread {thread} came to harm; this is a fault of millrace")
            }
        }
    }
}

impl std::error::Error for ServeError {}

/// A server, until it is dropped.
pub struct Server {
    addresses: Vec<Address>,
    port: Option<Port>,
    stop: Arc<AtomicBool>,
    engine: Way,
    /// The engine's is the first.
    threads: Vec<(&'static str, JoinHandle<()>)>,
    /// Ends after the threads.
    _host: HostPool,
    shelf: Arc<Shelf>,
    counters: Arc<Counters>,
    registers: Arc<Registers>,
}

impl Server {
    /// Loads the model and serves it.
    ///
    /// # Errors
    /// As [`ServeError`] says.
    pub fn start(plan: Plan) -> Result<Server, ServeError> {
        Server::start_watched(plan, Watched::default())
    }

    /// The same, for whoever watched before.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_watched(plan: Plan, watched: Watched) -> Result<Server, ServeError> {
        let Plan { source, listen, http, cores, registers } = plan;
        let Watched { counters, beats, tracer } = watched;
        let shelf = Arc::new(Shelf::new(source, &counters).map_err(ServeError::Model)?);
        let preprocess = Arc::new(Preprocess {
            shelf: Arc::clone(&shelf),
            counters: Arc::clone(&counters),
            registers: Arc::clone(&registers),
            tracer,
        });
        let (thread, way) = engine_thread(beats.engine.clone());
        let (mut driver, ports) = Driver::new(slots(&registers), &preprocess, beats.engine.clone());
        let host =
            host_threads(&registers, cores.map(|cores| cores[0]), &beats).map_err(ServeError::Thread)?;
        driver.engine.set_host(host.attach(IN_FLIGHT as u32, Some(way.waker().clone())));
        let held = Arc::new(Held::new(registers.size(Id::Held)));
        let edge = |number, port| Arc::new(Edge::new(number, port, way.clone(), &held, &preprocess));
        let [to_fabric, to_http] = ports;
        let (fabric_edge, http_edge) = (edge(0, to_fabric), edge(1, to_http));

        let options = fabric::server::Options::default();
        let mut fabric = fabric::server::Server::try_new(options).map_err(ServeError::Thread)?;
        fabric = fabric.service(Front(fabric_edge));
        for address in &listen {
            fabric = fabric.listen(address).map_err(|error| ServeError::Listen(address.clone(), error))?;
            crate::reach::warn_of("recommendation", address);
        }
        let addresses = fabric.addresses().cloned().collect();
        let port = http
            .map(|address| {
                let routes = Http::routes(http_edge);
                Port::start("rec-http", address, routes, LIMITS)
                    .map_err(|error| ServeError::Http(address, error))
            })
            .transpose()?;

        let mut server = Server {
            addresses,
            port,
            stop: Arc::default(),
            engine: way,
            threads: Vec::new(),
            _host: host,
            shelf,
            counters,
            registers,
        };
        server.spawn("rec-engine", cores.map(|cores| cores[1]), move || thread.run(&mut driver))?;
        let (stop, fabric_beat) = (Arc::clone(&server.stop), beats.fabric.clone());
        server.spawn("rec-fabric", None, move || serve(fabric, &stop, &fabric_beat))?;
        Ok(server)
    }

    fn spawn(
        &mut self,
        name: &'static str,
        core: Option<usize>,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), ServeError> {
        let work = move || {
            if let Some(core) = core {
                // Where it cannot be kept to its core it runs all the same.
                let _ = base::cpu::pin_to(core);
            }
            work();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        self.threads.push((name, thread.map_err(ServeError::Thread)?));
        Ok(())
    }

    /// Where it listens over the fabric.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where it listens over HTTP.
    pub fn http(&self) -> Option<SocketAddr> {
        self.port.as_ref().map(Port::address)
    }

    /// The model.
    pub fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    /// What it counted.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// What is tuned.
    pub fn registers(&self) -> &Arc<Registers> {
        &self.registers
    }

    /// A thread that ended though nobody asked for it.
    pub fn dead(&self) -> Option<&'static str> {
        self.threads.iter().find(|(_, thread)| thread.is_finished()).map(|(name, _)| *name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both edges end at the same time, and need the engine until then.
        self.stop.store(true, Ordering::Relaxed);
        drop(self.port.take());
        while let Some((_, thread)) = self.threads.pop() {
            if self.threads.is_empty() {
                self.engine.stop();
            }
            // A panic in it was printed.
            let _ = thread.join();
        }
    }
}

/// Slots of a port's ring.
fn slots(registers: &Registers) -> usize {
    registers.size(Id::Ring).next_power_of_two()
}

/// The host threads, kept to a core if there is one for them.
fn host_threads(registers: &Registers, core: Option<usize>, beats: &Beats) -> io::Result<HostPool> {
    let policy = if registers.is_on(Id::Spin) { WaitPolicy::SPIN } else { WaitPolicy::default() };
    let pool = HostPool::watched(registers.size(Id::HostThreads), policy, |number| {
        let (beat, mut core) = (beats.host.clone(), core);
        move || {
            if let Some(core) = core.take() {
                // Where it cannot be kept to its core it runs all the same.
                let _ = base::cpu::pin_to(core);
            }
            if number == 0 {
                beat.turn();
            }
        }
    })?;
    if let Some(first) = pool.wakers().next() {
        let _ = beats.host_waker.set(first.clone());
    }
    Ok(pool)
}

/// Serves until `stop`, then answers what is under way.
fn serve(mut server: fabric::server::Server, stop: &AtomicBool, beat: &Beat) {
    let policy = WaitPolicy::default();
    server.run_with(policy, stop, || beat.turn());
    let clock = Clock::shared();
    server.drain(clock.now());
    while !server.is_drained() {
        beat.turn();
        server.wait(policy, clock.now().plus(Duration::from_millis(100).into()));
    }
}
