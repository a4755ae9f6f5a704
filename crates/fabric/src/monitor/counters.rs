//! What recorders write: a lane per recorder, with counters per method and per connection.
//!
//! A [`Connection`] belongs to the thread of its recorder, but may be dropped later than it, or on another thread.

use super::histogram::Histogram;
use super::points::{STAGES, Side};
use super::snapshot::{ConnectionTraffic, Snapshot, Traffic};
use super::{MethodId, add, lock};
use crate::link::Transport;
use crate::status::Code;
use base::trace::Place;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What happens to a connection beside frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// A frame or call was refused since there was no room: back-pressure.
    Full = 0,
    /// A call was cancelled.
    Cancel = 1,
    /// A call's deadline passed.
    Deadline = 2,
    /// The transport sent something again.
    Retransmit = 3,
    /// The transport received something twice.
    Duplicate = 4,
    /// The transport received something damaged.
    Corrupt = 5,
}

impl Event {
    /// As metrics name them, by number.
    pub const NAMES: [&str; 6] = ["full", "cancel", "deadline", "retransmit", "duplicate", "corrupt"];
}

/// Places that calls are run at, by their numbers; a client runs none.
const RUN_AT: [Place; 5] = [Place::Client, Place::Edge, Place::Engine, Place::Host, Place::Accelerator];

/// Counters of one method in one lane.
#[derive(Debug, Default)]
pub(super) struct Method {
    pub(super) started: AtomicU64,
    pub(super) ended: [AtomicU64; Code::ALL.len()],
    pub(super) latency: Histogram,
    /// Of messages sent and received, of the calls that were timed.
    pub(super) message_bytes: [AtomicU64; 2],
}

/// One recorder's counters.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) side: Side,
    pub(super) stages: [Histogram; 3],
    /// Calls that were run, by the number of their place.
    pub(super) run: [AtomicU64; RUN_AT.len()],
    methods: Mutex<Vec<(MethodId, Arc<Method>)>>,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    open: Vec<Arc<Wire>>,
    opened: Vec<(&'static str, u64)>,
    /// What closed ones had counted.
    past: Vec<(&'static str, Traffic)>,
    /// The lane was added to the monitor's past; what its connections count from now on is lost.
    closed: bool,
}

/// Counters of one connection.
#[derive(Debug)]
struct Wire {
    number: u32,
    transport: Transport,
    frames: [AtomicU64; 2],
    bytes: [AtomicU64; 2],
    events: [AtomicU64; Event::NAMES.len()],
}

/// Counts what one connection does; its totals stay when it is dropped.
#[derive(Debug)]
pub struct Connection {
    wire: Arc<Wire>,
    lane: Arc<Lane>,
    /// One writer: may move to another thread, but not be shared.
    one_writer: PhantomData<Cell<()>>,
}

impl Lane {
    pub(super) fn new(side: Side) -> Lane {
        let (stages, run) = Default::default();
        Lane { side, stages, run, methods: Mutex::default(), connections: Mutex::default() }
    }

    /// Counters of a method that this lane has not used before.
    pub(super) fn open_method(&self, method: MethodId) -> Arc<Method> {
        let counters = Arc::new(Method::default());
        lock(&self.methods).push((method, counters.clone()));
        counters
    }

    pub(super) fn connect(lane: &Arc<Lane>, number: u32, transport: Transport) -> Connection {
        let wire = Arc::new(Wire {
            number,
            transport,
            frames: Default::default(),
            bytes: Default::default(),
            events: Default::default(),
        });
        let mut connections = lock(&lane.connections);
        connections.open.push(wire.clone());
        *entry(&mut connections.opened, transport.name()) += 1;
        drop(connections);
        Connection { wire, lane: lane.clone(), one_writer: PhantomData }
    }

    /// The lane is about to become the past.
    pub(super) fn close(&self) {
        let mut connections = lock(&self.connections);
        connections.closed = true;
        for wire in std::mem::take(&mut connections.open) {
            entry(&mut connections.past, wire.transport.name()).merge(&wire.read());
        }
    }

    pub(super) fn add_to(&self, all: &mut Snapshot, methods: &[String]) {
        for (method, counters) in lock(&self.methods).iter() {
            let name = &methods[usize::from(method.0)];
            let calls = all.calls.entry((self.side, name.clone())).or_default();
            calls.started += counters.started.load(Ordering::Relaxed);
            let ended = calls.ended.iter_mut().zip(&counters.ended);
            ended.for_each(|(sum, one)| *sum += one.load(Ordering::Relaxed));
            calls.latency.merge(&counters.latency.read());
            let bytes = calls.message_bytes.iter_mut().zip(&counters.message_bytes);
            bytes.for_each(|(sum, one)| *sum += one.load(Ordering::Relaxed));
        }
        for (name, stage) in STAGES[self.side as usize].into_iter().zip(&self.stages) {
            all.stages.entry((self.side, name)).or_default().merge(&stage.read());
        }
        for (place, count) in RUN_AT.iter().zip(&self.run) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                *all.run.entry(place.name()).or_default() += count;
            }
        }
        let connections = lock(&self.connections);
        for (transport, opened) in &connections.opened {
            all.traffic.entry((self.side, transport)).or_default().opened += opened;
        }
        for (transport, past) in &connections.past {
            all.traffic.entry((self.side, transport)).or_default().merge(past);
        }
        for wire in &connections.open {
            let (transport, traffic) = (wire.transport.name(), wire.read());
            let sum = all.traffic.entry((self.side, transport)).or_default();
            sum.merge(&traffic);
            sum.open += 1;
            all.connections.push(ConnectionTraffic {
                number: wire.number,
                side: self.side,
                transport,
                traffic,
            });
        }
    }
}

