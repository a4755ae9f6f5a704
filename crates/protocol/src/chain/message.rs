//! What clients, replicas and controllers tell each other.
//!
//! Every message between replicas and with controllers carries the chain's number and an epoch in its envelope ([`super::wire`] writes
//! them); a replica drops what is of a lower epoch, and keeps nothing of a higher one until it has that configuration.

use super::transaction::Malformed;
use super::{
    Configuration, Durability, Entry, Epoch, Gap, Incarnation, Lsn, Order, OrderReply, Outcome, ReplicaId,
    SessionId, TraceContext, Transaction,
};

/// Which request: a session's number, or a token of the client's own for what has no session (reads, opening one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// The session; [`SessionId`] 0 for none.
    pub session: SessionId,
    /// From 1 on, without gaps of more than [`super::Config::session_window`].
    pub sequence: u64,
}

/// Why a request is not answered here and now. It was not done, but a copy of it that is still on its way may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Ask this one, if any is known. What the replica had begun of it may still be done: asking again there tells.
    Elsewhere(Option<ReplicaId>),
    /// Too much is under way: ask again later.
    Busy,
    /// It is no transaction.
    Malformed(Malformed),
    /// The session is not known: never opened, closed, or forgotten since too many others were opened. What became of its requests cannot be told.
    NoSession,
    /// The session has used its place for a later request: this one was answered, and its reply forgotten.
    Forgotten,
    /// Who asks has no right to it, and which one is missing. Asking again would not give it.
    Denied(String),
}

/// The answer to a request for what became of another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// This became of it.
    Done(Outcome),
    /// Nothing yet; whether something will is up to whoever sends it again.
    Unknown,
    /// Its session or its place there is used otherwise by now.
    Forgotten,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Client to head: open a session. Answered with [`Message::Opened`].
    Open {
        /// The client's own.
        token: u64,
    },
    /// Head to client, once committed.
    Opened {
        /// As asked.
        token: u64,
        /// The session.
        session: SessionId,
        /// How many requests it may have under way.
        window: u64,
    },
    /// Client to head: close a session.
    Close {
        /// Which.
        session: SessionId,
    },
    /// Client to head (to tail or any replica if it only reads): do it.
    Request {
        /// Which request.
        id: RequestId,
        /// What.
        transaction: Transaction,
    },
    /// To the client: done.
    Reply {
        /// Which request.
        id: RequestId,
        /// What became of it.
        outcome: Outcome,
    },
    /// To the client: not done here, or not now.
    Refused {
        /// Which request; of an `Open` session 0 and its token.
        id: RequestId,
        /// Why.
        why: Refusal,
    },
    /// Client to head: what became of a request.
    Ask {
        /// Which.
        id: RequestId,
    },
    /// Head to client.
    Told {
        /// Which.
        id: RequestId,
        /// What became of it.
        status: Status,
    },

    /// Down the chain: entries in order.
    Append {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// At least one.
        entries: Vec<Entry>,
    },
    /// Up the chain.
    Ack {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// Everything up to here arrived.
        received: Lsn,
        /// Everything up to here is durable from here to the tail.
        committed: Lsn,
        /// The weakest medium from here to the tail, and how many replicas that are.
        durability: Durability,
        /// Replicas from here to the tail.
        copies: u8,
    },
    /// To the predecessor, in a new epoch: what is here, so that it can go on from there.
    Connect {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// The last entry that is here.
        last: Lsn,
        /// The epoch it was made in.
        last_epoch: Epoch,
        /// Nothing up to here may be cut.
        floor: Lsn,
    },
    /// To the successor: the answer to `Connect`. It cuts what it has beyond `from`, and entries from there on follow; or it forgets all,
    /// and the image follows as well, no older than `from`.
    Resume {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// Entries after this one follow.
        from: Lsn,
        /// The epoch of the entry at `from`.
        from_epoch: Epoch,
        /// The image follows, in so many bytes: what is there is to be forgotten.
        image: Option<u64>,
    },
    /// To a syncing successor: bytes of the image as it is, with everything up to `after` applied to them. The successor brings them all to the
    /// same moment by the entries it has from `Resume::from` on.
    Chunk {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// Where.
        offset: u64,
        /// The image's extent now: the last chunk ends there.
        extent: u64,
        /// Every entry up to here is in the bytes, and none beyond.
        after: Lsn,
        /// What.
        bytes: Vec<u8>,
    },
    /// To the predecessor: every byte below this offset is here.
    ChunkAck {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// Everything below it.
        below: u64,
        /// One in between is missing: please go back to there.
        again: bool,
    },
    /// To the tail, from a replica that was asked to read what is not clean: up to where is everything committed?
    AskCommitted {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// The sender's own.
        token: u64,
    },
    /// From the tail, that may serve reads.
    Committed {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// As asked.
        token: u64,
        /// Up to here.
        lsn: Lsn,
    },
    /// An entry that is damaged here, please: to any other serving replica.
    AskEntry {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// Which.
        lsn: Lsn,
    },
    /// Here it is.
    EntryCopy {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// The entry.
        entry: Entry,
    },
    /// It is not here. Said by a serving replica with everything that was ever committed: an entry beyond its last was not.
    NoEntry {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// As asked.
        lsn: Lsn,
        /// The last that is here.
        last: Lsn,
    },
    /// To the successor, before an entry of a transaction that is traced: whoever drives a replica records its spans there. The machines need none of
    /// it, and one that does not know it drops it.
    Trace {
        /// Of the sender's configuration.
        epoch: Epoch,
        /// Which entry.
        lsn: Lsn,
        /// Of the sender's span.
        context: TraceContext,
    },

    /// Replica to controller: I live.
    Alive {
        /// The configuration it acts by; 0 for none.
        epoch: Epoch,
        /// Which life.
        incarnation: Incarnation,
        /// Numbers the message: the lease that is granted counts from when it was sent.
        beat: u64,
        /// The last entry in its log, and the epoch it was made in.
        last: Lsn,
        /// See `last`.
        last_epoch: Epoch,
        /// The last entry of which it knows that all that serve have it.
        committed: Lsn,
        /// What its log survives.
        durability: Durability,
        /// The life in which its log was made. It has nothing of what was acknowledged in earlier ones.
        born: Incarnation,
        /// It has everything that it acknowledged since: nothing is damaged, and it copies no image.
        whole: bool,
        /// Its syncing successor has caught up: acknowledgements of that one are waited for from now on.
        joined: Option<ReplicaId>,
        /// Between these are the entries that its log once had and cannot read.
        missing: Option<Gap>,
        /// For how long nothing has become durable that is in its log, in milliseconds: its medium is slow, and it is alive.
        stalled_ms: u32,
    },
    /// Controller to replica: the configuration, and a lease that counts from when `beat` was sent.
    Lead {
        /// The configuration.
        configuration: Configuration,
        /// Of the `Alive` that this answers.
        beat: u64,
        /// For which life.
        incarnation: Incarnation,
        /// No replica acts by an earlier epoch any more: the tail may serve reads.
        settled: bool,
    },

    /// Operator to controller: obey, or say how it is.
    Order {
        /// The operator's own.
        token: u64,
        /// What is wanted; none: only the answer is.
        order: Option<Order>,
    },
    /// Controller to operator.
    Ordered {
        /// As asked.
        token: u64,
        /// What came of it.
        reply: OrderReply,
        /// The configuration in force, of a controller that leads; who is in it, and what was ordered last.
        configuration: Option<Configuration>,
    },
}
