//! Ends: of calls, members, futures, handles and connections, those that come by a panic, and of a lead.

use super::*;
use ring::wait::Outcome;

#[test]
fn a_future_or_member_that_is_dropped_cancels_its_calls() {
    let (running, shared) = start(64, &options());
    let mut member = shared.member().expect("room");
    let never = member.method("/test.Late/Never").expect("it is served");
    member.start(never, &CallOptions::default(), 0, b"").expect("room");
    let future = shared.call(never, &CallOptions::default(), b"");
    running.wait_for_never(2);
    let cancelled = || {
        let never = running.late.never.lock().expect("no poison");
        never.iter().filter(|responder| responder.is_cancelled()).count()
    };
    drop(future);
    while cancelled() < 1 {
        thread::yield_now();
    }
    drop(member);
    while cancelled() < 2 {
        thread::yield_now();
    }
}

#[test]
fn the_last_handle_ends_all() {
    let (running, shared) = start(4, &options());
    let mut member = shared.member().expect("room");
    let never = member.method("/test.Late/Never").expect("it is served");
    let future = shared.call(never, &CallOptions::default(), b"");
    running.wait_for_never(1);
    for user in 0..6 {
        member.start(never, &CallOptions::default(), user, b"").expect("room");
    }
    member.flush();
    running.wait_for_never(4);
    drop(shared);
    let mut users: Vec<u64> = (0..6)
        .map(|_| {
            let (user, outcome) = next(&mut member);
            assert!(matches!(code(&outcome), Code::Cancelled | Code::Unavailable), "{outcome:?}");
            user
        })
        .collect();
    users.sort_unstable();
    assert_eq!(users, [0, 1, 2, 3, 4, 5]);
    assert_eq!(block_on(future).map_err(|status| status.code()), Err(Code::Cancelled));
    assert_eq!(member.start(never, &CallOptions::default(), 9, b""), Err(StartError::Gone));
    assert_eq!((member.in_flight(), member.is_open()), (0, false));
    assert!(member.call_bytes(never, &CallOptions::default(), b"").is_err());
}

#[test]
fn a_connection_that_is_lost_ends_its_calls_and_refuses_others() {
    let (mut running, shared) = start(64, &options());
    let mut member = shared.member().expect("room");
    let never = member.method("/test.Late/Never").expect("it is served");
    member.start(never, &CallOptions::default(), 5, b"").expect("room");
    let future = shared.call(never, &CallOptions::default(), b"");
    running.wait_for_never(2);
    running.stop();
    let (user, outcome) = next(&mut member);
    assert_eq!((user, outcome.map_err(|status| status.is_lost())), (5, Err(true)));
    assert_eq!(block_on(future).map_err(|status| status.is_lost()), Err(true));
    let refused = member.call_bytes(never, &CallOptions::default(), b"").expect_err("nobody is there");
    assert_eq!((refused.code(), refused.is_lost()), (Code::Unavailable, false));
    let refused = block_on(shared.call(never, &CallOptions::default(), b"")).expect_err("nobody is there");
    assert_eq!((refused.code(), refused.is_lost()), (Code::Unavailable, false));
}

#[test]
fn the_last_handle_may_be_dropped_by_what_the_dispatcher_wakes() {
    struct Holder(Mutex<Option<Shared>>, AtomicBool);
    impl Wake for Holder {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().expect("no poison").take());
            self.1.store(true, Ordering::Release);
        }
    }
    let (running, shared) = start(64, &options());
    let never = shared.method("/test.Late/Never").expect("it is served");
    let mut call = shared.call(never, &CallOptions::default(), b"");
    let holder = Arc::new(Holder(Mutex::new(Some(shared)), AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&holder));
    assert!(pin!(&mut call).poll(&mut Context::from_waker(&waker)).is_pending());
    running.wait_for_never(1);
    running.late.never.lock().expect("no poison").pop().expect("one came").reply_bytes(b"");
    while !holder.1.load(Ordering::Acquire) {
        thread::yield_now();
    }
    assert!(block_on(call).is_ok());
}

#[test]
fn a_promise_that_is_dropped_is_an_outcome() {
    let (_running, shared) = start(4, &options());
    let (hub, never) = (&shared.0.hub, shared.method("/test.Late/Never").expect("it is served"));
    let call = || shared.call(never, &CallOptions::default(), b"");
    // While this thread has the baton the request stays in the tray.
    let dropped = loop {
        let turn = hub.take_turn(&mut Told::default(), |_| {
            let call = call();
            assert_eq!(hub.tray.close().len(), 1);
            call
        });
        match turn {
            Some(call) => break call,
            None => thread::yield_now(),
        }
    };
    assert_eq!(hub.tray.open(), 0);
    assert_eq!(block_on(dropped).map_err(|status| status.is_lost()), Err(true));
    let late = block_on(call()).map_err(|status| (status.code(), status.is_lost()));
    assert_eq!((late, hub.tray.open()), (Err((Code::Unavailable, false)), 0));
}

