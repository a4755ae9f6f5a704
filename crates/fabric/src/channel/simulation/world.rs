//! One run: a client that does what comes to its mind, a server, links between them, and a ledger of what each call was promised.

use super::Planted;
use super::cable::{Cable, Weather};
use super::peer::{CALLS, Line, Method, Other, Peer, is_unknown, item, items_of};
use super::real::Real;
use crate::channel::calls::CallId;
use crate::channel::{CallOptions, Channel, Connecting, Event, Options, StartError, Switch, What};
use crate::status::Code;
use base::prng::Prng;
use base::units::Nanos;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known of a call besides what the channel says.
struct Entry {
    method: Method,
    call: CallId,
    deadline: Option<u64>,
    cancelled: bool,
    items: u32,
    sent: u32,
    finished: bool,
    outcome: Option<Code>,
}

struct World {
    random: Prng,
    planted: Option<Planted>,
    now: u64,
    weather: Weather,
    channel: Channel,
    peer: Box<dyn Other>,
    side: Side,
    /// The cable in use, and those before.
    cables: Vec<Cable>,
    /// A link was cut in this connection.
    cut: bool,
    ledger: BTreeMap<u64, Entry>,
    /// The first call of this connection; a channel knows nothing of another's calls.
    first: u64,
    executed: BTreeMap<u64, u32>,
    error: Option<String>,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The few lines of [`Peer`].
    Model,
    /// The server.
    Server,
}

/// Runs a seed to its end.
pub(super) fn run(seed: u64, side: Side, planted: Option<Planted>) -> Result<(), String> {
    let mut world = World::new(seed, side, planted)?;
    for _ in 0..600 {
        world.act();
        world.check()?;
    }
    world.settle()
}

impl World {
    fn new(seed: u64, side: Side, planted: Option<Planted>) -> Result<World, String> {
        let mut random = Prng::for_entity(seed, 0, 1);
        let weather = Weather {
            room: [2, 4, 30, 1000][random.below(4) as usize],
            delay_ns: [0, 1_000, 30_000][random.below(3) as usize],
            reorders: random.chance(0.6),
        };
        let (channel, peer, cable) = connect(&mut random, weather, side, planted, 0)?;
        Ok(World {
            random,
            planted,
            now: 0,
            weather,
            channel,
            peer,
            side,
            cables: vec![cable],
            cut: false,
            ledger: BTreeMap::new(),
            first: 0,
            executed: BTreeMap::new(),
            error: None,
        })
    }

    fn act(&mut self) {
        // The channel knows the time of its last poll only.
        self.channel.poll_at(Nanos(self.now), 0, |_| {});
        match self.random.below(1000) {
            0..250 => self.start(),
            250..400 => self.stream(),
            400..430 => self.cancel(),
            430..650 => self.poll(),
            650..850 => self.serve(),
            850..985 => self.now += self.random.below(40_000),
            985..994 => self.switch(),
            994..997 => self.cut_one(),
            _ => self.channel.flush(),
        }
    }

    fn start(&mut self) {
        let id = self.ledger.len() as u64;
        let method = Method::ALL[self.random.below(4) as usize];
        let timeout = self.random.chance(0.3).then(|| Duration::from_micros(20 + self.random.below(800)));
        let metadata = id.to_le_bytes();
        let options = CallOptions { timeout, metadata: &metadata, explicit_credit: false };
        let named = self.channel.method(&format!("/demo.Echo/{method:?}")).expect("the peer has it");
        let body = if method.takes_stream() { &[][..] } else { &metadata };
        match self.channel.start(named, &options, id, body) {
            Ok(call) => {
                let deadline = timeout.map(|timeout| self.now + timeout.as_nanos() as u64);
                let (cancelled, finished) = (false, !method.takes_stream());
                let entry =
                    Entry { method, call, deadline, cancelled, items: 0, sent: 0, finished, outcome: None };
                self.ledger.insert(id, entry);
            }
            Err(StartError::Full | StartError::Gone) => {}
            Err(error) => self.wrong(format!("a call is refused: {error}")),
        }
    }

