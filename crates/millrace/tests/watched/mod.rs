//! memcached's `watch`: what is told of commands and connections beside memcached where it is installed; evictions; watchers that do not read, are too many
//! or not wanted.

use super::memcached::Memcached;
use super::served::{Client, PATIENCE, Served, config};
use rustix::net::sockopt;
use serve::kv::Server;
use serve::kv::watchers::{WATCHERS_MAX, WatchPlan, Watchers};
use std::collections::HashSet;
use std::time::Instant;

/// Every command of a key that memcached tells of, each line with its line end; values follow.
const COMMANDS: &[&str] = &[
    "get foo\r\n",
    "set foo 0 0 2\r\nhi\r\n",
    "gets foo bar\r\n",
    "gat 100 foo\r\n",
    "touch foo 0\r\n",
    "touch bar 0\r\n",
    "incr foo 1\r\n",
    "set n 0 0 1\r\n9\r\n",
    "incr n 1\r\n",
    "decr n 1\r\n",
    "append foo 0 0 1\r\nx\r\n",
    "prepend foo 0 0 2\r\nyy\r\n",
    "append nope 0 0 1\r\nx\r\n",
    "add foo 0 0 1\r\nx\r\n",
    "add new 0 0 1\r\nx\r\n",
    "replace nope 0 0 1\r\nx\r\n",
    "replace foo 0 0 3\r\nabc\r\n",
    "cas foo 0 0 1 1\r\nx\r\n",
    "cas nope 0 0 1 1\r\nx\r\n",
    "delete foo\r\n",
    "delete foo\r\n",
    "mg n v t\r\n",
    "mg n T0\r\n",
    "mg miss N30 v\r\n",
    "mg none R30\r\n",
    "ms k 2 T100\r\nhi\r\n",
    "ms k 2 MA\r\nhi\r\n",
    "ms k 2 ME\r\nhi\r\n",
    "ms k 2 C1\r\nhi\r\n",
    "ms lost 2 C1\r\nhi\r\n",
    "ms lost 2 MR\r\nhi\r\n",
    "ms lost 2 MP\r\nhi\r\n",
    "ma n\r\n",
    "ma made N0\r\n",
    "ma none\r\n",
    "me n\r\n",
    "md k\r\n",
    "md k\r\n",
    "set a%20\u{1}b 0 0 1\r\nx\r\n",
    "ms YWJj 2 b\r\nhi\r\n",
    "mg YWJj b v\r\n",
    "flush_all\r\n",
    "mn\r\n",
    "version\r\n",
];

