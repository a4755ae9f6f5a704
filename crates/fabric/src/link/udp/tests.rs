use super::*;
use base::clock::Clock;
use std::thread::JoinHandle;

/// A listener, a connected link and its other end.
fn pair() -> (UdpListener, UdpLink, Box<dyn Link>) {
    let mut listener = UdpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let client = knock(&listener);
    let server = admit(&mut listener);
    // The opener needs the answer, which the accepting end sends.
    (listener, client.join().expect("no panic").expect("connected"), server)
}

/// A client that connects while this thread accepts it.
fn knock(listener: &UdpListener) -> JoinHandle<io::Result<UdpLink>> {
    let Address::Udp(endpoint) = listener.address().clone() else { panic!("it is UDP") };
    let address = endpoint.resolve().expect("numbers");
    std::thread::spawn(move || UdpLink::connect(address, Duration::from_secs(30)))
}

fn admit(listener: &mut UdpListener) -> Box<dyn Link> {
    loop {
        if let Some(link) = listener.accept(Clock::shared().now()).expect("descriptors") {
            return link;
        }
        sleep_on(listener.descriptor(), Nanos::from_millis(100));
    }
}

/// Frames of `to`, driving both ends until there are `count` or the link is lost.
fn receive(from: &mut dyn Link, to: &mut dyn Link, count: usize) -> Result<Vec<Vec<u8>>, Lost> {
    let (clock, mut frames, mut out) = (Clock::shared(), Frames::default(), Vec::new());
    while out.len() < count {
        from.flush(clock.now());
        // The sender takes acknowledgements; what else comes is not of interest here.
        let _ = from.recv(clock.now(), 1, &mut Frames::default());
        to.recv(clock.now(), 64, &mut frames)?;
        to.flush(clock.now());
        while let Some(frame) = frames.pop() {
            out.push(frame.to_vec());
        }
        frames.clear();
    }
    Ok(out)
}

#[test]
fn frames_of_all_sizes_arrive() {
    let (_listener, mut client, mut server) = pair();
    let sizes = [16, 17, 1000, 1452, 1453, 20_000, 100_000, MAX_FRAME];
    for (n, &size) in sizes.iter().enumerate() {
        let body = vec![n as u8; size - 16];
        client.try_send(&[9; 16], &body).expect("room");
        let frames = receive(&mut client, &mut *server, 1).expect("a peer");
        assert!(frames[0][..16] == [9; 16] && frames[0][16..] == body, "{size} bytes");
    }
    for n in 0..1000u32 {
        client.try_send(&n.to_le_bytes(), &[0; 12]).expect("room");
    }
    let mut seen: Vec<u32> = receive(&mut client, &mut *server, 1000)
        .expect("a peer")
        .iter()
        .map(|frame| u32::from_le_bytes(*frame.first_chunk().expect("four bytes")))
        .collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..1000));
}

#[test]
fn what_was_flushed_before_a_drop_arrives() {
    let (_listener, mut client, mut server) = pair();
    client.try_send(&[1; 16], &vec![2; 300_000]).expect("room");
    client.flush(Clock::shared().now());
    let dropped = std::thread::spawn(move || drop(client));
    let (clock, mut frames) = (Clock::shared(), Frames::default());
    let mut received = 0;
    let lost = loop {
        frames.clear();
        server.flush(clock.now());
        match server.recv(clock.now(), 8, &mut frames) {
            Ok(count) => received += count,
            Err(lost) => break lost,
        }
    };
    assert_eq!((received, lost), (1, Lost::Closed));
    dropped.join().expect("no panic");
}

