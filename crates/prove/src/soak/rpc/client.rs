//! A client of a soak: a thread with one connection.
//!
//! Why it does not run on `bench::drive`: it judges. Each call has a number whose one outcome is entered in the ledger, connections are cut and their
//! transports switched under it, and a call that fails is no end of the run but an answer to be believed or not.

use super::ledger::{self, Ledger, MOST};
use base::prng::Prng;
use fabric::channel::{CallOptions, Channel, Event, Method, Options, StartError, Switch, What};
use fabric::link::{self, Address, LinkOptions};
use fabric::registers::Registers;
use ring::wait::WaitPolicy;
use serde::Serialize;
use serve::rpc::RpcError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long calls that are under way at the end may take.
const LAST: Duration = Duration::from_secs(30);
/// Polls without an event after which it sleeps.
const PATIENCE: u32 = 100;

/// What became of the calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Account {
    /// Calls that were started.
    pub(super) started: u64,
    /// Outcomes that are replies.
    pub(super) replies: u64,
    /// Outcomes that are statuses.
    pub(super) failed: u64,
    /// Calls without an outcome.
    pub(super) lost: u64,
    /// Outcomes of calls that had one.
    pub(super) doubled: u64,
    /// Replies that are not the call's.
    pub(super) wrong: u64,
    /// Replies to calls that did not run.
    pub(super) unrun: u64,
    /// Transports gone over to.
    pub(super) switches: u64,
    /// Switches that the server refused or that found nobody.
    pub(super) refused: u64,
    /// The first thing that went wrong.
    pub(super) example: Option<String>,
}

impl Account {
    pub(super) fn add(&mut self, other: &Account) {
        self.started += other.started;
        self.replies += other.replies;
        self.failed += other.failed;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.wrong += other.wrong;
        self.unrun += other.unrun;
        self.switches += other.switches;
        self.refused += other.refused;
        self.example = self.example.take().or_else(|| other.example.clone());
    }
}

/// What a thread is given.
pub(super) struct Client {
    pub(super) number: u32,
    pub(super) window: usize,
    pub(super) addresses: Vec<Address>,
    pub(super) switch_every: Option<Duration>,
    pub(super) random: Prng,
    pub(super) registers: Arc<Registers>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) stop: Arc<AtomicBool>,
}

/// The calls of one thread.
struct Book {
    account: Account,
    /// A bit for each call that has its outcome.
    ended: Vec<u64>,
    bytes: Vec<u8>,
}

impl Client {
    pub(super) fn run(mut self) -> Result<Account, RpcError> {
        let address = self.any_address();
        let options = Options { registers: Some(Arc::clone(&self.registers)), ..Options::default() };
        let mut channel =
            Channel::connect(&address, &options).map_err(|cause| RpcError::Connect { address, cause })?;
        let method = channel.method(ledger::METHOD).expect("it is served");
        let mut book = Book { account: Account::default(), ended: Vec::new(), bytes: Vec::new() };
        let (mut idle, mut was_switching, mut switched) = (0, false, Instant::now());
        let mut stopped = None;
        loop {
            if self.stop.load(Ordering::Relaxed) || channel.end().is_some() || !channel.is_open() {
                let since = *stopped.get_or_insert_with(Instant::now);
                if book.under_way() == 0 || since.elapsed() > LAST {
                    return Ok(book.close(&channel));
                }
            } else {
                self.start(&mut channel, method, &mut book);
                if self.switch_every.is_some_and(|every| switched.elapsed() >= every) {
                    switched = Instant::now();
                    self.switch(&mut channel, &mut book.account);
                    was_switching |= channel.switching() != Switch::Idle;
                }
            }
            let polled = channel.poll(256, |event| book.take(&self, &event));
            let switching = channel.switching() != Switch::Idle;
            if was_switching && !switching {
                match channel.switch_error() {
                    None => book.account.switches += 1,
                    Some(_) => book.account.refused += 1,
                }
            }
            was_switching = switching;
            idle = if polled > 0 { 0 } else { idle + 1 };
            if idle > PATIENCE {
                channel.wait(WaitPolicy::default(), Some(Duration::from_millis(5)));
            }
        }
    }

    fn any_address(&mut self) -> Address {
        self.addresses[self.random.below(self.addresses.len() as u64) as usize].clone()
    }

    fn start(&self, channel: &mut Channel, method: Method, book: &mut Book) {
        while book.under_way() < self.window as u64 && book.account.started < u64::from(MOST) {
            let call = book.account.started as u32;
            ledger::request(self.number, call, &mut book.bytes);
            match channel.start(method, &CallOptions::default(), call.into(), &book.bytes) {
                Ok(_) => book.account.started += 1,
                Err(StartError::Full) => return,
                Err(error) => return book.fault(|| format!("call {call} was not started: {error}")),
            }
        }
    }

    /// Goes over to a transport, perhaps the same one anew, unless it is doing so already.
    fn switch(&mut self, channel: &mut Channel, account: &mut Account) {
        if channel.switching() != Switch::Idle {
            return;
        }
        let address = self.any_address();
        match link::connect(&address, &LinkOptions::default()) {
            Ok(link) => account.refused += u64::from(channel.switch(link).is_err()),
            Err(_) => account.refused += 1,
        }
    }
}

impl Book {
    fn under_way(&self) -> u64 {
        self.account.started - self.account.replies - self.account.failed
    }

    #[cold]
    fn fault(&mut self, what: impl FnOnce() -> String) {
        self.account.example.get_or_insert_with(what);
    }

    /// Takes an outcome.
    fn take(&mut self, client: &Client, event: &Event<'_>) {
        let call = event.user as u32;
        let (word, bit) = (call as usize / 64, 1 << (call % 64));
        if self.ended.len() <= word {
            self.ended.resize(word + 1, 0);
        }
        if self.ended[word] & bit != 0 {
            self.account.doubled += 1;
            return self.fault(|| format!("call {call} ended twice"));
        }
        self.ended[word] |= bit;
        match &event.what {
            What::Reply(body) => {
                self.account.replies += 1;
                ledger::reply(client.number, call, &mut self.bytes);
                if *body != self.bytes {
                    self.account.wrong += 1;
                    self.fault(|| format!("call {call} got another call's reply"));
                }
                if !client.ledger.has_run(client.number, call) {
                    self.account.unrun += 1;
                    self.fault(|| format!("call {call} got a reply and did not run"));
                }
            }
            What::Failed(status) => {
                self.account.failed += 1;
                self.fault(|| format!("call {call}: {status}"));
            }
            What::Item(_) | What::End => {
                self.account.failed += 1;
                self.fault(|| format!("call {call} streamed"));
            }
        }
    }

    fn close(mut self, channel: &Channel) -> Account {
        self.account.lost = self.under_way();
        if self.account.lost > 0 {
            self.fault(|| format!("calls without an outcome on {channel:?}"));
        }
        if let Some(why) = channel.end() {
            self.fault(|| format!("the connection ended: {why}"));
        }
        self.account
    }
}
