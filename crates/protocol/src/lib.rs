//! Protocol state machines that never see a clock, a thread or a socket.

pub mod chain;
pub mod coherence;
pub mod memcache;
pub mod planted;
pub mod replies;
pub mod session;
pub mod wire;
