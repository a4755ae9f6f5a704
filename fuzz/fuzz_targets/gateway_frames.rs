//! Frames of anybody through a whole gateway (`examples/gateway`): stages on host and accelerator, NAT, a tunnel with a session.
//!
//! An input is steps: what kind, which interface, how long, bytes. Bytes are a frame as it stands, or behind headers that are right, so
//! that they come past the checks of addresses and
//! checksums, or what the other gateway seals. Whatever comes: nothing panics, each packet has one end, and what leaves has a right header.
#![no_main]

use codec::crossing::Shared;
use codec::memory::Place;
use gateway::net::{Interface, Link, Net, Via, Zone};
use gateway::packet::{Ipv4, Mac, build, checksum, ethernet};
use gateway::place::host::Host;
use gateway::place::lane::{Lane, Wire};
use gateway::place::{Setting, places};
use gateway::registers::Placement;
use gateway::route::table::{Prefix, Table};
use gateway::tunnel::keys::Secret;
use libfuzzer_sys::fuzz_target;
use std::net::Ipv4Addr;
use std::sync::Arc;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);
const NAT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

fn mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, number])
}

fn net(side: u8) -> Net {
    let own = |number, address, zone| Interface {
        name: String::new(),
        mac: mac(number),
        address,
        network: Prefix::new(address, 24),
        mtu: 1500,
        zone,
    };
    let outer = |side: u8| Ipv4Addr::new(192, 0, 2, 1 + side);
    let interfaces = vec![
        own(10 + side, Ipv4Addr::new(10, 1 + side, 0, 1), Zone::Inside),
        own(20 + side, outer(side), Zone::Outside),
    ];
    let mut routes = Table::default();
    for (at, interface) in interfaces.iter().enumerate() {
        routes.insert(interface.network, Via::Interface(at as u8, None));
    }
    routes.insert(Prefix::new(if side == 0 { SERVER } else { NAT }, 24), Via::Tunnel);
    let address = Ipv4Addr::new(10, 8, 0, 1 + side);
    let zone = if side == 0 { Zone::Outside } else { Zone::Inside };
    Net {
        interfaces,
        tunnel: Some(Link { interface: 1, peer: outer(1 - side), port: 4790, address, zone }),
        routes,
        nat: (side == 0).then_some(NAT),
        neighbours: vec![
            (0, if side == 0 { CLIENT } else { SERVER }, mac(99)),
            (1, outer(1 - side), mac(21 - side)),
        ],
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

struct Gateway {
    lane: Lane<Shared>,
    host: Host<Shared>,
    now_ns: u64,
}

impl Gateway {
    fn new(side: u8, placement: Placement) -> Gateway {
        let secret = Secret::of_seed(1);
        let setting = Setting {
            net: Arc::new(net(side)),
            registers: Arc::default(),
            secret,
            drawn: [side + 1; 16],
            placement,
        };
        let (lane, host) = places(setting, Shared::default(), ring::wait::WaitPolicy::BLOCK).expect("memory");
        Gateway { lane, host, now_ns: 1 }
    }

    fn settle(&mut self, sent: &mut Sent) {
        while self.lane.turn(self.now_ns, sent) | self.host.step() {}
        assert_eq!(self.lane.in_flight(), 0);
        let figures = self.lane.counters().figures();
        let dropped: u64 = figures.dropped.iter().map(|(_, count)| count).sum();
        assert_eq!(figures.received[0] + figures.made, figures.sent[0] + figures.taken + dropped);
    }

    fn take(&mut self, interface: u8, frame: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut sent = Sent::default();
        self.lane.admit(interface, self.now_ns, &mut sent, |room| {
            let len = frame.len().min(room.len());
            room[..len].copy_from_slice(&frame[..len]);
            len
        });
        self.settle(&mut sent);
        sent.0
    }

    fn tick(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut sent = Sent::default();
        self.lane.tick(self.now_ns);
        self.settle(&mut sent);
        sent.0
    }
}

/// A frame to `to` around a packet.
fn frame(to: u8, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER];
    ethernet::write(&mut frame, mac(to), mac(99), ethernet::IPV4);
    frame.extend_from_slice(packet);
    frame
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, mut rest)) = input.split_first() else { return };
    let place = |bit: u8| if first >> bit & 1 == 1 { Place::Acc } else { Place::Host };
    // Compute units are threads, so crypto stays on the host: what it does is the same there.
    let mut a = Gateway::new(0, [place(0), place(1), Place::Host]);
    let mut b = Gateway::new(1, [place(2), Place::Host, Place::Host]);
    let mut wire = [a.tick(), b.tick()];
    for _ in 0..4 {
        let [to_b, to_a] = std::mem::take(&mut wire);
        wire[0] = to_a.iter().flat_map(|(_, frame)| a.take(1, frame)).collect();
        wire[1] = to_b.iter().flat_map(|(_, frame)| b.take(1, frame)).collect();
    }
    while let [kind, len, more @ ..] = rest {
        let (bytes, after) = more.split_at(more.len().min(usize::from(*len) * 6));
        rest = after;
        let protocol = [1, 6, 17, 1][usize::from(kind >> 4 & 3)];
        let sent = match kind & 7 {
            0 | 1 => a.take(kind & 1, bytes),
            2 => a.take(0, &frame(10, &build::ipv4(CLIENT, SERVER, protocol, 64, bytes))),
            3 => a.take(1, &frame(20, &build::ipv4(Ipv4Addr::new(192, 0, 2, 9), NAT, protocol, 64, bytes))),
            // The header's bytes are the input's, its sum is right.
            4 | 5 if bytes.len() >= 20 => {
                let mut packet = bytes.to_vec();
                packet[10..12].fill(0);
                let header = (usize::from(packet[0] & 15) * 4).clamp(20, packet.len());
                let sum = checksum::of(&packet[..header]);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
                a.take(kind & 1, &frame(10 + 10 * (kind & 1), &packet))
            }
            6 => {
                let sealed = b.take(0, &frame(11, &build::ipv4(SERVER, NAT, protocol, 64, bytes)));
                sealed.iter().flat_map(|(_, frame)| a.take(1, frame)).collect()
            }
            _ => {
                a.now_ns += u64::from(*len) << 26;
                a.tick()
            }
        };
        for (interface, frame) in sent {
            let (_, from, kind) = ethernet::read(&frame).expect("a whole header");
            assert_eq!(from, mac(10 + 10 * interface));
            if kind == ethernet::IPV4 {
                Ipv4::parse(&frame[ethernet::HEADER..]).expect("a packet with a right sum");
            }
        }
    }
});
