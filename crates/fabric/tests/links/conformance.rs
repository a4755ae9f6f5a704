//! The conformance suite of links: every point of the contract in `fabric::link`, for every transport and mode. What takes a second
//! process is in `peers.rs`.

use crate::rig::{HANG, Kind, readable};
use base::units::Nanos;
use base::{Clock, Prng};
use fabric::frame::{HEADER, MAX_FRAME};
use fabric::link::{self, ConnectError, Frames, Link, Lost, SendError};
use std::collections::VecDeque;
use std::time::Duration;

fn now() -> Nanos {
    Clock::shared().now()
}

/// Runs `check` on every kind, and names the kind that fails.
fn on_every_kind(check: impl Fn(Kind)) {
    for &kind in Kind::ALL {
        eprintln!("{kind:?}");
        check(kind);
    }
}

fn send(link: &mut dyn Link, bytes: &[u8]) -> Result<(), SendError> {
    let (head, body) = bytes.split_at(bytes.len().min(HEADER + bytes.len() % 3 * 8));
    link.try_send(head, body)
}

/// Everything that can be received now, as it comes.
fn receive(link: &mut dyn Link) -> Result<Vec<Vec<u8>>, Lost> {
    let (mut frames, mut all) = (Frames::default(), Vec::new());
    while link.recv(now(), 64, &mut frames)? > 0 {
        while let Some(bytes) = frames.pop() {
            all.push(bytes.to_vec());
        }
        frames.clear();
    }
    Ok(all)
}

/// Receives until there are `count`, with whatever the other side must do meanwhile.
fn receive_count(to: &mut dyn Link, from: &mut dyn Link, count: usize) -> Vec<Vec<u8>> {
    let (started, mut all) = (now(), Vec::new());
    while all.len() < count {
        from.flush(now());
        all.extend(receive(to).expect("the peer is there"));
        assert!(now().since(started) < HANG.into(), "{} of {count} frames came", all.len());
    }
    all
}

/// Points 1, 3, 4: whole, once, after a flush, of every length.
#[test]
fn frames_of_every_length_arrive_whole() {
    on_every_kind(|kind| {
        let (mut a, mut b) = kind.links();
        let lengths = (HEADER..200).chain([1000, 1 << 16, 1 << 19, (1 << 20) + 1, MAX_FRAME]);
        for len in lengths {
            let mut bytes = vec![0; len];
            Prng::new(len as u64).fill(&mut bytes);
            send(&mut *a, &bytes).expect("room");
            assert!(receive_count(&mut *b, &mut *a, 1) == [bytes], "{kind:?} {len}");
        }
        assert_eq!(a.try_send(&[0; HEADER], &vec![0; MAX_FRAME - HEADER + 1]), Err(SendError::TooLarge));
    });
}

/// Point 3: what is flushed is there, and what is taken again is no longer.
#[test]
fn a_flush_sends_all_that_was_taken() {
    on_every_kind(|kind| {
        let (mut a, mut b) = kind.links();
        assert_eq!(receive(&mut *b), Ok(vec![]));
        for count in [1, 2, 7, 40] {
            for n in 0..count {
                send(&mut *a, &[n; 100]).expect("room");
            }
            let got = receive_count(&mut *b, &mut *a, count.into());
            assert!((0..count).map(|n| vec![n; 100]).eq(got), "{kind:?}");
            assert_eq!(receive(&mut *b), Ok(vec![]));
        }
    });
}

/// Receiving takes no more than is asked for, and stops when there is enough.
#[test]
fn a_receiver_gets_no_more_than_it_asks_for() {
    on_every_kind(|kind| {
        let (mut a, mut b) = kind.links();
        for n in 0..20u8 {
            send(&mut *a, &[n; 50]).expect("room");
        }
        a.flush(now());
        let mut frames = Frames::default();
        assert_eq!(b.recv(now(), 0, &mut frames), Ok(0));
        let (mut seen, started) = (0, now());
        while seen < 20 {
            let got = b.recv(now(), 3, &mut frames).expect("the peer is there");
            assert!(got <= 3 && frames.len() == got);
            while let Some(frame) = frames.pop() {
                assert_eq!(frame, [seen; 50]);
                seen += 1;
            }
            frames.clear();
            assert!(now().since(started) < HANG.into(), "{kind:?} hangs");
        }
        let filler = vec![0; Frames::ENOUGH];
        frames.push(&[&filler]);
        send(&mut *a, &[9; 50]).expect("room");
        a.flush(now());
        assert_eq!(b.recv(now(), 9, &mut frames), Ok(0), "there is enough");
        frames.clear();
        assert_eq!(receive_count(&mut *b, &mut *a, 1), [[9; 50]]);
    });
}

