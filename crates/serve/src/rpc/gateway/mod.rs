//! `millrace rpc gateway`: unmodified gRPC clients reach a fabric service.
//!
//! ```text
//! gRPC client ══ HTTP/2 ══▶ stream ──▶ bridge ──▶ channel ══ shm, udp, … ══▶ fabric server
//! ```
//!
//! One thread: h2 cuts the streams, each is a local task, and the `bridge` shares one channel among them. The messages are not
//! looked at: a gRPC body and a fabric body are the same protobuf bytes.
//!
//! Not spoken: compression of messages, TLS (put a proxy in front, or keep it on loopback, where it listens unless told otherwise).

mod bridge;
mod clients;
mod stream;
mod wire;

use super::RpcError;
use bridge::Bridge;
use clap::Args;
use clients::{Clients, Limits};
use fabric::link::Address;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;

/// Let gRPC clients call a fabric server
///
/// Listens for gRPC (HTTP/2 without TLS) and passes every call on: unary and streaming, with deadlines, metadata, cancellation
/// and status codes. Ends at Ctrl-C or SIGTERM.
#[derive(Args, Debug)]
pub struct Gateway {
    /// Where gRPC clients connect; port 0 picks a free one
    #[arg(short, long, value_name = "ADDR:PORT", default_value = "127.0.0.1:50051")]
    listen: SocketAddr,

    /// The fabric server: shm:/path, unix:/path, udp:host:port, tcp:host:port
    #[arg(value_name = "ADDRESS")]
    to: Address,

    /// Give up connecting to the server after this many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    connect_timeout: u64,

    /// Serve at most this many connections; at more, the one that was idle for longest makes room
    #[arg(long, value_name = "N", default_value_t = 1024)]
    connections: usize,
}

impl Gateway {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn run(&self) -> Result<(), RpcError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let served =
            runtime.and_then(|runtime| tokio::task::LocalSet::new().block_on(&runtime, self.serve()));
        served.map_err(|cause| RpcError::Gateway { address: self.listen, cause })
    }

    async fn serve(&self) -> io::Result<()> {
        let listener = TcpListener::bind(self.listen).await?;
        crate::reach::warn("the gateway", listener.local_addr()?);
        let bridge = Bridge::new(self.to.clone(), Duration::from_millis(self.connect_timeout));
        if let Err(status) = bridge.connect().await {
            crate::complain!("millrace: {status}; the gateway will try again with each call");
        }
        println!("gRPC on {} for {}", listener.local_addr()?, self.to);
        let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let mut clients = Clients::new(bridge, Limits::of(self.connections));
        tokio::select! {
            never = clients.serve(&listener) => match never {},
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    }
}
