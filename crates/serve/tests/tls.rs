//! TLS before memcached's protocol: this program's own client, OpenSSL's and Python's; who is refused, and what that costs others.
//!
//! Nothing here waits for time to pass: what must happen is asked for until it has, and only a failure reaches [`PATIENCE`].

use base::tls::testing::{Authority, Made};
use base::tls::{ClientFiles, ClientTls, ServerFiles, Session, SessionError};
use serve::kv::Server;
use serve::kv::config::Config;
use serve::kv::shared::Report;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
const LOOPBACK: &str = "127.0.0.1:0";

/// A node that listens with TLS and without, and the authority of its certificate.
struct Served {
    node: Server,
    authority: Authority,
    folder: TempDir,
}

fn files(made: &Made) -> ServerFiles {
    ServerFiles { cert: made.cert.clone(), key: made.key.clone(), ..ServerFiles::default() }
}

impl Served {
    fn with(registers: &[(&str, &str)]) -> Served {
        Served::of(registers, |_, files| files)
    }

    fn of(registers: &[(&str, &str)], change: impl FnOnce(&Authority, ServerFiles) -> ServerFiles) -> Served {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let authority = Authority::new(folder.path(), "ca");
        let mut config = Config::default();
        config.listen.tcp = vec![LOOPBACK.parse().expect("an address")];
        config.listen.tls = config.listen.tcp.clone();
        config.tls = Some(change(&authority, files(&authority.issue("server"))));
        for (name, value) in registers {
            config.registers.set(name, value).expect("a register of this name with such a value");
        }
        let node = Server::start(&config).expect("a node on free ports");
        Served { node, authority, folder }
    }

    fn address(&self) -> SocketAddr {
        self.node.tls()[0]
    }

    fn tls(&self) -> ClientTls {
        self.tls_with(None)
    }

    fn tls_with(&self, own: Option<Made>) -> ClientTls {
        let own = own.map(|made| (made.cert, made.key));
        let files = ClientFiles { ca: Some(self.authority.file()), own, is_insecure: false };
        ClientTls::new(&files, &[]).expect("good files")
    }

    fn client(&self) -> Client {
        Client::to(self.address(), &self.tls()).expect("a handshake")
    }

    fn until(&self, what: &str, condition: impl Fn(&Report) -> bool) -> Report {
        let begun = Instant::now();
        loop {
            let report = self.node.report();
            if condition(&report) {
                return report;
            }
            assert!(begun.elapsed() < PATIENCE, "never seen: {what}; the node reports {report:#?}");
            std::thread::yield_now();
        }
    }

    /// Nobody is connected, and nothing is held for anybody.
    fn until_quiet(&self) {
        self.until("quiet", |r| r.net.curr_connections == 0 && r.buffered_bytes == 0);
    }
}

