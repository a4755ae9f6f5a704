//! Who is at these addresses: all are asked at once, each on a thread, and each tells of the others.

use super::error::TxnError;
use super::place::{Opened, Place, open};
use fabric::channel::Options;
use fabric::link::Address;
use protocol::chain::{Epoch, ReplicaId};
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::time::Instant;

/// What is known so far of who is where.
#[derive(Default)]
pub(super) struct Finding {
    /// The chain that is looked for, or whose replica answered first.
    pub(super) chain: Option<u32>,
    pub(super) places: BTreeMap<ReplicaId, Place>,
    /// The order of the chain, as the newest configuration has it that somebody told of.
    pub(super) order: (Epoch, Vec<ReplicaId>),
    /// Who answered there.
    answered: Vec<Address>,
    failed: Vec<(Address, String)>,
}

impl Finding {
    /// Asks, until each address answered, or failed, or is known from another; for as long as the options say.
    ///
    /// # Errors
    /// Nobody answered, or a replica of another chain than `chain`, or of two.
    pub(super) fn search(
        addresses: &[Address],
        chain: Option<u32>,
        options: &Options,
    ) -> Result<Finding, TxnError> {
        let (said, answers) = channel();
        for (at, address) in addresses.iter().enumerate() {
            let (said, address, options) = (said.clone(), address.clone(), options.clone());
            let failed = addresses[at].clone();
            let connect = move || drop(said.send((at, open(&address, &options))));
            let thread = std::thread::Builder::new().name("txn-connect".to_owned()).spawn(connect);
            thread.map_err(|error| TxnError::Nobody(vec![(failed, error.to_string())]))?;
        }
        drop(said);
        let mut finding = Finding { chain, ..Finding::default() };
        let until = Instant::now() + options.timeout;
        // The channel is closed when everybody has answered.
        while !finding.knows_all(addresses)
            && let Ok((at, opened)) = answers.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            finding.heard(addresses[at].clone(), opened)?;
        }
        if finding.answered.is_empty() { Err(TxnError::Nobody(finding.failed)) } else { Ok(finding) }
    }

    fn heard(&mut self, address: Address, opened: Result<Opened, String>) -> Result<(), TxnError> {
        let opened = match opened {
            Ok(opened) => opened,
            Err(why) => {
                self.failed.push((address, why));
                return Ok(());
            }
        };
        let info = &opened.info;
        match self.chain {
            Some(chain) if chain != info.chain => return Err(TxnError::Chains(chain, info.chain)),
            _ => self.chain = Some(info.chain),
        }
        if info.epoch > self.order.0 {
            self.order = (info.epoch, info.members.iter().map(|member| member.replica).collect());
        }
        for member in &info.members {
            if let Some(address) = &member.address {
                self.places
                    .entry(member.replica)
                    .or_insert_with(|| Place::new(member.replica, address.clone()));
            }
        }
        // Who answers there itself is believed more than what others say.
        let replica = info.replica;
        let mut place = Place::new(replica, address.clone());
        place.opened(opened);
        self.places.insert(replica, place);
        self.answered.push(address);
        Ok(())
    }

    /// The replicas, from head to tail as far as that is known.
    pub(super) fn in_order(self) -> Vec<Place> {
        let (_, order) = self.order;
        let mut places: Vec<Place> = self.places.into_values().collect();
        places.sort_by_key(|place| {
            order.iter().position(|replica| *replica == place.replica).unwrap_or(usize::MAX)
        });
        places
    }

    /// Whether somebody answered, and nobody is to be waited for: each address answered, or failed, or is known from another.
    fn knows_all(&self, addresses: &[Address]) -> bool {
        let known = |address: &Address| {
            self.answered.contains(address)
                || self.failed.iter().any(|(failed, _)| failed == address)
                || self.places.values().any(|place| place.address == *address)
        };
        !self.answered.is_empty() && addresses.iter().all(known)
    }
}
