//! What services can be set to while they run: the registers that the placer moves, the values that it considers, and which places those use.
//!
//! | kind | registers | values |
//! |---|---|---|
//! | all | `place` | all words: on a machine of the model the places that its parts give. No service of a node has it |
//! | kv | `engine.mode`, `engine.form`, `engine.group` | all words; groups of 8, 16, 32 |
//! | rpc | `place.handlers` with `workers.count`; `workers.balancer` | edge, engine, host with 1 worker to one a core; all balancers |
//! | rec | `place.rec.preprocess`, `rec.batch`, `rec.linger` | all words; batches of 16, 64, 256; 0, 50, 200 µs |
//!
//! From where a service is, one row of these changes at a time, so a decision compares a dozen choices and not all products. A register that a service
//! does not have is no row of it.
//!
//! No register of today puts a part of a service's requests at one place and the rest at another, so none is split. A box shows its registers and lets
//! none be set, for all nodes of a rack must agree: it is not moved. `acc.on`, `store.memory` and what waits or polls are an operator's promises of
//! memory and cores, and left alone.

use crate::observed::{Kind, Location, Service};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Workers that are considered at most.
const WORKERS_MAX: u64 = 16;
/// A place as busy as this is full.
pub(super) const FULL_UTILISATION: f64 = 0.95;

/// The register whose words are places by name.
pub const PLACE: &str = "place";

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
    let together: &[&str] = if kind == Kind::Rpc { &["place.handlers", "workers.count"] } else { &[] };
    rows(kind).map(|(register, _)| *register).chain(together.iter().copied())
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
        Choice(own.filter_map(|name| Some((name.to_owned(), service.value(name)?))).collect())
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
        Some(other)
    }

    /// Where the handlers of a service run that is set so.
    pub fn place(&self, kind: Kind) -> Location {
        let word = match kind {
            Kind::Kv if self.value("engine.mode") == "dedicated" => "engine",
            Kind::Kv => "edge",
            Kind::Rpc if self.value("place.handlers") == "auto" => {
                if self.number("workers.count") > 0 {
                    "host"
                } else {
                    "edge"
                }
            }
            Kind::Rpc => self.value("place.handlers"),
            Kind::Rec => self.value("place.rec.preprocess"),
        };
        match word {
            "engine" => Location::Engine,
            // Where there are no workers, the thread that owns the connections is the host.
            "host" if kind != Kind::Rpc || self.number("workers.count") > 0 => Location::Host,
            _ => Location::Edge,
        }
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

/// Where a service could be: where it is first, then what one step away is.
pub fn alternatives(service: &Service, cores: u64) -> Vec<Choice> {
    let present = Choice::present(service);
    let mut found = vec![present.clone()];
    let mut seen = BTreeSet::from([present.clone()]);
    let mut add = |changes: &[(&str, &str)]| {
        let Some(other) = present.with(service, changes) else { return };
        if seen.insert(other.clone()) {
            found.push(other);
        }
    };
    if service.kind == Kind::Rpc {
        if present.place(Kind::Rpc) != Location::Edge {
            add(&[("place.handlers", "edge"), ("workers.count", "0")]);
        }
        add(&[("place.handlers", "engine"), ("workers.count", "0")]);
        for count in 1..=cores.clamp(1, WORKERS_MAX) {
            add(&[("place.handlers", "host"), ("workers.count", &count.to_string())]);
        }
    }
    let is_balanced = present.place(service.kind) == Location::Host && present.number("workers.count") > 1;
    for (name, values) in rows(service.kind) {
        let Some(register) = service.register(name) else { continue };
        if *name == "workers.balancer" && !is_balanced {
            continue;
        }
        let words = register.choices.iter().filter(|_| values.is_empty()).map(|word| &**word);
        words.chain(values.iter().copied()).for_each(|value| add(&[(name, value)]));
    }
    found
}

/// Why a service may not go to `to`, by what is said of the places: one that it does not use yet is full.
pub fn refusal(
    service: &Service,
    to: &Choice,
    busy: &BTreeMap<Location, crate::observed::Figure>,
    (cores_used, cores): (f64, f64),
) -> Option<String> {
    let from = Choice::present(service);
    let place = to.place(service.kind);
    let is_more = to.number("workers.count") > from.number("workers.count");
    let full = |what: String, part: f64| format!("{what} is full: {:.0} % busy", part * 100.0);
    if place == Location::Engine && from.place(service.kind) != place {
        let busy = busy.get(&place).map_or(0.0, |figure| figure.0);
        if busy >= FULL_UTILISATION {
            return Some(full("the engine".to_owned(), busy));
        }
    }
    let is_more_threads = place != Location::Edge && from.place(service.kind) != place || is_more;
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
            let all = alternatives(&service, 2);
            assert_eq!(all[0], Choice::present(&service));
            assert!(all.len() > 3, "{all:?}");
            for other in &all[1..] {
                let settings = other.settings_from(&all[0]);
                assert!((1..=2).contains(&settings.len()), "{settings:?}");
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
        let all = alternatives(&service, 2);
        let places: Vec<_> = all.iter().map(|choice| choice.value(PLACE)).collect();
        assert_eq!(places, ["host", "SoC", "tor, else SoC"]);
        assert_eq!(all[2].settings_from(&all[0]).len(), 1);
        assert_eq!(refusal(&service, &all[1], &BTreeMap::new(), (2.0, 2.0)), None);
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
        assert_eq!((edge.place(Kind::Rpc), host.place(Kind::Rpc)), (Location::Edge, Location::Host));
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
    }
}
