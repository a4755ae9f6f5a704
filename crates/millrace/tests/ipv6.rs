//! IPv6, by ::1: boxes, a home that is a node, clients by packet, memcached by TCP and UDP, the proxy, streams, chains. Where there is no ::1, skipped.

mod proxied;
mod served;

use protocol::memcache::udp::Frame;
use proxied::Proxied;
use serve::inc::Client as Library;
use served::{Client, PATIENCE, pattern, skip};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv6Addr, TcpStream, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

fn has_ipv6() -> bool {
    let is_there = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !is_there {
        skip("this machine has no ::1");
    }
    is_there
}

#[test]
fn a_rack_its_home_and_its_proxy_serve_at_ipv6_addresses() {
    if !has_ipv6() {
        return;
    }
    let rack = Proxied::before_a_node(Ipv6Addr::LOCALHOST.into(), &[("coherence.worth", "0")]);
    assert!(rack.home().is_ipv6() && rack.address().is_ipv6());
    let (mut memcached, mut proxy) = (Client::to(rack.home()), rack.client());
    let mut library = Library::init(&rack.topology, Some(2)).expect("a client");
    for turn in 0..10 {
        let value = pattern(turn, if turn % 2 == 0 { 100 } else { 100_000 });
        memcached.set("k", &value);
        let item = library.get(b"k").expect("an answer").expect("it is there");
        assert!(item.value == value && proxy.get("k").as_deref() == Some(&value));
        library.set(b"k", &value[..50]).expect("it is stored");
        assert_eq!(memcached.get("k").as_deref(), Some(&value[..50]));
    }
    // Boxes answered some of it: their addresses were believed.
    while !library.get(b"k").expect("an answer").expect("it is there").from_box {}
    // UDP.
    let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).expect("a port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let frame = Frame { request_id: 7, sequence: 0, count: 1 };
    let udp = rack.node.as_ref().expect("a node").udp()[0];
    socket.send_to(&[&frame.emit()[..], b"incr n 1\r\n"].concat(), udp).expect("it is sent");
    let mut room = [0; 100];
    let count = socket.recv(&mut room).expect("a reply");
    assert_eq!(&room[8..count], b"NOT_FOUND\r\n");
    let (proxy, nodes) = rack.end();
    assert_eq!((proxy["unanswered"], proxy["refused"]), (0, 0));
    let hits: u64 = nodes.values().map(|counted| counted["hits"]).sum();
    assert!(hits > 0, "{nodes:?}");
}

