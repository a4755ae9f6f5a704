//! Random conversations, held with Debian's memcached and with a node, or a proxy before a rack of boxes, must read the same.
//!
//! Each conversation is a sequence of requests over a few keys, made by proptest from a seed. After each request both
//! servers' replies are compared byte by byte, after what may differ is made the same: versions (each is replaced by its
//! order of appearance, so that *when* a version changes is compared), seconds, and sizes in `me`. The known differences of
//! `docs/memcached-differences.md` are not generated.
//!
//! `MILLRACE_CONVERSATIONS` sets how many, `MILLRACE_SEED` another seed; a failure prints both and the shortest
//! conversation that still differs.

#[path = "differential/binary.rs"]
mod binary;
#[path = "differential/login.rs"]
mod login;
mod memcached;
mod proxied;
mod served;

use memcached::Memcached;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use proxied::Proxied;
use served::{Client, Served};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Values above this are too large, for both.
const MAX_VALUE: usize = 1 << 20;

/// A request; `$n` in its text is key `n` of the conversation, `$b` its only base64 key, and `$c` the version last seen of key
/// `cas_of`.
#[derive(Clone, Debug)]
struct Request {
    text: String,
    cas_of: Option<usize>,
}

const KEYS: usize = 4;

/// With whom memcached is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum With {
    Node,
    /// What differs through a proxy is not generated: values beyond a datagram, numbers that become shorter when something is added, marks
    /// of stale items and their versions, what is known of accesses.
    Proxy,
}

impl With {
    /// Of these, those that are not only for nodes.
    fn choose<T: Clone>(self, all: &[(T, bool)]) -> Vec<T> {
        let fits = |only_node: bool| self == With::Node || !only_node;
        all.iter().filter(|(_, only_node)| fits(*only_node)).map(|(it, _)| it.clone()).collect()
    }
}

fn plain(text: String) -> Request {
    Request { text, cas_of: None }
}

fn key() -> impl Strategy<Value = usize> {
    0..KEYS
}

fn value(with: With) -> impl Strategy<Value = String> {
    let large = with.choose(&[(u64::MAX, true), (u64::MAX - 5, true), (10_000_000_000, false)]);
    let odd =
        [("0 ", false), ("12 x", false), ("-1", false), ("007", true), ("a\r\nb", false), ("99", false)];
    let long = with.choose(&[(100usize, false), (2000, false), (17_000, true), (50_000, true)]);
    prop_oneof![
        6 => "[a-f]{0,12}",
        3 => (0u64..1000).prop_map(|n| n.to_string()),
        1 => select(large).prop_map(|n| n.to_string()),
        1 => select(with.choose(&odd)).prop_map(String::from),
        1 => select(long).prop_map(|n| "d".repeat(n)),
    ]
}

fn exptime() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("0"), 2 => Just("100"), 1 => Just("5000"), 1 => Just("-1"), 1 => Just("2592001")]
}

fn ttl() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("0"), Just("100"), Just("5000")]
}

fn noreply() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(""), 1 => Just(" noreply")]
}

/// The version to compare with: the last one seen, one that never was, the oldest, none.
fn compare() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("$c"), 1 => Just("999999999"), 1 => Just("1"), 1 => Just("0")]
}

/// What is appended or prepended: digits could make a number with leading zeros.
fn joined(with: With, value: String) -> String {
    if with == With::Proxy && value.bytes().all(|b| b.is_ascii_digit()) {
        value.replace(|_| true, "g")
    } else {
        value
    }
}

fn delta(with: With) -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..200, 1 => select(with.choose(&[(u64::MAX, true), (1 << 40, false)]))]
}

