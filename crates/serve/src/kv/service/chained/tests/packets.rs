//! Packets over a chain that is a map, alone and among commands, against the same on a store.

use super::super::asked::changes;
use super::{Answer, Prng, Rig, Said, commands, converse, request, text_of};
use base::Nanos;
use proptest::prelude::*;
use protocol::chain::Transaction;
use protocol::chain::attributes::FLUSHED;
use protocol::chain::transaction::{Abort, Change};
use protocol::coherence::home::items::{Items as _, perform};
use protocol::coherence::home::sessions;
use protocol::coherence::home::slow::Ended;
use protocol::wire::{Flags, Message, Opcode, Status, Ttl, Verb, Version};
use std::sync::Arc;

/// When they come, on the clock of [`super::super::Chained::set_now`].
const NOW: Nanos = Nanos::ZERO;

const VERBS: [(&str, Verb); 13] = [
    ("get", Verb::Get),
    ("set", Verb::Set),
    ("add", Verb::Add),
    ("replace", Verb::Replace),
    ("cas", Verb::Cas),
    ("delete", Verb::Delete),
    ("incr", Verb::Incr),
    ("decr", Verb::Decr),
    ("min", Verb::Min),
    ("cond_put", Verb::CondPut),
    ("append", Verb::Append),
    ("touch", Verb::Touch),
    ("flush", Verb::Flush),
];

/// Verb, key, operand, version, item's flags, seconds to live, whether it is only tried, value.
pub(super) fn parse(text: &str) -> Message {
    let words: Vec<&str> = text.splitn(8, ' ').collect();
    let [verb, key, operand, version, flags, ttl, tried, value] = words[..] else { panic!("{text:?}") };
    let verb = VERBS.into_iter().find(|(name, _)| *name == verb).expect("a verb").1;
    let key = if verb == Verb::Flush { "" } else { key };
    let mut message = Message::new(Opcode::Request(verb), key.as_bytes());
    let header = &mut message.header;
    header.operand = operand.parse().expect("a number");
    header.version = Version(version.parse().expect("a number"));
    header.item_flags = flags.parse().expect("a number");
    header.ttl = match ttl {
        "never" => Ttl::NEVER,
        "kept" => Ttl::KEPT,
        seconds => Ttl::new(Nanos(seconds.parse::<u64>().expect("a number") * 1_000_000_000)),
    };
    if tried == "try" {
        header.flags = Flags::TRY;
    }
    message.value = value.as_bytes().to_vec();
    message
}

impl Rig {
    pub(super) fn ask_by_packet(&mut self, message: &Message) {
        if self.is_chained {
            assert!(self.machine.ask_by_packet(&Arc::new(message.clone()), NOW, self.asked));
        } else {
            let items = &mut self.machine.commands;
            let said = match changes(message) {
                None => Said::Found(items.read(&message.key, NOW)),
                Some(Verb::Flush) => {
                    items.clear();
                    Said::Answer(sessions::Answer { status: Status::Ok, version: Version(0), number: 0 })
                }
                Some(verb) => {
                    Said::Answer(perform(items, NOW, (verb, message), |items| items.take_versions(1)))
                }
            };
            self.replies.insert(self.asked, text_of(said));
        }
        self.asked += 1;
    }

    fn is_told(&mut self, packet: &str, wanted: &str) {
        self.ask_by_packet(&parse(packet));
        self.settle(&mut Prng::new(1));
        assert_eq!(self.replies[&(self.asked - 1)], wanted, "{packet:?}");
    }

    /// Before boxes.
    fn before_boxes() -> Rig {
        let rig = Rig::new(true);
        Rig { machine: rig.machine.before_boxes(), ..rig }
    }

    /// What it says next to whom, and how that ended.
    fn told(&mut self) -> (usize, Ended<()>, String) {
        let told = self.machine.said().pop().expect("somebody is told");
        (told.whose, told.ended, text_of(told.said))
    }

