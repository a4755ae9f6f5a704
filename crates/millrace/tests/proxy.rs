//! The proxy as memcached clients meet it: order, pipelines, clients that do not read, racks that do not answer, its end.

mod proxied;
mod served;

use base::tls::testing::Authority;
use base::tls::{ClientFiles, ClientTls, ServerFiles, ServerTls, Session};
use protocol::coherence::NodeId;
use protocol::wire::{BoxId, MAX_VALUE};
use proxied::{OPTIONS, Proxied, SHAPE};
use serve::admin::PortAt;
use serve::memcached::login::Entrance;
use serve::proxy::{Options, Running};
use served::{Client, get_reply, pattern, set_request};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use tempfile::TempDir;

#[test]
fn replies_of_a_pipeline_come_in_order_and_see_what_was_written_before() {
    let proxied = Proxied::behind_three_boxes();
    let mut client = proxied.client();
    let mut wanted = Vec::new();
    for round in 0..40 {
        // Far more than may be under way, in pieces that end anywhere.
        let mut sent = Vec::new();
        for key in 0..20 {
            let (name, value) = (format!("k{key}"), pattern(round * 100 + key, 10 + key as usize));
            sent.extend(set_request(&name, &value));
            wanted.extend(b"STORED\r\n");
            sent.extend(format!("get {name}\r\nversion\r\nincr none{key} 1\r\n").into_bytes());
            wanted.extend(get_reply(&name, &value));
            wanted.extend(b"VERSION 1.6.18+millrace.0.2.0\r\nNOT_FOUND\r\n");
        }
        sent.extend(
            b"set k0 0 0 1 noreply\r\nx\r\ndelete k1 noreply\r\nget k0 k1 nothing\r\nmg k1 v\r\nmn\r\n",
        );
        wanted.extend(b"VALUE k0 0 1\r\nx\r\nEND\r\nEN\r\nMN\r\n");
        sent.chunks(777).for_each(|piece| client.send(piece));
    }
    client.expect(&wanted);
    proxied.end_with_all_boxes_used();
}

#[test]
fn reads_of_a_pipeline_are_under_way_together() {
    let proxied = Proxied::behind_three_boxes();
    let mut client = proxied.client();
    for key in 0..100 {
        client.set(&format!("k{key}"), format!("value {key}"));
    }
    let keys: String = (0..100).map(|key| format!(" k{key}")).collect();
    client.send(format!("get{keys}\r\nmn\r\n"));
    for key in 0..100 {
        let line = client.line();
        assert_eq!(client.value_after(&line), format!("value {key}").into_bytes());
    }
    client.expect("END\r\nMN\r\n");
    assert_eq!((client.stat("get_hits"), client.stat("cmd_set")), (100, 100));
    assert!(client.stat("inc_received") >= 200 && client.stat("curr_connections") == 1);
    client.ask("stats reset\r\n", "RESET\r\n");
    assert_eq!(client.stat("get_hits"), 0);
}

#[test]
fn two_proxies_and_other_clients_see_one_cache() {
    let proxied = Proxied::behind_three_boxes();
    let anywhere = ["127.0.0.1:0".parse().expect("an address")];
    let other = Running::start(&proxied.topology, Some(2), &anywhere, OPTIONS).expect("another");
    let (mut one, mut two) = (proxied.client(), Client::to(other.addresses()[0]));
    let mut third = serve::inc::Client::init(&proxied.topology, Some(3)).expect("a client");
    for i in 0..50 {
        let value = i.to_string();
        [&mut one, &mut two][i % 2].set("shared", &value);
        assert_eq!(one.get("shared").as_deref(), Some(value.as_bytes()));
        assert_eq!(two.get("shared").as_deref(), Some(value.as_bytes()));
        let item = third.get(b"shared").expect("an answer").expect("it is there");
        assert_eq!((item.value, item.version.0), (value.into_bytes(), one.gets("shared").1));
    }
    third.set(b"shared", b"7").expect("stored");
    one.ask("incr shared 3\r\n", "10\r\n");
    two.ask("prepend shared 0 0 1\r\n1\r\n", "STORED\r\n");
    assert_eq!(third.increment(b"shared", 1, None).expect("a number"), Some(111));
    let (_, version) = two.gets("shared");
    one.set("shared", "newer");
    two.ask(format!("cas shared 0 0 1 {version}\r\nx\r\n"), "EXISTS\r\n");
    one.ask("flush_all\r\n", "OK\r\n");
    assert_eq!((two.get("shared"), third.get(b"shared").expect("an answer")), (None, None));
}

