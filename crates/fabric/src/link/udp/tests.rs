use super::*;

/// A listener, a connected link and its other end.
fn pair() -> (UdpListener, UdpLink, Box<dyn Link>) {
    let mut listener = UdpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let Address::Udp(endpoint) = listener.address().clone() else { panic!("it is UDP") };
    let address = endpoint.resolve().expect("numbers");
    let client = std::thread::spawn(move || UdpLink::connect(address, Duration::from_secs(30)));
    let clock = Clock::shared();
    let server = loop {
        if let Some(link) = listener.accept(clock.now()).expect("descriptors") {
            break link;
        }
        sleep_on(listener.descriptor(), Nanos::from_millis(100));
    };
    // The opener needs the answer, which the accepting end sends.
    (listener, client.join().expect("no panic").expect("connected"), server)
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
