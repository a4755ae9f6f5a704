//! Silent sockets beside a ring with work: what becomes calm, and what ends that.

use super::services::{ECHO, LATER, Seen};
use super::wire::{Peer, wire_like};
use super::{NOW, connect, connect_over, server_with, settle};
use crate::connection::handshake::{Hello, Welcome};
use crate::frame::Kind;
use crate::link::Transport;
use crate::server::calm::{CALM_AFTER, LOOK_EVERY};
use crate::server::{Options, Server};
use crate::status::Code;
use base::units::Nanos;
use proptest::prelude::*;

const STEP: Nanos = Nanos::from_micros(10);

/// A server with a ring, first, and sockets.
struct Rig {
    server: Server,
    seen: Seen,
    ring: Peer,
    sockets: Vec<(Peer, Welcome)>,
    now: Nanos,
}

impl Rig {
    /// The sockets are connected after [`NOW`].
    fn new(sockets: usize, options: Options) -> Rig {
        let (mut server, seen) = server_with(options);
        let (ring, _) = connect(&mut server, usize::MAX);
        let mut now = NOW;
        let connect = |_| {
            now = now.plus(LOOK_EVERY);
            connect_over(Transport::Tcp, &mut server, usize::MAX, now)
        };
        let sockets = (0..sockets).map(connect).collect();
        Rig { server, seen, ring, sockets, now }
    }

    /// Turns for so long, in which the ring brings requests.
    fn work(&mut self, span: Nanos) {
        let until = self.now.plus(span);
        while self.now < until {
            self.now = self.now.plus(STEP);
            self.ring.request(1, ECHO, b"");
            assert!(self.server.poll(self.now) > 0);
            assert_eq!(self.ring.hear().len(), 1);
        }
    }

    /// Until the sockets are calm.
    fn calm() -> Rig {
        Rig::calm_with(Options::default())
    }

    fn calm_with(options: Options) -> Rig {
        let mut rig = Rig::new(1, options);
        rig.work(CALM_AFTER.plus(LOOK_EVERY));
        assert_eq!(rig.levels(), [false, true]);
        assert_eq!(rig.server.calm.counts(), [1, 1]);
        rig
    }

    /// Which connections are calm.
    fn levels(&self) -> Vec<bool> {
        self.server.connections(self.now).map(|connection| connection.is_calm).collect()
    }

    fn socket(&self) -> &Peer {
        &self.sockets[0].0
    }
}

#[test]
fn a_silent_socket_is_not_read_while_a_ring_has_work() {
    let mut rig = Rig::calm();
    let (reads, of_ring) = (rig.socket().reads(), rig.ring.reads());
    rig.work(Nanos::from_millis(1));
    assert_eq!((rig.socket().reads(), rig.ring.reads()), (reads, of_ring + 100));
    // Nor while nobody has any, except by the set.
    settle(&mut rig.server, rig.now.plus(LOOK_EVERY));
    assert_eq!((rig.socket().reads(), rig.levels()), (reads, vec![false, true]));
}

#[test]
fn a_request_over_a_calm_socket_waits_for_a_look_at_most() {
    let mut rig = Rig::calm();
    rig.socket().request(7, ECHO, b"");
    rig.work(LOOK_EVERY);
    assert_eq!(rig.socket().hear().len(), 1);
    assert_eq!((rig.levels(), rig.server.calm.counts()), (vec![false, false], [0, 0]));
    // A server without work sees it at once.
    rig.work(CALM_AFTER.plus(LOOK_EVERY));
    settle(&mut rig.server, rig.now.plus(LOOK_EVERY));
    assert_eq!(rig.levels(), [false, true]);
    rig.socket().request(8, ECHO, b"");
    rig.server.poll(rig.now.plus(LOOK_EVERY));
    assert_eq!(rig.socket().hear().len(), 1);
}

#[test]
fn links_without_a_hello_are_read_when_something_came() {
    let mut rig = Rig::new(0, Options::default());
    let mut silent = Vec::new();
    for _ in 0..100 {
        let (link, peer) = wire_like(Transport::Tcp, usize::MAX);
        rig.server.accept(link, rig.now);
        silent.push(peer);
    }
    rig.work(Nanos::from_millis(1));
    assert!(silent.iter().all(|peer| peer.reads() == 1), "each is looked at once");
    assert_eq!(rig.server.calm.counts(), [0, 100]);
    // Nor does a server that sleeps wait for each of them.
    assert!(rig.server.arm() && rig.server.descriptors().count() <= 3);
    rig.server.disarm();
    silent[40].hello(Hello::default());
    rig.work(LOOK_EVERY.plus(STEP));
    silent[40].hear_welcome();
    assert!(silent.iter().enumerate().all(|(at, peer)| peer.reads() == 1 || at == 40));
    rig.work(Nanos::from_millis(1));
    // Whoever still says nothing is told so in time.
    rig.now = rig.now.plus(Options::default().handshake_limit);
    rig.work(STEP);
    assert_eq!(code_of_refusal(&silent[41]), Code::DeadlineExceeded);
    rig.work(Nanos::from_millis(1));
    assert_eq!(rig.server.greetings.len(), 0);
}

