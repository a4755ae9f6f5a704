//! What a task may wait for, and that nobody else waits for it.

use super::script::{HOST_GONE, HOST_PANICKED, Op, Rig};
use crate::{HostPool, Order, ServiceOptions};
use base::Nanos;
use ring::wait::{WaitPolicy, waiting};

#[test]
fn sleepers_wake_at_their_time_and_the_engine_says_when() {
    let mut rig = Rig::simple();
    let late = rig.ask(None, &[Op::Sleep(500)]);
    let soon = rig.ask(None, &[Op::Sleep(100), Op::Sleep(50)]);
    let race = rig.ask(None, &[Op::Race(9000, 300)]);
    rig.settle_at(0);
    assert_eq!((rig.engine.next_deadline(), rig.engine.in_flight()), (Nanos(100), 3));
    rig.settle_at(99);
    assert!(rig.replies.is_empty());
    rig.settle_at(110);
    assert_eq!(rig.engine.next_deadline(), Nanos(160), "from when it was awake");
    rig.settle_at(160);
    assert_eq!(rig.said(soon), Some(Ok(vec![110, 160])));
    assert_eq!(rig.engine.next_deadline(), Nanos(300));
    rig.settle_at(300);
    assert_eq!(rig.said(race), Some(Ok(vec![300])));
    rig.settle_at(500);
    assert_eq!(rig.said(late), Some(Ok(vec![500])));
    assert_eq!((rig.engine.next_deadline(), rig.engine.in_flight()), (Nanos::MAX, 0));
    assert!(!rig.engine.has_work());
}

#[test]
fn entries_are_waited_for_until_they_are_durable() {
    let mut rig = Rig::simple();
    let numbers = [0, 1, 2].map(|_| rig.ask(None, &[Op::Durable]));
    rig.settle_at(0);
    assert!(rig.replies.is_empty() && !rig.engine.has_work());
    let log = rig.engine.service(rig.script).log.clone();
    log.sync(2);
    assert!(rig.engine.has_work(), "the log has gone on");
    rig.settle_at(0);
    assert_eq!(numbers.map(|n| rig.said(n)), [Some(Ok(vec![0])), Some(Ok(vec![1])), None]);
    log.sync(1);
    rig.settle_at(0);
    assert_eq!(rig.said(numbers[2]), Some(Ok(vec![2])));
}

#[test]
fn those_of_one_key_wait_for_each_other_and_no_others() {
    let mut rig = Rig::simple();
    let first = rig.ask(Some(7), &[Op::Sleep(100)]);
    let second = rig.ask(Some(7), &[]);
    let other = rig.ask(Some(8), &[]);
    let none = rig.ask(None, &[]);
    rig.settle_at(0);
    assert!(rig.said(first).is_none() && rig.said(second).is_none());
    assert!(rig.said(other).is_some() && rig.said(none).is_some());
    rig.settle_at(100);
    assert!(rig.said(first).is_some() && rig.said(second).is_some());
    assert_eq!(rig.engine.service(rig.script).ended, [8, 7, 7]);
}

#[test]
fn a_port_may_ask_for_order() {
    let mut rig = Rig::in_port_order();
    let first = rig.ask(None, &[Op::Sleep(100)]);
    let second = rig.ask(Some(8), &[]);
    rig.settle_at(0);
    assert!(rig.replies.is_empty());
    rig.settle_at(100);
    assert!(rig.said(first).is_some() && rig.said(second).is_some());
}

#[test]
fn a_service_calls_a_staged_one_and_itself() {
    let mut rig = Rig::simple();
    let adds = rig.ask(None, &[Op::Add(1), Op::Touch, Op::Add(41), Op::Add(13)]);
    let calls = rig.ask(None, &[Op::Call(vec![Op::Sleep(10), Op::Call(vec![Op::Add(5)], 3)], 100)]);
    rig.settle_at(0);
    assert_eq!(rig.said(adds), Some(Ok(vec![2, 42, 0])));
    assert_eq!(rig.engine.totals().panicked, 1);
    assert_eq!(rig.said(calls), None);
    rig.settle_at(10);
    assert_eq!(rig.said(calls), Some(Ok(vec![10, 6, 3, 100])));
}

#[test]
#[cfg_attr(miri, ignore = "many passes")]
fn calls_beyond_their_room_come_later_and_bytes_are_given_back() {
    let mut rig = Rig::new(256, ServiceOptions::default());
    // 200 callers, 64 calls at once; 200 replies of 4 KiB, 256 KiB of room, in any order.
    let numbers: Vec<u32> = (0..200u64)
        .map(|i| rig.ask(None, &[Op::Call(vec![Op::Sleep(i * 7 % 50)], 4096), Op::Add(i + 100)]))
        .collect();
    for now in 0..4000 {
        rig.settle_at(now);
        if rig.replies.len() == 200 {
            break;
        }
    }
    for (i, number) in numbers.into_iter().enumerate() {
        let said = rig.said(number).expect("a reply").expect("no failure");
        assert_eq!(said[1..], [4096, i as u64 + 101]);
    }
    assert_eq!((rig.engine.in_flight(), rig.alive()), (0, 0));
}

