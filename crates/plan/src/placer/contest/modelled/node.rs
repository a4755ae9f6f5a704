//! A node in virtual time: a machine of the model under a load, with its service at one place, from which it can be moved; and what an admin port would
//! say of it.
//!
//! Requests come at random, whatever became of those before. A look of half a second is a stretch of the kernel's time with so many of them: rates and times
//! are taken to be those of the stretch, and queues go on from one to the next. Clients have no more than the workload's window under way: what would come
//! beyond is not sent, and not answered in time. Requests that have begun when the service moves end where they are.

use crate::observed::{Figure, Kind, Load, Location, Method, Observation, Register, Service};
use crate::placer::choice::{Choice, OTHER, PLACE, SHARE};
use model::alternative::Setting;
use model::load::{Mix, Seen, Steered};
use model::plan::families;
use model::platform::picos;
use model::workload::{Class, Workload};
use model::{Picos, Platform, ResourceId, Sim};
use std::collections::BTreeMap;

/// Requests of a look.
const REQUESTS: f64 = 2000.0;
/// At the end, what is under way has so many looks' time.
const PATIENCE: u64 = 20;

/// What a machine serves by, and which of it the host does.
pub(super) type Place = (String, bool);

/// Where a service is, as its registers say: the first of its places, the other, and the percent of its requests there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At(pub(super) usize, pub(super) usize, pub(super) u64);

impl At {
    /// At one place.
    pub(super) fn one(place: usize) -> At {
        At(place, place, 0)
    }

    /// As tables have it: `A4`, `A4 70 % A5 30 %`.
    pub(super) fn name(self, places: &[Place]) -> String {
        let At(first, other, share) = self;
        match share {
            0 => places[first].0.clone(),
            share => format!("{} {} % {} {share} %", places[first].0, 100 - share, places[other].0),
        }
    }
}