/// A line without what differs from server to server: times, numbers of lines and connections, ports, and what is left of a life.
fn masked(line: &str) -> String {
    let word = |word: &str| match word.split_once('=') {
        Some((name @ ("ts" | "gid" | "cfd" | "rport"), _)) => format!("{name}=*"),
        Some(("ttl", left)) if left != "0" && left != "-1" => "ttl=*".to_owned(),
        _ => word.to_owned(),
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn names(line: &str) -> Vec<&str> {
    line.split(' ').map(|word| word.split_once('=').map_or(word, |(name, _)| name)).collect()
}

/// A client that watches, which has heard that it does.
fn watch(mut client: Client, streams: &str) -> Client {
    assert_eq!(client.line_of(format!("watch{streams}\r\n")), "OK");
    client
}

/// What a watcher is told until something of this key is.
fn told_until(watcher: &mut Client, key: &str) -> Vec<String> {
    let (mut lines, end) = (Vec::new(), format!("key={key} "));
    loop {
        let line = watcher.line();
        if line.contains(&end) {
            return lines;
        }
        lines.push(masked(&line));
    }
}

/// What watchers of `streams` are told of all commands.
fn told(mut client: Client, watcher: Client, streams: &str) -> Vec<String> {
    let mut watcher = watch(watcher, streams);
    for command in COMMANDS {
        client.send(command);
        client.send("mn\r\n");
        while client.line() != "MN" {}
        if *command == "mn\r\n" {
            client.line();
        }
    }
    client.send("get the-end\r\nset the-end 0 0 0\r\n\r\n");
    told_until(&mut watcher, "the-end")
}

#[test]
fn watchers_are_told_of_commands_what_memcached_tells() {
    let Some(memcached) = Memcached::start(&[]) else { return };
    for streams in
        ["", " fetchers", " mutations", " fetchers mutations proxyreqs", " mutations fetchers rawcmds"]
    {
        let served = Served::with(&[]);
        memcached.client().line_of("flush_all\r\n");
        let ours = told(served.client(), served.client(), streams);
        let theirs = told(memcached.client(), memcached.client(), streams);
        // What was flushed or has expired memcached tells from what was never there, until it is found.
        let theirs: Vec<String> = theirs
            .into_iter()
            .map(|line| {
                line.replace("status=flushed", "status=not_found")
                    .replace("status=expired", "status=not_found")
            })
            .collect();
        assert_eq!(ours, theirs, "watch{streams}");
        assert!(ours.len() > 10, "{ours:?}");
    }
}

#[test]
fn watchers_are_told_of_connections_what_memcached_tells() {
    let told = |address| {
        let mut watcher = watch(Client::to(address), " connevents");
        let first = Client::to(address);
        let mut second = Client::to(address);
        second.send("quit\r\n");
        drop(first);
        let mut lines: Vec<String> = (0..4).map(|_| masked(&watcher.line())).collect();
        lines.sort();
        lines
    };
    let served = Served::with(&[]);
    let ours = told(served.address());
    assert_eq!(ours[0], "ts=* gid=* type=conn_close rip=127.0.0.1 rport=* transport=tcp reason=normal cfd=*");
    if let Some(memcached) = Memcached::start(&[]) {
        assert_eq!(ours, told(memcached.address()));
    }
}

/// Stores more than there is room for, until something was evicted; how often by then.
fn evict(client: &mut Client, memory: usize) -> u64 {
    let value = "v".repeat(4000);
    for n in 0..4 * memory / value.len() {
        client.send(format!("set key:{n} 0 0 {}\r\n{value}\r\n", value.len()));
        client.line();
    }
    client.stat("evictions")
}

#[test]
fn each_eviction_is_told_once_in_the_form_of_memcached() {
    const MEMORY: usize = 8 << 20;
    let served = Served::with(&[("store.memory", "8m")]);
    let mut watcher = watch(served.client(), " evictions");
    let mut client = served.client();
    let reading = std::thread::spawn(move || {
        let lines: Vec<String> = (0..100).map(|_| watcher.line()).collect();
        let keys: HashSet<&str> = lines.iter().filter_map(|line| line.split(' ').nth(3)).collect();
        assert_eq!(keys.len(), lines.len(), "each once: {lines:?}");
        lines
    });
    let count = evict(&mut client, MEMORY);
    assert!(count > 200, "{count}");
    let lines = reading.join().expect("lines");
    let names_of_ours: Vec<&str> = names(&lines[0]);
    assert!(
        lines[0].contains(" type=eviction key=key%3A") && lines[0].ends_with(" size=4000"),
        "{}",
        lines[0]
    );
    assert!(lines[0].contains(" fetch=no ttl=-1 la="), "{}", lines[0]);
    if let Some(memcached) = Memcached::start(&["-m", "8"]) {
        let mut watcher = watch(memcached.client(), " evictions");
        evict(&mut memcached.client(), MEMORY);
        assert_eq!(names_of_ours, names(&watcher.line()));
    }
}

#[test]
fn who_watches_and_does_not_read_is_told_how_much_is_missing() {
    let mut config = config(&[]);
    config.watchers = Watchers::new(WatchPlan { buffer_bytes: 4096, ..WatchPlan::default() });
    let served = Served { node: Server::start(&config).expect("a node"), config };
    let watcher = served.client();
    sockopt::set_socket_recv_buffer_size(&watcher.stream, 4096).expect("a socket");
    let (mut watcher, mut client) = (watch(watcher, " fetchers"), served.client());
    let keys = format!("get{}\r\n", format!(" {}", "k".repeat(250)).repeat(64));
    let begun = Instant::now();
    while client.stat("log_watcher_skipped") == 0 {
        assert!(begun.elapsed() < PATIENCE, "everything was taken");
        client.ask(&keys, "END\r\n");
    }
    // Once it has read all that it was sent there is room for one more line, with what is missing before it.
    let (mut told, mut skipped) = (0, 0);
    loop {
        if client.stat("log_watcher_sent") == told {
            if skipped == client.stat("log_watcher_skipped") {
                break;
            }
            client.ask("get more\r\n", "END\r\n");
        }
        match watcher.line().strip_prefix("skipped=") {
            Some(count) => skipped += count.parse::<u64>().expect("a number"),
            None => told += 1,
        }
    }
    assert_eq!(client.stat("log_worker_written"), told + skipped);
    served.still_sound();
}

#[test]
fn a_watcher_asks_nothing_more_and_is_gone_when_it_ends() {
    let served = Served::with(&[]);
    let mut watcher = served.client();
    watcher.send("get a\r\nwatch fetchers\r\nget ignored\r\nnonsense\r\n");
    assert_eq!((watcher.line(), watcher.line()), ("END".to_owned(), "OK".to_owned()));
    let mut client = served.client();
    client.ask("get b\r\n", "END\r\n");
    assert!(watcher.line().contains("key=b status=not_found"));
    watcher.send("get ignored\r\nquit\r\n");
    client.ask("get c\r\n", "END\r\n");
    assert!(watcher.line().contains("key=c "), "what it sent was not looked at");
    assert_eq!(client.stat("log_watchers"), 1);
    drop(watcher);
    let begun = Instant::now();
    while client.stat("log_watchers") == 1 {
        assert!(begun.elapsed() < PATIENCE, "it watches for ever");
    }
    served.still_sound();
}

#[test]
fn words_that_memcached_does_not_know_and_too_many_watchers_are_refused() {
    let served = Served::with(&[]);
    let mut client = served.client();
    for words in ["nonsense", "fetchers nonsense", "Fetchers"] {
        assert_eq!(client.line_of(format!("watch {words}\r\n")), "ERROR");
    }
    let _all: Vec<Client> = (0..WATCHERS_MAX).map(|_| watch(served.client(), " proxyreqs")).collect();
    assert_eq!(client.line_of("watch\r\n"), "WATCHER_TOO_MANY log watcher limit reached");
    client.still_works();
    let mut config = config(&[]);
    config.watchers = Watchers::new(WatchPlan { is_allowed: false, ..WatchPlan::default() });
    let served = Served { node: Server::start(&config).expect("a node"), config };
    assert_eq!(served.client().line_of("watch\r\n"), "CLIENT_ERROR watch commands not allowed");
}
