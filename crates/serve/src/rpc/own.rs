//! A server in this process for whoever asks it himself: with an engine core, on a thread of its own. For what tries and measures places; servers for
//! others are services of a process (`in_node`).

use super::RpcError;
use super::engine::{OnThisCore, come};
use crate::engine_cores::{EngineCores, EngineWishes};
use fabric::link::Address;
use fabric::registers::Registers;
use fabric::server::Server;
use ring::wait::WaitPolicy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// It serves until it is dropped. Its threads may use the processors that the thread which starts it may.
pub struct OwnServer {
    addresses: Vec<Address>,
    registers: Arc<Registers>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    // After the thread, which has calls on it.
    _engine: OnThisCore,
    _cores: EngineCores,
}

impl OwnServer {
    /// Of a server that has its services and listens.
    ///
    /// # Errors
    /// The system gives no threads, or no descriptors.
    pub fn start(server: Server) -> Result<OwnServer, RpcError> {
        let failed = |why: String| RpcError::Server(why);
        let registers = Arc::new(Registers::default());
        let server = server.registers(Arc::clone(&registers));
        let addresses = server.addresses().cloned().collect();
        let cores = EngineCores::for_one(EngineWishes::default()).map_err(|why| failed(why.to_string()))?;
        let (mut server, engine) =
            come(server, cores.core(0), &registers).map_err(|why| failed(why.to_string()))?;
        let stop = Arc::<AtomicBool>::default();
        let over = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("rpc-server".to_owned());
        // The registers say how it waits.
        let thread = thread.spawn(move || server.run(WaitPolicy::default(), &over));
        let thread = Some(thread.map_err(|why| failed(why.to_string()))?);
        Ok(OwnServer { addresses, registers, stop, thread, _engine: engine, _cores: cores })
    }

    /// Where it listens, in the order in which it was told to.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Its registers.
    pub fn registers(&self) -> &Registers {
        &self.registers
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed, and its clients' calls failed.
            let _ = thread.join();
        }
    }
}
