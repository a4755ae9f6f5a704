//! Services of the fabric as a service of a process: one server, the fabric's listeners, and a gateway for gRPC clients before it.
//!
//! The gateway reaches the server at an address of its memory, so its calls take the way of all others. It has listeners of its own, and the clients of
//! gRPC that come to the fabric's over TCP.

use super::RpcError;
use super::admin;
use super::batch::Batch;
use super::demo::Demo;
use super::demo::proto::demo::EchoServer;
use super::engine::{OnThisCore, come};
use super::gateway::Gateway;
use super::replies::{Figures, Kept};
use crate::admin::Routes;
use crate::admin::health::{Beat, Readiness};
use crate::engine_cores::EngineCore;
use crate::process::Stop;
use crate::process::table::{Table, Wrong};
use crate::reach::{self, Protection};
use crate::shell::{Failure, Loop, Service};
use base::cpu;
use base::registers::Shown;
use base::rights::ServiceRights;
use base::trace::Tracer;
use clap::Args;
use client::cache::Topology;
use fabric::link::Address;
use fabric::monitor::Monitor;
use fabric::registers::Registers;
use fabric::server::{Gate, Options, Server};
use ring::wait::WaitPolicy;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What a config file says of one, besides its registers.
#[derive(Args, Clone, Debug, Default)]
pub struct Keys {
    /// Run on this core
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,

    /// Publish so many replies together, or as the load asks for
    #[arg(long, value_name = "N|adaptive", default_value = "adaptive")]
    pub batch: Batch,

    /// Never sleep
    #[arg(long)]
    pub spin: bool,

    /// Keep replies of cacheable methods in the in-network cache of this topology (a file, or http://HOST:PORT of its controllers)
    #[arg(long, value_name = "TOPOLOGY")]
    pub cache: Option<PathBuf>,
}

/// No handler of the demonstration takes longer.
const LONGEST: Duration = Duration::from_secs(10);

/// Numbers servers with a gateway, for their addresses.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// See the head of the file.
pub struct Rpc {
    server: Option<Server>,
    monitor: Monitor,
    keys: Keys,
    listen: Vec<Address>,
    gateway: Option<Gateway>,
    /// It follows its registers though nobody is shown them.
    is_tuned: bool,
    found: Vec<Address>,
    beat: Beat,
    /// The cache that keeps replies, if one does, and what is counted of that.
    kept: Option<(Arc<Topology>, Arc<Figures>)>,
    /// Who may call what, where there is a file of rights.
    gate: Option<Gate>,
    /// There when its registers may say that handlers run on it.
    engine: Option<OnThisCore>,
    serving: Option<Loop<Result<(), RpcError>>>,
}

impl Rpc {
    /// A server of this service, which listens nowhere yet.
    ///
    /// # Errors
    /// The system gives no descriptors.
    pub fn of_service(service: impl fabric::service::Service + 'static) -> Result<Rpc, RpcError> {
        Rpc::serving(Keys::default(), |server| server.service(service))
    }

    /// The same, with replies of cacheable methods kept in the cache of this topology ([`Kept`]); gRPC clients' calls ask it first.
    ///
    /// # Errors
    /// As [`Rpc::of_service`].
    pub fn of_kept(
        service: impl fabric::service::Service + 'static,
        topology: Arc<Topology>,
        longest: Duration,
    ) -> Result<Rpc, RpcError> {
        Rpc::keeping(Keys::default(), service, topology, longest)
    }

    fn keeping(
        keys: Keys,
        service: impl fabric::service::Service + 'static,
        topology: Arc<Topology>,
        longest: Duration,
    ) -> Result<Rpc, RpcError> {
        let figures = Arc::<Figures>::default();
        let kept = Kept::new(service, Arc::clone(&topology), longest, Arc::clone(&figures));
        let rpc = Rpc::serving(keys, |server| server.service(kept))?;
        Ok(Rpc { kept: Some((topology, figures)), ..rpc })
    }

