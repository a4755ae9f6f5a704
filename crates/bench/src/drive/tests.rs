//! The loop on a server in memory, whose answers come when its time says.

use super::*;
use crate::tally::Latency;
use std::collections::VecDeque;

/// Answers each operation `delay` after it was started, in order.
#[derive(Default)]
struct Delayed {
    window: usize,
    delay: Nanos,
    left: u64,
    refuses_after: Option<u64>,
    loses_after: Option<u64>,
    started: u64,
    most: usize,
    under_way: VecDeque<(Nanos, Nanos)>,
    sleeps: u64,
}

fn delayed(window: usize, delay: Nanos) -> Delayed {
    Delayed { window, delay, left: u64::MAX, ..Delayed::default() }
}

impl Driven for Delayed {
    type Counts = ();

    const RECORDS_LAG: bool = true;

    fn under_way(&self) -> usize {
        self.under_way.len()
    }

    fn start(&mut self, meant: Nanos, tally: &mut Tally) -> Result<Start, Lost> {
        if !self.has_room() {
            return Ok(Start::Full);
        }
        if self.left == 0 {
            return Ok(Start::Exhausted);
        }
        if self.refuses_after == Some(self.started) {
            tally.fail("refused", 1, || "it is full for ever".to_owned());
            return Ok(Start::Refused);
        }
        (self.left, self.started) = (self.left - 1, self.started + 1);
        self.under_way.push_back((meant, Clock::shared().now().plus(self.delay)));
        self.most = self.most.max(self.under_way.len());
        Ok(Start::Started)
    }

    fn has_room(&self) -> bool {
        self.under_way.len() < self.window
    }

    fn wait(&mut self, now: Nanos, until: Nanos, _is_open: bool) -> Result<(), Lost> {
        assert!(until <= now.plus(LONGEST_SLEEP));
        self.sleeps += 1;
        Ok(())
    }

    fn receive(&mut self, _now: Nanos, tally: &mut Tally) -> Result<usize, Lost> {
        let (now, mut ended) = (Clock::shared().now(), 0);
        while let Some(&(meant, _)) = self.under_way.front().filter(|(_, at)| *at <= now) {
            self.under_way.pop_front();
            tally.record((), meant, now);
            ended += 1;
        }
        if self.loses_after.is_some_and(|count| self.started >= count) {
            return Err(Lost { failure: "lost", why: "it is gone".to_owned() });
        }
        Ok(ended)
    }

    fn abandon(&mut self) -> u64 {
        self.under_way.drain(..).count() as u64
    }
}

fn run(driven: &mut Delayed, plan: &Plan) -> (Tally, bool, u64) {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let tally = drive(driven, plan, Clock::shared().now(), &stop, &done);
    (tally, stop.into_inner(), done.into_inner())
}

#[test]
fn a_closed_loop_fills_its_places_and_waits_for_what_is_under_way() {
    let mut driven = delayed(3, Nanos::from_micros(50));
    // Long enough that a thread which loses its processor has some of it left.
    let (tally, stopped, done) = run(&mut driven, &Plan::full(Nanos::from_millis(300)));
    assert_eq!((driven.most, driven.under_way.len(), stopped), (3, 0, false));
    assert!(tally.ops() >= 3 && tally.ops() == driven.started && tally.ops() == done);
    assert!(tally.elapsed >= Nanos::from_millis(300) && tally.lag.is_none() && tally.timeline.is_none());
}

#[test]
fn an_open_loop_counts_from_the_intended_start() {
    // A place, and an answer every 200 µs, for an operation every 100 µs: half of them never start, the others ever later.
    let mut driven = delayed(1, Nanos::from_micros(200));
    let pace = Pace::Open { rate: 10_000.0, poisson: false };
    let (tally, ..) = run(&mut driven, &Plan { pace, ..Plan::full(Nanos::from_millis(20)) });
    let latency = Latency::of(&tally.all_latencies());
    assert!(latency.max_us > 2_000.0, "the last to start waited for those before it: {latency:?}");
    assert!(tally.unsent >= 50, "{} of 200 were due and not sent", tally.unsent);
    assert_eq!(tally.lag.expect("asked for").len(), driven.started);
}

#[test]
fn it_ends_when_there_is_nothing_more_to_do() {
    let mut driven = Delayed { left: 7, ..delayed(2, Nanos(1)) };
    let (tally, stopped, done) = run(&mut driven, &Plan::full(Nanos::from_secs(3600)));
    assert_eq!((tally.ops(), done, stopped), (7, 7, false));
    let pace = Pace::Open { rate: 1e6, poisson: true };
    let mut driven = Delayed { left: 7, ..delayed(2, Nanos(1)) };
    let (tally, ..) = run(&mut driven, &Plan { pace, ..Plan::full(Nanos::from_secs(3600)) });
    assert_eq!((tally.ops(), tally.unsent), (7, 0));
}

#[test]
fn what_cannot_be_started_ends_the_run_for_all_after_what_is_under_way() {
    let mut driven = Delayed { refuses_after: Some(2), ..delayed(8, Nanos::from_micros(20)) };
    let (tally, stopped, _) = run(&mut driven, &Plan::full(Nanos::from_secs(3600)));
    assert_eq!((tally.ops(), tally.all_failed(), stopped), (2, 1, true));
    assert_eq!(tally.fatal, None);
}

#[test]
fn operations_of_a_lost_connection_have_failed() {
    let mut driven = Delayed { loses_after: Some(4), ..delayed(4, Nanos::from_secs(1)) };
    let (tally, ..) = run(&mut driven, &Plan::full(Nanos::from_secs(3600)));
    assert_eq!((tally.failed["lost"], tally.fatal.as_deref()), (4, Some("it is gone")));
}

#[test]
fn threads_add_up() {
    let mut all: Vec<Delayed> = (0..3).map(|_| Delayed { left: 5, ..delayed(1, Nanos(1)) }).collect();
    let (stop, mut heard) = (AtomicBool::new(false), 0);
    let plan = |_| Plan::full(Nanos::from_secs(3600));
    let tally = together(&mut all, plan, &[], &stop, Some(&mut |done| heard = done));
    assert!(tally.ops() == 15 && heard <= 15);
    assert_eq!(together(&mut all, plan, &[], &stop, None).ops(), 0, "they have nothing more to do");
}

/// Answers at once, and fails for ever from the third question on.
struct Brief(u64);

impl Ask for Brief {
    type Counts = ();

    fn ask(&mut self, meant: Nanos, tally: &mut Tally) -> Result<(), Lost> {
        self.0 += 1;
        if self.0 == 3 {
            return Err(Lost { failure: "brief", why: "enough".to_owned() });
        }
        tally.record((), meant, Clock::shared().now());
        Ok(())
    }
}

#[test]
fn who_asks_one_by_one_pauses_between_answers() {
    let mut one = OneByOne::new(Brief(0));
    one.pause = Nanos::from_millis(2);
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let tally = drive(&mut one, &Plan::full(Nanos::from_secs(3600)), Clock::shared().now(), &stop, &done);
    assert_eq!((tally.ops(), tally.failed["brief"], one.asker.0), (2, 1, 3));
    assert!(tally.elapsed >= Nanos::from_millis(4));
}
