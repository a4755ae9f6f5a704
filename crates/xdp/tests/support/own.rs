//! What must hold of writes that the program does as owner: each is the model's, `Loan::write`, with proofs that real guards take.

use super::{PORT, bytes, frame, get, skipped, tagged};
use base::key::Key;
use base::{Nanos, Prng};
use protocol::coherence::boxes::copies::Kept;
use protocol::coherence::boxes::lent::Loan;
use protocol::coherence::guard::{Keys, Source};
use protocol::coherence::ownership::{Answer, Told};
use protocol::coherence::{Guard, NodeId};
use protocol::wire::{
    BoxId, ClientId, Flags, Kind, Message, OpNumber, Opcode, Round, Status, Verb, Version, key_hash,
};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use xdp::layout::RECORDS;
use xdp::reference::Reference;
use xdp::{Counter, Live, Options, Program, Tier, now};

const PASS: u32 = 2;
const TX: u32 = 3;
const ME: NodeId = NodeId::Box(BoxId(5));
const CLIENTS: [ClientId; 2] = [ClientId(0x1122_3344_5566_7788), ClientId(9)];
const FIRST: u64 = 77 << 32;

/// A tier with an empty table, on no interface, and clients with the cluster's key, or without one.
pub struct Bench {
    tier: Tier,
    program: Program,
    live: Live,
    clients: Vec<Guard>,
}

impl Bench {
    /// None, after a line that says why, where there is no XDP. `object`: another program.
    pub fn new(what: &str, object: Option<&[u8]>, sealed: bool) -> Option<Bench> {
        let options = Options { capacity: 64, owned: 3, ..Options::new(PORT) };
        let tier = Tier::unattached(options);
        if skipped(what, &tier) {
            return None;
        }
        let mut tier = tier.expect("it was not skipped");
        if let Some(object) = object {
            tier.upgrade_to(object).expect("the kernel takes it");
        }
        let key = Key::new([7; 16]);
        let keys = sealed.then(|| Keys::of_client(Keys::client_key(&key)));
        if sealed {
            tier.seal_as(BoxId(5), &Keys::client_key(&key), FIRST);
        }
        let clients = CLIENTS.map(|id| Guard::of_client(id, keys.clone())).to_vec();
        let program = tier.program().expect("descriptors are free");
        Some(Bench { tier, program, live: options.live, clients })
    }

    fn lend(&mut self, loan: &Loan) -> bool {
        self.tier.entries_mut().lend(loan, (loan.kept.lease_end, loan.kept.life_end), now())
    }

    fn sealed_by(&mut self, client: usize, message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.clients[client].emit(ME, 0, &mut message.clone(), &mut bytes);
        bytes
    }

    /// What a client gets for a frame, and the counter that says why.
    fn run(&mut self, client: usize, frame: &[u8]) -> (Option<Message>, Counter) {
        let before = self.tier.counters();
        let tried = self.program.run(frame, 1).expect("the kernel tries frames");
        let counted = self.tier.counters().since(&before);
        let counter = counted.iter().find(|(counter, count)| *counter != Counter::Datagrams && *count == 1);
        let (counter, _) = counter.expect("each frame is counted");
        if tried.action != TX {
            assert_eq!((tried.action, &tried.frame[..]), (PASS, frame), "what is passed on is as it came");
            return (None, counter);
        }
        let link = if frame[12] == 0x81 { 18 } else { 14 };
        assert_eq!((&tried.frame[..6], &tried.frame[6..12]), (&frame[6..12], &frame[..6]));
        let source = Source { node: Some(ME), origin: None };
        let heard = self.clients[client].open(&tried.frame[link + 28..], source);
        let (from, message) = heard.expect("the client believes it, and has not heard it before");
        assert_eq!(from, ME);
        (Some(message), counter)
    }
}

