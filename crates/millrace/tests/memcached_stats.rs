//! Statistics and flags that scripts written for memcached use: `stats conns`, `stats detail`, `stats reset`, `-X`, `-d`, `-vv`. Beside memcached where it is
//! installed.

mod memcached;
mod served;
mod watched;

use memcached::Memcached;
use rustix::process::{Pid, Signal, kill_process};
use serve::kv::Server;
use served::{Client, PATIENCE, Served, config};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The lines of a reply up to `END`.
fn lines(client: &mut Client, request: &str) -> Vec<String> {
    client.send(request);
    let mut lines = Vec::new();
    loop {
        let line = client.line();
        if line == "END" {
            return lines;
        }
        lines.push(line);
    }
}

/// What is asked of keys with prefixes and without, and what `stats detail dump` shows then.
fn detail(client: &mut Client) -> Vec<String> {
    let mut line = |request: &str| client.line_of(request);
    assert_eq!(line("set before:a 0 0 1\r\nx\r\n"), "STORED");
    assert_eq!(line("stats detail on\r\n"), "OK");
    assert_eq!(line("stats detail nonsense\r\n"), "CLIENT_ERROR usage: stats detail on|off|dump");
    for request in [
        "set foo:a 0 0 1\r\nx\r\n",
        "add foo:a 0 0 1\r\nx\r\n",
        "append foo:a 0 0 1\r\nx\r\n",
        "set plain 0 0 1\r\nx\r\n",
        "set :none 0 0 1\r\nx\r\n",
        "delete foo:a\r\n",
        "delete foo:a\r\n",
        "set bar:n 0 0 1\r\n1\r\n",
        "incr bar:n 1\r\n",
        "touch bar:n 0\r\n",
        "ms meta:a 1\r\nx\r\n",
        "mg meta:a\r\n",
        "mg meta:b\r\n",
        "md meta:a\r\n",
    ] {
        line(request);
    }
    lines(client, "get foo:a bar:n bar:n plain other:x:y\r\n");
    lines(client, "gat 0 bar:n bar:m\r\n");
    assert_eq!(client.line_of("stats detail off\r\n"), "OK");
    client.line_of("set after:a 0 0 1\r\nx\r\n");
    let mut dump = lines(client, "stats detail dump\r\n");
    dump.sort();
    dump
}

#[test]
fn prefixes_of_keys_are_counted_while_that_is_on() {
    let served = Served::with(&[]);
    let ours = detail(&mut served.client());
    assert!(ours.contains(&"PREFIX bar get 4 hit 3 set 1 del 0".to_owned()), "{ours:#?}");
    assert!(
        !ours.iter().any(|line| line.starts_with("PREFIX before") || line.starts_with("PREFIX after")),
        "{ours:#?}"
    );
    if let Some(memcached) = Memcached::start(&[]) {
        assert_eq!(ours, detail(&mut memcached.client()));
    }
    // A slice of a listing is no more than others wait for.
    let mut client = served.client();
    client.ask("stats detail on\r\n", "OK\r\n");
    for n in 0..2000 {
        client.set(&format!("prefix{n}:x"), "v");
    }
    let dump = lines(&mut client, "stats detail dump\r\n");
    assert_eq!(dump.iter().filter(|line| line.starts_with("PREFIX prefix")).count(), 2000);
    client.ask("stats reset\r\n", "RESET\r\n");
    assert!(lines(&mut client, "stats detail dump\r\n").is_empty());
    served.still_sound();
}

#[test]
fn connections_are_listed_as_memcached_lists_them() {
    /// Lines with numbers and ports left out.
    fn shown(client: &mut Client) -> Vec<String> {
        let all = lines(client, "stats conns\r\n");
        let shown = all.iter().map(|line| {
            let line =
                line.trim_start_matches(|c: char| c.is_ascii_uppercase() || c == ' ' || c.is_ascii_digit());
            line.rsplit_once("127.0.0.1:").map_or(line, |(begin, _)| begin).to_owned()
        });
        // memcached says what it does at the moment, which for who asks is something else than for who waits; and seconds pass.
        let differs = |line: &str| {
            line.starts_with(":secs_") || line.starts_with(":state conn_") && !line.ends_with("listening")
        };
        let mut shown: Vec<String> = shown.filter(|line| !differs(line)).collect();
        shown.sort();
        shown
    }
    let served = Served::with(&[("edge.threads", "2")]);
    let mut clients: Vec<Client> = (0..3).map(|_| served.client()).collect();
    clients.iter_mut().for_each(Client::still_works);
    let ours = shown(&mut clients[0]);
    assert_eq!(ours.iter().filter(|line| line.starts_with(":listen_addr tcp:")).count(), 3, "{ours:#?}");
    if let Some(memcached) = Memcached::start(&[]) {
        let mut theirs: Vec<Client> = (0..3).map(|_| memcached.client()).collect();
        theirs.iter_mut().for_each(Client::still_works);
        assert_eq!(ours, shown(&mut theirs[0]));
    }
    // Many are listed whole, and who has gone is not.
    let mut many: Vec<Client> = (0..300).map(|_| served.client()).collect();
    // One that is accepted and counted is listed once an edge has it.
    many.iter_mut().for_each(Client::still_works);
    let all = lines(&mut clients[0], "stats conns\r\n");
    assert_eq!(all.iter().filter(|line| line.contains(":addr ")).count(), 304);
    drop(many);
    served.until("they are gone", |report| report.net.curr_connections == 3);
    assert_eq!(
        lines(&mut clients[0], "stats conns\r\n").iter().filter(|line| line.contains(":addr ")).count(),
        4
    );
}

