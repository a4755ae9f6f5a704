//! The gateway's connections: as many as are allowed, none of them silent for ever.
//!
//! As [`crate::http`] does it: at the limit the connection that has been without calls for longest makes room, a client has a time to begin to speak
//! HTTP/2, and one without calls for a while is told to go ([`Limits`]).

use super::adopted::AdoptedStream;
use super::stream::{self, Backend};
use crate::descriptors;
use base::closing::{self, Reason};
use base::rights::Identity;
use base::tls::{ServerTls, identities};
use fabric::link::ForeignStream;
use h2::server::Connection;
use h2::{Ping, PingPong};
use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
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
    /// After how long without an answer to the last PING another one goes to a client that has calls, and how long that may take to be answered.
    pub keepalive: Duration,
}

impl Limits {
    /// So many connections.
    pub const fn of(connections: usize) -> Limits {
        Limits {
            connections,
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            keepalive: Duration::from_secs(30),
        }
    }
}

/// Bytes of a call's headers, which are counted as HTTP/2 counts them: more than the metadata that the fabric takes, of which a call with too many is
/// told more kindly.
const MAX_HEADERS: u32 = 64 << 10;

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
    peer: Option<SocketAddr>,
}

/// Where clients come from, with TLS if it has a certificate.
pub type Listener = (TcpListener, Option<Arc<ServerTls>>);

/// Clients that came to the server's own port.
pub type HandedOverStreams = mpsc::Receiver<ForeignStream>;

/// All connections.
pub struct Clients {
    backend: Rc<Backend>,
    limits: Limits,
    tasks: JoinSet<()>,
    open: Vec<Open>,
    /// Descriptors have run out, and that was said.
    is_short: bool,
    /// Tells connections to end.
    ended: watch::Sender<bool>,
}

impl Clients {
    /// None yet; their calls are answered by `backend`.
    pub fn new(backend: Rc<Backend>, limits: Limits) -> Clients {
        Clients {
            backend,
            limits,
            tasks: JoinSet::new(),
            open: Vec::new(),
            is_short: false,
            ended: watch::Sender::new(false),
        }
    }

