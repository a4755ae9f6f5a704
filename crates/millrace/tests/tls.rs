//! The program with certificates, and beyond loopback without: what it refuses, and that its own clients get through.

use base::tls::testing::{Authority, Made};
use base::tls::{ClientFiles, ClientTls, Session};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");
/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);

struct Certified {
    folder: TempDir,
    authority: Authority,
    server: Made,
}

impl Certified {
    fn new() -> Certified {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let authority = Authority::new(folder.path(), "ca");
        let server = authority.issue("server");
        Certified { folder, authority, server }
    }

    /// Flags of a server.
    fn certificate(&self) -> [String; 4] {
        let text = |path: &PathBuf| path.to_str().expect("a path").to_owned();
        ["--tls-cert".to_owned(), text(&self.server.cert), "--tls-key".to_owned(), text(&self.server.key)]
    }

    fn ca(&self) -> String {
        self.authority.file().to_str().expect("a path").to_owned()
    }
}

fn command<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(PROGRAM);
    for name in ["MILLRACE_TLS_CA", "MILLRACE_TLS_CERT", "MILLRACE_TLS_KEY"] {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Output {
    command(arguments).stdin(Stdio::null()).output().expect("the program")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A server that ends with this, and what it says on standard output or error.
struct Serving {
    process: Child,
    lines: Box<dyn BufRead>,
}

impl Serving {
    fn start<S: AsRef<std::ffi::OsStr>>(arguments: &[S], hears_errors: bool) -> Serving {
        let mut command = command(arguments);
        // Nobody reads the other one.
        if hears_errors {
            command.stdout(Stdio::null())
        } else {
            command.stderr(Stdio::null())
        };
        let mut process = command.spawn().expect("the program");
        let lines: Box<dyn BufRead> = match hears_errors {
            true => Box::new(BufReader::new(process.stderr.take().expect("piped"))),
            false => Box::new(BufReader::new(process.stdout.take().expect("piped"))),
        };
        Serving { process, lines }
    }

    /// What stands behind `begin` in the first line that has it.
    fn after(&mut self, begin: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).expect("text") > 0, "it ended without {begin}");
            if let Some((_, rest)) = line.split_once(begin) {
                return rest.trim().to_owned();
            }
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn beyond_loopback_it_wants_tls_or_to_be_told() {
    let folder = Certified::new();
    let wild = "0.0.0.0:0";
    let servers: &[&[&str]] = &[
        &["up", "-l", wild],
        &["up", "-l", "127.0.0.1:0", "-U", "0", "--admin", wild],
        &["rpc", "serve", "--listen", "tcp:0.0.0.0:0"],
        &["rpc", "serve", "--listen", "udp:0.0.0.0:0"],
        &["rpc", "gateway", "--listen", wild, "memory:nobody"],
        &["rec", "serve", "--rows", "10", "--listen", "tcp:127.0.0.1:0", "--http", wild],
        &["rec", "serve", "--rows", "10", "--listen", "tcp:0.0.0.0:0", "--http", "127.0.0.1:0"],
    ];
    for server in servers {
        let output = run(server);
        let said = stderr(&output);
        assert!(!output.status.success(), "{server:?} serves: {said}");
        assert!(
            said.contains("could be reached from other machines") && said.contains("--insecure"),
            "{server:?}: {said}"
        );
    }
    let users = folder.folder.path().join("users");
    std::fs::write(&users, "ann:secret\n").expect("a file");
    let said = stderr(&run(&["up", "-l", wild, "-Y", users.to_str().expect("text")]));
    assert!(said.contains("their passwords for all to read") && said.contains("--insecure"), "{said}");
    // Told so, it serves, and says what that means.
    let mut told = Serving::start(&["up", "-l", wild, "--insecure"], true);
    assert!(told.after("--insecure: memcached on").contains("is not encrypted"));
    // And with a certificate.
    let mut secure =
        Serving::start(&[&["up", "-l", wild].map(str::to_owned)[..], &folder.certificate()].concat(), true);
    assert!(secure.after("serving memcached clients with TLS on ").starts_with("0.0.0.0:"));
}

#[test]
fn certificates_that_cannot_be_used_are_named() {
    let folder = Certified::new();
    let ca = folder.ca();
    let [_, cert, _, key] = folder.certificate();
    for (flags, says) in [
        (&["--tls-cert", "/nowhere.pem"][..], "cannot read /nowhere.pem"),
        (&["--tls-cert", &ca, "--tls-key", &key], "is not the key of the first certificate"),
        (&["--tls-cert", &cert], "has no private key in PEM"),
        (&["--tls-key", &key], "--tls-cert FILE"),
    ] {
        for server in [&["up", "-l", "127.0.0.1:0"][..], &["rpc", "serve", "--listen", "tls:0"]] {
            let output = run(&[server, flags].concat());
            let said = stderr(&output);
            assert!(!output.status.success() && said.contains(says), "{server:?} {flags:?}: {said}");
        }
    }
    let none = run(&["rpc", "serve", "--listen", "tls:0"]);
    assert!(stderr(&none).contains("--tls-cert FILE"), "{}", stderr(&none));
}

#[test]
fn calls_and_questions_to_admin_ports_go_over_tls() {
    let folder = Certified::new();
    let serve = ["rpc", "serve", "--listen", "tls:0", "--admin", "0"].map(str::to_owned);
    let mut server = Serving::start(&[&serve[..], &folder.certificate()].concat(), false);
    let address = format!("tls:{}", server.after("tls:"));
    let admin = format!("https://{}", server.after("https://"));
    let ca = folder.ca();
    let list = run(&["rpc", "list", &address, "--tls-ca", &ca]);
    assert!(list.status.success(), "{}", stderr(&list));
    let list = command(&["rpc", "list", &address]).env("MILLRACE_TLS_CA", &ca).output().expect("the program");
    assert!(list.status.success(), "{}", stderr(&list));
    let nobody = run(&["rpc", "list", &address]);
    assert!(!nobody.status.success() && stderr(&nobody).contains("--tls-ca FILE"), "{}", stderr(&nobody));
    let other = Authority::new(folder.folder.path(), "other").file();
    let stranger = run(&["rpc", "list", &address, "--tls-ca", other.to_str().expect("a path")]);
    assert!(stderr(&stranger).contains("an authority that is not believed here"), "{}", stderr(&stranger));
    // Nothing was traced yet, which is an answer.
    let trace = run(&["trace", &admin, "--tls-ca", &ca]);
    assert!(stderr(&trace).contains("there are no traces"), "{}", stderr(&trace));
    let plain = run(&["trace", &admin]);
    assert!(stderr(&plain).contains("this port speaks TLS: ask https://"), "{}", stderr(&plain));
}

/// A client with a handshake behind it, that names this protocol.
fn shaken(folder: &Certified, address: &str, alpn: &[u8]) -> Result<(Session, TcpStream), String> {
    let files = ClientFiles { ca: Some(folder.authority.file()), ..ClientFiles::default() };
    let tls = ClientTls::new(&files, &[alpn]).expect("a good file");
    let mut session = Session::client(&tls, "127.0.0.1").expect("an address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    session.shake_hands(&mut stream, |_| true).map_err(|error| error.to_string())?;
    Ok((session, stream))
}

/// Whoever is there answers HTTP/2's first words with its own, and speaks nothing that it does not.
fn http2_is_spoken_over_tls(folder: &Certified, address: &str) {
    let (mut session, mut stream) = shaken(folder, address, b"h2").expect("a handshake");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    session.write(&[preface], |bytes| stream.write_all(bytes).map(|()| bytes.len())).expect("sent");
    let mut heard = Vec::new();
    while heard.len() < 9 {
        let received = session.read(
            |room| stream.read(room),
            |bytes| {
                heard.extend_from_slice(bytes);
                true
            },
        );
        assert!(!received.expect("its settings").is_end);
    }
    // A frame of settings.
    assert_eq!(heard[3], 4, "{heard:?}");
    assert!(shaken(folder, address, b"smtp").is_err(), "it speaks nothing else");
}

#[test]
fn the_gateway_speaks_http2_over_tls() {
    let folder = Certified::new();
    let gateway = ["rpc", "gateway", "--listen", "127.0.0.1:0", "memory:nobody"].map(str::to_owned);
    let mut server = Serving::start(&[&gateway[..], &folder.certificate()].concat(), false);
    let address = server.after("gRPC on ");
    http2_is_spoken_over_tls(&folder, address.split(' ').next().expect("an address"));
}

#[test]
fn the_port_of_the_fabric_speaks_http2_over_tls_too() {
    let folder = Certified::new();
    let serve = ["rpc", "serve", "--listen", "tls:127.0.0.1:0"].map(str::to_owned);
    let mut server = Serving::start(&[&serve[..], &folder.certificate()].concat(), false);
    let address = server.after("tls:");
    http2_is_spoken_over_tls(&folder, &address);
    // Clients of the fabric come as before, and name no protocol.
    let list = run(&["rpc", "list", &format!("tls:{address}"), "--tls-ca", &folder.ca()]);
    assert!(list.status.success(), "{}", stderr(&list));
}

/// A controller and two replicas whose links to each other are at `tls:` addresses; they end with this.
struct Members {
    _running: [Serving; 3],
    /// Where the first serves clients.
    client: String,
    /// Where members listen for each other.
    ports: [u16; 3],
}

impl Members {
    fn start(folder: &Certified) -> Members {
        let listeners = [0; 4].map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
        let ports = listeners.map(|free| free.local_addr().expect("it has one").port());
        let [one, two, three, clients] = ports;
        let file = |name: &str| folder.folder.path().join(name).to_str().expect("a path").to_owned();
        let key = file("cluster.key");
        assert!(run(&["key", "new", &key]).status.success());
        let (controller, client) = (format!("tls:127.0.0.1:{one}"), format!("tls:127.0.0.1:{clients}"));
        let peers = format!("1=tls:127.0.0.1:{two},2=tls:127.0.0.1:{three}");
        let tls = [&folder.certificate()[..], &["--tls-client-ca".to_owned(), folder.ca()]].concat();
        let start = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Serving::start(&[&words[..], &["--key".to_owned(), key.clone()], &tls[..]].concat(), false)
        };
        let state = file("state");
        let leading =
            ["chain", "controller", "--replicas", "1,2", "--listen", &controller, "--state", &state];
        let replica = |id: &str, listen: &str| {
            let data = file(id);
            let who = ["chain", "replica", "--id", id, "--listen", listen, "--peers", &peers];
            let where_it_is =
                ["--controllers", &controller, "--data", &data, "--log-size", "8m", "--data-size", "8m"];
            start(&[&who[..], &where_it_is].concat())
        };
        let second = format!("unix:{}", file("second"));
        let _running = [start(&leading), replica("1", &client), replica("2", &second)];
        Members { _running, client, ports: [one, two, three] }
    }
}

/// Each member shows the certificate that it has as a server, and believes those of the authority of its clients. Who has none of it gets no further than the
/// handshake, whatever he knows.
#[test]
fn members_of_a_chain_reach_each_other_over_tls() {
    let folder = Certified::new();
    let members = Members::start(&folder);
    let own = folder.certificate();
    let put = || {
        let words = ["txn", "--connect", &members.client, "--timeout", "20s", "--json", "put ann 1"];
        let files = [folder.ca(), own[1].clone(), own[3].clone()];
        let names = ["MILLRACE_TLS_CA", "MILLRACE_TLS_CERT", "MILLRACE_TLS_KEY"];
        command(&words).envs(names.into_iter().zip(files)).stdin(Stdio::null()).output().expect("the program")
    };
    let begun = std::time::Instant::now();
    loop {
        // Until replicas and controller have found each other nobody answers, or one alone has it.
        let output = put();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if said.contains("\"copies\":2,\"done\":true") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{said}{}", stderr(&output));
    }
    for port in members.ports {
        let address = format!("127.0.0.1:{port}");
        // The handshake of TLS 1.3 ends on this side before the server has refused, which is heard behind it.
        if let Ok((mut session, mut stream)) = shaken(&folder, &address, b"none") {
            let received = session.read(|room| stream.read(room), |_| true);
            assert!(
                !received.is_ok_and(|received| received.bytes > 0),
                "{address} speaks to who has no certificate"
            );
        }
    }
}
