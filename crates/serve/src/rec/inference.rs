//! Inference as a task service of the engine: a request is preprocessed where that has its place, and joins the batch that comes next.
//!
//! ```text
//!  port ─▶ task: preprocess (here, or on a host thread) ─▶ line of its edge ─▶ batch ─▶ answers, straight to the edges
//!                                                                                ▲
//!                                                   one task, the leader, waits ─┘ for more, as rec.linger says
//! ```
//! A task ends when its request has joined; the reply through the port only gives its slot back. The first task of a batch leads: it waits until all that were
//! admitted with it have joined, or for `rec.linger`, and has the batch computed; a batch that is full before is computed at once. There is a batch for each
//! model of which requests wait, and one leader for all of them.
//!
//! Invariants
//! 1. Requests of one edge join in the order in which it submitted them, wherever each is preprocessed: who is ready before its turn stays in the line.
//! 2. While a request waits in a batch, some task looks after it no later than its linger ends.
//!
//! Why the line and not the engine's order of a port ([`engine::Order::Port`]): that holds a task back until the one before it has ended, and then nothing
//! is preprocessed side by side.
//!
//! Bounds: [`IN_FLIGHT`] tasks; what is in the line or the batch counts in `rec.held`.

use super::batch::{Computer, Gathered};
use super::counters::add;
use super::job::{Job, Ready, Reply};
use super::preprocess::{Place, Preprocess};
use super::refusal::Refusal;
use crate::engine_cores::Hosting;
use crate::rec::registers::{Id, Registers};
use base::trace::Scope;
use base::{Clock, Nanos};
use engine::{Cx, Failure, Messages, Settings, TaskService};
use ring::arena::Producer;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Requests at most that are admitted and not yet in a batch.
pub const IN_FLIGHT: usize = 256;

/// A request on its way to the engine.
pub enum Work {
    /// As it came.
    Job(Box<Job>),
    /// Preprocessed by its edge.
    Ready(Box<Ready>),
}

impl Work {
    /// Where its spans belong, if it leaves any.
    pub fn scope(&self) -> Option<&Scope> {
        match self {
            Work::Job(job) => job.reply.scope(),
            Work::Ready(ready) => ready.reply.scope(),
        }
    }
}

/// What travels in a port: a request, until its task takes it.
pub struct Asked {
    edge: usize,
    work: Mutex<Option<Work>>,
    /// For the reason, if its task is ended.
    reply: Reply,
}

impl Asked {
    /// By the edge of this number.
    pub fn new(edge: usize, work: Work) -> Asked {
        let reply = match &work {
            Work::Job(job) => job.reply.clone(),
            Work::Ready(ready) => ready.reply.clone(),
        };
        Asked { edge, work: Mutex::new(Some(work)), reply }
    }

    /// The request, for the first who asks.
    pub fn take(&self) -> Option<Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Requests of one edge in their order, until those before them are ready.
#[derive(Default)]
struct Line {
    /// The ticket of the first.
    first: u64,
    waiting: VecDeque<Option<Arrived>>,
}

/// A request that is ready, or was answered because something is wrong with it.
type Arrived = Option<Box<Ready>>;

impl Line {
    fn enter(&mut self) -> u64 {
        self.waiting.push_back(None);
        self.first + self.waiting.len() as u64 - 1
    }

    fn arrive(&mut self, ticket: u64, arrived: Arrived) {
        self.waiting[(ticket - self.first) as usize] = Some(arrived);
    }

    /// The next whose turn it is.
    fn next(&mut self) -> Option<Arrived> {
        let arrived = self.waiting.front_mut()?.take()?;
        self.waiting.pop_front();
        self.first += 1;
        Some(arrived)
    }
}

/// A task's turn in its line, and then at the head of the batch if it leads. One that is ended before (by a deadline, or a panic) leaves it, so that
/// nobody waits for it.
struct Turn {
    cx: Cx<Inference>,
    edge: usize,
    /// Until it has arrived.
    ticket: Option<u64>,
    leads: bool,
}

impl Turn {
    fn new(cx: Cx<Inference>, edge: usize) -> Turn {
        Turn { cx, edge, ticket: Some(cx.with(|service| service.lines[edge].enter())), leads: false }
    }

    /// Whether it is to lead.
    fn arrive(&mut self, arrived: Arrived) -> bool {
        let (edge, now) = (self.edge, self.cx.now());
        let ticket = self.ticket.take().expect("it arrives once");
        self.leads = self.cx.with(|service| service.arrive(edge, ticket, arrived, now));
        self.leads
    }

    fn look(&mut self) -> Lead {
        let now = self.cx.now();
        let next = self.cx.with(|service| service.look(now));
        self.leads = !matches!(next, Lead::Over);
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.ticket.is_none() && !self.leads {
            return;
        }
        // With the engine goes everything.
        self.cx.try_with(|service| service.leave(self.edge, self.ticket));
    }
}

/// What a leader does next.
enum Lead {
    /// Lets the others have their turn.
    Yield,
    /// Waits until then.
    Until(Nanos),
    /// There is nothing more to do.
    Over,
}

/// See the head of the file.
pub struct Inference {
    preprocess: Arc<Preprocess>,
    lines: Vec<Line>,
    computer: Computer,
    /// As many as there were models of which requests waited at a time; those that are empty are anybody's.
    batches: Vec<Led>,
    /// When the leader looks after them, if there is one.
    leader: Option<Nanos>,
}

/// A batch, and what its leader knows of it.
#[derive(Default)]
struct Led {
    batch: Gathered,
    /// Its requests when the leader looked last.
    looked_at: usize,
}

impl Inference {
    /// For so many edges.
    pub fn new(edges: usize, preprocess: Arc<Preprocess>, computer: Computer) -> Inference {
        let lines = (0..edges).map(|_| Line::default()).collect();
        Inference { preprocess, lines, computer, batches: Vec::new(), leader: None }
    }

