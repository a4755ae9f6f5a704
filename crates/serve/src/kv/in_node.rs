//! The key-value server as a service of a process.

use super::Server;
use super::config::{Config, Listen, octal};
use super::durable::{Durability, DurableArgs};
use super::home::HomeArgs;
use super::registers::Id;
use crate::admin::Routes;
use crate::engine_cores::{EngineCore, EngineWishes};
use crate::memcached::login::LoginArgs;
use crate::process::Stop;
use crate::process::table::{Table, Wrong};
use crate::process::tls::TlsArgs;
use crate::reach::{self, Protection};
use crate::shell::{Failure, Service};
use base::Bytes;
use base::registers::Shown;
use base::rights::ServiceRights;
use base::trace::Tracer;
use clap::Args;
use fabric::link::Address;
use std::path::PathBuf;
use std::sync::Arc;

/// What a config file says of one, besides its registers.
#[derive(Args, Debug)]
struct Keys {
    /// Access mask of Unix sockets, octal
    #[arg(long, value_parser = octal)]
    unix_mask: Option<u32>,

    /// Let the `shutdown` command stop the process
    #[arg(long)]
    enable_shutdown: bool,

    #[command(flatten)]
    tls: TlsArgs,

    #[command(flatten)]
    login: LoginArgs,

    #[command(flatten)]
    home: HomeArgs,

    #[command(flatten)]
    durable: DurableArgs,
}

/// A key-value server, running or not.
pub struct Kv {
    config: Config,
    server: Option<Server>,
}

impl Kv {
    /// One that listens where `config` says, and where it is told besides.
    pub fn new(config: Config) -> Kv {
        Kv { config, server: None }
    }

    /// As a table of a config file says.
    ///
    /// # Errors
    /// Says which key is wrong.
    pub fn of(table: &Table<'_>) -> Result<Kv, Wrong> {
        let keys: Keys = table.flags(&["kind", "engine_core"])?;
        let listen = Listen { tcp: vec![], ..Listen::default() };
        let mut config = Config {
            listen,
            tls: keys.tls.files().map_err(|why| table.wrong(why))?,
            login: keys.login,
            allow_shutdown: keys.enable_shutdown,
            home: keys.home,
            durable: keys.durable,
            ..Config::default()
        };
        config.listen.unix_mask = keys.unix_mask.unwrap_or(config.listen.unix_mask);
        config.apply_store(table, &[])?;
        Ok(Kv::new(config))
    }
}

