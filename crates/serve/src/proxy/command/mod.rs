//! A memcached command as a small state machine over operations of the in-network cache: no socket, no clock.
//!
//! ```text
//!   direct    one operation says it all (set, add, delete, incr, …) ──▶ Done
//!   by hand   read ──▶ decide, with memcached's meaning ──▶ Done: nothing is to be changed
//!              ▲           └──▶ one write, on condition that the version is what was read ──▶ Done
//!              └── it changed meanwhile ──┘
//! ```
//!
//! Why it is linearizable: a command that changes something does so in one write; on success nothing had changed since the read, so that
//! read, decision and write take effect together, where the home applies the write. One that changes nothing is a read. A decision that could
//! not be written has had no effect.
//!
//! Where the item, or what would become of it, is too long for a packet and homes have streams, the whole command goes to its home as one of memcached's
//! (`stream`).
//!
//! Bounds: [`ROUNDS`] readings. Errors: [`Trouble`].
//!
//! Files: this one is the machine; one per family says its direct operation ([`Verb`]) and what it decides of what is there.
//!
//! Tests: `tests` holds it against `store::Store`, which is memcached's meaning in this program, alone and with others in between.

mod count;
mod delete;
mod read;
mod store;
mod stream;
#[cfg(test)]
mod tests;

pub use count::Count;
pub use delete::Delete;
pub use read::Read;
pub use store::Store;

use crate::inc::stream::{Request, Said};
use base::Nanos;
use protocol::coherence::client::{Answer, Call, Failed};
use protocol::wire::{HomeId, Kind, MAX_VALUE, Status, Ttl, Verb, Version};

/// Readings after which a command gives up: others are faster each time.
pub const ROUNDS: u32 = 64;

/// As long as what was there before.
const KEPT: Nanos = Ttl::KEPT.nanos();

/// What a command wants done with its key.
#[derive(Clone, Debug)]
pub enum What {
    /// `get`, `gets`, `gat`, `gats`, `mg`.
    Read(Read),
    /// `set` and its family, `ms`.
    Store(Store),
    /// `delete`, `md`.
    Delete(Delete),
    /// `incr`, `decr`, `ma`.
    Count(Count),
    /// `touch`: lives so long from now.
    Touch(Nanos),
    /// `flush_all`: all keys of these homes, one home after the other.
    Flush(Vec<HomeId>),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is there.
    Hit(Hit),
    /// It is not there.
    Miss,
    /// It is stored.
    Stored {
        /// As this version.
        version: u64,
        /// Bytes of the whole value; of what was appended, where nobody asked.
        size: usize,
    },
    /// The condition of add, replace, append or prepend was not met.
    NotStored,
    /// Another version is there.
    Exists,
    /// Nothing is there.
    NotFound,
    /// It was deleted, or marked, or emptied.
    Deleted,
    /// It has another life.
    Touched,
    /// Everything is forgotten.
    Flushed,
    /// It is another number.
    Counted(Counted),
    /// What is there is no number.
    NotNumeric,
    /// The value does not fit a datagram, and there is no other way; or its home takes none so long.
    TooLarge,
    /// The home has no memory for it.
    NoMemory,
    /// It was not to be done.
    Failed(Trouble),
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Bytes.
    pub value: Vec<u8>,
    /// The client's flags.
    pub flags: u32,
    /// Its version.
    pub version: u64,
    /// What is left of its life; [`Nanos::MAX`]: for ever.
    pub life: Nanos,
    /// The same, before this command changed it.
    pub life_before: Nanos,
    /// This client shall store it anew.
    pub won: bool,
    /// It is out of date.
    pub stale: bool,
    /// Another client was told to store it anew.
    pub claimed: bool,
}

/// What a number became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The number.
    pub number: u64,
    /// Its version.
    pub version: u64,
    /// What is left of its life; [`Nanos::MAX`]: for ever.
    pub life: Nanos,
    /// The same, before.
    pub life_before: Nanos,
    /// Nothing was there before.
    pub created: bool,
}

/// Why a command has no outcome of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nobody answered. It was not done.
    NotDone,
    /// Nobody answered. It may have been done.
    Unknown,
    /// Each time, somebody else changed the item first. It was not done.
    Contended,
    /// The home said so. It was not done.
    Refused(Status),
}

/// What a command needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The outcome of this operation.
    Ask(Call),
    /// The reply to this, by the stream of the key's home.
    Send(Request),
    /// Nothing.
    Done(Outcome),
}

/// What is there, as a read of it told.
#[derive(Clone, Debug)]
struct Found {
    value: Vec<u8>,
    flags: u32,
    kind: Kind,
    version: u64,
    life: Nanos,
}

impl Found {
    fn is_stale(&self) -> bool {
        matches!(self.kind, Kind::Stale | Kind::StaleClaimed)
    }

    fn is_claimed(&self) -> bool {
        matches!(self.kind, Kind::Claimed | Kind::StaleClaimed)
    }
}

