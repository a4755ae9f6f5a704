//! What may stand between the client and its items: the processes of a mode, and where the client asks.

use super::Bench;
use crate::lab::network::{address_of, client};
use crate::lab::process::Started;
use crate::lab::{LabError, Site, namespace, state};
use bench::load::Target;
use bench::load::dialect::Dialect;
use bench::load::server::ServerProcess;
use clap::ValueEnum;
use protocol::coherence::NodeId;
use protocol::wire::{BoxId, HomeId};
use serde::Serialize;
use serve::inc::plan;
use serve::inc::topology::Topology;
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BOX: NodeId = NodeId::Box(BoxId(1));
const HOME: NodeId = NodeId::Home(HomeId(1));
const MEMCACHED: u16 = 11211;
const PATIENCE: Duration = Duration::from_secs(5);

/// See the file's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Our server, asked past the box.
    NoBox,
    /// The box's user tier.
    Box,
    /// The box with its XDP tier.
    Xdp,
    /// memcached over TCP.
    Tcp,
    /// memcached over UDP.
    Udp,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::NoBox => "no box",
            Mode::Box => "box",
            Mode::Xdp => "box, XDP",
            Mode::Tcp => "memcached TCP",
            Mode::Udp => "memcached UDP",
        })
    }
}

impl Mode {
    /// Whether the items are in a home of its own.
    pub fn is_ours(self) -> bool {
        matches!(self, Mode::NoBox | Mode::Box | Mode::Xdp)
    }
}

/// A mode whose processes run.
pub struct Running {
    /// Which.
    pub mode: Mode,
    /// Where the client asks.
    pub target: Target,
    /// The process that has the items.
    pub server: ServerProcess,
    /// The process before it.
    pub boxed: Option<ServerProcess>,
    nodes: Vec<Started>,
    memcached: Option<Child>,
}

fn watched(name: &str, pid: u32) -> ServerProcess {
    ServerProcess { pid, name: name.to_string(), version: None }
}

impl Running {
    /// Starts the processes of `mode` on the calling thread's core, and waits until they are ready.
    ///
    /// # Errors
    /// They do not run here; why.
    pub fn start(mode: Mode, site: &mut Site, args: &Bench) -> Result<Running, String> {
        if mode.is_ours() {
            Running::start_ours(mode, site, args).map_err(|error| error.to_string())
        } else {
            Running::start_memcached(mode, site, args)
        }
    }

    fn start_ours(mode: Mode, site: &mut Site, args: &Bench) -> Result<Running, LabError> {
        let file = state::folder(site.name()).join(format!("{}.toml", mode as u8));
        topology(mode, args)?.write(&file)?;
        let mut start = |node, words: Vec<String>| {
            let role = format!("{} of {mode}", crate::lab::place::name(node)).replace(", ", " ");
            let space = site.network().namespace(node);
            let mut started = site.start(&role, &space, &words)?;
            started.await_ready()?;
            Ok::<_, LabError>(started)
        };
        let home = start(HOME, node(&file, "home:1"))?;
        let server = watched("home", home.process.pid);
        let mut nodes = vec![home];
        match mode {
            Mode::Box => nodes.push(start(BOX, node(&file, "box:1"))?),
            Mode::Xdp => nodes.push(start(BOX, with_xdp(&file))?),
            _ => {}
        }
        let boxed = nodes.get(1).map(|started| watched("box", started.process.pid));
        let target = Target::Caches { file, tor: None, direct: mode == Mode::NoBox };
        Ok(Running { mode, target, server, boxed, nodes, memcached: None })
    }

