//! Who a frame is for, where its packet goes, and what is said of those that go nowhere.

use super::*;
use crate::packet::{build, checksum};
use crate::place::tests::{CLIENT, NAT, SERVER, frame, net};

const INSIDE: u8 = 0;
const CARRIER: u8 = 1;
const OWN: Mac = Mac([2, 0, 0, 0, 0, 10]);
const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);

struct Seen {
    next: Next,
    meta: Meta,
    frame: Vec<u8>,
    out: Out,
}

fn take(route: &mut Route, meta: Meta, frame: &[u8], now_ns: u64) -> Seen {
    let (mut frame, mut out) = (frame.to_vec(), Out::default());
    let mut meta = Meta { len: frame.len() as u16, ..meta };
    let next = route.handle(&mut meta, &mut frame, now_ns, &mut out);
    Seen { next, meta, frame, out }
}

fn from(interface: u8) -> Meta {
    Meta { interface, ..Meta::default() }
}

fn route() -> Route {
    Route::new(Arc::new(net(0)))
}

/// The only error that was made: its type and code, and to whom.
fn error(seen: &Seen) -> ([u8; 2], Ipv4Addr) {
    let [made] = &seen.out.made[..] else { panic!("one error: {:?}", seen.out) };
    assert!(made.meta.has(Meta::LOCAL) && !made.is_ready);
    let packet = &made.frame[14..];
    let ip = Ipv4::parse(packet).expect("a packet");
    assert_eq!(checksum::of(&packet[20..]), 0);
    ([packet[20], packet[21]], ip.dst)
}

#[test]
fn a_packet_goes_to_the_next_neighbour_with_one_router_less_to_live() {
    let mut route = route();
    let packet = build::udp((CLIENT, 1), (SERVER, 2), &[1, 2, 3]);
    let mut padded = frame(&packet, OWN);
    padded.resize(60, 0xAA);
    let seen = take(&mut route, from(INSIDE), &padded, 0);
    assert_eq!(seen.next, Next::Stage(Stage::Nat), "to the tunnel, which is outside");
    assert!(seen.meta.has(Meta::SEAL) && seen.meta.has(Meta::ROUTED));
    assert_eq!((seen.meta.interface, usize::from(seen.meta.len)), (CARRIER, 14 + packet.len()));
    let (dst, src, _) = ethernet::read(&seen.frame).expect("a frame");
    assert_eq!((dst, src), (Mac([2, 0, 0, 0, 0, 21]), Mac([2, 0, 0, 0, 0, 20])));
    assert_eq!(Ipv4::parse(&seen.frame[14..]).expect("a right checksum").ttl, 63);
    // To the link outside without the tunnel.
    let plain = build::udp((CLIENT, 1), (Ipv4Addr::new(192, 0, 2, 2), 2), &[]);
    let seen = take(&mut route, from(INSIDE), &frame(&plain, OWN), 0);
    assert_eq!((seen.next, seen.meta.has(Meta::SEAL)), (Next::Stage(Stage::Nat), false));
}

