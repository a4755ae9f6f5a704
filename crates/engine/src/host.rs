//! Host threads: where tasks send work that blocks, allocates much or is irregular.
//!
//! Shape
//! ```text
//!  engine 0 ══ lane ══▶ ┐            each lane a ring pair: work there, results back
//!           ══ lane ══▶ │ thread 0
//!  engine 1 ══ lane ══▶ ┘
//!           ══ lane ══▶   thread 1
//! ```
//! An engine sends to the thread on which it has the least outstanding. A thread serves its lanes in turn, one piece of work each,
//! and sleeps when all are empty.
//!
//! Invariants
//! 1. Work that was sent is run once, also when the task that sent it is gone; its result is then dropped.
//! 2. Every [`HostCall`] that is awaited ends: with a result, or an error when the work panicked or the threads are gone.
//!
//! Bounds: `entries` pieces of work per lane; a task that finds no room tries again in the next pass.
//!
//! Cost: two messages between cores, and a wake-up when the thread or the engine sleeps (`docs/measurements/engine.md`).

use crate::context::{TaskId, this_turn, turn};
use crate::packed::Packed;
use crate::traced::Wait;
use base::trace::{OK, Open, Place, Scope};
use base::{Clock, Nanos};
use ring::pair::{Client, Server, pair};
use ring::wait::{Sleeper, WaitPolicy, Waker, waiting};
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

/// Work on its way to a thread.
struct Job {
    entry: u32,
    run: fn(Packed) -> Packed,
    work: Packed,
}

/// A result on its way back; `None` for work that panicked.
struct Done {
    entry: u32,
    result: Option<Packed>,
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// The work panicked.
    Panicked,
    /// The engine has no host threads, or they have ended.
    Gone,
}

impl std::fmt::Display for HostError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HostError::Panicked => "the work on a host thread panicked",
            HostError::Gone => "there are no host threads",
        })
    }
}

impl std::error::Error for HostError {}

/// What a thread and the pool share.
struct Shared {
    /// Lanes that the thread does not have yet.
    arrived: Mutex<Vec<ServerLane>>,
    has_arrived: AtomicBool,
    stop: AtomicBool,
}

struct ServerLane {
    server: Server<Job, Done>,
    engine: Option<Waker>,
}

struct HostThread {
    shared: Arc<Shared>,
    waker: Waker,
    join: Option<JoinHandle<()>>,
}

/// Threads that several engines share. Dropping it ends them, after the work that they have.
pub struct HostPool {
    threads: Vec<HostThread>,
}

impl HostPool {
    /// `threads` of them, which wait for work as `policy` says.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn new(threads: usize, policy: WaitPolicy) -> std::io::Result<HostPool> {
        HostPool::watched(threads, policy, |_| || ())
    }

    /// As [`HostPool::new`]; thread `number` calls what `turns(number)` is whenever it turns, and whenever it looks for work. So it can be
    /// kept to a core and be seen to live.
    ///
    /// # Errors
    /// As [`HostPool::new`].
    pub fn watched<T: FnMut() + Send + 'static>(
        threads: usize,
        policy: WaitPolicy,
        turns: impl Fn(usize) -> T,
    ) -> std::io::Result<HostPool> {
        let thread = |number| {
            let shared = Arc::new(Shared {
                arrived: Mutex::default(),
                has_arrived: AtomicBool::new(false),
                stop: AtomicBool::new(false),
            });
            let (sleeper, waker) = waiting();
            let (of_thread, turn) = (shared.clone(), turns(number));
            let join = std::thread::Builder::new()
                .name(format!("host-{number}"))
                .spawn(move || serve(&of_thread, sleeper, policy, turn))?;
            Ok(HostThread { shared, waker, join: Some(join) })
        };
        Ok(HostPool { threads: (0..threads).map(thread).collect::<std::io::Result<_>>()? })
    }

    /// What wakes its threads, for whoever wants to see them turn.
    pub fn wakers(&self) -> impl Iterator<Item = &Waker> {
        self.threads.iter().map(|thread| &thread.waker)
    }

    /// A way to all threads for one engine ([`Engine::set_host`](crate::Engine::set_host)), with room for `entries` (a power of two)
    /// pieces of work on each. Results wake `engine`, the waker of whoever drives it, if it sleeps.
    pub fn attach(&self, entries: u32, engine: Option<Waker>) -> HostPort {
        let lanes = self.threads.iter().map(|thread| {
            let (client, server) = pair(entries);
            let lane = ServerLane { server, engine: engine.clone() };
            thread.shared.arrived.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
            thread.shared.has_arrived.store(true, Ordering::Release);
            thread.waker.wake();
            Lane { client, thread: thread.waker.clone() }
        });
        let lanes: Vec<Lane> = lanes.collect();
        let places = lanes.len() as u32 * entries;
        HostPort {
            lanes,
            table: (0..places).map(|_| Entry::Free).collect(),
            free: (0..places).rev().collect(),
        }
    }
}

