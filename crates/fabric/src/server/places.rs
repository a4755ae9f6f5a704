//! Where methods without streams run, which a register says while the server serves.
//!
//! | `place.handlers` | where |
//! |---|---|
//! | `auto` | on workers if there are any (`workers.count`), else on the server's thread |
//! | `edge` | on the server's thread, which took the request; through the accelerator if there is one and it is on (`acc.on`) |
//! | `host` | on workers: `workers.count` of them, one at least |
//! | `engine` | on the engine that the server was given ([`Server::engine`](super::Server::engine)); without one as `auto` |
//!
//! A method that says where it may run (option `(millrace.places)`) runs there, whatever the register says: where the register says if it
//! may, else on workers, on the engine or on the server's thread, the first of these that it may and that there is. A call of one that
//! there is no place for is refused.
//!
//! Split: of methods that may run at `place.other` as well, `place.share` percent of the requests go there and the others where `place.handlers`
//! says ([`Route`]). Which ones their hash says, that of their line if they are in order, else of their key, else of their call
//! ([`Router::part`](super::router::Router::part)): the same line and the same key have the same place, so every order stays, and nothing of it needs to be
//! refused. What may not run there, or where there is no such place, goes where it went. A share that grows takes further keys along and moves no other.
//!
//! Moving: a request stays where it was submitted, and its answer is collected from there; what comes afterwards goes to the new place. So none is
//! lost and none runs twice, and a client that waits for an answer before it asks again sees its own order. One that does not has asked for
//! none: calls in flight together may overtake each other at any place but `edge`, unless their methods are in order.
//!
//! Methods in order (option `(millrace.order)`): each place executes the requests of a line as they were submitted, and all methods of a line
//! run at one place. When the route of lines changes, the first such request waits until the places before have answered all they have, and so does what
//! would be submitted there meanwhile ([`Target::Wait`]).

use super::accelerator::Beside;
use super::executor::{Executor, Full, Origin};
use super::workers::Pool;
use crate::registers::{Id, Registers};
use crate::service::{Place as Allowed, Places as AllowedPlaces};
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

/// The other place that registers split with, if they do, and the percent of requests there.
fn split(registers: &Registers) -> Option<(Allowed, u8)> {
    let share = registers.read(Id::PlaceShare) as u8;
    (share > 0).then(|| (Allowed::ALL[registers.size(Id::PlaceOther)], share))
}

fn is_split_with(registers: &Registers, place: Allowed) -> bool {
    split(registers).is_some_and(|(other, _)| other == place)
}

/// How many workers registers want; `needed` if some method runs nowhere else.
pub(super) fn workers(registers: &Registers, needed: bool) -> usize {
    let count = registers.size(Id::WorkersCount);
    let needed = needed || is_split_with(registers, Allowed::Host);
    match Place::of(registers) {
        Place::Edge if !needed => 0,
        Place::Auto | Place::Engine if !needed => count,
        _ => count.max(1),
    }
}

/// Whether registers want handlers on the engine: for whoever drives it.
pub fn wants_engine(registers: &Registers) -> bool {
    Place::of(registers) == Place::Engine || is_split_with(registers, Allowed::Engine)
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The server's thread runs it.
    Here,
    /// To [`Places::submit`].
    There(At),
    /// Nowhere yet: those before it in its line, or others of whom the line waits, are not done.
    Wait,
    /// Its method may run nowhere that there is.
    Nowhere,
}

/// A place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Edge,
    Host,
    Engine,
    /// On the server's thread after all, when its message is placed.
    Accelerator,
}

impl At {
    fn of(place: Allowed) -> At {
        match place {
            Allowed::Edge => At::Edge,
            Allowed::Host => At::Host,
            Allowed::Engine => At::Engine,
        }
    }

    /// As spans and recordings have it.
    pub(super) fn shown(self) -> base::trace::Place {
        match self {
            At::Edge => base::trace::Place::Edge,
            At::Host => base::trace::Place::Host,
            At::Engine => base::trace::Place::Engine,
            At::Accelerator => base::trace::Place::Accelerator,
        }
    }
}

/// Parts of requests by their hash: what a share is counted in.
pub(super) const PARTS: u64 = 100;

/// Where requests of some methods go, by their part: those below `share` to `other`, the rest to `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    at: At,
    other: At,
    share: u8,
}

impl Route {
    fn of(at: At, (other, share): (At, u8)) -> Route {
        if at == other { Route { at, other, share: 0 } } else { Route { at, other, share } }
    }

    fn place(self, part: u8) -> At {
        if part < self.share { self.other } else { self.at }
    }

    fn places(self) -> [At; 2] {
        [self.at, if self.share > 0 { self.other } else { self.at }]
    }
}

/// See the head of the file.
pub(super) struct Places {
    place: Place,
    split: Option<(Allowed, u8)>,
    /// The workers.
    pub(super) host: Option<Pool>,
    /// The engine.
    pub(super) engine: Option<Box<dyn Executor>>,
    /// The route of the last request that was in a line, by the places of its methods.
    lines: [Option<Route>; AllowedPlaces::SETS],
    /// Places that are to be done before lines go on elsewhere, by [`At`].
    draining: [bool; 4],
    /// Before the server's own handlers.
    pub(super) accelerator: Option<Box<dyn Beside>>,
}

impl Default for Places {
    fn default() -> Places {
        let lines = [None; AllowedPlaces::SETS];
        Places {
            place: Place::Auto,
            split: None,
            host: None,
            engine: None,
            lines,
            draining: [false; 4],
            accelerator: None,
        }
    }
}

