//! Everything that can be wrong on purpose: in the machines of the cache, and at the joints of home, store and log.

use super::chains::Wrongly;
use super::disks::Lie;
use super::homes::Homes;
use protocol::chain::Planted as InReplica;
use protocol::chain::at_home::Planted as AtHome;
use protocol::coherence::Planted;
use protocol::planted::Bugs;
use protocol::replies::Planted as InReplies;
use serve::kv::service::chained::Planted as InChained;
use serve::kv::service::planted::Planted as InService;
use store::warm::Planted as InMemory;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Of a machine of the cache.
    Cache(Planted),
    /// Of the service of a home that is a node.
    Service(InService),
    /// Of what is between a home and the chain that its items lie in.
    Chained(InChained),
    /// Of who has transactions of clients admitted.
    AtHome(AtHome),
    /// What its chain does that no chain may.
    Chain(Wrongly),
    /// Of the replicas and controllers behind it.
    Replica(InReplica),
    /// Of who goes on with memory that a process left.
    Memory(InMemory),
    /// Of who keeps replies of methods.
    Replies(InReplies),
    /// Its disk says too early that something is done: as if it did not wait.
    Disk(Lie),
}

const CACHE: usize = Planted::ALL.len();

/// Those of nodes with a log: a home's own, that a store below must not hide, and those of the joints.
const LOGGED: &[Bug] = &[
    Bug::Cache(Planted::SkipInvalidation),
    Bug::Cache(Planted::GrantWhileWriting),
    Bug::Cache(Planted::TwoWritesAtOnce),
    Bug::Cache(Planted::ApplyAtTimeout),
    Bug::Cache(Planted::NoSessions),
    Bug::Cache(Planted::ServeAtOnce),
    Bug::Cache(Planted::FlushSkipsBoxes),
    Bug::Cache(Planted::OwnVersions),
    Bug::Cache(Planted::TicketSkipsBoxes),
    Bug::Cache(Planted::TicketOvertakes),
    Bug::Cache(Planted::TicketTooEarly),
    Bug::Service(InService::PacketsBeforeDurable),
    Bug::Service(InService::GivesWhatIsLogged),
    Bug::Disk(Lie::Durable),
    Bug::Disk(Lie::Published),
];

/// Those of nodes whose items lie in a chain.
const CHAINED: &[Bug] = &[
    Bug::Cache(Planted::SkipInvalidation),
    Bug::Cache(Planted::GrantWhileWriting),
    Bug::Cache(Planted::ApplyAtTimeout),
    Bug::Cache(Planted::NoSessions),
    Bug::Cache(Planted::ServeAtOnce),
    Bug::Cache(Planted::FlushSkipsBoxes),
    Bug::Cache(Planted::TicketSkipsBoxes),
    Bug::Cache(Planted::GrantWhileUnderWay),
    Bug::Cache(Planted::GrantWhatIsOld),
    Bug::Cache(Planted::UnknownForgotten),
    Bug::Cache(Planted::UnknownUndone),
    Bug::Chained(InChained::RetryUnknown),
    Bug::Chained(InChained::StoresUnseen),
    Bug::Chained(InChained::FlushesUnseen),
    Bug::Chained(InChained::SameIsDone),
    Bug::Chained(InChained::ForgetConditions),
    Bug::AtHome(AtHome::ExecuteTooSoon),
    Bug::AtHome(AtHome::ReleaseTooSoon),
    Bug::AtHome(AtHome::MissOne),
    Bug::AtHome(AtHome::MissAll),
    Bug::AtHome(AtHome::MissAttributes),
    Bug::AtHome(AtHome::LostIsOver),
    Bug::AtHome(AtHome::Settles),
    Bug::Chain(Wrongly::AnyClaim),
    Bug::Chain(Wrongly::DoneTwice),
    Bug::Replica(InReplica::AckBeforeLog),
    Bug::Replica(InReplica::ReplyBeforeAck),
    Bug::Replica(InReplica::ForgetReplies),
    Bug::Replica(InReplica::PassClaim),
    Bug::Replica(InReplica::ForgetClaim),
    Bug::Replica(InReplica::SwitchTooSoon),
    Bug::Replica(InReplica::TrustEmptyLog),
    Bug::Replica(InReplica::ReplayTooLittle),
    Bug::Replica(InReplica::TakeOldChunk),
];

