//! The command, and a recommendation server as a service of a process.

use super::counters::Counters;
use super::inference::Inference;
use super::metrics;
use super::server::{Plan, ServeError, Server, Watched, gate, wishes};
use super::shelf::Shelf;
use super::source::ModelArgs;
use crate::admin::health::Readiness;
use crate::admin::{Routes, Tuned, parse_address};
use crate::engine_cores::{EngineCore, EngineWishes, OnCore};
use crate::http::PortAt;
use crate::process::listen::{ListenArgs, port_at};
use crate::process::logger::LogArgs;
use crate::process::parse::assign;
use crate::process::table::{Table, Wrong};
use crate::process::{Stop, say};
use crate::rec::registers::{Id, Registers};
use crate::rpc::gateway::Gateway;
use crate::shell::{Failure, Service, Shell, ShellError};
use base::registers::Shown;
use base::rights::ServiceRights;
use base::trace::Tracer;
use clap::Args;
use fabric::link::{Address, TlsOptions};
use fabric::monitor::Monitor;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Serve recommendation models.
///
/// Over the fabric: service millrace.Recommend (`millrace rec bench`, `millrace rpc call ADDRESS Recommend/Infer`). The Open Inference Protocol, version 2:
/// over HTTP, with JSON or binary tensors, and over gRPC, at the fabric's addresses over TCP. docs/rec.md describes them.
///
/// Each address is printed when it is ready (port 0 picks a free one). SIGHUP, or POST /v2/repository/models/NAME/load, loads a model anew beside the one
/// that is served and then puts it in its place; if it does not load, the old one goes on. With --repository versions whose files have not changed stay, new
/// models come and those that are gone go. Ctrl-C and SIGTERM answer what is under way and end it.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    millrace rec serve --model models/ctr\n  \
    millrace rec serve --repository models\n  \
    millrace rec serve --tables 26 --rows 1M --dim 64 --format int8\n  \
    millrace rpc call tcp:127.0.0.1:7501 Recommend/Describe\n  \
    curl http://127.0.0.1:7500/v2/models/synthetic")]
pub struct Serve {
    #[command(flatten)]
    keys: Keys,

    /// Where to listen for the fabric: shm:/path, unix:/path, udp:HOST:PORT, tcp:HOST:PORT or tls:HOST:PORT. May be repeated
    #[arg(short, long, value_name = "ADDRESS", default_value = "tcp:127.0.0.1:7501")]
    listen: Vec<Address>,

    /// Where to listen for HTTP. Nobody is asked who he is, unless there are rights (--rights)
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7500")]
    http: SocketAddr,

    /// HTTP port for metrics, registers and health; on loopback unless an address is given. Changes need the token whose file is logged
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = parse_address)]
    admin: Option<SocketAddr>,

    #[command(flatten)]
    listening: ListenArgs,

    #[command(flatten)]
    log: LogArgs,

    /// Set a register (`millrace registers --rec` lists them). May be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

/// What config files say, too.
#[derive(Args, Clone, Debug)]
struct Keys {
    #[command(flatten)]
    model: ModelArgs,

    /// Processors of host threads and of the engine core
    #[arg(long, value_name = "CORE,CORE", value_delimiter = ',', num_args = 2)]
    cores: Option<Vec<usize>>,
}

impl Keys {
    fn cores(&self) -> Option<[usize; 2]> {
        self.cores.as_ref().and_then(|cores| <[usize; 2]>::try_from(&cores[..]).ok())
    }
}

/// What the operators' port shows.
struct Operated {
    registers: Arc<Registers>,
    counters: Arc<Counters>,
    /// Once the model is loaded.
    running: OnceLock<(Arc<Shelf>, Arc<OnCore<Inference>>)>,
}

impl Tuned for Operated {
    type Id = Id;

    fn registers(&self) -> &Registers {
        &self.registers
    }
}

/// Registers with what flags say.
///
/// # Errors
/// A setting is none.
pub fn registers(settings: &[String]) -> Result<Arc<Registers>, ServeError> {
    let registers = Registers::default();
    assign(&registers, settings).map_err(|error| ServeError::Flag(error.to_string()))?;
    Ok(Arc::new(registers))
}

