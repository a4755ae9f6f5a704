//! Services of one process, whatever their kinds: one port for operators, one log, one stop.
//!
//! ```text
//!   open: addresses are taken ──▶ the admin port ──▶ start: clients are served ──▶ wait ──▶ finish: what has come is answered ──▶ the port goes
//!                                                                                  ▲
//!                                                       signal, end of input, a thread that ended by itself
//! ```
//! `millrace up` has services of a config file in it; `rec serve`, `rpc serve`, `rpc gateway`, `chain replica`, `chain controller`, `inc run`, `proxy`
//! each one of theirs.
//!
//! Invariants:
//! 1. The admin port is there before a service waits for long: for a model, say.
//! 2. However it ends, every service that was opened is brought to its end.
//! 3. The admin port is there while services drain: `/readyz` says so.
//! 4. When the port is gone nothing of a service is left: who had it stopped (`PUT /stop`) has seen it end.
//! 5. Engine cores ([`crate::engine_cores`]) and host threads are there from before the first service is opened until after the last has ended.

use crate::admin::health::Readiness;
use crate::admin::{Admin, Entry, PortAt, Routes};
use crate::engine_cores::{EngineCore, EngineCores, EnginePlan, EngineWishes};
use crate::otlp::Exporter;
use crate::process::Stop;
use crate::process::stop::Woken;
use crate::process::systemd::{self, Watchdog};
use crate::process::table::Wrong;
use crate::reach::Exposed;
use crate::recorder::Recorder;
use crate::rights::{Access, RightsFile};
use axum::routing::put;
pub use background::Loop;
use base::registers::Shown;
use base::rights::ServiceRights;
use base::trace::Tracer;
use fabric::link::Address;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is asked whether a thread has died that cannot say so.
const DEATH_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Why a service did not go on.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A service of a process, from what it is told to its end.
pub trait Service: Send {
    /// The word for what it is, as config files have it.
    fn kind(&self) -> &'static str;

    /// What it is there for, in a few words for people.
    fn role(&self) -> String;

    /// What clients may speak to it, the first unless it is said. None: it has no listeners.
    fn protocols(&self) -> &'static [&'static str];

    /// Whether it knows where it listens without being told.
    fn is_placed(&self) -> bool {
        self.protocols().is_empty()
    }

    /// Clients find it here, too, and speak one of its protocols.
    ///
    /// # Errors
    /// Why it cannot be here, as a sentence.
    fn listen(&mut self, protocol: &str, address: &Address) -> Result<(), String>;

    /// Its registers now.
    fn registers(&self) -> Vec<Shown>;

    /// What it wishes of the process's engine cores and host threads, if it has use for them.
    fn engine_wishes(&self) -> EngineWishes {
        EngineWishes::default()
    }

    /// Its requests leave their spans there. Told before it is opened; one that leaves none does not listen.
    fn trace(&mut self, tracer: Tracer) {
        let _ = tracer;
    }

    /// Its clients may do what these say, and nothing else. Told before it is opened, where there is a file of rights.
    ///
    /// # Errors
    /// It would not keep them.
    fn guard(&mut self, rights: ServiceRights) -> Result<(), Failure> {
        let _ = rights;
        let kind = self.kind();
        Err(format!("services of kind {kind} do not look at rights: leave out the file of rights, or serve this one in a process of its own").into())
    }

    /// Reads what says who may come in, users and certificates, as [`Service::open`] will, and keeps nothing of it. Told after [`Service::guard`].
    ///
    /// # Errors
    /// What opening it would fail of.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Takes what it needs, addresses above all, and may serve already; `core` is the engine core that it may be on. What operators are shown of it,
    /// if they are shown anything.
    ///
    /// # Errors
    /// Something cannot be had.
    fn open(&mut self, core: &Arc<EngineCore>, is_shown: bool) -> Result<Routes, Failure>;

    /// It may say to clients whether the process serves; `health` gives what that goes by. Told between opening and starting.
    ///
    /// # Errors
    /// What it needs for that cannot be had.
    fn health(&mut self, health: &dyn Fn() -> io::Result<Readiness>) -> Result<(), Failure> {
        let _ = health;
        Ok(())
    }

    /// Serves from now on, and says so. A thread of it that ends by itself tells `stop`.
    ///
    /// # Errors
    /// It cannot.
    fn start(&mut self, stop: &Stop) -> Result<(), Failure>;

    /// Where clients find it.
    fn addresses(&self) -> Vec<String>;

    /// A thread of it has died, and could not tell.
    fn death(&self) -> Option<Failure> {
        None
    }

    /// Reads anew what it can; whether there is such a thing.
    fn reload(&self) -> bool {
        false
    }

    /// Answers what has come, then ends. What it ended of, if it did so by itself.
    ///
    /// # Errors
    /// It failed before.
    fn finish(&mut self) -> Result<(), Failure>;
}

