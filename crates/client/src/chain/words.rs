//! The service's messages (`txn.proto`) to and from those of `protocol::chain`.
//!
//! `put_x` fills a message, `take_x` reads one; each pair is inverse (tested). What comes from outside and says nothing that a chain
//! knows is INVALID_ARGUMENT, with the place; whether a transaction keeps its bounds is for `Transaction::check` to say.

use super::proto::millrace as proto;
use codec::decode::Limits;
use codec::memory::OutOfMemory;
use fabric::status::{Code, Status as RpcStatus};
use protocol::chain::message::{Refusal, RequestId, Status};
use protocol::chain::transaction::{Abort, Change, Condition, Found, MAX_BYTES, MAX_OPS, Malformed};
use protocol::chain::{Durability, Lsn, Outcome, ReplicaId, SessionId, TraceContext, Transaction};

/// What a request to a replica may be, and take while it is decoded: whatever a transaction within its bounds needs, and little more, because the
/// thread that decodes holds the replica's lease.
pub const REQUEST: Limits = Limits {
    depth: 8,
    // Beside keys and values each operation has tags, lengths and numbers, of 32 bytes at most.
    input_bytes: MAX_BYTES + 32 * MAX_OPS + 1024,
    // The arena gives memory in chunks; 128 bytes are room for an operation's object.
    slack_bytes: (64 << 10) + 128 * MAX_OPS,
    amplification: 1,
};

/// What a replica answers to a transaction.
pub type Answer = Result<Outcome, Refusal>;

#[cold]
fn invalid(what: impl Into<Box<str>>) -> RpcStatus {
    RpcStatus::new(Code::InvalidArgument, what)
}

/// Writes a transaction.
///
/// # Errors
/// No memory.
pub fn put_transaction(
    from: &Transaction,
    to: &mut proto::TransactionMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    for (key, condition) in &from.conditions {
        let mut to = to.push_conditions()?;
        to.set_key(key)?;
        match condition {
            Condition::Version(version) => to.set_version(*version),
            Condition::Exists => to.set_exists(true),
            Condition::Value(value) => to.set_value(value)?,
            Condition::AtLeast(least) => to.set_at_least(*least),
        }
    }
    for key in &from.reads {
        to.push_reads(key)?;
    }
    for (key, change) in &from.writes {
        let mut to = to.push_writes()?;
        to.set_key(key)?;
        match change {
            Change::Put(value) => to.set_put(value)?,
            Change::Delete => to.set_delete(true),
            Change::Add(amount) => to.set_add(*amount),
        }
    }
    to.set_claim(from.claim);
    Ok(())
}

/// Reads a transaction.
///
/// # Errors
/// A condition or a write says nothing.
pub fn take_transaction(from: proto::TransactionView<'_>) -> Result<Transaction, RpcStatus> {
    let conditions = from.conditions().iter().enumerate().map(|(place, condition)| {
        let what = match condition.what() {
            Some(proto::condition::What::Version(version)) => Condition::Version(version),
            Some(proto::condition::What::Exists(true)) => Condition::Exists,
            Some(proto::condition::What::Value(value)) => Condition::Value(value.to_vec()),
            Some(proto::condition::What::AtLeast(least)) => Condition::AtLeast(least),
            Some(proto::condition::What::Exists(false)) | None => {
                return Err(invalid(format!(
                    "condition {place} says nothing: set one of version, exists, value, at_least"
                )));
            }
        };
        Ok((condition.key().to_vec(), what))
    });
    let writes = from.writes().iter().enumerate().map(|(place, write)| {
        let what = match write.what() {
            Some(proto::write::What::Put(value)) => Change::Put(value.to_vec()),
            Some(proto::write::What::Delete(true)) => Change::Delete,
            Some(proto::write::What::Add(amount)) => Change::Add(amount),
            Some(proto::write::What::Delete(false)) | None => {
                return Err(invalid(format!("write {place} says nothing: set one of put, delete, add")));
            }
        };
        Ok((write.key().to_vec(), what))
    });
    Ok(Transaction {
        conditions: conditions.collect::<Result<_, _>>()?,
        reads: from.reads().iter().map(<[u8]>::to_vec).collect(),
        writes: writes.collect::<Result<_, _>>()?,
        claim: from.claim(),
        // It travels beside the message.
        trace: TraceContext::default(),
    })
}

/// Reads a session; none is no bytes.
///
/// # Errors
/// It has another length.
pub fn take_session(bytes: &[u8]) -> Result<SessionId, RpcStatus> {
    SessionId::from_bytes(bytes).ok_or_else(|| invalid("a session has 16 bytes"))
}

