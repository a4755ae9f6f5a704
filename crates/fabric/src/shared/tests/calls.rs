//! Calls of members and futures: their replies, what is refused at once, what waits for room, and its bounds.

use super::*;

#[test]
fn a_member_calls_and_waits() {
    let (_running, shared) = start(64, &options());
    let mut member = shared.member().expect("room");
    let echo = member.method("/test.Late/Echo").expect("it is served");
    assert_eq!((member.max_calls(), !member.services().is_empty()), (16, true));
    member.start(echo, &CallOptions::default(), 7, b"first").expect("room");
    for len in [0, 5, 500, 50_000] {
        let body = vec![9; len];
        let reply = member.call_bytes(echo, &CallOptions::default(), &body).expect("it answers");
        assert_eq!(reply.body, body);
    }
    assert_eq!(next(&mut member), (7, Ok(b"first".to_vec())));
    assert_eq!(member.in_flight(), 0);
}

#[test]
fn what_cannot_be_started_is_said_at_once() {
    let (_running, shared) = start(64, &options());
    let mut member = shared.member().expect("room");
    let method = |name| shared.method(name).expect("it is served");
    let (never, stream) = (method("/test.Late/Never"), method("/test.Late/Stream"));
    let none = CallOptions::default();
    assert_eq!(member.start(stream, &none, 0, b""), Err(StartError::Shape));
    assert_eq!(block_on(shared.call(stream, &none, b"")).map_err(|s| s.code()), Err(Code::Unimplemented));
    let long = vec![0; MAX_MESSAGE + 1];
    assert_eq!(member.start(never, &none, 0, &long), Err(StartError::TooLarge));
    for user in 0..16 {
        member.start(never, &none, user, b"").expect("room");
    }
    assert_eq!(member.start(never, &none, 16, b""), Err(StartError::Full));
    let late = member.call_bytes(never, &CallOptions::within(Duration::from_millis(1)), b"");
    assert_eq!(late.map_err(|status| status.code()), Err(Code::DeadlineExceeded));
}

#[test]
fn calls_beyond_the_channels_room_wait_their_turn_or_run_out_of_time() {
    let (running, shared) = start(2, &options());
    let mut member = shared.member().expect("room");
    let (echo, never) = (member.method("/test.Late/Echo"), member.method("/test.Late/Never"));
    let (echo, never) = (echo.expect("it is served"), never.expect("it is served"));
    let none = CallOptions::default();
    let first = member.start(never, &none, 0, b"").expect("room");
    member.start(never, &none, 1, b"").expect("room");
    member.flush();
    running.wait_for_never(2);
    // These wait in the dispatcher.
    member.start(echo, &CallOptions::within(Duration::from_millis(1)), 2, b"").expect("room");
    let waits = member.start(echo, &none, 3, b"").expect("room");
    member.start(echo, &none, 4, b"last").expect("room");
    let dropped = shared.call(echo, &none, b"");
    let future = shared.call(echo, &none, b"future");
    let late = next(&mut member);
    assert_eq!((late.0, code(&late.1)), (2, Code::DeadlineExceeded));
    member.cancel(waits);
    member.cancel(waits);
    let cancelled = next(&mut member);
    assert_eq!((cancelled.0, code(&cancelled.1)), (3, Code::Cancelled));
    drop(dropped);
    // Its slot is free when the server has answered.
    member.cancel(first);
    let cancelled = next(&mut member);
    assert_eq!((cancelled.0, code(&cancelled.1)), (0, Code::Cancelled));
    running.late.never.lock().expect("no poison").remove(0).reply_bytes(b"");
    assert_eq!(next(&mut member), (4, Ok(b"last".to_vec())));
    assert_eq!(block_on(future).expect("it answers").body, b"future");
    assert_eq!(member.in_flight(), 1);
}