/// Why services are not served.
#[derive(Debug)]
pub enum ShellError {
    /// Signals cannot be caught.
    Signal(io::Error),
    /// The system gives no host threads.
    Threads(io::Error),
    /// The port for operators cannot be there.
    Admin(SocketAddr, io::Error),
    /// The certificate cannot be used.
    Tls(String),
    /// The file of rights.
    Rights(Wrong),
    /// Requests cannot be recorded.
    Record(String),
    /// The service manager opened listeners at which nothing here listens.
    HandedOver(Vec<String>),
    /// A service, with its name if it has one.
    Service(Option<String>, Failure),
}

impl ShellError {
    /// The error of a service of which this process has only one; `other` makes it of all else.
    pub fn of<E: Error + 'static>(self, other: impl FnOnce(ShellError) -> E) -> E {
        match self {
            ShellError::Service(name, failure) => match failure.downcast::<E>() {
                Ok(error) => *error,
                Err(failure) => other(ShellError::Service(name, failure)),
            },
            error => other(error),
        }
    }
}

impl fmt::Display for ShellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShellError::Signal(cause) => write!(f, "signals cannot be caught: {cause}"),
            ShellError::Threads(cause) => write!(f, "the system gives no host threads: {cause}"),
            ShellError::Tls(why) | ShellError::Record(why) => f.write_str(why),
            ShellError::Rights(wrong) => wrong.fmt(f),
            ShellError::HandedOver(addresses) => write!(
                f,
                "the service manager handed over listeners at which nothing here listens: {}; ListenStream= of the .socket unit are to be addresses of the \
                 config file, written alike",
                addresses.join(", ")
            ),
            // It says what to do.
            ShellError::Admin(_, cause) if cause.get_ref().is_some_and(|cause| cause.is::<Exposed>()) => {
                cause.fmt(f)
            }
            ShellError::Admin(address, cause) => {
                write!(f, "the admin port cannot be at {address}: {cause}; take another address, or port 0")
            }
            ShellError::Service(Some(name), failure) => write!(f, "service {name}: {failure}"),
            ShellError::Service(None, failure) => failure.fmt(f),
        }
    }
}

impl Error for ShellError {}

/// A service for a shell.
pub struct Served {
    /// A process with one service need not name it; names are before those of registers, and labels of metrics.
    pub name: Option<String>,
    /// The number of its engine core.
    pub engine_core: usize,
    /// What it is.
    pub service: Box<dyn Service>,
}

impl Served {
    /// One service without a name, on the first engine core.
    pub fn alone(service: impl Service + 'static) -> Served {
        Served { name: None, engine_core: 0, service: Box::new(service) }
    }
}

struct Hosted {
    name: Option<String>,
    service: Box<dyn Service>,
    is_open: bool,
}

impl Hosted {
    fn failed(&self) -> impl FnOnce(Failure) -> ShellError + use<> {
        let name = self.name.clone();
        |failure| ShellError::Service(name, failure)
    }

    fn finish(&mut self) -> Result<(), ShellError> {
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        self.service.finish().map_err(self.failed())
    }
}

/// Services that are served; until it is dropped, or waited for.
pub struct Shell {
    services: Vec<Hosted>,
    admin: Option<Admin>,
    rights: Option<RightsFile>,
    exporter: Option<Exporter>,
    recorder: Option<Recorder>,
    watchdog: Option<Watchdog>,
    stop: Stop,
    /// After the services.
    _cores: EngineCores,
}

