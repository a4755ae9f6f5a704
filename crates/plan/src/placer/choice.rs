//! What services can be set to while they run: the registers that the placer moves, the values that it considers, and which places those use.
//!
//! | kind | registers | values |
//! |---|---|---|
//! | all | `place` | all words: on a machine of the model the places that its parts give. No service of a node has it |
//! | kv | `engine.mode`, `engine.form`, `engine.group` | all words; groups of 8, 16, 32 |
//! | all | `place.share` with `place.other` and what says the first place | what is predicted best of two places |
//! | rpc | `place.handlers` with `workers.count`; `workers.balancer` | edge, engine, host with 1 worker to one a core; all balancers |
//! | rec | `place.rec.preprocess`, `rec.batch`, `rec.linger` | all words; batches of 16, 64, 256; 0, 50, 200 µs |
//!
//! From where a service is, one row of these changes at a time, so a decision compares a dozen choices and not all products. A register that a service
//! does not have is no row of it.
//!
//! **Two places.** A service that has `place.other` and `place.share` may have a share of its requests at another place than the rest. Considered are where
//! it is together with each other place, with the shares that the predictor thinks best, in steps of 5 %. A share of nothing is one place: then
//! `place.other` is not part of the choice.
//!
//! A box shows its registers and lets
//! none be set, for all nodes of a rack must agree: it is not moved. `acc.on` and what waits or polls are an operator's promises of memory and cores, and
//! left alone. `store.memory` of caches is such a promise as a sum: `brain::exchange` moves it between them, and it is no row here.

use super::predict;
use crate::observed::{Kind, Location, MEMORY, Service};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Workers that are considered at most.
const WORKERS_MAX: u64 = 16;
/// A place as busy as this is full.
pub(super) const FULL_UTILISATION: f64 = 0.95;

/// The register whose words are places by name.
pub const PLACE: &str = "place";
/// Where services of the fabric have it.
const HANDLERS: &str = "place.handlers";
/// The other of two places, by name.
pub const OTHER: &str = "place.other";
/// Percent of requests that are there.
pub const SHARE: &str = "place.share";
/// Shares are considered so many percent apart.
const SHARE_STEP: f64 = 5.0;

/// A register that is moved by itself, and the values that are considered; all of its words, if none is said.
type Row = (&'static str, &'static [&'static str]);

/// Rows of a kind of service.
fn rows(kind: Kind) -> impl Iterator<Item = &'static Row> {
    let own: &[Row] = match kind {
        Kind::Kv => &[("engine.mode", &[]), ("engine.form", &[]), ("engine.group", &["8", "16", "32"])],
        Kind::Rpc => &[("workers.balancer", &[])],
        Kind::Rec => &[
            ("place.rec.preprocess", &[]),
            ("rec.batch", &["16", "64", "256"]),
            ("rec.linger", &["0", "50", "200"]),
        ],
    };
    const ALL: &[Row] = &[(PLACE, &[])];
    ALL.iter().chain(own)
}

/// Registers that the placer sets, of a kind of service.
fn registers(kind: Kind) -> impl Iterator<Item = &'static str> {
    let together: &[&str] = if kind == Kind::Rpc { &[HANDLERS, "workers.count"] } else { &[] };
    rows(kind).map(|(register, _)| *register).chain(together.iter().copied()).chain([OTHER, SHARE])
}

/// Values of the registers that the placer sets, as texts: where a service is, or could be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Choice(BTreeMap<String, String>);

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={value}", if n > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// A register that is to be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name in the service.
    pub register: String,
    /// The value, as it is written.
    pub value: String,
}

impl Choice {
    /// Where a service is.
    pub fn present(service: &Service) -> Choice {
        let own = registers(service.kind);
        Choice(own.filter_map(|name| Some((name.to_owned(), service.value(name)?))).collect()).plain()
    }

    /// So much memory, for [`Reason::Memory`](super::log::Reason).
    pub fn of_memory(bytes: u64) -> Choice {
        Choice([(MEMORY.to_owned(), bytes.to_string())].into())
    }

