//! Every interleaving and every allowed reordering of small runs, by loom. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p millrace-ring --release --test loom`.
//!
//! Why loom for the sleeping as well: it weakens SeqCst *accesses* to AcqRel, but models SeqCst *fences*, and those are all that
//! the sleeping uses. Shuttle makes every access SeqCst and so could not see a missing fence.
//!
//! Beside each property stands a broken copy that the checker must reject, so that a silent checker is noticed.

#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;
use ring::baton::Baton;
use ring::doorbell::Tracker;
use ring::spmc::spmc;
use ring::spsc::{Consume, Hybrid, InSlot, Index, Kind, Produce};
use ring::summary::summary;
use ring::wait::{Outcome, WaitPolicy, pass_on, waiting, wake_some};

/// Checks `run` in every execution with at most three preemptions, which is where such bugs live.
fn check(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(run);
}

/// Three items through two slots: full, wrap, and both ends racing. `batch` items are published together.
fn passes_every_item<K: Kind>(batch: usize) {
    check(move || {
        let (mut p, mut c) = K::heap::<Box<u32>>(2);
        let producer = thread::spawn(move || {
            let mut waiting = (1..=3u32).map(Box::new).peekable();
            while let Some(item) = waiting.next() {
                let mut item = item;
                while let Err(full) = p.try_push(item) {
                    item = full.0;
                    thread::yield_now();
                }
                if *waiting.peek().map_or(&0, |next| next) as usize % batch == 0 {
                    p.publish();
                }
            }
            p.publish();
            p
        });
        let mut expected = 1;
        while expected <= 3 {
            match c.try_pop() {
                Some(item) => {
                    assert_eq!(*item, expected);
                    expected += 1;
                }
                None => thread::yield_now(),
            }
        }
        assert!(c.try_pop().is_none());
        drop(producer.join().expect("no panic"));
    });
}

#[test]
fn the_slot_ring_passes_every_item() {
    passes_every_item::<InSlot>(1);
}

#[test]
fn the_index_ring_passes_every_item() {
    passes_every_item::<Index>(1);
    passes_every_item::<Index>(2);
}

#[test]
fn the_hybrid_ring_passes_every_item() {
    passes_every_item::<Hybrid>(1);
    passes_every_item::<Hybrid>(2);
}

