use super::*;
use crate::shm::{AttachError, Geometry, Pages, ShmClient};
use base::Prng;
use std::os::unix::net::UnixStream;

const SMALL: Geometry =
    Geometry { entries: 8, request_arena: 1 << 14, response_arena: 1 << 14, max_message: 1 << 17 };

struct Rig<K: LaneKind> {
    client: Lanes<K>,
    server: Lanes<K>,
    segment: Segment,
}

fn rig<K: LaneKind>() -> Rig<K> {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let made = Segment::create_of(Form::Lanes(K::VARIANT), SMALL, Pages::Base).expect("a segment");
    made.send(&ours).expect("sent");
    let segment = Segment::receive_any(&theirs).expect("received");
    Rig {
        client: Lanes::new(&segment, Side::Client, theirs),
        server: Lanes::new(&made, Side::Server, ours),
        segment,
    }
}

fn received<K: LaneKind>(lanes: &mut Lanes<K>) -> Vec<Vec<u8>> {
    let (mut bytes, mut ends) = (Vec::new(), vec![0]);
    lanes.recv(usize::MAX, &mut bytes, usize::MAX, |end| ends.push(end)).expect("an honest peer");
    ends.windows(2).map(|ends| bytes[ends[0]..ends[1]].to_vec()).collect()
}

fn messages_of_every_length_arrive<K: LaneKind>() {
    let Rig { mut client, mut server, .. } = rig::<K>();
    let mut prng = Prng::new(1);
    for len in (16..300).chain([8191, 8192, 8193, 16384, 100_000, 1 << 17]) {
        let mut message = vec![0; len];
        prng.fill(&mut message);
        let (head, body) = message.split_at(if len % 3 == 0 { 16 } else { len.min(30) });
        client.try_send(head, body).expect("room");
        client.flush();
        let mut got = received(&mut server);
        while got.is_empty() {
            client.flush();
            got = received(&mut server);
        }
        assert!(got == [message] && client.is_drained(), "{len}");
    }
    assert_eq!(client.try_send(&[0; 16], &[0; 1 << 17]), Err(SendError::TooLarge));
}

fn a_full_lane_refuses_and_says_when_there_is_room<K: LaneKind>() {
    for len in [0, 2000, 40_000] {
        let Rig { mut client, mut server, .. } = rig::<K>();
        let body = vec![1; len];
        let mut sent = 0;
        while client.try_send(&[0; 16], &body).is_ok() {
            sent += 1;
        }
        assert!((1..=8).contains(&sent), "{len}: {sent}");
        assert!(client.park(true), "nothing changed");
        let mut seen = received(&mut server).len();
        // The server goes on without a word; looking in vain is enough to wake who waits for room.
        seen += received(&mut server).len();
        assert!(client.wire.is_rung(), "{len}");
        client.unpark();
        while seen < sent {
            client.flush();
            seen += received(&mut server).len();
        }
        client.try_send(&[0; 16], &body).expect("room");
    }
}

fn a_scribbling_peer_costs_the_connection_at_most<K: LaneKind>() {
    for seed in 0..100 {
        let mut prng = Prng::new(seed);
        let Rig { mut client, mut server, segment } = rig::<K>();
        for _ in 0..50 {
            for _ in 0..prng.below(40) {
                let at = prng.below(segment.memory.len() as u64 / 4) as usize * 4;
                let word =
                    [0, 1, 130, u32::MAX, prng.next_u64() as u32, (prng.next_u64() as u32 & 3) << 30 | 100]
                        [prng.below(6) as usize];
                // SAFETY: inside the mapping; this is the scribbling.
                unsafe { segment.memory.at::<u32>(at, 1).write_volatile(word) };
            }
            for lanes in [&mut client, &mut server] {
                let _ = lanes.try_send(&[1; 16], &vec![7; prng.below(50_000) as usize]);
                let _ = lanes.try_send(&[2; 16], &[]);
                lanes.flush();
                let mut bytes = Vec::new();
                let _ = lanes.recv(8, &mut bytes, usize::MAX, |_| ());
                assert!(bytes.len() <= 8 << 17 && lanes.partial.len() <= 1 << 17);
                let _ = lanes.park(true);
                lanes.unpark();
            }
        }
    }
}

fn conforms<K: LaneKind>() {
    messages_of_every_length_arrive::<K>();
    a_full_lane_refuses_and_says_when_there_is_room::<K>();
    a_scribbling_peer_costs_the_connection_at_most::<K>();
}

#[test]
fn lanes_of_slots_conform() {
    conforms::<InSlot>();
}

#[test]
fn lanes_of_indices_conform() {
    conforms::<Index>();
}

#[test]
fn hybrid_lanes_conform() {
    conforms::<Hybrid>();
}

#[test]
fn a_pair_is_not_made_of_lanes() {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let segment = Segment::create_of(Form::Lanes(Variant::Index), SMALL, Pages::Base).expect("a segment");
    segment.send(&ours).expect("sent");
    assert!(matches!(Segment::receive(&theirs), Err(AttachError::OtherForm)));
    let refused = std::panic::catch_unwind(|| ShmClient::new(&segment, theirs));
    assert!(refused.is_err(), "a client of something else");
}
