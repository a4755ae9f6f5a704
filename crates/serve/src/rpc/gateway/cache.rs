//! Replies that the in-network cache keeps, for gRPC clients: asked first, so that what a box has never reaches the server.
//!
//! ```text
//!  call of a cacheable method ──▶ get the item ──▶ kept for this request ──▶ the reply
//!                                       └─▶ anything else ──▶ the server, which keeps the reply (`rpc::replies`)
//! ```
//! One client of the cache for all calls, on the gateway's thread; many lookups are under way at once.
//!
//! Errors: none. Whatever the cache says or does not say, the server can be asked. Where a lookup is not answered, calls go to the server alone
//! until a lookup is answered again: one at a time is tried. So a cache that is gone costs one call its patience, not each of them.
//!
//! Bounds: `coherence.operations` lookups under way; calls beside them go to the server. A lookup takes half of its call's time at most.

use super::bridge::watched;
use super::metrics::Standing;
use client::cache::{Client, Topology, TopologyError};
use client::replies::{Look, item_of};
use codec::schema::KeyPath;
use fabric::service::key_at;
use protocol::coherence::client::{Answer, Call, Failed, OpId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

/// The pump looks at least this often.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

type Outcome = Result<Answer, Failed>;

/// A method whose replies may be kept.
#[derive(Clone, Debug)]
pub struct Cacheable {
    /// Its service's full name.
    pub service: String,
    /// Its name.
    pub method: String,
    /// Where a request has its key.
    pub key: KeyPath,
}

/// See the head of the file.
pub struct Cache {
    client: RefCell<Client>,
    waiting: RefCell<HashMap<OpId, oneshot::Sender<Outcome>>>,
    /// The pump's sleep is too long now.
    kick: Notify,
    /// The last lookup was not answered, and none since.
    is_silent: Cell<bool>,
    /// A lookup is under way to see whether that is still so.
    is_probed: Cell<bool>,
    standing: Arc<Standing>,
}

impl Cache {
    /// A client of the cache, driven by a task of this thread's.
    ///
    /// # Errors
    /// There is no such box, or no socket to be had.
    pub fn start(
        topology: &Topology,
        tor: Option<u16>,
        standing: Arc<Standing>,
    ) -> Result<Rc<Cache>, TopologyError> {
        let client = Client::init(topology, tor)?;
        let watched = watched(client.as_fd()).map_err(TopologyError::Socket)?;
        let cache = Rc::new(Cache {
            client: RefCell::new(client),
            waiting: RefCell::default(),
            kick: Notify::new(),
            is_silent: Cell::new(false),
            is_probed: Cell::new(false),
            standing,
        });
        tokio::task::spawn_local(pump(Rc::clone(&cache), watched));
        Ok(cache)
    }

    /// The reply to this request that the cache has, in so much time.
    pub async fn kept(
        self: &Rc<Cache>,
        method: &Cacheable,
        request: &[u8],
        left: Option<Duration>,
    ) -> Option<Vec<u8>> {
        let key = key_at(request, &method.key.fields, method.key.kind).ok()?;
        let (look, get) = Look::begin(item_of(&method.service, &method.method, key), request);
        if self.is_silent.get() {
            self.probe(get);
            return None;
        }
        self.standing.lookups.fetch_add(1, Ordering::Relaxed);
        let answer = self.ask(get)?;
        let answer = match left {
            Some(left) => tokio::time::timeout(left / 2, answer).await.ok()?,
            None => answer.await,
        };
        let reply = look.hit(answer.ok()?.as_ref().map_err(|failed| *failed))?;
        self.standing.kept.fetch_add(1, Ordering::Relaxed);
        Some(reply)
    }

    /// Asks in the background whether the cache answers again.
    fn probe(self: &Rc<Cache>, get: Call) {
        if self.is_probed.replace(true) {
            return;
        }
        let Some(answer) = self.ask(get) else { return self.is_probed.set(false) };
        let cache = Rc::clone(self);
        tokio::task::spawn_local(async move {
            // The pump has seen what came of it.
            let _ = answer.await;
            cache.is_probed.set(false);
        });
    }

    /// A lookup has ended, whether or not somebody still waits for it.
    fn heard(&self, is_silent: bool) {
        if self.is_silent.replace(is_silent) != is_silent {
            match is_silent {
                true => log::warn!("the cache does not answer: calls go to the server alone until it does"),
                false => log::info!("the cache answers again"),
            }
        }
    }

    /// Begins an operation; nothing if none may begin.
    fn ask(&self, call: Call) -> Option<oneshot::Receiver<Outcome>> {
        let id = self.client.borrow_mut().start(call).ok()?;
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, sender);
        self.kick.notify_one();
        Some(receiver)
    }

    /// Takes what came; how long nothing else is due.
    fn turn(&self) -> Duration {
        let mut client = self.client.borrow_mut();
        if let Err(error) = client.serve() {
            log::debug!("the socket to the cache: {error}");
        }
        while let Some((id, outcome)) = client.poll_outcome() {
            self.heard(outcome.is_err());
            // Whoever asked may be gone.
            let waiting = self.waiting.borrow_mut().remove(&id);
            let _ = waiting.map(|sender| sender.send(outcome));
        }
        let now = base::clock::Clock::shared().now();
        Duration::from_nanos(client.next_deadline().since(now).0).min(LONGEST_WAIT)
    }
}

/// Drives the client, as long as the gateway's thread lives.
async fn pump(cache: Rc<Cache>, watched: AsyncFd<OwnedFd>) {
    loop {
        let wait = cache.turn();
        tokio::select! {
            ready = watched.readable() => if let Ok(mut ready) = ready { ready.clear_ready() },
            () = cache.kick.notified() => (),
            () = tokio::time::sleep(wait) => (),
        }
    }
}
