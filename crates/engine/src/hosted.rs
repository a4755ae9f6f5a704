//! What the engine and its services share: the engine's side of a service, and what each pass of a service gets.
//!
//! Why one virtual call per pass and service: a request's whole way through its service then stays one concrete piece of code.

use crate::context::{TaskId, Turn};
use crate::cores::Core;
use crate::heartbeat::Heartbeat;
use crate::settings::{Counters, Settings};
use crate::stages::{StageRun, Stages};
use base::Nanos;
use std::any::Any;
use std::sync::Arc;

/// A service in its form, with its ports and queues, its type forgotten.
pub(crate) trait Hosted<C: Core>: Send {
    /// Takes at most `share` requests from the ports, and does all that can be done now.
    fn pass(&mut self, common: &mut Common<C>, share: usize);

    /// Whether a pass would find something that no doorbell tells of.
    fn has_work(&self) -> bool {
        false
    }

    /// When the next pass is due although nothing was announced; [`Nanos::MAX`] for never.
    fn next_deadline(&self) -> Nanos {
        Nanos::MAX
    }

    /// Housekeeping; true if more is waiting.
    fn idle(&mut self, now: Nanos, budget: usize) -> bool;

    /// Takes an `EnginePort` of its service.
    fn attach(&mut self, port: Box<dyn Any>);

    /// Drops port `at` if its edge is gone and it owes nothing; true if its doorbell may be given again.
    fn detach(&mut self, at: u32) -> bool;

    /// The `Callee` of its service, once it was given one.
    fn callee(&mut self) -> &mut dyn Any;

    /// Number `at` is the port of calls, by tasks that are in flight already.
    fn set_local(&mut self, at: u32) {
        let _ = at;
    }

    /// The service.
    fn service(&mut self) -> &mut dyn Any;

    /// Ends what is under way without an answer, closes the ports, and gives the service back.
    fn leave(self: Box<Self>, common: &mut Common<C>) -> Box<dyn Any>;
}

/// What a service's settings are read from before each of its passes.
pub(crate) type Source = Box<dyn FnMut() -> Settings + Send>;

/// What is set for one service, and what is counted of it.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) settings: Settings,
    pub(crate) stages: Arc<Stages>,
    pub(crate) counters: Counters,
}

/// What the engine knows of one service.
#[derive(Default)]
pub(crate) struct Desk {
    /// Tells the services that had the same number apart.
    pub(crate) generation: u16,
    /// While it is not the one that is served.
    pub(crate) account: Account,
    pub(crate) source: Option<Source>,
    /// Ports whose doorbells were rung.
    pub(crate) news: Vec<u32>,
    /// Tasks to be polled again.
    pub(crate) resumed: Vec<TaskId>,
    /// Requests announced and not admitted. A hint: doorbells may lie.
    pub(crate) waiting: u64,
    /// Ports that wait for room.
    pub(crate) blocked: usize,
    /// Whether it has something to do in the next pass.
    pub(crate) more: bool,
    /// Tasks in flight that take of the engine's bound.
    pub(crate) in_flight: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) weight: u32,
    /// What it had too little of in its last share, in parts of all weights.
    pub(crate) carry: u64,
}

impl Desk {
    /// Whether a pass of it would find something that was announced or left.
    pub(crate) fn is_busy(&self) -> bool {
        self.more || !self.resumed.is_empty() || !self.news.is_empty()
    }
}

/// What a pass of any service uses.
pub(crate) struct Common<C> {
    pub(crate) core: C,
    pub(crate) turn: Turn,
    /// Whose account is here and not at its desk. Where a panic cut its pass short it still is.
    pub(crate) serving: usize,
    /// Of the service whose pass it is: at hand, so that a request costs no look for its desk.
    pub(crate) account: Account,
    /// Requests in flight at most.
    pub(crate) capacity: usize,
    /// Tasks in flight, those of calls aside.
    pub(crate) in_flight: usize,
    pub(crate) desks: Vec<Desk>,
    pub(crate) queued: StageRun,
    pub(crate) executed: StageRun,
    pub(crate) heartbeat: Arc<Heartbeat>,
}

impl<C: Core> Common<C> {
    /// The next pass is that of service `number`: its account is at hand, its settings as they are now.
    #[inline]
    pub(crate) fn serve(&mut self, number: usize) {
        if self.serving != number {
            self.change_accounts(number);
        }
        if let Some(source) = &mut self.desks[number].source {
            self.account.settings = source();
        }
    }

    fn change_accounts(&mut self, number: usize) {
        // A panic may have left some of the last service.
        let stages = &self.account.stages;
        self.queued.finish(|span, n| stages.queued(span, n));
        self.executed.finish(|span, n| stages.executed(span, n));
        std::mem::swap(&mut self.account, &mut self.desks[self.serving].account);
        std::mem::swap(&mut self.account, &mut self.desks[number].account);
        self.serving = number;
    }

    pub(crate) fn account_of(&mut self, number: usize) -> &mut Account {
        if self.serving == number { &mut self.account } else { &mut self.desks[number].account }
    }

    /// When the work at hand began.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        self.turn.now.get()
    }

    /// Reads the clock; the last reading.
    #[inline]
    pub(crate) fn read_clock(&mut self) -> Nanos {
        self.turn.now.replace(self.core.now())
    }

    /// Whether a request that was submitted at `at` is too late.
    #[inline]
    pub(crate) fn is_late(&self, at: Nanos) -> bool {
        let deadline = self.account.settings.deadline;
        deadline > Nanos::ZERO && self.now().since(at) > deadline
    }

    /// Requests at most that a service may have in flight beside those it has.
    pub(crate) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.in_flight)
    }
}
