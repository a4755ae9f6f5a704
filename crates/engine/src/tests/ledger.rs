//! One service in both forms, edges around it, and what must be true of both: same replies, same state, order per key.

use super::model::ModelCore;
use crate::lines::{Lines, Table};
use crate::{
    Cx, EdgePort, Engine, EngineOptions, Failure, Handle, Log, MemoryLog, Messages, Order, Service,
    ServiceOptions, Settings, TaskService,
};
use base::Nanos;
use base::prng::mix64;
use ring::arena::{Producer, Span};
use ring::pair::Tag;
use ring::tags::TagMap;
use std::collections::VecDeque;

/// Cells of each port, and as many that all ports share.
pub const CELLS: usize = 3;

/// What a task waits for between two of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    Touch,
    Sleep(u64),
    Durable,
}

/// Adds to a cell, and is told what was there if the cell is its port's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub port: usize,
    /// Its number among the requests of its port.
    pub seq: usize,
    /// `None` touches no cell.
    pub cell: Option<usize>,
    pub len: u32,
    pub pauses: Vec<Pause>,
}

impl Request {
    pub fn id(&self) -> u64 {
        (self.port as u64) << 32 | self.seq as u64
    }

    fn amount(&self) -> u64 {
        mix64(self.id()) >> 8
    }

    fn is_shared(&self) -> bool {
        self.cell.is_some_and(|cell| cell < CELLS)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub id: u64,
    /// What its own cell held before.
    pub before: u64,
    pub span: Span,
}

#[derive(Default)]
pub struct Ledger {
    pub cells: Vec<u64>,
    /// Ids in the order in which they changed their cells.
    pub applied: Vec<(u64, usize)>,
    pub log: MemoryLog,
}

impl Ledger {
    pub fn new(ports: usize) -> Ledger {
        Ledger { cells: vec![0; (ports + 1) * CELLS], ..Ledger::default() }
    }

    fn read(&mut self, request: &Request) -> u64 {
        request.cell.map_or(0, |cell| self.cells[cell])
    }

    fn write(&mut self, request: &Request, before: u64) {
        if let Some(cell) = request.cell {
            self.cells[cell] = before.wrapping_add(request.amount());
            self.applied.push((request.id(), cell));
        }
    }

    fn say(&self, request: &Request, before: u64, out: &mut Producer) -> Option<Reply> {
        let before = if request.is_shared() { 0 } else { before };
        let mut room = out.reserve(request.len)?;
        room.copy_from_slice(&bytes(request, before));
        Some(Reply { id: request.id(), before, span: room.commit(request.len) })
    }
}

fn bytes(request: &Request, before: u64) -> Vec<u8> {
    (0..request.len).map(|i| mix64(request.id() ^ before ^ u64::from(i) << 40) as u8).collect()
}

impl Messages for Ledger {
    type Request = Request;
    type Reply = Reply;
}

impl Service for Ledger {
    const TOUCHES: usize = 1;

    fn touch_key(request: &Request) -> u64 {
        request.id()
    }

    fn touch(&self, _: usize, _: u64) {}

    fn tick(&mut self, _: Nanos) {}

    fn execute(&mut self, request: &Request, out: &mut Producer) -> Option<Reply> {
        let before = self.read(request);
        let reply = self.say(request, before, out)?;
        self.write(request, before);
        Some(reply)
    }

    fn expire(&mut self, request: &Request, out: &mut Producer) -> Option<Reply> {
        self.say(request, 0, out)
    }
}

impl TaskService for Ledger {
    type Output = u64;

    fn key(request: &Request) -> Option<u64> {
        request.cell.map(|cell| cell as u64)
    }

    async fn handle(cx: Cx<Ledger>, request: &Request) -> u64 {
        let before = cx.with(|ledger| ledger.read(request));
        for pause in &request.pauses {
            match *pause {
                Pause::Touch => cx.touch(|_| ()).await,
                Pause::Sleep(ns) => cx.sleep(Nanos(ns)).await,
                Pause::Durable => {
                    let entry = cx.with(|ledger| ledger.log.append());
                    cx.durable(entry).await;
                }
            }
        }
        cx.with(|ledger| ledger.write(request, before));
        before
    }

