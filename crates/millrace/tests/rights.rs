//! Rights of memcached clients: by login, certificate, Unix user or none; in text, meta and binary, over TCP, TLS, UDP, shared memory and through the proxy.
//! Random conversations beside a node without rights, which is asked only for what is allowed. Other servers: `rights_served.rs`.

mod proxied;
mod righted;
mod served;

use base::rights::{Rights, Rules};
use base::tls::testing::Authority;
use base::tls::{ClientFiles, ClientTls, ServerFiles, Session};
use client::kv::rings;
use client::rights::{Facts, rules};
use client::table::Source;
use protocol::memcache::binary::{HEADER_LEN, REQUEST_MAGIC, opcode};
use protocol::memcache::udp::{FRAME_LEN, Frame};
use proxied::{OPTIONS, Proxied};
use serve::http::PortAt;
use serve::kv::Server;
use serve::memcached::login::{Entrance, LoginArgs, Spoken};
use serve::proxy::Running;
use served::{Client, PATIENCE, Served, config};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const NO_READ: &str = "CLIENT_ERROR no right to read this key\r\n";
const NO_WRITE: &str = "CLIENT_ERROR no right to write this key\r\n";

fn parsed(text: &str) -> Rules {
    let facts = Facts { services: Vec::new(), asks_certificates: true };
    let source = Source::of(Path::new("rights.toml"), text);
    rules(&source, &facts, |_| Err("no tokens here".to_owned())).expect("a good file")
}

fn rights(text: &str) -> Arc<Rights> {
    Rights::new(parsed(text))
}

fn users(folder: &TempDir) -> LoginArgs {
    let file = folder.path().join("users");
    std::fs::write(&file, "ann:one\nbob:two\n").expect("a file");
    LoginArgs { auth_file: Some(file), enable_sasl: false, protocol: Some(Spoken::Auto) }
}

fn served(text: &str) -> Served {
    let mut config = config(&[]);
    config.rights = Some(rights(text).of(None));
    Served { node: Server::start(&config).expect("a node on a free port"), config }
}

/// `opcode` of a key, with extras and value.
fn frame(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut header = [0; HEADER_LEN];
    (header[0], header[1], header[3]) = (REQUEST_MAGIC, opcode, key.len() as u8);
    header[4] = extras.len() as u8;
    let body = extras.len() + key.len() + value.len();
    header[8..12].copy_from_slice(&(body as u32).to_be_bytes());
    [&header, extras, key, value].concat()
}

#[test]
fn a_text_client_may_what_is_allowed_and_hears_what_is_missing() {
    let served = served("[[allow]]\nwho = 'anybody'\nread = ['a:', 'p:']\nwrite = 'a:'\n");
    let mut client = served.client();
    client.ask("set a:1 0 0 1\r\nx\r\nget a:1\r\n", "STORED\r\nVALUE a:1 0 1\r\nx\r\nEND\r\n");
    // The value of what is refused is not taken for commands.
    client.ask("set p:1 0 0 9\r\nflush_all\r\nmn\r\n", format!("{NO_WRITE}MN\r\n"));
    client.ask("set p:1 0 0 1 noreply\r\nx\r\nget p:1\r\n", "END\r\n");
    client.ask("get a:1 b:1 a:1\r\nmn\r\n", format!("VALUE a:1 0 1\r\nx\r\n{NO_READ}MN\r\n"));
    let many = format!("get a:1 b:1{}\r\nmn\r\n", " a:2".repeat(1000));
    client.ask(many, format!("VALUE a:1 0 1\r\nx\r\n{NO_READ}MN\r\n"));
    client.ask("gat 0 p:1\r\ntouch p:1 0\r\nincr p:1 1\r\n", NO_WRITE.repeat(3));
    client.ask(
        "mg YToxCg== b v\r\nmg Yjox b v\r\nmg p:1 N0\r\nma b:1\r\n",
        ["EN\r\n", NO_READ, NO_WRITE, NO_READ].concat(),
    );
    client.ask(
        "me b:1\r\nmd b:1 q\r\nms b:1 2\r\nmn\r\nmn\r\n",
        format!("{NO_READ}{NO_WRITE}{NO_WRITE}MN\r\n"),
    );
    let admin = "CLIENT_ERROR no right to administer\r\n";
    for line in [
        "flush_all",
        "verbosity 1",
        "stats reset",
        "stats conns",
        "lru_crawler enable",
        "watch mutations",
        "shutdown",
        "cache_memlimit 64",
    ] {
        client.ask(format!("{line}\r\n"), admin);
    }
    for line in ["lru_crawler metadump all", "lru_crawler mgdump all", "stats cachedump 1 0"] {
        client.ask(format!("{line}\r\n"), "CLIENT_ERROR no right to read all keys\r\n");
    }
    client.ask("flush_all noreply\r\nget a:1\r\n", "VALUE a:1 0 1\r\nx\r\nEND\r\n");
    assert!(client.stat("pid") > 0, "numbers are for whoever may do something");
    client.still_works();
}

