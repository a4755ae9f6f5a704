//! What both ends of a connection agree on before and while calls flow.

pub mod handshake;