/// A blocking client.
struct Client {
    stream: TcpStream,
    session: Session,
    heard: Vec<u8>,
    is_end: bool,
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

impl Client {
    /// Up to the end of the handshake, as far as this side knows of it.
    fn to(address: SocketAddr, tls: &ClientTls) -> Result<Client, SessionError> {
        let session = Session::client(tls, "127.0.0.1").expect("an address");
        let mut client = Client { stream: connect(address), session, heard: Vec::new(), is_end: false };
        let mut stream = &client.stream;
        client.session.start(|bytes| stream.write_all(bytes).map(|()| bytes.len()))?;
        while client.session.is_handshaking() {
            client.read()?;
            if client.is_end {
                return Err(SessionError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(client)
    }

    fn read(&mut self) -> Result<(), SessionError> {
        let mut stream = &self.stream;
        let heard = &mut self.heard;
        let read = self.session.read(
            |room| stream.read(room),
            |plain| {
                heard.extend_from_slice(plain);
                true
            },
        );
        let flushed = self.session.flush(|bytes| stream.write_all(bytes).map(|()| bytes.len()));
        self.is_end |= read?.is_end;
        flushed.map(drop).map_err(SessionError::Io)
    }

    fn send(&mut self, text: impl AsRef<[u8]>) {
        let mut stream = &self.stream;
        let mut rest = text.as_ref();
        while !rest.is_empty() {
            let sent = self.session.write(&[rest], |bytes| stream.write_all(bytes).map(|()| bytes.len()));
            rest = &rest[sent.expect("the node reads")..];
        }
    }

    fn expect(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        while self.heard.len() < text.len() {
            self.read().expect("the node answers");
            assert!(
                !self.is_end || self.heard.len() >= text.len(),
                "it ended after {} bytes",
                self.heard.len()
            );
        }
        let rest = self.heard.split_off(text.len());
        assert!(self.heard == text, "{:?}", String::from_utf8_lossy(&self.heard[..text.len().min(200)]));
        self.heard = rest;
    }

    fn works(&mut self) {
        self.send("set k 1 0 5\r\nvalue\r\nget k\r\n");
        self.expect("STORED\r\nVALUE k 1 5\r\nvalue\r\nEND\r\n");
    }

    fn expect_end(&mut self) {
        while !self.is_end {
            self.read().expect("an end that is said");
        }
        assert_eq!(self.heard, b"");
    }
}

#[test]
fn clients_with_tls_and_without_see_the_same_items() {
    let served = Served::with(&[]);
    served.client().works();
    let mut plain = connect(served.node.tcp()[0]);
    plain.write_all(b"get k\r\n").expect("it reads");
    let mut heard = vec![0; b"VALUE k 1 5\r\nvalue\r\nEND\r\n".len()];
    plain.read_exact(&mut heard).expect("it answers");
    assert_eq!(heard, b"VALUE k 1 5\r\nvalue\r\nEND\r\n");
    drop(plain);
    served.until_quiet();
}

#[test]
fn values_of_every_size_arrive_whole_also_at_slow_readers() {
    let served = Served::with(&[]);
    let mut client = served.client();
    for size in [0, 1, 16_000, 16_383, 16_384, 16_385, 100_000, 1_000_000] {
        let value: Vec<u8> = (0..size as u32).map(|i| (i * 7 + i / 251) as u8).collect();
        client.send(format!("set v 0 0 {size}\r\n"));
        client.send(&value);
        client.send("\r\n");
        client.expect("STORED\r\n");
        let whole = [format!("VALUE v 0 {size}\r\n").as_bytes(), &value, b"\r\nEND\r\n"].concat();
        client.send("get v\r\nget v\r\n");
        client.expect(&whole);
        client.expect(&whole);
    }
    // More than its socket takes while nobody reads.
    client.send("get v\r\n".repeat(20));
    served.until("replies wait", |r| r.buffered_bytes > 1_000_000);
    let value: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    let whole = [b"VALUE v 0 1000000\r\n", &value[..], b"\r\nEND\r\n"].concat();
    for _ in 0..20 {
        client.expect(&whole);
    }
    drop(client);
    served.until_quiet();
}

#[test]
fn who_has_said_all_still_hears_the_answers() {
    let served = Served::with(&[]);
    let mut client = served.client();
    client.send("set k 0 0 1\r\nv\r\nget k\r\n");
    let mut stream = &client.stream;
    client.session.close(|bytes| stream.write_all(bytes).map(|()| bytes.len()));
    client.stream.shutdown(Shutdown::Write).expect("a socket");
    client.expect("STORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n");
    client.expect_end();
    let mut client = served.client();
    client.send("quit\r\n");
    client.expect_end();
    drop(client);
    served.until_quiet();
}

#[test]
fn a_client_that_comes_again_resumes_its_session() {
    let served = Served::with(&[]);
    let tls = served.tls();
    for _ in 0..4 {
        Client::to(served.address(), &tls).expect("a handshake").works();
    }
    let report = served.until("all of them", |r| r.net.tls_handshakes == 4);
    assert_eq!(report.net.tls_resumed, 3);
}

#[test]
fn the_wrong_language_is_said_to_be_wrong() {
    let served = Served::with(&[]);
    let mut stream = connect(served.address());
    stream.write_all(b"get k\r\n").expect("it reads");
    let mut heard = String::new();
    stream.read_to_string(&mut heard).expect("words, and the end");
    assert_eq!(heard, "ERROR this port speaks TLS only\r\n");
    let report = served.until("one is counted", |r| r.net.tls_failures == 1);
    assert_eq!(report.net.requests, 0);
    // The other way round: whatever the hello is taken for, its client is not left waiting.
    for _ in 0..8 {
        let refused = Client::to(served.node.tcp()[0], &served.tls().without_resumption());
        assert!(refused.is_err());
    }
    served.until_quiet();
}

#[test]
fn who_has_no_good_certificate_is_not_served() {
    let served =
        Served::of(&[], |authority, files| ServerFiles { client_ca: Some(authority.file()), ..files });
    let good = served.tls_with(Some(served.authority.issue("client")));
    Client::to(served.address(), &good).expect("a handshake").works();
    // In TLS 1.3 a client has said its part before it hears that it is refused.
    let says = |tls: ClientTls| {
        let mut client = Client::to(served.address(), &tls).expect("its part of the handshake");
        loop {
            match client.read() {
                Ok(()) => assert!(!client.is_end, "it ends without a reason"),
                Err(error) => return error.to_string(),
            }
        }
    };
    let none = says(served.tls());
    assert_eq!(none, "TLS: the server wants a certificate of the client: name one and its key");
    let stranger = Authority::new(served.folder.path(), "other").issue("stranger");
    assert!(says(served.tls_with(Some(stranger))).contains("does not believe"));
    let old = served.authority.issue_for("old", &["client"], -1);
    assert!(says(served.tls_with(Some(old))).contains("has expired"));
    let report = served.until("all are counted", |r| r.net.tls_failures == 3);
    assert_eq!((report.net.tls_handshakes, report.net.requests), (1, 2));
}

/// Hellos that do not go on, and those that break off, cost the polite client nothing but turns.
#[test]
fn handshakes_that_do_not_end_make_room() {
    const LIMIT: u64 = 16;
    let served = Served::with(&[("tls.handshakes", "16"), ("net.max_connections", "64")]);
    let mut polite = served.client();
    let mut silent = Vec::new();
    for count in 0..200u64 {
        let mut stream = connect(served.address());
        // A record of 500 bytes, of which some come.
        stream.write_all(&[0x16, 3, 1, 1, 0xf4, 1, 0, 1, 0xf0][..1 + count as usize % 9]).expect("it reads");
        silent.push(stream);
        polite.works();
        served.until("not more than may be", |r| r.net.curr_connections <= LIMIT + 1);
    }
    assert!(served.node.report().net.rejected_connections == 0, "who is closed makes room");
    // Among them, another one comes through.
    served.client().works();
    let report = served.until("those beyond are closed", |r| r.net.tls_timeouts >= 200 - LIMIT);
    assert!(report.buffered_bytes < 64 << 10, "{}", report.buffered_bytes);
    drop((silent, polite));
    served.until_quiet();
}

#[test]
fn a_hello_byte_by_byte_is_a_hello() {
    let served = Served::with(&[]);
    let mut client = Client {
        stream: connect(served.address()),
        session: Session::client(&served.tls(), "localhost").expect("a name"),
        heard: Vec::new(),
        is_end: false,
    };
    client.stream.set_nodelay(true).expect("a socket");
    let mut stream = &client.stream;
    let mut drip =
        |bytes: &[u8]| bytes.iter().try_for_each(|byte| stream.write_all(&[*byte])).map(|()| bytes.len());
    client.session.start(&mut drip).expect("a hello");
    while client.session.is_handshaking() {
        let (mut stream, heard) = (&client.stream, &mut client.heard);
        let read = |room: &mut [u8]| stream.read(&mut room[..1]);
        let received = client.session.read(read, |plain| {
            heard.extend_from_slice(plain);
            true
        });
        assert!(!received.expect("a handshake").is_end);
    }
    client.session.flush(&mut drip).expect("a socket");
    client.session.write(&[b"version\r\n"], &mut drip).expect("a session");
    while !client.heard.ends_with(b"\r\n") {
        client.read().expect("an answer");
    }
    assert!(client.heard.starts_with(b"VERSION "));
}

#[test]
fn certificates_are_changed_under_load_without_anybody_noticing() {
    let served = Served::with(&[]);
    let tls = served.node.shared().tls.clone().expect("it has a certificate");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let comers = [0, 1].map(|_| {
            scope.spawn(|| {
                let mut standing = served.client();
                let mut comers = 0;
                while !is_over.load(Ordering::Relaxed) {
                    served.client().works();
                    standing.works();
                    comers += 1;
                }
                comers
            })
        });
        for _ in 0..20 {
            served.authority.issue("server");
            // A look may fall between the two files; then the next one finds them both.
            while !tls.reload() && tls.reloads() == 0 {}
            served.client().works();
        }
        is_over.store(true, Ordering::Relaxed);
        for comer in comers {
            assert!(comer.join().expect("nobody noticed") > 0);
        }
    });
    assert!(tls.reloads() >= 10, "{}", tls.reloads());
    assert_eq!(served.node.report().net.tls_failures, 0);
}

/// Starts a program, if it is there.
fn spawn(mut command: Command) -> Option<Child> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    match child {
        Ok(child) => Some(child),
        Err(error) => {
            let required = std::env::var("MILLRACE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
            assert!(!required, "MILLRACE_REQUIRE_PEERS is set, and {command:?}: {error}");
            eprintln!("SKIPPED: {command:?}: {error}");
            None
        }
    }
}

/// OpenSSL's client, which is given this input; before it a command of its own (`k` for new keys, `R` to renegotiate), with what it says then.
fn s_client(
    served: &Served,
    more: &[&str],
    command_of_its_own: Option<(&str, &str)>,
    input: &str,
) -> Option<Output> {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-verify_return_error", "-servername", "localhost", "-connect"]);
    command.arg(served.address().to_string()).arg("-CAfile").arg(served.authority.file()).args(more);
    let mut child = spawn(command)?;
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut before = Vec::new();
    if let Some((letter, said)) = command_of_its_own {
        writeln!(stdin, "{letter}").expect("it reads");
        let stderr = child.stderr.as_mut().expect("a pipe");
        let mut byte = [0];
        while !before.ends_with(said.as_bytes()) && stderr.read(&mut byte).expect("a pipe") > 0 {
            before.push(byte[0]);
        }
    }
    // It may have ended already.
    let _ = stdin.write_all(input.as_bytes());
    let mut output = child.wait_with_output().expect("the server ends it");
    drop(stdin);
    output.stderr.splice(..0, before);
    Some(output)
}

#[test]
fn openssl_is_served_and_cannot_renegotiate_or_go_back_to_older_versions() {
    let served = Served::with(&[]);
    let Some(output) =
        s_client(&served, &[], Some(("k", "KEYUPDATE")), "set a 0 0 1\r\nv\r\nget a\r\nquit\r\n")
    else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("TLSv1.3") && text.contains("Verify return code: 0 (ok)"), "{text} {errors}");
    assert!(text.contains("STORED\r\nVALUE a 0 1\r\nv\r\nEND\r\n"), "{text} {errors}");
    assert!(errors.contains("KEYUPDATE"), "{errors}");
    let output = s_client(&served, &["-tls1_2"], None, "version\r\nquit\r\n").expect("it was there");
    assert!(String::from_utf8_lossy(&output.stderr).contains("alert protocol version"), "{output:?}");
    let before = served.node.report().net.tls_handshakes;
    // Where 1.2 is spoken, too, its renegotiation is not.
    let older =
        Served::of(&[], |_, files| ServerFiles { min_version: base::tls::MinVersion::Tls12, ..files });
    let output = s_client(&older, &["-tls1_2"], Some(("R", "RENEGOTIATING")), "version\r\nquit\r\n")
        .expect("it was there");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("TLSv1.2") && errors.contains("RENEGOTIATING"), "{text} {errors}");
    assert!(errors.contains("no renegotiation"), "{errors}");
    assert_eq!((before, older.node.report().net.tls_handshakes), (1, 1));
}

