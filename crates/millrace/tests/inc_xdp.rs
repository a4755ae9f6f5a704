//! Boxes with their fast tier, as processes in network namespaces: a client, the box on its way, a home behind it. What the XDP program
//! answers and what the user tier answers must be one coherent cache.
//!
//! Needs root; without it every test says that it was skipped, and passes. `.ci/xdp` requires it.

#[allow(dead_code, reason = "each test program uses a part")]
#[path = "../../xdp/tests/support/namespace.rs"]
mod namespace;

use base::{Clock, Picos, Prng};
use namespace::{Path, within};
use protocol::wire::Version;
use serve::inc::{Client, Item, Topology};
use sim::check::{Rules, check};
use sim::history::History;
use sim::kv::{Op, Ret, Status, Value};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tempfile::TempDir;
use xdp::Pass;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// Says that a test does not run here.
pub fn skip(what: &str, why: &str) {
    assert!(std::env::var_os("MILLRACE_REQUIRE_XDP").is_none(), "{what} must run here, but: {why}");
    writeln!(std::io::stderr(), "SKIPPED {what}: {why}").expect("stderr takes a line");
}

/// A node in a namespace.
struct Node {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Node {
    fn start(namespace: &str, arguments: &[&str]) -> Node {
        Node::start_again(namespace, &[arguments, &["--first"]].concat())
    }