#[test]
fn a_pair_reuses_slots_only_after_they_were_read() {
    check(|| {
        let (mut client, mut server) = ring::pair::pair::<Box<u32>, Box<u32>>(1);
        let answering = thread::spawn(move || {
            for _ in 0..2 {
                while server.answer(1, |_, n| Box::new(*n + 1)) == 0 {
                    thread::yield_now();
                }
            }
            server
        });
        for n in 0..2 {
            client.try_send(Box::new(n)).expect("a credit");
            client.flush();
            let reply = loop {
                match client.poll() {
                    Some((_, reply)) => break reply,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(*reply, n + 1);
        }
        drop(answering.join().expect("no panic"));
    });
}

#[test]
fn whoever_hears_the_doorbell_finds_the_messages() {
    check(|| {
        let mut tracker = Tracker::heap(1);
        let (_, mut bell) = tracker.attach(4).expect("there is room");
        let (mut p, mut c) = InSlot::heap::<u32>(4);
        let ringer = thread::spawn(move || {
            for burst in [1, 2] {
                for n in 0..burst {
                    p.try_push(n).expect("there is space");
                }
                bell.ring(burst);
            }
            (p, bell)
        });
        let mut heard = 0;
        while heard < 3 {
            let mut new = 0;
            tracker.scan(|_, n| new += n);
            for _ in 0..new {
                assert!(c.try_pop().is_some(), "promised and not there");
            }
            heard += new;
            thread::yield_now();
        }
        assert_eq!(tracker.scan(|_, _| ()), 0);
        drop(ringer.join().expect("no panic"));
    });
}

#[test]
fn a_sleeper_is_never_left_asleep() {
    check(|| {
        let (mut sleeper, waker) = waiting();
        let flag = Arc::new(AtomicU32::new(0));
        let waking = {
            let flag = flag.clone();
            thread::spawn(move || {
                flag.store(1, Ordering::Release);
                waker.wake();
            })
        };
        // A lost wake-up is a deadlock, which loom reports.
        let outcome = sleeper.wait_until(WaitPolicy::BLOCK, None, || flag.load(Ordering::Acquire) == 1);
        assert_eq!(outcome, Outcome::Ready);
        waking.join().expect("no panic");
    });
}

#[test]
fn two_wakers_wake_one_sleeper_twice() {
    check(|| {
        let (mut sleeper, waker) = waiting();
        let count = Arc::new(AtomicU32::new(0));
        let wakers = [waker.clone(), waker].map(|waker| {
            let count = count.clone();
            thread::spawn(move || {
                count.fetch_add(1, Ordering::Release);
                waker.wake();
            })
        });
        let outcome = sleeper.wait_until(WaitPolicy::BLOCK, None, || count.load(Ordering::Acquire) == 2);
        assert_eq!(outcome, Outcome::Ready);
        wakers.into_iter().for_each(|waker| waker.join().expect("no panic"));
    });
}

#[test]
fn what_is_published_while_a_watch_turns_calm_is_seen_by_one_side() {
    check(|| {
        let (mut watch, touch) = summary(waiting());
        let item = Arc::new(AtomicU32::new(0));
        let producer = {
            let item = item.clone();
            thread::spawn(move || {
                item.store(1, Ordering::Release);
                touch.touch(0);
            })
        };
        watch.calm();
        if item.load(Ordering::Acquire) == 0 {
            // A lost touch is a deadlock, which loom reports.
            assert_eq!(watch.wait(WaitPolicy::BLOCK, None, || false), Outcome::Ready);
            assert_eq!((watch.take(), item.load(Ordering::Relaxed)), (1, 1));
        }
        producer.join().expect("no panic");
    });
}

#[test]
fn a_watch_that_was_calm_and_busy_again_misses_nothing() {
    check(|| {
        let (mut watch, touch) = summary(waiting());
        let item = Arc::new(AtomicU32::new(0));
        let producer = {
            let item = item.clone();
            thread::spawn(move || {
                item.store(1, Ordering::Release);
                touch.touch(0);
            })
        };
        watch.calm();
        let first = item.load(Ordering::Acquire) == 1;
        watch.busy();
        let second = item.load(Ordering::Acquire) == 1;
        watch.calm();
        let third = item.load(Ordering::Acquire) == 1;
        producer.join().expect("no panic");
        assert!(first || second || third || watch.take() == 1, "overlooked");
    });
}

/// Three items through two slots to two consumers: full, wrap, and both reaching for the same item.
#[test]
fn a_queue_gives_each_item_to_one_consumer() {
    check(|| {
        let (mut producer, consumer) = spmc::<Box<u32>>(2);
        let other = {
            let consumer = consumer.clone();
            thread::spawn(move || (0..2).filter_map(|_| consumer.try_pop()).map(|n| *n).sum::<u32>())
        };
        let mut mine = 0;
        for n in [1, 10, 100] {
            let mut item = Box::new(n);
            while let Err(full) = producer.try_push(item) {
                item = full.0;
                mine += consumer.try_pop().map_or(0, |n| *n);
                thread::yield_now();
            }
        }
        let theirs = other.join().expect("no panic");
        mine += std::iter::from_fn(|| consumer.try_pop()).map(|n| *n).sum::<u32>();
        assert_eq!(mine + theirs, 111, "each once");
    });
}

/// Two who sleep when they find nothing, take one item and leave, and two items. A lost wake-up is a deadlock, which loom reports.
fn one_is_woken_for_each_item(passes_on: bool) {
    check(move || {
        let (mut producer, consumer) = spmc::<u32>(2);
        let pairs = [waiting(), waiting()];
        let wakers: Vec<_> = pairs.iter().map(|pair| pair.1.clone()).collect();
        let sleepers = pairs.map(|(mut sleeper, _)| {
            let (consumer, wakers) = (consumer.clone(), wakers.clone());
            thread::spawn(move || {
                let mut found = None;
                sleeper.wait_until(WaitPolicy::BLOCK, None, || {
                    found = consumer.try_pop();
                    found.is_some()
                });
                if passes_on {
                    pass_on(&wakers, || consumer.is_ready());
                }
                found.expect("an item ended the wait")
            })
        });
        for n in [1, 2] {
            producer.try_push(n).expect("there is room");
            wake_some(&wakers, 1);
        }
        let sum: u32 = sleepers.into_iter().map(|sleeper| sleeper.join().expect("no panic")).sum();
        assert_eq!(sum, 3);
    });
}

#[test]
fn waking_one_for_each_item_is_enough() {
    one_is_woken_for_each_item(true);
}

/// Planted: one that was about to sleep finds the first item, is rung for the second, and leaves; the other sleeps on.
#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_up_that_is_not_passed_on_is_found() {
    one_is_woken_for_each_item(false);
}

/// One of two waits for something of its own when an item comes for either.
fn one_that_waits_for_something_else_is_skipped(apart: bool) {
    check(move || {
        let (mut producer, consumer) = spmc::<u32>(2);
        let pairs = [waiting(), waiting()];
        let wakers = pairs.each_ref().map(|pair| pair.1.clone());
        let [(mut busy, _), (mut idle, _)] = pairs;
        // The standard Arc: loom's cannot be dropped while it reports a deadlock.
        let flag = std::sync::Arc::new(AtomicU32::new(0));
        let otherwise = {
            let flag = flag.clone();
            thread::spawn(move || {
                let is_set = || flag.load(Ordering::Acquire) == 1;
                if apart {
                    busy.wait_apart(WaitPolicy::BLOCK, None, is_set)
                } else {
                    busy.wait_until(WaitPolicy::BLOCK, None, is_set)
                }
            })
        };
        let taking = thread::spawn(move || {
            idle.wait_until(WaitPolicy::BLOCK, None, || consumer.try_pop().is_some());
        });
        producer.try_push(1).expect("there is room");
        wake_some(&wakers, 1);
        // Only when the item is taken, so nothing but the wake-up ends that wait.
        taking.join().expect("no panic");
        flag.store(1, Ordering::Release);
        wakers[0].wake();
        otherwise.join().expect("no panic");
    });
}

#[test]
fn who_waits_apart_is_skipped() {
    one_that_waits_for_something_else_is_skipped(true);
}

/// Planted: it is woken in vain, and the other sleeps on.
#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_up_of_the_wrong_one_is_found() {
    one_that_waits_for_something_else_is_skipped(false);
}

