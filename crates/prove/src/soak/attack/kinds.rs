//! The attacks: whom, how, and beside which polite client.

use super::rig::Places;
use fabric::frame::{HEADER, Header, Kind as FrameKind, MAX_FRAME};
use std::net::SocketAddr;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `millrace up`, with 200,000 items.
    Node,
    /// `millrace rpc serve`.
    Rpc,
    /// `millrace rpc gateway` before it.
    Gateway,
    /// `millrace chain`: a controller and three replicas.
    Chain,
    /// `millrace rec serve`.
    Rec,
}

impl Role {
    /// For the command line.
    pub fn name(self) -> &'static str {
        match self {
            Role::Node => "node",
            Role::Rpc => "rpc",
            Role::Gateway => "gateway",
            Role::Chain => "chain",
            Role::Rec => "rec",
        }
    }
}

/// What the polite client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// memcached's `get`.
    Item,
    /// A call of demo.Echo/Say.
    Echo,
    /// A transaction.
    Transaction,
    /// A score, over HTTP.
    Score,
    /// The admin port's `/healthz`.
    Health,
    /// An HTTP/2 PING at the gateway.
    Ping,
}

/// What an attacker's links do.
#[derive(Clone, Copy)]
pub enum Way {
    /// Send this as far as it is taken, and then stay.
    Stay(fn() -> Vec<u8>),
    /// Send this again and again, and read what comes.
    Repeat(fn() -> Vec<u8>),
    /// The same, as ordinary clients do: to compare, and not judged.
    Load(fn() -> Vec<u8>),
    /// Send this again and again, and never read.
    Deaf(fn() -> Vec<u8>),
    /// Call this method of the fabric with this body again and again.
    Call(&'static str, fn() -> Vec<u8>),
}

/// An attack.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// In a line.
    pub says: &'static str,
    /// On whom.
    pub role: Role,
    /// Beside whom.
    pub polite: Asks,
    /// Where.
    pub to: fn(&Places) -> SocketAddr,
    /// Links.
    pub links: usize,
    /// What they do.
    pub way: Way,
}

