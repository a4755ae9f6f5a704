//! A span: one stretch of time of one request, at one place.

use super::Context;
use crate::Nanos;
use std::borrow::Cow;
use std::sync::Arc;

/// What ended well.
pub const OK: &str = "OK";

/// Where time was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// At whoever asks.
    Client,
    /// On a thread that owns connections.
    Edge,
    /// On an engine's core, or before it.
    Engine,
    /// On a host thread or a worker, or before it.
    Host,
    /// On an accelerator's lanes or compute units, or before them.
    Accelerator,
    /// At a replica of a chain.
    Chain,
}

impl Place {
    /// As traces name it.
    pub fn name(self) -> &'static str {
        match self {
            Place::Client => "client",
            Place::Edge => "edge",
            Place::Engine => "engine",
            Place::Host => "host",
            Place::Accelerator => "acc",
            Place::Chain => "chain",
        }
    }
}

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A part of a request within this program.
    Part,
    /// A request, as the one sees it who serves it.
    Server,
    /// A request, as the one sees it who sent it.
    Client,
}

/// One stretch of time of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace it belongs to, and its own number there.
    pub context: Context,
    /// The span that it is part of, if it is known.
    pub parent: Option<u64>,
    /// What it is of.
    pub kind: Kind,
    /// A method (`/shop.Cart/Add`, `get`), or what is done (`queue`, `execute`).
    pub name: Cow<'static, str>,
    /// Whose request it is.
    pub service: Arc<str>,
    /// Where.
    pub place: Place,
    /// The name of the thread there.
    pub row: Arc<str>,
    /// From then, in the clock of this process.
    pub begin: Nanos,
    /// Until then.
    pub end: Nanos,
    /// [`OK`], or how it ended else.
    pub outcome: Cow<'static, str>,
    /// The number of the connection that it came over, if that is known.
    pub connection: Option<u32>,
}

impl Span {
    /// Whether it ended well.
    pub fn is_ok(&self) -> bool {
        self.outcome == OK
    }
}

/// The calling thread's name, as the row of its spans.
pub fn this_thread() -> Arc<str> {
    std::thread::current().name().unwrap_or("(unnamed)").into()
}
