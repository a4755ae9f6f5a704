//! `engine.mode = dedicated`: the thread of the service's core runs the engine ([`crate::engine_cores`]), and edges only move bytes and wait for replies.
//! With `shared` edges run passes of this service themselves; the thread sleeps, unless another service of the core needs it.
//!
//! ```text
//!  edge 0 ── doorbell, wake ──▶ ┌────────┐ scan, pass, flush ── wake ──▶ edge 0
//!  edge 1 ── doorbell, wake ──▶ │ engine │                   ── wake ──▶ edge 1
//!     ▲                         └────────┘
//!     └── replies not there yet: spin, pause, sleep
//! ```
//! Moving: an edge decides at the beginning of a turn, and a turn ends with all its requests answered. The thread drives the engine while the
//! register says so or an edge counts on it; besides it edges of the other mode may run passes, for the lock is the engine's.

use super::service::Kv;
use super::system::System;
use crate::engine_cores::Hosting;
use crate::kv::registers::{Id, Registers};
use base::Nanos;
use engine::{EdgePort, Form, Settings};
use ring::wait::{Outcome, Sleeper, WaitPolicy, waiting};
use std::sync::Arc;
use std::time::Duration;

/// What an edge waits with for the thread.
pub struct Link(Sleeper);

/// How the service is hosted, as its registers say, and the links of as many `edges`.
pub fn hosting(registers: &Arc<Registers>, edges: usize) -> (Hosting, Vec<Link>) {
    let (links, waiting) = (0..edges)
        .map(|_| {
            let (sleeper, waker) = waiting();
            (Link(sleeper), waker)
        })
        .unzip();
    let [set, waits, needs] = [(); 3].map(|()| Arc::clone(registers));
    let hosting = Hosting {
        in_flight: registers.size(Id::EngineInFlight),
        settings: Box::new(move || settings(&set)),
        policies: Box::new(move || [awake(&waits), then(&waits)]),
        needs_thread: Box::new(move || is_on(&needs)),
        waiting,
    };
    (hosting, links)
}

/// Whether registers say so.
#[inline]
pub fn is_on(registers: &Registers) -> bool {
    registers.read(Id::EngineMode) == 1
}

fn settings(registers: &Registers) -> Settings {
    Settings {
        form: [Form::Plain, Form::Staged, Form::Coroutine][registers.size(Id::EngineForm)],
        group: registers.size(Id::EngineGroup),
        quantum: registers.size(Id::EngineQuantum),
        deadline: Nanos::from_micros(registers.read(Id::EngineDeadline)),
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

impl Link {
    /// Stays awake for a reply as long as the registers say. True when there is one.
    pub(super) fn wait_awake(
        &mut self,
        system: &impl System,
        port: &mut EdgePort<Kv>,
        registers: &Registers,
    ) -> bool {
        self.wait(system, (awake(registers), Some(Duration::ZERO)), port) == Outcome::Ready
    }

    /// Waits for a reply.
    pub(super) fn wait_on(&mut self, system: &impl System, port: &mut EdgePort<Kv>, registers: &Registers) {
        self.wait(system, (then(registers), None), port);
    }

    fn wait(
        &mut self,
        system: &impl System,
        how: (WaitPolicy, Option<Duration>),
        port: &mut EdgePort<Kv>,
    ) -> Outcome {
        let outcome = system.wait(&mut self.0, how, || port.is_ready() || port.is_closed());
        assert!(port.is_ready() || !port.is_closed(), "the service left while requests were in flight");
        outcome
    }
}