/// Those of nodes without: a home's own.
const CACHED: &[Bug] = &[
    Bug::Cache(Planted::SkipInvalidation),
    Bug::Cache(Planted::GrantWhileWriting),
    Bug::Cache(Planted::ServeAtOnce),
    Bug::Cache(Planted::VersionsRestart),
    Bug::Cache(Planted::FlushSkipsBoxes),
    Bug::Cache(Planted::NoVersionBlock),
    Bug::Cache(Planted::OwnVersions),
    Bug::Cache(Planted::MissWhileHeld),
    Bug::Cache(Planted::TicketSkipsBoxes),
    Bug::Cache(Planted::TicketOvertakes),
    Bug::Cache(Planted::TicketReadsOwned),
    Bug::Cache(Planted::TicketTooEarly),
    Bug::Memory(InMemory::InUseIsNotSaid),
    Bug::Memory(InMemory::AnyLayout),
    Bug::Memory(InMemory::Anybodys),
    Bug::Memory(InMemory::FirstIsBelieved),
    Bug::Service(InService::GoesByMemory),
    Bug::Service(InService::FlushStaysBehind),
];

/// Those that only a store that takes time can show.
const SLOW: usize = 4;

const fn needs_a_slow_store(planted: Planted) -> bool {
    matches!(
        planted,
        Planted::GrantWhileUnderWay
            | Planted::GrantWhatIsOld
            | Planted::UnknownForgotten
            | Planted::UnknownUndone
    )
}

/// Those of the machines alone.
const BARE: &[Bug] = &{
    let mut all = [Bug::Cache(Planted::SkipInvalidation); CACHE - SLOW];
    let (mut i, mut count) = (0, 0);
    while i < CACHE {
        if !needs_a_slow_store(Planted::ALL[i]) {
            all[count] = Bug::Cache(Planted::ALL[i]);
            count += 1;
        }
        i += 1;
    }
    assert!(count == CACHE - SLOW);
    all
};

/// Those of replicas, the last ones over chains.
const REPLICAS: usize = 9;

/// Those of replies that are kept: where clients call methods. (A mark that is lost is no matter here: nothing loses one.)
pub const REPLIES: &[Bug] = &[
    Bug::Replies(InReplies::FillWithoutClaim),
    Bug::Replies(InReplies::InvalidateAfterwards),
    Bug::Replies(InReplies::MarkOfAnother),
    Bug::Replies(InReplies::EndAllMarks),
    Bug::Replies(InReplies::AnyName),
];

/// All.
pub const ALL: &[Bug] = &{
    const JOINTS: usize = 4;
    const CHAIN: usize = 14 + REPLICAS;
    const MEMORY: usize = 6;
    const KEPT: usize = REPLIES.len();
    let mut all = [BARE[0]; CACHE + JOINTS + CHAIN + MEMORY + KEPT];
    let mut i = 0;
    while i < CACHE {
        all[i] = Bug::Cache(Planted::ALL[i]);
        i += 1;
    }
    let joints = LOGGED.split_at(LOGGED.len() - JOINTS).1;
    while i < CACHE + JOINTS {
        all[i] = joints[i - CACHE];
        i += 1;
    }
    let chain = CHAINED.split_at(CHAINED.len() - CHAIN).1;
    while i < CACHE + JOINTS + CHAIN {
        all[i] = chain[i - CACHE - JOINTS];
        i += 1;
    }
    let memory = CACHED.split_at(CACHED.len() - MEMORY).1;
    while i < CACHE + JOINTS + CHAIN + MEMORY {
        all[i] = memory[i - CACHE - JOINTS - CHAIN];
        i += 1;
    }
    while i < all.len() {
        all[i] = REPLIES[i - CACHE - JOINTS - CHAIN - MEMORY];
        i += 1;
    }
    all
};