impl Service for Kv {
    fn kind(&self) -> &'static str {
        "kv"
    }

    fn role(&self) -> String {
        let home = if self.config.home.boxes.is_some() { ", home of boxes" } else { "" };
        let durable = match self.config.durable.durability {
            Durability::None => "",
            Durability::Log => ", with a log",
            Durability::Chain => ", items in a chain",
        };
        format!("memcached node{home}{durable}")
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["memcached"]
    }

    fn listen(&mut self, _protocol: &str, address: &Address) -> Result<(), String> {
        let listen = &mut self.config.listen;
        let place = |place: &mut Option<PathBuf>, path: &PathBuf| match place {
            Some(_) => Err(format!("a kv service has one {} socket at most", address.transport().name())),
            None => {
                *place = Some(path.clone());
                Ok(())
            }
        };
        let resolved =
            |endpoint: &fabric::link::Endpoint| endpoint.resolve().map_err(|why| format!("{address}: {why}"));
        match address {
            Address::Tcp(endpoint) => listen.tcp.push(resolved(endpoint)?),
            Address::Tls(endpoint) => listen.tls.push(resolved(endpoint)?),
            Address::Udp(endpoint) => listen.udp.push(resolved(endpoint)?),
            Address::Unix(path) => place(&mut listen.unix, path)?,
            Address::Shm(path) => place(&mut listen.shm, path)?,
            Address::Memory(_) => {
                return Err("memcached clients come over tcp:, tls:, udp:, unix: or shm:".to_owned());
            }
        }
        Ok(())
    }

    fn registers(&self) -> Vec<Shown> {
        self.config.registers.show()
    }

    fn engine_wishes(&self) -> EngineWishes {
        super::wishes(&self.config.registers)
    }

    fn trace(&mut self, tracer: Tracer) {
        self.config.tracer = tracer;
    }

    fn guard(&mut self, rights: ServiceRights) -> Result<(), Failure> {
        self.config.rights = Some(rights);
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        Ok(super::check(&self.config)?)
    }

    fn open(&mut self, core: &Arc<EngineCore>, _is_shown: bool) -> Result<Routes, Failure> {
        let plain = if self.config.login.has_users() { Protection::Passwords } else { Protection::None };
        for address in &self.config.listen.tcp {
            reach::check("memcached", *address, plain)?;
        }
        for address in &self.config.listen.udp {
            reach::check("memcached over UDP", *address, Protection::Datagrams)?;
        }
        let mut server = Server::start_on(&self.config, core)?;
        // Also where a topology says that its home is.
        for address in server.tcp() {
            reach::check("memcached", *address, plain)?;
        }
        let routes = server.routes().traces(&self.config.tracer);
        self.server = Some(server);
        Ok(routes)
    }

    fn start(&mut self, _stop: &Stop) -> Result<(), Failure> {
        let Some(server) = &self.server else { return Ok(()) };
        self.config.notes.iter().for_each(|note| log::info!("{note}"));
        for address in server.tcp() {
            log::info!(address:% = address; "serving memcached clients on {address}");
        }
        for address in server.tls() {
            log::info!(address:% = address; "serving memcached clients with TLS on {address}");
        }
        for address in server.udp() {
            log::info!(address:% = address; "serving memcached clients on UDP {address}");
        }
        if let Some(path) = &self.config.listen.unix {
            log::info!("serving memcached clients on {}", path.display());
        }
        if let Some(path) = &self.config.listen.shm {
            log::info!("handing out shared-memory rings on {}", path.display());
        }
        if let Some(address) = server.takes_transactions_at() {
            log::info!(address:% = address; "taking transactions of the chain's clients on {address}");
        }
        let registers = &self.config.registers;
        log::debug!(
            "{} of memory, {}, {} edge thread(s)",
            Bytes(registers.read(Id::StoreMemory)),
            server.report().kv.store.heap_pages,
            registers.read(Id::EdgeThreads)
        );
        warn_of_descriptors(&self.config);
        Ok(())
    }

    fn addresses(&self) -> Vec<String> {
        let Some(server) = &self.server else { return Vec::new() };
        let Listen { unix, shm, .. } = &self.config.listen;
        let tcp = server.tcp().iter().map(|address| format!("tcp:{address}"));
        let tls = server.tls().iter().map(|address| format!("tls:{address}"));
        let udp = server.udp().iter().map(|address| format!("udp:{address}"));
        let unix = unix.iter().map(|path| format!("unix:{}", path.display()));
        let shm = shm.iter().map(|path| format!("shm:{}", path.display()));
        let txn = server.takes_transactions_at().map(|address| format!("transactions at {address}"));
        tcp.chain(tls).chain(udp).chain(unix).chain(shm).chain(txn).collect()
    }

    fn death(&self) -> Option<Failure> {
        self.server.as_ref().and_then(Server::failed).map(Failure::from)
    }

    fn reload(&self) -> bool {
        let Some(server) = &self.server else { return false };
        let has_tls = server.shared().tls.as_ref().map(|tls| tls.reload()).is_some();
        server.shared().entrance.reload() || has_tls
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        server.finish();
        server.failed().map_or(Ok(()), |why| Err(why.into()))
    }
}

/// Says so if this process may not have as many descriptors as its connections want.
fn warn_of_descriptors(config: &Config) {
    // Per edge an epoll and a wake-up; libraries, listeners, the admin port and its reserve.
    let beside = 64 + 4 * config.registers.read(Id::EdgeThreads);
    let wanted = config.registers.read(Id::NetMaxConnections).saturating_add(beside);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit.filter(|&limit| limit < wanted) {
        log::warn!(
            "this process may open {limit} descriptors, but its connections (-c) want {wanted}: clients beyond are turned away. Raise the \
             limit (`ulimit -Hn`, LimitNOFILE= of systemd), or lower -c"
        );
    }
}
