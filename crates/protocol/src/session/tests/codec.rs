//! Datagrams as bytes and as values are inverse, and whatever was changed is refused.

use super::super::wire::{self, Acks, Body, Datagram, Notice, ParseError, Pieces, State, Terms};
use proptest::prelude::*;

fn acks() -> impl Strategy<Value = Acks> {
    (0u64..1 << 40, proptest::collection::vec((any::<u16>(), any::<u16>()), 0..=wire::MAX_RUNS)).prop_map(
        |(slack, runs)| {
            let named: u64 = runs.iter().map(|r| u64::from(r.0) + u64::from(r.1)).sum();
            let mut acks = Acks::below(named + slack);
            runs.into_iter().for_each(|(received, missing)| assert!(acks.push(received, missing)));
            acks
        },
    )
}

fn state() -> impl Strategy<Value = State> {
    (0..wire::MAX_PACKET, any::<[u64; 3]>(), acks(), any::<u32>(), any::<bool>()).prop_map(
        |(packet, [floor, granted_bytes, granted_messages], acks, ack_delay_us, blocked)| {
            let floor = floor % (packet + 1);
            State { packet, floor, granted_bytes, granted_messages, acks, ack_delay_us, blocked }
        },
    )
}

fn terms() -> impl Strategy<Value = Terms> {
    any::<(u32, u32, u64, u32, u32)>().prop_map(|t| Terms {
        datagram_bytes: t.0,
        max_message: t.1,
        granted_bytes: t.2,
        granted_messages: t.3,
        max_ack_delay_us: t.4,
    })
}

fn notice() -> impl Strategy<Value = Notice> {
    any::<(u64, u8)>().prop_map(|(epoch, reason)| Notice { epoch, reason })
}

/// Everything but Data.
fn body() -> impl Strategy<Value = Body<'static>> {
    prop_oneof![
        (any::<u64>(), terms()).prop_map(|(cookie, terms)| Body::Open { cookie, terms }),
        any::<u64>().prop_map(|cookie| Body::Retry { cookie }),
        (any::<[u64; 2]>(), terms()).prop_map(|([opener, epoch], terms)| Body::Accept {
            opener,
            epoch,
            terms
        }),
        any::<(u8, u8)>().prop_map(|(reason, version)| Body::Refuse { reason, version }),
        state().prop_map(Body::Ack),
        notice().prop_map(Body::Close),
        notice().prop_map(Body::Closed),
        notice().prop_map(Body::Reset),
        state().prop_map(|state| Body::Data(state, Pieces::NONE)),
    ]
}

