//! Links whose other end is another process that is killed, restarted, or hostile.
//!
//! The test binary runs itself as the peer: `peer` below does nothing unless the environment says which role to play.

use crate::rig::{HANG, Kind, readable};
use base::units::Nanos;
use base::{Clock, Prng};
use fabric::frame::HEADER;
use fabric::link::{self, Address, ConnectError, Frames, Link, LinkOptions, Listener, Lost, SendError};
use ring::shm::{Form, Geometry, Pages, Segment};
use ring::spsc::Variant;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

const ROLE: &str = "MILLRACE_FABRIC_PEER_ROLE";
/// Frames that a peer sends before it says that it is ready to die.
const WORDS: u64 = 40;

fn now() -> Nanos {
    Clock::shared().now()
}

fn word(n: u64) -> Vec<u8> {
    let mut bytes = vec![0; HEADER + (n * 331 % 1000) as usize];
    Prng::new(n).fill(&mut bytes);
    bytes
}

/// The child's side; a test that passes at once when nobody asked for a child.
#[test]
fn peer() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, address) = role.split_once(' ').expect("a role and an address");
    let address: Address = address.parse().expect("an address");
    let mut listener = None;
    let mut link = match role {
        "server" => {
            let listener = listener.insert(
                link::listen(&address, &LinkOptions::default()).expect("a free path, or a dead server's"),
            );
            accept(&mut **listener)
        }
        "client" => link::connect(&address, &LinkOptions::default()).expect("a server"),
        other => panic!("no role {other}"),
    };
    for n in 0..WORDS {
        let bytes = word(n);
        while link.try_send(&bytes, &[]).is_err() {
            link.flush(now());
        }
    }
    while !link.is_drained() {
        link.flush(now());
    }
    link.flush(now());
    // Now it may be killed: it waits for a word that never comes.
    println!("ready");
    std::io::stdout().flush().expect("a pipe");
    loop {
        std::thread::park();
    }
}

fn accept(listener: &mut dyn Listener) -> Box<dyn Link> {
    loop {
        assert!(readable(listener.descriptor(), HANG), "nobody comes");
        if let Some(link) = listener.accept(now()).expect("accepted") {
            return link;
        }
    }
}