#[test]
fn a_member_that_panics_or_goes_takes_nobody_down() {
    let (_running, shared) = start(6, &options());
    let echo = shared.method("/test.Late/Echo").expect("it is served");
    let none = CallOptions::default();
    thread::scope(|scope| {
        for thread in 0..4u32 {
            let shared = &shared;
            scope.spawn(move || {
                for round in 0..60u32 {
                    let mut member = shared.member().expect("room");
                    for user in 0..4 {
                        member.start(echo, &none, user, &round.to_le_bytes()).expect("room");
                    }
                    let run = std::panic::AssertUnwindSafe(|| {
                        let reply = member.call_bytes(echo, &none, b"waits").expect("it answers");
                        assert_eq!(reply.body, b"waits");
                        member.poll(16, |_| std::panic::resume_unwind(Box::new("a user's panic")));
                    });
                    let panicked = std::panic::catch_unwind(run).is_err();
                    if thread % 2 == 0 {
                        // What the panic left is still there.
                        let left = member.in_flight() + member.backlog.len();
                        (0..left).for_each(|_| drop(next(&mut member)));
                        assert_eq!(left, if panicked { 3 } else { 4 });
                    }
                }
            });
        }
    });
    assert_eq!(shared.member().expect("room").call_bytes(echo, &none, b"x").expect("it answers").body, b"x");
}

#[test]
fn a_task_whose_waker_panics_takes_nobody_down() {
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("a waker's panic"));
        }
    }
    let (running, shared) = start(6, &options());
    let (echo, never) = (shared.method("/test.Late/Echo"), shared.method("/test.Late/Never"));
    let (echo, never) = (echo.expect("it is served"), never.expect("it is served"));
    let mut member = shared.member().expect("room");
    let mut call = shared.call(never, &CallOptions::default(), b"");
    let waker = Waker::from(Arc::new(Bad));
    assert!(pin!(&mut call).poll(&mut Context::from_waker(&waker)).is_pending());
    running.wait_for_never(1);
    running.late.never.lock().expect("no poison").remove(0).reply_bytes(b"");
    // Whoever drives has to wake it: this thread or the standby, whose end is everybody's.
    let run = std::panic::AssertUnwindSafe(|| {
        while shared.0.hub.tray.open() > 0 {
            member.poll(1, |_| ());
        }
    });
    let _ = std::panic::catch_unwind(run);
    assert!(block_on(call).is_ok());
    let reply = member.call_bytes(echo, &CallOptions::default(), b"x");
    assert_eq!(reply.expect("it answers").body, b"x");
}

/// Members sleep until one has led, had its outcome and gone; then one more sleeps. Whether its outcome reaches it.
fn the_next_is_woken(planted: Option<Planted>) -> bool {
    let (running, channel) = Running::start(1, 8);
    let shared = Shared::planted(channel, &options(), planted).expect("a thread");
    let never = shared.method("/test.Late/Never").expect("it is served");
    let hub = &shared.0.hub;
    // A member calls and is answered when it has gone to sleep for good.
    let sleep = |timeout| {
        let mut member = shared.member().expect("room");
        member.start(never, &CallOptions::default(), 0, b"").expect("room");
        running.wait_for_never(1);
        let nights = hub.nights.load(Ordering::Acquire);
        thread::scope(|scope| {
            let sleeper = scope.spawn(move || member.wait(WaitPolicy::BLOCK, timeout) == Outcome::Ready);
            while hub.nights.load(Ordering::Acquire) == nights {
                thread::yield_now();
            }
            running.late.never.lock().expect("no poison").remove(0).reply_bytes(b"");
            sleeper.join().expect("no panic")
        })
    };
    // At first the standby may be the one that leads.
    while hub.leads.load(Ordering::Relaxed) == 0 {
        assert!(sleep(None));
    }
    // Without the bug nothing depends on the time.
    sleep(planted.map(|_| Duration::from_millis(100)))
}

#[test]
fn who_led_leaves_nobody_asleep() {
    assert!(the_next_is_woken(None));
}

#[test]
fn a_lead_that_ends_without_a_word_is_found() {
    // Not each time: the standby may be about to look.
    assert!((0..5).any(|_| !the_next_is_woken(Some(Planted::Silent))));
}
