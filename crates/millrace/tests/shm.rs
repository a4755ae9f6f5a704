//! Shared-memory connections of a node: what they answer, how they wait, and what becomes of clients that die, lie or do not
//! read.

use base::Prng;
use client::kv::rings::{CallError, Client, Outcome, SendError, WaitPolicy};
use ring::shm::{Segment, ShmClient};
use serve::kv::Server;
use serve::kv::config::Config;
use serve::kv::shared::Report;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tells the program that the test `victim` starts where to connect.
const VICTIM: &str = "MILLRACE_TEST_SHM_VICTIM";

struct Served {
    node: Option<Server>,
    path: PathBuf,
    _folder: TempDir,
}

impl Served {
    fn with(registers: &[(&str, &str)]) -> Served {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("s");
        let mut config = Config::default();
        config.listen.tcp.clear();
        config.listen.shm = Some(path.clone());
        for (name, value) in registers {
            config.registers.set(name, value).expect("a register of this name with such a value");
        }
        Served { node: Some(Server::start(&config).expect("a node")), path, _folder: folder }
    }

    fn client(&self) -> Client {
        Client::connect(&self.path).expect("a node that gives rings")
    }

    fn node(&self) -> &Server {
        self.node.as_ref().expect("running")
    }

    fn until(&self, what: &str, condition: impl Fn(&Report) -> bool) {
        let begun = Instant::now();
        while !condition(&self.node().report()) {
            assert!(begun.elapsed() < PATIENCE, "never seen: {what}; {:#?}", self.node().report());
            std::thread::yield_now();
        }
    }
}

fn call(client: &mut Client, message: impl AsRef<[u8]>) -> String {
    let reply = client.call(message.as_ref(), |reply| String::from_utf8_lossy(reply).into_owned());
    reply.unwrap_or_else(|e| panic!("no reply: {e}"))
}

/// A value that says whose it is, of a length that follows from it.
fn value_of(key: u64, version: u64) -> String {
    let text = format!("{key}/{version} ");
    text.repeat(1 + (key * 7 + version * 13) as usize % 40)
}

