//! `millrace soak places`: handlers of every service at every place they allow, moved while they are used.
//!
//! ```text
//!  clients ══▶ kv    engine.mode            shared, dedicated          ┐
//!  clients ══▶ rpc   place.handlers         edge, host, engine         ├── moved every 10 ms
//!  clients ══▶ rec   place.rec.preprocess   edge, engine, host         ┘
//! ```
//! `kv` and `rpc` count: every call adds one to a key's counter and is told the value, so the history says whether a call was lost, done twice or
//! done in an order that nobody could have seen (`sim::counted`). Calls to `kv` are pipelined, and those of one connection are done in order. `rec`
//! is asked the same questions again and again: an answer is right if it is the first one's.

mod kv;
mod rec;
mod rpc;

use super::SoakError;
use clap::Args;
use serde::Serialize;
use serve::process::parse::duration;
use serve::process::{interrupt, progress};
use sim::counted::{Counted, Wrong, judge};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Move handlers between places under load, and see that no request is lost, doubled, mis-answered or out of order.
///
/// Starts a key-value, an RPC and a recommendation server in this program, with clients on threads. Every --every all three get another place.
/// Exit status 1 if anything was wrong.
#[derive(Args, Clone, Debug)]
pub struct Places {
    /// How long (10s, 1m)
    #[arg(short, long, alias = "seconds", value_name = "TIME", default_value = "60s", value_parser = duration)]
    duration: Duration,

    /// Time between two moves
    #[arg(long, value_parser = duration, value_name = "TIME", default_value = "10ms")]
    every: Duration,

    /// Clients of each service, with a connection and a thread each
    #[arg(short, long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A service under load.
trait Subject: Sync {
    /// Its name, the register, and the places.
    fn places(&self) -> (&'static str, &'static str, &'static [&'static str]);

    /// Moves it.
    fn go_to(&self, place: &str) -> Result<(), String>;

    /// One client's calls until `run` says that it is over.
    fn client(&self, number: u32, run: &Run) -> Result<Account, String>;
}

/// What all clients see.
struct Run {
    stop: AtomicBool,
    time: AtomicU64,
}

impl Run {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A moment: later ones are greater.
    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }
}

/// What a client saw.
#[derive(Default)]
struct Account {
    calls: u64,
    /// Answers that are another's.
    wrong: u64,
    /// Calls that were not answered in time.
    unanswered: u64,
    history: Vec<Counted>,
}

/// What came of a service.
#[derive(Debug, Serialize)]
struct Row {
    service: &'static str,
    register: &'static str,
    places: &'static [&'static str],
    moves: u64,
    calls: u64,
    lost: u64,
    doubled: u64,
    reordered: u64,
    mis_answered: u64,
}

impl Row {
    fn faults(&self) -> u64 {
        self.lost + self.doubled + self.reordered + self.mis_answered
    }
}

