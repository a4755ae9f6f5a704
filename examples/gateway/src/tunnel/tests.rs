//! What one gateway seals the other opens, once; whatever else comes does no harm.

use crate::net::Reason;
use crate::packet::Mac;
use crate::packet::build;
use crate::place::tests::{CLIENT, Gateway, SERVER, frame, pair};
use crate::registers::placements;
use base::prng::Prng;
use codec::memory::Place;
use proptest::prelude::*;

const OWN: Mac = Mac([2, 0, 0, 0, 0, 10]);

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn packets_of_every_length_arrive_whatever_order_they_come_in(seed in any::<u64>(), bits in 0..8_usize) {
        let mut prng = Prng::new(seed);
        let placement = placements().nth(bits).expect("eight");
        let [mut a, mut b] = pair([placement, [Place::Host; 3]]);
        let mut sealed = Vec::new();
        for n in 0..60_u16 {
            // 1440 bytes are the longest that fit.
            let len = prng.below(1413) as usize;
            let mut payload = vec![0; len];
            prng.fill(&mut payload);
            let out = a.take(0, &frame(&build::udp((CLIENT, 1024 + n), (SERVER, 9), &payload), OWN));
            sealed.push((out[0].1.clone(), payload));
        }
        for at in (1..sealed.len()).rev() {
            sealed.swap(at, prng.below(at as u64 + 1) as usize);
        }
        for (frame, payload) in &sealed {
            let out = b.take(1, frame);
            prop_assert_eq!(&out[0].1[42..], &payload[..]);
            prop_assert!(b.take(1, frame).is_empty());
        }
    }

    #[test]
    fn changed_and_cut_frames_are_refused(at in any::<prop::sample::Index>(), flip in 1..=255_u8, cuts in any::<bool>(), bits in 0..8_usize) {
        let placement = placements().nth(bits).expect("eight");
        let [mut a, mut b] = pair([[Place::Host; 3], placement]);
        let mut sealed = a.take(0, &frame(&build::udp((CLIENT, 1), (SERVER, 9), &[7; 50]), OWN)).remove(0).1;
        // Behind the outer headers: those are for the network to change.
        let at = 46 + at.index(sealed.len() - 46);
        if cuts { sealed.truncate(at) } else { sealed[at] ^= flip }
        prop_assert!(b.take(1, &sealed).is_empty());
    }

    #[test]
    fn noise_does_no_harm(seed in any::<u64>(), bits in 0..8_usize) {
        let mut prng = Prng::new(seed);
        let placement = placements().nth(bits).expect("eight");
        let [mut a, _] = pair([placement, placement]);
        let good = a.take(0, &frame(&build::udp((CLIENT, 1), (SERVER, 9), &[7; 50]), OWN)).remove(0).1;
        for _ in 0..200 {
            let mut bytes = match prng.below(3) {
                0 => vec![0; prng.below(200) as usize],
                1 => good.clone(),
                _ => frame(&build::tcp((CLIENT, 4), (SERVER, 5), 2, &[1; 9]), OWN),
            };
            if bytes.len() > 14 {
                for _ in 0..prng.below(4) {
                    let at = prng.below(bytes.len() as u64) as usize;
                    bytes[at] = prng.below(256) as u8;
                }
                bytes.truncate(14 + prng.below(bytes.len() as u64 - 13) as usize);
            }
            a.take(prng.below(2) as u8, &bytes);
            a.now_ns += prng.below(1 << 28);
        }
        a.tick();
    }
}

#[test]
fn without_a_session_nothing_is_sealed() {
    let mut a = Gateway::new(0, [Place::Acc; 3], 1);
    assert!(a.take(0, &frame(&build::udp((CLIENT, 1), (SERVER, 9), &[]), OWN)).is_empty());
    assert_eq!(a.dropped(), [(Reason::NoSession, 1)]);
}