#[test]
fn who_may_do_nothing_learns_nothing() {
    let served = served("[[allow]]\nwho = 'user:nobody'\nread = ''\n");
    let mut client = served.client();
    client.ask(
        "stats\r\nget a\r\nversion\r\n",
        format!("CLIENT_ERROR no right to anything here\r\n{NO_READ}VERSION "),
    );
}

#[test]
fn a_binary_client_may_what_is_allowed() {
    let served = served("[[allow]]\nwho = 'anybody'\nread = ['a:', 'p:']\nwrite = 'a:'\n");
    let mut client = served.client();
    let status = |client: &mut Client, request: Vec<u8>| {
        client.send(request);
        let header = client.bytes(HEADER_LEN);
        let len = u32::from_be_bytes(header[8..12].try_into().expect("4 bytes")) as usize;
        (u16::from_be_bytes([header[6], header[7]]), String::from_utf8(client.bytes(len)).unwrap_or_default())
    };
    assert_eq!(status(&mut client, frame(opcode::SET, &[0; 8], b"a:1", b"x")).0, 0);
    assert_eq!(status(&mut client, frame(opcode::GET, b"", b"p:1", b"")).0, 1);
    let refused = |what: &str| (0x20, format!("No right to {what}"));
    for opcode in [opcode::GET, opcode::GETQ, opcode::GETK, opcode::GETKQ] {
        assert_eq!(status(&mut client, frame(opcode, b"", b"b:1", b"")), refused("read this key"));
    }
    assert_eq!(status(&mut client, frame(opcode::SETQ, &[0; 8], b"p:1", b"x")), refused("write this key"));
    assert_eq!(status(&mut client, frame(opcode::DELETE, b"", b"p:1", b"")), refused("write this key"));
    assert_eq!(status(&mut client, frame(opcode::TOUCH, &[0; 4], b"p:1", b"")), refused("write this key"));
    assert_eq!(status(&mut client, frame(opcode::FLUSH, b"", b"", b"")), refused("administer"));
    assert_eq!(status(&mut client, frame(opcode::STAT, b"", b"reset", b"")), refused("administer"));
    assert_eq!(status(&mut client, frame(opcode::NOOP, b"", b"", b"")).0, 0);
}

