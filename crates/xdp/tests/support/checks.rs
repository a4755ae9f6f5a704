//! What must hold of the program, frame by frame. Each check takes a tier with an empty table, and panics at what is wrong.

use super::{BOX, PORT, bytes, checksum, frame, get, ipv6, skipped, tagged};
use base::{Nanos, Prng};
use protocol::wire::{
    BoxId, ClientId, Epoch, Flags, HEADER, HomeId, KeyRule, Kind, Message, OpNumber, Opcode, Origin, Packet,
    RequestId, Status, Token, Ttl, Verb, Version, key_hash,
};
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use xdp::reference::Reference;
use xdp::{Counter, Item, Live, Options, Program, Tier, now};

const PASS: u32 = 2;
const TX: u32 = 3;

fn item<'a>(key: &'a [u8], value: &'a [u8]) -> Item<'a> {
    Item {
        key,
        value,
        version: Version(0x1122_3344_5566_7788),
        item_flags: 0xdead_beef,
        kind: Kind::Bytes,
        lease_end: Nanos::MAX,
        expires: Nanos::MAX,
    }
}

/// A tier with an empty table, on no interface.
pub struct Bench {
    tier: Tier,
    program: Program,
    live: Live,
}

impl Bench {
    /// None, after a line that says why, where there is no XDP.
    pub fn new(what: &str) -> Option<Bench> {
        let options = Options { capacity: 64, ..Options::new(PORT) };
        let tier = Tier::unattached(options);
        if skipped(what, &tier) {
            return None;
        }
        let tier = tier.expect("it was not skipped");
        let program = tier.program().expect("descriptors are free");
        Some(Bench { tier, program, live: options.live })
    }

    /// The same with another object's program.
    pub fn with_object(what: &str, object: &[u8]) -> Option<Bench> {
        let mut bench = Bench::new(what)?;
        bench.tier.upgrade_to(object).expect("the kernel takes it");
        bench.program = bench.tier.program().expect("descriptors are free");
        Some(bench)
    }

    fn set(&mut self, live: Live) {
        self.tier.set_options(live);
        self.live = live;
    }

    fn put(&mut self, item: &Item<'_>) {
        self.tier.entries_mut().put(item, now()).expect("it fits");
    }

    /// The reply to a frame. Program and reference agree on it; which counter says so is the second.
    fn run(&self, frame: &[u8]) -> (Option<Vec<u8>>, Counter) {
        let before = self.tier.counters();
        let tried = self.program.run(frame, 1).expect("the kernel tries frames");
        let counted = self.tier.counters().since(&before);
        let counter = counted.iter().find(|(counter, count)| *counter != Counter::Datagrams && *count == 1);
        let (counter, _) = counter.expect("each frame is counted");
        let reference = Reference { entries: self.tier.entries(), live: self.live, mtu: 1500 };
        match tried.action {
            TX => {
                let link = if tried.frame[12] == 0x81 { 18 } else { 14 };
                let reply = Packet::parse(&tried.frame[link + 28..]).expect("replies are packets");
                // The program read the clock at a moment that only its reply tells.
                let held = self.tier.entries().find(reply.key()).expect("a hit has an entry");
                let at = match reply.ttl() {
                    Ttl::NEVER => now(),
                    left => Nanos(held.expires.0 - left.nanos().0),
                };
                assert_eq!(Some(&tried.frame), reference.answer(frame, at).as_ref());
                assert_eq!(counter, Counter::Hits);
                (Some(tried.frame), counter)
            }
            action => {
                assert_eq!(action, PASS);
                assert_eq!(tried.frame, frame, "what is passed on is as it came");
                assert_eq!(reference.answer(frame, now()), None, "{counter:?}: the reference answers");
                assert_ne!(counter, Counter::Hits);
                (None, counter)
            }
        }
    }

    fn passes(&self, payload: &Message, because: Counter) {
        assert_eq!(self.run(&frame(&bytes(payload))), (None, because), "{payload:?}");
    }
}

pub fn hits_of_every_size(bench: &mut Bench) {
    let mut random = Prng::new(1);
    for key_len in 1..=250usize {
        let key: Vec<u8> = (0..key_len).map(|_| random.next_u64() as u8).collect();
        let value_len = [0, 1, 8, 100, 190, 1024, random.next_u64() as usize % 1025][key_len % 7];
        let value: Vec<u8> = (0..value_len).map(|_| random.next_u64() as u8).collect();
        bench.put(&item(&key, &value));
        let room = value_len.next_multiple_of(8);
        for padding in [room, room + 1, room + 100, room.saturating_sub(8), 0] {
            let request = bytes(&get(&key, padding));
            let expected = room.saturating_sub(padding) <= 208;
            for frame in [frame(&request), tagged(&request)] {
                let (reply, counter) = bench.run(&frame);
                assert_eq!(reply.is_some(), expected, "{key_len} {value_len} {padding} {counter:?}");
            }
        }
        bench.tier.entries_mut().remove(&key);
        bench.passes(&get(&key, room), Counter::Miss);
    }
}

