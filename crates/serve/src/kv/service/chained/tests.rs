//! Commands over a chain that is a map, against commands on a store: the same conversation says the same, whatever the order in which transactions are done.

mod packets;

use super::map::Map;
use super::{Answer, Chained, Said};
use crate::kv::config::Config;
use crate::kv::registers::Id;
use base::Prng;
use proptest::prelude::*;
use protocol::chain::Transaction;
use protocol::chain::transaction::Change;
use protocol::memcache::{Command, Parser, Step};
use protocol::planted::NoBugs;
use std::collections::HashMap;

type Machine = Chained<usize>;

/// A machine over a chain, or a store alone.
struct Rig {
    machine: Machine,
    map: Map,
    replies: HashMap<usize, String>,
    asked: usize,
    is_chained: bool,
}

fn machine() -> Machine {
    let config = Config::default();
    config.registers.write(Id::StoreMaxValue, 1 << 16).expect("a size");
    Chained::with_bugs(&config, NoBugs).expect("a scratch store")
}

/// Commands in a text that lives as long as the test.
fn commands(text: &str) -> Vec<Command<'static>> {
    let mut rest: &'static [u8] = Box::leak(text.as_bytes().to_vec().into_boxed_slice());
    let mut parser = Parser::new(1 << 16);
    let mut all = Vec::new();
    while !rest.is_empty() {
        let Step::Command { command, consumed } = parser.next(rest) else { panic!("{text:?}") };
        all.push(command);
        rest = &rest[consumed..];
    }
    all
}

impl Rig {
    fn new(is_chained: bool) -> Rig {
        let mut machine = machine();
        machine.set_now(1_000_000);
        Rig { machine, map: Map::default(), replies: HashMap::new(), asked: 0, is_chained }
    }

    fn ask(&mut self, command: &Command<'static>) {
        let hash = key_of(command).map_or(0, |key| self.machine.hash(key));
        match self.is_chained {
            true => self.machine.ask(command, hash, self.asked),
            false => {
                let said = Said::Reply(self.machine.commands.say_unlogged(command, hash));
                self.replies.insert(self.asked, text_of(said));
            }
        }
        self.asked += 1;
    }

    /// Does what is under way, in an order from `prng`, until nothing is.
    fn settle(&mut self, prng: &mut Prng) {
        let mut under_way = self.machine.leaving();
        while !under_way.is_empty() {
            let (number, transaction) = under_way.swap_remove(prng.below(under_way.len() as u64) as usize);
            let outcome = self.map.execute(&transaction);
            self.machine.hear(number, Answer::Done(outcome));
            under_way.append(&mut self.machine.leaving());
        }
        let said = self.machine.said();
        self.replies.extend(said.into_iter().map(|told| (told.whose, text_of(told.said))));
        if self.is_chained {
            assert_eq!(
                (self.replies.len(), self.machine.waiting()),
                (self.asked, 0),
                "each is answered once"
            );
        }
    }

    fn says(&mut self, text: &str, wanted: &str) {
        let first = self.asked;
        commands(text).iter().for_each(|command| self.ask(command));
        self.settle(&mut Prng::new(1));
        let said: String = (first..self.asked).map(|at| self.replies[&at].clone()).collect();
        assert_eq!(said, wanted, "{text:?}");
    }
}

/// A version is a word that begins with a c.
fn text_of(said: Said) -> String {
    match said {
        Said::Reply(reply) => String::from_utf8(reply.into_bytes()).expect("text"),
        Said::Found(None) => "nothing".to_owned(),
        Said::Found(Some(item)) => {
            let (value, version) = (String::from_utf8(item.value).expect("text"), item.version.0);
            format!("item c{version} {} {:?} {} \r\n{value}", item.flags, item.kind, item.end.0)
        }
        Said::Answer(answer) => format!("{:?} c{} {} ", answer.status, answer.version.0, answer.number),
        Said::Nothing => "not done".to_owned(),
    }
}