    /// What is under way, which is one transaction, is answered so.
    fn hear(&mut self, answer: impl FnOnce(&mut super::Map, &Transaction) -> Answer) -> Transaction {
        let [(number, transaction)] = &self.machine.leaving()[..] else { panic!("one is under way") };
        let answer = answer(&mut self.map, transaction);
        self.machine.hear(*number, answer);
        transaction.clone()
    }
}

fn done(map: &mut super::Map, transaction: &Transaction) -> Answer {
    Answer::Done(map.execute(transaction))
}

#[test]
fn packets_commands_and_transactions_act_on_the_same_items() {
    let mut rig = Rig::before_boxes();
    rig.is_told("set k 0 0 7 never - blue", "Ok c1 0 ");
    rig.says("gets k\r\n", "VALUE k 7 4 1\r\nblue\r\nEND\r\n");
    rig.says("set n 3 0 2\r\n99\r\n", "STORED\r\n");
    rig.is_told("incr n 2 0 0 never - ", "Ok c3 101 ");
    rig.is_told("get n 0 0 0 never - ", "item c3 3 Number 18446744073709551615 \r\n101");
    rig.is_told("cas n 0 2 0 never - x", "Exists c3 0 ");
    rig.is_told("incr n 2 0 0 never try ", "item c3 3 Number 18446744073709551615 \r\n101");
    rig.map.execute(&Transaction {
        writes: vec![(b"n".to_vec(), Change::Put(b"5".to_vec()))],
        ..Transaction::default()
    });
    rig.is_told("get n 0 0 0 never - ", "item c4 0 Number 18446744073709551615 \r\n5");
    // A touch is no new version.
    rig.is_told("touch n 0 4 0 100 - ", "Ok c4 0 ");
    rig.says("mg n c t\r\n", "HD c4 t100\r\n");
    rig.is_told("delete n 0 4 0 never - ", "Ok c0 0 ");
    rig.is_told("flush  0 0 0 never - ", "Ok c0 0 ");
    rig.says("get k n\r\n", "END\r\n");
    rig.is_told("get k 0 0 0 never - ", "nothing");
    assert_eq!(rig.machine.commands.counters.cmd_flush, 0, "it was no command");
    // The attributes of an item are not seen by packet.
    rig.is_told("get \0k 0 0 0 never - ", "nothing");
    rig.is_told("set \0k 0 0 0 never - x", "Bad c0 0 ");
}

