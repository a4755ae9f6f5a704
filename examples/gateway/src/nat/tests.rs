//! Translation is a bijection, replies come back, and checksums are those of a full computation: against a reference that is a list.

use super::table::End;
use super::*;
use crate::packet::{Flow, build};
use crate::place::tests::{CLIENT, NAT, SERVER, net};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn nat(flows: u64) -> Nat {
    let registers = Arc::new(Registers::default());
    registers.write(Id::NatFlows, flows).expect("in range");
    Nat::new(&net(0), registers, 7)
}

/// What NAT makes of a packet that goes out, or comes in.
fn pass(nat: &mut Nat, packet: &[u8], goes_out: bool, now_ns: u64) -> Result<Vec<u8>, Next> {
    let mut frame = vec![0; 14];
    frame.extend_from_slice(packet);
    let mut meta = Meta { len: frame.len() as u16, ..Meta::default() };
    if goes_out {
        meta = meta.with(Meta::ROUTED);
    }
    let next = nat.handle(&mut meta, &mut frame, now_ns);
    nat.check();
    let is_through = if goes_out { next == Next::Send } else { meta.has(Meta::TRANSLATED) };
    if is_through { Ok(frame.split_off(14)) } else { Err(next) }
}

fn packet_of(flow: Flow, flags: u8, is_reply: bool) -> Vec<u8> {
    match flow.proto {
        Proto::Udp => build::udp(flow.src, flow.dst, b"payload"),
        Proto::Tcp => build::tcp(flow.src, flow.dst, flags, b"payload"),
        Proto::Echo => {
            let id = if is_reply { flow.dst.1 } else { flow.src.1 };
            build::echo(flow.src.0, flow.dst.0, !is_reply, (id, 1), b"payload")
        }
    }
}

/// The flow of a packet, if all its checksums are right.
fn flow_of(packet: &mut [u8]) -> Option<Flow> {
    let ip = Ipv4::parse(packet).ok()?;
    let flow = transport(packet, &ip)?.flow;
    Transport::fill_checksum(packet, &ip, flow.proto).then_some(flow)
}

/// Whom nobody inside speaks to.
const STRANGER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