/// The value of a key in a list of few.
fn entry<'a, T: Default>(list: &'a mut Vec<(&'static str, T)>, key: &'static str) -> &'a mut T {
    let at = list.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
        list.push((key, T::default()));
        list.len() - 1
    });
    &mut list[at].1
}

impl Wire {
    fn read(&self) -> Traffic {
        let pair = |pair: &[AtomicU64; 2]| [0, 1].map(|at: usize| pair[at].load(Ordering::Relaxed));
        Traffic {
            opened: 0,
            open: 0,
            frames: pair(&self.frames),
            bytes: pair(&self.bytes),
            events: std::array::from_fn(|at| self.events[at].load(Ordering::Relaxed)),
        }
    }
}

impl Connection {
    /// The number it was opened with.
    pub fn number(&self) -> u32 {
        self.wire.number
    }

    /// A frame was sent.
    #[inline]
    pub fn sent(&mut self, bytes: usize) {
        add(&self.wire.frames[0], 1);
        add(&self.wire.bytes[0], bytes as u64);
    }

    /// Frames were sent, of so many bytes together.
    #[inline]
    pub fn sent_many(&mut self, frames: u64, bytes: u64) {
        add(&self.wire.frames[0], frames);
        add(&self.wire.bytes[0], bytes);
    }

    /// Frames were received, of so many bytes together.
    #[inline]
    pub fn received(&mut self, frames: usize, bytes: usize) {
        add(&self.wire.frames[1], frames as u64);
        add(&self.wire.bytes[1], bytes as u64);
    }

    /// Something else happened.
    #[inline]
    pub fn happened(&mut self, event: Event) {
        add(&self.wire.events[event as usize], 1);
    }

    /// A link's own count of something: what it has counted in all.
    pub fn passed_through(&mut self, event: Event, total: u64) {
        self.wire.events[event as usize].store(total, Ordering::Relaxed);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut connections = lock(&self.lane.connections);
        if !connections.closed {
            connections.open.retain(|wire| !Arc::ptr_eq(wire, &self.wire));
            entry(&mut connections.past, self.wire.transport.name()).merge(&self.wire.read());
        }
    }
}