    fn reply(&self, request: &Request, before: &u64, out: &mut Producer) -> Option<Reply> {
        self.say(request, *before, out)
    }

    fn failed(&self, request: &Request, _: Failure, out: &mut Producer) -> Option<Reply> {
        self.say(request, 0, out)
    }

    fn log(&self) -> Option<&dyn Log> {
        Some(&self.log)
    }
}

/// The lines of a host that forgot what order is.
pub struct NoOrder;

impl Lines for NoOrder {
    fn new(_: usize, _: usize) -> NoOrder {
        NoOrder
    }

    fn join(&mut self, _: u32, _: crate::Slot) -> bool {
        true
    }

    fn leave(&mut self, _: u32, _: crate::Slot) -> Option<crate::Slot> {
        None
    }
}

/// One step of an edge, of the world, or a pass.
#[derive(Clone, Debug)]
pub enum Step {
    Submit { port: usize, cell: Option<usize>, len: u32, pauses: Vec<Pause> },
    Ring(usize),
    Pass { ns: u64, durable: u64 },
    Collect(usize, usize),
    Release(usize, usize),
}

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub ports: usize,
    pub entries: u32,
    pub arena: u64,
    pub in_flight: usize,
}

/// How the ledger is hosted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosting {
    Staged,
    Task(Order),
    /// As tasks, with the planted fault.
    Disordered,
}

pub struct Edge {
    port: EdgePort<Ledger>,
    tags: TagMap<usize>,
    pub submitted: Vec<Request>,
    /// The replies as they came: to which request, and with which bytes.
    pub replies: Vec<(usize, u64, u64, Vec<u8>)>,
    unreleased: VecDeque<Span>,
    max_len: u32,
}

impl Edge {
    /// An edge that has asked nothing yet.
    pub fn over(port: EdgePort<Ledger>, entries: u32, arena: u64) -> Edge {
        Edge {
            port,
            tags: TagMap::new(entries),
            submitted: vec![],
            replies: vec![],
            unreleased: VecDeque::new(),
            max_len: (arena / 2) as u32,
        }
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        if let Ok(tag) = self.port.submit(now, request.clone()) {
            self.tags.insert(tag, self.submitted.len());
            self.submitted.push(request);
        }
    }

    fn collect(&mut self, max: usize) {
        for _ in 0..max {
            let Some((tag, reply)) = self.port.poll_tagged() else { return };
            let _: Tag = tag;
            let seq = self.tags.remove(tag).expect("a reply to a request in flight");
            let Reply { id, before, span } = reply.body;
            self.replies.push((seq, id, before, self.port.bytes(span).to_vec()));
            self.unreleased.push_back(span);
        }
    }

    fn release(&mut self, max: usize) {
        let n = max.min(self.unreleased.len());
        for span in self.unreleased.drain(..n) {
            self.port.release(span);
        }
        self.port.publish_room();
    }
}

pub struct Rig {
    pub engine: Engine<ModelCore>,
    pub handle: Handle<Ledger>,
    pub edges: Vec<Edge>,
    settings: Settings,
    hosting: Hosting,
}

impl Rig {
    pub fn new(shape: Shape, hosting: Hosting, settings: Settings) -> Rig {
        let Shape { ports, entries, arena, in_flight } = shape;
        let core = ModelCore { latency: 100, issue: 1, work: 1, ..ModelCore::default() };
        let mut engine = Engine::on(core, EngineOptions { in_flight, ports });
        let ledger = Ledger::new(ports);
        let options = ServiceOptions::default();
        let handle = match hosting {
            Hosting::Staged => engine.add(ledger, options),
            Hosting::Task(order) => {
                engine.add_task_over::<_, Table>(ledger, ServiceOptions { order, ..options })
            }
            Hosting::Disordered => engine.add_task_over::<_, NoOrder>(ledger, options),
        };
        let edges = (0..ports)
            .map(|_| Edge::over(engine.open(handle, entries, arena).expect("a free port"), entries, arena));
        let edges = edges.collect();
        Rig { engine, handle, edges, settings, hosting }
    }

