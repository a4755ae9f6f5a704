//! Mistakes of edges that can be made on purpose, one at a time, to see that the simulator finds them (`millrace sim --node`). On the machine none is left in
//! the program: [`System::has`](super::super::system::System::has) is false there when it is compiled.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A client that does not take its replies is read on.
    ReadsWhileStuck,
    /// Bytes are read behind requests that wait for their turn, though the buffer may be full.
    ReadsBeforeTurn,
    /// An edge that ends reads nothing more of what has come.
    DrainReadsNothing,
    /// An edge that ends does not wait for slow readers.
    DrainLeavesStuck,
    /// An edge that ends forgets connections that it has not seen yet.
    DrainForgetsInbox,
    /// A connection that ends keeps its input buffer.
    KeepsBuffer,
    /// What a connection had not sent stays counted when it ends.
    KeepsCount,
    /// An edge that waits for the core's thread does not count on it: the thread leaves off when the register says so.
    IsNotCounted,
    /// Nobody is closed when all together buffer too much.
    KicksNobody,
    /// Replies go to the connection that asked last.
    RepliesCross,
    /// A buffer does not grow for a request that is longer.
    DoesNotGrow,
    /// Who asks for more than a turn's worth is not asked again.
    LaggardsStarve,
    /// A connection that could go on after its client took its replies does not.
    ResumesOnly,
}

impl Planted {
    /// All of them.
    pub const ALL: &[Planted] = &[
        Planted::ReadsWhileStuck,
        Planted::ReadsBeforeTurn,
        Planted::DrainReadsNothing,
        Planted::DrainLeavesStuck,
        Planted::DrainForgetsInbox,
        Planted::KeepsBuffer,
        Planted::KeepsCount,
        Planted::IsNotCounted,
        Planted::KicksNobody,
        Planted::RepliesCross,
        Planted::DoesNotGrow,
        Planted::LaggardsStarve,
        Planted::ResumesOnly,
    ];

    /// As the command line calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Planted::ReadsWhileStuck => "reads-while-stuck",
            Planted::ReadsBeforeTurn => "reads-before-turn",
            Planted::DrainReadsNothing => "drain-reads-nothing",
            Planted::DrainLeavesStuck => "drain-leaves-stuck",
            Planted::DrainForgetsInbox => "drain-forgets-inbox",
            Planted::KeepsBuffer => "keeps-buffer",
            Planted::KeepsCount => "keeps-count",
            Planted::IsNotCounted => "is-not-counted",
            Planted::KicksNobody => "kicks-nobody",
            Planted::RepliesCross => "replies-cross",
            Planted::DoesNotGrow => "does-not-grow",
            Planted::LaggardsStarve => "laggards-starve",
            Planted::ResumesOnly => "resumes-only",
        }
    }
}
