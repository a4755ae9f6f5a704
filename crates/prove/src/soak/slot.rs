//! One range of keys and the client processes that work on it, one after the other.
//!
//! ```text
//!  start client ─▶ records ─▶ ledger … end of pipe ─▶ reap ─▶ server lets go ─▶ orphan ─▶ start the next
//! ```
//! Why it waits for the server to let go of a dead client's connection: requests that had arrived are executed even so,
//! and could overwrite what the next client writes. That would be the server's right, and would look like a lost write.
//!
//! Invariants: records of one client are all judged before the next one starts; a process number is signalled only under
//! the lock under which it is reaped, so never a stranger's.

use super::client::ClientArgs;
use super::ledger::{Answer, Fault, Ledger};
use super::record::{Bye, LEN, Record};
use super::server::{holds_socket, socket_between};
use base::prng::mix64;
use hdrhistogram::Histogram;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the server may take to let go of a dead client's connection.
const LETTING_GO: Duration = Duration::from_secs(30);

/// With several edges a request may still be in the engine when its connection is closed; it has microseconds to live.
const SETTLING: Duration = Duration::from_millis(20);

/// Examples of faults that are kept.
const EXAMPLES: usize = 20;

/// What all slots count and watch.
#[derive(Debug)]
pub struct Board {
    /// Set when no new clients are to be started.
    pub stop: AtomicBool,
    /// The order of the day for clients.
    pub order: AtomicU8,
    /// Operations answered.
    pub ops: AtomicU64,
    /// Values read and found right, and misses that are right.
    pub reads: AtomicU64,
    /// Writes acknowledged.
    pub writes: AtomicU64,
    /// Writes refused for want of memory.
    pub refusals: AtomicU64,
    /// Clients started.
    pub clients: AtomicU64,
    /// Clients whose connection the server closed, or refused for want of buffers.
    pub closed: AtomicU64,
    /// Writes that were cut off by a client's death.
    pub cut_off: AtomicU64,
    faults: Mutex<Faults>,
    began: Instant,
}

/// What went wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// How many.
    pub count: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
}

impl Board {
    /// Nothing counted yet.
    pub fn new(order: u8) -> Board {
        Board {
            stop: AtomicBool::new(false),
            order: AtomicU8::new(order),
            ops: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            clients: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            cut_off: AtomicU64::new(0),
            faults: Mutex::new(Faults::default()),
            began: Instant::now(),
        }
    }

    /// Notes something that went wrong.
    pub fn fault(&self, what: impl std::fmt::Display) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.count += 1;
        if faults.examples.len() < EXAMPLES {
            faults.examples.push(format!("at {:.2} s: {what}", self.began.elapsed().as_secs_f64()));
        }
    }

    /// What went wrong so far.
    pub fn faults(&self) -> Faults {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a judgement of the ledger.
    pub fn judge(&self, judgement: Result<(), Fault>) {
        if let Err(fault) = judgement {
            self.fault(fault);
        }
    }
}

/// The process that works on a slot now; others may signal it.
#[derive(Debug, Default)]
pub struct Victim(Mutex<Option<Child>>);

impl Victim {
    /// Sends it `signal`; false when nobody is there.
    pub fn signal(&self, signal: Signal) -> bool {
        let child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = child.as_ref().and_then(|child| Pid::from_raw(child.id() as i32));
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    fn put(&self, child: Child) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
    }

    /// Waits for its end, which the end of its pipe has announced.
    fn reap(&self) {
        if let Some(mut child) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Its pipe is closed: it has ended, or is about to. Killing what has ended does nothing.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One range of keys.
pub struct Slot<'s> {
    /// Which.
    pub number: usize,
    /// The server's process and port.
    pub server: (u32, std::net::SocketAddr),
    /// The run whose values are written.
    pub run: u32,
    /// Seed of all clients' choices.
    pub seed: u64,
    /// What its keys may hold.
    pub ledger: Ledger,
    /// Times to answer, in microseconds.
    pub latency: Histogram<u64>,
    /// Shared counts.
    pub board: &'s Board,
    /// The process of the moment.
    pub victim: &'s Victim,
}

impl Slot<'_> {
    /// Runs clients until told to stop, and until the last one has ended.
    pub fn run(mut self) -> Self {
        let mut generation = 0;
        while !self.board.stop.load(Ordering::SeqCst) {
            generation += 1;
            if let Err(e) = self.one_client(generation) {
                self.board.fault(format_args!("client {} could not be started: {e}", self.number));
                break;
            }
        }
        self
    }