fn loan(key: &[u8], random: &mut Prng) -> Loan {
    let kept = Kept {
        hash: key_hash(key),
        key: key.to_vec(),
        value: [&b"10"[..], b"007", b"0", b"18446744073709551610"][random.below(4) as usize].to_vec(),
        flags: 3,
        kind: Kind::Bytes,
        version: Version(3),
        lease_end: Nanos::MAX,
        life_end: Nanos::MAX,
    };
    let begun = random.next_u64();
    let told = |session, client, highest| {
        Told::new(Round(session), client, OpNumber(highest), |n| begun >> (n % 64) & 1 == 1)
    };
    let mut all: Vec<Told> =
        (100..100 + random.below(31)).map(|session| told(session, CLIENTS[0], 5)).collect();
    all.insert(random.below(all.len() as u64 + 1) as usize, told(4, CLIENTS[0], 6));
    all.insert(random.below(all.len() as u64 + 1) as usize, told(5, CLIENTS[1], 100));
    all.truncate(32);
    Loan { kept, next: Version(1000), told: all, room: 1 + random.below(200) as usize, done: Vec::new() }
}

fn write(verb: Verb, key: &[u8], client: usize, session: u64, operation: u64, operand: u64) -> Message {
    let mut message = Message::request(verb, key);
    let header = &mut message.header;
    header.flags = Flags::OWNABLE;
    (header.client, header.round) = (CLIENTS[client], Round(session));
    (header.operation, header.operand) = (OpNumber(operation), operand);
    message
}

fn any_write(random: &mut Prng, key: &[u8]) -> (usize, Verb, Message) {
    let verbs = [Verb::Incr, Verb::Incr, Verb::Decr, Verb::CondPut, Verb::Min, Verb::Max, Verb::Or];
    let verb = verbs[random.below(7) as usize];
    let client = random.below(2) as usize;
    let session = if random.chance(0.9) { 4 + client as u64 } else { 4 + random.below(3) };
    let operand = [1, 5, 10, 1 << 40, u64::MAX, random.next_u64()][random.below(6) as usize];
    let operation = random.below(250) + if random.chance(0.02) { 1 << 62 } else { 0 };
    (client, verb, write(verb, key, client, session, operation, operand))
}

fn expected(request: &Message, answer: Answer) -> Message {
    let mut reply = request.reply(answer.status);
    let header = &mut reply.header;
    (header.round, header.version, header.operand) = (request.header.round, answer.version, answer.number);
    header.flags = Flags::FROM_BOX;
    reply
}

/// Writes, reads and tries at random, keys lent and taken back at any moment: program and model do alike, and what is taken back is what the model has.
pub fn writes_are_the_models(bench: &mut Bench) {
    let mut random = Prng::new(5);
    let (mut done, mut passed) = (0, 0);
    for round in 0..60usize {
        let key: Vec<u8> = (0..[1, 7, 8, 250, 16, 33][round % 6]).map(|_| random.next_u64() as u8).collect();
        let hash = key_hash(&key);
        let mut model = loan(&key, &mut random);
        assert!(bench.lend(&model));
        for _ in 0..300 {
            let room = model.room.min(RECORDS - model.done.len());
            let (client, verb, message) = any_write(&mut random, &key);
            let packet = bench.sealed_by(client, &message);
            let sent = if random.chance(0.5) { frame(&packet) } else { tagged(&packet) };
            let answer = if room > 0 { model.write(verb, &message) } else { None };
            let (reply, counter) = bench.run(client, &sent);
            match answer {
                Some(answer) => {
                    assert_eq!((reply.map(plain), counter), (Some(expected(&message, answer)), Counter::Hits))
                }
                None => assert_eq!((reply, counter), (None, Counter::Unsure)),
            }
            done += usize::from(answer.is_some());
            passed += usize::from(answer.is_none());
            read_as_the_reference(bench, &model, &mut random);
            if random.chance(0.01) {
                let back = bench.tier.entries_mut().take_back(hash);
                assert_eq!(back, model);
                assert_eq!(bench.run(client, &sent), (None, Counter::Miss));
                model.done.clear();
                model.room = 1 + random.below(300) as usize;
                assert!(bench.lend(&model));
            }
        }
        assert_eq!(bench.tier.entries_mut().take_back(hash), model);
    }
    assert!(done > 1000 && passed > 1000, "{done} {passed}");
}

fn plain(message: Message) -> Message {
    Message { proof: None, padding: 0, ..message }
}

