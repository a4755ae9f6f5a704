//! A chain of processes by one cluster.toml, on sockets in a folder of its own, and the commands that move its replicas.

use fabric::link::Address;
use serve::chain::status::ask;
use serve::process::end_with_this_process;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The chain serves within this.
const PATIENCE: Duration = Duration::from_secs(60);
const NUMBER: u32 = 7;

/// The processes. They end when this is dropped, and the folder is removed.
pub struct Chain {
    folder: PathBuf,
    program: PathBuf,
    media: String,
    controller: Option<Child>,
    replicas: BTreeMap<u16, Child>,
}

impl Chain {
    /// A controller and so many replicas, which serve.
    pub fn start(replicas: u16, media: &str) -> Result<Chain, String> {
        let folder = std::env::temp_dir().join(format!("millrace-move-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut chain =
            Chain { folder, program, media: media.to_owned(), controller: None, replicas: BTreeMap::new() };
        base::key::Key::read_or_make(&chain.folder.join("cluster.key")).map_err(|error| error.to_string())?;
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
        std::fs::write(chain.file(), text).map_err(|error| error.to_string())?;
        let file = chain.file();
        chain.controller = Some(chain.spawn(&["chain", "controller", "--cluster", &file])?);
        for id in 1..=replicas {
            let number = id.to_string();
            let mut words = vec!["chain", "replica", "--cluster", &file, "--id", &number];
            words.extend(["--media", &chain.media]);
            let child = chain.spawn(&words)?;
            chain.replicas.insert(id, child);
        }
        chain.until_all_serve()?;
        Ok(chain)
    }

    fn file(&self) -> String {
        self.folder.join("cluster.toml").display().to_string()
    }

    fn socket(&self, name: &str) -> String {
        format!("unix:{}", self.folder.join(name).display())
    }

    fn clients_at(&self, id: u16) -> String {
        self.socket(&format!("clients-{id}"))
    }

    fn peers_at(&self, id: u16) -> String {
        self.socket(&format!("peers-{id}"))
    }

    fn data(&self, id: u16) -> String {
        self.folder.join(format!("replica-{id}")).display().to_string()
    }

    /// Where the replicas serve that run.
    pub fn addresses(&self) -> Vec<Address> {
        self.replicas.keys().map(|id| self.clients_at(*id).parse().expect("a path")).collect()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn spawn(&self, words: &[&str]) -> Result<Child, String> {
        let mut command = self.command(words);
        end_with_this_process(&mut command);
        command.spawn().map_err(|error| format!("millrace {}: {error}", words.join(" ")))
    }

    /// Runs a command to its end.
    fn run(&self, words: &[&str]) -> Result<(), String> {
        let output = self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("millrace {} ends with {}: {}", words.join(" "), output.status, said.trim()))
    }

    fn until_all_serve(&self) -> Result<(), String> {
        let begun = Instant::now();
        let addresses = self.addresses();
        loop {
            let serves = |address: &Address| ask(address, None).is_ok_and(|info| info.serves_reads);
            if addresses.iter().all(serves) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err("the chain does not serve".to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts replica `to`, has the chain go on with it in place of `from`, and kills that.
    pub fn move_replica(&mut self, from: u16, to: u16) -> Result<(), String> {
        let (file, number, data) = (self.file(), to.to_string(), self.data(to));
        let (clients, peers) = (self.clients_at(to), self.peers_at(to));
        let mut words = vec!["chain", "replica", "--cluster", &file, "--id", &number, "--join", &peers];
        words.extend(["--listen", &clients, "--data", &data, "--media", &self.media]);
        let child = self.spawn(&words)?;
        self.replicas.insert(to, child);
        let member = format!("chain:{NUMBER}/replica:{from}");
        let mut words = vec!["cluster", "move", &file, &member, "--to", &number, "--address", &clients];
        words.extend(["--peers", &peers, "--data", &data]);
        self.run(&words)?;
        if let Some(mut old) = self.replicas.remove(&from) {
            end(&mut old);
        }
        Ok(())
    }

    /// Whether all replicas have the same.
    pub fn checksum(&self, replicas: u16) -> Result<(), String> {
        let addresses: Vec<String> = self.addresses().iter().map(Address::to_string).collect();
        let count = replicas.to_string();
        self.run(&["chain", "checksum", "--connect", &addresses.join(","), "--replicas", &count])
    }
}

fn end(child: &mut Child) {
    // One that is gone already is what is wanted.
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.controller.iter_mut().chain(self.replicas.values_mut()).for_each(end);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