impl Drop for HostPool {
    fn drop(&mut self) {
        for thread in &self.threads {
            thread.shared.stop.store(true, Ordering::Release);
            thread.waker.wake();
        }
        for thread in &mut self.threads {
            // It catches what work panics with; anything else it has said itself.
            let _ = thread.join.take().map(JoinHandle::join);
        }
    }
}

/// A thread's life.
fn serve(shared: &Shared, mut sleeper: Sleeper, policy: WaitPolicy, mut turn: impl FnMut()) {
    let mut lanes: Vec<ServerLane> = Vec::new();
    loop {
        turn();
        if shared.has_arrived.swap(false, Ordering::AcqRel) {
            lanes.append(&mut shared.arrived.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let mut served = false;
        for lane in &mut lanes {
            served |= lane.serve();
        }
        if served {
            continue;
        }
        lanes.retain_mut(|lane| !lane.server.is_abandoned() || lane.server.is_ready());
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        sleeper.wait_until(policy, None, || {
            turn();
            shared.has_arrived.load(Ordering::Acquire)
                || shared.stop.load(Ordering::Acquire)
                || lanes.iter_mut().any(|lane| lane.server.is_ready())
        });
    }
}

impl ServerLane {
    /// Runs one piece of work, if there is one.
    fn serve(&mut self) -> bool {
        let Some((tag, Job { entry, run, work })) = self.server.try_recv() else { return false };
        let result = catch_unwind(AssertUnwindSafe(|| run(work))).ok();
        self.server.reply(tag, Done { entry, result });
        self.server.flush();
        if let Some(engine) = &self.engine {
            engine.wake();
        }
        true
    }
}

struct Lane {
    client: Client<Job, Done>,
    thread: Waker,
}

enum Entry {
    Free,
    /// Sent to a lane; its result is for this task.
    Sent {
        lane: usize,
        task: TaskId,
    },
    /// Sent; nobody waits for its result any more.
    GivenUp {
        lane: usize,
    },
    Done(Result<Packed, HostError>),
}

impl Entry {
    fn is_on(&self, number: usize) -> bool {
        matches!(self, Entry::Sent { lane, .. } | Entry::GivenUp { lane } if *lane == number)
    }
}

/// An engine's way to the host threads.
pub struct HostPort {
    lanes: Vec<Lane>,
    table: Vec<Entry>,
    free: Vec<u32>,
}

impl HostPort {
    /// Sends `work` and says under which entry; gives it back when there is no room.
    fn send<F: FnOnce() -> R + Send + 'static, R: Send + 'static>(
        &mut self,
        work: F,
        task: TaskId,
        scope: Option<&Scope>,
    ) -> Result<u32, (F, Option<HostError>)> {
        let open = self.lanes.iter_mut().enumerate().filter(|(_, lane)| !lane.client.is_abandoned());
        let Some((at, lane)) = open.min_by_key(|(_, lane)| lane.client.in_flight()) else {
            return Err((work, Some(HostError::Gone)));
        };
        if lane.client.free() == 0 || self.free.is_empty() {
            return Err((work, None));
        }
        let entry = self.free.pop().expect("looked at just now");
        let job = match scope {
            None => Job { entry, run: |work| Packed::new((work.take::<F>())()), work: Packed::new(work) },
            Some(scope) => traced(entry, work, scope.clone()),
        };
        let sent = lane.client.try_send(job);
        assert!(sent.is_ok(), "a lane has room for as much work as it says");
        lane.client.flush();
        lane.thread.wake();
        self.table[entry as usize] = Entry::Sent { lane: at, task };
        Ok(entry)
    }

    /// The result under `entry`, once it is there.
    fn take(&mut self, entry: u32) -> Option<Result<Packed, HostError>> {
        let at = &mut self.table[entry as usize];
        if !matches!(at, Entry::Done(_)) {
            return None;
        }
        let Entry::Done(result) = std::mem::replace(at, Entry::Free) else {
            unreachable!("looked at just now")
        };
        self.free.push(entry);
        Some(result)
    }

    /// Nobody waits for `entry` any more.
    fn give_up(&mut self, entry: u32) {
        let at = &mut self.table[entry as usize];
        match *at {
            Entry::Sent { lane, .. } => *at = Entry::GivenUp { lane },
            _ => {
                *at = Entry::Free;
                self.free.push(entry);
            }
        }
    }

    /// Takes results from all lanes and hands each task that has one to `resume`.
    pub(crate) fn collect(&mut self, mut resume: impl FnMut(TaskId)) {
        let HostPort { lanes, table, free } = self;
        for (number, lane) in lanes.iter_mut().enumerate() {
            if lane.client.in_flight() == 0 {
                continue;
            }
            // In this order: what was answered before it went is taken.
            let gone = lane.client.is_abandoned();
            lane.client.drain(usize::MAX, |_, Done { entry, result }| {
                finish(table, free, entry, result.ok_or(HostError::Panicked), &mut resume);
            });
            if gone && lane.client.in_flight() > 0 {
                for entry in 0..table.len() as u32 {
                    if table[entry as usize].is_on(number) {
                        finish(table, free, entry, Err(HostError::Gone), &mut resume);
                    }
                }
            }
        }
    }

    /// Whether a result waits.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.lanes.iter_mut().any(|lane| lane.client.is_ready())
    }
}

/// Work that leaves spans, packed with where they belong: so that the slots of a lane are no longer for it.
#[cold]
fn traced<F: FnOnce() -> R + Send + 'static, R: Send + 'static>(entry: u32, work: F, scope: Scope) -> Job {
    struct Traced<F>(F, Scope, Nanos);
    let run = |packed: Packed| {
        let Traced(work, scope, sent) = packed.take::<Traced<F>>();
        let begun = Clock::shared().now();
        scope.part("waiting", Place::Host, sent, begun);
        let _running = Running(Some(scope.open(begun)));
        Packed::new(work())
    };
    Job { entry, run, work: Packed::new(Traced(work, scope, Clock::shared().now())) }
}

/// Work with spans while it runs; dropped when it is over, by a panic too.
struct Running(Option<Open>);

impl Drop for Running {
    fn drop(&mut self) {
        let outcome = if std::thread::panicking() { "panicked" } else { OK };
        if let Some(open) = self.0.take() {
            open.end("running", Place::Host, Clock::shared().now(), outcome);
        }
    }
}

fn finish(
    table: &mut [Entry],
    free: &mut Vec<u32>,
    entry: u32,
    result: Result<Packed, HostError>,
    resume: &mut impl FnMut(TaskId),
) {
    let at = &mut table[entry as usize];
    if let Entry::Sent { task, .. } = *at {
        *at = Entry::Done(result);
        resume(task);
    } else {
        *at = Entry::Free;
        free.push(entry);
    }
}

/// See [`Cx::host`](crate::Cx::host).
pub struct HostCall<F, R> {
    work: Option<F>,
    entry: Option<u32>,
    wait: Wait,
    _result: PhantomData<fn() -> R>,
}

// Nothing in it is pinned.
impl<F, R> Unpin for HostCall<F, R> {}

impl<F, R> HostCall<F, R> {
    pub(crate) fn new(work: F) -> HostCall<F, R> {
        HostCall { work: Some(work), entry: None, wait: Wait::default(), _result: PhantomData }
    }
}

impl<R: Send + 'static, F: FnOnce() -> R + Send + 'static> Future for HostCall<F, R> {
    type Output = Result<R, HostError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        this_turn(|turn| {
            let mut host = turn.host.borrow_mut();
            let Some(host) = host.as_mut() else { return Poll::Ready(Err(HostError::Gone)) };
            if let Some(entry) = self.entry {
                let Some(result) = host.take(entry) else {
                    turn.wait_resumed();
                    return Poll::Pending;
                };
                self.entry = None;
                self.wait.over(turn);
                return Poll::Ready(result.map(Packed::take::<R>));
            }
            let work = self.work.take().expect("a future that is ready is not polled again");
            let scope = self.wait.begin(turn, "host");
            match host.send(work, turn.task.get(), scope) {
                Ok(entry) => {
                    self.entry = Some(entry);
                    turn.wait_resumed();
                }
                Err((_, Some(error))) => {
                    self.wait.over(turn);
                    return Poll::Ready(Err(error));
                }
                Err((work, None)) => {
                    self.work = Some(work);
                    turn.wait_until(turn.now.get());
                }
            }
            Poll::Pending
        })
    }
}

impl<F, R> Drop for HostCall<F, R> {
    fn drop(&mut self) {
        // Outside a poll the engine itself is being dropped, and its table with it.
        if let Some(entry) = self.entry.take() {
            turn(|turn| {
                if let Ok(mut host) = turn.host.try_borrow_mut()
                    && let Some(host) = host.as_mut()
                {
                    host.give_up(entry);
                }
            });
        }
    }
}