fn key_of<'k>(command: &'k Command<'k>) -> Option<&'k [u8]> {
    Some(match command {
        Command::Get(get) => get.key,
        Command::Store(store) => store.key,
        Command::Delete { key, .. } | Command::Arith { key, .. } | Command::Touch { key, .. } => key,
        Command::MetaGet(get) => get.meta.key_text,
        Command::MetaSet(set) => set.meta.key_text,
        Command::MetaDelete(delete) => delete.meta.key_text,
        Command::MetaArith(arith) => arith.meta.key_text,
        _ => return None,
    })
}

/// The version is the transaction's, what a transaction wrote is an item of flags 0, and what it left of another is of no value.
#[test]
fn transactions_and_commands_act_on_the_same_items() {
    let mut rig = Rig::new(true);
    rig.says("set k 7 5000 1\r\nx\r\n", "STORED\r\n");
    rig.says("gets k\r\n", "VALUE k 7 1 1\r\nx\r\nEND\r\n");
    let put = |key: &str, value: &str| Transaction {
        writes: vec![(key.into(), Change::Put(value.into()))],
        ..Transaction::default()
    };
    rig.map.execute(&put("k", "other"));
    rig.says("mg k c f t v\r\n", "VA 5 c2 f0 t-1\r\nother\r\n");
    rig.says("cas k 3 0 1 1\r\ny\r\ncas k 3 0 1 2\r\ny\r\n", "EXISTS\r\nSTORED\r\n");
    assert_eq!(rig.map.items()[&b"k"[..]], (3, b"y".to_vec()));
    // A touch is no new version, and of this value alone.
    rig.says("touch k 100\r\nmg k c f t\r\n", "TOUCHED\r\nHD c3 f3 t100\r\n");
    rig.map.execute(&put("k", "z"));
    rig.says("mg k c f t v\r\n", "VA 1 c5 f0 t-1\r\nz\r\n");
    rig.says(
        "ms n 1 c T0 F1\r\n9\r\nma n c v\r\nmd n I\r\nmg n s v c\r\n",
        "HD c6\r\nVA 2 c7\r\n10\r\nHD\r\nVA 2 s2 c8 X W\r\n10\r\n",
    );
    rig.says("mg n v\r\n", "VA 2 Z X\r\n10\r\n");
}

#[test]
fn what_expired_is_removed_and_can_be_added_again() {
    let mut rig = Rig::new(true);
    rig.says("set k 1 10 1\r\nx\r\nadd k 1 10 1\r\ny\r\n", "STORED\r\nNOT_STORED\r\n");
    rig.machine.set_now(1_000_011);
    rig.says("get k\r\n", "END\r\n");
    assert!(rig.map.items().is_empty(), "{:?}", rig.map.items());
    assert_eq!(rig.machine.counters().removed, 1);
    rig.says(
        "add k 1 10 1\r\ny\r\nget k\r\nset k 1 -1 1\r\nz\r\nget k\r\n",
        "STORED\r\nVALUE k 1 1\r\ny\r\nEND\r\nSTORED\r\nEND\r\n",
    );
}

/// What came before a flush is gone, whoever wrote it; what is made of what was there before a flush that came between is gone, too.
#[test]
fn a_flush_takes_all_that_was_before_it() {
    let mut rig = Rig::new(true);
    let put = |key: &str| Transaction {
        writes: vec![(key.into(), Change::Put("1".into()))],
        ..Transaction::default()
    };
    rig.map.execute(&put("t"));
    rig.says(
        "set k 0 0 1\r\n1\r\nincr t 1\r\nflush_all\r\nget k t\r\nset k 0 0 1\r\n2\r\nget k\r\n",
        "STORED\r\n2\r\nOK\r\nEND\r\nSTORED\r\nVALUE k 0 1\r\n2\r\nEND\r\n",
    );
    rig.says(
        "flush_all 10\r\nflush_all noreply\r\nadd t 0 0 1\r\n5\r\n",
        "CLIENT_ERROR flush_all with a delay is not possible here\r\nSTORED\r\n",
    );
    // Another server flushes between read and write.
    rig.asked += 1;
    rig.machine.ask(&commands("incr t 1\r\n")[0], rig.machine.hash(b"t"), rig.asked - 1);
    let [(number, read)] = &rig.machine.leaving()[..] else { panic!("one reads") };
    let seen = rig.map.execute(read);
    rig.map.execute(&Transaction { writes: vec![(vec![0], Change::Put(vec![]))], ..Transaction::default() });
    rig.machine.hear(*number, Answer::Done(seen));
    rig.settle(&mut Prng::new(1));
    rig.says("get t\r\n", "END\r\n");
}

