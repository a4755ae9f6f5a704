//! Clients that read slowly, come in numbers, fall silent or vanish; and values of every size on the way out.

mod served;

use served::{Client, Observer, Served, get_reply, pattern, set_request};
use std::net::TcpStream;

/// A client whose kernel takes in little of what it does not read.
fn narrow(served: &Served) -> Client {
    use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a descriptor");
    // Before connecting, since the window is agreed upon then.
    sockopt::set_socket_recv_buffer_size(&socket, 4096).expect("an open socket");
    connect(&socket, &served.address()).expect("a listening node");
    Client::over(TcpStream::from(socket))
}

/// Bytes that may be buffered beyond `net.buffer_limit` for a moment: one value on its way, or all that may be detached.
const SLACK: u64 = serve::kv::service::DETACHED_MAX + (1 << 20);

#[test]
fn the_slowest_readers_are_closed_and_the_others_are_not() {
    const LIMIT: u64 = 32 << 20;
    let served = Served::with(&[("net.buffer_limit", "32m"), ("store.memory", "128m")]);
    let value = pattern(1, 1 << 20);
    served.client().set("big", &value);
    let observer = Observer::of(&served);

    // Eight that each leave as much unread as the node lets them.
    let mut greedy: Vec<Client> = (0..8).map(|_| narrow(&served)).collect();
    for client in &mut greedy {
        client.send("get big\r\n".repeat(200));
    }
    let mut most = 0;
    served.until("greedy ones are closed", |r| {
        most = most.max(r.buffered_bytes);
        r.net.slow_reader_kicks >= 3
    });
    // A reader that keeps up is served meanwhile.
    let mut prompt = served.client();
    let mut sender = prompt.twin();
    let sending = std::thread::spawn(move || sender.send("get big\r\n".repeat(50)));
    for _ in 0..50 {
        prompt.expect(get_reply("big", &value));
        most = most.max(served.report().buffered_bytes);
    }
    sending.join().expect("all requests were taken");
    assert!(most <= LIMIT + SLACK, "{most} bytes were buffered");
    let kicked = served.report().net.slow_reader_kicks;
    let wanted = get_reply("big", &value);
    let closed = greedy.into_iter().filter_map(|mut client| {
        // Those that were not closed have more to come than these two.
        client.stream.set_nonblocking(true).expect("an open socket");
        let mut seen = Vec::new();
        let end = std::io::Read::read_to_end(&mut client.stream, &mut seen);
        assert!(wanted.starts_with(&seen[..seen.len().min(wanted.len())]));
        end.map_or_else(|e| e.kind() == std::io::ErrorKind::ConnectionReset, |_| true).then_some(())
    });
    assert!(closed.count() as u64 <= kicked);
    observer.finish();
    drop(prompt);
    served.until_quiet(0);
}

#[test]
fn a_prompt_reader_is_not_closed_for_a_slow_ones_sake() {
    let served = Served::with(&[("net.buffer_limit", "24m"), ("store.memory", "128m")]);
    let value = pattern(2, 1 << 20);
    served.client().set("big", &value);
    // The slow ones stay below the limit, but leave little room for others.
    let mut slow: Vec<Client> = (0..4).map(|_| narrow(&served)).collect();
    for client in &mut slow {
        client.send("get big\r\n".repeat(8));
    }
    served.until("the slow ones' replies wait", |r| r.net.requests >= 33 && r.buffered_bytes > 14 << 20);
    let mut prompt = served.client();
    // Several times the limit altogether.
    prompt.send("get big\r\n".repeat(100));
    for _ in 0..100 {
        prompt.expect(get_reply("big", &value));
    }
    assert!(served.report().net.slow_reader_kicks <= 4);
    drop((slow, prompt));
    served.until_quiet(0);
}

