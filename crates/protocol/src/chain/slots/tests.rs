use super::*;
use crate::chain::attributes::{FLUSHED, beside};
use proptest::prelude::*;
use std::path::Path;

#[test]
fn slots_are_those_of_redis_cluster() {
    assert_eq!(crc16(b"123456789"), 0x31c3);
    for (key, expected) in [("foo", 12182), ("bar", 5061), ("somekey", 11058), ("foo{hash_tag}", 2515)] {
        assert_eq!(slot(key.as_bytes()), Some(expected), "{key}");
    }
    for (one, same) in [
        ("{user1000}.following", "{user1000}.followers"),
        ("foo{{bar}}zap", "{bar"),
        ("foo{bar}{zap}", "bar"),
    ] {
        assert_eq!(slot(one.as_bytes()), slot(same.as_bytes()), "{one}");
    }
    assert_eq!(slot(b"foo{}{bar}"), Some(crc16(b"foo{}{bar}") % SLOTS), "an empty tag is none");
    assert_eq!(slot(b"foo{bar"), Some(crc16(b"foo{bar") % SLOTS), "nor is one that is open");
}

#[test]
fn what_lies_beside_an_item_is_where_it_is_and_a_chain_has_keys_of_its_own() {
    for key in [&b"a"[..], b"x{tag}y", &[7, 0, 7]] {
        assert_eq!(slot(&beside(key)), slot(key));
    }
    for own in [FLUSHED, b"", b"\0\0", b"\0\0home"] {
        assert_eq!(slot(own), None, "{own:?}");
    }
}

/// Keys of all kinds, and what their slots are: for clients in other languages.
#[test]
fn the_vectors_say_what_the_function_does() {
    let mut keys: Vec<Vec<u8>> =
        ["123456789", "a", "foo", "bar", "foo{bar}", "{}x", "{", "}{", "a{b}c{d}", "{{a}}"]
            .map(|key| key.as_bytes().to_vec())
            .into();
    keys.extend([
        FLUSHED.to_vec(),
        b"\0\0own".to_vec(),
        beside(b"foo"),
        beside(b"{bar}x"),
        (0..=255).collect(),
    ]);
    keys.extend((0..64).map(|at| format!("key:{at}").into_bytes()));
    keys.push(b"k".repeat(250));
    let hex = |key: &[u8]| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let line = |key: &Vec<u8>| {
        let slot = slot(key).map_or("null".to_owned(), |slot| slot.to_string());
        format!("{{\"key\": \"{}\", \"slot\": {slot}}}\n", hex(key))
    };
    let text: String = keys.iter().map(line).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/slot-vectors.jsonl");
    if std::env::var_os("MILLRACE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("it can be written");
    }
    let there = std::fs::read_to_string(&path).expect("it is there");
    assert!(
        there == text,
        "{} is not what the function does: MILLRACE_BLESS=1 writes it anew",
        path.display()
    );
}

#[test]
fn sets_are_read_and_written_and_mistakes_said() {
    for (text, again) in
        [("0-8191", "0-8191"), (" 5 ", "5"), ("300-399, 0-99,100 , 200", "0-100,200,300-399")]
    {
        assert_eq!(text.parse::<Slots>().expect(text).to_string(), again);
    }
    assert!("0-16383".parse::<Slots>().expect("all").is_all());
    for (text, words) in [
        ("", "write ranges"),
        ("a-9", "write ranges"),
        ("1-2-3", "write ranges"),
        ("+1", "write ranges"),
        ("70000", "write ranges"),
        ("5-4", "5-4: a range rises"),
        ("0-16384", "0-16384: a range rises, and slots are 0 to 16383"),
        ("0-9,9-12", "slot 9 is there twice"),
    ] {
        let error = text.parse::<Slots>().expect_err(text).to_string();
        assert!(error.contains(words), "{words:?} in {error:?}");
    }
    let many: Vec<_> = (0..=MAX_RANGES as u16).map(|at| (2 * at, 2 * at)).collect();
    assert_eq!(Slots::new(many), Err(BadSlots::TooMany));
}