impl Bug {
    /// As the command line calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Bug::Cache(planted) => planted.name(),
            Bug::Service(InService::PacketsBeforeDurable) => "packets-before-durable",
            Bug::Service(InService::GivesWhatIsLogged) => "gives-what-is-logged",
            Bug::Service(InService::GoesByMemory) => "goes-by-memory",
            Bug::Service(InService::FlushStaysBehind) => "flush-stays-behind",
            Bug::Memory(InMemory::InUseIsNotSaid) => "in-use-is-not-said",
            Bug::Memory(InMemory::AnyLayout) => "any-layout",
            Bug::Memory(InMemory::Anybodys) => "anybodys-memory",
            Bug::Memory(InMemory::FirstIsBelieved) => "first-is-believed",
            Bug::Memory(InMemory::VersionIsForgotten) => "version-is-forgotten",
            Bug::Memory(InMemory::EntriesAreBelieved) => "entries-are-believed",
            Bug::Memory(InMemory::LargeStayBehind) => "large-stay-behind",
            Bug::Chained(InChained::TrustAttributes) => "trust-attributes",
            Bug::Chained(InChained::RetryUnknown) => "retry-unknown",
            Bug::Chained(InChained::ForgetConditions) => "forget-conditions",
            Bug::Chained(InChained::AnswerLater) => "answer-later",
            Bug::Chained(InChained::AnswerExpired) => "answer-expired",
            Bug::Chained(InChained::StoresUnseen) => "stores-unseen",
            Bug::Chained(InChained::FlushesUnseen) => "flushes-unseen",
            Bug::Chained(InChained::SameIsDone) => "same-is-done",
            Bug::AtHome(planted) => planted.name(),
            Bug::Replica(planted) => planted.name(),
            Bug::Replies(planted) => planted.name(),
            Bug::Chain(Wrongly::AnyClaim) => "any-claim",
            Bug::Chain(Wrongly::DoneTwice) => "done-twice",
            Bug::Disk(Lie::Durable) => "replies-before-durable",
            Bug::Disk(Lie::Published) => "forgets-before-snapshot",
        }
    }

    /// Those that are looked for where homes are such.
    pub const fn of(homes: Homes) -> &'static [Bug] {
        match homes {
            Homes::Bare => BARE,
            Homes::Cache => CACHED,
            Homes::Logged => LOGGED,
            Homes::Chained => CHAINED,
        }
    }

    /// Of a machine of the cache.
    pub fn in_cache(self) -> Option<Planted> {
        if let Bug::Cache(planted) = self { Some(planted) } else { None }
    }

    /// Of who goes on with memory. A home's own number is above every version in there: what forgets these shows only where it goes by them.
    pub fn in_memory(self) -> Option<InMemory> {
        match self {
            Bug::Memory(planted) => Some(planted),
            Bug::Service(InService::GoesByMemory) => Some(InMemory::VersionIsForgotten),
            _ => None,
        }
    }

    /// Of a chain.
    pub fn in_chain(self) -> Option<Wrongly> {
        if let Bug::Chain(wrongly) = self { Some(wrongly) } else { None }
    }

    /// Of a replica, or a controller of a chain.
    pub fn in_replica(self) -> Option<InReplica> {
        if let Bug::Replica(planted) = self { Some(planted) } else { None }
    }

    /// Of who keeps replies.
    pub fn in_replies(self) -> Option<InReplies> {
        if let Bug::Replies(planted) = self { Some(planted) } else { None }
    }

    /// Of a disk.
    pub fn in_disk(self) -> Option<Lie> {
        if let Bug::Disk(lie) = self { Some(lie) } else { None }
    }
}

/// What a home that is a node does wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wrong(pub Option<Bug>);

impl Bugs<Planted> for Wrong {
    fn has(&self, planted: Planted) -> bool {
        self.0 == Some(Bug::Cache(planted))
    }
}

impl Bugs<InChained> for Wrong {
    fn has(&self, planted: InChained) -> bool {
        self.0 == Some(Bug::Chained(planted))
    }
}

impl Bugs<AtHome> for Wrong {
    fn has(&self, planted: AtHome) -> bool {
        self.0 == Some(Bug::AtHome(planted))
    }
}

impl Bugs<InService> for Wrong {
    fn has(&self, planted: InService) -> bool {
        self.0 == Some(Bug::Service(planted))
    }
}

impl Bugs<InMemory> for Wrong {
    fn has(&self, planted: InMemory) -> bool {
        self.0.and_then(Bug::in_memory) == Some(planted)
    }
}