/// The kind of bytes that are so marked.
fn marked(stale: bool, claimed: bool) -> Kind {
    match (stale, claimed) {
        (false, false) => Kind::Bytes,
        (true, false) => Kind::Stale,
        (false, true) => Kind::Claimed,
        (true, true) => Kind::StaleClaimed,
    }
}

/// The write that makes a decision true. Its condition is that what was read is still there, or still nothing.
#[derive(Clone, Debug)]
enum Write {
    /// Store this.
    Put { value: Vec<u8>, flags: u32, kind: Kind, life: Nanos },
    /// Another life.
    Touch(Nanos),
    /// Remove it.
    Remove,
}

/// What a command decides of what is there.
struct Decision {
    /// To be done first; without it the outcome stands.
    write: Option<Write>,
    /// What comes of it; its version is the write's.
    outcome: Outcome,
}

impl Decision {
    fn nothing(outcome: Outcome) -> Decision {
        Decision { write: None, outcome }
    }

    fn write(write: Write, outcome: Outcome) -> Decision {
        Decision { write: Some(write), outcome }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Nothing was asked, or the one operation that may say it all.
    Direct,
    /// What is there.
    Reading,
    /// The write of a decision.
    Writing(Outcome),
    /// So many homes have forgotten everything.
    Flushing(usize),
}

/// A command under way.
#[derive(Clone, Debug)]
pub struct Task {
    key: Vec<u8>,
    what: What,
    step: Step,
    rounds: u32,
    /// Its home has a stream.
    has_stream: bool,
    /// It goes by that.
    is_long: bool,
}

impl Task {
    /// Of this key; none for a flush.
    pub fn new(key: Vec<u8>, what: What) -> Task {
        Task { key, what, step: Step::Direct, rounds: 0, has_stream: false, is_long: false }
    }

    /// The same, of a key whose home may have a stream.
    #[must_use]
    pub fn with_stream(self, has_stream: bool) -> Task {
        let is_long = has_stream && matches!(&self.what, What::Store(store) if store.value.len() > MAX_VALUE);
        Task { has_stream, is_long, ..self }
    }

    /// Its key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// What it wants.
    pub fn what(&self) -> &What {
        &self.what
    }

    /// Whether it changes nothing, as far as can be told before it is begun.
    pub fn only_reads(&self) -> bool {
        matches!(&self.what, What::Read(read) if read.is_plain())
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        let value = if let What::Store(store) = &self.what { store.value.len() } else { 0 };
        self.key.len() + value
    }

    /// What is asked for first; also after an outcome that nobody wants to know any more. It is never done at once: a key that came by memcached's protocol
    /// fits its commands.
    pub fn begin(&mut self) -> Next {
        self.rounds = 0;
        if self.is_long {
            return self.send();
        }
        Next::Ask(self.begin_by_packet())
    }

    fn begin_by_packet(&mut self) -> Call {
        if let What::Flush(homes) = &self.what {
            self.step = Step::Flushing(0);
            return Call::flush(homes[0]);
        }
        self.step = Step::Direct;
        match self.direct() {
            Some(call) => call,
            None => self.read(),
        }
    }

    /// The whole of it, by stream.
    fn send(&mut self) -> Next {
        match stream::request_of(&self.key, &self.what) {
            Some(request) => {
                self.is_long = true;
                Next::Send(request)
            }
            None => Next::Done(Outcome::TooLarge),
        }
    }

    /// Hears the outcome of the operation that was asked for.
    pub fn hear(&mut self, outcome: Result<Answer, Failed>) -> Next {
        match outcome {
            Ok(answer) => match self.hear_answer(answer) {
                // It had no effect, or none that could be.
                Next::Done(Outcome::TooLarge) if self.has_stream => self.send(),
                next => next,
            },
            Err(failed) => Next::Done(failure(failed)),
        }
    }

    /// Hears what the home said by its stream.
    pub fn hear_said(&mut self, said: Result<Said, Failed>) -> Next {
        match said.map(|said| stream::outcome(&self.what, said)) {
            Err(failed) => Next::Done(failure(failed)),
            Ok(Some(outcome)) => Next::Done(outcome),
            Ok(None) if self.rounds < ROUNDS => {
                self.is_long = false;
                // Counts as a reading, so that it ends.
                self.rounds += 1;
                Next::Ask(self.begin_by_packet())
            }
            Ok(None) => Next::Done(Outcome::Failed(Trouble::Contended)),
        }
    }

    fn hear_answer(&mut self, answer: Answer) -> Next {
        match &mut self.step {
            Step::Direct => match self.concluded(&answer) {
                Some(outcome) => Next::Done(outcome),
                None => Next::Ask(self.read()),
            },
            Step::Reading => self.decide(answer),
            Step::Writing(outcome) => match answer.status {
                Status::Ok => {
                    let mut outcome = std::mem::replace(outcome, Outcome::Miss);
                    outcome.is_version(answer.version.0);
                    Next::Done(outcome)
                }
                // It changed since it was read, or is gone, or came.
                Status::Exists | Status::Miss if self.rounds < ROUNDS => Next::Ask(self.read()),
                Status::Exists | Status::Miss => Next::Done(Outcome::Failed(Trouble::Contended)),
                status => Next::Done(refused(status)),
            },
            Step::Flushing(done) => {
                if answer.status != Status::Ok {
                    return Next::Done(refused(answer.status));
                }
                *done += 1;
                let What::Flush(homes) = &self.what else { unreachable!("only a flush is flushing") };
                match homes.get(*done) {
                    Some(home) => Next::Ask(Call::flush(*home)),
                    None => Next::Done(Outcome::Flushed),
                }
            }
        }
    }

