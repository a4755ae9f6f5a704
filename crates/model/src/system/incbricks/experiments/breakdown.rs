//! I-E2: where the time of an operation goes when nothing else is there (Fig. 9), and what a packet's detour to a box costs (§4.5).
//!
//! Means over ToRs, whose boxes differ, and servers. In closed form.

use super::{BOTH, PLATFORM};
use crate::experiment::Rows;
use crate::platform::{LoadError, Platforms};
use crate::system::incbricks::flows::Route;
use crate::system::incbricks::rack::{Leg, Part, ROOTS, Rack, Which, Work};

const ID: &str = "I-E2";
const PARTS: [(Part, &str, &str); 4] = [
    (Part::Server, "server", "server share"),
    (Part::Stack, "OS stack", "OS stack share"),
    (Part::Switch, "switch", "switch share"),
    (Part::Box, "IncBox", "IncBox share"),
];

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    for deployment in BOTH {
        let rack = Rack::new(&platform, deployment, seed)?;
        let sizes = rack.sizes;
        let with = |legs: &dyn Fn(&Route) -> Vec<Leg>| over_all(&rack, true, legs);
        let without = |legs: &dyn Fn(&Route) -> Vec<Leg>| over_all(&rack, false, legs);
        let set = |route: &Route, between| route.at_server(sizes.value, sizes.key, between);
        let sharer = |route: &Route| route.invalidation(sizes.key, sizes.bare);
        let get = |route: &Route| route.at_server(sizes.key, sizes.value, Vec::new());
        let mut operations = vec![
            ("vanilla", "SET", without(&|route| set(route, Vec::new()))),
            ("vanilla", "GET", without(&get)),
            ("IncBricks", "SET", with(&|route| set(route, sharer(route)))),
            ("IncBricks", "SET of a key that nobody shares", with(&|route| set(route, Vec::new()))),
            ("IncBricks", "invalidation", with(&sharer)),
            ("IncBricks", "GET answered by the ToR box", with(&|r| r.at_box(0, sizes.key, sizes.value))),
            ("IncBricks", "GET answered by the server", with(&get)),
        ];
        if rack.switches(0, 0, 0).len() > 1 {
            let root = with(&|route| route.at_box(1, sizes.key, sizes.value));
            operations.push(("IncBricks", "GET answered by the root box", root));
        }
        for (system, operation, ways) in operations {
            add(&mut rows, &rack, (&format!("{system} {}", deployment.name()), operation), &ways);
        }
    }
    detours(&mut rows, &Rack::new(&platform, BOTH[0], seed)?);
    Ok(rows)
}

/// An operation of every client to every server that it may talk to.
fn over_all(rack: &Rack, boxes: bool, legs: &dyn Fn(&Route) -> Vec<Leg>) -> Vec<Vec<Leg>> {
    let mut ways = Vec::new();
    for client in 0..rack.client_tors() {
        for (server, root) in
            (0..rack.servers()).flat_map(|server| (0..ROOTS).map(move |root| (server, root)))
        {
            let switches = rack.switches(client, server, root);
            // Within a cluster a client's server is the one at its ToR.
            if rack.deployment == BOTH[0] && switches.len() > 1 {
                continue;
            }
            ways.push(legs(&Route::new(Which::One(client), Which::One(server), &switches, boxes)));
        }
    }
    ways
}

fn add(rows: &mut Rows, rack: &Rack, (variant, point): (&str, &str), ways: &[Vec<Leg>]) {
    let mean = |part| {
        let sum: f64 = ways.iter().map(|legs| rack.time_in(part, legs).as_secs_f64()).sum();
        sum / ways.len() as f64 * 1e6
    };
    let spans = PARTS.map(|(part, ..)| mean(part));
    let total: f64 = spans.iter().sum();
    rows.add((ID, variant, point), "latency", "us", total);
    for ((_, span, share), us) in PARTS.into_iter().zip(spans) {
        rows.add((ID, variant, point), span, "us", us);
        rows.add((ID, variant, point), share, "%", us / total * 100.0);
    }
}

/// To a box of either kind and back, which is what a miss wastes.
fn detours(rows: &mut Rows, rack: &Rack) {
    for (name, bytes) in [("1 KB packet", rack.sizes.value), ("key only", rack.sizes.key)] {
        for (kind, at) in [("LiquidIO", 0), ("OCTEON board", 1)] {
            let legs = [Leg::Enter(at, bytes, Work::Key), Leg::Leave(at, bytes)];
            let at = (ID, &*format!("detour to the {kind}"), name);
            rows.add(at, "switch", "us", rack.time_in(Part::Switch, &legs).as_secs_f64() * 1e6);
            rows.add(at, "IncBox", "us", rack.time_in(Part::Box, &legs).as_secs_f64() * 1e6);
        }
    }
}
