//! `millrace chain controller` and `millrace chain reset`.

use super::error::ControllerError;
use super::in_node::Controlling;
use super::process::{Process, Setting, describe, name};
use crate::admin::parse_address;
use crate::chain::members;
use crate::chain::registers::{Registers, config};
use crate::chain::registry::etcd::{Etcd, EtcdRegistry, Login};
use crate::chain::registry::file::FileRegistry;
use crate::chain::registry::memory::MemoryRegistry;
use crate::chain::registry::{Registry, RegistryError};
use crate::chain::replica::{KEY_FILE, Secret};
use crate::process::listen::ListenArgs;
use crate::process::logger::LogArgs;
use crate::process::parse::assign;
use crate::process::{Stop, say};
use crate::shell::Shell;
use base::Nanos;
use fabric::link::Address;
use protocol::chain::controller::ResetRefused;
use protocol::chain::{Config, Configuration, ReplicaAddress, ReplicaId, Slots};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Run a controller of a chain until Ctrl-C or SIGTERM: it decides which replicas are in the chain, and in which order.
///
/// Replicas tell it that they live, and get the configuration and a lease in return. A replica that is silent for as long as a lease
/// (register chain.lease) is left out; one that comes back is let in as the last, and serves when it has caught up. A new chain begins when all
/// its replicas are there. If nobody can serve, the controller says why.
///
/// Without a controller the chain goes on writing as it is. Reads end with the leases, and no replica is replaced. A controller that
/// starts again goes on with what its registry has.
///
/// With --state the registry is a file, for one controller. With --etcd it is an etcd cluster, and there may be several controllers, each with its
/// own --number: one leads, and another takes over some 4 seconds after it died. A deposed one can change nothing.
///
/// Members prove to each other that they have the chain's key (--key); what travels between them is not encrypted.
#[derive(clap::Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  millrace chain controller --chain 7 --replicas 1,2,3 --state /var/lib/millrace/chain7 --listen tcp:10.0.0.1:7400
  millrace chain controller --chain 7 --replicas 1,2,3 --number 1 --listen tcp:10.0.0.2:7400 \\
    --etcd http://10.0.0.1:2379,http://10.0.0.2:2379,http://10.0.0.3:2379
  millrace chain controller --cluster cluster.toml --number 1

What happens when something fails, and what to do when all are down: docs/chain-operate.md")]
pub struct ControllerNode {
    #[command(flatten)]
    common: Common,

    /// HTTP port for metrics, registers and health; on loopback unless an address is given
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = parse_address)]
    admin: Option<SocketAddr>,

    #[command(flatten)]
    listening: ListenArgs,

    #[command(flatten)]
    log: LogArgs,
}

/// Go on with what is left of a chain that cannot go on by itself, losing acknowledged transactions if they are nowhere else.
///
/// A chain waits when none of the replicas that could be heard is known to have everything that was acknowledged: all that served lost their logs,
/// or those that have them do not come back; or the registry was lost. `millrace chain controller` says so. First try to start those replicas, or
/// to find the registry. If that cannot be, this makes the replica with the longest log, or the one of --serve, the only one that
/// serves; all others become copies of it.
///
/// End all controllers first, and run this as one of them: with their flags, at an address that the replicas know (--controllers). It ends when it
/// is done; then start the controllers again. It does nothing while a replica serves, or may.
///
/// Exit status: 0 done, 1 nothing was changed.
#[derive(clap::Args, Clone, Debug)]
#[command(after_long_help = "\
Example:
  millrace chain reset --accept-data-loss --chain 7 --replicas 1,2,3 --state /var/lib/millrace/chain7 --listen tcp:10.0.0.1:7400")]
pub struct Reset {
    #[command(flatten)]
    common: Common,

    /// What was acknowledged may be lost. Say it, or nothing is done
    #[arg(long, required = true)]
    accept_data_loss: bool,

    /// This replica is to serve, and not the one with the longest log
    #[arg(long, value_name = "N")]
    serve: Option<u16>,

    /// Wait so long for leadership and for replicas
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    wait: u64,
}

/// What both commands are told.
#[derive(clap::Args, Clone, Debug)]
struct Common {
    #[command(flatten)]
    keys: Keys,

    /// Where replicas find it: tcp:HOST:PORT, unix:/path, shm:/path or udp:HOST:PORT
    #[arg(short, long, value_name = "ADDRESS", required_unless_present = "cluster")]
    listen: Option<Address>,

    /// Set a register, as at the replicas; may be repeated. `millrace registers --chain` lists them
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// What config files say, too.
#[derive(clap::Args, Clone, Debug)]
pub struct Keys {
    /// The chain's number; messages of other chains are ignored. 1, or that of the only chain in --cluster
    #[arg(long, value_name = "N")]
    chain: Option<u32>,

