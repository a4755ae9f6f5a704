//! Questions to a loop, answered between two of its turns: so figures need no lock, and nothing is counted twice while nobody asks.
//!
//! ```text
//!  admin's collector ── question ──▶ loop: answers what was asked meanwhile, once in a turn ── answer ──▶ collector
//! ```
//! Bounds: `OPEN_MAX` questions that are not taken; a loop that does not answer within [`ANSWER_TIMEOUT`] is gone without.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Questions that wait for a loop's turn.
const OPEN_MAX: usize = 16;
/// How long a loop may take for an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The loop's end.
#[derive(Debug)]
pub struct Questions<T>(Receiver<SyncSender<T>>);

impl<T> Questions<T> {
    /// Answers whoever asked meanwhile.
    pub fn answer(&self, mut answer: impl FnMut() -> T) {
        while let Ok(asker) = self.0.try_recv() {
            // Who went away does not want it any more.
            let _ = asker.try_send(answer());
        }
    }
}

/// The other end; clones ask the same loop.
#[derive(Debug)]
pub struct Asker<T>(SyncSender<SyncSender<T>>);

impl<T> Clone for Asker<T> {
    fn clone(&self) -> Asker<T> {
        Asker(self.0.clone())
    }
}

/// Both ends.
pub fn questions<T>() -> (Asker<T>, Questions<T>) {
    let (ask, asked) = sync_channel(OPEN_MAX);
    (Asker(ask), Questions(asked))
}

impl<T> Asker<T> {
    /// What the loop answers; none when it has ended, or does not come to it.
    pub fn ask(&self) -> Option<T> {
        ask_all(std::slice::from_ref(self)).pop()
    }
}

/// What these loops answer, asked at the same time; without those that do not.
pub fn ask_all<T>(askers: &[Asker<T>]) -> Vec<T> {
    let end = Instant::now() + ANSWER_TIMEOUT;
    let asked = askers.iter().filter_map(|asker| {
        let (answer, answered) = sync_channel(1);
        asker.0.try_send(answer).ok().map(|()| answered)
    });
    let asked: Vec<Receiver<T>> = asked.collect();
    let answers = asked
        .iter()
        .filter_map(|answer| answer.recv_timeout(end.saturating_duration_since(Instant::now())).ok());
    answers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn loops_answer_between_turns_and_those_that_ended_are_gone_without() {
        let (ask, asked) = questions();
        let (ask_ended, ended) = questions();
        drop(ended);
        let turning = thread::spawn(move || {
            for turn in 0..u32::MAX {
                let mut is_asked = false;
                asked.answer(|| {
                    is_asked = true;
                    turn
                });
                if is_asked {
                    return;
                }
                thread::yield_now();
            }
        });
        assert_eq!(ask_all(&[ask_ended, ask.clone()]).len(), 1);
        turning.join().expect("it ends");
        assert_eq!(ask.ask(), None);
    }
}