    pub fn drive(&mut self, steps: &[Step]) {
        for step in steps {
            let n = self.edges.len();
            match step {
                Step::Submit { port, cell, len, pauses } => {
                    let (now, port) = (self.engine.now(), port % n);
                    let edge = &mut self.edges[port];
                    // The first cells are everybody's, then come those of each port.
                    let cell =
                        cell.map(|cell| if cell < CELLS { cell } else { (port + 1) * CELLS + cell % CELLS });
                    let (seq, len) = (edge.submitted.len(), len % (edge.max_len + 1));
                    edge.submit(now, Request { port, seq, cell, len, pauses: pauses.clone() });
                }
                Step::Ring(port) => _ = self.edges[port % n].port.ring(),
                Step::Collect(port, max) => self.edges[port % n].collect(*max),
                Step::Release(port, max) => self.edges[port % n].release(*max),
                Step::Pass { ns, durable } => self.pass(*ns, *durable),
            }
        }
    }

    fn pass(&mut self, ns: u64, durable: u64) {
        self.engine.service(self.handle).log.sync(durable);
        let core = self.engine.core();
        core.now = core.now.plus(Nanos(ns));
        self.engine.set_settings(self.handle, self.settings);
        self.engine.pass();
    }

    /// Passes until all is answered, or `passes` are over.
    pub fn settle(&mut self, passes: usize) -> bool {
        for _ in 0..passes {
            for edge in &mut self.edges {
                edge.port.ring();
                edge.collect(usize::MAX);
                edge.release(usize::MAX);
            }
            if self.edges.iter().all(|edge| edge.replies.len() == edge.submitted.len()) {
                return true;
            }
            self.pass(50, 2);
        }
        false
    }

    /// What must be true of every form, once all is answered.
    pub fn check(&mut self) -> Result<(), String> {
        let cells = self.edges.len() * CELLS + CELLS;
        let mut sums = vec![0u64; cells];
        for (port, edge) in self.edges.iter().enumerate() {
            let mut own = vec![0u64; cells];
            let mut expected = Vec::new();
            for request in &edge.submitted {
                let before = request.cell.map_or(0, |cell| own[cell]);
                let before = if request.is_shared() { 0 } else { before };
                expected.push((request.id(), before, bytes(request, before)));
                if let Some(cell) = request.cell {
                    own[cell] = own[cell].wrapping_add(request.amount());
                    sums[cell] = sums[cell].wrapping_add(request.amount());
                }
            }
            let mut answered = vec![0; expected.len()];
            for (at, (seq, id, before, got)) in edge.replies.iter().enumerate() {
                answered[*seq] += 1;
                if (*id, *before, got) != (expected[*seq].0, expected[*seq].1, &expected[*seq].2) {
                    return Err(format!(
                        "port {port}: request {seq} was told {before} of {:?}",
                        expected[*seq].1
                    ));
                }
                if matches!(self.hosting, Hosting::Staged | Hosting::Task(Order::Port)) && at != *seq {
                    return Err(format!("port {port}: reply {at} is for request {seq}"));
                }
            }
            if answered.iter().any(|&n| n != 1) {
                return Err(format!("port {port}: replies {answered:?}"));
            }
        }
        let ledger = self.engine.service(self.handle);
        if ledger.cells != sums {
            return Err(format!("cells {:?} and not {sums:?}", ledger.cells));
        }
        // Of one key and port, in order.
        let mut last = std::collections::BTreeMap::new();
        for &(id, cell) in &ledger.applied {
            if last.insert((id >> 32, cell), id).is_some_and(|before| before >= id) {
                return Err(format!("{id:#x} out of order on cell {cell}"));
            }
        }
        Ok(())
    }
}
