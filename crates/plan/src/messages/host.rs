//! What the host's processor does to send a message, measured on this machine: from the call to the request in the lanes' ring.
//!
//! Strategies take turns, round by round; the figure is the median. Beside it the same with the message's fields of a length and more cut to a byte: that is
//! what the processor has to do when copy engines do the copies, without what it costs to ask them.
//!
//! Messages have just been decoded, so their bytes are in this processor's caches as far as they fit: on the paper's host what is sent is not.

use super::family::Message;
use super::tree::Tree;
use base::{Clock, spread};
use codec::crossing::Shared;
use codec::encode::Strategy;
use codec::place::{Accelerator, Live, Options};
use std::sync::Arc;

/// Messages under way: what the clock costs is shared by so many.
const BATCH: usize = 16;
/// Longer messages are timed one by one.
const LONG: usize = 64 << 10;

/// Nanoseconds of one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sending {
    /// By the order of [`Strategy::ALL`].
    pub whole: [f64; 3],
    /// The same without the copies of long fields.
    pub uncopied: [f64; 3],
}

struct Timed {
    accelerator: Accelerator,
    class: u32,
    wire: Vec<u8>,
    batch: usize,
}

impl Timed {
    fn new(message: &Message, tree: &Tree) -> Result<Timed, String> {
        let live = Arc::new(Live::new(message.schema.table()));
        let options = Options { threads: 1, lanes: 1, acc_bytes: 1 << 20, ..Options::default() };
        let accelerator = Accelerator::in_this_thread(vec![live], options, Arc::new(Shared::default()));
        let wire = tree.wire(&message.schema);
        Ok(Timed {
            accelerator: accelerator.map_err(|why| format!("memory for an accelerator: {why}"))?,
            class: tree.class(0),
            batch: if wire.len() > LONG { 1 } else { BATCH },
            wire,
        })
    }

    /// The host's part of sending, nanoseconds each.
    fn send(&mut self, strategy: Strategy) -> Result<f64, String> {
        let placed = (0..self.batch).map(|_| self.accelerator.receive(self.class, self.wire.clone()));
        let placed = placed.collect::<Result<Vec<_>, _>>().map_err(|why| why.to_string())?;
        let clock = Clock::shared();
        let start = clock.now();
        for message in placed {
            let sent = self.accelerator.submit_send(message, strategy, 0);
            sent.map_err(|(why, _)| format!("{why:?}"))?;
        }
        let ns = clock.now().since(start).0 as f64 / self.batch as f64;
        let mut left = self.batch;
        while left > 0 {
            if let Some((_, bytes)) = self.accelerator.poll_sent() {
                let bytes = bytes.map_err(|why| why.to_string())?;
                debug_assert_eq!(bytes, self.wire);
                left -= 1;
            }
        }
        Ok(ns)
    }
}

/// Measures a message, so many times each way; fields of `copied` bytes and more are those that engines would copy.
///
/// # Errors
/// The codec refuses the message.
pub fn measure(message: &Message, copied: usize, rounds: usize) -> Result<Sending, String> {
    let cut = message.tree.without_copies(copied);
    let mut subjects = [Timed::new(message, &message.tree)?, Timed::new(message, &cut)?];
    let mut seen: [[Vec<f64>; 3]; 2] = Default::default();
    // The first round makes buffers.
    for round in 0..=rounds.max(1) {
        for (subject, seen) in subjects.iter_mut().zip(&mut seen) {
            for turn in 0..Strategy::ALL.len() {
                let which = (round + turn) % Strategy::ALL.len();
                let ns = subject.send(Strategy::ALL[which])?;
                if round > 0 {
                    seen[which].push(ns);
                }
            }
        }
    }
    let [whole, uncopied] = seen.map(|by_strategy| by_strategy.map(spread::median));
    Ok(Sending { whole, uncopied })
}

#[cfg(test)]
mod tests {
    use super::super::family::services;
    use super::*;

    #[test]
    fn every_way_is_timed_and_what_is_sent_is_checked() {
        let family = services().remove(2);
        let sending = measure(&family.messages[0], 32, 2).expect("these messages are good");
        let all = sending.whole.into_iter().chain(sending.uncopied);
        assert!(all.clone().all(|ns| ns.is_finite() && ns >= 0.0), "{sending:?}");
        assert_eq!(all.count(), 6);
    }
}
