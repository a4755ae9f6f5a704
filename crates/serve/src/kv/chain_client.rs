//! The client of a chain that a server's items lie in: a thread with many transactions under way.
//!
//! ```text
//!  service: send ─▶ asked ─▶ thread: Work ─▶ client::chain::Client ─▶ replicas
//!           take_done ◀─ done ◀────────┘ Post::due
//! ```
//! What is asked of the chain, and what its answers mean, is [`work`], which has neither thread nor socket.
//!
//! **Before boxes** the chain is claimed before anything else is asked of it ([`protocol::chain::claim`]), and all that is asked carries the
//! claim. So nobody else
//! writes items of which boxes have copies, the earlier lives of this home included: what they sent and the chain has not done yet is refused.
//! When another home
//! has claimed the chain since, nothing is done here any more: clients are refused, and `/healthz` says so.
//!
//! Bounds: transactions that the service has under way, and so `chained.queue`.

mod work;

pub use work::{AtChain, Work};

use super::claiming::{Claiming, ConnectError, find_in_time};
use super::post::Post;
use super::registers::{Id, Registers};
use super::service::chained::Answer;
use ::client::chain::{Caller, Client, Options, Source, Ticket, TxnError};
use base::{Clock, Nanos};
use hdrhistogram::Histogram;
use protocol::chain::message::RequestId;
use protocol::chain::{Outcome, Transaction};
use protocol::coherence::home::slow::Ended;
use ring::wait::WaitPolicy;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use work::Whose;

/// Longest transaction that is told from longer ones.
const LONGEST: u64 = 100_000_000_000;

/// Who does a server's transactions, and says what became of them.
pub trait Transactions: Send {
    /// Has these done, by number.
    fn send(&mut self, transactions: Vec<(u64, Transaction)>);

    /// What became of transactions since the last time.
    fn take_done(&mut self) -> Vec<(u64, Answer)>;

    /// Why a client's transaction can be done nowhere, if so.
    ///
    /// # Errors
    /// In words: which of its keys are where.
    fn check(&self, _transaction: &Transaction) -> Result<(), String> {
        Ok(())
    }

    /// Has these of clients done, each in its client's session and under its number; those that only read, in none.
    fn relay(&mut self, transactions: Vec<(RequestId, Transaction)>) {
        assert!(transactions.is_empty(), "nobody takes transactions of clients here");
    }

    /// What became of clients' transactions since the last time.
    fn take_relayed(&mut self) -> Vec<(RequestId, Relayed)> {
        Vec::new()
    }
}

/// What became of a client's transaction, as `protocol::chain::at_home` wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relayed {
    /// This; of [`Ended::Unknown`]: the chain cannot tell, and nothing more can come of it.
    Ended(Ended<Outcome>),
    /// Nobody answered. It may still be done.
    Lost,
}

/// What thread and service leave for each other.
struct Exchange {
    asked: Mutex<Vec<(Whose, Transaction)>>,
    done: Mutex<Vec<(u64, Answer)>>,
    has_done: AtomicBool,
    relayed: Mutex<Vec<(RequestId, Relayed)>>,
    has_relayed: AtomicBool,
    is_over: AtomicBool,
    figures: Arc<Figures>,
}

/// What the thread counts.
pub struct Figures {
    chain: u32,
    under_way: AtomicU64,
    asked_again: AtomicU64,
    /// The last transaction that ended had no answer.
    is_silent: AtomicBool,
    /// Another claim counts than ours.
    is_claimed: AtomicBool,
    /// Nanoseconds from when the service asked to when there was an outcome.
    spans: Mutex<Histogram<u64>>,
}

impl Figures {
    /// Of the chain with this number, of which nothing was asked yet.
    pub fn of(chain: u32) -> Figures {
        let spans = Histogram::new_with_bounds(1000, LONGEST, 2).expect("bounds that a histogram can have");
        Figures {
            chain,
            under_way: AtomicU64::new(0),
            asked_again: AtomicU64::new(0),
            is_silent: AtomicBool::new(false),
            is_claimed: AtomicBool::new(false),
            spans: Mutex::new(spans),
        }
    }

    /// The chain's number.
    pub fn chain(&self) -> u32 {
        self.chain
    }

    /// Transactions that have no outcome yet.
    pub fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Questions for what became of a transaction.
    pub fn asked_again(&self) -> u64 {
        self.asked_again.load(Ordering::Relaxed)
    }

    /// Whether the last transaction that ended had no answer.
    pub fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Whether the items are ours to write, as far as is known; else who has them.
    ///
    /// # Errors
    /// In words.
    pub fn check_claim(&self) -> Result<(), String> {
        match self.is_claimed.load(Ordering::Relaxed) {
            true => {
                Err("another home has claimed the chain that items lie in (`millrace chain status`)"
                    .to_owned())
            }
            false => Ok(()),
        }
    }