/// Writes a session; none is no bytes.
///
/// # Errors
/// No memory.
pub fn put_session<E>(session: SessionId, put: impl FnOnce(&[u8]) -> Result<(), E>) -> Result<(), E> {
    if session == SessionId(0) { Ok(()) } else { put(&session.to_bytes()) }
}

/// Writes what is asked in `Execute`.
///
/// # Errors
/// No memory.
pub fn put_request(
    id: RequestId,
    transaction: &Transaction,
    to: &mut proto::ExecuteRequestMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    put_session(id.session, |bytes| to.set_session(bytes))?;
    to.set_sequence(id.sequence);
    put_transaction(transaction, &mut to.transaction_mut()?)
}

/// Reads what is asked in `Execute`.
///
/// # Errors
/// There is no transaction, or as [`take_transaction`].
pub fn take_request(from: proto::ExecuteRequestView<'_>) -> Result<(RequestId, Transaction), RpcStatus> {
    let id = RequestId { session: take_session(from.session())?, sequence: from.sequence() };
    let transaction = from.transaction().ok_or_else(|| invalid("there is no transaction in the request"))?;
    Ok((id, take_transaction(transaction)?))
}

/// Writes what is answered in `Execute`.
///
/// # Errors
/// No memory.
pub fn put_answer(
    answer: Result<&Outcome, &Refusal>,
    to: &mut proto::ExecuteReplyMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    match answer {
        Ok(outcome) => put_outcome(outcome, &mut to.outcome_mut()?),
        Err(refusal) => put_refusal(refusal, &mut to.refusal_mut()?),
    }
}

/// Reads what is answered in `Execute`.
///
/// # Errors
/// It is neither outcome nor refusal, or one that is not known here.
pub fn take_answer(from: proto::ExecuteReplyView<'_>) -> Result<Answer, RpcStatus> {
    match from.what() {
        Some(proto::execute_reply::What::Outcome(outcome)) => take_outcome(outcome).map(Ok),
        Some(proto::execute_reply::What::Refusal(refusal)) => take_refusal(refusal).map(Err),
        None => Err(invalid("the reply is empty")),
    }
}

/// Writes an outcome.
///
/// # Errors
/// No memory.
pub fn put_outcome(from: &Outcome, to: &mut proto::OutcomeMut<'_, '_>) -> Result<(), OutOfMemory> {
    to.set_lsn(from.lsn.0);
    if let Some(abort) = from.abort {
        let (why, place) = match abort {
            Abort::Condition(place) => (proto::abort::Why::WHY_CONDITION, place),
            Abort::NotANumber(place) => (proto::abort::Why::WHY_NOT_A_NUMBER, place),
            Abort::Overflow(place) => (proto::abort::Why::WHY_OVERFLOW, place),
            Abort::NoRoom => (proto::abort::Why::WHY_NO_ROOM, 0),
            Abort::LongReply => (proto::abort::Why::WHY_LONG_REPLY, 0),
            Abort::Claimed => (proto::abort::Why::WHY_CLAIMED, 0),
        };
        let mut to = to.abort_mut()?;
        to.set_why(why);
        to.set_place(place);
    }
    for found in &from.reads {
        let mut to = to.push_reads()?;
        if let Some(found) = found {
            to.set_version(found.version.0);
            to.set_value(&found.value)?;
        }
    }
    to.set_sums(&from.sums)?;
    to.set_durability(durability_word(from.durability));
    to.set_copies(from.copies.into());
    Ok(())
}

/// Reads an outcome.
///
/// # Errors
/// It has a word that is not known here.
pub fn take_outcome(from: proto::OutcomeView<'_>) -> Result<Outcome, RpcStatus> {
    let found = |found: proto::FoundView<'_>| match found.version() {
        0 => None,
        version => Some(Found { version: Lsn(version), value: found.value().to_vec() }),
    };
    Ok(Outcome {
        lsn: Lsn(from.lsn()),
        abort: from.abort().map(take_abort).transpose()?,
        reads: from.reads().iter().map(found).collect(),
        sums: from.sums().to_vec(),
        durability: take_durability(from.durability())?,
        copies: u8::try_from(from.copies()).map_err(|_| invalid("more copies than a chain has replicas"))?,
    })
}

fn take_abort(from: proto::AbortView<'_>) -> Result<Abort, RpcStatus> {
    Ok(match from.why() {
        proto::abort::Why::WHY_CONDITION => Abort::Condition(from.place()),
        proto::abort::Why::WHY_NOT_A_NUMBER => Abort::NotANumber(from.place()),
        proto::abort::Why::WHY_OVERFLOW => Abort::Overflow(from.place()),
        proto::abort::Why::WHY_NO_ROOM => Abort::NoRoom,
        proto::abort::Why::WHY_LONG_REPLY => Abort::LongReply,
        proto::abort::Why::WHY_CLAIMED => Abort::Claimed,
        other => return Err(invalid(format!("an abort for a reason that is not known here ({})", other.0))),
    })
}

