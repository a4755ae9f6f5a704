//! A controller of a chain as a service of a process.

use super::command::{Keys, ready, registers};
use super::error::ControllerError;
use super::process::Process;
use crate::admin::Routes;
use crate::chain::registers::Registers;
use crate::engine_cores::EngineCore;
use crate::process::table::{Table, Wrong};
use crate::process::{Stop, say};
use crate::shell::{Failure, Loop, Service};
use base::registers::Shown;
use fabric::link::Address;
use std::sync::Arc;

/// A controller, running or not.
pub struct Controlling {
    keys: Keys,
    listen: Option<Address>,
    registers: Arc<Registers>,
    process: Option<Process>,
    found: Option<String>,
    running: Option<Loop<()>>,
}

impl Controlling {
    /// One that replicas find there.
    pub fn new(keys: Keys, listen: Option<Address>, registers: Registers) -> Controlling {
        let registers = Arc::new(registers);
        Controlling { keys, listen, registers, process: None, found: None, running: None }
    }

    /// As a table of a config file says.
    ///
    /// # Errors
    /// Says which key is wrong.
    pub fn of(table: &Table<'_>) -> Result<Controlling, Wrong> {
        let keys: Keys = table.flags(&["kind"])?;
        let file = table.get("cluster");
        let wrong = |error: ControllerError| {
            file.as_ref().map_or_else(|| table.wrong(error.to_string()), |file| file.wrong(error.to_string()))
        };
        let (keys, seat) = keys.settle().map_err(wrong)?;
        let registers = registers(&seat.set).map_err(wrong)?;
        table.registers(&registers, &[])?;
        Ok(Controlling::new(keys, seat.listen, registers))
    }
}

impl Service for Controlling {
    fn kind(&self) -> &'static str {
        "chain-controller"
    }

    fn role(&self) -> String {
        self.keys.name()
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["chain"]
    }

    fn is_placed(&self) -> bool {
        self.listen.is_some()
    }

    fn listen(&mut self, _protocol: &str, address: &Address) -> Result<(), String> {
        match self.listen.replace(address.clone()) {
            Some(first) => Err(format!("a controller has one listener, and that is at {first}")),
            None => Ok(()),
        }
    }

    fn registers(&self) -> Vec<Shown> {
        self.registers.show()
    }

    fn open(&mut self, _core: &Arc<EngineCore>, is_shown: bool) -> Result<Routes, Failure> {
        let listen = self.listen.as_ref().expect("a controller without listener is refused before");
        let mut process = self.keys.open(listen, &self.registers)?;
        self.found = process.address().map(Address::to_string);
        let routes = if is_shown { process.routes(Arc::clone(&self.registers)) } else { Routes::default() };
        self.process = Some(process);
        Ok(routes)
    }

    fn start(&mut self, stop: &Stop) -> Result<(), Failure> {
        let mut process = self.process.take().expect("it was opened");
        say(&ready(&process));
        let run = move |stop: &_| process.run(stop, say);
        self.running = Some(Loop::start("chain-controller", stop, run).map_err(ControllerError::System)?);
        Ok(())
    }

    fn addresses(&self) -> Vec<String> {
        self.found.iter().cloned().collect()
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.running.as_mut().and_then(Loop::finish);
        Ok(())
    }
}
