//! `engine.mode = dedicated`: a thread of its own runs the engine, and edges only move bytes.
//!
//! ```text
//!  edge 0 ── doorbell, wake ──▶ ┌────────┐ scan, pass, flush ── wake ──▶ edge 0
//!  edge 1 ── doorbell, wake ──▶ │ engine │                   ── wake ──▶ edge 1
//!     ▲                         └────────┘ nothing to do: spin, pause, housekeeping, sleep
//!     └── replies not there yet: spin, pause, sleep
//! ```
//! Both sides wait by [`ring::wait`]: who publishes (a doorbell, a reply, room for replies) wakes the other side afterwards, who
//! sleeps marks itself and looks once more before it does, so no wake-up is lost. A wake-up costs a system call only when the
//! other side sleeps.
//!
//! Room: a blocked port waits for bytes that *some* edge gives back (its own arena's, or values detached for anybody), so an edge
//! that gave any back counts it in `rooms` and wakes the engine.
//!
//! The lock stays: the admin port asks its questions between passes, and goes first ([`Shared::engine_after_guests`]).
//!
//! The end: edges need the engine to finish, so it stops after them ([`Link`]s are all gone by then). Should the engine's thread
//! die of a bug of ours, its edges are told and die with a sentence instead of waiting for ever.

use super::edge::{IDLE_STEPS, NAP};
use super::service::Kv;
use super::shared::Shared;
use crate::admin::health::Beat;
use crate::kv::registers::{Id, Registers};
use engine::EdgePort;
use ring::wait::{Outcome, Sleeper, WaitPolicy, Waker, waiting};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What engine and edges tell each other beside the rings.
#[derive(Default)]
struct Signals {
    /// Times an edge gave back room for replies.
    rooms: AtomicU64,
    /// The engine shall stop.
    stop: AtomicBool,
    /// The engine has stopped.
    gone: AtomicBool,
}

/// The engine's thread, before it runs.
pub struct EngineThread {
    shared: Arc<Shared>,
    sleeper: Sleeper,
    edges: Vec<Waker>,
    signals: Arc<Signals>,
    /// Says that it turns.
    pub beat: Beat,
}

/// An edge's way to wake the engine and to wait for it.
pub struct Link {
    sleeper: Sleeper,
    engine: Waker,
    signals: Arc<Signals>,
}

/// Stops the engine's thread.
pub struct Stop {
    engine: Waker,
    signals: Arc<Signals>,
}

/// The engine's thread, the links of as many `edges`, and the way to stop it.
pub fn engine_thread(shared: Arc<Shared>, edges: usize) -> (EngineThread, Vec<Link>, Stop) {
    let signals = Arc::<Signals>::default();
    let (sleeper, engine) = waiting();
    let (links, wakers) = (0..edges)
        .map(|_| {
            let (sleeper, waker) = waiting();
            (Link { sleeper, engine: engine.clone(), signals: signals.clone() }, waker)
        })
        .unzip();
    let thread =
        EngineThread { shared, sleeper, edges: wakers, signals: signals.clone(), beat: Beat::default() };
    (thread, links, Stop { engine, signals })
}

impl Stop {
    /// Tells the engine to stop. Every edge has finished.
    pub fn stop(&self) {
        self.signals.stop.store(true, Ordering::Release);
        self.engine.wake();
    }
}

/// As long awake as the registers say.
fn awake(registers: &Registers) -> WaitPolicy {
    let (spin, pause) = (registers.read(Id::WaitSpin) as u32, registers.read(Id::WaitPause) as u32);
    WaitPolicy { spin, pause, monitor: 0, block: true }
}

/// What follows after that.
fn then(registers: &Registers) -> WaitPolicy {
    WaitPolicy { block: registers.is_on(Id::WaitBlock), ..WaitPolicy::BLOCK }
}

impl EngineThread {
    /// Runs the engine until it is told to stop.
    pub fn run(mut self) {
        let shared = self.shared.clone();
        let farewell = Farewell { signals: self.signals.clone(), edges: std::mem::take(&mut self.edges) };
        loop {
            self.beat.turn();
            let rooms = self.signals.rooms.load(Ordering::Acquire);
            let progress = shared.engine_after_guests().pass(&shared.registers);
            if progress.answered > 0 {
                farewell.wake_edges();
                continue;
            }
            if self.signals.stop.load(Ordering::Acquire) {
                return;
            }
            let rooms = (progress.blocked > 0).then_some(rooms);
            if self.wait(awake(&shared.registers), Duration::ZERO, rooms) == Outcome::Ready {
                continue;
            }
            let more = shared.engine_after_guests().idle(IDLE_STEPS);
            if !more {
                self.wait(then(&shared.registers), Duration::from_nanos(NAP.0), rooms);
            }
        }
    }

    /// Waits for work, for room since `rooms` was read if a port is blocked, or for the end.
    fn wait(&mut self, policy: WaitPolicy, timeout: Duration, rooms: Option<u64>) -> Outcome {
        let (signals, shared) = (&self.signals, &self.shared);
        self.sleeper.wait_until(policy, Some(timeout), || {
            rooms.is_some_and(|rooms| signals.rooms.load(Ordering::Acquire) != rooms)
                || signals.stop.load(Ordering::Acquire)
                || shared.engine_after_guests().has_work()
        })
    }
}

/// The edges, which are told when the engine's thread ends, by a panic too.
struct Farewell {
    signals: Arc<Signals>,
    edges: Vec<Waker>,
}

impl Farewell {
    fn wake_edges(&self) {
        for edge in &self.edges {
            edge.wake();
        }
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        self.signals.gone.store(true, Ordering::Release);
        self.wake_edges();
    }
}

impl Link {
    /// Doorbells were rung.
    #[inline]
    pub fn announce(&self) {
        self.engine.wake();
    }

    /// Replies were read and their room is given back.
    #[inline]
    pub fn made_room(&self) {
        self.signals.rooms.fetch_add(1, Ordering::Release);
        self.engine.wake();
    }

    /// Stays awake for a reply as long as the registers say. True when there is one.
    pub fn wait_awake(&mut self, port: &mut EdgePort<Kv>, registers: &Registers) -> bool {
        self.wait(awake(registers), Some(Duration::ZERO), port) == Outcome::Ready
    }

    /// Waits for a reply.
    pub fn wait_on(&mut self, port: &mut EdgePort<Kv>, registers: &Registers) {
        self.wait(then(registers), None, port);
    }

    fn wait(&mut self, policy: WaitPolicy, timeout: Option<Duration>, port: &mut EdgePort<Kv>) -> Outcome {
        let signals = &self.signals;
        let is_gone = || signals.gone.load(Ordering::Acquire);
        let outcome = self.sleeper.wait_until(policy, timeout, || port.is_ready() || is_gone());
        assert!(port.is_ready() || !is_gone(), "the engine's thread ended while requests were in flight");
        outcome
    }
}
