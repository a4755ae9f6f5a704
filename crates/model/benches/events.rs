//! Events per second through the kernel: a client's loop over a link, credits and memory banks, beside the bare queue with as many
//! events pending.
//!
//! ```text
//! cargo bench -p millrace-model --bench events -- [EVENTS per slice, default 2000000]
//! ```
//! Slices alternate; the ratio is of the same turn. `operations` are programs that the kernel interprets by itself, `processes` the same with a
//! future for each client.

use base::{Picos, Prng};
use model::kernel::{Kernel, Service, Step};
use model::{ProgramId, Sim};
use sim::Queue;
use std::time::Instant;

fn machine(seed: u64) -> (Kernel, ProgramId) {
    let mut kernel = Kernel::new(seed);
    let credits = kernel.tokens("credits", 64);
    let (link, nic) = (kernel.resource("link", 1), kernel.resource("nic", 8));
    let banks = kernel.resources("bank", 16);
    let ns = |n| Service::Fixed(Picos::from_nanos(n));
    let get = kernel.program(
        "get",
        [
            Step::Use { at: nic, service: ns(30), units: 1, after: Picos::ZERO },
            Step::Take(credits, 1),
            Step::Use { at: link, service: ns(5), units: 64, after: Picos::from_nanos(300) },
            Step::Pick { first: banks, count: 16, service: ns(50), units: 1, after: Picos::from_nanos(40) },
            Step::Use { at: link, service: ns(5), units: 64, after: Picos::from_nanos(300) },
            Step::Give(credits, 1),
        ],
    );
    (kernel, get)
}

fn processes(clients: u64) -> Sim {
    let (kernel, get) = machine(1);
    let sim = Sim::new(kernel);
    for client in 0..clients {
        let inside = sim.clone();
        sim.spawn(async move {
            let mut prng = Prng::new(client);
            loop {
                inside.perform(get, prng.next_u64()).await;
            }
        });
    }
    sim
}

fn operations(clients: u64) -> Kernel {
    let (mut kernel, get) = machine(1);
    // Each begins the next as its last step would: a program cannot name itself, so a loop is a long fan-out one after the other.
    let mut again = get;
    for round in 0..20 {
        again = kernel.program(&format!("loop {round}"), [Step::Each(again, 1), Step::Each(again, 1)]);
    }
    for client in 0..clients {
        kernel.begin(again, client);
    }
    kernel
}

fn slice(run: &mut dyn FnMut(Picos), events: &dyn Fn() -> u64, until: &mut Picos, wanted: u64) -> f64 {
    let (begin, clock) = (events(), Instant::now());
    while events() - begin < wanted {
        *until = until.plus(Picos::from_micros(20));
        run(*until);
    }
    (events() - begin) as f64 / clock.elapsed().as_secs_f64() / 1e6
}

fn hold(queue: &mut Queue<u64>, prng: &mut Prng, wanted: u64) -> f64 {
    let clock = Instant::now();
    for _ in 0..wanted {
        let event = queue.pop().expect("it never runs dry");
        queue.push(event.at.plus(Picos(prng.below(400_000))), event.source, event.what);
    }
    wanted as f64 / clock.elapsed().as_secs_f64() / 1e6
}

fn main() {
    let wanted = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(2_000_000);
    println!("millions of events per second (median of 7 slices), {wanted} events a slice\n");
    println!(
        "{:>8} {:>10} {:>12} {:>11} {:>18}",
        "clients", "queue", "operations", "processes", "processes : queue"
    );
    for clients in [16, 256, 4096] {
        let sim = processes(clients);
        let kernel = std::cell::RefCell::new(operations(clients));
        let (mut queue, mut prng) = (Queue::new(), Prng::new(9));
        (0..clients).for_each(|i| {
            queue.push(Picos(prng.below(400_000)), i as u32, i);
        });
        let (mut a, mut b) = (Picos::ZERO, Picos::ZERO);
        let mut rates = [const { Vec::new() }; 3];
        for _ in 0..7 {
            rates[0].push(hold(&mut queue, &mut prng, wanted));
            let mut run = |until| kernel.borrow_mut().run_until(until);
            rates[1].push(slice(&mut run, &|| kernel.borrow().events(), &mut b, wanted));
            rates[2].push(slice(
                &mut |until| sim.run_until(until),
                &|| sim.with(|k| k.events()),
                &mut a,
                wanted,
            ));
        }
        let [queue, operations, processes] = rates.map(|mut of| {
            of.sort_by(f64::total_cmp);
            of[of.len() / 2]
        });
        println!(
            "{clients:>8} {queue:>10.1} {operations:>12.1} {processes:>11.1} {:>17.2}x",
            processes / queue
        );
    }
}
