//! The published protocol in virtual time: what happens to a GET, a SET and a computation, message by message.
//!
//! | flow of the paper's review | here |
//! |---|---|
//! | F1, F2: GET, and its reply, which fills every box on its way | [`World::get`] |
//! | F3: SET goes to the home, which asks every sharer's path to drop its copies; applied when all have answered | [`World::set`], `invalidate` |
//! | F8: a computation in the first box that has the key, else at the home | [`World::compute`] |
//! | without boxes: what the paper calls vanilla | `forth`, `back` |
//!
//! What the paper leaves open, and what is done here: the box that ends an invalidation answers with a message that has no key, which other boxes send on
//! without work. Each sharer's address is asked by a message of its own (G8). Copies and directory change when the message is at the box or home; a
//! reply that was under way may bring an old copy (G2), which costs nothing here. A computation in a box is answered at once and written to the
//! home behind the client's back (G5).
//!
//! The invalidation's time at the server's stack is not counted: the paper prints one 20 us for stack and server, coherence included.

use super::copies::{Copies, Key};
use super::rack::{Leg, Rack, Sizes, Switches, Which, Work};
use crate::kernel::{ProgramId, Step};
use crate::sim::Sim;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Whether boxes take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Switches only forward.
    None,
    /// Every message goes to every box on its way.
    Boxes,
    /// The switch sends a GET to its box only if the box has the key (§4.5 of the paper).
    Filtered,
}

/// What became of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Answered by the client's ToR's box.
    pub first_box: u64,
    /// By another.
    pub later_box: u64,
    /// By the home.
    pub home: u64,
    /// Invalidations that homes sent.
    pub invalidations: u64,
    /// Writes.
    pub writes: u64,
}

/// Everything that operations share.
#[derive(Debug)]
pub struct World {
    /// Time.
    pub sim: Sim,
    /// Hardware. Its kernel is in `sim`.
    pub rack: Rack,
    /// Whether boxes take part.
    pub caching: Caching,
    /// Who has what.
    pub copies: RefCell<Copies>,
    answers: Cell<Answers>,
    /// Programs of legs that were travelled. Never iterated.
    legs: RefCell<HashMap<Leg, ProgramId>>,
    /// Of what boxes send to homes, by box, home and root. Never iterated.
    behind: RefCell<HashMap<(usize, usize, usize), ProgramId>>,
}

/// An operation's client, key and way.
#[derive(Debug)]
struct Way {
    client: usize,
    key: Key,
    switches: Switches,
}

impl World {
    /// At time 0.
    pub fn new(mut rack: Rack, caching: Caching, copies: Copies) -> World {
        let kernel = std::mem::replace(&mut rack.kernel, crate::Kernel::new(0));
        World {
            sim: Sim::new(kernel),
            rack,
            caching,
            copies: RefCell::new(copies),
            answers: Cell::default(),
            legs: RefCell::default(),
            behind: RefCell::default(),
        }
    }

    /// What became of reads since this was asked.
    pub fn take_answers(&self) -> Answers {
        self.answers.take()
    }

    fn count(&self, change: impl Fn(&mut Answers)) {
        let mut answers = self.answers.get();
        change(&mut answers);
        self.answers.set(answers);
    }

    fn sizes(&self) -> Sizes {
        self.rack.sizes
    }

    async fn travel(&self, leg: Leg) {
        let known = self.legs.borrow().get(&leg).copied();
        let program = known.unwrap_or_else(|| {
            let program = self.program("leg", &[leg]);
            self.legs.borrow_mut().insert(leg, program);
            program
        });
        self.sim.perform(program, 0).await;
    }

    fn way(&self, client: usize, key: Key) -> Way {
        Way { client, key, switches: self.rack.switches(client, key.home, key.root) }
    }