#[test]
fn a_user_may_more_than_anybody_until_rules_are_replaced() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let rules = rights(
        "[[allow]]\nwho = 'user:ann'\nread = ''\nwrite = ''\nadmin = 'write'\n[[allow]]\nwho = 'user:bob'\nread = 'b:'\n",
    );
    let mut config = config(&[]);
    (config.login, config.rights) = (users(&folder), Some(rules.of(None)));
    let node = Server::start(&config).expect("a node");
    let served = Served { node, config };
    let login =
        |client: &mut Client, who: &str| client.ask(format!("set x 0 0 7\r\n{who}\r\n"), "STORED\r\n");
    let (mut ann, mut bob) = (served.client(), served.client());
    login(&mut ann, "ann one");
    login(&mut bob, "bob two");
    ann.ask("set k 0 0 1\r\nx\r\nflush_all\r\n", "STORED\r\nOK\r\n");
    bob.ask("get b:1\r\nget k\r\n", format!("END\r\n{NO_READ}"));
    // SASL, and another user after that.
    let mut other = served.client();
    let sasl = |user: &[u8]| frame(opcode::SASL_AUTH, b"", b"PLAIN", &[b"\0", user].concat());
    other.send(
        [
            sasl(b"ann\0one"),
            frame(opcode::GETK, b"", b"k", b""),
            sasl(b"bob\0two"),
            frame(opcode::GET, b"", b"k", b""),
        ]
        .concat(),
    );
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let header = other.bytes(HEADER_LEN);
        other.bytes(u32::from_be_bytes(header[8..12].try_into().expect("4 bytes")) as usize);
        statuses.push(u16::from_be_bytes([header[6], header[7]]));
    }
    assert_eq!(statuses, [0, 1, 0, 0x20]);
    rules.replace(parsed("[[allow]]\nwho = 'user:bob'\nread = 'k'\n"));
    bob.ask("get k\r\nget b:1\r\n", format!("END\r\n{NO_READ}"));
    ann.ask("get k\r\n", NO_READ);
    let refused: u64 =
        rules.refusals().filter(|(_, proof, _)| *proof == "user").map(|(.., count)| count).sum();
    assert_eq!(refused, 4);
}

#[test]
fn a_client_is_whom_its_certificate_names() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let made = authority.issue("server");
    let mut config = config(&[]);
    config.listen.tls = vec!["127.0.0.1:0".parse().expect("an address")];
    config.tls = Some(ServerFiles {
        cert: made.cert,
        key: made.key,
        client_ca: Some(authority.file()),
        ..ServerFiles::default()
    });
    let text = "[[allow]]\nwho = 'cn:shop'\nread = 'c:'\n[[allow]]\nwho = 'dns:shop.example.org'\nread = 'd:'\n[[allow]]\nwho = 'uri:spiffe://a/shop'\nread = 'u:'\n";
    config.rights = Some(rights(text).of(None));
    let node = Server::start(&config).expect("a node");
    let ask = |name: &str, hosts: &[&str]| {
        let own = authority.issue_for(name, hosts, 30);
        let files =
            ClientFiles { ca: Some(authority.file()), own: Some((own.cert, own.key)), is_insecure: false };
        let tls = ClientTls::new(&files, &[]).expect("good files");
        let mut session = Session::client(&tls, "127.0.0.1").expect("an address");
        let mut stream = TcpStream::connect(node.tls()[0]).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut heard = Vec::new();
        session.shake_hands(&mut stream, |_| true).expect("it is believed");
        let request = &b"mg c:1\r\nmg d:1\r\nmg u:1\r\nmn\r\n"[..];
        session.write(&[request], |bytes| stream.write(bytes)).expect("it reads");
        while !heard.ends_with(b"MN\r\n") {
            let received = session.read(
                |room| stream.read(room),
                |bytes| {
                    heard.extend_from_slice(bytes);
                    true
                },
            );
            assert!(!received.expect("an answer").is_end, "{}", String::from_utf8_lossy(&heard));
        }
        let lines = String::from_utf8(heard).expect("text");
        lines.lines().take(3).map(|line| line == "EN").collect::<Vec<_>>()
    };
    assert_eq!(ask("shop", &["shop.example.org", "spiffe://a/shop"]), [true, true, true]);
    assert_eq!(ask("other", &["SHOP.example.org", "spiffe://a/other"]), [false, true, false]);
    assert_eq!(ask("shop", &["localhost"]), [true, false, false]);
    Served { node, config }.client().ask("mg c:1\r\n", NO_READ);
}

