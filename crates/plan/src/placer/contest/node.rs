//! A node of the contest: a process of this program, with a key-value, an RPC and a recommendation service, or with two caches.

use serve::cluster::members::free_ports;
use serve::metrics::read::sum;
use serve::process::end_with_this_process;
use serve::trace::Port;
use std::fs::{File, Permissions};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// It serves within this.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks whether it does.
const READY_INTERVAL: Duration = Duration::from_millis(50);
/// How long a register may take to be set.
const SET_TIMEOUT: Duration = Duration::from_secs(5);

/// See the head of the file. It is killed, and its folder removed, when this is dropped.
pub(super) struct Node {
    process: Child,
    folder: TempDir,
    pub admin: Port,
    /// Of its services.
    pub ports: Vec<u16>,
}

impl Drop for Node {
    fn drop(&mut self) {
        // Whatever state it is in, it is of no use any more.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

/// A file with the three services of the contest.
pub(super) fn file(admin: u16, ports: &[u16]) -> String {
    let [kv, rpc, rec] = ports else { return String::new() };
    format!(
        "[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
         [services.cache]\nkind = \"kv\"\n[services.cache.store]\nmemory = \"1g\"\n\
         [services.demo]\nkind = \"rpc\"\n\
         [services.rank]\nkind = \"rec\"\nrows = \"20k\"\ntables = 4\nbottom = [16]\n\
         [[listen]]\nservice = \"cache\"\naddress = \"tcp:127.0.0.1:{kv}\"\n\
         [[listen]]\nservice = \"demo\"\naddress = \"tcp:127.0.0.1:{rpc}\"\n\
         [[listen]]\nservice = \"rank\"\naddress = \"tcp:127.0.0.1:{rec}\"\n"
    )
}

impl Node {
    /// Starts it, and waits until it serves.
    ///
    /// # Errors
    /// It does not, and what it said.
    pub(super) fn start(
        program: &Path,
        services: usize,
        file: impl Fn(u16, &[u16]) -> String,
    ) -> Result<Node, String> {
        let failed = |error: std::io::Error| format!("the node could not be started: {error}");
        let mut ports = free_ports(services + 1).map_err(failed)?;
        let admin = ports.pop().ok_or("the system gives no ports")?;
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("millrace-").permissions(private).tempdir();
        let folder = folder.map_err(failed)?;
        let config = folder.path().join("node.toml");
        std::fs::write(&config, file(admin, &ports)).map_err(failed)?;
        let said = File::create(folder.path().join("said")).map_err(failed)?;
        let mut command = Command::new(program);
        command.arg("up").arg("--config").arg(&config);
        // A group of its own: Ctrl-C is for who started it.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        end_with_this_process(&mut command);
        let process = command.spawn().map_err(failed)?;
        let admin = Port::from(SocketAddr::from((Ipv4Addr::LOCALHOST, admin)));
        let mut node = Node { process, folder, admin, ports };
        let began = Instant::now();
        while node.admin.get_within("/readyz", SET_TIMEOUT, 1 << 16).is_err() {
            let ended = node.process.try_wait().map_err(failed)?;
            if ended.is_some() || began.elapsed() > START_TIMEOUT {
                let said = std::fs::read_to_string(node.folder.path().join("said")).unwrap_or_default();
                return Err(format!("the node does not serve; it said:\n{said}"));
            }
            thread::sleep(READY_INTERVAL);
        }
        Ok(node)
    }

    /// Sets registers, in this order.
    ///
    /// # Errors
    /// One refuses.
    pub(super) fn set(&self, registers: &[(String, String)]) -> Result<(), String> {
        registers.iter().try_for_each(|(name, value)| {
            let set = self.admin.put(&format!("/registers/{name}"), value, SET_TIMEOUT);
            set.map_err(|why| format!("{name} = {value}: {why}"))
        })
    }

    /// Processor time that it has used, in seconds, and how many gets found their key in each of these services.
    ///
    /// # Errors
    /// It does not say.
    pub(super) fn counted(&self, services: &[&str]) -> Result<(f64, Vec<f64>), String> {
        let page = self.admin.get("/metrics")?;
        let cpu = sum(&page, "process_cpu_seconds_total", &[]);
        let cpu = cpu.ok_or("the node does not say its processor time")?;
        let hits = |service: &&str| {
            let labels = [("service", *service), ("command", "get"), ("outcome", "hit")];
            let hits = sum(&page, "millrace_kv_command_outcomes_total", &labels);
            hits.ok_or_else(|| format!("the node does not say what {service} found"))
        };
        Ok((cpu, services.iter().map(hits).collect::<Result<_, _>>()?))
    }
}
