//! tonic: gRPC over HTTP/2, on a Unix socket or on TCP.
//!
//! Its best settings for this contest: one thread with a `current_thread` runtime on both sides, so that no wake-up crosses
//! threads; a task per call in flight; no TLS, no compression, flow-control windows that never fill, `TCP_NODELAY` on both
//! sides, `Bytes` payloads that share the receive buffer. And two connections (`--channels`): with one, client and server sleep in
//! turns, with two they work at the same time, for twice the calls at window 32; four give less again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, JoinSet};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use crate::Contest;
use crate::sample::{self, Payloads, Sample, Watch};
use crate::server::{Phase, Serve};
use crate::systems::Folder;

#[allow(missing_docs)]
mod generated {
    tonic::include_proto!("contest");
}
use generated::echo_client::EchoClient;
use generated::echo_server::{Echo, EchoServer};
use generated::{SayReply, SayRequest};

/// Flow control never holds a call back: 256 calls of 64 KiB.
const WINDOW_BYTES: u32 = 16 << 20;

/// The service: hands the payload back.
#[derive(Clone, Default)]
struct Parrot {
    calls: Arc<AtomicU64>,
}

#[tonic::async_trait]
impl Echo for Parrot {
    async fn say(&self, request: Request<SayRequest>) -> Result<Response<SayReply>, Status> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(SayReply { payload: request.into_inner().payload }))
    }
}

/// The server's process.
pub struct Server {
    runtime: Runtime,
    accepting: JoinHandle<Result<(), tonic::transport::Error>>,
    calls: Arc<AtomicU64>,
    address: String,
}

impl Server {
    /// On a Unix socket in the folder.
    pub fn unix(folder: &Folder) -> Result<Server, String> {
        let (runtime, parrot) = (runtime()?, Parrot::default());
        let (calls, path) = (parrot.calls.clone(), folder.path().join("tonic.sock"));
        let _inside = runtime.enter();
        let listener = tokio::net::UnixListener::bind(&path)
            .map_err(|error| format!("{} cannot be listened on: {error}", path.display()))?;
        let accepting = runtime.spawn(router(parrot).serve_with_incoming(UnixListenerStream::new(listener)));
        let address = format!("unix://{}", path.display());
        drop(_inside);
        Ok(Server { runtime, accepting, calls, address })
    }

    /// On a free port of the loopback interface.
    pub fn tcp() -> Result<Server, String> {
        let (runtime, parrot) = (runtime()?, Parrot::default());
        let calls = parrot.calls.clone();
        let incoming = {
            let _inside = runtime.enter();
            TcpIncoming::bind(([127, 0, 0, 1], 0).into())
                .map_err(|error| format!("no port of 127.0.0.1 can be listened on: {error}"))?
                .with_nodelay(Some(true))
        };
        let port = incoming.local_addr().map_err(|error| error.to_string())?;
        let accepting = runtime.spawn(router(parrot).serve_with_incoming(incoming));
        Ok(Server { runtime, accepting, calls, address: format!("http://{port}") })
    }
}

fn router(parrot: Parrot) -> tonic::transport::server::Router {
    tonic::transport::Server::builder()
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .add_service(EchoServer::new(parrot))
}

impl Serve for Server {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn serve(&mut self, phase: &Phase) -> Result<u64, String> {
        let before = self.calls.load(Ordering::Relaxed);
        self.runtime.block_on(async {
            tokio::select! {
                () = phase.end() => Ok(()),
                ended = &mut self.accepting => Err(match ended {
                    Ok(Err(error)) => text(&error),
                    _ => "it stopped listening".into(),
                }),
            }
        })?;
        Ok(self.calls.load(Ordering::Relaxed) - before)
    }
}

/// The client's side.
pub struct Client {
    runtime: Runtime,
    /// Calls go round them.
    stubs: Vec<EchoClient<Channel>>,
    payload_bytes: usize,
}

impl Client {
    /// As many connections as the contest says.
    pub fn connect(address: &str, contest: &Contest) -> Result<Client, String> {
        let runtime = runtime()?;
        let endpoint = Endpoint::from_shared(address.to_string())
            .map_err(|error| text(&error))?
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        let mut stubs = Vec::new();
        for _ in 0..contest.channels {
            let channel = runtime
                .block_on(endpoint.connect())
                .map_err(|error| format!("no connection to {address}: {}", text(&error)))?;
            stubs.push(EchoClient::new(channel));
        }
        Ok(Client { runtime, stubs, payload_bytes: contest.payload_bytes() })
    }
}

impl sample::Client for Client {
    fn run(&mut self, window: usize, time: base::Nanos) -> Result<Sample, String> {
        let each_bytes = self.payload_bytes;
        if window == 1 {
            return self.runtime.block_on(one_at_a_time(self.stubs[0].clone(), each_bytes, time));
        }
        let watch = Arc::new(Mutex::new(Watch::start(window, time)));
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for (place, stub) in (0..window).zip(self.stubs.iter().cycle()) {
                let payloads = Payloads::new(1, each_bytes, place as u64);
                tasks.spawn(call_until_over(stub.clone(), payloads, watch.clone()));
            }
            let mut sample = None;
            while let Some(task) = tasks.join_next().await {
                task.map_err(|error| error.to_string())??;
                // The first that ends does so since the time is over; the others have a call in flight.
                sample.get_or_insert_with(|| lock(&watch).stop());
            }
            sample.ok_or_else(|| "no calls were made".into())
        })
    }
}

/// One call in flight, and the next when it is answered.
async fn call_until_over(
    mut stub: EchoClient<Channel>,
    mut payloads: Payloads,
    watch: Arc<Mutex<Watch>>,
) -> Result<(), String> {
    while !lock(&watch).is_over_now() {
        call(&mut stub, &mut payloads).await?;
        lock(&watch).count();
    }
    Ok(())
}

/// The tasks of one thread share the watch; the lock is for the compiler, and always free.
fn lock(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().expect("no task panics while it counts")
}

async fn one_at_a_time(
    mut stub: EchoClient<Channel>,
    each_bytes: usize,
    time: base::Nanos,
) -> Result<Sample, String> {
    let mut payloads = Payloads::new(1, each_bytes, 0);
    let mut watch = Watch::start(1, time);
    while !watch.is_over_now() {
        call(&mut stub, &mut payloads).await?;
        watch.count();
    }
    Ok(watch.stop())
}

#[inline]
async fn call(stub: &mut EchoClient<Channel>, payloads: &mut Payloads) -> Result<(), String> {
    let request = SayRequest { payload: Bytes::copy_from_slice(payloads.of(0)) };
    let reply = stub.say(request).await.map_err(|status| status.to_string())?;
    payloads.check(0, &reply.get_ref().payload)
}

fn runtime() -> Result<Runtime, String> {
    Builder::new_current_thread().enable_all().build().map_err(|error| format!("no runtime: {error}"))
}

/// An error with its causes: tonic's own words are "transport error".
fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}
