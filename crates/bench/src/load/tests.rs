//! The generator against a small memcached of our own, honest or with one planted fault that the run must find.
//!
//! The server is a few lines of the classic protocol over threads and a map; each fault spoils about one answer in a
//! hundred, as a broken cache would.

use super::args::{BenchArgs, run_number};
use super::bench::{BenchResult, execute};
use super::connection::{Connection, Shared};
use super::counts::Tally;
use super::demo;
use super::dialect::Dialect;
use super::ledger::Ledger;
use super::line::text::Text;
use super::sizes::ValueSizes;
use super::target::{Framing, Target, Transport};
use super::workload::Population;
use clap::Parser;
use protocol::memcache::udp::{self, Frame};
use serve::process::progress;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is wrong with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A byte of a value changes on the way out.
    Corrupt,
    /// The value of another key is given.
    OtherKey,
    /// A set is acknowledged and not done.
    DropsSets,
    /// A delete is acknowledged and not done.
    DropsDeletes,
    /// A value comes with other flags.
    Flags,
    /// A value lacks its last bytes, in a good frame.
    Truncates,
    /// Sets fail with an error; the item is gone then, as in memcached.
    RefusesSets,
    /// A get answers that the key is not there.
    Forgets,
    /// The connection is closed after a thousand requests.
    HangsUp,
    /// Answers that are no protocol.
    Garbage,
    /// Keeps 1000 items: a set of another takes the place of one of them.
    Evicts,
    /// Refuses to keep more than 1000 items.
    Full,
}

type Items = Arc<Mutex<HashMap<String, (String, Vec<u8>, u64)>>>;

/// Starts the server on a free port. Its threads end with the process: tests are short.
fn serve(fault: Fault) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let items: Items = Arc::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let items = Arc::clone(&items);
            std::thread::spawn(move || {
                let _ = answer(&stream, &items, fault);
            });
        }
    });
    address.to_string().parse().expect("an address")
}

fn answer(stream: &TcpStream, items: &Items, fault: Fault) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut out) = (BufReader::new(stream), BufWriter::new(stream));
    let mut requests = 0u64;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        requests += 1;
        // The first requests of a connection are its preload, except where how many items there are is the fault.
        let is_bounded = matches!(fault, Fault::Evicts | Fault::Full);
        let now = is_bounded || requests > 200 && requests.is_multiple_of(101);
        let fault = if now { fault } else { Fault::None };
        if fault == Fault::HangsUp {
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut items = items.lock().expect("no panic under the lock");
        match words[..] {
            ["get" | "gets", ref keys @ ..] => {
                for key in keys {
                    give(&mut out, &items, key, words[0] == "gets", fault)?;
                }
                out.write_all(if fault == Fault::Garbage { b"GARBAGE\r\n" } else { b"END\r\n" })?;
            }
            ["set" | "cas", key, flags, _, len, ref rest @ ..] => {
                let mut data = vec![0; len.parse::<usize>().expect("a length") + 2];
                reader.read_exact(&mut data)?;
                data.truncate(data.len() - 2);
                let unique = rest.first().map(|word| word.parse().expect("a number"));
                let reply = store(&mut items, key, (flags, data), unique, fault);
                out.write_all(reply.as_bytes())?;
            }
            ["delete", key] => {
                let gone = if fault == Fault::DropsDeletes { None } else { items.remove(key) };
                out.write_all(if gone.is_some() { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" })?;
            }
            ["touch", key, _] => {
                out.write_all(if items.contains_key(key) { b"TOUCHED\r\n" } else { b"NOT_FOUND\r\n" })?;
            }
            ["stats"] => write!(
                out,
                "STAT curr_items {0}\r\nSTAT bytes {1}\r\nSTAT hash_bytes 64000\r\nSTAT memory_bytes 1000000\r\nEND\r\n",
                items.len(),
                items.len() * 100
            )?,
            _ => out.write_all(b"ERROR\r\n")?,
        }
        drop(items);
        if reader.buffer().is_empty() {
            out.flush()?;
        }
    }
}

/// Answers a set; or a cas, where the number of the item is `wanted`.
fn store(
    items: &mut HashMap<String, (String, Vec<u8>, u64)>,
    key: &str,
    (flags, data): (&str, Vec<u8>),
    wanted: Option<u64>,
    fault: Fault,
) -> &'static str {
    let now = items.get(key).map_or(0, |item| item.2);
    match (fault, wanted.is_none_or(|wanted| wanted == now)) {
        (Fault::RefusesSets, _) => {
            items.remove(key);
            "SERVER_ERROR out of memory storing object\r\n"
        }
        (Fault::DropsSets, _) => "STORED\r\n",
        (Fault::Full, _) if items.len() >= 1000 && !items.contains_key(key) => {
            "SERVER_ERROR out of memory storing object\r\n"
        }
        (_, false) => "EXISTS\r\n",
        _ => {
            items.insert(key.to_string(), (flags.to_string(), data, now + 1));
            if fault == Fault::Evicts && items.len() > 1000 {
                let other = items.keys().find(|other| *other != key).cloned();
                items.remove(&other.expect("there are more"));
            }
            "STORED\r\n"
        }
    }
}

