//! A server from its start to its end: its edges, and its service on an engine core.
//!
//! The end follows a request's way: edges take nothing more and wait for what is under way, then the service leaves its core.

use super::batch::Computer;
use super::counters::Counters;
use super::edge::Edge;
use super::front::Front;
use super::held::Held;
use super::inference::{Inference, hosting};
use super::oip::{self, Http};
use super::preprocess::Preprocess;
use super::shelf::{Shelf, Source};
use crate::admin::health::{Beat, Pulse};
use crate::engine_cores::{EngineCore, EngineCores, EngineError, EngineWishes, OnCore};
use crate::http::{Limits, Port, PortAt};
use crate::reach::{self, Exposed, Protection};
use crate::rec::registers::{Id, Registers};
use crate::rpc::gateway::HandOver;
use base::rights::{Ask, ServiceRights};
use base::trace::Tracer;
use codec::table::Kind;
use engine::EdgePort;
use fabric::link::Address;
use fabric::server::{Gate, denied};
use fabric::service::{KeyValue, key_at};
use ring::wait::WaitPolicy;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    pub http: Option<PortAt>,
    /// Where clients of gRPC go that come to the fabric's addresses.
    pub grpc: Option<HandOver>,
    /// Processors of host threads and engine.
    pub cores: Option<[usize; 2]>,
    /// What is tuned.
    pub registers: Arc<Registers>,
    /// Who may ask what, where there is a file of rights.
    pub rights: Option<ServiceRights>,
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

/// Of the threads of a server; the core's and the host threads' are the process's.
#[derive(Clone, Default)]
pub struct Beats {
    fabric: Beat,
    /// There is a thread.
    is_up: Arc<AtomicBool>,
}

impl Beats {
    /// The other end. While the model is loaded there are no threads, and all is well.
    pub fn pulse(&self) -> Pulse {
        let Beats { fabric, is_up } = self.clone();
        self.fabric.pulse("rec-fabric").woken_by(move || {
            if !is_up.load(Ordering::Relaxed) {
                fabric.turn();
            }
        })
    }
}

/// Why there is no server.
#[derive(Debug)]
pub enum ServeError {
    /// The model does not load.
    Model(String),
    /// An address of the fabric cannot be listened on.
    Listen(Address, io::Error),
    /// An address that anybody could reach.
    Exposed(Exposed),
    /// An address of HTTP cannot be listened on.
    Http(SocketAddr, io::Error),
    /// The system gives no thread, core or descriptor.
    Thread(io::Error),
    /// The engine core has no room, or no thread.
    Engine(EngineError),
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
            ServeError::Exposed(exposed) => exposed.fmt(f),
            // It says what to do.
            ServeError::Http(_, error) if error.get_ref().is_some_and(|error| error.is::<Exposed>()) => {
                error.fmt(f)
            }
            ServeError::Http(address, error) => write!(f, "cannot listen on http://{address}: {error}"),
            ServeError::Thread(error) => write!(f, "the system gives no thread, core or descriptor: {error}"),
            ServeError::Engine(error) => error.fmt(f),
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
    fabric: Option<JoinHandle<()>>,
    on_core: Arc<OnCore<Inference>>,
    shelf: Arc<Shelf>,
    counters: Arc<Counters>,
    registers: Arc<Registers>,
    /// Of a server that is alone; after its service has left.
    cores: Option<EngineCores>,
}

impl Server {
    /// Loads the model and serves it, with an engine core and host threads of its own.
    ///
    /// # Errors
    /// As [`ServeError`] says.
    pub fn start(plan: Plan) -> Result<Server, ServeError> {
        let cores = EngineCores::for_one(wishes(&plan.registers, plan.cores)).map_err(ServeError::Thread)?;
        let mut server = Server::start_on(plan, Watched::default(), cores.core(0))?;
        server.cores = Some(cores);
        Ok(server)
    }

    /// The same on an engine core of its process, for whoever watched before; whose processors are that core's and not the plan's.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_on(plan: Plan, watched: Watched, core: &Arc<EngineCore>) -> Result<Server, ServeError> {
        let Plan { source, listen, http, grpc, registers, rights, .. } = plan;
        let Watched { counters, beats, tracer } = watched;
        let shelf = Arc::new(Shelf::new(source, &counters).map_err(ServeError::Model)?);
        let preprocess = Arc::new(Preprocess {
            shelf: Arc::clone(&shelf),
            counters: Arc::clone(&counters),
            registers: Arc::clone(&registers),
            tracer,
        });
        let (on_core, [to_fabric, to_http]) = inference(&preprocess, core).map_err(ServeError::Engine)?;
        let held = Arc::new(Held::new(registers.size(Id::Held)));
        let edge = |number, port| Arc::new(Edge::new(number, port, &on_core, &held, &preprocess));
        let (fabric_edge, http_edge) = (edge(0, to_fabric), edge(1, to_http));

        let options = fabric::server::Options::default();
        let mut fabric = fabric::server::Server::try_new(options).map_err(ServeError::Thread)?;
        fabric = fabric
            .service(Front(Arc::clone(&fabric_edge)))
            .service(oip::Front::new(Arc::clone(&fabric_edge)));
        if let Some(rights) = rights.clone() {
            fabric = fabric.gate(gate(rights, Arc::clone(&shelf)));
        }
        if let Some(grpc) = grpc {
            fabric = grpc.from(fabric).map_err(|error| ServeError::Flag(error.to_string()))?;
        }
        for address in &listen {
            reach::check_of("recommendation", address, Protection::None).map_err(ServeError::Exposed)?;
            fabric = fabric.listen(address).map_err(|error| ServeError::Listen(address.clone(), error))?;
        }
        let addresses =
            fabric.addresses().filter(|address| !matches!(address, Address::Memory(_))).cloned().collect();
        let port = http
            .map(|at| {
                let (routes, address) = (Http::routes(http_edge, rights), at.address);
                Port::start("rec-http", at, routes, LIMITS).map_err(|error| ServeError::Http(address, error))
            })
            .transpose()?;

