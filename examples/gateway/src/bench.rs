//! `gateway bench`: one gateway without sockets, its two threads and its units, in all placements: what the stages and what crosses cost.
//!
//! ```text
//!  packets of a client ──▶ lane ──▶ route, NAT, seal, wherever they are ──▶ counted, and one in 64 opened by the other gateway and compared
//! ```
//! Rounds go through all placements in turn, and the table has each one's best round: whoever else uses the machine only takes away.

use crate::lab::crossings;
use crate::net::{Interface, Link, Net, Stage, Via, Zone};
use crate::packet::{Ipv4, Mac, build, ethernet};
use crate::place::host::Host;
use crate::place::lane::{Lane, Wire};
use crate::place::{Setting, places};
use crate::registers::{Placement, placements, show};
use crate::route::table::{Prefix, Table};
use crate::tunnel::keys::Secret;
use base::clock::Clock;
use codec::crossing::{Crossing as _, Shared};
use codec::memory::Place;
use ring::wait::{WaitPolicy, waiting};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);
const NAT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const INSIDE: u8 = 0;
const CARRIER: u8 = 1;
/// Flows of the client.
const FLOWS: u16 = 64;
const SAMPLE: u64 = 64;

/// How a run is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of a placement in a round.
    pub slice: Duration,
    /// Through all placements.
    pub rounds: usize,
    /// Bytes of the packets.
    pub sizes: Vec<usize>,
}

fn mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, number])
}

/// Gateway 0 has the client and NAT, gateway 1 the server.
fn net(side: u8) -> Net {
    let interface = |name: &str, number, address, zone| Interface {
        name: name.into(),
        mac: mac(number),
        address,
        network: Prefix::new(address, 24),
        mtu: 1500,
        zone,
    };
    let outer = |side: u8| Ipv4Addr::new(192, 0, 2, 1 + side);
    let interfaces = vec![
        interface("in", 10 + side, Ipv4Addr::new(10, 1 + side, 0, 1), Zone::Inside),
        interface("out", 20 + side, outer(side), Zone::Outside),
    ];
    let mut routes = Table::default();
    for (at, interface) in interfaces.iter().enumerate() {
        routes.insert(interface.network, Via::Interface(at as u8, None));
    }
    routes.insert(Prefix::new(if side == 0 { SERVER } else { NAT }, 24), Via::Tunnel);
    let host = if side == 0 { CLIENT } else { SERVER };
    let zone = if side == 0 { Zone::Outside } else { Zone::Inside };
    let address = Ipv4Addr::new(10, 8, 0, 1 + side);
    Net {
        interfaces,
        tunnel: Some(Link { interface: CARRIER, peer: outer(1 - side), port: 4790, address, zone }),
        routes,
        nat: (side == 0).then_some(NAT),
        neighbours: vec![(INSIDE, host, mac(99)), (CARRIER, outer(1 - side), mac(21 - side))],
    }
}

/// Counts frames, and keeps some.
#[derive(Default)]
struct Counted {
    frames: u64,
    kept: VecDeque<Vec<u8>>,
    all: bool,
}

impl Wire for Counted {
    fn send(&mut self, _: u8, frame: &[u8]) -> bool {
        self.frames += 1;
        if self.all || self.frames.is_multiple_of(SAMPLE) {
            self.kept.push_back(frame.to_vec());
        }
        true
    }
}

struct Gateway {
    lane: Lane<Shared>,
    host: Option<Host<Shared>>,
}

impl Gateway {
    fn new(side: u8, placement: Placement) -> io::Result<Gateway> {
        let setting = Setting {
            net: Arc::new(net(side)),
            registers: Arc::default(),
            secret: Secret::of_seed(1),
            drawn: crate::driver::draw()?,
            placement,
        };
        let (lane, host) = places(setting, Shared::default(), WaitPolicy::default())?;
        Ok(Gateway { lane, host: Some(host) })
    }

    /// Both sides in this thread, until nothing is left to do.
    fn settle(&mut self, now_ns: u64, wire: &mut Counted) {
        let host = self.host.as_mut().expect("it has no thread");
        loop {
            let worked = self.lane.turn(now_ns, wire) | host.step();
            if self.lane.has_tasks() {
                self.lane.wait_for_unit(now_ns, wire);
            } else if !worked {
                return;
            }
        }
    }