impl Places {
    /// Runs it.
    ///
    /// # Errors
    /// It could not run, or something was wrong.
    pub fn run(&self) -> Result<(), SoakError> {
        let interrupted = interrupt::flag().map_err(|error| SoakError::Run(error.to_string()))?;
        let subjects: [Box<dyn Subject>; 3] = [
            Box::new(kv::Kv::start().map_err(SoakError::Run)?),
            Box::new(rpc::Rpc::start().map_err(SoakError::Run)?),
            Box::new(rec::Rec::start().map_err(SoakError::Run)?),
        ];
        let run = Run { stop: AtomicBool::new(false), time: AtomicU64::new(0) };
        let (moves, accounts) = thread::scope(|scope| {
            let clients: Vec<Vec<_>> = subjects
                .iter()
                .map(|subject| {
                    let client = |number| {
                        let (run, subject) = (&run, &**subject);
                        scope.spawn(move || subject.client(number, run))
                    };
                    (0..self.clients).map(client).collect()
                })
                .collect();
            let moves = self.conduct(&subjects, &interrupted);
            run.stop.store(true, Ordering::Relaxed);
            let joined = |client: thread::ScopedJoinHandle<'_, _>| {
                client.join().unwrap_or_else(|_| Err("a client panicked".to_owned()))
            };
            let accounts = clients.into_iter().map(|of| of.into_iter().map(joined).collect());
            (moves, accounts.collect::<Vec<Result<Vec<Account>, String>>>())
        });
        let moves = moves.map_err(SoakError::Run)?;
        let mut rows = Vec::new();
        for (subject, accounts) in subjects.iter().zip(accounts) {
            rows.push(row(&**subject, moves, accounts.map_err(SoakError::Run)?));
        }
        self.show(&rows);
        match rows.iter().map(Row::faults).sum() {
            0 => Ok(()),
            faults => Err(SoakError::Broken(faults)),
        }
    }

    /// Moves all of them again and again; how often.
    fn conduct(&self, subjects: &[Box<dyn Subject>], interrupted: &AtomicBool) -> Result<u64, String> {
        let bar = progress::bar(self.json);
        let (began, length, mut moves) = (Instant::now(), self.duration, 0);
        while began.elapsed() < length && !interrupted.load(Ordering::Relaxed) {
            thread::sleep(self.every);
            for subject in subjects {
                let (_, _, places) = subject.places();
                subject.go_to(places[moves as usize % places.len()])?;
            }
            moves += 1;
            progress::show(&bar, began.elapsed().as_secs_f64() / length.as_secs_f64(), "moving");
        }
        bar.finish_and_clear();
        Ok(moves)
    }

    fn show(&self, rows: &[Row]) {
        if self.json {
            println!("{}", serde_json::to_string_pretty(rows).expect("results are plain data"));
            return;
        }
        println!(
            "  {:8} {:22} {:24} {:>7} {:>10} {:>6} {:>8} {:>10} {:>13}",
            "service",
            "register",
            "places",
            "moves",
            "requests",
            "lost",
            "doubled",
            "reordered",
            "mis-answered"
        );
        for row in rows {
            println!(
                "  {:8} {:22} {:24} {:>7} {:>10} {:>6} {:>8} {:>10} {:>13}",
                row.service,
                row.register,
                row.places.join(", "),
                row.moves,
                row.calls,
                row.lost,
                row.doubled,
                row.reordered,
                row.mis_answered
            );
        }
    }
}

fn row(subject: &dyn Subject, moves: u64, accounts: Vec<Account>) -> Row {
    let (service, register, places) = subject.places();
    let mut all = Account::default();
    for account in accounts {
        all.calls += account.calls;
        all.wrong += account.wrong;
        all.unanswered += account.unanswered;
        all.history.extend(account.history);
    }
    let Wrong { lost, doubled, reordered } = judge(&all.history);
    // A call that was done and not answered is in both.
    let lost = lost.max(all.unanswered);
    Row {
        service,
        register,
        places,
        moves,
        calls: all.calls,
        lost,
        doubled,
        reordered,
        mis_answered: all.wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_answers_wrongly_is_seen() {
        let subject = rec::Rec::start().expect("a server");
        let call = |value| Counted { key: 1, value, began: value, ended: value };
        let account = Account { calls: 3, wrong: 1, unanswered: 0, history: vec![call(1), call(3), call(3)] };
        let row = row(&subject, 0, vec![account]);
        assert_eq!((row.calls, row.lost, row.doubled, row.mis_answered, row.faults()), (3, 1, 1, 1, 3));
        let silent = Account { unanswered: 2, ..Account::default() };
        assert_eq!(super::row(&subject, 0, vec![silent]).lost, 2);
    }

    #[test]
    fn nothing_is_wrong_while_everything_moves() {
        let places = Places {
            duration: Duration::from_secs(1),
            every: Duration::from_millis(5),
            clients: 2,
            json: true,
        };
        places.run().expect("nothing is lost");
    }
}
