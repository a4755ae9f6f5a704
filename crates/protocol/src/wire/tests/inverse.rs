//! Reading undoes writing, and writing undoes reading.

use super::*;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn opcode() -> impl Strategy<Value = Opcode> {
    prop_oneof![
        prop::sample::select(Verb::ALL).prop_map(Opcode::Request),
        prop::sample::select(Verb::ALL).prop_map(Opcode::Reply),
        prop::sample::select(Control::ALL).prop_map(Opcode::Control),
    ]
}

fn origin() -> impl Strategy<Value = Option<Origin>> {
    let v4 = any::<[u8; 4]>().prop_map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
    let v6 = any::<[u8; 16]>().prop_map(|octets| IpAddr::V6(Ipv6Addr::from(octets)));
    (prop_oneof![v4, v6], any::<u16>()).prop_map(|(ip, port)| Origin::new(SocketAddr::new(ip, port)))
}

fn sharers() -> impl Strategy<Value = Sharers> {
    prop::collection::vec((1u16.., any::<u64>()), 0..=Sharers::MAX).prop_map(|row| {
        let mut sharers = Sharers::default();
        row.into_iter().for_each(|(at, token)| assert!(sharers.push(BoxId(at), Token(token))));
        sharers
    })
}

fn header() -> impl Strategy<Value = Header> {
    // All but SEALED, which no message has among its own.
    let flags = (0u16..64)
        .prop_map(|bits| Flags::from_bits((bits & 31) | (bits & 32) << 1).expect("they have a meaning"));
    let kind = prop::sample::select(Kind::ALL);
    let status = prop::sample::select(Status::ALL);
    let shape = (opcode(), flags, kind, status, origin(), sharers());
    (shape, any::<[u64; 6]>(), any::<[u32; 4]>(), any::<[u16; 4]>(), any::<u8>()).prop_map(
        |((opcode, flags, kind, status, origin, sharers), longs, words, shorts, hops)| Header {
            opcode,
            request: RequestId(shorts[0]),
            flags,
            version: Version(longs[0]),
            client: ClientId(longs[1]),
            operation: OpNumber(longs[2]),
            operand: longs[3],
            round: Round(longs[4]),
            ttl: Ttl::new(Nanos(longs[5])),
            epoch: Epoch(words[0]),
            item_flags: words[1],
            deadline_us: words[2],
            incarnation: Incarnation(words[3]),
            kind,
            status,
            hops,
            at: BoxId(shorts[1]),
            home: HomeId(shorts[2]),
            attempt: shorts[3],
            origin,
            sharers,
        },
    )
}

fn proof() -> impl Strategy<Value = Option<Proof>> {
    let roles = prop::sample::select(&[Role::Client, Role::Box, Role::Home, Role::Controller][..]);
    let proof = (roles, any::<(u16, u32, u64)>(), any::<[u8; 16]>()).prop_map(|(role, numbers, tag)| {
        let (id, room, counter) = numbers;
        let id = if role == Role::Client { 0 } else { id };
        Proof { role, id, room, counter, tag }
    });
    prop::option::of(proof)
}

pub(super) fn message() -> impl Strategy<Value = Message> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..=most);
    (header(), bytes(MAX_KEY), bytes(300), 0usize..100, proof()).prop_map(
        |(header, mut key, value, padding, proof)| {
            match header.opcode.key_rule() {
                KeyRule::One if key.is_empty() => key.push(b'k'),
                KeyRule::None => key.clear(),
                _ => {}
            }
            Message { header, key, value, proof, padding }
        },
    )
}

proptest! {
    #[test]
    fn what_was_written_is_read(message in message(), before in prop::collection::vec(any::<u8>(), 0..9)) {
        let mut out = before.clone();
        message.emit(&mut out);
        prop_assert_eq!(&out[..before.len()], &before[..]);
        let bytes = &out[before.len()..];
        prop_assert_eq!(bytes.len(), message.length());
        let packet = Packet::parse(bytes).expect("it was written here");
        prop_assert_eq!(packet.hash(), message.hash());
        prop_assert_eq!(packet.to_message(), message);
    }

    /// Header, key, filler, value, padding: all of them random, so that most are refused, and some are not.
    #[test]
    fn what_was_read_is_written(mut bytes in prop::collection::vec(any::<u8>(), HEADER..HEADER + 64), tame: u16) {
        tame_some(&mut bytes, tame);
        dress(&mut bytes);
        same_again(&bytes)?;
    }
}

/// Makes the fields that few values suit suit, each by a bit of `tame`.
fn tame_some(bytes: &mut [u8], tame: u16) {
    use fields::at;
    let mut when = |bit: u32, at: usize, with: &[u8]| {
        if tame >> bit & 1 == 0 {
            bytes[at..at + with.len()].copy_from_slice(with);
        }
    };
    when(0, at::OPCODE, &[Verb::Get.code()]);
    when(1, at::FLAGS, &[1, 0]);
    when(2, at::KEY_LEN, &[8]);
    when(3, at::VALUE_LEN, &[8, 0, 0, 0]);
    when(4, at::KIND, &[0]);
    when(5, at::STATUS, &[1]);
    when(6, at::SHARER_BOXES, &[0; 40]);
    when(7, at::KEY_LEN, &[0]);
    when(8, at::OPCODE, &[Control::Invalidate.code()]);
    when(9, at::PORT, &[0; 18]);
}

fn same_again(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(packet) = Packet::parse(bytes) else { return Ok(()) };
    let again = bytes_of(&packet.to_message());
    let said = bytes.len() - packet.padding();
    prop_assert_eq!(&again[..said], &bytes[..said]);
    prop_assert_eq!(again.len(), bytes.len());
    Ok(())
}

#[test]
fn the_longest_packet_fits() {
    let mut message = Message::request(Verb::Set, &[b'k'; MAX_KEY]);
    message.value = vec![b'v'; MAX_VALUE];
    message.padding = MAX_DATAGRAM - length(MAX_KEY, MAX_VALUE);
    let mut bytes = bytes_of(&message);
    assert_eq!(bytes.len(), MAX_DATAGRAM);
    assert_eq!(Packet::parse(&bytes).map(|packet| packet.to_message()), Ok(message));
    bytes.push(0);
    assert_eq!(Packet::parse(&bytes), Err(Malformed::Length));
}

#[test]
fn accessors_and_header_agree() {
    for (name, message) in examples() {
        let bytes = bytes_of(&message);
        let packet = Packet::parse(&bytes).expect("it was written here");
        assert_eq!(packet.header(), message.header, "{name}");
        assert_eq!((packet.key(), packet.value()), (&message.key[..], &message.value[..]), "{name}");
        assert!(is_packet(&bytes));
    }
}
