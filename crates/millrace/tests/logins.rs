//! Clients that must log in: by text, by SASL, over TCP and shared memory, at a node and through the proxy; users that change while it runs; and what cannot
//! be served so.

mod proxied;
mod served;

use client::kv::rings;
use protocol::memcache::LOGIN_FAILURES_MAX;
use protocol::memcache::binary::{HEADER_LEN, REQUEST_MAGIC, opcode};
use proxied::{OPTIONS, Proxied};
use serve::http::PortAt;
use serve::kv::{Server, StartError};
use serve::memcached::login::{Entrance, LoginArgs, Spoken};
use serve::proxy::Running;
use served::{Client, Served, config};
use std::path::PathBuf;
use tempfile::TempDir;

/// A file of users; it goes when dropped.
struct Users(TempDir);

impl Users {
    fn new() -> Users {
        let users = Users(TempDir::with_prefix("millrace-").expect("a folder"));
        users.write("ann:one\nbob:two\n");
        users
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("users")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.file(), text).expect("a file");
    }

    fn login(&self, enable_sasl: bool, protocol: Option<Spoken>) -> LoginArgs {
        LoginArgs { auth_file: Some(self.file()), enable_sasl, protocol }
    }

    fn served(&self, enable_sasl: bool, protocol: Option<Spoken>) -> Served {
        let mut config = config(&[]);
        config.login = self.login(enable_sasl, protocol);
        let node = Server::start(&config).expect("a node on a free port");
        Served { node, config }
    }
}

fn text_login(login: &str) -> String {
    format!("set x 0 0 {}\r\n{login}\r\n", login.len())
}

fn frame(opcode: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut header = [0; HEADER_LEN];
    (header[0], header[1]) = (REQUEST_MAGIC, opcode);
    header[3] = u8::try_from(key.len()).expect("a short key");
    header[8..12].copy_from_slice(&((key.len() + value.len()) as u32).to_be_bytes());
    [&header[..], key, value].concat()
}

fn sasl_login(user: &str, password: &str) -> Vec<u8> {
    frame(opcode::SASL_AUTH, b"PLAIN", format!("\0{user}\0{password}").as_bytes())
}

/// Status and body of the next frame.
fn reply(client: &mut Client) -> (u16, Vec<u8>) {
    let header = client.bytes(HEADER_LEN);
    let len = u32::from_be_bytes(header[8..12].try_into().expect("4 bytes")) as usize;
    (u16::from_be_bytes([header[6], header[7]]), client.bytes(len))
}

#[test]
fn a_text_client_logs_in_and_is_served() {
    let users = Users::new();
    let served = users.served(false, None);
    let mut client = served.client();
    client.ask("get k\r\n", "CLIENT_ERROR unauthenticated\r\n");
    client.ask(text_login("ann two"), "CLIENT_ERROR authentication failure\r\n");
    // All of it at once, in order.
    client.ask(
        text_login("ann one") + "set k 0 0 1\r\nv\r\nget k\r\n",
        "STORED\r\nSTORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n",
    );
    assert_eq!((client.stat("auth_cmds"), client.stat("auth_errors")), (2, 1));
    // Another begins from the beginning, and does not speak binary.
    let mut other = served.client();
    other.ask("mn\r\n", "CLIENT_ERROR unauthenticated\r\n");
    other.send([&sasl_login("ann", "one")[..], b"\r\n"].concat());
    other.expect("CLIENT_ERROR unauthenticated\r\n");
    drop(other);
    client.still_works();
    drop(client);
    served.until_quiet(0);
}

#[test]
fn a_binary_client_logs_in_and_is_served() {
    let users = Users::new();
    let served = users.served(true, None);
    let mut client = served.client();
    client.send(
        [frame(opcode::SASL_LIST, b"", b""), sasl_login("bob", "one"), sasl_login("bob", "two")].concat(),
    );
    assert_eq!(reply(&mut client), (0, b"PLAIN".to_vec()));
    assert_eq!(reply(&mut client), (0x20, b"Auth failure.".to_vec()));
    assert_eq!(reply(&mut client), (0, b"Authenticated".to_vec()));
    client.send([frame(opcode::GET, b"k", b""), frame(opcode::NOOP, b"", b"")].concat());
    assert_eq!(reply(&mut client).0, 1);
    assert_eq!(reply(&mut client).0, 0);
    // Who asks first is refused, and text is not spoken.
    let mut other = served.client();
    other.send([frame(opcode::GETQ, b"k", b""), frame(opcode::NOOP, b"", b"")].concat());
    assert_eq!(reply(&mut other), (0x20, b"Auth failure.".to_vec()));
    assert!(other.rest().is_empty());
    let mut other = served.client();
    other.send("version\r\n");
    assert!(other.rest().is_empty());
    let net = served.report().net;
    assert_eq!((net.auth_cmds, net.auth_errors), (2, 1));
}

#[test]
fn both_protocols_are_spoken_where_that_is_said() {
    let users = Users::new();
    let served = users.served(false, Some(Spoken::Auto));
    served.client().ask(text_login("ann one"), "STORED\r\n");
    let mut client = served.client();
    client.send(sasl_login("ann", "one"));
    assert_eq!(reply(&mut client).0, 0);
}