impl Serve {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// It cannot be served.
    pub fn run(&self) -> Result<(), ServeError> {
        self.log.start("rec");
        self.listening.apply()?;
        // Before there are threads.
        let stop = Stop::on_signals().map_err(ServeError::Signal)?;
        let mut rec = Rec::new(self.keys.clone(), registers(&self.settings)?);
        rec.listen = self.listen.clone();
        rec.http = Some((self.http, TlsOptions::of_process().certificate.is_some()));
        let shell = Shell::of(rec, self.listening.access(self.admin)?, stop)?;
        shell.addresses().iter().for_each(|address| say(address));
        if let Some(admin) = shell.admin() {
            log::info!(address:% = admin.address(); "metrics and registers on {}/", admin.url());
            log::info!("changing a register wants the token in {}", admin.token().display());
            say(&admin.url());
        }
        Ok(shell.wait()?)
    }
}

/// A recommendation server, running or not.
pub struct Rec {
    keys: Keys,
    operated: Arc<Operated>,
    watched: Watched,
    listen: Vec<Address>,
    /// And whether TLS is spoken there.
    http: Option<(SocketAddr, bool)>,
    /// Who may ask what, where there is a file of rights.
    rights: Option<ServiceRights>,
    /// For clients of gRPC.
    gateway: Option<Gateway>,
    /// Which it will be on.
    core: Option<Arc<EngineCore>>,
    server: Option<Server>,
}