#[test]
fn what_cannot_be_is_refused() {
    let mut rig = Rig::new(true);
    rig.says("ms k 1 E5\r\nx\r\n", "CLIENT_ERROR versions (E) are given by the chain here\r\n");
    rig.asked += 1;
    let command = commands("mg AGs= b v\r\n")[0];
    rig.machine.ask(&command, 0, rig.asked - 1);
    rig.settle(&mut Prng::new(1));
    assert_eq!(rig.replies[&1], "CLIENT_ERROR keys that begin with a zero byte are not possible here\r\n");
    rig.machine.commands.registers.write(Id::ChainedQueue, 1).expect("a number");
    commands("set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\n").iter().for_each(|command| rig.ask(command));
    rig.settle(&mut Prng::new(1));
    assert_eq!((&rig.replies[&2][..], &rig.replies[&3][..]), ("STORED\r\n", "SERVER_ERROR busy\r\n"));
}

#[test]
fn without_an_answer_all_who_wait_are_told_and_nothing_is_tried_again() {
    let mut rig = Rig::new(true);
    commands("incr k 1\r\nget k\r\nset k 0 0 1\r\nx\r\nget l\r\n")
        .iter()
        .for_each(|command| rig.ask(command));
    let under_way = rig.machine.leaving();
    assert_eq!(under_way.len(), 2, "one for each key");
    under_way.iter().for_each(|(number, _)| rig.machine.hear(*number, Answer::NotDone));
    rig.settle(&mut Prng::new(1));
    let unanswered = "SERVER_ERROR nobody answered; it was not done\r\n";
    assert!([0, 2].iter().all(|at| rig.replies[at] == unanswered), "{:?}", rig.replies);
    assert_eq!(rig.replies[&3], "SERVER_ERROR nobody answered; it was not done\r\nEND\r\n");
    commands("set k 0 0 1\r\nx\r\nget k\r\n").iter().for_each(|command| rig.ask(command));
    let [(number, _)] = &rig.machine.leaving()[..] else { panic!("a write") };
    rig.machine.hear(*number, Answer::Unknown);
    let [(number, read)] = &rig.machine.leaving()[..] else { panic!("the next is read for") };
    assert!(read.only_reads());
    let seen = rig.map.execute(read);
    rig.machine.hear(*number, Answer::Done(seen));
    rig.settle(&mut Prng::new(1));
    assert_eq!(rig.replies[&4], "SERVER_ERROR nobody answered; it may have been done\r\n");
    assert_eq!(rig.replies[&5], "END\r\n");
    assert_eq!((rig.machine.counters().unanswered, rig.machine.counters().unknown), (4, 1));
}

#[test]
fn whoever_meets_others_each_time_is_told_in_the_end() {
    let mut rig = Rig::new(true);
    rig.says("set k 0 0 1\r\n1\r\n", "STORED\r\n");
    commands("incr k 1\r\n").iter().for_each(|command| rig.ask(command));
    let mut tries = 0;
    while let Some((number, transaction)) = rig.machine.leaving().pop() {
        let outcome = rig.map.execute(&transaction);
        rig.machine.hear(number, Answer::Done(outcome));
        let writes = vec![(b"k".to_vec(), Change::Put(b"5".to_vec()))];
        rig.map.execute(&Transaction { writes, ..Transaction::default() });
        tries += 1;
    }
    rig.settle(&mut Prng::new(1));
    assert_eq!(tries, 2 * super::ATTEMPTS);
    assert_eq!(rig.replies[&1], "SERVER_ERROR others changed the item each time; it was not done\r\n");
    assert_eq!(rig.machine.counters().conflicts, u64::from(super::ATTEMPTS));
}

