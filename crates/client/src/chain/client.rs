//! A client of a chain: transactions that wait for their outcome, or many under way.
//!
//! The machine (`protocol::chain::Client`) opens a session, numbers requests, finds the head, and sends again with the same number until there is an
//! answer; this gives it channels and a clock. One thread uses it at a time; nothing runs behind its back but threads that connect.

use super::error::TxnError;
use super::find::{Finder, Source};
use super::info::Info;
use super::place::{Place, ask_info, denial};
use super::places::{Caller, Places};
use super::words;
use base::{Clock, Nanos};
use fabric::channel::{self, CallOptions};
use fabric::link::Address;
use protocol::chain::client::{self, Failure, Reads};
use protocol::chain::message::{Refusal, RequestId, Status};
use protocol::chain::{Claim, Config, NodeId, Out, Outcome, ReplicaId, SessionId, Transaction};
use ring::wait::WaitPolicy;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Between two questions for what became of a transaction, while nobody knows.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who answers what only reads.
    pub reads: Reads,
    /// How it waits for answers.
    pub wait: WaitPolicy,
    /// How long it waits for replicas when it connects.
    pub timeout: Duration,
    /// How long for the outcome of a transaction.
    pub patience: Duration,
    /// Whether a write goes by the home of boxes that has claimed the chain, if one has. Else that it was not done is its outcome.
    pub by_homes: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            reads: Reads::default(),
            wait: WaitPolicy::default(),
            timeout: Duration::from_secs(2),
            patience: Duration::from_secs(10),
            by_homes: true,
        }
    }
}

/// A transaction that was started.
pub type Ticket = u64;

/// A client of one chain.
///
/// ```no_run
/// use client::chain::{Client, Options};
/// use protocol::chain::Transaction;
///
/// let mut client = Client::connect(&["tcp:127.0.0.1:7401".parse()?], &Options::default())?;
/// client.execute(Transaction::new().put("ann", "10").put("bob", "0"))?;
/// let transfer = Transaction::new().if_at_least("ann", 4).add("ann", -4).add("bob", 4);
/// let outcome = client.execute(transfer)?;
/// assert_eq!((outcome.abort, outcome.sums), (None, vec![6, 4]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Client {
    machine: client::Client,
    places: Places,
    chain: u32,
    options: Options,
    clock: Clock,
    out: Out,
    /// Outcomes of tickets that nobody has asked for yet.
    done: HashMap<Ticket, Result<Outcome, TxnError>>,
    /// The question where the home is, while it is under way.
    claim: Option<Ticket>,
}

impl Client {
    /// A client of the chain whose replicas are at these addresses; one that lives is enough, the others are told by it.
    ///
    /// # Errors
    /// [`TxnError::Nobody`], [`TxnError::Chains`].
    pub fn connect(addresses: &[Address], options: &Options) -> Result<Client, TxnError> {
        if addresses.is_empty() {
            return Err(TxnError::Nobody(Vec::new()));
        }
        Client::find(vec![Source::Replicas(addresses.to_vec())], None, options)
    }

    /// A client of the chain of this number, or of the only one, that is found there: now, and again when nobody can be reached.
    ///
    /// # Errors
    /// [`TxnError::NotFound`], [`TxnError::Nobody`], [`TxnError::Chains`].
    pub fn find(sources: Vec<Source>, chain: Option<u32>, options: &Options) -> Result<Client, TxnError> {
        let channels =
            channel::Options { timeout: options.timeout, wait: options.wait, ..Default::default() };
        let finder = Finder { sources, chain, timeout: options.timeout };
        let (places, chain) = Places::find(finder, channels)?;
        let clock = Clock::shared();
        let config = Config { chain, patience: Nanos::from(options.patience), ..Config::default() };
        // Different for each client: tokens of two of them must not be mixed up.
        let number = RandomState::new().build_hasher().finish();
        let machine = client::Client::new(&config, number, &places.replicas(), number, clock.now())
            .reads(options.reads);
        let machine = if options.by_homes { machine.follows_homes() } else { machine };
        Ok(Client {
            machine,
            places,
            chain,
            options: options.clone(),
            clock,
            out: Out::new(),
            done: HashMap::new(),
            claim: None,
        })
    }

    /// From now on operations end within this: as [`Options::patience`].
    pub fn set_patience(&mut self, patience: Duration) {
        self.options.patience = patience;
        self.machine.set_patience(Nanos::from(patience));
    }

    /// The chain's number.
    pub fn chain(&self) -> u32 {
        self.chain
    }

    /// Does a transaction, and waits for what becomes of it. That it was aborted is an outcome too.
    ///
    /// # Errors
    /// There is no outcome: [`TxnError`] says whether it may have been done.
    pub fn execute(&mut self, transaction: Transaction) -> Result<Outcome, TxnError> {
        let ticket = loop {
            match self.start(transaction.clone()) {
                Err(TxnError::TooMany) => self.wait(None),
                started => break started?,
            }
        };
        loop {
            self.turn();
            if let Some(outcome) = self.done.remove(&ticket) {
                return outcome;
            }
            self.wait(None);
        }
    }