#[test]
fn a_reset_is_of_what_memcached_resets() {
    const RESET: [&str; 6] =
        ["cmd_get", "get_misses", "cmd_set", "total_connections", "total_items", "auth_cmds"];
    let after = |client: &mut Client| -> Vec<u64> {
        client.set("k", "v");
        client.get("k");
        client.get("nothing");
        client.ask("stats reset\r\n", "RESET\r\n");
        RESET.iter().map(|name| client.stat(name)).collect()
    };
    let served = Served::with(&[]);
    let ours = after(&mut served.client());
    assert_eq!(ours, [0; 6]);
    if let Some(memcached) = Memcached::start(&[]) {
        assert_eq!(ours, after(&mut memcached.client()));
    }
    assert_eq!(served.client().stat("total_connections"), 1);
    // Metrics go on.
    assert_eq!(served.report().net.total_connections, 2);
}

#[test]
fn without_dumps_keys_are_not_listed() {
    let config = config(&[("store.dumps", "off")]);
    let served = Served { node: Server::start(&config).expect("a node on a free port"), config };
    let memcached = Memcached::start(&["-X"]);
    for request in ["stats cachedump 1 1\r\n", "lru_crawler metadump all\r\n", "lru_crawler mgdump all\r\n"] {
        let ours = served.client().line_of(request);
        assert!(ours.contains("not allowed") || ours == "ERROR", "{request:?} {ours}");
        if let Some(memcached) = &memcached {
            assert_eq!(ours, memcached.client().line_of(request), "{request:?}");
        }
    }
    assert!(!lines(&mut served.client(), "stats conns\r\n").is_empty());
}

fn program(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.arg("up").args(words).stdin(Stdio::null());
    command
}

#[test]
fn in_the_background_it_serves_when_the_command_returns() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (socket, pidfile) = (path("m.sock"), path("pid"));
    let output = program(&["-d", "-s", &socket, "-P", &pidfile, "-m", "8"]).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let mut client = UnixStream::connect(&socket).expect("it serves");
    client.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    client.write_all(b"mn\r\n").expect("it reads");
    let mut said = [0; 4];
    client.read_exact(&mut said).expect("it answers");
    assert_eq!(&said, b"MN\r\n");
    let pid = std::fs::read_to_string(&pidfile).expect("its number");
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a number");
    kill_process(pid, Signal::TERM).expect("it is there");
    // It closes what it has answered, and takes its file with it.
    assert_eq!(client.read(&mut said).expect("it answers"), 0);
    let nowhere = program(&["-d", "-s", &path("nowhere/m.sock")]).output().expect("it runs");
    let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(!nowhere.status.success() && said.contains("cannot listen on"), "{said}");
}

#[test]
fn very_verbose_it_logs_requests_and_replies() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let socket = folder.path().join("m.sock");
    let words = ["-vv", "-m", "8", "-s", socket.to_str().expect("text")];
    let mut process = program(&words).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut log =
        BufReader::new(process.stderr.take().expect("piped")).lines().map(|line| line.expect("text"));
    assert!(log.any(|line| line.contains("serving memcached clients on")));
    let mut client = UnixStream::connect(&socket).expect("it serves");
    client.write_all(b"set k\x1b 0 0 6\r\nsecret\r\nget k\x1b\r\nquit\r\n").expect("it reads");
    let mut seen = Vec::new();
    for line in log.by_ref() {
        let is_last = line.contains("connection closed");
        seen.push(line);
        if is_last {
            break;
        }
    }
    for wanted in
        ["new client connection", "set k\\x1b, 6 bytes", " STORED", "get k\\x1b", " VALUE k\\x1b 0 6"]
    {
        assert!(seen.iter().any(|line| line.contains(wanted)), "{wanted} is not in {seen:#?}");
    }
    assert!(!seen.iter().any(|line| line.contains("secret")), "{seen:#?}");
    process.kill().expect("it runs");
    process.wait().expect("it ends");
}
