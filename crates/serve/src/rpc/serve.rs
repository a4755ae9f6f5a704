//! `millrace rpc serve`: the demonstration's services at given addresses; and the same as a child process or a thread, for benchmarks
//! and tests.

use super::RpcError;
use super::batch::Batch;
use super::in_node::{Keys, Rpc, listen, server, with_demo};
use crate::admin::parse_address;
use crate::process::listen::ListenArgs;
use crate::process::logger::LogArgs;
use crate::process::{Stop, say};
use crate::shell::{Service as _, Shell};
use base::cpu;
use clap::Args;
use fabric::link::Address;
use ring::wait::WaitPolicy;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Serve something to try calls on.
///
/// demo.Echo answers in every way that a method can: at once, late, never well, with streams; `millrace rpc list ADDRESS --describe` shows it.
/// Each address is printed when it is ready (`tcp:127.0.0.1:0` picks a free port). With --admin its address
/// follows, as http://ADDR:PORT. Ctrl-C and SIGTERM answer what is under way and end it.
#[derive(Args, Clone, Debug)]
pub struct Serve {
    /// Where to listen: shm:/path, unix:/path, udp:HOST:PORT, tcp:HOST:PORT or tls:HOST:PORT. May be repeated
    #[arg(short, long, value_name = "ADDRESS", required = true)]
    listen: Vec<Address>,

    /// HTTP port for metrics, registers, health, connections and traces; on loopback unless an address is given. Changes need the token whose
    /// file is printed
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = parse_address)]
    admin: Option<SocketAddr>,

    #[command(flatten)]
    listening: ListenArgs,

    #[command(flatten)]
    log: LogArgs,

    #[command(flatten)]
    keys: Keys,

    /// End when standard input is closed, too
    #[arg(long)]
    until_eof: bool,
}

impl Serve {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// An address cannot be listened on.
    pub fn run(&self) -> Result<(), RpcError> {
        self.log.start("rpc");
        self.listening.apply()?;
        let stop = Stop::on_signals().map_err(RpcError::Signal)?;
        let mut rpc = Rpc::demo(self.keys.clone())?;
        self.listen.iter().try_for_each(|address| rpc.listen("fabric", address)).map_err(RpcError::Server)?;
        let shell = Shell::of(rpc, self.listening.access(self.admin)?, stop.clone())?;
        shell.addresses().iter().for_each(|address| say(address));
        if let Some(admin) = shell.admin() {
            say(&admin.url());
            say(&format!("token {}", admin.token().display()));
        }
        if self.until_eof {
            stop.at_eof();
        }
        Ok(shell.wait()?)
    }
}

/// A server in a process of its own, that ends with this.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    addresses: Vec<Address>,
    folder: std::path::PathBuf,
}

impl Child {
    /// Starts one that listens on these transports, in a folder of its own or on free ports.
    ///
    /// # Errors
    /// It did not start.
    pub fn start(transports: &[&str], core: usize, batch: Batch) -> Result<Child, RpcError> {
        let failed = |what: &str, cause: std::io::Error| RpcError::Server(format!("{what}: {cause}"));
        let folder = std::env::temp_dir().join(format!("millrace-rpc-{}-{batch}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|cause| failed("a folder for its sockets", cause))?;
        let program = std::env::current_exe().map_err(|cause| failed("this program", cause))?;
        let mut command = Command::new(program);
        command.args([
            "rpc",
            "serve",
            "--until-eof",
            "--core",
            &core.to_string(),
            "--batch",
            &batch.to_string(),
        ]);
        for transport in transports {
            let address = match *transport {
                "udp" | "tcp" => format!("{transport}:127.0.0.1:0"),
                _ => format!("{transport}:{}", folder.join(transport).display()),
            };
            command.args(["--listen", &address]);
        }
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|cause| failed("this program", cause))?;
        let output = process.stdout.take().expect("it is piped");
        let lines = BufReader::new(output.take(1 << 16)).lines().take(transports.len());
        let addresses: Vec<Address> = lines.map_while(|line| line.ok()?.parse().ok()).collect();
        let child = Child { process, addresses, folder };
        if child.addresses.len() < transports.len() {
            return Err(RpcError::Server("it ended at once; its words are above".to_owned()));
        }
        Ok(child)
    }

    /// Where it listens on a transport.
    pub fn address(&self, transport: &str) -> Option<&Address> {
        self.addresses.iter().find(|address| address.transport().name() == transport)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It ends at the end of its input; what it left is in its folder.
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A server on a thread of this process.
#[derive(Debug)]
pub struct Local {
    address: Address,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Local {
    /// Starts one at `memory:`.
    ///
    /// # Errors
    /// The address is taken, or the thread cannot be put on its core.
    pub fn start(core: usize, batch: Batch) -> Result<Local, RpcError> {
        let name = format!("memory:bench-{batch}");
        let address: Address = name.parse().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let mut server = listen(with_demo(server(batch)?), &address)?;
        let over = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("rpc-server".to_owned()).spawn(move || {
            // Where it cannot be pinned the figures are what they are.
            let _ = cpu::pin_to(core);
            server.run_to_end(WaitPolicy::default(), &over, || {});
        });
        let thread = thread.map_err(|cause| RpcError::Server(cause.to_string()))?;
        Ok(Local { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed.
            let _ = thread.join();
        }
    }
}
