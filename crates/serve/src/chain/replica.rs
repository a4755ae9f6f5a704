//! `millrace chain replica`: one replica of a chain as a process.

use super::disk::{self, Disk};
use super::error::ChainError;
use super::in_node::Serving;
use super::links::Links;
use super::media::Media;
use super::members;
use super::node::{Node, Place};
use super::registers::{Registers, config};
use super::service::Desk;
use crate::admin::parse_address;
use crate::process::listen::ListenArgs;
use crate::process::logger::LogArgs;
use crate::process::parse::assign;
use crate::process::{Stop, say};
use crate::reach::{self, Protection};
use crate::shell::Shell;
use crate::txn::words;
use base::key::Key;
use base::steady::Steady;
use base::{Bytes, Clock};
use fabric::link::Address;
use fabric::server::{Gate, Options, Server};
use protocol::chain::{Image as _, NodeId, Replica, ReplicaId};
use ring::wait::waiting_on_eventfd;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Run a replica of a chain until Ctrl-C or SIGTERM.
///
/// It keeps a redo log and an image of all items, takes part in the chain as the controller says, and serves clients (`millrace txn`) at
/// --listen. Which replicas there are is said in --peers, the same for all of them; each listens for the others at its own address there.
/// Replicas that were down come back by themselves: they replay their log, and are given the rest by the chain.
///
/// It prints what it recovered, and a line when it is ready. Members prove to each other that they have the chain's key (--key). Clients prove
/// nothing, and nothing is encrypted: keep --listen on loopback or a network that you trust.
///
/// Exit status: 0 when told to stop, 1 when it could not start, 2 wrong usage, 4 when its log or image could not be written: nothing is
/// acknowledged from then on.
#[derive(clap::Args, Clone, Debug)]
#[command(after_long_help = "\
Example, three replicas on three machines with a controller on the first:
  millrace key new /etc/millrace/chain7.key     # once; copy it to all three, and add --key /etc/millrace/chain7.key to each line
  millrace chain controller --chain 7 --replicas 1,2,3 --state /var/lib/millrace/chain7 --listen tcp:10.0.0.1:7400
  millrace chain replica --chain 7 --id 1 --data /var/lib/millrace/replica --listen tcp:10.0.0.1:7401 \\
    --peers 1=tcp:10.0.0.1:7411,2=tcp:10.0.0.2:7411,3=tcp:10.0.0.3:7411 --controllers tcp:10.0.0.1:7400
  … and the same with --id 2 and 3, and their own --listen, on the others.

The same with one file for all of them (docs/cluster.md):
  millrace chain replica --cluster cluster.toml --id 1

One more, while the chain runs, which `millrace cluster add` or `move` lets in:
  millrace chain replica --cluster cluster.toml --id 4 --join tcp:10.0.0.4:7411 --listen tcp:10.0.0.4:7401 --data /var/lib/millrace/replica

On one machine `millrace chain up` starts all of it.")]
pub struct ReplicaNode {
    /// Which replica of which chain.
    #[command(flatten)]
    pub keys: Keys,

    /// Where clients find it: tcp:HOST:PORT, tls:HOST:PORT, unix:/path, shm:/path or udp:HOST:PORT; port 0 picks a free one. May be repeated
    #[arg(short, long, value_name = "ADDRESS", required_unless_present = "cluster")]
    pub listen: Vec<Address>,

    /// Set a register; may be repeated. `millrace registers --chain` lists them
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,

    /// HTTP port for metrics, registers and health; on loopback unless an address is given
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = parse_address)]
    pub admin: Option<SocketAddr>,

    /// How it may be reached
    #[command(flatten)]
    pub listening: ListenArgs,

    /// How it logs
    #[command(flatten)]
    pub log: LogArgs,

    /// End when standard input is closed, too
    #[arg(long)]
    pub until_eof: bool,
}

