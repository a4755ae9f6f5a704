//! Our chain as a side: processes on this machine, and sessions on them; one chain for all modes.

use super::lane::Lane;
use super::passes::Mode;
use super::side::{Side, Slice};
use super::tally::Tally;
use super::workload::Workload;
use protocol::chain::Transaction;
use ring::wait::WaitPolicy;
use serve::txn::reply::survives;
use serve::txn::spawned::{Plan, Spawned};
use serve::txn::{Client, Options};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

/// Preloading transactions under way.
const PRELOADS: usize = 16;

/// A chain with its sessions.
pub struct Rig {
    chain: Spawned,
    clients: Vec<Client>,
    filled: BTreeSet<Workload>,
    options: Options,
    promise: String,
}

impl Rig {
    /// Starts a chain.
    ///
    /// # Errors
    /// A sentence.
    pub fn start(program: &Path, plan: &Plan, spin: bool) -> Result<Rig, String> {
        let wait = if spin { WaitPolicy::SPIN } else { WaitPolicy::default() };
        let options = Options { wait, ..Options::default() };
        let chain = Spawned::start(program, plan)?;
        let mut client = Client::connect(&chain.addresses(), &options).map_err(|error| error.to_string())?;
        // The first transaction is answered when the chain is whole.
        let outcome =
            client.execute(Transaction::new().put("bench", "1")).map_err(|error| error.to_string())?;
        let promise = format!("{}, {} copies", survives(outcome.durability), outcome.copies);
        Ok(Rig { chain, clients: vec![client], filled: BTreeSet::new(), options, promise })
    }

    fn sessions(&mut self, count: usize) -> Result<&mut [Client], String> {
        while self.clients.len() < count {
            let client = Client::connect(&self.chain.addresses(), &self.options);
            self.clients.push(client.map_err(|error| error.to_string())?);
        }
        Ok(&mut self.clients[..count])
    }

    fn fill(&mut self, workload: Workload) -> Result<(), String> {
        if !self.filled.insert(workload.data()) {
            return Ok(());
        }
        let client = &mut self.clients[0];
        let mut transactions = workload.preload().peekable();
        let mut under_way = 0;
        while under_way > 0 || transactions.peek().is_some() {
            while under_way < PRELOADS
                && let Some(transaction) = transactions.next()
            {
                client.start(transaction).map_err(|error| error.to_string())?;
                under_way += 1;
            }
            while let Some((_, result)) = client.poll() {
                let outcome = result.map_err(|error| format!("the preload failed: {error}"))?;
                if let Some(abort) = outcome.abort {
                    return Err(format!(
                        "the preload does not fit ({abort:?}): use fewer --keys, or give the chain more --data-size"
                    ));
                }
                under_way -= 1;
            }
            client.wait(None);
        }
        Ok(())
    }

    fn run(&mut self, mode: Mode, slice: Slice) -> Result<Tally, String> {
        let (sessions, window) = slice.load.shape();
        let session = |(at, client)| Lane::new(client, slice.tasks(at), mode, at as u64, window);
        let mut lanes: Vec<Lane<'_>> = self.sessions(sessions)?.iter_mut().enumerate().map(session).collect();
        slice.run(&mut lanes)
    }
}

/// A mode on a chain.
pub struct Ours {
    /// The chain, which other modes share.
    pub rig: Rc<RefCell<Rig>>,
    /// How transactions are taken through it.
    pub mode: Mode,
}

impl Side for Ours {
    fn name(&self) -> String {
        self.mode.to_string()
    }

    fn promise(&self) -> String {
        self.rig.borrow().promise.clone()
    }

    fn can(&self, _workload: Workload) -> bool {
        true
    }

    fn preload(&mut self, workload: Workload) -> Result<(), String> {
        self.rig.borrow_mut().fill(workload)
    }

    fn run(&mut self, slice: Slice) -> Result<Tally, String> {
        self.rig.borrow_mut().run(self.mode, slice)
    }
}
