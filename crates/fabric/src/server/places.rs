//! Where methods without streams run, which a register says while the server serves.
//!
//! | `place.handlers` | where |
//! |---|---|
//! | `auto` | on workers if there are any (`workers.count`), else on the server's thread |
//! | `edge` | on the server's thread, which took the request; through the accelerator if there is one and it is on (`acc.on`) |
//! | `host` | on workers: `workers.count` of them, one at least |
//! | `engine` | on the engine that the server was given ([`Server::engine`](super::Server::engine)); without one as `auto` |
//!
//! Moving: a request stays where it was submitted, and its answer is collected from there; what comes afterwards goes to the new place. So none is
//! lost and none runs twice, and a client that waits for an answer before it asks again sees its own order. One that does not has asked for
//! none: calls in flight together may overtake each other at any place but `edge`.

use super::accelerator::Beside;
use super::executor::{Executor, Full, Origin};
use super::workers::Pool;
use crate::registers::{Id, Registers};
use base::units::Nanos;
use rustix::fd::BorrowedFd;

/// A value of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Auto,
    Edge,
    Host,
    Engine,
}

impl Place {
    const ALL: [Place; 4] = [Place::Auto, Place::Edge, Place::Host, Place::Engine];

    fn of(registers: &Registers) -> Place {
        Place::ALL[registers.size(Id::PlaceHandlers)]
    }
}

/// How many workers registers want.
pub(super) fn workers(registers: &Registers) -> usize {
    let count = registers.size(Id::WorkersCount);
    match Place::of(registers) {
        Place::Edge => 0,
        Place::Host => count.max(1),
        Place::Auto | Place::Engine => count,
    }
}

/// Whether registers want handlers on the engine: for whoever drives it.
pub fn wants_engine(registers: &Registers) -> bool {
    Place::of(registers) == Place::Engine
}

/// Where the next request goes, if that is not the server's thread.
#[derive(Clone, Copy)]
enum Elsewhere {
    Host,
    Engine,
    /// On the server's thread after all, when its message is placed.
    Accelerator,
}

/// See the head of the file.
pub(super) struct Places {
    place: Place,
    /// The workers.
    pub(super) host: Option<Pool>,
    /// The engine.
    pub(super) engine: Option<Box<dyn Executor>>,
    /// Before the server's own handlers.
    pub(super) accelerator: Option<Box<dyn Beside>>,
}

impl Default for Places {
    fn default() -> Places {
        Places { place: Place::Auto, host: None, engine: None, accelerator: None }
    }
}

impl Places {
    /// Where the next request goes; `None` is the server's thread.
    fn current(&self) -> Option<Elsewhere> {
        match self.place {
            Place::Edge => self.before_edge(),
            Place::Engine if self.engine.as_ref().is_some_and(|engine| engine.takes()) => {
                Some(Elsewhere::Engine)
            }
            _ => match &self.host {
                Some(pool) if pool.takes() => Some(Elsewhere::Host),
                _ => self.before_edge(),
            },
        }
    }

    fn before_edge(&self) -> Option<Elsewhere> {
        self.accelerator.as_ref().filter(|accelerator| accelerator.takes()).map(|_| Elsewhere::Accelerator)
    }

    fn all(&mut self) -> impl Iterator<Item = &mut dyn Executor> {
        let host = self.host.iter_mut().map(|pool| pool as &mut dyn Executor);
        let engine = self.engine.iter_mut().map(|engine| &mut **engine as _);
        let accelerator =
            self.accelerator.iter_mut().map(|accelerator| &mut **accelerator as &mut dyn Executor);
        host.chain(engine).chain(accelerator)
    }
}

impl Executor for Places {
    fn takes(&self) -> bool {
        self.current().is_some()
    }

    fn submit(&mut self, origin: Origin, request: &[u8]) -> Result<(), Full> {
        let current = self.current();
        let Places { host, engine, accelerator, .. } = self;
        let executor = match current.ok_or(Full)? {
            Elsewhere::Engine => engine.as_mut().map(|engine| &mut **engine as &mut dyn Executor),
            Elsewhere::Host => host.as_mut().map(|pool| pool as _),
            Elsewhere::Accelerator => accelerator.as_mut().map(|accelerator| &mut **accelerator as _),
        };
        executor.ok_or(Full)?.submit(origin, request)
    }

    fn flush(&mut self) {
        self.all().for_each(|executor| executor.flush());
    }

    fn collect(&mut self, now: Nanos, each: &mut dyn FnMut(u64, &[u8])) -> usize {
        self.all().map(|executor| executor.collect(now, each)).sum()
    }

    fn arm(&mut self) -> bool {
        // Both, also when the first has something: an executor that is not armed wakes nobody.
        self.all().fold(true, |quiet, executor| executor.arm() & quiet)
    }

    fn disarm(&mut self) {
        self.all().for_each(|executor| executor.disarm());
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.host.iter().for_each(|pool| pool.descriptors(into));
        self.engine.iter().for_each(|engine| engine.descriptors(into));
        self.accelerator.iter().for_each(|accelerator| accelerator.descriptors(into));
    }

    fn closed(&mut self, connection: u64) {
        self.all().for_each(|executor| executor.closed(connection));
    }

    fn follow(&mut self, registers: &Registers) {
        self.place = Place::of(registers);
        self.all().for_each(|executor| executor.follow(registers));
    }
}
