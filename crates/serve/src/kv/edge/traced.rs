//! Requests that leave spans: one of `trace.sample`, since memcached's protocols carry no context.
//!
//! ```text
//! get     ├──────────────────────────────────────────┤    from when the edge woke up until its reply is written
//! read    ├──────┤                                         read, parsed, submitted
//! queue          ├────────┤                                the engine's, who records them by itself
//! execute                 ├────────┤
//! wait                           ├─────────────┤          where it has to: for boxes, a log, a chain
//! write                                        ├─────┤
//! ```
//! Between `execute` and `write` the reply is on its way: the rest of the engine's pass, its ring, those before it.
//!
//! Cost: of a request that is not sampled a countdown, and a test when its reply is taken and when it is written.

use super::verbose;
use crate::kv::service::{Kv, Request};
use base::trace::{Kind, OK, Open, Place, Sampler, Tracer, this_thread};
use base::{Clock, Nanos};
use engine::EdgePort;
use std::collections::VecDeque;

/// A request in flight.
struct Asked {
    /// Its place among the replies that are taken.
    number: u64,
    open: Open,
    name: &'static str,
    connection: u32,
}

/// One whose reply comes later.
struct PutOff {
    asked: Asked,
    /// Replies that the connection is owed before it.
    ahead: usize,
    since: Nanos,
}

/// Those of an edge.
pub(super) struct Traces {
    tracer: Tracer,
    sampler: Sampler,
    clock: Clock,
    /// In the order of their submission, which is that of their replies.
    asked: VecDeque<Asked>,
    /// Replies taken while there were any.
    taken: u64,
    put_off: Vec<PutOff>,
    /// Every request is logged, and so is a hit.
    logs: bool,
    /// Every request is counted by its prefix or shown to watchers, and so is a hit.
    counts: bool,
    /// Some are sampled. All, while they are logged or counted.
    samples: bool,
}

impl Traces {
    pub(super) fn new(tracer: Tracer) -> Traces {
        let (sampler, clock) = (Sampler::new(0), Clock::shared());
        Traces {
            tracer,
            sampler,
            clock,
            asked: VecDeque::new(),
            taken: 0,
            put_off: Vec::new(),
            logs: false,
            counts: false,
            samples: false,
        }
    }

    /// From now on one request of `n` is sampled; all are logged, if there is a log for them, and counted if `counts`.
    pub(super) fn sample(&mut self, n: u64, counts: bool) {
        (self.logs, self.counts, self.samples) = (verbose::is_on(), counts, n > 0);
        self.sampler.set(if self.logs || counts { 1 } else { n as u32 });
    }

    /// Whether replies are logged.
    pub(super) fn logs(&self) -> bool {
        self.logs
    }

    /// Whether the next request is sampled, logged or counted.
    #[inline(always)]
    pub(super) fn hit(&mut self) -> bool {
        self.sampler.hit()
    }

    /// Submits a request that is sampled, logged or counted, of a turn that began at `woken`. There is room for it.
    #[cold]
    pub(super) fn submit(
        &mut self,
        port: &mut EdgePort<Kv>,
        request: Request,
        (connection, number): (u32, i32),
        woken: Nanos,
    ) {
        if self.logs {
            verbose::request(number, &request);
        }
        let request = if self.counts { request.counted(number) } else { request };
        if !self.samples {
            let refused = port.submit(woken, request).is_err();
            assert!(!refused, "the ring has room for a request");
            return;
        }
        let open = Open::begin(&self.tracer, None, woken);
        let (name, now) = (request.name(), self.clock.now());
        open.scope().part("read", Place::Edge, woken, now);
        let number = self.taken + port.in_flight() as u64;
        let refused = port.submit_traced(now, request, open.scope()).is_err();
        assert!(!refused, "the ring has room for a request");
        self.asked.push_back(Asked { number, open, name, connection });
    }

    /// A reply was taken.
    #[inline(always)]
    pub(super) fn took(&mut self) {
        if !self.asked.is_empty() {
            self.taken += 1;
        }
    }

    /// All replies that were taken are written, the last of them since `begun`; or their client is gone.
    #[inline(always)]
    pub(super) fn wrote(&mut self, begun: Nanos, is_gone: bool) {
        if !self.asked.is_empty() {
            self.end(begun, is_gone);
        }
    }

    /// The reply that was taken last says that the reply comes later, behind others that its connection is owed.
    #[inline(always)]
    pub(super) fn put_off(&mut self, ahead: usize) {
        if !self.asked.is_empty() {
            self.keep(ahead);
        }
    }

    #[cold]
    fn keep(&mut self, ahead: usize) {
        let Some(at) = self.asked.iter().position(|asked| asked.number + 1 == self.taken) else { return };
        let asked = self.asked.remove(at).expect("it was just found");
        self.put_off.push(PutOff { asked, ahead, since: self.clock.now() });
    }

    /// So many replies of a connection that had been put off were written since `begun`, or their client is gone.
    #[inline(always)]
    pub(super) fn wrote_late(&mut self, connection: u32, count: usize, begun: Nanos, is_gone: bool) {
        if !self.put_off.is_empty() {
            self.end_late(connection, count, begun, is_gone);
        }
    }

    #[cold]
    fn end_late(&mut self, connection: u32, count: usize, begun: Nanos, is_gone: bool) {
        let now = self.clock.now();
        for mut one in std::mem::take(&mut self.put_off) {
            if one.asked.connection != connection || one.ahead >= count {
                one.ahead -= if one.asked.connection == connection { count } else { 0 };
                self.put_off.push(one);
                continue;
            }
            one.asked.open.scope().part("wait", Place::Engine, one.since, begun);
            one.asked.end(begun, now, is_gone);
        }
    }

    #[cold]
    fn end(&mut self, begun: Nanos, is_gone: bool) {
        let now = self.clock.now();
        while self.asked.front().is_some_and(|asked| asked.number < self.taken) {
            let Some(asked) = self.asked.pop_front() else { return };
            asked.end(begun, now, is_gone);
        }
    }
}

impl Asked {
    /// Its reply was written since `begun`.
    fn end(self, begun: Nanos, now: Nanos, is_gone: bool) {
        let Asked { open, name, connection, .. } = self;
        open.scope().part("write", Place::Edge, begun, now);
        let outcome = if is_gone { "client gone" } else { OK };
        open.end_as(Kind::Server, name, Place::Edge, now, outcome, Some(connection), this_thread());
    }
}