#[test]
fn a_client_that_guesses_is_closed() {
    let users = Users::new();
    let served = users.served(false, Some(Spoken::Auto));
    let tries = LOGIN_FAILURES_MAX as usize;
    let mut client = served.client();
    client.send(text_login("ann wrong").repeat(tries + 5));
    let said = String::from_utf8(client.rest()).expect("text");
    assert_eq!(said, "CLIENT_ERROR authentication failure\r\n".repeat(tries));
    let mut client = served.client();
    client.send(sasl_login("ann", "wrong").repeat(tries + 5));
    (0..tries).for_each(|_| assert_eq!(reply(&mut client).0, 0x20));
    assert!(client.rest().is_empty());
    let report = served.until("both are closed", |r| r.net.curr_connections == 0);
    assert_eq!((report.net.auth_errors, report.net.protocol_kicks), (2 * tries as u64, 2));
}

#[test]
fn users_that_changed_count_from_the_next_login_on() {
    let users = Users::new();
    let served = users.served(false, None);
    let entrance = &served.node.shared().entrance;
    let mut client = served.client();
    client.ask(text_login("ann one"), "STORED\r\n");
    users.write("ann:three\n");
    assert!(entrance.reload());
    let mut other = served.client();
    other.ask(text_login("ann one"), "CLIENT_ERROR authentication failure\r\n");
    other.ask(text_login("ann three"), "STORED\r\n");
    users.write("nobody");
    assert!(entrance.reload(), "it is wrong, and who was known stays so");
    served.client().ask(text_login("ann three"), "STORED\r\n");
    client.still_works();
}

#[test]
fn shared_memory_asks_for_a_login_once() {
    let users = Users::new();
    let path = users.file().with_extension("sock");
    let mut config = config(&[]);
    config.listen.shm = Some(path.clone());
    config.login = users.login(false, None);
    let node = Server::start(&config).expect("a node");
    let mut client = rings::Client::connect(&path).expect("it gives rings");
    let mut ask = |message: &str| {
        client
            .call(message.as_bytes(), |reply| String::from_utf8_lossy(reply).into_owned())
            .expect("an answer")
    };
    assert_eq!(ask("get k\r\n"), "CLIENT_ERROR unauthenticated\r\n");
    assert_eq!(ask(&text_login("ann two")), "CLIENT_ERROR authentication failure\r\n");
    assert_eq!(ask(&text_login("ann one")), "STORED\r\n");
    assert_eq!(ask("get k\r\n"), "END\r\n");
    // Failures of several messages add up.
    let mut client = rings::Client::connect(&path).expect("it gives rings");
    let last =
        (1..=LOGIN_FAILURES_MAX + 1).find(|_| client.call(text_login("ann two").as_bytes(), |_| ()).is_err());
    assert_eq!(last, Some(LOGIN_FAILURES_MAX + 1));
    node.stop();
}

#[test]
fn clients_of_the_proxy_log_in_too() {
    let users = Users::new();
    let rack = Proxied::behind_three_boxes();
    let args = users.login(false, Some(Spoken::Auto));
    let entrance = Entrance::of(&args).expect("a good file");
    let listen = [PortAt::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))];
    let proxy = Running::start_at(&rack.topology, Some(1), (&listen, entrance), OPTIONS).expect("a proxy");
    let mut client = Client::to(proxy.addresses()[0]);
    client.ask("get k\r\n", "CLIENT_ERROR unauthenticated\r\n");
    client.ask(text_login("bob one"), "CLIENT_ERROR authentication failure\r\n");
    client.ask(text_login("bob two") + "get k\r\n", "STORED\r\nEND\r\n");
    assert_eq!((client.stat("auth_cmds"), client.stat("auth_errors")), (2, 1));
    let mut client = Client::to(proxy.addresses()[0]);
    client.send(
        [frame(opcode::SASL_LIST, b"", b""), sasl_login("bob", "two"), frame(opcode::GET, b"k", b"")]
            .concat(),
    );
    assert_eq!(reply(&mut client), (0, b"PLAIN".to_vec()));
    assert_eq!(reply(&mut client), (0, b"Authenticated".to_vec()));
    assert_eq!(reply(&mut client).0, 1);
    let mut client = Client::to(proxy.addresses()[0]);
    client.send(text_login("ann wrong").repeat(20));
    let said = String::from_utf8(client.rest()).expect("text");
    assert_eq!(said.lines().count(), LOGIN_FAILURES_MAX as usize, "{said}");
    proxy.stop().expect("it answered");
    rack.end();
}

#[test]
fn what_cannot_be_served_says_what_to_do() {
    let users = Users::new();
    let refused = |change: &dyn Fn(&mut serve::kv::config::Config)| {
        let mut config = config(&[]);
        config.login = users.login(false, None);
        change(&mut config);
        match Server::start(&config) {
            Err(StartError::Login(why)) => why,
            other => panic!("it is not refused: {:?}", other.map(|_| ())),
        }
    };
    let udp = "127.0.0.1:0".parse().expect("an address");
    assert!(refused(&|config| config.listen.udp = vec![udp]).contains("leave out -U"));
    assert!(
        refused(&|config| config.home.boxes = Some("rack.toml".into()))
            .contains("give the users to the proxy")
    );
    assert!(refused(&|config| config.login.auth_file = Some("/nowhere".into())).contains("/nowhere"));
    users.write("ann one\n");
    assert!(refused(&|_| {}).contains("line 1 is not user:password"));
}
