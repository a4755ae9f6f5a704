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
pub mod metrics;
mod stream;
mod wire;

use super::RpcError;
use crate::admin::{Admin, Routes, parse_address};
use crate::process::logger::LogArgs;
use crate::process::say;
use bridge::Bridge;
use clap::Args;
use clients::{Clients, Limits};
use fabric::link::Address;
use fabric::monitor::Monitor;
use metrics::Standing;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

/// How often the gateway's thread shows that it turns.
const BEAT_INTERVAL: Duration = Duration::from_millis(250);

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

    /// HTTP port for metrics, registers, health, and traces; on loopback unless an address is given
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = parse_address)]
    admin: Option<SocketAddr>,

    #[command(flatten)]
    log: LogArgs,
}

impl Gateway {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn run(&self) -> Result<(), RpcError> {
        self.log.start("gateway");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|cause| RpcError::Gateway { address: self.listen, cause })?;
        tokio::task::LocalSet::new().block_on(&runtime, self.serve())
    }

    async fn serve(&self) -> Result<(), RpcError> {
        let failed = |cause| RpcError::Gateway { address: self.listen, cause };
        let listener = TcpListener::bind(self.listen).await.map_err(failed)?;
        let listens = listener.local_addr().map_err(failed)?;
        crate::reach::warn("the gateway", listens);
        let monitor = Monitor::default();
        let standing = Arc::new(Standing::default());
        let admin = self.admin.map(|address| {
            Admin::start(address, routes(&monitor, &standing, &self.to)).map_err(RpcError::Admin)
        });
        let admin = admin.transpose()?;
        let timeout = Duration::from_millis(self.connect_timeout);
        let bridge =
            Bridge::new(self.to.clone(), timeout, admin.is_some().then_some(monitor), Arc::clone(&standing));
        if let Err(status) = bridge.connect().await {
            log::warn!("{status}; the gateway will try again with each call");
        }
        say(&format!("gRPC on {listens} for {}", self.to));
        if let Some(admin) = &admin {
            say(&format!("metrics at http://{}/metrics", admin.address()));
        }
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut clients = Clients::new(Rc::clone(&bridge), Limits::of(self.connections));
        let mut beats = tokio::time::interval(BEAT_INTERVAL);
        let mut attempt: Option<JoinHandle<_>> = None;
        loop {
            tokio::select! {
                never = clients.serve(&listener) => match never {},
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
                _ = beats.tick() => {
                    standing.beat.turn();
                    // Whoever is told that the gateway is not ready sends no calls, and calls are what connects it.
                    let is_lost = admin.is_some() && !standing.is_connected.load(Ordering::Relaxed);
                    if is_lost && attempt.as_ref().is_none_or(JoinHandle::is_finished) {
                        let bridge = Rc::clone(&bridge);
                        attempt = Some(tokio::task::spawn_local(async move { bridge.connect().await }));
                    }
                }
            }
        }
    }
}

/// What the gateway's port shows.
fn routes(monitor: &Monitor, standing: &Arc<Standing>, to: &Address) -> Routes {
    let (collected, checked, to) = (Arc::clone(standing), Arc::clone(standing), to.to_string());
    super::admin::routes(monitor)
        .metrics(move |page| collected.collect(page))
        .ready(move || match checked.is_connected.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(format!("no connection to {to}: the next call tries again")),
        })
        .loops([standing.beat.pulse("gateway")])
}