pub fn values_of_every_length(bench: &mut Bench) {
    for len in 0..=1024usize {
        bench.put(&item(b"some key", &vec![len as u8; len]));
        let (reply, _) = bench.run(&frame(&bytes(&get(b"some key", 1024))));
        let reply = reply.expect("there is room");
        let packet = Packet::parse(&reply[42..]).expect("a packet");
        assert_eq!((packet.value().len(), packet.padding()), (len, 0));
    }
}

pub fn the_reply_returns_what_the_request_says(bench: &mut Bench) {
    bench.set(Live { epoch: Epoch(9), address: Some(Ipv4Addr::from(BOX)), ..bench.live });
    bench.put(&Item { kind: Kind::Number, ..item(b"key", b"42") });
    let mut request = get(b"key", 0);
    request.header.request = RequestId(0xfffe);
    request.header.client = ClientId(u64::MAX - 1);
    request.header.operation = OpNumber(1 << 60);
    request.header.operand = 5;
    request.header.version = Version(6);
    request.header.ttl = Ttl::new(Nanos(5));
    request.header.epoch = Epoch(7);
    request.header.item_flags = 3;
    request.header.deadline_us = 1000;
    request.header.at = BoxId(3);
    request.header.home = HomeId(4);
    request.header.attempt = 5;
    let (reply, _) = bench.run(&frame(&bytes(&request)));
    let reply = reply.expect("a hit");
    let packet = Packet::parse(&reply[42..]).expect("a packet");
    assert_eq!((packet.value(), packet.kind(), packet.status()), (&b"42"[..], Kind::Number, Status::Ok));
    assert!(packet.flags().contains(Flags::FROM_BOX));
    assert_eq!(packet.version(), Version(0x1122_3344_5566_7788));
    assert_eq!(packet.epoch(), Epoch(9));
    assert_eq!(bench.tier.entries().hits(b"key"), Some(1));
}

pub fn leases_and_lives_end(bench: &mut Bench) {
    let past = Nanos(now().0 - 1);
    let far = Nanos(now().0 + (1 << 50));
    bench.put(&Item { lease_end: past, ..item(b"key", b"v") });
    bench.passes(&get(b"key", 0), Counter::Lease);
    bench.put(&Item { expires: past, ..item(b"key", b"v") });
    bench.passes(&get(b"key", 0), Counter::Expired);
    bench.put(&Item { lease_end: far, expires: far, ..item(b"key", b"v") });
    let (reply, _) = bench.run(&frame(&bytes(&get(b"key", 0))));
    let reply = reply.expect("a hit");
    let left = Packet::parse(&reply[42..]).expect("a packet").ttl().nanos();
    assert!(left.0 <= 1 << 50 && left.0 > (1 << 50) - 60_000_000_000, "{left:?}");
}

pub fn only_plain_gets_are_answered(bench: &mut Bench) {
    bench.put(&item(b"key", b"v"));
    for &verb in Verb::ALL {
        let key: &[u8] = if Opcode::Request(verb).key_rule() == KeyRule::None { b"" } else { b"key" };
        if verb != Verb::Get {
            bench.passes(&Message::request(verb, key), Counter::Other);
        }
    }
    let mut request = get(b"key", 0);
    request.header.flags = Flags::NO_CACHE;
    bench.passes(&request, Counter::Other);
    let mut request = get(b"key", 0);
    request.header.sharers.push(BoxId(1), Token(2));
    bench.passes(&request, Counter::Grant);
    let mut request = get(b"key", 0);
    request.header.hops = 1;
    bench.passes(&request, Counter::Relayed);
    let mut request = get(b"key", 0);
    request.header.origin = Origin::new("10.1.2.3:99".parse().expect("an address"));
    bench.passes(&request, Counter::Relayed);
    bench.passes(&Message { value: b"v".to_vec(), ..get(b"key", 0) }, Counter::Other);
    bench.passes(&get(b"kez", 0), Counter::Miss);
    bench.passes(&get(b"key", 0).reply(Status::Ok), Counter::Other);
    // What comes by IPv6 is for the user tier.
    for sent in ipv6(&bytes(&get(b"key", 0))) {
        assert_eq!(bench.run(&sent), (None, Counter::Foreign));
    }
    bench.set(Live { port: PORT + 1, ..bench.live });
    bench.passes(&get(b"key", 0), Counter::Foreign);
    bench.set(Live { port: PORT, address: Some(Ipv4Addr::new(10, 77, 0, 3)), ..bench.live });
    bench.passes(&get(b"key", 0), Counter::Foreign);
    bench.set(Live { address: None, enabled: false, ..bench.live });
    assert_eq!(bench.program.run(&frame(&bytes(&get(b"key", 0))), 1).expect("it runs").action, PASS);
    bench.set(Live { enabled: true, ..bench.live });
    assert!(bench.run(&frame(&bytes(&get(b"key", 0)))).0.is_some());
}

