//! `millrace rpc soak`: everything that can be changed while calls flow is changed, and every call is accounted for.
//!
//! | file | what it is |
//! |---|---|
//! | `ledger` | the service, which notes each call that it runs |
//! | `client` | a thread with a connection: calls out, outcomes checked, transports switched |
//! | `change` | a random legal value of a random register |
//!
//! Shape: one process, so that one list of registers serves the server and all clients, and the server's notes are at hand when a
//! reply is checked. What is random comes from `--seed`; what the threads make of it is the machine's.

mod change;
mod client;
mod ledger;

use base::prng::Prng;
use clap::Args;
use client::{Account, Client};
use fabric::link::Address;
use fabric::registers::Registers;
use fabric::server::{Options, Server};
use ledger::{Ledger, Soaking};
use ring::wait::WaitPolicy;
use serde::Serialize;
use serve::process::parse::duration;
use serve::process::{interrupt, progress};
use serve::rpc::RpcError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Change registers and transports under full load, and see that no call is lost.
///
/// Starts a server and clients as threads of this program. Each client keeps --window numbered calls under way; the server notes each
/// call that it runs. Every --every one register is set to a random legal value (sizes within what a small machine has); with
/// --switch each client also goes over to another transport, with calls under way: shm, udp, unix, memory.
/// Exit status 1 if a call was lost, ran twice, ended twice, or was answered with something else.
#[derive(Args, Clone, Debug)]
pub struct Soak {
    /// How long (10s, 1m)
    #[arg(short, long, alias = "seconds", value_name = "TIME", default_value = "60s", value_parser = duration)]
    duration: Duration,
    /// Time between two changes
    #[arg(long, value_parser = duration, value_name = "TIME", default_value = "10ms")]
    every: Duration,
    /// Switch the clients' transports too
    #[arg(long)]
    switch: bool,
    /// Connections, with a thread each
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
    /// Calls under way per connection
    #[arg(short, long, default_value_t = 32)]
    window: usize,
    /// Of what is drawn [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What came out.
#[derive(Debug, Serialize)]
struct Outcome {
    seed: u64,
    seconds: f64,
    /// Registers set.
    changes: u64,
    /// Over all clients.
    calls: Account,
    /// Calls that the server ran.
    ran: u64,
    /// Those that it ran again.
    ran_twice: u64,
}

impl Outcome {
    /// What is wrong, if anything is.
    fn faults(&self) -> Vec<String> {
        let calls = &self.calls;
        let counts = [
            (calls.lost, "calls have no outcome"),
            (self.ran_twice, "calls ran twice"),
            (calls.doubled, "calls ended twice"),
            (calls.wrong, "calls were answered with something else"),
            (calls.unrun, "calls were answered and did not run"),
            (calls.failed, "calls failed"),
            (calls.started.abs_diff(calls.replies + calls.failed + calls.lost), "calls are unaccounted for"),
            (
                self.ran.abs_diff(calls.replies),
                "calls make the difference between those that ran and replies",
            ),
        ];
        let found = counts.iter().filter(|(count, _)| *count > 0);
        let mut faults: Vec<String> = found.map(|(count, what)| format!("{count} {what}")).collect();
        faults.extend(calls.example.iter().map(|example| format!("the first: {example}")));
        faults
    }

