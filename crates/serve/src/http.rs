//! An HTTP/1 server on a thread of its own, with TLS or without: operators' ports ([`crate::admin`]) and inference over HTTP.
//!
//! Why not `axum::serve`: its accept loop sleeps a second when there is no descriptor, needs timers for it that a caller may not have given, and
//! knows no bound on connections and no timeout for a request that does not come.
//!
//! Invariants:
//! 1. A port with [`Limits::reserved`] answers as long as the process lives, also when clients have taken all descriptors they can get. A
//!    panic is printed and the server goes on with the same listener.
//! 2. A connection whose request does not come within [`Limits::head_timeout`] is closed, whatever it sends meanwhile; so is one that is idle.
//! 3. At [`Limits::connections`] one that is idle makes room: the oldest that never asked anything, else the one whose last answer is longest ago.
//!
//! Bounds: [`Limits`]; 16 KiB of buffer for each connection before its request's head is there.

use crate::descriptors;
use crate::process::systemd;
use crate::reach::{self, Exposed, Protection};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use base::closing::{self, Reason};
use base::rights::Identity;
use base::tls::{HELLO, ServerTls, identities};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service as _;

/// How long the listener rests when a connection cannot be taken for a reason that may pass.
const ACCEPT_RETRY: Duration = Duration::from_millis(20);
/// Bytes buffered of a request's head.
const HEAD_MAX: usize = 16 << 10;

/// What others hear at a port for TLS.
const WANTS_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 35\r\nConnection: close\r\n\r\nthis port speaks TLS: ask https://\n";

/// What a port allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// How long the head of a request may take, and a connection be idle.
    pub head_timeout: Duration,
    /// How long requests that are under way have at the end; zero: they are cut off.
    pub drain: Duration,
    /// Connections at once while clients have taken all descriptors they may have; none at a port for clients.
    pub reserved: usize,
}

/// Where a port is to be.
#[derive(Clone, Debug)]
pub struct PortAt {
    /// Port 0 is one of the system's choice.
    pub address: SocketAddr,
    /// With TLS, if there is a certificate.
    pub tls: Option<Arc<ServerTls>>,
}

impl From<SocketAddr> for PortAt {
    /// Without TLS.
    fn from(address: SocketAddr) -> PortAt {
        PortAt { address, tls: None }
    }
}