#[test]
fn a_map_has_every_slot_once() {
    let slots = |text: &str| text.parse::<Slots>().expect("slots");
    assert_eq!(Map::new(&[slots("0-9"), slots("9-16383")]), Err(BadMap::Both(9, 0, 1)));
    assert_eq!(Map::new(&[slots("0-9"), slots("12-16383")]), Err(BadMap::Nobody(10, 11)));
    assert_eq!(Map::new(&[slots("0-9")]), Err(BadMap::Nobody(10, 16383)));
    assert_eq!(Map::new(&[]), Err(BadMap::Nobody(0, 16383)));
    assert_eq!(Map::new(&[Slots::default()]), Ok(Map::alone()));
}

#[test]
fn a_transaction_over_two_chains_is_refused_and_says_which_keys() {
    let map = Map::new(&[Slots::share(0, 2), Slots::share(1, 2)]).expect("a map");
    // 12182 and 5061.
    let across = map.route(&Transaction::new().put("foo", "1").get("bar")).expect_err("two chains");
    assert_eq!(across, Across { one: (b"bar".to_vec(), 0), other: (b"foo".to_vec(), 1) });
    let tagged = Transaction::new().put("{t}foo", "1").get("{t}bar").if_missing("{t}");
    assert_eq!(map.route(&tagged), Ok(Some(map.of(slot(b"t").expect("an item")))));
    let item =
        Transaction { reads: vec![b"foo".to_vec(), beside(b"foo"), FLUSHED.to_vec()], ..Transaction::new() };
    assert_eq!(map.route(&item), Ok(Some(1)));
    let flush = Transaction { reads: vec![FLUSHED.to_vec()], ..Transaction::new() };
    assert_eq!((map.route(&flush), Map::alone().route(&flush)), (Ok(None), Ok(Some(0))));
}

#[test]
fn a_chain_takes_keys_of_its_slots_and_its_own() {
    let half = Slots::share(0, 2);
    // 5061 and 12182.
    let own =
        Transaction { reads: vec![b"bar".to_vec(), beside(b"bar"), FLUSHED.to_vec()], ..Transaction::new() };
    assert_eq!(half.check(&own), Ok(()));
    for other in [
        Transaction::new().put("bar", "1").get("foo"),
        Transaction::new().put("foo", "1"),
        Transaction::new().put("bar", "1").if_missing("foo"),
    ] {
        let refused = half.check(&other).expect_err("foo is another chain's");
        assert_eq!(refused, Malformed::OtherChain(b"foo".to_vec()));
        assert!(refused.to_string().starts_with("\"foo\", of slot 12182, is in another chain"), "{refused}");
        assert_eq!(Slots::default().check(&other), Ok(()));
    }
}

proptest! {
    #[test]
    fn sets_are_what_their_ranges_say(ranges in proptest::collection::vec((0..SLOTS + 9, 0..SLOTS + 9), 0..9)) {
        let among = |slot: u16| ranges.iter().filter(|(from, to)| (*from..=*to).contains(&slot)).count();
        match Slots::new(ranges.clone()) {
            Ok(slots) => {
                for slot in 0..SLOTS {
                    prop_assert_eq!(slots.has(slot), among(slot) == 1);
                }
                prop_assert_eq!(slots.to_string().parse(), Ok(slots.clone()));
            }
            Err(BadSlots::Twice(slot)) => prop_assert!(among(slot) > 1),
            Err(BadSlots::Range(from, to)) => prop_assert!(from > to || to >= SLOTS),
            Err(_) => prop_assert!(ranges.is_empty()),
        }
    }

    #[test]
    fn shares_are_a_map(of in 1_usize..200) {
        let shares: Vec<Slots> = (0..of).map(|at| Slots::share(at, of)).collect();
        let map = Map::new(&shares).expect("every slot once");
        for slot in 0..SLOTS {
            prop_assert!(shares[map.of(slot)].has(slot));
        }
    }
}
