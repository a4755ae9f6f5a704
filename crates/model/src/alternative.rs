//! Alternatives: the ways in which one machine can serve one workload. Experiments that compare ways run them one by one and combined; the
//! planner weighs them by arithmetic first and simulates the best.
//!
//! A combination is a share of the requests for each alternative, all in one machine, so that what they share is shared.

use crate::kernel::{Kernel, ProgramId, ResourceId};
use crate::load::{Arrivals, Loop, Mix, Seen, closed, open};
use crate::sim::Sim;
use base::Picos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Who answers. Workload files say `box`, `nic-cores`, `accelerator`, `edge`, `engine`, `host`, `client`, `several`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A box in the network.
    #[serde(rename = "box")]
    NetworkBox,
    /// The cores of a SmartNIC.
    NicCores,
    /// An accelerator.
    Accelerator,
    /// The thread of a node that owns the connections.
    Edge,
    /// An engine core of a node.
    Engine,
    /// The host's cores.
    Host,
    /// Clients, by one-sided operations on memory: nobody at the server.
    Client,
    /// Parts in several of them.
    Several,
}

impl Place {
    /// Whether that is at the host, whichever of its threads.
    pub fn is_host(self) -> bool {
        matches!(self, Place::Edge | Place::Engine | Place::Host)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Place::NetworkBox => "network box",
            Place::NicCores => "NIC cores",
            Place::Accelerator => "accelerator",
            Place::Edge => "edge",
            Place::Engine => "engine",
            Place::Host => "host",
            Place::Client => "client",
            Place::Several => "several",
        })
    }
}

/// A class of a workload's operations, as an alternative does it.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// `GET`, `PUT`, …
    pub class: String,
    /// Its share of the operations; shares of an alternative add up to 1.
    pub share: f64,
    /// What it does to the machine.
    pub program: ProgramId,
}

/// One way.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// Short: `A2`, `host cores`.
    pub name: String,
    /// What it does, in a line; where requests go.
    pub what: String,
    /// Who answers.
    pub place: Place,
    /// Operations, by class.
    pub parts: Vec<Part>,
}

impl Alternative {
    /// Its operations as a mix.
    pub fn mix(&self) -> Mix {
        let weighted: Vec<_> = self.parts.iter().map(|part| (part.share, part.program)).collect();
        Mix::new(&weighted)
    }
}

/// What draws power.
#[derive(Clone, Debug, PartialEq)]
pub struct Power {
    /// What: `host package`, `SmartNIC`.
    pub name: String,
    /// Watts when nothing is done.
    pub idle: f64,
    /// Watts more for each server of these resources that is busy.
    pub busy: Vec<(ResourceId, f64)>,
}

/// A machine and the ways to serve a workload on it.
#[derive(Debug)]
pub struct Setting {
    /// Resources and programs.
    pub kernel: Kernel,
    /// The ways.
    pub alternatives: Vec<Alternative>,
    /// Resources that are the host's cores: what an objective of sparing the host counts.
    pub host_cores: Vec<ResourceId>,
    /// What draws power; empty where no number is known.
    pub power: Vec<Power>,
    /// Arguments of operations are drawn below this.
    pub arguments: u64,
}

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Offered {
    /// So many always under way, all together: each alternative has clients of its own, by its share.
    Window(u64),
    /// So many always under way, all together: each request draws its alternative, so that shares are kept whatever is slow.
    Drawn(u64),
    /// So many per second, at random.
    Rate(f64),
    /// The same, and each class is seen by itself.
    ByClass(f64),
}

/// What a resource did in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// Its name.
    pub name: String,
    /// Of its servers' time, 0 to 1.
    pub utilisation: f64,
    /// Units per second: packets, bytes, operations.
    pub units: f64,
}