#[test]
fn who_goes_without_its_call_leaves_nothing_behind() {
    let mut rig = Rig::simple();
    for round in 0..3 {
        let numbers: Vec<u32> =
            (0..64).map(|_| rig.ask(None, &[Op::CallForgotten(vec![Op::Sleep(5)])])).collect();
        rig.settle_at(round * 10);
        assert!(numbers.iter().all(|&n| rig.said(n).is_some()), "round {round}");
        rig.settle_at(round * 10 + 5);
        assert_eq!(rig.alive(), 0);
    }
}

#[test]
fn sleepers_of_one_service_leave_room_for_staged_ones_and_calls() {
    let mut rig = Rig::new(4, ServiceOptions::default());
    let numbers: Vec<u32> = (0..6).map(|_| rig.ask(None, &[Op::Sleep(100), Op::Add(1)])).collect();
    rig.settle_at(0);
    assert_eq!(rig.engine.in_flight(), 4, "two wait in their ring");
    assert!(rig.adds.submit(Nanos(0), 5).is_ok());
    rig.adds.ring();
    rig.settle_at(0);
    assert_eq!(rig.adds.poll().map(|sum| sum.body.0), Some(6));
    rig.settle_at(100);
    rig.settle_at(200);
    assert!(numbers.iter().all(|&n| rig.said(n).is_some()));
}

#[test]
fn a_services_own_bound_holds() {
    let mut rig = Rig::new(64, ServiceOptions { in_flight: 3, order: Order::Key, weight: 1 });
    (0..10).for_each(|_| _ = rig.ask(None, &[Op::Sleep(1)]));
    for now in 0..4 {
        rig.settle_at(now);
        assert_eq!(rig.engine.in_flight(), [3, 3, 3, 1][now as usize]);
    }
}

/// Passes until all `wanted` are answered, however long the threads take.
fn pass_until(rig: &mut Rig, wanted: &[u32]) {
    while wanted.iter().any(|&n| rig.said(n).is_none()) {
        rig.pass_at(0);
        std::thread::yield_now();
    }
}

#[test]
#[cfg_attr(miri, ignore = "its threads sleep on futexes")]
fn host_threads_do_what_blocks_and_say_what_came_of_it() {
    let pool = HostPool::new(2, WaitPolicy::BLOCK).expect("threads");
    let mut rig = Rig::new(256, ServiceOptions::default());
    // Room for 8 on each thread, and more work than that.
    rig.engine.set_host(pool.attach(8, None));
    let numbers: Vec<u32> = (0..100).map(|_| rig.ask(None, &[Op::Host(|| 6 * 7)])).collect();
    let panics = rig.ask(None, &[Op::Host(|| panic!("planted")), Op::Host(|| 1)]);
    let forgets = rig.ask(None, &[Op::HostForgotten(|| 2), Op::HostForgotten(|| 2)]);
    pass_until(&mut rig, &numbers);
    pass_until(&mut rig, &[panics, forgets]);
    assert!(numbers.iter().all(|&n| rig.said(n) == Some(Ok(vec![42]))));
    assert_eq!(rig.said(panics), Some(Ok(vec![HOST_PANICKED, 1])));
    drop(pool);
    let gone = rig.ask(None, &[Op::Host(|| 1)]);
    pass_until(&mut rig, &[gone]);
    assert_eq!(rig.said(gone), Some(Ok(vec![HOST_GONE])));
}

#[test]
#[cfg_attr(miri, ignore = "its threads sleep on futexes")]
fn engines_share_host_threads_which_wake_them() {
    let pool = HostPool::new(2, WaitPolicy::default()).expect("threads");
    std::thread::scope(|scope| {
        for engine in 0..2 {
            let pool = &pool;
            scope.spawn(move || {
                let (mut sleeper, waker) = waiting();
                let mut rig = Rig::simple();
                rig.engine.set_host(pool.attach(64, Some(waker)));
                for round in 0..50 {
                    let number = rig.ask(None, &[Op::Host(|| 3), Op::Host(|| 4)]);
                    loop {
                        let more = rig.pass_at(0).more;
                        if rig.said(number).is_some() {
                            break;
                        }
                        if !more {
                            sleeper.wait_until(WaitPolicy::BLOCK, None, || rig.engine.has_work());
                        }
                    }
                    assert_eq!(rig.said(number), Some(Ok(vec![3, 4])), "engine {engine}, round {round}");
                    rig.replies.clear();
                }
            });
        }
    });
}