    /// Accepts, takes who is handed over, and serves for ever. The connections end when this is dropped.
    pub async fn serve(&mut self, listeners: &[Listener], handed_over: &mut HandedOverStreams) -> Infallible {
        loop {
            self.backend.bridge.standing.open.store(self.open.len() as u64, Ordering::Relaxed);
            tokio::select! {
                accepted = accept(listeners) => match accepted {
                    Ok((socket, peer, tls)) => self.take(socket, peer, tls),
                    Err(error) => {
                        self.complain_once(&error.to_string());
                        sleep(ACCEPT_RETRY).await;
                    }
                },
                Some(foreign) = handed_over.recv() => self.adopt(foreign),
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

    /// What is known of a connection that is to be served; none: there is no room for it.
    fn admit(&mut self, socket: &impl AsFd, peer: Option<SocketAddr>) -> Option<Rc<Standing>> {
        self.open.retain(|open| !open.task.is_finished());
        let is_reserved = descriptors::is_reserved(socket);
        if is_reserved {
            self.complain_once("clients have taken their descriptors");
        }
        if self.open.len() >= self.limits.connections || is_reserved {
            let idle = self.open.iter().enumerate().filter(|(_, open)| open.standing.calls.get() == 0);
            let longest = idle.min_by_key(|(_, open)| open.standing.since.get()).map(|(at, _)| at);
            // All have calls under way: the new one is closed.
            let Some(at) = longest else {
                self.backend.bridge.standing.rejected.fetch_add(1, Ordering::Relaxed);
                closed(peer, &Reason::Limit("all connections have calls under way"));
                return None;
            };
            let open = self.open.swap_remove(at);
            open.task.abort();
            closed(open.peer, &Reason::Limit("an idle one makes room for another"));
        }
        self.backend.bridge.standing.accepted.fetch_add(1, Ordering::Relaxed);
        Some(Rc::new(Standing { calls: Cell::new(0), since: Cell::new(Instant::now()) }))
    }

    fn take(&mut self, socket: TcpStream, peer: SocketAddr, tls: Option<&ServerTls>) {
        let peer = Some(peer);
        let Some(standing) = self.admit(&socket, peer) else { return };
        // Refused only for sockets that are no TCP.
        let _ = socket.set_nodelay(true);
        let Some(tls) = tls else { return self.spawn(socket, Vec::new(), peer, standing) };
        let ended = self.ended.subscribe();
        let (backend, own, limits) = (Rc::clone(&self.backend), Rc::clone(&standing), self.limits);
        let accepting = TlsAcceptor::from(tls.config()).accept(socket);
        let task = self.tasks.spawn_local(async move {
            // What goes wrong is the client's, and it was told by an alert.
            let why = match timeout(limits.handshake, accepting).await {
                Ok(Ok(stream)) => {
                    let proved = identities(stream.get_ref().1.peer_certificates());
                    connection(backend, proved, stream, own, limits, ended).await
                }
                Ok(Err(error)) => Reason::Tls(error.to_string()),
                Err(_) => Reason::Tls("too slow".to_owned()),
            };
            closed(peer, &why);
        });
        self.open.push(Open { task, standing, peer });
    }

    /// Takes one that came to the server's own port.
    fn adopt(&mut self, foreign: ForeignStream) {
        match AdoptedStream::new(foreign) {
            Ok(stream) => {
                let peer =
                    rustix::net::getpeername(&stream).ok().flatten().and_then(|peer| peer.try_into().ok());
                if let Some(standing) = self.admit(&stream, peer) {
                    let proved = stream.identities();
                    self.spawn(stream, proved, peer, standing);
                }
            }
            Err(error) => self.complain_once(&error.to_string()),
        }
    }

    fn spawn(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        proved: Vec<Identity>,
        peer: Option<SocketAddr>,
        standing: Rc<Standing>,
    ) {
        let (backend, own) = (Rc::clone(&self.backend), Rc::clone(&standing));
        let (limits, ended) = (self.limits, self.ended.subscribe());
        let task = self.tasks.spawn_local(async move {
            closed(peer, &connection(backend, proved, stream, own, limits, ended).await);
        });
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

fn closed(peer: Option<SocketAddr>, why: &Reason) {
    closing::log("grpc", || peer.map_or_else(|| "(gone)".to_owned(), |peer| peer.to_string()), why);
}

/// Serves one client connection to its end, and says of what that came. What it does wrong ends it and nothing else.
async fn connection(
    backend: Rc<Backend>,
    proved: Vec<Identity>,
    socket: impl AsyncRead + AsyncWrite + Unpin + 'static,
    standing: Rc<Standing>,
    limits: Limits,
    mut ended: watch::Receiver<bool>,
) -> Reason {
    let peer = backend.gate.as_ref().map(|gate| gate.peer(proved));
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .max_concurrent_streams(1024)
        .max_header_list_size(MAX_HEADERS);
    let mut connection = tokio::select! {
        greeted = timeout(limits.handshake, builder.handshake(socket)) => match greeted {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return reason_of(&error),
            Err(_) => return Reason::Idle,
        },
        _ = ended.wait_for(|ended| *ended) => return Reason::Drain,
    };
    let mut is_ending = false;
    let mut pings = connection.ping_pong().expect("it is taken once");
    let silent = alive(&mut pings, limits.keepalive, &standing);
    tokio::pin!(silent);
    loop {
        let next = tokio::select! {
            next = timeout(limits.idle, connection.accept()) => next,
            // A client that is gone ends its calls nowhere else.
            () = &mut silent => return Reason::Gone,
            _ = ended.wait_for(|ended| *ended), if !is_ending => {
                is_ending = true;
                connection.graceful_shutdown();
                continue;
            }
        };
        match next {
            Ok(Some(Ok((request, respond)))) => {
                let (backend, peer, call) = (Rc::clone(&backend), peer.clone(), Call::of(&standing));
                tokio::task::spawn_local(async move {
                    stream::serve(backend, peer, request, respond).await;
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

/// Asks a client that has calls now and then whether it is there, and ends when it does not answer.
async fn alive(pings: &mut PingPong, keepalive: Duration, standing: &Standing) {
    loop {
        sleep(keepalive).await;
        if standing.calls.get() == 0 {
            continue;
        }
        match timeout(keepalive, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
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
    use super::super::bridge::Bridge;
    use super::super::health::Health;
    use super::*;
    use crate::admin::health::Readiness;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const TWO: Limits = Limits::of(2);

    /// Runs `scenario` beside a gateway.
    fn beside(limits: Limits, scenario: impl AsyncFnOnce(std::net::SocketAddr)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let run = async {
            let listeners = [(TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports"), None)];
            let address = listeners[0].0.local_addr().expect("bound");
            let nowhere = "memory:nowhere".parse().expect("an address");
            let bridge = Bridge::new(nowhere, Duration::ZERO, None, Arc::default(), None);
            let readiness = Readiness::always().expect("a thread");
            let health = Health::new(readiness, watch::channel(false).1);
            let mut clients = Clients::new(Rc::new(Backend { bridge, health, gate: None }), limits);
            let (_hand_over, mut handed_over) = mpsc::channel(1);
            tokio::select! {
                never = clients.serve(&listeners, &mut handed_over) => match never {},
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
