//! A staged service on an engine: admit, touch group by group, execute in order of admission, answer in a burst.
//!
//! Why in order of admission: requests of one ring must be answered as if executed one after the other (a client that
//! pipelines `set k` and `get k` relies on it). Only the touches overlap, and those change nothing, like the loads of a
//! processor that retires in order.
//!
//! Invariants
//! 1. A request is executed exactly once, after every earlier request of its port. (The queue is in order of admission. Where
//!    a reply has no room its port is *blocked*: it gets that request and all its later ones back, in order, and nothing
//!    more of it is admitted before the first of them is answered.)
//! 2. A reply is written in the ring for every request admitted. (The response ring has a slot for each by construction.)
//! 3. Between passes the queue is empty, unless the service panicked. A blocked port thus takes no room from the others.
//! 4. A request that is announced before a pass waits for at most one quantum of each other port.
//!
//! Bounds: `in_flight` requests of the service in the queue; at a blocked port, as many as its ring has entries.

use crate::call::Callee;
use crate::cores::{Core, Work};
use crate::coroutine::{self, Window};
use crate::hosted::{Common, Hosted};
use crate::port::{EnginePort, Stamped};
use crate::ports::{Admitted, Ports};
use crate::service::Service;
use crate::settings::{Form, MAX_GROUP};
use crate::traced::{is_marked, unmarked};
use base::Nanos;
use base::trace::{OK, Place};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A staged service with its ports.
pub(crate) struct Staged<S: Service, C: Core> {
    queue: Queue<S>,
    /// Requests admitted at once, at most.
    bound: usize,
    // Boxed once per service, not per request: the coroutine's type cannot be written down, and one indirect call per pass
    // is nothing.
    window: Box<dyn Window<S, C>>,
    callee: Option<Callee<S>>,
}

/// Everything but the coroutines.
pub(crate) struct Queue<S: Service> {
    pub(crate) service: S,
    pub(crate) admitted: VecDeque<Admitted<S>>,
    ports: Ports<S>,
    /// Its number on the engine.
    number: usize,
    /// The port whose request the service is executing; still set when that panicked.
    executing: Option<u32>,
}

impl<S: Service, C: Core> Staged<S, C> {
    pub(crate) fn new(service: S, number: usize, in_flight: usize) -> Staged<S, C> {
        let queue = Queue {
            service,
            admitted: VecDeque::with_capacity(in_flight),
            ports: Ports::new(),
            number,
            executing: None,
        };
        Staged { queue, bound: in_flight, window: coroutine::window::<S, C>(in_flight), callee: None }
    }
}

impl<S: Service, C: Core> Hosted<C> for Staged<S, C> {
    fn pass(&mut self, common: &mut Common<C>, share: usize) {
        let queue = &mut self.queue;
        let group = common.account.settings.group.clamp(1, MAX_GROUP);
        queue.recover(common, group);
        queue.announced(common);
        queue.retry(common);
        queue.admit(common, (share.min(self.bound), self.bound), group);
        if !queue.admitted.is_empty() {
            match common.account.settings.form {
                Form::Plain => queue.run_groups(common, group, false),
                Form::Staged => queue.run_groups(common, group, true),
                Form::Coroutine if S::ANSWERS_PANICS => {
                    // What was not touched is slower and nothing else.
                    let _ = catch_unwind(AssertUnwindSafe(|| self.window.run(queue, common, group)));
                    self.queue.run_groups(common, group, false);
                }
                Form::Coroutine => self.window.run(queue, common, group),
            }
        }
        let queue = &mut self.queue;
        queue.service.end_pass();
        queue.ports.flush();
        if let Some(callee) = &self.callee {
            callee.deliver(common);
        }
        let desk = &mut common.desks[queue.number];
        desk.blocked = queue.ports.blocked();
        desk.more = queue.ports.has_more();
    }

    fn idle(&mut self, now: Nanos, budget: usize) -> bool {
        self.queue.service.tick(now);
        self.queue.service.idle(budget)
    }

    fn attach(&mut self, port: Box<dyn Any>) {
        self.queue.ports.attach(*port.downcast::<EnginePort<S>>().expect("a port of this service"));
    }

    fn detach(&mut self, at: u32) -> bool {
        // After a panic the queue may hold requests of it.
        let Queue { admitted, executing, ports, .. } = &mut self.queue;
        let is_busy = *executing == Some(at) || admitted.iter().any(|admitted| admitted.port == at);
        !is_busy && ports.detach(at)
    }

    fn callee(&mut self) -> &mut dyn Any {
        &mut self.callee
    }

    fn service(&mut self) -> &mut dyn Any {
        &mut self.queue.service
    }

    fn leave(self: Box<Self>, common: &mut Common<C>) -> Box<dyn Any> {
        let Queue { service, ports, .. } = self.queue;
        drop(ports);
        if let Some(callee) = &self.callee {
            callee.deliver(common);
        }
        Box::new(service)
    }
}

impl<S: Service> Queue<S> {
    /// Clears up after a pass that the service ended by a panic; otherwise there is nothing to do.
    fn recover<C: Core>(&mut self, common: &mut Common<C>, group: usize) {
        if let Some(at) = self.executing.take() {
            self.admitted.retain(|admitted| admitted.port != at);
            self.ports.close(at);
        }
        self.run_groups(common, group, false);
    }

    /// Lists the ports whose doorbells were rung.
    fn announced<C: Core>(&mut self, common: &mut Common<C>) {
        for at in common.desks[self.number].news.drain(..) {
            self.ports.announced(at);
        }
    }