#[test]
fn python_is_served_and_believes_only_whom_it_should() {
    let served = Served::with(&[]);
    let script = r#"
import socket, ssl, sys
port, ca = int(sys.argv[1]), sys.argv[2]
def dial(ca, **more):
    context = ssl.create_default_context(cafile=ca)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost", **more)
with dial(ca) as s:
    s.sendall(b"set p 0 0 100000\r\n" + b"x" * 100000 + b"\r\nget p\r\n")
    heard = b""
    while not heard.endswith(b"END\r\n"):
        heard += s.recv(65536)
    assert heard == b"STORED\r\nVALUE p 0 100000\r\n" + b"x" * 100000 + b"\r\nEND\r\n"
    assert s.version() == "TLSv1.3", s.version()
    # The end is said, and answered.
    s.unwrap()
try:
    dial(None)
except ssl.SSLCertVerificationError:
    pass
else:
    sys.exit("a certificate of nobody was believed")
context = ssl.create_default_context(cafile=ca)
try:
    context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="example.org")
except ssl.SSLCertVerificationError:
    pass
else:
    sys.exit("a certificate for another host was believed")
print("done")
"#;
    let python = std::env::var("MILLRACE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(python);
    command.args(["-c", script, &served.address().port().to_string()]).arg(served.authority.file());
    let Some(child) = spawn(command) else { return };
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "done\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    served.until("it is told whom they did not believe", |r| r.net.tls_failures == 2);
}
