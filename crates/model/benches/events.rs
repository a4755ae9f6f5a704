//! Events per second through the kernel: a client's loop over a link, credits and memory banks, beside the bare queue with as many
//! events pending.
//!
//! ```text
//! cargo bench -p millrace-model --bench events -- [EVENTS per slice, default 2000000]
//! ```
//! Slices alternate; the ratio is of the same turn. `operations` are programs that the kernel interprets by itself, `processes` the same with a
//! future for each client, `handlers` futures that do it all by themselves: sleep, serve at a core, perform a program, as protocol machines and
//! store coroutines in virtual time do.

use base::spread::median;
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

/// Asynchronous handlers: each thinks, is served at one of the cores, and fetches over the link.
fn handlers(clients: u64) -> Sim {
    let (mut kernel, get) = machine(1);
    let cores = kernel.resource("cores", 8);
    let sim = Sim::new(kernel);
    for client in 0..clients {
        let inside = sim.clone();
        sim.spawn(async move {
            let mut prng = Prng::new(client);
            loop {
                inside.sleep(Picos(prng.below(400_000))).await;
                inside.serve(cores, Service::Fixed(Picos::from_nanos(20)), 1).await;
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
        "{:>8} {:>10} {:>12} {:>11} {:>10} {:>19} {:>18}",
        "clients", "queue", "operations", "processes", "handlers", "processes : queue", "handlers : queue"
    );
    for clients in [16, 256, 4096] {
        let sims = [processes(clients), handlers(clients)];
        let kernel = std::cell::RefCell::new(operations(clients));
        let (mut queue, mut prng) = (Queue::new(), Prng::new(9));
        (0..clients).for_each(|i| {
            queue.push(Picos(prng.below(400_000)), i as u32, i);
        });
        let mut until = [Picos::ZERO; 3];
        let mut rates = [const { Vec::new() }; 4];
        for _ in 0..7 {
            rates[0].push(hold(&mut queue, &mut prng, wanted));
            let mut run = |until| kernel.borrow_mut().run_until(until);
            rates[1].push(slice(&mut run, &|| kernel.borrow().events(), &mut until[0], wanted));
            for (i, sim) in sims.iter().enumerate() {
                let events = || sim.with(|k| k.events());
                rates[2 + i].push(slice(&mut |to| sim.run_until(to), &events, &mut until[1 + i], wanted));
            }
        }
        let ratio = |of: &[f64], to: &[f64]| median(of.iter().zip(to).map(|(of, to)| of / to));
        let ratios = [ratio(&rates[2], &rates[0]), ratio(&rates[3], &rates[0])];
        let [queue, operations, processes, handlers] = rates.map(median);
        println!(
            "{clients:>8} {queue:>10.1} {operations:>12.1} {processes:>11.1} {handlers:>10.1} {:>18.2}x {:>17.2}x",
            ratios[0], ratios[1]
        );
        sims.iter().for_each(Sim::end_processes);
    }
}