fn read_as_the_reference(bench: &Bench, model: &Loan, random: &mut Prng) {
    let mut request = get(&model.kept.key, 24);
    if random.chance(0.3) {
        request = Message::request(Verb::Max, &model.kept.key);
        (request.header.operand, request.header.flags, request.padding) = (random.below(30), Flags::TRY, 24);
    }
    let sent = frame(&bytes(&request));
    let tried = bench.program.run(&sent, 1).expect("the kernel tries frames");
    let reference = Reference { entries: bench.tier.entries(), live: bench.live, mtu: 1500 };
    assert_eq!(Some(&tried.frame), reference.answer(&sent, now()).as_ref());
    let reply = protocol::wire::Packet::parse(&tried.frame[42..]).expect("a packet");
    assert_eq!(reply.version(), model.kept.version);
    if reply.opcode() == Opcode::Reply(Verb::Get) {
        assert_eq!((reply.value(), reply.kind()), (&model.kept.value[..], model.kept.kind));
    }
}

/// Who has another key, or none, or changed a byte, is not heard.
pub fn strangers_are_passed_on(bench: &mut Bench) {
    let model = loan(b"key", &mut Prng::new(1));
    assert!(bench.lend(&model));
    let message = write(Verb::Incr, b"key", 1, 5, 300, 1);
    let (ours, others) =
        (Keys::of_client(Keys::client_key(&Key::new([7; 16]))), Keys::of_client(Key::new([8; 16])));
    let by = |keys: &Keys, to| {
        let mut bytes = Vec::new();
        Guard::of_client(CLIENTS[1], Some(keys.clone())).emit(to, 0, &mut message.clone(), &mut bytes);
        frame(&bytes)
    };
    assert_eq!(bench.run(1, &by(&others, ME)), (None, Counter::Unproven));
    assert_eq!(bench.run(1, &by(&ours, NodeId::Box(BoxId(6)))), (None, Counter::Unproven), "said to another");
    assert_eq!(bench.run(1, &frame(&bytes(&message))), (None, Counter::Other), "no proof");
    let whole = by(&ours, ME);
    for at in 42..whole.len() {
        for bit in [0, 6] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            assert_eq!(bench.run(1, &damaged).0, None, "byte {at} bit {bit}");
        }
    }
    for len in 14..whole.len() {
        assert_eq!(bench.run(1, &whole[..len]).0, None, "{len} bytes");
    }
    let mut relayed = message.clone();
    relayed.header.hops = 1;
    let relayed = bench.sealed_by(1, &relayed);
    assert_eq!(bench.run(1, &frame(&relayed)), (None, Counter::Relayed));
    assert!(bench.run(1, &whole).0.is_some(), "and the right one is");
    assert_eq!(bench.tier.entries_mut().take_back(key_hash(b"key")).done.len(), 1);
}

pub fn loans_end_with_their_time(bench: &mut Bench) {
    let past = Nanos(now().0 - 1);
    for (lease_end, life_end) in [(past, Nanos::MAX), (Nanos::MAX, past)] {
        let mut model = loan(b"key", &mut Prng::new(1));
        (model.kept.lease_end, model.kept.life_end) = (lease_end, life_end);
        assert!(bench.lend(&model));
        let packet = bench.sealed_by(1, &write(Verb::Incr, b"key", 1, 5, 300, 1));
        assert_eq!(bench.run(1, &frame(&packet)), (None, Counter::Lease));
        assert_eq!(bench.tier.entries_mut().take_back(key_hash(b"key")), model);
    }
}

