//! One fabric channel for all gRPC calls of the gateway, driven by the gateway's only thread.
//!
//! Why one: the channel belongs to one thread, as its rings do, and so does the runtime. The *pump* polls the channel, hands each
//! event to the call that it is of, and sleeps on the channel's descriptors; calls start and send directly, and *kick* the pump.
//!
//! Errors: when the server is gone every open call ends with the channel's words, and the next call connects anew: one attempt at a
//! time, on a thread that may block. What may be sent again then is [`Method::may_repeat`]'s to say; the server's description says which
//! methods are idempotent.
//!
//! Bounds: as many calls as the server takes (others wait for room), and of each stream the items that its credit allows: credit is
//! given back when the HTTP/2 side has taken an item.

use super::built_in::proto;
use super::cache::{Cache, Cacheable};
use super::metrics::Standing;
use bytes::Bytes;
use codec::schema::{Catalog, Schema};
use fabric::channel::{CallId, CallOptions, Channel, Method, Options, StartError, What};
use fabric::connection::ConnectError;
use fabric::link::Address;
use fabric::monitor::Monitor;
use fabric::status::{Code, Status};
use std::cell::{RefCell, RefMut};
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, Notify, mpsc};

/// Events taken from the channel before others have their turn.
const QUANTUM: usize = 256;

/// What happened to a call, kept until its stream takes it.
pub enum Event {
    /// The reply; the call is over.
    Reply(Bytes),
    /// A message of the server's stream.
    Item(Bytes),
    /// The server's stream is complete.
    End,
    /// The call failed.
    Failed(Status),
}

type Happened = (Event, Vec<u8>);

/// The channel and who waits for what on it.
struct Open {
    channel: Channel,
    idempotent: Idempotent,
    calls: HashMap<u64, mpsc::UnboundedSender<Happened>>,
    next: u64,
}

/// Methods that are idempotent, by path, as the server describes them; with how their replies are kept, where they may be.
type Idempotent = HashMap<String, Option<Arc<Cacheable>>>;

/// The way to the fabric server.
pub struct Bridge {
    address: Address,
    options: Options,
    /// What operators are told.
    pub standing: Arc<Standing>,
    /// What has kept replies, if there is one.
    cache: Option<Rc<Cache>>,
    open: RefCell<Option<Open>>,
    /// What the server says that it serves, and what is built in; the last server's while there is none.
    catalog: RefCell<Arc<Catalog>>,
    connecting: Mutex<()>,
    /// There is something for the pump to do.
    kick: Notify,
    /// Something left the channel: who found it full may try again.
    room: Notify,
}

impl Bridge {
    /// A bridge that is not connected.
    pub fn new(
        address: Address,
        timeout: Duration,
        monitor: Option<Monitor>,
        standing: Arc<Standing>,
        cache: Option<Rc<Cache>>,
    ) -> Rc<Bridge> {
        let options = Options { timeout, monitor, ..Options::default() };
        Rc::new(Bridge {
            address,
            options,
            standing,
            cache,
            open: RefCell::new(None),
            catalog: RefCell::new(Arc::new(catalog(&[]))),
            connecting: Mutex::new(()),
            kick: Notify::new(),
            room: Notify::new(),
        })
    }

    /// Connects, unless it is connected.
    ///
    /// # Errors
    /// Why there is no connection, as a status for whoever called.
    pub async fn connect(self: &Rc<Bridge>) -> Result<(), Status> {
        let _one = self.connecting.lock().await;
        if self.open.borrow().as_ref().is_some_and(|open| open.channel.is_open()) {
            return Ok(());
        }
        let (address, options) = (self.address.clone(), self.options.clone());
        let connect = move || {
            let mut channel = Channel::connect(&address, &options)?;
            // One that does not describe itself can be called all the same.
            let set = channel.reflect(&CallOptions::within(options.timeout)).unwrap_or_default();
            Ok::<_, ConnectError>((channel, idempotent(&set), catalog(&set)))
        };
        let connected = tokio::task::spawn_blocking(connect).await.expect("connecting does not panic");
        let (channel, idempotent, catalog) = connected.map_err(|error| {
            let text = format!("the gateway cannot reach {}: {error}", self.address);
            Status::new(Code::Unavailable, text)
        })?;
        *self.catalog.borrow_mut() = Arc::new(catalog);
        *self.open.borrow_mut() = Some(Open { channel, idempotent, calls: HashMap::new(), next: 0 });
        self.standing.is_connected.store(true, Ordering::Relaxed);
        self.standing.connects.fetch_add(1, Ordering::Relaxed);
        tokio::task::spawn_local(pump(Rc::clone(self)));
        Ok(())
    }

