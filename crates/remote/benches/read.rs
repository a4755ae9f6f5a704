//! READs of 64 bytes of another process's memory, against an RPC that brings as many: over shared memory, where the reader does it, and over UDP and TCP,
//! where the owner's edge does.
//!
//! The owner is a process of its own (this program again). Rounds of all ways are interleaved; a row is the median of its rounds, with the 10th and 90th
//! percentile. The last column is what the owner's threads had of a processor per operation, as the system counts it: 0 where none of it has a part.
//!
//! `cargo bench -p millrace-remote --bench read [-- --quick]`

use base::spread::Spread;
use base::{Clock, Nanos};
use fabric::channel::{CallOptions, Channel, Options as ChannelOptions, What};
use fabric::link::Address;
use fabric::server::{Options, Server};
use fabric::service::{Incoming, MethodDescriptor, Service, ServiceDescriptor};
use fabric::status::Status;
use remote::{Access, Local, Outcome, Queue, Region, Regions, Verb, Work, calls, shm};
use ring::wait::WaitPolicy;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const OWNER: &str = "MILLRACE_BENCH_OWNER";
const BYTES: usize = 64;
/// Regions: one is in the caches, READs of the other miss them and the TLB, as those of a table do.
const REGIONS: [(&str, usize); 2] = [("small", 256 << 10), ("table", 64 << 20)];

static BRING: ServiceDescriptor = ServiceDescriptor {
    name: "bench.Bring",
    methods: &[MethodDescriptor::new("Bytes", false, false)],
    hash: 3,
    descriptors: b"\x0a\x03\x0a\x01a",
};

/// An RPC that brings bytes of the region: what one would write without one-sided access.
struct Bring(Arc<Regions>);

impl Service for Bring {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &BRING
    }

    fn unary(&self, _: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let offset = u64::from_le_bytes(call.body()[..8].try_into().expect("an offset"));
        let (mut bytes, lent) = ([0; BYTES], self.0.find("table").expect("lent"));
        lent.region.read(offset, &mut bytes).expect("inside");
        call.reply_bytes(&bytes);
        Ok(())
    }
}

/// The owner's side.
fn own(folder: &str) -> Result<(), Box<dyn Error>> {
    let regions = Arc::<Regions>::default();
    for (name, len) in REGIONS {
        let region = Region::create(len, true)?;
        (0..len as u64 / 4096).for_each(|at| region.write(at * 4096, &[1; 4096]).expect("inside"));
        regions.lend(name, region, Access::ALL)?;
    }
    let _near =
        shm::Listener::start(&std::path::Path::new(folder).join("regions"), 0o600, Arc::clone(&regions))?;
    let mut server = Server::new(Options::default())
        .service(calls::service(Arc::clone(&regions), None))
        .service(Bring(regions));
    for address in ["udp:127.0.0.1:0", "tcp:127.0.0.1:0"] {
        server = server.listen(&address.parse()?)?;
    }
    let addresses: Vec<String> = server.addresses().map(Address::to_string).collect();
    println!("serves {}", addresses.join(" "));
    server.run(WaitPolicy::BLOCK, &AtomicBool::new(false));
    Ok(())
}

/// One way to bring bytes.
trait Way {
    /// So many operations, with a window of them under way.
    fn run(&mut self, operations: u64, window: u64, offsets: &mut dyn FnMut() -> u64);
}

struct Reads(Box<dyn Queue>, remote::Key);

impl Way for Reads {
    fn run(&mut self, operations: u64, window: u64, offsets: &mut dyn FnMut() -> u64) {
        let Reads(queue, key) = self;
        let (mut begun, mut ended, mut done) = (0, 0, Vec::new());
        while ended < operations {
            while begun < operations && begun - ended < window {
                let remote = remote::Address { key: *key, offset: offsets() };
                let local = Local { at: ((begun % window) * BYTES as u64) as u32, len: BYTES as u32 };
                let work = Work { id: begun, verb: Verb::Read, local, remote, is_signaled: true };
                queue.post(work).expect("room");
                begun += 1;
            }
            queue.ring();
            if queue.poll(&mut done) == 0 {
                queue.wait(Duration::from_secs(5));
            }
            for completion in done.drain(..) {
                assert_eq!(completion.outcome, Outcome::Done);
                let mut bytes = [0; BYTES];
                queue.take(((completion.id % window) * BYTES as u64) as u32, &mut bytes);
                assert_eq!(std::hint::black_box(bytes)[9], 1);
                ended += 1;
            }
        }
    }
}

