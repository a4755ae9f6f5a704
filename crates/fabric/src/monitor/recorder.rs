//! What a thread that drives calls tells the monitor, at the points that a call passes.
//!
//! ```text
//! let stamp = recorder.started(method, connection, metadata);     // for every call
//! recorder.pass(stamp, Point::Sent);                              // does nothing for most calls
//! recorder.ended(stamp, method, code);                            // for every call, once
//! ```
//! A [`Stamp`] is four bytes for the caller's table of calls. One that is not sampled is [`Stamp::NONE`]; one whose call was
//! forgotten does no harm, its place is used again when the table of sampled calls is full.
//!
//! Cost: a call that is not sampled costs two counters and two countdowns, and with metadata a look for `traceparent`.

use super::counters::{Connection, Lane, Method};
use super::points::{Point, STAGES};
use super::trace::context_of;
use super::{MethodId, Monitor, add};
use crate::link::Transport;
use crate::registers::{Id, Registers};
use crate::status::Code;
use base::recording::Request;
use base::trace::{Open, Place, Sampler, this_thread};
use base::{Clock, Nanos};
use std::sync::Arc;

/// Sampled calls that a recorder follows at once. Further ones take the place of the oldest.
pub const MAX_OPEN: usize = 256;

/// How many calls are looked at closely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// One call of so many is timed; 0: none.
    pub timed: u32,
    /// One call of so many leaves a span; 0: none but those that ask for it.
    pub traced: u32,
}

impl Sampling {
    /// As the registers say now.
    pub fn of(registers: &Registers) -> Sampling {
        let one_of = |id| registers.read(id) as u32;
        Sampling { timed: one_of(Id::MonitorSample), traced: one_of(Id::TraceSample) }
    }
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling { timed: 64, traced: 0 }
    }
}

/// A sampled call's place among those that the recorder follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    slot: u16,
    lap: u16,
}

impl Stamp {
    /// Of a call that is not sampled.
    pub const NONE: Stamp = Stamp { slot: u16::MAX, lap: 0 };

    /// Whether the call is sampled, so that reading a clock for it is worth while.
    #[inline]
    pub fn is_sampled(self) -> bool {
        self != Stamp::NONE
    }
}

/// A sampled call in flight.
#[derive(Debug)]
struct Followed {
    lap: u16,
    in_use: bool,
    connection: u32,
    at: [Option<Nanos>; 3],
    /// Bytes of its messages, sent and received.
    message_bytes: [u64; 2],
    /// Where it is handled.
    place: Place,
    /// It is recorded.
    is_recorded: bool,
    /// Set if the call is to leave a span.
    span: Option<Open>,
}

impl Default for Followed {
    fn default() -> Followed {
        Followed {
            lap: 0,
            in_use: false,
            connection: 0,
            at: [None; 3],
            message_bytes: [0; 2],
            place: Place::Edge,
            is_recorded: false,
            span: None,
        }
    }
}

/// One thread's way to the monitor.
#[derive(Debug)]
pub struct Recorder {
    monitor: Monitor,
    lane: Arc<Lane>,
    /// By method number.
    methods: Vec<Option<Arc<Method>>>,
    timed: Sampler,
    traced: Sampler,
    recorded: Sampler,
    open: Vec<Followed>,
    /// Where the search for a free place goes on.
    next: usize,
    clock: Clock,
}

impl Recorder {
    pub(super) fn new(monitor: Monitor, lane: Arc<Lane>, sampling: Sampling) -> Recorder {
        let (timed, traced) = (Sampler::new(sampling.timed), Sampler::new(sampling.traced));
        let (recorded, clock) = (Sampler::new(0), Clock::shared());
        Recorder { monitor, lane, methods: vec![], timed, traced, recorded, open: vec![], next: 0, clock }
    }

    /// Samples another part of the calls from now on.
    pub fn set_sampling(&mut self, sampling: Sampling) {
        self.timed.set(sampling.timed);
        self.traced.set(sampling.traced);
    }

    /// From now on one call of `n` is recorded where the monitor's tracer says; with 0 none.
    pub fn set_recorded(&mut self, n: u32) {
        self.recorded.set(n);
    }

    /// Counts a connection that this thread drives.
    pub fn connection(&self, number: u32, transport: Transport) -> Connection {
        Lane::connect(&self.lane, number, transport)
    }

    /// A call was started (client) or received (server), with this metadata.
    #[inline]
    pub fn started(&mut self, method: MethodId, connection: u32, metadata: &[u8]) -> Stamp {
        let stamp = self.look(connection, metadata);
        self.count(method);
        stamp
    }

    /// The first half of [`Recorder::started`], for whoever does not know yet whether the call will be: is it sampled? If it is not
    /// started after all nothing more needs to be said.
    #[inline]
    pub fn look(&mut self, connection: u32, metadata: &[u8]) -> Stamp {
        let (timed, traced, recorded) = (self.timed.hit(), self.traced.hit(), self.recorded.hit());
        if timed || traced || recorded || !metadata.is_empty() {
            self.sample([timed, traced, recorded], connection, metadata)
        } else {
            Stamp::NONE
        }
    }

    /// The second half: the call was started.
    #[inline]
    pub fn count(&mut self, method: MethodId) {
        add(&self.method(method).started, 1);
    }

    /// A sampled call had come at this earlier time already.
    #[inline]
    pub fn came_at(&mut self, stamp: Stamp, at: Nanos) {
        if let Some(open) = self.open(stamp) {
            open.at[0] = open.at[0].map(|seen| seen.min(at));
            open.span.iter_mut().for_each(|span| span.came_at(at));
        }
    }