    /// Reads a key.
    pub async fn get(&self, client: usize, key: Key) {
        let sizes = self.sizes();
        let way = self.way(client, key);
        if self.caching == Caching::None {
            return self.round_trip(&way, sizes.key, sizes.value).await;
        }
        self.travel(Leg::ClientSends(Which::One(client), sizes.key)).await;
        let found = self.look_for(&way, sizes.key).await;
        match found {
            Some(0) => self.count(|answers| answers.first_box += 1),
            Some(_) => self.count(|answers| answers.later_box += 1),
            None => self.count(|answers| answers.home += 1),
        }
        if found != Some(0) {
            self.copies.borrow_mut().share(key, client);
        }
        let missed = match found {
            Some(at) => {
                self.travel(Leg::Leave(way.switches[at], sizes.value)).await;
                at
            }
            None => {
                self.serve(&way, sizes.key).await;
                self.travel(Leg::ServerSends(Which::One(key.home), sizes.value)).await;
                way.switches.len()
            }
        };
        let keep = |at: usize| self.copies.borrow_mut().keep(at, key);
        self.return_by(&way, missed, sizes.value, keep).await;
        self.travel(Leg::ClientReceives(Which::One(client), sizes.value)).await;
    }

    /// Goes from box to box; which has the key: the request is in that box then, else before the home's cable.
    async fn look_for(&self, way: &Way, bytes: u64) -> Option<usize> {
        for (i, at) in way.switches.iter().copied().enumerate() {
            if i > 0 {
                self.travel(Leg::Trunk(way.switches[i - 1], at, bytes)).await;
            }
            if self.caching == Caching::Filtered && !self.copies.borrow().has(at, way.key) {
                continue;
            }
            self.travel(Leg::Enter(at, bytes, Work::Key)).await;
            if self.copies.borrow_mut().touch(at, way.key) {
                return Some(i);
            }
            self.travel(Leg::Leave(at, bytes)).await;
        }
        None
    }

    /// From where it is, at switch `above` of the way or at the home's, through all boxes below to the client's cable.
    async fn return_by(&self, way: &Way, above: usize, bytes: u64, at_box: impl Fn(usize)) {
        for i in (0..above).rev() {
            let at = way.switches[i];
            if i + 1 < way.switches.len() {
                self.travel(Leg::Trunk(way.switches[i + 1], at, bytes)).await;
            }
            self.travel(Leg::Enter(at, bytes, Work::Key)).await;
            at_box(at);
            self.travel(Leg::Leave(at, bytes)).await;
        }
    }

    async fn serve(&self, way: &Way, bytes: u64) {
        self.travel(Leg::ServerReceives(Which::One(way.key.home), bytes)).await;
        self.travel(Leg::Serves(Which::One(way.key.home))).await;
    }

    /// Without boxes.
    async fn round_trip(&self, way: &Way, request: u64, reply: u64) {
        let (client, server) = (Which::One(way.client), Which::One(way.key.home));
        self.travel(Leg::ClientSends(client, request)).await;
        for pair in way.switches.windows(2) {
            self.travel(Leg::Trunk(pair[0], pair[1], request)).await;
        }
        self.serve(way, request).await;
        self.travel(Leg::ServerSends(server, reply)).await;
        for pair in way.switches.windows(2).rev() {
            self.travel(Leg::Trunk(pair[1], pair[0], reply)).await;
        }
        self.travel(Leg::ClientReceives(client, reply)).await;
    }

    /// Writes a key.
    pub async fn set(&self, client: usize, key: Key) {
        let sizes = self.sizes();
        let way = self.way(client, key);
        self.count(|answers| answers.writes += 1);
        self.write(&way, sizes.value).await;
    }

    /// A request of so many bytes that changes a key.
    async fn write(&self, way: &Way, bytes: u64) {
        let sizes = self.sizes();
        if self.caching == Caching::None {
            return self.round_trip(way, bytes, sizes.key).await;
        }
        self.travel(Leg::ClientSends(Which::One(way.client), bytes)).await;
        for (i, at) in way.switches.iter().copied().enumerate() {
            if i > 0 {
                self.travel(Leg::Trunk(way.switches[i - 1], at, bytes)).await;
            }
            self.travel(Leg::Enter(at, bytes, Work::Key)).await;
            self.travel(Leg::Leave(at, bytes)).await;
        }
        self.serve(way, bytes).await;
        let sharers = self.copies.borrow_mut().take_sharers(way.key);
        all(sharers.map(|sharer| self.invalidate(sharer, way.key)).collect()).await;
        self.travel(Leg::ServerSends(Which::One(way.key.home), sizes.key)).await;
        self.return_by(way, way.switches.len(), sizes.key, |_| ()).await;
        self.travel(Leg::ClientReceives(Which::One(way.client), sizes.key)).await;
    }

