//! Two boxes and a controller, each a process of its own, before a node whose items lie in a chain of three replicas; a proxy behind each box. Everybody but
//! the node and the proxies can be killed, and is started again: members of the rack here, those of the chain in `chain`.

// Each suite is a program of its own and uses its own part of this module.
#![allow(dead_code)]

mod chain;

pub use chain::{Chain, Controllers};

use super::chained::PROGRAM;
use super::served::{self, Client, Served};
use protocol::chain::Transaction;
use protocol::chain::transaction::Abort;
use serve::inc::topology::Topology;
use serve::kv::durable::{Durability, DurableArgs};
use serve::kv::home::HomeArgs;
use serve::kv::{Place, Server};
use serve::proxy::{Options, Running};
use serve::txn;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Members of the rack that are processes.
pub const MEMBERS: [&str; 3] = ["box:1", "box:2", "controller:0"];

/// The way of transactions, beside those of memcached's clients.
const BESIDE: usize = 3;

/// A process that is killed in the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// See the head of the file.
pub struct Racked {
    pub chain: Chain,
    members: Mutex<BTreeMap<&'static str, Process>>,
    served: Option<Served>,
    proxies: Vec<Running>,
    topology: Arc<Topology>,
    // After all who work in it.
    folder: TempDir,
}

impl Racked {
    /// With these registers of the cache besides.
    pub fn new(controllers: Controllers, settings: &[&str]) -> Racked {
        let chain = Chain::start(controllers);
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("rack.toml");
        let mut words = vec!["inc", "topology", "--free-ports", "--roots", "0", "--controllers", "1"];
        // Whatever is read twice is kept.
        let always = ["coherence.worth=0", "coherence.bypass=0"];
        words.extend(always.iter().chain(settings).flat_map(|setting| ["--set", setting]));
        let printed = Command::new(PROGRAM).args(&words).output().expect("the program");
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        std::fs::write(&file, &printed.stdout).expect("a file");
        let topology = Arc::new(Topology::read(&file).expect("it was printed"));
        let mut racked =
            Racked { chain, folder, members: Mutex::default(), served: None, proxies: Vec::new(), topology };
        MEMBERS.iter().for_each(|member| racked.start(member, true));
        racked.start_node(true);
        let (home, node) = (racked.topology.homes()[0].0, racked.home());
        let topology = Topology::read(&file).expect("it was printed").with_streams([(home, node)]);
        racked.topology = Arc::new(topology.expect("an address"));
        let proxy = |tor| {
            let options = Options { threads: 1, pipeline: 128, connections: 64 };
            let at = ["127.0.0.1:0".parse().expect("an address")];
            Running::start(&racked.topology, Some(tor), &at, options).expect("a proxy on a free port")
        };
        racked.proxies = [1, 2].map(proxy).into();
        racked
    }

