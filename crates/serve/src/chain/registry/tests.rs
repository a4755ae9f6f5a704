//! What every registry must do, and what etcd's does when there are two of them, on a real server.
//!
//! Without the program `etcd` those tests are skipped, and say so; `MILLRACE_REQUIRE_PEERS=1` makes that a failure. Spans of time are what is
//! waited for, never what is asserted.

use super::etcd::{Etcd, EtcdRegistry, Login};
use super::file::FileRegistry;
use super::memory::MemoryRegistry;
use super::worker::{Event, Worker};
use super::*;
use base::Clock;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use protocol::chain::{Incarnation, Member, Part, ReplicaId};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tempfile::TempDir;

mod members;

/// No step takes as long unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

fn configuration(epoch: u64, who: u64) -> Configuration {
    let member = |replica| Member {
        replica: ReplicaId(replica),
        incarnation: Incarnation(who),
        part: if replica == 3 { Part::Syncing } else { Part::Serving },
    };
    Configuration { epoch: Epoch(epoch), members: (1..=3).map(member).collect(), ..Configuration::default() }
}

/// A directory that is gone in the end.
struct Directory(TempDir);

impl Directory {
    fn new() -> Directory {
        Directory(TempDir::with_prefix("millrace-").expect("a folder"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("chain")
    }
}

/// Tries until there is an answer.
fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = attempt() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn lead(registry: &mut dyn Registry) -> Nanos {
    wait_for("leadership", || registry.campaign().expect("the registry answers"))
}

/// What all of them do.
fn conforms(mut registry: Box<dyn Registry>) {
    lead(&mut *registry);
    assert_eq!(registry.load().expect("it loads"), None);
    let other = Some(configuration(1, 1));
    for (expected, next, outcome) in [
        (1, configuration(2, 1), Swapped::Other(None)),
        (0, configuration(1, 1), Swapped::Done),
        (0, configuration(1, 1), Swapped::Done),
        (0, configuration(1, 2), Swapped::Other(other.clone())),
        (2, configuration(3, 1), Swapped::Other(other)),
        (1, configuration(2, 1), Swapped::Done),
        (2, configuration(9, 1), Swapped::Done),
    ] {
        assert_eq!(registry.swap(Epoch(expected), &next).expect("it answers"), outcome, "{expected}");
        assert!(registry.renew().expect("it answers").is_some());
    }
    assert_eq!(registry.load().expect("it loads"), Some(configuration(9, 1)));
    registry.resign();
}

#[test]
fn memory_conforms() {
    conforms(Box::<MemoryRegistry>::default());
}

#[test]
fn a_file_conforms_and_is_there_afterwards() {
    let directory = Directory::new();
    conforms(Box::new(FileRegistry::open(7, &[directory.0.path().join("made/chain")]).expect("it opens")));
    let mut again = FileRegistry::open(7, &[directory.0.path().join("made/chain")]).expect("it opens");
    assert_eq!(again.load().expect("it loads"), Some(configuration(9, 1)));
}

#[test]
fn a_file_is_for_one_controller() {
    let directory = Directory::new();
    let first = FileRegistry::open(7, &[directory.file()]).expect("it opens");
    let second = FileRegistry::open(7, &[directory.file()]).expect_err("it is locked");
    assert!(second.to_string().contains("in use by a controller"), "{second}");
    drop(first);
    FileRegistry::open(7, &[directory.file()]).expect("it is free again");
}

#[test]
fn a_crash_at_any_step_leaves_the_old_or_the_new_file() {
    let directory = Directory::new();
    let path = directory.file();
    let mut registry = FileRegistry::open(7, std::slice::from_ref(&path)).expect("it opens");
    registry.swap(Epoch(0), &configuration(1, 1)).expect("it writes");
    let new = text::emit(7, &configuration(2, 1));
    // While the new file is written, and when it was, before it was renamed.
    for written in 0..=new.len() {
        fs::write(directory.0.path().join("chain.new"), &new[..written]).expect("it writes");
        assert_eq!(registry.load().expect("it loads"), Some(configuration(1, 1)));
    }
    assert_eq!(registry.swap(Epoch(1), &configuration(2, 2)).expect("it writes"), Swapped::Done);
    // When it was renamed, and the controller did not hear of it.
    fs::write(directory.0.path().join("chain.new"), text::emit(7, &configuration(3, 1))).expect("it writes");
    fs::rename(directory.0.path().join("chain.new"), &path).expect("it renames");
    drop(registry);
    let mut registry = FileRegistry::open(7, std::slice::from_ref(&path)).expect("it opens");
    assert_eq!(registry.load().expect("it loads"), Some(configuration(3, 1)));
}

#[test]
fn a_file_that_cannot_be_written_says_so_and_stays() {
    let directory = Directory::new();
    let mut registry = FileRegistry::open(7, &[directory.file()]).expect("it opens");
    registry.swap(Epoch(0), &configuration(1, 1)).expect("it writes");
    fs::create_dir(directory.0.path().join("chain.new")).expect("in the way");
    assert_eq!(registry.swap(Epoch(1), &configuration(2, 1)).expect("most are written"), Swapped::Done);
    fs::create_dir(directory.0.path().join("chain.2.new")).expect("in the way");
    let error = registry.swap(Epoch(2), &configuration(3, 1)).expect_err("most are not");
    assert!(error.to_string().contains("cannot write"), "{error}");
    // It may have been done: one copy has it.
    fs::remove_dir(directory.0.path().join("chain.new")).expect("out of the way");
    assert_eq!(registry.swap(Epoch(2), &configuration(3, 1)).expect("it writes"), Swapped::Done);
}

/// One file was the chain's only memory of who has everything.
#[test]
fn a_copy_that_is_lost_or_damaged_is_made_again_from_another() {
    let directory = Directory::new();
    let copy = |name: &str| directory.0.path().join(name);
    let mut registry = FileRegistry::open(7, &[directory.file()]).expect("it opens");
    registry.swap(Epoch(0), &configuration(1, 1)).expect("it writes");
    registry.swap(Epoch(1), &configuration(2, 1)).expect("it writes");
    drop(registry);
    let right = text::emit(7, &configuration(2, 1));
    let older = text::emit(7, &configuration(1, 1));
    fs::write(copy("chain"), right.replace("epoch", "epoxy")).expect("it is damaged");
    fs::write(copy("chain.2"), older).expect("it is an old one");
    let mut registry = FileRegistry::open(7, &[directory.file()]).expect("it opens");
    assert_eq!(registry.load().expect("one is whole"), Some(configuration(2, 1)));
    fs::remove_file(copy("chain.3")).expect("it is lost");
    assert_eq!(registry.load().expect("two are whole"), Some(configuration(2, 1)));
    for name in ["chain", "chain.2", "chain.3"] {
        assert_eq!(fs::read_to_string(copy(name)).expect("it is there"), right, "{name}");
    }
    assert!(fs::read_to_string(copy("chain.damaged")).expect("it is kept").contains("epoxy"));
    drop(registry);
    for name in ["chain", "chain.2", "chain.3"] {
        fs::write(copy(name), "x").expect("all are damaged");
    }
    let error =
        FileRegistry::open(7, &[directory.file()]).expect("it opens").load().expect_err("none is whole");
    assert!(error.to_string().contains("is no configuration of this chain"), "{error}");
}

/// What two copies had went back to what a third one, which was not written then, had: epochs were given twice.
#[test]
fn a_copy_that_cannot_be_read_may_be_the_newest() {
    let directory = Directory::new();
    let at = |name: &str| directory.0.path().join(name);
    let mut registry = FileRegistry::open(7, &[directory.file()]).expect("it opens");
    registry.swap(Epoch(0), &configuration(1, 1)).expect("it writes");
    fs::create_dir(at("chain.3.new")).expect("in the way");
    registry.swap(Epoch(1), &configuration(2, 1)).expect("most are written");
    fs::remove_dir(at("chain.3.new")).expect("out of the way");
    for name in ["chain", "chain.2"] {
        fs::rename(at(name), at("away").with_extension(name)).expect("it moves");
        fs::create_dir(at(name)).expect("nobody can read it");
    }
    let error = registry.load().expect_err("the third is not known to be the newest");
    assert!(error.to_string().contains("cannot read") && error.to_string().contains("remove it"), "{error}");
    registry.swap(Epoch(2), &configuration(3, 1)).expect_err("nor is it changed");
    let older = text::emit(7, &configuration(1, 1));
    assert_eq!(fs::read_to_string(at("chain.3")).expect("it is there"), older);
    fs::remove_dir(at("chain")).expect("it was empty");
    fs::rename(at("away.chain"), at("chain")).expect("it can be read again");
    assert_eq!(registry.load().expect("two can be read"), Some(configuration(2, 1)));
}

/// A configuration that was used, and that one copy had, was lost with it.
#[test]
fn what_one_copy_has_is_stored_before_it_counts() {
    let directory = Directory::new();
    let at = |name: &str| directory.0.path().join(name);
    let mut registry = FileRegistry::open(7, &[directory.file()]).expect("it opens");
    registry.swap(Epoch(0), &configuration(1, 1)).expect("it writes");
    for name in ["chain.new", "chain.2.new"] {
        fs::create_dir(at(name)).expect("in the way");
    }
    registry.swap(Epoch(1), &configuration(2, 1)).expect_err("most are not written");
    registry.load().expect_err("one copy has it");
    fs::remove_dir(at("chain.new")).expect("out of the way");
    assert_eq!(registry.load().expect("two have it"), Some(configuration(2, 1)));
    assert_eq!(fs::read(at("chain")).expect("it is there"), text::emit(7, &configuration(2, 1)).into_bytes());
}

#[test]
fn copies_are_where_they_are_said_to_be() {
    let directory = Directory::new();
    let paths = ["a/state", "b/state", "c/state"].map(|path| directory.0.path().join(path));
    let mut registry = FileRegistry::open(7, &paths).expect("it opens");
    registry.swap(Epoch(0), &configuration(1, 1)).expect("it writes");
    drop(registry);
    fs::remove_dir_all(directory.0.path().join("a")).expect("a disk is lost");
    fs::remove_dir_all(directory.0.path().join("c")).expect("and another one");
    let mut registry = FileRegistry::open(7, &paths).expect("it opens");
    assert_eq!(registry.load().expect("one is there"), Some(configuration(1, 1)));
    assert!(paths.iter().all(|path| path.exists()), "all are there again");
}

#[test]
fn no_damaged_or_foreign_text_is_believed() {
    let right = text::emit(7, &configuration(12, 34));
    assert_eq!(text::parse(7, &right), Ok(configuration(12, 34)));
    assert!(text::parse(8, &right).expect_err("another chain").contains("of chain 7"));
    let digits = right.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit());
    for (at, byte) in digits {
        let mut wrong = right.clone().into_bytes();
        wrong[at] = if byte == b'9' { b'8' } else { byte + 1 };
        assert!(text::parse(7, &String::from_utf8(wrong).expect("digits")).is_err(), "{at}");
    }
    for end in 0..right.len() - 1 {
        assert!(text::parse(7, &right[..end]).is_err(), "{end}");
    }
    let directory = Directory::new();
    fs::write(directory.file(), [0xff; 9]).expect("it writes");
    FileRegistry::open(7, &[directory.file()]).expect("it opens").load().expect_err("it is no text");
}

/// An etcd of our own, which ends with the test.
struct Server {
    child: Child,
    url: String,
    _directory: Directory,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Option<Server> {
        let directory = Directory::new();
        let [url, peer] = [free_url(), free_url()];
        let child = Command::new("etcd")
            .args(["--data-dir", &directory.0.path().join("data").display().to_string()])
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .args(["--heartbeat-interval", "20", "--election-timeout", "200"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            assert!(!is_required(), "MILLRACE_REQUIRE_PEERS is set, and there is no etcd");
            eprintln!("SKIPPED: etcd is not installed (Debian: etcd-server)");
            return None;
        };
        let server = Server { child, url, _directory: directory };
        let mut registry = server.registry(0, 0);
        wait_for("etcd", || registry.load().ok());
        Some(server)
    }

    fn registry(&self, chain: u32, number: u16) -> EtcdRegistry {
        let quick = Etcd { leadership: Duration::from_millis(1200), ..Etcd::at(vec![self.url.clone()]) };
        EtcdRegistry::new(quick, chain, number).expect("a URL")
    }
}

fn is_required() -> bool {
    std::env::var("MILLRACE_REQUIRE_PEERS").is_ok_and(|value| value == "1")
}

fn free_url() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", socket.local_addr().expect("an address"))
}

#[test]
fn etcd_conforms_and_leadership_moves() {
    let Some(server) = Server::start() else { return };
    conforms(Box::new(server.registry(1, 0)));

    let (mut first, mut second) = (server.registry(2, 0), server.registry(2, 1));
    lead(&mut first);
    assert_eq!(first.swap(Epoch(0), &configuration(1, 1)).expect("it answers"), Swapped::Done);
    assert_eq!(second.campaign().expect("it answers"), None);
    let refused = second.swap(Epoch(1), &configuration(2, 2)).expect("it answers");
    assert_eq!(refused, Swapped::Other(Some(configuration(1, 1))), "it does not lead");

    // The first is not heard of any more; it may act until then.
    let until = first.renew().expect("it answers").expect("it leads");
    lead(&mut second);
    assert!(Clock::shared().now() >= until, "two lead");
    let refused = first.swap(Epoch(1), &configuration(2, 1)).expect("it answers");
    assert_eq!(refused, Swapped::Other(Some(configuration(1, 1))), "it was deposed");
    assert_eq!(first.renew().expect("it answers"), None);
    assert_eq!(second.swap(Epoch(1), &configuration(2, 2)).expect("it answers"), Swapped::Done);

    // One that gives it up is not waited for, and one that comes finds what is there.
    second.resign();
    assert!(first.campaign().expect("it answers").is_some());
    assert_eq!(server.registry(2, 3).load().expect("it answers"), Some(configuration(2, 2)));
}

#[test]
fn another_endpoint_answers_and_none_is_said() {
    let none =
        EtcdRegistry::new(Etcd::at(vec![free_url()]), 1, 0).expect("a URL").load().expect_err("nobody");
    assert!(none.to_string().contains("etcd does not answer"), "{none}");
    for wrong in ["10.0.0.1:2379", "https://", "http://"] {
        let error = EtcdRegistry::new(Etcd::at(vec![wrong.into()]), 1, 0).err().expect("no endpoint");
        assert!(error.to_string().contains("http://HOST:PORT"), "{error}");
    }
    let Some(server) = Server::start() else { return };
    let both = Etcd::at(vec![free_url(), server.url.clone()]);
    let mut registry = EtcdRegistry::new(both, 1, 0).expect("URLs");
    assert_eq!(registry.load().expect("the second answers"), None);
}

/// A registry that can be cut off from its server; the last configuration may arrive there, and its answer not.
struct Cut {
    registry: EtcdRegistry,
    state: Arc<AtomicU64>,
}

const CUT: u64 = 1;
const CUT_ANSWERS: u64 = 2;

impl Cut {
    fn pass<T>(
        &mut self,
        call: impl FnOnce(&mut EtcdRegistry) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        match self.state.load(Ordering::Relaxed) {
            CUT | CUT_ANSWERS => Err(EtcdError::Unreachable(Vec::new()).into()),
            _ => call(&mut self.registry),
        }
    }
}

impl Registry for Cut {
    fn campaign(&mut self) -> Result<Option<Nanos>, RegistryError> {
        self.pass(|registry| registry.campaign())
    }