/// No copy takes a lent key's place, nor does another loan's slot.
pub fn what_is_lent_stays(bench: &mut Bench) {
    let keys: Vec<[u8; 4]> = (0..4u32).map(u32::to_le_bytes).collect();
    let loans: Vec<Loan> = keys.iter().map(|key| loan(key, &mut Prng::new(2))).collect();
    let lent: Vec<bool> = loans.iter().map(|loan| bench.lend(loan)).collect();
    assert_eq!((lent, bench.tier.entries().lent()), (vec![true, true, true, false], 3));
    for i in 0..1000u32 {
        let item = xdp::Item {
            key: &(i % 400).to_le_bytes(),
            value: b"v",
            version: Version(1),
            item_flags: 0,
            kind: Kind::Bytes,
            lease_end: Nanos::MAX,
            expires: Nanos::MAX,
        };
        bench.tier.entries_mut().put(&item, now()).expect("it fits");
        bench.tier.entries_mut().remove(&(i % 7).to_le_bytes());
    }
    bench.tier.entries_mut().clear();
    assert_eq!(bench.tier.entries().len(), 3);
    for loan in &loans[..3] {
        assert_eq!(bench.tier.entries_mut().take_back(loan.kept.hash), *loan);
    }
    assert!(bench.tier.entries().is_empty() && bench.lend(&loans[3]));
    bench.tier.entries_mut().take_back(loans[3].kept.hash);
    let text = Loan { kept: Kept { value: b"ten".to_vec(), ..loans[0].kept.clone() }, ..loans[0].clone() };
    assert!(!bench.lend(&text), "no number");
}

/// Two threads count, each in a session of its own, a third takes the key back and lends it again: each number is answered once, and what was
/// answered is what was told.
pub fn nothing_is_done_twice_or_after_it_was_taken_back(bench: &mut Bench) {
    const OPERATIONS: u64 = 20_000;
    let hash = key_hash(b"key");
    let mut first = loan(b"key", &mut Prng::new(1));
    first.kept.value = b"0".to_vec();
    let told = |session, client| Told::new(Round(session), CLIENTS[client], OpNumber(0), |_| false);
    (first.told, first.room) = (vec![told(4, 0), told(5, 1)], 512);
    assert!(bench.lend(&first));
    let packets: Vec<Vec<Vec<u8>>> = (0..2)
        .map(|client| {
            let message = |n| write(Verb::Incr, b"key", client, 4 + client as u64, n, 1);
            (1..=OPERATIONS).map(|n| frame(&bench.sealed_by(client, &message(n)))).collect()
        })
        .collect();
    let program = &bench.program;
    let counting = |frames: &[Vec<u8>]| {
        let mut answered = Vec::new();
        for sent in frames {
            let tried = program.run(sent, 1).expect("the kernel tries frames");
            if tried.action == TX {
                let reply = protocol::wire::Packet::parse(&tried.frame[42..]).expect("a packet");
                let header = reply.header();
                answered.push((header.round, header.operation, header.version, header.operand));
            }
        }
        answered
    };
    let done = AtomicBool::new(false);
    let entries = bench.tier.entries_mut();
    let (mut answered, mut told) = std::thread::scope(|scope| {
        let askers: Vec<_> = packets.iter().map(|frames| scope.spawn(|| counting(frames))).collect();
        let taker = scope.spawn(|| {
            let mut told = Vec::new();
            while !done.load(SeqCst) {
                let loan = entries.take_back(hash);
                told.extend(loan.done.iter().copied());
                let again = Loan { done: Vec::new(), room: 512, ..loan };
                assert!(entries.lend(&again, (Nanos::MAX, Nanos::MAX), now()), "there is room");
                std::thread::yield_now();
            }
            told.extend(entries.take_back(hash).done);
            told
        });
        let answered: Vec<_> = askers.into_iter().flat_map(|asker| asker.join().expect("no panic")).collect();
        done.store(true, SeqCst);
        (answered, taker.join().expect("no panic"))
    });
    let numbers: BTreeSet<u64> = answered.iter().map(|(.., number)| *number).collect();
    assert_eq!(
        (numbers.len(), numbers.last().copied()),
        (answered.len(), Some(answered.len() as u64)),
        "each once"
    );
    assert!(told.iter().all(|record| record.answer.status == Status::Ok));
    let mut told: Vec<_> = told
        .drain(..)
        .map(|record| (record.session, record.operation, record.answer.version, record.answer.number))
        .collect();
    answered.sort_unstable();
    told.sort_unstable();
    assert!(answered == told, "{} were answered, {} told", answered.len(), told.len());
    assert!(answered.len() > 1000, "{}: nothing was tried", answered.len());
}
