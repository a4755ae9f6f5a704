//! What crosses follows from the placement, to the byte; no packet is lost or changed by where its stages are, nor by moving them.

use super::host::Host;
use super::lane::{Lane, Wire};
use super::*;
use crate::net::{Interface, Link, Via, Zone};
use crate::packet::{Ipv4, Mac, Transport, build, ethernet, transport};
use crate::registers::{Id, placements, show};
use crate::route::table::{Prefix, Table};
use base::prng::Prng;
use codec::crossing::{Counts, Shared};
use std::net::Ipv4Addr;

pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);
pub const NAT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const INSIDE: u8 = 0;
const CARRIER: u8 = 1;

fn mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, number])
}

fn prefix(text: &str) -> Prefix {
    Prefix::parse(text).expect("a network").0
}

/// Gateway 0 has the client and NAT, gateway 1 the server; between them 192.0.2.0/24.
pub fn net(side: u8) -> Net {
    let own = |third: u8| Ipv4Addr::new(10, third + 1, 0, 1);
    let outer = |side: u8| Ipv4Addr::new(192, 0, 2, side + 1);
    let interface = |name: &str, number, address, network, zone| Interface {
        name: name.into(),
        mac: mac(number),
        address,
        network,
        mtu: 1500,
        zone,
    };
    let (near, far) = (
        prefix(if side == 0 { "10.1.0.0/24" } else { "10.2.0.0/24" }),
        prefix(if side == 0 { "10.2.0.0/24" } else { "10.9.0.0/24" }),
    );
    let mut routes = Table::default();
    routes.insert(near, Via::Interface(INSIDE, None));
    routes.insert(prefix("192.0.2.0/24"), Via::Interface(CARRIER, None));
    routes.insert(far, Via::Tunnel);
    let host = if side == 0 { CLIENT } else { SERVER };
    Net {
        interfaces: vec![
            interface("inside", 10 + side, own(side), near, Zone::Inside),
            interface("carrier", 20 + side, outer(side), prefix("192.0.2.0/24"), Zone::Outside),
        ],
        tunnel: Some(Link {
            interface: CARRIER,
            peer: outer(1 - side),
            port: 4789,
            address: Ipv4Addr::new(10, 8, 0, side + 1),
            zone: if side == 0 { Zone::Outside } else { Zone::Inside },
        }),
        routes,
        nat: (side == 0).then_some(NAT),
        neighbours: vec![(INSIDE, host, mac(100 + side)), (CARRIER, outer(1 - side), mac(21 - side))],
    }
}

#[derive(Default)]
struct Sent(Vec<(u8, Vec<u8>)>);

impl Wire for Sent {
    fn send(&mut self, interface: u8, frame: &[u8]) -> bool {
        self.0.push((interface, frame.to_vec()));
        true
    }
}

/// A gateway whose two sides are driven in one thread.
pub struct Gateway {
    lane: Lane<Shared>,
    host: Host<Shared>,
    sent: Sent,
    pub now_ns: u64,
}

impl Gateway {
    pub fn new(side: u8, placement: Placement, start: u8) -> Gateway {
        let setting = Setting {
            net: Arc::new(net(side)),
            registers: Arc::default(),
            secret: Secret::of_seed(1),
            drawn: [start; 16],
            placement,
        };
        let (lane, host) = places(setting, Shared::default(), ring::wait::WaitPolicy::BLOCK).expect("memory");
        Gateway { lane, host, sent: Sent::default(), now_ns: 1 }
    }

    /// Works until nothing is left to do; what was sent.
    pub fn settle(&mut self) -> Vec<(u8, Vec<u8>)> {
        loop {
            let worked = self.lane.turn(self.now_ns, &mut self.sent) | self.host.step();
            if self.lane.has_tasks() {
                self.lane.wait_for_unit(self.now_ns, &mut self.sent);
            } else if !worked {
                break;
            }
        }
        assert_eq!(self.lane.in_flight(), 0);
        std::mem::take(&mut self.sent.0)
    }

    pub fn admit(&mut self, interface: u8, frame: &[u8]) {
        while !self.lane.has_room() {
            self.lane.turn(self.now_ns, &mut self.sent);
            self.host.step();
        }
        self.lane.admit(interface, self.now_ns, &mut self.sent, |room| {
            room[..frame.len()].copy_from_slice(frame);
            frame.len()
        });
    }

    pub fn take(&mut self, interface: u8, frame: &[u8]) -> Vec<(u8, Vec<u8>)> {
        self.admit(interface, frame);
        self.settle()
    }

    pub fn tick(&mut self) -> Vec<(u8, Vec<u8>)> {
        self.lane.tick(self.now_ns);
        self.settle()
    }

    fn counts(&self) -> Counts {
        self.lane.ground().crossing.counts()
    }

