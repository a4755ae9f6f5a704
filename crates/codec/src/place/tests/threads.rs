//! Lanes of several threads: each message comes back once, as its table says, whatever the order of their turns; and with threads.

use super::{BLOB, Planted, Rig, TEXTS, class, id, types};
use crate::encode::Strategy;
use crate::encode::tests::shapes::delimited;
use crate::memory::{CHUNK, Memory, Place};
use crate::object::dynamic::Value;
use crate::place::{Accelerator, Live, Options, Placed, SendRefused, Ticket};
use crate::table::Flags;
use base::prng::Prng;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

const CASES: u32 = if cfg!(miri) { 2 } else { 60 };

/// `count` texts that say which message they are of, and a blob.
fn message(number: u8, count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    (0..count).for_each(|_| delimited(4, &[b'a' + number % 26; 100], &mut out));
    delimited(2, &[number; 300], &mut out);
    out
}

/// The same with its fields in the order of their numbers, as they are sent.
fn canonical(number: u8, count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    delimited(2, &[number; 300], &mut out);
    (0..count).for_each(|_| delimited(4, &[b'a' + number % 26; 100], &mut out));
    out
}

/// Its texts are those of this message, and each field is where the message's own table says.
fn check(message: &Placed, number: u8, count: usize) {
    let texts = message.dynamic(types()).get(TEXTS).and_then(Value::as_list);
    let texts: Vec<_> = texts.iter().flat_map(|list| list.iter()).collect();
    assert_eq!(texts.len(), count);
    assert!(texts.iter().all(|text| text.as_bytes() == Some(&[b'a' + number % 26; 100])));
    let table = message.table();
    let entry = table.entries(table.message(class()))[id(BLOB).entry as usize];
    assert_eq!(entry.flags.has(Flags::ACC), message.is_in_acc(&[id(BLOB)]));
}

/// What is under way: number and texts of each message, by its ticket.
type UnderWay = HashMap<Ticket, (u8, usize)>;

