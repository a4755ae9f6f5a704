//! What a server allows.

use crate::batch::Policy;
use crate::link::LinkOptions;
use crate::registers::{Id, Registers};
use base::units::Nanos;

/// Bounds and times of a server. Those of connections count for what comes after a change.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls in flight of one connection.
    pub max_calls: u32,
    /// Items of a stream, in each direction, that may be sent before credit comes.
    pub window: u32,
    /// Frames taken from one connection before it is another's turn.
    pub quantum: usize,
    /// When replies in a ring become visible. All are before anyone sleeps.
    pub batch: Policy,
    /// Connections; further ones are refused.
    pub max_connections: usize,
    /// Futures of [`Spawner`](super::Spawner)s.
    pub max_tasks: usize,
    /// Bytes of a connection's stream items that wait for handlers; nothing is taken from it while there are more.
    pub held_bytes: usize,
    /// What the links that are listened for are like.
    pub link: LinkOptions,
    /// How long a link may take until its Hello.
    pub handshake_limit: Nanos,
    /// How long a connection may have no room for what it is owed, until it is closed.
    pub stuck_limit: Nanos,
    /// How long a connection without calls may be silent, until it is closed.
    pub idle_limit: Nanos,
    /// How long a drain may take, until what is left is closed.
    pub drain_limit: Nanos,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_calls: 1024,
            window: 64,
            quantum: 64,
            batch: Policy::default(),
            max_connections: 1024,
            max_tasks: 1 << 16,
            held_bytes: 16 << 20,
            link: LinkOptions::default(),
            handshake_limit: Nanos::from_secs(5),
            stuck_limit: Nanos::from_secs(10),
            idle_limit: Nanos::MAX,
            drain_limit: Nanos::from_secs(5),
        }
    }
}

impl Options {
    /// With what the registers say now.
    pub(super) fn follow(&mut self, registers: &Registers) {
        self.max_calls = registers.read(Id::CallsMax) as u32;
        self.window = registers.read(Id::StreamWindow) as u32;
        self.batch = Policy::of(registers);
        self.max_connections = registers.size(Id::ConnectionsMax);
        self.idle_limit = match registers.read(Id::ConnectionsIdle) {
            0 => Nanos::MAX,
            seconds => Nanos::from_secs(seconds),
        };
        self.link.follow(registers);
    }
}