struct Calls(Channel);

impl Way for Calls {
    fn run(&mut self, operations: u64, window: u64, offsets: &mut dyn FnMut() -> u64) {
        let method = self.0.method("bench.Bring/Bytes").expect("it serves it");
        let (mut begun, mut ended) = (0, 0);
        while ended < operations {
            while begun < operations && begun - ended < window {
                let options = CallOptions::default();
                self.0.start(method, &options, 0, &offsets().to_le_bytes()).expect("room");
                begun += 1;
            }
            self.0.flush();
            let taken = self.0.poll(64, |event| match event.what {
                What::Reply(bytes) => assert_eq!(bytes[9], 1),
                other => panic!("{other:?}"),
            });
            ended += taken as u64;
            if taken == 0 {
                let _ = self.0.wait(WaitPolicy::default(), Some(Duration::from_secs(5)));
            }
        }
    }
}

/// What rows call it, and how.
type Named = (&'static str, Box<dyn Way>);

/// What all threads of a process had of processors.
fn busy(process: &Child) -> Option<Nanos> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.id())).ok()?;
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    Some(Nanos(tasks.flatten().filter_map(of).sum()))
}

fn connect(folder: &std::path::Path, addresses: &[Address]) -> Result<Vec<Named>, Box<dyn Error>> {
    let reads = |mut queue: Box<dyn Queue>, name: &str| -> Result<Box<dyn Way>, Box<dyn Error>> {
        let key = queue.open(name, Access::READ)?.key;
        Ok(Box::new(Reads(queue, key)))
    };
    let near = || shm::Queue::connect(&folder.join("regions"), 64, 64 * BYTES);
    let channel = |at: usize| Channel::connect(&addresses[at], &ChannelOptions::default());
    let local = 64 * BYTES;
    Ok(vec![
        ("READ, shared memory, 256 KiB", reads(Box::new(near()?), "small")?),
        ("READ, shared memory, 64 MiB", reads(Box::new(near()?), "table")?),
        ("READ, UDP", reads(Box::new(calls::Queue::over(channel(0)?, 64, local)?), "table")?),
        ("RPC, UDP", Box::new(Calls(channel(0)?))),
        ("READ, TCP", reads(Box::new(calls::Queue::over(channel(1)?, 64, local)?), "table")?),
        ("RPC, TCP", Box::new(Calls(channel(1)?))),
    ])
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Ok(folder) = std::env::var(OWNER) {
        return own(&folder);
    }
    let rounds = if std::env::args().any(|argument| argument == "--quick") { 5 } else { 40 };
    let folder = tempfile::tempdir()?;
    let mut child =
        Command::new(std::env::current_exe()?).env(OWNER, folder.path()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line)?;
    let addresses = line.trim().strip_prefix("serves ").ok_or("the owner does not serve")?;
    let addresses = addresses.split(' ').map(str::parse).collect::<Result<Vec<Address>, _>>()?;
    let mut ways = connect(folder.path(), &addresses)?;
    println!(
        "{:<29} {:>7} {:>12} {:>19} {:>12} {:>12}",
        "", "window", "ns each", "10 % … 90 %", "M/s", "owner, ns"
    );
    let (clock, mut prng) = (Clock::shared(), base::Prng::new(1));
    for window in [1, 16] {
        let mut samples = vec![(Vec::new(), Vec::new()); ways.len()];
        for _ in 0..rounds {
            for ((name, way), (times, owners)) in ways.iter_mut().zip(&mut samples) {
                let len = REGIONS[usize::from(!name.contains("256 KiB"))].1 as u64;
                let mut offsets = || prng.below(len / 64) * 64;
                let operations = if name.contains("shared") { 100_000 } else { 1_000 * window.min(8) };
                let (before, began) = (busy(&child), clock.now());
                way.run(operations, window, &mut offsets);
                times.push(clock.now().since(began).0 as f64 / operations as f64);
                let owner =
                    busy(&child).zip(before).map_or(f64::NAN, |(after, before)| after.since(before).0 as f64);
                owners.push(owner / operations as f64);
            }
        }
        for ((name, _), (times, owners)) in ways.iter().zip(&samples) {
            let [each, owner] = [times, owners].map(|all| Spread::of_all(all).expect("rounds"));
            let range = format!("{:.0} … {:.0}", each.p10, each.p90);
            println!(
                "{name:<29} {window:>7} {:>12.0} {range:>19} {:>12.3} {:>12.0}",
                each.median,
                1e3 / each.median,
                owner.median
            );
        }
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}
