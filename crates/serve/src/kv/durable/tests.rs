//! A server with a log in this process: what is acknowledged is there for the next one, and what is wrong is said.

use super::{Durability, DurableArgs, pulse_within};
use crate::admin::{Admin, Routes};
use crate::kv::config::Config;
use crate::kv::post::Post;
use crate::kv::registers::Id;
use crate::kv::{Server, StartError};
use base::{Clock, Nanos};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::with_prefix("millrace-").expect("a folder"))
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }
}

fn config(folder: &Path) -> Config {
    let durable = DurableArgs {
        durability: Durability::Log,
        data_dir: Some(folder.to_owned()),
        ..DurableArgs::default()
    };
    let mut config = Config { durable, ..Config::default() };
    config.listen.tcp = vec!["127.0.0.1:0".parse().expect("an address")];
    config.registers.write(Id::StoreMemory, 64 << 20).expect("a size");
    config.registers.write(Id::LogSize, 8 << 20).expect("a size");
    config.registers.write(Id::EdgeThreads, 2).expect("a number");
    config
}

fn start(folder: &Path) -> Server {
    Server::start(&config(folder)).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(config: &Config) -> String {
    match Server::start(config) {
        Err(error @ StartError::Durable(_)) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it started"),
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn of(server: &Server) -> Client {
        let stream = TcpStream::connect(server.tcp()[0]).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Client(BufReader::new(stream))
    }

    fn ask(&mut self, text: &str, answer: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("it is read");
        let mut heard = vec![0; answer.len()];
        if let Err(error) = self.0.read_exact(&mut heard) {
            panic!("{error} instead of {answer:?}");
        }
        assert_eq!(String::from_utf8_lossy(&heard), answer, "{text:?}");
    }

    fn line(&mut self, text: &str) -> String {
        self.0.get_mut().write_all(text.as_bytes()).expect("it is read");
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }
}

#[test]
fn all_kinds_of_commands_are_there_after_a_restart() {
    let folder = Folder::new();
    let server = start(&folder.data());
    let mut client = Client::of(&server);
    let large = "v".repeat(200_000);
    client.ask("set a 5 0 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 5 1\r\nx\r\nEND\r\n");
    client.ask("set n 0 0 1\r\n9\r\nincr n 3\r\nappend a 0 0 2\r\nyz\r\n", "STORED\r\n12\r\nSTORED\r\n");
    client.ask("set gone 0 0 1\r\nx\r\ndelete gone\r\ndelete gone\r\n", "STORED\r\nDELETED\r\nNOT_FOUND\r\n");
    client.ask(
        &format!("set large 0 0 200000\r\n{large}\r\nget large\r\n"),
        "STORED\r\nVALUE large 0 200000\r\n",
    );
    client.ask("", &format!("{large}\r\nEND\r\n"));
    client.ask("set life 0 0 1 noreply\r\nx\r\ntouch life 5000\r\n", "TOUCHED\r\n");
    client.ask("ms lease 1\r\nx\r\nmd lease I\r\nmg lease s v\r\n", "HD\r\nHD\r\nVA 1 s1 X W\r\nx\r\n");
    client.ask("mg vivid N30\r\nms own 1 E77\r\nx\r\nms own 1 E77\r\ny\r\n", "HD W\r\nHD\r\nHD\r\n");
    let versions = ["a", "n", "lease", "own"].map(|key| client.line(&format!("mg {key} c\r\n")));
    let report = server.report().kv;
    let log = report.durable.expect("it has a log");
    assert!(log.logged > 10 && log.syncs > 0 && log.pending == 0, "{log:?}");
    drop((client, server));

    let server = start(&folder.data());
    let mut client = Client::of(&server);
    client.ask("get a n gone\r\n", "VALUE a 5 3\r\nxyz\r\nVALUE n 0 2\r\n12\r\nEND\r\n");
    client.ask("get large\r\n", &format!("VALUE large 0 200000\r\n{large}\r\nEND\r\n"));
    client.ask("mg lease v\r\nmg own v\r\n", "VA 1 Z X\r\nx\r\nVA 1\r\ny\r\n");
    let life = client.line("mg life t\r\n");
    let seconds: u64 =
        life.strip_prefix("HD t").and_then(|t| t.parse().ok()).unwrap_or_else(|| panic!("{life}"));
    assert!((4000..=5000).contains(&seconds), "{life}");
    let again = ["a", "n", "lease", "own"].map(|key| client.line(&format!("mg {key} c\r\n")));
    let number = |line: &str| line.split(['c', ' ']).find_map(|word| word.parse::<u64>().ok());
    assert_eq!(again.each_ref().map(|line| number(line)), versions.each_ref().map(|line| number(line)));
    let last = versions.iter().filter_map(|line| number(line)).max().expect("versions");
    assert!(number(&client.line("ms next 1 c\r\nx\r\n")).is_some_and(|next| next > last));
    assert_eq!(server.report().kv.durable.expect("it has a log").recovered_items, 7);
    client.ask("flush_all\r\nset after 0 0 1\r\nx\r\nflush_all 5000\r\n", "OK\r\nSTORED\r\nOK\r\n");
    drop((client, server));

    let server = start(&folder.data());
    let mut client = Client::of(&server);
    client.ask("get a n large after\r\n", "VALUE after 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn a_log_that_fills_is_followed_by_snapshots() {
    let folder = Folder::new();
    let server = start(&folder.data());
    let mut client = Client::of(&server);
    let value = "v".repeat(4000);
    for round in 0..40 {
        let (mut text, mut answer) = (String::new(), String::new());
        for key in 0..200 {
            text.push_str(&format!("set k{key} {round} 0 4000\r\n{value}\r\n"));
            answer.push_str("STORED\r\n");
        }
        client.ask(&text, &answer);
    }
    let log = server.report().kv.durable.expect("it has a log");
    assert!(log.snapshots > 2 && log.snapshots_failed == 0, "{log:?}");
    drop((client, server));
    let server = start(&folder.data());
    let mut client = Client::of(&server);
    let log = server.report().kv.durable.expect("it has a log");
    assert!(log.recovered_items == 200 && log.recovered_effects < 2000, "{log:?}");
    for key in 0..200 {
        client.ask(&format!("get k{key}\r\n"), &format!("VALUE k{key} 39 4000\r\n{value}\r\nEND\r\n"));
    }
}

#[test]
fn many_connections_are_answered_in_their_order() {
    let folder = Folder::new();
    let server = start(&folder.data());
    std::thread::scope(|scope| {
        for number in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let mut client = Client::of(server);
                for turn in 0..60 {
                    let (mut text, mut answer) = (String::new(), String::new());
                    for n in 0..20 {
                        text.push_str(&format!("set k{number} {n} 0 2\r\n{turn:02}\r\nget k{number} none\r\nincr all{number} 1\r\nmn\r\n"));
                        answer.push_str(&format!("STORED\r\nVALUE k{number} {n} 2\r\n{turn:02}\r\nEND\r\nNOT_FOUND\r\nMN\r\n"));
                    }
                    client.ask(&text, &answer);
                }
            });
        }
    });
    let log = server.report().kv.durable.expect("it has a log");
    assert!(
        log.syncs < log.logged,
        "commands of a pass, and those that came meanwhile, share a sync: {log:?}"
    );
}