/// What config files say, too.
#[derive(clap::Args, Clone, Debug)]
pub struct Keys {
    /// Its number in the chain: the same for ever
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub id: u16,

    /// The chain's number; messages of other chains are ignored. 1, or that of the only chain in --cluster
    #[arg(long, value_name = "N")]
    pub chain: Option<u32>,

    /// The file of the cluster, which says all that is in it and not said here: addresses, peers, controllers, key, directory, registers
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,

    /// What clients are told of where it is, if that is not the first of --listen
    #[arg(long, value_name = "ADDRESS")]
    pub advertise: Option<Address>,

    /// Join a chain that runs, and listen for the other members there: no file and no flag need name this replica. It is given everything, and serves,
    /// when `millrace cluster add` or `move` says that it belongs to the chain
    #[arg(long, value_name = "ADDRESS")]
    pub join: Option<Address>,

    /// All replicas, this one too, and where each listens for the others: 1=ADDRESS,2=ADDRESS,…
    #[arg(long, value_name = "N=ADDRESS", value_delimiter = ',', required_unless_present_any = ["cluster", "join"], value_parser = numbered)]
    pub peers: Vec<(u16, Address)>,

    /// Where the controllers listen, the first being number 0; or N=ADDRESS
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', required_unless_present = "cluster", value_parser = perhaps_numbered)]
    pub controllers: Vec<(Option<u16>, Address)>,

    #[command(flatten)]
    storage: Storage,

    #[command(flatten)]
    secret: Secret,
}

/// The key of a cluster's members, when nothing else is said: a file in the directory of each.
pub const KEY_FILE: &str = "cluster.key";

/// By what the members of a chain know each other.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Secret {
    /// The chain's key, the same file for all its replicas and controllers; `millrace key new FILE` makes one. Without it: cluster.key beside what
    /// this node keeps
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// No key: every process that reaches the addresses may say that it is a member. On loopback and sockets of this machine only
    #[arg(long, conflicts_with = "key")]
    pub no_key: bool,
}

impl Secret {
    /// The key in this file, if nothing else is said.
    pub(super) fn fall_back_to(&mut self, file: Option<PathBuf>) {
        self.key = self.key.take().or(file.filter(|_| !self.no_key));
    }

    /// The key in the file that was named, or in the one `beside` what the node keeps. `addresses` are those of the members.
    ///
    /// # Errors
    /// There is none, or others can read it; or no key is wanted and a member is on another machine.
    pub fn key<'a>(
        &self,
        beside: Option<&Path>,
        addresses: impl IntoIterator<Item = &'a Address>,
    ) -> Result<Key, ChainError> {
        if self.no_key {
            return match addresses.into_iter().find(|address| !address.is_local()) {
                Some(address) => Err(ChainError::Exposed(address.clone())),
                None => Ok(Key::new([0; 16])),
            };
        }
        match self.key.as_deref().or(beside) {
            Some(path) => Key::read(path).map_err(ChainError::Key),
            None => Err(ChainError::NoKey),
        }
    }
}

/// Where a replica keeps its log and its image.
#[derive(clap::Args, Clone, Debug)]
pub struct Storage {
    /// Directory of this replica alone, made if it is not there
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// What log and image are kept on: file, dsync, pmem, memory, emulated, emulated:LATENCY_NS or emulated:LATENCY_NS,BYTES_PER_SECOND
    #[arg(long, default_value_t)]
    pub media: Media,

    /// Size of the log; what is there counts once it was made
    #[arg(long, value_name = "SIZE", default_value = "64m")]
    pub log_size: Bytes,

    /// Most that all items may take
    #[arg(long, value_name = "SIZE", default_value = "256m")]
    pub data_size: Bytes,
}

/// Reads `2=tcp:HOST:PORT`.
///
/// # Errors
/// What is wrong with it.
pub fn numbered(text: &str) -> Result<(u16, Address), String> {
    let (number, address) = text.split_once('=').ok_or("write NUMBER=ADDRESS, as in 1=tcp:127.0.0.1:7411")?;
    let number = number.parse().map_err(|_| format!("'{number}' is no replica's number"))?;
    Ok((number, address.parse::<Address>().map_err(|error| error.to_string())?))
}