fn start(role: &str, address: &Address) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "peers::peer", "--nocapture", "--test-threads=1"])
        .env(ROLE, format!("{role} {address}"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Waits until the child has said everything, and kills it.
fn kill_when_ready(mut child: Child) {
    use std::io::BufRead;
    let output = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    let ready = output.lines().map_while(Result::ok).any(|line| line.ends_with("ready"));
    assert!(ready, "the peer ended by itself");
    child.kill().and_then(|()| child.wait()).expect("it ran until now");
}

fn connect(address: &Address) -> Box<dyn Link> {
    let started = now();
    loop {
        match link::connect(address, &LinkOptions::default()) {
            Ok(link) => return link,
            Err(ConnectError::NobodyThere(_)) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        assert!(now().since(started) < HANG.into(), "no server came");
    }
}

/// The last words of a killed peer, then its end.
fn hears_the_end(kind: Kind, link: &mut dyn Link, sleeps: bool) {
    let (mut frames, mut seen, started) = (Frames::default(), 0, now());
    let lost = loop {
        match link.recv(now(), 7, &mut frames) {
            Ok(0) if sleeps => {
                assert!(
                    !link.arm() || readable(link.descriptor(), HANG),
                    "{kind:?}: nothing tells of the end"
                );
                link.disarm();
            }
            Ok(_) => {}
            Err(lost) => break lost,
        }
        while let Some(frame) = frames.pop() {
            assert!(frame == word(seen), "{kind:?}: frame {seen} is not as it was sent");
            seen += 1;
        }
        frames.clear();
        assert!(now().since(started) < HANG.into(), "{kind:?}: no end");
    };
    assert_eq!(seen, WORDS, "{kind:?}: last words are lost");
    assert!(lost == Lost::Dead || kind.is_stream() && lost == Lost::Closed, "{kind:?}: {lost}");
    assert_eq!(link.try_send(&[0; HEADER], &[]), Err(SendError::Gone));
}

#[test]
fn a_server_killed_at_work_is_heard_to_the_end_and_replaced_at_its_path() {
    for kind in [Kind::Shm(Default::default()), Kind::Unix] {
        let address = kind.address();
        let mut ends = Vec::new();
        // Each leaves its socket's file behind, which the next one replaces.
        for _ in 0..3 {
            let child = start("server", &address);
            ends.push(connect(&address));
            kill_when_ready(child);
        }
        for (n, link) in ends.iter_mut().enumerate() {
            hears_the_end(kind, &mut **link, n % 2 == 0);
        }
        assert!(matches!(
            link::connect(&address, &LinkOptions::default()),
            Err(ConnectError::NobodyThere(_))
        ));
        if let Address::Shm(path) | Address::Unix(path) = address {
            std::fs::remove_file(path).expect("the last one's file");
        }
    }
}

/// Takes the words of a server that then is killed; unlike a stream, a session's client must be there meanwhile.
fn hears_all_words(link: &mut dyn Link, child: Child) {
    let (mut frames, mut words, started) = (Frames::default(), Vec::new(), now());
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| kill_when_ready(child));
        while words.len() < WORDS as usize || !killer.is_finished() {
            link.recv(now(), 7, &mut frames).expect("nothing says that it died");
            words.extend(std::iter::from_fn(|| frames.pop().map(<[u8]>::to_vec)));
            frames.clear();
            link.flush(now());
            assert!(now().since(started) < HANG.into(), "{} words came", words.len());
            std::thread::yield_now();
        }
    });
    let mut all: Vec<_> = (0..WORDS).map(word).collect();
    all.sort_unstable();
    words.sort_unstable();
    assert!(words == all, "the words are not as they were sent");
}

/// What tells processes apart is not their port. The client that goes on talking to the new one hears that it is a stranger.
#[test]
fn a_udp_server_killed_and_started_anew_on_its_port_is_another_peer() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = format!("udp:{}", free.local_addr().expect("bound")).parse().expect("an address");
    drop(free);
    let child = start("server", &address);
    let mut old = connect(&address);
    hears_all_words(&mut *old, child);
    let child = start("server", &address);
    old.try_send(&word(0), &[]).expect("room");
    let (mut frames, started) = (Frames::default(), now());
    let lost = loop {
        old.flush(now());
        match old.recv(now(), 7, &mut frames) {
            Ok(taken) => assert_eq!(taken, 0, "the old server is dead"),
            Err(lost) => break lost,
        }
        if old.arm() {
            readable(old.descriptor(), old.next_deadline().since(now()).min(HANG.into()).into());
        }
        old.disarm();
        assert!(now().since(started) < HANG.into(), "no end");
    };
    // Dead, where the new one took longer to start than a silence may be.
    assert!(matches!(lost, Lost::Restarted | Lost::Dead), "{lost}");
    assert_eq!(old.recv(now(), 7, &mut frames), Err(lost));
    assert_eq!(old.try_send(&[0; HEADER], &[]), Err(SendError::Gone));
    assert!(!old.arm());
    let mut new = connect(&address);
    hears_all_words(&mut *new, child);
}

#[test]
fn a_client_killed_at_work_is_heard_to_the_end() {
    for kind in [Kind::Shm(Default::default()), Kind::Unix, Kind::Tcp] {
        let mut listener = kind.listener();
        for sleeps in [true, false] {
            let child = start("client", listener.address());
            let mut link = accept(&mut *listener);
            kill_when_ready(child);
            hears_the_end(kind, &mut *link, sleeps);
        }
    }
}

