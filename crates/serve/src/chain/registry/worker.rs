//! A registry on a thread of its own: a controller answers signs of life while its registry takes its time.
//!
//! ```text
//!   Standby ──campaign──▶ Won ──proposals of before settled, load──▶ Leads ──renew fails, or somebody else──▶ Standby
//! ```
//! Invariants:
//! 1. What became of a proposal is told before leadership is told anew, so no answer is taken for another's.
//! 2. An attempt that failed is made again until it is known what became of it ([`super::Registry::swap`]).
//! 3. What is published for clients comes after all else, and only while it leads; of several the last.
//!
//! Bounds: one proposal and one directory at a time.

use super::{Registry, RegistryError, Swapped};
use base::Nanos;
use protocol::chain::{Configuration, Epoch};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two attempts at what failed.
const PAUSE: Duration = Duration::from_millis(100);

/// What the registry has to tell.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// This controller leads until then at least, and this was there after it won.
    Leads(Nanos, Option<Configuration>),
    /// Leadership goes on until then.
    Extended(Nanos),
    /// Another one leads, or may.
    Lost,
    /// What became of the proposal.
    Stored(Result<(), Option<Configuration>>),
    /// Something failed, and is tried again.
    Trouble(String),
    /// What failed before does not any more.
    Well,
}

struct Proposal {
    expected: Epoch,
    next: Configuration,
}

/// What the thread is asked to do.
enum Asked {
    Propose(Proposal),
    Publish(String),
}

/// The end that a controller holds. Dropped, it gives leadership up.
pub struct Worker {
    /// `None` while it is dropped.
    asks: Option<Sender<Asked>>,
    events: Receiver<Event>,
    /// One that was found by looking whether there is any.
    ahead: Option<Event>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread, which tries to lead from now on. `wake` is called after each event.
    ///
    /// # Errors
    /// The system's: no thread can be had.
    pub fn start(registry: Box<dyn Registry>, wake: impl Fn() + Send + 'static) -> io::Result<Worker> {
        let (asks, asked) = channel();
        let (tell, events) = channel();
        let tell = move |event| {
            // Who does not listen any more has dropped the other end, too.
            let _ = tell.send(event);
            wake();
        };
        let run = move || Loop::new(registry, tell).run(&asked);
        let thread = std::thread::Builder::new().name("chain-registry".into()).spawn(run)?;
        Ok(Worker { asks: Some(asks), events, ahead: None, thread: Some(thread) })
    }

    /// Has a configuration made durable; [`Event::Stored`] says what came of it.
    pub fn propose(&self, expected: Epoch, next: Configuration) {
        self.ask(Asked::Propose(Proposal { expected, next }));
    }

    /// Says to clients where replicas serve, as soon and as long as it leads.
    pub fn publish(&self, directory: String) {
        self.ask(Asked::Publish(directory));
    }

    fn ask(&self, ask: Asked) {
        let asks = self.asks.as_ref().expect("it is not dropped");
        // The thread ends only when this end does.
        let _ = asks.send(ask);
    }

    /// The next event, if there is one.
    pub fn next_event(&mut self) -> Option<Event> {
        self.ahead.take().or_else(|| self.events.try_recv().ok())
    }

    /// Whether there is one.
    pub fn has_events(&mut self) -> bool {
        self.ahead = self.next_event();
        self.ahead.is_some()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Standby,
    Won(Nanos),
    Leads,
}

struct Loop<F> {
    registry: Box<dyn Registry>,
    tell: F,
    state: State,
    proposal: Option<Proposal>,
    /// What clients are to be told and were not.
    directory: Option<String>,
    /// When to campaign or renew.
    next_at: Instant,
    is_troubled: bool,
}

impl<F: Fn(Event)> Loop<F> {
    fn new(registry: Box<dyn Registry>, tell: F) -> Loop<F> {
        Loop {
            registry,
            tell,
            state: State::Standby,
            proposal: None,
            directory: None,
            next_at: Instant::now(),
            is_troubled: false,
        }
    }

    fn run(mut self, asked: &Receiver<Asked>) {
        loop {
            let wait = self.next_at.saturating_duration_since(Instant::now());
            let is_stuck = self.proposal.is_some() || matches!(self.state, State::Won(_));
            match asked.recv_timeout(if is_stuck { wait.min(PAUSE) } else { wait }) {
                Ok(Asked::Propose(proposal)) => self.proposal = Some(proposal),
                Ok(Asked::Publish(directory)) => self.directory = Some(directory),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.store();
            if Instant::now() >= self.next_at {
                self.next_at = Instant::now() + self.registry.pace();
                self.lead();
            }
            self.look();
            self.publish();
        }
        self.registry.resign();
    }

    /// Tells clients, if nothing that matters more waits. What fails is tried again when leadership is renewed.
    fn publish(&mut self) {
        if self.state != State::Leads || self.proposal.is_some() || self.is_troubled {
            return;
        }
        let Some(directory) = self.directory.take() else { return };
        let result = self.registry.publish(&directory);
        if self.heard(result).is_none() {
            self.directory = Some(directory);
        }
    }

    fn store(&mut self) {
        let Some(proposal) = &self.proposal else { return };
        let result = self.registry.swap(proposal.expected, &proposal.next);
        let Some(swapped) = self.heard(result) else { return };
        self.proposal = None;
        (self.tell)(Event::Stored(match swapped {
            Swapped::Done => Ok(()),
            Swapped::Other(found) => {
                // Probably leadership is lost.
                self.next_at = Instant::now();
                Err(found)
            }
        }));
    }

    fn lead(&mut self) {
        let leads = match self.state {
            State::Standby => self.registry.campaign(),
            State::Won(_) | State::Leads => self.registry.renew(),
        };
        let Some(leads) = self.heard(leads) else { return };
        self.state = match (self.state, leads) {
            (State::Standby, None) => State::Standby,
            (State::Standby | State::Won(_), Some(until)) => State::Won(until),
            (State::Leads, Some(until)) => {
                (self.tell)(Event::Extended(until));
                State::Leads
            }
            (State::Won(_) | State::Leads, None) => {
                (self.tell)(Event::Lost);
                State::Standby
            }
        };
    }

    /// After it won: what is there.
    fn look(&mut self) {
        let State::Won(until) = self.state else { return };
        if self.proposal.is_some() {
            return; // invariant 1
        }
        let loaded = self.registry.load();
        if let Some(stored) = self.heard(loaded) {
            (self.tell)(Event::Leads(until, stored));
            self.state = State::Leads;
        }
    }

    /// The answer, if there is one; tells of trouble, and of its end.
    fn heard<T>(&mut self, result: Result<T, RegistryError>) -> Option<T> {
        match result {
            Ok(answer) => {
                if std::mem::take(&mut self.is_troubled) {
                    (self.tell)(Event::Well);
                }
                Some(answer)
            }
            Err(error) => {
                self.is_troubled = true;
                (self.tell)(Event::Trouble(error.to_string()));
                None
            }
        }
    }
}
