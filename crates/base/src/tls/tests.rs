//! Sessions against each other over pipes without sockets.

mod of_files;
mod of_names;

use super::testing::{Authority, Made};
use super::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn files(made: &Made) -> ServerFiles {
    ServerFiles { cert: made.cert.clone(), key: made.key.clone(), ..ServerFiles::default() }
}

fn server(made: &Made) -> Arc<ServerTls> {
    ServerTls::new(&files(made), &[]).expect("good files")
}

fn believing(ca: &Path) -> ClientFiles {
    ClientFiles { ca: Some(ca.to_owned()), ..ClientFiles::default() }
}

fn client(ca: &Path) -> ClientTls {
    ClientTls::new(&believing(ca), &[]).expect("a good file")
}

/// One direction of a pipe.
#[derive(Default)]
struct Pipe(RefCell<VecDeque<u8>>);

impl Pipe {
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }

    fn take(&self, room: &mut [u8], most: usize) -> io::Result<usize> {
        let mut held = self.0.borrow_mut();
        let count = held.len().min(room.len()).min(most);
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        room.iter_mut().zip(held.drain(..count)).for_each(|(to, from)| *to = from);
        Ok(count)
    }
}

struct Pair {
    client: Session,
    server: Session,
    up: Pipe,
    down: Pipe,
    /// Bytes of a read.
    most: usize,
    /// What each got.
    client_got: Vec<u8>,
    server_got: Vec<u8>,
}

impl Pair {
    fn new(client: &ClientTls, server: &ServerTls) -> Pair {
        let mut pair = Pair {
            client: Session::client(client, "localhost").expect("a name"),
            server: Session::server(server).expect("random numbers"),
            up: Pipe::default(),
            down: Pipe::default(),
            most: usize::MAX,
            client_got: vec![],
            server_got: vec![],
        };
        pair.client.start(|bytes| pair.up.send(bytes)).expect("a hello");
        pair
    }

    /// Carries bytes until there are none; whose session is over and why, if so.
    fn carry(&mut self) -> Result<(), (&'static str, SessionError)> {
        loop {
            let before = (self.up.0.borrow().len(), self.down.0.borrow().len());
            if before == (0, 0) {
                return Ok(());
            }
            one("server", &mut self.server, (&self.up, &self.down), self.most, &mut self.server_got)?;
            one("client", &mut self.client, (&self.down, &self.up), self.most, &mut self.client_got)?;
        }
    }
}

fn one(
    who: &'static str,
    session: &mut Session,
    (from, to): (&Pipe, &Pipe),
    most: usize,
    got: &mut Vec<u8>,
) -> Result<(), (&'static str, SessionError)> {
    let read = session.read(
        |room| from.take(room, most),
        |plain| {
            got.extend_from_slice(plain);
            true
        },
    );
    session.flush(|bytes| to.send(bytes)).expect("pipes take all");
    match read {
        Ok(_) => Ok(()),
        Err(SessionError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err((who, error)),
    }
}

#[test]
fn bytes_go_both_ways_also_one_at_a_time() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let tls = server(&authority.issue("server"));
    for most in [usize::MAX, 1, 7] {
        let mut pair = Pair::new(&client(&authority.file()), &tls);
        pair.most = most;
        pair.carry().expect("a handshake");
        assert!(!pair.client.is_handshaking() && !pair.server.is_handshaking());
        let large: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
        let pieces: [&[u8]; 4] = [b"VALUE ", b"", &large, b"\r\nEND\r\n"];
        let whole = pieces.concat();
        let mut rest: &[u8] = &whole;
        let sent = pair.server.write(&pieces, |bytes| pair.down.send(bytes)).expect("a session");
        rest = &rest[sent..];
        assert!(rest.is_empty(), "a pipe takes all");
        let sent = pair.client.write(&[b"get k\r\n"], |bytes| pair.up.send(bytes)).expect("a session");
        assert_eq!(sent, 7);
        pair.carry().expect("nothing is wrong");
        assert!(pair.client_got == whole && pair.server_got == b"get k\r\n");
        assert_eq!((pair.client.held(), pair.server.held()), (0, 0), "at rest nothing is held");
    }
}

