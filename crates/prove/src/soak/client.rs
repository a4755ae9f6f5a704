//! The client process: batches of random reads and writes on keys of its own, told to the soak as [`Record`]s.
//!
//! It knows nothing of what its keys hold: what it did is told before it is sent, what was answered and read is told
//! after, and the ledger judges. So a new process continues where a killed one was cut off.
//!
//! Why it does not run on `bench::drive`: it is killed in the middle of its work, so it tells every attempt before it sends it, in batches of its own,
//! and keeps no time but the batch's. Its values are judged by `ledger`, which allows for what a killed server may have done; `bench::load::ledger`
//! promises more (any value that was read was written), and holds only while no process dies.
//!
//! Invariants: a key occurs once per batch; nothing is sent whose attempt is not in the pipe.
//!
//! Orders come as single bytes on standard input: 0 ends the process, others are the share of deletions among the writes,
//! in 255ths. The end of standard input is an order to end.

use super::ledger::{Answer, MAX_VALUE, Op, Part, Seen};
use super::link::Link;
use super::parts;
use super::record::{ATOMIC, Bye, LEN, Record};
use base::prng::Prng;
use clap::Args;
use protocol::memcache::client::{Reply, request};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

/// What a client process is told at its start.
#[derive(Args, Clone, Debug)]
pub struct ClientArgs {
    /// The server
    pub address: String,
    /// Its first key
    pub first: u32,
    /// How many keys it has
    pub count: u32,
    /// The number of its next write
    pub seq: u32,
    /// The run whose values it writes
    pub run: u32,
    /// Seed of its random choices
    pub seed: u64,
    /// The first order
    pub order: u8,
}

/// The order to end.
pub const END: u8 = 0;

/// The order to fill: nothing is deleted, little is read.
pub const FILL: u8 = 1;

/// Operations in a batch at most.
const BATCH: u64 = 16;

/// Keys in a read at most.
const MULTIGET: u64 = 6;

/// Value bytes sent in a batch at most: a pipeline of whole megabytes would only measure patience.
const BATCH_BYTES: usize = 2 << 20;

/// Conditional writes in a batch at most.
const SWAPS: usize = 4;

/// What a read says that was answered with another key's value, or with an error.
const NOT_ASKED: Seen = Seen::Damaged { at: 0, len: 0 };

struct Client {
    args: ClientArgs,
    link: Link,
    prng: Prng,
    order: Arc<AtomicU8>,
    seq: u32,
    /// Unique numbers just read, to be used by the next batch.
    uniques: HashMap<u32, u64>,
}

/// What waits for an answer.
enum Asked {
    Write { key: u32 },
    Read { keys: Vec<u32> },
}

impl ClientArgs {
    /// The command line that means this.
    pub fn words(&self) -> Vec<String> {
        let numbers = [u64::from(self.first), self.count.into(), self.seq.into(), self.run.into()];
        let numbers = numbers.into_iter().chain([self.seed, self.order.into()]);
        std::iter::once(self.address.clone()).chain(numbers.map(|n| n.to_string())).collect()
    }

    /// Runs until told to end, or until the connection is lost. The records go to standard output.
    pub fn run(self) {
        let order = Arc::new(AtomicU8::new(self.order));
        let mut pipe = Pipe::open();
        let why = listen(order.clone())
            .and_then(|()| Client::connect(self, order, &mut pipe))
            .and_then(|client| client.work(&mut pipe));
        // Without a reader nobody is interested in why.
        let _ = pipe.tell(&[Record::Bye(why.err().unwrap_or(Bye::Told))]);
    }
}

/// Keeps `order` at the last byte of standard input.
fn listen(order: Arc<AtomicU8>) -> Result<(), Bye> {
    let run = move || {
        let mut byte = [END];
        while std::io::stdin().read(&mut byte).is_ok_and(|n| n == 1) && byte[0] != END {
            order.store(byte[0], Ordering::Relaxed);
        }
        order.store(END, Ordering::Relaxed);
    };
    std::thread::Builder::new().spawn(run).map(|_| ()).map_err(|_| Bye::NoConnection)
}

/// The way to the soak. Not `Stdout`, which cuts what it writes into lines.
struct Pipe(File);

impl Pipe {
    fn open() -> Pipe {
        let stdout = std::io::stdout().as_fd().try_clone_to_owned();
        Pipe(File::from(stdout.expect("a fresh process can have one more descriptor")))
    }