    /// As it is, without what says nothing: the other place of a share of none, or that is the first once more.
    fn plain(mut self) -> Choice {
        if self.number(SHARE) == 0 || self.value(OTHER) == self.value(self.first()) {
            self.0.remove(OTHER);
            self.0.entry(SHARE.to_owned()).and_modify(|share| *share = "0".to_owned());
        }
        self
    }

    /// The register that says the first place.
    fn first(&self) -> &'static str {
        if self.0.contains_key(PLACE) { PLACE } else { HANDLERS }
    }

    /// Words of the places where its requests are, and the share of each.
    pub fn shares(&self) -> Vec<(&str, f64)> {
        let share = self.number(SHARE) as f64 / 100.0;
        let both = [(self.value(self.first()), 1.0 - share), (self.value(OTHER), share)];
        both.into_iter().filter(|(_, share)| *share > 0.0).collect()
    }

    /// The value of a register.
    pub fn value(&self, register: &str) -> &str {
        self.0.get(register).map_or("", |value| value)
    }

    /// A number; 0 where there is none.
    pub fn number(&self, register: &str) -> u64 {
        self.value(register).parse().unwrap_or(0)
    }

    /// With other values of some registers; none if the service cannot be set to them.
    pub fn with(&self, service: &Service, changes: &[(&str, &str)]) -> Option<Choice> {
        let mut other = self.clone();
        for (name, value) in changes {
            let value = value.to_string();
            if self.value(name) != value {
                service.register(name)?.number_of(&value)?;
                other.0.insert(name.to_string(), value);
            }
        }
        Some(other.plain())
    }

    /// Where the handlers of a service run that is set so, and the share of its requests there.
    pub fn places(&self, kind: Kind) -> Vec<(Location, f64)> {
        let word = match kind {
            Kind::Kv if self.value("engine.mode") == "dedicated" => "engine",
            Kind::Kv => "edge",
            Kind::Rpc => {
                let shares = self.shares().into_iter();
                return shares.map(|(word, share)| (self.location(kind, word), share)).collect();
            }
            Kind::Rec => self.value("place.rec.preprocess"),
        };
        vec![(self.location(kind, word), 1.0)]
    }

    /// Where most of its requests run.
    pub fn place(&self, kind: Kind) -> Location {
        let places = self.places(kind).into_iter();
        places.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(Location::Edge, |(at, _)| at)
    }

    fn location(&self, kind: Kind, word: &str) -> Location {
        match word {
            "engine" => Location::Engine,
            // Where there are no workers, the thread that owns the connections is the host.
            "host" | "auto" if kind != Kind::Rpc || self.number("workers.count") > 0 => Location::Host,
            _ => Location::Edge,
        }
    }

    /// Whether some of its handlers run there.
    pub fn is_at(&self, kind: Kind, place: Location) -> bool {
        self.places(kind).iter().any(|(at, _)| *at == place)
    }

    /// What must be set to get there from `from`, in an order in which nothing is without workers in between.
    pub fn settings_from(&self, from: &Choice) -> Vec<Setting> {
        let changed = self.0.iter().filter(|(name, value)| from.value(name) != value.as_str());
        let mut settings: Vec<Setting> =
            changed.map(|(name, value)| Setting { register: name.clone(), value: value.clone() }).collect();
        let is_more = self.number("workers.count") > from.number("workers.count");
        settings.sort_by_key(|setting| (setting.register == "workers.count") != is_more);
        settings
    }

    /// Registers and values, for tests and logs.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

/// What has the best shares of two places: percent at the other one of a choice that is at both.
pub type BestShares<'a> = &'a dyn Fn(&Choice) -> Vec<u64>;

/// Shares, of 1, in the steps that are considered, in percent: some at each place.
pub fn steps(shares: &[f64]) -> Vec<u64> {
    let step = |share: &f64| (100.0 * share / SHARE_STEP).round() * SHARE_STEP;
    shares.iter().map(|share| step(share).clamp(SHARE_STEP, 100.0 - SHARE_STEP) as u64).collect()
}

