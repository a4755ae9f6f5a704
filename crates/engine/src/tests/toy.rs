//! A toy service that writes down what happens to it, a rig of several edges around it, and a checker of what came out.

use super::services::Counting;
use crate::{EdgePort, Engine, EngineOptions, Handle, Messages, Progress, Service, ServiceOptions, Settings};
use base::Nanos;
use base::prng::mix64;
use ring::arena::{Producer, Span};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

pub const CELLS: usize = 4;

/// Adds its number to a cell and asks what was there before, in a reply of `len` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub port: usize,
    /// Its place among the requests of its port.
    pub seq: usize,
    pub cell: usize,
    pub len: u32,
    /// It was submitted at the beginning of time, else at its end.
    pub late: bool,
}

impl Request {
    pub fn key(&self) -> u64 {
        (self.port as u64) << 32 | self.seq as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Executed,
    Expired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    pub key: u64,
    pub outcome: Outcome,
    /// What the cell held before.
    pub before: u64,
    pub span: Span,
}

/// One line of the service's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub request: Request,
    pub outcome: Outcome,
    /// Steps in which it had been touched.
    pub touched: usize,
}

/// What is wrong with a service, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Executes every seventh request twice.
    Twice,
    /// Executes every seventh request before the one before it.
    EarlyBird,
    /// Answers every seventh request without executing it.
    Lazy,
    /// Executes requests that should expire.
    Late,
    /// Writes one wrong byte in every seventh reply.
    Garbled,
    /// Panics in the touch of each port's fourth request.
    TouchPanics,
    /// Panics when it executes the fourth request of port 0.
    ExecutePanics,
    /// Never has room for the replies of port 0.
    Stuck,
}

#[derive(Default)]
pub struct Toy {
    pub cells: [u64; CELLS],
    pub log: Vec<Entry>,
    pub fault: Option<Fault>,
    touched: RefCell<BTreeMap<u64, usize>>,
}

impl Toy {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn run(&mut self, request: &Request, outcome: Outcome, out: &mut Producer) -> Option<Reply> {
        let mut room = out.reserve(request.len)?;
        let (key, nth) = (request.key(), request.seq % 7);
        let before = self.cells[request.cell];
        room.copy_from_slice(&bytes(request, before));
        let touched = self.touched.borrow_mut().remove(&key).unwrap_or(0);
        let entry = Entry { request: *request, outcome, touched };
        if !(nth == 6 && self.has(Fault::Lazy)) {
            self.cells[request.cell] += effect(request, outcome);
            self.log.push(entry);
        }
        if nth == 6 && self.has(Fault::Twice) {
            self.log.push(entry);
        }
        if nth == 6 && self.has(Fault::EarlyBird) {
            let last = self.log.len() - 1;
            let of_port = |e: &Entry| e.request.port == request.port;
            let earlier = self.log[..last].iter().rposition(of_port).expect("six came before");
            self.log.swap(earlier, last);
        }
        if nth == 6 && self.has(Fault::Garbled) && !room.is_empty() {
            room[0] ^= 1;
        }
        Some(Reply { key, outcome, before, span: room.commit(request.len) })
    }
}

/// What a request adds to its cell.
fn effect(request: &Request, outcome: Outcome) -> u64 {
    if outcome == Outcome::Executed { request.key() + 1 } else { 0 }
}

/// The bytes beside a request's reply.
fn bytes(request: &Request, before: u64) -> Vec<u8> {
    let word = |i: u32| mix64(mix64(request.key()) ^ before ^ u64::from(i)) as u8;
    (0..request.len).map(word).collect()
}

impl Messages for Toy {
    type Request = Request;
    type Reply = Reply;
}

impl Service for Toy {
    const TOUCHES: usize = 2;

    fn touch_key(request: &Request) -> u64 {
        request.key()
    }

    fn touch(&self, step: usize, key: u64) {
        assert!(!(self.has(Fault::TouchPanics) && key as u32 == 3), "planted");
        let mut touched = self.touched.borrow_mut();
        let steps = touched.entry(key).or_default();
        // A request that was given back is touched again, from the first step.
        assert!(step == 0 || step == *steps, "step {step} after {steps}");
        *steps = step + 1;
    }

    fn tick(&mut self, _: Nanos) {}

    fn execute(&mut self, request: &Request, out: &mut Producer) -> Option<Reply> {
        assert!(!(self.has(Fault::ExecutePanics) && request.key() == 3), "planted");
        if self.has(Fault::Stuck) && request.port == 0 {
            return None;
        }
        self.run(request, Outcome::Executed, out)
    }

    fn expire(&mut self, request: &Request, out: &mut Producer) -> Option<Reply> {
        let outcome = if self.has(Fault::Late) { Outcome::Executed } else { Outcome::Expired };
        self.run(request, outcome, out)
    }
}

/// One edge and what it knows.
pub struct Edge {
    pub port: EdgePort<Toy>,
    pub submitted: Vec<Request>,
    pub replies: Vec<(Reply, Vec<u8>)>,
    unreleased: VecDeque<Span>,
    /// The longest reply that it asks for: half the arena, so that an empty arena always has room.
    max_len: u32,
}

impl Edge {
    /// False where the ring has no room.
    pub fn submit(&mut self, port: usize, cell: usize, len: u32, late: bool) -> bool {
        let seq = self.submitted.len();
        let request = Request { port, seq, cell: cell % CELLS, len: len % (self.max_len + 1), late };
        let at = if late { Nanos::ZERO } else { Nanos::MAX };
        let sent = self.port.submit(at, request).is_ok();
        if sent {
            self.submitted.push(request);
        }
        sent
    }