#[test]
fn an_unknown_neighbour_is_asked_and_its_packet_comes_again_as_it_was() {
    let mut route = route();
    let other = Ipv4Addr::new(10, 1, 0, 77);
    let packet = frame(&build::udp((SERVER, 1), (other, 2), &[9]), OWN);
    let opened = from(CARRIER).with(Meta::OPENED).with(Meta::TRANSLATED);
    let seen = take(&mut route, opened, &packet, 0);
    assert_eq!(seen.next, Next::Taken);
    let question = Arp::parse(&seen.out.made[0].frame[14..]).expect("a question");
    assert_eq!((question.asks, question.to.0, question.from), (true, other, (OWN_ADDRESS, OWN)));
    let mac = Mac([2, 0, 0, 0, 0, 77]);
    let answer = Arp { asks: false, from: (other, mac), to: question.from };
    let seen = take(&mut route, from(INSIDE), &answer.frame(OWN), 1);
    assert_eq!((seen.next, seen.out.made.len()), (Next::Taken, 1));
    assert_eq!(seen.out.made[0].frame, packet);
    let again = take(&mut route, seen.out.made[0].meta, &seen.out.made[0].frame, 2);
    assert_eq!((again.next, again.meta.interface), (Next::Send, INSIDE));
    assert_eq!(ethernet::read(&again.frame).expect("a frame").0, mac);
    // One that nobody answers for is given up, and its sender told.
    let nobody = frame(&build::udp((CLIENT, 1), (Ipv4Addr::new(192, 0, 2, 99), 2), &[]), OWN);
    assert_eq!(take(&mut route, from(INSIDE), &nobody, 0).next, Next::Taken);
    let mut out = Out::default();
    for second in 1..=3 {
        assert!(out.dropped.is_empty());
        out.made.clear();
        route.tick(second * SECOND, &mut out);
    }
    assert_eq!(out.dropped, [Reason::NoNeighbour]);
    let told = Ipv4::parse(&out.made[0].frame[14..]).expect("an error");
    assert_eq!((told.dst, &out.made[0].frame[34..36]), (CLIENT, &[3, 1][..]));
}

#[test]
fn whoever_asks_for_the_gateway_is_answered_and_known() {
    let mut route = route();
    let mac = Mac([2, 0, 0, 0, 0, 5]);
    for (interface, asked, who, answers) in [
        (INSIDE, OWN_ADDRESS, Ipv4Addr::new(10, 1, 0, 5), true),
        (INSIDE, CLIENT, Ipv4Addr::new(10, 1, 0, 5), false),
        (CARRIER, NAT, Ipv4Addr::new(192, 0, 2, 5), true),
        (INSIDE, NAT, Ipv4Addr::new(10, 1, 0, 5), false),
    ] {
        let question = Arp { asks: true, from: (who, mac), to: (asked, Mac([0; 6])) };
        let seen = take(&mut route, from(interface), &question.frame(Mac::BROADCAST), 0);
        assert_eq!((seen.next, seen.out.made.len()), (Next::Taken, usize::from(answers)));
        if let Some(made) = seen.out.made.first() {
            let answer = Arp::parse(&made.frame[14..]).expect("an answer");
            assert_eq!((answer.asks, answer.from.0, answer.to), (false, asked, (who, mac)));
            assert!(made.is_ready && made.meta.interface == interface);
        }
    }
    // Somebody who claims to be the gateway, or to be of another network.
    for liar in [OWN_ADDRESS, SERVER] {
        let lie = Arp { asks: false, from: (liar, mac), to: (OWN_ADDRESS, OWN) };
        assert_eq!(take(&mut route, from(INSIDE), &lie.frame(OWN), 0).next, Next::Drop(Reason::BadAddress));
    }
}

#[test]
fn senders_are_told_why_their_packets_go_nowhere() {
    let mut route = route();
    let mut old = build::udp((CLIENT, 1), (SERVER, 2), &[]);
    old[8] = 1;
    old[10..12].fill(0);
    let sum = checksum::of(&old[..20]);
    old[10..12].copy_from_slice(&sum.to_be_bytes());
    let far = build::udp((CLIENT, 1), (Ipv4Addr::new(8, 8, 8, 8), 2), &[]);
    let long = build::udp((CLIENT, 1), (SERVER, 2), &[0; 1450]);
    let own = build::udp((CLIENT, 1), (OWN_ADDRESS, 2), &[]);
    for (packet, reason, kind) in [
        (&old, Reason::TtlExpired, [11, 0]),
        (&far, Reason::NoRoute, [3, 0]),
        (&long, Reason::TooLong, [3, 4]),
        (&own, Reason::NotForUs, [3, 3]),
    ] {
        let seen = take(&mut route, from(INSIDE), &frame(packet, OWN), 0);
        assert_eq!(seen.next, Next::Drop(reason));
        assert_eq!(error(&seen), (kind, CLIENT));
        if reason == Reason::TooLong {
            let mtu = crate::packet::u16_at(&seen.out.made[0].frame, 14 + 26);
            assert_eq!(usize::from(mtu), 1500 - crate::tunnel::OVERHEAD);
        }
    }
    // A hundred at once, then a hundred a second.
    let told = |route: &mut Route, now| {
        (0..200).filter(|_| !take(route, from(INSIDE), &frame(&far, OWN), now).out.made.is_empty()).count()
    };
    assert_eq!(told(&mut route, 1), 96);
    assert_eq!(told(&mut route, SECOND), 100);
    assert_eq!(told(&mut route, SECOND + SECOND / 10), 10);
}