    pub fn dropped(&self) -> Vec<(Reason, u64)> {
        self.figures().dropped
    }

    fn figures(&self) -> Figures {
        self.lane.counters().figures()
    }
}

/// A pair with a session.
pub fn pair(placements: [Placement; 2]) -> [Gateway; 2] {
    let [mut a, mut b] = [Gateway::new(0, placements[0], 1), Gateway::new(1, placements[1], 2)];
    let mut wire = [a.tick(), b.tick()];
    for _ in 0..6 {
        let to_b: Vec<_> = std::mem::take(&mut wire[0]);
        let to_a: Vec<_> = std::mem::take(&mut wire[1]);
        for (interface, frame) in to_a {
            wire[0].extend(a.take(interface, &frame));
        }
        for (interface, frame) in to_b {
            wire[1].extend(b.take(interface, &frame));
        }
    }
    [a, b]
}

pub fn frame(packet: &[u8], to: Mac) -> Vec<u8> {
    let mut frame = vec![0; 14];
    ethernet::write(&mut frame, to, mac(99), ethernet::IPV4);
    frame.extend_from_slice(packet);
    frame
}

/// What must cross when a frame passes stages at these places, with these lengths before each and at last; the wire is at the accelerator.
fn expected(stages: &[Place], lens: &[usize]) -> Counts {
    let ends = std::iter::once(&Place::Acc).chain(stages);
    let mut counts = Counts::default();
    for ((from, to), len) in ends.zip(stages.iter().chain([&Place::Acc])).zip(lens) {
        let (len, entry) = (*len as u64, Meta::BYTES as u64);
        match (from, to) {
            (Place::Acc, Place::Host) => {
                counts = counts
                    + Counts {
                        writes: 1,
                        write_bytes: len,
                        notifications: 1,
                        notify_bytes: entry,
                        ..Counts::default()
                    };
            }
            (Place::Host, Place::Acc) => {
                counts = counts
                    + Counts {
                        reads: 1,
                        read_bytes: len,
                        doorbells: 1,
                        doorbell_bytes: entry,
                        ..Counts::default()
                    };
            }
            _ => {}
        }
    }
    counts
}

#[test]
fn what_crosses_follows_from_the_placement_to_the_byte() {
    for placement in placements() {
        let [mut a, mut b] = pair([placement, placement]);
        let [route, nat, crypto] = placement;
        let (sealed, n) = (crate::tunnel::OVERHEAD, 40);
        let (mut a_expected, mut b_expected) = (Counts::default(), Counts::default());
        let (a_before, b_before) = (a.counts(), b.counts());
        for i in 0..n {
            let payload = vec![i as u8; 10 * i];
            let len = 14 + 28 + payload.len();
            let request = build::udp((CLIENT, 5000 + i as u16), (SERVER, 53), &payload);
            let out = a.take(INSIDE, &frame(&request, mac(10)));
            assert_eq!(
                (out.len(), out[0].0, out[0].1.len()),
                (1, CARRIER, len + sealed),
                "{}",
                show(placement)
            );
            a_expected = a_expected + expected(&[route, nat, crypto], &[len, len, len, len + sealed]);
            let out = b.take(CARRIER, &out[0].1);
            assert_eq!((out.len(), out[0].0, out[0].1.len()), (1, INSIDE, len));
            b_expected = b_expected + expected(&[crypto, route], &[len + sealed, len, len]);
            let arrived = Ipv4::parse(&out[0].1[14..]).expect("a packet");
            assert_eq!((arrived.src, arrived.dst, arrived.ttl), (NAT, SERVER, 62));
            let port = transport(&out[0].1[14..], &arrived).expect("UDP").flow.src.1;
            let reply = build::udp((SERVER, 53), (NAT, port), &payload);
            let out = b.take(INSIDE, &frame(&reply, mac(11)));
            b_expected = b_expected + expected(&[route, crypto], &[len, len, len + sealed]);
            let mut out = a.take(CARRIER, &out[0].1);
            a_expected = a_expected + expected(&[crypto, nat, route], &[len + sealed, len, len, len]);
            let packet = &mut out[0].1[14..];
            let back = Ipv4::parse(packet).expect("a packet");
            let read = transport(packet, &back).expect("UDP").flow;
            assert_eq!((read.src, read.dst), ((SERVER, 53), (CLIENT, 5000 + i as u16)));
            assert!(Transport::fill_checksum(packet, &back, read.proto));
            assert_eq!(packet[28..], payload);
        }
        assert_eq!(a.counts() - a_before, a_expected, "{}", show(placement));
        assert_eq!(b.counts() - b_before, b_expected, "{}", show(placement));
        assert_eq!(a.figures().dropped, []);
    }
}

