//! A workload on this rack: who should answer, the server, the boxes of the clients' ToRs, those of the roots, or both.
//!
//! Clients and servers are in different clusters, so that all three are on the way.
//! A box has as many entries as items fit its memory; what it answers is, by popularity, what the most wanted items cover, of which a
//! share is lost to writes: a read is answered if the same box had read the key since it was written. In closed form, for the planner asks
//! often; the experiments play the same with real tables.
//!
//! Mixtures of alternatives are priced as if each had its own keys: a write by one invalidates no copies of another's.
//!
//! Of a class, what the host does for an operation is the published server's time, or its cycles if they are more.

use super::flows::Route;
use super::rack::{Deployment, Leg, ROOTS, Rack, Which};
use crate::alternative::{Alternative, Part, Place, Setting};
use crate::kernel::{ProgramId, Step};
use crate::machine::caches::{Could, answered};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, picos};
use crate::workload::{Class, Workload};
use base::Picos;

/// Which boxes of a way (ToR, root, ToR) take part, as an alternative.
const ALTERNATIVES: [(&str, &str, Place, [bool; 3]); 4] = [
    ("server", "servers answer; switches only forward", Place::Host, [false; 3]),
    (
        "ToR boxes",
        "boxes of the clients' ToRs answer what they have",
        Place::NetworkBox,
        [true, false, false],
    ),
    ("root boxes", "boxes of the roots answer what they have", Place::NetworkBox, [false, true, false]),
    ("ToR and root boxes", "every box on the way keeps and answers", Place::NetworkBox, [true; 3]),
];

/// What boxes could answer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hits {
    /// A ToR's.
    tor: Could,
    /// A root's.
    root: Could,
}

/// Whether all that a workload's operations need is what this rack's servers do: find, read and write items.
pub fn is_key_value(workload: &Workload) -> bool {
    workload.classes.iter().all(|class| class.rows == 0 && class.fields == 0 && class.copies <= 1)
}