    /// The method of a path.
    ///
    /// # Errors
    /// No connection, or no such method.
    pub async fn method(self: &Rc<Bridge>, path: &str) -> Result<Method, Status> {
        self.connect().await?;
        let open = self.open()?;
        let is_idempotent = open.idempotent.contains_key(path);
        let method = open.channel.method(path).map(|method| method.idempotent(is_idempotent));
        method.ok_or_else(|| Status::new(Code::Unimplemented, format!("the server has no method {path}")))
    }

    /// What there is to be called.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.borrow())
    }

    /// The reply that the cache has for a request to the method of this path, if it may be kept and is.
    pub async fn kept(&self, path: &str, request: &[u8], left: Option<Duration>) -> Option<Vec<u8>> {
        let cache = self.cache.as_ref()?;
        let method = Arc::clone(self.open().ok()?.idempotent.get(path)?.as_ref()?);
        cache.kept(&method, request, left).await
    }

    /// Starts a call, with its message if it has one to start with.
    ///
    /// # Errors
    /// The channel's.
    pub async fn start(
        self: &Rc<Bridge>,
        method: Method,
        timeout: Option<Duration>,
        metadata: &[u8],
        body: Option<&[u8]>,
    ) -> Result<Running, Status> {
        let options = CallOptions { timeout, metadata, explicit_credit: true };
        loop {
            let room = self.room.notified();
            let started = {
                let mut open = self.open()?;
                let user = open.next;
                open.channel.start(method, &options, user, body.unwrap_or(&[])).map(|call| {
                    open.next += 1;
                    let (sender, events) = mpsc::unbounded_channel();
                    open.calls.insert(user, sender);
                    (call, user, events)
                })
            };
            match started {
                Ok((call, user, events)) => {
                    self.kick.notify_one();
                    let bridge = Rc::clone(self);
                    return Ok(Running { bridge, call, user, events, metadata: Vec::new(), over: false });
                }
                Err(StartError::Full) => room.await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn open(&self) -> Result<RefMut<'_, Open>, Status> {
        RefMut::filter_map(self.open.borrow_mut(), Option::as_mut)
            .map_err(|_| Status::new(Code::Unavailable, "the server is gone"))
    }
}

/// What a server describes, if it can be understood, and what is built in.
fn catalog(set: &[u8]) -> Catalog {
    Catalog::of(&[set, proto::DESCRIPTORS]).unwrap_or_else(|error| {
        log::warn!("what the server says of its services is not understood: {error}");
        Catalog::of(&[proto::DESCRIPTORS]).expect("our own are understood")
    })
}

/// Methods that may be called twice, by the server's description.
fn idempotent(set: &[u8]) -> Idempotent {
    let Ok(schema) = Schema::from_descriptor_set(set) else { return Idempotent::new() };
    let services = schema.services().iter();
    let methods = services.flat_map(|service| service.methods.iter().map(move |method| (service, method)));
    let idempotent = methods.filter(|(_, method)| method.options.idempotent).map(|(service, method)| {
        let key = method.options.cacheable.as_ref().and(method.options.key.as_ref());
        let (of, name) = (&service.name, &method.name);
        let cacheable = key
            .map(|key| Arc::new(Cacheable { service: of.clone(), method: name.clone(), key: key.clone() }));
        (format!("/{of}/{name}"), cacheable)
    });
    idempotent.collect()
}

/// A call under way. Dropping it cancels the call, if that is not over.
pub struct Running {
    bridge: Rc<Bridge>,
    call: CallId,
    user: u64,
    events: mpsc::UnboundedReceiver<Happened>,
    metadata: Vec<u8>,
    over: bool,
}

impl Running {
    /// What happens next. May be dropped while it waits.
    pub async fn next(&mut self) -> Event {
        match self.events.recv().await {
            Some((event, metadata)) => {
                self.over = !matches!(event, Event::Item(_));
                if !metadata.is_empty() {
                    self.metadata = metadata;
                }
                event
            }
            None => {
                self.over = true;
                Event::Failed(Status::lost("the connection to the server ended"))
            }
        }
    }

    /// The metadata that came last; they are the call's when it is over.
    pub fn metadata(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.metadata)
    }

    /// Sends a further message of the client's stream.
    ///
    /// # Errors
    /// The channel's. A call that has ended already takes it and forgets it: its end is on its way.
    pub async fn send(&mut self, body: &[u8]) -> Result<(), Status> {
        loop {
            let room = self.bridge.room.notified();
            let sent = self.bridge.open()?.channel.send(self.call, body);
            match sent {
                Ok(()) => {
                    self.bridge.kick.notify_one();
                    return Ok(());
                }
                Err(StartError::Full) => room.await,
                Err(StartError::Ended) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The client's stream is complete.
    pub async fn finish(&mut self) -> Result<(), Status> {
        loop {
            let room = self.bridge.room.notified();
            let finished = self.bridge.open()?.channel.finish(self.call);
            match finished {
                Ok(()) | Err(StartError::Ended) => {
                    self.bridge.kick.notify_one();
                    return Ok(());
                }
                Err(StartError::Full) => room.await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// One more item may come.
    pub fn grant(&mut self) {
        if let Ok(mut open) = self.bridge.open() {
            open.channel.grant(self.call, 1);
            self.bridge.kick.notify_one();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(mut open) = self.bridge.open() {
            open.calls.remove(&self.user);
            if !self.over {
                open.channel.cancel(self.call);
                self.bridge.kick.notify_one();
            }
        }
    }
}

/// Drives the channel until its connection is over.
async fn pump(bridge: Rc<Bridge>) {
    let watched = watch(&bridge);
    loop {
        let moved = turn(&bridge);
        bridge.room.notify_waiters();
        if moved > 0 {
            tokio::task::yield_now().await;
            continue;
        }
        let (Ok(watched), true) = (&watched, is_open(&bridge)) else { break };
        if let Some(wait) = arm(&bridge) {
            tokio::select! {
                () = readable(watched) => (),
                () = bridge.kick.notified() => (),
                () = tokio::time::sleep(wait) => (),
            }
            disarm(&bridge);
        }
    }
    // Whoever still waits sees its sender gone.
    *bridge.open.borrow_mut() = None;
    bridge.standing.is_connected.store(false, Ordering::Relaxed);
    bridge.room.notify_waiters();
}

/// One poll; how many events came.
fn turn(bridge: &Bridge) -> usize {
    let Ok(mut open) = bridge.open() else { return 0 };
    let Open { channel, calls, .. } = &mut *open;
    channel.poll(QUANTUM, |event| {
        let metadata = event.metadata().to_vec();
        let kept = match event.what {
            What::Reply(body) => Event::Reply(Bytes::copy_from_slice(body)),
            What::Item(body) => Event::Item(Bytes::copy_from_slice(body)),
            What::End => Event::End,
            What::Failed(status) => Event::Failed(status),
        };
        // A stream that its client has left takes nothing any more.
        if let Some(sender) = calls.get(&event.user) {
            let _ = sender.send((kept, metadata));
        }
    })
}

fn is_open(bridge: &Bridge) -> bool {
    bridge.open().is_ok_and(|open| open.channel.is_open())
}

/// How long the pump may sleep; nothing if there is something to do.
fn arm(bridge: &Bridge) -> Option<Duration> {
    let mut open = bridge.open().ok()?;
    if !open.channel.arm() {
        open.channel.disarm();
        return None;
    }
    let now = base::clock::Clock::shared().now();
    Some(Duration::from_nanos(open.channel.next_deadline().since(now).0.min(1_000_000_000)))
}

fn disarm(bridge: &Bridge) {
    if let Ok(mut open) = bridge.open() {
        open.channel.disarm();
    }
}

/// The channel's descriptors, for the runtime. (The gateway never switches transports, so they stay the same.)
fn watch(bridge: &Bridge) -> io::Result<Vec<AsyncFd<OwnedFd>>> {
    let open = bridge.open().map_err(io::Error::other)?;
    open.channel.descriptors().map(watched).collect()
}

/// Tells when there is something to read from it.
///
/// # Errors
/// The system has no descriptor left.
pub fn watched(descriptor: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    let descriptor = descriptor.try_clone_to_owned()?;
    // SAFETY: an OwnedFd is open, and the same, as long as it lives; the AsyncFd owns it.
    unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }.map_err(io::Error::from)
}

/// Ends when one of them is readable.
async fn readable(watched: &[AsyncFd<OwnedFd>]) {
    std::future::poll_fn(|cx| {
        let ready = watched.iter().filter(|fd| match fd.poll_read_ready(cx) {
            std::task::Poll::Ready(Ok(mut guard)) => {
                guard.clear_ready();
                true
            }
            std::task::Poll::Ready(Err(_)) => true,
            std::task::Poll::Pending => false,
        });
        if ready.count() > 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