/// Messages, turns of any place and changes of the table in any order.
fn play(seed: u64, threads: usize) {
    let mut prng = Prng::new(seed);
    let mut rig = Rig::with(types().table().clone(), |options| {
        (options.threads, options.lanes, options.requests) = (threads, 1 + prng.below(3) as usize, 4);
    });
    let (mut under_way, mut kept) = (UnderWay::new(), Vec::new());
    let mut begun = 0_u8;
    while begun < 40 || !under_way.is_empty() {
        match prng.below(10) {
            0..3 if begun < 40 => {
                let (number, count) = (begun, [0, 3, 150][prng.below(3) as usize]);
                if let Ok(ticket) = rig.accelerator.submit(class(), message(number, count)) {
                    begun += 1;
                    assert_eq!(under_way.insert(ticket, (number, count)), None, "a ticket is used twice");
                } else {
                    assert!(under_way.len() >= 4, "one thread's ring holds four");
                }
            }
            3 => {
                rig.accelerator.live().set_target(id(BLOB), [Place::Host, Place::Acc][prng.below(2) as usize])
            }
            4 => kept.truncate(prng.below(4) as usize),
            _ => {
                let thread = prng.below(threads as u64) as usize;
                if let Some((ticket, done)) = rig.accelerator.turn_of(thread) {
                    let (number, count) =
                        under_way.remove(&ticket).expect("a message that is under way, once");
                    let done = done.expect("a good message");
                    check(&done, number, count);
                    kept.push((done, number, count));
                }
            }
        }
    }
    kept.iter().for_each(|(message, number, count)| check(message, *number, *count));
    drop(kept);
    assert!(rig.is_empty());
    assert_eq!(rig.accelerator.figures().messages, 40);
    assert_eq!((rig.accelerator.in_flight(), rig.accelerator.figures().lanes_busy), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_message_comes_back_once_whatever_the_order_of_turns(seed in any::<u64>(), threads in 1..4_usize) {
        play(seed, threads);
    }
}

/// Of eight messages submitted at once, how many were done by the second place alone.
fn spread(planted: Option<Planted>) -> usize {
    let mut rig = Rig::with(types().table().clone(), |options| {
        (options.threads, options.requests, options.planted) = (2, 16, planted);
    });
    for number in 0..8 {
        rig.accelerator.submit(class(), message(number, 1)).expect("room");
    }
    let mut done = 0;
    while rig.accelerator.threads[1].client.in_flight() > 0 {
        done += usize::from(rig.accelerator.turn_of(1).is_some());
    }
    while rig.accelerator.turn_of(1).is_some() {
        done += 1;
    }
    done
}

#[test]
fn requests_go_to_the_least_loaded_thread_and_one_that_does_not_is_found() {
    assert_eq!(spread(None), 4);
    assert_eq!(spread(Some(Planted::FirstThreadOnly)), 0);
}

#[test]
fn fewer_lanes_take_messages_from_the_moment_a_register_says_so() {
    let mut rig = Rig::new(types().table().clone());
    rig.accelerator.registers().lanes.store(1, std::sync::atomic::Ordering::Relaxed);
    for number in 0..4 {
        rig.accelerator.submit(class(), message(number, 150)).expect("room");
    }
    for _ in 0..3 {
        assert!(rig.accelerator.poll().is_none());
        assert_eq!(rig.accelerator.figures().lanes_busy, 1);
    }
    rig.accelerator.registers().lanes.store(3, std::sync::atomic::Ordering::Relaxed);
    assert!(rig.accelerator.poll().is_none());
    assert_eq!(rig.accelerator.figures().lanes_busy, 3);
}

#[test]
fn what_is_sent_without_waiting_is_what_is_sent_with() {
    let mut rig = Rig::with(types().table().clone(), |options| options.requests = 4);
    let wire = canonical(7, 20);
    let mut messages: Vec<_> = (0..5).map(|_| rig.receive(class(), &wire)).collect();
    let mut tickets = Vec::new();
    for strategy in [Strategy::AcceleratorOnly, Strategy::MemoryAffinity, Strategy::MemoryAffinity] {
        let message = messages.pop().expect("there are five");
        tickets.push(rig.accelerator.submit_send(message, strategy, 16).expect("room"));
    }
    let refused = rig.accelerator.submit_send(messages.pop().expect("there are five"), Strategy::CpuOnly, 16);
    let (why, message) = refused.expect_err("the blob is in accelerator memory");
    assert!(matches!(why, SendRefused::Encode(_)));
    tickets.push(rig.accelerator.submit_send(*message, Strategy::MemoryAffinity, 16).expect("room"));
    let one_more = rig.accelerator.submit_send(messages.pop().expect("the last"), Strategy::CpuOnly, 0);
    let (why, message) = one_more.expect_err("the ring is full");
    assert_eq!(why, SendRefused::Busy);
    drop(message);
    while !tickets.is_empty() {
        let Some((ticket, frame)) = rig.accelerator.poll_sent() else { continue };
        let frame = frame.expect("a good message");
        assert_eq!((&frame[..16], &frame[16..]), (&[0; 16][..], &wire[..]));
        let at = tickets.iter().position(|&other| other == ticket).expect("one of them, once");
        tickets.swap_remove(at);
    }
    assert!(rig.is_empty());
}

#[test]
fn what_is_being_sent_ends_with_the_accelerator() {
    let mut rig = Rig::new(types().table().clone());
    let message = rig.receive(class(), &message(1, 20));
    rig.accelerator.submit_send(message, Strategy::MemoryAffinity, 0).expect("room");
    let Rig { accelerator, host } = rig;
    drop(accelerator);
    assert_eq!(host.occupancy().held, 0);
}

#[test]
#[cfg_attr(miri, ignore = "futexes of several threads; the other tests have one")]
fn threads_decode_and_send_what_one_does() {
    let live = Arc::new(Live::new(types().table().clone()));
    let host = Memory::host(4096 * CHUNK).expect("memory");
    let options =
        Options { threads: 3, host: Arc::clone(&host), acc_bytes: 4096 * CHUNK, ..Options::default() };
    let mut accelerator = Accelerator::start(Arc::clone(&live), options).expect("threads");
    let (mut under_way, mut sending) = (UnderWay::new(), UnderWay::new());
    let (mut begun, mut done) = (0_usize, 0_usize);
    while done < 400 {
        if begun < 400 && under_way.len() + sending.len() < 100 {
            let (number, count) = (begun as u8, [0, 5, 60][begun % 3]);
            let ticket = accelerator.submit(class(), message(number, count)).expect("three rings have room");
            under_way.insert(ticket, (number, count));
            begun += 1;
            // The table turns while threads decode.
            live.set_target(id(BLOB), [Place::Host, Place::Acc][begun / 7 % 2]);
        }
        while let Some((ticket, placed)) = accelerator.poll() {
            let (number, count) = under_way.remove(&ticket).expect("one response for each");
            let placed = placed.expect("a good message");
            check(&placed, number, count);
            let ticket = accelerator.submit_send(placed, Strategy::MemoryAffinity, 0).expect("room");
            sending.insert(ticket, (number, count));
        }
        while let Some((ticket, frame)) = accelerator.poll_sent() {
            let (number, count) = sending.remove(&ticket).expect("one response for each");
            assert!(frame.expect("a good message") == canonical(number, count));
            done += 1;
        }
        std::thread::yield_now();
    }
    assert_eq!((accelerator.memory().occupancy().held, host.occupancy().held), (0, 0));
}