/// Where a service could be: where it is first, then what one step away is.
pub fn alternatives(service: &Service, cores: u64, shares: BestShares<'_>) -> Vec<Choice> {
    let present = Choice::present(service);
    let mut found = vec![present.clone()];
    let mut seen = BTreeSet::from([present.clone()]);
    let mut add = |other: Option<Choice>| {
        if let Some(other) = other.filter(|other| seen.insert(other.clone())) {
            found.push(other);
        }
    };
    // A place is all of it.
    let whole: &[(&str, &str)] = if present.number(SHARE) > 0 { &[(SHARE, "0")] } else { &[] };
    let at = |changes: &[(&str, &str)]| present.with(service, &[changes, whole].concat());
    if service.kind == Kind::Rpc {
        if present.places(Kind::Rpc) != [(Location::Edge, 1.0)] {
            add(at(&[(HANDLERS, "edge"), ("workers.count", "0")]));
        }
        add(at(&[(HANDLERS, "engine"), ("workers.count", "0")]));
        for count in 1..=cores.clamp(1, WORKERS_MAX) {
            add(at(&[(HANDLERS, "host"), ("workers.count", &count.to_string())]));
        }
    }
    let is_balanced = present.is_at(service.kind, Location::Host) && present.number("workers.count") > 1;
    for (name, values) in rows(service.kind) {
        let Some(register) = service.register(name) else { continue };
        if *name == "workers.balancer" && !is_balanced {
            continue;
        }
        let is_place = *name == PLACE;
        let one =
            |value| if is_place { at(&[(name, value)]) } else { present.with(service, &[(name, value)]) };
        let words = register.choices.iter().filter(|_| values.is_empty()).map(|word| &**word);
        words.chain(values.iter().copied()).for_each(|value| add(one(value)));
    }
    for pair in pairs(service, &present, cores) {
        for share in shares(&pair) {
            add(pair.with(service, &[(SHARE, &share.to_string())]));
        }
    }
    found
}

/// What one step in a row that says no place leads to: sizes and ways of working, of which the model says nothing.
pub fn sizes(service: &Service) -> Vec<Choice> {
    let present = Choice::present(service);
    let mut all = alternatives(service, 1, &|_| Vec::new());
    all.retain(|other| {
        let changed = other.settings_from(&present);
        !changed.is_empty()
            && changed.iter().all(|one| !predict::KNOWN.contains(&&*one.register) && one.register != PLACE)
    });
    all
}

/// A service at two places, of which it is at one now, with half of its requests at each.
fn pairs(service: &Service, present: &Choice, cores: u64) -> Vec<Choice> {
    let (Some(others), first) = (service.register(OTHER), present.first()) else { return Vec::new() };
    let now: Vec<&str> = match service.kind {
        Kind::Rpc => present.places(Kind::Rpc).into_iter().map(|(at, _)| word(at)).collect(),
        _ => present.shares().into_iter().map(|(word, _)| word).collect(),
    };
    let mut found = Vec::new();
    for (nth, one) in now.iter().enumerate() {
        // Two that it is at now are in their order.
        let others = others.choices.iter().filter(|other| other != one && !now[..nth].contains(&&***other));
        for other in others {
            let mut half = |more: &[(&str, &str)]| {
                let both = [(first, *one), (OTHER, &**other), (SHARE, "50")];
                found.extend(present.with(service, &[more, &both].concat()));
            };
            match service.kind {
                Kind::Rpc if *one == "host" || other == "host" => {
                    let own = present.number("workers.count");
                    let few = (0..=WORKERS_MAX.ilog2()).map(|power| 1 << power).filter(|count| *count != own);
                    let all = few.chain([own]).filter(|count| (1..=cores.max(1)).contains(count));
                    all.for_each(|count: u64| half(&[("workers.count", &count.to_string())]));
                }
                Kind::Rpc => half(&[("workers.count", "0")]),
                _ => half(&[]),
            }
        }
    }
    found
}