/// The same items by TLS; hellos that do not go on are ended, and a client that speaks plainly is told.
#[test]
fn clients_may_speak_tls() {
    let proxied = Proxied::behind_three_boxes();
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let made = authority.issue("proxy");
    let files = ServerFiles { cert: made.cert, key: made.key, ..ServerFiles::default() };
    let tls = Some(ServerTls::new(&files, &[]).expect("good files"));
    let at = [PortAt { address: "127.0.0.1:0".parse().expect("an address"), tls }];
    let secure = Running::start_at(
        &proxied.topology,
        Some(2),
        (&at, Entrance::default()),
        Options { threads: 1, ..OPTIONS },
    )
    .expect("another");
    proxied.client().set("k", "value");
    let connect = || {
        let stream = std::net::TcpStream::connect(secure.addresses()[0]).expect("it listens");
        stream.set_read_timeout(Some(served::PATIENCE)).expect("a socket");
        stream
    };
    let believed = ClientFiles { ca: Some(authority.file()), ..ClientFiles::default() };
    let mut session =
        Session::client(&ClientTls::new(&believed, &[]).expect("a file"), "localhost").expect("a name");
    // More than may be under way.
    let mut silent: Vec<_> = (0..300).map(|_| connect()).collect();
    silent.iter_mut().for_each(|stream| stream.write_all(&[0x16, 3, 1]).expect("it reads"));
    let mut stream = connect();
    session.shake_hands(&mut stream, |_| true).expect("a handshake");
    session.write(&[b"get k\r\n"], |bytes| stream.write_all(bytes).map(|()| bytes.len())).expect("it reads");
    let (mut heard, wanted) = (Vec::new(), get_reply("k", b"value"));
    while heard.len() < wanted.len() {
        let received = session.read(
            |room| stream.read(room),
            |bytes| {
                heard.extend_from_slice(bytes);
                true
            },
        );
        assert!(!received.expect("an answer").is_end);
    }
    assert_eq!(heard, wanted);
    let mut plain = connect();
    plain.write_all(b"get k\r\n").expect("it reads");
    let mut heard = String::new();
    plain.read_to_string(&mut heard).expect("words, and the end");
    assert_eq!(heard, "ERROR this port speaks TLS only\r\n");
    let net = secure.shared().net.snapshot();
    assert_eq!((net.tls_handshakes, net.tls_failures), (1, 1));
    assert!(net.tls_timeouts > 0, "{net:?}");
}

