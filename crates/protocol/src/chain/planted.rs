//! Mistakes that can be made on purpose, one at a time, to see that tests and simulations find them.
//!
//! Each is looked at in one place of the machines. [`super::Replica::with_bugs`] and [`super::Controller::with_bugs`] choose it in tests and simulations;
//! in production there is no such place ([`crate::planted::NoBugs`]).

use crate::planted::planted;

planted! {
    /// A replica acknowledges what is not durable.
    AckBeforeLog "ack-before-log",
    /// A replica sends on what is not durable.
    ForwardBeforeLog "forward-before-log",
    /// The head answers when its own log has it.
    ReplyBeforeAck "reply-before-ack",
    /// A retry is done again.
    ForgetReplies "forget-replies",
    /// Entries are taken in the order in which they arrive.
    TakeOutOfOrder "take-out-of-order",
    /// A replica serves reads when its lease is over.
    ServeWithoutLease "serve-without-lease",
    /// A new tail serves reads before the old one knows of it, and before it has committed what the old one may have shown.
    ServeUnsettled "serve-unsettled",
    /// A replica answers reads of keys that are not clean.
    ReadDirty "read-dirty",
    /// A new head locks nothing for entries that are under way.
    ForgetLocks "forget-locks",
    /// A transaction runs though another has one of its keys.
    IgnoreLocks "ignore-locks",
    /// Messages of earlier epochs are taken.
    TakeOldEpoch "take-old-epoch",
    /// A replica that comes back keeps what it had beyond what is committed.
    KeepSuffix "keep-suffix",
    /// A chunk of the image is taken for as new as the newest one, whatever was applied in between.
    TakeOldChunk "take-old-chunk",
    /// A replica is taken for caught up when its image is there, whatever of the log it lacks.
    JoinTooSoon "join-too-soon",
    /// The controller gives away the part of a replica whose lease still runs.
    DeposeTooSoon "depose-too-soon",
    /// The controller counts a replica that lost its log as one that has everything.
    TrustEmptyLog "trust-empty-log",
    /// Recovery takes the first entry that it cannot read for the end of the log.
    TruncateMidLog "truncate-mid-log",
    /// Recovery replays nothing that is older than what the checkpoint ended with, instead of began with.
    ReplayTooLittle "replay-too-little",
    /// A replica that is left out by an order goes on as a chain of its own: two serve the same keys.
    ServeRemoved "serve-removed",
    /// The controller takes a replica that is being given what it lacks for one that has everything, and leaves another out.
    SwitchTooSoon "switch-too-soon",
    /// The members hear of a configuration before the one that its order leaves out, whose lease may run.
    TellTooSoon "tell-too-soon",
    /// A replica takes the configuration of a controller that another has taken over from: an earlier one than it has.
    ObeyStaleController "obey-stale-controller",
    /// A head runs others while a claim is under way, by the one before it.
    PassClaim "pass-claim",
    /// A new head does not look for claims among entries that are under way.
    ForgetClaim "forget-claim",
    /// A replica answers reads under a claim though it is not clean.
    ReadDirtyClaim "read-dirty-claim",
    /// A replica serves keys that another chain has. The last one: what only several chains, or a client that goes by an old file, can show.
    ServeOthers "serve-others",
}
