//! The servers under attack: child processes of this program on loopback, their memory, and how they ended.

use super::kinds::Role;
use crate::soak::server::footprint;
use base::Bytes;
use serde::Serialize;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server starts within this.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Items of a node, so that listing them is work.
const ITEMS: usize = 200_000;
/// What may be buffered, where it is set here.
const BUFFERS: Bytes = Bytes::from_mib(32);
/// `link.buffers` as it is by default.
const LINK_BUFFERS: Bytes = Bytes::from_mib(64);
/// Beside the buffers, for each link that an attack opens: the fabric's and the edge's room for a connection.
const PER_LINK: u64 = 64 << 10;
/// The most links that an attack of `kinds` opens to a server that keeps them.
const LINKS: u64 = 1024;

/// Where servers listen.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// For ordinary clients: memcached's, of the fabric, of a chain.
    pub service: SocketAddr,
    /// A replica's for other replicas.
    pub peer: SocketAddr,
    /// A chain's controller.
    pub controller: SocketAddr,
    /// HTTP of recommendation.
    pub http: SocketAddr,
    /// The gRPC gateway.
    pub gateway: SocketAddr,
    /// The admin port.
    pub admin: SocketAddr,
}

/// A process's memory in a run.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// Which process.
    pub process: String,
    /// Resident bytes, without the program's file, before the attack.
    pub rest: u64,
    /// The most of them since.
    pub peak: u64,
    /// What it may be: `rest`, what its registers let it buffer, and 64 KiB for each link.
    pub budget: u64,
}

impl Memory {
    /// Peak over budget.
    pub fn share(&self) -> f64 {
        self.peak as f64 / self.budget as f64
    }

    /// Whether it kept to the budget and a tenth.
    pub fn is_within(&self) -> bool {
        self.share() <= 1.1
    }
}

struct Process {
    name: String,
    child: Child,
    rest: u64,
    buffers: Bytes,
    /// Removed with it.
    _group: Option<Group>,
}

/// The servers of a role. They end when this is dropped.
pub struct Rig {
    /// Where they are.
    pub places: Places,
    processes: Vec<Process>,
    folder: TempDir,
    group: Option<Bytes>,
}

impl Rig {
    /// Starts them.
    ///
    /// # Errors
    /// Which did not start, and what it said.
    pub fn start(role: Role, group: Option<Bytes>) -> Result<Rig, String> {
        let folder = TempDir::with_prefix("millrace-").map_err(|e| format!("a folder of its own: {e}"))?;
        let mut rig = Rig { places: places()?, processes: Vec::new(), folder, group };
        let Places { service, http, gateway, admin, .. } = rig.places;
        let (tcp, admin) = (format!("tcp:{service}"), admin.to_string());
        match role {
            Role::Node => {
                let port = service.port().to_string();
                let buffers = format!("net.buffer_limit={}", BUFFERS.0);
                let words =
                    ["up", "-p", &port, "-m", "64", "--admin", &admin, "-c", "1024", "--set", &buffers];
                rig.run("node", &words, service, BUFFERS)?;
                fill(service).map_err(|e| format!("filling the node: {e}"))?;
            }
            Role::Rpc => rig.run("rpc serve", &["rpc", "serve", "-l", &tcp], service, LINK_BUFFERS)?,
            Role::Gateway => {
                rig.run("rpc serve", &["rpc", "serve", "-l", &tcp], service, LINK_BUFFERS)?;
                let listen = gateway.to_string();
                rig.run("gateway", &["rpc", "gateway", &tcp, "-l", &listen], gateway, BUFFERS)?;
            }
            Role::Chain => rig.chain()?,
            Role::Rec => {
                let (listen, held) = (http.to_string(), format!("rec.held={}", BUFFERS.0));
                let model = "rec serve --tables 2 --rows 1000 --dim 16 --dense 2 --bottom 16 --top 16";
                let mut words: Vec<&str> = model.split(' ').collect();
                words.extend(["-l", &tcp, "--http", &listen, "--set", &held]);
                rig.run("rec serve", &words, http, Bytes(BUFFERS.0 + LINK_BUFFERS.0))?;
            }
        }
        Ok(rig)
    }

    fn chain(&mut self) -> Result<(), String> {
        let Places { service, peer, controller, .. } = self.places;
        let key = self.folder.path().join("cluster.key");
        base::key::Key::read_or_make(&key).map_err(|e| e.to_string())?;
        let key = key.display().to_string();
        let mut more = ports(4)?.into_iter();
        let mut next = || more.next().expect("as many as were asked for");
        let (peers, serves) = ([peer, next(), next()], [service, next(), next()]);
        let controller = format!("tcp:{controller}");
        let state = self.folder.path().join("state").display().to_string();
        let words = [
            "chain",
            "controller",
            "--replicas",
            "1,2,3",
            "--listen",
            &controller,
            "--state",
            &state,
            "--key",
            &key,
        ];
        self.run("controller", &words, self.places.controller, LINK_BUFFERS)?;
        let all: Vec<String> = (1..).zip(peers).map(|(id, at)| format!("{id}=tcp:{at}")).collect();
        let all = all.join(",");
        for (id, at) in (1..).zip(serves) {
            let (id, listen) = (format!("{id}"), format!("tcp:{at}"));
            let mut words = vec!["chain", "replica", "--id", &id, "--listen", &listen, "--peers", &all];
            words.extend(["--controllers", &controller, "--key", &key, "--media", "memory"]);
            // Small, so that what an attack adds is seen; `chain.queue_bytes` and the window are the rest of its budget.
            words.extend(["--data-size", "16m", "--log-size", "16m"]);
            words.extend(["--set", "chain.queue_bytes=8m", "--set", "chain.window_bytes=4m"]);
            self.run(&format!("replica {id}"), &words, at, Bytes(LINK_BUFFERS.0 + (12 << 20)))?;
        }
        Ok(())
    }