    /// Takes at most `max` replies and keeps their bytes for now.
    pub fn collect(&mut self, max: usize) -> usize {
        let replies = std::iter::from_fn(|| self.port.poll()).take(max).collect::<Vec<_>>();
        for reply in &replies {
            let span = reply.body.span;
            self.replies.push((reply.body, self.port.bytes(span).to_vec()));
            self.unreleased.push_back(span);
        }
        replies.len()
    }

    /// Gives back the bytes of at most `max` replies.
    pub fn release(&mut self, max: usize) {
        let n = max.min(self.unreleased.len());
        for span in self.unreleased.drain(..n) {
            self.port.release(span);
        }
        self.port.publish_room();
    }

    pub fn is_settled(&self) -> bool {
        self.replies.len() == self.submitted.len()
    }
}

/// An engine over a [`Toy`] with its edges.
pub struct Rig {
    pub engine: Engine,
    handle: Handle<Toy>,
    pub edges: Vec<Edge>,
    pub settings: Settings,
    /// Another service on the engine, which has its passes between those of the toy.
    neighbour: Option<(Handle<Counting>, EdgePort<Counting>)>,
}

/// What a rig is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub ports: usize,
    pub entries: u32,
    pub arena: u64,
    pub in_flight: usize,
}

impl Rig {
    pub fn new(shape: Shape, settings: Settings) -> Rig {
        let Shape { ports, entries, arena, in_flight } = shape;
        let mut engine = Engine::new(EngineOptions { in_flight, ports });
        let handle = engine.add(Toy::default(), ServiceOptions::default());
        let edges = (0..ports).map(|_| {
            let edge = engine.open(handle, entries, arena).expect("a free port");
            let max_len = (arena / 2) as u32;
            Edge { port: edge, submitted: vec![], replies: vec![], unreleased: VecDeque::new(), max_len }
        });
        let edges = edges.collect();
        Rig { engine, handle, edges, settings, neighbour: None }
    }

    /// The same, beside a service with other settings that always has something to do.
    pub fn beside_another(shape: Shape, settings: Settings) -> Rig {
        let mut rig = Rig::new(Shape { ports: shape.ports + 1, ..shape }, settings);
        rig.edges.pop();
        let neighbour = rig.engine.add(Counting, ServiceOptions::default());
        rig.engine.set_settings(neighbour, Settings { group: 1, quantum: 3, ..Settings::default() });
        let settled = rig.pass();
        assert_eq!(settled, Progress::default(), "the edge that went is forgotten");
        let port = rig.engine.open(neighbour, 8, 64).expect("the place of the edge that went");
        rig.neighbour = Some((neighbour, port));
        rig
    }

    pub fn toy(&mut self) -> &mut Toy {
        self.engine.service(self.handle)
    }

    pub fn faulty(shape: Shape, settings: Settings, fault: Fault) -> Rig {
        let mut rig = Rig::new(shape, settings);
        rig.toy().fault = Some(fault);
        rig
    }

    pub fn pass(&mut self) -> Progress {
        self.engine.set_settings(self.handle, self.settings);
        let Some((neighbour, port)) = &mut self.neighbour else { return self.engine.pass() };
        while port.poll().is_some() {}
        while port.submit(Nanos(0), 1).is_ok() {}
        port.ring();
        let progress = self.engine.pass_of(self.handle);
        assert!(port.poll().is_none(), "the pass was the toy's alone");
        assert!(self.engine.has_work());
        assert!(self.engine.pass_of(*neighbour).answered > 0);
        progress
    }

    /// Every edge rings, takes all its replies and releases them, with passes between, until all is answered; false if
    /// there is still something after `passes`.
    pub fn settle(&mut self, passes: usize) -> bool {
        for _ in 0..passes {
            for edge in &mut self.edges {
                edge.port.ring();
                edge.collect(usize::MAX);
                edge.release(usize::MAX);
            }
            if self.edges.iter().all(Edge::is_settled) {
                return true;
            }
            self.pass();
        }
        false
    }

    /// Whether every request was executed or expired as it should, once, in order, and answered with the right bytes at the
    /// right port.
    pub fn check(&mut self) -> Result<(), String> {
        let deadline = self.settings.deadline > Nanos::ZERO;
        let mut cells = [0; CELLS];
        let mut answered = vec![0; self.edges.len()];
        for entry in &self.engine.service(self.handle).log {
            let Request { port, cell, late, .. } = entry.request;
            let edge = &self.edges[port];
            let seq = answered[port];
            answered[port] += 1;
            let expected = edge.submitted.get(seq).ok_or(format!("port {port} did not submit {seq}"))?;
            if entry.request != *expected {
                return Err(format!("executed {:?} in place of {expected:?}", entry.request));
            }
            let outcome = if late && deadline { Outcome::Expired } else { Outcome::Executed };
            let before = cells[cell];
            cells[cell] += effect(expected, outcome);
            let (reply, got) =
                edge.replies.get(seq).ok_or(format!("port {port} got no reply to {expected:?}"))?;
            let Reply { span, .. } = *reply;
            if *reply != (Reply { key: expected.key(), outcome, before, span }) {
                return Err(format!("{reply:?} to {expected:?}, which should be {outcome:?} after {before}"));
            }
            if *got != bytes(expected, before) {
                return Err(format!("wrong bytes for {expected:?}"));
            }
        }
        for (port, (edge, answered)) in self.edges.iter().zip(answered).enumerate() {
            if answered != edge.submitted.len() || answered != edge.replies.len() {
                let (submitted, replies) = (edge.submitted.len(), edge.replies.len());
                return Err(format!(
                    "port {port}: {submitted} submitted, {answered} executed, {replies} replies"
                ));
            }
        }
        Ok(())
    }
}
