//! `millrace chain up`: a whole chain on this machine, replicas as processes of their own and the controller in this one.
//!
//! ```text
//!  up ── controller (a thread) ◀── shm, unix, tcp or udp ──▶ replica 1 ◀──▶ replica 2 ◀──▶ replica 3     each a `millrace chain replica`
//!     ◀── their words, line by line ───────────────────────┘
//! ```
//! A replica is told to end by closing its standard input, so none outlives this process, however that ends.

use super::controller::command::registry;
use super::controller::{ControllerError, Process, Setting};
use super::error::ChainError;
use super::media::Media;
use super::registers::config;
use super::registry::etcd::Login;
use super::replica::{KEY_FILE, registers};
use crate::process::stop::Woken;
use crate::process::{Stop, say};
use crate::rights::RightsArgs;
use base::Bytes;
use base::key::Key;
use clap::{Args, ValueEnum};
use fabric::link::{Address, Endpoint};
use protocol::chain::{ReplicaAddress, ReplicaId};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Run a chain on this machine: replicas as processes, the controller in this one.
///
/// It prints where each replica serves clients, and every line that a replica says. Ctrl-C and SIGTERM end all of it; what was
/// acknowledged is in the logs, and the next `chain up` with the same --data goes on with it. A replica that dies stays dead unless
/// --restart: the chain goes on without it.
///
/// Without --data everything is in memory, and gone in the end.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  millrace chain up --replicas 3 --data /tmp/chain
  millrace txn 'put a 1; get b'
  millrace chain status
  millrace chain up --replicas 2 --links tcp --set chain.lease=2000000")]
pub struct Up {
    /// How many replicas
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    replicas: u16,

    /// The chain's number
    #[arg(long, value_name = "N", default_value_t = 1)]
    chain: u32,

    /// Directory for the replicas' directories (1, 2, …) and the controller's state
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// What logs and images are kept on; `file` with --data and `memory` without, if it is not said
    #[arg(long)]
    media: Option<Media>,

    /// Size of each log
    #[arg(long, value_name = "SIZE", default_value = "32m")]
    log_size: Bytes,

    /// Most that all items may take, in each replica
    #[arg(long, value_name = "SIZE", default_value = "64m")]
    data_size: Bytes,

    /// Replica N serves clients at this port + N - 1 of --ip; 0 picks free ones
    #[arg(short, long, value_name = "PORT", default_value_t = 7401)]
    port: u16,

    /// The address of this machine at which they serve and, with --links tcp or udp, talk to each other; ::1 for IPv6
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    ip: IpAddr,

    /// Besides, replica N serves clients through shared memory at PATH.N
    #[arg(long, value_name = "PATH")]
    shm: Option<PathBuf>,

    /// Replica N serves metrics at http://IP:(PORT + N - 1)/metrics; 0 picks free ports
    #[arg(long, value_name = "PORT")]
    admin: Option<u16>,

    /// What the replicas talk to each other and to the controller over
    #[arg(long, value_enum, default_value_t)]
    links: Over,

    /// Keep the configuration in etcd, at these URLs, instead of a file
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    etcd: Vec<String>,

    #[command(flatten)]
    login: Login,

    /// Start replicas that die again
    #[arg(long)]
    restart: bool,

    /// Set a register of all; may be repeated. `millrace registers --chain` lists them
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,

    #[command(flatten)]
    rights: RightsArgs,

    /// End when standard input is closed, too
    #[arg(long)]
    until_eof: bool,
}

/// Transports within a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Over {
    /// Rings in shared memory
    #[default]
    Shm,
    /// Unix sockets
    Unix,
    /// TCP on loopback
    Tcp,
    /// UDP sessions on loopback
    Udp,
}

/// A replica's process, as far as it is known.
struct Replica {
    id: u16,
    command: Vec<String>,
    child: Child,
    /// Open as long as it shall run.
    input: Option<ChildStdin>,
}

/// What the threads that listen to replicas tell.
enum News {
    Line(String),
    /// It says nothing more.
    Silent(u16),
    /// All is to end.
    Stop,
}

/// Sockets of links; gone in the end.
struct Sockets(PathBuf);