    /// Sends an item of some stream, or finishes it.
    fn stream(&mut self) {
        let open: Vec<u64> = self
            .ledger
            .iter()
            .filter(|(_, entry)| !entry.finished && entry.outcome.is_none())
            .map(|(&id, _)| id)
            .collect();
        if open.is_empty() {
            return;
        }
        let id = open[self.random.below(open.len() as u64) as usize];
        let entry = self.ledger.get_mut(&id).expect("listed just now");
        let done = entry.sent >= 12 || self.random.chance(0.1);
        let result = if done {
            self.channel.finish(entry.call)
        } else {
            self.channel.send(entry.call, &item(id, entry.sent))
        };
        match result {
            Ok(()) if done => entry.finished = true,
            Ok(()) => entry.sent += 1,
            // Its Reply may be there, with items to be handed out before it.
            Err(StartError::Full | StartError::Gone | StartError::Ended) => {}
            Err(error) => self.wrong(format!("call {id}: an item is refused: {error}")),
        }
    }

    /// Gives up some call, over or not.
    fn cancel(&mut self) {
        let count = self.ledger.len() as u64 - self.first;
        if count == 0 {
            return;
        }
        let id = self.first + count - 1 - self.random.below(count.min(20));
        let entry = self.ledger.get_mut(&id).expect("ids are dense");
        entry.cancelled |= entry.outcome.is_none();
        self.channel.cancel(entry.call);
    }

    fn poll(&mut self) {
        let World { channel, ledger, error, now, cut, planted, .. } = self;
        let max = self.random.below(6) as usize;
        channel.poll_at(Nanos(*now), max, |event| {
            if let Err(wrong) = enter(ledger, &event, *now, *cut || planted.is_some()) {
                error.get_or_insert(wrong);
            }
        });
    }

    fn serve(&mut self) {
        for _ in 0..=self.random.below(4) {
            if let Err(wrong) = self.peer.turn(Nanos(self.now)) {
                self.wrong(format!("the peer: {wrong}"));
            }
        }
    }

    fn switch(&mut self) {
        let Line { cable, ours, theirs } = lay(&mut self.random, self.weather);
        if self.channel.switch(ours).is_ok() {
            self.peer.accept(theirs);
            self.cables.push(cable);
        }
    }

    /// Cuts some link, old or new.
    fn cut_one(&mut self) {
        let at = self.random.below(self.cables.len() as u64) as usize;
        // One that is not in use any more costs nothing; one of the last three may.
        self.cut |= at + 3 >= self.cables.len();
        self.cables[at].cut();
    }

    fn check(&mut self) -> Result<(), String> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if let Some(why) = self.channel.end()
            && !self.cut
        {
            return Err(format!("the connection ended though no link was cut: {why}"));
        }
        let bounds = self.channel.core.waiting();
        if bounds > 4 * CALLS as usize {
            return Err(format!("{bounds} things wait for {CALLS} calls"));
        }
        if self.channel.end().is_some() && self.channel.in_flight() == 0 {
            self.reconnect()?;
        }
        Ok(())
    }

    /// The connection is over and its calls were told: a new server.
    fn reconnect(&mut self) -> Result<(), String> {
        self.poll();
        if self.channel.core.waiting() > 0 {
            return Ok(());
        }
        if let Some((id, _)) = self.ledger.iter().find(|(_, entry)| entry.outcome.is_none()) {
            return Err(format!("call {id} has no outcome though its connection is over"));
        }
        let (channel, peer, cable) =
            connect(&mut self.random, self.weather, self.side, self.planted, self.now)?;
        self.channel = channel;
        self.first = self.ledger.len() as u64;
        let mut before = std::mem::replace(&mut self.peer, peer);
        merge(&mut self.executed, before.executed());
        (self.cables, self.cut) = (vec![cable], false);
        Ok(())
    }

    /// No more faults: everything must come to its end.
    fn settle(&mut self) -> Result<(), String> {
        let mut quiet = 0;
        for _ in 0..20_000 {
            self.stream();
            self.poll();
            self.serve();
            self.now += 5_000;
            self.check()?;
            let over = self.ledger.values().all(|entry| entry.outcome.is_some());
            let still = self.cut || self.channel.in_flight() == 0 && self.peer.open_calls() == 0;
            let one_link = self.channel.switching() == Switch::Idle && !self.peer.is_switching();
            quiet = if over && still && one_link { quiet + 1 } else { 0 };
            if quiet > 50 {
                break;
            }
        }
        if quiet == 0 {
            let open: Vec<u64> =
                self.ledger.iter().filter(|(_, entry)| entry.outcome.is_none()).map(|(&id, _)| id).collect();
            let (ours, theirs) = (self.channel.in_flight(), self.peer.open_calls());
            return Err(format!(
                "it does not come to rest: calls {open:?}; in flight here {ours}, there {theirs}; {:?}",
                self.channel.switching()
            ));
        }
        merge(&mut self.executed, self.peer.executed());
        for (id, entry) in &self.ledger {
            let times = self.executed.get(id).copied().unwrap_or(0);
            let answered = matches!(entry.outcome, Some(Code::Ok | Code::NotFound));
            if times > 1 || answered && times == 0 {
                return Err(format!("call {id} ran {times} times and ended as {:?}", entry.outcome));
            }
        }
        Ok(())
    }

    fn wrong(&mut self, error: String) {
        self.error.get_or_insert(error);
    }
}