#[test]
fn replies_that_wait_are_counted_until_their_memory_is_free() {
    let served =
        Served::with(&[("net.buffer_limit", "8m"), ("edge.read_buffer", "64k"), ("net.pipeline", "512")]);
    let value = pattern(3, 16 << 10);
    let mut other = served.client();
    other.set("k", &value);
    let whole = get_reply("k", &value);
    // Replies of 8 MiB in one turn; then each client takes nearly all of them, which leaves little to send but as much to hold
    // as the node has not given back.
    let mut clients: Vec<Client> = (0..4).map(|_| narrow(&served)).collect();
    for client in &mut clients {
        client.send("get k\r\n".repeat(400));
        client.bytes(whole.len());
    }
    let report = served.report();
    assert!(report.buffered_bytes <= (8 << 20) + SLACK, "{}", report.buffered_bytes);
    assert_eq!(other.get("k").as_deref(), Some(&value[..]));
    for client in clients {
        client.vanish();
    }
    served.until_quiet(1);
}

#[test]
fn more_connections_than_allowed_are_told_so_and_service_goes_on() {
    let served = Served::with(&[("net.max_connections", "20")]);
    let observer = Observer::of(&served);
    let mut held: Vec<Client> = (0..19).map(|_| served.client()).collect();
    held.iter_mut().for_each(Client::still_works);
    for _ in 0..300 {
        assert_eq!(served.client().rest(), b"ERROR Too many open connections\r\n");
    }
    held.iter_mut().for_each(Client::still_works);
    let report = served.report();
    assert_eq!((report.net.rejected_connections, report.net.curr_connections), (300, 20));
    assert_eq!(report.net.total_connections, 320);
    // Raised while the node runs.
    served.turn("net.max_connections", "21");
    served.client().still_works();
    drop(held);
    served.until("room again", |r| r.net.curr_connections == 1);
    let mut again: Vec<Client> = (0..19).map(|_| served.client()).collect();
    again.iter_mut().for_each(Client::still_works);
    drop(again);
    observer.finish();
    served.until_quiet(0);
}

#[test]
fn a_flood_of_connections_from_many_threads_leaves_nothing() {
    let served = Served::with(&[("net.max_connections", "64"), ("edge.threads", "2")]);
    let observer = Observer::of(&served);
    let address = served.address();
    let served_ones: usize = std::thread::scope(|scope| {
        let floods: Vec<_> = (0..4)
            .map(|flood| {
                scope.spawn(move || {
                    let mut ok = 0;
                    for round in 0..10 {
                        let mut clients: Vec<Client> = (0..40).map(|_| Client::to(address)).collect();
                        for (i, client) in clients.iter_mut().enumerate() {
                            let key = format!("flood-{flood}-{round}-{i}");
                            // Refused ones are closed already, perhaps.
                            let _ = std::io::Write::write_all(&mut client.stream, &set_request(&key, b"x"));
                        }
                        for client in &mut clients {
                            let _ = client.stream.shutdown(std::net::Shutdown::Write);
                            match &client.rest()[..] {
                                b"STORED\r\n" => ok += 1,
                                // A reset may overtake the words.
                                b"ERROR Too many open connections\r\n" | b"" => {}
                                other => panic!("{:?}", String::from_utf8_lossy(other)),
                            }
                        }
                    }
                    ok
                })
            })
            .collect();
        floods.into_iter().map(|flood| flood.join().expect("served or refused")).sum()
    });
    observer.finish();
    let report = served.until_quiet(0);
    assert!(served_ones >= 63, "{served_ones}");
    assert_eq!(report.net.total_connections, 1601);
    assert_eq!(report.net.rejected_connections as usize + served_ones, 1600);
}

#[test]
fn a_silent_connection_is_closed_and_a_busy_one_is_not() {
    let served = Served::with(&[("net.idle_timeout", "1")]);
    let observer = Observer::of(&served);
    let mut silent = served.client();
    let mut in_the_middle = served.client();
    in_the_middle.send("set k 0 0 100\r\nabc");
    assert!(silent.rest().is_empty());
    assert!(in_the_middle.rest().is_empty());
    served.turn("net.idle_timeout", "0");
    observer.finish();
    assert_eq!(served.until_quiet(0).net.idle_kicks, 2);
}

