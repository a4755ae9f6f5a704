//! Where methods without streams run, which a register says while the server serves.
//!
//! | `place.handlers` | where |
//! |---|---|
//! | `auto` | on workers if there are any (`workers.count`), else on the server's thread |
//! | `edge` | on the server's thread, which took the request |
//! | `host` | on workers: `workers.count` of them, one at least |
//! | `engine` | on the engine that the server was given ([`Server::engine`](super::Server::engine)); without one as `auto` |
//!
//! Moving: a request stays where it was submitted, and its answer is collected from there; what comes afterwards goes to the new place. So none is
//! lost and none runs twice, and a client that waits for an answer before it asks again sees its own order. One that does not has asked for
//! none: calls in flight together may overtake each other at any place but `edge`.

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

/// See the head of the file.
pub(super) struct Places {
    place: Place,
    /// The workers.
    pub(super) host: Option<Pool>,
    /// The engine.
    pub(super) engine: Option<Box<dyn Executor>>,
}

impl Default for Places {
    fn default() -> Places {
        Places { place: Place::Auto, host: None, engine: None }
    }
}

impl Places {
    /// Where the next request goes; `None` is the server's thread.
    fn current(&mut self) -> Option<&mut dyn Executor> {
        if self.is_engine() {
            return self.engine.as_mut().map(|engine| &mut **engine as _);
        }
        self.host.as_mut().filter(|pool| self.place != Place::Edge && pool.takes()).map(|pool| pool as _)
    }

    fn is_engine(&self) -> bool {
        self.place == Place::Engine && self.engine.as_ref().is_some_and(|engine| engine.takes())
    }

    fn all(&mut self) -> impl Iterator<Item = &mut dyn Executor> {
        let host = self.host.iter_mut().map(|pool| pool as &mut dyn Executor);
        host.chain(self.engine.iter_mut().map(|engine| &mut **engine as _))
    }
}

impl Executor for Places {
    fn takes(&self) -> bool {
        self.is_engine() || (self.place != Place::Edge && self.host.as_ref().is_some_and(Executor::takes))
    }

    fn submit(&mut self, origin: Origin, request: &[u8]) -> Result<(), Full> {
        self.current().ok_or(Full)?.submit(origin, request)
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
    }

    fn closed(&mut self, connection: u64) {
        self.all().for_each(|executor| executor.closed(connection));
    }

    fn follow(&mut self, registers: &Registers) {
        self.place = Place::of(registers);
        self.all().for_each(|executor| executor.follow(registers));
    }
}