/// The port, serving since it was made and until it is dropped.
pub struct Port {
    address: SocketAddr,
    has_tls: bool,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Port {
    /// Binds the address and serves these routes from a new thread of that name.
    ///
    /// # Errors
    /// The system's, for example when the address is taken.
    pub fn start(name: &str, at: PortAt, routes: Router, limits: Limits) -> io::Result<Port> {
        let PortAt { address, tls } = at;
        let protection = if tls.is_some() { Protection::Tls } else { Protection::None };
        let exposed = |exposed: Exposed| io::Error::new(io::ErrorKind::PermissionDenied, exposed);
        reach::check(&format!("the port {name}"), address, protection).map_err(exposed)?;
        let listener = systemd::bind_tcp(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let has_tls = tls.is_some();
        let (stop, stopped) = watch::channel(false);
        // The first are made here, so that a failure is the caller's to tell, and all descriptors are there when this returns.
        let make = move || io::Result::Ok((runtime()?, listener.try_clone()?));
        let mut first = Some(make()?);
        let title = name.to_owned();
        let serve = move || {
            loop {
                let Some((current, listener)) = first.take().or_else(|| make().ok()) else {
                    std::thread::sleep(ACCEPT_RETRY);
                    continue;
                };
                let server = Server::new(routes.clone(), limits, stopped.clone(), tls.clone());
                match catch_unwind(AssertUnwindSafe(|| current.block_on(server.serve(listener)))) {
                    Ok(()) => return,
                    Err(_) => log::error!("the port {title} at {address} panicked, and is served anew"),
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(serve)?;
        Ok(Port { address, has_tls, stop, thread: Some(thread) })
    }

    /// The address that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it is asked: `http://ADDR:PORT` or `https://ADDR:PORT`.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.has_tls { "https" } else { "http" }, self.address)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Its thread may have ended.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed.
            let _ = thread.join();
        }
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build()
}

/// By what a client's connection has proved who it is: an extension of its requests.
#[derive(Clone, Debug)]
pub struct Proved(pub Arc<[Identity]>);

/// A connection.
struct Open {
    task: AbortHandle,
    asked: Arc<Asked>,
    peer: SocketAddr,
}

/// What was asked on a connection.
#[derive(Default)]
struct Asked {
    /// Requests under way.
    busy: AtomicUsize,
    /// The number of the port's request that was the last here; 0: none yet.
    last: AtomicU64,
}

struct Server {
    routes: Router,
    limits: Limits,
    stopped: watch::Receiver<bool>,
    tls: Option<Arc<ServerTls>>,
    tasks: JoinSet<()>,
    /// From the oldest on.
    open: VecDeque<Open>,
    /// Requests so far, on all connections.
    requests: Arc<AtomicU64>,
}

impl Server {
    fn new(
        routes: Router,
        limits: Limits,
        stopped: watch::Receiver<bool>,
        tls: Option<Arc<ServerTls>>,
    ) -> Server {
        Server {
            routes,
            limits,
            stopped,
            tls,
            tasks: JoinSet::new(),
            open: VecDeque::new(),
            requests: Arc::default(),
        }
    }

    async fn serve(mut self, listener: TcpListener) {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a nonblocking listener");
        let mut stopped = self.stopped.clone();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.take(stream, peer),
                    // One client's error, or one that passes.
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
                },
                Some(_) = self.tasks.join_next() => {
                    self.open.retain(|open| !open.task.is_finished());
                }
                // A dropped sender stops it just as well.
                _ = stopped.wait_for(|stop| *stop) => break,
            }
        }
        drop(listener);
        // Connections that have a request under way answer it; those that are idle end by themselves.
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.limits.drain, all).await;
    }

    fn take(&mut self, stream: TcpStream, peer: SocketAddr) {
        self.open.retain(|open| !open.task.is_finished());
        let is_short = descriptors::is_reserved(&stream);
        let most = if is_short { self.limits.reserved } else { self.limits.connections };
        if self.open.len() >= most && !self.make_room() {
            // All are busy: the new one is closed.
            return closed(peer, &Reason::Limit("all connections are busy"));
        }
        // Answers are written whole; waiting for more of them would be waiting for the client.
        let _ = stream.set_nodelay(true);
        let asked = Arc::new(Asked::default());
        let counts = Counts { here: Arc::clone(&asked), all: Arc::clone(&self.requests) };
        let (routes, limits, stopped) = (self.routes.clone(), self.limits, self.stopped.clone());
        let task = match &self.tls {
            None => self.tasks.spawn(async move {
                closed(peer, &connection(stream, (routes, None), counts, limits, stopped).await);
            }),
            Some(tls) => {
                let acceptor = TlsAcceptor::from(tls.config());
                self.tasks.spawn(async move {
                    let why = match shake_hands(stream, acceptor, limits.head_timeout).await {
                        Ok(stream) => {
                            let proved = identities(stream.get_ref().1.peer_certificates());
                            let proved = (!proved.is_empty()).then(|| Proved(proved.into()));
                            connection(stream, (routes, proved), counts, limits, stopped).await
                        }
                        Err(why) => Reason::Tls(why),
                    };
                    closed(peer, &why);
                })
            }
        };
        self.open.push_back(Open { task, asked, peer });
    }

    /// Ends a connection that is idle: of several that never asked the oldest. Whether there was one.
    fn make_room(&mut self) -> bool {
        let idle =
            self.open.iter().enumerate().filter(|(_, open)| open.asked.busy.load(Ordering::Relaxed) == 0);
        let idle = idle.min_by_key(|(_, open)| open.asked.last.load(Ordering::Relaxed)).map(|(at, _)| at);
        let open = idle.and_then(|idle| self.open.remove(idle));
        open.inspect(|open| {
            open.task.abort();
            closed(open.peer, &Reason::Limit("an idle one makes room for another"));
        })
        .is_some()
    }
}