fn merge(into: &mut BTreeMap<u64, u32>, from: BTreeMap<u64, u32>) {
    for (id, times) in from {
        *into.entry(id).or_default() += times;
    }
}

fn lay(random: &mut Prng, weather: Weather) -> Line {
    let (cable, ours, theirs) = Cable::lay(weather, random.next_u64());
    Line { cable, ours, theirs }
}

fn connect(
    random: &mut Prng,
    weather: Weather,
    side: Side,
    planted: Option<Planted>,
    now: u64,
) -> Result<(Channel, Box<dyn Other>, Cable), String> {
    let Line { cable, ours, theirs } = lay(random, weather);
    let seed = random.next_u64();
    let mut peer: Box<dyn Other> = match side {
        Side::Model => Box::new(Peer::new(theirs, seed)),
        Side::Server => Box::new(Real::new(theirs, seed)),
    };
    let mut connecting = Connecting::new(ours, &Options::default());
    for step in 0.. {
        let now = Nanos(now + step * 10_000);
        connecting = match connecting.poll(now).map_err(|error| error.to_string())? {
            Ok(mut channel) => {
                channel.core.plant(planted);
                channel.poll_at(now, 0, |_| {});
                return Ok((channel, peer, cable));
            }
            Err(connecting) => connecting,
        };
        peer.turn(now)?;
    }
    unreachable!("a handshake ends");
}

/// Enters an event into the ledger; what is wrong with it.
fn enter(ledger: &mut BTreeMap<u64, Entry>, event: &Event<'_>, now: u64, cut: bool) -> Result<(), String> {
    let id = event.user;
    let Some(entry) = ledger.get_mut(&id) else { return Err(format!("an event of no call: {id}")) };
    let wrong = |what: String| Err(format!("call {id} ({:?}): {what}", entry.method));
    if let Some(outcome) = entry.outcome {
        return wrong(format!("{:?} after its outcome {outcome}", event.what));
    }
    if event.call != entry.call {
        return wrong("an event under another number".into());
    }
    let code = match &event.what {
        What::Item(body) => {
            let right = entry.method.gives_stream() && **body == *item(id, entry.items);
            entry.items += 1;
            return if right { Ok(()) } else { wrong(format!("item {} is another one", entry.items - 1)) };
        }
        What::Reply(body) => {
            let expected = match entry.method {
                Method::Say => id.to_le_bytes().to_vec(),
                Method::Sum => item(id, entry.sent),
                _ => return wrong("a reply instead of an end".into()),
            };
            if **body != *expected {
                return wrong("another call's reply".into());
            }
            Code::Ok
        }
        What::End => {
            let expected = if entry.method == Method::Count { items_of(id) } else { entry.sent };
            if entry.items != expected {
                return wrong(format!("{} items of {expected}", entry.items));
            }
            Code::Ok
        }
        What::Failed(status) => {
            let allowed = match status.code() {
                Code::NotFound => entry.method == Method::Say && is_unknown(id),
                Code::DeadlineExceeded => entry.deadline.is_some_and(|deadline| deadline <= now),
                Code::Cancelled => entry.cancelled,
                // Lost here; or the server says that it lost a stream's link.
                Code::Unavailable => cut,
                _ => false,
            };
            if !allowed {
                return wrong(format!("it failed: {status}"));
            }
            status.code()
        }
    };
    entry.outcome = Some(code);
    Ok(())
}