#[test]
fn marks_of_meta_commands_are_everybodys() {
    let proxied = Proxied::behind_three_boxes();
    let (mut one, mut two) = (proxied.client(), proxied.client());
    one.set("k", "old");
    one.ask("mg k t h f l v\r\n", "VA 3 t-1 f0\r\nold\r\n");
    one.ask("md k I T30\r\n", "HD\r\n");
    two.ask(
        "mg k v\r\nmg k v\r\nget k\r\n",
        "VA 3 X W\r\nold\r\nVA 3 Z X\r\nold\r\nVALUE k 0 3\r\nold\r\nEND\r\n",
    );
    one.ask("mg k v\r\n", "VA 3 Z X\r\nold\r\n");
    one.set("k", "new");
    two.ask("mg k v\r\nmg n N30 v\r\n", "VA 3\r\nnew\r\nVA 0 W\r\n\r\n");
    one.ask("mg n N30 v\r\n", "VA 0 Z\r\n\r\n");
    for (refused, line) in [
        ("mg k E1\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("ms k 1 E1\r\nx\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("ma k E1\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        ("me k\r\n", "ERROR\r\n"),
        ("flush_all 10\r\n", "CLIENT_ERROR flush_all with a delay is not possible here\r\n"),
        ("cache_memlimit 64\r\n", "OK\r\n"),
        ("cache_memlimit 6\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"),
        ("stats cachedump 1 1\r\n", "END\r\n"),
        ("watch\r\n", "CLIENT_ERROR watch commands not allowed\r\n"),
        ("shutdown\r\n", "ERROR: shutdown not enabled\r\n"),
        ("lru_crawler metadump all\r\n", "ERROR metadump not allowed\r\n"),
    ] {
        one.ask(refused, line);
    }
    assert_eq!(one.get("k").as_deref(), Some(&b"new"[..]));
}

#[test]
fn values_up_to_a_datagram_fit_and_a_longer_one_takes_the_old_one_with_it() {
    let proxied = Proxied::behind_three_boxes();
    let mut client = proxied.client();
    let largest = pattern(1, MAX_VALUE);
    client.set("k", &largest);
    assert_eq!(client.get("k"), Some(largest.clone()));
    client.ask("append k 0 0 1\r\nx\r\n", "SERVER_ERROR object too large for cache\r\n");
    client.ask("prepend k 0 0 1\r\nx\r\n", "SERVER_ERROR object too large for cache\r\n");
    client
        .ask(set_request("other", &pattern(2, MAX_VALUE + 1)), "SERVER_ERROR object too large for cache\r\n");
    assert_eq!(client.get("k"), Some(largest));
    client.ask(set_request("k", &pattern(3, 1 << 20)), "SERVER_ERROR object too large for cache\r\n");
    assert_eq!(client.get("k"), None);
}

#[test]
fn a_client_that_does_not_read_holds_nobody_up() {
    let proxied = Proxied::with(SHAPE, serve::proxy::Options { threads: 1, ..OPTIONS }, &[], |_| true);
    let (mut slow, mut quick) = (proxied.client(), proxied.client());
    let value = pattern(1, 60_000);
    quick.set("big", &value);
    // 60 MB of replies: more than sockets hold.
    slow.send("get big\r\n".repeat(1000));
    for i in 0..200 {
        quick.set("small", i.to_string());
        assert_eq!(quick.get("small"), Some(i.to_string().into_bytes()));
    }
    for _ in 0..1000 {
        slow.expect(get_reply("big", &value));
    }
    slow.still_works();
}

#[test]
fn nobody_answers_and_the_client_is_told_what_that_means() {
    // Reads and writes are the home's where no box answers; this home does not run.
    let settings = [("coherence.patience", "300000")];
    let proxied = Proxied::with(SHAPE, OPTIONS, &settings, |node| matches!(node, NodeId::Box(_)));
    let mut client = proxied.client();
    client.ask("get a b c\r\nmn\r\n", "SERVER_ERROR nobody answered; it was not done\r\nMN\r\n");
    // Without a session nothing was sent.
    client.ask("set a 0 0 1\r\nx\r\n", "SERVER_ERROR nobody answered; it was not done\r\n");
    client.ask("set a 0 0 1 noreply\r\nx\r\nmg a v\r\n", "SERVER_ERROR nobody answered; it was not done\r\n");
    client.still_works();
    let (counted, nodes) = proxied.end();
    assert_eq!((counted["unanswered"], counted["connections"]), (6, 1));
    assert!(nodes[&NodeId::Box(BoxId(1))]["misses"] > 0);
}

#[test]
fn what_was_sent_before_the_end_is_answered() {
    let proxied = Proxied::with(SHAPE, serve::proxy::Options { pipeline: 7, ..OPTIONS }, &[], |_| true);
    let mut clients: Vec<Client> = (0..4).map(|_| proxied.client()).collect();
    let value = pattern(1, 1000);
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(set_request(&format!("k{i}"), &value));
        client.send(format!("get k{i}\r\n").repeat(300));
        // Half a request is not answered, and keeps nobody.
        client.send("set half 0 0 100\r\nabc");
    }
    let (counted, _) = proxied.end();
    for (i, client) in clients.iter_mut().enumerate() {
        client.expect("STORED\r\n");
        (0..300).for_each(|_| client.expect(get_reply(&format!("k{i}"), &value)));
        assert!(client.rest().is_empty());
    }
    assert_eq!((counted["connections"], counted["get_hits"]), (4, 1200));
}

#[test]
fn too_many_connections_and_clients_that_vanish() {
    let proxied = Proxied::with(SHAPE, serve::proxy::Options { connections: 2, ..OPTIONS }, &[], |_| true);
    let (mut one, mut two) = (proxied.client(), proxied.client());
    one.still_works();
    two.still_works();
    assert_eq!(proxied.client().rest(), b"ERROR Too many open connections\r\n");
    two.send("get k\r\n".repeat(1000));
    two.vanish();
    one.ask("bogus\r\n", "ERROR\r\n");
    while one.stat("curr_connections") > 1 {}
    let mut three = proxied.client();
    three.ask("get k\r\n", "END\r\n");
    three.send("quit\r\nget k\r\n");
    assert!(three.rest().is_empty());
    while one.stat("curr_connections") > 1 {}
    // A reply in the binary protocol is no request.
    let mut binary = proxied.client();
    binary.send([[0x80; 1].as_slice(), &[0x0a; 1], &[0; 22], &[0x81; 24]].concat());
    assert_eq!(binary.rest()[..2], [0x81, 0x0a], "the first is a noop, and answered");
}

/// The program, until it is told to stop.
#[test]
fn the_program_serves_until_it_is_told_to_stop_and_says_what_it_did() {
    let program = env!("CARGO_BIN_EXE_millrace");
    let proxied = Proxied::behind_three_boxes();
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let file = folder.path().join("rack.toml");
    proxied.topology.write(&file).expect("two files");
    let proxy = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.arg("proxy").arg("--topology").arg(&file).args(arguments);
        command
    };
    let mut child = proxy(&["--listen", "127.0.0.1:0", "--box", "2", "--threads", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("its first line");
    assert!(line.contains(" by box 2, 1 threads"), "{line}");
    let address = line.split_whitespace().nth(2).expect("memcached at ADDRESS by …");
    let mut client = Client::to(address.parse().expect("an address"));
    client.set("k", "v");
    assert_eq!(client.get("k").as_deref(), Some(&b"v"[..]));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is ours");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert!(child.wait().expect("it is ours").success());
    assert!(rest.starts_with("proxy: connections 1 commands 2 cmd_get 1 cmd_set 1 get_hits 1 "), "{rest}");
    assert!(client.rest().is_empty());

    let fails = |arguments: &[&str], words: &str| {
        let output = proxy(arguments).output().expect("the program");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(words), "{words}: {text}");
    };
    let taken = proxied.address().to_string();
    fails(&["--listen", &taken], "another program has it");
    fails(&["--box", "9", "--listen", "127.0.0.1:0"], "its boxes are 1, 2, 3");
    fails(&["--listen", "here"], "here");
    for ending in ["toml", "key"] {
        std::fs::remove_file(file.with_extension(ending)).expect("it is ours");
    }
    let gone = proxy(&[]).output().expect("the program");
    assert!(String::from_utf8_lossy(&gone.stderr).contains("millrace inc topology > "));
}
