use super::*;
use crate::wait::WaitPolicy;
use base::Prng;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const SMALL: Geometry =
    Geometry { entries: 8, request_arena: 1 << 14, response_arena: 1 << 14, max_message: 1 << 13 };
const LONG: Option<Duration> = Some(Duration::from_secs(600));

fn connected(geometry: Geometry) -> (ShmClient, ShmServer) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let made = Segment::create(geometry, Pages::Base).expect("a segment");
    made.send(&ours).expect("sent");
    let received = Segment::receive(&theirs).expect("received");
    assert_eq!(received.geometry(), geometry);
    (ShmClient::new(&received, theirs), ShmServer::new(&made, ours))
}

/// Takes every request into memory of the test and answers it with its bytes reversed.
fn answer_all(server: &mut ShmServer) {
    let mut requests = Vec::new();
    server.recv(usize::MAX, |tag, bytes| requests.push((tag, bytes.to_vec()))).expect("an honest client");
    for (tag, mut bytes) in requests {
        bytes.reverse();
        server.reply(tag, &bytes).expect("room");
    }
    server.flush();
}

#[test]
fn messages_of_every_length_come_back() {
    let (mut client, mut server) = connected(SMALL);
    let mut prng = Prng::new(1);
    for len in (0..200).chain([1000, 4096, 8191, 8192]) {
        let mut message = vec![0; len];
        prng.fill(&mut message);
        let tag = client.try_send(&message).expect("room");
        client.flush();
        answer_all(&mut server);
        message.reverse();
        let mut seen = 0;
        let polled = client.poll(9, |t, bytes| {
            assert!(t == tag && bytes == message);
            seen += 1;
        });
        assert_eq!((polled, seen), (Ok(1), 1));
    }
    assert_eq!(client.try_send(&[0; 8193]), Err(SendError::TooLarge));
}

#[test]
fn a_full_ring_and_a_full_arena_are_errors_and_pass() {
    let (mut client, mut server) = connected(SMALL);
    for _ in 0..8 {
        client.try_send(b"short").expect("a credit");
    }
    assert_eq!(client.try_send(b"short"), Err(SendError::Full));
    answer_all(&mut server);
    assert_eq!(client.poll(usize::MAX, |_, bytes| assert_eq!(bytes, b"trohs")), Ok(8));
    let long = vec![7; 8000];
    let mut sent = 0;
    while client.try_send(&long).is_ok() {
        sent += 1;
    }
    assert!((1..=2).contains(&sent));
    assert_eq!(client.wait(WaitPolicy::BLOCK, Some(Duration::ZERO)), Outcome::TimedOut);
    answer_all(&mut server);
    assert_eq!(client.poll(usize::MAX, |_, bytes| assert_eq!(bytes, long)), Ok(sent));
    client.try_send(&long).expect("room again");
}

#[test]
fn two_threads_sleep_and_wake_and_lose_nothing() {
    let (mut client, mut server) = connected(SMALL);
    const STEPS: u32 = 3_000;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            loop {
                match server.wait(WaitPolicy::BLOCK, LONG) {
                    Outcome::Ready => {}
                    Outcome::PeerGone => return,
                    Outcome::TimedOut => panic!("a wake-up was lost"),
                }
                let mut requests = Vec::new();
                server.recv(4, |tag, bytes| requests.push((tag, bytes.to_vec()))).expect("honest");
                for (tag, bytes) in requests {
                    while server.reply(tag, &bytes).is_err() {
                        assert_eq!(server.wait(WaitPolicy::BLOCK, LONG), Outcome::Ready);
                    }
                }
                server.flush();
            }
        });
        let (mut sent, mut seen) = (0u32, 0);
        while seen < STEPS {
            let message = vec![sent as u8; (sent * 31 % 3000) as usize];
            if sent < STEPS && client.try_send(&message).is_ok() {
                sent += 1;
                continue;
            }
            client.flush();
            assert_eq!(client.wait(WaitPolicy::BLOCK, LONG), Outcome::Ready);
            let polled = client.poll(usize::MAX, |_, bytes| {
                assert_eq!(bytes, vec![seen as u8; (seen * 31 % 3000) as usize]);
                seen += 1;
            });
            polled.expect("an honest server");
        }
        drop(client);
    });
}