/// Where a connection counts its requests.
#[derive(Clone)]
struct Counts {
    here: Arc<Asked>,
    all: Arc<AtomicU64>,
}

impl Counts {
    /// A request has come; it is under way until the result is dropped.
    fn begin(&self) -> Busy {
        self.here.busy.fetch_add(1, Ordering::Relaxed);
        self.here.last.store(self.all.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Busy(Arc::clone(&self.here))
    }
}

struct Busy(Arc<Asked>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

fn closed(peer: SocketAddr, why: &Reason) {
    closing::log("http", || peer.to_string(), why);
}

/// The stream behind the handshake, if that comes to a good end in time; else why it did not.
async fn shake_hands(
    mut stream: TcpStream,
    acceptor: TlsAcceptor,
    timeout: Duration,
) -> Result<TlsStream<TcpStream>, String> {
    let handshake = async {
        // Errors are the client's. One that does not speak TLS is told so in its own language.
        let mut first = [0];
        if stream.peek(&mut first).await.is_ok_and(|count| count == 1) && first[0] != HELLO[0] {
            let _ = stream.write_all(WANTS_TLS).await;
            return Err("it speaks plain HTTP".to_owned());
        }
        acceptor.accept(stream).await.map_err(|error| error.to_string())
    };
    tokio::time::timeout(timeout, handshake).await.unwrap_or_else(|_| Err("too slow".to_owned()))
}

/// Serves a connection to its end, and says of what that came.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    (routes, proved): (Router, Option<Proved>),
    counts: Counts,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) -> Reason {
    let service = hyper::service::service_fn(move |mut request: Request<hyper::body::Incoming>| {
        proved.iter().for_each(|proved| drop(request.extensions_mut().insert(proved.clone())));
        let busy = counts.begin();
        let mut routes = routes.clone();
        async move {
            let answer = routes.call(request.map(Body::new)).await;
            drop(busy);
            answer
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(served);
    // Errors are the client's.
    tokio::select! {
        ended = served.as_mut() => return ended.map_or_else(|error| reason_of(&error), |()| Reason::Client),
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
    Reason::Drain
}

fn reason_of(error: &hyper::Error) -> Reason {
    match error {
        error if error.is_timeout() => Reason::Idle,
        error if error.is_parse() => Reason::Protocol("no HTTP/1 request"),
        _ => Reason::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    /// Ninety connections that said nothing put out one that asked: the oldest made room, whoever it was.
    #[test]
    fn who_asks_stays_and_who_never_did_makes_room() {
        let routes = Router::new().route("/", axum::routing::get(async || "here"));
        let limits = Limits {
            connections: 4,
            head_timeout: Duration::from_secs(600),
            drain: Duration::ZERO,
            reserved: 4,
        };
        let at: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let port = Port::start("test", at.into(), routes, limits);
        let port = port.expect("a port");
        let mut polite = std::net::TcpStream::connect(port.address()).expect("it listens");
        let mut ask = |count: usize| {
            polite.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap_or_else(|e| panic!("{count}: {e}"));
            let mut answer = Vec::new();
            while !answer.ends_with(b"here") {
                let mut some = [0; 256];
                let n = polite.read(&mut some).unwrap_or_else(|e| panic!("{count}: {e}"));
                assert!(n > 0, "{count}: put out");
                answer.extend_from_slice(&some[..n]);
            }
        };
        ask(0);
        let mut silent = Vec::new();
        for count in 1..30 {
            let mut stream = std::net::TcpStream::connect(port.address()).expect("it listens");
            stream.write_all(b"GET / HT").expect("there is room");
            silent.push(stream);
            ask(count);
        }
        // Taken one after the other, so that all but the last three were put out before this answer.
        let stream = silent.first_mut().expect("one of them");
        assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)), "the oldest silent one is still there");
    }
}
