//! Members and futures on one channel, against a server that answers when and in whatever order it likes.

use super::*;
use crate::channel::{Options as ChannelOptions, What};
use crate::link::{LinkOptions, memory};
use crate::server::{Options as ServerOptions, Server};
use crate::service::{
    BoxFuture, Incoming, MethodDescriptor, Responder, Service, ServiceDescriptor, StreamCall,
};
use crate::status::{Code, Status};
use base::clock::Clock;
use base::prng::Prng;
use ring::wait::Outcome;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// How long a wait may sleep until it looks whether another thread has failed; nothing depends on it.
const LOOK: Option<Duration> = Some(Duration::from_millis(5));

const fn method(name: &'static str, server_streaming: bool) -> MethodDescriptor {
    MethodDescriptor { name, client_streaming: false, server_streaming }
}

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "test.Late",
    methods: &[method("Echo", false), method("Never", false), method("Stream", true)],
    hash: 1,
    descriptors: b"",
};

/// Echoes that wait for their answer.
type Held = Vec<(Responder, Vec<u8>)>;

/// Answers echoes late, in any order; keeps what is never answered.
#[derive(Clone, Default)]
struct Late {
    echoes: Arc<Mutex<Held>>,
    never: Arc<Mutex<Vec<Responder>>>,
}

impl Service for Late {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let body = call.body().to_vec();
        match method {
            0 => self.echoes.lock().expect("no poison").push((call.defer(), body)),
            _ => self.never.lock().expect("no poison").push(call.defer()),
        }
        Ok(())
    }

    fn stream(&self, _: usize, _: StreamCall) -> BoxFuture {
        Box::pin(async { Ok(()) })
    }
}

impl Late {
    /// Answers one of the echoes; whether there was one.
    fn answer(&self, random: &mut Prng) -> bool {
        let mut echoes = self.echoes.lock().expect("no poison");
        if echoes.is_empty() {
            return false;
        }
        let at = random.below(echoes.len() as u64) as usize;
        let (responder, body) = echoes.swap_remove(at);
        drop(echoes);
        responder.reply_bytes(&body);
        true
    }
}