    fn run(&mut self, name: &str, words: &[&str], ready: SocketAddr, buffers: Bytes) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|e| format!("this program cannot find itself: {e}"))?;
        let group = self.group.map(|limit| Group::new(self.processes.len(), limit)).transpose()?;
        let mut command = match &group {
            Some(group) => {
                let mut shell = Command::new("sh");
                shell
                    .args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""])
                    .arg(&group.path)
                    .arg(program);
                shell
            }
            None => Command::new(program),
        };
        let said = self.folder.path().join(name.replace(' ', "-"));
        let file = fs::File::create(&said).map_err(|e| format!("{}: {e}", said.display()))?;
        let error = file.try_clone().map_err(|e| e.to_string())?;
        command.args(words).stdin(Stdio::null()).stdout(file).stderr(error);
        let child = command.spawn().map_err(|e| format!("{name} could not be started: {e}"))?;
        self.processes.push(Process { name: name.to_owned(), child, rest: 0, buffers, _group: group });
        let began = Instant::now();
        let process = self.processes.last_mut().expect("just pushed");
        while TcpStream::connect(ready).is_err() {
            if process.child.try_wait().is_ok_and(|ended| ended.is_some()) || began.elapsed() > START_TIMEOUT
            {
                let said = fs::read_to_string(&said).unwrap_or_default();
                return Err(format!("{name} did not start; it said:\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// From now on memory is watched.
    pub fn rest(&mut self) {
        for process in &mut self.processes {
            // 5 sets the kernel's high-water mark back to what is resident now.
            let _ = fs::write(format!("/proc/{}/clear_refs", process.child.id()), "5");
            process.rest = footprint(process.child.id()).map_or(0, |now| now.rss);
        }
    }

    /// What each took.
    pub fn memory(&self) -> Vec<Memory> {
        let memory = |process: &Process| Memory {
            process: process.name.clone(),
            rest: process.rest,
            peak: footprint(process.child.id()).map_or(0, |now| now.peak),
            budget: process.rest + process.buffers.0 + LINKS * PER_LINK,
        };
        self.processes.iter().map(memory).collect()
    }

    /// How a process ended that should not have.
    pub fn died(&mut self) -> Option<String> {
        self.processes.iter_mut().find_map(|process| {
            let status = process.child.try_wait().ok().flatten()?;
            let how = match status.signal() {
                Some(9) => "was killed, perhaps for its memory".to_owned(),
                _ => format!("ended with {status}"),
            };
            Some(format!("{} {how}", process.name))
        })
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Both fail when it has ended.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        // The groups go with their processes; a group is empty now.
        self.processes.clear();
    }
}

/// A control group with a bound on memory.
struct Group {
    path: PathBuf,
}

impl Group {
    fn new(number: usize, limit: Bytes) -> Result<Group, String> {
        let name = format!("millrace-attack-{}-{number}", std::process::id());
        // Version 1 has a hierarchy for each resource, version 2 one for all.
        let first = Path::new("/sys/fs/cgroup/memory");
        let (path, bound) = match first.exists() {
            true => (first.join(name), "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup").join(name), "memory.max"),
        };
        fs::create_dir(&path)
            .and_then(|()| fs::write(path.join(bound), limit.0.to_string()))
            .map_err(|e| format!("--group: {}: {e}; it needs root and control groups", path.display()))?;
        Ok(Group { path })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

fn places() -> Result<Places, String> {
    let [service, peer, controller, http, gateway, admin] =
        ports(6)?.try_into().expect("as many as were asked for");
    Ok(Places { service, peer, controller, http, gateway, admin })
}

/// Ports that nobody uses now.
fn ports(count: usize) -> Result<Vec<SocketAddr>, String> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let held: std::io::Result<Vec<TcpListener>> = (0..count).map(|_| listen()).collect();
    let held = held.map_err(|e| format!("no port on loopback: {e}"))?;
    held.iter().map(|port| port.local_addr().map_err(|e| e.to_string())).collect()
}

/// Gives a node its items.
fn fill(to: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    for chunk in (0..ITEMS).collect::<Vec<_>>().chunks(1000) {
        let sets: String =
            chunk.iter().map(|key| format!("set k{key} 0 0 64 noreply\r\n{key:064}\r\n")).collect();
        stream.write_all(sets.as_bytes())?;
    }
    // Answered when all before it is done.
    stream.write_all(b"version\r\n")?;
    stream.read_exact(&mut [0])
}
