//! Hash, sum, times and places.

use super::*;
use fields::at;
use proptest::prelude::*;

proptest! {
    #[test]
    fn the_sum_is_the_polynomial_and_can_be_put_together(
        words in prop::collection::vec(any::<u32>(), 0..70), cut: prop::sample::Index,
    ) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let plain = words.iter().fold(0u64, |sum, &word| sum.wrapping_mul(BASE).wrapping_add(u64::from(word)));
        prop_assert_eq!(extend(0, &bytes), plain);
        let (a, b) = bytes.split_at(4 * cut.index(words.len() + 1));
        prop_assert_eq!(extend(extend(0, a), b), plain);
        prop_assert_eq!(extend(0, a).wrapping_mul(power(b.len() / 4)).wrapping_add(extend(0, b)), plain);
    }
}

/// Overwrites words of a packet and brings its sum up to date from their difference alone, as XDP does.
fn patch(bytes: &mut [u8], offset: usize, with: &[u8]) {
    let words = bytes.len() / 4;
    let mut sum = u64::from_le_bytes(bytes[at::CHECKSUM..][..8].try_into().expect("eight"));
    for (i, new) in with.as_chunks::<4>().0.iter().enumerate() {
        let place = offset + 4 * i;
        let old: [u8; 4] = bytes[place..][..4].try_into().expect("four");
        let change = u64::from(u32::from_le_bytes(*new)).wrapping_sub(u64::from(u32::from_le_bytes(old)));
        sum = sum.wrapping_add(change.wrapping_mul(power(words - place / 4)));
        bytes[place..][..4].copy_from_slice(new);
    }
    bytes[at::CHECKSUM..][..8].copy_from_slice(&sum.to_le_bytes());
}

/// Makes a reply of a request in place, as the documents say.
fn answered_in_place(mut bytes: Vec<u8>, reply: &[u8]) -> Vec<u8> {
    let (value, fields) = (reply.split_at(bytes.len()).1, &reply[at::PROTOCOL..HEADER]);
    for (from, to) in [(at::PROTOCOL, at::HASH), (at::VERSION, at::CLIENT), (at::TTL, at::BOX)] {
        patch(&mut bytes, from, &fields[from - at::PROTOCOL..to - at::PROTOCOL]);
    }
    let sum = u64::from_le_bytes(bytes[at::CHECKSUM..][..8].try_into().expect("eight"));
    let sum = sum.wrapping_mul(power(value.len() / 4)).wrapping_add(extend(0, value).wrapping_mul(BASE));
    bytes[at::CHECKSUM..][..8].copy_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(value);
    bytes
}

#[test]
fn a_reply_made_in_place_is_right_and_shows_what_the_request_suffered() {
    let (request, reply) = (bytes_of(&expanded()), bytes_of(&fill()));
    let request = request[..request.len() - expanded().padding].to_vec();
    let made = answered_in_place(request.clone(), &reply);
    assert_eq!(made, reply);
    for byte in [at::REQUEST, at::CLIENT, at::OPERATION + 7, HEADER, HEADER + 5] {
        let mut damaged = request.clone();
        damaged[byte] ^= 4;
        assert_eq!(
            Packet::parse(&answered_in_place(damaged, &reply)),
            Err(Malformed::Checksum),
            "byte {byte}"
        );
    }
}

#[test]
fn what_remains_is_never_less_than_nothing() {
    assert_eq!(Ttl::until(Nanos(9), Nanos(5)).nanos(), Nanos(4));
    assert_eq!(Ttl::until(Nanos(5), Nanos(6)).nanos(), Nanos(0));
    assert_eq!(Ttl::until(Nanos::MAX, Nanos(5)), Ttl::NEVER);
}

#[test]
fn the_base_is_five_modulo_eight() {
    assert_eq!(BASE % 8, 5);
}

/// Every bit of a key changes every bit of its hash in about half of the keys.
#[test]
fn the_hash_mixes() {
    const KEYS: u32 = 2000;
    for len in [6usize, 8, 23] {
        let mut changes = vec![[0u32; 32]; 8 * len];
        for i in 0..KEYS {
            let mut key = format!("{i:0len$}").into_bytes();
            let hash = key_hash(&key).0;
            for (bit, counts) in changes.iter_mut().enumerate() {
                key[bit / 8] ^= 1 << (bit % 8);
                let changed = hash ^ key_hash(&key).0;
                (0..32).for_each(|i| counts[i] += changed >> i & 1);
                key[bit / 8] ^= 1 << (bit % 8);
            }
        }
        for (bit, counts) in changes.iter().enumerate() {
            for (i, &count) in counts.iter().enumerate() {
                let share = f64::from(count) / f64::from(KEYS);
                assert!((0.42..0.58).contains(&share), "{len} bytes: bit {bit} changes bit {i} in {share}");
            }
        }
    }
}

/// Keys that differ by a counter fill buckets, by lowest and by highest bits, as random numbers would.
#[test]
fn the_hash_spreads_counted_keys() {
    const BUCKETS: usize = 4096;
    for shift in [0, 20] {
        let mut counts = vec![0u32; BUCKETS];
        (0..16 * BUCKETS).for_each(|i| {
            let hash = key_hash(format!("user:{i}").as_bytes()).0;
            counts[hash as usize >> shift & (BUCKETS - 1)] += 1;
        });
        let chi: f64 = counts.iter().map(|&count| (f64::from(count) - 16.0).powi(2) / 16.0).sum();
        let freedom = (BUCKETS - 1) as f64;
        assert!((chi - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(), "chi squared {chi} for {freedom}");
    }
}

#[test]
fn a_box_has_one_place_and_the_fifth_none() {
    let mut sharers = Sharers::default();
    assert!(sharers.is_empty());
    for at in 1..=4 {
        assert!(sharers.push(BoxId(at), Token(u64::from(at))));
    }
    assert!(sharers.push(BoxId(2), Token(20)), "it has a place");
    assert!(!sharers.push(BoxId(5), Token(5)));
    assert_eq!(
        (sharers.len(), sharers.token_of(BoxId(2)), sharers.token_of(BoxId(5))),
        (4, Some(Token(20)), None)
    );
}

#[test]
fn codes_and_names_are_unique() {
    let opcodes: Vec<Opcode> = (0..=255).filter_map(Opcode::from_code).collect();
    assert_eq!(opcodes.len(), 2 * Verb::ALL.len() + Control::ALL.len());
    for code in 0..=255 {
        assert!(Opcode::from_code(code).is_none_or(|opcode| opcode.code() == code));
    }
    let known = Flags::NAMED.iter().fold(Flags::NONE, |all, &(flag, _)| all.with(flag));
    for bits in 0..=u16::MAX {
        assert_eq!(Flags::from_bits(bits).is_some(), bits & !known.bits() == 0);
    }
}

#[test]
fn an_origin_is_what_it_was() {
    for address in ["10.1.2.3:80", "[fe80::1]:443"] {
        let address: SocketAddr = address.parse().expect("an address");
        assert_eq!(Origin::new(address).map(Origin::socket_addr), Some(address));
    }
    assert_eq!(Origin::new(SocketAddr::from(([10, 1, 2, 3], 0))), None);
}

#[test]
fn a_message_is_shown_by_what_it_says() {
    assert_eq!(
        format!("{:?}", counted()),
        "Reply(Incr)(\"user:1\" request=RequestId(258) client=ClientId(1230066625199609624) operation=OpNumber(7) \
         version=Version(101) operand=11 epoch=Epoch(3) flags=Flags(2))"
    );
}