/// One command of a conversation, for a key of three; `$c` is the version that was last seen of it.
fn request() -> impl Strategy<Value = String> {
    let ttl = || prop_oneof![3 => Just("0"), 2 => Just("100"), 1 => Just("-1")];
    let value = || prop_oneof![2 => (0u32..200).prop_map(|n| n.to_string()), 2 => "[a-f]{0,6}", 1 => Just("d".repeat(20_000))];
    let key = || (0..3usize).prop_map(|key| format!("k{key}"));
    let verb = prop_oneof![3 => Just("set"), 1 => Just("add"), 1 => Just("replace"), 1 => Just("append"), 1 => Just("prepend")];
    let store = (verb, key(), 0u32..9, ttl(), value()).prop_map(|(verb, key, flags, ttl, value)| {
        format!("{verb} {key} {flags} {ttl} {}\r\n{value}\r\n", value.len())
    });
    let cas = (key(), value(), any::<bool>()).prop_map(|(key, value, is_fit)| {
        let version = if is_fit { format!("${key}$") } else { "999999".to_owned() };
        format!("cas {key} 1 0 {} {version}\r\n{value}\r\n", value.len())
    });
    let flags = |all: &'static [&'static str]| {
        proptest::sample::subsequence(all, 0..=all.len().min(3)).prop_map(|flags| flags.join(" "))
    };
    let set_flags = |mode: &'static str| {
        let flags = proptest::sample::subsequence(vec!["T90", "F3", "c", "I", "N60", "s"], 0..=3);
        flags.prop_map(move |flags| [&[mode], &flags[..]].concat().join(" "))
    };
    let meta_get = (key(), flags(&["v", "c", "f", "s", "t", "k", "q", "T50", "N30", "R40", "O7"]))
        .prop_map(|(key, flags)| format!("mg {key} {flags}\r\n"));
    let meta_set = (
        key(),
        prop_oneof![set_flags("MA"), set_flags("MP"), set_flags("ME"), set_flags("k")],
        value(),
        any::<bool>(),
    )
        .prop_map(|(key, flags, value, compares)| {
            let compare = if compares { format!(" C${key}$") } else { String::new() };
            format!("ms {key} {} {flags}{compare}\r\n{value}\r\n", value.len())
        });
    let meta_delete =
        (key(), flags(&["I", "T30", "x", "q", "k"])).prop_map(|(key, flags)| format!("md {key} {flags}\r\n"));
    let meta_arith = (key(), flags(&["N0", "J13", "D2", "T60", "v", "t", "c", "MD"]))
        .prop_map(|(key, flags)| format!("ma {key} {flags}\r\n"));
    prop_oneof![
        4 => store,
        2 => cas,
        3 => meta_get,
        3 => meta_set,
        1 => meta_delete,
        2 => meta_arith,
        2 => key().prop_map(|key| format!("gets {key}\r\n")),
        1 => (key(), ttl()).prop_map(|(key, ttl)| format!("gats {ttl} {key}\r\n")),
        1 => (key(), ttl()).prop_map(|(key, ttl)| format!("touch {key} {ttl}\r\n")),
        1 => key().prop_map(|key| format!("delete {key}\r\n")),
        1 => (key(), any::<bool>()).prop_map(|(key, up)| format!("{} {key} 3\r\n", if up { "incr" } else { "decr" })),
        1 => Just("flush_all\r\n".to_owned()),
        1 => Just("+60".to_owned()),
    ]
}