/// Planted: a queue's consumer takes the item first and moves the head then.
#[test]
#[should_panic]
fn taking_before_moving_the_head_is_found() {
    check(|| {
        let queue = Arc::new((AtomicU32::new(0), UnsafeCell::new(7u32)));
        let take = |queue: &(AtomicU32, UnsafeCell<u32>)| {
            let head = queue.0.load(Ordering::Relaxed);
            // SAFETY: wrong on purpose: both may be taking. Loom tracks the access and reports it.
            let item = queue.1.with_mut(|item| unsafe { std::mem::take(&mut *item) });
            let moved = queue.0.compare_exchange(head, head + 1, Ordering::Relaxed, Ordering::Relaxed);
            if head == 0 && moved.is_ok() { item } else { 0 }
        };
        let other = {
            let queue = queue.clone();
            thread::spawn(move || take(&queue))
        };
        let mine = take(&queue);
        assert_eq!(mine + other.join().expect("no panic"), 7);
    });
}

/// Planted: the word is shown before the item is written.
#[test]
#[should_panic]
fn publishing_before_writing_is_found() {
    check(|| {
        let slot = Arc::new((AtomicU32::new(0), UnsafeCell::new(0u32)));
        let writer = {
            let slot = slot.clone();
            thread::spawn(move || {
                slot.0.store(1, Ordering::Release);
                // SAFETY: wrong on purpose: the reader may be reading. Loom tracks the access and reports it.
                slot.1.with_mut(|item| unsafe { *item = 7 });
            })
        };
        if slot.0.load(Ordering::Acquire) == 1 {
            // SAFETY: as above.
            assert_eq!(slot.1.with(|item| unsafe { *item }), 7);
        }
        writer.join().expect("no panic");
    });
}

