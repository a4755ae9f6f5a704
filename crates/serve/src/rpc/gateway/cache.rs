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
use base::Nanos;
use client::cache::{Client, Topology, TopologyError};
use client::replies::{Look, item_of};
use codec::schema::KeyPath;
use fabric::service::key_at;
use protocol::coherence::client::{Answer, Call, Failed, OpId, Refused};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

/// The pump looks at least this often.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What came of an operation.
pub type Outcome = Result<Answer, Failed>;

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

/// A client of the cache: operations that begin, and what came of them.
pub trait Lookups {
    /// Begins one.
    ///
    /// # Errors
    /// It cannot begin.
    fn start(&mut self, call: Call) -> Result<OpId, Refused>;

    /// Sends and takes what there is.
    ///
    /// # Errors
    /// The socket's.
    fn serve(&mut self) -> io::Result<()>;

    /// What came of one.
    fn poll_outcome(&mut self) -> Option<(OpId, Outcome)>;

    /// When it is to be served, if nothing comes.
    fn next_deadline(&self) -> Nanos;
}

impl Lookups for Client {
    fn start(&mut self, call: Call) -> Result<OpId, Refused> {
        Client::start(self, call)
    }

    fn serve(&mut self) -> io::Result<()> {
        Client::serve(self)
    }

    fn poll_outcome(&mut self) -> Option<(OpId, Outcome)> {
        Client::poll_outcome(self)
    }

    fn next_deadline(&self) -> Nanos {
        Client::next_deadline(self)
    }
}

/// See the head of the file.
pub struct Cache<C = Client> {
    client: RefCell<C>,
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
        let cache = Rc::new(Cache::over(client, standing));
        tokio::task::spawn_local(pump(Rc::clone(&cache), watched));
        Ok(cache)
    }
}

