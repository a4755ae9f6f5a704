//! Sessions over a simulated network.

/// Bugs that the checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Planted {
    /// A message that arrives again is handed out again.
    DuplicateDelivered,
    /// Packets are acknowledged that never arrived.
    AckedUnreceived,
    /// What is sent again gets another message's number.
    ResentAsAnother,
    /// Messages taken give no credit back.
    CreditKept,
    /// Datagrams of an earlier session with the same number are taken.
    OldEpochAccepted,
    /// A changed datagram is read as it is.
    ChecksumIgnored,
}