    /// Writes records, in pieces that a pipe takes whole. False when nobody reads them.
    fn tell(&mut self, records: &[Record]) -> bool {
        records.chunks(ATOMIC / LEN).all(|chunk| {
            let bytes: Vec<u8> = chunk.iter().flat_map(Record::encode).collect();
            self.0.write_all(&bytes).is_ok()
        })
    }
}

impl Client {
    fn connect(args: ClientArgs, order: Arc<AtomicU8>, pipe: &mut Pipe) -> Result<Client, Bye> {
        let mut link = Link::open(&args.address)?;
        // An answer proves that the server has accepted: from now on it has a socket of ours that can be looked for.
        let expect = request::version(&mut link.out);
        link.expect(expect);
        link.exchange(|_, _| (), || ())?;
        if !pipe.tell(&[Record::Hello { port: link.port() }]) {
            return Err(Bye::Told);
        }
        let (prng, seq) = (Prng::new(args.seed), args.seq);
        Ok(Client { args, link, prng, order, seq, uniques: HashMap::new() })
    }

    fn work(mut self, pipe: &mut Pipe) -> Result<(), Bye> {
        loop {
            match self.order.load(Ordering::Relaxed) {
                END => return Ok(()),
                order => self.batch(order, pipe)?,
            }
        }
    }

    fn batch(&mut self, order: u8, pipe: &mut Pipe) -> Result<(), Bye> {
        let size = 1 + self.prng.below(BATCH);
        let (mut asked, mut attempts, mut taken) = (Vec::new(), Vec::new(), HashSet::new());
        // Unique numbers are good for the batch behind the read, and for that one only.
        for (key, unique) in std::mem::take(&mut self.uniques) {
            taken.insert(key);
            let op = self.swap(key, unique);
            attempts.push(Record::Attempt { key, op });
            asked.push(Asked::Write { key });
        }
        let reads = if order == FILL { 0.1 } else { 0.45 };
        while (asked.len() as u64) < size && self.link.out.len() < BATCH_BYTES {
            let key = self.args.first + self.prng.below(u64::from(self.args.count)) as u32;
            if !taken.insert(key) {
                continue;
            }
            if self.prng.chance(reads) {
                asked.push(self.read(key, &mut taken));
            } else {
                let op = self.choose(key, order);
                self.write(key, op);
                attempts.push(Record::Attempt { key, op });
                asked.push(Asked::Write { key });
            }
        }
        if !pipe.tell(&attempts) {
            return Err(Bye::Told);
        }
        self.collect(asked, pipe)
    }

    /// A conditional write with the unique number just read, or with one that is wrong on purpose.
    fn swap(&mut self, key: u32, unique: u64) -> Op {
        let (seq, len) = self.part(false);
        let right = self.prng.chance(0.7);
        let unique = if right { unique } else { unique ^ 1 << 62 };
        let (name, flags) = (parts::name(key), parts::flags(key));
        let how = request::Store::Cas(unique);
        let run = self.args.run;
        let expect =
            request::store_with(&mut self.link.out, how, &name, flags, 0, len as usize, false, |body| {
                parts::write(body, key, run, Part { seq, len });
            });
        self.link.expect(expect);
        if right { Op::Cas { seq, len } } else { Op::WrongCas { seq, len } }
    }

    fn read(&mut self, key: u32, taken: &mut HashSet<u32>) -> Asked {
        let mut keys = vec![key];
        for _ in 0..self.prng.below(MULTIGET) {
            let key = self.args.first + self.prng.below(u64::from(self.args.count)) as u32;
            if taken.insert(key) {
                keys.push(key);
            }
        }
        let verb = if self.prng.chance(0.3) { "gets" } else { "get" };
        let names: Vec<Vec<u8>> = keys.iter().map(|&key| parts::name(key)).collect();
        let expect = request::read(&mut self.link.out, verb, names.iter().map(Vec::as_slice));
        self.link.expect(expect);
        Asked::Read { keys }
    }

    /// The number and length of the next write.
    fn part(&mut self, small: bool) -> (u32, u32) {
        let seq = self.seq;
        self.seq += 1;
        // Evenly over the powers of two, so that every size class has its share; now and then up to the longest.
        let (low, high) = match self.prng.unit_f64() {
            x if small || x < 0.5 => (f64::from(parts::SHORTEST), 4096.0),
            x if x < 0.98 => (f64::from(parts::SHORTEST), 262_144.0),
            _ => (262_144.0, MAX_VALUE as f64),
        };
        (seq, (low * (high / low).powf(self.prng.unit_f64())) as u32)
    }