#[test]
fn clients_that_vanish_leave_nothing_and_hurt_nobody() {
    let served = Served::with(&[("store.memory", "128m"), ("edge.threads", "2")]);
    let observer = Observer::of(&served);
    let value = pattern(5, 1 << 20);
    served.client().set("big", &value);
    let mut checking = served.client();
    for round in 0..60 {
        let mut client = served.client();
        match round % 6 {
            // Before saying anything, in a line, in a value, with a pipeline half sent.
            0 => {}
            1 => client.send("get bi"),
            2 => client.send([&b"set vanished 0 0 900000\r\n"[..], &value[..500_000]].concat()),
            3 => client.send([&b"get big\r\n".repeat(30)[..], b"set vanished 0 0 5\r\nab"].concat()),
            // While a reply is on its way, and while a part of it waits.
            4 => {
                client.send("get big\r\n");
                client.bytes(100_000);
            }
            _ => {
                client.send("get big\r\n".repeat(30));
                client.bytes(1_500_000);
            }
        }
        client.vanish();
        if round % 10 == 0 {
            assert_eq!(checking.get("big"), Some(value.clone()));
        }
    }
    assert_eq!(checking.get("vanished"), None, "half a request is no request");
    observer.finish();
    served.until_quiet(1);
}

#[test]
fn large_values_go_in_and_out_whole() {
    let served = Served::with(&[
        ("store.max_value", "8m"),
        ("store.memory", "128m"),
        ("net.buffer_limit", "160m"),
        ("edge.threads", "2"),
    ]);
    let observer = Observer::of(&served);
    let address = served.address();
    std::thread::scope(|scope| {
        for client_id in 0..3u64 {
            scope.spawn(move || {
                let mut client = Client::to(address);
                for round in 0..3 {
                    for len in [1 << 20, 8 << 20, (8 << 20) - 1, (1 << 20) + 1] {
                        let key = format!("large-{client_id}");
                        let value = pattern(client_id * 1000 + round * 10 + len as u64, len);
                        client.set(&key, &value);
                        assert!(client.get(&key).as_ref() == Some(&value), "{key} of {len} bytes");
                        // A large value between small requests keeps its place in the order.
                        client.send(format!("mn\r\nget {key} absent {key}\r\nmg {key} s v\r\nmn\r\n"));
                        client.expect("MN\r\n");
                        let one = get_reply(&key, &value);
                        client.expect(&one[..one.len() - 5]);
                        client.expect(&one);
                        client.expect(format!("VA {len} s{len}\r\n"));
                        client.expect(&value);
                        client.expect("\r\nMN\r\n");
                    }
                }
            });
        }
    });
    let mut client = served.client();
    let sending = client.twin();
    let too_large = std::thread::spawn(move || {
        let mut sending = sending;
        sending.send(set_request("too-large", &vec![b'x'; (8 << 20) + 1]));
    });
    client.expect("SERVER_ERROR object too large for cache\r\n");
    too_large.join().expect("all of it was swallowed");
    client.still_works();
    observer.finish();
    served.until_quiet(1);
}