/// Tries of arithmetic: what changes nothing is computed, what would change something gets the value.
pub fn tries_are_computed_where_they_change_nothing(bench: &mut Bench) {
    let numbers = [0, 1, 7, 40, 1 << 40, u64::MAX];
    let texts = numbers.map(|number| number.to_string());
    let others = ["", "x", "007", "18446744073709551616", "1 ", "000000000000000000001"];
    let (mut computed, mut told) = (0, 0);
    for value in texts.iter().map(String::as_str).chain(others) {
        bench.put(&Item { kind: Kind::Number, ..item(b"key", value.as_bytes()) });
        for verb in [Verb::CondPut, Verb::Min, Verb::Max, Verb::Or] {
            for operand in numbers {
                let mut request = Message::request(verb, b"key");
                request.header.operand = operand;
                bench.passes(&request, Counter::Other);
                request.header.flags = Flags::TRY;
                // That it is what the user tier would say is checked there.
                let (reply, counter) = bench.run(&frame(&bytes(&request)));
                let Some(reply) = reply else {
                    assert!(
                        others.contains(&value) && counter == Counter::Other,
                        "{value} {verb:?} {operand}"
                    );
                    continue;
                };
                let packet = Packet::parse(&reply[42..]).expect("a packet");
                if packet.flags().contains(Flags::TRY) {
                    computed += 1;
                } else {
                    assert_eq!(packet.value(), value.as_bytes());
                    told += 1;
                }
            }
        }
    }
    assert_eq!(bench.tier.counters().of_kind(Counter::Computed), computed);
    assert!(computed > 40 && told > 40, "{computed} {told}");
    bench.tier.entries_mut().clear();
    let mut request = Message::request(Verb::Max, b"key");
    request.header.flags = Flags::TRY;
    bench.passes(&request, Counter::Miss);
}

pub fn keys_of_one_hash_are_told_apart(bench: &mut Bench) {
    let (one, other) = same_hash();
    bench.put(&item(&one, b"one"));
    bench.passes(&get(&other, 0), Counter::Miss);
    bench.put(&item(&other, b"other"));
    for (key, value) in [(one, &b"one"[..]), (other, b"other")] {
        let (reply, _) = bench.run(&frame(&bytes(&get(&key, 0))));
        assert_eq!(Packet::parse(&reply.expect("a hit")[42..]).expect("a packet").value(), value);
    }
}

/// The first two numbers whose keys have one hash: some 80,000 are enough.
fn same_hash() -> (Vec<u8>, Vec<u8>) {
    let mut seen = std::collections::HashMap::new();
    for i in 0u64.. {
        let key = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().to_vec();
        if let Some(earlier) = seen.insert(key_hash(&key), key.clone()) {
            return (earlier, key);
        }
    }
    unreachable!("there are more keys than hashes")
}

pub fn an_entry_that_is_being_written_is_left_alone(bench: &mut Bench) {
    bench.put(&item(b"key", b"v"));
    bench.tier.entries_mut().tear(b"key");
    let tried = bench.program.run(&frame(&bytes(&get(b"key", 0))), 1).expect("it runs");
    assert_eq!(tried.action, PASS);
    assert_eq!(bench.tier.counters().of_kind(Counter::Torn), 1);
}

pub fn a_removed_key_is_not_answered_again(bench: &mut Bench) {
    let request = frame(&bytes(&get(b"key", 0)));
    for round in 0..200u64 {
        bench.put(&item(b"key", &round.to_le_bytes()));
        let (reply, _) = bench.run(&request);
        assert_eq!(
            Packet::parse(&reply.expect("a hit")[42..]).expect("a packet").value(),
            round.to_le_bytes()
        );
        bench.tier.entries_mut().remove(b"key");
        assert_eq!(bench.run(&request), (None, Counter::Miss));
    }
}

