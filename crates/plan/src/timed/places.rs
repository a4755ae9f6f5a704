//! M-E2: the in-network cache by where its boxes are, in virtual time: the machines of production, with what packets cost on this kind of host.
//!
//! Variants are where boxes are and whether nodes poll or sleep; points are the share of writes, the latency of a hop and the operations that each
//! client has under way.

use super::rack::{BoxesAt, Cost, Rack, Seen};
use base::Picos;
use model::experiment::Rows;
use model::platform::{LoadError, Platforms};
use model::system::host::Host;

const EXPERIMENT: &str = "M-E2";
const WARM_UP: Picos = Picos::from_millis(15);
const SPAN: Picos = Picos::from_millis(15);
const KEYS: u64 = 2_000;
/// Copies of all boxes of a variant together.
const COPIES: usize = 400;
const TORS: u16 = 2;

const PLACES: [(&str, BoxesAt); 4] = [
    ("no box", BoxesAt { tors: None, root: None }),
    ("box at the root", BoxesAt { tors: None, root: Some(COPIES) }),
    ("boxes at the ToRs", BoxesAt { tors: Some(COPIES / TORS as usize), root: None }),
    ("boxes at both", BoxesAt { tors: Some(COPIES / 4), root: Some(COPIES / 2) }),
];

/// The experiment.
///
/// # Errors
/// `this-host` lacks a number.
pub fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named("this-host")?;
    let host = Host::of(&platform)?;
    let packet = (platform.bytes("link.mtu")?, platform.bytes("link.overhead")?);
    let bits = platform.bandwidth("link.bandwidth")?;
    let mut rows = Rows::default();
    for (place, boxes) in PLACES {
        for (how, wake, hops) in
            [("polling", Picos::ZERO, &[0, 1_000, 5_000][..]), ("sleeping", host.wake, &[0])]
        {
            let variant = format!("{place}, {how}");
            for hop in hops {
                for (writes, window) in [(0.0, 1), (0.0, 16), (0.05, 1), (0.05, 16), (0.2, 16)] {
                    let cost =
                        Cost { receive: host.udp_receive, send: host.udp_send, handle: host.machine, wake };
                    let rack = Rack {
                        tors: TORS,
                        clients: 2,
                        boxes,
                        cost,
                        bits,
                        packet,
                        hop: Picos::from_nanos(*hop),
                        keys: KEYS,
                        skew: 0.99,
                        value: 100,
                        writes,
                        window,
                    };
                    let point = format!(
                        "{:.0} % writes, {} us per hop, {window} under way",
                        writes * 100.0,
                        hop / 1_000
                    );
                    report(&mut rows, (&variant, &point), &rack.run(seed, WARM_UP, SPAN));
                }
            }
        }
    }
    Ok(rows)
}

fn report(rows: &mut Rows, (variant, point): (&str, &str), seen: &Seen) {
    let at = (EXPERIMENT, variant, point);
    let (gets, sets) = (&seen.users.gets, &seen.users.sets);
    let operations = (gets.count() + sets.count()) as f64;
    rows.add(at, "throughput", "Kops", operations / SPAN.as_secs_f64() / 1e3);
    for (of, [mean, p50, p99]) in [
        (gets, ["GET mean latency", "GET p50", "GET p99"]),
        (sets, ["SET mean latency", "SET p50", "SET p99"]),
    ] {
        if of.count() > 0 {
            rows.add(at, mean, "us", of.mean() * 1e6);
            rows.add(at, p50, "us", of.quantile(0.5) * 1e6);
            rows.add(at, p99, "us", of.quantile(0.99) * 1e6);
        }
    }
    rows.add(at, "answered by boxes", "%", 100.0 * seen.users.by.boxes() as f64 / gets.count().max(1) as f64);
    rows.add(at, "packets per operation", "packets", seen.users.packets as f64 / operations.max(1.0));
    rows.add(at, "cores of the home", "cores", seen.home_cores);
    rows.add(at, "cores of boxes", "cores", seen.box_cores);
    rows.add(at, "home's link busy", "%", 100.0 * seen.home_link);
}
