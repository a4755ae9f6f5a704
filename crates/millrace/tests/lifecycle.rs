//! A node starts, is tuned, fills up and stops, while clients work on it.

mod served;

use base::prng::Prng;
use serve::kv::{Server, StartError};
use served::{Client, Served, config, get_reply, pattern, set_request};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[test]
fn what_was_sent_before_a_stop_is_answered() {
    // Far more than one read buffer or one turn.
    let served = Served::with(&[("edge.threads", "2"), ("edge.read_buffer", "2k"), ("net.pipeline", "7")]);
    let mut clients: Vec<Client> = (0..4).map(|_| served.client()).collect();
    let value = pattern(1, 1000);
    for (i, client) in clients.iter_mut().enumerate() {
        for n in 0..300 {
            client.send(set_request(&format!("k{i}-{n}"), &value));
            client.send(format!("get k{i}-{n}\r\n"));
        }
        // Half a request is not answered, and does not keep the node from stopping.
        client.send("set half 0 0 100\r\nabc");
    }
    // One that has connected and spoken, but perhaps was not even accepted.
    let mut last = served.client();
    last.send("set last 0 0 1\r\nx\r\n");
    let address = served.address();
    served.node.stop();
    for (i, client) in clients.iter_mut().enumerate() {
        for n in 0..300 {
            client.expect("STORED\r\n");
            client.expect(get_reply(&format!("k{i}-{n}"), &value));
        }
        assert!(client.rest().is_empty());
    }
    assert_eq!(last.rest(), b"STORED\r\n");
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn a_stop_waits_for_readers_that_read_and_not_for_ever_for_others() {
    let served = Served::with(&[("store.memory", "128m")]);
    let value = pattern(2, 1 << 20);
    let mut reading = served.client();
    reading.set("big", &value);
    let mut never_reading = served.client();
    reading.send("get big\r\n".repeat(40));
    never_reading.send("get big\r\n".repeat(40));
    let reader = std::thread::spawn(move || {
        for _ in 0..40 {
            reading.expect(get_reply("big", &value));
        }
        assert!(reading.rest().is_empty());
    });
    served.until("both are being answered", |r| r.net.requests > 2 && r.buffered_bytes > 0);
    let begun = Instant::now();
    served.node.stop();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    reader.join().expect("everything asked for before the stop");
    drop(never_reading);
}

#[test]
fn a_stop_with_nobody_there_and_a_start_after_it() {
    let first = Served::with(&[("edge.threads", "3")]);
    let address = first.address();
    first.node.stop();
    let mut again = config(&[]);
    again.listen.tcp = vec![address];
    let node = Server::start(&again).expect("the port is free again");
    Client::to(node.tcp()[0]).still_works();
}

#[test]
fn an_address_that_is_taken_is_an_error_that_says_so() {
    let served = Served::with(&[]);
    let mut second = config(&[]);
    second.listen.tcp = vec![served.address()];
    let error = Server::start(&second).err().expect("taken");
    assert!(matches!(error, StartError::Listen(_)));
    let text = error.to_string();
    assert!(text.contains(&served.address().to_string()) && text.contains("choose another"), "{text}");
    // One of two is taken: none stays open.
    second.listen.tcp = vec!["127.0.0.1:0".parse().expect("an address"), served.address()];
    assert!(Server::start(&second).is_err());
    second.listen.tcp.clear();
    assert!(matches!(Server::start(&second), Err(StartError::Nowhere)));
    served.client().still_works();
}

#[test]
fn unix_sockets_come_and_go() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let path = folder.path().join("s");
    // Left by a server that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a fresh path"));
    let mut config = config(&[]);
    config.listen.unix = Some(path.clone());
    let node = Server::start(&config).expect("a stale socket is replaced");
    let ask = |request: &[u8]| {
        use std::io::{Read, Write};
        let mut client = UnixStream::connect(&path).expect("a listening node");
        client.write_all(request).expect("an open socket");
        client.shutdown(std::net::Shutdown::Write).expect("an open socket");
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).expect("an answer");
        reply
    };
    let value = pattern(3, 300_000);
    assert_eq!(ask(&set_request("k", &value)), b"STORED\r\n");
    assert!(ask(b"get k\r\n") == get_reply("k", &value));
    let second = Server::start(&config).err().expect("in use by a living node").to_string();
    assert!(second.contains("another program has it"), "{second}");
    assert_eq!(Client::to(node.tcp()[0]).get("k"), Some(value));
    node.stop();
    assert!(!path.exists());
    // Something that is no socket is not ours to remove.
    std::fs::write(&path, "precious").expect("a writable directory");
    assert!(Server::start(&config).is_err());
    assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
}

/// Values that one client writes and all read: `<number>:<filling>`, the number only ever grows.
fn numbered(number: u64) -> Vec<u8> {
    let mut value = format!("{number}:").into_bytes();
    value.extend(pattern(number, (number % 40) as usize * 97));
    value
}

fn number_of(value: &[u8]) -> u64 {
    let end = value.iter().position(|&b| b == b':').expect("a numbered value");
    let number = std::str::from_utf8(&value[..end]).expect("digits").parse().expect("a number");
    assert_eq!(value, numbered(number), "a torn or mixed-up value");
    number
}

