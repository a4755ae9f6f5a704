//! Two or three nodes in one process, over every transport. Time is the process's clock, since links have deadlines of their own; nothing
//! waits for a certain time, and a test that hangs fails after [`PATIENCE`].

use super::peer::offer;
use super::*;
use base::Clock;
use protocol::chain::{Epoch, Lsn};
use std::path::PathBuf;
use tempfile::TempDir;

const KEY: Key = Key::new([7; 16]);
const PATIENCE: Nanos = Nanos::from_secs(20);

fn replica(id: u16) -> NodeId {
    NodeId::Replica(ReplicaId(id))
}

fn message(token: u64) -> Message {
    Message::Committed { epoch: Epoch(3), token, lsn: Lsn(token) }
}

thread_local! {
    /// Where this test's sockets lie: a test is a thread.
    static FOLDER: TempDir = TempDir::with_prefix("millrace-").expect("a folder");
}

fn path(name: &str) -> PathBuf {
    FOLDER.with(|folder| folder.path().join(name))
}

/// Addresses of every transport, of which two tests have none in common.
fn addresses(test: &str) -> Vec<Address> {
    vec![
        Address::Memory(format!("links-{test}")),
        Address::Shm(path("shm")),
        Address::Unix(path("unix")),
        "tcp:127.0.0.1:0".parse().expect("an address"),
        "udp:127.0.0.1:0".parse().expect("an address"),
    ]
}

/// Node 1 listens at an address; node 2 dials it.
fn pair(address: &Address) -> (Links, Links) {
    let first = Links::new(&KEY, 7, replica(1), Some(address), "tcp:here:1", [(replica(2), None)])
        .expect("it listens");
    let second = dialler(2, first.address().expect("it listens"), 7);
    (first, second)
}

fn dialler(id: u16, to: &Address, chain: u32) -> Links {
    Links::new(&KEY, chain, replica(id), None, "tcp:there:2", [(replica(1), Some(to.clone()))])
        .expect("an eventfd")
}

/// Turns of all nodes, until something is so.
fn until(
    nodes: &mut [&mut Links],
    came: &mut Vec<(NodeId, Message)>,
    mut done: impl FnMut(&mut [&mut Links], &[(NodeId, Message)]) -> bool,
) {
    let clock = Clock::shared();
    let begun = clock.now();
    while !done(nodes, came) {
        let now = clock.now();
        assert!(now.since(begun) < PATIENCE, "it does not happen; {} messages came", came.len());
        for links in nodes.iter_mut() {
            links.poll(now, came);
            links.flush(now);
        }
        std::thread::yield_now();
    }
}

fn is_up(links: &Links) -> bool {
    links.peers().all(|(_, up, _)| up)
}

#[test]
fn messages_go_both_ways_over_every_transport() {
    for address in addresses("both") {
        let (mut first, mut second) = pair(&address);
        let mut came = Vec::new();
        until(&mut [&mut first, &mut second], &mut came, |nodes, _| nodes.iter().all(|links| is_up(links)));
        let now = Clock::shared().now();
        (0..50).for_each(|token| second.send(now, replica(1), &message(token)));
        (50..100).for_each(|token| first.send(now, replica(2), &message(token)));
        until(&mut [&mut first, &mut second], &mut came, |_, came| came.len() == 100);
        for token in 0..100 {
            let from = replica(if token < 50 { 2 } else { 1 });
            assert!(came.contains(&(from, message(token))), "{address}: {token}");
        }
        until(&mut [&mut first, &mut second], &mut came, |nodes, _| {
            nodes[0].serves(replica(2)) == Some("tcp:there:2")
                && nodes[1].serves(replica(1)) == Some("tcp:here:1")
        });
    }
}

#[test]
fn who_sleeps_is_woken_by_a_link_and_by_a_message() {
    for address in addresses("wake") {
        let (mut first, mut second) = pair(&address);
        let sender = std::thread::spawn(move || {
            let mut came = Vec::new();
            until(&mut [&mut second], &mut came, |nodes, _| is_up(nodes[0]));
            second.send(Clock::shared().now(), replica(1), &message(1));
            until(&mut [&mut second], &mut came, |_, came| !came.is_empty());
            came
        });
        let clock = Clock::shared();
        let (begun, mut came) = (clock.now(), Vec::new());
        while came.is_empty() {
            let now = clock.now();
            assert!(now.since(begun) < PATIENCE, "{address}: it is not woken");
            first.poll(now, &mut came);
            if first.arm() {
                let mut fds: Vec<_> = first
                    .descriptors()
                    .map(|fd| rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN))
                    .collect();
                let span = first.next_deadline().min(now.plus(PATIENCE)).since(clock.now());
                let span = rustix::event::Timespec {
                    tv_sec: (span.0 / 1_000_000_000) as i64,
                    tv_nsec: (span.0 % 1_000_000_000) as _,
                };
                rustix::event::poll(&mut fds, Some(&span)).expect("it polls");
            }
            first.disarm();
        }
        first.send(clock.now(), replica(2), &message(2));
        until(&mut [&mut first], &mut came, |_, _| sender.is_finished());
        assert_eq!(sender.join().expect("it heard"), [(replica(1), message(2))], "{address}");
        assert_eq!(came, [(replica(2), message(1))], "{address}");
    }
}

