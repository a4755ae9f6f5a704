//! A task service that does what its requests say, a staged one that it calls, and a rig with both on a core in virtual time.

use super::model::ModelCore;
use crate::{
    Called, Callee, Cx, EdgePort, Engine, EngineOptions, Failure, Handle, HostError, Log, MemoryLog,
    Messages, Order, Progress, Service, ServiceOptions, Settings, TaskService,
};
use base::Nanos;
use ring::arena::{Producer, Span};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A step of a task; some add a number to its output.
#[derive(Clone, Debug)]
pub enum Op {
    Touch,
    /// Says the time afterwards.
    Sleep(u64),
    /// Says the entry.
    Durable,
    /// Says what the host thread says.
    Host(fn() -> u64),
    /// Sends it and goes on without it.
    HostForgotten(fn() -> u64),
    /// Says what the staged service says.
    Add(u64),
    /// Says what a task says that does this, and how many bytes it had.
    Call(Vec<Op>, u32),
    /// Sends it and goes on without it.
    CallForgotten(Vec<Op>),
    /// Sleeps until one of both is over.
    Race(u64, u64),
    Panic,
    PanicInReply,
    PanicInFailed,
    Forever,
    Spin,
}

#[derive(Clone, Debug, Default)]
pub struct Request {
    pub key: Option<u64>,
    pub ops: Vec<Op>,
    pub len: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub outcome: Result<Vec<u64>, Failure>,
    pub span: Span,
}

/// What host work that failed says.
pub const HOST_PANICKED: u64 = 1 << 40;
pub const HOST_GONE: u64 = 1 << 41;

#[derive(Default)]
pub struct Script {
    pub log: MemoryLog,
    pub adder: Option<Callee<Adder>>,
    pub itself: Option<Callee<Script>>,
    /// Held by each task.
    pub alive: Arc<()>,
    /// Keys of tasks that ended, in order.
    pub ended: Vec<u64>,
}

impl Messages for Script {
    type Request = Request;
    type Reply = Reply;

    fn span(reply: &Reply) -> Option<Span> {
        Some(reply.span)
    }
}

