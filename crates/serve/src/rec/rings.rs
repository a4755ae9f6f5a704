//! The rings of the pipeline: `ring::spsc` between two threads, with the consumer's sleeper.
//!
//! ```text
//!  fabric edge ══ Door<Job> ══▶ ┐
//!                               ├ preprocessing ══ Door<Ready> ══▶ engine
//!  HTTP edge   ══ Door<Job> ══▶ ┘
//! ```
//! Why not `ring::pair`: an answer goes from the engine straight to the edge that the request came from, as ORCA's does to the network card, and not
//! back through preprocessing.
//!
//! Invariants: a consumer whose producers are gone ends when its rings are empty, so what was taken is answered. A door wakes its consumer
//! after each push and when it goes.

use ring::spsc::{Full, Hybrid, Kind, Produce};
use ring::wait::Waker;

/// The consuming end of a ring.
pub type Taken<T> = <Hybrid as Kind>::Consumer<T>;

/// The producing end of a ring, and the waker of its consumer.
pub struct Door<T: Send> {
    /// Some until it goes.
    ring: Option<<Hybrid as Kind>::Producer<T>>,
    waker: Waker,
}

/// A ring to a consumer that `waker` wakes.
pub fn ring<T: Send>(slots: usize, waker: Waker) -> (Door<T>, Taken<T>) {
    let slots = slots.next_power_of_two().min(ring::spsc::MAX_CAPACITY as usize) as u32;
    let (producer, consumer) = Hybrid::heap(slots);
    (Door { ring: Some(producer), waker }, consumer)
}

impl<T: Send> Door<T> {
    /// Hands an item over.
    ///
    /// # Errors
    /// There is no room, or nobody: the item comes back.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        let ring = self.ring.as_mut().expect("it is there until the drop");
        if ring.is_abandoned() {
            return Err(item);
        }
        let pushed = ring.try_push(item);
        ring.publish();
        self.waker.wake();
        pushed.map_err(|Full(item)| item)
    }

    /// Whether there is room now.
    pub fn has_room(&mut self) -> bool {
        self.ring.as_mut().is_some_and(|ring| ring.free() > 0)
    }

    /// Whether nobody will take what is pushed.
    pub fn is_abandoned(&self) -> bool {
        self.ring.as_ref().is_none_or(Produce::is_abandoned)
    }
}

impl<T: Send> Drop for Door<T> {
    fn drop(&mut self) {
        // Gone first: the consumer that wakes up sees it.
        drop(self.ring.take());
        self.waker.wake();
    }
}