fn classic(with: With) -> impl Strategy<Value = Request> {
    let store = ("(set|add|replace|append|prepend)", key(), 0u32..9, exptime(), value(with), noreply())
        .prop_map(move |(verb, key, flags, exptime, value, noreply)| {
            let value = if verb.ends_with("pend") { joined(with, value) } else { value };
            plain(format!("{verb} ${key} {flags} {exptime} {}{noreply}\r\n{value}\r\n", value.len()))
        });
    let cas = (key(), compare(), exptime(), value(with), noreply()).prop_map(
        |(key, cas, exptime, value, noreply)| {
            let text = format!("cas ${key} 3 {exptime} {} {cas}{noreply}\r\n{value}\r\n", value.len());
            Request { text, cas_of: Some(key) }
        },
    );
    let get = ("(get|gets)", proptest::collection::vec(key(), 1..5)).prop_map(|(verb, keys)| {
        let keys: String = keys.iter().map(|key| format!(" ${key}")).collect();
        plain(format!("{verb}{keys}\r\n"))
    });
    let gat = ("(gat|gats)", exptime(), proptest::collection::vec(key(), 1..3)).prop_map(
        |(verb, exptime, keys)| {
            let keys: String = keys.iter().map(|key| format!(" ${key}")).collect();
            plain(format!("{verb} {exptime}{keys}\r\n"))
        },
    );
    let arith = ("(incr|decr)", key(), delta(with), noreply())
        .prop_map(|(verb, key, delta, noreply)| plain(format!("{verb} ${key} {delta}{noreply}\r\n")));
    let touch = (key(), exptime(), noreply())
        .prop_map(|(key, exptime, noreply)| plain(format!("touch ${key} {exptime}{noreply}\r\n")));
    let delete = (key(), noreply()).prop_map(|(key, noreply)| plain(format!("delete ${key}{noreply}\r\n")));
    let flush = prop_oneof![Just("flush_all\r\n"), Just("flush_all noreply\r\n"), Just("flush_all 0\r\n")]
        .prop_map(|text| plain(text.to_string()));
    let too_large = (key(), "(set|add|append)").prop_map(|(key, verb)| {
        plain(format!("{verb} ${key} 0 0 {}\r\n{}\r\n", 2 * MAX_VALUE, "e".repeat(2 * MAX_VALUE)))
    });
    prop_oneof![
        60 => store, 20 => cas, 40 => get, 15 => gat, 30 => arith, 10 => touch, 15 => delete, 3 => flush, 1 => too_large,
    ]
}

/// Each flag at most once, in random order.
fn flags(of: Vec<BoxedStrategy<String>>) -> impl Strategy<Value = String> {
    let n = of.len();
    (of, proptest::sample::subsequence((0..n).collect::<Vec<_>>(), 0..=n.min(7)).prop_shuffle())
        .prop_map(|(flags, chosen)| chosen.iter().map(|&i| format!(" {}", flags[i])).collect())
}

fn letters(letters: &str) -> Vec<BoxedStrategy<String>> {
    letters.chars().map(|letter| Just(letter.to_string()).boxed()).collect()
}

fn flag(letter: &'static str, of: impl Strategy<Value = &'static str> + 'static) -> BoxedStrategy<String> {
    of.prop_map(move |value| format!("{letter}{value}")).boxed()
}

/// A plain key, or the one that is always written in base64.
fn meta_key() -> impl Strategy<Value = (Option<usize>, String)> {
    prop_oneof![
        5 => key().prop_map(|key| (Some(key), format!("${key}"))),
        1 => Just((None, "$b".to_string())),
    ]
}

fn meta_request(
    verb: &str,
    (cas_of, key): (Option<usize>, String),
    flags: String,
    value: Option<String>,
) -> Request {
    let binary = if cas_of.is_none() { " b" } else { "" };
    // Only plain keys have a version to refer to.
    let flags = if cas_of.is_none() { flags.replace("C$c", "C999999999") } else { flags };
    let has = |letter: char| flags.split(' ').any(|flag| flag.starts_with(letter));
    // Two known differences: a rewritten item forgets that its key is binary; t between N and T.
    let reads = matches!(verb, "mg" | "ma");
    let dropped = |flag: &str| match flag {
        "k" => reads && !binary.is_empty(),
        "t" => has('N') && has('T'),
        _ => false,
    };
    let flags: String =
        flags.split(' ').skip(1).filter(|flag| !dropped(flag)).map(|flag| format!(" {flag}")).collect();
    let text = match value {
        Some(value) => format!("{verb} {key} {}{binary}{flags}\r\n{value}\r\n", value.len()),
        None => format!("{verb} {key}{binary}{flags}\r\n"),
    };
    Request { text, cas_of }
}