#[test]
fn a_node_that_died_is_dialled_until_it_is_back() {
    let address = Address::Unix(path("died"));
    let (mut first, mut second) = pair(&address);
    let mut came = Vec::new();
    until(&mut [&mut first, &mut second], &mut came, |nodes, _| nodes.iter().all(|links| is_up(links)));
    drop(first);
    until(&mut [&mut second], &mut came, |nodes, _| !is_up(nodes[0]));
    second.send(Clock::shared().now(), replica(1), &message(1));
    let mut again =
        Links::new(&KEY, 7, replica(1), Some(&address), "", [(replica(2), None)]).expect("it listens");
    until(&mut [&mut again, &mut second], &mut came, |nodes, _| nodes.iter().all(|links| is_up(links)));
    second.send(Clock::shared().now(), replica(1), &message(2));
    until(&mut [&mut again, &mut second], &mut came, |_, came| !came.is_empty());
    assert_eq!(came, [(replica(2), message(2))], "what was sent while it was away is lost, and counted");
    let (_, _, counts) = second.peers().next().expect("one peer");
    assert_eq!((counts.dropped, counts.links), (1, 2));
}

#[test]
fn a_process_that_starts_anew_takes_the_place_of_the_one_that_fell_silent() {
    let address = Address::Memory("links-anew".into());
    let (mut first, mut second) = pair(&address);
    let mut came = Vec::new();
    until(&mut [&mut first, &mut second], &mut came, |nodes, _| nodes.iter().all(|links| is_up(links)));
    // Its first life is not over as far as anybody can tell, but nothing is heard of it any more.
    let mut anew = dialler(2, &address, 7);
    until(&mut [&mut first, &mut anew], &mut came, |nodes, _| {
        nodes[0].peers().next().is_some_and(|(_, _, counts)| counts.links == 2) && is_up(nodes[1])
    });
    first.send(Clock::shared().now(), replica(2), &message(5));
    until(&mut [&mut first, &mut anew], &mut came, |_, came| !came.is_empty());
    assert_eq!(came, [(replica(1), message(5))]);
}

/// Before, whoever came last was believed, and the real one stayed out in silence.
#[test]
fn a_second_process_with_a_name_is_refused_while_the_first_lives_and_both_ends_say_so() {
    let address = Address::Memory("links-twice".into());
    let (mut first, mut second) = pair(&address);
    let mut came = Vec::new();
    until(&mut [&mut first, &mut second], &mut came, |nodes, _| nodes.iter().all(|links| is_up(links)));
    let mut copy = dialler(2, &address, 7);
    until(&mut [&mut first, &mut second, &mut copy], &mut came, |nodes, _| nodes[0].refused().twice >= 3);
    assert!(!is_up(&copy) && is_up(&second));
    for links in [&mut first, &mut copy] {
        let notices = links.take_notices();
        assert!(notices.len() == 1 && notices[0].contains("another process"), "{notices:?}");
    }
    second.send(Clock::shared().now(), replica(1), &message(1));
    until(&mut [&mut first, &mut second, &mut copy], &mut came, |_, came| !came.is_empty());
    assert_eq!(came, [(replica(2), message(1))]);
}

/// One connection that said that it was replica 2 had the head acknowledge 962 writes that nobody else had.
#[test]
fn without_the_key_nobody_is_believed_and_a_live_link_stays() {
    for address in addresses("unproven") {
        let (mut first, mut second) = pair(&address);
        let at = first.address().expect("it listens").clone();
        let mut came = Vec::new();
        until(&mut [&mut first, &mut second], &mut came, |nodes, _| nodes.iter().all(|links| is_up(links)));
        let (wrong, to) = (Key::new([8; 16]), [(replica(1), Some(at.clone()))]);
        let mut forger = Links::new(&wrong, 7, replica(2), None, "", to).expect("an eventfd");
        // Nor does it help to talk at once, or to send back what one is sent.
        let dial = std::thread::spawn(move || link::connect(&at, &options()));
        until(&mut [&mut first, &mut second], &mut came, |_, _| dial.is_finished());
        let mut mute = dial.join().expect("it dials").expect("it listens");
        let mut frames = Frames::default();
        let mut forged = Vec::new();
        wire::emit(7, &message(66), &mut forged);
        until(&mut [&mut first, &mut second, &mut forger], &mut came, |nodes, _| {
            let now = Clock::shared().now();
            let _ = offer(&mut *mute, &forged);
            frames.clear();
            let _ = mute.recv(now, 8, &mut frames);
            while let Some(frame) = frames.pop() {
                let _ = offer(&mut *mute, frame);
            }
            mute.flush(now);
            nodes[0].refused().unproven >= 2 && nodes[2].has_notices()
        });
        assert!(!is_up(&forger) && is_up(&second), "{address}");
        assert!(forger.take_notices()[0].contains("different cluster keys"), "{address}");
        let (_, _, counts) = first.peers().next().expect("one peer");
        assert_eq!((counts.links, counts.received, came.len()), (1, 0, 0), "{address}");
    }
}