    /// Tries the oldest request of each blocked port again.
    fn retry<C: Core>(&mut self, common: &mut Common<C>) {
        let blocked = self.ports.blocked();
        if blocked == 0 {
            return;
        }
        common.read_clock();
        self.service.tick(common.now());
        let mut answered = 0;
        for _ in 0..blocked {
            let Some(mut request) = self.ports.retry() else { break };
            if self.answer(common, &mut request) {
                self.ports.unblock(request.port);
                answered += 1;
            } else {
                self.ports.still_blocked(request);
            }
        }
        record(common, answered);
    }

    fn admit<C: Core>(&mut self, common: &mut Common<C>, (share, bound): (usize, usize), group: usize) {
        // Tasks that sleep keep staged requests from nothing: those are gone when the pass ends.
        let share = if common.in_flight == 0 { share } else { share.max(group.min(bound)) };
        self.ports.admit(&mut self.admitted, share, common.account.settings.quantum.max(1));
        let admitted = self.admitted.len();
        let desk = &mut common.desks[self.number];
        desk.waiting = desk.waiting.saturating_sub(admitted as u64);
        common.core.worked(Work::Admit, admitted);
    }

    /// Plain and staged forms: group after group, each touched (or not) and then executed in order.
    fn run_groups<C: Core>(&mut self, common: &mut Common<C>, group: usize, touch: bool) {
        while !self.admitted.is_empty() {
            let n = group.min(self.admitted.len());
            if touch {
                self.touch(common, n);
            }
            self.execute_front(common, n, !touch);
        }
    }

    /// Touches the first `n` requests, step by step.
    #[inline]
    fn touch<C: Core>(&mut self, common: &mut Common<C>, n: usize) {
        let (service, admitted) = (&self.service, &self.admitted);
        let mut touch = || {
            for step in 0..S::TOUCHES {
                for admitted in admitted.range(..n) {
                    service.touch(step, S::touch_key(&admitted.request.body));
                }
                common.core.touched(step, n);
            }
        };
        if S::ANSWERS_PANICS {
            // What was not touched is slower and nothing else.
            let _ = catch_unwind(AssertUnwindSafe(touch));
        } else {
            touch();
        }
    }

    /// Executes the first `n` requests of the queue, or as many as it has. `untouched` ones wait for their memory one by one.
    pub(crate) fn execute_front<C: Core>(&mut self, common: &mut Common<C>, n: usize, untouched: bool) {
        self.service.tick(common.now());
        let mut answered = 0;
        for _ in 0..n {
            let Some(mut request) = self.admitted.pop_front() else { break };
            if untouched {
                (0..S::TOUCHES).for_each(|step| common.core.touched(step, 1));
            }
            if self.answer(common, &mut request) {
                answered += 1;
            } else {
                common.account.counters.blocked += u64::from(self.ports.give_back(request));
            }
        }
        common.core.worked(Work::Execute, answered);
        record(common, answered);
    }

    /// Executes one request and writes its reply, which leaves with the pass; false where there is no room for it.
    #[inline]
    fn answer<C: Core>(&mut self, common: &mut Common<C>, admitted: &mut Admitted<S>) -> bool {
        let attached = self.ports.of(admitted.port);
        if attached.blocked {
            return false;
        }
        let (port, body, service) = (&mut attached.port, &admitted.request.body, &mut self.service);
        let now = common.now();
        let submitted = unmarked(admitted.request.at);
        let waited = now.since(submitted);
        let late = common.is_late(submitted);
        self.executing = Some(admitted.port);
        let mut run = || {
            if late { service.expire(body, port.out()) } else { service.execute(body, port.out()) }
        };
        let reply = if !S::ANSWERS_PANICS {
            run()
        } else if admitted.failed {
            service.panicked(body, port.out())
        } else {
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
                admitted.failed = true;
                service.panicked(body, port.out())
            })
        };
        self.executing = None;
        let Some(body) = reply else { return false };
        if is_marked(admitted.request.at) {
            trace(common, port, admitted, late);
        }
        port.reply(admitted.tag, Stamped { at: now, body });
        let counters = &mut common.account.counters;
        *(if S::ANSWERS_PANICS && admitted.failed {
            &mut counters.panicked
        } else if late {
            &mut counters.expired
        } else {
            &mut counters.executed
        }) += 1;
        common.queued.add(waited, |span, n| common.account.stages.queued(span, n));
        true
    }
}

/// Records the spans of a request that was executed.
#[cold]
#[inline(never)]
fn trace<S: Service, C: Core>(
    common: &mut Common<C>,
    port: &EnginePort<S>,
    admitted: &Admitted<S>,
    late: bool,
) {
    let Some(scope) = port.take_scope(admitted.tag) else { return };
    let submitted = unmarked(admitted.request.at);
    let begun = common.now().max(submitted);
    scope.part("queue", Place::Engine, submitted, begun);
    let outcome = match late {
        _ if admitted.failed => "panicked",
        true => "expired",
        false => OK,
    };
    // Not the group's reading: that is of its beginning.
    scope.open(begun).end("execute", Place::Engine, common.core.now(), outcome);
}

/// Records a group that is done; the next one begins now.
fn record<C: Core>(common: &mut Common<C>, answered: usize) {
    let begun = common.read_clock();
    common.queued.finish(|span, n| common.account.stages.queued(span, n));
    if answered > 0 {
        common.account.stages.executed(common.now().since(begun), answered);
    }
}
