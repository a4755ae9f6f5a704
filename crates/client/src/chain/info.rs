//! What a replica says of itself: the answer of `Txn.Info`.

use super::proto::millrace as proto;
use super::words::{durability_word, take_durability, take_replica};
use codec::memory::OutOfMemory;
use fabric::link::Address;
use fabric::status::Status;
use protocol::chain::{Claim, Durability, Epoch, Incarnation, Lsn, ReplicaId};

/// A replica's view of itself and its chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// The chain's number.
    pub chain: u32,
    /// Who says this.
    pub replica: ReplicaId,
    /// In which life.
    pub incarnation: Incarnation,
    /// The configuration it acts by; 0 for none.
    pub epoch: Epoch,
    /// Who is in it, from head to tail.
    pub members: Vec<Member>,
    /// It decides on the order.
    pub is_head: bool,
    /// It is the last that serves.
    pub is_tail: bool,
    /// It may answer reads now.
    pub serves_reads: bool,
    /// The last entry in its log.
    pub last: Lsn,
    /// The last that is durable there.
    pub durable: Lsn,
    /// The last that it knows to be committed.
    pub committed: Lsn,
    /// The last that its store has.
    pub applied: Lsn,
    /// What its log survives.
    pub durability: Durability,
    /// What its log is kept on.
    pub media: String,
    /// Transactions that wait for keys.
    pub waiting: u64,
    /// Transactions that are logged and not committed.
    pub under_way: u64,
    /// A checksum of its store, as of `applied`; only where it was asked for.
    pub digest: Option<u64>,
    /// Keys that most transactions wait for, with how many.
    pub hottest: Vec<(Vec<u8>, u64)>,
    /// Counters and figures, by name.
    pub figures: Vec<(String, f64)>,
    /// The claim that counts here.
    pub claim: Option<Claim>,
}

/// A replica of a chain, as another one knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub replica: ReplicaId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// It is still being brought up to date.
    pub syncing: bool,
    /// Where it serves clients, if that is known.
    pub address: Option<Address>,
}

impl Info {
    /// Writes it.
    ///
    /// # Errors
    /// No memory.
    pub fn put(&self, to: &mut proto::InfoReplyMut<'_, '_>) -> Result<(), OutOfMemory> {
        to.set_chain(self.chain);
        to.set_replica(self.replica.0.into());
        to.set_incarnation(self.incarnation.0);
        to.set_epoch(self.epoch.0);
        for member in &self.members {
            let mut to = to.push_members()?;
            to.set_replica(member.replica.0.into());
            to.set_incarnation(member.incarnation.0);
            to.set_syncing(member.syncing);
            if let Some(address) = &member.address {
                to.set_address(&address.to_string())?;
            }
        }
        to.set_is_head(self.is_head);
        to.set_is_tail(self.is_tail);
        to.set_serves_reads(self.serves_reads);
        to.set_last(self.last.0);
        to.set_durable(self.durable.0);
        to.set_committed(self.committed.0);
        to.set_applied(self.applied.0);
        to.set_durability(durability_word(self.durability));
        to.set_media(&self.media)?;
        to.set_waiting(self.waiting);
        to.set_under_way(self.under_way);
        if let Some(digest) = self.digest {
            to.set_digest(digest);
        }
        for (key, waiting) in &self.hottest {
            let mut to = to.push_hottest()?;
            to.set_key(key)?;
            to.set_waiting(*waiting);
        }
        for (name, value) in &self.figures {
            let mut to = to.push_figures()?;
            to.set_name(name)?;
            to.set_value(*value);
        }
        if let Some(claim) = &self.claim {
            let mut to = to.claim_mut()?;
            to.set_number(claim.number);
            to.set_address(&claim.address)?;
        }
        Ok(())
    }

    /// Reads it.
    ///
    /// # Errors
    /// A word in it is not known here. An address that is none is left out: it is only a help.
    pub fn take(from: proto::InfoReplyView<'_>) -> Result<Info, Status> {
        let member = |member: proto::MemberView<'_>| {
            Ok(Member {
                replica: take_replica(member.replica())?,
                incarnation: Incarnation(member.incarnation()),
                syncing: member.syncing(),
                address: member.address().parse().ok(),
            })
        };
        Ok(Info {
            chain: from.chain(),
            replica: take_replica(from.replica())?,
            incarnation: Incarnation(from.incarnation()),
            epoch: Epoch(from.epoch()),
            members: from.members().iter().map(member).collect::<Result<_, Status>>()?,
            is_head: from.is_head(),
            is_tail: from.is_tail(),
            serves_reads: from.serves_reads(),
            last: Lsn(from.last()),
            durable: Lsn(from.durable()),
            committed: Lsn(from.committed()),
            applied: Lsn(from.applied()),
            durability: take_durability(from.durability())?,
            media: from.media().to_owned(),
            waiting: from.waiting(),
            under_way: from.under_way(),
            digest: from.has_digest().then(|| from.digest()),
            hottest: from.hottest().iter().map(|hot| (hot.key().to_vec(), hot.waiting())).collect(),
            figures: from.figures().iter().map(|figure| (figure.name().to_owned(), figure.value())).collect(),
            claim: from
                .claim()
                .map(|claim| Claim { number: claim.number(), address: claim.address().to_owned() }),
        })
    }
}