    fn renew(&mut self) -> Result<Option<Nanos>, RegistryError> {
        self.pass(|registry| registry.renew())
    }

    fn load(&mut self) -> Result<Option<Configuration>, RegistryError> {
        self.pass(|registry| registry.load())
    }

    fn swap(&mut self, expected: Epoch, next: &Configuration) -> Result<Swapped, RegistryError> {
        if self.state.load(Ordering::Relaxed) == CUT_ANSWERS {
            let _ = self.registry.swap(expected, next);
            // What it learned of the configuration was in the answer.
            self.registry.forget();
        }
        self.pass(|registry| registry.swap(expected, next))
    }

    fn resign(&mut self) {
        let _ = self.pass(|registry| {
            registry.resign();
            Ok(())
        });
    }

    fn pace(&self) -> Duration {
        self.registry.pace()
    }
}

/// What a controller makes of its registry's words: it proposes the next epoch whenever it leads.
struct Proposer {
    worker: Worker,
    who: u64,
    until: Nanos,
    stored: Option<Configuration>,
    proposed: Option<Configuration>,
}

impl Proposer {
    /// Takes events; what it proposed and was told to be durable goes into `done`.
    fn turn(&mut self, done: &Mutex<Vec<(u64, u64)>>) {
        while let Some(event) = self.worker.next_event() {
            match event {
                Event::Leads(until, stored) => {
                    assert_eq!(self.proposed, None, "first what became of a proposal");
                    (self.until, self.stored) = (until, stored);
                }
                Event::Extended(until) => self.until = until,
                Event::Lost => self.until = Nanos::ZERO,
                Event::Stored(Ok(())) => {
                    self.stored = self.proposed.take();
                    let epoch = self.stored.as_ref().expect("it was proposed").epoch.0;
                    done.lock().expect("not poisoned").push((epoch, self.who));
                }
                Event::Stored(Err(found)) => (self.proposed, self.stored) = (None, found),
                Event::Trouble(_) | Event::Well => {}
            }
        }
        if self.proposed.is_none() && Clock::shared().now() < self.until {
            let expected = self.stored.as_ref().map_or(Epoch(0), |stored| stored.epoch);
            let next = configuration(expected.0 + 1, self.who);
            self.proposed = Some(next.clone());
            self.worker.propose(expected, next);
        }
    }
}

#[test]
fn two_controllers_at_one_etcd_never_use_an_epoch_twice() {
    let Some(server) = Server::start() else { return };
    let done = Mutex::new(Vec::new());
    let cuts = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let mut both: Vec<Proposer> = (0..2u16)
        .map(|number| {
            let state = Arc::clone(&cuts[usize::from(number)]);
            let registry = Cut { registry: server.registry(3, number), state };
            let worker = Worker::start(Box::new(registry), || ()).expect("a thread");
            Proposer { worker, who: u64::from(number), until: Nanos::ZERO, stored: None, proposed: None }
        })
        .collect();
    // Whoever leads is cut off, before requests or before answers, until the other one does.
    let mut leader: Option<usize> = None;
    for round in 0..4 {
        if let Some(leader) = leader {
            cuts[leader].store([CUT, CUT_ANSWERS][round % 2], Ordering::Relaxed);
        }
        let before = done.lock().expect("not poisoned").len();
        let next = wait_for("another leader", || {
            both.iter_mut().for_each(|controller| controller.turn(&done));
            let done = done.lock().expect("not poisoned");
            let mut others = done[before..].iter().map(|(_, who)| *who as usize);
            others.find(|who| Some(*who) != leader).filter(|_| done.len() >= before + 5)
        });
        for cut in &cuts {
            cut.store(0, Ordering::Relaxed);
        }
        leader = Some(next);
    }
    let mut epochs: Vec<u64> = done.lock().expect("not poisoned").iter().map(|(epoch, _)| *epoch).collect();
    let all = epochs.len();
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!(epochs.len(), all, "an epoch was used twice");
    assert!(all >= 20);
}
