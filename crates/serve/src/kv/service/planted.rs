//! Mistakes at the joints of home, store and log that can be made on purpose, one at a time, to see that the simulator finds them
//! (`millrace sim --durability`).

use super::chained;
use protocol::chain::at_home;
use protocol::coherence;
use protocol::planted::Bugs;

/// A mistake of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Packets leave before what they show is durable.
    PacketsBeforeDurable,
    /// A home whose items are logged gives keys to boxes: what they do with them is in no log.
    GivesWhatIsLogged,
}

/// What a service can do wrong: as the home that it is, over a chain, and by itself.
pub trait Mistakes:
    Bugs<coherence::Planted> + Bugs<chained::Planted> + Bugs<at_home::Planted> + Bugs<Planted>
{
}

impl<B> Mistakes for B where
    B: Bugs<coherence::Planted> + Bugs<chained::Planted> + Bugs<at_home::Planted> + Bugs<Planted>
{
}