    fn text(&self) -> String {
        let Outcome { seed, seconds, changes, calls, ran, .. } = self;
        let rate = calls.replies as f64 / seconds;
        format!(
            "  seed {seed}\n  {changes} registers set, {} transports switched ({} refused) in {seconds:.1} s\n  \
             {} calls started = {} replies + {} statuses; {ran} ran, {rate:.0} per second\n  \
             lost {}, run twice {}, ended twice {}, mis-answered {}\n",
            calls.switches,
            calls.refused,
            calls.started,
            calls.replies,
            calls.failed,
            calls.lost,
            self.ran_twice,
            calls.doubled,
            calls.wrong + calls.unrun,
        )
    }
}

impl Soak {
    /// Runs it.
    ///
    /// # Errors
    /// It could not run, or a call came to harm.
    pub fn run(&self) -> Result<(), RpcError> {
        let interrupted = interrupt::flag().map_err(RpcError::Signal)?;
        let seed = self.seed.unwrap_or_else(|| u64::from(std::process::id()) ^ base::Clock::shared().now().0);
        if !self.json {
            println!("  seed {seed}");
        }
        let ledger = Arc::new(Ledger::new(self.clients as usize));
        let registers = Arc::new(Registers::default());
        let serving = Serving::start(&ledger, &registers)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for number in 0..self.clients {
            let client = Client {
                number,
                window: self.window.max(1),
                addresses: serving.addresses.clone(),
                switch_every: self.switch.then_some(self.every),
                random: Prng::for_entity(seed, number.into(), 1),
                registers: Arc::clone(&registers),
                ledger: Arc::clone(&ledger),
                stop: Arc::clone(&stop),
            };
            let thread = std::thread::Builder::new().name(format!("soak-{number}"));
            clients.push(thread.spawn(move || client.run()).map_err(failed)?);
        }
        let began = Instant::now();
        let changes = self.change(&registers, seed, &interrupted);
        stop.store(true, Ordering::Relaxed);
        let mut calls = Account::default();
        for client in clients {
            calls.add(&client.join().expect("a client does not panic")?);
        }
        let seconds = began.elapsed().as_secs_f64();
        drop(serving);
        let (ran, ran_twice) = ledger.totals();
        self.verdict(&Outcome { seed, seconds, changes, calls, ran, ran_twice })
    }

    /// Sets a register again and again; how often.
    fn change(&self, registers: &Registers, seed: u64, interrupted: &AtomicBool) -> u64 {
        let bar = progress::bar(self.json);
        let mut random = Prng::for_entity(seed, 0, 0);
        let (began, mut changes) = (Instant::now(), 0);
        let length = self.duration;
        while began.elapsed() < length && !interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(self.every);
            let name = change::any(registers, &mut random);
            changes += 1;
            progress::show(&bar, began.elapsed().as_secs_f64() / length.as_secs_f64(), name);
        }
        bar.finish_and_clear();
        changes
    }

    fn verdict(&self, outcome: &Outcome) -> Result<(), RpcError> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(outcome).expect("results are plain data"));
        } else {
            print!("{}", outcome.text());
        }
        match outcome.faults() {
            faults if faults.is_empty() => Ok(()),
            faults => Err(RpcError::Harm(format!("{}; --seed {}", faults.join(", "), outcome.seed))),
        }
    }
}

fn failed(cause: std::io::Error) -> RpcError {
    RpcError::Server(cause.to_string())
}

/// The server, on a thread of its own, until it is dropped.
struct Serving {
    addresses: Vec<Address>,
    _folder: TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    fn start(ledger: &Arc<Ledger>, registers: &Arc<Registers>) -> Result<Serving, RpcError> {
        let name = format!("millrace-soak-{}", std::process::id());
        let folder = TempDir::with_prefix("millrace-").map_err(failed)?;
        let asked = [
            Address::Shm(folder.path().join("shm")),
            "udp:127.0.0.1:0".parse().expect("an address"),
            Address::Unix(folder.path().join("unix")),
            Address::Memory(name),
        ];
        let mut server = Server::new(Options::default())
            .registers(Arc::clone(registers))
            .service(Soaking(Arc::clone(ledger)));
        for address in &asked {
            server = server.listen(address).map_err(failed)?;
        }
        let addresses = server.addresses().cloned().collect();
        let stop = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("soak-server".to_owned());
        let thread = thread.spawn(move || server.run(WaitPolicy::default(), &over)).map_err(failed)?;
        Ok(Serving { addresses, _folder: folder, stop, thread: Some(thread) })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed, and its clients' calls failed.
            let _ = thread.join();
        }
    }
}