/// The ways to serve a workload on this rack. The host's cores that a workload may use are spread over the servers; clients use all of theirs,
/// where the paper's generator used one thread.
///
///
/// # Errors
/// The platform lacks a number.
pub fn setting(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, LoadError> {
    let cores = platform.count("server.cores")?;
    let servers = platform.count("server.count")?;
    let cores = workload.host_cores.map_or(cores, |all| all.div_ceil(servers).clamp(1, cores));
    let cores = (platform.count("client.cores")?, cores);
    let mut rack = Rack::with_cores(platform, Deployment::Cross, cores, seed)?;
    let memory = platform.bytes("box.memory_size")?;
    let could = |boxes: f64| Could::of(workload, memory, boxes);
    let hits = Hits { tor: could(rack.client_tors() as f64), root: could(1.0) };
    let clock = platform.value("server.clock", Dimension::Frequency)?;
    let processing = platform.span("server.processing")?;
    let more = |class: &Class| picos(class.cycles / clock).since(processing);
    let alternatives = ALTERNATIVES.map(|(name, what, place, boxes)| {
        let mut parts = Vec::new();
        for tor in 0..rack.client_tors() {
            let (root, far) = (tor % ROOTS, tor);
            let switches = rack.switches(tor, far, root).to_vec();
            let route = Route { client: Which::Any, server: Which::Any, switches, boxes: boxes.into() };
            for class in &workload.classes {
                let share = class.share / rack.client_tors() as f64;
                parts.extend(class_parts(&mut rack, &route, class, more(class), share, hits));
            }
        }
        Alternative { name: name.into(), what: what.into(), place, parts }
    });
    Ok(Setting {
        alternatives: alternatives.into(),
        host_cores: rack.server_cores(),
        power: Vec::new(),
        arguments: 1 << 20,
        kernel: rack.kernel,
    })
}

/// A class's operations on a way: those that a box answers, and the others.
fn class_parts(
    rack: &mut Rack,
    route: &Route,
    class: &Class,
    more: Picos,
    share: f64,
    hits: Hits,
) -> Vec<Part> {
    let header = rack.sizes.bare;
    let (request, reply) = (header + class.request, header + class.reply);
    let mut parts = Vec::new();
    let mut add = |share: f64, program| {
        if share > 0.0 {
            parts.push(Part { class: class.name.clone(), share, program });
        }
    };
    let any_box = route.boxes.contains(&true);
    let mut left = share;
    if class.cacheable {
        let keeping: Vec<_> =
            [(0, hits.tor), (1, hits.root)].into_iter().filter(|(place, _)| route.boxes[*place]).collect();
        let each;
        (each, left) = answered(share, keeping.iter().map(|(_, could)| *could));
        for ((place, _), answered) in keeping.iter().zip(each) {
            let legs = route.at_box(*place, request, reply);
            add(answered, program(rack, &class.name, &legs));
        }
    }
    let plain = at_server(rack, route, class, (request, reply), more, None);
    if class.store > 0 && any_box {
        let legs = route.invalidation(rack.sizes.key, rack.sizes.bare);
        let one = program(rack, "invalidation", &legs);
        let each = Some(Step::Each(one, rack.client_tors() as u32));
        let told = at_server(rack, route, class, (request, reply), more, each);
        add(left * hits.tor.hold, told);
        left *= 1.0 - hits.tor.hold;
    }
    add(left, plain);
    parts
}

fn at_server(
    rack: &mut Rack,
    route: &Route,
    class: &Class,
    (request, reply): (u64, u64),
    more: Picos,
    between: Option<Step>,
) -> ProgramId {
    let mut steps = steps(rack, &route.to_server(request));
    if more > Picos::ZERO {
        // The published server's time is the last step; the class wants more of the same core.
        let served = steps.last_mut().expect("a request is served");
        if let Step::Pick { service, .. } | Step::Use { service, .. } = served {
            *service = crate::Service::Fixed(service.mean().plus(more));
        }
    }
    steps.extend(between);
    steps.extend(self::steps(rack, &route.from_server(reply)));
    rack.kernel.program(&class.name, steps)
}

fn program(rack: &mut Rack, name: &str, legs: &[Leg]) -> ProgramId {
    let steps = steps(rack, legs);
    rack.kernel.program(name, steps)
}

fn steps(rack: &Rack, legs: &[Leg]) -> Vec<Step> {
    legs.iter().flat_map(|leg| rack.steps(*leg)).map(|(_, step)| step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alternative::Offered;
    use crate::platform::shipped::shipped;
    use crate::workload::shipped::shipped as workload;

    fn of(change: impl Fn(&mut Workload)) -> Setting {
        let platform = shipped("xpliant-octeon").expect("it is shipped").expect("it is sound");
        let mut workload = workload("key-value-cache").expect("it is shipped").expect("it is sound");
        change(&mut workload);
        setting(&platform, &workload, 1).expect("it is complete")
    }

    #[test]
    fn shares_add_up_and_boxes_spare_the_host() {
        let setting = of(|_| ());
        for alternative in &setting.alternatives {
            let sum: f64 = alternative.parts.iter().map(|part| part.share).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{}: {sum}", alternative.name);
        }
        let (warm_up, span) = (Picos::from_micros(500), Picos::from_micros(4000));
        let cores = |number: usize| {
            let mut shares = [0.0; 4];
            shares[number] = 1.0;
            of(|_| ()).run(&shares, Offered::Rate(400e3), 1, warm_up, span).host_cores
        };
        let used: Vec<f64> = (0..4).map(cores).collect();
        assert!(used[1] < used[0] && used[2] < used[0] && used[3] < used[0], "{used:?}");
    }

    #[test]
    fn what_nobody_asks_for_twice_is_the_servers() {
        let setting =
            of(|workload| (workload.keys, workload.skew, workload.working_set) = (1 << 40, 0.0, 1 << 50));
        let kernel = &setting.kernel;
        let mean = |alternative: &Alternative| -> f64 {
            let parts = alternative.parts.iter();
            parts.map(|part| part.share * kernel.unloaded(part.program).as_secs_f64()).sum()
        };
        let latency: Vec<f64> = setting.alternatives.iter().map(mean).collect();
        assert!(latency[1..].iter().all(|boxes| *boxes > latency[0]), "{latency:?}");
    }
}