/// Values whose length is near a boundary between two ways of keeping or sending them.
#[test]
fn values_around_every_boundary_come_back_as_they_went_in() {
    let served = Served::with(&[]);
    let observer = Observer::of(&served);
    let mut client = served.client();
    client.send("stats slabs\r\n");
    let mut segment = 0;
    loop {
        let line = client.line();
        if line == "END" {
            break;
        }
        if let Some(size) = line.strip_prefix("STAT 1:chunk_size ") {
            segment = size.parse().expect("a number");
        }
    }
    assert!(segment > 0);
    let inline = serve::kv::service::INLINE_VALUE;
    let near =
        |boundary: usize| (boundary.saturating_sub(3)..boundary + 4).chain([boundary - 48, boundary - 64]);
    let boundaries = [100, 2048, inline, 2 * inline, segment / 8, segment / 4, segment / 2, segment, 1 << 20];
    let mut lengths: Vec<usize> =
        boundaries.into_iter().flat_map(near).filter(|&len| len <= 1 << 20).collect();
    lengths.extend(0..40);
    for (i, &len) in lengths.iter().enumerate() {
        let value = pattern(i as u64, len);
        client.set("k", &value);
        assert!(client.get("k").as_ref() == Some(&value), "{len} bytes");
        client.send("mg k v q\r\nmn\r\n");
        client.expect(format!("VA {len}\r\n"));
        client.expect(&value);
        client.expect("\r\nMN\r\n");
        // Across the boundary by one byte on either side.
        if len < 1 << 20 {
            client.ask("append k 0 0 1\r\n!\r\n", "STORED\r\n");
            client.ask("mg k s\r\n", format!("HD s{}\r\n", len + 1));
            let got = client.get("k").expect("appended to");
            assert!(got.starts_with(&value) && got.ends_with(b"!"));
        }
    }
    // All of them in one pipeline.
    for &len in &lengths {
        client.send(set_request(&format!("l{len}"), &pattern(len as u64, len)));
        client.expect("STORED\r\n");
    }
    let mut sender = client.twin();
    let requests: String = lengths.iter().map(|len| format!("get l{len}\r\n")).collect();
    let sending = std::thread::spawn(move || sender.send(requests));
    for &len in &lengths {
        client.expect(get_reply(&format!("l{len}"), &pattern(len as u64, len)));
    }
    sending.join().expect("all requests were taken");
    observer.finish();
    served.until_quiet(1);
}

/// Rings and arena at their smallest, and replies that do not fit them: the engine has to wait for the edge again and again.
#[test]
fn replies_beyond_ring_and_arena_wait_for_room_and_keep_their_order() {
    let value = |i: u64| pattern(i, [16 << 10, (16 << 10) + 1, 900_000, 10, 15_000][(i % 5) as usize]);
    for (entries, pipeline, form) in
        [("16", "1", "staged"), ("16", "256", "coroutine"), ("1024", "256", "plain")]
    {
        let served = Served::with(&[
            ("ring.entries", entries),
            ("ring.arena", "256k"),
            ("net.pipeline", pipeline),
            ("engine.form", form),
            ("edge.threads", "2"),
        ]);
        let observer = Observer::of(&served);
        let mut setup = served.client();
        (0..10).for_each(|i| setup.set(&format!("v{i}"), value(i)));
        let address = served.address();
        std::thread::scope(|scope| {
            for me in 0..4u64 {
                scope.spawn(move || {
                    let mut client = Client::to(address);
                    let mut sender = client.twin();
                    let order = move |n: u64| (n * 7 + me) % 10;
                    let sending = std::thread::spawn(move || {
                        (0..150).for_each(|n| sender.send(format!("get v{}\r\nmn\r\n", order(n))));
                        // Reservations of other sizes between them.
                        sender.send("stats settings\r\nmn\r\n");
                    });
                    for n in 0..150 {
                        client.expect(get_reply(&format!("v{}", order(n)), &value(order(n))));
                        client.expect("MN\r\n");
                    }
                    while client.line() != "END" {}
                    client.expect("MN\r\n");
                    sending.join().expect("all requests were taken");
                });
            }
        });
        // In one piece, so that one turn has more replies than the arena has room for.
        setup.send("get v0\r\n".repeat(300));
        (0..300).for_each(|_| setup.expect(get_reply("v0", &value(0))));
        observer.finish();
        let report = served.until_quiet(1);
        assert_eq!(report.net.slow_reader_kicks, 0);
        if entries == "1024" {
            assert!(report.engine.blocked > 0, "nothing ever waited for room");
        }
    }
}