#[test]
fn strangers_are_hung_up_on() {
    let address = Address::Memory("links-strangers".into());
    let mut first =
        Links::new(&KEY, 7, replica(1), Some(&address), "", [(replica(2), None)]).expect("it listens");
    let mut foreign = dialler(2, &address, 8);
    let mut came = Vec::new();
    until(&mut [&mut first, &mut foreign], &mut came, |nodes, _| {
        nodes[0].refused().strangers >= 1 && nodes[1].has_notices()
    });
    assert!(!is_up(&first));
    assert!(came.is_empty());
}

#[test]
fn a_replica_that_nobody_named_is_let_in_by_the_key_and_an_operator_by_controllers() {
    let at = |name: &str| Address::Memory(format!("links-uninvited-{name}"));
    let (here, there) = (at("replica"), at("controller"));
    let mut first = Links::new(&KEY, 7, replica(1), Some(&here), "", []).expect("it listens");
    let mut controller =
        Links::new(&KEY, 7, NodeId::Controller(0), Some(&there), "", []).expect("it listens");
    let mut fourth = Links::new(&KEY, 7, replica(4), None, "", []).expect("links");
    fourth.learn(replica(1), Some(here.clone()));
    let operator = NodeId::Client(77);
    let peer = |address: &Address| [(NodeId::Controller(0), Some(address.clone()))];
    let mut asks = Links::new(&KEY, 7, operator, None, "", peer(&there)).expect("links");
    let mut lost = Links::new(&KEY, 7, NodeId::Client(78), None, "", peer(&here)).expect("links");
    let mut came = Vec::new();
    until(&mut [&mut first, &mut controller, &mut fourth, &mut asks, &mut lost], &mut came, |nodes, _| {
        is_up(nodes[0]) && is_up(nodes[1]) && is_up(nodes[2]) && is_up(nodes[3]) && nodes[4].has_notices()
    });
    let now = Clock::shared().now();
    asks.send(now, NodeId::Controller(0), &Message::Order { token: 5, order: None });
    until(&mut [&mut controller, &mut asks], &mut came, |_, came| !came.is_empty());
    assert_eq!(came, [(operator, Message::Order { token: 5, order: None })]);
    // Who is gone is forgotten.
    drop(asks);
    until(&mut [&mut controller], &mut came, |nodes, _| nodes[0].peers().count() == 0);
}

#[test]
fn what_finds_no_room_is_bounded() {
    let address = Address::Unix(path("room"));
    let (mut first, mut second) = pair(&address);
    let mut came = Vec::new();
    until(&mut [&mut first, &mut second], &mut came, |nodes, _| nodes.iter().all(|links| is_up(links)));
    let long = Message::Chunk {
        epoch: Epoch(1),
        offset: 0,
        extent: 1 << 20,
        after: Lsn(0),
        bytes: vec![7; 1 << 20],
    };
    let now = Clock::shared().now();
    // Nobody reads meanwhile.
    (0..64).for_each(|_| second.send(now, replica(1), &long));
    let (_, _, counts) = second.peers().next().expect("one peer");
    assert!(counts.dropped >= 20, "{counts:?}");
    let all = 64 - counts.dropped as usize;
    until(&mut [&mut first, &mut second], &mut came, |_, came| came.len() == all);
    assert!(came.iter().all(|(_, message)| *message == long));
}

#[test]
fn a_local_member_is_of_our_user_or_roots() {
    let ours = rustix::process::geteuid().as_raw();
    assert!(is_ours(ours) && is_ours(0) && !is_ours(ours + 1));
    for address in [Address::Unix(path("unix")), Address::Shm(path("shm"))] {
        let mut listener = link::listen(&address, &LinkOptions::default()).expect("it listens");
        let _dialled = std::thread::scope(|scope| {
            let dialler = scope.spawn(|| link::connect(&address, &LinkOptions::default()));
            let accepted = loop {
                if let Ok(Some(link)) = listener.accept(Nanos::ZERO) {
                    break link;
                }
            };
            assert_eq!(accepted.peer_user(), Some(ours), "{address}");
            dialler.join().expect("no panic").expect("connected")
        });
    }
}
