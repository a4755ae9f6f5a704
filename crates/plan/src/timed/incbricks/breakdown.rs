//! I-E2: where the time of an operation goes when nothing else is there (Fig. 9), and what a packet's detour to a box costs (§4.5).
//!
//! The machines do each operation alone; the legs of their messages say what it takes. Means over ToRs, whose boxes differ, and servers.

use super::bench::{Bench, Caching, Entries, Traffic};
use super::hardware::{Legs, Valued};
use super::{BOTH, PLATFORM};
use crate::timed::users::Doing;
use model::experiment::Rows;
use model::platform::{LoadError, Platform, Platforms};
use model::system::incbricks::rack::{Deployment, Leg, Part, ROOTS, Rack, Work};
use protocol::wire::{Control, Opcode};

const ID: &str = "I-E2";
const PARTS: [(Part, &str, &str); 4] = [
    (Part::Server, "server", "server share"),
    (Part::Stack, "OS stack", "OS stack share"),
    (Part::Switch, "switch", "switch share"),
    (Part::Box, "IncBox", "IncBox share"),
];

/// An operation that is looked at, and what was done before it.
#[derive(Clone, Copy)]
struct Scene {
    system: &'static str,
    operation: &'static str,
    caching: Caching,
    doing: Doing,
    /// The client itself has read the key, or one behind another ToR.
    before: Option<Reader>,
    /// Only what the home asks of boxes, and their answers.
    only_control: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Same,
    Other,
}

const fn vanilla(operation: &'static str, doing: Doing) -> Scene {
    let (system, caching) = ("vanilla", Caching::None);
    Scene { system, operation, caching, doing, before: None, only_control: false }
}

const fn boxes(operation: &'static str, doing: Doing, before: Option<Reader>) -> Scene {
    let (system, caching) = ("IncBricks", Caching::Boxes);
    Scene { system, operation, caching, doing, before, only_control: false }
}

const SCENES: [Scene; 8] = [
    vanilla("SET", Doing::Set),
    vanilla("GET", Doing::Get),
    boxes("SET", Doing::Set, Some(Reader::Same)),
    boxes("SET of a key that nobody shares", Doing::Set, None),
    Scene { only_control: true, ..boxes("invalidation", Doing::Set, Some(Reader::Same)) },
    boxes("GET answered by the ToR box", Doing::Get, Some(Reader::Same)),
    boxes("GET answered by the server", Doing::Get, None),
    boxes("GET answered by the root box", Doing::Get, Some(Reader::Other)),
];

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    for deployment in BOTH {
        for scene in SCENES {
            // Within a cluster there is no root on the way.
            if scene.before == Some(Reader::Other) && deployment == Deployment::Within {
                continue;
            }
            let (hardware, ways) = over_all(&platform, deployment, scene, seed)?;
            let variant = format!("{} {}", scene.system, deployment.name());
            add(&mut rows, &hardware.rack, (&variant, scene.operation), &ways);
        }
    }
    detours(&mut rows, &Rack::new(&platform, BOTH[0], seed)?);
    Ok(rows)
}

/// An operation of a client behind each ToR on a key of every server and root that it may talk to: the legs of all its messages.
fn over_all(
    platform: &Platform,
    deployment: Deployment,
    scene: Scene,
    seed: u64,
) -> Result<(Legs, Vec<Vec<Leg>>), LoadError> {
    let traffic = Traffic::new(platform, 0.0)?;
    // Room for everything that is asked for here.
    let entries = Entries { tor: 64, root: 64 };
    let mut ways = Vec::new();
    let rack = Rack::new(platform, deployment, seed)?;
    // Within a cluster a client's server is the one at its ToR; ranks go over servers first, then over roots.
    let ranks = (rack.servers() * ROOTS) as u64;
    let ranks = if deployment == Deployment::Within {
        (0..ranks).step_by(rack.servers())
    } else {
        (0..ranks).step_by(1)
    };
    let hardware = Bench::empty(platform, deployment, (traffic.clone(), Valued::Item), entries, seed)?
        .hardware(scene.caching)?
        .1;
    for client in 0..rack.client_tors() {
        for rank in ranks.clone() {
            let bench = Bench::empty(platform, deployment, (traffic.clone(), Valued::Item), entries, seed)?;
            let bench = bench.with(scene.caching);
            let key = bench.keys().key(client, rank);
            if let Some(reader) = scene.before {
                let reader = if reader == Reader::Same { client } else { (client + 1) % rack.client_tors() };
                bench.play(&mut bench.client(reader), (Doing::Get, &key), |_, _, _| ());
            }
            let mut legs = Vec::new();
            bench.play(&mut bench.client(client), (scene.doing, &key), |from, to, message| {
                let control = matches!(
                    message.header.opcode,
                    Opcode::Control(Control::Invalidate | Control::InvalidateAck)
                );
                if control || !scene.only_control {
                    legs.extend(hardware.way((from, to), message, true));
                    legs.extend(hardware.detour(to, message));
                }
            });
            ways.push(legs);
        }
    }
    Ok((hardware, ways))
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
