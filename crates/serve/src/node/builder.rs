//! A node of a Rust program:
//!
//! ```no_run
//! use serve::node::Node;
//! # use serve::rpc::demo::{Demo, proto::demo::EchoServer};
//!
//! # fn main() -> Result<(), serve::node::NodeError> {
//! Node::builder()
//!     .service("shop", EchoServer::new(Demo::new()))
//!     .listen("tcp:127.0.0.1:7000")
//!     .listen_as("grpc", "127.0.0.1:50051")
//!     .kv("cache", Default::default())
//!     .listen("tcp:127.0.0.1:11211")
//!     .admin("127.0.0.1:9211")
//!     .run()
//! # }
//! ```

use super::plan::Plan;
use crate::admin::parse_address;
use crate::engine_cores::EnginePlan;
use crate::kv::Kv;
use crate::kv::config::{Config, Listen};
use crate::process::logger::LogArgs;
use crate::process::{Stop, say};
use crate::shell::{Service, Shell, ShellError};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why there is no node.
#[derive(Debug)]
pub enum NodeError {
    /// What was said does not fit together.
    Plan(String),
    /// It could not be served, or failed later.
    Shell(ShellError),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::Plan(why) => f.write_str(why),
            NodeError::Shell(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NodeError {}

impl From<ShellError> for NodeError {
    fn from(error: ShellError) -> NodeError {
        NodeError::Shell(error)
    }
}

/// What a node is to serve.
#[derive(Default)]
pub struct Builder {
    plan: Plan,
    /// The first thing that was wrong.
    wrong: Option<String>,
}

/// A running node, until it is dropped or stopped.
pub struct Node {
    shell: Shell,
    stop: Stop,
}

impl Node {
    /// One that serves nothing yet.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Where a service is found.
    pub fn addresses(&self, name: &str) -> Vec<String> {
        let mut all = self.shell.services();
        all.find(|(known, ..)| *known == Some(name)).map(|(.., addresses)| addresses).unwrap_or_default()
    }

    /// Where operators find it.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.shell.admin().map(|admin| admin.address())
    }

    /// Answers what has come, and ends.
    ///
    /// # Errors
    /// A service had failed.
    pub fn stop(self) -> Result<(), NodeError> {
        self.stop.stop();
        Ok(self.shell.wait()?)
    }
}

impl Builder {
    /// An RPC service, of stubs that `fabric::build` made: `ShopServer::new(Shop)`. It speaks `fabric`, and `grpc`.
    #[cfg(feature = "rpc")]
    #[must_use]
    pub fn service(self, name: &str, service: impl fabric::service::Service + 'static) -> Builder {
        match crate::rpc::Rpc::of_service(service) {
            Ok(rpc) => self.add(name, rpc),
            Err(error) => self.and(|_| Err(error.to_string())),
        }
    }

    /// A key-value server for memcached clients, with these registers. Its listeners are those that it is given here.
    #[must_use]
    pub fn kv(self, name: &str, config: Config) -> Builder {
        let listen = Listen { tcp: Vec::new(), ..config.listen };
        self.add(name, Kv::new(Config { listen, ..config }))
    }

    /// A service of any kind.
    #[must_use]
    pub fn add(self, name: &str, service: impl Service + 'static) -> Builder {
        self.and(|plan| plan.add(name, Box::new(service)))
    }

    /// The service that was named last is found here; what it speaks is the first of its kind's protocols.
    #[must_use]
    pub fn listen(self, address: &str) -> Builder {
        self.and(|plan| listen(plan, None, address))
    }

    /// The same, with another protocol.
    #[must_use]
    pub fn listen_as(self, protocol: &str, address: &str) -> Builder {
        self.and(|plan| listen(plan, Some(protocol), address))
    }

    /// The node has so many engine cores, which are said before services are put on them; one unless it is said.
    #[must_use]
    pub fn engine_cores(self, cores: usize) -> Builder {
        self.engine(|plan| EnginePlan { cores, ..plan })
    }

    /// Processors of the engine cores' threads, one for each.
    #[must_use]
    pub fn pin_engine_cores(self, processors: &[usize]) -> Builder {
        self.engine(|plan| EnginePlan { pin: processors.to_vec(), ..plan })
    }

    /// Host threads of the process, instead of what its services wish.
    #[must_use]
    pub fn host_threads(self, threads: usize) -> Builder {
        self.engine(|plan| EnginePlan { host_threads: Some(threads), ..plan })
    }

    /// The service that was named last is on this engine core; on core 0 unless it is said.
    #[must_use]
    pub fn on_engine_core(self, engine_core: usize) -> Builder {
        self.and(|plan| plan.put_on(last(plan)?, engine_core))
    }

    /// Operators find the node here: a port, or ADDR:PORT.
    #[must_use]
    pub fn admin(self, address: &str) -> Builder {
        self.and(|plan| plan.set_admin(parse_address(address)?))
    }

    /// Clients and operators may do what this file says, and nothing else (`docs/security.md`, Rights).
    #[must_use]
    pub fn rights(mut self, file: impl Into<PathBuf>) -> Builder {
        self.plan.rights.rights = Some(file.into());
        self
    }

    fn engine(self, said: impl FnOnce(EnginePlan) -> EnginePlan) -> Builder {
        self.and(|plan| plan.set_engine(said(plan.engine.clone())).map_err(|(_, why)| why))
    }

    fn and(mut self, say: impl FnOnce(&mut Plan) -> Result<(), String>) -> Builder {
        if self.wrong.is_none() {
            self.wrong = say(&mut self.plan).err();
        }
        self
    }

    /// Serves.
    ///
    /// # Errors
    /// What was said does not fit together, or something cannot be had.
    pub fn start(self) -> Result<Node, NodeError> {
        self.start_until(Stop::new().map_err(ShellError::Signal)?)
    }

    fn start_until(self, stop: Stop) -> Result<Node, NodeError> {
        if let Some(wrong) = self.wrong {
            return Err(NodeError::Plan(wrong));
        }
        if let Some(silent) = self.plan.silent() {
            return Err(NodeError::Plan(format!(
                "nobody can reach service {:?}: say where it listens",
                silent.name
            )));
        }
        Ok(Node { shell: self.plan.start(stop.clone())?, stop })
    }

    /// Serves until Ctrl-C or SIGTERM, and says where on standard output.
    ///
    /// # Errors
    /// As [`Builder::start`]; or a service failed.
    pub fn run(self) -> Result<(), NodeError> {
        LogArgs::default().start("node");
        let node = self.start_until(Stop::on_signals().map_err(ShellError::Signal)?)?;
        lines(&node.shell).iter().for_each(|line| say(line));
        Ok(node.shell.wait()?)
    }
}

fn listen(plan: &mut Plan, protocol: Option<&str>, address: &str) -> Result<(), String> {
    plan.listen(last(plan)?, protocol, address)
}

fn last(plan: &Plan) -> Result<usize, String> {
    plan.services.len().checked_sub(1).ok_or_else(|| "say first which service is meant".to_owned())
}

/// Where all of it is found.
pub fn lines(shell: &Shell) -> Vec<String> {
    let line = |(name, kind, addresses): (Option<&str>, &str, Vec<String>)| {
        format!("{}: {kind} at {}", name.unwrap_or(kind), addresses.join(", "))
    };
    let admin = shell.admin().map(|admin| format!("admin: {}", admin.url()));
    shell.services().map(line).chain(admin).collect()
}