/// A server of one connection on a thread of its own, until it is dropped.
struct Running {
    late: Late,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Answers a random one of what it has whenever nothing arrives.
    fn start(seed: u64, max_calls: u32) -> (Running, Channel) {
        let (ours, theirs) = memory::pair(&LinkOptions::default()).expect("two ends");
        let mut running =
            Running { late: Late::default(), stop: Arc::new(AtomicBool::new(false)), thread: None };
        let (late, stop) = (running.late.clone(), Arc::clone(&running.stop));
        let options = ServerOptions { max_calls, ..ServerOptions::default() };
        running.thread = Some(thread::spawn(move || {
            let (clock, mut random) = (Clock::shared(), Prng::new(seed));
            let mut server = Server::new(options).service(late.clone());
            server.accept(theirs, clock.now());
            while !stop.load(Ordering::Relaxed) {
                if server.poll(clock.now()) == 0 && !late.answer(&mut random) {
                    thread::yield_now();
                }
            }
        }));
        let channel = Channel::over(ours, &ChannelOptions::default()).expect("it greets");
        (running, channel)
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server is well");
        }
    }

    /// Until so many calls that are never answered have arrived.
    fn wait_for_never(&self, count: usize) {
        while self.late.never.lock().expect("no poison").len() < count {
            thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

fn options() -> SharedOptions {
    SharedOptions { wait: WaitPolicy::BLOCK, calls: 16, ..SharedOptions::default() }
}

fn start(max_calls: u32, options: &SharedOptions) -> (Running, Shared) {
    let (running, channel) = Running::start(1, max_calls);
    (running, Shared::new(channel, options).expect("a thread"))
}

/// An executor in twenty lines.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Takes one event, however long it takes.
fn next(member: &mut Member) -> (u64, Result<Vec<u8>, Status>) {
    loop {
        let mut found = None;
        member.poll(1, |event| {
            let result = match event.what {
                What::Reply(body) => Ok(body.to_vec()),
                What::Failed(status) => Err(status),
                What::Item(_) | What::End => panic!("a unary call has no items"),
            };
            found = Some((event.user, result));
        });
        match found {
            Some(found) => return found,
            None => member.wait(WaitPolicy::BLOCK, None),
        };
    }
}

fn code(result: &Result<Vec<u8>, Status>) -> Code {
    result.as_ref().err().map_or(Code::Ok, Status::code)
}

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

/// What a member's thread of the stress knows of its calls.
struct Checked {
    member: Member,
    /// By user word: what was sent, and whether it was given up or in a hurry.
    open: HashMap<u64, (Vec<u8>, bool)>,
}

impl Checked {
    fn start(&mut self, echo: Method, user: u64, random: &mut Prng) {
        let len = if random.below(8) == 0 { 400 } else { random.below(80) };
        let mut body = user.to_le_bytes().to_vec();
        body.resize(8 + len as usize, user as u8);
        let hurries = random.below(16) == 0;
        let options =
            if hurries { CallOptions::within(Duration::from_nanos(1)) } else { CallOptions::default() };
        match self.member.start(echo, &options, user, &body) {
            Ok(call) => {
                let gives_up = random.below(8) == 0;
                if gives_up {
                    self.member.cancel(call);
                }
                assert!(self.open.insert(user, (body, hurries || gives_up)).is_none());
            }
            Err(error) => assert_eq!(error, StartError::Full),
        }
    }

    fn poll(&mut self, max: usize) -> usize {
        let open = &mut self.open;
        self.member.poll(max, |event| {
            let (body, may_fail) = open.remove(&event.user).expect("a call has one outcome");
            match event.what {
                What::Reply(reply) => assert!(reply == body, "another call's reply"),
                What::Failed(status) => assert!(may_fail, "{status}"),
                What::Item(_) | What::End => panic!("a unary call has no items"),
            }
        })
    }
}

/// Raised by whoever fails, so that nobody waits for ever.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// One thread with a member, now and then a new one.
fn member_thread(shared: &Shared, number: u64, mut random: Prng, failed: &AtomicBool) {
    let _alarm = Alarm(failed);
    let echo = shared.method("/test.Late/Echo").expect("it is served");
    let fresh = || Checked { member: shared.member().expect("room"), open: HashMap::new() };
    let mut checked = fresh();
    for step in 0..STEPS {
        match random.below(64) {
            0 => checked = fresh(),
            1..40 => checked.start(echo, number << 32 | step, &mut random),
            40..62 => drop(checked.poll(random.below(20) as usize)),
            _ => drop(checked.member.wait(WaitPolicy::BLOCK, Some(Duration::from_micros(50)))),
        }
    }
    while !checked.open.is_empty() && !failed.load(Ordering::Relaxed) {
        if checked.poll(64) == 0 {
            checked.member.wait(WaitPolicy::BLOCK, LOOK);
        }
    }
    assert_eq!(checked.member.in_flight(), checked.open.len());
}

/// One thread with futures, many of which are dropped.
fn future_thread(shared: &Shared, mut random: Prng, failed: &AtomicBool) {
    let _alarm = Alarm(failed);
    let echo = shared.method("/test.Late/Echo").expect("it is served");
    let mut open: Vec<(Call, u64)> = Vec::new();
    for step in 0..STEPS / 4 {
        open.push((shared.call(echo, &CallOptions::default(), &step.to_le_bytes()), step));
        let (mut call, body) = open.swap_remove(random.below(open.len() as u64) as usize);
        match random.below(4) {
            0 => drop(call),
            1 if open.len() > 20 && !failed.load(Ordering::Relaxed) => {
                assert_eq!(block_on(call).expect("it answers").body, body.to_le_bytes());
            }
            _ => match pin!(&mut call).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(reply) => assert_eq!(reply.expect("it answers").body, body.to_le_bytes()),
                Poll::Pending => open.push((call, body)),
            },
        }
    }
}

const STEPS: u64 = 4000;

/// Members and futures do what they like; true if all was well.
fn stress(seed: u64, planted: Option<Planted>) -> bool {
    let (_running, channel) = Running::start(seed, 24);
    let shared = Shared::planted(channel, &options(), planted).expect("a thread");
    let failed = AtomicBool::new(false);
    let well = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (shared, failed, well) = (&shared, &failed, &well);
        for number in 0..4 {
            let random = Prng::new(seed * 16 + number);
            thread::Builder::new()
                .spawn_scoped(scope, move || {
                    let run = std::panic::AssertUnwindSafe(|| match number {
                        3 => future_thread(shared, random, failed),
                        _ => member_thread(shared, number, random, failed),
                    });
                    if std::panic::catch_unwind(run).is_ok() {
                        well.fetch_add(1, Ordering::Relaxed);
                    }
                })
                .expect("a thread");
        }
    });
    let well = well.load(Ordering::Relaxed) == 4;
    while well && shared.0.hub.tray.open() > 0 {
        thread::yield_now();
    }
    well
}

#[test]
fn every_call_of_every_member_and_future_has_its_one_outcome() {
    for seed in 1..=4 {
        assert!(stress(seed, None), "seed {seed}");
    }
}

#[test]
fn the_stress_finds_outcomes_for_the_wrong_member() {
    assert!(!stress(1, Some(Planted::WrongMember)));
}

#[test]
fn the_stress_finds_second_outcomes() {
    assert!(!stress(1, Some(Planted::Twice)));
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