fn meta(with: With) -> impl Strategy<Value = Request> {
    let opaque = || Just("Oabc".to_string()).boxed();
    let recache = prop_oneof![Just("30"), Just("1000"), Just("9000")];
    let only_node = |flags: Vec<BoxedStrategy<String>>| if with == With::Node { flags } else { Vec::new() };
    let get = flags(
        [
            letters("cfkqstuv"),
            only_node([letters("hl"), vec![flag("R", recache)]].concat()),
            vec![opaque(), flag("N", ttl()), flag("T", ttl())],
        ]
        .concat(),
    );
    let get = (meta_key(), get).prop_map(|(key, flags)| meta_request("mg", key, flags, None)).boxed();
    let mode = prop_oneof![3 => Just("S"), 1 => Just("E"), 1 => Just("A"), 1 => Just("P"), 1 => Just("R")];
    let client_flags = prop_oneof![Just("0"), Just("7")];
    let set = flags(
        [
            letters("ckq"),
            only_node(letters("I")),
            vec![opaque(), flag("T", ttl()), flag("F", client_flags), flag("M", mode), flag("C", compare())],
        ]
        .concat(),
    );
    let set = (meta_key(), set, value(with))
        .prop_map(move |(key, flags, value)| {
            let joins = flags.contains("MA") || flags.contains("MP");
            let value = if joins { joined(with, value) } else { value };
            meta_request("ms", key, flags, Some(value))
        })
        // Making an item on a miss is of later versions.
        .boxed();
    let of_delete =
        [letters("kq"), only_node(letters("I")), vec![opaque(), flag("T", ttl()), flag("C", compare())]];
    let delete = flags(of_delete.concat());
    let delete = (meta_key(), delete).prop_map(|(key, flags)| meta_request("md", key, flags, None));
    let mode = prop_oneof![Just("I"), Just("D"), Just("+"), Just("-")];
    let numbers = with.choose(&[("0", false), ("1", false), ("25", false), ("18446744073709551615", true)]);
    let number = || select(numbers.clone());
    let arith = flags(
        [
            letters("cktqv"),
            vec![opaque(), flag("N", ttl()), flag("M", mode), flag("C", compare())],
            vec![flag("J", number()), flag("D", number())],
        ]
        .concat(),
    );
    let arith = (meta_key(), arith).prop_map(|(key, flags)| meta_request("ma", key, flags, None));
    let debug = key().prop_map(|key| plain(format!("me ${key}\r\n")));
    let debug = if with == With::Node { debug.boxed() } else { get.clone().boxed() };
    prop_oneof![40 => get, 30 => set, 15 => delete, 25 => arith, 4 => debug]
}

fn conversation(with: With) -> impl Strategy<Value = Vec<Request>> {
    proptest::collection::vec(prop_oneof![classic(with).boxed(), meta(with).boxed()], 1..80)
}

/// One server's side of a conversation.
struct Side<'a> {
    client: &'a mut Client,
    /// Versions in order of appearance.
    versions: HashMap<String, usize>,
    /// The version last seen of each key.
    last: [Option<String>; KEYS],
}

