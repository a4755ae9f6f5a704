//! The node of the contest: a process of this program with a key-value, an RPC and a recommendation service.

use super::clients::Ports;
use serve::cluster::members::free_ports;
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
    pub ports: Ports,
}

impl Drop for Node {
    fn drop(&mut self) {
        // Whatever state it is in, it is of no use any more.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

fn file(admin: u16, ports: Ports) -> String {
    let Ports { kv, rpc, rec } = ports;
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
    pub(super) fn start(program: &Path) -> Result<Node, String> {
        let failed = |error: std::io::Error| format!("the node could not be started: {error}");
        let [admin, kv, rpc, rec] = free_ports(4).map_err(failed)?[..] else {
            return Err("the system gives no ports".to_owned());
        };
        let ports = Ports { kv, rpc, rec };
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("millrace-").permissions(private).tempdir();
        let folder = folder.map_err(failed)?;
        let config = folder.path().join("node.toml");
        std::fs::write(&config, file(admin, ports)).map_err(failed)?;
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

    /// Processor time that it has used, in seconds.
    ///
    /// # Errors
    /// It does not say.
    pub(super) fn cpu(&self) -> Result<f64, String> {
        let page = self.admin.get("/metrics")?;
        let cpu = serve::metrics::read::sum(&page, "process_cpu_seconds_total", &[]);
        cpu.ok_or_else(|| "the node does not say its processor time".to_owned())
    }
}
