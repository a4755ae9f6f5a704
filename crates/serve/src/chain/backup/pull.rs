//! An image from a replica that goes on meanwhile.
//!
//! Pieces are of different moments. Every entry since the first piece is laid over them, so that when the entries reach the moment of the
//! newest piece all bytes are as of the last entry: an entry says bytes, so one that a piece has already changes nothing for good.
//!
//! Bounds: memory for the image, as large as the replica's, of which what is used is taken; an answer at a time.

use super::super::export::{checksum, proof};
use crate::txn::info::Info;
use crate::txn::proto::millrace::{ExportReplyView, TxnClient};
use base::key::Key;
use fabric::channel::{CallOptions, Channel, Options};
use fabric::link::Address;
use protocol::chain::{Entry, Epoch, Lsn};
use std::fmt;
use std::time::Duration;
use store::image::{Config, Image};

/// How long the replica may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Everything that a chain has, as of one transaction.
#[derive(Debug)]
pub(super) struct Pulled {
    pub(super) image: Image,
    pub(super) chain: u32,
    pub(super) epoch: Epoch,
}

/// Why there is none. Each but the first is a sentence.
#[derive(Debug)]
pub(super) enum PullError {
    /// The log has forgotten entries that were not asked for yet.
    TooSlow,
    /// It does not answer, or not so.
    Replica(String),
    /// Its answers do not fit each other.
    Misfit(&'static str),
}

impl fmt::Display for PullError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PullError::TooSlow => f.write_str(
                "its log forgets transactions faster than they come here: give the replicas a larger --log-size, or make the backup when less is written",
            ),
            PullError::Replica(why) => f.write_str(why),
            PullError::Misfit(why) => write!(f, "{why}: make the backup again"),
        }
    }
}

/// How far it is.
struct Pull {
    image: Image,
    /// Bytes before this are here.
    offset: u64,
    /// When the first piece was taken, when the newest was, and the last entry that is laid over them.
    from: Lsn,
    newest: Lsn,
    after: Lsn,
    epoch: Epoch,
    reset: u64,
}

/// Asks the replica at an address for everything.
pub(super) fn pull(
    address: &Address,
    replica: &Info,
    key: &Key,
    show: impl Fn(f64, &str),
) -> Result<Pulled, PullError> {
    let failed = |why: String| PullError::Replica(why);
    let options = Options { timeout: PATIENCE, ..Options::default() };
    let mut channel = Channel::connect(address, &options).map_err(|error| failed(error.to_string()))?;
    let client = TxnClient::new(&channel).map_err(|error| failed(error.to_string()))?;
    let proof = proof(key, replica.chain, replica.replica, replica.incarnation);
    let mut pull: Option<Pull> = None;
    loop {
        let (offset, after) = pull.as_ref().map_or((0, None), |pull| (pull.offset, Some(pull.after)));
        let reply = client
            .export(&mut channel, &CallOptions::within(PATIENCE), |request| {
                request.set_proof(&proof.0)?;
                request.set_offset(offset);
                after.into_iter().for_each(|after| request.set_after(after.0));
                Ok(())
            })
            .map_err(|status| failed(status.to_string()))?;
        let reply = reply.view();
        let under_way = match &mut pull {
            Some(pull) => pull,
            None => pull.insert(Pull::begin(&reply)?),
        };
        let is_done = under_way.take(&reply)?;
        let (fraction, what) = under_way.progress(reply.extent());
        show(fraction, what);
        if is_done {
            break;
        }
    }
    let Some(Pull { mut image, after, epoch, .. }) = pull else { return Err(PullError::TooSlow) };
    image.index(after.0).map_err(|_| PullError::Misfit("what came is no image"))?;
    Ok(Pulled { image, chain: replica.chain, epoch })
}

impl Pull {
    fn begin(reply: &ExportReplyView<'_>) -> Result<Pull, PullError> {
        let config = Config::new(reply.capacity());
        if config.bytes != reply.capacity() {
            return Err(PullError::Misfit("no image has the size that the replica says"));
        }
        let image = Image::new(&config).map_err(|error| PullError::Replica(error.to_string()))?;
        let from = Lsn(reply.applied());
        let (epoch, reset) = (Epoch(reply.epoch()), reply.reset());
        Ok(Pull { image, offset: 0, from, newest: from, after: from, epoch, reset })
    }

    /// Takes an answer; whether it was the last that is needed.
    fn take(&mut self, reply: &ExportReplyView<'_>) -> Result<bool, PullError> {
        let payloads = reply.entries().iter().map(|entry| entry.payload().to_vec()).collect::<Vec<_>>();
        if checksum(reply.piece(), payloads.iter().map(Vec::as_slice)) != reply.crc() {
            return Err(PullError::Misfit("an answer was changed on its way"));
        }
        if reply.reset() != self.reset || reply.applied() < self.after.0 {
            return Err(PullError::Misfit("the chain was reset meanwhile"));
        }
        if reply.forgotten() {
            return Err(PullError::TooSlow);
        }
        self.epoch = self.epoch.max(Epoch(reply.epoch()));
        let is_here = self.offset >= reply.extent();
        if !is_here {
            if reply.piece().is_empty() {
                return Err(PullError::Misfit("a piece is missing"));
            }
            self.lay(self.offset, reply.piece())?;
            self.offset += reply.piece().len() as u64;
            self.newest = Lsn(reply.applied());
        }
        let lacks = reply.applied() - self.after.0;
        if is_here && lacks > 0 && payloads.is_empty() {
            return Err(PullError::Misfit("the replica cannot read its log"));
        }
        if payloads.len() as u64 > lacks {
            return Err(PullError::Misfit("the replica has more entries than it says"));
        }
        for (logged, payload) in reply.entries().iter().zip(&payloads) {
            let entry = Entry::parse_payload(self.after.next(), Epoch(logged.epoch()), payload)
                .ok_or(PullError::Misfit("an entry is none"))?;
            for tuple in &entry.tuples {
                self.lay(tuple.offset, &tuple.data)?;
            }
            self.after = entry.lsn;
        }
        Ok(self.offset >= reply.extent() && self.after >= self.newest)
    }

    fn lay(&mut self, offset: u64, bytes: &[u8]) -> Result<(), PullError> {
        self.image.load(offset, bytes).map_err(|_| PullError::Misfit("bytes are beyond the image's end"))
    }

    fn progress(&self, extent: u64) -> (f64, &'static str) {
        if self.offset < extent {
            return (self.offset as f64 / extent as f64, "copying");
        }
        let behind = self.newest.0.saturating_sub(self.from.0).max(1);
        ((self.after.0.saturating_sub(self.from.0)) as f64 / behind as f64, "taking what was written since")
    }
}