#[test]
fn what_ends_on_the_host_gives_its_slot_back() {
    for placement in placements() {
        let mut a = Gateway::new(0, placement, 1);
        let before = a.counts();
        // Nobody's: dropped by the first stage on its way.
        for _ in 0..3 * CAPACITY {
            assert_eq!(a.take(INSIDE, &frame(&build::udp((CLIENT, 1), (SERVER, 2), &[]), mac(77))), []);
        }
        let lost = 3 * CAPACITY as u64;
        assert_eq!(a.figures().dropped, [(Reason::NotForUs, lost)]);
        let crossed = a.counts() - before;
        let expected = if placement[0] == Place::Host { lost } else { 0 };
        assert_eq!(
            (crossed.writes, crossed.returns, crossed.chunks_returned, crossed.reads),
            (expected, expected, expected, 0)
        );
    }
}

#[test]
fn stages_move_under_load_and_no_packet_is_lost_or_overtaken() {
    let mut prng = Prng::new(5);
    let all: Vec<Placement> = placements().collect();
    let [mut a, mut b] = pair([all[0], all[7]]);
    let mut got = Vec::new();
    for i in 0..3000_u32 {
        let request = build::udp((CLIENT, 7), (SERVER, 9), &i.to_be_bytes());
        a.admit(INSIDE, &frame(&request, mac(10)));
        if prng.chance(0.01) {
            a.lane.set_placement(all[prng.below(8) as usize]);
        }
        if prng.chance(0.1) {
            for (_, sealed) in a.settle() {
                b.admit(CARRIER, &sealed);
                if prng.chance(0.01) {
                    b.lane.set_placement(all[prng.below(8) as usize]);
                }
            }
            got.extend(b.settle());
        }
    }
    for (_, sealed) in a.settle() {
        b.admit(CARRIER, &sealed);
    }
    got.extend(b.settle());
    let numbers: Vec<u32> =
        got.iter().map(|(_, frame)| u32::from_be_bytes(frame[42..46].try_into().expect("four"))).collect();
    assert_eq!(numbers, (0..3000).collect::<Vec<u32>>());
    for side in [&a, &b] {
        let figures = side.figures();
        assert!(figures.moves > 5);
        assert_eq!((figures.dropped.len(), side.lane.placement()), (0, side.lane.wanted()));
        assert_eq!(figures.received[0] + figures.made, figures.sent[0] + figures.taken);
    }
}

#[test]
fn a_gateway_that_starts_again_has_a_session_again_and_recordings_are_refused() {
    for placement in placements() {
        let [mut a, mut b] = pair([placement, placement]);
        let send =
            |a: &mut Gateway| a.take(INSIDE, &frame(&build::udp((CLIENT, 7), (SERVER, 9), &[1]), mac(10)));
        let recorded = send(&mut a);
        assert_eq!(b.take(CARRIER, &recorded[0].1).len(), 1);
        assert_eq!(b.take(CARRIER, &recorded[0].1), [], "the same again");
        let mut changed = recorded[0].1.clone();
        changed[54] ^= 1; // the sequence number
        assert_eq!(b.take(CARRIER, &changed), []);
        assert_eq!(b.figures().dropped, [(Reason::Replay, 1), (Reason::NotSealed, 1)], "{}", show(placement));
        // The client's gateway starts again.
        let mut a = Gateway::new(0, placement, 3);
        assert_eq!(send(&mut a), []);
        assert_eq!(a.figures().dropped, [(Reason::NoSession, 1)]);
        b.now_ns += 1_000_000_000;
        let mut wire = a.tick();
        for _ in 0..6 {
            let to_b = std::mem::take(&mut wire);
            let to_a: Vec<_> = to_b.iter().flat_map(|(_, frame)| b.take(CARRIER, frame)).collect();
            wire = to_a.iter().flat_map(|(_, frame)| a.take(CARRIER, frame)).collect();
        }
        let sealed = send(&mut a);
        assert_eq!(b.take(CARRIER, &sealed[0].1).len(), 1, "{}", show(placement));
        assert_eq!(b.take(CARRIER, &recorded[0].1), []);
    }
}

#[test]
fn the_table_of_flows_is_bounded_by_its_register() {
    let registers = Arc::new(Registers::default());
    registers.write(Id::NatFlows, 3).expect("in range");
    let mut nat = Nat::new(&net(0), registers, 1);
    for i in 0..5 {
        let mut frame = frame(&build::udp((CLIENT, 5000 + i), (SERVER, 53), &[]), mac(10));
        let mut meta = Meta { len: frame.len() as u16, ..Meta::default() }.with(Meta::ROUTED);
        let next = nat.handle(&mut meta, &mut frame, 0);
        assert_eq!(next, if i < 3 { Next::Send } else { Next::Drop(Reason::NatFull) });
    }
    assert_eq!(nat.flows(), 3);
}