/// Planted: the burst's first word is shown first, as if it were any other.
#[test]
#[should_panic]
fn showing_a_burst_from_its_front_is_found() {
    check(|| {
        let tail = Arc::new((AtomicU32::new(0), UnsafeCell::new(0u32), UnsafeCell::new(0u32)));
        let writer = {
            let burst = tail.clone();
            thread::spawn(move || {
                // SAFETY: not shown yet.
                burst.1.with_mut(|item| unsafe { *item = 1 });
                burst.0.store(2, Ordering::Release);
                // SAFETY: wrong on purpose; loom reports it.
                burst.2.with_mut(|item| unsafe { *item = 2 });
            })
        };
        if tail.0.load(Ordering::Acquire) == 2 {
            // SAFETY: as above.
            assert_eq!(tail.2.with(|item| unsafe { *item }), 2);
        }
        writer.join().expect("no panic");
    });
}

/// Planted: Dekker with the fence on one side only. Both sides may then miss each other.
#[test]
#[should_panic(expected = "both missed")]
fn a_missing_fence_is_found() {
    check(|| {
        let words = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let waker = {
            let words = words.clone();
            thread::spawn(move || {
                words.0.store(1, Ordering::Release);
                words.1.load(Ordering::Relaxed)
            })
        };
        words.1.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let seen = words.0.load(Ordering::Acquire);
        assert!(waker.join().expect("no panic") + seen > 0, "both missed");
    });
}

/// Two who leave work and drive if they can. `looks_again`: a driver that leaves looks for news first.
fn posted_work_is_done(looks_again: bool) {
    check(move || {
        let baton = Arc::new(Baton::new(0, waiting().1));
        let tray = Arc::new(AtomicU32::new(0));
        let work = move |baton: &Baton<u32>, tray: &AtomicU32| {
            tray.fetch_add(1, Ordering::Relaxed);
            baton.post();
            let mut turn = baton.try_take();
            while let Some(mut held) = turn {
                if held.take_news() {
                    *held += tray.swap(0, Ordering::Relaxed);
                }
                if looks_again {
                    turn = baton.leave(held);
                } else {
                    drop(held);
                    turn = None;
                }
            }
        };
        let other = {
            let (baton, tray) = (baton.clone(), tray.clone());
            thread::spawn(move || work(&baton, &tray))
        };
        work(&baton, &tray);
        other.join().expect("no panic");
        assert_eq!(baton.try_take().map(|held| *held), Some(2), "work was left behind");
    });
}

#[test]
fn a_baton_leaves_no_work_behind() {
    posted_work_is_done(true);
}

#[test]
#[should_panic(expected = "work was left behind")]
fn loom_finds_the_driver_that_leaves_without_a_second_look() {
    posted_work_is_done(false);
}

/// One leads and ends that; a standby that found that it may rest is called. `tells`: the end of a lead looks whether it rests.
fn the_standby_is_called(tells: bool) {
    check(move || {
        let baton = Arc::new(Baton::new((), waiting().1));
        let leader = {
            let baton = baton.clone();
            thread::spawn(move || {
                let held = baton.try_take().expect("nobody else takes it");
                baton.lead();
                assert!(baton.leave(held).is_none());
                if !tells {
                    // As a copy would that does not look: nothing rests, as far as it knows.
                    baton.rise();
                }
                baton.end_lead();
            })
        };
        let rests = baton.rest();
        leader.join().expect("no panic");
        assert!(!rests || baton.is_called(), "left at rest");
    });
}

#[test]
fn a_standby_never_rests_while_nobody_leads() {
    the_standby_is_called(true);
}

#[test]
#[should_panic(expected = "left at rest")]
fn loom_finds_the_lead_that_ends_without_a_word() {
    the_standby_is_called(false);
}