impl Drop for Sockets {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Up {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// It could not start, or all replicas ended.
    pub fn run(&self) -> Result<(), ChainError> {
        let stop = Stop::on_signals().map_err(ChainError::signals)?;
        if self.until_eof {
            stop.at_eof();
        }
        // What is wrong with them is said once, and not by each replica.
        registers(&self.set)?;
        let media = self.media();
        if media.needs_directory() && self.data.is_none() {
            return Err(ChainError::NoDirectory(media));
        }
        let sockets = self.sockets()?;
        let addresses = self.addresses(&sockets.0)?;
        let key_file = self.key_file(&sockets.0)?;
        let controller = self.controller(&addresses, &key_file, stop.flag())?;
        let (tell, news) = channel();
        let mut replicas = Vec::new();
        for id in 1..=self.replicas {
            replicas.push(Replica::start(id, self.command(id, &addresses, &key_file)?, &tell)?);
        }
        tell_of_stop(stop.clone(), tell.clone())?;
        let ended = self.watch(&mut replicas, &tell, &news);
        // The replicas first: they have something to tell the controller to the end.
        drop(replicas);
        stop.stop();
        controller.join().expect("the controller's thread does not panic");
        ended
    }

    fn media(&self) -> Media {
        self.media.unwrap_or(if self.data.is_some() { Media::File } else { Media::Memory })
    }