#[test]
fn a_socket_that_takes_little_bounds_what_is_sealed() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let mut pair = Pair::new(&client(&authority.file()), &server(&authority.issue("server")));
    pair.carry().expect("a handshake");
    let large = vec![7; 1 << 20];
    let (mut taken, mut most_held) = (0, 0);
    while taken < large.len() {
        // 1,000 bytes at a time.
        let mut room = 1000;
        let down = &pair.down;
        let mut send = |bytes: &[u8]| {
            let count = bytes.len().min(std::mem::take(&mut room));
            down.send(&bytes[..count])
        };
        taken += pair.server.write(&[&large[taken..]], &mut send).expect("a session");
        most_held = most_held.max(pair.server.held());
        pair.carry().expect("nothing is wrong");
    }
    while !pair.server.flush(|bytes| pair.down.send(bytes)).expect("a pipe") {}
    pair.carry().expect("nothing is wrong");
    assert!(pair.client_got == large);
    assert!((60_000..80_000).contains(&most_held), "{most_held}");
}

#[test]
fn an_end_that_is_said_is_heard_and_the_other_way_stays_open() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let mut pair = Pair::new(&client(&authority.file()), &server(&authority.issue("server")));
    pair.carry().expect("a handshake");
    pair.client.write(&[b"get k\r\n"], |bytes| pair.up.send(bytes)).expect("a session");
    pair.client.close(|bytes| pair.up.send(bytes));
    let mut got = Vec::new();
    let received = pair.server.read(
        |room| pair.up.take(room, usize::MAX),
        |plain| {
            got.extend_from_slice(plain);
            true
        },
    );
    assert!(received.expect("both records").is_end);
    assert_eq!(got, b"get k\r\n");
    let sent = pair.server.write(&[b"END\r\n"], |bytes| pair.down.send(bytes)).expect("still open");
    assert_eq!(sent, 5);
    pair.server.close(|bytes| pair.down.send(bytes));
    pair.carry().expect("nothing is wrong");
    assert_eq!(pair.client_got, b"END\r\n");
}

#[test]
fn the_second_handshake_of_a_client_resumes_until_the_files_change() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let tls = server(&authority.issue("server"));
    let client = client(&authority.file());
    let resumed = || {
        let mut pair = Pair::new(&client, &tls);
        pair.carry().expect("a handshake");
        (pair.client.is_resumed(), pair.server.is_resumed())
    };
    assert_eq!([resumed(), resumed()], [(false, false), (true, true)]);
    let mut whole = Pair::new(&client.without_resumption(), &tls);
    whole.carry().expect("a handshake");
    assert!(!whole.client.is_resumed());
    authority.issue("server");
    assert!(tls.reload());
    assert_eq!([resumed(), resumed()], [(false, false), (true, true)], "the keys of tickets are new, too");
}

#[test]
fn who_is_not_believed_is_told_so() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (authority, other) = (Authority::new(folder.path(), "ca"), Authority::new(folder.path(), "other"));
    let made = authority.issue("server");
    let fails = |client: &ClientTls, server: &ServerTls| {
        let (who, error) = Pair::new(client, server).carry().expect_err("it is refused");
        format!("{who}: {error}")
    };
    let unknown = fails(&client(&other.file()), &server(&made));
    assert_eq!(
        unknown,
        "client: TLS: its certificate is from an authority that is not believed here: name that authority's file"
    );
    let expired = authority.issue_for("expired", &["localhost"], -1);
    let expired = fails(&client(&authority.file()), &server(&expired));
    assert!(expired.starts_with("client: TLS: its certificate has expired"), "{expired}");
    let elsewhere = authority.issue_for("elsewhere", &["example.org"], 1);
    let elsewhere = fails(&client(&authority.file()), &server(&elsewhere));
    assert!(elsewhere.contains("example.org"), "{elsewhere}");
    let insecure = ClientFiles { is_insecure: true, ..ClientFiles::default() };
    let insecure = ClientTls::new(&insecure, &[]).expect("no file");
    Pair::new(&insecure, &server(&made)).carry().expect("nothing is checked");
}

