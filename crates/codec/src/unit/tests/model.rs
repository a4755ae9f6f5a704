//! Both halves of a unit in one thread, stepped in any order, against a model that knows what must come of each task.

use super::{Ask, Bench, Marker};
use crate::unit::executor::{Executor, Step};
use crate::unit::host::{Host, Planted};
use crate::unit::{Descriptor, Kernel, KernelError, Outcome, ProgramError, Refused, Task, TaskError};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

const TASKS: usize = 4;
/// What the rings of a unit for so many tasks hold.
const ORDERS: usize = 2 * TASKS;
const CASES: u32 = if cfg!(miri) { 8 } else { 2_000 };

#[derive(Clone, Debug)]
enum Move {
    Submit(Ask),
    Program(u8),
    TakeAway,
    /// The executor takes one step.
    Step,
    Kill,
    Poll(usize),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let ask = prop_oneof![6 => Just(Ask::Mark), 2 => Just(Ask::Refuse), 1 => Just(Ask::Die)];
    let one = prop_oneof![
        8 => ask.prop_map(Move::Submit),
        3 => (0u8..3).prop_map(Move::Program),
        1 => Just(Move::TakeAway),
        9 => Just(Move::Step),
        1 => Just(Move::Kill),
        8 => any::<usize>().prop_map(Move::Poll),
    ];
    proptest::collection::vec(one, 0..if cfg!(miri) { 40 } else { 120 })
}

/// What must come of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Running,
    Settled(Result<u8, TaskError>),
    Taken,
}

#[derive(Clone, Copy)]
enum Order {
    Program(Option<u8>),
    Task(usize, Ask),
}

/// The executor: its ring, its kernel, and whether it was told to end.
#[derive(Default)]
struct Worker {
    ring: VecDeque<Order>,
    kernel: Option<u8>,
    stop: bool,
}

/// A unit as it should be.
#[derive(Default)]
struct Model {
    worker: Option<Worker>,
    kernel: Option<u8>,
    dead: bool,
    fates: Vec<Fate>,
}

impl Model {
    fn submit(&mut self, ask: Ask) -> Result<(), Refused> {
        if self.dead {
            return Err(Refused::Dead);
        }
        self.kernel.ok_or(Refused::NoKernel)?;
        let held = self.fates.iter().filter(|&&fate| fate != Fate::Taken).count();
        let ring = &mut self.worker.as_mut().expect("programmed").ring;
        if held == TASKS || ring.len() == ORDERS {
            return Err(Refused::Busy);
        }
        ring.push_back(Order::Task(self.fates.len(), ask));
        self.fates.push(Fate::Running);
        Ok(())
    }

    fn program(&mut self, kernel: Option<u8>) -> Result<(), ProgramError> {
        if self.dead {
            self.die();
            self.dead = false;
        }
        let ring = &mut self.worker.get_or_insert_default().ring;
        if ring.len() == ORDERS {
            return Err(ProgramError::Busy);
        }
        ring.push_back(Order::Program(kernel));
        self.kernel = kernel;
        Ok(())
    }

    fn step(&mut self) {
        let Some(worker) = &mut self.worker else { return };
        if worker.stop {
            return self.die();
        }
        match worker.ring.pop_front() {
            Some(Order::Program(kernel)) => worker.kernel = kernel,
            Some(Order::Task(_, Ask::Die)) => self.die(),
            Some(Order::Task(n, Ask::Refuse)) => {
                self.fates[n] = Fate::Settled(Err(TaskError::Kernel(KernelError::Corrupt)));
            }
            Some(Order::Task(n, Ask::Mark)) => {
                self.fates[n] = Fate::Settled(Ok(worker.kernel.expect("submitted to a kernel")));
            }
            None => {}
        }
    }

    fn kill(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.stop = true;
            (self.dead, self.kernel) = (true, None);
        }
    }

    fn die(&mut self) {
        (self.worker, self.dead, self.kernel) = (None, true, None);
        let running = self.fates.iter_mut().filter(|fate| **fate == Fate::Running);
        running.for_each(|fate| *fate = Fate::Settled(Err(TaskError::Died)));
    }

    fn take(&mut self, n: usize) -> Option<Result<u8, TaskError>> {
        match self.fates[n] {
            Fate::Running => None,
            Fate::Settled(outcome) => {
                self.fates[n] = Fate::Taken;
                Some(outcome)
            }
            Fate::Taken => Some(Err(TaskError::Unknown)),
        }
    }
}