    fn choose(&mut self, key: u32, order: u8) -> Op {
        if order != FILL && self.prng.chance(f64::from(order) / 255.0) {
            return Op::Delete;
        }
        let dice = self.prng.unit_f64();
        if parts::is_counter(key) {
            return match dice {
                x if x < 0.4 => Op::SetNumber(self.prng.next_u64() >> self.prng.below(64)),
                x if x < 0.8 => Op::Add(self.prng.next_u64() >> (24 + self.prng.below(40))),
                _ => Op::Take(self.prng.next_u64() >> (24 + self.prng.below(40))),
            };
        }
        let joins = order != FILL && dice >= 0.75;
        let (seq, len) = self.part(joins);
        match dice {
            _ if !joins => Op::Set { seq, len },
            x if x < 0.9 => Op::Append { seq, len },
            _ => Op::Prepend { seq, len },
        }
    }

    fn write(&mut self, key: u32, op: Op) {
        use request::Store;
        let (name, flags, run) = (parts::name(key), parts::flags(key), self.args.run);
        let out = &mut self.link.out;
        let mut store = |how: Store, seq: u32, len: u32| {
            request::store_with(out, how, &name, flags, 0, len as usize, false, |body| {
                parts::write(body, key, run, Part { seq, len });
            })
        };
        let expect = match op {
            Op::Set { seq, len } => store(Store::Set, seq, len),
            Op::Append { seq, len } => store(Store::Append, seq, len),
            Op::Prepend { seq, len } => store(Store::Prepend, seq, len),
            Op::Delete => request::delete(out, &name, false),
            Op::SetNumber(n) => request::set(out, &name, flags, 0, n.to_string().as_bytes()),
            Op::Add(by) => request::count(out, &name, by, false, false),
            Op::Take(by) => request::count(out, &name, by, true, false),
            Op::Cas { .. } | Op::WrongCas { .. } => unreachable!("made by swap, with its unique number"),
        };
        self.link.expect(expect);
    }

    /// Sends the batch and tells its answers as they come.
    fn collect(&mut self, asked: Vec<Asked>, pipe: &mut Pipe) -> Result<(), Bye> {
        let (began, run) = (Instant::now(), self.args.run);
        let mut asked = asked.into_iter();
        let mut current = asked.next();
        let mut found: HashMap<u32, Seen> = HashMap::new();
        let told = std::cell::RefCell::new(Vec::new());
        let (uniques, prng) = (&mut self.uniques, &mut self.prng);
        self.link.exchange(
            |reply, last| {
                let micros = began.elapsed().as_micros() as u32;
                match (&current, reply) {
                    (Some(Asked::Read { keys }), Reply::Value { key, flags, cas, data }) => {
                        let known = keys.iter().copied().find(|&k| parts::name(k) == key);
                        let seen = known.map_or(NOT_ASKED, |key| parts::read(data, key, run, flags));
                        let key = known.unwrap_or(keys[0]);
                        found.insert(key, seen);
                        let swaps = uniques.len() < SWAPS && !parts::is_counter(key) && prng.chance(0.5);
                        if let Some(unique) = cas.filter(|_| swaps) {
                            uniques.insert(key, unique);
                        }
                    }
                    (Some(Asked::Read { keys }), reply) => {
                        if reply != Reply::End {
                            found.insert(keys[0], NOT_ASKED);
                        }
                        told.borrow_mut().extend(keys.iter().map(|key| Record::Read {
                            key: *key,
                            seen: found.remove(key).unwrap_or(Seen::Absent),
                            micros,
                        }));
                    }
                    (Some(Asked::Write { key }), reply) => {
                        told.borrow_mut().push(Record::Answered {
                            key: *key,
                            answer: meaning(&reply),
                            micros,
                        });
                    }
                    (None, _) => {}
                }
                if last {
                    current = asked.next();
                }
            },
            || {
                // A parent that is gone is noticed at the next attempts.
                let _ = pipe.tell(&std::mem::take(&mut *told.borrow_mut()));
            },
        )
    }
}

fn meaning(reply: &Reply<'_>) -> Answer {
    match reply {
        Reply::Stored | Reply::Deleted => Answer::Done,
        Reply::NotStored => Answer::NotStored,
        Reply::NotFound => Answer::NotFound,
        Reply::Exists => Answer::Exists,
        Reply::Number(n) => Answer::Number(*n),
        Reply::ServerError(b"object too large for cache") => Answer::TooLarge,
        Reply::ServerError(text) if text.starts_with(b"out of memory") => Answer::NoMemory,
        _ => Answer::Odd,
    }
}