fn perhaps_numbered(text: &str) -> Result<(Option<u16>, Address), String> {
    match text.split_once('=') {
        Some(_) => numbered(text).map(|(number, address)| (Some(number), address)),
        None => text
            .parse()
            .map(|address| (None, address))
            .map_err(|error: fabric::link::AddressError| error.to_string()),
    }
}

/// Registers as `--set` says.
///
/// # Errors
/// There is none of that name, or the value is none.
pub fn registers(set: &[String]) -> Result<Registers, ChainError> {
    let registers = Registers::default();
    assign(&registers, set)?;
    Ok(registers)
}

impl ReplicaNode {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// It could not start, or its log or image failed.
    pub fn run(&self) -> Result<(), ChainError> {
        self.log.start("chain");
        self.listening.apply()?;
        let stop = Stop::on_signals().map_err(ChainError::signals)?;
        if self.until_eof {
            stop.at_eof();
        }
        let (keys, seat) = self.keys.clone().settle()?;
        let (name, admin) = (keys.name(), self.admin.or(seat.admin));
        let listen = if self.listen.is_empty() { seat.listen } else { self.listen.clone() };
        if listen.is_empty() {
            return Err(ChainError::NowhereForClients);
        }
        let replica = Serving::new(keys, listen, registers(&[&seat.set[..], &self.set].concat())?);
        let shell = Shell::of(replica, self.listening.access(admin)?, stop)?;
        if let Some(admin) = shell.admin() {
            say(&format!("{name}: metrics at {}/metrics", admin.url()));
        }
        Ok(shell.wait()?)
    }
}

/// What a cluster's file says of a replica besides its keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Seat {
    pub listen: Vec<Address>,
    pub admin: Option<SocketAddr>,
    pub set: Vec<String>,
}

impl Keys {
    /// What its lines begin with.
    pub(super) fn name(&self) -> String {
        format!("replica {} of chain {}", self.id, self.number())
    }

    fn number(&self) -> u32 {
        self.chain.unwrap_or(1)
    }

    /// With what the cluster's file says and they do not, if there is one.
    pub(super) fn settle(mut self) -> Result<(Keys, Seat), ChainError> {
        let Some(file) = &self.cluster else { return Ok((self, Seat::default())) };
        let chain = members::one(file, self.chain).map_err(ChainError::Cluster)?;
        let no_place = |why| ChainError::NoPlace(file.clone(), why);
        let place = match chain.replica(self.id) {
            Ok(place) => Some(place.clone()),
            // One that joins is written into the file when it serves.
            Err(_) if self.join.is_some() => None,
            Err(why) => return Err(no_place(why)),
        };
        let controllers = chain.controllers.into_iter().map(|place| (None, place.address));
        let peers = chain.replicas.into_iter().map(|place| (place.id, place.peers));
        self.chain = Some(chain.number);
        self.peers = if self.peers.is_empty() { peers.collect() } else { self.peers };
        self.controllers = if self.controllers.is_empty() { controllers.collect() } else { self.controllers };
        self.secret.fall_back_to(chain.key);
        let Some(place) = place else {
            return Ok((self, Seat { set: chain.set, ..Seat::default() }));
        };
        self.storage.data = self.storage.data.or(place.data);
        Ok((self, Seat { listen: vec![place.address], admin: place.admin, set: chain.set }))
    }