/// The machine of a platform under a workload.
pub(super) fn setting(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, String> {
    let builder = families::builder(platform, workload).map_err(|why| why.to_string())?;
    builder(platform, workload, seed).map_err(|why| why.to_string())
}

/// A look.
pub(super) struct Look {
    pub(super) seen: Seen,
    /// Requests that were to be sent.
    pub(super) asked: u64,
    /// Host cores that were busy.
    pub(super) cores: f64,
}

/// A service in virtual time, whose requests go to one of its places or to two, each drawn by the share, and what it says of itself to who observes it.
pub(super) struct Node {
    workload: Workload,
    places: Vec<Place>,
    ways: Vec<Mix>,
    sim: Sim,
    requests: Steered,
    host_cores: Vec<ResourceId>,
    span: Picos,
    at: At,
}

impl Node {
    /// With the service there, under so many requests per second.
    ///
    /// # Errors
    /// The platform cannot serve the workload, or not at one of the places.
    pub(super) fn start(
        platform: &Platform,
        (workload, rate): (Workload, f64),
        places: &[Place],
        at: At,
        seed: u64,
    ) -> Result<Node, String> {
        let setting = setting(platform, &workload, seed)?;
        let way = |(name, _): &Place| {
            let way = setting.alternatives.iter().find(|way| way.name == *name);
            way.map(|way| way.mix()).ok_or_else(|| format!("{}: there is no place {name}", platform.name))
        };
        let ways = places.iter().map(way).collect::<Result<Vec<Mix>, _>>()?;
        let sim = Sim::new(setting.kernel);
        let load = (rate, setting.arguments);
        let requests = Steered::new(sim.clone(), mix(&ways, at), load, workload.window as usize, seed);
        let (places, span) = (places.to_vec(), picos(REQUESTS / rate));
        Ok(Node { workload, places, ways, sim, requests, host_cores: setting.host_cores, span, at })
    }

    /// Serves for as long as a look stands for.
    pub(super) fn look(&self) -> Look {
        let before = self.requests.begun();
        let seen = self.requests.run(self.span);
        let busy = |at: &ResourceId| self.sim.with(|kernel| kernel.usage(*at).busy.as_secs_f64());
        let cores = self.host_cores.iter().map(busy).sum::<f64>() / self.span.as_secs_f64();
        Look { asked: self.requests.begun() - before + seen.turned_away, seen, cores }
    }

    /// Kernel time of a look, in seconds.
    pub(super) fn span(&self) -> f64 {
        self.span.as_secs_f64()
    }

    /// Requests that come from now on are served there.
    pub(super) fn go(&mut self, to: &Choice) {
        let place = |name: &str| self.places.iter().position(|(place, _)| place == name);
        let Some(first) = place(to.value(PLACE)) else { return };
        // Of a share of none the other place stays as it was.
        self.at = At(first, place(to.value(OTHER)).unwrap_or(self.at.1), to.number(SHARE));
        self.requests.go(mix(&self.ways, self.at));
    }

    /// Where the service is.
    pub(super) fn at(&self) -> At {
        self.at
    }

    /// Ends it; requests that were begun and are not answered.
    pub(super) fn end(self) -> u64 {
        self.requests.end(Picos(self.span.0 * PATIENCE))
    }

    /// Host cores that there are.
    fn cores(&self) -> f64 {
        self.sim.with(|kernel| self.host_cores.iter().map(|at| kernel.servers(*at) as f64).sum())
    }

    /// What a placer is told of a look, the nth, at this time, over so long.
    pub(super) fn observation(
        &self,
        (sequence, now_us, span_us): (u64, u64, u64),
        look: &Look,
    ) -> Observation {
        let rate = look.seen.rate();
        let mean = |of: &dyn Fn(&Class) -> u64| -> f64 {
            self.workload.classes.iter().map(|class| class.share * of(class) as f64).sum()
        };
        let names: Vec<String> = self.places.iter().map(|(name, _)| name.clone()).collect();
        let place = |name: &str, at: usize| Register {
            name: name.into(),
            number: at as u64,
            range: [0, self.places.len() as u64 - 1],
            choices: names.clone(),
            live: true,
        };
        let At(first, other, number) = self.at;
        let share = Register { name: SHARE.into(), number, range: [0, 100], choices: Vec::new(), live: true };
        let method = |class: &Class| Method {
            name: class.name.clone(),
            rate: Figure(rate * class.share),
            request_bytes: Some(Figure(class.request as f64)),
            reply_bytes: Some(Figure(class.reply as f64)),
            stored_bytes: Figure(class.store as f64),
            ..Method::default()
        };
        let load = Load { methods: self.workload.classes.iter().map(method).collect(), ..Load::default() };
        let stay = |of: f64| (look.seen.count() > 0).then(|| Figure(look.seen.quantile(of) * 1e9));
        let shares = self.workload.classes.iter().map(|class| (class.name.clone(), Figure(class.share)));
        let service = Service {
            name: "store".into(),
            kind: Kind::Kv,
            registers: vec![place(PLACE, first), place(OTHER, other), share],
            rate: Figure(rate),
            refused: Figure(0.0),
            request_bytes: Figure(mean(&|class| class.request)),
            reply_bytes: Figure(mean(&|class| class.reply)),
            methods: shares.collect(),
            p50_ns: stay(0.5),
            p99_ns: stay(0.99),
            stages: BTreeMap::new(),
            cores: [(Location::Host, Figure(look.cores))].into(),
            together: Figure(1.0),
            load,
            connections: BTreeMap::new(),
            stored_bytes: Figure(self.workload.working_set as f64),
            cache: None,
            doubts: Vec::new(),
        };
        let cores = self.cores();
        Observation {
            sequence,
            at_us: now_us,
            span_us,
            cores: Figure(cores),
            cores_used: Figure(look.cores.min(cores)),
            others: Figure(0.0),
            busy: BTreeMap::new(),
            services: vec![service],
        }
    }
}

/// What requests are that go there.
fn mix(ways: &[Mix], At(first, other, share): At) -> Mix {
    let share = share as f64 / 100.0;
    if share > 0.0 {
        Mix::of(&[(1.0 - share, &ways[first]), (share, &ways[other])])
    } else {
        ways[first].clone()
    }
}