    fn read(&mut self) -> Call {
        self.step = Step::Reading;
        self.rounds += 1;
        // Whoever lost a race asks the home: what a box fetches now is soon taken back.
        Call { no_cache: self.rounds > 1, ..Call::new(Verb::Get, &self.key) }
    }

    fn direct(&self) -> Option<Call> {
        match &self.what {
            What::Read(read) => read.direct(&self.key),
            What::Store(store) => store.direct(&self.key),
            What::Delete(delete) => delete.direct(&self.key),
            What::Count(count) => count.direct(&self.key),
            What::Touch(life) => Some(Call { life: *life, ..Call::new(Verb::Touch, &self.key) }),
            What::Flush(_) => None,
        }
    }

    /// What the answer to the direct operation says; none where it must be done by hand.
    fn concluded(&self, answer: &Answer) -> Option<Outcome> {
        let outcome = match (&self.what, answer.status) {
            (What::Read(_) | What::Flush(_), _) => unreachable!("these have no direct operation"),
            (What::Store(store), _) => store.concluded(answer),
            (What::Delete(_), Status::Ok) => Outcome::Deleted,
            (What::Delete(_), Status::Exists) => Outcome::Exists,
            (What::Touch(_), Status::Ok) => Outcome::Touched,
            (What::Count(_), Status::NotNumber) => return None,
            (What::Count(_), Status::Ok) => Outcome::Counted(Counted::of(answer)),
            (_, Status::Miss) => Outcome::NotFound,
            (_, status) => refused(status),
        };
        Some(outcome)
    }

    fn decide(&mut self, answer: Answer) -> Next {
        let found = match answer.status {
            Status::Ok => Some(Found {
                value: answer.value,
                flags: answer.flags,
                kind: answer.kind,
                version: answer.version.0,
                life: answer.life,
            }),
            Status::Miss => None,
            status => return Next::Done(refused(status)),
        };
        let version = found.as_ref().map(|found| found.version);
        let Decision { write, outcome } = match &self.what {
            What::Read(read) => read.decide(found),
            What::Store(store) => store.decide(found),
            What::Delete(delete) => delete.decide(found),
            What::Count(count) => count.decide(found),
            What::Touch(_) | What::Flush(_) => unreachable!("these never read"),
        };
        match write {
            None => Next::Done(outcome),
            Some(Write::Put { value, .. }) if value.len() > MAX_VALUE => Next::Done(Outcome::TooLarge),
            Some(write) => {
                self.step = Step::Writing(outcome);
                Next::Ask(self.write(write, version))
            }
        }
    }

    /// The operation that writes where `version` is, or nothing.
    fn write(&self, write: Write, version: Option<u64>) -> Call {
        let call = |verb| Call {
            version: Version(version.unwrap_or(0)),
            // What is there was just read: asking a box again whether the condition holds would tell nothing new.
            no_cache: true,
            ..Call::new(verb, &self.key)
        };
        match write {
            Write::Put { value, flags, kind, life } => {
                let verb = if version.is_some() { Verb::Cas } else { Verb::Add };
                Call { value, flags, kind, life, ..call(verb) }
            }
            Write::Touch(life) => Call { life, ..call(Verb::Touch) },
            Write::Remove => call(Verb::Delete),
        }
    }
}

impl Outcome {
    /// The write that made it true had this version.
    fn is_version(&mut self, of_write: u64) {
        match self {
            Outcome::Hit(Hit { version, .. })
            | Outcome::Stored { version, .. }
            | Outcome::Counted(Counted { version, .. }) => *version = of_write,
            _ => {}
        }
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        if let Outcome::Hit(hit) = self { hit.value.len() } else { 0 }
    }
}

/// The outcome of what nobody answered.
fn failure(failed: Failed) -> Outcome {
    Outcome::Failed(match failed {
        Failed::NotDone => Trouble::NotDone,
        Failed::Unknown => Trouble::Unknown,
    })
}

/// The outcome of an operation that the home would not do, for no reason that a command expects.
fn refused(status: Status) -> Outcome {
    match status {
        Status::TooLarge => Outcome::TooLarge,
        Status::NoRoom => Outcome::NoMemory,
        status => Outcome::Failed(Trouble::Refused(status)),
    }
}

/// Whole seconds that are left of a life; none for ever.
pub fn seconds(life: Nanos) -> Option<u32> {
    let whole = life.0.div_ceil(1_000_000_000);
    (life != Nanos::MAX).then(|| u32::try_from(whole).unwrap_or(u32::MAX))
}