    /// From the home along a sharer's way; the box of its ToR answers.
    async fn invalidate(&self, sharer: usize, key: Key) {
        let sizes = self.sizes();
        let way = self.way(sharer, key);
        self.count(|answers| answers.invalidations += 1);
        self.travel(Leg::FromServer(Which::One(key.home), sizes.key)).await;
        for i in (0..way.switches.len()).rev() {
            let at = way.switches[i];
            if i + 1 < way.switches.len() {
                self.travel(Leg::Trunk(way.switches[i + 1], at, sizes.key)).await;
            }
            self.travel(Leg::Enter(at, sizes.key, Work::Key)).await;
            self.copies.borrow_mut().drop_copy(at, key);
            self.travel(Leg::Leave(at, if i == 0 { sizes.bare } else { sizes.key })).await;
        }
        for pair in way.switches.windows(2) {
            self.travel(Leg::Trunk(pair[0], pair[1], sizes.bare)).await;
            self.travel(Leg::Enter(pair[1], sizes.bare, Work::Bounce)).await;
            self.travel(Leg::Leave(pair[1], sizes.bare)).await;
        }
        self.travel(Leg::ToServer(Which::One(key.home), sizes.bare)).await;
    }

    /// Has a key's number changed by whoever has the key: the first box that does, else the home.
    pub async fn compute(&self, client: usize, key: Key) {
        let sizes = self.sizes();
        let way = self.way(client, key);
        if self.caching == Caching::None {
            return self.round_trip(&way, sizes.number, sizes.key).await;
        }
        self.travel(Leg::ClientSends(Which::One(client), sizes.number)).await;
        match self.look_for(&way, sizes.number).await {
            Some(at) => {
                self.count(|answers| answers.first_box += 1);
                let behind = self.write_behind(&way, at);
                self.sim.with(|k| k.begin(behind, 0));
                self.travel(Leg::Leave(way.switches[at], sizes.key)).await;
                self.return_by(&way, at, sizes.key, |_| ()).await;
            }
            None => {
                self.count(|answers| answers.home += 1);
                self.serve(&way, sizes.number).await;
                self.travel(Leg::ServerSends(Which::One(key.home), sizes.key)).await;
                self.return_by(&way, way.switches.len(), sizes.key, |_| ()).await;
            }
        }
        self.travel(Leg::ClientReceives(Which::One(client), sizes.key)).await;
    }

    /// What a box sends to the home after it has answered, and what that does there.
    fn write_behind(&self, way: &Way, from: usize) -> ProgramId {
        let which = (way.switches[from], way.key.home, way.key.root);
        let known = self.behind.borrow().get(&which).copied();
        known.unwrap_or_else(|| {
            let bytes = self.sizes().number;
            let mut legs = vec![Leg::Leave(which.0, bytes)];
            for pair in way.switches[from..].windows(2) {
                let on = Leg::Trunk(pair[0], pair[1], bytes);
                legs.extend([on, Leg::Enter(pair[1], bytes, Work::Key), Leg::Leave(pair[1], bytes)]);
            }
            let home = Which::One(way.key.home);
            legs.extend([Leg::ServerReceives(home, bytes), Leg::Serves(home)]);
            let program = self.program("write behind", &legs);
            self.behind.borrow_mut().insert(which, program);
            program
        })
    }

    fn program(&self, name: &str, legs: &[Leg]) -> ProgramId {
        let steps: Vec<Step> =
            legs.iter().flat_map(|leg| self.rack.steps(*leg)).map(|(_, step)| step).collect();
        self.sim.with(|k| k.program(name, steps))
    }

    /// A client reads a number, computes, and writes it: no boxes.
    pub async fn compute_at_client(&self, client: usize, key: Key) {
        let sizes = self.sizes();
        let way = self.way(client, key);
        self.round_trip(&way, sizes.key, sizes.number).await;
        self.round_trip(&way, sizes.number, sizes.key).await;
    }
}

