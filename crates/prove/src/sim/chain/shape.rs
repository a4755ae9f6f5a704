//! Who there is: clients, then replicas (those that a new chain has, then spares), then controllers, then an operator if there are spares; numbered in
//! this order.

use protocol::chain::{NodeId, ReplicaId};
use sim::NodeSet;
use sim::nodes::Node;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A client is known by its index, and which life of it this is.
const CLIENTS: u64 = 256;
/// An operator's index among clients.
const OPERATOR: u64 = CLIENTS - 1;
/// Keys at most, where their number is drawn.
pub const MOST_KEYS: u64 = 6;

/// How many of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Replicas, 1 to 5.
    pub replicas: u32,
    /// Clients, 1 to 8.
    pub clients: u32,
    /// More of them, 0 to 3, which an operator's orders let in.
    pub spares: u32,
    /// Controllers, 1 to 3. If there are several, one of them leads.
    pub controllers: u32,
    /// So many clients, the first ones, claim the chain now and then, and do what they do under the last claim that they made.
    pub homes: u32,
    /// Keys, 1 to 16; drawn where it is not said.
    pub keys: Option<u64>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A client, by index.
    Client(u32),
    /// A replica.
    Replica(ReplicaId),
    /// A controller, by number.
    Controller(u16),
    /// Who gives orders.
    Operator,
}

