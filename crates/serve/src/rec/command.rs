//! The command: flags, signals, the operators' port.

use super::counters::Counters;
use super::metrics;
use super::server::{Beats, Plan, ServeError, Server, Watched};
use super::shelf::Shelf;
use super::source::ModelArgs;
use crate::admin::{Admin, Routes, Tuned, parse_address};
use crate::process::logger::LogArgs;
use crate::process::parse::assign;
use crate::rec::registers::{Id, Registers};
use clap::Args;
use fabric::link::Address;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often signals are looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Serve a recommendation model.
///
/// Over the fabric: service millrace.Recommend (`millrace rec bench`, `millrace rpc call ADDRESS Recommend/Infer`). Over HTTP: the Open Inference Protocol,
/// version 2, with JSON or binary tensors. docs/rec.md describes both.
///
/// Each address is printed when it is ready (port 0 picks a free one). SIGHUP, or POST /v2/repository/models/NAME/load, loads the model anew beside the one
/// that is served and then puts it in its place; if it does not load, the old one goes on. Ctrl-C and SIGTERM answer what is under way and end it.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    millrace rec serve --model models/ctr\n  \
    millrace rec serve --tables 26 --rows 1M --dim 64 --format int8\n  \
    millrace rpc call tcp:127.0.0.1:7501 Recommend/Describe\n  \
    curl http://127.0.0.1:7500/v2/models/synthetic")]
pub struct Serve {
    #[command(flatten)]
    model: ModelArgs,

    /// Where to listen for the fabric: shm:/path, unix:/path, udp:HOST:PORT or tcp:HOST:PORT. May be repeated
    #[arg(short, long, value_name = "ADDRESS", default_value = "tcp:127.0.0.1:7501")]
    listen: Vec<Address>,

    /// Where to listen for HTTP. There is no authentication
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7500")]
    http: SocketAddr,

    /// HTTP port for metrics, registers and health; on loopback unless an address is given. Changes need the token whose file is logged
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = parse_address)]
    admin: Option<SocketAddr>,

    #[command(flatten)]
    log: LogArgs,

    /// Set a register (`millrace registers --rec` lists them). May be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,

    /// Cores of preprocessing and of the engine
    #[arg(long, value_name = "CORE,CORE", value_delimiter = ',', num_args = 2)]
    cores: Option<Vec<usize>>,
}

/// What the operators' port shows.
struct Operated {
    registers: Arc<Registers>,
    counters: Arc<Counters>,
    /// Once the model is loaded.
    shelf: OnceLock<Arc<Shelf>>,
    stopping: AtomicBool,
}

impl Tuned for Operated {
    type Id = Id;

    fn registers(&self) -> &Registers {
        &self.registers
    }
}

impl Operated {
    /// Its port, which is there while the model is loaded.
    fn start(self: &Arc<Operated>, address: SocketAddr, beats: &Beats) -> Result<Admin, ServeError> {
        let (collected, checked) = (Arc::clone(self), Arc::clone(self));
        let ready = move || match checked.shelf.get() {
            _ if checked.stopping.load(Ordering::Relaxed) => Err("draining".to_owned()),
            None => Err("the model is being loaded".to_owned()),
            Some(_) => Ok(()),
        };
        let routes = Routes::default()
            .registers(Arc::clone(self))
            .metrics(move |page| {
                metrics::collect(&collected.counters, collected.shelf.get().map(|shelf| &**shelf), page);
            })
            .ready(ready)
            .loops(beats.pulses());
        Admin::start(address, routes).map_err(|error| ServeError::Http(address, error))
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
        // While a model is loaded a signal ends it at once, and so does a second one at the end.
        let ends_at_once = Arc::new(AtomicBool::new(true));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&ends_at_once))
                .map_err(ServeError::Signal)?;
        }
        // Before there are threads.
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(ServeError::Signal)?;
        let (registers, watched) = (registers(&self.settings)?, Watched::default());
        let operated = Arc::new(Operated {
            registers: Arc::clone(&registers),
            counters: Arc::clone(&watched.counters),
            shelf: OnceLock::new(),
            stopping: AtomicBool::new(false),
        });
        let admin = self.admin.map(|address| operated.start(address, &watched.beats)).transpose()?;
        let plan = Plan {
            source: self.model.source(),
            listen: self.listen.clone(),
            http: Some(self.http),
            cores: self.cores.as_ref().and_then(|cores| <[usize; 2]>::try_from(&cores[..]).ok()),
            registers,
        };
        let server = Server::start_watched(plan, watched)?;
        let _ = operated.shelf.set(Arc::clone(server.shelf()));
        ends_at_once.store(false, Ordering::Relaxed);
        // A closed output is no reason not to serve.
        let mut out = std::io::stdout().lock();
        for address in server.addresses() {
            let _ = writeln!(out, "{address}");
        }
        if let Some(admin) = &admin {
            let address = admin.address();
            log::info!(address:% = address; "metrics and registers on http://{address}/");
            log::info!("changing a register wants the token in {}", admin.token().display());
        }
        let ports = server.http().into_iter().chain(admin.as_ref().map(Admin::address));
        ports.for_each(|address| drop(writeln!(out, "http://{address}")));
        let _ = out.flush();
        drop(out);
        let died = loop {
            let mut is_over = false;
            for signal in signals.pending() {
                match signal {
                    SIGHUP => reload(&server),
                    _ => is_over = true,
                }
            }
            let died = server.dead();
            if is_over || died.is_some() {
                break died;
            }
            std::thread::sleep(LOOK);
        };
        ends_at_once.store(true, Ordering::Relaxed);
        operated.stopping.store(true, Ordering::Relaxed);
        drop(server);
        drop(admin);
        died.map_or(Ok(()), |thread| Err(ServeError::Died(thread)))
    }
}

/// Loads the model anew, and says what came of it.
fn reload(server: &Server) {
    match server.shelf().reload() {
        Ok(served) => log::info!("serving {served:?}, generation {}", served.generation),
        Err(why) => log::error!("the model does not load, the old one goes on: {why}"),
    }
}