    fn sockets(&self) -> Result<Sockets, ChainError> {
        // Not within --data: the path of a socket must be short.
        let path = std::env::temp_dir().join(format!("millrace-chain-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| ChainError::Directory(path.clone(), error))?;
        Ok(Sockets(path))
    }

    /// The members' key: with the data, or for as long as this runs.
    fn key_file(&self, sockets: &Path) -> Result<PathBuf, ChainError> {
        let folder = self.data.as_deref().unwrap_or(sockets);
        std::fs::create_dir_all(folder).map_err(|error| ChainError::Directory(folder.to_owned(), error))?;
        let file = folder.join(KEY_FILE);
        Key::read_or_make(&file).map_err(ChainError::Key)?;
        Ok(file)
    }

    /// Where the controller (first) and the replicas listen for each other.
    fn addresses(&self, sockets: &Path) -> Result<Vec<Address>, ChainError> {
        (0..=self.replicas)
            .map(|node| match self.links {
                Over::Shm => Ok(Address::Shm(sockets.join(node.to_string()))),
                Over::Unix => Ok(Address::Unix(sockets.join(node.to_string()))),
                Over::Tcp => self.free_port(true).map(Address::Tcp),
                Over::Udp => self.free_port(false).map(Address::Udp),
            })
            .collect()
    }

    /// Starts the controller, on a thread of its own.
    fn controller(
        &self,
        addresses: &[Address],
        key_file: &Path,
        stop: &Arc<AtomicBool>,
    ) -> Result<JoinHandle<()>, ChainError> {
        let config = config(self.chain, &registers(&self.set)?);
        config.check()?;
        let keeps = self.data.as_ref().filter(|_| self.media().needs_directory());
        let state = keeps.map(|data| data.join("controller"));
        let state = state.as_slice();
        let registry =
            registry(&config, 0, state, (&self.etcd, &self.login)).map_err(ControllerError::from)?;
        let key = Key::read(key_file).map_err(ChainError::Key)?;
        let mut process = Process::open(Setting {
            config,
            number: 0,
            key,
            replicas: (1..=self.replicas)
                .map(|id| ReplicaAddress {
                    replica: ReplicaId(id),
                    peers: addresses[usize::from(id)].to_string(),
                    clients: String::new(),
                })
                .collect(),
            listen: addresses[0].clone(),
            registry,
        })?;
        let stop = Arc::clone(stop);
        std::thread::Builder::new()
            .name("chain-controller".into())
            .spawn(move || process.run(&stop, say))
            .map_err(|error| ChainError::System("start the controller", error))
    }

    /// What a replica is started with.
    fn command(&self, id: u16, addresses: &[Address], key_file: &Path) -> Result<Vec<String>, ChainError> {
        let nth = |first: u16| match first {
            0 => self.free_port(true).map(|free| free.port),
            _ => Ok(first.saturating_add(id - 1)),
        };
        let peers: Vec<String> =
            addresses.iter().enumerate().skip(1).map(|(id, address)| format!("{id}={address}")).collect();
        let mut words: Vec<String> = ["chain", "replica", "--until-eof"].map(str::to_owned).into();
        let mut say = |flag: &str, value: String| words.extend([format!("--{flag}"), value]);
        say("id", id.to_string());
        say("chain", self.chain.to_string());
        say("listen", format!("tcp:{}", SocketAddr::new(self.ip, nth(self.port)?)));
        if let Some(shm) = &self.shm {
            say("listen", format!("shm:{}.{id}", shm.display()));
        }
        say("peers", peers.join(","));
        say("controllers", addresses[0].to_string());
        say("key", key_file.display().to_string());
        say("media", self.media().to_string());
        say("log-size", self.log_size.0.to_string());
        say("data-size", self.data_size.0.to_string());
        if let Some(data) = &self.data {
            say("data", data.join(id.to_string()).display().to_string());
        }
        if let Some(admin) = self.admin {
            say("admin", SocketAddr::new(self.ip, nth(admin)?).to_string());
        }
        self.set.iter().for_each(|assignment| say("set", assignment.clone()));
        self.rights.rights.iter().for_each(|file| say("rights", file.display().to_string()));
        Ok(words)
    }

    /// Passes on what the replicas say, until it is told to stop.
    fn watch(
        &self,
        replicas: &mut Vec<Replica>,
        tell: &Sender<News>,
        news: &Receiver<News>,
    ) -> Result<(), ChainError> {
        loop {
            match news.recv().expect("a sender is held here") {
                News::Stop => return Ok(()),
                News::Line(line) => say(&line),
                News::Silent(id) => {
                    let Some(at) = replicas.iter().position(|replica| replica.id == id) else { continue };
                    let mut replica = replicas.swap_remove(at);
                    say(&format!("replica {id} ended: {}", replica.how_it_ended()));
                    if self.restart {
                        replicas.push(Replica::start(id, std::mem::take(&mut replica.command), tell)?);
                    }
                }
            }
            if replicas.is_empty() {
                return Err(ChainError::Child("all replicas have ended; their words are above".into()));
            }
        }
    }
}

/// Tells of it when all is to end.
fn tell_of_stop(stop: Stop, tell: Sender<News>) -> Result<(), ChainError> {
    let wait = move || {
        while stop.wait(Duration::MAX) != Woken::Stop {}
        // Nobody listens who has ended.
        let _ = tell.send(News::Stop);
    };
    let thread = std::thread::Builder::new().name("chain-stop".into()).spawn(wait);
    thread.map(drop).map_err(|error| ChainError::System("start a thread", error))
}

impl Replica {
    fn start(id: u16, command: Vec<String>, tell: &Sender<News>) -> Result<Replica, ChainError> {
        let failed = |error| ChainError::System("start a replica", error);
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .args(&command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let output = child.stdout.take().expect("it is piped");
        let input = child.stdin.take();
        say(&format!("replica {id} is process {}", child.id()));
        let tell = tell.clone();
        let listen = move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = tell.send(News::Line(line));
            }
            let _ = tell.send(News::Silent(id));
        };
        std::thread::Builder::new().name("chain-listen".into()).spawn(listen).map_err(failed)?;
        Ok(Replica { id, command, child, input })
    }

    fn how_it_ended(&mut self) -> String {
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends at the end of its input, within the time of a turn.
        let _ = self.child.wait();
    }
}

/// The first port that the system gives to connections that go out.
fn first_outgoing() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
    range.and_then(|range| range.split_whitespace().next()?.parse().ok()).unwrap_or(32768)
}

impl Up {
    /// A port that nobody has, and that nobody is given for a connection: its replica has it again when it is started again.
    fn free_port(&self, stream: bool) -> Result<Endpoint, ChainError> {
        const FIRST: u16 = 10_000;
        const TRIES: u32 = 100;
        let bind = |port| {
            let at = (self.ip, port);
            match stream {
                true => TcpListener::bind(at).and_then(|socket| socket.local_addr()),
                false => UdpSocket::bind(at).and_then(|socket| socket.local_addr()),
            }
        };
        let several = first_outgoing().saturating_sub(FIRST);
        let drawn = |_| FIRST + (u64::from_le_bytes(base::key::random()) % u64::from(several.max(1))) as u16;
        let tries = if several == 0 { 0 } else { TRIES };
        let quiet = (0..tries).map(drawn).find_map(|port| bind(port).ok());
        let found = quiet.map_or_else(|| bind(0), Ok);
        found.map(Into::into).map_err(|error| ChainError::System("find a free port", error))
    }
}