/// The two halves, and what stands between them in a `Unit`.
struct Subject {
    bench: Bench,
    host: Host,
    executor: Option<Executor>,
    tasks: Vec<Task>,
}

impl Subject {
    fn new(planted: Option<Planted>) -> Subject {
        let mut host = Host::new(7, TASKS as u32);
        host.planted = planted;
        Subject { bench: Bench::new(), host, executor: None, tasks: Vec::new() }
    }

    fn submit(&mut self, ask: Ask) -> Result<(), Refused> {
        let (input, output) = self.bench.ask(self.tasks.len(), ask);
        self.tasks.push(self.host.submit(Descriptor { input, output })?);
        Ok(())
    }

    fn program(&mut self, kernel: Option<u8>) -> Result<(), ProgramError> {
        self.host.collect();
        if self.host.is_dead() {
            // The unit joins its thread, which ends at its next step.
            self.step();
            self.executor = None;
            self.host.collect();
        }
        if !self.host.has_executor() {
            self.executor = Some(self.host.attach(self.bench.0.clone()));
        }
        self.host.program(kernel.map(|mark| Box::new(Marker(mark)) as Box<dyn Kernel>))
    }

    fn step(&mut self) {
        let Some(executor) = &mut self.executor else { return };
        match catch_unwind(AssertUnwindSafe(|| executor.step())) {
            Ok(Step::Done | Step::Idle) => {}
            Ok(Step::Over) | Err(_) => self.executor = None,
        }
    }

    fn take(&mut self, n: usize) -> Option<Result<u8, TaskError>> {
        self.host.collect();
        let outcome: Outcome = self.host.take(self.tasks[n])?;
        Some(outcome.map(|len| {
            assert_eq!(len, 1, "a mark is one byte");
            self.bench.mark(n)
        }))
    }
}

fn mark_name(mark: Option<u8>) -> Option<&'static str> {
    mark.map(|mark| ["mark 0", "mark 1", "mark 2"][usize::from(mark)])
}

/// Plays the moves on both, then lets the unit finish and takes every outcome.
fn agrees(moves: &[Move], planted: Option<Planted>) -> Result<(), TestCaseError> {
    let (mut model, mut subject) = (Model::default(), Subject::new(planted));
    for step in moves {
        match *step {
            Move::Submit(ask) => prop_assert_eq!(subject.submit(ask), model.submit(ask)),
            Move::Program(mark) => prop_assert_eq!(subject.program(Some(mark)), model.program(Some(mark))),
            Move::TakeAway if model.kernel.is_some() => {
                prop_assert_eq!(subject.program(None), model.program(None));
            }
            Move::TakeAway => {}
            Move::Step => {
                subject.step();
                model.step();
            }
            Move::Kill => {
                subject.host.kill();
                model.kill();
            }
            Move::Poll(n) if !model.fates.is_empty() => {
                let n = n % model.fates.len();
                prop_assert_eq!(subject.take(n), model.take(n));
            }
            Move::Poll(_) => {}
        }
        prop_assert_eq!(subject.host.kernel_type(), mark_name(model.kernel));
    }
    for _ in 0..=ORDERS {
        subject.step();
        model.step();
    }
    for n in 0..model.fates.len() {
        prop_assert!(model.fates[n] != Fate::Running);
        prop_assert_eq!(subject.take(n), model.take(n));
        prop_assert_eq!(subject.take(n), Some(Err(TaskError::Unknown)));
    }
    prop_assert_eq!(subject.host.running(), 0);
    Ok(())
}

fn check(planted: Option<Planted>) -> Result<(), TestError<Vec<Move>>> {
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config).run(&moves(), |moves| agrees(&moves, planted))
}

#[test]
fn each_task_has_one_outcome_whatever_happens_to_the_unit() {
    if let Err(error) = check(None) {
        panic!("{error}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "needs thousands of cases")]
fn the_checker_finds_planted_bugs() {
    for planted in Planted::ALL {
        assert!(check(Some(planted)).is_err(), "{planted:?} was not found");
    }
}