async fn run(cx: Cx<Script>, op: &Op, said: &mut Vec<u64>) {
    match op {
        Op::Touch => cx.touch(|_| ()).await,
        Op::Sleep(ns) => {
            cx.sleep(Nanos(*ns)).await;
            said.push(cx.now().0);
        }
        Op::Durable => {
            let entry = cx.with(|script| script.log.append());
            cx.durable(entry).await;
            said.push(entry);
        }
        Op::Host(work) => said.push(match cx.host(*work).await {
            Ok(number) => number,
            Err(HostError::Panicked) => HOST_PANICKED,
            Err(HostError::Gone) => HOST_GONE,
        }),
        Op::HostForgotten(work) => {
            let mut call = std::pin::pin!(cx.host(*work));
            std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
        }
        Op::Add(number) => {
            let adder = cx.with(|script| script.adder.clone()).expect("it was given one");
            let called: Called<Adder> = cx.call(&adder, *number).await.expect("it answers");
            said.push(called.bytes(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes"))));
        }
        Op::Call(ops, len) => {
            let itself = cx.with(|script| script.itself.clone()).expect("it was given itself");
            let called = cx.call(&itself, Request { key: None, ops: ops.clone(), len: *len }).await;
            let called = called.expect("it answers");
            said.extend(called.outcome.clone().unwrap_or_default());
            said.push(called.bytes(<[u8]>::len) as u64);
        }
        Op::CallForgotten(ops) => {
            let itself = cx.with(|script| script.itself.clone()).expect("it was given itself");
            let mut call =
                std::pin::pin!(cx.call(&itself, Request { ops: ops.clone(), ..Request::default() }));
            std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
        }
        Op::Race(one, other) => {
            let (mut one, mut other) = (cx.sleep(Nanos(*one)), cx.sleep(Nanos(*other)));
            std::future::poll_fn(|cx| {
                let first = std::pin::Pin::new(&mut one).poll(cx);
                let second = std::pin::Pin::new(&mut other).poll(cx);
                if first.is_ready() || second.is_ready() { std::task::Poll::Ready(()) } else { first }
            })
            .await;
            said.push(cx.now().0);
        }
        Op::Panic => panic!("planted"),
        Op::PanicInReply | Op::PanicInFailed => {}
        Op::Forever => cx.sleep_until(Nanos::MAX).await,
        Op::Spin => loop {
            base::touch::yield_once().await;
        },
    }
}

use std::future::Future;

impl TaskService for Script {
    type Output = Vec<u64>;

    fn key(request: &Request) -> Option<u64> {
        request.key
    }

    async fn handle(cx: Cx<Script>, request: &Request) -> Vec<u64> {
        let _alive = cx.with(|script| script.alive.clone());
        let mut said = Vec::new();
        for op in &request.ops {
            run(cx, op, &mut said).await;
        }
        cx.with(|script| script.ended.extend(request.key));
        said
    }

    fn reply(&self, request: &Request, output: &Vec<u64>, out: &mut Producer) -> Option<Reply> {
        assert!(!request.ops.iter().any(|op| matches!(op, Op::PanicInReply)), "planted");
        let room = out.reserve(request.len)?;
        Some(Reply { outcome: Ok(output.clone()), span: room.commit(request.len) })
    }

    fn failed(&self, request: &Request, why: Failure, out: &mut Producer) -> Option<Reply> {
        assert!(!request.ops.iter().any(|op| matches!(op, Op::PanicInFailed)), "planted");
        Some(Reply { outcome: Err(why), span: out.reserve(0)?.commit(0) })
    }

    fn log(&self) -> Option<&dyn Log> {
        Some(&self.log)
    }
}

/// Adds one; 13 makes it panic, and the reply to that is 0.
#[derive(Default)]
pub struct Adder {
    pub touch_panics: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum(pub u64, pub Span);

impl Messages for Adder {
    type Request = u64;
    type Reply = Sum;

    fn span(reply: &Sum) -> Option<Span> {
        Some(reply.1)
    }
}

fn sum(number: u64, out: &mut Producer) -> Option<Sum> {
    Some(Sum(number, out.push(&number.to_le_bytes())?))
}

impl Service for Adder {
    const TOUCHES: usize = 1;
    const ANSWERS_PANICS: bool = true;

    fn touch_key(request: &u64) -> u64 {
        *request
    }

    fn touch(&self, _: usize, _: u64) {
        assert!(!self.touch_panics, "planted");
    }

    fn tick(&mut self, _: Nanos) {}

    fn execute(&mut self, request: &u64, out: &mut Producer) -> Option<Sum> {
        assert!(*request != 13, "planted");
        sum(request + 1, out)
    }

    fn expire(&mut self, _: &u64, out: &mut Producer) -> Option<Sum> {
        sum(u64::MAX, out)
    }

    fn panicked(&mut self, _: &u64, out: &mut Producer) -> Option<Sum> {
        sum(0, out)
    }
}

/// Both on one engine, with a port each.
pub struct Rig {
    pub engine: Engine<ModelCore>,
    pub script: Handle<Script>,
    pub adder: Handle<Adder>,
    pub edge: EdgePort<Script>,
    pub adds: EdgePort<Adder>,
    pub settings: Settings,
    /// Replies by number of the request.
    pub replies: BTreeMap<u32, Reply>,
    pub alive: Arc<()>,
}

impl Rig {
    pub fn new(in_flight: usize, options: ServiceOptions) -> Rig {
        let mut engine = Engine::on(ModelCore::default(), EngineOptions { in_flight, ports: 4 });
        let script = engine.add_task(Script::default(), options);
        let adder = engine.add(Adder::default(), ServiceOptions::default());
        let (itself, callee) = (engine.callee(script), engine.callee(adder));
        let service = engine.service(script);
        (service.itself, service.adder) = (Some(itself), Some(callee));
        let alive = service.alive.clone();
        let edge = engine.open(script, 256, 1 << 12).expect("a port");
        let adds = engine.open(adder, 64, 1 << 12).expect("a port");
        let (settings, replies) = (Settings::default(), BTreeMap::new());
        Rig { engine, script, adder, edge, adds, settings, replies, alive }
    }

    pub fn simple() -> Rig {
        Rig::new(64, ServiceOptions::default())
    }

    pub fn in_port_order() -> Rig {
        Rig::new(64, ServiceOptions { order: Order::Port, ..ServiceOptions::default() })
    }

    /// Submits one; its number.
    pub fn ask(&mut self, key: Option<u64>, ops: &[Op]) -> u32 {
        self.ask_for(key, ops, 0)
    }

    pub fn ask_for(&mut self, key: Option<u64>, ops: &[Op], len: u32) -> u32 {
        let now = self.engine.now();
        let tag = self.edge.submit(now, Request { key, ops: ops.to_vec(), len });
        self.edge.ring();
        tag.expect("the ring has room").0
    }

    /// A pass at that moment.
    pub fn pass_at(&mut self, now: u64) -> Progress {
        self.engine.core().now = Nanos(now);
        self.engine.set_settings(self.script, self.settings);
        self.engine.set_settings(self.adder, self.settings);
        let progress = self.engine.pass();
        self.collect();
        progress
    }

    /// Takes replies.
    pub fn collect(&mut self) {
        while let Some((tag, reply)) = self.edge.poll_tagged() {
            self.edge.release(reply.body.span);
            self.edge.publish_room();
            assert!(self.replies.insert(tag.0, reply.body).is_none(), "a second reply to {tag:?}");
        }
    }

    /// Passes until there is nothing to do at that moment.
    pub fn settle_at(&mut self, now: u64) {
        for _ in 0..100 {
            if !self.pass_at(now).more && !self.engine.has_work() {
                return;
            }
        }
        panic!("there is always more to do");
    }

    /// What a request was told.
    pub fn said(&self, number: u32) -> Option<Result<Vec<u64>, Failure>> {
        self.replies.get(&number).map(|reply| reply.outcome.clone())
    }

    /// Tasks that hold on to something.
    pub fn alive(&self) -> usize {
        // The service's, and ours.
        Arc::strong_count(&self.alive) - 2
    }
}