    fn take(&mut self, interface: u8, frame: &[u8], now_ns: u64) -> Vec<Vec<u8>> {
        let mut wire = Counted { all: true, ..Counted::default() };
        self.lane.admit(interface, now_ns, &mut wire, |room| copy(frame, room));
        self.settle(now_ns, &mut wire);
        wire.kept.into()
    }

    fn tick(&mut self, now_ns: u64) -> Vec<Vec<u8>> {
        let mut wire = Counted { all: true, ..Counted::default() };
        self.lane.tick(now_ns);
        self.settle(now_ns, &mut wire);
        wire.kept.into()
    }
}

fn copy(frame: &[u8], room: &mut [u8]) -> usize {
    room[..frame.len()].copy_from_slice(frame);
    frame.len()
}

/// A gateway that has a session with another.
fn pair(placement: Placement, now_ns: u64) -> io::Result<[Gateway; 2]> {
    let [mut a, mut b] = [Gateway::new(0, placement)?, Gateway::new(1, [Place::Host; 3])?];
    let mut wire = [a.tick(now_ns), b.tick(now_ns)];
    for _ in 0..4 {
        let [to_b, to_a] = std::mem::take(&mut wire);
        wire[0] = to_a.iter().flat_map(|frame| a.take(CARRIER, frame, now_ns)).collect();
        wire[1] = to_b.iter().flat_map(|frame| b.take(CARRIER, frame, now_ns)).collect();
    }
    Ok([a, b])
}

/// What a slice came to.
#[derive(Clone, Copy, Default)]
struct Slice {
    packets_per_s: f64,
    crossings: f64,
}

/// Frames of each flow, whose packets have so many bytes.
fn frames(size: usize) -> Vec<Vec<u8>> {
    let of = |flow: u16| {
        let payload: Vec<u8> =
            (0..size.saturating_sub(28)).map(|at| (at as u8).wrapping_mul(31) ^ flow as u8).collect();
        let packet = build::udp((CLIENT, 20_000 + flow), (SERVER, 9), &payload);
        let mut frame = vec![0; ethernet::HEADER];
        ethernet::write(&mut frame, mac(10), mac(99), ethernet::IPV4);
        frame.extend_from_slice(&packet);
        frame
    };
    (0..FLOWS).map(of).collect()
}

