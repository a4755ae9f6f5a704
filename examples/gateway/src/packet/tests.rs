//! Parsing and building are inverse, changes of checksums are those of a full computation, and noise does no harm.

use super::checksum::Change;
use super::*;
use proptest::prelude::*;

fn ip() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

/// A whole packet of any kind that is understood.
pub fn packet() -> impl Strategy<Value = Vec<u8>> {
    (0..4_u8, (ip(), any::<u16>()), (ip(), any::<u16>()), proptest::collection::vec(any::<u8>(), 0..200))
        .prop_map(|(kind, src, dst, payload)| match kind {
            0 => build::udp(src, dst, &payload),
            1 => build::tcp(src, dst, payload.first().copied().unwrap_or(2), &payload),
            2 => build::echo(src.0, dst.0, src.1.is_multiple_of(2), (src.1, dst.1), &payload),
            _ => {
                let about = build::udp(dst, src, &payload);
                icmp::Error::HostUnreachable.packet(src.0, &about).unwrap_or(about)
            }
        })
}

proptest! {
    #[test]
    fn a_change_is_a_full_computation(
        mut bytes in proptest::collection::vec(any::<u8>(), 2..200),
        at in any::<prop::sample::Index>(),
        new in any::<u16>(),
    ) {
        let at = at.index(bytes.len() / 2) * 2;
        let before = checksum::of(&bytes);
        let change = Change::default().word(u16_at(&bytes, at), new);
        set_u16(&mut bytes, at, new);
        // 0 and 0xFFFF are the same number to the sum; which of them it is, a full computation decides by whether all is zero.
        let (changed, full) = (change.apply(before), checksum::of(&bytes));
        prop_assert!(changed == full || (bytes.iter().all(|byte| *byte == 0) && changed == 0), "{changed:x} {full:x}");
    }

    #[test]
    fn what_is_built_is_read(src in (ip(), any::<u16>()), dst in (ip(), any::<u16>()), payload in proptest::collection::vec(any::<u8>(), 0..100)) {
        for (mut packet, proto) in [
            (build::udp(src, dst, &payload), Proto::Udp),
            (build::tcp(src, dst, 2, &payload), Proto::Tcp),
        ] {
            let ip = Ipv4::parse(&packet).expect("just built");
            let read = transport(&packet, &ip).expect("a transport");
            prop_assert_eq!(read.flow, Flow { proto, src, dst });
            prop_assert_eq!(read.syn, proto == Proto::Tcp);
            prop_assert!(Transport::fill_checksum(&mut packet, &ip, proto));
            Ipv4::decrement_ttl(&mut packet);
            let after = Ipv4::parse(&packet).expect("the checksum is right");
            prop_assert_eq!(after.ttl, ip.ttl - 1);
        }
        let mac = Mac([2, 0, 0, 0, 0, 7]);
        for asks in [true, false] {
            let arp = arp::Arp { asks, from: (src.0, mac), to: (dst.0, Mac::BROADCAST) };
            let frame = arp.frame(Mac::BROADCAST);
            prop_assert_eq!(ethernet::read(&frame), Some((Mac::BROADCAST, mac, ethernet::ARP)));
            prop_assert_eq!(arp::Arp::parse(&frame[ethernet::HEADER..]), Some(arp));
        }
    }

    #[test]
    fn another_flow_has_the_checksum_of_a_full_computation(
        mut packet in packet(),
        (address, port) in (ip(), any::<u16>()),
        is_source in any::<bool>(),
    ) {
        let before = Ipv4::parse(&packet).expect("just built");
        let Some(read) = transport(&packet, &before) else { return Ok(()) };
        let proto = read.flow.proto;
        let change = Ipv4::set_address(&mut packet, is_source, address);
        proto.set_port(&mut packet[before.header..before.len], is_source, port, change);
        let after = Ipv4::parse(&packet).expect("the header's checksum is right");
        prop_assert!(Transport::fill_checksum(&mut packet, &after, proto));
        let moved = transport(&packet, &after).expect("the same transport").flow;
        let (own, other) = if is_source { (moved.src, moved.dst) } else { (moved.dst, moved.src) };
        prop_assert_eq!(own.0, address);
        if proto != Proto::Echo {
            prop_assert_eq!(own.1, port);
            prop_assert_eq!(other, if is_source { read.flow.dst } else { read.flow.src });
        }
    }

    #[test]
    fn noise_and_mutations_do_no_harm(mut packet in packet(), flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), cut in any::<prop::sample::Index>()) {
        for (at, byte) in flips {
            let at = at.index(packet.len());
            packet[at] = byte;
        }
        let packet = &packet[..cut.index(packet.len() + 1)];
        let _ = arp::Arp::parse(packet);
        for ip in [Ipv4::parse(packet), Ipv4::parse_quoted(packet)].into_iter().flatten() {
            let _ = transport(packet, &ip);
            let _ = icmp::quoted_at(packet, &ip);
        }
        let _ = icmp::Error::TimeExceeded.packet(Ipv4Addr::LOCALHOST, packet);
    }
}

#[test]
fn errors_are_not_about_errors_nor_about_many_hosts() {
    let router = Ipv4Addr::new(10, 0, 0, 1);
    let (one, many) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(224, 0, 0, 1));
    let about = build::udp((one, 1), (Ipv4Addr::new(10, 0, 0, 3), 2), &[7; 900]);
    let error = icmp::Error::FragmentationNeeded(1400).packet(router, &about).expect("an error");
    let ip = Ipv4::parse(&error).expect("just built");
    assert_eq!((ip.src, ip.dst, ip.len), (router, one, 576));
    assert_eq!(checksum::of(&error[20..]), 0);
    assert_eq!((&error[20..22], u16_at(&error, 26)), (&[3, 4][..], 1400));
    assert_eq!(&error[icmp::quoted_at(&error, &ip).expect("a quotation")..], &about[..548]);
    assert_eq!(icmp::Error::TimeExceeded.packet(router, &error), None);
    for (src, dst) in [(many, one), (one, many), (Ipv4Addr::UNSPECIFIED, one)] {
        assert_eq!(icmp::Error::TimeExceeded.packet(router, &build::udp((src, 1), (dst, 2), &[])), None);
    }
}

#[test]
fn hardware_addresses_are_read_and_shown() {
    let mac = Mac([2, 0, 0xab, 0, 0, 9]);
    assert_eq!(Mac::parse("02:00:ab:00:00:09"), Ok(mac));
    assert_eq!(mac.to_string(), "02:00:ab:00:00:09");
    for wrong in ["", "02:00:ab:00:00", "02:00:ab:00:00:09:01", "02:00:ab:00:00:zz", "2:0:ab:0:0:9"] {
        assert!(Mac::parse(wrong).is_err(), "{wrong}");
    }
}