    /// What transactions took, in nanoseconds.
    pub fn spans(&self) -> Histogram<u64> {
        lock(&self.spans).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread. It ends when this is dropped.
pub struct ChainClient {
    exchange: Arc<Exchange>,
    caller: Caller,
    thread: Option<JoinHandle<()>>,
}

impl ChainClient {
    /// A client of the chain of this number, or the only one, that is found there; `post` is told when transactions are done. With `home` it claims the chain
    /// first.
    ///
    /// # Errors
    /// Nobody is there, or no thread can be had.
    pub fn connect(
        (source, number): (Source, Option<u32>),
        registers: &Registers,
        post: Arc<Post>,
        home: Option<&Claiming>,
    ) -> Result<ChainClient, ConnectError> {
        let patience = Duration::from_secs(registers.read(Id::ChainedPatience));
        // What a server without boxes is refused is said to its clients: two servers that do not know of each other are a mistake.
        let options = Options { wait: WaitPolicy::BLOCK, patience, by_homes: false, ..Options::default() };
        let mut client = find_in_time(&source, number, &options)?;
        log::info!("items lie in chain {}", client.chain());
        let figures = Arc::new(Figures::of(client.chain()));
        let claim = home.map_or(Ok(0), |home| home.claim(number, &mut client))?;
        let exchange = Arc::new(Exchange {
            asked: Mutex::default(),
            done: Mutex::default(),
            has_done: AtomicBool::new(false),
            relayed: Mutex::default(),
            has_relayed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            figures: Arc::clone(&figures),
        });
        let caller = client.caller();
        let theirs = Arc::clone(&exchange);
        let work = Work::new(claim, Nanos::from(patience), figures);
        let run = move || Worker { client, work, exchange: theirs, post, clock: Clock::shared() }.run();
        let thread = std::thread::Builder::new().name("kv-chain".to_owned()).spawn(run);
        let thread = thread.map_err(ConnectError::Thread)?;
        Ok(ChainClient { exchange, caller, thread: Some(thread) })
    }

    /// What it counts.
    pub fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.exchange.figures)
    }

    /// Has these done.
    pub fn send(&self, transactions: Vec<(u64, Transaction)>) {
        self.ask(transactions.into_iter().map(|(number, asked)| (Whose::Service(number), asked)));
    }

    /// Has these of clients done.
    pub fn relay(&self, transactions: Vec<(RequestId, Transaction)>) {
        self.ask(transactions.into_iter().map(|(id, asked)| (Whose::Client(id), asked)));
    }

    fn ask(&self, transactions: impl ExactSizeIterator<Item = (Whose, Transaction)>) {
        if transactions.len() > 0 {
            lock(&self.exchange.asked).extend(transactions);
            self.caller.call();
        }
    }

    /// What became of transactions since the last time.
    #[inline]
    pub fn take_done(&self) -> Vec<(u64, Answer)> {
        if !self.exchange.has_done.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut done = lock(&self.exchange.done);
        self.exchange.has_done.store(false, Ordering::Release);
        std::mem::take(&mut *done)
    }

    /// What became of clients' transactions since the last time.
    #[inline]
    pub fn take_relayed(&self) -> Vec<(RequestId, Relayed)> {
        if !self.exchange.has_relayed.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut relayed = lock(&self.exchange.relayed);
        self.exchange.has_relayed.store(false, Ordering::Release);
        std::mem::take(&mut *relayed)
    }
}

impl Drop for ChainClient {
    fn drop(&mut self) {
        self.exchange.is_over.store(true, Ordering::Release);
        self.caller.call();
        // One that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What the thread has.
struct Worker {
    client: Client,
    work: Work,
    exchange: Arc<Exchange>,
    post: Arc<Post>,
    clock: Clock,
}

impl Worker {
    fn run(mut self) {
        while !self.exchange.is_over.load(Ordering::Acquire) {
            let now = self.clock.now();
            self.work.take(now, std::mem::take(&mut *lock(&self.exchange.asked)));
            self.work.turn(now, &mut self.client);
            self.work.take_said().iter().for_each(|(level, what)| log::log!(*level, "{what}"));
            self.publish();
            if !self.work.has_more() {
                let next = self.work.next_question().map(|at| at.since(now));
                self.client.wait_for_call(next.map(Duration::from));
            }
        }
        self.client.close();
    }

    /// The service learns what is done.
    fn publish(&mut self) {
        let (mut done, mut relayed) = (self.work.take_done(), self.work.take_relayed());
        let is_news = !done.is_empty() || !relayed.is_empty();
        if !done.is_empty() {
            lock(&self.exchange.done).append(&mut done);
            self.exchange.has_done.store(true, Ordering::Release);
        }
        if !relayed.is_empty() {
            lock(&self.exchange.relayed).append(&mut relayed);
            self.exchange.has_relayed.store(true, Ordering::Release);
        }
        if is_news {
            self.post.due();
        }
    }
}

impl AtChain for Client {
    fn start(&mut self, transaction: Transaction) -> Result<Ticket, TxnError> {
        Client::start(self, transaction)
    }

    fn relay(&mut self, id: RequestId, transaction: Transaction) -> Result<Ticket, TxnError> {
        Client::relay(self, id, transaction)
    }

    fn ask(&mut self, id: RequestId) -> Result<Ticket, TxnError> {
        Client::ask(self, id)
    }

    fn poll(&mut self) -> Option<(Ticket, Result<Outcome, TxnError>)> {
        Client::poll(self)
    }
}