/// Several clients on `served`, each the only writer of its keys and a reader of all; and all of them count on two shared
/// counters, with `incr` and with `cas`. `meanwhile` runs beside them.
fn concurrent_work(served: &Served, rounds: u64, meanwhile: impl Fn(&AtomicBool) + Send + Sync) {
    const CLIENTS: u64 = 4;
    let mut setup = served.client();
    setup.set("incremented", "0");
    setup.set("compared", "0");
    let (address, done, increments) = (served.address(), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENTS)
            .map(|me| {
                let increments = &increments;
                scope.spawn(move || work(Client::to(address), me, CLIENTS, rounds, increments))
            })
            .collect();
        let beside = scope.spawn(|| meanwhile(&done));
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::SeqCst);
        results.into_iter().for_each(|result| result.expect("every value was right"));
        beside.join().expect("no trouble beside the work");
    });
    let mut check = served.client();
    let count = |value: Option<Vec<u8>>| String::from_utf8(value.expect("a counter")).expect("digits");
    assert_eq!(count(check.get("incremented")).trim_end(), increments.load(Ordering::SeqCst).to_string());
    assert_eq!(count(check.get("compared")), (CLIENTS * rounds.div_ceil(10)).to_string());
    for me in 0..CLIENTS {
        assert_eq!(check.get(&format!("own{me}")).map(|v| number_of(&v)), Some(rounds - 1));
    }
}

fn work(mut client: Client, me: u64, clients: u64, rounds: u64, increments: &AtomicU64) {
    let mut random = Prng::for_entity(1, me, 0);
    let mut seen = vec![0; clients as usize];
    for round in 0..rounds {
        // Written and read back in one pipeline, with another's key between.
        let other = random.below(clients);
        let mine = numbered(round);
        client.send(set_request(&format!("own{me}"), &mine));
        client.send(format!("get own{other}\r\nincr incremented 1\r\nget own{me}\r\n"));
        client.expect("STORED\r\n");
        let line = client.line();
        if line != "END" {
            let number = number_of(&client.value_after(&line));
            assert!(number >= seen[other as usize], "an old value came back");
            seen[other as usize] = number;
            client.expect("END\r\n");
        }
        assert!(client.line().parse::<u64>().is_ok());
        increments.fetch_add(1, Ordering::SeqCst);
        client.expect(get_reply(&format!("own{me}"), &mine));
        if round % 10 == 0 {
            add_one_by_cas(&mut client);
        }
    }
}

fn add_one_by_cas(client: &mut Client) {
    loop {
        let (value, cas) = client.gets("compared");
        let number: u64 = String::from_utf8(value).expect("digits").parse().expect("a number");
        let next = (number + 1).to_string();
        match &client.line_of(format!("cas compared 0 0 {} {cas}\r\n{next}\r\n", next.len()))[..] {
            "STORED" => return,
            "EXISTS" => {}
            other => panic!("{other}"),
        }
    }
}

#[test]
fn two_edges_serve_as_one() {
    let served = Served::with(&[("edge.threads", "2")]);
    concurrent_work(&served, 1500, |_| ());
    served.until_quiet(0);
}

#[test]
fn two_edges_on_the_smallest_rings_serve_as_one() {
    let small = [
        ("edge.threads", "2"),
        ("ring.entries", "16"),
        ("ring.arena", "256k"),
        ("net.pipeline", "1"),
        ("engine.in_flight", "1"),
        ("edge.read_buffer", "2k"),
    ];
    let served = Served::with(&small);
    concurrent_work(&served, 600, |_| ());
    served.until_quiet(0);
}