#[test]
fn unix_sockets_and_shared_memory_have_users_and_datagrams_have_none() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let mut config = config(&[]);
    config.listen.udp = vec!["127.0.0.1:0".parse().expect("an address")];
    (config.listen.unix, config.listen.shm) =
        (Some(folder.path().join("unix")), Some(folder.path().join("shm")));
    let me = rustix::process::getuid().as_raw();
    config.rights = Some(
        rights(&format!("[[allow]]\nwho = 'uid:{me}'\nread = 'k'\n[[allow]]\nwho = 'anybody'\nread = 'a'\n"))
            .of(None),
    );
    let node = Server::start(&config).expect("a node");
    let mut shm = rings::Client::connect(folder.path().join("shm")).expect("it gives rings");
    let mut ask =
        |text: &[u8]| shm.call(text, |reply| String::from_utf8_lossy(reply).into_owned()).expect("an answer");
    assert_eq!((ask(b"get k\r\n"), ask(b"get b\r\n")), ("END\r\n".to_owned(), NO_READ.to_owned()));
    let mut unix = UnixStream::connect(folder.path().join("unix")).expect("it listens");
    unix.set_read_timeout(Some(PATIENCE)).expect("a socket");
    unix.write_all(b"get k\r\nget b\r\n").expect("it reads");
    let wanted = format!("END\r\n{NO_READ}");
    let mut heard = vec![0; wanted.len()];
    unix.read_exact(&mut heard).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&heard), wanted);
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    udp.set_read_timeout(Some(PATIENCE)).expect("a socket");
    // Long enough for the answer, which is no longer than so many times what asks.
    let text = format!("mn\r\n{}get k b b b\r\nget a\r\n", "mn\r\n".repeat(8));
    let asked = [&Frame { request_id: 1, sequence: 0, count: 1 }.emit()[..], text.as_bytes()].concat();
    udp.send_to(&asked, node.udp()[0]).expect("sent");
    let mut room = [0; 1500];
    let count = udp.recv(&mut room).expect("an answer");
    let said = String::from_utf8_lossy(&room[FRAME_LEN..count]).into_owned();
    assert_eq!(said, format!("{}{NO_READ}END\r\n", "MN\r\n".repeat(9)));
    node.stop();
}

#[test]
fn the_proxy_keeps_rights_too() {
    let rack = Proxied::behind_three_boxes();
    let rights = rights("[[allow]]\nwho = 'anybody'\nread = 'a:'\nwrite = 'a:'\n");
    let entrance = Entrance::of(&LoginArgs::default()).expect("anybody").with_rights(Some(rights.of(None)));
    let listen = [PortAt::from(SocketAddr::from(([127, 0, 0, 1], 0)))];
    let proxy = Running::start_at(&rack.topology, Some(1), (&listen, entrance), OPTIONS).expect("a proxy");
    let mut client = Client::to(proxy.addresses()[0]);
    client.ask(
        "set a:1 0 0 1\r\nx\r\nget a:1 b:1 a:1\r\nmn\r\n",
        format!("STORED\r\nVALUE a:1 0 1\r\nx\r\n{NO_READ}MN\r\n"),
    );
    client.ask(
        "set b:1 0 0 4\r\nmn\r\n\r\nflush_all\r\nmn\r\n",
        format!("{NO_WRITE}CLIENT_ERROR no right to administer\r\nMN\r\n"),
    );
    drop(client);
    proxy.stop().expect("it answered");
    rack.end();
}

#[test]
fn a_home_of_boxes_says_where_rights_belong() {
    let mut config = config(&[]);
    config.home.boxes = Some("rack.toml".into());
    config.rights = Some(rights("").of(None));
    let Err(error) = Server::start(&config) else { panic!("it serves") };
    assert!(error.to_string().contains("give the rights to the proxy"), "{error}");
}
