//! The engine cores of a process: `engine-0`, `engine-1`, … and the host threads that all of them share.
//!
//! ```text
//!  shell ── makes ──▶ EngineCores ─┬─ EngineCore 0: lock ▸ engine ▸ kv, rec     thread engine-0 ─┐ what blocks
//!                                  ├─ EngineCore 1: lock ▸ engine ▸ rpc         thread engine-1 ─┼───────────▶ host-0, host-1, …
//!                                  │                                                             │
//!  a service ── OnCore::add ──────▶┘            OnCore: its ports, its passes, its questions, its end
//! ```
//! Why engines are the process's and not a service's: cores are what a machine has few of. Which service is on which core is then said in one place
//! (`engine_core` of a config file), and figures, settings and lives stay apart, for they are a service's own on the engine too.
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | all cores, made of what is said and wished |
//! | `engine_core` | one core: its engine behind its lock |
//! | `on_core` | a service on a core |
//! | `thread` | the loop of a core's thread |
//!
//! Invariants
//! 1. Whoever wants the engine takes the core's lock: its thread for passes over all services, edges for passes of their own service
//!    ([`OnCore::try_pass`]), others for questions.
//! 2. The thread takes it only while a service needs the thread: it says so itself, or somebody counts on it ([`OnCore::count_on_thread`]).
//! 3. A core's thread runs from its first service to the end of [`EngineCores`], after the last one. The host threads end after that.
//!
//! Errors: a panic that the engine does not answer ends the process (`guard`): requests in flight would have no answer.

mod engine_core;
mod on_core;
#[cfg(test)]
mod tests;
mod thread;

pub use engine_core::EngineCore;
pub use on_core::{EngineError, Hosting, OnCore};
pub use thread::Members;

use crate::admin::health::{Beat, Pulse};
use engine::HostPool;
use ring::wait::WaitPolicy;
use std::io;
use std::sync::Arc;

/// Pieces of work that a core may have on one host thread.
const HOST_ENTRIES: u32 = 256;

/// What is said of the cores of a process: by its config file, or by the program that it is part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnginePlan {
    /// How many; one at least.
    pub cores: usize,
    /// Processors of their threads, by core; those without one are the system's to place, or as their services wish.
    pub pin: Vec<usize>,
    /// Host threads of the process; else as many as its services wish together.
    pub host_threads: Option<usize>,
}

impl Default for EnginePlan {
    fn default() -> EnginePlan {
        EnginePlan { cores: 1, pin: Vec::new(), host_threads: None }
    }
}

/// What a service wishes of the cores, unless the plan says something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineWishes {
    /// A processor for its core's thread.
    pub pin: Option<usize>,
    /// Host threads.
    pub host_threads: usize,
    /// A processor for host threads.
    pub host_pin: Option<usize>,
    /// How host threads wait; as is usual where nobody says.
    pub host_wait: Option<WaitPolicy>,
}

/// All cores, and the host threads. Dropped after the services.
pub struct EngineCores {
    cores: Vec<Arc<EngineCore>>,
    host: Option<Host>,
}

struct Host {
    pool: HostPool,
    beats: Vec<Beat>,
}

impl EngineCores {
    /// As `plan` says, or else as services wish, each of which comes with the number of its core. Of wishes for one processor the first counts.
    ///
    /// # Errors
    /// The system gives no host threads. (A core's thread is started with its first service.)
    pub fn new(
        plan: &EnginePlan,
        wishes: impl IntoIterator<Item = (usize, EngineWishes)>,
    ) -> io::Result<EngineCores> {
        let wishes: Vec<_> = wishes.into_iter().collect();
        let pin = |core| {
            let wished = || wishes.iter().find_map(|(at, wish)| wish.pin.filter(|_| *at == core));
            plan.pin.get(core).copied().or_else(wished)
        };
        let cores: Vec<_> =
            (0..plan.cores.max(1)).map(|core| Arc::new(EngineCore::new(core, pin(core)))).collect();
        let wished = wishes.iter().map(|(_, wish)| wish.host_threads).sum();
        let threads = plan.host_threads.unwrap_or(wished);
        let waits = wishes.iter().filter_map(|(_, wish)| wish.host_wait);
        let policy = waits.reduce(WaitPolicy::longest).unwrap_or_default();
        let host_pin = wishes.iter().find_map(|(_, wish)| wish.host_pin);
        let host = (threads > 0).then(|| Host::new(threads, policy, host_pin)).transpose()?;
        if let Some(host) = &host {
            cores.iter().for_each(|core| core.set_host(&host.pool));
        }
        Ok(EngineCores { cores, host })
    }

    /// One core for one service.
    ///
    /// # Errors
    /// As [`EngineCores::new`].
    pub fn for_one(wishes: EngineWishes) -> io::Result<EngineCores> {
        EngineCores::new(&EnginePlan::default(), [(0, wishes)])
    }

    /// The core of this number.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn core(&self, number: usize) -> &Arc<EngineCore> {
        &self.cores[number]
    }

    /// What says that the threads turn: `engine-N`, `host-N`.
    pub fn pulses(&self) -> Vec<Pulse> {
        let cores = self.cores.iter().map(EngineCore::pulse);
        let host = self.host.iter().flat_map(|host| {
            let threads = host.pool.wakers().zip(&host.beats).enumerate();
            threads.map(|(number, (waker, beat))| {
                let waker = waker.clone();
                beat.pulse(format!("host-{number}")).woken_by(move || _ = waker.wake())
            })
        });
        cores.chain(host).collect()
    }
}

impl Drop for EngineCores {
    fn drop(&mut self) {
        self.cores.iter().for_each(|core| core.end());
    }
}

impl Host {
    fn new(threads: usize, policy: WaitPolicy, pin: Option<usize>) -> io::Result<Host> {
        let beats = vec![(); threads].into_iter().map(|()| Beat::default()).collect::<Vec<_>>();
        let pool = HostPool::watched(threads, policy, |number| {
            let (beat, mut pin) = (beats[number].clone(), pin);
            move || {
                if let Some(core) = pin.take() {
                    // Where it cannot be kept to its core it runs all the same.
                    let _ = base::cpu::pin_to(core);
                }
                beat.turn();
            }
        })?;
        Ok(Host { pool, beats })
    }
}