    /// One memcached serves both of its modes: the first of them starts it.
    fn start_memcached(mode: Mode, site: &mut Site, args: &Bench) -> Result<Running, String> {
        let space = site.network().namespace(HOME);
        let port = if mode == Mode::Tcp { MEMCACHED } else { MEMCACHED + 1 };
        let address = SocketAddr::new(address_of(HOME).ip(), port);
        let target = match mode {
            Mode::Tcp => Target::Tcp(address.to_string()),
            _ => Target::Udp(address.to_string()),
        };
        let told = |pid| Running {
            mode,
            target: target.clone(),
            server: watched("memcached", pid),
            boxed: None,
            nodes: Vec::new(),
            memcached: None,
        };
        let alone = SocketAddr::new(address.ip(), MEMCACHED);
        let from = site.network().namespace(client(1));
        if let Some(pid) = memcached_in(&space) {
            return Ok(told(pid));
        }
        let megabytes = args.keys() * (args.value.longest() as u64 + 400) / 1_000_000 + 128;
        let mut command = Command::new("memcached");
        command.args(["-u", "nobody", "-t", "1", "-l", &address.ip().to_string()]);
        command.args(["-p", &MEMCACHED.to_string(), "-U", &(MEMCACHED + 1).to_string()]);
        command.args(["-m", &megabytes.to_string(), "-I", "2m"]).stdin(Stdio::null()).stdout(Stdio::null());
        let spawned = namespace::within(&space, || Ok(command.spawn())).map_err(|error| error.to_string())?;
        let child =
            spawned.map_err(|error| format!("memcached does not start ({error}); install it to compare"))?;
        let pid = child.id();
        let answers = namespace::within(&from, || Ok(answers(alone))).map_err(|error| error.to_string())?;
        if !answers {
            return Err("memcached does not answer".to_string());
        }
        Ok(Running { memcached: Some(child), ..told(pid) })
    }

    /// The language of its target.
    pub fn dialect(&self) -> Dialect {
        Dialect::Classic
    }

    /// Ends its processes; what they counted.
    pub fn end(&mut self) -> Vec<String> {
        self.nodes.iter().for_each(Started::stop);
        let mut lines = Vec::new();
        for node in &mut self.nodes {
            node.wait();
            let said = node.said();
            let last = said.lines().last().unwrap_or_default();
            lines.push(format!("{}: {last}", self.mode));
        }
        if let Some(mut child) = self.memcached.take() {
            // The lab's end would end it, too.
            let _ = child.kill();
            let _ = child.wait();
        }
        lines
    }
}

/// The nodes of a mode: at the addresses of the lab, at ports of its own.
fn topology(mode: Mode, args: &Bench) -> Result<Topology, LabError> {
    let item = args.value.longest() as u64 + 400;
    let own = [
        ("coherence.copies", args.copies.to_string()),
        ("coherence.lease", (args.lease * 1_000_000).to_string()),
        // A busy machine's pauses are nobody's death; over UDP memcached's client waits as long.
        ("coherence.retransmit", "50000".to_string()),
        ("coherence.retransmit_max", "400000".to_string()),
        ("coherence.patience", "10000000".to_string()),
        ("coherence.memory", (args.keys() * item + (64 << 20)).to_string()),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_string(), value));
    let registers = plan::registers(&own.chain(args.settings.iter().cloned()).collect::<Vec<_>>())?;
    let at = |node| {
        let address: SocketAddr = address_of(node);
        SocketAddr::new(address.ip(), address.port() + mode as u16)
    };
    let shape = serve::inc::topology::Shape { tors: 1, roots: 0, homes: 1, controllers: 0 };
    Ok(Topology::two_levels(&shape, at, &registers)?)
}

fn words(text: &str, file: &Path) -> Vec<String> {
    let mut words: Vec<String> = text.split_whitespace().map(str::to_string).collect();
    words.extend(["--topology".to_string(), file.display().to_string(), "--first".to_string()]);
    words
}

fn node(file: &Path, name: &str) -> Vec<String> {
    words(&format!("inc run --node {name}"), file)
}

fn with_xdp(file: &Path) -> Vec<String> {
    words("box 1 --xdp to-client1 --xdp-required", file)
}

/// The memcached that runs in a namespace.
fn memcached_in(space: &str) -> Option<u32> {
    let own = namespace::pids(space).ok()?;
    own.into_iter().find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "memcached")
    })
}

/// Whether somebody accepts connections there, soon.
fn answers(address: SocketAddr) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if TcpStream::connect_timeout(&address, PATIENCE).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}