fn give(
    out: &mut impl Write,
    items: &HashMap<String, (String, Vec<u8>, u64)>,
    key: &str,
    unique: bool,
    fault: Fault,
) -> std::io::Result<()> {
    let source = match fault {
        Fault::OtherKey => items.keys().find(|other| *other != key).map_or(key, String::as_str),
        Fault::Forgets => return Ok(()),
        _ => key,
    };
    let Some((flags, data, number)) = items.get(source) else { return Ok(()) };
    let mut data = data.clone();
    match fault {
        Fault::Corrupt => {
            let at = data.len() / 2;
            data[at] ^= 0x20;
        }
        Fault::Truncates => data.truncate(data.len() - 3),
        _ => {}
    }
    let flags = if fault == Fault::Flags { "99" } else { flags };
    let number = if unique { format!(" {number}") } else { String::new() };
    write!(out, "VALUE {key} {flags} {}{number}\r\n", data.len())?;
    out.write_all(&data)?;
    out.write_all(b"\r\n")
}

#[derive(Parser)]
#[command(args_override_self = true)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
}

/// A short run with a mix of everything.
fn bench(target: &Target, more: &str) -> BenchResult {
    let ops = if more.contains("--vs") { "" } else { "--ops 8k" };
    let line = format!(
        "bench {target} --keys 600 --connections 4 -P 8 {ops} --warmup 0 --json \
         --get 6 --set 2 --delete 1 --touch 1 --modify 1 --insert 0.2 --scan 0.1 --value 1-400 {more}"
    );
    let args = Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{e}")).bench;
    execute(&args, Arc::new(AtomicBool::new(false))).unwrap_or_else(|e| panic!("{e}"))
}

/// Counts of wrong values by kind, of a run against a server with `fault`.
fn wrong(fault: Fault, more: &str) -> Vec<&'static str> {
    let result = bench(&serve(fault), more);
    let summary = result.sides()[0].1.clone();
    assert!(summary.verified > 100, "{} values were checked", summary.verified);
    let kinds: Vec<&str> = summary.wrong.keys().copied().collect();
    assert_eq!(result.verdict().is_err(), !kinds.is_empty());
    kinds
}

#[test]
fn an_honest_server_has_no_wrong_value() {
    for more in ["", "--check strict", "--check strict --multiget 7 -t 2", "--check strict --spin --batch 1"]
    {
        let result = bench(&serve(Fault::None), more);
        let summary = result.sides()[0].1;
        assert!(result.verdict().is_ok(), "{more}: {:?}", summary.examples);
        assert_eq!(summary.failed_count(), 0, "{more}: {:?}", summary.examples);
        assert!(summary.ops > 100 && summary.hits > 0 && summary.kinds.len() == 7, "{more}");
    }
}

#[test]
fn planted_faults_are_found_and_named() {
    assert_eq!(wrong(Fault::Corrupt, ""), ["corrupt"]);
    assert_eq!(wrong(Fault::Truncates, "--value 100"), ["corrupt"]);
    assert_eq!(wrong(Fault::OtherKey, "--value 100 --dist uniform"), ["flags", "other key"][1..]);
    assert_eq!(wrong(Fault::Flags, ""), ["flags"]);
    assert_eq!(wrong(Fault::DropsSets, "--check strict --value 100 --delete 0"), ["stale"]);
    assert!(wrong(Fault::DropsDeletes, "--check strict").contains(&"undead"));
    let forgets = "--check strict --misses-fail";
    assert_eq!(wrong(Fault::Forgets, forgets), ["lost"]);
}