    /// Checks what was said, takes the directory and the addresses, and recovers.
    pub(super) fn open(
        &self,
        clients_at: &[Address],
        registers: Arc<Registers>,
        gate: Option<Gate>,
    ) -> Result<Node, ChainError> {
        let config = config(self.number(), &registers);
        config.check()?;
        // Before anything is told what time it is: one that began before its clock was set back would wait for what it began with to come again.
        let steady = Steady::new(Clock::shared());
        let (peers, listen) = self.peers()?;
        let controllers = self.controllers()?;
        let numbers: Vec<u16> = controllers.iter().map(|(number, _)| *number).collect();

        let (desk, service) = Desk::new();
        let options = Options { max_connections: 4096, request: words::REQUEST, ..Options::default() };
        let server = Server::try_new(options).map_err(|error| ChainError::System("serve clients", error))?;
        let mut server = server.service(service);
        if let Some(gate) = gate {
            server = server.gate(gate);
        }
        for address in clients_at {
            reach::check_of("this replica of the chain", address, Protection::None)
                .map_err(ChainError::Reachable)?;
            server = server.listen(address).map_err(|error| ChainError::Listen(address.clone(), error))?;
        }
        let serves = self.advertise.clone().or_else(|| server.addresses().next().cloned());
        let serves = serves.map_or(String::new(), |address| address.to_string());

        let beside = self.storage.data.as_ref().map(|data| data.join(KEY_FILE));
        let at = peers.iter().map(|(_, address)| address).chain(controllers.iter().map(|(_, at)| at));
        let key = self.secret.key(beside.as_deref(), at)?;
        let id = ReplicaId(self.id);
        let (sleeper, waker) =
            waiting_on_eventfd().map_err(|error| ChainError::System("have an eventfd", error))?;
        let wake = Arc::new(move || {
            waker.wake();
        });
        let (disk, found) = disk::open(&self.storage, &config, id, wake)?;
        let nodes = peers.into_iter().map(|(id, address)| (NodeId::Replica(id), Some(address))).chain(
            controllers.into_iter().map(|(number, address)| (NodeId::Controller(number), Some(address))),
        );
        let links = Links::new(&key, self.number(), NodeId::Replica(id), Some(&listen), &serves, nodes)
            .map_err(|error| ChainError::Listen(listen.clone(), error))?;

        let Disk { image, log, recovered, incarnation } = disk;
        let (begun, before) = (Instant::now(), image.applied());
        let now = Clock::shared().now();
        let secret = Key::generate();
        let replica = Replica::new(&config, id, incarnation, &numbers, secret, recovered, now, image, log);
        let view = replica.view();
        let found = found.replayed(before, view.applied, view.last, begun.elapsed());
        say(&format!("{}: {found}", self.name()));
        let place =
            Place { chain: self.number(), id, incarnation, media: self.storage.media, serves, found, key };
        Ok(Node::new(replica, place, links, (server, desk), sleeper, (registers, steady)))
    }

    /// The replicas, and where this one listens.
    fn peers(&self) -> Result<(Vec<(ReplicaId, Address)>, Address), ChainError> {
        let mut peers: Vec<_> =
            self.peers.iter().map(|(id, address)| (ReplicaId(*id), address.clone())).collect();
        if let Some(join) = &self.join {
            peers.retain(|(id, _)| id.0 != self.id);
            peers.push((ReplicaId(self.id), join.clone()));
        }
        let mut ids: Vec<ReplicaId> = peers.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ChainError::Twice(format!("replica {} of --peers", pair[0].0)));
        }
        let me = ReplicaId(self.id);
        let own = peers.iter().find(|(id, _)| *id == me).map(|(_, address)| address.clone());
        Ok((peers, own.ok_or(ChainError::NotAPeer(me, ids))?))
    }

    fn controllers(&self) -> Result<Vec<(u16, Address)>, ChainError> {
        let mut controllers: Vec<(u16, Address)> = Vec::new();
        for (place, (number, address)) in self.controllers.iter().enumerate() {
            let number = number.unwrap_or(place as u16);
            if controllers.iter().any(|(known, _)| *known == number) {
                return Err(ChainError::Twice(format!("controller {number} of --controllers")));
            }
            controllers.push((number, address.clone()));
        }
        Ok(controllers)
    }
}