/// A durability as the service calls it.
pub fn durability_word(from: Durability) -> proto::Durability {
    match from {
        Durability::Volatile => proto::Durability::DURABILITY_VOLATILE,
        Durability::ProcessCrash => proto::Durability::DURABILITY_PROCESS_CRASH,
        Durability::PowerLoss => proto::Durability::DURABILITY_POWER_LOSS,
    }
}

/// Reads a durability.
///
/// # Errors
/// It is not known here.
pub fn take_durability(from: proto::Durability) -> Result<Durability, RpcStatus> {
    Ok(match from {
        proto::Durability::DURABILITY_VOLATILE => Durability::Volatile,
        proto::Durability::DURABILITY_PROCESS_CRASH => Durability::ProcessCrash,
        proto::Durability::DURABILITY_POWER_LOSS => Durability::PowerLoss,
        other => return Err(invalid(format!("a durability that is not known here ({})", other.0))),
    })
}

/// Writes a refusal, with a sentence for people.
///
/// # Errors
/// No memory.
pub fn put_refusal(from: &Refusal, to: &mut proto::RefusalMut<'_, '_>) -> Result<(), OutOfMemory> {
    to.set_why(match from {
        Refusal::Elsewhere(_) => proto::refusal::Why::WHY_ELSEWHERE,
        Refusal::Busy => proto::refusal::Why::WHY_BUSY,
        Refusal::Malformed(_) => proto::refusal::Why::WHY_MALFORMED,
        Refusal::NoSession => proto::refusal::Why::WHY_NO_SESSION,
        Refusal::Forgotten => proto::refusal::Why::WHY_FORGOTTEN,
        Refusal::Denied(_) => proto::refusal::Why::WHY_DENIED,
    });
    match from {
        Refusal::Elsewhere(Some(replica)) => to.set_replica(replica.0.into()),
        Refusal::Malformed(malformed) => put_malformed(malformed, &mut to.malformed_mut()?)?,
        Refusal::Elsewhere(None)
        | Refusal::Busy
        | Refusal::NoSession
        | Refusal::Forgotten
        | Refusal::Denied(_) => {}
    }
    to.set_text(&refusal_text(from))
}

/// A refusal for people.
pub fn refusal_text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Elsewhere(Some(replica)) => format!("ask replica {}", replica.0),
        Refusal::Elsewhere(None) => "ask another replica; which one is not known here".to_owned(),
        Refusal::Busy => "too much is under way: ask again later".to_owned(),
        Refusal::Malformed(malformed) => malformed.to_string(),
        Refusal::NoSession => "the session is closed or forgotten: open another one; what became of requests of this one cannot be told".to_owned(),
        Refusal::Forgotten => "it was answered, and the answer is forgotten: later requests have taken its place".to_owned(),
        Refusal::Denied(what) => what.clone(),
    }
}

/// Reads a refusal.
///
/// # Errors
/// It is for a reason that is not known here.
pub fn take_refusal(from: proto::RefusalView<'_>) -> Result<Refusal, RpcStatus> {
    Ok(match from.why() {
        proto::refusal::Why::WHY_ELSEWHERE if from.has_replica() => {
            Refusal::Elsewhere(Some(take_replica(from.replica())?))
        }
        proto::refusal::Why::WHY_ELSEWHERE => Refusal::Elsewhere(None),
        proto::refusal::Why::WHY_BUSY => Refusal::Busy,
        proto::refusal::Why::WHY_MALFORMED => {
            let malformed =
                from.malformed().ok_or_else(|| invalid("a refusal that does not say what is wrong"))?;
            Refusal::Malformed(take_malformed(malformed)?)
        }
        proto::refusal::Why::WHY_NO_SESSION => Refusal::NoSession,
        proto::refusal::Why::WHY_FORGOTTEN => Refusal::Forgotten,
        proto::refusal::Why::WHY_DENIED => Refusal::Denied(from.text().to_owned()),
        other => return Err(invalid(format!("a refusal for a reason that is not known here ({})", other.0))),
    })
}

/// Reads a replica's number.
///
/// # Errors
/// It is longer than 16 bits.
pub fn take_replica(number: u32) -> Result<ReplicaId, RpcStatus> {
    u16::try_from(number).map(ReplicaId).map_err(|_| invalid(format!("{number} is no replica's number")))
}

