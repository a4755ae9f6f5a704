//! The client of a chain that a server's items lie in: a thread with many transactions under way.
//!
//! ```text
//!  service: send ─▶ asked ─▶ thread: client::chain::Client ─▶ replicas
//!           take_done ◀─ done ◀────────┘ Post::due
//! ```
//! What has no answer within `chained.patience` and was sent is asked for by its session's number, for as long again: it is never sent anew under another
//! number.
//!
//! **Before boxes** the chain is claimed before anything else is asked of it ([`protocol::chain::claim`]), and all that is asked carries the
//! claim. So nobody else
//! writes items of which boxes have copies, the earlier lives of this home included: what they sent and the chain has not done yet is refused.
//! When another home
//! has claimed the chain since, nothing is done here any more: clients are refused, and `/healthz` says so.
//!
//! **Of clients** transactions go in the clients' own sessions, so that each is done once, whichever way it goes. One of which nobody says anything is for the
//! service to send again.
//!
//! Bounds: transactions that the service has under way, and so `chained.queue`. Under way at the chain are [`UNDER_WAY`] of them, others wait here.

use super::claiming::{Claiming, ConnectError, find_in_time};
use super::post::Post;
use super::registers::{Id, Registers};
use super::service::chained::Answer;
use ::client::chain::{Caller, Client, Options, Source, TxnError};
use base::{Clock, Nanos};
use hdrhistogram::Histogram;
use protocol::chain::message::{Refusal, RequestId};
use protocol::chain::transaction::Abort;
use protocol::chain::{Claim, Outcome, Transaction};
use protocol::coherence::home::slow::Ended;
use ring::wait::WaitPolicy;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Transactions under way at once: less than the client's machine takes, questions included.
const UNDER_WAY: usize = 512;
/// Between two questions for what became of a transaction, while nobody knows.
const ASK_AGAIN: Nanos = Nanos::from_millis(20);
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

/// Who wants a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// The service, by its number.
    Service(u64),
    /// A client.
    Client(RequestId),
    /// The thread itself: whether its claim counts.
    Thread,
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
    fn of(chain: u32) -> Figures {
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
            figures,
        });
        let caller = client.caller();
        let theirs = Arc::clone(&exchange);
        let run = move || {
            Worker {
                client,
                claim,
                exchange: theirs,
                post,
                clock: Clock::shared(),
                patience: Nanos::from(patience),
                backlog: VecDeque::new(),
                under_way: HashMap::new(),
                to_ask: Vec::new(),
                done: Vec::new(),
                relayed: Vec::new(),
                is_refused: false,
            }
            .run();
        };
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

/// A transaction that has no answer yet.
struct UnderWay {
    whose: Whose,
    began: Nanos,
    /// Asked for until then, if nobody answered; none: it was not asked for.
    until: Option<Nanos>,
}

/// What the thread has.
struct Worker {
    client: Client,
    /// What all is done under; 0: nothing.
    claim: u64,
    exchange: Arc<Exchange>,
    post: Arc<Post>,
    clock: Clock,
    patience: Nanos,
    backlog: VecDeque<(Whose, Transaction, Nanos)>,
    under_way: HashMap<u64, UnderWay>,
    /// Questions, and when.
    to_ask: Vec<(Nanos, RequestId, UnderWay)>,
    done: Vec<(u64, Answer)>,
    relayed: Vec<(RequestId, Relayed)>,
    /// That was said.
    is_refused: bool,
}

impl Worker {
    fn run(mut self) {
        while !self.exchange.is_over.load(Ordering::Acquire) {
            let now = self.clock.now();
            self.take_asked(now);
            self.ask_again(now);
            while let Some((ticket, result)) = self.client.poll() {
                self.hear(ticket, result);
            }
            self.publish();
            if self.backlog.is_empty() || self.under_way.len() >= UNDER_WAY {
                let next = self.to_ask.iter().map(|(at, ..)| at.since(now)).min();
                self.client.wait_for_call(next.map(Duration::from));
            }
        }
        self.client.close();
    }

    fn take_asked(&mut self, now: Nanos) {
        let asked = std::mem::take(&mut *lock(&self.exchange.asked));
        self.backlog.extend(asked.into_iter().map(|(whose, transaction)| (whose, transaction, now)));
        while self.under_way.len() < UNDER_WAY
            && let Some((whose, transaction, began)) = self.backlog.pop_front()
        {
            let transaction = transaction.under(self.claim);
            let started = match whose {
                Whose::Client(id) if !transaction.only_reads() => self.client.relay(id, transaction),
                _ => self.client.start(transaction),
            };
            match started {
                Ok(ticket) => drop(self.under_way.insert(ticket, UnderWay { whose, began, until: None })),
                Err(error) => self.hear_refused(whose, &error),
            }
        }
    }

    /// Nothing was sent.
    fn hear_refused(&mut self, whose: Whose, error: &TxnError) {
        match whose {
            Whose::Service(number) => {
                log::error!("a transaction for the chain was refused, this is a bug: {error}");
                self.done.push((number, Answer::NotDone));
            }
            // It may have been sent before.
            Whose::Client(id) => self.relayed.push((id, Relayed::Lost)),
            Whose::Thread => {}
        }
    }