#[test]
fn nobody_there_is_said_in_time() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("bound");
    let error = UdpLink::connect(address, Duration::from_millis(30)).err().expect("nobody answers");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn an_armed_link_whose_datagram_another_took_is_not_asleep() {
    let (mut listener, mut client, mut server) = pair();
    let clock = Clock::shared();
    while !server.arm() {
        server.recv(clock.now(), 8, &mut Frames::default()).expect("a peer");
    }
    client.try_send(&[1; 16], &[]).expect("room");
    client.flush(clock.now());
    // The listener reads the socket, which is then quiet.
    while server.arm() {
        listener.accept(clock.now()).expect("descriptors");
    }
    let mut frames = Frames::default();
    assert_eq!(server.recv(clock.now(), 8, &mut frames), Ok(1));
}

#[test]
fn a_peer_that_a_link_finds_is_news_for_the_listener() {
    let (mut listener, _client, mut server) = pair();
    assert_eq!(listener.next_deadline(), Nanos::MAX);
    let other = knock(&listener);
    // The socket is quiet after each of these, so only the deadline says that somebody is there.
    while listener.next_deadline() > Nanos::ZERO {
        server.flush(Clock::shared().now());
    }
    let _others_end = listener.accept(Clock::shared().now()).expect("descriptors").expect("somebody");
    assert_eq!(listener.next_deadline(), Nanos::MAX);
    other.join().expect("no panic").expect("connected");
}

#[test]
fn a_left_session_is_driven_by_whoever_shares_its_socket() {
    let (mut listener, mut client, mut server) = pair();
    let other = knock(&listener);
    let staying = admit(&mut listener);
    let _other = other.join().expect("no panic").expect("connected");
    let now = || Clock::shared().now();
    let mut frames = Frames::default();
    server.try_send(&[1; 16], &vec![2; 200_000]).expect("room");
    drop(server);
    assert!(listener.next_deadline() < Nanos::MAX && staying.next_deadline() < Nanos::MAX);
    // Nothing but the listener moves the session along now.
    let lost = loop {
        listener.accept(now()).expect("descriptors");
        match client.recv(now(), 8, &mut frames) {
            Ok(_) => client.flush(now()),
            Err(lost) => break lost,
        }
    };
    assert_eq!((frames.len(), lost), (1, Lost::Closed));
    client.flush(now());
    while listener.next_deadline() < Nanos::MAX {
        listener.accept(now()).expect("descriptors");
    }
    assert_eq!(listener.core.lock().expect(POISONED).sessions.len(), 1, "what is over is forgotten");
}

#[test]
fn a_listener_that_goes_forgets_who_was_not_accepted() {
    let (listener, _client, mut server) = pair();
    let other = knock(&listener);
    while listener.next_deadline() > Nanos::ZERO {
        server.flush(Clock::shared().now());
    }
    drop(listener);
    // The peer hears of the session's beginning or, if that is lost, of nothing; never is there one that nobody drives.
    let mut lost = None;
    let mut connected = None;
    let mut frames = Frames::default();
    let mut other = Some(other);
    while lost.is_none() {
        let now = Clock::shared().now();
        server.flush(now);
        if other.as_ref().is_some_and(JoinHandle::is_finished) {
            let done = other.take().expect("looked at just now").join().expect("no panic");
            connected = Some(done.expect("an answer"));
        }
        if let Some(link) = &mut connected {
            lost = link.recv(now, 1, &mut frames).err();
            link.flush(now);
        }
    }
    assert_eq!(lost, Some(Lost::Closed));
}

#[test]
fn an_end_that_a_timer_brings_is_not_slept_through() {
    let (_listener, _client, mut server) = pair();
    let now = Clock::shared().now();
    // The last datagram of the handshake; nothing else is on its way, and nobody drives the client.
    assert_eq!(server.recv(now, 1, &mut Frames::default()), Ok(0));
    let late = now.plus(Nanos::from_secs(3600));
    server.flush(late);
    assert!(!server.arm() && !server.arm_for_room());
    assert_eq!(server.recv(late, 1, &mut Frames::default()), Err(Lost::Dead));
    assert_eq!(server.try_send(&[0; 16], &[]), Err(SendError::Gone));
    assert!(server.is_drained() && !server.arm(), "the end stays the end");
}
