//! A client of all chains of a cluster: a transaction goes to the one that has the slots of its keys.
//!
//! ```text
//!  transaction ─▶ slots of its keys (protocol::chain::slots) ─▶ the chain whose they are, as the cluster's file says ─▶ Client
//! ```
//! There is no agreement between chains, so a transaction over two of them is refused before anything is sent ([`Across`]). A chain that nobody answers for
//! is looked for again when a key of its own is asked for; the others' keys do not wait for it.
//!
//! Bounds: chains of a file; a [`Client`] for each.

use super::error::{Across, TxnError};
use super::find::Source;
use super::{Client, Options};
use crate::file;
use protocol::chain::message::{Refusal, RequestId, Status};
use protocol::chain::slots::{Map, Slots, slot};
use protocol::chain::{Outcome, Transaction};
use std::time::Duration;

/// A chain, and its client where somebody was found.
struct Shard {
    number: u32,
    client: Option<Client>,
}

/// See the head of the file.
pub struct Shards {
    map: Map,
    shards: Vec<Shard>,
    /// Of all of them, where there are several.
    sources: Vec<Source>,
    options: Options,
}

impl Shards {
    /// A client of the chain of this number, or of all that are found there: those of a file, or the one that the sources know of.
    ///
    /// # Errors
    /// As [`Client::find`], if nobody of any chain is found.
    pub fn find(sources: Vec<Source>, chain: Option<u32>, options: &Options) -> Result<Shards, TxnError> {
        let read = |source: &Source| match source {
            // What is wrong with a file is said where no other source helps.
            Source::File(path) => file::all(path).ok().filter(|all| all.len() > 1),
            _ => None,
        };
        let several = if chain.is_none() { sources.iter().find_map(read) } else { None };
        let Some(chains) = several else {
            return Ok(Shards::of(Client::find(sources, chain, options)?, options));
        };
        // All other sources are of one chain.
        let sources: Vec<Source> =
            sources.into_iter().filter(|source| matches!(source, Source::File(_))).collect();
        let slots: Vec<Slots> = chains.iter().map(|chain| chain.slots.clone()).collect();
        let map = Map::new(&slots).expect("the file was checked");
        let (mut shards, mut failed) = (Vec::new(), None);
        // At once: one that is silent takes its whole time.
        std::thread::scope(|scope| {
            let find = |number| {
                let sources = sources.clone();
                scope.spawn(move || Client::find(sources, Some(number), options))
            };
            let found: Vec<_> = chains.iter().map(|chain| (chain.number, find(chain.number))).collect();
            for (number, client) in found {
                let client = client.join().expect("looking for a chain does not panic");
                let client = client.map_err(|error| failed.get_or_insert(error).clone()).ok();
                shards.push(Shard { number, client });
            }
        });
        match failed {
            Some(error) if shards.iter().all(|shard| shard.client.is_none()) => Err(error),
            _ => Ok(Shards { map, shards, sources, options: options.clone() }),
        }
    }

    /// Of a client of the only chain.
    pub fn of(client: Client, options: &Options) -> Shards {
        let shards = vec![Shard { number: client.chain(), client: Some(client) }];
        Shards { map: Map::alone(), shards, sources: Vec::new(), options: options.clone() }
    }

    /// From now on operations end within this: as [`Options::patience`].
    pub fn set_patience(&mut self, patience: Duration) {
        self.options.patience = patience;
        self.shards
            .iter_mut()
            .flat_map(|shard| &mut shard.client)
            .for_each(|client| client.set_patience(patience));
    }

    /// The numbers of the chains.
    pub fn chains(&self) -> impl Iterator<Item = u32> {
        self.shards.iter().map(|shard| shard.number)
    }

    /// The client of the chain that a key is in; of what is each chain's own, of the first.
    ///
    /// # Errors
    /// It is not found.
    pub fn chain_of(&mut self, key: &[u8]) -> Result<&mut Client, TxnError> {
        let at = slot(key).map_or(0, |slot| self.map.of(slot));
        self.client(at)
    }

    /// As [`Client::execute`], in the chain that has all of its keys.
    ///
    /// # Errors
    /// As there; [`TxnError::Across`], [`TxnError::NoChain`].
    pub fn execute(&mut self, transaction: Transaction) -> Result<Outcome, TxnError> {
        transaction.check().map_err(|malformed| TxnError::Refused(Refusal::Malformed(malformed)))?;
        let number = |at: usize| self.shards[at].number;
        let at = self.map.route(&transaction).map_err(|across| {
            let ((one, at), (other, there)) = (across.one, across.other);
            TxnError::Across(Across { keys: [one, other], chains: [number(at), number(there)] })
        })?;
        self.client(at.ok_or(TxnError::NoChain)?)?.execute(transaction)
    }

    /// As [`Client::status`], of whichever chain knows the session.
    ///
    /// # Errors
    /// As there; a chain that does not answer may be the one.
    pub fn status(&mut self, id: RequestId) -> Result<Status, TxnError> {
        let mut silent = None;
        for at in 0..self.shards.len() {
            match self.client(at).and_then(|client| client.status(id)) {
                // That of another chain, or one that is forgotten.
                Ok(Status::Forgotten) => {}
                Ok(status) => return Ok(status),
                Err(error) => silent = Some(error),
            }
        }
        silent.map_or(Ok(Status::Forgotten), Err)
    }

    /// Ends it; the chains forget its sessions.
    pub fn close(self) {
        self.shards.into_iter().filter_map(|shard| shard.client).for_each(Client::close);
    }

    fn client(&mut self, at: usize) -> Result<&mut Client, TxnError> {
        let Shards { shards, sources, options, .. } = self;
        let Shard { number, client } = &mut shards[at];
        match client {
            Some(client) => Ok(client),
            none => Ok(none.insert(Client::find(sources.clone(), Some(*number), options)?)),
        }
    }
}