    /// The gateway before its server.
    fn gateway(&mut self) -> &mut Gateway {
        self.gateway.get_or_insert_with(|| {
            let inner = Address::Memory(format!("gateway-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
            self.listen.push(inner.clone());
            let gateway = Gateway::before(inner, self.monitor.clone());
            match &self.kept {
                Some((topology, _)) => gateway.with_cache(Arc::clone(topology), None),
                None => gateway,
            }
        })
    }

    /// With a register set, as a config file would.
    ///
    /// # Errors
    /// There is none of that name, or it takes no such value.
    pub fn with(self, register: &str, value: &str) -> Result<Rpc, base::registers::SetError> {
        self.monitor.registers().set(register, value)?;
        Ok(Rpc { is_tuned: true, ..self })
    }

    /// Its handlers have these kernels; with `acc.units` the first of them have compute units.
    #[must_use]
    pub fn kernels(self, kernels: fabric::service::Kernels) -> Rpc {
        Rpc { server: self.server.map(|server| server.kernels(kernels)), ..self }
    }

    /// What it counts, and its registers: for a program that looks at, or tunes, the server in it.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// A server of the demonstration's services.
    ///
    /// # Errors
    /// As [`Rpc::of_service`].
    pub fn demo(keys: Keys) -> Result<Rpc, RpcError> {
        let Some(cache) = &keys.cache else { return Rpc::serving(keys, with_demo) };
        let topology = Topology::read(cache).map_err(|error| RpcError::Server(error.to_string()))?;
        Rpc::keeping(keys, EchoServer::new(Demo::new()), Arc::new(topology), LONGEST)
    }

    fn serving(keys: Keys, with: impl FnOnce(Server) -> Server) -> Result<Rpc, RpcError> {
        let server = with(server(keys.batch)?);
        let monitor = Monitor::default();
        tell(&keys, monitor.registers()).map_err(|error| RpcError::Server(error.to_string()))?;
        Ok(Rpc {
            server: Some(server),
            monitor,
            keys,
            listen: Vec::new(),
            gateway: None,
            is_tuned: false,
            found: Vec::new(),
            beat: Beat::default(),
            kept: None,
            gate: None,
            engine: None,
            serving: None,
        })
    }

    /// As a table of a config file says: the demonstration's services.
    ///
    /// # Errors
    /// Says which key is wrong.
    pub fn of(table: &Table<'_>) -> Result<Rpc, Wrong> {
        let rpc = Rpc::demo(table.flags(&["kind", "engine_core"])?)
            .map_err(|error| table.wrong(error.to_string()))?;
        table.registers(rpc.monitor.registers(), &[])?;
        Ok(Rpc { is_tuned: true, ..rpc })
    }
}

impl Service for Rpc {
    fn kind(&self) -> &'static str {
        "rpc"
    }

    fn role(&self) -> String {
        "server of RPC".to_owned()
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["fabric", "grpc"]
    }

    fn listen(&mut self, protocol: &str, address: &Address) -> Result<(), String> {
        if protocol == "fabric" {
            self.listen.push(address.clone());
            return Ok(());
        }
        self.gateway().listen(protocol, address)
    }

    fn registers(&self) -> Vec<Shown> {
        self.monitor.registers().show()
    }

    fn trace(&mut self, tracer: Tracer) {
        self.monitor.set_tracer(tracer);
    }

    fn guard(&mut self, rights: ServiceRights) -> Result<(), Failure> {
        self.gate = Some(Gate::new(rights));
        Ok(())
    }

    fn open(&mut self, core: &Arc<EngineCore>, is_shown: bool) -> Result<Routes, Failure> {
        let mut server = self.server.take().expect("it is opened once");
        if let Some(gate) = &self.gate {
            server = server.gate(gate.clone());
        }
        let mut routes = Routes::default();
        if is_shown || self.is_tuned {
            let (with_engine, engine) = come(server, core, self.monitor.registers())
                .map_err(|cause| RpcError::Server(cause.to_string()))?;
            server = with_engine.registers(Arc::clone(self.monitor.registers()));
            self.engine = Some(engine);
        }
        if is_shown {
            server = server.monitor(&self.monitor);
            routes = routes
                .service(None, admin::routes(&self.monitor, Some(server.router())))
                .loops([self.beat.pulse("rpc-server")]);
        }
        if let Some((_, figures)) = &self.kept {
            let figures = Arc::clone(figures);
            routes = routes.metrics(move |page| figures.collect(page));
        }
        if self.listen.iter().any(|address| matches!(address, Address::Tcp(_) | Address::Tls(_))) {
            let given = self.gateway().hand_over().from(server);
            server = given.map_err(|error| RpcError::Server(error.to_string()))?;
        }
        for address in &self.listen {
            server = listen(server, address)?;
        }
        if let Some(gateway) = &mut self.gateway {
            gateway.set_gate(self.gate.clone());
            routes = routes.service(None, gateway.open_beside(is_shown)?);
        }
        self.found =
            server.addresses().filter(|address| !matches!(address, Address::Memory(_))).cloned().collect();
        self.server = Some(server);
        Ok(routes)
    }

    fn health(&mut self, health: &dyn Fn() -> io::Result<Readiness>) -> Result<(), Failure> {
        self.gateway.as_mut().map_or(Ok(()), |gateway| gateway.health(health))
    }

    fn start(&mut self, stop: &Stop) -> Result<(), Failure> {
        let mut server = self.server.take().expect("it was opened");
        let (beat, core) = (self.beat.clone(), self.keys.core);
        let policy = if self.keys.spin { WaitPolicy::SPIN } else { WaitPolicy::default() };
        let run = move |stop: &AtomicBool| {
            core.map_or(Ok(()), cpu::pin_to).map_err(RpcError::Pin)?;
            server.run_to_end(policy, stop, || beat.turn());
            Ok(())
        };
        let serving =
            Loop::start("rpc-server", stop, run).map_err(|error| RpcError::Server(error.to_string()))?;
        self.serving = Some(serving);
        self.gateway.as_mut().map_or(Ok(()), |gateway| gateway.start(stop))
    }

    fn addresses(&self) -> Vec<String> {
        let gateway = self.gateway.iter().flat_map(Gateway::addresses);
        self.found.iter().map(Address::to_string).chain(gateway).collect()
    }

    fn finish(&mut self) -> Result<(), Failure> {
        // The gateway first: the server answers what that has taken.
        let ended = self.gateway.as_mut().map_or(Ok(()), Gateway::finish);
        let served = self.serving.as_mut().and_then(Loop::finish);
        // After the server, which needs it to answer what has come.
        self.engine = None;
        match served {
            Some(Err(error)) => Err(error.into()),
            _ => ended,
        }
    }
}

/// A server without services.
pub(super) fn server(batch: Batch) -> Result<Server, RpcError> {
    let options = Options { batch: batch.policy(), ..Options::default() };
    Server::try_new(options).map_err(|cause| RpcError::Server(cause.to_string()))
}

pub(super) fn with_demo(server: Server) -> Server {
    server.service(EchoServer::new(Demo::new()))
}

pub(super) fn listen(server: Server, address: &Address) -> Result<Server, RpcError> {
    let checked = reach::check_of("this RPC server", address, Protection::None);
    checked.map_err(|exposed| RpcError::Server(exposed.to_string()))?;
    server.listen(address).map_err(|cause| RpcError::Server(format!("{address}: {cause}")))
}

/// Says in registers what was said in flags: the server follows them from then on.
fn tell(keys: &Keys, registers: &Registers) -> Result<(), base::registers::SetError> {
    match keys.batch {
        Batch::Adaptive => registers.set("batch.mode", "adaptive")?,
        Batch::Fixed(size) => {
            registers.set("batch.mode", "fixed")?;
            registers.set("batch.size", &size.to_string())?;
        }
    }
    if keys.spin { registers.set("wait.block", "off") } else { Ok(()) }
}