#[test]
fn what_is_wrong_or_not_ours_ends_without_a_word() {
    let mut route = route();
    let good = build::udp((CLIENT, 1), (SERVER, 2), &[]);
    let mut broken = good.clone();
    broken[12] ^= 1;
    let six = {
        let mut f = frame(&good, OWN);
        f[12..14].copy_from_slice(&[0x86, 0xDD]);
        f
    };
    let from_us = build::udp((OWN_ADDRESS, 1), (SERVER, 2), &[]);
    let to_many = build::udp((CLIENT, 1), (Ipv4Addr::new(224, 0, 0, 5), 2), &[]);
    for (frame, reason) in [
        (frame(&good, Mac([2, 9, 9, 9, 9, 9])), Reason::NotForUs),
        (frame(&good, Mac::BROADCAST), Reason::NotForUs),
        (six, Reason::NotIpv4),
        (frame(&broken, OWN), Reason::BadChecksum),
        (frame(&good[..19], OWN), Reason::Malformed),
        (OWN.0.to_vec(), Reason::Malformed),
        (frame(&from_us, OWN), Reason::BadAddress),
        (frame(&to_many, OWN), Reason::BadAddress),
    ] {
        let seen = take(&mut route, from(INSIDE), &frame, 0);
        assert_eq!((seen.next, seen.out.made.len()), (Next::Drop(reason), 0));
    }
    // A source that is behind the tunnel, from a link, and one that is inside, from outside: not even an echo is answered.
    for (interface, src, to) in [(CARRIER, SERVER, 20), (INSIDE, SERVER, 10), (CARRIER, CLIENT, 20)] {
        let forged = build::echo(src, net(0).interfaces[usize::from(interface)].address, true, (1, 1), &[]);
        let seen = take(&mut route, from(interface), &frame(&forged, Mac([2, 0, 0, 0, 0, to])), 0);
        assert_eq!((seen.next, seen.out.made.len()), (Next::Drop(Reason::Elsewhere), 0));
    }
    // From outside, for somebody inside, of no flow: NAT hides who is there.
    let probe = build::udp((SERVER, 1), (CLIENT, 2), &[]);
    let seen = take(&mut route, from(CARRIER).with(Meta::OPENED), &frame(&probe, OWN), 0);
    assert_eq!((seen.next, seen.out.made.len()), (Next::Drop(Reason::NotTranslated), 0));
}

#[test]
fn the_gateway_answers_echo() {
    let mut route = route();
    let request = build::echo(CLIENT, OWN_ADDRESS, true, (7, 3), b"are you there");
    let seen = take(&mut route, from(INSIDE), &frame(&request, OWN), 0);
    assert_eq!(seen.next, Next::Taken);
    let answer = build::echo(OWN_ADDRESS, CLIENT, false, (7, 3), b"are you there");
    assert_eq!(seen.out.made, [Made::local(&answer)]);
    let seen = take(&mut route, seen.out.made[0].meta, &seen.out.made[0].frame, 0);
    assert_eq!((seen.next, seen.meta.interface), (Next::Send, INSIDE));
}