impl Shell {
    /// Serves them on engine cores as `engine` says.
    ///
    /// # Errors
    /// The first thing that cannot be had. Nothing is left behind then.
    ///
    /// # Panics
    /// When a service is on an engine core that there is not.
    pub fn start(
        services: impl IntoIterator<Item = Served>,
        engine: &EnginePlan,
        access: impl Into<Access>,
        stop: Stop,
    ) -> Result<Shell, ShellError> {
        let Access { admin, rights } = access.into();
        stop.set_ends_at_once(true);
        stop.catch_hang_ups().map_err(ShellError::Signal)?;
        let services: Vec<Served> = services.into_iter().collect();
        let names = services.iter().filter_map(|one| one.name.clone());
        let rights =
            rights.map(|plan| RightsFile::open(plan, names)).transpose().map_err(ShellError::Rights)?;
        let wishes = services.iter().map(|one| (one.engine_core, one.service.engine_wishes()));
        let cores = EngineCores::new(engine, wishes).map_err(ShellError::Threads)?;
        let on: Vec<_> = services.iter().map(|one| Arc::clone(cores.core(one.engine_core))).collect();
        let hosted = |Served { name, service, .. }| Hosted { name, service, is_open: false };
        let (is_shown, mut routes, tracer) = (
            admin.is_some() || systemd::has_watchdog() || Exporter::is_wanted(),
            Routes::default().loops(cores.pulses()),
            Tracer::default(),
        );
        let services = services.into_iter().map(hosted).collect();
        let mut shell = Shell::of_services(services, rights, stop, cores);
        routes = shell.record(&tracer, routes)?;
        if let Some(rights) = &shell.rights {
            routes = routes.metrics(rights.collect());
        }
        for (hosted, core) in shell.services.iter_mut().zip(&on) {
            let name = hosted.name.as_deref().unwrap_or(hosted.service.kind());
            hosted.service.trace(tracer.of(name));
            if let Some(rights) = &shell.rights {
                let own = rights.of(hosted.name.as_deref());
                hosted.service.guard(own).map_err(hosted.failed())?;
            }
            hosted.is_open = true;
            let own = hosted.service.open(core, is_shown).map_err(hosted.failed())?;
            let service = &hosted.service;
            let (kind, role, addresses) = (service.kind(), service.role(), service.addresses());
            let entry = Entry { name: hosted.name.clone(), kind, role, addresses };
            routes = routes.service(hosted.name.as_deref(), own).entry(entry);
        }
        shell.watchdog = Watchdog::of(routes.pulses()).map_err(ShellError::Threads)?;
        let serves = Arc::new(AtomicBool::new(false));
        let (serving, stop) = (Arc::clone(&serves), shell.stop.clone());
        let routes = routes.ready(move || match serving.load(Ordering::Relaxed) {
            _ if stop.is_set() => Err("draining".to_owned()),
            false => Err("starting".to_owned()),
            true => Ok(()),
        });
        for hosted in &mut shell.services {
            let name = hosted.name.clone();
            hosted.service.health(&|| routes.readiness(name.as_deref())).map_err(hosted.failed())?;
        }
        shell.show(admin, routes)?;
        let left_over = systemd::left_over();
        if !left_over.is_empty() {
            return Err(ShellError::HandedOver(left_over));
        }
        for hosted in &mut shell.services {
            hosted.service.start(&shell.stop).map_err(hosted.failed())?;
        }
        serves.store(true, Ordering::Relaxed);
        shell.stop.set_ends_at_once(false);
        let all: Vec<String> = shell.services().flat_map(|(.., addresses)| addresses).collect();
        systemd::ready(&all);
        Ok(shell)
    }

    /// Shows what there is to be shown: at a port, if there is to be one, and to a collector, if there is one.
    fn show(&mut self, admin: Option<PortAt>, routes: Routes) -> Result<(), ShellError> {
        let Some(at) = admin else {
            self.exporter = Exporter::of_process(routes.into_shown()).map_err(ShellError::Threads)?;
            return Ok(());
        };
        let (address, told) = (at.address, self.stop.clone());
        let end = async move || {
            log::info!("told to stop at the admin port");
            told.stop();
            "draining\n"
        };
        let what = "has the process answer what has come, and end; with the token";
        let rights = self.rights.as_ref().map(|rights| rights.of(None));
        let admin = Admin::start(at, routes.with("PUT /stop", what, put(end)).guarded(rights));
        let admin = admin.map_err(|cause| ShellError::Admin(address, cause))?;
        self.exporter = Exporter::of_process(admin.shown()).map_err(ShellError::Threads)?;
        self.admin = Some(admin);
        Ok(())
    }