/// A location as registers write it.
fn word(at: Location) -> &'static str {
    match at {
        Location::Edge => "edge",
        Location::Engine => "engine",
        Location::Host => "host",
    }
}

/// Why a service may not go to `to`, by what is said of the places: one that it does not use yet is full.
pub fn refusal(
    service: &Service,
    to: &Choice,
    busy: &BTreeMap<Location, crate::observed::Figure>,
    (cores_used, cores): (f64, f64),
) -> Option<String> {
    let from = Choice::present(service);
    let is_new = |place| to.is_at(service.kind, place) && !from.is_at(service.kind, place);
    let is_more = to.number("workers.count") > from.number("workers.count");
    let full = |what: String, part: f64| format!("{what} is full: {:.0} % busy", part * 100.0);
    if is_new(Location::Engine) {
        let busy = busy.get(&Location::Engine).map_or(0.0, |figure| figure.0);
        if busy >= FULL_UTILISATION {
            return Some(full("the engine".to_owned(), busy));
        }
    }
    let is_more_threads = is_new(Location::Engine) || is_new(Location::Host) || is_more;
    if is_more_threads && cores > 0.0 && cores_used / cores >= FULL_UTILISATION {
        return Some(full("the machine".to_owned(), cores_used / cores));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::{register, service};
    use super::*;
    use crate::observed::Figure;

    #[test]
    fn one_row_changes_at_a_time_and_where_it_is_comes_first() {
        for kind in [Kind::Kv, Kind::Rpc, Kind::Rec] {
            let service = service("s", kind);
            let all = alternatives(&service, 2, &|_| vec![40]);
            assert_eq!(all[0], Choice::present(&service));
            assert!(all.len() > 3, "{all:?}");
            for other in &all[1..] {
                let settings = other.settings_from(&all[0]);
                // From auto also the first place is said.
                let most = if other.number(SHARE) > 0 { 4 } else { 2 };
                assert!((1..=most).contains(&settings.len()), "{settings:?}");
                let is_taken = |setting: &Setting| {
                    let register = service.register(&setting.register).expect("its own");
                    register.number_of(&setting.value).is_some()
                };
                assert!(settings.iter().all(is_taken), "{settings:?}");
            }
        }
    }

    #[test]
    fn a_service_may_name_its_places_itself() {
        let mut service = service("s", Kind::Kv);
        service.registers = vec![register(PLACE, 0, [0, 2], &["host", "SoC", "tor, else SoC"])];
        let all = alternatives(&service, 2, &|_| vec![50]);
        let places: Vec<_> = all.iter().map(|choice| choice.value(PLACE)).collect();
        assert_eq!(places, ["host", "SoC", "tor, else SoC"]);
        assert_eq!(all[2].settings_from(&all[0]).len(), 1);
        assert_eq!(refusal(&service, &all[1], &BTreeMap::new(), (2.0, 2.0)), None);
    }

    /// At two places: which, by which registers, and the way back.
    #[test]
    fn a_service_may_be_at_two_places() {
        let mut service = service("s", Kind::Rpc);
        service.registers[0] = register(HANDLERS, 1, [0, 3], &["auto", "edge", "host", "engine"]);
        let shown = |service: &Service| -> Vec<String> {
            let all = alternatives(service, 2, &|_| vec![40]);
            all.iter().filter(|one| one.number(SHARE) > 0).map(Choice::to_string).collect()
        };
        let wanted = |other: &str, workers| {
            format!(
                "place.handlers=edge place.other={other} place.share=40 workers.balancer=round_robin workers.count={workers}"
            )
        };
        assert_eq!(shown(&service), [wanted("host", 1), wanted("host", 2), wanted("engine", 0)]);
        assert_eq!(steps(&[0.412, 0.43, 0.001, 0.999]), [40, 45, 5, 95]);
        let edge = Choice::present(&service);
        let changes = [("place.other", "host"), ("place.share", "40"), ("workers.count", "1")];
        let both = edge.with(&service, &changes).expect("it can");
        assert_eq!(both.places(Kind::Rpc), [(Location::Edge, 0.6), (Location::Host, 0.4)]);
        let names = |settings: Vec<Setting>| settings.into_iter().map(|one| one.register).collect::<Vec<_>>();
        assert_eq!(names(both.settings_from(&edge)), ["workers.count", "place.other", "place.share"]);
        assert_eq!(names(edge.settings_from(&both)), ["place.share", "workers.count"]);
        // The other place of no share is not where it is.
        let mut idle = service.clone();
        idle.registers.iter_mut().filter(|one| one.name == OTHER).for_each(|one| one.number = 2);
        assert_eq!(Choice::present(&idle), edge);
        // From there: each alone, and either with a third.
        let mut split = service.clone();
        for (name, value) in both.values() {
            let register = split.registers.iter_mut().find(|one| one.name == name).expect("its own");
            register.number = register.number_of(value).expect("a value");
        }
        let all = alternatives(&split, 2, &|_| vec![20]);
        assert_eq!((&all[0], all.contains(&edge)), (&both, true));
        let shared: Vec<_> = all.iter().filter(|one| one.number(SHARE) == 20).collect();
        let at = |places: [Location; 2]| {
            shared.iter().filter(|one| one.places(Kind::Rpc).iter().map(|(at, _)| *at).eq(places)).count()
        };
        use Location::{Edge, Engine, Host};
        assert_eq!(
            [at([Edge, Host]), at([Edge, Engine]), at([Host, Engine]), at([Host, Edge])],
            [2, 1, 2, 0]
        );
    }

    #[test]
    fn workers_are_there_before_the_place_and_go_after_it() {
        let service = service("s", Kind::Rpc);
        let edge = Choice::present(&service);
        let host =
            edge.with(&service, &[("place.handlers", "host"), ("workers.count", "2")]).expect("it can");
        let names = |settings: Vec<Setting>| settings.into_iter().map(|one| one.register).collect::<Vec<_>>();
        assert_eq!(names(host.settings_from(&edge)), ["workers.count", "place.handlers"]);
        assert_eq!(names(edge.settings_from(&host)), ["place.handlers", "workers.count"]);
        assert_eq!(host.places(Kind::Rpc), [(Location::Host, 1.0)]);
        assert_eq!(edge.places(Kind::Rpc), [(Location::Edge, 1.0)]);
        assert!(edge.with(&service, &[("workers.count", "100000")]).is_none());
    }

    #[test]
    fn what_is_full_takes_nobody() {
        let service = service("s", Kind::Kv);
        let edge = Choice::present(&service);
        let engine = edge.with(&service, &[("engine.mode", "dedicated")]).expect("it can");
        let plain = edge.with(&service, &[("engine.form", "plain")]).expect("it can");
        let busy = |part| BTreeMap::from([(Location::Engine, Figure(part))]);
        let why = |to, part, used| refusal(&service, to, &busy(part), (used, 2.0));
        assert!(why(&engine, 0.97, 1.0).is_some_and(|why| why.contains("engine is full")));
        assert!(why(&engine, 0.2, 1.95).is_some_and(|why| why.contains("machine is full")));
        assert_eq!((why(&engine, 0.2, 1.0), why(&plain, 0.97, 2.0)), (None, None));
        // Of two places each is asked that it does not use yet.
        let service = super::super::tests::service("s", Kind::Rpc);
        let edge = Choice::present(&service);
        let both = edge.with(&service, &[(OTHER, "engine"), (SHARE, "10")]).expect("it can");
        let why = |to, part, used| refusal(&service, to, &busy(part), (used, 2.0));
        assert!(why(&both, 0.97, 1.0).is_some_and(|why| why.contains("engine is full")));
        assert!(why(&both, 0.2, 1.95).is_some_and(|why| why.contains("machine is full")));
        assert_eq!((why(&both, 0.2, 1.0), why(&edge, 0.97, 2.0)), (None, None));
    }
}
