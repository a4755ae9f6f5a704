//! A node that serves pictures: over the fabric (TCP, shared memory, whatever links there are) and by HTTP/2 for gRPC clients.

use crate::proto::photo::PhotosServer;
use crate::service::{Sealer, kernels};
use codec::unit::kernels::SealingKey;
use fabric::channel::{CallOptions, Channel};
use fabric::monitor::Monitor;
use fabric::server::AcceleratorFigures;
use serve::node::{Builder, Node};
use serve::rpc::Rpc;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Names of nodes' own channels differ.
static CONTROLS: AtomicU32 = AtomicU32::new(0);

/// Of the node's service.
const NAME: &str = "images";

/// What carries the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// The fabric over TCP
    Tcp,
    /// gRPC, over HTTP/2
    Grpc,
    /// The fabric over shared memory
    Shm,
}

impl Transport {
    /// Where it is listened for, if nothing else is said: a free port, or a name in `folder`.
    pub fn anywhere(self, folder: &Path) -> String {
        match self {
            Transport::Tcp => "tcp:127.0.0.1:0".to_owned(),
            Transport::Grpc => "127.0.0.1:0".to_owned(),
            Transport::Shm => format!("shm:{}", folder.join("images").display()),
        }
    }
}

/// A node that runs. Its accelerator has a unit from the beginning.
pub struct Served {
    node: Node,
    monitor: Monitor,
    /// The server looks at its registers when it has something to do.
    control: Mutex<Channel>,
    pub sealer: Arc<Sealer>,
}

impl Served {
    /// A node that listens for those, each with its address, and for operators on `admin`, or anywhere free; its monitor, and its handler.
    ///
    /// # Errors
    /// In words.
    pub fn node(
        listen: &[(Transport, String)],
        admin: Option<&str>,
        key: &Arc<SealingKey>,
    ) -> Result<(Builder, Monitor, Arc<Sealer>), Box<dyn Error>> {
        let sealer = Arc::new(Sealer::default());
        let rpc = Rpc::of_service(PhotosServer::shared(Arc::clone(&sealer)))?.kernels(kernels(key));
        let rpc = rpc.with("acc.on", "on")?.with("acc.units", "1")?.with("acc.memory", "64m")?;
        let monitor = rpc.monitor().clone();
        let mut node = Node::builder().add(NAME, rpc);
        for (transport, address) in listen {
            node = match transport {
                Transport::Grpc => node.listen_as("grpc", address),
                _ => node.listen(address),
            };
        }
        // Without it nobody counts.
        Ok((node.admin(admin.unwrap_or("127.0.0.1:0")), monitor, sealer))
    }

    /// Starts such a node.
    ///
    /// # Errors
    /// In words.
    pub fn start(listen: &[(Transport, String)], key: &Arc<SealingKey>) -> Result<Served, Box<dyn Error>> {
        let (node, monitor, sealer) = Served::node(listen, None, key)?;
        let control = format!("memory:images-control-{}", CONTROLS.fetch_add(1, Ordering::Relaxed));
        let node = node.listen(&control).start()?;
        let control = Mutex::new(Channel::connect(&control.parse()?, &Default::default())?);
        Ok(Served { node, monitor, control, sealer })
    }

    /// Where it listens for that.
    ///
    /// # Panics
    /// If it does not.
    pub fn address(&self, transport: Transport) -> String {
        let scheme = match transport {
            Transport::Tcp => "tcp:",
            Transport::Grpc => "grpc:",
            Transport::Shm => "shm:",
        };
        let all = self.node.addresses(NAME);
        all.into_iter()
            .find(|address| address.starts_with(scheme))
            .unwrap_or_else(|| panic!("it listens on no {scheme}"))
    }

    /// The accelerator's figures.
    ///
    /// # Panics
    /// Before the first call: the server starts its accelerator then.
    pub fn figures(&self) -> AcceleratorFigures {
        self.monitor.accelerators().pop().expect("acc.on says that there is one")
    }

    /// Fields that were moved to the other memory so far.
    pub fn moves(&self) -> u64 {
        let lanes = self.figures().lanes;
        lanes.moved_to_acc + lanes.moved_to_host
    }

    /// Sets a live register.
    ///
    /// # Panics
    /// If there is none of that name, or it takes no such value.
    pub fn set(&self, register: &str, value: &str) {
        self.monitor.registers().set_live(register, value).expect("such a register");
    }

    /// The unit is there from now on, or not. The server has seen it when this returns.
    pub fn set_unit(&self, there: bool) {
        self.set("acc.units", if there { "1" } else { "0" });
        let seen = || self.monitor.accelerators().iter().any(|one| one.units[0].is_there == there);
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        while !seen() {
            control.reflect(&CallOptions::default()).expect("the server is there");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Answers what has come, and ends.
    ///
    /// # Errors
    /// A thread of it failed.
    pub fn stop(self) -> Result<(), Box<dyn Error>> {
        Ok(self.node.stop()?)
    }
}