    /// The claim that counts, and the version of its item.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn claim(&mut self) -> Result<Option<(u64, Claim)>, TxnError> {
        let outcome = self.execute(Claim::ask())?;
        let found = outcome.reads.into_iter().next().flatten();
        Ok(found.and_then(|found| Some((found.version.0, Claim::parse(&found.value)?))))
    }

    /// Starts a transaction; [`Client::poll`] tells what becomes of it.
    ///
    /// # Errors
    /// [`TxnError::TooMany`] or a [`TxnError::Refused`] that says what is wrong with it; nothing was sent then.
    pub fn start(&mut self, transaction: Transaction) -> Result<Ticket, TxnError> {
        transaction.check().map_err(|malformed| TxnError::Refused(Refusal::Malformed(malformed)))?;
        let now = self.clock.now();
        let ticket = self.machine.start(now, transaction, &mut self.out).map_err(|_| TxnError::TooMany)?;
        self.depart(now);
        Ok(ticket)
    }

    /// Starts a transaction that somebody else asked for, in his session and under his number; [`Client::poll`] tells what becomes of it.
    /// [`TxnError::Refused`] as [`Refusal::NoSession`] or [`Refusal::Forgotten`]: it may have been done, and will not be any more.
    ///
    /// # Errors
    /// [`TxnError::TooMany`]; nothing was sent then.
    pub fn relay(&mut self, id: RequestId, transaction: Transaction) -> Result<Ticket, TxnError> {
        let now = self.clock.now();
        let ticket = self.machine.relay(now, id, transaction, &mut self.out);
        let ticket = ticket.map_err(|_| TxnError::TooMany)?;
        self.depart(now);
        Ok(ticket)
    }

    /// What became of a transaction, if there is news. Publishes what was started.
    pub fn poll(&mut self) -> Option<(Ticket, Result<Outcome, TxnError>)> {
        if self.done.is_empty() {
            self.turn();
        }
        let ticket = *self.done.keys().next()?;
        Some((ticket, self.done.remove(&ticket)?))
    }

    /// Waits until [`Client::poll`] may have something, `timeout` at most; not at all if nothing is under way.
    pub fn wait(&mut self, timeout: Option<Duration>) {
        if !self.done.is_empty() || self.machine.under_way() == 0 {
            return;
        }
        let until = timeout.map_or(Nanos::MAX, |timeout| self.clock.now().plus(Nanos::from(timeout)));
        self.places.wait(self.clock, self.options.wait, until.min(self.machine.next_deadline()));
    }

    /// Waits until [`Client::poll`] may have something, or somebody [calls](Client::caller), or until `timeout`; also where nothing is under way.
    pub fn wait_for_call(&mut self, timeout: Option<Duration>) {
        if self.done.is_empty() {
            let until = timeout.map_or(Nanos::MAX, |timeout| self.clock.now().plus(Nanos::from(timeout)));
            self.places.wait(self.clock, self.options.wait, until.min(self.machine.next_deadline()));
        }
    }

    /// What ends waits from another thread.
    pub fn caller(&self) -> Caller {
        self.places.caller()
    }

    /// Starts the question for what became of a transaction of any session that is not under way here any more; [`Client::poll`] tells: its outcome;
    /// [`TxnError::Unknown`] if nothing yet, or nobody answers; [`TxnError::Refused`] if it cannot be told any more.
    ///
    /// # Errors
    /// [`TxnError::TooMany`]; nothing was sent then.
    pub fn ask(&mut self, id: RequestId) -> Result<Ticket, TxnError> {
        let now = self.clock.now();
        let ticket = self.machine.ask(now, id, &mut self.out).map_err(|_| TxnError::TooMany)?;
        self.depart(now);
        Ok(ticket)
    }

    /// Hands messages to the machine, and takes what it has to say.
    fn turn(&mut self) {
        let now = self.clock.now();
        let Client { machine, places, out, .. } = self;
        places.poll(now, |from, message| machine.handle(now, from, message, out));
        if places.changed() {
            machine.know(&places.replicas());
        }
        if places.lost_home() {
            machine.home_is_lost();
        }
        machine.tick(now, out);
        self.depart(now);
        self.look_for_home(now);
        while let Some((ticket, result)) = self.machine.next_done() {
            if self.claim.take_if(|asked| *asked == ticket).is_some() {
                self.hear_claim(now, result);
                continue;
            }
            let result = result.map_err(|failure| self.explain(ticket, failure));
            self.done.insert(ticket, result);
        }
    }

    /// Asks the chain where the home is, if somebody wants to know.
    fn look_for_home(&mut self, now: Nanos) {
        if self.claim.is_none() && self.places.wants_home() {
            // Where too much is under way, whoever is not answered asks again.
            self.claim = self.machine.start(now, Claim::ask(), &mut self.out).ok();
            self.depart(now);
        }
    }

    fn hear_claim(&mut self, now: Nanos, result: Result<Outcome, Failure>) {
        let found = match result {
            Ok(outcome) => {
                let claim = outcome.reads.into_iter().next().flatten();
                let claim = claim.and_then(|found| Claim::parse(&found.value));
                let claim = claim.ok_or_else(|| "no home has claimed the chain".to_owned());
                claim.and_then(|claim| {
                    let wrong = |error| format!("the home says that it is at \"{}\": {error}", claim.address);
                    claim.address.parse().map_err(wrong)
                })
            }
            Err(_) => Err("nobody says where the home is".to_owned()),
        };
        match &found {
            Ok(_) => self.machine.home_is_found(),
            Err(_) => self.machine.home_is_lost(),
        }
        self.places.set_home(now, found);
    }

    /// Why the home of boxes that has claimed the chain was not reached the last time, if so.
    pub fn trouble_of_home(&self) -> Option<&str> {
        self.places.trouble_of_home()
    }

    fn explain(&self, ticket: Ticket, failure: Failure) -> TxnError {
        match failure {
            Failure::Refused(refusal) => TxnError::Refused(refusal),
            Failure::NotDone => TxnError::NotDone(self.places.trouble()),
            Failure::Unknown => {
                TxnError::Unknown { id: self.machine.id_of(ticket), why: self.places.trouble() }
            }
        }
    }

    /// What each replica says of itself, with a checksum of its store as of an LSN (0: now) if that is given; or why it says nothing.
    pub fn infos(&mut self, digest: Option<u64>) -> Vec<(ReplicaId, Address, Result<Info, String>)> {
        let options = self.places.options().clone();
        let patience = self.options.timeout.max(Duration::from_secs(1));
        let ask = |place: &mut Place| {
            let info = place.connected(&options).and_then(|(channel, stub)| {
                ask_info(channel, stub, digest, patience).map_err(|status| status.to_string())
            });
            (place.replica, place.address.clone(), info)
        };
        self.places.iter_mut().map(ask).collect()
    }

    /// The session that it writes in, once it has one. Whoever knows it can write in it.
    pub fn session(&self) -> Option<SessionId> {
        self.machine.session()
    }

    /// What became of a transaction of any session. What is still under way is waited for.
    ///
    /// # Errors
    /// Nobody answers, within the client's patience.
    pub fn status(&mut self, id: RequestId) -> Result<Status, TxnError> {
        let until = self.clock.now().plus(Nanos::from(self.options.patience));
        let options = self.places.options().clone();
        let mut whom = 0;
        let mut why;
        loop {
            let replicas = self.places.replicas();
            let place = self.places.iter_mut().nth(whom).expect("a client knows a replica");
            let left = Duration::from(until.since(self.clock.now()));
            let asked = place.connected(&options).and_then(|(channel, stub)| {
                let reply = stub.status(channel, &CallOptions::within(left), |request| {
                    request.set_sequence(id.sequence);
                    words::put_session(id.session, |bytes| request.set_session(bytes))
                });
                let answer = reply.and_then(|reply| words::take_status(reply.view()));
                answer.or_else(|status| denial(&status).map(Err).ok_or_else(|| status.to_string()))
            });
            whom = (whom + 1) % replicas.len();
            match asked {
                Ok(Ok(status)) => return Ok(status),
                Ok(Err(Refusal::NoSession | Refusal::Forgotten)) => return Ok(Status::Forgotten),
                Ok(Err(refusal @ Refusal::Denied(_))) => return Err(TxnError::Refused(refusal)),
                Ok(Err(refusal)) => {
                    why = words::refusal_text(&refusal);
                    if let Refusal::Elsewhere(Some(replica)) = refusal {
                        whom = replicas.iter().position(|known| *known == replica).unwrap_or(whom);
                    }
                }
                Err(error) => {
                    why = error;
                    // All were asked: perhaps there are others now.
                    if whom == 0 {
                        self.places.search_now();
                    }
                }
            }
            if self.clock.now() >= until {
                return Err(TxnError::NotDone(format!("nobody tells what became of it: {why}")));
            }
            // Where nobody knows better yet, asking faster would not help.
            std::thread::sleep(ASK_AGAIN);
        }
    }

    /// Ends it; the chain forgets its session.
    pub fn close(mut self) {
        let now = self.clock.now();
        self.machine.close(now, &mut self.out);
        self.depart(now);
        self.places.flush();
    }

    fn depart(&mut self, now: Nanos) {
        for (to, message) in self.out.drain(..) {
            match to {
                NodeId::Replica(replica) => self.places.ask(now, replica, message),
                NodeId::Home => self.places.ask_home(now, message),
                NodeId::Client(_) | NodeId::Controller(_) => {}
            }
        }
    }
}