/// Sets and gets random keys of its own through `client`, several per message, and holds every reply against a model.
fn work(client: &mut Client, who: u64, messages: u64) {
    let mut prng = Prng::for_entity(7, who, 0);
    let mut model = HashMap::<u64, u64>::new();
    for n in 0..messages {
        let (mut message, mut expected) = (String::new(), String::new());
        for _ in 0..1 + prng.below(8) {
            let key = prng.below(50);
            match (prng.below(2), model.get(&key)) {
                (0, Some(&version)) => {
                    let value = value_of(key, version);
                    message += &format!("get {who}-{key}\r\n");
                    expected += &format!("VALUE {who}-{key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
                }
                (0, None) => {
                    message += &format!("mg {who}-{key} v\r\n");
                    expected += "EN\r\n";
                }
                _ => {
                    let value = value_of(key, n);
                    message += &format!("set {who}-{key} 0 0 {}\r\n{value}\r\n", value.len());
                    expected += "STORED\r\n";
                    model.insert(key, n);
                }
            }
        }
        assert_eq!(call(client, &message), expected, "client {who}, message {n}");
    }
}

#[test]
fn a_message_gets_the_replies_of_all_its_requests() {
    let served = Served::with(&[]);
    let mut client = served.client();
    assert_eq!(
        call(&mut client, "set k 5 0 5\r\nhello\r\nget k\r\nmg k v\r\n"),
        "STORED\r\nVALUE k 5 5\r\nhello\r\nEND\r\nVA 5\r\nhello\r\n"
    );
    assert_eq!(call(&mut client, "set q 0 0 1 noreply\r\nx\r\n"), "");
    assert_eq!(call(&mut client, ""), "");
    assert_eq!(
        call(&mut client, "get k q nothing\r\n"),
        "VALUE k 5 5\r\nhello\r\nVALUE q 0 1\r\nx\r\nEND\r\n"
    );
    assert_eq!(call(&mut client, "nonsense\r\nget q\r\n"), "ERROR\r\nVALUE q 0 1\r\nx\r\nEND\r\n");
    let report = served.node().report();
    assert_eq!((report.net.shm_connections, report.net.curr_connections), (1, 1));
    drop(client);
    served.until("closed", |r| r.net.shm_connections == 0 && r.net.curr_connections == 0);
}

/// What stands before the broken part of a message is executed, and the next message is read afresh.
#[test]
fn a_message_that_ends_in_the_middle_is_told_so() {
    const INCOMPLETE: &str = "CLIENT_ERROR incomplete request in message\r\n";
    let served = Served::with(&[("store.max_value", "1k")]);
    let mut client = served.client();
    for cut in ["get k", "set k 0 0 5\r\nhel", "set k 0 0 5\r\n", "\r", "mg k v", "gets  k  k2 "] {
        assert_eq!(call(&mut client, cut), INCOMPLETE, "{cut:?}");
        assert_eq!(
            call(&mut client, format!("set a 0 0 1\r\nx\r\n{cut}")),
            format!("STORED\r\n{INCOMPLETE}")
        );
        assert_eq!(call(&mut client, "get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
    }
    let refused = "SERVER_ERROR object too large for cache\r\n";
    assert_eq!(call(&mut client, "set k 0 0 9000\r\nabc"), format!("{refused}{INCOMPLETE}"));
    assert_eq!(
        call(&mut client, format!("set k 0 0 2000\r\n{}\r\nget a\r\n", "v".repeat(2000))),
        format!("{refused}VALUE a 0 1\r\nx\r\nEND\r\n")
    );
    assert_eq!(call(&mut client, "x".repeat(5000)), "CLIENT_ERROR line too long\r\n");
    // One in the binary protocol has no frame that could say so.
    assert_eq!(call(&mut client, b"\x80\x01 binary"), "");
    assert_eq!(call(&mut client, "get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
    let keys: String = (0..400).map(|n| format!(" key-number-{n}")).collect();
    assert_eq!(call(&mut client, format!("get a{keys}\r\n")), "VALUE a 0 1\r\nx\r\nEND\r\n");
    assert_eq!(call(&mut client, format!("get a{keys}")), format!("VALUE a 0 1\r\nx\r\n{INCOMPLETE}"));
}

#[test]
fn what_does_not_fit_a_message_is_refused_and_the_connection_goes_on() {
    let served = Served::with(&[("shm.arena", "64k"), ("store.max_value", "64k")]);
    let mut client = served.client();
    assert_eq!(client.max_message(), 32 << 10);
    assert_eq!(client.send(&vec![b'x'; (32 << 10) + 1]), Err(SendError::TooLarge));
    let value = "v".repeat(30_000);
    for key in ["a", "b"] {
        assert_eq!(call(&mut client, format!("set {key} 0 0 30000\r\n{value}\r\n")), "STORED\r\n");
    }
    assert_eq!(call(&mut client, "get a\r\n"), format!("VALUE a 0 30000\r\n{value}\r\nEND\r\n"));
    assert_eq!(call(&mut client, "get a b\r\n"), "SERVER_ERROR object too large for this connection\r\n");
    assert_eq!(call(&mut client, "get b\r\n"), format!("VALUE b 0 30000\r\n{value}\r\nEND\r\n"));
}

/// Messages of more requests than a turn takes, or than the ring to the engine has slots.
#[test]
fn a_message_may_be_longer_than_a_turn() {
    for pipeline in ["1", "7", "256"] {
        let served = Served::with(&[("net.pipeline", pipeline), ("ring.entries", "16")]);
        let mut client = served.client();
        let sets: String = (0..300).map(|n| format!("set k{n} 0 0 4\r\n{n:04}\r\n")).collect();
        assert_eq!(call(&mut client, sets), "STORED\r\n".repeat(300));
        let gets: String = (0..300).map(|n| format!("get k{n}\r\n")).collect();
        let values: String = (0..300).map(|n| format!("VALUE k{n} 0 4\r\n{n:04}\r\nEND\r\n")).collect();
        assert_eq!(call(&mut client, gets), values);
    }
}

#[test]
fn replies_come_in_order_under_their_tags() {
    let served = Served::with(&[("shm.entries", "64"), ("net.pipeline", "5")]);
    let mut client = served.client();
    let (mut sent, mut seen) = (std::collections::VecDeque::new(), 0);
    let mut n = 0;
    while seen < 3000 {
        while n < 3000 {
            let message = match n % 3 {
                0 => format!("set k 0 0 4\r\n{n:04}\r\nget k\r\n"),
                1 => "mn\r\n".to_string(),
                _ => String::new(),
            };
            match client.send(message.as_bytes()) {
                Ok(tag) => sent.push_back((tag, n)),
                Err(e) => {
                    assert_eq!(e, SendError::Full);
                    break;
                }
            }
            n += 1;
        }
        client.flush();
        assert_eq!(client.wait(WaitPolicy::default(), Some(PATIENCE)), Outcome::Ready);
        let polled = client.poll(usize::MAX, |tag, reply| {
            let (asked, number) = sent.pop_front().expect("asked");
            assert_eq!(tag, asked);
            let expected = match number % 3 {
                0 => format!("STORED\r\nVALUE k 0 4\r\n{number:04}\r\nEND\r\n"),
                1 => "MN\r\n".to_string(),
                _ => String::new(),
            };
            assert_eq!(String::from_utf8_lossy(reply), expected);
        });
        seen += polled.expect("an honest node");
    }
}

/// Both sides sleep before every message: a wake-up lost on either side hangs.
#[test]
fn sleepers_on_both_sides_are_woken() {
    let served = Served::with(&[("shm.busy_poll", "0"), ("edge.threads", "2")]);
    let mut clients: Vec<Client> = (0..5).map(|_| served.client()).collect();
    for n in 0..400 {
        for client in &mut clients {
            client.send(format!("set k 0 0 3\r\n{n:03}\r\nget k\r\n").as_bytes()).expect("room");
            client.flush();
            assert_eq!(client.wait(WaitPolicy::BLOCK, Some(PATIENCE)), Outcome::Ready);
            let expected = format!("STORED\r\nVALUE k 0 3\r\n{n:03}\r\nEND\r\n");
            let polled = client.poll(9, |_, reply| assert_eq!(reply, expected.as_bytes()));
            assert_eq!(polled, Ok(1));
        }
    }
}

#[test]
fn many_clients_work_at_once_and_every_value_is_right() {
    for busy in ["0", "50", "1000000"] {
        let served = Served::with(&[("shm.busy_poll", busy), ("edge.threads", "2")]);
        std::thread::scope(|scope| {
            for who in 0..6 {
                let served = &served;
                scope.spawn(move || work(&mut served.client(), who, 300));
            }
        });
        served.until("all closed", |r| r.net.shm_connections == 0 && r.buffered_bytes == 0);
    }
}

/// More replies than the arena holds wait in the node, and come in order once the client reads.
#[test]
fn a_client_that_reads_late_gets_everything() {
    let served = Served::with(&[("shm.arena", "64k")]);
    let mut client = served.client();
    let value = "w".repeat(10_000);
    call(&mut client, format!("set big 0 0 10000\r\n{value}\r\n"));
    for _ in 0..100 {
        client.send(b"get big\r\n").expect("a credit");
    }
    client.flush();
    // Another client is served meanwhile.
    work(&mut served.client(), 1, 50);
    let (mut seen, expected) = (0, format!("VALUE big 0 10000\r\n{value}\r\nEND\r\n"));
    while seen < 100 {
        assert_eq!(client.wait(WaitPolicy::BLOCK, Some(PATIENCE)), Outcome::Ready);
        seen += client.poll(1, |_, reply| assert_eq!(reply, expected.as_bytes())).expect("honest");
    }
}

/// Replies of one turn that exceed what all connections together may buffer.
#[test]
fn a_client_that_never_reads_is_closed() {
    let served = Served::with(&[("shm.arena", "1m"), ("net.buffer_limit", "2m")]);
    let mut client = served.client();
    call(&mut client, format!("set big 0 0 400000\r\n{}\r\n", "w".repeat(400_000)));
    for _ in 0..20 {
        client.send(b"get big\r\n").expect("a credit");
    }
    client.flush();
    served.until("kicked", |r| r.net.slow_reader_kicks == 1 && r.buffered_bytes == 0);
    work(&mut served.client(), 2, 50);
}

#[test]
fn quit_closes_after_the_replies_and_a_stopped_node_hangs_up() {
    let mut served = Served::with(&[]);
    let mut client = served.client();
    assert_eq!(call(&mut client, "mn\r\nquit\r\nmn\r\n"), "MN\r\n");
    assert_eq!(client.wait(WaitPolicy::BLOCK, Some(PATIENCE)), Outcome::PeerGone);
    let mut client = served.client();
    assert_eq!(call(&mut client, "mn\r\n"), "MN\r\n");
    served.node.take().expect("running").stop();
    assert!(matches!(
        client.call(b"mn\r\n", |_| ()),
        Err(CallError::Gone | CallError::Send(SendError::Gone))
    ));
    assert!(!served.path.exists());
    assert!(Client::connect(&served.path).is_err());
}

#[test]
fn segments_take_no_more_than_shm_memory_and_come_back() {
    // Room for two of a little more than a MiB.
    let served = Served::with(&[("shm.arena", "512k"), ("shm.memory", "3m")]);
    let (mut first, second) = (served.client(), served.client());
    let error = Client::connect(&served.path).err().expect("there is no room");
    assert!(error.to_string().contains("shm.memory"), "{error}");
    served.until("one was refused", |r| r.net.shm_refusals == 1 && r.net.shm_connections == 2);
    assert!((2 << 20..3 << 20).contains(&served.node().report().segment_bytes));
    assert_eq!(call(&mut first, "mn\r\n"), "MN\r\n");
    drop(second);
    served.until("it is closed", |r| r.net.shm_connections == 1);
    assert_eq!(call(&mut served.client(), "mn\r\n"), "MN\r\n");
}

#[test]
fn clients_beyond_the_limit_are_turned_away() {
    let served = Served::with(&[("net.max_connections", "2")]);
    let mut clients = [served.client(), served.client()];
    let refused = Client::connect(&served.path).err().expect("one too many");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(call(&mut clients[1], "mn\r\n"), "MN\r\n");
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("proc").count()
}

fn mapped_segments() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("proc").matches("millrace-ring").count()
}

/// The program that [`clients_killed_at_any_moment_disturb_nobody`] kills: works until it dies. Without being asked, nothing.
#[test]
fn victim() {
    let Ok(path) = std::env::var(VICTIM) else { return };
    let mut client = Client::connect(Path::new(&path)).expect("a node");
    let mut n = 0u64;
    loop {
        let value = "z".repeat((n * 37 % 3000) as usize);
        let message = format!("set victim 0 0 {}\r\n{value}\r\nget victim\r\n", value.len());
        // Replies are read now and then only, so that death finds the node in every state.
        while client.send(message.as_bytes()).is_err() {
            client.poll(7, |_, reply| assert!(reply.starts_with(b"STORED\r\n"))).expect("an honest node");
        }
        n += 1;
        if n == 500 {
            println!("victim at work");
        }
    }
}

/// kill -9 of a working client: what it stored last is a whole value, nobody else notices, and nothing is left behind.
#[test]
fn clients_killed_at_any_moment_disturb_nobody() {
    let served = Served::with(&[("shm.arena", "256k"), ("edge.threads", "2")]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| {
            let mut client = served.client();
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) {
                work(&mut client, 100 + rounds, 50);
                rounds += 1;
            }
            rounds
        });
        for _ in 0..6 {
            let mut child = Command::new(std::env::current_exe().expect("this program"))
                .args(["victim", "--exact", "--nocapture"])
                .env(VICTIM, &served.path)
                .stdout(Stdio::piped())
                .spawn()
                .expect("this program again");
            let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
            let at_work = lines.map_while(Result::ok).any(|line| line.contains("victim at work"));
            assert!(at_work, "the victim ended by itself");
            child.kill().expect("SIGKILL");
            child.wait().expect("its end");
            served.until("the victim's connection closed", |r| r.net.shm_connections <= 1);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(observer.join().expect("the observer saw nothing wrong") > 0);
    });
    served.until("quiet", |r| r.net.shm_connections == 0 && r.buffered_bytes == 0);
    let mut client = served.client();
    let last = call(&mut client, "get victim\r\n");
    let (head, body) = last.split_once("\r\n").expect("a value");
    let len: usize = head.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a length");
    assert_eq!(body, format!("{}\r\nEND\r\n", "z".repeat(len)));
}

/// A hundred connections come and go: descriptors and mappings go with them. Alone in its process for the counting.
#[test]
fn closed_connections_leave_no_descriptor_and_no_mapping() {
    const ALONE: &str = "MILLRACE_TEST_SHM_ALONE";
    if std::env::var(ALONE).is_err() {
        let status = Command::new(std::env::current_exe().expect("this program"))
            .args(["closed_connections_leave_no_descriptor_and_no_mapping", "--exact"])
            .env(ALONE, "1")
            .stdout(Stdio::null())
            .status();
        assert!(status.expect("this program again").success());
        return;
    }
    let served = Served::with(&[]);
    work(&mut served.client(), 0, 1);
    served.until("closed", |r| r.net.shm_connections == 0);
    let before = (open_descriptors(), mapped_segments());
    for who in 0..100 {
        work(&mut served.client(), who, 2);
    }
    served.until("closed", |r| r.net.shm_connections == 0);
    assert_eq!((open_descriptors(), mapped_segments()), before);
}

/// A client that writes anything anywhere into its segment, at any time, costs at most its own connection.
#[test]
fn a_client_that_scribbles_over_its_segment_harms_only_itself() {
    let served = Served::with(&[("shm.arena", "64k"), ("shm.entries", "16"), ("shm.busy_poll", "20")]);
    let mut honest = served.client();
    for seed in 0..150 {
        let mut prng = Prng::new(seed);
        let socket = UnixStream::connect(&served.path).expect("a node");
        let segment = Segment::receive(&socket).expect("a segment");
        let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().expect("a descriptor"));
        let len = file.metadata().expect("a file").len();
        let mut client = ShmClient::new(&segment, socket.try_clone().expect("a descriptor"));
        for round in 0..20 {
            for _ in 0..prng.below(30) {
                // Mostly the control words and slots at the front, where it hurts.
                let range = if prng.below(2) == 0 { 4096 } else { len };
                let at = prng.below(range / 4) * 4;
                let word = [0, 1, 60, u32::MAX, round, prng.next_u64() as u32][prng.below(6) as usize];
                std::os::unix::fs::FileExt::write_at(&file, &word.to_ne_bytes(), at)
                    .expect("a sealed file of this size");
            }
            let _ = client.try_send(b"set x 0 0 100\r\n");
            let _ = client.try_send(&[b'y'; 300]);
            client.flush();
            // Rings even if the scribbling unmarked the node; fails once the node has hung up.
            let _ = rustix::net::send(&socket, &[1], rustix::net::SendFlags::NOSIGNAL);
        }
        work(&mut honest, seed, 3);
    }
    work(&mut honest, 1000, 100);
    served.until("quiet", |r| r.net.shm_connections == 1 && r.buffered_bytes == 0);
}

/// Neither a client that connects and says nothing, nor one that floods the socket with bytes, disturbs others.
#[test]
fn bytes_on_the_socket_are_only_wake_ups() {
    let served = Served::with(&[]);
    let silent = UnixStream::connect(&served.path).expect("a node");
    let noisy = UnixStream::connect(&served.path).expect("a node");
    for _ in 0..2000 {
        let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
        let _ = rustix::net::send(&noisy, &[b'x'; 1000], flags);
    }
    work(&mut served.client(), 3, 200);
    drop((silent, noisy));
    served.until("closed", |r| r.net.shm_connections == 0);
}
