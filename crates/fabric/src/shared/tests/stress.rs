//! Members and futures on many threads, each of which does what it likes and checks what it gets; and bugs that this must find.

use super::*;
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;

/// How long a wait may sleep until it looks whether another thread has failed; nothing depends on it.
const LOOK: Option<Duration> = Some(Duration::from_millis(5));

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
