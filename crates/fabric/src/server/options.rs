//! What a server allows.

use crate::batch::Policy;
use crate::frame::{HEADER, MAX_FRAME, MAX_METADATA};
use crate::link::LinkOptions;
use crate::link::framing::BUFFERS;
use crate::registers::{Id, Registers};
use base::units::Nanos;
use codec::decode::Limits;

/// Bounds and times of a server. Those of connections count for what comes after a change.
#[derive(Clone, Debug)]
pub struct Options {
    /// What a request may be and may take in memory while it is decoded. A link that carries a longer frame by `input_bytes` is closed before it
    /// is read, where frames come in pieces.
    pub request: Limits,
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

/// 2 bytes on the wire can be a whole object in memory, and the thread that decodes has others to serve: 8 MiB of empty messages would be
/// 257 MiB and more than a second.
pub const REQUEST: Limits =
    Limits { depth: 100, input_bytes: MAX_FRAME, slack_bytes: 1 << 20, amplification: 4 };

impl Options {
    /// Bytes of the longest frame that is answered.
    pub(super) fn max_frame(&self) -> usize {
        (HEADER + MAX_METADATA).saturating_add(self.request.input_bytes).min(MAX_FRAME)
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            request: REQUEST,
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
        BUFFERS.set_limit(registers.size(Id::LinkBuffers));
    }
}
