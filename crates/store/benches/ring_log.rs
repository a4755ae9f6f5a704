//! Durable SETs with the log that is the rings in which they came, against the log on a medium of its own: both sides of one run.
//!
//! ```text
//! cargo bench -p millrace-store --bench ring_log -- [--dir DIR] [--memory-dir DIR] [--clients N] [--rounds N] [--slice MS] [--only TEXT] [--quick]
//! ```
//! Of each side a client writes its request into a ring (log of its own: in memory; ring log: on the medium), the server copies it out, executes it on a
//! store and logs what it did; a group of requests later all is made durable. Where a sync can be begun without waiting nobody goes on meanwhile. What both
//! sides do is the same but for the log: neither parses, neither answers. Snapshots are walked to their end outside of the time that is measured.
//!
//! `--dir` (default: the current directory) says which disk is measured, `--memory-dir` (default: `/dev/shm`) where mapped files are. Sides take turns, a
//! slice each; ratios are of the same round.

use base::spread::{median, text};
use base::{Clock, Nanos, cpu};
use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use store::durable::rings::{Place, RingLog, STAMP, Writer};
use store::durable::{Before, Journal, Reader, Records, Shelf, What, recover};
use store::redo::media::{Class, Emulated, File, How, Mapped, Media, Memory, Traits};
use store::redo::{Log, Recovery};
use store::{Config, Mode, SetHow, Store};

const IDENTITY: u64 = 7;
const KEYS: u64 = 1000;
const VALUES: [usize; 3] = [64, 1024, 16 << 10];
const GROUPS: [usize; 3] = [1, 8, 64];
/// Bytes of each lane, and of the other side's log: as long as all lanes together.
const LANE: u64 = 8 << 20;

struct Options {
    dir: PathBuf,
    memory_dir: PathBuf,
    clients: usize,
    rounds: usize,
    slice: Nanos,
    only: String,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        dir: ".".into(),
        memory_dir: "/dev/shm".into(),
        clients: 4,
        rounds: 15,
        slice: Nanos::from_millis(20),
        only: String::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let wrong = |e: std::num::ParseIntError| format!("{arg}: {e}");
        match arg.as_str() {
            "--dir" => options.dir = value()?.into(),
            "--memory-dir" => options.memory_dir = value()?.into(),
            "--clients" => options.clients = value()?.parse::<usize>().map_err(wrong)?.clamp(1, 64),
            "--rounds" => options.rounds = value()?.parse::<usize>().map_err(wrong)?.max(1),
            "--slice" => options.slice = Nanos::from_millis(value()?.parse().map_err(wrong)?),
            "--only" => options.only = value()?,
            "--quick" => (options.rounds, options.slice) = (3, Nanos::from_millis(5)),
            "--bench" => {}
            _ => {
                let known = "--dir --memory-dir --clients --rounds --slice --only --quick";
                return Err(format!("unknown option {arg}; known: {known}"));
            }
        }
    }
    Ok(options)
}

/// Parts of one medium that are persisted together: whoever is first to wait does it for all that began before.
struct Whole {
    medium: Box<dyn Media>,
    begun: Vec<Range<u64>>,
    tickets: u64,
    done: u64,
}

struct Part {
    whole: Rc<RefCell<Whole>>,
    at: u64,
    len: u64,
    ticket: u64,
}

fn split(medium: Box<dyn Media>, parts: usize) -> Vec<Part> {
    let len = medium.len() / parts as u64 / 4096 * 4096;
    let whole = Rc::new(RefCell::new(Whole { medium, begun: Vec::new(), tickets: 0, done: 0 }));
    (0..parts as u64).map(|part| Part { whole: Rc::clone(&whole), at: part * len, len, ticket: 0 }).collect()
}