fn code_of_refusal(peer: &Peer) -> Code {
    let heard = peer.hear().pop().expect("a word");
    assert_eq!(heard.header.kind, Kind::Refuse);
    Code::of(heard.header.method)
}

#[test]
fn the_only_client_is_read_in_every_turn() {
    let (mut server, _) = server_with(Options::default());
    let (peer, _) = connect_over(Transport::Unix, &mut server, 10, NOW);
    let (mut now, before) = (NOW, peer.reads());
    for _ in 0..1000 {
        now = now.plus(STEP);
        server.poll(now);
    }
    assert_eq!((peer.reads(), server.calm.counts()), (before + 1000, [0, 0]));
}

#[test]
fn turns_that_take_long_are_no_pause() {
    let mut rig = Rig::new(1, Options::default());
    for _ in 0..10 {
        rig.now = rig.now.plus(LOOK_EVERY).plus(LOOK_EVERY);
        rig.ring.request(1, ECHO, b"");
        assert!(rig.server.poll(rig.now) > 0);
    }
    assert_eq!(rig.levels(), [false, true]);
    let reads = rig.socket().reads();
    rig.ring.request(1, ECHO, b"");
    rig.server.poll(rig.now.plus(LOOK_EVERY));
    assert_eq!(rig.socket().reads(), reads);
}

#[test]
fn a_hello_over_a_socket_waits_for_a_look_at_most() {
    let mut rig = Rig::new(0, Options::default());
    let (link, peer) = wire_like(Transport::Udp, 10);
    rig.server.accept(link, rig.now);
    rig.work(LOOK_EVERY);
    let reads = peer.reads();
    rig.work(Nanos::from_millis(1));
    assert!(peer.reads() - reads <= (Nanos::from_millis(1).0 / LOOK_EVERY.0) as usize + 1);
    peer.hello(Hello::default());
    rig.work(LOOK_EVERY);
    assert_eq!(peer.hear_welcome().connection, 2);
}

#[test]
fn a_deferred_reply_over_a_calm_socket_goes_in_its_turn() {
    let mut rig = Rig::new(1, Options::default());
    rig.socket().request(1, LATER, b"");
    rig.work(CALM_AFTER.plus(LOOK_EVERY).plus(STEP));
    assert_eq!(rig.levels(), [false, true]);
    let later = rig.seen.later.lock().expect("no poison").pop().expect("it was deferred");
    later.reply_bytes(b"at last");
    rig.server.poll(rig.now);
    assert_eq!((rig.socket().hear().len(), rig.levels()), (1, vec![false, false]));
    rig.work(CALM_AFTER.plus(LOOK_EVERY));
    assert_eq!(rig.levels(), [false, true], "and is calm again");
}

#[test]
fn a_deadline_of_a_calm_link_is_met() {
    let mut rig = Rig::new(1, Options::default());
    rig.socket().set_deadline(rig.now.plus(Nanos::from_millis(1)));
    rig.work(CALM_AFTER.plus(LOOK_EVERY));
    assert_eq!(rig.levels(), [false, true]);
    rig.work(Nanos::from_micros(700));
    assert!(!rig.socket().deadline_is_met());
    rig.work(Nanos::from_micros(200));
    assert!(rig.socket().deadline_is_met());
}

#[test]
fn limits_hold_for_calm_connections() {
    let mut rig = Rig::calm_with(Options { idle_limit: Nanos::from_millis(2), ..Options::default() });
    rig.work(Nanos::from_millis(1));
    assert!(!rig.socket().is_closed());
    rig.work(Nanos::from_millis(1));
    assert!(rig.socket().is_closed());
    assert_eq!((rig.levels(), rig.server.calm.counts()), (vec![false], [0, 0]));
}

#[test]
fn the_end_of_a_calm_peer_is_noticed() {
    let mut rig = Rig::calm();
    rig.sockets.clear();
    rig.work(LOOK_EVERY);
    assert_eq!((rig.levels(), rig.server.calm.counts()), (vec![false], [0, 0]));
}

#[test]
fn closing_and_draining_take_calm_connections_with_them() {
    let mut rig = Rig::calm();
    assert!(rig.server.close(2, rig.now) && rig.socket().is_closed());
    assert_eq!(rig.server.calm.counts(), [0, 0]);
    let mut rig = Rig::calm();
    rig.server.drain(rig.now);
    rig.server.poll(rig.now);
    let kinds: Vec<_> = rig.socket().hear().iter().map(|heard| heard.header.kind).collect();
    assert_eq!((kinds, rig.server.calm.counts()), (vec![Kind::Goodbye, Kind::Ping], [0, 0]));
}

