//! A replica of a chain as a service of a process.

use super::error::ChainError;
use super::gate::gate;
use super::node::Node;
use super::registers::Registers;
use super::replica::Keys;
use crate::admin::Routes;
use crate::cluster;
use crate::engine_cores::EngineCore;
use crate::process::table::{Table, Wrong};
use crate::process::{Stop, say};
use crate::shell::{Failure, Loop, Service};
use base::registers::Shown;
use base::rights::ServiceRights;
use base::trace::Tracer;
use fabric::link::Address;
use fabric::server::Gate;
use std::sync::Arc;

/// A replica, running or not.
pub struct Serving {
    keys: Keys,
    listen: Vec<Address>,
    registers: Arc<Registers>,
    /// Who may do what, where there is a file of rights.
    gate: Option<Gate>,
    node: Option<Node>,
    /// Where clients find it.
    found: Vec<String>,
    running: Option<Loop<Result<(), ChainError>>>,
    tracer: Tracer,
}

impl Serving {
    /// One that serves clients there.
    pub fn new(keys: Keys, listen: Vec<Address>, registers: Registers) -> Serving {
        let registers = Arc::new(registers);
        Serving {
            keys,
            listen,
            registers,
            gate: None,
            node: None,
            found: Vec::new(),
            running: None,
            tracer: Tracer::default(),
        }
    }

    /// As a table of a config file says.
    ///
    /// # Errors
    /// Says which key is wrong.
    pub fn of(table: &Table<'_>) -> Result<Serving, Wrong> {
        let keys: Keys = table.flags(&["kind"])?;
        let file = table.get("cluster");
        let wrong = |error: ChainError| {
            file.as_ref().map_or_else(|| table.wrong(error.to_string()), |file| file.wrong(error.to_string()))
        };
        let (keys, seat) = keys.settle().map_err(wrong)?;
        let registers = super::replica::registers(&seat.set).map_err(wrong)?;
        table.registers(&registers, &[])?;
        Ok(Serving::new(keys, seat.listen, registers))
    }
}

impl Service for Serving {
    fn kind(&self) -> &'static str {
        "txn"
    }

    fn role(&self) -> String {
        self.keys.name()
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["fabric"]
    }

    fn is_placed(&self) -> bool {
        !self.listen.is_empty()
    }

    fn listen(&mut self, _protocol: &str, address: &Address) -> Result<(), String> {
        self.listen.push(address.clone());
        Ok(())
    }

    fn registers(&self) -> Vec<Shown> {
        self.registers.show()
    }

    fn trace(&mut self, tracer: Tracer) {
        self.tracer = tracer;
    }

    fn guard(&mut self, rights: ServiceRights) -> Result<(), Failure> {
        self.gate = Some(gate(rights));
        Ok(())
    }

    fn open(&mut self, _core: &Arc<EngineCore>, is_shown: bool) -> Result<Routes, Failure> {
        let mut node = self.keys.open(&self.listen, Arc::clone(&self.registers), self.gate.take())?;
        self.found = node.addresses();
        node.traced_by(&self.tracer);
        let mut routes = Routes::default();
        if is_shown {
            routes = node.routes().traces(&self.tracer);
            if let Some(file) = &self.keys.cluster {
                routes = routes.service(None, cluster::live::routes(file.clone()));
            }
        }
        self.node = Some(node);
        Ok(routes)
    }

    fn start(&mut self, stop: &Stop) -> Result<(), Failure> {
        let mut node = self.node.take().expect("it was opened");
        let name = self.keys.name();
        say(&format!("{name} serves clients at {}, {}", self.found.join(", "), node.state()));
        let run = move |stop: &_| {
            let ended = node.run(stop);
            say(&format!("{name} ends: {}", node.state()));
            ended
        };
        let running = Loop::start(format!("replica-{}", self.keys.id), stop, run);
        self.running = Some(running.map_err(|error| ChainError::System("start a thread", error))?);
        Ok(())
    }

    fn addresses(&self) -> Vec<String> {
        self.found.clone()
    }

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.running.as_mut().and_then(Loop::finish).unwrap_or(Ok(()))?)
    }
}