/// Sends frames of this length until they are refused and there is nothing to wait for but room, however long the system finds
/// more. Returns how many were taken.
fn fill(link: &mut dyn Link, len: usize, arm: fn(&mut dyn Link) -> bool) -> usize {
    let mut taken = 0;
    for _ in 0..1000 {
        let mut refused = 0;
        while refused < 100 {
            match send(link, &vec![taken as u8; len]) {
                Ok(()) => taken += 1,
                Err(SendError::Full) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            link.flush(now());
        }
        if arm(link) && !readable(link.descriptor(), Duration::ZERO) {
            return taken;
        }
        link.disarm();
    }
    panic!("a full link that never sleeps");
}

/// Receives until `sleeper`, that was refused, is told of room. A system's buffers may hand on several times before there is.
fn receive_until_room(kind: Kind, link: &mut dyn Link, sleeper: &dyn Link) -> Vec<Vec<u8>> {
    let (started, mut got) = (now(), Vec::new());
    loop {
        got.extend(receive(link).expect("the peer is there"));
        if readable(sleeper.descriptor(), Duration::ZERO) {
            return got;
        }
        assert!(kind.is_stream(), "{kind:?}: there is room and nobody says so");
        assert!(now().since(started) < HANG.into(), "{kind:?}: no room");
    }
}

/// Point 2: a peer that never reads costs no more than the bounds say; nothing of what is refused is sent; room is announced
/// (point 6).
#[test]
fn a_full_link_refuses_holds_no_more_and_tells_of_room() {
    on_every_kind(|kind| {
        for len in [HEADER, 200, 5_000, 300_000] {
            let (mut a, mut b) = kind.links();
            let taken = fill(&mut *a, len, |link| link.arm());
            assert!(taken > 0 && taken * len <= kind.holds_at_most(), "{kind:?}: {taken} of {len} bytes");
            let mut got = receive_until_room(kind, &mut *b, &*a);
            a.disarm();
            got.extend(receive_count(&mut *b, &mut *a, taken - got.len()));
            assert!(got.iter().zip(0..).all(|(frame, n)| *frame == vec![n as u8; len]));
            send(&mut *a, &vec![7; len]).expect("room again");
            assert!(receive_count(&mut *b, &mut *a, 1) == [vec![7; len]]);
        }
    });
}

/// An owner that waits for room only is not kept awake by what it could receive.
#[test]
fn waiting_for_room_ignores_what_came() {
    on_every_kind(|kind| {
        let (mut a, mut b) = kind.links();
        send(&mut *b, &[1; 20]).expect("room");
        b.flush(now());
        fill(&mut *a, 3_000, |link| link.arm_for_room());
        receive_until_room(kind, &mut *b, &*a);
        a.disarm();
        assert!(!a.arm() || readable(a.descriptor(), HANG), "{kind:?}: the frame is still there");
        a.disarm();
        assert_eq!(receive(&mut *a), Ok(vec![vec![1; 20]]));
    });
}

/// Point 6 where nothing happens, and where something did.
#[test]
fn an_armed_link_is_quiet_until_something_comes() {
    on_every_kind(|kind| {
        let (mut a, mut b) = kind.links();
        for round in 0..20u8 {
            assert!(b.arm() && !readable(b.descriptor(), Duration::ZERO), "{kind:?} {round}");
            if round % 2 == 0 {
                b.disarm();
            }
            send(&mut *a, &[round; 30]).expect("room");
            a.flush(now());
            assert!(!b.arm() || readable(b.descriptor(), HANG), "{kind:?} {round}");
            b.disarm();
            assert_eq!(receive_count(&mut *b, &mut *a, 1), [[round; 30]]);
        }
    });
}

/// A frame of a stream from a seed: its length from the seed too, mostly short.
fn frame(n: u64, longest: usize) -> Vec<u8> {
    let mut prng = Prng::for_entity(3, n, 0);
    let more = match prng.below(16) {
        0..11 => prng.below(150) as usize,
        11..15 => prng.below(3000) as usize,
        _ => prng.below(longest as u64) as usize,
    };
    let mut bytes = vec![0; HEADER + more];
    prng.fill(&mut bytes);
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    bytes
}

/// Sends `count` frames and receives as many, sleeping whenever there is nothing to do.
fn exchange(mut link: Box<dyn Link>, count: u64, longest: usize, batch: usize) -> Box<dyn Link> {
    let (mut sent, mut seen) = (0, 0);
    let mut frames = Frames::default();
    let mut waiting: VecDeque<Vec<u8>> = VecDeque::new();
    while sent < count || seen < count || !link.is_drained() {
        let mut did = 0;
        while sent < count && did < batch {
            let bytes = waiting.pop_front().unwrap_or_else(|| frame(sent, longest));
            match send(&mut *link, &bytes) {
                Ok(()) => (sent, did) = (sent + 1, did + 1),
                Err(SendError::Full) => {
                    waiting.push_front(bytes);
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        link.flush(now());
        did += link.recv(now(), batch, &mut frames).expect("the peer is there");
        while let Some(bytes) = frames.pop() {
            assert!(bytes == frame(seen, longest), "frame {seen} is not as it was sent");
            seen += 1;
        }
        frames.clear();
        if did == 0 {
            let sleeps = link.arm();
            // Arming flushes, which may have been all that was left to do.
            let done = sent == count && seen == count && link.is_drained();
            assert!(
                done || !sleeps || readable(link.descriptor(), HANG),
                "a wake-up was lost: {sent} sent, {seen} received"
            );
            link.disarm();
        }
    }
    link
}

/// Points 1, 2, 5, 6: both ways at once, on links that are full most of the time.
#[test]
fn two_sides_that_sleep_lose_no_frame_and_no_wake_up() {
    on_every_kind(|kind| {
        for (count, longest, batch) in [(4_000, 5_000, 1), (4_000, 5_000, 64), (300, 400_000, 8)] {
            let (a, b) = kind.links();
            std::thread::scope(|scope| {
                let other = scope.spawn(|| exchange(b, count, longest, batch));
                let a = exchange(a, count, longest, batch);
                // Neither end goes before the other has everything.
                drop((a, other.join().expect("no panic")));
            });
        }
    });
}

/// Point 7: the last words first, then the end, which stays the end.
#[test]
fn a_closed_link_gives_its_last_frames_and_then_the_end() {
    on_every_kind(|kind| {
        for armed in [false, true] {
            for client_closes in [true, false] {
                let (client, server) = kind.links();
                let (mut a, mut b) = if client_closes { (client, server) } else { (server, client) };
                // Something unread on the other side must not cost the last words.
                send(&mut *b, &[0; 40]).expect("room");
                b.flush(now());
                if armed {
                    assert!(b.arm());
                }
                for n in 0..9u8 {
                    send(&mut *a, &[n; 77]).expect("room");
                }
                a.flush(now());
                assert!(a.is_drained());
                drop(a);
                if armed {
                    assert!(readable(b.descriptor(), HANG), "{kind:?}");
                    b.disarm();
                }
                let (mut got, started) = (Vec::new(), now());
                let mut frames = Frames::default();
                let lost = loop {
                    match b.recv(now(), 4, &mut frames) {
                        Ok(_) => got.extend(std::iter::from_fn(|| frames.pop().map(<[u8]>::to_vec))),
                        Err(lost) => break lost,
                    }
                    assert!(now().since(started) < HANG.into(), "{kind:?}: no end");
                };
                assert!((0..9u8).map(|n| vec![n; 77]).eq(got), "{kind:?}");
                assert!(lost == Lost::Closed || kind.is_stream() && lost == Lost::Dead, "{kind:?}: {lost}");
                assert_eq!(b.recv(now(), 4, &mut frames), Err(lost));
                assert_eq!(b.try_send(&[0; HEADER], &[]), Err(SendError::Gone), "{kind:?}");
                assert!(!b.arm(), "{kind:?}: there is an end to hear of");
            }
        }
    });
}

#[test]
fn a_listener_serves_many_and_tells_when_somebody_comes() {
    on_every_kind(|kind| {
        let mut listener = kind.listener();
        let address = listener.address().clone();
        assert_eq!(address.to_string().parse(), Ok(address.clone()));
        assert!(!readable(listener.descriptor(), Duration::ZERO));
        assert!(listener.accept(now()).expect("no error").is_none());
        let taken = link::listen(&address, &kind.options()).err().expect("the address is in use");
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "{kind:?}");
        // That attempt may have knocked.
        drop(listener.accept(now()));
        let mut ends: Vec<_> = (0..5).map(|_| kind.link_to(&mut *listener)).collect();
        for (n, (client, server)) in ends.iter_mut().enumerate().rev() {
            send(&mut **server, &[n as u8; 16]).expect("room");
            assert_eq!(receive_count(&mut **client, &mut **server, 1), [[n as u8; 16]]);
        }
        drop(listener);
        assert!(matches!(link::connect(&address, &kind.options()), Err(ConnectError::NobodyThere(_))));
        // Links outlive their listener.
        let (client, server) = &mut ends[0];
        send(&mut **client, &[1; 16]).expect("room");
        assert_eq!(receive_count(&mut **server, &mut **client, 1), [[1; 16]]);
    });
}