    fn of_services(
        services: Vec<Hosted>,
        rights: Option<RightsFile>,
        stop: Stop,
        cores: EngineCores,
    ) -> Shell {
        let (admin, exporter, recorder, watchdog) = (None, None, None, None);
        Shell { services, admin, rights, exporter, recorder, watchdog, stop, _cores: cores }
    }

    /// Records requests, if this process was told to.
    fn record(&mut self, tracer: &Tracer, routes: Routes) -> Result<Routes, ShellError> {
        let kinds = self.services.iter().map(|hosted| hosted.service.kind());
        self.recorder = Recorder::of_process(tracer, kinds).map_err(ShellError::Record)?;
        let Some(recorder) = &self.recorder else { return Ok(routes) };
        let what =
            "the recording, as JSON; PUT: one key of how many is recorded, 1/64 or off, with the token";
        Ok(routes.metrics(recorder.collect()).with("GET /record", what, recorder.route()))
    }

    /// The same, of one service without a name.
    ///
    /// # Errors
    /// As [`Shell::start`].
    pub fn of(
        service: impl Service + 'static,
        access: impl Into<Access>,
        stop: Stop,
    ) -> Result<Shell, ShellError> {
        Shell::start([Served::alone(service)], &EnginePlan::default(), access, stop)
    }

    /// The port for operators.
    pub fn admin(&self) -> Option<&Admin> {
        self.admin.as_ref()
    }

    /// Names, kinds and addresses of the services.
    pub fn services(&self) -> impl Iterator<Item = (Option<&str>, &'static str, Vec<String>)> {
        let one = |hosted: &Hosted| (hosted.service.kind(), hosted.service.addresses());
        self.services.iter().map(move |hosted| {
            let (kind, addresses) = one(hosted);
            (hosted.name.as_deref(), kind, addresses)
        })
    }

    /// Where the only service, or the first, is found.
    pub fn addresses(&self) -> Vec<String> {
        self.services.first().map(|hosted| hosted.service.addresses()).unwrap_or_default()
    }

    /// Waits until it is told to stop, or a service ends by itself; then answers what has come and ends all.
    ///
    /// SIGHUP has services read anew what they can. A process in which none can ends.
    ///
    /// # Errors
    /// What the first service that failed ended of.
    pub fn wait(mut self) -> Result<(), ShellError> {
        let mut died = None;
        while died.is_none() {
            let patience = self.watchdog.as_ref().map_or(DEATH_LOOK_INTERVAL, Watchdog::patience);
            match self.stop.wait(patience.min(DEATH_LOOK_INTERVAL)) {
                Woken::Stop => break,
                Woken::HangUp if !self.reload() => break,
                Woken::HangUp | Woken::TimedOut => {}
            }
            if let Some(watchdog) = &mut self.watchdog {
                watchdog.turn();
            }
            died = self.services.iter().find_map(|hosted| Some(hosted.failed()(hosted.service.death()?)));
        }
        log::info!("draining");
        systemd::stopping();
        self.stop.stop();
        self.stop.set_ends_at_once(true);
        let finished = self.finish();
        finished.and(died.map_or(Ok(()), Err))
    }

    fn reload(&self) -> bool {
        self.rights.iter().for_each(RightsFile::reload);
        // Each of them, also after one that did.
        self.services.iter().filter(|hosted| hosted.service.reload()).count() > 0 || self.rights.is_some()
    }

    /// All, whatever one of them says.
    fn finish(&mut self) -> Result<(), ShellError> {
        let ended = self.services.iter_mut().map(Hosted::finish).fold(Ok(()), Result::and);
        // What the last requests left is sent.
        self.exporter = None;
        self.recorder = None;
        self.admin = None;
        ended
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Whoever wants to know waits.
        let _ = self.finish();
    }
}

mod background;
mod check;
#[cfg(test)]
mod tests;
