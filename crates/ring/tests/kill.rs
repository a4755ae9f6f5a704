//! Two processes, one of them killed -9 at a random moment: the survivor notices, receives everything that was published, sees nothing
//! torn and nothing twice, and never hangs.
//!
//! The test binary runs itself as the peer: `peer` below does nothing unless the environment says which role to play. The
//! socket is the child's standard input.

#![cfg(not(any(loom, miri)))]

use base::Prng;
use ring::shm::{Geometry, Outcome, Pages, Segment, SendError, ShmClient, ShmServer};
use ring::wait::WaitPolicy;
use rustix::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ROLE: &str = "MILLRACE_RING_KILL_ROLE";
const ROUNDS: u64 = 200;
/// Far beyond anything but a hang.
const HANG: Option<Duration> = Some(Duration::from_secs(60));
const GEOMETRY: Geometry =
    Geometry { entries: 32, request_arena: 1 << 14, response_arena: 1 << 14, max_message: 1 << 11 };

/// Message `n`: its number, a filling that follows from it, and the checksum of both.
fn message(n: u64) -> Vec<u8> {
    let mut prng = Prng::new(n);
    let len = if n.is_multiple_of(3) { 200 + prng.below(1500) } else { prng.below(36) };
    let mut bytes = n.to_le_bytes().to_vec();
    bytes.resize(8 + len as usize, 0);
    prng.fill(&mut bytes[8..]);
    let sum = base::hash::Hasher64::new(0).hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// The number of a message; panics when it is torn.
fn number_of(bytes: &[u8]) -> u64 {
    let (body, sum) = bytes.split_last_chunk().expect("a checksum");
    assert_eq!(u64::from_le_bytes(*sum), base::hash::Hasher64::new(0).hash(body), "a torn message");
    u64::from_le_bytes(*body.first_chunk().expect("a number"))
}

/// Asks until the server is gone. Every reply must be the one awaited next. Returns how many came.
fn ask_until_the_end(client: &mut ShmClient, mut after_each: impl FnMut(u64)) -> u64 {
    let (mut sent, mut seen) = (0, 0);
    loop {
        while client.try_send(&message(sent)).is_ok() {
            sent += 1;
        }
        client.flush();
        match client.wait(WaitPolicy::default(), HANG) {
            Outcome::Ready => {}
            Outcome::PeerGone => break,
            Outcome::TimedOut => panic!("the client hangs after {seen} replies"),
        }
        let polled = client.poll(usize::MAX, |_, bytes| {
            assert_eq!(number_of(bytes), seen, "lost, or twice");
            seen += 1;
        });
        polled.expect("an honest server");
        after_each(seen);
    }
    assert!(seen <= sent);
    assert_eq!(client.poll(1, |_, _| panic!("something was left")), Ok(0));
    assert_eq!(client.try_send(b"anyone?"), Err(SendError::Gone));
    seen
}

/// Echoes until the client is gone. Every request must be the one awaited next. Returns how many came.
fn serve_until_the_end(server: &mut ShmServer, mut after_each: impl FnMut(u64)) -> u64 {
    let mut seen = 0;
    let mut waiting = std::collections::VecDeque::new();
    loop {
        match server.wait(WaitPolicy::default(), HANG) {
            Outcome::Ready => {}
            Outcome::PeerGone => break,
            Outcome::TimedOut => panic!("the server hangs after {seen} requests"),
        }
        let received = server.recv(8, |tag, bytes| {
            assert_eq!(number_of(bytes), seen, "lost, or twice");
            seen += 1;
            waiting.push_back((tag, bytes.to_vec()));
        });
        received.expect("an honest client");
        while let Some((tag, bytes)) = waiting.front() {
            if server.reply(*tag, bytes).is_err() {
                break;
            }
            waiting.pop_front();
        }
        server.flush();
        after_each(seen);
    }
    assert_eq!(server.recv(1, |_, _| panic!("something was left")), Ok(0));
    seen
}

/// The child's side; a test that passes at once when nobody asked for a child.
#[test]
fn peer() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let socket: OwnedFd =
        std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().expect("the socket");
    let segment = Segment::receive(&socket).expect("the segment");
    // The parent's descriptor of this end is closed only when every copy is.
    match role.as_str() {
        "client" => ask_until_the_end(&mut ShmClient::new(&segment, socket), |_| ()),
        "server" => serve_until_the_end(&mut ShmServer::new(&segment, socket), |_| ()),
        other => panic!("no role {other}"),
    };
}

fn start(role: &str) -> (Child, Segment, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let segment = Segment::create(GEOMETRY, Pages::Base).expect("a segment");
    segment.send(&ours).expect("sent");
    let child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "peer", "--test-threads=1"])
        .env(ROLE, role)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .expect("a child");
    (child, segment, ours)
}

/// Kills `child` when `seen` has passed a random number, after a random few instructions more.
fn killer(child: &mut Child, round: u64) -> impl FnMut(u64) {
    let mut prng = Prng::for_entity(7, round, 0);
    let (at, spin) = (prng.below(3000), prng.below(3000));
    let mut killed = false;
    move |seen| {
        if !killed && seen >= at {
            (0..spin).for_each(|_| std::hint::spin_loop());
            child.kill().expect("it runs until now");
            killed = true;
        }
    }
}

fn died_by_kill(mut child: Child) {
    assert_eq!(child.wait().expect("its status").signal(), Some(9), "the peer failed by itself");
}

#[test]
fn a_server_outlives_its_client() {
    let mut total = 0;
    for round in 0..ROUNDS {
        let (mut child, segment, socket) = start("client");
        total += serve_until_the_end(&mut ShmServer::new(&segment, socket), killer(&mut child, round));
        died_by_kill(child);
    }
    assert!(total > ROUNDS * 500);
}

#[test]
fn a_client_outlives_its_server() {
    let mut total = 0;
    for round in 0..ROUNDS {
        let (mut child, segment, socket) = start("server");
        total += ask_until_the_end(&mut ShmClient::new(&segment, socket), killer(&mut child, round));
        died_by_kill(child);
    }
    assert!(total > ROUNDS * 500);
}