#[test]
fn clients_show_certificates_where_they_are_asked_to() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (authority, other) = (Authority::new(folder.path(), "ca"), Authority::new(folder.path(), "other"));
    let mutual = ServerFiles { client_ca: Some(authority.file()), ..files(&authority.issue("server")) };
    let tls = ServerTls::new(&mutual, &[]).expect("good files");
    let shown = |made: Option<Made>| {
        let own = made.map(|made| (made.cert, made.key));
        let files = ClientFiles { own, ..believing(&authority.file()) };
        let client = ClientTls::new(&files, &[]).expect("good files");
        Pair::new(&client, &tls).carry().map_err(|(who, error)| format!("{who}: {error}"))
    };
    assert_eq!(shown(Some(authority.issue("client"))), Ok(()));
    let none = shown(None).expect_err("none is shown");
    assert_eq!(none, "server: TLS: the client shows no certificate, and one is asked for");
    let unknown = shown(Some(other.issue("stranger"))).expect_err("a stranger");
    assert!(unknown.starts_with("server: TLS: its certificate is from an authority"), "{unknown}");
    let expired = shown(Some(authority.issue_for("old", &["client"], -1))).expect_err("too old");
    assert!(expired.starts_with("server: TLS: its certificate has expired"), "{expired}");
}

#[test]
fn who_is_refused_hears_an_alert() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let mutual = ServerFiles { client_ca: Some(authority.file()), ..files(&authority.issue("server")) };
    let tls = ServerTls::new(&mutual, &[]).expect("good files");
    let mut pair = Pair::new(&client(&authority.file()), &tls);
    pair.carry().expect_err("no certificate");
    let read = pair.client.read(|room| pair.down.take(room, usize::MAX), |_| true);
    let heard = read.expect_err("an alert").to_string();
    // Whoever closes says so, also now.
    pair.server.close(|_| panic!("all was said"));
    assert!(pair.server.write(&[b"x"], |_| panic!("nobody may hear it")).is_err());
    assert_eq!(heard, "TLS: the server wants a certificate of the client: name one and its key");
}

#[test]
fn what_is_no_tls_is_refused_and_nothing_is_kept_for_it() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let tls = server(&authority.issue("server"));
    let said = |bytes: &[u8]| {
        let mut session = Session::server(&tls).expect("random numbers");
        let mut rest = bytes;
        while !rest.is_empty() {
            let read = |room: &mut [u8]| {
                let (now, later) = rest.split_at(rest.len().min(1500));
                room[..now.len()].copy_from_slice(now);
                rest = later;
                Ok(now.len())
            };
            match session.read(read, |_| panic!("no plain bytes before a handshake")) {
                Ok(_) => assert!(session.held() <= PARTIAL, "{}", session.held()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(session.is_handshaking())
    };
    const PARTIAL: usize = 32 << 10;
    assert_eq!(said(b"get k\r\n"), Err("TLS: the other side does not speak TLS".to_owned()));
    assert_eq!(said(b"\x16\x03"), Ok(true), "the rest may come");
    // A handshake message of 16 MB, in records.
    let mut hello = vec![];
    for part in 0..100 {
        hello.extend_from_slice(&[0x16, 3, 1, 0x40, 0]);
        let begin: &[u8] = if part == 0 { &[1, 0xff, 0xff, 0xff] } else { &[0; 4] };
        hello.extend_from_slice(begin);
        hello.extend_from_slice(&vec![0; 0x4000 - 4]);
    }
    assert!(said(&hello).is_err());
}

/// rustls remembers where in what came a message began. What is written meanwhile has it look there.
#[test]
fn a_message_that_comes_in_parts_is_no_trouble_for_what_is_written_meanwhile() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let tls = server(&authority.issue("server"));
    let mut pair = Pair::new(&client(&authority.file()), &tls);
    let hello: Vec<u8> = pair.up.0.borrow_mut().drain(..).collect();
    // Its handshake message in two records.
    let (body, cut) = (&hello[5..], 20);
    let record = |part: &[u8]| [&[0x16, 3, 1], &(part.len() as u16).to_be_bytes()[..], part].concat();
    pair.up.send(&record(&body[..cut])).expect("a pipe");
    pair.carry().expect("a part");
    assert!(pair.server.held() > 0);
    pair.server.close(|_| panic!("nothing can be said yet"));
    pair.up.send(&record(&body[cut..])).expect("a pipe");
    pair.carry().expect("the rest");
    assert!(!pair.server.is_handshaking());
}

/// A client whose certificate comes in records of a few bytes; the server closes after so many bytes of it, and so asks rustls with each part of each
/// message in hand.
#[test]
fn a_session_may_be_closed_between_any_two_bytes_of_its_handshake() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let mutual = ServerFiles { client_ca: Some(authority.file()), ..files(&authority.issue("server")) };
    let tls = ServerTls::new(&mutual, &[]).expect("good files");
    let own = authority.issue("client");
    let files = ClientFiles { own: Some((own.cert, own.key)), ..believing(&authority.file()) };
    let mut config = rustls::ClientConfig::clone(&ClientTls::new(&files, &[]).expect("good files").config);
    config.max_fragment_size = Some(40);
    let client = ClientTls { config: Arc::new(config) };
    let mut cut = 0;
    loop {
        let mut pair = Pair::new(&client, &tls);
        pair.most = 1;
        for _ in 0..cut {
            one("server", &mut pair.server, (&pair.up, &pair.down), 1, &mut pair.server_got).expect("a part");
            one("client", &mut pair.client, (&pair.down, &pair.up), 9999, &mut pair.client_got)
                .expect("a part");
        }
        assert_eq!(pair.server.write(&[b"early"], |bytes| pair.down.send(bytes)).expect("no trouble"), {
            if pair.server.is_handshaking() { 0 } else { 5 }
        });
        pair.server.close(|bytes| pair.down.send(bytes));
        if !pair.server.is_handshaking() {
            break;
        }
        // Not each, or it takes seconds.
        cut += 3;
    }
    assert!(cut > 1000, "{cut}: records of a few bytes make many");
}

