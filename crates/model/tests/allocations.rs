//! A model in steady state allocates nothing per event: not for programs, processes, tokens, mailboxes, nor for handlers that sleep and serve.
//!
//! The warm-up grows slabs and queues to the most that is under way at once; after it every allocation counts.

use base::{Picos, Prng};
use model::kernel::{Kernel, Service, Step};
use model::sim::Mailbox;
use model::{ProgramId, ResourceId, Sim};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does it all; counting touches no heap.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn machine() -> (Kernel, ResourceId, ProgramId) {
    let mut kernel = Kernel::new(1);
    let credits = kernel.tokens("credits", 16);
    let (cores, link) = (kernel.resource("cores", 4), kernel.resource("link", 1));
    let banks = kernel.resources("bank", 8);
    let ns = |n| Service::Fixed(Picos::from_nanos(n));
    let line = kernel.program(
        "line",
        [Step::Pick { first: banks, count: 8, service: ns(50), units: 64, after: Picos::from_nanos(40) }],
    );
    let fetch = kernel.program(
        "fetch",
        [
            Step::Take(credits, 1),
            Step::Use { at: link, service: ns(5), units: 64, after: Picos::from_nanos(300) },
            Step::Each(line, 3),
            Step::Give(credits, 1),
        ],
    );
    (kernel, cores, fetch)
}

/// Runs a while, then counts what is allocated during so many events.
fn allocated_after_warm_up(sim: &Sim, events: u64) -> u64 {
    sim.run_until(Picos::from_millis(5));
    let (begin, before) = (sim.with(|k| k.events()), ALLOCATED.with(Cell::get));
    let mut until = sim.now();
    while sim.with(|k| k.events()) - begin < events {
        until = until.plus(Picos::from_micros(50));
        sim.run_until(until);
    }
    ALLOCATED.with(Cell::get) - before
}

#[test]
fn handlers_in_steady_state_allocate_nothing() {
    let (kernel, cores, fetch) = machine();
    let sim = Sim::new(kernel);
    for client in 0..64 {
        let inside = sim.clone();
        sim.spawn(async move {
            let mut prng = Prng::new(client);
            loop {
                inside.sleep(Picos(prng.below(2_000_000))).await;
                inside.serve(cores, Service::Exponential(Picos::from_nanos(80)), 1).await;
                inside.perform(fetch, prng.next_u64()).await;
            }
        });
    }
    assert_eq!(allocated_after_warm_up(&sim, 200_000), 0);
    sim.end_processes();
}

#[test]
fn processes_that_write_to_each_other_allocate_nothing() {
    let (kernel, cores, _) = machine();
    let sim = Sim::new(kernel);
    for _ in 0..8 {
        let (there, back) = (Mailbox::<u64>::new(&sim), Mailbox::<u64>::new(&sim));
        let (inside, asks, hears) = (sim.clone(), there.clone(), back.clone());
        sim.spawn(async move {
            for number in 0.. {
                asks.send(number);
                assert_eq!(hears.receive().await, number);
                inside.sleep(Picos::from_nanos(10)).await;
            }
        });
        let inside = sim.clone();
        sim.spawn(async move {
            loop {
                let number = there.receive().await;
                inside.serve(cores, Service::Fixed(Picos::from_nanos(20)), 1).await;
                back.send(number);
            }
        });
    }
    assert_eq!(allocated_after_warm_up(&sim, 100_000), 0);
    sim.end_processes();
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATED.with(Cell::get);
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(ALLOCATED.with(Cell::get) - before, 1);
}