/// Waits for all of them.
async fn all<'a>(futures: Vec<impl Future<Output = ()> + 'a>) {
    let mut left: Vec<Pin<Box<dyn Future<Output = ()> + 'a>>> =
        futures.into_iter().map(|future| Box::pin(future) as _).collect();
    poll_fn(|context| {
        left.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if left.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Picos;
    use crate::platform::shipped::shipped;
    use crate::system::incbricks::copies::{Entries, Traffic};
    use crate::system::incbricks::flows::Route;
    use crate::system::incbricks::rack::{Deployment, Part};
    use std::rc::Rc;

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Get,
        Set,
    }

    /// How long one operation takes alone, of client 0 and the key of this rank, after client `reader` has read it.
    fn alone(deployment: Deployment, caching: Caching, operation: Operation, reader: Option<usize>) -> Picos {
        let platform = shipped("xpliant-octeon").expect("it is shipped").expect("it is sound");
        let rack = Rack::new(&platform, deployment, 1).expect("it is complete");
        let traffic = Traffic::new(&platform, 0.99).expect("it is complete");
        let key = Copies::key(&rack, &traffic, 0, 40);
        let copies = Copies::empty(&rack, &traffic, Entries { tor: 8, root: 8 });
        let world = Rc::new(World::new(rack, caching, copies));
        let took = Rc::new(Cell::new(Picos::ZERO));
        let (of, result) = (Rc::clone(&world), Rc::clone(&took));
        world.sim.spawn(async move {
            if let Some(reader) = reader {
                of.get(reader, key).await;
            }
            let begun = of.sim.now();
            match operation {
                Operation::Get => of.get(0, key).await,
                Operation::Set => of.set(0, key).await,
            }
            result.set(of.sim.now().since(begun));
        });
        world.sim.run_until(Picos::from_micros(10_000));
        took.get()
    }

    #[test]
    fn messages_are_those_of_the_breakdown() {
        let platform = shipped("xpliant-octeon").expect("it is shipped").expect("it is sound");
        for deployment in [Deployment::Within, Deployment::Cross] {
            let rack = Rack::new(&platform, deployment, 1).expect("it is complete");
            let (s, key) = (rack.sizes, (0, 0));
            let route = |boxes| {
                let switches = rack.switches(0, key.0, key.1);
                Route::new(Which::One(0), Which::One(key.0), &switches, boxes)
            };
            let time = |legs: Vec<Leg>| {
                let parts = [Part::Stack, Part::Server, Part::Switch, Part::Box];
                parts.map(|part| rack.time_in(part, &legs)).into_iter().fold(Picos::ZERO, Picos::plus)
            };
            let (with, without) = (route(true), route(false));
            let told = with.invalidation(s.key, s.bare);
            let (none, boxes) = (Caching::None, Caching::Boxes);
            let cases = [
                (none, Operation::Get, None, time(without.at_server(s.key, s.value, vec![]))),
                (none, Operation::Set, None, time(without.at_server(s.value, s.key, vec![]))),
                (boxes, Operation::Get, None, time(with.at_server(s.key, s.value, vec![]))),
                (boxes, Operation::Get, Some(0), time(with.at_box(0, s.key, s.value))),
                (boxes, Operation::Set, None, time(with.at_server(s.value, s.key, vec![]))),
                (boxes, Operation::Set, Some(0), time(with.at_server(s.value, s.key, told))),
            ];
            for (caching, operation, reader, wanted) in cases {
                let took = alone(deployment, caching, operation, reader);
                assert_eq!(took, wanted, "{deployment:?} {caching:?} {operation:?} after {reader:?}");
            }
        }
    }

    #[test]
    fn a_box_above_answers_whose_own_box_has_nothing() {
        // Client 1 is behind the other ToR: it fills the root's box, and client 0 finds the key there.
        let (root, server) = (
            alone(Deployment::Cross, Caching::Boxes, Operation::Get, Some(1)),
            alone(Deployment::Cross, Caching::Boxes, Operation::Get, None),
        );
        let own = alone(Deployment::Cross, Caching::Boxes, Operation::Get, Some(0));
        assert!(own < root && root < server, "{own} {root} {server}");
        // Who filters spares the detours of a miss on the way there, not those of the reply.
        let filtered = alone(Deployment::Cross, Caching::Filtered, Operation::Get, None);
        assert!(filtered < server);
    }
}