    /// All replicas of the chain; a new one begins with them in this order, from head to tail
    #[arg(long, value_name = "N", value_delimiter = ',', required_unless_present = "cluster", value_parser = clap::value_parser!(u16).range(1..))]
    replicas: Vec<u16>,

    /// Its number among the controllers: its place in the replicas' --controllers, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    number: u16,

    /// The hash slots of keys that a new chain has, where there are several: 0-8191. All, or those in --cluster
    #[arg(long, value_name = "RANGES")]
    slots: Option<Slots>,

    /// Where they are, if that is known.
    #[arg(skip)]
    addresses: Vec<ReplicaAddress>,

    #[command(flatten)]
    place: Place,

    #[command(flatten)]
    login: Login,

    #[command(flatten)]
    secret: Secret,
}

/// Where the configuration is kept.
#[derive(clap::Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct Place {
    /// Keep the configuration in this file and two copies beside it (FILE.2, FILE.3); or in several files on different disks, A,B,C. Most of them
    /// must be writable; one that is damaged or lost is made again
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    state: Vec<PathBuf>,

    /// Keep the configuration in etcd, at the first of these endpoints that answers: http://HOST:PORT
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    etcd: Vec<String>,

    /// The file of the cluster, which says it, and all else that is not said here: addresses, replicas, key, registers
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
}

/// What a cluster's file says of a controller besides its keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Seat {
    pub listen: Option<Address>,
    pub admin: Option<SocketAddr>,
    pub set: Vec<String>,
}

/// The registry of a chain: a file, or etcd, or memory if neither is given.
///
/// # Errors
/// [`RegistryError`]: the file is in use, or a URL is none.
pub fn registry(
    config: &Config,
    number: u16,
    state: &[PathBuf],
    etcd: (&[String], &Login),
) -> Result<Box<dyn Registry>, RegistryError> {
    let (endpoints, login) = etcd;
    match state {
        _ if !endpoints.is_empty() => {
            let etcd = Etcd {
                drift_percent: config.drift_percent,
                access: login.read()?,
                ..Etcd::at(endpoints.to_vec())
            };
            Ok(Box::new(EtcdRegistry::new(etcd, config.chain, number)?))
        }
        [] => Ok(Box::<MemoryRegistry>::default()),
        files => Ok(Box::new(FileRegistry::open(config.chain, files)?)),
    }
}

impl ControllerNode {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// It could not start.
    pub fn run(&self) -> Result<(), ControllerError> {
        self.log.start("chain");
        self.listening.apply()?;
        let stop = Stop::on_signals().map_err(signals)?;
        let (common, admin) = self.common.clone().settle()?;
        let name = common.keys.name();
        let registers = registers(&common.set)?;
        let controlling = Controlling::new(common.keys, common.listen, registers);
        let shell = Shell::of(controlling, self.listening.access(self.admin.or(admin))?, stop)?;
        if let Some(admin) = shell.admin() {
            say(&format!("{name}: metrics at {}/metrics", admin.url()));
        }
        Ok(shell.wait()?)
    }
}

impl Reset {
    /// Does it.
    ///
    /// # Errors
    /// It was not done, and why.
    pub fn run(&self) -> Result<(), ControllerError> {
        let stop = Stop::on_signals().map_err(signals)?;
        let settled = Reset { common: self.common.clone().settle()?.0, ..self.clone() };
        let mut process = settled.open()?;
        say(&ready(&process));
        let done = settled.reset(&mut process, stop.flag())?;
        say(&format!("reset: {}. Start the controllers again", describe(&done)));
        Ok(())
    }

    pub(super) fn open(&self) -> Result<Process, ControllerError> {
        self.common.open()
    }

    /// Waits until it can be done, and until it is durable.
    pub(super) fn reset(
        &self,
        process: &mut Process,
        stop: &AtomicBool,
    ) -> Result<Configuration, ControllerError> {
        let start = process.clock.now();
        let end = start.plus(Nanos::from_secs(self.wait));
        // The one with the longest log may be the last that comes.
        let gathered = start.plus(self.common.keys.config(&registers(&self.common.set)?)?.gather);
        let mut chosen = None;
        while !stop.load(Ordering::Relaxed) {
            if process.turn(&mut say) == 0 {
                process.rest();
            }
            let now = process.clock.now();
            let view = process.driver.view(now);
            if let Some(chosen) = chosen {
                match view.configuration.filter(|found| found.head().map(|head| head.replica) == Some(chosen))
                {
                    Some(done) => return Ok(done),
                    None if now < end => continue,
                    None => return Err(ControllerError::NotStored(self.trouble(process))),
                }
            }
            if !process.driver.leads(now) {
                if now < end {
                    continue;
                }
                return Err(ControllerError::NoLeadership(process.driver.trouble().map(str::to_owned)));
            }
            if now < gathered && view.heard.len() < self.common.keys.replicas.len() {
                continue;
            }
            match process.driver.reset(now, self.serve.map(ReplicaId)) {
                Ok(replica) => chosen = Some(replica),
                Err(why @ ResetRefused::Serves(_)) => return Err(ControllerError::Reset(why)),
                Err(why) if now >= end => return Err(ControllerError::Reset(why)),
                Err(_) => {}
            }
        }
        Err(ControllerError::Stopped)
    }