impl<'a> Side<'a> {
    fn new(client: &'a mut Client) -> Side<'a> {
        Side { client, versions: HashMap::new(), last: [const { None }; KEYS] }
    }

    /// Sends `request` and returns the reply, with versions and times made comparable.
    fn ask(&mut self, request: &Request, run: u64) -> String {
        let mut text = request.text.clone();
        if let Some(key) = request.cas_of {
            let version = self.last[key].as_deref().unwrap_or("999999999");
            text = text.replace("$c", version);
        }
        for key in 0..KEYS {
            text = text.replace(&format!("${key}"), &key_name(key, run));
        }
        text = text.replace("$b", &base64_key(run));
        self.client.send(format!("{text}mn\r\n"));
        let mut shown = String::new();
        loop {
            let line = self.client.line();
            if line == "MN" {
                return shown;
            }
            shown.push_str(&self.comparable(&line, request, run));
            shown.push('\n');
        }
    }

    fn comparable(&mut self, line: &str, request: &Request, run: u64) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["VALUE", key, flags, len, cas] => {
                let known = (0..KEYS).find(|&k| key_name(k, run) == key);
                format!("VALUE {key} {flags} {len} {}", self.version(cas, known))
            }
            ["ME", key, ref rest @ ..] => {
                let told = rest.iter().filter(|word| word.starts_with("fetch=") || word.starts_with("exp="));
                let told = told.map(|word| match word.strip_prefix("exp=") {
                    Some(seconds) => about(seconds),
                    None => word.to_string(),
                });
                format!("ME {key} {}", told.collect::<Vec<_>>().join(" "))
            }
            ["VA" | "HD" | "EN" | "NS" | "EX" | "NF", ..] => {
                let key = request.cas_of;
                let shown = words.iter().map(|word| match (word.as_bytes()[..].first(), word.get(1..)) {
                    (Some(b'c'), Some(cas)) => format!("c{}", self.version(cas, key)),
                    (Some(b't'), Some(seconds)) => format!("t{}", about(seconds)),
                    (Some(b'l'), Some(seconds)) => format!("l{}", about(seconds)),
                    _ => word.to_string(),
                });
                shown.collect::<Vec<_>>().join(" ")
            }
            _ => line.to_string(),
        }
    }

    fn version(&mut self, cas: &str, key: Option<usize>) -> String {
        if let Some(key) = key {
            self.last[key] = Some(cas.to_string());
        }
        let next = self.versions.len();
        // 0 is what a set answers before it has one.
        if cas == "0" {
            "zero".into()
        } else {
            format!("#{}", self.versions.entry(cas.to_string()).or_insert(next))
        }
    }
}

/// Seconds, give or take what passes while both are asked.
fn about(seconds: &str) -> String {
    match seconds.trim_start_matches('-').parse::<u64>() {
        Ok(n) => format!("~{}", (n + 30) / 60),
        Err(_) => seconds.to_string(),
    }
}

fn key_name(key: usize, run: u64) -> String {
    format!("key{key}.{run}")
}

/// The binary key of a conversation, in base64: always twelve bytes, so that no padding is needed.
fn base64_key(run: u64) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes = format!("\0 b{run:09}").into_bytes();
    let digits = bytes.chunks(3).flat_map(|three| {
        let bits = three.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte));
        (0..4).rev().map(move |i| DIGITS[(bits >> (6 * i)) as usize & 63] as char)
    });
    digits.collect()
}

fn shown(text: &str) -> String {
    let cut: String = text.chars().take(300).collect();
    cut.escape_debug().to_string()
}

#[test]
fn random_conversations_read_the_same() {
    // Large enough that no value here is one that millrace keeps outside its log.
    let served = Served::with(&[("edge.threads", "2"), ("store.memory", "256m")]);
    if hold(With::Node, served.client(), 400) {
        served.still_sound();
    }
}

#[test]
fn random_conversations_read_the_same_through_the_proxy() {
    let proxied = Proxied::behind_three_boxes();
    if hold(With::Proxy, proxied.client(), 100) {
        proxied.end_with_all_boxes_used();
    }
}