/// Numbers servers with a gateway, for their addresses.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Rec {
    fn new(keys: Keys, registers: Arc<Registers>) -> Rec {
        let watched = Watched::default();
        let counters = Arc::clone(&watched.counters);
        let operated = Arc::new(Operated { registers, counters, running: OnceLock::new() });
        Rec {
            keys,
            operated,
            watched,
            listen: Vec::new(),
            http: None,
            rights: None,
            gateway: None,
            core: None,
            server: None,
        }
    }

    /// Where HTTP is spoken, if it is, with the certificate if with TLS.
    fn http_port(&self) -> Result<Option<PortAt>, ShellError> {
        self.http.map(|(address, has_tls)| port_at(address, has_tls)).transpose()
    }

    /// The gateway before its server.
    fn gateway(&mut self) -> &mut Gateway {
        self.gateway.get_or_insert_with(|| {
            let inner = Address::Memory(format!("rec-gateway-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
            self.listen.push(inner.clone());
            Gateway::before(inner, Monitor::default())
        })
    }

    /// A server of this model, which listens nowhere yet.
    pub fn of_model(model: ModelArgs, registers: Arc<Registers>) -> Rec {
        Rec::new(Keys { model, cores: None }, registers)
    }

    /// As a table of a config file says.
    ///
    /// # Errors
    /// Says which key is wrong.
    pub fn of(table: &Table<'_>) -> Result<Rec, Wrong> {
        let (keys, registers) = (table.flags(&["kind", "engine_core"])?, Registers::default());
        table.registers(&registers, &[])?;
        Ok(Rec::new(keys, Arc::new(registers)))
    }
}

impl Service for Rec {
    fn kind(&self) -> &'static str {
        "rec"
    }

    fn role(&self) -> String {
        "recommendation inference".to_owned()
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["fabric", "http", "grpc"]
    }

    fn listen(&mut self, protocol: &str, address: &Address) -> Result<(), String> {
        match (protocol, address, self.http) {
            ("fabric", ..) => self.listen.push(address.clone()),
            ("grpc", ..) => return self.gateway().listen(protocol, address),
            (_, Address::Tcp(endpoint) | Address::Tls(endpoint), None) => {
                let resolved = endpoint.resolve().map_err(|why| format!("{address}: {why}"))?;
                self.http = Some((resolved, matches!(address, Address::Tls(_))));
            }
            (_, Address::Tcp(_) | Address::Tls(_), Some((first, _))) => {
                return Err(format!("a rec service has one listener for HTTP, and that is at {first}"));
            }
            _ => return Err("HTTP comes over TCP: HOST:PORT, or with TLS tls:HOST:PORT".to_owned()),
        }
        Ok(())
    }

    fn registers(&self) -> Vec<Shown> {
        self.operated.registers.show()
    }

    fn engine_wishes(&self) -> EngineWishes {
        wishes(&self.operated.registers, self.keys.cores())
    }

    fn trace(&mut self, tracer: Tracer) {
        self.watched.tracer = tracer;
    }

    fn guard(&mut self, rights: ServiceRights) -> Result<(), Failure> {
        self.rights = Some(rights);
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        Ok(self.http_port().map(drop)?)
    }

    /// The addresses are taken when the model is loaded: until then clients are not to wait for it.
    fn open(&mut self, core: &Arc<EngineCore>, is_shown: bool) -> Result<Routes, Failure> {
        if self.listen.iter().any(|address| matches!(address, Address::Tcp(_) | Address::Tls(_))) {
            self.gateway();
        }
        self.core = Some(Arc::clone(core));
        let (collected, checked) = (Arc::clone(&self.operated), Arc::clone(&self.operated));
        let ready = move || match checked.running.get() {
            None => Err("the model is being loaded".to_owned()),
            Some(_) => Ok(()),
        };
        let collect = move |page: &mut _| {
            let running = collected.running.get().map(|(shelf, on_core)| (&**shelf, &**on_core));
            metrics::collect(&collected.counters, running, page);
        };
        let routes = Routes::default().registers(Arc::clone(&self.operated)).traces(&self.watched.tracer);
        let routes = routes.metrics(collect).ready(ready).loops([self.watched.beats.pulse()]);
        Ok(match &mut self.gateway {
            Some(gateway) => routes.service(None, gateway.routes(is_shown)),
            None => routes,
        })
    }

    fn health(&mut self, health: &dyn Fn() -> io::Result<Readiness>) -> Result<(), Failure> {
        self.gateway.as_mut().map_or(Ok(()), |gateway| gateway.health(health))
    }

    fn start(&mut self, stop: &Stop) -> Result<(), Failure> {
        let http = self.http_port()?;
        let plan = Plan {
            source: self.keys.model.source(),
            listen: self.listen.clone(),
            http,
            grpc: self.gateway.as_ref().map(Gateway::hand_over),
            cores: self.keys.cores(),
            registers: Arc::clone(&self.operated.registers),
            rights: self.rights.clone(),
        };
        let core = self.core.as_ref().expect("it was opened");
        let server = Server::start_on(plan, self.watched.clone(), core)?;
        let _ = self.operated.running.set((Arc::clone(server.shelf()), Arc::clone(server.on_core())));
        let server_shelf = Arc::clone(server.shelf());
        self.server = Some(server);
        let gate = self.rights.clone().map(|rights| gate(rights, server_shelf));
        let Some(gateway) = &mut self.gateway else { return Ok(()) };
        gateway.set_gate(gate);
        gateway.bind()?;
        gateway.start(stop)
    }

    fn addresses(&self) -> Vec<String> {
        let Some(server) = &self.server else { return Vec::new() };
        let gateway = self.gateway.iter().flat_map(Gateway::addresses);
        server.addresses().iter().map(Address::to_string).chain(server.url()).chain(gateway).collect()
    }

    fn death(&self) -> Option<Failure> {
        Some(ServeError::Died(self.server.as_ref()?.dead()?).into())
    }

    /// Loads the model anew, and says what came of it.
    fn reload(&self) -> bool {
        let Some(server) = &self.server else { return false };
        if let Err(why) = server.shelf().reload() {
            log::error!("what does not load does not take the old one's place: {why}");
        }
        for model in server.shelf().all().iter() {
            log::info!("serving {:?}, generation {}", &***model, model.generation);
        }
        true
    }

    fn finish(&mut self) -> Result<(), Failure> {
        // The gateway first: the server answers what that has taken.
        let ended = self.gateway.as_mut().map_or(Ok(()), Gateway::finish);
        self.server = None;
        ended
    }
}

impl From<ShellError> for ServeError {
    fn from(error: ShellError) -> ServeError {
        error.of(|other| match other {
            ShellError::Admin(address, cause) => ServeError::Http(address, cause),
            ShellError::Signal(cause) => ServeError::Signal(cause),
            other => ServeError::Flag(other.to_string()),
        })
    }
}
