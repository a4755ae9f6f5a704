use super::*;
use crate::mapping::tests::anonymous;
use crate::spsc::{Full, InSlot, Index};
use proptest::prelude::*;

const STEPS: u64 = if cfg!(miri) { 200 } else { 50_000 };

fn mapped<K: Kind>(capacity: u32) -> (Client<u64, u64, K>, Server<u64, u64, K>) {
    let memory = anonymous(mapped_bytes::<K, u64, u64>(capacity));
    (map_client(&memory, 0, capacity), map_server(&memory, 0, capacity))
}

fn credits_bound_what_is_in_flight<K: Kind>(
    (mut client, mut server): (Client<u64, u64, K>, Server<u64, u64, K>),
) {
    let entries = client.entries();
    for lap in 0..4 {
        for i in 0..u64::from(entries) {
            assert!(client.try_send(lap + i).is_ok());
        }
        assert_eq!(client.try_send(7), Err(Full(7)));
        assert_eq!((client.free(), client.in_flight()), (0, entries));
        assert!(server.is_ready());
        assert_eq!(server.answer(usize::MAX, |_, n| n * 2), entries as usize);
        assert_eq!(server.try_recv(), None);
        let mut expected = lap;
        assert!(client.is_ready());
        let taken = client.drain(usize::MAX, |_, n| {
            assert_eq!(n, expected * 2);
            expected += 1;
        });
        assert_eq!(taken, entries as usize);
        assert_eq!(client.poll(), None);
    }
}

fn replies_in_any_order<K: Kind>((mut client, mut server): (Client<u64, u64, K>, Server<u64, u64, K>)) {
    let tags = [10, 20, 30, 40].map(|n| client.try_send(n).expect("a credit"));
    client.flush();
    let mut waiting = Vec::new();
    server.drain(8, |tag, n| waiting.push((tag, n)));
    assert_eq!(server.owed(), 4);
    for i in [2, 0, 3, 1] {
        let (tag, n) = waiting[i];
        server.reply(tag, n + 1);
    }
    server.flush();
    let replies: Vec<_> = std::iter::from_fn(|| client.poll()).collect();
    assert_eq!(replies, [(tags[2], 31), (tags[0], 11), (tags[3], 41), (tags[1], 21)]);
}

fn two_threads_lose_nothing<K: Kind>((mut client, mut server): (Client<u64, u64, K>, Server<u64, u64, K>)) {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut answered = 0;
            while answered < STEPS {
                let n = server.answer(16, |tag, n| n ^ u64::from(tag.0) << 32);
                answered += n as u64;
                if n == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let (mut sent, mut seen) = (0, 0);
        while seen < STEPS {
            while sent < STEPS && client.try_send(sent).is_ok() {
                sent += 1;
            }
            client.flush();
            let n = client.drain(64, |tag, n| {
                assert_eq!(n, seen ^ u64::from(tag.0) << 32);
                seen += 1;
            });
            if n == 0 {
                std::thread::yield_now();
            }
        }
    });
}

fn suite<K: Kind>() {
    for capacity in [1, 2, 32] {
        credits_bound_what_is_in_flight(pair_of::<K, _, _>(capacity));
    }
    replies_in_any_order(pair_of::<K, _, _>(4));
    two_threads_lose_nothing(pair_of::<K, _, _>(16));
    if !cfg!(miri) {
        credits_bound_what_is_in_flight(mapped::<K>(8));
        replies_in_any_order(mapped::<K>(8));
        two_threads_lose_nothing(mapped::<K>(16));
    }
}

#[test]
fn pairs_on_every_ring_conform() {
    suite::<Hybrid>();
    suite::<InSlot>();
    suite::<Index>();
}

#[test]
#[should_panic(expected = "without a request")]
fn a_second_reply_is_a_bug() {
    let (mut client, mut server) = pair::<u8, u8>(2);
    client.try_send(1).expect("a credit");
    client.flush();
    let (tag, n) = server.try_recv().expect("a request");
    server.reply(tag, n);
    server.reply(tag, n);
}

#[test]
fn each_half_sees_the_other_go() {
    let (mut client, mut server) = pair::<Box<u8>, Box<u8>>(2);
    client.try_send(Box::new(1)).expect("a credit");
    client.flush();
    let (tag, n) = server.try_recv().expect("a request");
    server.reply(tag, n);
    assert!(!client.is_abandoned());
    drop(server);
    assert!(client.is_abandoned());
    assert_eq!(client.poll(), Some((tag, Box::new(1))));

    let (mut client, mut server) = pair::<Box<u8>, Box<u8>>(2);
    client.try_send(Box::new(2)).expect("a credit");
    drop(client);
    assert!(server.is_abandoned());
    assert_eq!(server.try_recv().map(|(_, n)| *n), Some(2));
}

#[test]
fn a_client_ignores_replies_it_did_not_ask_for() {
    if cfg!(miri) {
        return; // mappings are beyond Miri
    }
    let memory = anonymous(mapped_bytes::<Hybrid, u64, u64>(4));
    let mut client = map_client::<Hybrid, u64, u64>(&memory, 0, 4);
    // A server that lies: it writes into the response ring by itself.
    let at = Hybrid::mapped_bytes::<u64>(4);
    let mut liar = Hybrid::map_producer::<Reply<u64>>(&memory, at, 4);
    use crate::spsc::Produce;
    for tag in 0..4 {
        assert!(liar.try_push(Reply { tag, body: 1 }).is_ok());
    }
    liar.publish();
    assert_eq!(client.poll(), None);
    assert_eq!(client.drain(9, |_, _| panic!("nothing was asked")), 0);
    client.try_send(5).expect("a credit");
    client.flush();
    assert!(client.poll().is_some());
    assert_eq!((client.poll(), client.free()), (None, 4));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Every request is answered once, whatever the interleaving and the order of replies.
    #[test]
    fn exactly_one_reply_each(steps in proptest::collection::vec((0u8..5, any::<u16>()), 0..300)) {
        let (mut client, mut server) = pair::<u32, u32>(8);
        let (mut sent, mut open, mut taken) = (0u32, std::collections::BTreeMap::new(), Vec::new());
        for (step, pick) in steps {
            match step {
                0 | 1 => match client.try_send(sent) {
                    Ok(tag) => {
                        prop_assert!(open.len() < 8);
                        prop_assert!(open.insert(tag, sent).is_none());
                        sent += 1;
                    }
                    Err(Full(back)) => prop_assert!(back == sent && open.len() == 8),
                },
                2 => {
                    client.flush();
                    server.drain(usize::from(pick % 4), |tag, n| taken.push((tag, n)));
                }
                3 if !taken.is_empty() => {
                    let (tag, n) = taken.swap_remove(usize::from(pick) % taken.len());
                    server.reply(tag, n.wrapping_mul(3));
                }
                _ => {
                    server.flush();
                    while let Some((tag, n)) = client.poll() {
                        prop_assert_eq!(open.remove(&tag).map(|n| n.wrapping_mul(3)), Some(n));
                    }
                }
            }
            prop_assert_eq!(client.in_flight() as usize, open.len());
        }
    }
}
