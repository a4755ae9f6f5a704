//! Requests that leave spans: one of `trace.sample`, since memcached's protocols carry no context. And those that are recorded: of one key of N all.
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
//! Cost: of a request that is neither a countdown, a comparison of its key's hash, and a test when its reply is taken and when it is written.

use super::verbose;
use crate::kv::service::{Kv, LateReply, Reply, Request};
use base::recording::{self, Keys};
use base::trace::{Kind, OK, Open, Place, Sampler, Tracer, this_thread};
use base::{Clock, Nanos};
use engine::EdgePort;
use std::collections::VecDeque;
use std::sync::Arc;

/// A request in flight.
struct Asked {
    /// Its place among the replies that are taken.
    number: u64,
    /// It leaves spans.
    open: Option<Open>,
    recorded: Option<Recorded>,
    name: &'static str,
    connection: u32,
}

/// What is known so far of a request that is recorded.
struct Recorded {
    at: Nanos,
    key: u64,
    request: u64,
    reply: u64,
    place: Place,
}

/// A request that is about to be submitted.
pub(super) struct Coming {
    pub(super) hit: Hit,
    /// Its connection, and the number that this has in logs.
    pub(super) connection: (u32, i32),
    /// Bytes of it.
    pub(super) bytes: usize,
    /// When the edge woke up for it.
    pub(super) woken: Nanos,
    /// The thread of the engine core executes it.
    pub(super) is_led: bool,
}

/// What is wanted of a request.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    /// It is sampled, logged or counted.
    is_sampled: bool,
    is_recorded: bool,
}

impl Hit {
    /// Whether anything is.
    #[inline(always)]
    pub(super) fn is_any(self) -> bool {
        self.is_sampled | self.is_recorded
    }
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
    /// Of these keys requests are recorded.
    keys: Keys,
    one_of: u32,
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
            keys: Keys::default(),
            one_of: 0,
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
        let one_of = self.tracer.recording().one_of();
        if one_of != self.one_of {
            (self.one_of, self.keys) = (one_of, Keys::one_of(one_of));
        }
    }

    /// So many requests were submitted.
    #[inline(always)]
    pub(super) fn saw(&self, requests: usize) {
        if !self.keys.is_none() {
            self.tracer.recording().saw(requests as u64);
        }
    }

    /// Whether replies are logged.
    pub(super) fn logs(&self) -> bool {
        self.logs
    }

    /// What is wanted of the next request.
    #[inline(always)]
    pub(super) fn look(&mut self, request: &Request) -> Hit {
        Hit { is_sampled: self.sampler.hit(), is_recorded: self.keys.has(request.key_hash()) }
    }

    /// Submits a request of which something is wanted. There is room for it.
    #[cold]
    pub(super) fn submit(&mut self, port: &mut EdgePort<Kv>, request: Request, coming: &Coming) {
        let Coming { hit, connection: (connection, conn), bytes, woken, is_led } = *coming;
        if self.logs && hit.is_sampled {
            verbose::request(conn, &request);
        }
        let (name, key) = (request.name(), request.key_hash());
        let request = if self.counts { request.counted(conn) } else { request };
        let number = self.taken + port.in_flight() as u64;
        let now = self.clock.now();
        let open = (self.samples && hit.is_sampled).then(|| Open::begin(&self.tracer, None, woken));
        let refused = match &open {
            None => port.submit(woken, request).is_err(),
            Some(open) => {
                open.scope().part("read", Place::Edge, woken, now);
                port.submit_traced(now, request, open.scope()).is_err()
            }
        };
        assert!(!refused, "the ring has room for a request");
        let place = if is_led { Place::Engine } else { Place::Edge };
        let recorded = Recorded { at: woken, key, request: bytes as u64, reply: 0, place };
        let recorded = hit.is_recorded.then_some(recorded);
        if open.is_some() || recorded.is_some() {
            self.asked.push_back(Asked { number, open, recorded, name, connection });
        }
    }

    /// A reply was taken.
    #[inline(always)]
    pub(super) fn took(&mut self, reply: &Reply) {
        if !self.asked.is_empty() {
            self.note(reply.bytes());
        }
    }

    #[cold]
    fn note(&mut self, bytes: usize) {
        let own = self.asked.binary_search_by_key(&self.taken, |asked| asked.number);
        if let Ok(own) = own
            && let Some(recorded) = &mut self.asked[own].recorded
        {
            recorded.reply = bytes as u64;
        }
        self.taken += 1;
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

    /// Replies of a connection that had been put off were written since `begun`, or their client is gone: none are all that it is owed.
    #[inline(always)]
    pub(super) fn wrote_late(
        &mut self,
        connection: u32,
        replies: Option<&[LateReply]>,
        begun: Nanos,
        is_gone: bool,
    ) {
        if !self.put_off.is_empty() {
            self.end_late(connection, replies, begun, is_gone);
        }
    }

    #[cold]
    fn end_late(&mut self, connection: u32, replies: Option<&[LateReply]>, begun: Nanos, is_gone: bool) {
        let (now, count) = (self.clock.now(), replies.map_or(usize::MAX, <[LateReply]>::len));
        for mut one in std::mem::take(&mut self.put_off) {
            if one.asked.connection != connection || one.ahead >= count {
                one.ahead -= if one.asked.connection == connection { count } else { 0 };
                self.put_off.push(one);
                continue;
            }
            if let Some(open) = &one.asked.open {
                open.scope().part("wait", Place::Engine, one.since, begun);
            }
            if let Some(recorded) = &mut one.asked.recorded {
                let reply = replies.and_then(|replies| replies.get(one.ahead));
                (recorded.reply, recorded.place) =
                    (reply.map_or(0, |reply| reply.size() as u64), Place::Engine);
            }
            one.asked.end(&self.tracer, begun, now, is_gone);
        }
    }

    #[cold]
    fn end(&mut self, begun: Nanos, is_gone: bool) {
        let now = self.clock.now();
        while self.asked.front().is_some_and(|asked| asked.number < self.taken) {
            let Some(asked) = self.asked.pop_front() else { return };
            asked.end(&self.tracer, begun, now, is_gone);
        }
    }
}

impl Asked {
    /// Its reply was written since `begun`.
    fn end(self, tracer: &Tracer, begun: Nanos, now: Nanos, is_gone: bool) {
        let Asked { open, recorded, name, connection, .. } = self;
        if let Some(open) = open {
            open.scope().part("write", Place::Edge, begun, now);
            let outcome = if is_gone { "client gone" } else { OK };
            open.end_as(Kind::Server, name, Place::Edge, now, outcome, Some(connection), this_thread());
        }
        if let Some(Recorded { at, key, request, reply, place }) = recorded {
            let recording = tracer.recording();
            let (service, method) = (Arc::clone(recording.service()), name.into());
            let took = now.since(at);
            recording.add(recording::Request {
                service,
                method,
                key: Some(key),
                at,
                request,
                reply,
                place,
                took,
            });
        }
    }
}
