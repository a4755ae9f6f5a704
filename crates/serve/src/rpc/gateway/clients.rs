//! The gateway's connections: as many as are allowed, none of them silent for ever.
//!
//! As [`crate::http`] does it: at the limit the connection that has been without calls for longest makes room, a client has a time to begin to speak
//! HTTP/2, and one without calls for a while is told to go ([`Limits`]).

use super::bridge::Bridge;
use super::stream;
use crate::descriptors;
use base::closing::{self, Reason};
use base::tls::ServerTls;
use h2::server::Connection;
use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// What clients are allowed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// How long a client may take for HTTP/2's preface, and for its last frames after it was told to go.
    pub handshake: Duration,
    /// How long a connection may be without calls. Clients connect again when they need to.
    pub idle: Duration,
}

impl Limits {
    /// So many connections.
    pub const fn of(connections: usize) -> Limits {
        Limits { connections, handshake: Duration::from_secs(10), idle: Duration::from_secs(300) }
    }
}

/// How long the listener rests when a connection cannot be taken for a reason that may pass.
const ACCEPT_RETRY: Duration = Duration::from_millis(20);

/// What is known of a connection from outside its task.
struct Standing {
    calls: Cell<usize>,
    /// When it last had a call, or was accepted.
    since: Cell<Instant>,
}

/// A call, for as long as it is under way.
struct Call(Rc<Standing>);

impl Call {
    fn of(standing: &Rc<Standing>) -> Call {
        standing.calls.set(standing.calls.get() + 1);
        Call(Rc::clone(standing))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.calls.set(self.0.calls.get() - 1);
        self.0.since.set(Instant::now());
    }
}

struct Open {
    task: AbortHandle,
    standing: Rc<Standing>,
    peer: SocketAddr,
}

/// Where clients come from, with TLS if it has a certificate.
pub type Listener = (TcpListener, Option<Arc<ServerTls>>);

/// All connections.
pub struct Clients {
    bridge: Rc<Bridge>,
    limits: Limits,
    tasks: JoinSet<()>,
    open: Vec<Open>,
    /// Descriptors have run out, and that was said.
    is_short: bool,
    /// Tells connections to end.
    ended: watch::Sender<bool>,
}

impl Clients {
    /// None yet; their calls go over `bridge`.
    pub fn new(bridge: Rc<Bridge>, limits: Limits) -> Clients {
        Clients {
            bridge,
            limits,
            tasks: JoinSet::new(),
            open: Vec::new(),
            is_short: false,
            ended: watch::Sender::new(false),
        }
    }

    /// Accepts and serves for ever. The connections end when this is dropped.
    pub async fn serve(&mut self, listeners: &[Listener]) -> Infallible {
        loop {
            self.bridge.standing.open.store(self.open.len() as u64, Ordering::Relaxed);
            tokio::select! {
                accepted = accept(listeners) => match accepted {
                    Ok((socket, peer, tls)) => self.take(socket, peer, tls),
                    Err(error) => {
                        self.complain_once(&error.to_string());
                        sleep(ACCEPT_RETRY).await;
                    }
                },
                Some(_) = self.tasks.join_next() => {
                    self.open.retain(|open| !open.task.is_finished());
                    self.is_short = false;
                }
            }
        }
    }

    /// Has all connections answer the calls that are under way, and ends with the last.
    pub async fn drain(&mut self) {
        self.ended.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }

    fn complain_once(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_short, true) {
            log::warn!("accepting a connection: {why} (said once until one ends)");
        }
    }

    fn take(&mut self, socket: TcpStream, peer: SocketAddr, tls: Option<&ServerTls>) {
        self.open.retain(|open| !open.task.is_finished());
        let is_reserved = descriptors::is_reserved(&socket);
        if is_reserved {
            self.complain_once("clients have taken their descriptors");
        }
        if self.open.len() >= self.limits.connections || is_reserved {
            let idle = self.open.iter().enumerate().filter(|(_, open)| open.standing.calls.get() == 0);
            let longest = idle.min_by_key(|(_, open)| open.standing.since.get()).map(|(at, _)| at);
            // All have calls under way: the new one is closed.
            let Some(at) = longest else {
                self.bridge.standing.rejected.fetch_add(1, Ordering::Relaxed);
                return closed(peer, &Reason::Limit("all connections have calls under way"));
            };
            let open = self.open.swap_remove(at);
            open.task.abort();
            closed(open.peer, &Reason::Limit("an idle one makes room for another"));
        }
        self.bridge.standing.accepted.fetch_add(1, Ordering::Relaxed);
        let standing = Rc::new(Standing { calls: Cell::new(0), since: Cell::new(Instant::now()) });
        let ended = self.ended.subscribe();
        let (bridge, own, limits) = (Rc::clone(&self.bridge), Rc::clone(&standing), self.limits);
        // Refused only for sockets that are no TCP.
        let _ = socket.set_nodelay(true);
        let task = match tls {
            None => self.tasks.spawn_local(async move {
                closed(peer, &connection(bridge, socket, own, limits, ended).await);
            }),
            Some(tls) => {
                let accepting = TlsAcceptor::from(tls.config()).accept(socket);
                self.tasks.spawn_local(async move {
                    // What goes wrong is the client's, and it was told by an alert.
                    let why = match timeout(limits.handshake, accepting).await {
                        Ok(Ok(stream)) => connection(bridge, stream, own, limits, ended).await,
                        Ok(Err(error)) => Reason::Tls(error.to_string()),
                        Err(_) => Reason::Tls("too slow".to_owned()),
                    };
                    closed(peer, &why);
                })
            }
        };
        self.open.push(Open { task, standing, peer });
    }
}