impl Media for Part {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.whole.borrow().medium.read_at(self.at + offset, out)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.whole.borrow_mut().medium.write_at(self.at + offset, bytes)
    }

    fn start(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        let mut whole = self.whole.borrow_mut();
        whole.begun.extend(ranges.iter().map(|range| self.at + range.start..self.at + range.end));
        whole.tickets += 1;
        self.ticket = whole.tickets;
        Ok(())
    }

    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        if self.ticket == 0 {
            self.start(ranges)?;
        }
        let ticket = std::mem::take(&mut self.ticket);
        let mut whole = self.whole.borrow_mut();
        if whole.done < ticket {
            let begun = std::mem::take(&mut whole.begun);
            whole.medium.persist(&begun)?;
            whole.done = whole.tickets;
        }
        Ok(())
    }

    fn class(&self) -> Class {
        self.whole.borrow().medium.class()
    }
}

/// Snapshots go nowhere.
struct Nowhere;

impl Shelf for Nowhere {
    fn begin(&mut self) {}

    fn write(&mut self, _: Vec<u8>) {}

    fn is_ready(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn publish(&mut self) {}

    fn is_published(&mut self) -> io::Result<bool> {
        Ok(true)
    }
}

/// A client: its end of a ring, and where its key and value are in a request.
struct Client {
    writer: Writer,
    request: Vec<u8>,
    key: Range<usize>,
    value: Range<usize>,
}

impl Client {
    fn new(lane: u64, begin: u64, value: usize) -> Client {
        let request =
            [format!("set key{:05} 0 0 {value}\r\n", 0).as_bytes(), &vec![b'v'; value], b"\r\n"].concat();
        let end = request.len() - 2;
        Client { writer: Writer::new(lane, begin), request, key: 4..12, value: end - value..end }
    }

    /// Its next request, in the ring on `medium`. None: there is no room.
    fn send(&mut self, number: u64, medium: &mut impl Media) -> Option<u64> {
        for (at, digit) in format!("{number:05}").bytes().enumerate() {
            self.request[self.key.start + 3 + at] = digit;
        }
        let position = self.writer.place(self.request.len())?;
        let at = self.writer.offset(position) + STAMP as u64;
        medium.write_at(at, &self.request).expect("the medium works");
        Some(position)
    }
}

/// A side of the comparison.
trait Side: Records + Sized {
    /// A client's request was written by `client`; it is copied out into `private`. Its position, or none without room.
    fn receive(
        journal: &mut Journal<Self, Nowhere>,
        memory: &mut Memory,
        client: (usize, &mut Client),
        number: u64,
        private: &mut [u8],
    ) -> Option<u64>;

    /// What it did is logged.
    fn log(
        journal: &mut Journal<Self, Nowhere>,
        store: &Store,
        key: store::Key<'_>,
        before: Before,
        place: Place,
    ) -> u64;

    /// The client hears what is free.
    fn hear(journal: &Journal<Self, Nowhere>, client: (usize, &mut Client), position: u64);
}

impl<M: Media> Side for Log<M> {
    fn receive(
        _: &mut Journal<Self, Nowhere>,
        memory: &mut Memory,
        (_, client): (usize, &mut Client),
        number: u64,
        private: &mut [u8],
    ) -> Option<u64> {
        let position = client.send(number, memory)?;
        let at = client.writer.offset(position) + STAMP as u64;
        memory.read_at(at, private).expect("memory works");
        Some(position)
    }

    fn log(
        journal: &mut Journal<Self, Nowhere>,
        store: &Store,
        key: store::Key<'_>,
        before: Before,
        _: Place,
    ) -> u64 {
        journal.after(store, 1, key, before, What::All)
    }

    fn hear(_: &Journal<Self, Nowhere>, (_, client): (usize, &mut Client), position: u64) {
        // What was copied out is free, as in shared memory today.
        client.writer.heard(position);
    }
}

impl<M: Media> Side for RingLog<M> {
    fn receive(
        journal: &mut Journal<Self, Nowhere>,
        _: &mut Memory,
        (lane, client): (usize, &mut Client),
        number: u64,
        private: &mut [u8],
    ) -> Option<u64> {
        let medium = journal.rings_mut().medium_mut(lane);
        let position = client.send(number, medium)?;
        let at = client.writer.offset(position) + STAMP as u64;
        medium.read_at(at, private).expect("the medium works");
        Some(position)
    }