/// A process that is killed in the end.
struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Process {
        let mut command = Command::new(PROGRAM);
        Process(
            command
                .args(arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program"),
        )
    }

    /// The first line that has `word`.
    fn line(&mut self, word: &str) -> String {
        let mut output = BufReader::new(self.0.stdout.as_mut().expect("piped"));
        loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).expect("text") > 0, "it ended without {word}");
            if line.contains(word) {
                return line;
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn millrace(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("the program")
}

#[test]
fn the_program_does_with_ipv6_what_it_does_with_ipv4() {
    if !has_ipv6() {
        return;
    }
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let rack = folder.path().join("rack.toml");
    let rack = rack.to_str().expect("text");
    let words =
        ["inc", "topology", "--free-ports", "--roots", "0", "--controllers", "1", "--ip", "::1", "--streams"];
    let patience = ["--set", "coherence.patience=60000000"];
    let printed = millrace(&[&words[..], &patience].concat());
    let text = String::from_utf8(printed.stdout).expect("text");
    std::fs::write(rack, &text).expect("a file");
    let quoted = |begins: &str| text.split_once(begins).and_then(|(_, rest)| rest.split('"').next());
    let stream = quoted("stream = \"").expect("a stream").to_owned();
    assert!(stream.starts_with("[::1]:"), "{text}");
    let mut nodes: Vec<Process> = ["box:2", "controller:0"]
        .iter()
        .map(|node| Process::start(&["inc", "run", "--first", "--topology", rack, "--node", node]))
        .collect();
    // A box whose program reads IPv4 alone does without it, and says so.
    nodes.push(Process::start(&["box", "1", "--first", "--topology", rack, "--xdp", "lo"]));
    nodes.iter_mut().for_each(|node| drop(node.line(" at [::1]:")));
    let said = &mut nodes[2].0.stderr.take().expect("piped");
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line).expect("text");
    assert!(line.contains("the XDP tier reads IPv4 alone"), "{line}");
    let refused = millrace(&["box", "1", "--topology", rack, "--xdp", "lo", "--xdp-required"]);
    assert!(!refused.status.success());
    // The home listens where the topology promises that it does.
    let _home = Process::start(&["up", "-l", "[::1]:0", "-m", "64", "--boxes", rack, "--home-first"]);
    let begun = Instant::now();
    let mut memcached = loop {
        match TcpStream::connect(&stream) {
            Ok(connected) => break Client::over(connected),
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::yield_now();
    };
    let long = String::from_utf8(pattern(3, 70_000).iter().map(|b| b'a' + b % 26).collect()).expect("text");
    let inc = |words: &[&str]| {
        let output = millrace(&[&["inc"], words, &["--topology", rack]].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    inc(&["set", "k", &long]);
    assert_eq!(memcached.get("k").as_deref(), Some(long.as_bytes()));
    memcached.ask("append k 0 0 1\r\n!\r\n", "STORED\r\n");
    assert_eq!(inc(&["get", "k", "--tor", "2"]), format!("{long}!\n"));
    memcached.set("s", "short");
    assert_eq!(inc(&["get", "s", "--tor", "1"]), "short\n");
    let mut proxy = Process::start(&["proxy", "--topology", rack, "--listen", "[::1]:0", "--threads", "1"]);
    let line = proxy.line("memcached at [::1]:");
    let address = line.split_whitespace().nth(2).expect("an address");
    let mut client = Client::to(address.parse().expect("an address"));
    assert_eq!(client.get("k").map(|value| value.len()), Some(70_001));
    assert_eq!(client.get("s").as_deref(), Some(&b"short"[..]));
}

#[test]
fn a_chain_serves_and_replicates_by_ipv6() {
    if !has_ipv6() {
        return;
    }
    for links in ["tcp", "udp"] {
        let words =
            ["chain", "up", "--ip", "::1", "--port", "0", "--admin", "0", "--links", links, "-n", "2"];
        let mut chain = Process(
            Command::new(PROGRAM)
                .args(words)
                .args(["--until-eof", "--log-size", "8m", "--data-size", "8m"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("the program"),
        );
        let input = chain.0.stdin.take();
        let output = BufReader::new(chain.0.stdout.take().expect("piped"));
        let (mut serves, mut admin) = (Vec::new(), None);
        for line in output.lines().map_while(Result::ok) {
            if let Some((_, at)) = line.split_once("serves clients at ") {
                serves.push(at.split(',').next().expect("an address").to_owned());
            }
            if let Some((_, at)) = line.split_once("metrics at http://") {
                admin = at.split('/').next().map(str::to_owned);
            }
            if serves.len() == 2 && admin.is_some() {
                break;
            }
        }
        assert!(serves.iter().all(|at| at.starts_with("tcp:[::1]:")), "{serves:?}");
        let output = millrace(&["txn", "--connect", &serves.join(","), "put a 1; get a"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let mut page = String::new();
        let admin = admin.expect("a port");
        let mut stream = TcpStream::connect(&admin).expect("it listens");
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")
            .expect("it reads");
        stream.read_to_string(&mut page).expect("text");
        assert!(page.contains("millrace_chain_"), "{page}");
        drop(input);
        // Killed, it would leave its sockets.
        chain.0.wait().expect("it is ours");
    }
}