    fn ask_again(&mut self, now: Nanos) {
        for (_, id, under_way) in self.to_ask.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>() {
            self.exchange.figures.asked_again.fetch_add(1, Ordering::Relaxed);
            match self.client.ask(id) {
                Ok(ticket) => drop(self.under_way.insert(ticket, under_way)),
                Err(_) => self.to_ask.push((now.plus(ASK_AGAIN), id, under_way)),
            }
        }
    }

    fn hear(&mut self, ticket: u64, result: Result<Outcome, TxnError>) {
        let Some(mut under_way) = self.under_way.remove(&ticket) else { return };
        let now = self.clock.now();
        let number = match under_way.whose {
            Whose::Service(number) => number,
            Whose::Client(id) => return self.hear_relayed(id, result, under_way.began),
            Whose::Thread => return self.hear_whether_claimed(result),
        };
        let answer = match result {
            Ok(Outcome { abort: Some(Abort::Claimed), .. }) => {
                self.say_claimed();
                Answer::NotDone
            }
            Ok(outcome) => Answer::Done(outcome),
            Err(TxnError::Unknown { id: Some(id), why }) => {
                self.say_silent(&why);
                let until = *under_way.until.get_or_insert(now.plus(self.patience));
                if now < until {
                    return self.to_ask.push((now.plus(ASK_AGAIN), id, under_way));
                }
                Answer::Unknown
            }
            // Asked for, and it cannot be told any more.
            Err(_) if under_way.until.is_some() => Answer::Unknown,
            Err(TxnError::Unknown { id: None, .. }) => Answer::Unknown,
            // It answers, so it is not silent: the file that this server goes by is an old one, for one.
            Err(error @ TxnError::Refused(_)) => {
                if !std::mem::replace(&mut self.is_refused, true) {
                    log::error!("chain {} refuses transactions: {error}", self.exchange.figures.chain);
                }
                Answer::NotDone
            }
            Err(error) => {
                self.say_silent(&error.to_string());
                Answer::NotDone
            }
        };
        // What has no outcome says nothing of what one takes.
        if matches!(answer, Answer::Done(_)) {
            self.note_answer(now, under_way.began);
        }
        self.done.push((number, answer));
    }

    /// What became of a client's.
    fn hear_relayed(&mut self, id: RequestId, result: Result<Outcome, TxnError>, began: Nanos) {
        let relayed = match result {
            Ok(outcome) => {
                let now = self.clock.now();
                self.note_answer(now, began);
                if outcome.abort == Some(Abort::Claimed) {
                    // The client may have asked the chain itself under this number. What counts is what is asked under our claim.
                    self.backlog.push_front((Whose::Thread, Claim::ask(), now));
                }
                Relayed::Ended(Ended::Done(outcome))
            }
            Err(TxnError::Unknown { why, .. }) => {
                self.say_silent(&why);
                Relayed::Lost
            }
            Err(TxnError::Refused(Refusal::NoSession | Refusal::Forgotten)) => Relayed::Ended(Ended::Unknown),
            // It was never sent, or only read, or is no transaction of this chain.
            Err(_) => Relayed::Ended(Ended::NotDone),
        };
        self.relayed.push((id, relayed));
    }

    fn hear_whether_claimed(&mut self, result: Result<Outcome, TxnError>) {
        if matches!(result, Ok(Outcome { abort: Some(Abort::Claimed), .. })) {
            self.say_claimed();
        }
    }

    /// The chain answers.
    fn note_answer(&self, now: Nanos, began: Nanos) {
        let figures = &self.exchange.figures;
        if figures.is_silent.swap(false, Ordering::Relaxed) {
            log::info!("chain {} answers again", figures.chain);
        }
        let span = now.since(began).0.clamp(1000, LONGEST);
        lock(&figures.spans).saturating_record(span);
    }

    /// Said once, until it answers again.
    fn say_silent(&mut self, why: &str) {
        if !self.exchange.figures.is_silent.swap(true, Ordering::Relaxed) {
            log::warn!("chain {} does not answer: {why}", self.exchange.figures.chain);
        }
    }

    /// Said once. Nothing is done here any more.
    fn say_claimed(&mut self) {
        if !self.exchange.figures.is_claimed.swap(true, Ordering::Relaxed) {
            match self.claim {
                0 => log::error!(
                    "nothing can be written: a home with boxes has claimed the chain that items lie in"
                ),
                _ => log::error!(
                    "another home has claimed the chain that items lie in: nothing is served here any more"
                ),
            }
        }
    }

    /// The service learns what is done.
    fn publish(&mut self) {
        let under_way = self.under_way.len() + self.backlog.len() + self.to_ask.len();
        self.exchange.figures.under_way.store(under_way as u64, Ordering::Relaxed);
        let is_news = !self.done.is_empty() || !self.relayed.is_empty();
        if !self.done.is_empty() {
            lock(&self.exchange.done).append(&mut self.done);
            self.exchange.has_done.store(true, Ordering::Release);
        }
        if !self.relayed.is_empty() {
            lock(&self.exchange.relayed).append(&mut self.relayed);
            self.exchange.has_relayed.store(true, Ordering::Release);
        }
        if is_news {
            self.post.due();
        }
    }
}