    fn log(
        journal: &mut Journal<Self, Nowhere>,
        store: &Store,
        key: store::Key<'_>,
        before: Before,
        place: Place,
    ) -> u64 {
        journal.after_at((store, 1), key, (before, What::All), place)
    }

    fn hear(journal: &Journal<Self, Nowhere>, (lane, client): (usize, &mut Client), _: u64) {
        client.writer.heard(journal.rings().freed(lane));
    }
}

struct Rig<L> {
    store: Store,
    journal: Journal<L, Nowhere>,
    clients: Vec<Client>,
    /// The rings of the side whose log is elsewhere.
    memory: Vec<Memory>,
    private: Vec<u8>,
    sent: u64,
}

impl<L: Side> Rig<L> {
    fn new(log: L, clients: Vec<Client>) -> Rig<L> {
        let mut store = Store::new(Config::new(Mode::Store, 256 << 20)).expect("a store");
        let nothing = None::<Reader<&[u8]>>;
        let (journal, _) = recover(&mut store, (log, &Recovery::default()), IDENTITY, nothing, Nowhere)
            .unwrap_or_else(|e| panic!("an empty log: {e}"));
        let private = vec![0; clients[0].request.len()];
        let memory = clients.iter().map(|_| Memory::new(LANE as usize)).collect();
        Rig { store, journal, clients, memory, private, sent: 0 }
    }

    /// Room for `group` requests everywhere: a snapshot, if that is needed.
    fn make_room(&mut self, group: usize) {
        let request = 2 * (STAMP + self.private.len()) as u64;
        let lane = request * (group.div_ceil(self.clients.len()) as u64 + 2);
        let counters = self.journal.counters();
        if counters.log_capacity - counters.log_used < lane + request * group as u64 {
            self.journal.begin_snapshot(&self.store);
            while self.journal.is_walking() {
                let walked = self.journal.walk(&self.store, 1, 100, u64::MAX >> 8);
                assert!(walked.is_ok(), "snapshots go nowhere");
            }
            // A log of its own frees its room with its next two superblocks.
            (0..2).for_each(|_| self.journal.sync().expect("the medium works"));
        }
    }

    fn group(&mut self, group: usize) {
        for _ in 0..group {
            let at = (self.sent % self.clients.len() as u64) as usize;
            let client = &mut self.clients[at];
            let number = base::prng::mix64(self.sent) % KEYS;
            self.sent += 1;
            let from = (at + 1, &mut *client);
            let position =
                L::receive(&mut self.journal, &mut self.memory[at], from, number, &mut self.private);
            let position = position.expect("room was made");
            let hasher = *self.store.hasher();
            let key = store::Key::new(&self.private[client.key.clone()], &hasher).expect("a key");
            let before = Before::of(&self.store, 1, key);
            let value = &self.private[client.value.clone()];
            self.store.set(1, key, value, &SetHow::default()).expect("memory for all");
            let (key_at, value_at) = (client.key.start as u32, client.value.start as u32);
            let place = Place { lane: at + 1, position, key_at, value_at };
            let needs = L::log(&mut self.journal, &self.store, key, before, place);
            assert!(needs < u64::MAX, "there was room for it");
            L::hear(&self.journal, (at + 1, client), position);
        }
        self.journal.begin_sync();
        while self.journal.is_under_way() {
            self.journal.end_sync();
        }
    }

