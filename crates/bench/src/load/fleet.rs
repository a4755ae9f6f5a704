//! All connections to one server: client threads that run phases on command and rest in between.
//!
//! Why threads that stay: `--vs` alternates between two servers several times a second, with connections that stay open.
//! A resting fleet costs its server nothing.

use super::LoadError;
use super::connection::{Connection, Shared};
use super::counts::Tally;
use super::ledger::Ledger;
use super::line::Line;
use super::target::Target;
use super::worker::{Manner, Worker};
use super::workload::{Phase, Population};
use crate::drive::settle;
use base::{Clock, Nanos};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How a fleet is set up.
#[derive(Clone, Debug)]
pub struct FleetPlan {
    /// The server.
    pub target: Target,
    /// How many connections.
    pub connections: u16,
    /// How many client threads share them.
    pub threads: usize,
    /// Cores for the threads, in turns; none: wherever the system puts them.
    pub cores: Vec<usize>,
    /// Never sleep.
    pub spin: bool,
    /// How long an answer may take.
    pub answer_timeout: Duration,
    /// Keys to preload.
    pub keys: u64,
    /// Bytes per key.
    pub key_size: usize,
    /// The most keys that may be inserted besides.
    pub inserts: u64,
    /// Check each connection's own writes (and let it write only its own keys).
    pub strict: bool,
    /// Whether a miss of a key that must be there fails the run.
    pub misses_fail: bool,
    /// Whether values of earlier runs may be found.
    pub foreign_allowed: bool,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Tells this run's values from others.
    pub run: u32,
}

/// Runs phases against one server.
pub struct Fleet {
    target: Target,
    threads: Vec<Thread>,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    phases: u64,
}

struct Thread {
    orders: Sender<(Phase, Nanos)>,
    results: Receiver<Tally>,
    handle: Option<JoinHandle<()>>,
}

/// Time for all threads to get their orders before a phase begins.
const LEAD: Nanos = Nanos::from_millis(2);

impl Fleet {
    /// Connects to the server and starts the threads. `stop` ends phases early when it becomes true.
    ///
    /// # Errors
    /// When the plan cannot work or a connection cannot be opened.
    pub fn launch(plan: &FleetPlan, stop: Arc<AtomicBool>) -> Result<Fleet, LoadError> {
        let population = Population::new(plan.keys, plan.key_size, plan.inserts, plan.strict)
            .map_err(|text| LoadError::Plan(text.into()))?;
        let shared = Arc::new(Shared {
            ledger: Ledger::new(plan.run, plan.connections, plan.foreign_allowed),
            population,
            connections: u64::from(plan.connections),
            misses_fail: plan.misses_fail,
            seed: plan.seed,
        });
        let count = plan.threads.clamp(1, usize::from(plan.connections.max(1)));
        let mut lines: Vec<Vec<(u64, Box<dyn Line>)>> = (0..count).map(|_| Vec::new()).collect();
        for index in 0..u64::from(plan.connections) {
            lines[index as usize % count].push((index, plan.target.open()?));
        }
        let done = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::with_capacity(count);
        for (thread, lines) in lines.into_iter().enumerate() {
            threads.push(Thread::start(plan, thread, count, lines, &shared, &stop, &done)?);
        }
        Ok(Fleet { target: plan.target.clone(), threads, stop, done, phases: 0 })
    }

    /// The server.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the run was told to end.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs `phase` on every connection; `progress` hears now and then how many operations are done.
    pub fn run(&mut self, mut phase: Phase, progress: &mut dyn FnMut(u64)) -> Tally {
        self.phases += 1;
        phase.number = self.phases;
        self.done.store(0, Ordering::Relaxed);
        let start = Clock::shared().now().plus(LEAD);
        let mut sum = Tally::new(start, phase.interval);
        for thread in &self.threads {
            thread
                .orders
                .send((phase.clone(), start))
                .expect("client threads wait for orders until told to end");
        }
        for thread in &self.threads {
            let tally = loop {
                match thread.results.recv_timeout(Duration::from_millis(100)) {
                    Ok(tally) => break tally,
                    Err(RecvTimeoutError::Timeout) => progress(self.done.load(Ordering::Relaxed)),
                    Err(RecvTimeoutError::Disconnected) => {
                        panic!("a client thread ended before its phase did")
                    }
                }
            };
            sum.merge(&tally);
        }
        progress(self.done.load(Ordering::Relaxed));
        sum
    }
}

impl Thread {
    fn start(
        plan: &FleetPlan,
        thread: usize,
        threads: usize,
        lines: Vec<(u64, Box<dyn Line>)>,
        shared: &Arc<Shared>,
        stop: &Arc<AtomicBool>,
        done: &Arc<AtomicU64>,
    ) -> Result<Thread, LoadError> {
        let (orders, inbox) = channel::<(Phase, Nanos)>();
        let (outbox, results) = channel();
        let (shared, stop, done) = (Arc::clone(shared), Arc::clone(stop), Arc::clone(done));
        let core = (!plan.cores.is_empty()).then(|| plan.cores[thread % plan.cores.len()]);
        let manner = Manner {
            spin: plan.spin,
            answer_timeout: Nanos::from(plan.answer_timeout),
            thread: thread as u64,
            threads: threads as u64,
        };
        let body = move || {
            settle(core);
            let connections: Vec<Connection<'_>> =
                lines.into_iter().map(|(index, line)| Connection::new(index, &shared, line)).collect();
            let mut worker = Worker::new(connections, manner, &shared, &stop, &done)
                .expect("the system gives an epoll descriptor");
            while let Ok((phase, start)) = inbox.recv() {
                if outbox.send(worker.run(&phase, start)).is_err() {
                    break;
                }
            }
        };
        let handle = std::thread::Builder::new()
            .name(format!("client-{thread}"))
            .spawn(body)
            .map_err(|e| LoadError::Plan(format!("client thread {thread} could not start: {e}").into()))?;
        Ok(Thread { orders, results, handle: Some(handle) })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            let Thread { orders, results, handle } = thread;
            drop((orders, results));
            if let Some(handle) = handle {
                let _ = handle.join();
            }
        }
    }
}
