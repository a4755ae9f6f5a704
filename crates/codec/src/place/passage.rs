//! What crosses for one request with nobody else on the link: the count that `cargo bench --bench serialise` prints, and that the accelerator of a server is
//! held against.
//!
//! Exact, and the same on every machine: it depends on the message, on what is done with it, and on who serialises the reply.

use super::accelerator::Accelerator;
use super::message::Placed;
use crate::crossing::{Counts, Crossing};
use crate::encode::Strategy;
use std::error::Error;

/// What crossed, by what was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// A message came in, and its fields were placed.
    pub received: Counts,
    /// It was worked on.
    pub worked: Counts,
    /// The reply went out.
    pub sent: Counts,
}

impl Passage {
    /// Of a message of `class`, of what `work` does with it, and of the reply that `work` makes: without one the message goes back as it is. Both are there
    /// until all is counted, so that memory which is given back is not in it.
    ///
    /// # Errors
    /// The message is malformed, the reply cannot be serialised, or what `work` says.
    ///
    /// # Panics
    /// If a thread of the accelerator has died.
    pub fn of<C: Crossing + Send + Sync + 'static>(
        accelerator: &mut Accelerator<C>,
        class: u32,
        wire: Vec<u8>,
        strategy: Strategy,
        work: impl FnOnce(&mut Accelerator<C>, &mut Placed) -> Result<Option<Placed>, Box<dyn Error>>,
    ) -> Result<Passage, Box<dyn Error>> {
        let begin = accelerator.crossing().counts();
        let mut request = accelerator.receive(class, wire)?;
        let received = accelerator.crossing().counts();
        let reply = work(accelerator, &mut request)?;
        let worked = accelerator.crossing().counts();
        accelerator.send(reply.as_ref().unwrap_or(&request), strategy, 0)?;
        let sent = accelerator.crossing().counts();
        Ok(Passage { received: received - begin, worked: worked - received, sent: sent - worked })
    }

    /// All of it.
    pub fn all(&self) -> Counts {
        self.received + self.worked + self.sent
    }
}
