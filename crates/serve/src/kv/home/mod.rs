//! A key-value server that is the home of a rack's boxes: what it is told, and how it takes its place.
//!
//! ```text
//!  --boxes rack.toml --home 1 ──▶ HomeArgs ──▶ Seat: topology, socket, keys, life
//!                                               ├──▶ Homed, the service on the engine     (`service/homed.rs`)
//!                                               └──▶ Wire, at edge 0                      (`edge/home.rs`)
//!                                    Post: what the two leave for each other              (`../post.rs`)
//! ```
//! Why and how: `docs/design/010-one-store.md`.

#[cfg(test)]
mod tests;

use super::StartError;
use super::claiming::Claiming;
use super::post::Post;
use super::service::by_home::Callers;
use super::txn_door::TxnDoor;
use crate::inc::wire::Wire;
use crate::inc::{Topology, TopologyError, incarnation, node};
use crate::reach::{self, Protection};
use base::Nanos;
use base::trace::Tracer;
use clap::Args;
use fabric::link::Address;
use protocol::coherence::guard::Keys;
use protocol::coherence::home::items::Items;
use protocol::coherence::table::Layout;
use protocol::coherence::{Guard, Home, Life, NodeId};
use protocol::wire::{HomeId, Incarnation};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::warm::Whose;

/// What a server is told of boxes before it.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct HomeArgs {
    /// Be the home of the boxes of this topology (`millrace inc topology` prints one): what its clients and memcached's see is the same. Where the
    /// topology says a stream for it, it listens there, too
    #[arg(long, visible_alias = "cluster", value_name = "FILE")]
    pub boxes: Option<PathBuf>,

    /// Which of the topology's homes, if it has several
    #[arg(long, value_name = "ID", requires = "boxes")]
    pub home: Option<u16>,

    /// It is moved here (`millrace cluster move`), wherever the topology has it: boxes and their clients are served nothing until a controller says that it
    /// is here, and a lease more
    #[arg(long, value_name = "ADDR:PORT", requires = "boxes", conflicts_with = "home_first")]
    pub home_listen: Option<SocketAddr>,

    /// This home never ran before, so that it need not be silent for a lease. Wrong if it did
    #[arg(long, requires = "boxes")]
    pub home_first: bool,

    /// Keep the number of this life here, for the next; else beside the topology, rack.life for rack.toml
    #[arg(long, value_name = "FILE", requires = "boxes")]
    pub home_state: Option<PathBuf>,

    /// Where transactions of the chain's clients are taken, with --durability chain: tcp:HOST:PORT, unix:/path or shm:/path, as clients reach it, since the
    /// chain tells them. A free port of loopback unless this says so
    #[arg(long, value_name = "ADDRESS", requires = "boxes")]
    pub txn_listen: Option<Address>,

    /// No key for boxes and their clients. Only where all addresses are loopback
    #[arg(long, requires = "boxes")]
    pub no_key: bool,
}

/// Whose memory it is that this home leaves.
pub fn whose(HomeId(number): HomeId, layout: &Layout) -> Whose {
    Whose::Home { number, division: layout.division() }
}

/// The place of a home, taken.
pub struct Seat {
    file: PathBuf,
    topology: Topology,
    id: HomeId,
    socket: UdpSocket,
    keys: Option<Keys>,
    life: (Incarnation, Life),
    txn_listen: Address,
}

/// What edge 0 and operators have of a home.
pub struct AtHome {
    /// Of the cluster.
    pub file: PathBuf,
    /// Whose home it is.
    pub topology: Topology,
    /// For edge 0.
    wire: Mutex<Option<Wire>>,
    /// Where it takes transactions of clients, if items lie in a chain.
    door: Mutex<Option<TxnDoor>>,
    serves_from: Instant,
}

impl HomeArgs {
    /// Where operators find it, if the file says so.
    pub fn admin(&self) -> Option<SocketAddr> {
        let topology = Topology::read_file(self.boxes.as_ref()?).ok()?;
        let id = self.home.map(HomeId).or_else(|| topology.homes().first().map(|(id, _)| *id))?;
        topology.admin(NodeId::Home(id))
    }
}