    fn trouble(&self, process: &Process) -> String {
        process.driver.trouble().map_or_else(|| "it takes too long".to_owned(), str::to_owned)
    }
}

impl Common {
    /// With what the cluster's file says and they do not, if there is one; and where operators find it.
    fn settle(self) -> Result<(Common, Option<SocketAddr>), ControllerError> {
        let (keys, seat) = self.keys.settle()?;
        let set = [seat.set, self.set].concat();
        Ok((Common { keys, listen: self.listen.or(seat.listen), set }, seat.admin))
    }

    fn open(&self) -> Result<Process, ControllerError> {
        let listen = self.listen.as_ref().expect("it is required, or in the cluster's file");
        self.keys.open(listen, &registers(&self.set)?)
    }
}

/// Registers as `--set` says.
pub(super) fn registers(set: &[String]) -> Result<Registers, ControllerError> {
    let registers = Registers::default();
    assign(&registers, set).map_err(|error| ControllerError::Set(error.to_string()))?;
    Ok(registers)
}

impl Keys {
    pub(super) fn name(&self) -> String {
        name(self.number, self.chain.unwrap_or(1))
    }

    /// With what the cluster's file says and they do not, if there is one.
    pub(super) fn settle(mut self) -> Result<(Keys, Seat), ControllerError> {
        let Some(file) = self.place.cluster.take() else { return Ok((self, Seat::default())) };
        let chain =
            members::one(&file, self.chain).map_err(|wrong| ControllerError::Set(wrong.to_string()))?;
        let no_place = |why| ControllerError::Set(format!("{}: {why}", file.display()));
        let place = chain.controller(self.number).map_err(no_place)?.clone();
        self.chain = Some(chain.number);
        self.slots = self.slots.or(Some(chain.slots));
        if self.replicas.is_empty() {
            self.replicas = chain.replicas.iter().map(|place| place.id).collect();
        }
        self.addresses = chain.replicas.iter().map(|place| place.at()).collect();
        self.secret.fall_back_to(chain.key);
        self.place = Place { state: chain.state, etcd: chain.etcd, cluster: None };
        self.login = chain.login;
        Ok((self, Seat { listen: Some(place.address), admin: place.admin, set: chain.set }))
    }

    fn config(&self, registers: &Registers) -> Result<Config, ControllerError> {
        let slots = self.slots.clone().unwrap_or_default();
        let config = Config { slots, ..config(self.chain.unwrap_or(1), registers) };
        config
            .check()
            .map_err(|error| ControllerError::Set(format!("the registers do not fit together: {error}")))?;
        Ok(config)
    }

    /// Listens there, and begins.
    pub(super) fn open(&self, listen: &Address, registers: &Registers) -> Result<Process, ControllerError> {
        let config = self.config(registers)?;
        let replicas: Vec<ReplicaId> = self.replicas.iter().map(|id| ReplicaId(*id)).collect();
        let is_twice = |(at, id): &(usize, &ReplicaId)| replicas[..*at].contains(id);
        if let Some((_, twice)) = replicas.iter().enumerate().find(is_twice) {
            return Err(ControllerError::Twice(*twice));
        }
        let beside = self.place.state.first().map(|state| state.with_file_name(KEY_FILE));
        let key = self.secret.key(beside.as_deref(), [listen]);
        let key = key.map_err(|error| ControllerError::Key(error.to_string()))?;
        let registry = registry(&config, self.number, &self.place.state, (&self.place.etcd, &self.login))?;
        let address = |id: ReplicaId| {
            let known = self.addresses.iter().find(|at| at.replica == id).cloned();
            known.unwrap_or(ReplicaAddress { replica: id, peers: String::new(), clients: String::new() })
        };
        let replicas = replicas.into_iter().map(address).collect();
        let (number, listen) = (self.number, listen.clone());
        Process::open(Setting { config, number, key, replicas, listen, registry })
    }
}

pub(super) fn ready(process: &Process) -> String {
    let address = process.address().map(Address::to_string).unwrap_or_default();
    format!("{} is ready: replicas find it at {address}", process.name())
}

fn signals(cause: io::Error) -> ControllerError {
    ControllerError::System(io::Error::other(format!("signals cannot be caught: {cause}")))
}