#[test]
fn requests_that_wait_have_a_bound_of_bytes() {
    let (running, shared) = start(1, &SharedOptions { bytes: 1000, ..options() });
    let (mut member, none) = (shared.member().expect("room"), CallOptions::default());
    let (echo, never) = (member.method("/test.Late/Echo"), member.method("/test.Late/Never"));
    let (echo, never) = (echo.expect("it is served"), never.expect("it is served"));
    member.start(never, &none, 0, b"").expect("room");
    running.wait_for_never(1);
    // The channel is full. One request may be longer than the bound, and others fit it.
    for (user, len) in [(1, 5000), (2, 400), (3, 400)] {
        let body = vec![7; len];
        let started = member.start(echo, &none, user, &body).is_ok();
        assert_eq!(started, user == 1, "what waits counts");
        member.flush();
        let outcome = block_on(shared.call(echo, &CallOptions::within(Duration::from_millis(1)), &body));
        assert_eq!(outcome.map_err(|status| status.code()), Err(Code::DeadlineExceeded));
    }
    let first = shared.call(echo, &none, &[1; 800]);
    let second = block_on(shared.call(echo, &none, &[2; 800]));
    assert_eq!(second.map_err(|status| status.code()), Err(Code::ResourceExhausted));
    running.late.never.lock().expect("no poison").remove(0).reply_bytes(b"");
    assert_eq!(next(&mut member), (0, Ok(Vec::new())));
    assert_eq!(next(&mut member), (1, Ok(vec![7; 5000])));
    assert_eq!(block_on(first).expect("it answers").body, [1; 800]);
    member.start(echo, &none, 4, &[4; 800]).expect("nothing waits any more");
    assert_eq!(next(&mut member), (4, Ok(vec![4; 800])));
}

#[test]
fn futures_under_an_executor_of_twenty_lines() {
    let (_running, shared) = start(64, &options());
    let echo = shared.method("/test.Late/Echo").expect("it is served");
    for len in [0, 64, 5000] {
        let body = vec![3; len];
        assert_eq!(
            block_on(shared.call(echo, &CallOptions::default(), &body)).expect("it answers").body,
            body
        );
    }
    let other = shared.clone();
    let future = other.call(echo, &CallOptions::default(), b"elsewhere");
    let reply = thread::spawn(move || block_on(future)).join().expect("no panic");
    assert_eq!(reply.expect("it answers").body, b"elsewhere");
}

#[test]
fn many_tasks_of_tokio_on_one_thread() {
    let (_running, shared) = start(64, &options());
    let echo = shared.method("/test.Late/Echo").expect("it is served");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let tasks: Vec<_> = (0..500u32)
            .map(|task| {
                let shared = shared.clone();
                tokio::spawn(async move {
                    for round in 0..4u32 {
                        let body = [task.to_le_bytes(), round.to_le_bytes()].concat();
                        let reply = shared.call(echo, &CallOptions::default(), &body).await;
                        assert_eq!(reply.expect("it answers").body, body);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    assert_eq!(shared.0.hub.tray.open(), 0);
}

#[test]
fn futures_beyond_their_bound_are_refused() {
    let (_running, shared) = start(64, &SharedOptions { futures: 1, ..options() });
    let never = shared.method("/test.Late/Never").expect("it is served");
    let first = shared.call(never, &CallOptions::default(), b"");
    let second = block_on(shared.call(never, &CallOptions::default(), b""));
    assert_eq!(second.map_err(|status| status.code()), Err(Code::ResourceExhausted));
    drop(first);
    while shared.0.hub.tray.open() > 0 {
        thread::yield_now();
    }
}

/// Calls that wait, of more threads than there are cores.
#[test]
fn many_threads_with_calls_that_wait_all_finish() {
    for wait in [WaitPolicy::BLOCK, WaitPolicy::default()] {
        let (_running, shared) = start(6, &SharedOptions { wait, ..options() });
        let echo = shared.method("/test.Late/Echo").expect("it is served");
        thread::scope(|scope| {
            for thread in 0..12u32 {
                let mut member = shared.member().expect("room");
                scope.spawn(move || {
                    for round in 0..100u32 {
                        let body = [thread.to_le_bytes(), round.to_le_bytes()].concat();
                        let reply = member.call_bytes(echo, &CallOptions::default(), &body);
                        assert_eq!(reply.expect("it answers").body, body);
                    }
                });
            }
        });
    }
}