#[test]
fn a_calm_connection_goes_on_over_another_link() {
    let mut rig = Rig::calm();
    let (link, peer) = wire_like(Transport::Tcp, 10);
    rig.server.accept(link, rig.now);
    peer.hello(Hello { join: Some(rig.sockets[0].1.token), ..Hello::default() });
    rig.work(LOOK_EVERY);
    assert_eq!(peer.hear_welcome().connection, 2);
    assert_eq!((rig.levels(), rig.server.calm.counts()), (vec![false, false], [0, 0]));
    peer.request(5, ECHO, b"");
    rig.work(CALM_AFTER.plus(CALM_AFTER));
    let replies = peer.hear().iter().filter(|heard| heard.header.kind == Kind::Reply).count();
    assert_eq!((replies, rig.levels()), (1, vec![false, false]), "both links are read while it switches");
}

#[test]
fn garbage_over_a_calm_socket_ends_it() {
    let mut rig = Rig::calm();
    rig.socket().say_bytes(b"x");
    rig.work(LOOK_EVERY);
    let last = rig.socket().hear().pop().expect("a last frame");
    assert_eq!(Code::of(last.header.method), Code::FailedPrecondition);
    assert_eq!(rig.server.calm.counts(), [0, 0]);
}

/// What clients and time do.
#[derive(Clone, Debug)]
enum Act {
    Request(usize, u16),
    Answer,
    Gone(usize),
    /// Turns, so many µs apart.
    Turns(u16, u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..4_usize, prop_oneof![Just(ECHO), Just(LATER)]).prop_map(|(who, method)| Act::Request(who, method)),
        2 => Just(Act::Answer),
        1 => (0..40_usize).prop_map(Act::Gone),
        6 => (1..60_u16, 0..60_u64).prop_map(|(count, micros)| Act::Turns(count, micros)),
    ]
}

/// What the model knows of a socket.
#[derive(Clone, Copy)]
struct Known {
    /// Since when a frame waits for the server.
    said: Option<Nanos>,
    /// When something last went either way.
    stirred: Nanos,
    heard: usize,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_waits_longer_than_a_look(acts in proptest::collection::vec(act(), 1..60)) {
        let Rig { mut server, seen, ring, sockets, mut now } = Rig::new(3, Options::default());
        let mut peers: Vec<Option<Peer>> = sockets.into_iter().map(|(peer, _)| Some(peer)).collect();
        let mut known = [Known { said: None, stirred: NOW, heard: 0 }; 3];
        let (mut call, mut requests) = (0, [0; 3]);
        for act in acts {
            match act {
                Act::Request(who, method) => {
                    call += 1;
                    match (who.checked_sub(1).map(|at| (at, peers[at].as_ref())), method) {
                        (None, _) => ring.request(call, ECHO, b""),
                        (Some((at, Some(peer))), method) => {
                            peer.request(call, method, b"");
                            known[at].said.get_or_insert(now);
                            requests[at] += 1;
                        }
                        _ => {}
                    }
                }
                Act::Answer => drop(seen.later.lock().expect("no poison").pop()),
                Act::Gone(at) => {
                    if let Some(place) = peers.get_mut(at) {
                        *place = None;
                    }
                }
                Act::Turns(count, micros) => for _ in 0..count {
                    now = now.plus(Nanos::from_micros(micros));
                    server.poll(now);
                    ring.hear();
                    prop_assert_eq!(ring.unheard_by_server(), 0, "a ring is read in every turn");
                    let calm: Vec<_> =
                        server.connections(now).map(|connection| (connection.number, connection.is_calm)).collect();
                    let count = calm.iter().filter(|(_, is_calm)| *is_calm).count();
                    prop_assert_eq!(server.calm.counts(), [count; 2]);
                    for (at, (peer, known)) in peers.iter().zip(&mut known).enumerate() {
                        let Some(peer) = peer else { continue };
                        let heard = peer.hear().len();
                        known.heard += heard;
                        if peer.unheard_by_server() == 0 && known.said.take().is_some() || heard > 0 {
                            known.stirred = now;
                        }
                        let waited = known.said.map_or(Nanos::ZERO, |said| now.since(said));
                        prop_assert!(waited < LOOK_EVERY.plus(Nanos::from_micros(micros)), "it waits for {} ns", waited.0);
                        if calm.contains(&(at as u64 + 2, true)) {
                            prop_assert!(now >= known.stirred.plus(CALM_AFTER), "it was calmed too early");
                        }
                    }
                },
            }
        }
        // In the end everybody has what is owed to them, and who is gone is gone.
        for _ in 0..2 {
            seen.later.lock().expect("no poison").clear();
            now = now.plus(LOOK_EVERY);
            server.poll(now);
        }
        for ((peer, known), requests) in peers.iter().zip(&known).zip(requests) {
            if let Some(peer) = peer {
                prop_assert_eq!(known.heard + peer.hear().len(), requests);
            }
        }
        prop_assert_eq!(server.connections(now).count(), 1 + peers.iter().flatten().count());
    }
}