#[derive(Clone, Debug)]
enum Event {
    Out(usize, u8),
    Back(usize, u8),
    Stranger(u16),
    Wait(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let flags = prop_oneof![Just(0x02_u8), Just(0x12), Just(0x10), Just(0x11), Just(0x04)];
    let event = prop_oneof![
        4 => (0..24_usize, flags.clone()).prop_map(|(flow, flags)| Event::Out(flow, flags)),
        4 => (0..24_usize, flags).prop_map(|(flow, flags)| Event::Back(flow, flags)),
        1 => any::<u16>().prop_map(Event::Stranger),
        1 => prop_oneof![0..400_u64, 7000..8000_u64].prop_map(Event::Wait),
    ];
    proptest::collection::vec(event, 1..120)
}

/// Few hosts, ports and remotes, so that their ports collide.
fn flow(number: usize) -> Flow {
    let proto = [Proto::Udp, Proto::Tcp, Proto::Echo][number % 3];
    let host = Ipv4Addr::new(10, 1, 0, 2 + (number / 3 % 4) as u8);
    let remote = if number >= 12 { SERVER } else { Ipv4Addr::new(10, 2, 0, 3) };
    let dst = (remote, if proto == Proto::Echo { 0 } else { 80 });
    Flow { proto, src: (host, if number.is_multiple_of(2) { 5000 } else { 80 }), dst }
}

/// How long the reference keeps a flow, in seconds, and what it knows of it.
struct Known {
    port: u16,
    until: u64,
    kept: u64,
}

impl Known {
    fn touch(&mut self, proto: Proto, flags: u8, from_outside: bool, now: u64) {
        let (syn, ends) = (flags & 2 != 0, flags & 5 != 0);
        self.kept = match proto {
            Proto::Udp => 300,
            Proto::Echo => 60,
            Proto::Tcp if ends || (syn && !from_outside) => 240,
            Proto::Tcp if syn && self.kept == 240 => 7440,
            Proto::Tcp => self.kept,
        };
        self.until = now + self.kept;
    }
}

/// What a list of flows would not do.
fn play(events: &[Event], most: u64, planted: Option<Planted>) -> Result<(), TestCaseError> {
    let mut nat = nat(most);
    nat.planted = planted;
    let mut known: BTreeMap<usize, Known> = BTreeMap::new();
    let mut now = 0;
    // Several numbers may name one flow: the reference knows it by the first.
    let first = |number: usize| (0..24).find(|other| flow(*other) == flow(number)).expect("itself");
    for event in events {
        known.retain(|_, flow| now < flow.until);
        match *event {
            Event::Wait(seconds) => {
                now += seconds;
                nat.tick(now * SECOND);
                nat.check();
            }
            Event::Stranger(port) => {
                let packet = build::udp((STRANGER, 4242), (NAT, port), b"stranger");
                prop_assert_eq!(pass(&mut nat, &packet, false, now * SECOND), Err(Next::Stage(Stage::Route)));
            }
            Event::Out(number, flags) => {
                let (flow, number) = (flow(number), first(number));
                match pass(&mut nat, &packet_of(flow, flags, false), true, now * SECOND) {
                    Ok(mut packet) => {
                        let Some(out) = flow_of(&mut packet) else {
                            return Err(TestCaseError::fail("a checksum is wrong"));
                        };
                        prop_assert_eq!((out.src.0, out.dst), (NAT, flow.dst));
                        prop_assert!(out.src.1 >= LOWEST);
                        let fresh = Known { port: out.src.1, until: 0, kept: 240 };
                        let entry = known.entry(number).or_insert(fresh);
                        prop_assert_eq!(entry.port, out.src.1, "a flow keeps its port");
                        entry.touch(flow.proto, flags, false, now);
                        let keys: Vec<(Proto, u16, End)> = known
                            .iter()
                            .map(|(number, known)| {
                                (self::flow(*number).proto, known.port, self::flow(*number).dst)
                            })
                            .collect();
                        let is_alone = |at: usize| !keys[..at].contains(&keys[at]);
                        prop_assert!((1..keys.len()).all(is_alone), "a port stands for one host");
                    }
                    Err(next) => {
                        prop_assert_eq!(next, Next::Drop(Reason::NatFull));
                        prop_assert!(known.len() as u64 >= most && !known.contains_key(&number));
                    }
                }
            }
            Event::Back(number, flags) => {
                let (flow, number) = (flow(number), first(number));
                let Some(entry) = known.get_mut(&number) else { continue };
                let reply = Flow { proto: flow.proto, src: flow.dst, dst: (NAT, entry.port) };
                let back = pass(&mut nat, &packet_of(reply, flags, true), false, now * SECOND);
                let Some(back) = back.ok().and_then(|mut packet| flow_of(&mut packet)) else {
                    return Err(TestCaseError::fail("a reply did not come back whole"));
                };
                prop_assert_eq!((back.src, back.dst), (flow.dst, flow.src));
                entry.touch(flow.proto, flags, true, now);
            }
        }
        known.retain(|_, flow| now < flow.until);
        prop_assert!(nat.flows() >= known.len() && nat.flows() as u64 <= most);
    }
    nat.tick(now * SECOND);
    prop_assert_eq!(nat.flows(), known.len(), "flows end when their time is over");
    Ok(())
}

#[test]
fn planted_bugs_are_found() {
    use proptest::test_runner::{Config, TestRunner};
    for planted in
        [Planted::OldChecksum, Planted::Forgetful, Planted::OneMore, Planted::AnyRemote, Planted::NeverClosed]
    {
        let config =
            Config { cases: 256, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
        let found = TestRunner::new(config)
            .run(&(events(), 3..30_u64), |(events, most)| play(&events, most, Some(planted)));
        assert!(found.is_err(), "{planted:?}");
    }
}

proptest! {
    #[test]
    fn it_does_what_a_list_of_flows_does(events in events(), most in 3..30_u64) {
        play(&events, most, None)?;
    }

    #[test]
    fn errors_come_back_to_whoever_sent_the_packet(number in 0..24_usize, cut in 0..30_usize) {
        let mut nat = nat(100);
        let flow = flow(number);
        let out = pass(&mut nat, &packet_of(flow, 2, false), true, 0).expect("room");
        // A router outside quotes what it saw: the header and eight bytes at least.
        let router = Ipv4Addr::new(203, 0, 113, 9);
        let quoted = &out[..(28 + cut).min(out.len())];
        let error = icmp::Error::FragmentationNeeded(1300).packet(router, quoted).expect("an error");
        let back = pass(&mut nat, &error, false, 1).expect("about a flow");
        let ip = Ipv4::parse(&back).expect("a packet");
        prop_assert_eq!((ip.src, ip.dst), (router, flow.src.0));
        prop_assert_eq!(crate::packet::checksum::of(&back[20..]), 0);
        let inner = &back[icmp::quoted_at(&back, &ip).expect("a quotation")..];
        let read = Ipv4::parse_quoted(inner).expect("a header");
        prop_assert_eq!(crate::packet::checksum::of(&inner[..20]), 0, "the quoted header's checksum");
        prop_assert_eq!(transport(inner, &read).expect("a transport").flow, flow);
        // And the other way: the host inside says so of what came back to it.
        let port = nat.flows.flow(0).port;
        let reply = Flow { proto: flow.proto, src: flow.dst, dst: (NAT, port) };
        let seen = pass(&mut nat, &packet_of(reply, 0x10, true), false, 2).expect("a flow's");
        let error = icmp::Error::PortUnreachable.packet(flow.src.0, &seen).expect("an error");
        let out = pass(&mut nat, &error, true, 3).expect("about a flow");
        let ip = Ipv4::parse(&out).expect("a packet");
        prop_assert_eq!((ip.src, ip.dst), (NAT, flow.dst.0));
        let inner = &out[icmp::quoted_at(&out, &ip).expect("a quotation")..];
        prop_assert_eq!(transport(inner, &Ipv4::parse_quoted(inner).expect("a header")).expect("a transport").flow, reply);
    }
}

#[test]
fn what_it_does_not_know_is_not_translated() {
    let mut nat = nat(10);
    let out = |nat: &mut Nat, packet: &[u8]| pass(nat, packet, true, 0);
    let gre = build::ipv4(CLIENT, SERVER, 47, 64, &[0; 20]);
    assert_eq!(out(&mut nat, &gre), Err(Next::Drop(Reason::NotTranslatable)));
    let answer = build::echo(CLIENT, SERVER, false, (1, 1), &[]);
    assert_eq!(out(&mut nat, &answer), Err(Next::Drop(Reason::NotTranslatable)));
    let short = build::ipv4(CLIENT, SERVER, 6, 64, &[0; 12]);
    assert_eq!(out(&mut nat, &short), Err(Next::Drop(Reason::NotTranslatable)));
    let mut piece = build::udp((CLIENT, 1), (SERVER, 2), &[0; 64]);
    piece[6] = 0x20; // more to come
    let sum = Change::default().word(0x4000, 0x2000).apply(crate::packet::u16_at(&piece, 10));
    crate::packet::set_u16(&mut piece, 10, sum);
    assert_eq!(out(&mut nat, &piece), Err(Next::Drop(Reason::Fragment)));
    assert_eq!(nat.flows(), 0);
    let about = build::udp((SERVER, 1), (CLIENT, 2), &[]);
    let error = icmp::Error::PortUnreachable.packet(CLIENT, &about).expect("an error");
    assert_eq!(out(&mut nat, &error), Err(Next::Drop(Reason::NotTranslatable)), "about a packet of no flow");
}

#[test]
fn ports_end_before_the_table_does() {
    let mut nat = nat(1 << 20);
    let mut refused = 0;
    for n in 0..70_000_u32 {
        let host = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 1, 0, 0)) + 2 + n / 60_000);
        let packet = build::udp((host, 1024 + (n % 60_000) as u16), (SERVER, 53), &[]);
        let mut frame = [&[0; 14][..], &packet].concat();
        let mut meta = Meta { len: frame.len() as u16, ..Meta::default() }.with(Meta::ROUTED);
        match nat.handle(&mut meta, &mut frame, 0) {
            Next::Send => {}
            next => {
                assert_eq!(next, Next::Drop(Reason::NoPort));
                refused += 1;
            }
        }
    }
    nat.check();
    assert!(nat.flows() <= usize::from(u16::MAX - LOWEST) + 1);
    assert!(refused >= 70_000 - 64_512 && nat.flows() > 64_000, "{refused} refused, {} there", nat.flows());
}