/// A client that writes anything anywhere into the segment costs at most its own link, and no memory.
#[test]
fn a_scribbling_client_breaks_only_its_own_link() {
    for mode in fabric::link::Mode::ALL {
        let kind = Kind::Shm(mode);
        let mut listener = kind.listener();
        let Address::Shm(path) = listener.address().clone() else { unreachable!("as asked") };
        let mut violations = 0;
        for seed in 0..60 {
            let mut prng = Prng::new(seed);
            let socket = UnixStream::connect(&path).expect("a server");
            let mut server = accept(&mut *listener);
            let segment = Segment::receive_any(&socket).expect("a segment");
            assert_eq!(segment.form(), Form::Lanes(mode.ring()));
            let mut frames = Frames::default();
            for _ in 0..20 {
                // The rings are at the beginning, and small numbers are the likely lies.
                for _ in 0..prng.below(400) {
                    let span = [1 << 10, 20 << 10][prng.below(2) as usize];
                    let at = prng.below(span) & !3;
                    let lie = [1, 2, 100, 1 << 30 | 64, 3 << 30 | 8000, prng.next_u64() as u32]
                        [prng.below(6) as usize];
                    rustix::io::pwrite(&segment, &lie.to_le_bytes(), at).expect("written");
                }
                let _ = server.try_send(&[1; 16], &[2; 500]);
                server.flush(now());
                if server.recv(now(), 8, &mut frames) == Err(Lost::Violation) {
                    violations += 1;
                    assert_eq!(server.try_send(&[0; 16], &[]), Err(SendError::Gone));
                    break;
                }
                assert!(frames.bytes() <= Frames::ENOUGH + fabric::frame::MAX_FRAME);
                frames.clear();
                if server.arm() {
                    server.disarm();
                }
            }
        }
        assert!(violations > 0, "{kind:?}: the lies were never noticed");
    }
}

/// A stream of garbage, and lengths that no frame has.
#[test]
fn a_stream_of_garbage_is_a_violation() {
    let mut listener = Kind::Unix.listener();
    let Address::Unix(path) = listener.address().clone() else { unreachable!("as asked") };
    for garbage in [&[0xFF; 64][..], &[0; 64], &[3, 0, 0, 0, 1, 2, 3], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut socket = UnixStream::connect(&path).expect("a server");
        let mut server = accept(&mut *listener);
        socket.write_all(garbage).expect("written");
        let mut frames = Frames::default();
        assert_eq!(server.recv(now(), 8, &mut frames), Err(Lost::Violation));
        assert_eq!(server.recv(now(), 8, &mut frames), Err(Lost::Violation));
    }
}

/// What answers at a client's address is not a fabric server.
#[test]
fn a_client_refuses_what_is_no_server_of_ours() {
    let Address::Shm(path) = Kind::Shm(Default::default()).address() else { unreachable!("as asked") };
    let address = Address::Shm(path.clone());
    let listener = UnixListener::bind(&path).expect("a free path");
    let ours = Geometry { max_message: fabric::frame::MAX_FRAME as u32, ..Geometry::default() };
    let answers: [&dyn Fn(UnixStream); 4] = [
        &|socket| drop(socket),
        &|mut socket| socket.write_all(b"220 welcome\r\n").expect("written"),
        // A server of pairs, and one of lanes whose frames are longer than ours.
        &|socket| {
            let segment = Segment::create(Geometry::default(), Pages::Base).expect("a segment");
            segment.send(&socket).expect("sent");
        },
        &|socket| {
            let larger = Geometry { max_message: u32::MAX, ..ours };
            let form = Form::Lanes(Variant::Hybrid);
            Segment::create_of(form, larger, Pages::Base).expect("a segment").send(&socket).expect("sent");
        },
    ];
    for answer in answers {
        std::thread::scope(|scope| {
            let client = scope.spawn(|| link::connect(&address, &LinkOptions::default()).err());
            answer(listener.accept().expect("a client").0);
            let error = client.join().expect("no panic");
            assert!(matches!(error, Some(ConnectError::NoSegment(..))), "{error:?}");
        });
    }
    std::fs::remove_file(path).expect("ours");
}