impl Places {
    fn is_there(&self, at: At) -> bool {
        match at {
            At::Edge => true,
            At::Host => self.host.as_ref().is_some_and(|pool| pool.takes()),
            At::Engine => self.engine.as_ref().is_some_and(|engine| engine.takes()),
            At::Accelerator => self.accelerator.as_ref().is_some_and(|accelerator| accelerator.takes()),
        }
    }

    /// What the register says, of what there is.
    fn current(&self) -> At {
        match self.place {
            Place::Edge => At::Edge,
            Place::Engine if self.is_there(At::Engine) => At::Engine,
            _ if self.is_there(At::Host) => At::Host,
            _ => At::Edge,
        }
    }

    /// Whether requests are to be submitted: of methods that may run anywhere, or of lines that go on.
    pub(super) fn takes(&self) -> bool {
        let is_elsewhere = |route: Route| route.places().iter().any(|at| *at != At::Edge);
        self.route(AllowedPlaces::ANY).is_some_and(is_elsewhere)
            || self.lines.iter().any(|last| last.is_some_and(is_elsewhere))
    }

    /// Whether the part of a request is asked for.
    pub(super) fn is_split(&self) -> bool {
        self.split.is_some()
    }

    /// The route of methods that may run at `allowed`; none if nothing of it is there.
    fn route(&self, allowed: AllowedPlaces) -> Option<Route> {
        let may = |at: At| self.is_there(at) && allowed.iter().any(|place| At::of(place) == at);
        let first = [self.current(), At::Host, At::Engine, At::Edge].into_iter().find(|at| may(*at))?;
        let split = self.split.map(|(other, share)| (At::of(other), share)).filter(|(other, _)| may(*other));
        let (other, share) = split.unwrap_or((first, 0));
        Some(Route::of(self.beside(first), (self.beside(other), share)))
    }

    /// Where a request of this part goes whose method may run at `allowed`, and is in a line or not.
    pub(super) fn target(&mut self, allowed: AllowedPlaces, is_in_line: bool, part: u8) -> Target {
        let Some(route) = self.route(allowed) else { return Target::Nowhere };
        let at = route.place(part);
        if is_in_line {
            let last = self.lines[allowed.number()].unwrap_or(route);
            if last != route && self.drain(last) {
                return Target::Wait;
            }
            self.draining[at as usize] = false;
            self.lines[allowed.number()] = Some(route);
        } else if self.draining[at as usize] {
            if self.in_flight(at) > 0 {
                return Target::Wait;
            }
            self.draining[at as usize] = false;
        }
        if at == At::Edge { Target::Here } else { Target::There(at) }
    }

    /// Has the places of a route do all they have before they get more; whether they have anything.
    fn drain(&mut self, route: Route) -> bool {
        let busy = route.places().map(|at| (at, self.in_flight(at) > 0));
        busy.iter().filter(|(_, is_busy)| *is_busy).for_each(|(at, _)| self.draining[*at as usize] = true);
        busy.iter().any(|(_, is_busy)| *is_busy)
    }

    fn in_flight(&self, at: At) -> usize {
        match at {
            At::Edge => 0,
            At::Host => self.host.as_ref().map_or(0, Executor::in_flight),
            At::Engine => self.engine.as_ref().map_or(0, |engine| engine.in_flight()),
            At::Accelerator => self.accelerator.as_ref().map_or(0, |accelerator| accelerator.in_flight()),
        }
    }

    /// Where it is executed in truth: what is for the server's thread goes through the accelerator, if there is one.
    fn beside(&self, at: At) -> At {
        match &self.accelerator {
            Some(accelerator) if at == At::Edge && accelerator.takes() => At::Accelerator,
            _ => at,
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut dyn Executor> {
        let host = self.host.iter_mut().map(|pool| pool as &mut dyn Executor);
        let engine = self.engine.iter_mut().map(|engine| &mut **engine as _);
        let accelerator =
            self.accelerator.iter_mut().map(|accelerator| &mut **accelerator as &mut dyn Executor);
        host.chain(engine).chain(accelerator)
    }

    /// As [`Executor::submit`], at that place.
    pub(super) fn submit(&mut self, at: At, origin: Origin, request: &[u8]) -> Result<(), Full> {
        let Places { host, engine, accelerator, .. } = self;
        let executor = match at {
            At::Edge => None,
            At::Host => host.as_mut().map(|pool| pool as &mut dyn Executor),
            At::Engine => engine.as_mut().map(|engine| &mut **engine as _),
            At::Accelerator => accelerator.as_mut().map(|accelerator| &mut **accelerator as _),
        };
        executor.ok_or(Full)?.submit(origin, request)
    }

    pub(super) fn flush(&mut self) {
        self.all().for_each(|executor| executor.flush());
    }

    pub(super) fn collect(&mut self, now: Nanos, each: &mut dyn FnMut(u64, &[u8])) -> usize {
        self.all().map(|executor| executor.collect(now, each)).sum()
    }

    pub(super) fn arm(&mut self) -> bool {
        // Both, also when the first has something: an executor that is not armed wakes nobody.
        self.all().fold(true, |quiet, executor| executor.arm() & quiet)
    }

    pub(super) fn disarm(&mut self) {
        self.all().for_each(|executor| executor.disarm());
    }

    pub(super) fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.host.iter().for_each(|pool| pool.descriptors(into));
        self.engine.iter().for_each(|engine| engine.descriptors(into));
        self.accelerator.iter().for_each(|accelerator| accelerator.descriptors(into));
    }

    pub(super) fn closed(&mut self, connection: u64) {
        self.all().for_each(|executor| executor.closed(connection));
    }

    pub(super) fn follow(&mut self, registers: &Registers) {
        (self.place, self.split) = (Place::of(registers), split(registers));
        self.all().for_each(|executor| executor.follow(registers));
    }
}

#[cfg(test)]
mod tests;