    /// One that may have run before.
    fn start_again(namespace: &str, arguments: &[&str]) -> Node {
        let mut process = Command::new("ip")
            .args(["netns", "exec", namespace, PROGRAM])
            .args(arguments)
            .arg("--until-eof")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        Node { process, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line
    }

    /// What it says in the end.
    fn end(mut self) -> String {
        drop(self.process.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        assert!(self.process.wait().expect("it ends").success(), "{text}");
        text
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _has_ended = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The number after `name` in a node's last line; 0 where it has none.
fn count(line: &str, name: &str) -> u64 {
    let after = line.split_once(&format!(" {name} ")).map(|(_, after)| after);
    after.map_or(0, |after| after.split_whitespace().next().expect("a number").parse().expect("a number"))
}

/// One box on the way to one home.
struct World {
    topology: Topology,
    home: Node,
    boxed: Node,
    /// Where the box's are.
    metrics: String,
    _passes: [Pass; 2],
    path: Path,
    folder: TempDir,
}

impl World {
    fn new(what: &str, settings: &str) -> Option<World> {
        let path = Path::new(what)?;
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("rack.toml");
        let key = file.with_extension("key");
        base::key::Key::generate().write_new(&key).expect("a file");
        let key = key.display();
        let text = format!(
            "[cluster]\nkey = \"{key}\"\n\
             [[box]]\nid = 1\naddress = \"10.77.0.2:7101\"\n\
             [[home]]\nid = 1\naddress = \"10.78.0.1:7102\"\nbox = 1\n\
             [coherence]\npatience = 60000000\nbypass = 0\nworth = 0\n{settings}"
        );
        std::fs::write(&file, &text).expect("a file");
        let topology = Topology::parse(&text, &file).expect("a topology");
        let passes = [(&path.client, "c0"), (&path.server, "s0")].map(|(namespace, interface)| {
            within(namespace, || Pass::attach(interface)).expect("veth takes programs")
        });
        let name = file.to_str().expect("text");
        let mut home = Node::start(&path.server, &["home", "1", "--topology", name]);
        assert!(home.line().starts_with("home:1 at 10.78.0.1:7102"));
        let fast = ["--xdp", "b0", "--xdp", "b1", "--xdp-required", "--admin", "127.0.0.1:0"];
        let mut boxed = Node::start(&path.boxed, &[&["box", "1", "--topology", name][..], &fast].concat());
        let line = boxed.line();
        assert!(line.contains("XDP on 2 interfaces"), "{line}");
        let metrics = boxed.line().trim().strip_prefix("metrics at ").expect("the second line").to_string();
        Some(World { topology, home, boxed, metrics, _passes: passes, path, folder })
    }

    fn client(&self) -> Client {
        within(&self.path.client, || Client::init(&self.topology, None).expect("a client"))
    }

    /// The last lines of box and home.
    fn end(self) -> (String, String) {
        (self.boxed.end(), self.home.end())
    }
}

fn get(client: &mut Client, key: &[u8]) -> Item {
    client.get(key).expect("an answer").expect("it is there")
}

/// Until a box answers.
fn warm(client: &mut Client, key: &[u8]) -> Item {
    let mut items = (0..1000).map(|_| get(client, key));
    items.find(|item| item.from_box).expect("a box keeps it")
}

#[test]
fn hits_are_answered_in_the_driver_and_writes_are_seen_at_once() {
    let what = "hits_are_answered_in_the_driver_and_writes_are_seen_at_once";
    let Some(world) = World::new(what, "lease = 60000000\n") else { return };
    let (mut one, mut two) = (world.client(), world.client());
    for round in 0..20u8 {
        let text = [round; 100];
        let version = one.set(b"key", &text).expect("stored");
        // The lease is a minute: what is answered now was read after the write.
        let item = get(&mut two, b"key");
        assert_eq!((item.value.as_slice(), item.version), (&text[..], version));
        for _ in 0..10 {
            assert_eq!(warm(&mut two, b"key").version, version);
        }
    }
    assert!(one.delete(b"key").expect("an answer"));
    assert_eq!(two.get(b"key").expect("an answer"), None);
    let (boxed, home) = world.end();
    // A slow machine sends a read past its box now and then.
    assert!(count(&boxed, "xdp hits") > 150, "{boxed}{home}");
    assert!(count(&boxed, "invalidations") >= 20, "{boxed}{home}");
}

#[test]
fn long_values_are_answered_in_the_driver_once_the_client_knows_them() {
    let what = "long_values_are_answered_in_the_driver_once_the_client_knows_them";
    let Some(world) = World::new(what, "lease = 60000000\n") else { return };
    let mut client = world.client();
    for round in 0..10u8 {
        let text = [round; 1024];
        let version = client.set(b"key", &text).expect("stored");
        for _ in 0..10 {
            let item = get(&mut client, b"key");
            assert_eq!((item.value.as_slice(), item.version), (&text[..], version));
        }
    }
    let (boxed, home) = world.end();
    // The first read after each write is a miss; before the first reply nothing was known.
    assert!(count(&boxed, "xdp hits") > 70 && count(&boxed, "xdp room") <= 1, "{boxed}{home}");
}

#[test]
fn operations_that_change_nothing_are_computed_in_the_driver() {
    let what = "operations_that_change_nothing_are_computed_in_the_driver";
    let Some(world) = World::new(what, "lease = 60000000\n") else { return };
    let mut client = world.client();
    client.set(b"n", b"100").expect("stored");
    warm(&mut client, b"n");
    for number in 0..20 {
        assert!(!client.cond_put(b"n", number).expect("an answer"));
        assert_eq!(client.max(b"n", number).expect("a number"), 100);
        assert_eq!(client.min(b"n", 100 + number).expect("a number"), 100);
    }
    // What changes something goes to the home, and is seen at once.
    assert!(client.cond_put(b"n", 101).expect("an answer"));
    assert_eq!((client.or(b"n", 2).expect("a number"), get(&mut client, b"n").value), (103, b"103".to_vec()));
    let (boxed, home) = world.end();
    assert!(count(&boxed, "xdp computed") > 50, "{boxed}{home}");
}

#[test]
fn owned_counters_are_counted_in_the_driver_and_found_everywhere() {
    let what = "owned_counters_are_counted_in_the_driver_and_found_everywhere";
    let Some(world) = World::new(what, "lease = 60000000\ncompute = \"own_lossy\"\nadmission = 0\n") else {
        return;
    };
    let (mut one, mut two) = (world.client(), world.client());
    one.set(b"n", b"0").expect("stored");
    let mut last = 0;
    for i in 0..2000 {
        let client = if i % 2 == 0 { &mut one } else { &mut two };
        last += 1;
        assert_eq!(client.increment(b"n", 1, None).expect("a number"), Some(last));
        if i % 97 == 0 {
            // By the program, which has the number in digits.
            assert_eq!(get(client, b"n").value, last.to_string().as_bytes());
        }
    }
    // A write that no owner does takes the key home, with all that the program did.
    one.set(b"n", b"7").expect("stored");
    assert_eq!(get(&mut two, b"n").value, b"7");
    let (boxed, home) = world.end();
    // 512 operations until it goes home; then two that the home does, until it is given away again.
    assert!(count(&boxed, "xdp owned") > 1700, "{boxed}{home}");
    assert!(count(&boxed, "given back") >= 3, "{boxed}{home}");
    assert_eq!(count(&home, "lost"), 0, "{boxed}{home}");
}

#[test]
fn seldom_keys_pass_by_the_box_and_the_others_are_kept() {
    let what = "seldom_keys_pass_by_the_box_and_the_others_are_kept";
    let Some(world) = World::new(what, "lease = 60000000\nfilter = 2\n") else { return };
    let mut client = world.client();
    let keys: Vec<_> = (0..40u32).map(|i| i.to_le_bytes()).collect();
    for key in &keys {
        client.set(key, key).expect("stored");
    }
    for _ in 0..4 {
        for key in &keys {
            assert_eq!(get(&mut client, key).value, key);
        }
    }
    let line = http(&world.path.boxed, &world.metrics);
    let forwarded = "millrace_inc_events_total{node=\"box:1\",tier=\"xdp\",event=\"forwarded\"} ";
    let (boxed, home) = world.end();
    // Once each passes by; the second time the box asks and keeps, then the driver answers.
    assert!((35..=40).contains(&count(&boxed, "xdp forwarded")), "{boxed}{home}");
    assert!((35..=45).contains(&count(&boxed, "misses")), "{boxed}{home}");
    assert!(count(&boxed, "xdp hits") > 70, "{boxed}{home}");
    let shown = line.lines().find_map(|line| line.strip_prefix(forwarded)).expect("the counter is there");
    assert_eq!(shown.parse(), Ok(count(&boxed, "xdp forwarded")), "{line}");
    assert!(
        line.contains(
            "millrace_inc_datagram_seconds_count{node=\"box:1\",tier=\"user\",outcome=\"sent_on\"}"
        ),
        "{line}"
    );
    assert!(
        line.contains("millrace_inc_datagram_seconds_count{node=\"box:1\",tier=\"xdp\",outcome=\"hit\"}"),
        "{line}"
    );
}

/// A home goes on at another address: what the program sends on goes there in the same moment as what the box sends, and nothing more to where it was.
#[test]
fn requests_that_pass_by_follow_a_home_that_moves() {
    let what = "requests_that_pass_by_follow_a_home_that_moves";
    let controlled = "filter = 2\n[[controller]]\naddress = \"10.78.0.1:7105\"\n";
    let Some(World { folder, topology, home, boxed, metrics, path, _passes }) = World::new(what, controlled)
    else {
        return;
    };
    let file = folder.path().join("rack.toml");
    let name = file.to_str().expect("text");
    let mut controller =
        Node::start_again(&path.server, &["controller", "0", "--topology", name, "--admin", "127.0.0.1:0"]);
    controller.line();
    let admin =
        controller.line().trim().strip_prefix("metrics at http://").expect("the second line").to_owned();
    let admin: SocketAddr = admin.trim_end_matches("/metrics").parse().expect("an address");
    let mut client = within(&path.client, || Client::init(&topology, None).expect("a client"));
    client.set(b"key", b"before").expect("stored");
    home.end();
    // Whoever still asks there is heard here.
    let old = within(&path.server, || UdpSocket::bind("10.78.0.1:7102").expect("the home has ended"));
    let mut moved =
        Node::start_again(&path.server, &["home", "1", "--topology", name, "--listen", "10.78.0.1:7112"]);
    assert!(moved.line().contains("waits for a controller"));
    let token = serve::admin::token_for(admin).expect("the port's token");
    let order = within(&path.server, || TcpStream::connect(admin)).expect("somebody listens");
    let body = "10.78.0.1:7112";
    write!(
        &order,
        "PUT /homes/1/address HTTP/1.1\r\nHost: {admin}\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .expect("it is sent");
    let mut text = String::new();
    (&order).read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    // The client finds it by its box.
    let stored = (0..20).find_map(|_| client.set(b"key", b"after").ok());
    assert!(stored.is_some(), "the home serves where it is");
    let mut buffer = [0; 2048];
    old.set_nonblocking(true).expect("a socket");
    while old.recv(&mut buffer).is_ok() {}
    let forwarded = |page: &str| {
        let name = "millrace_inc_events_total{node=\"box:1\",tier=\"xdp\",event=\"forwarded\"} ";
        let count = page.lines().find_map(|line| line.strip_prefix(name)).expect("the counter is there");
        count.parse::<u64>().expect("a count")
    };
    let before = forwarded(&http(&path.boxed, &metrics));
    for key in (0..40u32).map(u32::to_le_bytes) {
        assert_eq!(client.get(&key).expect("an answer"), None);
    }
    let passed = forwarded(&http(&path.boxed, &metrics)) - before;
    assert!(passed >= 35, "{passed} passed by the box");
    assert!(old.recv(&mut buffer).is_err(), "nobody asks where the home was");
    drop((boxed, controller, moved));
}

/// The body at a URL.
fn http(namespace: &str, url: &str) -> String {
    let (address, path) = url.strip_prefix("http://").and_then(|url| url.split_once('/')).expect("a URL");
    let mut stream = within(namespace, || TcpStream::connect(address)).expect("somebody listens");
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        .expect("it is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    text
}

/// Clients that read and write few keys, more slowly than they would be hurt by a box that answers what is old.
#[test]
fn what_both_tiers_answer_is_linearizable() {
    let what = "what_both_tiers_answer_is_linearizable";
    let Some(world) = World::new(what, "lease = 20000\nadmission = 2\nfilter = 2\n") else { return };
    const CLIENTS: u32 = 3;
    const OPERATIONS: u64 = 1500;
    let made = AtomicU64::new(0);
    let clock = Clock::shared();
    let begun = clock.now();
    let work = |number: u32, mut client: Client| {
        let mut random = Prng::for_entity(1, u64::from(number), 0);
        let mut events = Vec::new();
        for i in 0..OPERATIONS {
            let id = u64::from(number) << 32 | i;
            let key = [b'k', b'0' + random.below(4) as u8];
            let writes = random.chance(0.1);
            let text = format!("value {}", made.fetch_add(1, SeqCst)).into_bytes();
            let op = if writes { Op::Set { value: Value::of(&text), ttl: None } } else { Op::Get };
            events.push((clock.now(), id, Event::Call(key, op)));
            let ret = if writes {
                let version = client.set(&key, &text).expect("stored");
                Ret { status: Status::Ok, value: None, version: Some(version.0) }
            } else {
                seen(client.get(&key).expect("an answer"))
            };
            events.push((clock.now(), id, Event::Return(ret)));
        }
        events
    };
    let clients: Vec<_> = (0..CLIENTS).map(|number| (number, world.client())).collect();
    let mut events = std::thread::scope(|scope| {
        let threads: Vec<_> =
            clients.into_iter().map(|(number, client)| scope.spawn(move || work(number, client))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let (boxed, home) = world.end();
    events.sort_by_key(|(at, id, event)| (*at, matches!(event, Event::Return(_)), *id));
    let mut history = History::new();
    for (at, id, event) in events {
        let at = Picos::from(at.since(begun));
        match event {
            Event::Call(key, op) => history.call(at, (id >> 32) as u32, id, &key, op),
            Event::Return(ret) => history.returns(at, id, ret),
        }
    }
    let report = check(&history, &Rules::default());
    assert!(report.is_linearizable(), "{report:#?}\n{boxed}{home}");
    assert!(count(&boxed, "xdp hits") > 100 && count(&boxed, "fills") > 10, "{boxed}{home}");
}

enum Event {
    Call([u8; 2], Op),
    Return(Ret),
}

fn seen(item: Option<Item>) -> Ret {
    match item {
        Some(Item { value, version: Version(version), .. }) => {
            Ret { status: Status::Ok, value: Some(Value::of(&value)), version: Some(version) }
        }
        None => Ret::of(Status::Miss),
    }
}

#[test]
fn where_there_is_no_fast_tier_it_says_so_and_works() {
    let what = "where_there_is_no_fast_tier_it_says_so_and_works";
    let Some(path) = Path::new(what) else { return };
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let file = folder.path().join("rack.toml");
    let key = file.with_extension("key");
    base::key::Key::generate().write_new(&key).expect("a file");
    let key = format!("[cluster]\nkey = \"{}\"\n", key.display());
    let text = "[[box]]\nid = 1\naddress = \"10.77.0.2:7101\"\n[[home]]\nid = 1\naddress = \"10.78.0.1:7102\"\nbox = 1\n";
    let text = key + text;
    std::fs::write(&file, text).expect("a file");
    let name = file.to_str().expect("text");
    let arguments = ["box", "1", "--topology", name, "--xdp", "none0"];
    let required = Command::new("ip")
        .args(["netns", "exec", &path.boxed, PROGRAM])
        .args(arguments)
        .args(["--first", "--xdp-required"])
        .output()
        .expect("the program");
    let error = String::from_utf8(required.stderr).expect("text");
    assert!(!required.status.success() && error.contains("no interface none0"), "{error}");
    let mut boxed = Node::start(&path.boxed, &arguments);
    assert!(boxed.line().starts_with("box:1 at 10.77.0.2:7101"));
    boxed.end();
}