fn put_malformed(from: &Malformed, to: &mut proto::MalformedMut<'_, '_>) -> Result<(), OutOfMemory> {
    let (what, key, count) = match from {
        Malformed::Empty => (proto::malformed::What::WHAT_EMPTY, &[][..], 0),
        Malformed::TooManyOps(ops) => (proto::malformed::What::WHAT_TOO_MANY_OPS, &[][..], *ops),
        Malformed::TooLong(bytes) => (proto::malformed::What::WHAT_TOO_LONG, &[][..], *bytes),
        Malformed::BadKey(key) => (proto::malformed::What::WHAT_BAD_KEY, &key[..], 0),
        Malformed::LongValue(key, bytes) => (proto::malformed::What::WHAT_LONG_VALUE, &key[..], *bytes),
        Malformed::WrittenTwice(key) => (proto::malformed::What::WHAT_WRITTEN_TWICE, &key[..], 0),
        Malformed::ReadTwice(key) => (proto::malformed::What::WHAT_READ_TWICE, &key[..], 0),
        Malformed::OtherChain(key) => (proto::malformed::What::WHAT_OTHER_CHAIN, &key[..], 0),
    };
    to.set_what(what);
    to.set_key(key)?;
    to.set_count(count as u64);
    Ok(())
}

fn take_malformed(from: proto::MalformedView<'_>) -> Result<Malformed, RpcStatus> {
    let key = || from.key().to_vec();
    let count = usize::try_from(from.count()).unwrap_or(usize::MAX);
    Ok(match from.what() {
        proto::malformed::What::WHAT_EMPTY => Malformed::Empty,
        proto::malformed::What::WHAT_TOO_MANY_OPS => Malformed::TooManyOps(count),
        proto::malformed::What::WHAT_TOO_LONG => Malformed::TooLong(count),
        proto::malformed::What::WHAT_BAD_KEY => Malformed::BadKey(key()),
        proto::malformed::What::WHAT_LONG_VALUE => Malformed::LongValue(key(), count),
        proto::malformed::What::WHAT_WRITTEN_TWICE => Malformed::WrittenTwice(key()),
        proto::malformed::What::WHAT_READ_TWICE => Malformed::ReadTwice(key()),
        proto::malformed::What::WHAT_OTHER_CHAIN => Malformed::OtherChain(key()),
        other => return Err(invalid(format!("malformed in a way that is not known here ({})", other.0))),
    })
}

/// Writes what is answered in `Status`.
///
/// # Errors
/// No memory.
pub fn put_status(
    answer: Result<&Status, &Refusal>,
    to: &mut proto::StatusReplyMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    match answer {
        Ok(Status::Done(outcome)) => {
            to.set_state(proto::status_reply::State::STATE_DONE);
            put_outcome(outcome, &mut to.outcome_mut()?)
        }
        Ok(Status::Unknown) => {
            to.set_state(proto::status_reply::State::STATE_UNKNOWN);
            Ok(())
        }
        Ok(Status::Forgotten) => {
            to.set_state(proto::status_reply::State::STATE_FORGOTTEN);
            Ok(())
        }
        Err(refusal) => put_refusal(refusal, &mut to.refusal_mut()?),
    }
}

/// Reads what is answered in `Status`.
///
/// # Errors
/// It is neither a status nor a refusal that is known here.
pub fn take_status(from: proto::StatusReplyView<'_>) -> Result<Result<Status, Refusal>, RpcStatus> {
    if let Some(refusal) = from.refusal() {
        return take_refusal(refusal).map(Err);
    }
    Ok(Ok(match from.state() {
        proto::status_reply::State::STATE_DONE => {
            let outcome = from.outcome().ok_or_else(|| invalid("done, but it does not say how"))?;
            Status::Done(take_outcome(outcome)?)
        }
        proto::status_reply::State::STATE_UNKNOWN => Status::Unknown,
        proto::status_reply::State::STATE_FORGOTTEN => Status::Forgotten,
        other => return Err(invalid(format!("a state that is not known here ({})", other.0))),
    }))
}

/// Writes what is answered in `Open`: a session and its window.
///
/// # Errors
/// No memory.
pub fn put_opened(
    answer: Result<(SessionId, u64), &Refusal>,
    to: &mut proto::OpenReplyMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    match answer {
        Ok((session, window)) => {
            to.set_session(&session.to_bytes())?;
            to.set_window(window);
            Ok(())
        }
        Err(refusal) => put_refusal(refusal, &mut to.refusal_mut()?),
    }
}

/// Reads what is answered in `Open`.
///
/// # Errors
/// It is neither a session nor a refusal that is known here.
pub fn take_opened(from: proto::OpenReplyView<'_>) -> Result<Result<(SessionId, u64), Refusal>, RpcStatus> {
    match (from.refusal(), from.session(), from.window()) {
        (Some(refusal), ..) => take_refusal(refusal).map(Err),
        (None, [_, ..], window @ 1..) => Ok(Ok((take_session(from.session())?, window))),
        (None, ..) => Err(invalid("the reply has no session, or no window")),
    }
}

#[cfg(test)]
mod tests;