    /// A sampled call passes this point now.
    #[inline]
    pub fn pass(&mut self, stamp: Stamp, point: Point) {
        if stamp.is_sampled() {
            self.pass_at(stamp, point, self.clock.now());
        }
    }

    /// A sampled call passed this point at a time of [`Clock::shared`] that the caller knows.
    #[inline]
    pub fn pass_at(&mut self, stamp: Stamp, point: Point, at: Nanos) {
        if let Some(open) = self.open(stamp) {
            open.at[point.index()] = Some(at);
        }
    }

    /// Of a sampled call messages of so many bytes were sent and received.
    #[inline]
    pub fn moved(&mut self, stamp: Stamp, sent: usize, received: usize) {
        if let Some(open) = self.open(stamp) {
            open.message_bytes[0] += sent as u64;
            open.message_bytes[1] += received as u64;
        }
    }

    /// A call without streams is run there: for every one, once.
    #[inline]
    pub fn run(&mut self, place: Place) {
        if let Some(count) = self.lane.run.get(place as usize) {
            add(count, 1);
        }
    }

    /// A sampled call is handled there.
    #[inline]
    pub fn placed(&mut self, stamp: Stamp, place: Place) {
        if let Some(open) = self.open(stamp) {
            open.place = place;
        }
    }

    /// A call is over.
    #[inline]
    pub fn ended(&mut self, stamp: Stamp, method: MethodId, code: Code) {
        add(&self.method(method).ended[code as usize], 1);
        if stamp.is_sampled() {
            self.finish(stamp, method, code);
        }
    }

    /// The `traceparent` to send with a sampled call instead of the one it had, so that the server's span becomes this one's child.
    pub fn traceparent(&mut self, stamp: Stamp) -> Option<String> {
        Some(self.open(stamp)?.span.as_ref()?.scope().context().emit())
    }

    #[inline(always)]
    fn method(&mut self, method: MethodId) -> &Method {
        let at = usize::from(method.0);
        if !matches!(self.methods.get(at), Some(Some(_))) {
            self.open_method(method);
        }
        self.methods[at].as_ref().expect("opened above")
    }

    #[cold]
    fn open_method(&mut self, method: MethodId) {
        let at = usize::from(method.0);
        if self.methods.len() <= at {
            self.methods.resize(at + 1, None);
        }
        self.methods[at] = Some(self.lane.open_method(method));
    }

    #[cold]
    fn sample(&mut self, [timed, traced, is_recorded]: [bool; 3], connection: u32, metadata: &[u8]) -> Stamp {
        let caller = context_of(metadata);
        let traced = traced || caller.is_some_and(|caller| caller.sampled);
        if !timed && !traced && !is_recorded {
            return Stamp::NONE;
        }
        if is_recorded {
            // This one, and those that were not recorded since the last.
            let recording = self.monitor.recording();
            recording.saw(recording.one_of().into());
        }
        let now = self.clock.now();
        let span = traced.then(|| Open::begin(&self.monitor.tracer(), caller, now));
        let slot = self.place();
        let lap = self.open[slot].lap.wrapping_add(1);
        let at = [Some(now), None, None];
        self.open[slot] =
            Followed { lap, in_use: true, connection, at, is_recorded, span, ..Followed::default() };
        Stamp { slot: slot as u16, lap }
    }

    /// A place for a sampled call: a new one, a free one, or that of an old one.
    fn place(&mut self) -> usize {
        let free =
            (0..self.open.len()).map(|n| (self.next + n) % self.open.len()).find(|&at| !self.open[at].in_use);
        let at = free.unwrap_or_else(|| {
            if self.open.len() == MAX_OPEN {
                return self.next;
            }
            self.open.push(Followed::default());
            self.open.len() - 1
        });
        self.next = (at + 1) % MAX_OPEN;
        at
    }

    #[inline]
    fn open(&mut self, stamp: Stamp) -> Option<&mut Followed> {
        let open = self.open.get_mut(usize::from(stamp.slot))?;
        (open.in_use && open.lap == stamp.lap).then_some(open)
    }

    #[cold]
    fn finish(&mut self, stamp: Stamp, method: MethodId, code: Code) {
        let now = self.clock.now();
        let Some(open) = self.open(stamp) else { return };
        open.in_use = false;
        let (passed, span, connection) = (open.at, open.span.take(), open.connection);
        let (bytes, place, is_recorded) = (open.message_bytes, open.place, open.is_recorded);
        // A point that was not passed, as when a call ends early, takes no time of its own.
        let mut at = [now; 4];
        let mut last = Nanos::ZERO;
        for (point, seen) in at.iter_mut().zip(passed) {
            *point = seen.unwrap_or(last);
            last = *point;
        }
        for (stage, histogram) in self.lane.stages.iter().enumerate() {
            histogram.record(at[stage + 1].since(at[stage]));
        }
        let counters = self.method(method);
        counters.latency.record(at[3].since(at[0]));
        counters.message_bytes.iter().zip(bytes).for_each(|(all, more)| add(all, more));
        if is_recorded {
            let (at, took) = (at[0], at[3].since(at[0]));
            self.monitor.record(method, |service, method| {
                let (method, [reply, request]) = (method.into(), bytes);
                Request { service, method, key: None, at, request, reply, place, took }
            });
        }
        if let Some(span) = span {
            let side = self.lane.side;
            let (kind, place) = side.place();
            for (stage, name) in STAGES[side as usize].into_iter().enumerate() {
                span.scope().part(name, place, at[stage], at[stage + 1]);
            }
            let name = self.monitor.traced(method);
            span.end_as(kind, name, place, at[3], code.to_string(), Some(connection), this_thread());
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.monitor.retire(&self.lane);
    }
}
