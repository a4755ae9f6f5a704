//! An owner with its regions, by every way to them.

use fabric::channel::{Channel, Options as ChannelOptions};
use fabric::link::Address;
use fabric::server::{Options, Server};
use remote::verbs::Card;
use remote::{
    Access, Completion, Key, Local, Outcome, Queue, Region, Regions, Verb, Work, calls, shm, verbs,
};
use ring::wait::WaitPolicy;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take that is not to be waited for without end.
pub const HANG: Duration = Duration::from_secs(60);

/// A way to an owner's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Shm,
    CallsShm,
    CallsUdp,
    CallsUnix,
    CallsTcp,
    /// By the first card that there is.
    Verbs,
}

impl Kind {
    const WITHOUT_CARD: [Kind; 5] =
        [Kind::Shm, Kind::CallsShm, Kind::CallsUdp, Kind::CallsUnix, Kind::CallsTcp];

    /// All that there are here; with `MILLRACE_ONLY_VERBS` that one alone, which then has to be there.
    pub fn all() -> Vec<Kind> {
        if std::env::var_os("MILLRACE_ONLY_VERBS").is_some() {
            return vec![Kind::Verbs];
        }
        let mut all = Kind::WITHOUT_CARD.to_vec();
        match Card::open(None) {
            Ok(_) => all.push(Kind::Verbs),
            Err(why) => eprintln!("skipped: verbs: {why}"),
        }
        all
    }

    /// Of what a test does often, how often: soft-RoCE in a machine that is interpreted takes a millisecond for a READ.
    pub fn times(self, usual: u32) -> u32 {
        if self == Kind::Verbs { (usual / 10).max(2) } else { usual }
    }

    /// Where an owner would be, with its files in this folder.
    fn address(self, folder: &std::path::Path) -> Option<Address> {
        let text = match self {
            Kind::Shm => return None,
            Kind::CallsShm => format!("shm:{}", folder.join("calls").display()),
            Kind::CallsUnix => format!("unix:{}", folder.join("calls").display()),
            Kind::CallsUdp => "udp:127.0.0.1:0".to_owned(),
            Kind::CallsTcp | Kind::Verbs => "tcp:127.0.0.1:0".to_owned(),
        };
        Some(text.parse().expect("an address"))
    }
}

/// Who serves regions: a thread, until it is dropped.
pub struct Owner {
    pub regions: Arc<Regions>,
    at: At,
    serving: Option<Serving>,
    _folder: TempDir,
}

/// Where peers go.
#[derive(Clone)]
pub enum At {
    Path(PathBuf),
    Address(Address),
    Card(Address),
}

fn card() -> Arc<Card> {
    Card::open(None).unwrap_or_else(|why| panic!("{why}"))
}

enum Serving {
    /// Until it is dropped.
    Listener(#[expect(dead_code, reason = "what counts is that it is there")] shm::Listener),
    Server(Arc<AtomicBool>, JoinHandle<()>),
}

impl Owner {
    pub fn start(kind: Kind) -> Owner {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let regions = Arc::<Regions>::default();
        let shared = Arc::clone(&regions);
        let (at, serving) = match kind.address(folder.path()) {
            None => {
                let path = folder.path().join("regions");
                let listener = shm::Listener::start(&path, 0o600, shared).expect("a free path");
                (At::Path(path), Serving::Listener(listener))
            }
            Some(address) => {
                let card = (kind == Kind::Verbs).then(card);
                let server = Server::new(Options::default()).service(calls::service(shared, card));
                let mut server = server.listen(&address).expect("a free address");
                let address = server.addresses().next().expect("one").clone();
                let stop = Arc::<AtomicBool>::default();
                let over = Arc::clone(&stop);
                let thread = std::thread::spawn(move || server.run(WaitPolicy::BLOCK, &over));
                let at = if kind == Kind::Verbs { At::Card(address) } else { At::Address(address) };
                (at, Serving::Server(stop, thread))
            }
        };
        Owner { regions, at, serving: Some(serving), _folder: folder }
    }

    pub fn at(&self) -> At {
        self.at.clone()
    }

    /// Lends zeros for all.
    pub fn lend(&self, name: &str, len: usize) -> Key {
        self.lend_for(name, len, Access::ALL)
    }

    pub fn lend_for(&self, name: &str, len: usize, access: Access) -> Key {
        let region = Region::create(len, access.changes()).expect("memory");
        self.regions.lend(name, region, access).expect("a new name")
    }

    pub fn queue(&self, depth: usize, local: usize) -> Box<dyn Queue> {
        self.at.queue(depth, local)
    }

    /// It goes, and says nothing.
    pub fn end(&mut self) {
        match self.serving.take() {
            Some(Serving::Server(stop, thread)) => {
                stop.store(true, Ordering::Relaxed);
                thread.join().expect("it served");
            }
            listener => drop(listener),
        }
    }
}

impl At {
    pub fn queue(&self, depth: usize, local: usize) -> Box<dyn Queue> {
        match self {
            At::Path(path) => Box::new(shm::Queue::connect(path, depth, local).expect("an owner")),
            At::Address(address) => {
                let channel = Channel::connect(address, &ChannelOptions::default()).expect("an owner");
                Box::new(calls::Queue::over(channel, depth, local).expect("it lends"))
            }
            At::Card(address) => {
                let channel = Channel::connect(address, &ChannelOptions::default()).expect("an owner");
                Box::new(verbs::Queue::over(channel, &card(), depth, local).expect("it lends, by a card"))
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.end();
    }
}

/// A work that is told.
pub fn work(id: u64, verb: Verb, (at, len): (u32, u32), (key, offset): (Key, u64)) -> Work {
    let remote = remote::Address { key, offset };
    Work { id, verb, local: Local { at, len }, remote, is_signaled: true }
}

/// So many completions, in their order.
pub fn completions(queue: &mut dyn Queue, count: usize) -> Vec<Completion> {
    let (mut done, began) = (Vec::new(), Instant::now());
    while done.len() < count {
        if queue.poll(&mut done) == 0 {
            queue.wait(Duration::from_millis(10));
        }
        assert!(began.elapsed() < HANG, "{} of {count} completions came", done.len());
    }
    assert_eq!(done.len(), count);
    done
}

/// Posts works, rings once, and hears of all.
pub fn run(queue: &mut dyn Queue, works: &[Work]) -> Vec<(u64, Outcome)> {
    works.iter().for_each(|work| queue.post(*work).expect("posted"));
    queue.ring();
    completions(queue, works.len()).into_iter().map(|done| (done.id, done.outcome)).collect()
}

/// Bytes of local memory.
pub fn taken(queue: &dyn Queue, at: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    queue.take(at, &mut bytes);
    bytes
}