/// So that one of which nobody knows is not done after a later one.
#[test]
fn before_boxes_every_transaction_that_writes_has_a_condition() {
    let mut rig = Rig::before_boxes();
    rig.says("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    let set = commands("set k 0 0 1\r\ny\r\n")[0];
    rig.ask(&set);
    assert!(rig.hear(done).only_reads());
    let late = rig.hear(|_, _| Answer::Unknown);
    assert_eq!(
        rig.told(),
        (1, Ended::Unknown, "SERVER_ERROR nobody answered; it may have been done\r\n".into())
    );
    // What changes nothing is no proof that it is not done yet.
    rig.ask(&commands("add k 0 0 1\r\nz\r\n")[0]);
    rig.hear(done);
    assert_eq!(rig.told(), (2, Ended::Same(()), "NOT_STORED\r\n".into()));
    rig.ask_by_packet(&parse("set k 0 0 0 never - z"));
    rig.hear(done);
    rig.hear(done);
    assert_eq!(rig.told(), (3, Ended::Done(()), "Ok c2 0 ".into()));
    assert!(matches!(rig.map.execute(&late).abort, Some(Abort::Condition(_))));

    rig.ask_by_packet(&parse("flush  0 0 0 never - "));
    assert_eq!(rig.hear(done).reads, [FLUSHED]);
    let late = rig.hear(|_, _| Answer::Unknown);
    assert_eq!(rig.told(), (4, Ended::Unknown, "not done".into()));
    rig.ask(&commands("flush_all\r\n")[0]);
    rig.hear(done);
    rig.hear(done);
    assert_eq!(rig.told(), (5, Ended::Done(()), "OK\r\n".into()));
    assert!(matches!(rig.map.execute(&late).abort, Some(Abort::Condition(_))));
    // Another server flushes between: it is done again.
    rig.ask(&commands("flush_all\r\n")[0]);
    rig.hear(done);
    rig.map.execute(&Transaction {
        writes: vec![(FLUSHED.to_vec(), Change::Put(vec![]))],
        ..Transaction::default()
    });
    for _ in 0..3 {
        rig.hear(done);
    }
    assert_eq!(rig.told(), (6, Ended::Done(()), "OK\r\n".into()));
    assert_eq!(rig.machine.counters().conflicts, 1);
}

#[test]
fn packets_without_an_answer_are_told_so_and_refused_where_there_is_no_room() {
    let mut rig = Rig::before_boxes();
    let (get, incr) = (parse("get k 0 0 0 never - "), parse("incr k 1 0 0 never - 1"));
    rig.ask_by_packet(&get);
    rig.hear(|_, _| Answer::NotDone);
    assert_eq!(rig.told(), (0, Ended::NotDone, "not done".into()));
    rig.ask_by_packet(&incr);
    rig.hear(done);
    rig.hear(|_, _| Answer::Unknown);
    assert_eq!(rig.told(), (1, Ended::Unknown, "not done".into()));
    // The chain has no room.
    rig.ask_by_packet(&incr);
    rig.hear(done);
    rig.hear(|map, transaction| {
        let mut outcome = map.clone().execute(transaction);
        outcome.abort = Some(Abort::NoRoom);
        Answer::Done(outcome)
    });
    assert_eq!(rig.told(), (2, Ended::Same(()), "NoRoom c0 0 ".into()));
    rig.ask_by_packet(&parse("flush  0 0 0 never - "));
    rig.hear(|_, _| Answer::NotDone);
    assert_eq!(rig.told(), (3, Ended::NotDone, "not done".into()));
    rig.machine.commands.registers.write(super::Id::ChainedQueue, 1).expect("a number");
    rig.ask_by_packet(&get);
    assert!(!rig.machine.ask_by_packet(&Arc::new(incr), NOW, 9), "there is no room");
    rig.hear(done);
    assert_eq!(rig.told(), (4, Ended::Same(()), "nothing".into()));
    assert_eq!(rig.machine.waiting(), 0);
}

/// One packet of a conversation.
fn packet() -> impl Strategy<Value = String> {
    let value = prop_oneof![2 => (0u32..200).prop_map(|n| n.to_string()), 2 => "[a-f]{0,6}", 1 => Just("d".repeat(1000))];
    let verb = prop::sample::select(VERBS[..12].iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let ttl = prop_oneof![2 => Just("never"), 1 => Just("kept"), 1 => Just("30"), 1 => Just("100")];
    let what = (verb, 0..3usize, 0u64..20, any::<bool>(), 0u32..9, ttl, prop::bool::weighted(0.1), value);
    let keyed = what.prop_map(|(verb, key, operand, is_fit, flags, ttl, is_tried, value)| {
        let version = if is_fit { format!("$k{key}$") } else { "0".to_owned() };
        let (tried, value) = (if is_tried { "try" } else { "-" }, if verb == "get" { "" } else { &value });
        format!("!{verb} k{key} {operand} {version} {flags} {ttl} {tried} {value}")
    });
    prop_oneof![20 => keyed, 1 => Just("!flush  0 0 0 never - ".to_owned())]
}

proptest! {
    #[test]
    fn packets_among_commands_say_over_a_chain_what_they_say_of_a_store(
        requests in prop::collection::vec(prop_oneof![request(), packet()], 1..60),
        seed in any::<u64>(),
    ) {
        let over_chain = converse(&mut Rig::before_boxes(), &requests, &mut Prng::new(seed));
        let alone = converse(&mut Rig::new(false), &requests, &mut Prng::new(seed));
        prop_assert_eq!(over_chain, alone);
    }
}
