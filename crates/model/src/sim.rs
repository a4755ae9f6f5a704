//! Handlers as futures, in virtual time.
//!
//! A *process* is a future: a client's loop, a core's handler, a protocol machine with its timers. It waits for time ([`Sim::sleep`]), for hardware
//! ([`Sim::perform`], [`Sim::serve`]), or for another process ([`Mailbox`]). Whatever it computes between costs no virtual time: it says what it
//! costs by serving at its core.
//!
//! Shape: one thread. A process is polled when what it waits for has come; wakers are not used, for a process waits only for futures
//! of this file. Several of them in one process (a `select`) are each asked again, which they bear.
//!
//! Cost: beside the event, a poll through a pointer and two borrow flags. A process that loops allocates nothing; beginning one does, and
//! its number (16 bytes) is never given again: long-lived processes that loop are meant, and [`Kernel::begin`] for what is short.

use crate::kernel::{Kernel, ProgramId, ResourceId, Service, Turn, Waiter};
use base::Picos;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

type Process = Pin<Box<dyn Future<Output = ()>>>;
type Act = Box<dyn FnOnce()>;

/// An operation that a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticket {
    Free,
    Waiting {
        process: u32,
    },
    /// Something is to be done then.
    Acts,
    /// Whoever waited is gone.
    Abandoned,
    Ended,
}

struct Inner {
    kernel: RefCell<Kernel>,
    /// `None`: ended, or being polled.
    processes: RefCell<Vec<Option<Process>>>,
    tickets: RefCell<Vec<Ticket>>,
    free_tickets: RefCell<Vec<u32>>,
    /// By ticket; never more than were under way at once.
    acts: RefCell<Vec<Option<Act>>>,
    /// The process that is being polled.
    current: Cell<u32>,
}

/// A kernel and the processes that use it. Clones are the same one.
#[derive(Clone)]
pub struct Sim(Rc<Inner>);

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Sim {
    /// Around a kernel, usually one whose resources and programs are complete.
    pub fn new(kernel: Kernel) -> Sim {
        Sim(Rc::new(Inner {
            kernel: RefCell::new(kernel),
            processes: RefCell::default(),
            tickets: RefCell::default(),
            free_tickets: RefCell::default(),
            acts: RefCell::default(),
            current: Cell::new(0),
        }))
    }

    /// Does something with the kernel: adds to it, asks it.
    ///
    /// # Panics
    /// If `act` uses this simulation.
    pub fn with<R>(&self, act: impl FnOnce(&mut Kernel) -> R) -> R {
        act(&mut self.0.kernel.borrow_mut())
    }

    /// The time.
    pub fn now(&self) -> Picos {
        self.0.kernel.borrow().now()
    }

    /// Begins a process. It is polled first when the simulation runs, at this moment.
    pub fn spawn(&self, process: impl Future<Output = ()> + 'static) {
        let mut processes = self.0.processes.borrow_mut();
        let id = processes.len() as u32;
        processes.push(Some(Box::pin(process)));
        let now = self.now();
        self.with(|kernel| kernel.wake_at(now, id));
    }

    /// Waits until a moment.
    pub async fn sleep_until(&self, at: Picos) {
        if self.now() >= at {
            return;
        }
        let process = self.0.current.get();
        self.with(|kernel| kernel.wake_at(at, process));
        poll_fn(|_| if self.now() >= at { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Waits for a span.
    pub async fn sleep(&self, span: Picos) {
        self.sleep_until(self.now().plus(span)).await;
    }

    /// Queues at a resource and is served there.
    pub async fn serve(&self, at: ResourceId, service: Service, units: u64) {
        let end = self.with(|kernel| kernel.serve(at, service, units));
        self.sleep_until(end).await;
    }

    /// Does a program and waits for its end.
    pub fn perform(&self, program: ProgramId, argument: u64) -> Perform {
        Perform { sim: self.clone(), what: Some((program, argument)), ticket: None }
    }

    /// Does a program; at its end this is done, by no process: a message that arrives, for example.
    pub fn then(&self, program: ProgramId, argument: u64, act: impl FnOnce() + 'static) {
        let ticket = self.new_ticket(Ticket::Acts);
        {
            let mut acts = self.0.acts.borrow_mut();
            let count = acts.len().max(ticket as usize + 1);
            acts.resize_with(count, || None);
            acts[ticket as usize] = Some(Box::new(act));
        }
        self.with(|kernel| kernel.start(program, argument, Waiter::Ticket(ticket)));
    }

    /// Handles everything until `until`, which then is now.
    pub fn run_until(&self, until: Picos) {
        loop {
            let turn = self.with(|kernel| kernel.turn(until));
            match turn {
                Turn::Inside => self.wake_ended(),
                Turn::Process(id) => self.poll(id),
                Turn::Nothing => break,
            }
        }
        self.with(|kernel| kernel.pass(until));
    }

    /// Ends all processes where they are, and forgets what was to be done at ends of programs.
    /// They hold this simulation and it holds them: what is not ended so stays in memory.
    ///
    /// # Panics
    /// In a process.
    pub fn end_processes(&self) {
        let ended: Vec<_> = self.0.processes.borrow_mut().iter_mut().map(Option::take).collect();
        drop(ended);
        drop(self.0.acts.take());
    }

    fn wake_ended(&self) {
        while let Some(ticket) = self.with(Kernel::next_ended) {
            let was = std::mem::replace(&mut self.0.tickets.borrow_mut()[ticket as usize], Ticket::Ended);
            match was {
                Ticket::Waiting { process } => self.poll(process),
                Ticket::Acts => {
                    self.free(ticket);
                    // None: all was ended meanwhile.
                    let act = self.0.acts.borrow_mut().get_mut(ticket as usize).and_then(Option::take);
                    if let Some(act) = act {
                        act();
                    }
                }
                Ticket::Abandoned => self.free(ticket),
                Ticket::Free | Ticket::Ended => unreachable!("an operation ends once"),
            }
        }
    }

    fn poll(&self, id: u32) {
        // An ended process may have left a timer behind.
        let Some(mut process) = self.0.processes.borrow_mut()[id as usize].take() else { return };
        self.0.current.set(id);
        match process.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => self.0.processes.borrow_mut()[id as usize] = Some(process),
            // Its number is not given again: timers of it may be in the queue.
            Poll::Ready(()) => drop(process),
        }
    }

    fn free(&self, ticket: u32) {
        self.0.tickets.borrow_mut()[ticket as usize] = Ticket::Free;
        self.0.free_tickets.borrow_mut().push(ticket);
    }

    fn new_ticket(&self, waiting: Ticket) -> u32 {
        let mut tickets = self.0.tickets.borrow_mut();
        match self.0.free_tickets.borrow_mut().pop() {
            Some(ticket) => {
                tickets[ticket as usize] = waiting;
                ticket
            }
            None => {
                tickets.push(waiting);
                tickets.len() as u32 - 1
            }
        }
    }
}

/// An operation, from its first poll to its end.
#[derive(Debug)]
pub struct Perform {
    sim: Sim,
    what: Option<(ProgramId, u64)>,
    ticket: Option<u32>,
}

impl Future for Perform {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if let Some((program, argument)) = self.what.take() {
            let ticket = self.sim.new_ticket(Ticket::Waiting { process: self.sim.0.current.get() });
            self.ticket = Some(ticket);
            self.sim.with(|kernel| kernel.start(program, argument, Waiter::Ticket(ticket)));
            return Poll::Pending;
        }
        let Some(ticket) = self.ticket else { return Poll::Ready(()) };
        if self.sim.0.tickets.borrow()[ticket as usize] != Ticket::Ended {
            return Poll::Pending;
        }
        self.sim.free(ticket);
        self.ticket = None;
        Poll::Ready(())
    }
}

impl Drop for Perform {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut tickets = self.sim.0.tickets.borrow_mut();
        if tickets[ticket as usize] == Ticket::Ended {
            drop(tickets);
            self.sim.free(ticket);
        } else {
            tickets[ticket as usize] = Ticket::Abandoned;
        }
    }
}

