//! A bank on a chain of replicas: threads transfer money, an auditor looks at all accounts at once, replicas are shot, and in the end nothing
//! is missing.
//!
//! ```text
//! cargo build --release && cargo run --release --example bank -- --minutes 5 --kill-every 10s
//! ```
//!
//! A transfer is one transaction: `if-at-least FROM n; add FROM -n; add TO n; put LEDGER-KEY …`. What is checked:
//! 1. all along: each audit, one transaction that reads every account, sees the whole total, and no negative balance;
//! 2. in the end: each acknowledged transfer is in the ledger, each refused one is not, and the balances are what the ledger says: nothing was lost
//!    or done twice, also of those whose outcome was never heard;
//! 3. after each kill: the longest time in which nobody's transfer was done, against a stated bound;
//! 4. in the end: all replicas are back, and the checksums of their whole stores are equal;
//! 5. of a chain from a backup that was made meanwhile: the same as 2, for all that was acknowledged before the backup was begun.

mod audit;
mod books;
mod chain;
mod service;
mod transfer;

use clap::Parser;
use fabric::link::Address;
use serve::process::parse::duration;
use service::Service;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Transfers money on a chain of replicas, and checks that nothing is lost.
#[derive(Parser, Clone, Debug)]
pub struct Args {
    /// Replicas of a running chain; without it one of three is started on loopback
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    connect: Vec<Address>,
    /// How long
    #[arg(long, value_name = "N", conflicts_with = "time")]
    minutes: Option<u64>,
    /// How long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    time: Duration,
    /// Threads that transfer, each with a session
    #[arg(long, value_name = "N", default_value_t = 4)]
    threads: u32,
    /// Transfers under way of each
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=64))]
    window: u64,
    /// Accounts
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1000))]
    accounts: u32,
    /// What each begins with
    #[arg(long, value_name = "N", default_value_t = 1000)]
    balance: i64,
    /// Shoot a replica (kill -9) so often, one after the other; it is started again. Only of a chain that was started here
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "connect")]
    kill_every: Option<Duration>,
    /// Stop every second victim (SIGSTOP) for up to this long and let it go on, instead of shooting it; every eighth is the controller
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "kill_every")]
    pause: Option<Duration>,
    /// Back the chain up when half of the time is over, and in the end start another one from the backup, and hold its books
    #[arg(long, conflicts_with = "connect")]
    restore: bool,
    /// After a kill, transfers must go on within this
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    bound: Duration,
    /// Replicas of a chain that is started here
    #[arg(long, value_name = "N", default_value_t = 3)]
    replicas: u16,
    /// What its logs are on: file, dsync, pmem, memory; emulated:NANOSECONDS is a disk that takes so long for each write
    #[arg(long, value_name = "MEDIA", default_value = "file")]
    media: String,
    /// Most that its accounts and ledger may take, some hundred bytes for each transfer
    #[arg(long, value_name = "SIZE", default_value = "128m")]
    data_size: String,
    /// The millrace to start it with; without it, the one beside this example
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bank: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let chain = chain::Chain::of(args)?;
    let addresses = chain.addresses(args);
    books::open_accounts(&addresses, args)?;
    let stop = AtomicBool::new(false);
    let service = Service::default();
    let length = args.minutes.map_or(args.time, |minutes| Duration::from_secs(60 * minutes));
    let began = Instant::now();
    let (backup, entries, audits) = std::thread::scope(|scope| {
        let transfers: Vec<_> = (0..args.threads)
            .map(|thread| {
                let (addresses, service, stop) = (&addresses, &service, &stop);
                scope.spawn(move || transfer::work(addresses, args, thread, service, stop))
            })
            .collect();
        let auditor = scope.spawn(|| audit::work(&addresses, args, &stop));
        let watched = chain.watch(args, &addresses, (began, length), &service);
        stop.store(true, Ordering::Relaxed);
        let entries: Result<Vec<_>, String> =
            transfers.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let audits = auditor.join().expect("no panic");
        Ok::<_, String>((watched?, entries?.concat(), audits?))
    })?;
    println!("{} audits saw the whole total, and no negative balance", audits);
    books::balance(&addresses, args, &entries, None)?;
    chain.compare(args, &addresses)?;
    if let Some(begun) = backup {
        let restored = chain.restored(args)?;
        books::balance(&restored.addresses(args), args, &entries, Some(begun))?;
    }
    service.verdict(args.bound)
}