#[test]
fn what_is_wrong_with_a_directory_is_said_and_left_alone() {
    let folder = Folder::new();
    let server = start(&folder.data());
    let mode = fs::metadata(folder.data()).expect("it was made").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
    assert!(refusal(&config(&folder.data())).contains("another process has the data directory"));
    Client::of(&server).ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    drop(server);
    let path = |name: &str| folder.data().join(name);
    for (name, says) in [("log", "its log is not there"), ("identity", "the file identity is not there")] {
        fs::rename(path(name), path("elsewhere")).expect("it is there");
        let said = refusal(&config(&folder.data()));
        assert!(said.contains(says) && said.contains("restore the directory from a copy"), "{said}");
        fs::rename(path("elsewhere"), path(name)).expect("it is there");
    }
    fs::write(path("snapshot"), "what is this").expect("a file");
    assert!(refusal(&config(&folder.data())).contains("its snapshot cannot be read"));
    fs::remove_file(path("snapshot")).expect("it is there");
    // Of the only record, which was durable: it began at 8192.
    let mut bytes = fs::read(path("log")).expect("it is there");
    bytes[8192 + 60] ^= 1;
    fs::write(path("log"), &bytes).expect("it is ours");
    let said = refusal(&config(&folder.data()));
    assert!(said.contains("record 1 of the log was durable, and is damaged"), "{said}");
    bytes[8192 + 60] ^= 1;
    fs::write(path("log"), &bytes).expect("it is ours");
    Client::of(&start(&folder.data())).ask("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn contradictions_are_refused() {
    let folder = Folder::new();
    let mut both = config(&folder.data());
    both.memory_file = Some(folder.data());
    assert!(refusal(&both).contains("leave one of them out"));
    let mut without = config(&folder.data());
    without.durable.data_dir = None;
    assert!(refusal(&without).contains("--data-dir DIR"));
    let mut only = config(&folder.data());
    only.durable.durability = Durability::None;
    assert!(refusal(&only).contains("say --durability log"));
    let short = config(&folder.data());
    short.registers.write(Id::StoreMaxValue, 8 << 20).expect("a size");
    assert!(refusal(&short).contains("too short for values of up to"));
}

/// What `/healthz` says.
fn health(admin: &Admin) -> String {
    let mut stream = TcpStream::connect(admin.address()).expect("it listens");
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// A sync that takes longer than it may is said at `/healthz`, until it is over; a log that failed, for good.
#[test]
fn a_disk_that_stands_still_is_named() {
    let post = Arc::new(Post::unattended());
    let pulses = pulse_within(Some(&post), Nanos(1)).into_iter();
    let at: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let admin = Admin::start(at.into(), Routes::default().loops(pulses));
    let admin = admin.expect("it starts");
    assert!(health(&admin).starts_with("HTTP/1.1 200"));
    post.set_sync(Some(Clock::shared().now()));
    while post.outstanding(Clock::shared().now()) < Nanos(1) {
        std::hint::spin_loop();
    }
    let said = health(&admin);
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("kv-log"), "{said}");
    post.set_sync(None);
    assert!(health(&admin).starts_with("HTTP/1.1 200"));
    post.fail("no space left".to_owned());
    let said = health(&admin);
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("kv-log"), "{said}");
}

/// A node without a log has none that could stand still, home of boxes or not.
#[test]
fn who_has_no_log_names_none() {
    let folder = Folder::new();
    for (config, names) in [
        (config(&folder.data()), 1),
        (Config { durable: DurableArgs::default(), ..config(&folder.data()) }, 0),
    ] {
        let server = Server::start(&config).expect("it starts");
        let found = server.pulses.iter().filter(|pulse| pulse.name() == "kv-log").count();
        assert_eq!(found, names);
    }
}