#[test]
fn registers_change_under_load_and_every_value_is_right() {
    let served = Served::with(&[("edge.threads", "2"), ("store.memory", "64m")]);
    let turns = AtomicU64::new(0);
    concurrent_work(&served, 1500, |done| {
        let mut random = Prng::new(7);
        let mut beside = served.client();
        while !done.load(Ordering::SeqCst) {
            let group = (1 + random.below(64)).to_string();
            let quantum = (1 + random.below(200)).to_string();
            let form = ["plain", "staged", "coroutine"][random.below(3) as usize];
            let buffer = ["2k", "3000", "16k", "1m"][random.below(4) as usize];
            let pipeline = ["1", "2", "50", "256"][random.below(4) as usize];
            let memory = ["48m", "64m", "80m"][random.below(3) as usize];
            for (name, value) in [
                ("engine.form", form),
                ("engine.group", &group),
                ("engine.quantum", &quantum),
                ("edge.read_buffer", buffer),
                ("net.pipeline", pipeline),
                ("store.memory", memory),
            ] {
                served.turn(name, value);
                // Some requests pass under each setting.
                beside.still_works();
            }
            turns.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(turns.into_inner() > 10);
    served.until_quiet(0);
}

#[test]
fn a_value_that_arrives_while_buffers_change_size_is_whole() {
    let served = Served::with(&[]);
    let mut client = served.client();
    let mut beside = served.client();
    for (round, size) in ["2k", "1m", "5000", "64k", "2k"].iter().cycle().take(40).enumerate() {
        let value = pattern(round as u64, 1500 * round + 1);
        let request = set_request("k", &value);
        let (head, tail) = request.split_at(request.len() / 2);
        client.send(head);
        served.turn("edge.read_buffer", size);
        beside.still_works();
        client.send(tail);
        client.expect("STORED\r\n");
        assert!(client.get("k") == Some(value), "round {round}");
    }
    served.until_quiet(2);
}

#[test]
fn the_memory_limit_follows_cache_memlimit() {
    let served = Served::with(&[("store.memory", "32m")]);
    let mut client = served.client();
    let value = vec![b'v'; 8 << 10];
    let fill = |client: &mut Client, from: usize| {
        for i in from..from + 8000 {
            client.set(&format!("k{i}"), &value);
        }
    };
    fill(&mut client, 0);
    let full = served.report().kv.store;
    assert!(full.evictions > 0 && full.memory_bytes <= 32 << 20, "{full:?}");
    client.ask("cache_memlimit 16\r\n", "OK\r\n");
    client.set("after", "1");
    served.until("memory was given back", |r| r.kv.store.memory_bytes <= 16 << 20);
    fill(&mut client, 10_000);
    assert!(served.report().kv.store.memory_bytes <= 16 << 20);
    assert_eq!(client.stat("limit_maxbytes"), 16 << 20);
    client.ask("cache_memlimit 64\r\n", "OK\r\n");
    fill(&mut client, 20_000);
    let grown = served.report().kv.store;
    assert!(grown.memory_bytes > 40 << 20 && grown.memory_bytes <= 64 << 20, "{grown:?}");
    client.ask("cache_memlimit 7\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n");
    client.ask("cache_memlimit 100000\r\n", "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n");
    assert_eq!(client.stat("limit_maxbytes"), 64 << 20);
    client.ask("cache_memlimit x\r\n", "ERROR\r\n");
    client.still_works();
}

#[test]
fn a_full_store_refuses_and_loses_nothing() {
    let served = Served::with(&[("store.mode", "store"), ("store.memory", "8m"), ("store.max_value", "64k")]);
    let full = "SERVER_ERROR out of memory storing object";
    let mut client = served.client();
    let mut random = Prng::new(3);
    let mut stored = std::collections::HashMap::new();
    let mut refused = 0;
    for round in 0..6000u64 {
        let key = format!("k{}", random.below(4000));
        let value = pattern(round, random.below(if round % 50 == 0 { 60_000 } else { 6000 }) as usize);
        match &client.line_of(set_request(&key, &value))[..] {
            "STORED" => drop(stored.insert(key, value)),
            line if line == full => refused += 1,
            other => panic!("{other}"),
        }
        if round % 40 == 0
            && let Some(key) = stored.keys().next().cloned()
        {
            client.ask(format!("delete {key}\r\n"), "DELETED\r\n");
            stored.remove(&key);
        }
    }
    assert!(refused > 100, "{refused}");
    for (key, value) in &stored {
        assert!(client.get(key).as_ref() == Some(value), "{key} was acknowledged");
    }
    let report = served.report();
    assert_eq!((report.kv.store.evictions, report.kv.commands.store_no_memory), (0, refused));
    assert!(report.kv.store.memory_bytes <= 8 << 20);
    // Every kind of write says so when nothing fits, and goes on.
    let big = vec![b'x'; 60_000];
    while client.line_of(set_request(&format!("fill{}", random.next_u64()), &big)) == "STORED" {}
    client.ask(format!("ms new 60000\r\n{}\r\n", "x".repeat(60_000)), format!("{full}\r\n"));
    client.send(format!("set new 0 0 60000 noreply\r\n{}\r\n", "x".repeat(60_000)));
    assert_eq!(client.get("new"), None);
    client.still_works();
    // Room comes back with a flush.
    client.ask("flush_all\r\n", "OK\r\n");
    for i in 0..20 {
        client.set(&format!("again{i}"), &big);
    }
}

#[test]
fn a_cache_never_refuses_for_want_of_memory() {
    let served = Served::with(&[("store.memory", "8m"), ("store.max_value", "1m"), ("edge.threads", "2")]);
    let address = served.address();
    std::thread::scope(|scope| {
        for me in 0..3 {
            scope.spawn(move || {
                let mut client = Client::to(address);
                let mut random = Prng::for_entity(2, me, 0);
                for round in 0..3000 {
                    let len = random.below(if round % 30 == 0 { 1 << 20 } else { 20_000 }) as usize;
                    let key = format!("k{me}-{}", random.below(500));
                    let value = pattern(round, len);
                    client.set(&key, &value);
                    // Evicted perhaps, but never wrong.
                    if let Some(got) = client.get(&key) {
                        assert!(got == value, "{key}");
                    }
                }
            });
        }
    });
    let report = served.until_quiet(0);
    assert!(report.kv.store.evictions > 0);
    assert_eq!(report.kv.commands.store_no_memory, 0);
    assert!(report.kv.store.memory_bytes <= 8 << 20);
}
