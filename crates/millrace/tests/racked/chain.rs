//! A chain of three replicas with its controllers, each a process that can be killed: one controller with a file, or two with an etcd between them, of which
//! one leads.
//!
//! Replicas and controllers are found at sockets in a folder, so that a port is taken by nobody while its owner is dead; admin ports of controllers, by which
//! it is known who leads, are those that nobody used when the file was written.

use super::super::chained::{PATIENCE, checksum_at, until_all_serve_at};
use super::super::members::{Cluster, Process, Text, etcd, wait_for, within};
use fabric::link::Address;
use serve::cluster::file::{File, Who};
use serve::cluster::look;
use serve::cluster::report::Verdict;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use tempfile::TempDir;

/// The chain's number.
const CHAIN: u32 = 7;
const REPLICAS: u16 = 3;

/// Who keeps the chain's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controllers {
    /// One, in a file.
    One,
    /// Two, in an etcd. Where there is none, visibly [`Controllers::One`].
    Two,
}

/// See the head of the file.
pub struct Chain {
    running: Mutex<BTreeMap<Who, Process>>,
    _etcd: Vec<Process>,
    file: File,
    // After all who work in it.
    cluster: Cluster,
}

impl Chain {
    /// All serve.
    pub fn start(controllers: Controllers) -> Chain {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let etcd = (controllers == Controllers::Two).then(|| etcd(folder.path(), 1)).flatten();
        let (count, registry) = match etcd.as_deref() {
            Some([(_, url, _), ..]) => (2, format!("etcd = [\"{url}\"]")),
            _ => (1, "state = [\"chain7\"]".to_owned()),
        };
        let text = text(&folder, count, &registry);
        let cluster = Cluster::of(folder, &text);
        let file = File::read(Path::new(&cluster.file)).expect("a good file");
        let etcd = etcd.into_iter().flatten().map(|(process, ..)| process).collect();
        let chain = Chain { running: Mutex::default(), _etcd: etcd, file, cluster };
        chain.file.members.iter().for_each(|member| chain.begin(member.who));
        chain.until_all_serve();
        wait_for("a whole chain", || match look(&chain.file) {
            report if report.verdict() == Verdict::Whole => Ok(()),
            report => Err(report.text()),
        });
        chain
    }

    /// Where the replicas serve clients.
    pub fn addresses(&self) -> Vec<Address> {
        let replicas = self.file.chains.iter().flat_map(|chain| &chain.replicas);
        replicas.map(|replica| replica.address.clone()).collect()
    }

    /// The same, for the command line.
    pub fn list(&self) -> String {
        self.addresses().iter().map(Address::to_string).collect::<Vec<_>>().join(",")
    }

    /// Compares all replicas, and says what the command says.
    pub fn checksum(&self) -> String {
        checksum_at(&self.list(), usize::from(REPLICAS))
    }

    /// Kills a replica, and starts it again, until all serve.
    pub fn kill(&self, replica: u16) {
        let who = Who::Replica(CHAIN, replica);
        self.end(who);
        self.begin(who);
        self.until_all_serve();
    }

    /// Kills the controller that leads. Where there is another that one leads from now on, before the killed one comes back.
    pub fn kill_who_leads(&self) {
        let killed = self.leader(None);
        self.end(killed);
        if self.controllers() > 1 {
            self.leader(Some(killed));
        }
        self.begin(killed);
        self.leader(None);
        self.until_all_serve();
    }

    fn controllers(&self) -> usize {
        self.file.members.iter().filter(|member| matches!(member.who, Who::Controller(..))).count()
    }

    /// Who leads, when it is not this one.
    fn leader(&self, not: Option<Who>) -> Who {
        wait_for("a controller that leads", || {
            let report = look(&self.file);
            let leads = report.rows.iter().find(|row| row.role.ends_with("leads") && Some(row.who) != not);
            leads.map(|row| row.who).ok_or_else(|| report.text())
        })
    }

    fn begin(&self, who: Who) {
        let process = match who {
            Who::Replica(_, id) => self.cluster.replica(&id.to_string()),
            Who::Controller(_, number) => self.cluster.controller(usize::from(number)),
            Who::Node(_) => unreachable!("the file has a chain alone"),
        };
        self.running.lock().expect("nobody panics with it").insert(who, process);
    }

    fn end(&self, who: Who) {
        let process = self.running.lock().expect("nobody panics with it").remove(&who);
        process.expect("it runs").kill();
    }

    fn until_all_serve(&self) {
        until_all_serve_at(&self.addresses(), PATIENCE, || look(&self.file).text());
    }
}

/// The cluster's file.
fn text(folder: &TempDir, controllers: usize, registry: &str) -> Text {
    let mut text = Text::new();
    text.text += &format!("[[chain]]\nnumber = {CHAIN}\n{registry}\n");
    for id in 1..=REPLICAS {
        let at = |what: &str| within(folder, &format!("{what}{id}"));
        text.text += &format!(
            "[[chain.replica]]\nid = {id}\naddress = \"unix:{}\"\npeers = \"unix:{}\"\ndata = \"data{id}\"\n",
            at("clients"),
            at("peers")
        );
    }
    for number in 0..controllers {
        let (address, admin) = (within(folder, &format!("controller{number}")), text.at());
        text.text += &format!("[[chain.controller]]\naddress = \"unix:{address}\"\nadmin = \"{admin}\"\n");
    }
    text
}