proptest! {
    #[test]
    fn emit_and_parse_are_inverse(session: u64, token: u64, body in body()) {
        let datagram = Datagram { session, token, body };
        let mut bytes = vec![0xAA; 3];
        let len = wire::emit(&mut bytes, &datagram);
        prop_assert_eq!(bytes.len(), 3 + len);
        prop_assert_eq!(wire::parse(&bytes[3..]), Ok(datagram));
        prop_assert_eq!(wire::session_of(&bytes[3..]), Some(session));
    }

    #[test]
    fn pieces_come_out_as_they_went_in(
        state in state(),
        unit in 1u16..300,
        message in 0u64..1 << 60,
        totals in proptest::collection::vec(0usize..1000, 1..8),
        skip in 0usize..4,
    ) {
        // The expected pieces, cut by hand; the first message may begin in its midst.
        let cut = |total: usize| total.div_ceil(usize::from(unit)).max(1);
        let bytes: Vec<u8> = (0..1000).map(|i| i as u8).collect();
        let first = skip.min(cut(totals[0]) - 1) as u32;
        let mut expected = Vec::new();
        for (i, &total) in totals.iter().enumerate() {
            for fragment in (if i == 0 { first } else { 0 })..cut(total) as u32 {
                let from = fragment as usize * usize::from(unit);
                expected.push((message + i as u64, fragment, total as u32, &bytes[from..total.min(from + usize::from(unit))]));
            }
        }
        let mut out = Vec::new();
        let mut writer = wire::Writer::state(&mut out, true, 1, 2, &state);
        writer.run(message, first, unit);
        for (_, _, total, bytes) in &expected {
            writer.piece(*total, bytes.split_at(bytes.len() / 2));
        }
        writer.seal(expected.len() as u16);
        let Ok(Datagram { body: Body::Data(read, pieces), .. }) = wire::parse(&out) else { panic!("it does not parse") };
        prop_assert_eq!(read, state);
        let got: Vec<_> = pieces.map(|p| (p.message, p.fragment, p.total, p.bytes)).collect();
        prop_assert_eq!(got, expected);
        let mut again = Vec::new();
        wire::emit(&mut again, &wire::parse(&out).expect("it did"));
        prop_assert_eq!(again, out);
    }

    #[test]
    fn whatever_was_changed_is_refused(body in body(), bit: prop::sample::Index, cut: prop::sample::Index) {
        let mut bytes = Vec::new();
        wire::emit(&mut bytes, &Datagram { session: 5, token: 6, body });
        prop_assert!(wire::parse(&bytes[..cut.index(bytes.len())]).is_err());
        let bit = bit.index(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(matches!(wire::parse(&bytes), Err(ParseError::Checksum | ParseError::Foreign)));
    }

    #[test]
    fn any_bytes_behind_a_good_sum_are_read_or_refused(
        mut bytes in proptest::collection::vec(any::<u8>(), 24..200),
        kind in 0u8..12,
    ) {
        bytes[4..6].copy_from_slice(&wire::MAGIC);
        (bytes[6], bytes[7]) = (wire::VERSION, kind);
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        if let Ok(Datagram { body: Body::Data(_, pieces), .. }) = wire::parse(&bytes) {
            prop_assert_eq!(pieces.count(), usize::from(pieces.count));
        }
    }
}

#[test]
fn an_open_is_these_bytes() {
    let terms = Terms {
        datagram_bytes: 1452,
        max_message: 0x80_0000,
        granted_bytes: 1 << 24,
        granted_messages: 256,
        max_ack_delay_us: 500,
    };
    let mut bytes = Vec::new();
    wire::emit(
        &mut bytes,
        &Datagram { session: 0x0102, token: 0x0304, body: Body::Open { cookie: 9, terms } },
    );
    let expected = [
        &[0x4d, 0x53, 1, 1][..],
        &[2, 1, 0, 0, 0, 0, 0, 0],
        &[4, 3, 0, 0, 0, 0, 0, 0],
        &[9, 0, 0, 0, 0, 0, 0, 0],
        &[0xac, 5, 0, 0, 0, 0, 0x80, 0],
        &[0, 0, 0, 1, 0, 0, 0, 0],
        &[0, 1, 0, 0, 0xf4, 1, 0, 0],
        &[0; 8],
    ]
    .concat();
    assert_eq!(bytes[4..], expected);
    assert_eq!(bytes[..4], crc32c::crc32c(&expected).to_le_bytes());
}

/// Found by fuzzing: a run whose fragments have no bytes counted past the last number of a fragment.
#[test]
fn fragments_of_nothing_are_refused() {
    let (acks, [floor, granted_bytes, granted_messages]) = (Acks::below(0), [0; 3]);
    let state =
        State { packet: 0, floor, granted_bytes, granted_messages, acks, ack_delay_us: 0, blocked: false };
    let mut out = Vec::new();
    let mut writer = wire::Writer::state(&mut out, true, 1, 2, &state);
    writer.run(0, u32::MAX, 0);
    for _ in 0..2 {
        writer.piece(1, (&[], &[]));
    }
    writer.seal(2);
    assert_eq!(wire::parse(&out), Err(ParseError::Malformed));
}
