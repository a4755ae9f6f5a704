//! `engine.mode = dedicated`: a thread of its own runs the engine (`engine_thread`), and edges only move bytes and wait for replies. With
//! `shared` the thread sleeps.
//!
//! ```text
//!  edge 0 ── doorbell, wake ──▶ ┌────────┐ scan, pass, flush ── wake ──▶ edge 0
//!  edge 1 ── doorbell, wake ──▶ │ engine │                   ── wake ──▶ edge 1
//!     ▲                         └────────┘
//!     └── replies not there yet: spin, pause, sleep
//! ```
//! Moving: an edge decides at the beginning of a turn, and a turn ends with all its requests answered. The thread drives the engine while the
//! register says so or an edge counts on it ([`Shared::led`]); besides it edges of the other mode may run passes, for the lock is the engine's.
//!
//! The lock stays: the admin port asks its questions between passes, and goes first ([`Shared::engine_after_guests`]).

use super::service::Kv;
use super::shared::Shared;
use crate::admin::health::Beat;
use crate::engine_thread::{self, Driven, Way};
use crate::kv::registers::{Id, Registers};
use base::Nanos;
use engine::{EdgePort, Progress};
use ring::wait::{Outcome, Sleeper, WaitPolicy, waiting};
use std::sync::Arc;
use std::time::Duration;

/// The engine's thread, before it runs.
pub struct EngineThread {
    shared: Arc<Shared>,
    thread: engine_thread::EngineThread,
    /// Says that it turns.
    pub beat: Beat,
}

/// An edge's way to wake the engine and to wait for it.
pub struct Link {
    sleeper: Sleeper,
    engine: Way,
}

/// Stops the engine's thread.
pub type Stop = Way;

/// The engine's thread, the links of as many `edges`, and the way to stop it.
pub fn engine_thread(shared: Arc<Shared>, edges: usize) -> (EngineThread, Vec<Link>, Stop) {
    let beat = Beat::default();
    let (mut thread, engine) = engine_thread::engine_thread(beat.clone());
    let (links, wakers) = (0..edges)
        .map(|_| {
            let (sleeper, waker) = waiting();
            (Link { sleeper, engine: engine.clone() }, waker)
        })
        .unzip();
    thread.waiting = wakers;
    (EngineThread { shared, thread, beat }, links, engine)
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
    pub fn run(self) {
        self.thread.run(&mut &*self.shared);
    }
}

impl Driven for &Shared {
    fn pass(&mut self) -> Progress {
        if !self.is_led() {
            return Progress::default();
        }
        self.engine_after_guests().pass(&self.registers)
    }

    fn has_work(&mut self) -> bool {
        self.is_led() && self.engine_after_guests().has_work()
    }

    fn next_deadline(&mut self) -> Nanos {
        if self.is_led() { self.engine_after_guests().next_deadline() } else { Nanos::MAX }
    }

    fn idle(&mut self, steps: usize) -> bool {
        self.is_led() && self.engine_after_guests().idle(steps)
    }

    fn policies(&self) -> [WaitPolicy; 2] {
        [awake(&self.registers), then(&self.registers)]
    }
}

impl Link {
    /// Doorbells were rung.
    #[inline]
    pub fn announce(&self) {
        self.engine.announce();
    }

    /// Replies were read and their room is given back.
    #[inline]
    pub fn made_room(&self) {
        self.engine.made_room();
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
        let engine = &self.engine;
        let outcome = self.sleeper.wait_until(policy, timeout, || port.is_ready() || engine.is_gone());
        assert!(
            port.is_ready() || !engine.is_gone(),
            "the engine's thread ended while requests were in flight"
        );
        outcome
    }
}