impl Shape {
    /// As they are called.
    pub const NAMED: [(&'static str, Shape); 4] = [
        ("three", Shape { replicas: 3, clients: 3, spares: 0, controllers: 2, homes: 0, keys: None }),
        ("two", Shape { replicas: 2, clients: 2, spares: 0, controllers: 1, homes: 0, keys: Some(2) }),
        ("moves", Shape { replicas: 3, clients: 3, spares: 3, controllers: 2, homes: 0, keys: Some(3) }),
        ("homes", Shape { replicas: 3, clients: 3, spares: 0, controllers: 2, homes: 2, keys: Some(3) }),
    ];

    /// How many nodes.
    pub fn count(&self) -> u32 {
        self.controllers().end + u32::from(self.spares > 0)
    }

    /// Nodes of clients.
    pub fn clients(&self) -> Range<Node> {
        0..self.clients
    }

    /// Nodes of replicas.
    pub fn replicas(&self) -> Range<Node> {
        self.clients..self.clients + self.replicas + self.spares
    }

    /// Nodes of controllers.
    pub fn controllers(&self) -> Range<Node> {
        let first = self.replicas().end;
        first..first + self.controllers
    }

    /// The node of the operator, if there is one.
    pub fn operator(&self) -> Option<Node> {
        (self.spares > 0).then_some(self.controllers().end)
    }

    /// All replicas and spares, as the chain knows them.
    pub fn all_ids(&self) -> Vec<ReplicaId> {
        (1..=(self.replicas + self.spares) as u16).map(ReplicaId).collect()
    }

    /// The replicas that a new chain has.
    pub fn replica_ids(&self) -> Vec<ReplicaId> {
        (1..=self.replicas as u16).map(ReplicaId).collect()
    }

    /// What a node is.
    pub fn role(&self, node: Node) -> Role {
        match node {
            n if n < self.clients => Role::Client(n),
            n if self.replicas().contains(&n) => Role::Replica(ReplicaId((n - self.clients) as u16 + 1)),
            n if Some(n) == self.operator() => Role::Operator,
            n => Role::Controller((n - self.controllers().start) as u16),
        }
    }

    /// The node of a replica.
    pub fn node_of_replica(&self, id: ReplicaId) -> Option<Node> {
        let index = u32::from(id.0).checked_sub(1)?;
        (index < self.replicas + self.spares).then_some(self.clients + index)
    }

    /// The node that a message goes to, if there is one.
    pub fn node_of(&self, id: NodeId) -> Option<Node> {
        match id {
            NodeId::Client(number) => {
                if number % CLIENTS == OPERATOR {
                    return self.operator();
                }
                let index = (number % CLIENTS) as u32;
                (index < self.clients).then_some(index)
            }
            NodeId::Replica(id) => self.node_of_replica(id),
            NodeId::Controller(number) => {
                let number = u32::from(number);
                (number < self.controllers).then_some(self.controllers().start + number)
            }
            // Its clients follow none.
            NodeId::Home => None,
        }
    }

    /// As what a life of a node is known.
    pub fn id(&self, node: Node, life: u32) -> NodeId {
        match self.role(node) {
            Role::Client(index) => NodeId::Client(u64::from(life) * CLIENTS + u64::from(index)),
            Role::Replica(id) => NodeId::Replica(id),
            Role::Controller(number) => NodeId::Controller(number),
            Role::Operator => NodeId::Client(u64::from(life) * CLIENTS + OPERATOR),
        }
    }

    /// In a trace.
    pub fn name(&self, node: Node) -> String {
        match self.role(node) {
            Role::Client(index) => format!("client {index}"),
            Role::Replica(id) => format!("replica {}", id.0),
            Role::Controller(number) => format!("controller {number}"),
            Role::Operator => "operator".to_owned(),
        }
    }

    /// Which numbers are what: faults name nodes by them.
    pub fn legend(&self) -> String {
        let range = |nodes: Range<Node>| nodes.collect::<NodeSet>().to_string();
        let operator = self.operator().map_or(String::new(), |node| format!(", the operator {node}"));
        format!(
            "clients are nodes {}, replicas {}, controllers {}{operator}",
            range(self.clients()),
            range(self.replicas()),
            range(self.controllers())
        )
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Shape::NAMED.iter().find(|(_, shape)| shape == self) {
            return f.write_str(name);
        }
        let Shape { replicas, clients, spares, controllers, homes, keys } = self;
        write!(f, "replicas={replicas},clients={clients},controllers={controllers}")?;
        if *spares > 0 {
            write!(f, ",spares={spares}")?;
        }
        if *homes > 0 {
            write!(f, ",homes={homes}")?;
        }
        keys.map_or(Ok(()), |keys| write!(f, ",keys={keys}"))
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        if let Some((_, shape)) = Shape::NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(*shape);
        }
        let mut shape = Shape::NAMED[0].1;
        for part in text.split(',') {
            let (name, number) =
                part.split_once('=').ok_or_else(|| format!("{part:?} is not name=number"))?;
            let within = |most: u32| {
                let number = number.parse().ok().filter(|n| (1..=most).contains(n));
                number.ok_or_else(|| format!("{name} is a number from 1 to {most}, not {number:?}"))
            };
            match name {
                "replicas" => shape.replicas = within(5)?,
                "clients" => shape.clients = within(8)?,
                "controllers" => shape.controllers = within(3)?,
                "spares" => shape.spares = within(3)?,
                "homes" => shape.homes = within(8)?,
                "keys" => shape.keys = Some(within(16)?.into()),
                _ => {
                    return Err(format!(
                        "{name:?} is none of replicas, clients, spares, controllers, homes and keys"
                    ));
                }
            }
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_round_trip() {
        for text in [
            "three",
            "two",
            "moves",
            "homes",
            "replicas=3,clients=2,controllers=1,spares=1",
            "replicas=5,clients=1,controllers=3,keys=2",
            "replicas=2,clients=3,controllers=1,homes=1,keys=2",
            "replicas=1,clients=1,controllers=1",
        ] {
            assert_eq!(text.parse::<Shape>().expect("good").to_string(), text);
        }
        for bad in ["", "four", "replicas=0", "replicas=6", "boxes=2", "replicas"] {
            assert!(bad.parse::<Shape>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_node_has_a_name_of_its_own() {
        for (_, shape) in Shape::NAMED {
            for node in 0..shape.count() {
                assert_eq!(shape.node_of(shape.id(node, 7)), Some(node));
            }
            let beyond = ReplicaId(shape.all_ids().len() as u16 + 1);
            assert_eq!(shape.node_of(NodeId::Replica(beyond)), None);
        }
    }
}
