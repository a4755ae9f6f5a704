//! The chains that a server's items lie in: where they are found, and a client of each, on a thread of its own, so that one that does not answer keeps only
//! its own keys waiting.
//!
//! Bounds: chains of a file; a thread and [`super::chain_client`]'s for each.

use super::chain_client::{ChainClient, Figures, Relayed, Transactions};
use super::claiming::{Claiming, ConnectError};
use super::post::Post;
use super::registers::Registers;
use super::service::chained::Answer;
use super::service::chained::spread::Spread;
use crate::process::cluster_file;
use ::client::chain::{Across, Source, TxnError};
use fabric::link::Address;
use protocol::chain::Transaction;
use protocol::chain::message::RequestId;
use protocol::chain::slots::{self, Map, Slots};
use protocol::planted::NoBugs;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Where chains are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A replica of the one chain.
    Replica(Address),
    /// The file of the cluster, with the slots of each of its chains. Its name ends in `.toml`.
    File(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if text.ends_with(".toml") {
            return Ok(Place::File(text.into()));
        }
        let wrong = |error| format!("{error}; or the file of the cluster, whose name ends in .toml");
        text.parse().map(Place::Replica).map_err(wrong)
    }
}

/// A chain, before it is looked for.
struct Found {
    source: Source,
    number: Option<u32>,
    slots: Slots,
}

/// All chains that the places are of: one, or those of a file.
fn find(places: &[Place]) -> Result<Vec<Found>, String> {
    if let [Place::File(path)] = places {
        let chains = cluster_file::all(path).map_err(|wrong| wrong.to_string())?;
        let found = |chain: cluster_file::Chain| Found {
            source: Source::File(path.clone()),
            number: Some(chain.number),
            slots: chain.slots,
        };
        return Ok(chains.into_iter().map(found).collect());
    }
    let address = |place: &Place| match place {
        Place::Replica(address) => Ok(address.clone()),
        Place::File(path) => Err(format!(
            "--chain-at names the file {}, which says where all replicas are, and something else: leave one of them out",
            path.display()
        )),
    };
    let addresses = places.iter().map(address).collect::<Result<_, _>>()?;
    Ok(vec![Found { source: Source::Replicas(addresses), number: None, slots: Slots::default() }])
}

/// See the head of the file.
pub struct Chains {
    clients: Vec<ChainClient>,
    spread: Spread,
}

impl Chains {
    /// Clients of all chains that are found there; `post` is told when transactions are done. With what each counts. With `home` each claims its chain first.
    ///
    /// # Errors
    /// Nobody is there, of one of them, or no thread can be had.
    pub fn connect(
        places: &[Place],
        registers: &Registers,
        post: &Arc<Post>,
        home: Option<&Claiming>,
    ) -> Result<(Chains, EachChain), ConnectError> {
        let found = find(places).map_err(ConnectError::File)?;
        let slots: Vec<Slots> = found.iter().map(|found| found.slots.clone()).collect();
        let map = Map::new(&slots).expect("the file was checked");
        let connect = |Found { source, number, .. }| {
            ChainClient::connect((source, number), registers, Arc::clone(post), home)
        };
        let clients = found.into_iter().map(connect).collect::<Result<Vec<_>, _>>()?;
        let figures = clients.iter().map(ChainClient::figures).collect();
        Ok((Chains { clients, spread: Spread::new(map, NoBugs) }, figures))
    }
}

impl Transactions for Chains {
    fn send(&mut self, transactions: Vec<(u64, Transaction)>) {
        if let [one] = &self.clients[..] {
            return one.send(transactions);
        }
        let mut each: Vec<Vec<(u64, Transaction)>> = self.clients.iter().map(|_| Vec::new()).collect();
        for (number, transaction) in transactions {
            for (at, transaction) in self.spread.send(number, transaction) {
                each[at].push((number, transaction));
            }
        }
        self.clients.iter().zip(each).for_each(|(client, transactions)| client.send(transactions));
    }

    #[inline]
    fn take_done(&mut self) -> Vec<(u64, Answer)> {
        if let [one] = &self.clients[..] {
            return one.take_done();
        }
        let Chains { clients, spread } = self;
        let of_one = |(at, client): (usize, &ChainClient)| {
            client.take_done().into_iter().map(move |(number, answer)| (at, number, answer))
        };
        let done = clients.iter().enumerate().flat_map(of_one);
        done.filter_map(|(at, number, answer)| Some((number, spread.hear(at, number, answer)?))).collect()
    }

    fn check(&self, transaction: &Transaction) -> Result<(), String> {
        let number = |at: usize| self.clients[at].figures().chain();
        let error = match self.spread.map().route(transaction) {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => TxnError::NoChain,
            Err(slots::Across { one: (one, at), other: (other, there) }) => {
                TxnError::Across(Across { keys: [one, other], chains: [number(at), number(there)] })
            }
        };
        Err(error.to_string())
    }

    fn relay(&mut self, transactions: Vec<(RequestId, Transaction)>) {
        let mut each: Vec<Vec<(RequestId, Transaction)>> = self.clients.iter().map(|_| Vec::new()).collect();
        for (id, transaction) in transactions {
            // They were checked. A chain refuses keys of others.
            let at = self.spread.map().route(&transaction).ok().flatten().unwrap_or(0);
            each[at].push((id, transaction));
        }
        self.clients.iter().zip(each).for_each(|(client, transactions)| client.relay(transactions));
    }

    #[inline]
    fn take_relayed(&mut self) -> Vec<(RequestId, Relayed)> {
        self.clients.iter().flat_map(ChainClient::take_relayed).collect()
    }
}

/// What the client of each chain counts.
pub type EachChain = Vec<Arc<Figures>>;

/// Whether one of the chains answers, of which these are the figures; else why they are thought not to.
///
/// # Errors
/// In words.
pub fn check_ready(figures: &[Arc<Figures>]) -> Result<(), String> {
    if figures.iter().any(|figures| !figures.is_silent()) {
        return Ok(());
    }
    let numbers: Vec<String> = figures.iter().map(|figures| figures.chain().to_string()).collect();
    Err(format!("no chain that items lie in answers: {} (`millrace chain status`)", numbers.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_or_a_file() {
        assert_eq!("a/cluster.toml".parse(), Ok(Place::File("a/cluster.toml".into())));
        assert!(matches!("tcp:h:1".parse(), Ok(Place::Replica(_))));
        let error = "cluster.tml".parse::<Place>().expect_err("neither");
        assert!(error.ends_with("whose name ends in .toml"), "{error}");
        let both = find(&["c.toml", "tcp:h:1"].map(|place| place.parse().expect("a place")));
        assert!(both.err().expect("both").contains("leave one of them out"));
        let none = find(&[Place::File("no-such.toml".into())]).err().expect("it is not there");
        assert!(none.contains("no-such.toml"), "{none}");
    }
}