impl Seat {
    /// Takes the place that `args` say, if they say one.
    ///
    /// # Errors
    /// The topology is wrong, or has no such home, or its address cannot be had, or there is no key.
    pub fn take_place(args: &HomeArgs) -> Result<Option<Seat>, StartError> {
        let Some(file) = &args.boxes else { return Ok(None) };
        let failed = |error: TopologyError| StartError::Home(error.to_string());
        let topology = Topology::read_file(file).map_err(failed)?;
        let id = match (args.home, topology.homes()) {
            (Some(id), _) => HomeId(id),
            (None, [(only, _)]) => *only,
            (None, homes) => {
                let ids: Vec<_> = homes.iter().map(|(id, _)| id.to_string()).collect();
                let (file, ids) = (file.display(), ids.join(", "));
                return Err(StartError::Home(format!(
                    "{file} has the homes {ids}; say which this is (--home)"
                )));
            }
        };
        let topology = match args.home_listen {
            Some(address) => topology.with_home_at(id, address).map_err(failed)?,
            None => topology,
        };
        // First the socket: whoever has it runs, and is the only one.
        let socket = node::bind(&topology, NodeId::Home(id)).map_err(failed)?;
        let keys = topology.node_keys(args.no_key).map_err(failed)?;
        let life = if args.home_first { Life::First } else { Life::Again };
        let state = args.home_state.clone().unwrap_or_else(|| file.with_extension("life"));
        let incarnation = incarnation(&state, life).map_err(|error| StartError::Home(error.to_string()))?;
        let usual = || "tcp:127.0.0.1:0".parse().expect("it is an address");
        let txn_listen = args.txn_listen.clone().unwrap_or_else(usual);
        Ok(Some(Seat {
            file: file.clone(),
            topology,
            id,
            socket,
            keys,
            life: (incarnation, life),
            txn_listen,
        }))
    }

    /// Where the topology says that its memcached clients reach it.
    pub fn stream(&self) -> Option<SocketAddr> {
        self.topology.streams().get(&self.id).copied()
    }

    /// Whose memory this process may take over, and whether it says that there is none.
    pub fn memory(&self) -> (Whose, bool) {
        (whose(self.id, self.topology.layout()), self.life.1 == Life::First)
    }

    /// Takes transactions of clients from now on; `post` is told when somebody asks, and what is traced leaves a span with `tracer`.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn open_door(
        &self,
        post: &Arc<Post>,
        tracer: &Tracer,
    ) -> Result<(TxnDoor, Box<dyn Callers>), StartError> {
        let checked = reach::check_of("the home that takes transactions", &self.txn_listen, Protection::None);
        checked.map_err(|exposed| StartError::Home(exposed.to_string()))?;
        TxnDoor::open(&self.txn_listen, post, tracer)
    }

    /// As what it claims the chain that its items lie in, with `door` for whoever wants to write.
    pub fn claiming(&self, door: &TxnDoor) -> Claiming {
        Claiming { address: door.address().to_string(), is_first: self.life.1 == Life::First }
    }

    /// The home, over `items`, from `now` on.
    pub fn home<I: Items>(&self, now: Nanos, items: I) -> Home<I> {
        let layout = self.topology.layout().clone();
        let home = Home::new(self.topology.config(), self.id, layout, self.life, now, items);
        let here = self.topology.book().address_of(NodeId::Home(self.id));
        match here.filter(|_| self.topology.is_elsewhere(self.id)) {
            Some(here) => home.elsewhere(here),
            None => home,
        }
    }

    /// What edges and operators have of it.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn into_parts(self, door: Option<TxnDoor>) -> Result<AtHome, StartError> {
        let guard = Guard::new(NodeId::Home(self.id), self.life.0, self.keys);
        let wire = Wire::new(self.socket, self.topology.book(), guard)
            .map_err(|e| StartError::System("prepare the home's socket", e))?;
        let silence = if self.life.1 == Life::Again { self.topology.config().lease } else { Nanos::ZERO };
        let serves_from = Instant::now() + Duration::from_nanos(silence.0);
        Ok(AtHome {
            file: self.file,
            topology: self.topology,
            wire: Mutex::new(Some(wire)),
            door: Mutex::new(door),
            serves_from,
        })
    }
}

impl AtHome {
    /// The home's socket, once.
    pub fn take_wire(&self) -> Option<Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Where it takes transactions of clients, if it does.
    pub fn takes_transactions_at(&self) -> Option<String> {
        self.door().as_ref().map(|door| door.address().to_string())
    }

    /// It takes no more of them.
    pub fn close_door(&self) {
        let door = self.door().take();
        drop(door);
    }

    fn door(&self) -> MutexGuard<'_, Option<TxnDoor>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it serves; else why not.
    ///
    /// # Errors
    /// In words.
    pub fn check_ready(&self) -> Result<(), String> {
        match Instant::now() < self.serves_from {
            true => Err("silent for a lease, since its boxes may have copies of its earlier life".to_owned()),
            false => Ok(()),
        }
    }
}