/// What a run of a combination gave.
#[derive(Clone, Debug)]
pub struct Ran {
    /// All operations together.
    pub all: Seen,
    /// Of each alternative, in order, where its share is not 0; nothing where requests draw theirs.
    pub each: Vec<Option<Seen>>,
    /// Of each class of operations by name, all alternatives together, where that is asked for.
    pub classes: Vec<(String, Seen)>,
    /// Of every resource that did something.
    pub resources: Vec<Busy>,
    /// Host cores that were busy, in the mean.
    pub host_cores: f64,
    /// Watts, of each [`Power`] in order.
    pub watts: Vec<f64>,
}

impl Setting {
    /// Runs a combination: `shares` of the requests (they add up to 1), one for each alternative.
    ///
    /// # Panics
    /// If there are more or fewer shares than alternatives, or all are 0.
    pub fn run(self, shares: &[f64], offered: Offered, seed: u64, warm_up: Picos, span: Picos) -> Ran {
        assert_eq!(shares.len(), self.alternatives.len(), "a share for each alternative");
        let used: Vec<usize> = (0..shares.len()).filter(|i| shares[*i] > 0.0).collect();
        assert!(!used.is_empty(), "somebody must do the work");
        let Setting { kernel, alternatives, host_cores, power, arguments } = self;
        let sim = Sim::new(kernel);
        let by_class = by_class(&alternatives, shares);
        let mixes = used.iter().map(|i| (alternatives[*i].mix(), shares[*i]));
        let seen = match offered {
            Offered::Drawn(window) => {
                let parts = used.iter().flat_map(|i| {
                    let part = move |part: &Part| (shares[*i] * part.share, part.program);
                    alternatives[*i].parts.iter().map(part)
                });
                let mix = Mix::new(&parts.collect::<Vec<_>>());
                closed(&sim, seed, &[Loop { mix, window, arguments }], warm_up, span)
            }
            Offered::Window(window) => {
                let of = |(mix, share): (Mix, f64)| {
                    let window = ((window as f64 * share).round() as u64).max(1);
                    Loop { mix, window, arguments }
                };
                closed(&sim, seed, &mixes.map(of).collect::<Vec<_>>(), warm_up, span)
            }
            Offered::Rate(rate) => {
                let of = |(mix, share): (Mix, f64)| Arrivals { mix, rate: rate * share, arguments };
                open(&sim, seed, &mixes.map(of).collect::<Vec<_>>(), warm_up, span)
            }
            // Parts of arrivals at random, drawn by shares, come at random themselves.
            Offered::ByClass(rate) => {
                let of = |(_, share, mix): &(String, f64, Mix)| Arrivals {
                    mix: mix.clone(),
                    rate: rate * share,
                    arguments,
                };
                open(&sim, seed, &by_class.iter().map(of).collect::<Vec<_>>(), warm_up, span)
            }
        };
        let mut classes = Vec::new();
        let mut each = vec![None; shares.len()];
        if let Offered::ByClass(_) = offered {
            classes = by_class.into_iter().map(|(name, ..)| name).zip(seen.iter().cloned()).collect();
        } else if !matches!(offered, Offered::Drawn(_)) {
            for (i, seen) in used.iter().zip(&seen) {
                each[*i] = Some(seen.clone());
            }
        }
        let (first, others) = seen.split_first().expect("somebody did the work");
        let all = others.iter().fold(first.clone(), Seen::and);
        let cores = |k: &Kernel, at: &ResourceId| k.usage(*at).busy.as_secs_f64() / span.as_secs_f64();
        sim.with(|k| Ran {
            all,
            each,
            classes,
            resources: k.all_resources().filter_map(|at| busy(k, at, span)).collect(),
            host_cores: host_cores.iter().map(|at| cores(k, at)).sum(),
            watts: power
                .iter()
                .map(|p| p.idle + p.busy.iter().map(|(at, watts)| watts * cores(k, at)).sum::<f64>())
                .collect(),
        })
    }
}

