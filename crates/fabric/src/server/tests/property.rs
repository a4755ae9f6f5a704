//! Whatever a client sends, in whatever pieces: as many Replies as Requests that were taken.

use super::services::{JOIN, METHODS};
use super::{NOW, connect, server_with, settle};
use crate::frame::{Header, Kind};
use crate::server::Options;
use base::units::Nanos;
use proptest::prelude::*;

/// What a client or its surroundings do.
#[derive(Clone, Debug)]
enum Act {
    Frame(Header, Vec<u8>),
    /// So many polls.
    Poll(u8),
    /// The client takes so many frames.
    Hear(u8),
    /// A deferred call is answered.
    Answer,
    /// Time passes, µs.
    Pass(u16),
    Drain,
}

fn act() -> impl Strategy<Value = Act> {
    let kinds = [
        Kind::Request,
        Kind::Request,
        Kind::Request,
        Kind::Item,
        Kind::Item,
        Kind::Finish,
        Kind::Cancel,
        Kind::Credit,
        Kind::Ping,
        Kind::Pong,
    ];
    let frame = (0..kinds.len(), 0..METHODS + 1, 0..6_u32, 0..6_u32, 0..4_usize).prop_map(
        move |(kind, method, call, aux, len)| {
            let header = Header { method, aux, ..Header::new(kinds[kind], call) };
            Act::Frame(header, vec![7; if kinds[kind] == Kind::Request && method >= JOIN { 0 } else { len }])
        },
    );
    prop_oneof![
        12 => frame,
        4 => (1..3_u8).prop_map(Act::Poll),
        3 => (0..5_u8).prop_map(Act::Hear),
        2 => Just(Act::Answer),
        1 => (0..10_u16).prop_map(Act::Pass),
        1 => Just(Act::Drain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn every_request_that_is_taken_has_one_reply(acts in proptest::collection::vec(act(), 1..60), room in 1..5_usize) {
        let (mut server, seen) = server_with(Options { max_calls: 5, window: 4, quantum: 3, ..Options::default() });
        let (peer, _) = connect(&mut server, room);
        let mut now = NOW;
        let mut heard = Vec::new();
        for act in acts {
            match act {
                Act::Frame(header, body) => peer.say(header, &body),
                Act::Poll(times) => {
                    for _ in 0..times {
                        server.poll(now);
                    }
                }
                Act::Hear(max) => heard.extend(peer.hear_some(usize::from(max))),
                Act::Answer => if let Some(later) = seen.later.lock().expect("no poison").pop() { later.reply_bytes(b"") },
                Act::Pass(micros) => now = now.plus(Nanos::from_micros(u64::from(micros))),
                Act::Drain => server.drain(now),
            }
            prop_assert!(server.connections(now).all(|connection| connection.open_calls <= 5));
        }
        // A client that gives up on everything and takes what comes.
        peer.set_room(usize::MAX);
        (0..6).for_each(|call| peer.say(Header::new(Kind::Cancel, call), &[]));
        settle(&mut server, now);
        seen.later.lock().expect("no poison").clear();
        settle(&mut server, now);
        let totals = server.totals();
        heard.extend(peer.hear());
        let replies = heard.iter().filter(|frame| frame.header.kind == Kind::Reply).count() as u64;
        if server.connections(now).count() == 1 {
            prop_assert_eq!((totals.replies, replies), (totals.requests, totals.requests));
        } else {
            // Ended for a violation, or drained: what was open is not answered.
            prop_assert!(replies <= totals.replies && totals.replies <= totals.requests);
        }
        prop_assert!(seen.streams.load(std::sync::atomic::Ordering::Relaxed) == 0);
    }
}