    fn one_client(&mut self, generation: u64) -> std::io::Result<()> {
        let keys = self.ledger.keys();
        let args = ClientArgs {
            address: self.server.1.to_string(),
            first: keys.start,
            count: keys.len() as u32,
            seq: self.ledger.newest() + 1,
            run: self.run,
            seed: mix64(self.seed ^ mix64((self.number as u64) << 32 | generation)),
            order: self.board.order.load(Ordering::Relaxed),
        };
        let mut child = Command::new(std::env::current_exe()?)
            .args(["soak", "client"])
            .args(args.words())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        self.board.clients.fetch_add(1, Ordering::Relaxed);
        let (orders, records) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        self.victim.put(child);
        let socket = self.follow(orders, BufReader::with_capacity(64 << 10, records));
        self.victim.reap();
        if let Some(inode) = socket {
            self.await_letting_go(inode);
        }
        self.board.cut_off.fetch_add(self.ledger.pending() as u64, Ordering::Relaxed);
        self.ledger.orphan();
        Ok(())
    }

    /// Judges what the client tells until its pipe ends; passes orders on. Returns the server's socket for it, once known.
    fn follow(&mut self, mut orders: ChildStdin, mut records: BufReader<ChildStdout>) -> Option<u64> {
        let (mut bytes, mut socket, mut last) = ([0; LEN], None, None);
        while records.read_exact(&mut bytes).is_ok() {
            match Record::decode(&bytes) {
                Some(Record::Hello { port }) => socket = socket_between(port, self.server.1.port()),
                Some(record) => self.judge(record),
                None => self.board.fault(format_args!("client {} wrote a broken record", self.number)),
            }
            let order = match self.board.stop.load(Ordering::Relaxed) {
                true => super::client::END,
                false => self.board.order.load(Ordering::Relaxed),
            };
            if last != Some(order) {
                // A client that is dying does not need it.
                let _ = orders.write_all(&[order]);
                last = Some(order);
            }
        }
        socket
    }

    fn judge(&mut self, record: Record) {
        match record {
            Record::Attempt { key, op } => self.ledger.attempt(key, op),
            Record::Answered { key, answer, micros } => {
                self.count(micros);
                let count = match answer {
                    Answer::NoMemory => &self.board.refusals,
                    _ => &self.board.writes,
                };
                count.fetch_add(1, Ordering::Relaxed);
                self.board.judge(self.ledger.answer(key, answer));
            }
            Record::Read { key, seen, micros } => {
                self.count(micros);
                self.board.reads.fetch_add(1, Ordering::Relaxed);
                self.board.judge(self.ledger.observe(key, seen));
            }
            Record::Bye(Bye::Closed | Bye::NoBuffers) => {
                self.board.closed.fetch_add(1, Ordering::Relaxed);
            }
            Record::Bye(why @ (Bye::Silence | Bye::Nonsense | Bye::NoConnection)) => {
                self.board.fault(format_args!("client {} {why}", self.number));
            }
            Record::Bye(Bye::Told) | Record::Hello { .. } => {}
        }
    }

    fn count(&mut self, micros: u32) {
        self.board.ops.fetch_add(1, Ordering::Relaxed);
        self.latency.saturating_record(u64::from(micros));
    }

    fn await_letting_go(&self, inode: u64) {
        let began = Instant::now();
        while holds_socket(self.server.0, inode) {
            if began.elapsed() > LETTING_GO {
                self.board.fault(format_args!(
                    "the server still holds the connection of a client that died {} s ago",
                    LETTING_GO.as_secs()
                ));
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(SETTLING);
    }
}