    fn linger(&self) -> Nanos {
        Nanos::from_micros(self.preprocess.registers.read(Id::Linger))
    }

    /// When the first of the batches has waited long enough; none if all are empty.
    fn due(&self) -> Option<Nanos> {
        let began = self.batches.iter().filter_map(|led| led.batch.began()).min();
        began.map(|began| began.plus(self.linger()))
    }

    fn join(&mut self, ready: Box<Ready>, now: Nanos) {
        // Its model's before an empty one.
        let own = self.batches.iter().position(|led| led.batch.len() > 0 && led.batch.is_of(&ready.served));
        let at = own.or_else(|| self.batches.iter().position(|led| led.batch.len() == 0));
        let at = at.unwrap_or_else(|| {
            self.batches.push(Led::default());
            self.batches.len() - 1
        });
        let led = &mut self.batches[at];
        if led.batch.len() == 0 {
            led.looked_at = 0;
        }
        self.computer.join(&mut led.batch, ready, now);
    }

    /// What was ready in its turn joins the batch of its model. Whether the task is to lead.
    fn arrive(&mut self, edge: usize, ticket: u64, arrived: Arrived, now: Nanos) -> bool {
        self.lines[edge].arrive(ticket, arrived);
        while let Some(arrived) = self.lines[edge].next() {
            if let Some(ready) = arrived {
                self.join(ready, now);
            }
        }
        let Some(due) = self.due() else { return false };
        // One that sleeps for longer, since rec.linger was longer, is not waited for.
        let leads = self.leader.is_none_or(|look| look > due);
        if leads {
            self.leader = Some(due);
            self.batches.iter_mut().for_each(|led| led.looked_at = led.batch.len());
        }
        leads
    }

    /// A task has ended that had not arrived, or led.
    fn leave(&mut self, edge: usize, ticket: Option<u64>) {
        let leads = ticket.is_none_or(|ticket| self.arrive(edge, ticket, None, Nanos::ZERO));
        if leads {
            // Whoever comes next would lead, but nobody may come.
            self.batches.iter_mut().for_each(|led| self.computer.compute(&mut led.batch));
            self.leader = None;
        }
    }

    fn look(&mut self, now: Nanos) -> Lead {
        let linger = self.linger();
        let is_due = |led: &Led| led.batch.began().is_some_and(|began| began.plus(linger) <= now);
        let mut grows = false;
        for led in self.batches.iter_mut().filter(|led| is_due(led)) {
            let before = std::mem::replace(&mut led.looked_at, led.batch.len());
            match before < led.batch.len() {
                true => grows = true,
                false => self.computer.compute(&mut led.batch),
            }
        }
        self.leader = self.due();
        match self.leader {
            None => Lead::Over,
            Some(_) if grows => Lead::Yield,
            Some(due) => Lead::Until(due),
        }
    }
}

/// How it is hosted, as registers say. It needs the core's thread always: nobody else runs its batches.
pub fn hosting(registers: &Arc<Registers>) -> Hosting {
    let wait = super::server::wait(registers);
    let policies = [wait, wait.at_last()];
    let registers = Arc::clone(registers);
    Hosting {
        in_flight: IN_FLIGHT,
        settings: Box::new(move || Settings {
            deadline: Nanos::from_micros(registers.read(Id::Deadline)),
            ..Settings::default()
        }),
        policies: Box::new(move || policies),
        needs_thread: Box::new(|| true),
        // Answers go straight to the edges.
        waiting: Vec::new(),
    }
}

impl Messages for Inference {
    type Request = Asked;
    type Reply = ();
}

impl TaskService for Inference {
    type Output = ();

    async fn handle(cx: Cx<Inference>, asked: &Asked) {
        let mut turn = Turn::new(cx, asked.edge);
        let preprocess = cx.with(|service| Arc::clone(&service.preprocess));
        let arrived = match asked.take() {
            Some(Work::Job(job)) if preprocess.place(&job) == Place::Host => {
                // A thread that is gone has dropped, and so answered, what it had.
                cx.host(move || preprocess.ready(job, Place::Host)).await.unwrap_or(None)
            }
            Some(Work::Job(job)) => preprocess.ready(job, Place::Engine),
            Some(Work::Ready(ready)) => Some(ready),
            None => None,
        };
        // It may be answered as soon as it joins; who leads goes on for all of the batch.
        cx.answered(|| Clock::shared().now());
        if !turn.arrive(arrived) {
            return;
        }
        cx.touch(|_| ()).await;
        loop {
            match turn.look() {
                Lead::Yield => cx.touch(|_| ()).await,
                Lead::Until(due) => cx.sleep_until(due).await,
                Lead::Over => return,
            }
        }
    }

    fn reply(&self, _: &Asked, _: &(), _: &mut Producer) -> Option<()> {
        Some(())
    }

    fn failed(&self, asked: &Asked, why: Failure, _: &mut Producer) -> Option<()> {
        match why {
            Failure::Expired => {
                let is_late = asked.reply.refuse(&Refusal::Late);
                add(&self.preprocess.counters.expired, u64::from(is_late));
            }
            Failure::Panicked => _ = asked.reply.refuse(&Refusal::Internal("the request was not handled")),
        }
        Some(())
    }
}