fn slice(placement: Placement, frames: &[Vec<u8>], time: Duration) -> Result<Slice, String> {
    let clock = Clock::shared();
    let failed = |error: io::Error| format!("the bench: {error}");
    let [mut a, mut b] = pair(placement, clock.now().0).map_err(failed)?;
    let mut host = a.host.take().expect("just made");
    let (mut host_sleeper, host_waker) = waiting();
    let (mut lane_sleeper, lane_waker) = waiting();
    let wait = WaitPolicy::default();
    let host_thread = thread::Builder::new().name("gw-host".into());
    let host_thread = host_thread.spawn(move || {
        while !host.is_abandoned() {
            match host.step() {
                true => _ = lane_waker.wake(),
                false => _ = host_sleeper.wait_until(wait, None, || host.is_ready() || host.is_abandoned()),
            }
        }
    });
    let host_thread = host_thread.map_err(failed)?;
    let mut wire = Counted::default();
    let before = a.lane.ground().crossing.counts();
    let (began, mut next) = (Instant::now(), 0);
    let mut ends = false;
    while !ends || a.lane.in_flight() > 0 {
        ends = began.elapsed() >= time;
        let now_ns = clock.now().0;
        let mut worked = false;
        while !ends && a.lane.has_room() {
            let frame = &frames[next % frames.len()];
            a.lane.admit(INSIDE, now_ns, &mut wire, |room| copy(frame, room));
            (next, worked) = (next + 1, true);
            if next % 32 == 0 {
                break;
            }
        }
        worked |= a.lane.turn(now_ns, &mut wire);
        host_waker.wake();
        if worked {
            continue;
        }
        if a.lane.has_tasks() {
            a.lane.wait_for_unit(now_ns, &mut wire);
        } else {
            // A time, so that the end of the slice is seen.
            lane_sleeper.wait_until(wait, Some(Duration::from_millis(10)), || a.lane.is_ready());
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let crossed = a.lane.ground().crossing.counts() - before;
    let figures = a.lane.counters().figures();
    drop(a);
    host_waker.wake();
    host_thread.join().map_err(|_| "the host's thread panicked".to_owned())?;
    if wire.frames != next as u64 {
        return Err(format!(
            "{}: of {next} packets {} came out; {:?}",
            show(placement),
            wire.frames,
            figures.dropped
        ));
    }
    compare(&mut b, &wire.kept, frames, clock.now().0)?;
    let packets = next.max(1) as f64;
    Ok(Slice {
        packets_per_s: packets / seconds,
        crossings: (crossed.writes + crossed.reads) as f64 / packets,
    })
}

/// Has the other gateway open what was kept: each is a packet of the client's, with NAT's address.
fn compare(b: &mut Gateway, kept: &VecDeque<Vec<u8>>, frames: &[Vec<u8>], now_ns: u64) -> Result<(), String> {
    for sealed in kept {
        let opened = b.take(CARRIER, sealed, now_ns);
        let [frame] = &opened[..] else { return Err("the other gateway does not open a packet".into()) };
        let packet = &frame[ethernet::HEADER..];
        let ip = Ipv4::parse(packet).map_err(|error| error.to_string())?;
        let is_one = frames.iter().any(|sent| sent[ethernet::HEADER + 28..] == packet[28..]);
        if ip.src != NAT || ip.dst != SERVER || !is_one {
            return Err("another packet came out than went in".into());
        }
    }
    Ok(())
}

/// Runs it, and prints the table.
///
/// # Errors
/// A packet was lost or is another, or the system refuses.
pub fn run(options: &Options, stop: &AtomicBool) -> Result<(), String> {
    for &size in &options.sizes {
        let frames = frames(size);
        let mut best = vec![Slice::default(); placements().count()];
        for _ in 0..options.rounds {
            for (best, placement) in best.iter_mut().zip(placements()) {
                if stop.load(Relaxed) {
                    return Ok(());
                }
                let slice = slice(placement, &frames, options.slice)?;
                if slice.packets_per_s > best.packets_per_s {
                    *best = slice;
                }
            }
        }
        print!("{}", table(size, &best));
    }
    Ok(())
}

fn table(size: usize, best: &[Slice]) -> String {
    let mut text = format!(
        "\npackets of {size} bytes, client to tunnel\nroute nat  crypto   packets/s    MB/s   crossings   ns/packet\n"
    );
    for (slice, placement) in best.iter().zip(placements()) {
        let [route, nat, crypto] = placement.map(|place| if place == Place::Acc { "acc" } else { "host" });
        let _ = writeln!(
            text,
            "{route:<5} {nat:<4} {crypto:<6} {:>11.0} {:>7.1}   {:>4} {:.2}   {:>9.0}",
            slice.packets_per_s,
            slice.packets_per_s * size as f64 / 1e6,
            crossings(placement, &Stage::ALL),
            slice.crossings,
            1e9 / slice.packets_per_s
        );
    }
    let rate = |at: &usize| best[*at].packets_per_s;
    let all = || 0..best.len();
    let (high, low) =
        (all().max_by(|a, b| rate(a).total_cmp(&rate(b))), all().min_by(|a, b| rate(a).total_cmp(&rate(b))));
    if let (Some(high), Some(low)) = (high, low) {
        let named = |at: usize| placements().nth(at).map(show).unwrap_or_default();
        let _ = writeln!(
            text,
            "best ({}) over worst ({}): {:.2}×; the paper's, between an FPGA and its host over PCIe: 2.2×",
            named(high).trim(),
            named(low).trim(),
            rate(&high) / rate(&low).max(1.0)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_placement_carries_all_packets_and_crosses_as_it_should() {
        for placement in placements() {
            let slice =
                slice(placement, &frames(200), Duration::from_millis(20)).expect("all packets come out");
            // Hello packets crossed before; every packet of the slice crosses as often.
            assert_eq!(slice.crossings, crossings(placement, &Stage::ALL) as f64, "{}", show(placement));
        }
    }
}
