//! Units as they are, with their threads.

use super::{Ask, Bench, Marker};
use crate::memory::{Arena, Memory};
use crate::unit::{Kernel, KernelError, Options, Outcome, Refused, Span, Task, TaskError, Unit, Units};
use base::Prng;
use ring::wait::WaitPolicy;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

const EAGER: Options =
    Options { tasks: 8, wait: WaitPolicy { spin: 3, pause: 3, monitor: 1, block: true }, core: None };

fn unit(bench: &Bench) -> Unit {
    Unit::new("test unit", bench.0.clone(), EAGER)
}

fn submit(unit: &mut Unit, bench: &Bench, n: usize, ask: Ask) -> Result<Task, Refused> {
    let (input, output) = bench.ask(n, ask);
    // SAFETY: this place belongs to the nth task; nobody looks at it before its outcome.
    unsafe { unit.submit_task(input, output) }
}

/// Runs only when told to, so that a test decides what waits in the ring.
struct Gate {
    told: Receiver<()>,
    started: Sender<()>,
}

impl Kernel for Gate {
    fn kernel_type(&self) -> &str {
        "gate"
    }

    fn run(&mut self, _: &[u8], _: &mut [u8]) -> Result<usize, KernelError> {
        self.started.send(()).expect("the test listens");
        self.told.recv().map(|()| 0).map_err(|_| KernelError::Exhausted)
    }

    fn output_bound(&self, _: usize) -> usize {
        0
    }
}

fn gate() -> (Gate, Sender<()>, Receiver<()>) {
    let (tell, told) = channel();
    let (started, starts) = channel();
    (Gate { told, started }, tell, starts)
}

#[test]
fn outcomes_may_be_taken_in_any_order_and_each_once() {
    let (bench, mut prng) = (Bench::new(), Prng::new(1));
    let mut unit = unit(&bench);
    unit.program(Marker(1)).expect("a thread");
    for round in 0..if cfg!(miri) { 3 } else { 300 } {
        let mut tasks: Vec<(usize, Task)> =
            (0..8).map(|n| (n, submit(&mut unit, &bench, n, Ask::Mark).expect("eight have room"))).collect();
        assert_eq!(submit(&mut unit, &bench, 8, Ask::Mark), Err(Refused::Busy));
        while !tasks.is_empty() {
            let (n, task) = tasks.swap_remove(prng.below(tasks.len() as u64) as usize);
            let outcome = if round % 2 == 0 { unit.wait(task) } else { poll(&mut unit, task) };
            assert_eq!((outcome, bench.mark(n)), (Ok(1), 1));
            assert_eq!(unit.poll(task), Some(Err(TaskError::Unknown)));
            assert_eq!(unit.wait(task), Err(TaskError::Unknown));
        }
    }
}