    /// Nanoseconds for a SET until it is durable; at least one group.
    fn slice(&mut self, group: usize, span: Nanos, clock: Clock) -> f64 {
        let (mut spent, mut sets) = (Nanos::ZERO, 0);
        while sets == 0 || spent < span {
            self.make_room(group);
            let from = clock.now();
            self.group(group);
            spent = spent.plus(clock.now().since(from));
            sets += group;
        }
        spent.0 as f64 / sets as f64
    }
}

/// A file that goes when this does.
struct Trail(PathBuf);

impl Trail {
    fn new(dir: &Path, name: &str) -> Trail {
        Trail(dir.join(format!(".millrace-ring-log-{name}-{}", std::process::id())))
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = std::fs::remove_file(&self.0);
    }
}

type AnyMedia = Box<dyn Media>;

/// A medium by name: for a log of its own, or for rings.
fn medium(name: &str, len: u64, is_rings: bool, options: &Options) -> io::Result<(AnyMedia, Option<Trail>)> {
    fn boxed<M: Media + 'static>(medium: M) -> AnyMedia {
        Box::new(medium)
    }
    let kind = if is_rings { "rings" } else { "log" };
    let optane = |latency| Traits { latency: Nanos(latency), ..Traits::OPTANE };
    Ok(match name {
        "memory" => (boxed(Memory::new(len as usize)), None),
        "emulated, 90 ns" => (boxed(Emulated::new(Memory::new(len as usize), optane(90))), None),
        "emulated, 1000 ns" => (boxed(Emulated::new(Memory::new(len as usize), optane(1000))), None),
        "mapped, lines" => {
            let trail = Trail::new(&options.memory_dir, kind);
            (boxed(Mapped::create(&trail.0, len)?), Some(trail))
        }
        // Who has rings in a file has them mapped; a log of its own writes, or is mapped, too, to see what comes of that.
        _ => {
            let trail = Trail::new(&options.dir, kind);
            let medium = match is_rings || name == "file, both mapped" {
                true => boxed(Mapped::create(&trail.0, len)?.by_sync()),
                false => boxed(File::create(&trail.0, len, How::Fdatasync)?),
            };
            (medium, Some(trail))
        }
    })
}

const MEDIA: [&str; 6] = [
    "memory",
    "mapped, lines",
    "emulated, 90 ns",
    "emulated, 1000 ns",
    "file, fdatasync",
    "file, both mapped",
];

fn compare(name: &str, value: usize, options: &Options) -> io::Result<()> {
    let lanes = options.clients + 1;
    let len = LANE * lanes as u64;
    let (own, _own) = medium(name, len, false, options)?;
    let (rings, _rings) = medium(name, len, true, options)?;
    let own = Log::create(own, IDENTITY).map_err(|e| io::Error::other(e.to_string()))?;
    let rings = RingLog::create(split(rings, lanes), IDENTITY)?;
    let clients = || (0..options.clients).map(|_| Client::new(LANE, 0, value)).collect();
    let (mut own, mut rings) = (Rig::new(own, clients()), Rig::new(rings, clients()));
    let clock = Clock::shared();
    for group in GROUPS {
        // Every page is there, and the store has all keys.
        own.slice(group, options.slice, clock);
        rings.slice(group, options.slice, clock);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for round in 0..options.rounds {
            if round % 2 == 0 {
                a.push(own.slice(group, options.slice, clock));
                b.push(rings.slice(group, options.slice, clock));
            } else {
                b.push(rings.slice(group, options.slice, clock));
                a.push(own.slice(group, options.slice, clock));
            }
        }
        let ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b / a).collect();
        println!(
            "| {name} | {value} | {group} | {:.0} | {:.0} | {} |",
            median(a.iter().copied()),
            median(b.iter().copied()),
            text(ratios, 2)
        );
    }
    Ok(())
}

fn main() {
    let options = options().unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(2);
    });
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{}; {} clients; load before {}", cpu::model_name(), options.clients, load().trim());
    println!("\nns for a SET until it is durable, median; ratio by round, median [10th..90th percentile]\n");
    println!(
        "| medium | value, bytes | to a sync | log of its own | ring log | ring / own |\n|---|---|---|---|---|---|"
    );
    for name in MEDIA.into_iter().filter(|name| name.contains(&options.only)) {
        for value in VALUES {
            if let Err(e) = compare(name, value, &options) {
                println!("| {name} | {value} | skipped: {e} | | | |");
            }
        }
    }
    println!("\nload after {}", load().trim());
}