#[test]
fn a_refused_write_is_a_failure_and_no_wrong_value() {
    let result = bench(&serve(Fault::RefusesSets), "--check strict");
    let summary = result.sides()[0].1;
    assert!(summary.failed["server error"] > 0 && summary.wrong.is_empty(), "{summary:?}");
    assert!(result.verdict().is_ok());
}

#[test]
fn a_lost_or_babbling_server_ends_the_run_and_says_so() {
    for (fault, word) in [(Fault::HangsUp, "closed"), (Fault::Garbage, "does not fit")] {
        let result = bench(&serve(fault), "");
        let text = result.verdict().expect_err("the run ended early").to_string();
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn a_silent_server_is_not_waited_for_without_end() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let target = listener.local_addr().expect("bound").to_string();
    let line = format!("bench {target} --no-preload --warmup 0 --timeout 100ms --server-pid 1 --json");
    let args = Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{e}")).bench;
    // The question for the server's process goes unanswered too; its own patience is not under test here.
    let fleet = args.fleet(&args.target, 0, args.keys.first()).expect("a plan");
    let mut fleet = super::fleet::Fleet::launch(&fleet, Arc::new(AtomicBool::new(false))).expect("connected");
    let phase = super::bench::preload_phase(args.value, args.dialect(&args.target));
    let tally = fleet.run(phase, &mut |_| {});
    let cause = tally.fatal.expect("given up");
    assert!(cause.contains("no answer"), "{cause}");
}

#[test]
fn an_open_loop_counts_from_the_intended_start() {
    // Far more than one connection without pipelining can carry here: the schedule falls behind, latencies show it.
    let result =
        bench(&serve(Fault::None), "--rate 1m --arrivals constant -c 1 -P 1 --ops 500 --duration 60s");
    let summary = result.sides()[0].1;
    let lag = summary.send_lag.expect("an open loop has one");
    assert_eq!((summary.ops, lag.count), (500, 500));
    // 500 operations a microsecond apart: the last was due after half a millisecond, and waited for all before it.
    let waited_us = summary.seconds * 1e6 - 500.0;
    assert!(summary.all.max_us > waited_us * 0.9 - 2_000.0, "{:?} in {} s", summary.all, summary.seconds);
}

#[test]
fn two_servers_are_compared_in_turns() {
    let (a, b) = (serve(Fault::None), serve(Fault::None));
    let result = bench(&a, &format!("--vs {b} --pairs 3 --slice 20ms"));
    let super::bench::Outcome::Versus(versus) = &result.outcome else { panic!("a comparison") };
    assert_eq!(versus.pairs.len(), 3);
    assert!(versus.compared.iter().any(|c| c.metric == "throughput"));
    let page = crate::load::pages::bench(&result).html();
    assert!(page.contains("Comparison") && page.ends_with("</html>\n") && !page.contains("NaN"));
    assert!(serde_json::to_string(&result).is_ok());
    assert!(crate::load::pages::bench(&result).text().contains("A / B"));
}

/// A run of `--keys` with a list; what it measured, as many sizes as there are, and how it ends.
fn sizes(target: &Target, more: &str) -> (BenchResult, Vec<u64>, Option<String>) {
    let line = format!("bench {target} -c 2 -P 8 --warmup 10ms --slice 10ms --pairs 3 --json {more}");
    let args = Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{e}")).bench;
    let result = execute(&args, Arc::new(AtomicBool::new(false))).unwrap_or_else(|e| panic!("{e}"));
    let super::bench::Outcome::Scaling(scaling) = &result.outcome else { panic!("several sizes") };
    let measured = scaling.sizes.iter().map(|size| size.keys).collect();
    let end = result.verdict().err().map(|error| error.to_string());
    (result, measured, end)
}

#[test]
fn sizes_follow_each_other_and_the_server_says_its_bytes() {
    let (a, b) = (serve(Fault::None), serve(Fault::None));
    for (more, servers) in [(String::new(), 1), (format!("--vs {b}"), 2)] {
        let (result, measured, end) = sizes(&a, &format!("--keys 100,400,900 {more}"));
        assert_eq!((&measured[..], end), (&[100, 400, 900][..], None));
        let super::bench::Outcome::Scaling(scaling) = &result.outcome else { panic!("several sizes") };
        assert!(scaling.sizes.iter().all(|size| size.servers.len() == servers));
        assert!(scaling.sizes.iter().all(|size| size.compared.is_empty() == (servers == 1)));
        let last = &scaling.sizes[2].servers[servers - 1];
        let memory = last.memory.expect("it says so");
        assert_eq!((memory.items, memory.item_bytes, last.turns.len()), (900, 90_000, 3));
        let page = crate::load::pages::bench(&result);
        let text = page.text();
        assert!(text.contains("171") && text.contains("1.11k"), "64000 / 900 + 100, 1000000 / 900: {text}");
        assert_eq!(text.contains("A / B at keys"), servers == 2, "{text}");
        assert!(
            page.html().contains("over keys")
                && page.drawings().matches("<path class=\"line").count() == 2 * servers
        );
        let json = serde_json::to_value(&result).expect("plain data");
        assert_eq!(json["setup"]["keys"], serde_json::json!([100, 400, 900]));
    }
}

#[test]
fn one_number_of_keys_is_shown_as_ever() {
    let json = serde_json::to_value(bench(&serve(Fault::None), "")).expect("plain data");
    assert_eq!(json["setup"]["keys"], 600);
    assert!(json["outcome"]["single"]["ops"].as_u64() >= Some(8000));
}

#[test]
fn a_server_too_small_for_a_size_is_found_and_the_sizes_before_it_stay() {
    let list = "--keys 500,1k,1200,5k";
    let (result, measured, end) = sizes(&serve(Fault::Evicts), list);
    let end = end.expect("a failure");
    assert_eq!(measured, [500, 1000, 1200], "{end}");
    assert!(
        end.contains("evicted")
            && end.contains("-m")
            && end.contains("1000 items".replace("1000", "1\u{202F}000").as_str()),
        "{end}"
    );
    assert!(crate::load::pages::bench(&result).text().contains("evicted"));
    let (_, measured, end) = sizes(&serve(Fault::Full), list);
    assert_eq!(measured, [500, 1000]);
    assert!(end.expect("a failure").contains("writes of the preload failed"));
    let (_, measured, end) = sizes(&serve(Fault::Evicts), &format!("{list} --delete 1 --get 1"));
    assert_eq!((measured.len(), end), (4, None), "where keys are deleted, misses say nothing");
}

#[test]
fn a_stop_ends_the_run_with_what_was_measured() {
    let target = serve(Fault::None);
    let stop = Arc::new(AtomicBool::new(false));
    let bar = progress::bar(true);
    let raise = Arc::clone(&stop);
    bar.set_message("");
    let ender = std::thread::spawn(move || raise.store(true, Ordering::Relaxed));
    // Meta commands are unknown to the small server; stopped before them, or ended by them, the result is whole.
    let result = demo::drive(&target, Duration::from_secs(60), &bar, stop).unwrap_or_else(|e| panic!("{e}"));
    ender.join().expect("no panic");
    assert!(!result.phases.is_empty() && result.seconds < 30.0);
    assert!(crate::load::tables::demo_text(&result).contains("preload"));
    assert!(crate::load::pages::demo(&result).html().contains("millrace demo"));
    assert_ne!(run_number(0), run_number(1));
}

/// A transport of whole messages: takes one request at a time, two at most before an answer is fetched.
#[derive(Default)]
struct Messages {
    taken: Arc<Mutex<Vec<Vec<u8>>>>,
    waiting: usize,
}

impl Transport for Messages {
    fn send(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.waiting == 2 {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        self.waiting += 1;
        self.taken.lock().expect("one thread").push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn receive(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        self.waiting = self.waiting.checked_sub(1).ok_or(std::io::ErrorKind::WouldBlock)?;
        let answer = b"STORED\r\n";
        room[..answer.len()].copy_from_slice(answer);
        Ok(answer.len())
    }

    fn waitable(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn framing(&self) -> Framing {
        Framing::Messages
    }
}

#[test]
fn a_message_transport_gets_one_request_per_message() {
    let shared = Shared {
        ledger: Ledger::new(1, 1, false),
        population: Population::new(50, 10, 0, true).expect("fits"),
        connections: 1,
        misses_fail: false,
        seed: 1,
    };
    let transport = Messages::default();
    let taken = Arc::clone(&transport.taken);
    let mut connection = Connection::new(0, &shared, Box::new(Text::new(Box::new(transport))));
    let phase = super::bench::preload_phase(ValueSizes::Fixed(100), Dialect::Classic);
    let clock = base::Clock::shared();
    let mut tally = Tally::new(clock.now(), phase.interval);
    connection.begin(&phase, clock.now());
    let mut more = true;
    while more || connection.places() > 0 {
        more = more && connection.refill(&phase, clock, &mut tally);
        connection.flush(&mut tally).expect("open");
        connection.receive(&phase, clock, &mut tally).expect("open");
    }
    let taken = taken.lock().expect("one thread");
    assert_eq!((taken.len(), tally.ops()), (50, 50));
    for (id, message) in taken.iter().enumerate() {
        let head = format!("set mr{id:08} {} 0 100\r\n", super::value::flags_of(id as u64));
        assert!(message.starts_with(head.as_bytes()) && message.len() == head.len() + 102, "{head}");
    }
}

/// A server of gets and sets over UDP that does not hear each seventh datagram; two datagrams for each answer that is long enough.
fn serve_datagrams() -> Target {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut items = HashMap::new();
        let mut room = vec![0; 65_536];
        for count in 1u64.. {
            let Ok((len, from)) = socket.recv_from(&mut room) else { return };
            if count.is_multiple_of(7) {
                continue;
            }
            let (frame, text) = Frame::parse(&room[..len]).expect("a frame");
            let head = text.split(|&b| b == b'\n').next().expect("a line");
            let words = String::from_utf8_lossy(head).trim().to_string();
            let words: Vec<&str> = words.split(' ').collect();
            let mut reply = Vec::new();
            if words[0] == "set" {
                let data = text[head.len() + 1..text.len() - 2].to_vec();
                items.insert(words[1].to_string(), (words[2].to_string(), data, 0));
                reply.extend_from_slice(b"STORED\r\n");
            } else {
                give(&mut reply, &items, words[1], false, Fault::None).expect("memory");
                reply.extend_from_slice(b"END\r\n");
            }
            for (frame, text) in udp::datagrams(frame.request_id, &reply, 200).expect("few") {
                socket.send_to(&[&frame.emit()[..], text].concat(), from).expect("sent");
            }
        }
    });
    Target::Udp(address.to_string())
}

#[test]
fn datagrams_that_are_lost_are_sent_again() {
    let line =
        format!("bench {} --keys 100 -c 2 -P 4 --ops 400 --warmup 0 --json --value 300", serve_datagrams());
    let args = Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{e}")).bench;
    let fleet = args.fleet(&args.target, 0, args.keys.first()).expect("a plan");
    let mut fleet = super::fleet::Fleet::launch(&fleet, Arc::new(AtomicBool::new(false))).expect("a socket");
    let phase = super::bench::preload_phase(args.value, Dialect::Classic);
    let tally = fleet.run(phase, &mut |_| {});
    assert_eq!((tally.ops(), tally.all_failed(), tally.all_wrongs()), (100, 0, 0), "{:?}", tally.examples);
    assert!(tally.counts.sent_again >= 100 / 7 - 1, "{}", tally.counts.sent_again);
    let phase = super::bench::preload_phase(ValueSizes::Fixed(300), Dialect::Classic);
    let job = super::workload::Job::Load {
        workload: args.workload().expect("a workload"),
        length: base::Nanos::from_secs(60),
        ops_each: 200,
    };
    let tally = fleet.run(super::workload::Phase { job, pipeline: 4, batch: 1, ..phase }, &mut |_| {});
    assert_eq!((tally.ops(), tally.all_failed(), tally.all_wrongs()), (400, 0, 0), "{:?}", tally.examples);
    assert!(tally.counts.hits > 300 && tally.counts.misses == 0 && tally.counts.sent_again > 20);
}