/// Messages from processes to one that waits for them. Clones are the same one.
#[derive(Debug)]
pub struct Mailbox<T> {
    sim: Sim,
    inner: Rc<RefCell<(VecDeque<T>, Option<u32>)>>,
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Mailbox<T> {
        Mailbox { sim: self.sim.clone(), inner: Rc::clone(&self.inner) }
    }
}

impl<T> Mailbox<T> {
    /// An empty one.
    pub fn new(sim: &Sim) -> Mailbox<T> {
        Mailbox { sim: sim.clone(), inner: Rc::default() }
    }

    /// Puts a message in; whoever waits goes on at this moment.
    pub fn send(&self, message: T) {
        let mut inner = self.inner.borrow_mut();
        inner.0.push_back(message);
        if let Some(process) = inner.1.take() {
            let now = self.sim.now();
            self.sim.with(|kernel| kernel.wake_at(now, process));
        }
    }

    /// The next message, in the order in which they were sent.
    ///
    /// # Panics
    /// If two processes wait at once.
    pub async fn receive(&self) -> T {
        poll_fn(|_| {
            let mut inner = self.inner.borrow_mut();
            if let Some(message) = inner.0.pop_front() {
                return Poll::Ready(message);
            }
            let me = self.sim.0.current.get();
            assert!(inner.1.is_none_or(|other| other == me), "a mailbox has one reader");
            inner.1 = Some(me);
            Poll::Pending
        })
        .await
    }

    /// Messages that wait.
    pub fn len(&self) -> usize {
        self.inner.borrow().0.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Step;

    #[test]
    fn what_is_to_be_done_then_is_done_once_at_the_end_or_never() {
        let mut kernel = Kernel::new(1);
        let program = kernel.program("wait", [Step::Wait(Picos(5))]);
        let sim = Sim::new(kernel);
        let seen: Rc<RefCell<Vec<Picos>>> = Rc::default();
        let act = |again: bool| {
            let (into, inner) = (Rc::clone(&seen), sim.clone());
            move || {
                into.borrow_mut().push(inner.now());
                if again {
                    let into = Rc::clone(&into);
                    inner.clone().then(program, 0, move || into.borrow_mut().push(inner.now()));
                }
            }
        };
        sim.then(program, 0, act(true));
        sim.run_until(Picos(7));
        assert_eq!(*seen.borrow(), [Picos(5)]);
        sim.then(program, 0, act(false));
        sim.run_until(Picos(11));
        assert_eq!(*seen.borrow(), [Picos(5), Picos(10)]);
        sim.end_processes();
        sim.run_until(Picos(20));
        assert_eq!(seen.borrow().len(), 2);
        assert_eq!(Rc::strong_count(&seen), 1, "it is forgotten");
    }
}