fn poll(unit: &mut Unit, task: Task) -> Outcome {
    loop {
        match unit.poll(task) {
            Some(outcome) => return outcome,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn tasks_run_on_the_kernel_they_were_submitted_to() {
    let bench = Bench::new();
    let mut unit = unit(&bench);
    assert_eq!(unit.kernel_type(), None);
    assert_eq!(submit(&mut unit, &bench, 0, Ask::Mark), Err(Refused::NoKernel));
    let (gate, tell, starts) = gate();
    unit.program(gate).expect("a thread");
    let held = submit(&mut unit, &bench, 0, Ask::Mark).expect("room");
    starts.recv().expect("it runs");
    // All of this waits in the ring.
    let marked = [1, 2, 0].map(|mark| {
        unit.program(Marker(mark)).expect("room");
        let n = 1 + usize::from(mark);
        (submit(&mut unit, &bench, n, Ask::Mark).expect("room"), n)
    });
    unit.take_away().expect("room");
    assert_eq!(unit.kernel_type(), None);
    assert_eq!(submit(&mut unit, &bench, 9, Ask::Mark), Err(Refused::NoKernel));
    assert_eq!((unit.poll(held), unit.running()), (None, 4));
    tell.send(()).expect("it waits");
    for (task, n) in marked {
        assert_eq!((unit.wait(task), usize::from(bench.mark(n))), (Ok(1), n - 1));
    }
    assert_eq!(unit.wait(held), Ok(0));
    unit.program(Marker(2)).expect("given back");
    assert_eq!(unit.kernel_type(), Some("mark 2"));
    assert_eq!(unit.running(), 0);
}

#[test]
fn a_kernel_that_panics_takes_its_unit_along_and_no_task_is_lost() {
    let bench = Bench::new();
    let mut unit = unit(&bench);
    for round in 0..if cfg!(miri) { 2 } else { 50 } {
        unit.program(Marker(0)).expect("a thread");
        let before = submit(&mut unit, &bench, 0, Ask::Mark).expect("room");
        let deadly = submit(&mut unit, &bench, 1, Ask::Die).expect("room");
        let after: Vec<_> = (2..6).map_while(|n| submit(&mut unit, &bench, n, Ask::Mark).ok()).collect();
        if round % 2 == 0 {
            assert_eq!(unit.wait(before), Ok(1));
        }
        assert_eq!(unit.wait(deadly), Err(TaskError::Died));
        assert!(after.into_iter().all(|task| unit.wait(task) == Err(TaskError::Died)));
        assert_eq!(unit.kernel_type(), None);
        assert_eq!(unit.running(), 0);
        assert_eq!(submit(&mut unit, &bench, 7, Ask::Mark), Err(Refused::Dead));
        if round % 2 == 1 {
            assert_eq!(unit.wait(before), Ok(1));
        }
    }
}

#[test]
fn a_killed_unit_returns_what_it_had_and_lives_again() {
    let bench = Bench::new();
    let mut unit = unit(&bench);
    let (gate, tell, starts) = gate();
    unit.program(gate).expect("a thread");
    let tasks: Vec<_> = (0..4).map(|n| submit(&mut unit, &bench, n, Ask::Mark).expect("room")).collect();
    starts.recv().expect("the first one runs");
    unit.kill();
    assert_eq!(unit.kernel_type(), None);
    assert_eq!(unit.take_away(), Ok(()));
    assert_eq!(submit(&mut unit, &bench, 5, Ask::Mark), Err(Refused::Dead));
    assert_eq!(unit.poll(tasks[0]), None, "a running kernel still has its spans");
    tell.send(()).expect("it waits");
    unit.program(Marker(2)).expect("a new thread");
    let next = submit(&mut unit, &bench, 5, Ask::Mark).expect("room");
    assert!(tasks.into_iter().all(|task| unit.wait(task) == Err(TaskError::Died)));
    assert_eq!((unit.wait(next), bench.mark(5)), (Ok(1), 2));
}

#[test]
fn dropping_a_unit_waits_for_the_task_that_runs() {
    let bench = Bench::new();
    let mut unit = unit(&bench);
    let (gate, tell, starts) = gate();
    unit.program(gate).expect("a thread");
    for n in 0..3 {
        submit(&mut unit, &bench, n, Ask::Mark).expect("room");
    }
    starts.recv().expect("it runs");
    unit.kill();
    drop(tell);
    drop(unit);
    assert_eq!(
        starts.try_recv(),
        Err(TryRecvError::Disconnected),
        "nothing else ran, and the kernel is gone"
    );
}

#[test]
fn hostile_descriptors_end_their_task_only() {
    let bench = Bench::new();
    let mut unit = unit(&bench);
    unit.program(Marker(1)).expect("a thread");
    let (input, output) = bench.ask(0, Ask::Mark);
    let outside = Span::new(u64::MAX, u32::MAX);
    let end = Span::new(bench.0.len() as u64, 0);
    let wide = Span::new(0, bench.0.len() as u32);
    for (input, output, expected) in [
        (outside, output, Err(TaskError::OutOfBounds)),
        (input, outside, Err(TaskError::OutOfBounds)),
        (Span::new(end.addr, 1), output, Err(TaskError::OutOfBounds)),
        (input, input, Err(TaskError::Overlap)),
        (wide, output, Err(TaskError::Overlap)),
        (end, end, Err(TaskError::Kernel(KernelError::Corrupt))),
        (input, end, Err(TaskError::Kernel(KernelError::OutputTooSmall { needed: 1 }))),
        (input, output, Ok(1)),
    ] {
        // SAFETY: nobody looks at the memory meanwhile.
        let task = unsafe { unit.submit_task(input, output) }.expect("room");
        assert_eq!(unit.wait(task), expected, "{input:?} {output:?}");
    }
}

#[test]
fn a_kernel_that_claims_too_much_ends_its_unit() {
    struct Liar;
    impl Kernel for Liar {
        fn kernel_type(&self) -> &str {
            "liar"
        }
        fn run(&mut self, _: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
            Ok(output.len() + 1)
        }
        fn output_bound(&self, input_len: usize) -> usize {
            input_len
        }
    }
    let bench = Bench::new();
    let mut unit = unit(&bench);
    unit.program(Liar).expect("a thread");
    let task = submit(&mut unit, &bench, 0, Ask::Mark).expect("room");
    assert_eq!(unit.wait(task), Err(TaskError::Died));
}

#[test]
fn a_set_gives_each_task_to_a_unit_of_its_type() {
    let bench = Bench::new();
    let mut units = Units::new(4, bench.0.clone(), EAGER);
    assert_eq!((units.len(), units.is_empty()), (4, false));
    let (gate, tell, starts) = gate();
    units[0].program(Marker(0)).expect("a thread");
    units[1].program(gate).expect("a thread");
    units[3].program(Marker(0)).expect("a thread");
    assert!(units.first_of("mark 2").is_none());
    let submit = |units: &mut Units, kernel: &str, n| {
        let (input, output) = bench.ask(n, Ask::Mark);
        // SAFETY: this place belongs to the nth task; nobody looks at it before its outcome.
        unsafe { units.submit_task(kernel, input, output) }
    };
    assert_eq!(submit(&mut units, "mark 2", 0), Err(Refused::NoKernel));
    let held = submit(&mut units, "gate", 0).expect("a unit");
    starts.recv().expect("it runs");
    let marked = submit(&mut units, "mark 0", 1).expect("a unit");
    assert_eq!((units.wait(marked), bench.mark(1)), (Ok(1), 0));
    assert_eq!(units.poll(held), None);
    tell.send(()).expect("it waits");
    assert_eq!(units.wait(held), Ok(0));
    let stranger = Units::new(1, bench.0.clone(), EAGER).poll(held);
    assert_eq!((stranger, units.wait(held)), (Some(Err(TaskError::Unknown)), Err(TaskError::Unknown)));
}

#[test]
fn the_busier_of_two_units_is_spared() {
    let bench = Bench::new();
    let mut units = Units::new(2, bench.0.clone(), EAGER);
    let gates = [gate(), gate()];
    let mut tells = Vec::new();
    for (n, (gate, tell, starts)) in gates.into_iter().enumerate() {
        units[n].program(gate).expect("a thread");
        tells.push((tell, starts));
    }
    let mut tasks = Vec::new();
    for n in 0..6 {
        let (input, output) = bench.ask(n, Ask::Mark);
        // SAFETY: this place belongs to the nth task.
        tasks.push(unsafe { units.submit_task("gate", input, output) }.expect("room"));
    }
    assert_eq!([units[0].running(), units[1].running()], [3, 3]);
    drop(tells);
    assert_eq!(tasks.len(), 6);
}

#[test]
fn a_unit_works_where_an_arena_put_the_bytes() {
    let memory = Memory::acc(1 << 16).expect("address space");
    let arena = Arena::new(&memory);
    let mut unit = Unit::new("arena unit", memory.clone(), EAGER);
    unit.program(Marker(2)).expect("a thread");
    let [input, output] = [1, 1].map(|bytes| arena.alloc(bytes).expect("room"));
    // SAFETY: the arena's own byte, just allotted.
    unsafe { input.write(Ask::Mark as u8) };
    let [from, to] = [input, output].map(|at| Span::new(arena.addr(at.as_ptr()).offset() as u64, 1));
    // SAFETY: both are the arena's and nobody looks before the outcome.
    let task = unsafe { unit.submit_task(from, to) }.expect("room");
    assert_eq!(unit.wait(task), Ok(1));
    // SAFETY: the task is over and has written it.
    assert_eq!(unsafe { output.read() }, 2);
}
