//! Bad input over real sockets: each gets a protocol-correct error or a closed connection, and nobody else notices.

mod served;

use base::prng::Prng;
use served::{Client, Observer, Served, get_reply, pattern, set_request};

/// Requests that are wrong in themselves and leave the connection in step, with their answers.
const WRONG: &[(&str, &str)] = &[
    ("\r\n", "ERROR\r\n"),
    ("\n", "ERROR\r\n"),
    ("bogus\r\n", "ERROR\r\n"),
    ("GET a\r\n", "ERROR\r\n"),
    ("\x01\x02\x7f\x1b[2J\r\n", "ERROR\r\n"),
    ("get\r\n", "ERROR\r\n"),
    ("set\r\n", "ERROR\r\n"),
    ("set k 0 0\r\n", "ERROR\r\n"),
    ("set k 0 0 1 2 3 4\r\n", "ERROR\r\n"),
    ("set k 0 0 -1\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set k 0 0 -2147483648\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set k 0 0 99999999999999999999999\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set k 0 0 4294967296\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set k 0 0 1e3\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set k x 0 1\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set k 0 x 1\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("cas k 0 0 1\r\n", "ERROR\r\n"),
    ("cas k 0 0 1 x\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("incr k\r\n", "ERROR\r\n"),
    ("incr k x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
    ("incr k -1\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
    ("decr k 18446744073709551616\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
    ("touch k x\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
    ("delete k 5\r\n", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"),
    ("gat x k\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
    ("verbosity\r\n", "ERROR\r\n"),
    ("mg\r\n", "ERROR\r\n"),
    ("mg k !\r\n", "CLIENT_ERROR invalid flag\r\n"),
    ("mg k v v\r\n", "CLIENT_ERROR duplicate flag\r\n"),
    ("ms k -1\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("ms k\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("md k Cx\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
    ("ma k Dx\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
    ("mg notbase64!! b v\r\n", "CLIENT_ERROR error decoding key\r\n"),
];

/// Right requests of every shape with their answers, each leaving the store as it found it.
fn right() -> Vec<(Vec<u8>, Vec<u8>)> {
    let long = "k".repeat(250);
    let value = b"a\r\nb\0\xff\r\nEND\r\n";
    vec![
        (set_request("k", value), b"STORED\r\n".to_vec()),
        (b"get k\r\n".to_vec(), get_reply("k", value)),
        (b"get k absent k\r\n".to_vec(), {
            let one = get_reply("k", value);
            [&one[..one.len() - 5], &one].concat()
        }),
        (b"set n 7 0 2 noreply\r\n10\r\n".to_vec(), vec![]),
        (b"incr n 5\r\n".to_vec(), b"15\r\n".to_vec()),
        (b"decr n 20\r\n".to_vec(), b"0\r\n".to_vec()),
        (b"append k 0 0 1\r\nx\r\n".to_vec(), b"STORED\r\n".to_vec()),
        (b"touch k 0\r\n".to_vec(), b"TOUCHED\r\n".to_vec()),
        (b"add k 0 0 0\r\n\r\n".to_vec(), b"NOT_STORED\r\n".to_vec()),
        (b"cas absent 0 0 1 9\r\nz\r\n".to_vec(), b"NOT_FOUND\r\n".to_vec()),
        (set_request(&long, b"v"), b"STORED\r\n".to_vec()),
        (format!("get {long}\r\n").into_bytes(), get_reply(&long, b"v")),
        (format!("delete {long}\r\n").into_bytes(), b"DELETED\r\n".to_vec()),
        (b"ms m 3 T0 F9\r\nabc\r\n".to_vec(), b"HD\r\n".to_vec()),
        (b"mg m v f s Oxyz\r\n".to_vec(), b"VA 3 f9 s3 Oxyz\r\nabc\r\n".to_vec()),
        (b"mg Zm9v b k v\r\n".to_vec(), b"EN kZm9v b\r\n".to_vec()),
        (b"ma c N0 J13 v\r\n".to_vec(), b"VA 2\r\n13\r\n".to_vec()),
        (b"md c q\r\nmd m\r\nmn\r\n".to_vec(), b"HD\r\nMN\r\n".to_vec()),
        (b"delete k\r\ndelete n noreply\r\n".to_vec(), b"DELETED\r\n".to_vec()),
        (b"bogus\r\n".to_vec(), b"ERROR\r\n".to_vec()),
        (b"flush_all 1000000\r\nverbosity 1\r\n".to_vec(), b"OK\r\nOK\r\n".to_vec()),
    ]
}

fn whole(conversation: &[(Vec<u8>, Vec<u8>)]) -> (Vec<u8>, Vec<u8>) {
    let (requests, replies): (Vec<_>, Vec<_>) = conversation.iter().cloned().unzip();
    (requests.concat(), replies.concat())
}

#[test]
fn wrong_requests_are_answered_and_the_connection_goes_on() {
    let served = Served::with(&[]);
    let observer = Observer::of(&served);
    let mut client = served.client();
    client.set("kept", "1");
    for (request, reply) in WRONG {
        client.send(request);
        let line = client.line();
        assert_eq!(format!("{line}\r\n"), *reply, "to {request:?}");
        client.still_works();
    }
    // All of them in one write, with right ones between.
    let requests: String = WRONG.iter().map(|(request, _)| format!("{request}mn\r\n")).collect();
    let replies: String = WRONG.iter().map(|(_, reply)| format!("{reply}MN\r\n")).collect();
    client.ask(requests, replies);
    assert_eq!(client.get("kept").as_deref(), Some(&b"1"[..]));
    assert_eq!(client.get("k"), None);
    observer.finish();
    assert_eq!(served.report().net.protocol_kicks, 0);
    served.until_quiet(1);
}

#[test]
fn keys_of_every_length_and_byte() {
    let served = Served::with(&[]);
    let observer = Observer::of(&served);
    let mut client = served.client();
    let too_long = "CLIENT_ERROR bad command line format\r\n";
    for n in [251, 252, 300, 1000, 1900] {
        let key = "x".repeat(n);
        client.ask(format!("get {key}\r\n"), too_long);
        client.ask(format!("get a {key} b\r\n"), too_long);
        client.ask(format!("delete {key}\r\nincr {key} 1\r\ntouch {key} 0\r\n"), too_long.repeat(3));
        client.ask(format!("mg {key} v\r\nmd {key}\r\nma {key}\r\n"), too_long.repeat(3));
        // The value of a store that is refused by its line is taken for a command, as memcached does.
        client.ask(format!("set {key} 0 0 2\r\nmn\r\n"), format!("{too_long}MN\r\n"));
        client.still_works();
    }
    // Control characters and bytes beyond ASCII are key bytes like any other; blanks and line ends are not.
    for byte in (1..=255u8).filter(|b| !b" \n\r".contains(b)) {
        let key = [b"k", &[byte][..], b"k"].concat();
        let set = [b"set ", &key[..], b" 0 0 1\r\n", &[byte], b"\r\n"].concat();
        let get = [b"get ", &key[..], b"\r\n"].concat();
        let reply = [b"VALUE ", &key[..], b" 0 1\r\n", &[byte], b"\r\nEND\r\n"].concat();
        client.ask([set, get].concat(), [b"STORED\r\n", &reply[..]].concat());
    }
    observer.finish();
    served.until_quiet(1);
}

#[test]
fn values_beyond_the_limit_are_swallowed_and_the_connection_goes_on() {
    let served = Served::with(&[("store.max_value", "64k"), ("net.buffer_limit", "1m")]);
    let observer = Observer::of(&served);
    let mut client = served.client();
    let refused = "SERVER_ERROR object too large for cache\r\n";
    client.set("k", "old");
    for len in [(64 << 10) + 1, 1 << 20, 20 << 20] {
        let value = pattern(len as u64, len);
        let mut sender = client.twin();
        let sending = std::thread::spawn(move || {
            sender.send(set_request("k", &value));
            sender.send("mn\r\n");
        });
        client.expect(refused);
        client.expect("MN\r\n");
        sending.join().expect("all of the value was taken");
        assert_eq!(client.get("k"), None, "the old value is no longer what the client thinks it is");
        client.set("k", "new");
        let value = pattern(len as u64, len);
        let head = format!("set k 0 0 {len} noreply\r\n");
        client.send([head.as_bytes(), &value, b"\r\nmn\r\n"].concat());
        client.expect("MN\r\n");
        client.send([format!("ms k {len} q\r\n").as_bytes(), &value, b"\r\nmn\r\n"].concat());
        client.expect(refused);
        client.expect("MN\r\n");
    }
    // A value at the limit is fine, and a lie about the length is found where the value should end.
    let value = pattern(1, 64 << 10);
    client.set("k", &value);
    assert_eq!(client.get("k"), Some(value));
    client.ask("set j 0 0 3\r\nabcde", "CLIENT_ERROR bad data chunk\r\n");
    client.ask("\r\n", "ERROR\r\n");
    assert_eq!(client.get("j"), None);
    observer.finish();
    let report = served.until_quiet(1);
    assert_eq!((report.kv.commands.store_too_large, report.net.buffer_refusals), (9, 0));
}

/// In a store an error says that nothing happened: what was acknowledged stays.
#[test]
fn a_store_keeps_the_old_value_when_a_new_one_is_too_large() {
    let served = Served::with(&[("store.max_value", "64k"), ("store.mode", "store")]);
    let mut client = served.client();
    client.set("k", "old");
    let value = pattern(1, (64 << 10) + 1);
    client.ask(set_request("k", &value), "SERVER_ERROR object too large for cache\r\n");
    assert_eq!(client.get("k"), Some(b"old".to_vec()));
    client
        .send([format!("set k 0 0 {} noreply\r\n", value.len()).as_bytes(), &value, b"\r\nmn\r\n"].concat());
    client.expect("MN\r\n");
    assert_eq!(client.get("k"), Some(b"old".to_vec()));
    client.send([format!("ms k {}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat());
    client.expect("SERVER_ERROR object too large for cache\r\n");
    assert_eq!(client.get("k"), Some(b"old".to_vec()));
    // Announced, begun, and never finished.
    let mut stranger = served.client();
    stranger.ask(format!("set k 0 0 {}\r\nmuch", value.len()), "SERVER_ERROR object too large for cache\r\n");
    drop(stranger);
    assert_eq!(client.get("k"), Some(b"old".to_vec()));
    served.until_quiet(1);
}

#[test]
fn a_lie_about_the_length_costs_its_own_connection_only() {
    let served = Served::with(&[("store.max_value", "1m"), ("net.buffer_limit", "4m")]);
    let observer = Observer::of(&served);
    // Ten clients announce a megabyte each and send a few bytes: no more than the limit is set aside for them.
    let mut liars: Vec<Client> = (0..10).map(|_| served.client()).collect();
    for liar in &mut liars {
        liar.send("set k 0 0 1000000\r\nabc");
    }
    served.until("all announced", |r| r.net.bytes_read >= 10 * 22 && r.net.buffer_refusals >= 6);
    assert!(served.report().buffered_bytes <= 4 << 20);
    let refused = liars.iter_mut().filter_map(|liar| {
        // Those that were refused hear why; the others are still waiting for their value.
        liar.stream.set_nonblocking(true).expect("an open socket");
        let mut byte = [0; 64];
        let answer = std::io::Read::read(&mut liar.stream, &mut byte).ok().map(|n| byte[..n].to_vec());
        liar.stream.set_nonblocking(false).expect("an open socket");
        answer
    });
    let refused: Vec<Vec<u8>> = refused.collect();
    assert!((6..=7).contains(&refused.len()), "{refused:?}");
    assert!(refused.iter().all(|line| line == b"SERVER_ERROR out of memory reading request\r\n"));
    drop(liars);
    observer.finish();
    served.until_quiet(0);
    let mut client = served.client();
    client.set("k", pattern(3, 1_000_000));
}

#[test]
fn binary_garbage_is_an_error_or_a_closed_connection() {
    let served = Served::with(&[("store.max_value", "64k")]);
    let observer = Observer::of(&served);
    for seed in 0..200 {
        let mut random = Prng::new(seed);
        let len = 1 + random.below(6000) as usize;
        let mut garbage: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        match seed % 4 {
            // Few line ends, many, words of the protocol in between.
            0 => garbage.iter_mut().for_each(|b| *b = if *b == b'\n' { b' ' } else { *b }),
            1 => garbage.iter_mut().step_by(7).for_each(|b| *b = b'\n'),
            2 => {
                for (at, word) in (0..len.saturating_sub(8))
                    .step_by(50)
                    .zip([b"get ", b"set ", b"\nms ", b"\nmg "].iter().cycle())
                {
                    garbage[at..at + 4].copy_from_slice(*word);
                }
            }
            _ => {}
        }
        let mut client = served.client();
        // It may be closed before all is sent.
        let _ = std::io::Write::write_all(&mut client.stream, &garbage);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        client.rest();
    }
    observer.finish();
    served.until_quiet(0);
}

#[test]
fn a_foreign_protocol_is_shown_the_door() {
    let served = Served::with(&[]);
    let observer = Observer::of(&served);
    for first in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        b"POST /set HTTP/1.1\r\nContent-Length: 22\r\n\r\nset k 0 0 1\r\nx\r\n",
        // A client's first words in TLS.
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ] {
        let mut client = served.client();
        client.send(first);
        let answer = client.rest();
        assert!(answer.is_empty() || answer == b"ERROR\r\n", "{answer:?}");
    }
    let mut client = served.client();
    assert_eq!(client.get("k"), None, "nothing behind an HTTP request was obeyed");
    observer.finish();
    assert_eq!(served.until_quiet(1).net.protocol_kicks, 3);
}

#[test]
fn a_line_without_end_closes_and_a_retrieval_without_end_is_served() {
    let served = Served::with(&[("net.buffer_limit", "1m")]);
    let observer = Observer::of(&served);
    let mut client = served.client();
    let endless = std::io::Write::write_all(&mut client.stream, &vec![b'a'; 1 << 20]);
    // The rest may meet a closed socket.
    drop(endless);
    assert_eq!(client.line(), "CLIENT_ERROR line too long");
    assert!(client.rest().is_empty());

    // 60,000 keys in one line, of which every third exists.
    let mut client = served.client();
    for i in 0..7 {
        client.set(&format!("key{}", i * 3), pattern(i, 40));
    }
    let mut sender = client.twin();
    const KEYS: usize = 60_000;
    let sending = std::thread::spawn(move || {
        sender.send("gets");
        for chunk in 0..KEYS / 100 {
            let keys: String = (0..100).map(|i| format!(" key{}", (chunk * 100 + i) % 21)).collect();
            sender.send(keys);
        }
        sender.send("\r\nmn\r\n");
    });
    for i in (0..KEYS).filter(|i| (i % 21) % 3 == 0) {
        let line = client.line();
        assert!(line.starts_with(&format!("VALUE key{} 0 40 ", i % 21)), "{i}: {line:?}");
        assert_eq!(client.value_after(&line), pattern((i % 21) as u64 / 3, 40));
    }
    client.expect("END\r\nMN\r\n");
    sending.join().expect("all keys were taken");
    observer.finish();
    let report = served.until_quiet(1);
    assert_eq!(report.net.protocol_kicks, 1);
}

#[test]
fn requests_split_at_every_byte_mean_the_same() {
    let served = Served::with(&[]);
    let observer = Observer::of(&served);
    let conversation = right();
    let mut client = served.client();
    for (request, reply) in &conversation {
        client.ask(request, reply);
        client.still_works();
    }
    let (requests, replies) = whole(&conversation);
    client.ask(&requests, &replies);
    for split in 1..requests.len() {
        let (head, tail) = requests.split_at(split);
        client.send(head);
        client.send(tail);
        client.expect(&replies);
    }
    observer.finish();
    served.until_quiet(1);
}

#[test]
fn one_byte_at_a_time_means_the_same() {
    // Small buffers, so that the edge compacts and grows them often.
    let served = Served::with(&[("edge.read_buffer", "2k"), ("net.pipeline", "1"), ("ring.entries", "16")]);
    let observer = Observer::of(&served);
    let (requests, replies) = whole(&right());
    let mut clients: Vec<Client> = (0..3).map(|_| served.client()).collect();
    // One after the other, since the conversation's keys are shared.
    for client in &mut clients {
        for byte in &requests {
            client.send([*byte]);
        }
        client.expect(&replies);
        client.still_works();
    }
    observer.finish();
    served.until_quiet(3);
}

#[test]
fn truncated_requests_leave_nothing_behind() {
    let served = Served::with(&[]);
    let observer = Observer::of(&served);
    let mut checking = served.client();
    let request = b"set truncated 5 0 8\r\nabcdefgh\r\n";
    for cut in 1..request.len() {
        let mut client = served.client();
        client.send(&request[..cut]);
        match cut % 2 {
            0 => client.end(),
            _ => drop(client.stream.shutdown(std::net::Shutdown::Both)),
        }
        assert!(client.rest().is_empty(), "cut at {cut}");
    }
    assert_eq!(checking.get("truncated"), None, "half a request is no request");
    // Cut in the middle of a pipeline: what is whole is done.
    let mut client = served.client();
    client.send("set whole 0 0 1\r\nx\r\nset truncated 0 0 5\r\nab");
    client.end();
    assert_eq!(client.rest(), b"STORED\r\n");
    assert_eq!(checking.get("whole").as_deref(), Some(&b"x"[..]));
    assert_eq!(checking.get("truncated"), None);
    observer.finish();
    served.until_quiet(1);
}

#[test]
fn a_half_closed_connection_gets_all_its_answers() {
    let served = Served::with(&[("net.pipeline", "3")]);
    let observer = Observer::of(&served);
    let mut client = served.client();
    let value = pattern(9, 200_000);
    client.send(set_request("big", &value));
    client.send("get big\r\n".repeat(20));
    client.end();
    client.expect("STORED\r\n");
    for _ in 0..20 {
        client.expect(get_reply("big", &value));
    }
    assert!(client.rest().is_empty());
    let mut client = served.client();
    client.send("get a\r\nquit\r\nget b\r\n");
    assert_eq!(client.rest(), b"END\r\n", "nothing behind quit is answered");
    observer.finish();
    served.until_quiet(0);
}

/// A pipeline whose every reply is different, so that one missing or out of order is seen.
fn pipeline(n: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    for i in 0..n {
        let key = format!("p{}", i % 100);
        let value = i.to_string();
        match i % 3 {
            0 => {
                requests.extend(set_request(&key, value.as_bytes()));
                replies.extend(b"STORED\r\n");
                requests.extend(format!("get {key}\r\n").bytes());
                replies.extend(get_reply(&key, value.as_bytes()));
            }
            1 => {
                requests.extend(format!("mg absent{i} v k\r\nmn\r\n").bytes());
                replies.extend(format!("EN kabsent{i}\r\nMN\r\n").bytes());
            }
            _ => {
                requests.extend(
                    format!("mg absent s v O{i} q\r\nms {key} 2 q O{i}\r\nab\r\nmd {key} O{i}\r\n").bytes(),
                );
                replies.extend(format!("HD O{i}\r\n").bytes());
            }
        }
    }
    (requests, replies)
}

#[test]
fn a_pipeline_of_a_hundred_thousand_is_answered_in_order() {
    let served = Served::with(&[]);
    let observer = Observer::of(&served);
    let mut client = served.client();
    let (requests, replies) = pipeline(45_000);
    let mut sender = client.twin();
    let sending = std::thread::spawn(move || sender.send(requests));
    client.expect(replies);
    sending.join().expect("all requests were taken");
    client.still_works();
    observer.finish();
    let report = served.until_quiet(1);
    assert!(report.net.requests >= 100_000, "{}", report.net.requests);
    assert_eq!(report.engine.executed, report.net.requests, "each was executed once");
    assert!(report.net.conn_yields > 0, "others had their turn in between");
}

#[test]
fn a_client_that_sends_everything_before_it_reads_blocks_only_itself() {
    let served = Served::with(&[]);
    let observer = Observer::of(&served);
    let mut other = served.client();
    let value = pattern(4, 1000);
    other.set("k", &value);
    let mut client = served.client();
    // As many requests as all the socket buffers on the way take; their replies are a hundred times as long.
    client.stream.set_nonblocking(true).expect("an open socket");
    let request = b"get k\r\n".repeat(1000);
    let mut sent = 0;
    let mut full_rounds = 0;
    // "Full" is when room has not come back while another client was served a hundred times.
    while full_rounds < 100 && sent < 100_000 * 7 {
        match std::io::Write::write(&mut client.stream, &request[sent % request.len()..]) {
            Ok(n) => {
                sent += n;
                full_rounds = 0;
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                other.still_works();
                full_rounds += 1;
            }
            Err(e) => panic!("closed after {sent} bytes: {e}"),
        }
        let report = served.report();
        // One turn's replies and the read buffers.
        assert!(report.buffered_bytes < 1 << 20, "{}", report.buffered_bytes);
    }
    client.stream.set_nonblocking(false).expect("an open socket");
    assert!(sent > 50_000 * 7, "{sent}");
    let reply = get_reply("k", &value);
    let mut sender = client.twin();
    let tail = request[sent % 7..7].to_vec();
    let sending = std::thread::spawn(move || sender.send(if tail.len() < 7 { tail } else { vec![] }));
    for _ in 0..sent.div_ceil(7) {
        client.expect(&reply);
    }
    sending.join().expect("the last request was taken");
    client.still_works();
    observer.finish();
    served.until_quiet(2);
}
