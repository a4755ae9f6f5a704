//! A loan does what the owner itself would, or nothing.

use super::super::owned::Entry;
use super::*;
use crate::wire::{ClientId, HomeId, OpNumber, Round, Token};
use base::Prng;

const CLIENT: ClientId = ClientId(9);

fn entry() -> Entry {
    let kept = Kept {
        hash: crate::wire::key_hash(b"k"),
        key: b"k".to_vec(),
        value: b"10".to_vec(),
        flags: 3,
        kind: crate::wire::Kind::Bytes,
        version: Version(3),
        lease_end: Nanos(50),
        life_end: Nanos::MAX,
    };
    let told = [(4, 6), (5, 100)]
        .map(|(session, highest)| Told::new(Round(session), CLIENT, OpNumber(highest), |n| n % 3 == 0));
    Entry::new(kept, (HomeId(1), Token(7)), Nanos(101), Version(1000), told.to_vec())
}

fn request(random: &mut Prng) -> (Verb, Message) {
    let verbs = [Verb::Incr, Verb::Decr, Verb::CondPut, Verb::Min, Verb::Max, Verb::Or];
    let verb = verbs[random.below(6) as usize];
    let mut message = Message::request(verb, b"k");
    let header = &mut message.header;
    header.flags = Flags::OWNABLE;
    (header.client, header.round) = (CLIENT, Round(4 + random.below(3)));
    header.operation = OpNumber(random.below(220));
    header.operand = [1, 5, 1 << 40, u64::MAX][random.below(4) as usize];
    (verb, message)
}

/// Lent and taken back at any moment, an entry is what it would be had it never been lent; what the tier passes on, the owner answers.
#[test]
fn lent_or_not_is_the_same() {
    for seed in 0..100 {
        let mut random = Prng::new(seed);
        let (mut plain, mut owned, mut tier) =
            (entry(), super::super::owned::Owned::new(4), Model::<NoBugs>::default());
        let hash = plain.kept.hash;
        owned.take(entry());
        let (mut by_tier, mut passed) = (0, 0);
        for _ in 0..300 {
            let (verb, message) = request(&mut random);
            if !owned.is_lent(hash)
                && random.chance(0.3)
                && let Some(loan) = owned.loan(hash, b"k", Nanos(1), false)
            {
                assert!(tier.lend(&loan));
                owned.lent(hash);
            }
            let expected = plain.write(verb, &message);
            let answered = tier.answer(Nanos(1), NodeId::Client(CLIENT), &message);
            by_tier += u32::from(answered.is_some());
            let answer = match answered {
                Some(reply) => Some(Answer {
                    status: reply.header.status,
                    version: reply.header.version,
                    number: reply.header.operand,
                }),
                None => {
                    passed += u32::from(owned.is_lent(hash));
                    if owned.is_lent(hash) {
                        owned.taken_back(hash, tier.take_back(hash));
                    }
                    owned.serving_mut(hash, b"k", Nanos(1)).and_then(|entry| entry.write(verb, &message))
                }
            };
            assert_eq!(answer, expected, "seed {seed}");
        }
        if owned.is_lent(hash) {
            owned.taken_back(hash, tier.take_back(hash));
        }
        assert_eq!(owned.serving(hash, b"k", Nanos(1)), Some(&plain), "seed {seed}");
        assert!(by_tier > 5 && passed > 10, "{by_tier} {passed}");
    }
}

#[test]
fn a_loan_ends_with_its_room_and_its_time() {
    let mut tier = Model::<NoBugs>::default();
    let mut owned = super::super::owned::Owned::new(4);
    owned.take(entry());
    let hash = entry().kept.hash;
    let loan = owned.loan(hash, b"k", Nanos(1), false).expect("it serves");
    tier.lend(&Loan { room: 2, ..loan });
    owned.lent(hash);
    assert_eq!(owned.loan(hash, b"k", Nanos(1), false), None, "it is lent");
    assert_eq!((owned.lent_due(Nanos(49)), owned.lent_due(Nanos(50))), (vec![], vec![hash]));
    assert_eq!((owned.lent_of(HomeId(1)), owned.lent_of(HomeId(2))), (vec![hash], vec![]));
    let mut incr = Message::request(Verb::Incr, b"k");
    (incr.header.client, incr.header.round, incr.header.flags) = (CLIENT, Round(4), Flags::OWNABLE);
    let mut ask = |operation: u64, now: u64| {
        let mut message = incr.clone();
        (message.header.operation, message.header.operand) = (OpNumber(operation), 1);
        tier.answer(Nanos(now), NodeId::Client(CLIENT), &message).map(|reply| reply.header.operand)
    };
    assert_eq!(ask(7, 50), None, "over");
    assert_eq!([ask(7, 49), ask(7, 49), ask(8, 49), ask(9, 49)], [Some(11), None, Some(12), None]);
}

#[test]
#[should_panic = "taken back before it is touched"]
fn a_lent_key_is_not_touched() {
    let mut owned = super::super::owned::Owned::new(4);
    owned.take(entry());
    let hash = entry().kept.hash;
    owned.lent(hash);
    let (verb, message) = request(&mut Prng::new(1));
    owned.serving_mut(hash, b"k", Nanos(1)).map(|entry| entry.write(verb, &message));
}