        let (stop, policy) = (Arc::<AtomicBool>::default(), wait(&registers));
        let mut server = Server {
            addresses,
            port,
            stop: Arc::clone(&stop),
            fabric: None,
            on_core,
            shelf,
            counters,
            registers,
            cores: None,
        };
        let (front, beat) = (fabric_edge, beats.fabric.clone());
        let work = move || {
            fabric.run_to_end(policy, &stop, || {
                front.ring();
                beat.turn();
            });
        };
        let thread = std::thread::Builder::new().name("rec-fabric".to_owned()).spawn(work);
        server.fabric = Some(thread.map_err(ServeError::Thread)?);
        beats.is_up.store(true, Ordering::Relaxed);
        Ok(server)
    }

    /// Where it listens over the fabric.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where it listens over HTTP.
    pub fn http(&self) -> Option<SocketAddr> {
        self.port.as_ref().map(Port::address)
    }

    /// How it is asked there: `http://ADDR:PORT`, or https.
    pub fn url(&self) -> Option<String> {
        self.port.as_ref().map(Port::url)
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

    /// Its service on the engine core.
    pub fn on_core(&self) -> &Arc<OnCore<Inference>> {
        &self.on_core
    }

    /// A thread that ended though nobody asked for it.
    pub fn dead(&self) -> Option<&'static str> {
        self.fabric.as_ref().filter(|thread| thread.is_finished()).map(|_| "rec-fabric")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both edges end at the same time, and need the engine until then.
        self.stop.store(true, Ordering::Relaxed);
        drop(self.port.take());
        if let Some(thread) = self.fabric.take() {
            // A panic in it was printed.
            let _ = thread.join();
        }
        self.on_core.leave();
    }
}

/// Who may call what: whoever names a model must be allowed to have it answer.
pub fn gate(rights: ServiceRights, shelf: Arc<Shelf>) -> Gate {
    // In all of their messages that name a model it is the first field.
    const MODEL: &[u32] = &[1];
    const OF_MODEL: [&str; 7] = [
        "millrace.Recommend/Infer",
        "millrace.Recommend/Describe",
        "inference.GRPCInferenceService/ModelReady",
        "inference.GRPCInferenceService/ModelMetadata",
        "inference.GRPCInferenceService/ModelInfer",
        "inference.GRPCInferenceService/ModelStatistics",
        "inference.GRPCInferenceService/ModelConfig",
    ];
    const CHANGING: [&str; 2] = [
        "inference.GRPCInferenceService/RepositoryModelLoad",
        "inference.GRPCInferenceService/RepositoryModelUnload",
    ];
    Gate::new(rights).examining(move |peer, path, message| {
        if CHANGING.contains(&path) {
            return peer.may(Ask::Administer).map_err(|_| denied(Ask::Administer));
        }
        if !OF_MODEL.contains(&path) {
            return Ok(());
        }
        // What is no message is for the handler to say.
        let Ok(KeyValue::Bytes(name)) = key_at(message, MODEL, Kind::String) else { return Ok(()) };
        let name = String::from_utf8_lossy(name);
        let mut may = |name: &str| peer.may(Ask::Infer(name)).map_err(|_| denied(Ask::Infer(name)));
        match &*name {
            // Nobody's name is the only model's, or that of all whose statistics are asked for.
            "" => shelf.all().iter().try_for_each(|model| may(&model.name)),
            name => may(name),
        }
    })
}

/// The service on its core, and its ports.
type Opened<const N: usize> = (Arc<OnCore<Inference>>, [EdgePort<Inference>; N]);

/// The service on `core`, and its `N` ports.
pub fn inference<const N: usize>(
    preprocess: &Arc<Preprocess>,
    core: &Arc<EngineCore>,
) -> Result<Opened<N>, EngineError> {
    let Preprocess { counters, registers, .. } = &**preprocess;
    let computer = Computer::new(Arc::clone(counters), Arc::clone(registers), core.beat.clone());
    let service = Inference::new(N, Arc::clone(preprocess), computer);
    let on_core = OnCore::add_tasks(core, service, hosting(registers))?;
    let slots = registers.size(Id::Ring).next_power_of_two() as u32;
    // Answers go straight to the edges, so replies have no bytes.
    let ports = (0..N).map(|_| on_core.open(slots, 64)).collect::<Result<Vec<_>, _>>()?;
    let ports = ports.try_into().ok().expect("as many as were opened");
    Ok((Arc::new(on_core), ports))
}

/// What it wishes of engine cores: `cores` are the processors of host threads and engine.
pub fn wishes(registers: &Registers, cores: Option<[usize; 2]>) -> EngineWishes {
    EngineWishes {
        pin: cores.map(|[_, engine]| engine),
        host_threads: registers.size(Id::HostThreads),
        host_pin: cores.map(|[host, _]| host),
        host_wait: Some(wait(registers)),
    }
}

/// How its threads wait, as registers say.
pub fn wait(registers: &Registers) -> WaitPolicy {
    let looks = [Id::WaitSpin, Id::WaitPause, Id::WaitMonitor].map(|id| registers.read(id) as u32);
    let [spin, pause, monitor] = looks;
    WaitPolicy { spin, pause, monitor, block: registers.is_on(Id::WaitBlock) }
}