/// All of them.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "node-dumps",
        says: "8 clients list all items, over and over",
        role: Role::Node,
        polite: Asks::Item,
        to: |places| places.service,
        links: 8,
        way: Way::Repeat(|| b"lru_crawler metadump all\r\n".to_vec()),
    },
    Kind {
        name: "node-stats",
        says: "4 clients ask for statistics, 20,000 times at once",
        role: Role::Node,
        polite: Asks::Item,
        to: |places| places.service,
        links: 4,
        way: Way::Repeat(|| b"stats\r\n".repeat(20_000)),
    },
    Kind {
        name: "node-multigets",
        says: "8 clients ask for 5,000 items at a time",
        role: Role::Node,
        polite: Asks::Item,
        to: |places| places.service,
        links: 8,
        way: Way::Repeat(|| {
            let keys: String = (0..5000).map(|key| format!(" k{key}")).collect();
            format!("get{keys}\r\n").into_bytes()
        }),
    },
    Kind {
        name: "node-load",
        says: "to compare: 8 clients with a pipeline of ordinary requests",
        role: Role::Node,
        polite: Asks::Item,
        to: |places| places.service,
        links: 8,
        way: Way::Load(|| b"get k9\r\n".to_vec()),
    },
    Kind {
        name: "node-deaf",
        says: "50 clients ask for items, and read nothing",
        role: Role::Node,
        polite: Asks::Item,
        to: |places| places.service,
        links: 50,
        way: Way::Deaf(|| b"get k1 k2 k3 k4 k5 k6 k7 k8 k9\r\n".repeat(100)),
    },
    Kind {
        name: "node-halves",
        says: "100 clients begin to send a megabyte",
        role: Role::Node,
        polite: Asks::Item,
        to: |places| places.service,
        links: 100,
        way: Way::Stay(|| [&b"set big 0 0 1000000\r\n"[..], &[b'x'; 900_000]].concat()),
    },
    Kind {
        name: "node-silent",
        says: "1000 clients connect, and say nothing",
        role: Role::Node,
        polite: Asks::Item,
        to: |places| places.service,
        links: 1000,
        way: Way::Stay(Vec::new),
    },
    Kind {
        name: "admin-silent",
        says: "1000 connections to the admin port say nothing",
        role: Role::Node,
        polite: Asks::Health,
        to: |places| places.admin,
        links: 1000,
        way: Way::Stay(|| b"GET /metrics HTTP/1.1\r\nHo".to_vec()),
    },
    Kind {
        name: "rpc-frames",
        says: "100 links begin a frame of 8 MiB before they say who they are",
        role: Role::Rpc,
        polite: Asks::Echo,
        to: |places| places.service,
        links: 100,
        way: Way::Stay(unfinished_frame),
    },
    Kind {
        name: "rpc-greeted",
        says: "100 links greet with 8 MiB that never end",
        role: Role::Rpc,
        polite: Asks::Echo,
        to: |places| places.service,
        links: 100,
        way: Way::Stay(unfinished_hello),
    },
    Kind {
        name: "rpc-silent",
        says: "900 links say nothing",
        role: Role::Rpc,
        polite: Asks::Echo,
        to: |places| places.service,
        links: 900,
        way: Way::Stay(Vec::new),
    },
    Kind {
        name: "gateway-silent",
        says: "1000 connections to the gRPC gateway say nothing",
        role: Role::Gateway,
        polite: Asks::Ping,
        to: |places| places.gateway,
        links: 1000,
        way: Way::Stay(Vec::new),
    },
    Kind {
        name: "chain-frames",
        says: "100 links to the head's clients' port begin a frame of 8 MiB",
        role: Role::Chain,
        polite: Asks::Transaction,
        to: |places| places.service,
        links: 100,
        way: Way::Stay(unfinished_frame),
    },
    Kind {
        name: "chain-peers",
        says: "100 links to the head's peers' port begin a frame of 8 MiB",
        role: Role::Chain,
        polite: Asks::Transaction,
        to: |places| places.peer,
        links: 100,
        way: Way::Stay(unfinished_frame),
    },
    Kind {
        name: "chain-controller",
        says: "100 links to the controller's port begin a frame of 8 MiB",
        role: Role::Chain,
        polite: Asks::Transaction,
        to: |places| places.controller,
        links: 100,
        way: Way::Stay(unfinished_frame),
    },
    Kind {
        name: "chain-empties",
        says: "a client sends transactions of 4 million empty operations",
        role: Role::Chain,
        polite: Asks::Transaction,
        to: |places| places.service,
        links: 1,
        way: Way::Call("/millrace.Txn/Execute", || [0x1a, 0x00].repeat(4_000_000)),
    },
    Kind {
        name: "rec-halves",
        says: "300 clients begin a request, and do not end it",
        role: Role::Rec,
        polite: Asks::Score,
        to: |places| places.http,
        links: 300,
        way: Way::Stay(|| post(1000, 10)),
    },
    Kind {
        name: "rec-bodies",
        says: "64 clients send all of 16 MiB but the last byte",
        role: Role::Rec,
        polite: Asks::Score,
        to: |places| places.http,
        links: 64,
        way: Way::Stay(|| post(16 << 20, (16 << 20) - 1)),
    },
];

/// A frame of the greatest length, all of it but its last byte.
fn unfinished_frame() -> Vec<u8> {
    let mut bytes = (MAX_FRAME as u32).to_le_bytes().to_vec();
    bytes.resize(4 + MAX_FRAME - 1, 0);
    bytes
}

/// The same, as a greeting.
fn unfinished_hello() -> Vec<u8> {
    let mut bytes = unfinished_frame();
    bytes[4..4 + HEADER].copy_from_slice(&Header::new(FrameKind::Hello, 0).emit());
    bytes
}

fn post(length: usize, sent: usize) -> Vec<u8> {
    let head = format!(
        "POST /v2/models/synthetic/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    let mut bytes = head.into_bytes();
    bytes.resize(bytes.len() + sent, b' ');
    bytes
}