/// memcached looks for a minus sign behind a number of 2^63 and more, in whatever lies behind the value in memory up to a zero byte
/// (`safe_strtoull`): sometimes it finds one, and the number is none. What is left then differs for good reason.
fn is_beyond_its_value(theirs: &mut Side, request: &Request, wanted: &str, run: u64) -> bool {
    let mut words = request.text.split_whitespace();
    let (Some(command), Some(key), true) = (words.next(), words.next(), wanted.contains("non-numeric value"))
    else {
        return false;
    };
    let base64 = if key == "$b" { " b" } else { "" };
    let value = theirs.ask(&plain(format!("mg {key}{base64} v\r\n")), run);
    let number = value.lines().nth(1).and_then(|number| number.parse::<u64>().ok());
    ["incr", "decr", "ma"].contains(&command) && number.is_some_and(|number| number >= 1 << 63)
}

/// Who draws conversations, how many, and from which seed.
struct Drawn {
    runner: TestRunner,
    cases: u64,
    seed: u64,
}

impl Drawn {
    /// So many, unless the environment says how many; a failing one is made smaller in so many steps at most.
    fn of(cases: u64, max_shrink_iters: u32) -> Drawn {
        let number = |name: &str| std::env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
        let cases = number("MILLRACE_CONVERSATIONS").unwrap_or(cases);
        let seed = number("MILLRACE_SEED").unwrap_or(1);
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config = Config {
            cases: u32::try_from(cases).expect("not that many"),
            failure_persistence: None,
            max_shrink_iters,
            ..Config::default()
        };
        let runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
        Drawn { runner, cases, seed }
    }
}

/// Holds so many conversations, unless the environment says how many. False where there is no memcached to hold them with.
fn hold(with: With, ours: Client, cases: u64) -> bool {
    // Its threads that tidy up take references to items, and an item with one more reference is replaced by incr where it would
    // have been written in place.
    let Some(memcached) = Memcached::start(&["-o", "no_lru_crawler,no_lru_maintainer"]) else { return false };
    let Drawn { mut runner, cases, seed } = Drawn::of(cases, 10_000);
    let (mut theirs, mut ours) = (memcached.client(), ours);
    // Conversations compare with version 1, which must not be in use.
    for client in [&mut theirs, &mut ours] {
        (0..10).for_each(|i| client.set(&format!("first{i}"), "x"));
    }
    let (theirs, ours) = (std::cell::RefCell::new(theirs), std::cell::RefCell::new(ours));
    let runs = AtomicU64::new(0);
    let outcome = runner.run(&conversation(with), |requests| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        let (mut theirs, mut ours) = (theirs.borrow_mut(), ours.borrow_mut());
        let (mut theirs, mut ours) = (Side::new(&mut theirs), Side::new(&mut ours));
        for request in &requests {
            let (wanted, got) = (theirs.ask(request, run), ours.ask(request, run));
            if wanted != got && is_beyond_its_value(&mut theirs, request, &wanted, run) {
                return Ok(());
            }
            if wanted != got {
                return Err(TestCaseError::fail(format!(
                    "{:?}\n  memcached: {}\n  millrace:  {}",
                    shown(&request.text),
                    shown(&wanted),
                    shown(&got)
                )));
            }
        }
        // What is left under each key is the same too.
        for text in (0..KEYS).map(|key| format!("mg ${key} v f t\r\n")) {
            let (wanted, got) = (theirs.ask(&plain(text.clone()), run), ours.ask(&plain(text), run));
            prop_assert_eq!(wanted, got, "left at the end");
        }
        Ok(())
    });
    match outcome {
        Ok(()) => true,
        Err(TestError::Fail(why, requests)) => {
            let lines: Vec<String> = requests.iter().map(|request| shown(&request.text)).collect();
            panic!(
                "MILLRACE_SEED={seed} MILLRACE_CONVERSATIONS={cases}\n{why}\nafter\n  {}",
                lines.join("\n  ")
            );
        }
        Err(e) => panic!("{e}"),
    }
}
