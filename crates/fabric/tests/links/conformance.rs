//! The conformance suite of links: every point of the contract in `fabric::link`, for every transport and mode. What takes a second
//! process is in `peers.rs`.

use crate::rig::{HANG, Kind, part, readable};
use base::units::Nanos;
use base::{Clock, Prng};
use fabric::frame::{HEADER, MAX_FRAME};
use fabric::link::{self, ConnectError, Frames, Link, LinkOptions, Lost, SendError};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
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

/// Everything that can be received now, as it comes. Like every owner, flushes after it (point 8).
fn receive(link: &mut dyn Link) -> Result<Vec<Vec<u8>>, Lost> {
    let (mut frames, mut all) = (Frames::default(), Vec::new());
    while link.recv(now(), 64, &mut frames)? > 0 {
        while let Some(bytes) = frames.pop() {
            all.push(bytes.to_vec());
        }
        frames.clear();
    }
    link.flush(now());
    Ok(all)
}

/// Whether `got` is `want`, in this order where the transport keeps one.
fn same(kind: Kind, mut got: Vec<Vec<u8>>, want: impl Iterator<Item = Vec<u8>>) -> bool {
    let mut want: Vec<_> = want.collect();
    if kind.is_session() {
        got.sort_unstable();
        want.sort_unstable();
    }
    got == want
}

/// Sends a frame for which room is there or about to come, with the other side driven meanwhile.
fn send_into_room(from: &mut dyn Link, to: &mut dyn Link, bytes: &[u8]) {
    let started = now();
    while let Err(error) = send(from, bytes) {
        assert_eq!(error, SendError::Full);
        assert!(now().since(started) < HANG.into(), "no room");
        to.flush(now());
        from.flush(now());
    }
}

/// Arms `link`, which has nothing to do and so would sleep. A session's ends first finish what they still confirm to each other.
fn arm_idle(kind: Kind, link: &mut dyn Link, other: &mut dyn Link) {
    let started = now();
    while !link.arm() || readable(link.descriptor(), Duration::ZERO) {
        assert!(kind.is_session() && now().since(started) < HANG.into(), "{kind:?} does not sleep");
        link.disarm();
        other.flush(now());
        assert_eq!(receive(link), Ok(vec![]));
    }
}

/// Sleeps as an owner does: on the descriptor, until the next deadline at most. False where nothing woke it that should have.
fn sleep(link: &dyn Link) -> bool {
    let deadline = link.next_deadline();
    readable(link.descriptor(), deadline.since(now()).min(HANG.into()).into()) || deadline <= now()
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
        part(a, b);
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
            assert!(same(kind, got, (0..count).map(|n| vec![n; 100])), "{kind:?}");
            assert_eq!(receive(&mut *b), Ok(vec![]));
        }
        part(a, b);
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
        let (mut seen, started) = (Vec::new(), now());
        while seen.len() < 20 {
            let got = b.recv(now(), 3, &mut frames).expect("the peer is there");
            assert!(got <= 3 && frames.len() == got);
            seen.extend(std::iter::from_fn(|| frames.pop().map(<[u8]>::to_vec)));
            frames.clear();
            b.flush(now());
            a.flush(now());
            assert!(now().since(started) < HANG.into(), "{kind:?} hangs");
        }
        assert!(same(kind, seen, (0..20).map(|n| vec![n; 50])), "{kind:?}");
        let filler = vec![0; Frames::ENOUGH];
        frames.push(&[&filler]);
        send(&mut *a, &[9; 50]).expect("room");
        a.flush(now());
        assert_eq!(b.recv(now(), 9, &mut frames), Ok(0), "there is enough");
        frames.clear();
        assert_eq!(receive_count(&mut *b, &mut *a, 1), [[9; 50]]);
        part(a, b);
    });
}

/// Sends frames of this length to an owner that polls and never receives, until they are refused and there is nothing to wait for
/// but room, however long the system finds more. Returns how many were taken.
fn fill(link: &mut dyn Link, other: &mut dyn Link, len: usize, receives: bool) -> usize {
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
            other.flush(now());
        }
        // Acknowledgements came, and with them no frame.
        let armed = match receives {
            true => receive(link) == Ok(vec![]) && link.arm(),
            false => link.arm_for_room(),
        };
        if armed && !readable(link.descriptor(), Duration::ZERO) {
            return taken;
        }
        link.disarm();
    }
    panic!("a full link that never sleeps");
}

