//! `millrace rpc serve`: the demonstration's services at given addresses; and the same as a child process or a thread, for benchmarks
//! and tests.

use super::RpcError;
use super::batch::Batch;
use super::demo::Demo;
use super::demo::proto::demo::EchoServer;
use crate::admin::health::Beat;
use crate::admin::{Admin, parse_address};
use crate::process::logger::LogArgs;
use crate::process::{stop_at_eof, stop_flag};
use base::registers::SetError;
use base::{Clock, cpu};
use clap::Args;
use fabric::link::Address;
use fabric::monitor::Monitor;
use fabric::registers::Registers;
use fabric::server::{Options, Server};
use ring::wait::WaitPolicy;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Serve something to try calls on.
///
/// demo.Echo answers in every way that a method can: at once, late, never well, with streams; `millrace rpc list ADDRESS --describe` shows it.
/// Each address is printed when it is ready (`tcp:127.0.0.1:0` picks a free port). With --admin its address
/// follows, as http://ADDR:PORT. Ctrl-C and SIGTERM answer what is under way and end it.
#[derive(Args, Clone, Debug)]
pub struct Serve {
    /// Where to listen: shm:/path, unix:/path, udp:HOST:PORT or tcp:HOST:PORT. May be repeated
    #[arg(short, long, value_name = "ADDRESS", required = true)]
    listen: Vec<Address>,

    /// HTTP port for metrics, registers, health, connections and traces; on loopback unless an address is given. Changes need the token whose
    /// file is printed
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = parse_address)]
    admin: Option<SocketAddr>,

    #[command(flatten)]
    log: LogArgs,

    /// Run on this core
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,

    /// Publish so many replies together, or as the load asks for
    #[arg(long, value_name = "N|adaptive", default_value = "adaptive")]
    batch: Batch,

    /// Never sleep
    #[arg(long)]
    spin: bool,

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
        let stop = stop_flag().map_err(RpcError::Signal)?;
        let beat = Beat::default();
        let mut server = server(self.batch)?;
        let mut admin = None;
        if let Some(address) = self.admin {
            let monitor = Monitor::default();
            let registers = Arc::clone(monitor.registers());
            self.tell(&registers).map_err(|error| RpcError::Server(error.to_string()))?;
            server = server.monitor(&monitor).registers(registers);
            let says = Arc::clone(&stop);
            let ready = move || match says.load(Ordering::Relaxed) {
                true => Err("draining".to_owned()),
                false => Ok(()),
            };
            let routes = super::admin::routes(&monitor).ready(ready).loops([beat.pulse("rpc-server")]);
            admin = Some(Admin::start(address, routes).map_err(RpcError::Admin)?);
        }
        for address in &self.listen {
            server = listen(server, address)?;
        }
        if let Some(core) = self.core {
            cpu::pin_to(core).map_err(RpcError::Pin)?;
        }
        for address in server.addresses() {
            println!("{address}");
        }
        if let Some(admin) = &admin {
            println!("http://{}", admin.address());
            println!("token {}", admin.token().display());
        }
        std::io::stdout().flush().map_err(RpcError::Output)?;
        if self.until_eof {
            stop_at_eof(Arc::clone(&stop));
        }
        let policy = if self.spin { WaitPolicy::SPIN } else { WaitPolicy::default() };
        serve(server, policy, &stop, &beat);
        drop(admin);
        Ok(())
    }
}

/// A server of the demonstration.
fn server(batch: Batch) -> Result<Server, RpcError> {
    let options = Options { batch: batch.policy(), ..Options::default() };
    let server = Server::try_new(options).map_err(|cause| RpcError::Server(cause.to_string()))?;
    Ok(server.service(EchoServer::new(Demo::new())))
}

fn listen(server: Server, address: &Address) -> Result<Server, RpcError> {
    crate::reach::warn_of("this RPC server", address);
    server.listen(address).map_err(|cause| RpcError::Server(format!("{address}: {cause}")))
}

impl Serve {
    /// Says in registers what was said in flags: the server follows them from then on.
    fn tell(&self, registers: &Registers) -> Result<(), SetError> {
        match self.batch {
            Batch::Adaptive => registers.set("batch.mode", "adaptive")?,
            Batch::Fixed(size) => {
                registers.set("batch.mode", "fixed")?;
                registers.set("batch.size", &size.to_string())?;
            }
        }
        if self.spin { registers.set("wait.block", "off") } else { Ok(()) }
    }
}

/// Serves until `stop`, then answers what is under way.
fn serve(mut server: Server, policy: WaitPolicy, stop: &AtomicBool, beat: &Beat) {
    server.run_with(policy, stop, || beat.turn());
    let clock = Clock::shared();
    server.drain(clock.now());
    while !server.is_drained() {
        beat.turn();
        server.wait(policy, clock.now().plus(Duration::from_millis(100).into()));
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
        let server = listen(server(batch)?, &address)?;
        let over = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("rpc-server".to_owned()).spawn(move || {
            // Where it cannot be pinned the figures are what they are.
            let _ = cpu::pin_to(core);
            serve(server, WaitPolicy::default(), &over, &Beat::default());
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