/// One thread puts and removes, the other asks. `gone` grows after a removal returned: what is asked for later and answered is newer, and
/// never a mixture of two.
pub fn nothing_is_answered_after_its_removal_and_nothing_half(bench: &mut Bench) {
    let (gone, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let request = frame(&bytes(&get(b"key", 1024)));
    let program = &bench.program;
    let answered = std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut answered = 0;
            while !done.load(SeqCst) {
                let oldest = gone.load(SeqCst);
                let tried = program.run(&request, 1).expect("the kernel tries frames");
                if tried.action == TX {
                    let reply =
                        Packet::parse(&tried.frame[42..]).expect("key, value and sum belong together");
                    let words: Vec<_> = reply
                        .value()
                        .as_chunks::<8>()
                        .0
                        .iter()
                        .map(|&word| u64::from_le_bytes(word))
                        .collect();
                    assert!(
                        words.iter().all(|word| *word == words[0]),
                        "half of one, half of another: {words:?}"
                    );
                    assert_eq!(reply.version(), Version(words[0]));
                    assert!(words[0] >= oldest, "{} was removed before {oldest}", words[0]);
                    answered += 1;
                }
            }
            answered
        });
        for round in 1..=200_000u64 {
            let value: Vec<u8> =
                std::iter::repeat_n(round.to_le_bytes(), 1 + round as usize % 128).flatten().collect();
            bench
                .tier
                .entries_mut()
                .put(&Item { version: Version(round), ..item(b"key", &value) }, now())
                .expect("it fits");
            if round % 3 == 0 {
                bench.tier.entries_mut().remove(b"key");
                gone.store(round + 1, SeqCst);
            }
        }
        done.store(true, SeqCst);
        asker.join().expect("what was answered was right")
    });
    assert!(answered > 0, "nothing was answered: nothing was tried");
}

/// Every byte of a request's packet changed: never answered, for the checksum covers it, but for the padding, which nothing does.
pub fn damaged_requests_are_passed_on(bench: &mut Bench) {
    bench.put(&item(b"some key", b"value"));
    let whole = frame(&bytes(&get(b"some key", 24)));
    for at in 42..whole.len() - 24 {
        for bit in [0, 3, 7] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            assert_eq!(bench.run(&damaged).0, None, "byte {at} bit {bit}");
        }
    }
    for len in 14..whole.len() {
        assert_eq!(bench.run(&whole[..len]).0, None, "{len} bytes");
    }
}

/// Frames with a few bytes changed anywhere, half of them with the IP checksum made right again: whatever program and reference do, they do alike.
pub fn random_frames_are_treated_as_the_reference_does(bench: &mut Bench) {
    bench.put(&item(b"some key", &[7; 100]));
    let mut random = Prng::new(2);
    let mut below = |n: usize| (random.next_u64() % n as u64) as usize;
    let mut answered = 0;
    for round in 0..20_000 {
        let request = bytes(&get(b"some key", below(3) * 56));
        let mut changed = if round % 2 == 0 { frame(&request) } else { tagged(&request) };
        let link = if round % 2 == 0 { 14 } else { 18 };
        for _ in 0..below(3) {
            let at = below(changed.len().min(link + 28 + HEADER + 20));
            changed[at] = below(256) as u8;
        }
        match below(8) {
            0 => changed.truncate(14 + below(changed.len() - 14)),
            1 => changed.extend(vec![0; below(20)]),
            2..5 if changed.len() >= link + 20 => checksum(&mut changed[link..]),
            _ => {}
        }
        answered += usize::from(bench.run(&changed).0.is_some());
    }
    assert!(answered > 2000, "{answered} were hits: the changes are too many to try anything");
    assert_eq!(bench.tier.counters().of_kind(Counter::Lost), 0);
}

pub fn what_is_sampled_is_timed(bench: &mut Bench) {
    bench.set(Live { sample: 4, ..bench.live });
    bench.put(&item(b"key", b"v"));
    let hit = frame(&bytes(&get(b"key", 8)));
    for _ in 0..40 {
        bench.run(&hit);
    }
    bench.set(Live { sample: 1, ..bench.live });
    bench.passes(&get(b"none", 0), Counter::Miss);
    let (hits, passed) = (bench.tier.hit_times(), bench.tier.pass_times());
    // A row counts for each CPU, and this thread may move between them.
    assert!((10..14).contains(&hits.len()), "{}", hits.len());
    assert_eq!(passed.len(), 1);
}

pub fn an_upgrade_keeps_the_entries(bench: &mut Bench) {
    bench.put(&item(b"key", b"v"));
    let generation = bench.tier.generation();
    bench.tier.upgrade().expect("it loads again");
    bench.program = bench.tier.program().expect("descriptors are free");
    assert_eq!(bench.tier.generation(), generation + 1);
    assert!(bench.run(&frame(&bytes(&get(b"key", 0)))).0.is_some());
}
