//! Mistakes that can be made on purpose, one at a time, to see that tests and simulations find them.
//!
//! Each is looked at in one place of the machines; [`CacheBox::with_bugs`](super::CacheBox::with_bugs) and
//! [`Home::with_bugs`](super::Home::with_bugs) choose it. What each breaks is a scenario in `coherence::tests::planted`.

use crate::planted::planted;

planted! {
    /// The home asks no box before it applies.
    SkipInvalidation "skip-invalidation",
    /// A box keeps a reply without a token of its own.
    FillWithoutToken "fill-without-token",
    /// An invalidation leaves tokens alive.
    TokenSurvives "token-survives",
    /// A box answers for itself, and keeps its copy.
    AckWithoutRemoving "ack-without-removing",
    /// A box answers before those below it did.
    AckBeforeChildren "ack-before-children",
    /// The second sharer of a key is not entered.
    LoseSharer "lose-sharer",
    /// A home grants leases while a write waits.
    GrantWhileWriting "grant-while-writing",
    /// A box grants leases while it waits for answers of those below it.
    GrantWhileAsking "grant-while-asking",
    /// A box counts its lease from when the reply came.
    LeaseFromReply "lease-from-reply",
    /// A box grants those below it a whole lease.
    WholeLeaseToChildren "whole-lease-to-children",
    /// A reply that fills nothing makes the copy that is there live longer.
    ReplyRevalidates "reply-revalidates",
    /// A home does a repeated write again.
    NoSessions "no-sessions",
    /// A home remembers one outcome per session.
    OutcomeForgotten "outcome-forgotten",
    /// A home serves at once after a restart.
    ServeAtOnce "serve-at-once",
    /// Versions begin anew after a restart.
    VersionsRestart "versions-restart",
    /// A flush asks no box.
    FlushSkipsBoxes "flush-skips-boxes",
    /// A box counts an item's life from when the reply came.
    LifeFromReply "life-from-reply",
    /// A box answers an operation that changes something.
    AnswerChanges "answer-changes",
    /// A home begins a write while another of the same key waits.
    TwoWritesAtOnce "two-writes-at-once",
    /// An answer counts for whichever round of the key runs.
    AnyRound "any-round",
    /// A home applies a write when answers are late, before the lease ends.
    ApplyAtTimeout "apply-at-timeout",
    /// A restarted box answers for those below its earlier life.
    ForgetChildren "forget-children",
    /// A home that evicted an item says so while boxes have copies.
    MissWhileHeld "miss-while-held",
    /// An owner does not look at the clock.
    OwnerServesOn "owner-serves-on",
    /// An owner returns the item, and not what it answered.
    ReturnWithoutRecords "return-without-records",
    /// An owner forgets what it returned before that was acknowledged.
    ReturnOnce "return-once",
    /// An owner answers an invalidation before what it returned was acknowledged.
    AckBeforeReturn "ack-before-return",
    /// A home does not tell an owner what was begun.
    GrantWithoutSessions "grant-without-sessions",
    /// A home gives the versions that it gave an owner.
    NoVersionBlock "no-version-block",
    /// A home answers reads of what a box owns.
    ReadWhileOwned "read-while-owned",
    /// What was there before an owner was lost comes back.
    LostValueReturns "lost-value-returns",
    /// A home does writes of sessions of which a lost owner may have done them.
    LostKeepsSessions "lost-keeps-sessions",
    /// A faster tier does what it did once more.
    LentTwice "lent-twice",
    /// A faster tier goes on answering for a key that was taken back.
    LentKept "lent-kept",
    /// A faster tier gives versions beyond those of the owner.
    LentVersions "lent-versions",
    /// A faster tier does not look at the clock.
    LentServesOn "lent-serves-on",
    /// What a faster tier did is not told when its key is taken back.
    LentForgotten "lent-forgotten",
    /// A home lets a write by another protocol through while boxes have copies.
    TicketSkipsBoxes "ticket-skips-boxes",
    /// A write by another protocol overtakes what waits for its key.
    TicketOvertakes "ticket-overtakes",
    /// A read by another protocol does not wait for a key that a box owns.
    TicketReadsOwned "ticket-reads-owned",
    /// A request by another protocol is done before the leases of the home's earlier life have ended.
    TicketTooEarly "ticket-too-early",
    /// A home counts versions itself, beside those of its store.
    OwnVersions "own-versions",
    /// A home grants copies while its store does a write of the key.
    GrantWhileUnderWay "grant-while-under-way",
    /// A home grants copies of what was read before a transaction that has ended since.
    GrantWhatIsOld "grant-what-is-old",
    /// A home grants copies though a write may still be done.
    UnknownForgotten "unknown-forgotten",
    /// A home lets a write be asked for again that may have been done.
    UnknownUndone "unknown-undone",
    /// A node believes whoever says that he is another.
    TagNotChecked "tag-not-checked",
    /// A node hears what was said once as often as it comes.
    NoReplayWindow "no-replay-window",
    /// What was said to one node is heard by any.
    AnyReceiver "any-receiver",
    /// A node does writes of strangers.
    PlainWrites "plain-writes",
    /// A node answers strangers with more than they sent.
    LongAnswers "long-answers",
    /// A flush is answered by one shard of a box for all.
    FlushByOneShard "flush-by-one-shard",
    /// A shard of a box serves what is for another: a late packet that met the wrong one.
    StrayServed "stray-served",
    /// A box keeps what the table keeps away from it.
    KeepOutsideRange "keep-outside-range",
    /// A home tells only those boxes of a write that its file lets keep the key.
    TellOnlyInRange "tell-only-in-range",
    /// A controller says that a box is drained when all have heard that it is to be: before what was granted is over, and owned keys are home.
    DrainedEarly "drained-early",
    /// A home grants copies and keys to a box that is being drained.
    GrantToDraining "grant-to-draining",
    /// What comes from where a home was is heard as its own.
    OldAddressBelieved "old-address-believed",
    /// A home is looked for where an older order had it.
    LowerEpochTaken "lower-epoch-taken",
    /// A home that was started elsewhere serves at once, before it is ordered there and a lease has passed.
    MovedServesAtOnce "moved-serves-at-once",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for planted in Planted::ALL {
            assert_eq!(Planted::from_name(planted.name()), Some(*planted));
        }
        assert_eq!(Planted::from_name("nothing"), None);
    }
}