/// The next connection to any of them.
async fn accept(listeners: &[Listener]) -> io::Result<(TcpStream, SocketAddr, Option<&ServerTls>)> {
    poll_fn(|context| {
        let ready = listeners.iter().find_map(|(listener, tls)| match listener.poll_accept(context) {
            Poll::Ready(accepted) => Some(accepted.map(|(socket, peer)| (socket, peer, tls.as_deref()))),
            Poll::Pending => None,
        });
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

fn closed(peer: SocketAddr, why: &Reason) {
    closing::log("grpc", || peer.to_string(), why);
}

/// Serves one client connection to its end, and says of what that came. What it does wrong ends it and nothing else.
async fn connection(
    bridge: Rc<Bridge>,
    socket: impl AsyncRead + AsyncWrite + Unpin + 'static,
    standing: Rc<Standing>,
    limits: Limits,
    mut ended: watch::Receiver<bool>,
) -> Reason {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(1 << 20).initial_connection_window_size(4 << 20).max_concurrent_streams(1024);
    let mut connection = tokio::select! {
        greeted = timeout(limits.handshake, builder.handshake(socket)) => match greeted {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return reason_of(&error),
            Err(_) => return Reason::Idle,
        },
        _ = ended.wait_for(|ended| *ended) => return Reason::Drain,
    };
    let mut is_ending = false;
    loop {
        let next = tokio::select! {
            next = timeout(limits.idle, connection.accept()) => next,
            _ = ended.wait_for(|ended| *ended), if !is_ending => {
                is_ending = true;
                connection.graceful_shutdown();
                continue;
            }
        };
        match next {
            Ok(Some(Ok((request, respond)))) => {
                let (bridge, call) = (Rc::clone(&bridge), Call::of(&standing));
                tokio::task::spawn_local(async move {
                    stream::serve(bridge, request, respond).await;
                    drop(call);
                });
            }
            Ok(Some(Err(error))) => return reason_of(&error),
            Ok(None) => return if is_ending { Reason::Drain } else { Reason::Client },
            Err(_) if standing.calls.get() > 0 || standing.since.get().elapsed() < limits.idle => {}
            Err(_) => {
                dismiss(connection, limits).await;
                return Reason::Idle;
            }
        }
    }
}

fn reason_of(error: &h2::Error) -> Reason {
    if error.is_io() { Reason::Gone } else { Reason::Protocol("no HTTP/2") }
}

/// Tells an idle client that no more calls are taken here.
async fn dismiss<S: AsyncRead + AsyncWrite + Unpin>(
    mut connection: Connection<S, bytes::Bytes>,
    limits: Limits,
) {
    connection.graceful_shutdown();
    // It need not answer.
    let _ = timeout(limits.handshake, async { while connection.accept().await.is_some() {} }).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const TWO: Limits = Limits::of(2);

    /// Runs `scenario` beside a gateway.
    fn beside(limits: Limits, scenario: impl AsyncFnOnce(std::net::SocketAddr)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let run = async {
            let listeners = [(TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports"), None)];
            let address = listeners[0].0.local_addr().expect("bound");
            let nowhere = "memory:nowhere".parse().expect("an address");
            let mut clients =
                Clients::new(Bridge::new(nowhere, Duration::ZERO, None, Arc::default(), None), limits);
            tokio::select! {
                never = clients.serve(&listeners) => match never {},
                () = scenario(address) => {}
            }
        };
        tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), run);
    }

    async fn speaks_http2(socket: &mut TcpStream) -> bool {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        socket.write_all(preface).await.is_ok() && socket.read_exact(&mut [0; 9]).await.is_ok()
    }

    async fn until_closed(socket: &mut TcpStream) {
        // With an end, or as it was closed with bytes unread, an error.
        let _ = socket.read_to_end(&mut Vec::new()).await;
    }

    #[test]
    fn at_the_limit_the_one_that_was_idle_for_longest_makes_room() {
        beside(TWO, async |address| {
            let mut first = TcpStream::connect(address).await.expect("it listens");
            assert!(speaks_http2(&mut first).await);
            let mut second = TcpStream::connect(address).await.expect("it listens");
            assert!(speaks_http2(&mut second).await);
            let mut third = TcpStream::connect(address).await.expect("it listens");
            assert!(speaks_http2(&mut third).await);
            until_closed(&mut first).await;
            let mut fourth = TcpStream::connect(address).await.expect("it listens");
            assert!(speaks_http2(&mut fourth).await);
            until_closed(&mut second).await;
        });
    }

    #[test]
    fn who_says_nothing_is_closed() {
        beside(Limits { handshake: Duration::from_millis(1), ..TWO }, async |address| {
            let mut silent = TcpStream::connect(address).await.expect("it listens");
            until_closed(&mut silent).await;
        });
    }

    #[test]
    fn who_has_no_calls_is_told_to_go() {
        beside(Limits { idle: Duration::from_millis(1), ..TWO }, async |address| {
            let mut idle = TcpStream::connect(address).await.expect("it listens");
            assert!(speaks_http2(&mut idle).await);
            until_closed(&mut idle).await;
        });
    }
}