/// A server out of room sleeps until the client, which takes one reply at a time, has made some: the client tells of it before
/// it sleeps itself, and wakes the server even for room that it had told of a quarter of the arena at a time.
#[test]
fn room_made_one_reply_at_a_time_wakes_the_peer() {
    for len in [4096, 4095, 3000, 2048, 100] {
        let (mut client, mut server) = connected(SMALL);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut owed = Vec::new();
                while server.wait(WaitPolicy::BLOCK, LONG) != Outcome::PeerGone {
                    server.recv(1, |tag, _| owed.push(tag)).expect("honest");
                    while let Some(&tag) = owed.first() {
                        match server.reply(tag, &vec![1; len]) {
                            Ok(()) => drop(owed.remove(0)),
                            Err(SendError::Full) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    server.flush();
                }
            });
            for _ in 0..50 {
                for _ in 0..8 {
                    client.try_send(b"more").expect("a credit");
                }
                client.flush();
                for _ in 0..8 {
                    assert_eq!(client.wait(WaitPolicy::BLOCK, LONG), Outcome::Ready);
                    assert_eq!(client.poll(1, |_, bytes| assert_eq!(bytes.len(), len)), Ok(1));
                }
            }
            drop(client);
        });
    }
}

/// Many connections in one epoll set: a parked server is rung, unless something came before it slept.
#[test]
fn a_parked_server_is_rung_and_learns_of_the_end() {
    let (mut client, mut server) = connected(SMALL);
    let is_readable = |server: &ShmServer| {
        let mut fds =
            [rustix::event::PollFd::from_borrowed_fd(server.descriptor(), rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).expect("poll") == 1
    };
    client.try_send(b"before").expect("room");
    client.flush();
    assert!(!server.park(), "a request is there");
    answer_all(&mut server);
    assert!(server.park() && !is_readable(&server));
    client.try_send(b"after").expect("room");
    client.flush();
    assert!(is_readable(&server) && !server.unpark() && !is_readable(&server));
    answer_all(&mut server);
    assert!(server.park());
    client.try_send(b"last").expect("room");
    drop(client);
    assert!(is_readable(&server) && server.unpark());
}

#[test]
fn what_was_published_before_the_end_is_received_and_then_the_end() {
    let (mut client, mut server) = connected(SMALL);
    client.try_send(b"last words").expect("room");
    client.flush();
    drop(client);
    assert_eq!(server.wait(WaitPolicy::BLOCK, LONG), Outcome::Ready);
    let mut tags = Vec::new();
    assert_eq!(
        server.recv(9, |tag, bytes| if bytes == b"last words" {
            tags.push(tag)
        }),
        Ok(1)
    );
    assert_eq!(server.wait(WaitPolicy::BLOCK, LONG), Outcome::PeerGone);
    assert_eq!(server.reply(tags[0], b"too late"), Err(SendError::Gone));

    let (mut client, server) = connected(SMALL);
    drop(server);
    assert_eq!(client.wait(WaitPolicy::SPIN, LONG), Outcome::PeerGone);
    assert_eq!(client.try_send(b"x"), Err(SendError::Gone));
}

/// A peer that scribbles over the whole segment at any time costs at most the connection.
#[test]
fn a_scribbling_peer_breaks_only_its_own_connection() {
    for seed in 0..200 {
        let mut prng = Prng::new(seed);
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        let segment = Segment::create(SMALL, Pages::Base).expect("a segment");
        let (mut client, mut server) = (ShmClient::new(&segment, theirs), ShmServer::new(&segment, ours));
        let len = segment.memory.len();
        for _ in 0..50 {
            for _ in 0..prng.below(40) {
                let at = prng.below(len as u64 / 4) as usize * 4;
                let word = [0, 1, 60, u32::MAX, prng.next_u64() as u32][prng.below(5) as usize];
                // SAFETY: inside the mapping; this is the scribbling.
                unsafe { segment.memory.at::<u32>(at, 1).write_volatile(word) };
            }
            let _ = client.try_send(&[1; 100]);
            let _ = client.try_send(&[2; 10]);
            client.flush();
            let mut tags = Vec::new();
            let received = server.recv(8, |tag, bytes| {
                assert!(bytes.len() <= SMALL.max_message as usize);
                tags.push(tag);
            });
            for tag in tags {
                let _ = server.reply(tag, &[3; 100]);
            }
            server.flush();
            let polled = client.poll(8, |_, bytes| assert!(bytes.len() <= SMALL.max_message as usize));
            if received.is_err() || polled.is_err() {
                break;
            }
        }
    }
}

#[test]
fn a_reply_to_nothing_is_a_violation() {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let segment = Segment::create(SMALL, Pages::Base).expect("a segment");
    let (mut client, mut server) = (ShmClient::new(&segment, theirs), ShmServer::new(&segment, ours));
    client.try_send(b"one").expect("room");
    client.flush();
    assert_eq!(server.recv(1, |_, _| ()), Ok(1));
    server.reply(crate::Tag(77), b"a lie").expect("room");
    server.flush();
    assert_eq!(client.poll(1, |_, _| panic!("nothing was asked under this tag")), Err(Violation::Tag));
    assert_eq!(client.try_send(b"x"), Err(SendError::Gone));
}

#[test]
fn only_sealed_and_sound_segments_are_attached() {
    let file = memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memfd");
    ftruncate(&file, 1 << 20).expect("sized");
    let again = || file.try_clone().expect("a descriptor");
    assert!(matches!(Segment::attach(again()), Err(AttachError::NotSealed)));
    fcntl_add_seals(&file, SealFlags::SHRINK).expect("sealed");
    assert!(matches!(Segment::attach(again()), Err(AttachError::NotASegment)));
    let segment = Segment::create(SMALL, Pages::Base).expect("a segment");
    let reattach = || {
        use rustix::fd::AsFd;
        Segment::attach(segment.as_fd().try_clone_to_owned().expect("a descriptor"))
    };
    assert!(reattach().is_ok());
    // Every word of the header that is wrong in some way is refused, and nothing panics.
    for (offset, word) in [(24, 9u32), (0, 7)] {
        // SAFETY: inside the mapping.
        let old = unsafe { segment.memory.at::<u32>(offset, 1).as_ptr().replace(word) };
        assert!(matches!(reattach(), Err(AttachError::NotASegment)));
        // SAFETY: as above.
        unsafe { segment.memory.at::<u32>(offset, 1).write(old) };
    }
    for (offset, word) in
        [(8, 3u32), (8, 0), (12, 1), (16, 1 << 30), (20, u32::MAX), (28, 7), (28, 1 << 29), (32, 1 << 14)]
    {
        // SAFETY: as above.
        let old = unsafe { segment.memory.at::<u32>(offset, 1).as_ptr().replace(word) };
        assert!(matches!(reattach(), Err(AttachError::BadGeometry)), "{offset} {word}");
        // SAFETY: as above.
        unsafe { segment.memory.at::<u32>(offset, 1).write(old) };
    }
    assert!(Segment::create(Geometry { max_message: 1 << 14, ..SMALL }, Pages::Base).is_err());
    // A peer that sends nothing, or hangs up.
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    rustix::io::write(&ours, b"m").expect("written");
    assert!(matches!(Segment::receive(&theirs), Err(AttachError::NothingSent)));
    drop(ours);
    assert!(matches!(Segment::receive(&theirs), Err(AttachError::NothingSent)));
}
