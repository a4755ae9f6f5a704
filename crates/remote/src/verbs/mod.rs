//! Works that a network card does, at both ends: RDMA, by libibverbs.
//!
//! ```text
//!  Queue ── post, ring ─▶ its card ══ packets ══▶ the owner's card ─▶ the region        no thread of the owner has a part in it
//!     └──── open, attach: calls of service Memory, for keys, addresses and the connection
//! ```
//! What is stronger than verbs promise is asked for: every work waits for READs before it (a fence), and is signaled. What is weaker stays weaker: atomics are
//! atomic with those of the same card, and a READ beside a WRITE shows what the card makes of it; words of eight bytes were whole on all that was tried.
//!
//! An owner without a card, or a peer: [`Card::open`] says why, and calls go on.

mod card;
mod sys;

pub use card::{Card, CardError, End};

use crate::calls::Control;
use crate::queue::{Ledger, OpenError, PostError};
use crate::regions::{Access, Info, Lent, Reach};
use crate::work::{Completion, Key, Outcome, Verb, Work};
use base::{Clock, Nanos};
use card::{Pair, Registered};
use fabric::channel::{CallId, Channel};
use ring::shm::region::Region;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sys::{Atomic, Rdma, Remote, SendWr, Sge, Wc};

/// Works of a queue at most: cards have bounds of their own, which this is below.
pub const DEPTH_MAX: usize = 4096;
/// A wait looks at the card this often.
const WAIT: Duration = Duration::from_micros(20);
/// How often the owner is looked at. (Its card would do, by packets that nobody answers; that takes half a second, and with soft-RoCE of Linux 6.1 for ever.)
const LOOK: Nanos = Nanos::from_millis(1);

/// What an owner's card does for its peers.
pub struct Lender {
    card: Arc<Card>,
}

impl Lender {
    /// By this card.
    pub fn new(card: Arc<Card>) -> Lender {
        Lender { card }
    }

    /// How the card reaches a region, registered with the first who asks; not at all once it was taken back.
    ///
    /// # Errors
    /// [`CardError`].
    pub fn reach(&self, lent: &Lent) -> Result<Option<Reach>, CardError> {
        let registered = lent.holding(|region| {
            // SAFETY: what is held of a region goes before the region does.
            unsafe { Registered::new(&self.card, region, Some(lent.access)) }
        })?;
        Ok(registered.map(|at| Reach { key: at.remote_key(), base: at.base() }))
    }

    /// An end for a peer, which is there for as long as what is given.
    ///
    /// # Errors
    /// [`CardError`].
    pub fn attach(&self, peer: &End) -> Result<(impl Send + use<>, End), CardError> {
        let pair = Pair::new(&self.card, 1)?;
        pair.connect(peer)?;
        let end = pair.end();
        Ok((pair, end))
    }
}

/// A region that was opened.
struct Opened {
    reach: Reach,
    len: u64,
}

/// A queue whose works a card does.
pub struct Queue {
    control: Control,
    /// The call that the owner's end is there for.
    attached: CallId,
    clock: Clock,
    /// When the owner was seen last.
    seen: Nanos,
    // Before the memory that its works name.
    pair: Pair,
    registered: Registered,
    memory: Region,
    ledger: Ledger,
    regions: HashMap<Key, Opened>,
    /// Works for the card that it has not got.
    works: Vec<SendWr>,
    places: VecDeque<Sge>,
    /// A work that cannot be asked of a card ends so, once those before it have ended.
    denied: bool,
}

// SAFETY: works point to places of the same queue, which are on the heap, and are used by `ring` alone.
unsafe impl Send for Queue {}

impl Queue {
    /// So many works deep, with so many bytes of local memory, by this card to the owner of a channel whose service has one, too.
    ///
    /// # Errors
    /// [`OpenError::Unreachable`], with the reason.
    pub fn over(channel: Channel, card: &Arc<Card>, depth: usize, local: usize) -> Result<Queue, OpenError> {
        let gone = |why: String| OpenError::Unreachable(why);
        let depth = depth.min(DEPTH_MAX);
        let mut control = Control::over(channel)?;
        let memory = Region::create(local.max(1), false).map_err(|error| gone(error.to_string()))?;
        // SAFETY: the queue has both, and drops the registration first.
        let registered =
            unsafe { Registered::new(card, &memory, None) }.map_err(|error| gone(error.to_string()))?;
        let pair = Pair::new(card, depth as u32).map_err(|error| gone(error.to_string()))?;
        let (attached, other) = control.attach(&pair.end())?;
        pair.connect(&other).map_err(|error| gone(error.to_string()))?;
        let ledger = Ledger::beside(depth, local);
        let (regions, works, places) = (HashMap::new(), Vec::new(), VecDeque::new());
        let clock = Clock::shared();
        let seen = clock.now();
        let denied = false;
        Ok(Queue {
            control,
            attached,
            clock,
            seen,
            pair,
            registered,
            memory,
            ledger,
            regions,
            works,
            places,
            denied,
        })
    }