/// Whatever comes, before a handshake or after it, and however it is cut: an error or nothing, and no more is held than may be.
#[test]
fn nonsense_ends_a_session_and_nothing_else() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let tls = server(&authority.issue("server"));
    let client = client(&authority.file());
    let mut random = crate::prng::Prng::new(7);
    for round in 0..500 {
        let mut pair = Pair::new(&client, &tls);
        if round % 2 == 0 {
            pair.carry().expect("a handshake");
            pair.client.write(&[&[7; 300]], |bytes| pair.up.send(bytes)).expect("a session");
        }
        {
            let mut bytes = pair.up.0.borrow_mut();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[at] = random.next_u64() as u8,
                    1 => bytes.truncate(at),
                    _ => bytes.extend((0..at).map(|_| random.next_u64() as u8).collect::<Vec<u8>>()),
                }
                if bytes.is_empty() {
                    break;
                }
            }
        }
        pair.most = 1 + random.below(200) as usize;
        let most = pair.most;
        for _ in 0..200 {
            let over =
                one("server", &mut pair.server, (&pair.up, &pair.down), most, &mut pair.server_got).is_err();
            // Refused before the handshake and after an error, and no trouble at any time.
            let _ = pair.server.write(&[b"x"], |bytes| pair.down.send(bytes));
            assert!(pair.server.held() <= 64 << 10);
            if over {
                break;
            }
        }
        pair.server.close(|bytes| pair.down.send(bytes));
    }
}

#[test]
fn older_versions_are_spoken_only_if_asked_for() {
    use rustls::version::TLS12;
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let made = authority.issue("server");
    let old = || {
        let roots = files::authorities(&authority.file()).expect("a good file");
        rustls::ClientConfig::builder_with_provider(files::provider())
            .with_protocol_versions(&[&TLS12])
            .expect("it has it")
            .with_root_certificates(roots)
            .with_no_client_auth()
    };
    let hello = |files: &ServerFiles| {
        let tls = ServerTls::new(files, &[]).expect("good files");
        let name = client::server_name("localhost").expect("a name");
        let mut client = rustls::ClientConnection::new(Arc::new(old()), name).expect("a name");
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).expect("a hello");
        let mut session = Session::server(&tls).expect("random numbers");
        let read = |room: &mut [u8]| {
            room[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        };
        session.read(read, |_| true).map_err(|error| error.to_string())
    };
    let strict = files(&made);
    assert!(hello(&strict).is_err_and(|why| why.contains("Tls12NotOffered") || why.contains("TLS")));
    hello(&ServerFiles { min_version: MinVersion::Tls12, ..strict }).expect("asked for");
}
