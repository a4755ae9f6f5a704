//! One line that a consumer of many rings watches while little comes, and that producers leave alone while much does.
//!
//! Why: a consumer that looks at every ring in turn finds new items soonest when there are many, and wastes its time, and the
//! bandwidth between cores, when there are few. So it has two levels. *Busy*: it looks at the rings themselves, and a
//! producer writes nothing but its ring. *Calm*: it looks at one word; a producer sets its bit there, and wakes it if it sleeps.
//! (Dagger, section 3.4: polling a local cache line or the processor's, by load. Here the switch is the consumer's to make.)
//!
//! Shape:
//! ```text
//! level (128 B, consumer writes): busy │ calm        news (128 B, producers set bits, consumer takes them)
//! ```
//! Invariants:
//! 1. A producer publishes, then looks at the level. The consumer sets the level to calm, then looks at every ring once more. With a
//!    SeqCst fence between the two steps on each side at least one sees the other, so nothing published is overlooked.
//! 2. The consumer takes the bits before it looks at their rings.
//!
//! Ordering: **dekker** marks both fences; **news**: the producer's `fetch_or` (Release) pairs with the consumer's `swap`
//! (Acquire): who takes a bit finds what was published before it was set. Bits of several producers form one release sequence.
//!
//! Cost: a producer pays one fence and one load of an unchanging line while the consumer is busy.
//!
//! Tests: loom, in `tests/loom.rs`, with the missing fence planted.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::wait::{Outcome, Sleeper, WaitPolicy, Waker};
use std::sync::Arc;
use std::time::Duration;

const BUSY: u32 = 0;
const CALM: u32 = 1;

/// How many bits there are.
pub const BITS: u32 = u64::BITS;

#[repr(C)]
struct Words {
    level: Level,
    news: News,
}

#[repr(C, align(128))]
struct Level(AtomicU32);

#[repr(C, align(128))]
struct News(AtomicU64);

/// The consumer's end.
pub struct Watch {
    words: Arc<Words>,
    sleeper: Sleeper,
    calm: bool,
}

/// A producer's end; as many clones as there are producers.
#[derive(Clone)]
pub struct Touch {
    words: Arc<Words>,
    waker: Waker,
}

/// A summary whose consumer sleeps as `sleeper` does. It is busy at first.
pub fn summary((sleeper, waker): (Sleeper, Waker)) -> (Watch, Touch) {
    let level = Level(AtomicU32::new(BUSY));
    let words = Arc::new(Words { level, news: News(AtomicU64::new(0)) });
    (Watch { words: words.clone(), sleeper, calm: false }, Touch { words, waker })
}

impl Touch {
    /// Says that something was published under `bit` (modulo [`BITS`]); call it after publishing. Returns whether the consumer
    /// was calm.
    #[inline]
    pub fn touch(&self, bit: u32) -> bool {
        fence(Ordering::SeqCst); // label: dekker
        if self.words.level.0.load(Ordering::Relaxed) == BUSY {
            return false;
        }
        self.tell(bit);
        true
    }

    #[cold]
    fn tell(&self, bit: u32) {
        self.words.news.0.fetch_or(1 << (bit % BITS), Ordering::Release); // label: news
        self.waker.wake();
    }
}

impl Watch {
    /// Whether producers set bits.
    #[inline]
    pub fn is_calm(&self) -> bool {
        self.calm
    }

    /// Has producers set bits from now on. **Look at every ring once more after this**, before relying on the bits.
    pub fn calm(&mut self) {
        self.words.level.0.store(CALM, Ordering::Relaxed);
        fence(Ordering::SeqCst); // label: dekker
        self.calm = true;
    }

    /// From now on every ring must be looked at.
    pub fn busy(&mut self) {
        self.words.level.0.store(BUSY, Ordering::Relaxed);
        self.calm = false;
    }

    /// Takes the bits that were set.
    #[inline]
    pub fn take(&mut self) -> u64 {
        if !self.has_news() {
            return 0;
        }
        self.words.news.0.swap(0, Ordering::Acquire) // label: news
    }

    /// Whether [`Watch::take`] would find a bit.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.words.news.0.load(Ordering::Relaxed) != 0
    }

    /// Waits for a bit, or until `condition` holds. Whoever makes `condition` hold must know to wake; publishers that touch do.
    ///
    /// # Panics
    /// When it is not calm: nobody would set a bit.
    pub fn wait(
        &mut self,
        policy: WaitPolicy,
        timeout: Option<Duration>,
        mut condition: impl FnMut() -> bool,
    ) -> Outcome {
        assert!(self.calm, "waiting for a bit while busy would miss what is published");
        let news = &self.words.news.0;
        let watched = std::ptr::from_ref(news).cast::<AtomicU32>();
        self.sleeper.wait_on(policy, timeout, watched, || news.load(Ordering::Relaxed) != 0 || condition())
    }

    /// How it sleeps: its descriptor, arming it for epoll.
    pub fn sleeper(&mut self) -> &mut Sleeper {
        &mut self.sleeper
    }

    /// See [`Watch::sleeper`].
    pub fn sleeper_ref(&self) -> &Sleeper {
        &self.sleeper
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::wait::waiting;

    #[test]
    fn bits_are_set_only_while_calm_and_taken_once() {
        let (mut watch, touch) = summary(waiting());
        assert!(!touch.touch(3) && !watch.has_news());
        watch.calm();
        assert!(touch.touch(3) && touch.clone().touch(64 + 5));
        assert!(watch.has_news());
        assert_eq!((watch.take(), watch.take()), (1 << 3 | 1 << 5, 0));
        watch.busy();
        assert!(!touch.touch(3) && watch.take() == 0);
    }

    #[test]
    fn a_sleeping_watch_is_woken_by_each_of_many() {
        const PRODUCERS: u32 = 3;
        let rounds = if cfg!(miri) { 10 } else { 2_000 };
        let counts: [AtomicU32; PRODUCERS as usize] = [const { AtomicU32::new(0) }; PRODUCERS as usize];
        let (mut watch, touch) = summary(waiting());
        watch.calm();
        std::thread::scope(|scope| {
            for (producer, count) in counts.iter().enumerate() {
                let touch = touch.clone();
                scope.spawn(move || {
                    for _ in 0..rounds {
                        count.fetch_add(1, Ordering::Relaxed);
                        touch.touch(producer as u32);
                        std::thread::yield_now();
                    }
                });
            }
            let mut seen = [0; PRODUCERS as usize];
            while seen != [rounds; PRODUCERS as usize] {
                let long = Some(Duration::from_secs(600));
                assert_eq!(watch.wait(WaitPolicy::BLOCK, long, || false), Outcome::Ready);
                let bits = watch.take();
                for (producer, seen) in seen.iter_mut().enumerate().filter(|(at, _)| bits & 1 << at != 0) {
                    *seen = counts[producer].load(Ordering::Relaxed);
                }
            }
        });
    }
}