/// Replaces versions by how many were seen before, so that *when* one changes is compared. Both kinds give them in the order of writes.
fn masked(reply: &str, seen: &mut Vec<u64>) -> (String, Option<u64>) {
    let mut version = None;
    let mut masked = String::new();
    for (line, text) in reply.split_inclusive("\r\n").enumerate() {
        if line > 0 {
            masked.push_str(text);
            continue;
        }
        let is_hit = text.starts_with("VALUE ");
        for (at, word) in text.trim_end().split(' ').enumerate() {
            let number = match word.strip_prefix('c') {
                Some(number) if !is_hit => number.parse().ok(),
                _ if is_hit && at == 4 => word.parse().ok(),
                _ => None,
            };
            match number {
                None => masked.push_str(word),
                Some(number) => {
                    version = Some(number);
                    let place = seen.iter().position(|seen| *seen == number).unwrap_or_else(|| {
                        seen.push(number);
                        seen.len() - 1
                    });
                    masked.push_str(&format!("v{place}"));
                }
            }
            masked.push(' ');
        }
    }
    (masked, version)
}

/// One after the other: what is compared may depend on versions that were seen.
fn converse(rig: &mut Rig, requests: &[String], prng: &mut Prng) -> Vec<String> {
    let (mut seen, mut last, mut now) = (Vec::new(), HashMap::new(), 1_000_000);
    let mut all = Vec::new();
    for request in requests {
        if request.starts_with('+') {
            now += 60;
            rig.machine.set_now(now);
            continue;
        }
        let mut text = request.clone();
        for key in ["k0", "k1", "k2"] {
            let version = last.get(key).copied().unwrap_or(1u64 << 40);
            text = text.replace(&format!("${key}$"), &version.to_string());
        }
        match text.strip_prefix('!') {
            Some(packet) => rig.ask_by_packet(&packets::parse(packet)),
            None => rig.ask(&commands(&text)[0]),
        }
        rig.settle(prng);
        let (reply, version) = masked(&rig.replies[&(rig.asked - 1)], &mut seen);
        if let (Some(version), Some(key)) =
            (version, text.split_whitespace().find(|word| word.starts_with('k')))
        {
            last.insert(key.to_owned(), version);
        }
        all.push(format!("{request:?}: {reply}"));
    }
    all
}

proptest! {
    #[test]
    fn a_conversation_over_a_chain_says_what_one_with_a_store_says(requests in prop::collection::vec(request(), 1..60), seed in any::<u64>()) {
        let over_chain = converse(&mut Rig::new(true), &requests, &mut Prng::new(seed));
        let alone = converse(&mut Rig::new(false), &requests, &mut Prng::new(seed));
        prop_assert_eq!(over_chain, alone);
    }

    /// All at once: commands of a key are done in their order, so each key's replies are those of that key alone.
    #[test]
    fn a_pipeline_is_done_in_the_order_of_each_key(requests in prop::collection::vec(request(), 1..60), seed in any::<u64>()) {
        let texts: Vec<&String> = requests.iter().filter(|text| !text.contains(['$', '+']) && !text.contains(" c")).collect();
        let (mut over_chain, mut alone, mut prng) = (Rig::new(true), Rig::new(false), Prng::new(seed));
        for text in texts {
            let command = commands(text)[0];
            over_chain.ask(&command);
            alone.ask(&command);
        }
        over_chain.settle(&mut prng);
        let without_versions = |rig: &Rig| -> Vec<String> {
            (0..rig.asked).map(|at| {
                let mut lines: Vec<&str> = rig.replies[&at].splitn(2, "\r\n").collect();
                if let Some((head, _)) = lines[0].rsplit_once(' ').filter(|_| lines[0].starts_with("VALUE")) { lines[0] = head; }
                lines.join("|")
            }).collect()
        };
        prop_assert_eq!(without_versions(&over_chain), without_versions(&alone));
    }
}