/// Classes that are asked by clients, in the order of their names, with their shares and what they do, by shares of the alternatives.
fn by_class(alternatives: &[Alternative], shares: &[f64]) -> Vec<(String, f64, Mix)> {
    let parts = alternatives.iter().zip(shares).flat_map(|(way, share)| {
        way.parts.iter().map(move |part| (&*part.class, share * part.share, part.program))
    });
    let mut classes: BTreeMap<&str, Vec<(f64, ProgramId)>> = BTreeMap::new();
    for (class, share, program) in parts.filter(|(_, share, _)| *share > 0.0) {
        classes.entry(class).or_default().push((share, program));
    }
    let of = |(class, weighted): (&str, Vec<(f64, ProgramId)>)| {
        (class.to_owned(), weighted.iter().map(|(share, _)| share).sum(), Mix::new(&weighted))
    };
    classes.into_iter().map(of).collect()
}

fn busy(kernel: &Kernel, at: ResourceId, span: Picos) -> Option<Busy> {
    let usage = kernel.usage(at);
    let servers = kernel.servers(at) as f64;
    (usage.uses > 0).then(|| Busy {
        name: kernel.name_of(at).into(),
        utilisation: usage.busy.as_secs_f64() / span.as_secs_f64() / servers,
        units: usage.units as f64 / span.as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Service, Step};

    /// Two ways of 1 us each at an own station, and a link of 0.6 us that both need.
    fn setting() -> Setting {
        let mut kernel = Kernel::new(1);
        let link = kernel.resource("link", 1);
        let stations = [kernel.resource("host", 1), kernel.resource("box", 1)];
        let visit = |at, ns| Step::Use {
            at,
            service: Service::Fixed(Picos::from_nanos(ns)),
            units: 1,
            after: Picos::ZERO,
        };
        let alternatives = stations.map(|station| {
            let program = kernel.program("visit", [visit(link, 600), visit(station, 1000)]);
            Alternative {
                name: kernel.name_of(station).into(),
                what: String::new(),
                place: Place::Host,
                parts: vec![Part { class: "GET".into(), share: 1.0, program }],
            }
        });
        let power =
            vec![Power { name: "host".into(), idle: 10.0, busy: vec![(stations[0], 5.0), (link, 1.0)] }];
        Setting {
            kernel,
            alternatives: alternatives.into(),
            host_cores: vec![stations[0]],
            power,
            arguments: 1,
        }
    }

    #[test]
    fn what_alternatives_share_bounds_their_combination() {
        let (warm_up, span) = (Picos::from_micros(100), Picos::from_micros(1000));
        let rate = |shares: &[f64]| setting().run(shares, Offered::Window(16), 1, warm_up, span).all.rate();
        assert!((rate(&[1.0, 0.0]) / 1e6 - 1.0).abs() < 0.01);
        assert!((rate(&[0.5, 0.5]) * 0.6e-6 - 1.0).abs() < 0.01, "the link is full");
        let drawn = setting().run(&[0.8, 0.2], Offered::Drawn(16), 1, warm_up, span).all.rate();
        assert!((drawn * 0.8e-6 - 1.0).abs() < 0.05, "the host is full and has four fifths: {drawn}");
    }

    #[test]
    fn cores_and_watts_follow_what_is_busy() {
        let (warm_up, span) = (Picos::from_micros(100), Picos::from_micros(20_000));
        let ran = setting().run(&[0.5, 0.5], Offered::Rate(800e3), 1, warm_up, span);
        assert!((ran.host_cores - 0.4).abs() < 0.02, "{}", ran.host_cores);
        assert!((ran.watts[0] - (10.0 + 5.0 * 0.4 + 0.48)).abs() < 0.1, "{:?}", ran.watts);
        assert_eq!(ran.resources.iter().map(|busy| &*busy.name).collect::<Vec<_>>(), ["link", "host", "box"]);
        let counted: u64 = ran.each.iter().flatten().map(Seen::count).sum();
        assert_eq!(counted, ran.all.count());
    }
}