    /// A work as the card has it; none if it may not be asked.
    fn shape(&self, work: &Work) -> Option<(i32, Remote)> {
        let Opened { reach, len } = self.regions.get(&work.remote.key)?;
        let offset = work.remote.offset;
        // Cards do not look at works of no bytes, nor all of them at alignment.
        let is_inside = offset.checked_add(u64::from(work.local.len)).is_some_and(|end| end <= *len);
        if !is_inside || (work.verb.is_atomic() && !offset.is_multiple_of(8)) {
            return None;
        }
        let (remote_addr, rkey) = (reach.base + offset, reach.key);
        let atomic = |compare_add, swap| Remote { atomic: Atomic { remote_addr, compare_add, swap, rkey } };
        Some(match work.verb {
            Verb::Read => (sys::WR_READ, Remote { rdma: Rdma { remote_addr, rkey } }),
            Verb::Write => (sys::WR_WRITE, Remote { rdma: Rdma { remote_addr, rkey } }),
            Verb::CompareSwap { expected, new } => (sys::WR_COMPARE_SWAP, atomic(expected, new)),
            Verb::FetchAdd { add } => (sys::WR_FETCH_ADD, atomic(add, 0)),
        })
    }

    /// Takes what the card has told.
    fn take_told(&mut self) {
        let mut told = [Wc::default(); 16];
        loop {
            let count = self.pair.poll(&mut told);
            for wc in &told[..count] {
                self.ledger.end(match wc.status {
                    sys::WC_SUCCESS => Outcome::Done,
                    sys::WC_ACCESS | sys::WC_BAD_REQUEST => Outcome::Denied,
                    sys::WC_FLUSHED => Outcome::Flushed,
                    _ => Outcome::Unreachable,
                });
            }
            if count < told.len() {
                break;
            }
        }
        if self.denied && self.ledger.under_way() == 1 {
            self.ledger.end(Outcome::Denied);
        }
        let now = self.clock.now();
        if now.since(self.seen) >= LOOK {
            self.seen = now;
            if !self.ledger.is_broken() && self.control.has_ended(self.attached) {
                self.ledger.lose();
            }
        }
    }
}

impl crate::queue::Queue for Queue {
    fn open(&mut self, name: &str, access: Access) -> Result<Info, OpenError> {
        let (info, reach) = self.control.open(name, access)?;
        let reach = reach.ok_or(OpenError::Denied)?;
        self.regions.insert(info.key, Opened { reach, len: info.len });
        Ok(info)
    }

    fn local_len(&self) -> usize {
        self.ledger.local_len()
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        self.memory.write(u64::from(at), bytes).expect("within local memory");
    }

    fn take(&self, at: u32, bytes: &mut [u8]) {
        self.memory.read(u64::from(at), bytes).expect("within local memory");
    }

    fn post(&mut self, work: Work) -> Result<(), PostError> {
        if self.denied {
            return Err(PostError::Broken);
        }
        self.ledger.post(work)
    }

    fn ring(&mut self) {
        self.works.clear();
        self.places.clear();
        // Works point to their places, so those stay where they are.
        self.places.reserve(self.ledger.posted());
        while !self.denied
            && let Some(work) = self.ledger.begin()
        {
            let Some((opcode, remote)) = self.shape(&work) else {
                self.denied = true;
                break;
            };
            let addr = self.registered.base() + u64::from(work.local.at);
            self.places.push_back(Sge { addr, length: work.local.len, lkey: self.registered.local_key() });
            let place = self.places.back_mut().expect("it was put there");
            self.works.push(SendWr::new(work.id, opcode, place, remote));
        }
        let count = self.works.len();
        // SAFETY: places are in local memory, which the ledger has checked and which stays until the pair is gone.
        let taken = unsafe { self.pair.post(&mut self.works) };
        if taken < count {
            // A pair that takes no more is broken; what it has taken is flushed.
            self.denied = false;
            self.ledger.break_down();
        }
        self.take_told();
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.take_told();
        self.ledger.poll(done)
    }

    fn wait(&mut self, timeout: Duration) {
        let began = Instant::now();
        while self.ledger.under_way() > 0 && !self.ledger.has_completed() && began.elapsed() < timeout {
            std::thread::sleep(WAIT);
            self.take_told();
        }
    }
}
