//! A chain of processes by one cluster.toml, on sockets in a folder of its own, and the commands that move its replicas.

use fabric::link::Address;
use serve::chain::status::ask;
use serve::cluster::file::Who;
use serve::cluster::members::Members;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The chain serves within this.
const PATIENCE: Duration = Duration::from_secs(60);
const NUMBER: u32 = 7;

/// The processes. They end when this is dropped, and the folder is removed.
pub struct Chain {
    members: Members,
    media: String,
    replicas: BTreeSet<u16>,
}

impl Chain {
    /// A controller and so many replicas, which serve.
    pub fn start(replicas: u16, media: &str) -> Result<Chain, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let members = Members::new("move", program, false)?;
        let mut chain = Chain { members, media: media.to_owned(), replicas: (1..=replicas).collect() };
        let mut text = format!(
            "[cluster]\nkey = \"cluster.key\"\n[[chain]]\nnumber = {NUMBER}\nstate = [\"registry\"]\n\
             [[chain.controller]]\naddress = \"{}\"\n",
            chain.socket("controller")
        );
        for id in 1..=replicas {
            text += &format!(
                "[[chain.replica]]\nid = {id}\naddress = \"{}\"\npeers = \"{}\"\ndata = \"{}\"\n",
                chain.clients_at(id),
                chain.peers_at(id),
                chain.data(id)
            );
        }
        chain.members.write_file(&text)?;
        chain.spawn(Who::Controller(NUMBER, 0), &["controller"])?;
        for id in 1..=replicas {
            chain.spawn(Who::Replica(NUMBER, id), &["replica", "--id", &id.to_string()])?;
        }
        chain.until_all_serve()?;
        Ok(chain)
    }

    /// Starts a member of the chain.
    fn spawn(&mut self, who: Who, words: &[&str]) -> Result<(), String> {
        let file = self.members.file().display().to_string();
        let media: &[&str] = if matches!(who, Who::Replica(..)) { &["--media", &self.media] } else { &[] };
        let words = [&["chain"], words, &["--cluster", &file], media].concat();
        self.members.start(who, &words.into_iter().map(str::to_owned).collect::<Vec<_>>())
    }

    fn socket(&self, name: &str) -> String {
        format!("unix:{}", self.members.path(name).display())
    }

    fn clients_at(&self, id: u16) -> String {
        self.socket(&format!("clients-{id}"))
    }

    fn peers_at(&self, id: u16) -> String {
        self.socket(&format!("peers-{id}"))
    }

    fn data(&self, id: u16) -> String {
        self.members.path(&format!("replica-{id}")).display().to_string()
    }

    /// Where the replicas serve that run.
    pub fn addresses(&self) -> Vec<Address> {
        self.replicas.iter().map(|id| self.clients_at(*id).parse().expect("a path")).collect()
    }

    fn until_all_serve(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let addresses = self.addresses();
        loop {
            let serves = |address: &Address| ask(address, None).is_ok_and(|info| info.serves_reads);
            if addresses.iter().all(serves) {
                return Ok(());
            }
            self.members.check_alive()?;
            if begun.elapsed() > PATIENCE {
                return Err("the chain does not serve".to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts replica `to`, has the chain go on with it in place of `from`, and kills that.
    pub fn move_replica(&mut self, from: u16, to: u16) -> Result<(), String> {
        let (number, data) = (to.to_string(), self.data(to));
        let (clients, peers) = (self.clients_at(to), self.peers_at(to));
        let words = ["replica", "--id", &number, "--join", &peers, "--listen", &clients, "--data", &data];
        self.spawn(Who::Replica(NUMBER, to), &words)?;
        self.replicas.insert(to);
        let (file, old) = (self.members.file().display().to_string(), Who::Replica(NUMBER, from));
        let member = old.to_string();
        let mut words = vec!["cluster", "move", &file, &member, "--to", &number, "--address", &clients];
        words.extend(["--peers", &peers, "--data", &data]);
        self.members.run(&words)?;
        self.replicas.remove(&from);
        self.members.kill(old)
    }

    /// Whether all replicas have the same.
    pub fn checksum(&self, replicas: u16) -> Result<(), String> {
        let addresses: Vec<String> = self.addresses().iter().map(Address::to_string).collect();
        let count = replicas.to_string();
        self.members.run(&["chain", "checksum", "--connect", &addresses.join(","), "--replicas", &count])
    }
}