impl<C: Lookups + 'static> Cache<C> {
    /// By this client, which somebody else drives.
    fn over(client: C, standing: Arc<Standing>) -> Cache<C> {
        Cache {
            client: RefCell::new(client),
            waiting: RefCell::default(),
            kick: Notify::new(),
            is_silent: Cell::new(false),
            is_probed: Cell::new(false),
            standing,
        }
    }

    /// The reply to this request that the cache has, in so much time.
    pub async fn kept(
        self: &Rc<Self>,
        method: &Cacheable,
        request: &[u8],
        left: Option<Duration>,
    ) -> Option<Vec<u8>> {
        let key = key_at(request, &method.key.fields, method.key.kind).ok()?;
        let (look, get) = Look::begin(item_of(&method.service, &method.method, key), request);
        if self.is_silent.get() {
            self.standing.passed_by.fetch_add(1, Ordering::Relaxed);
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
    fn probe(self: &Rc<Self>, get: Call) {
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
            self.standing.is_silent.store(is_silent, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use codec::table::Kind;
    use protocol::replies::{Entry, Item};
    use protocol::wire::Status;
    use std::collections::VecDeque;
    use std::future::Future;
    use tokio::task::{LocalSet, spawn_local, yield_now};

    /// A box that says what it is told to, to one operation after the other.
    #[derive(Default)]
    struct FakeBox {
        begun: Vec<OpId>,
        outcomes: VecDeque<(OpId, Outcome)>,
    }

    impl Lookups for FakeBox {
        fn start(&mut self, _call: Call) -> Result<OpId, Refused> {
            self.begun.push(OpId(self.begun.len() as u64));
            Ok(self.begun[self.begun.len() - 1])
        }

        fn serve(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn poll_outcome(&mut self) -> Option<(OpId, Outcome)> {
            self.outcomes.pop_front()
        }

        fn next_deadline(&self) -> Nanos {
            Nanos::MAX
        }
    }

    /// As `message M { string user = 1; }` of user "ann".
    const REQUEST: &[u8] = b"\x0a\x03ann";

    fn method() -> Cacheable {
        let key = KeyPath { path: "user".to_owned(), fields: vec![1], kind: Kind::String, enumeration: None };
        Cacheable { service: "shop.Shop".to_owned(), method: "GetProfile".to_owned(), key }
    }

    /// An item with this reply to [`REQUEST`].
    fn hit(reply: &[u8]) -> Outcome {
        let name = &Item::of("shop.Shop", "GetProfile", b"ann").name;
        let value = Entry::Kept { name, request: REQUEST, reply }.to_bytes();
        Ok(Answer { value, ..Answer::of(Status::Ok) })
    }

    /// The last operation that was begun ends so.
    fn end(cache: &Rc<Cache<FakeBox>>, outcome: Outcome) {
        {
            let mut client = cache.client.borrow_mut();
            let last = *client.begun.last().expect("one was begun");
            client.outcomes.push_back((last, outcome));
        }
        cache.turn();
    }

    fn begun(cache: &Rc<Cache<FakeBox>>) -> usize {
        cache.client.borrow().begun.len()
    }

    /// Lookups, of these hits, calls past a silent cache, and whether it is silent.
    fn counted(standing: &Standing) -> (u64, u64, u64, bool) {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let is_silent = standing.is_silent.load(Ordering::Relaxed);
        (count(&standing.lookups), count(&standing.kept), count(&standing.passed_by), is_silent)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        LocalSet::new().block_on(&runtime, test);
    }

    /// A call, and what the cache says to its lookup.
    async fn looked_up(cache: &Rc<Cache<FakeBox>>, outcome: Outcome) -> Option<Vec<u8>> {
        let (of, before) = (Rc::clone(cache), begun(cache));
        let call = spawn_local(async move { of.kept(&method(), REQUEST, None).await });
        while begun(cache) == before {
            yield_now().await;
        }
        end(cache, outcome);
        call.await.expect("it ends")
    }

    #[test]
    fn a_silent_cache_costs_one_call_its_lookup_and_is_asked_again_when_it_answers() {
        run(async {
            let standing = Arc::new(Standing::default());
            let cache = Rc::new(Cache::over(FakeBox::default(), Arc::clone(&standing)));
            assert_eq!(looked_up(&cache, hit(b"one")).await.as_deref(), Some(&b"one"[..]));
            assert_eq!(counted(&standing), (1, 1, 0, false));
            // The box is gone: the lookup ends by the client's patience, and the call goes to the server.
            assert_eq!(looked_up(&cache, Err(Failed::NotDone)).await, None);
            assert_eq!(counted(&standing), (2, 1, 0, true));
            // Others go there at once, and wait for nothing: one lookup is tried beside them.
            for passed_by in 1..=3 {
                assert_eq!(cache.kept(&method(), REQUEST, None).await, None);
                assert_eq!((counted(&standing), begun(&cache)), ((2, 1, passed_by, true), 3));
            }
            // That one is not answered, either: the next call tries again.
            end(&cache, Err(Failed::Unknown));
            yield_now().await;
            assert_eq!(cache.kept(&method(), REQUEST, None).await, None);
            assert_eq!((counted(&standing), begun(&cache)), ((2, 1, 4, true), 4));
            // The box is back.
            end(&cache, hit(b"two"));
            yield_now().await;
            assert_eq!(looked_up(&cache, hit(b"two")).await.as_deref(), Some(&b"two"[..]));
            assert_eq!(counted(&standing), (3, 2, 4, false));
        });
    }

    #[test]
    fn a_call_waits_for_its_lookup_no_longer_than_its_time() {
        run(async {
            let standing = Arc::new(Standing::default());
            let cache = Rc::new(Cache::over(FakeBox::default(), Arc::clone(&standing)));
            // Nothing comes, and nobody turns the client; half of no time is over at once.
            assert_eq!(cache.kept(&method(), REQUEST, Some(Duration::ZERO)).await, None);
            assert_eq!(counted(&standing), (1, 0, 0, false));
            // That nobody waits for it any more does not make it answered.
            end(&cache, Err(Failed::NotDone));
            assert_eq!(counted(&standing), (1, 0, 0, true));
        });
    }
}