    fn start(&self, member: &'static str, is_first: bool) {
        let mut command = Command::new(PROGRAM);
        let file = self.folder.path().join("rack.toml");
        command.args(["inc", "run", "--node", member, "--topology"]).arg(file);
        if is_first && member.starts_with("box") {
            command.arg("--first");
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the program");
        self.members.lock().expect("nobody panics with it").insert(member, Process(child));
    }

    /// Kills a member of the rack, and starts it again.
    pub fn kill(&self, member: &'static str) {
        self.end(member);
        self.start(member, false);
    }

    /// Kills a member of the rack.
    pub fn end(&self, member: &'static str) {
        let killed = self.members.lock().expect("nobody panics with it").remove(member);
        drop(killed.expect("it runs"));
    }

    fn start_node(&mut self, is_first: bool) {
        let mut config = served::config(&[]);
        if let Some(before) = self.served.take() {
            // Where it was: proxies know its stream.
            config.listen.tcp = vec![before.address()];
            drop(before);
        }
        config.durable = DurableArgs {
            durability: Durability::Chain,
            chain: self.chain.addresses().into_iter().map(Place::Replica).collect(),
            ..DurableArgs::default()
        };
        let boxes = Some(self.folder.path().join("rack.toml"));
        config.home = HomeArgs { boxes, home_first: is_first, ..HomeArgs::default() };
        let node = Server::start(&config).expect("a node");
        self.served = Some(Served { node, config });
    }

    /// The node ends, and begins again: nothing is left of it.
    pub fn restart_node(&mut self) {
        self.start_node(false);
    }

    pub fn served(&self) -> &Served {
        self.served.as_ref().expect("it runs")
    }

    /// Where memcached's clients reach the node.
    pub fn home(&self) -> SocketAddr {
        self.served().address()
    }

    /// Where memcached's clients reach the proxy behind this box, 1 or 2.
    pub fn proxy(&self, tor: usize) -> SocketAddr {
        self.proxies[tor - 1].addresses()[0]
    }

    /// What the home has counted.
    pub fn event(&self, name: &str) -> u64 {
        let home = self.served().report().kv.home.expect("it is a home");
        home.events.iter().find(|(event, _)| *event == name).expect("it is counted").1
    }

    /// Ends all. The node has lost nothing on the way.
    pub fn finish(mut self) {
        self.served().still_sound();
        std::mem::take(&mut self.proxies).into_iter().for_each(|proxy| drop(proxy.stop()));
        self.served = None;
        self.members.lock().expect("nobody panics with it").clear();
    }
}

/// One client at the node, one at each proxy and one of transactions, for keys that nobody else has: what it has written it finds, by whatever way, or
/// nothing, since others flush.
pub struct Judge {
    clients: [Client; 3],
    beside: txn::Client,
    name: String,
    turn: u64,
    /// Of the key in use: what may be there, the last first.
    possible: Vec<u64>,
    keys: u64,
}

impl Judge {
    pub fn new(racked: &Racked, name: &str) -> Judge {
        let clients = [racked.home(), racked.proxy(1), racked.proxy(2)].map(Client::to);
        let beside = txn::Client::connect(&racked.chain.addresses(), &txn::Options::default());
        Judge {
            clients,
            beside: beside.expect("a chain"),
            name: name.to_owned(),
            turn: 0,
            possible: Vec::new(),
            keys: 0,
        }
    }

    /// Writes by one way and reads by all, twice, until told to stop.
    pub fn run(mut self, turns: &AtomicU64, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.write();
            for way in [0, 1, 2, BESIDE, 1, 2] {
                self.read(way);
            }
            turns.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn key(&self) -> String {
        format!("judged-{}-{}", self.name, self.keys)
    }

    fn write(&mut self) {
        self.turn += 1;
        if self.possible.len() > 1 || self.turn.is_multiple_of(64) {
            // Of this one not enough is known any more.
            (self.keys, self.possible) = (self.keys + 1, Vec::new());
        }
        let (key, value) = (self.key(), self.turn.to_string());
        let way = (self.turn % 4) as usize;
        if way == BESIDE {
            return self.transact(&key, &value);
        }
        match self.clients[way].line_of(format!("ms {key} {}\r\n{value}\r\n", value.len())).as_str() {
            "HD" => self.possible = vec![self.turn],
            error if error.starts_with("SERVER_ERROR") => self.possible.push(self.turn),
            other => panic!("{key} was set to {value} by way {way}: {other:?}"),
        }
    }

    /// The same by a transaction of several keys.
    fn transact(&mut self, key: &str, value: &str) {
        let transaction = Transaction::new().put(key, value).put(format!("{key}-more"), value);
        match self.beside.execute(transaction).map(|outcome| outcome.abort) {
            Ok(None) => self.possible = vec![self.turn],
            // It may have been, or is refused since nobody is there at the moment.
            Ok(Some(Abort::Claimed)) | Err(_) => self.possible.push(self.turn),
            other => panic!("{key} was set to {value} by a transaction: {other:?}"),
        }
    }

    fn read_beside(&mut self, key: &str) {
        let Ok(outcome) = self.beside.execute(Transaction::new().get(key)) else { return };
        let found = outcome.reads.into_iter().next().flatten().map(|found| found.value);
        let found = found.and_then(|value| String::from_utf8(value).ok()?.parse().ok());
        let possible = &self.possible;
        assert!(
            found.is_none_or(|found: u64| possible.contains(&found)),
            "{key} is {found:?} by a transaction, and can only be {possible:?}"
        );
    }

    fn read(&mut self, way: usize) {
        let key = self.key();
        if way == BESIDE {
            return self.read_beside(&key);
        }
        let line = self.clients[way].line_of(format!("mg {key} v\r\n"));
        if line.starts_with("VA ") {
            let found: u64 = self.clients[way].line().parse().expect("a number");
            let possible = &self.possible;
            assert!(possible.contains(&found), "{key} is {found} by way {way}, and can only be {possible:?}");
        } else {
            assert!(line == "EN" || line.starts_with("SERVER_ERROR"), "{key} by way {way}: {line:?}");
        }
    }
}