/// Receives until `sleeper`, that was refused, is told of room. A system's buffers may hand on several times before there is; a
/// session may have to ask for it.
fn receive_until_room(kind: Kind, link: &mut dyn Link, sleeper: &mut dyn Link) -> Vec<Vec<u8>> {
    let (started, mut got) = (now(), Vec::new());
    loop {
        got.extend(receive(link).expect("the peer is there"));
        if readable(sleeper.descriptor(), Duration::ZERO) {
            return got;
        }
        if sleeper.next_deadline() <= now() {
            sleeper.disarm();
            sleeper.flush(now());
            if !sleeper.arm_for_room() {
                return got;
            }
        }
        assert!(kind.is_stream() || kind.is_session(), "{kind:?}: there is room and nobody says so");
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
            let taken = fill(&mut *a, &mut *b, len, true);
            assert!(taken > 0 && taken * len <= kind.holds_at_most(), "{kind:?}: {taken} of {len} bytes");
            let mut got = receive_until_room(kind, &mut *b, &mut *a);
            a.disarm();
            got.extend(receive_count(&mut *b, &mut *a, taken - got.len()));
            assert!(same(kind, got, (0..taken).map(|n| vec![n as u8; len])), "{kind:?}");
            send_into_room(&mut *a, &mut *b, &vec![7; len]);
            assert!(receive_count(&mut *b, &mut *a, 1) == [vec![7; len]]);
            part(a, b);
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
        fill(&mut *a, &mut *b, 3_000, false);
        receive_until_room(kind, &mut *b, &mut *a);
        a.disarm();
        assert!(!a.arm() || readable(a.descriptor(), HANG), "{kind:?}: the frame is still there");
        a.disarm();
        assert_eq!(receive(&mut *a), Ok(vec![vec![1; 20]]));
        part(a, b);
    });
}

/// Point 6 where nothing happens, and where something did.
#[test]
fn an_armed_link_is_quiet_until_something_comes() {
    on_every_kind(|kind| {
        let (mut a, mut b) = kind.links();
        for round in 0..20u8 {
            arm_idle(kind, &mut *b, &mut *a);
            if round % 2 == 0 {
                b.disarm();
            }
            send(&mut *a, &[round; 30]).expect("room");
            a.flush(now());
            assert!(!b.arm() || readable(b.descriptor(), HANG), "{kind:?} {round}");
            b.disarm();
            assert_eq!(receive_count(&mut *b, &mut *a, 1), [[round; 30]]);
        }
        part(a, b);
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

/// Sends `count` frames and receives as many, sleeping whenever there is nothing to do. Drives its end until both are `done`.
fn exchange(
    kind: Kind,
    mut link: Box<dyn Link>,
    (count, longest, batch): (u64, usize, usize),
    done: &AtomicU32,
) -> Box<dyn Link> {
    let (mut sent, mut seen) = (0, 0);
    let mut came = vec![false; count as usize];
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
            let n = u64::from_le_bytes(*bytes.first_chunk().expect("a header"));
            assert!(n == seen || kind.is_session() && n < count, "frame {n} came after {seen} others");
            assert!(bytes == frame(n, longest), "frame {n} is not as it was sent");
            assert!(!std::mem::replace(&mut came[n as usize], true), "frame {n} came twice");
            seen += 1;
        }
        frames.clear();
        if did == 0 {
            let sleeps = link.arm();
            // Arming flushes, which may have been all that was left to do.
            let done = sent == count && seen == count && link.is_drained();
            assert!(done || !sleeps || sleep(&*link), "a wake-up was lost: {sent} sent, {seen} received");
            link.disarm();
        }
    }
    let started = now();
    done.fetch_add(1, Ordering::Relaxed);
    while done.load(Ordering::Relaxed) < 2 {
        link.flush(now());
        assert!(now().since(started) < HANG.into(), "the other end is not done");
        std::thread::yield_now();
    }
    link
}

/// Points 1, 2, 5, 6: both ways at once, on links that are full most of the time.
#[test]
fn two_sides_that_sleep_lose_no_frame_and_no_wake_up() {
    on_every_kind(|kind| {
        for size in [(4_000, 5_000, 1), (4_000, 5_000, 64), (300, 400_000, 8)] {
            let (a, b) = kind.links();
            let done = AtomicU32::new(0);
            std::thread::scope(|scope| {
                let other = scope.spawn(|| exchange(kind, b, size, &done));
                let a = exchange(kind, a, size, &done);
                // Neither end goes before the other has everything.
                part(a, other.join().expect("no panic"));
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
                    arm_idle(kind, &mut *b, &mut *a);
                }
                for n in 0..9u8 {
                    send(&mut *a, &[n; 77]).expect("room");
                }
                a.flush(now());
                // A session is not: nobody has acknowledged. Its end sees to that.
                assert!(kind.is_session() || a.is_drained());
                let (mut got, mut frames, started) = (Vec::new(), Frames::default(), now());
                let lost = std::thread::scope(|scope| {
                    scope.spawn(move || drop(a));
                    if armed {
                        assert!(readable(b.descriptor(), HANG), "{kind:?}");
                        b.disarm();
                    }
                    loop {
                        let received = b.recv(now(), 4, &mut frames);
                        b.flush(now());
                        match received {
                            Ok(_) => got.extend(std::iter::from_fn(|| frames.pop().map(<[u8]>::to_vec))),
                            Err(lost) => break lost,
                        }
                        assert!(now().since(started) < HANG.into(), "{kind:?}: no end");
                    }
                });
                assert!(same(kind, got, (0..9).map(|n| vec![n; 77])), "{kind:?}");
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
        // Datagrams to nobody are answered by silence.
        let patient = LinkOptions { timeout: Duration::from_millis(50), ..kind.options() };
        assert!(matches!(link::connect(&address, &patient), Err(ConnectError::NobodyThere(_))));
        // Links outlive their listener.
        let (client, server) = &mut ends[0];
        send(&mut **client, &[1; 16]).expect("room");
        assert_eq!(receive_count(&mut **server, &mut **client, 1), [[1; 16]]);
        let (clients, servers): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        part(clients, servers);
    });
}
