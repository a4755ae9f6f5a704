//! The file of a cluster as a whole: who is a member, where, and how it is asked.

pub mod text;

use super::ClusterError;
use crate::chain::members::{self, ChainPlan};
use crate::inc::{Topology, book};
use crate::process::table::Source;
use ::client::controllers::Controllers;
use base::Nanos;
use fabric::link::Address;
use protocol::coherence::NodeId;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Of the rack.
    Node(NodeId),
    /// Of this chain.
    Replica(u32, u16),
    /// Of this chain.
    Controller(u32, u16),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Node(node) => f.write_str(&book::name(*node)),
            Who::Replica(chain, id) => write!(f, "chain:{chain}/replica:{id}"),
            Who::Controller(chain, number) => write!(f, "chain:{chain}/controller:{number}"),
        }
    }
}

/// How a member is asked how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Means {
    /// At its admin port.
    Admin(SocketAddr),
    /// By `Txn.Info`, where it serves clients.
    Info(Address),
    /// The file does not say where.
    None,
}

/// A member and its place.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name.
    pub who: Who,
    /// Where others find it.
    pub address: String,
    /// How it is asked.
    pub means: Means,
    /// How it is started.
    pub start: String,
}

/// See the file's head.
#[derive(Debug)]
pub struct File {
    /// All members, in the order of the file: the rack, then each chain.
    pub members: Vec<Member>,
    /// How long leases of the rack are.
    pub lease: Option<Nanos>,
    /// The chains.
    pub chains: Vec<ChainPlan>,
}

impl File {
    /// Reads it, or asks the controllers that are named instead.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(path: &Path) -> Result<File, ClusterError> {
        let source = Source::of_cluster(path).map_err(ClusterError::File)?;
        // What members are started with is a file.
        let shown = if Controllers::named(path).is_some() { Path::new("FILE") } else { path };
        File::of(&source, shown)
    }

    /// The same, of a text.
    ///
    /// # Errors
    /// As [`File::read`].
    pub fn of(source: &Source, path: &Path) -> Result<File, ClusterError> {
        let parsed = source.parse().map_err(ClusterError::File)?;
        let file = source.table(&parsed);
        let has_rack = ["box", "home", "controller"].iter().any(|key| file.get(key).is_some());
        let rack =
            has_rack.then(|| Topology::parse(source.text(), path)).transpose().map_err(ClusterError::Rack)?;
        let chains = members::chains(&file, path).map_err(ClusterError::File)?;
        let nodes = rack.iter().flat_map(|rack| nodes(rack, path));
        let members: Vec<Member> =
            nodes.chain(chains.iter().flat_map(|chain| of_chain(chain, path))).collect();
        if members.is_empty() {
            return Err(ClusterError::Empty(path.to_owned()));
        }
        Ok(File { members, lease: rack.map(|rack| rack.config().lease), chains })
    }

    /// The chain of this number.
    ///
    /// # Errors
    /// There is none.
    pub fn chain(&self, number: u32) -> Result<&ChainPlan, ClusterError> {
        let found = self.chains.iter().find(|chain| chain.number == number);
        found.ok_or_else(|| {
            let numbers: Vec<_> = self.chains.iter().map(|chain| chain.number.to_string()).collect();
            ClusterError::Refused(format!("there is no chain {number}; there are {}", numbers.join(", ")))
        })
    }

    /// The member of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn member(&self, name: &str) -> Result<&Member, ClusterError> {
        let names = || self.members.iter().map(|member| member.who.to_string()).collect();
        let found = self.members.iter().find(|member| member.who.to_string() == name);
        found.ok_or_else(|| ClusterError::NoMember(name.to_owned(), names()))
    }
}

fn nodes(rack: &Topology, path: &Path) -> Vec<Member> {
    let member = |(node, address): (NodeId, SocketAddr)| Member {
        who: Who::Node(node),
        address: address.to_string(),
        means: rack.admin(node).map_or(Means::None, Means::Admin),
        start: started(node, path),
    };
    rack.book().iter().map(member).collect()
}

fn started(node: NodeId, path: &Path) -> String {
    let file = path.display();
    match node {
        NodeId::Box(id) => format!("millrace box {id} --cluster {file}"),
        NodeId::Home(id) => {
            format!("millrace up --cluster {file} --home {id}, or millrace home {id} --cluster {file}")
        }
        NodeId::Controller(index) => format!("millrace controller {index} --cluster {file}"),
        NodeId::Client(_) => unreachable!("a client is no node of a topology"),
    }
}

fn of_chain(chain: &ChainPlan, path: &Path) -> Vec<Member> {
    let (number, file) = (chain.number, PathBuf::from(path));
    let file = file.display();
    let replicas = chain.replicas.iter().map(|place| Member {
        who: Who::Replica(number, place.id),
        address: place.address.to_string(),
        means: Means::Info(place.address.clone()),
        start: format!("millrace chain replica --cluster {file} --chain {number} --id {}", place.id),
    });
    let controllers = (0..).zip(&chain.controllers).map(|(index, place)| Member {
        who: Who::Controller(number, index),
        address: place.address.to_string(),
        means: place.admin.map_or(Means::None, Means::Admin),
        start: format!("millrace chain controller --cluster {file} --chain {number} --number {index}"),
    });
    replicas.chain(controllers).collect()
}
