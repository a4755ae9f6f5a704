//! Mistakes at the joints of home, store and log that can be made on purpose, one at a time, to see that the simulator finds them
//! (`millrace sim --durability`).

use super::chained;
use protocol::chain::at_home;
use protocol::coherence;
use protocol::planted::Bugs;
use store::warm;

/// A mistake of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Packets leave before what they show is durable.
    PacketsBeforeDurable,
    /// A home whose items are logged gives keys to boxes: what they do with them is in no log.
    GivesWhatIsLogged,
    /// A home that begins with what an earlier life left in memory goes on with the versions that it finds there, not above its own number.
    GoesByMemory,
    /// A flush that is still to come is not left with the memory.
    FlushStaysBehind,
}

/// What a service can do wrong: as the home that it is, over a chain, and by itself.
pub trait Mistakes:
    Bugs<coherence::Planted>
    + Bugs<chained::Planted>
    + Bugs<at_home::Planted>
    + Bugs<Planted>
    + Bugs<warm::Planted>
{
}

/// What it does wrong with memory that a process left.
pub struct WithMemory<'b, B>(pub &'b B);

impl<B: Bugs<warm::Planted>> warm::Mistakes for WithMemory<'_, B> {
    fn has(&self, planted: warm::Planted) -> bool {
        self.0.has(planted)
    }
}

impl<B> Mistakes for B where
    B: Bugs<coherence::Planted>
        + Bugs<chained::Planted>
        + Bugs<at_home::Planted>
        + Bugs<Planted>
        + Bugs<warm::Planted>
{
}
