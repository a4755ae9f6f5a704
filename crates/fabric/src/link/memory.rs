//! Frames between threads of one process: two rings on the heap.
//!
//! Shape: slots of 128 bytes; a frame of at most [`INLINE`] bytes is in its slot, a longer one in a box that the slot owns. Names of
//! servers are in one table of the process.
//!
//! Waking: as between processes (`ring::shm::lanes`, invariant 2), with an eventfd in place of the socket.
//!
//! Ordering: **closed**: set (Release) after the last frame is published, seen (Acquire) before the last look at the ring.
//! **boxes**: the taker subtracts (Release) what it copied, the sender adds to what it loads (Acquire).
//!
//! Bounds: `entries` slots, and boxes of [`LinkOptions::bytes`] in all, or one frame of any length.

use super::connect::{ConnectError, LinkOptions, Listener};
use super::{Address, Frames, Link, Lost, SendError, Transport};
use crate::frame::{HEADER, MAX_FRAME};
use base::units::Nanos;
use ring::spsc::{Consume, Hybrid, InSlot, Index, Kind, Produce, Variant};
use ring::wait::{Sleeper, Waker, waiting_on_eventfd};
use rustix::fd::BorrowedFd;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// Bytes of a frame that fit a slot: with the length, the kind and the ring's word 128.
pub const INLINE: usize = 118;
/// Clients that wait to be accepted.
const BACKLOG: usize = 128;

/// What is in a slot.
enum Packet {
    Inline(u8, [u8; INLINE]),
    Boxed(Box<[u8]>),
}

/// What both ends of one direction see beside its ring.
#[derive(Default)]
struct Direction {
    /// Bytes in boxes on their way.
    boxed: AtomicUsize,
    /// The sender was refused and sleeps.
    wants_room: AtomicBool,
    /// The sender is gone.
    closed: AtomicBool,
}

/// One end.
struct MemoryLink<K: Kind> {
    out: K::Producer<Packet>,
    inn: K::Consumer<Packet>,
    outgoing: Arc<Direction>,
    incoming: Arc<Direction>,
    sleeper: Sleeper,
    waker: Waker,
    limit: usize,
    /// Something was put into the ring since the last flush.
    unsent: bool,
    /// Something was taken, and a peer that sleeps for room was not looked after since; whether it could see all of the room.
    owes_room: bool,
    told: bool,
    /// Bytes of the frame that was refused, until its sender was told of room.
    refused: Option<usize>,
    gone: bool,
}

/// Both ends of a link within this process.
///
/// # Errors
/// The system's, when no descriptor can be had.
pub fn pair(options: &LinkOptions) -> io::Result<(Box<dyn Link>, Box<dyn Link>)> {
    let options = &options.bounded();
    match options.mode.ring() {
        Variant::InSlot => pair_of::<InSlot>(options),
        Variant::Index => pair_of::<Index>(options),
        Variant::Hybrid => pair_of::<Hybrid>(options),
    }
}

fn pair_of<K: Kind>(options: &LinkOptions) -> io::Result<(Box<dyn Link>, Box<dyn Link>)> {
    let [(to_b, from_a), (to_a, from_b)] = [(); 2].map(|()| K::heap::<Packet>(options.entries));
    let [ab, ba] = [(); 2].map(|()| Arc::new(Direction::default()));
    let ((a_sleeps, wakes_a), (b_sleeps, wakes_b)) = (waiting_on_eventfd()?, waiting_on_eventfd()?);
    let limit = options.bytes as usize;
    let a = MemoryLink::<K>::new((to_b, from_b), (ab.clone(), ba.clone()), (a_sleeps, wakes_b), limit);
    let b = MemoryLink::<K>::new((to_a, from_a), (ba, ab), (b_sleeps, wakes_a), limit);
    Ok((Box::new(a), Box::new(b)))
}

impl<K: Kind> MemoryLink<K> {
    fn new(
        (out, inn): (K::Producer<Packet>, K::Consumer<Packet>),
        (outgoing, incoming): (Arc<Direction>, Arc<Direction>),
        (sleeper, waker): (Sleeper, Waker),
        limit: usize,
    ) -> MemoryLink<K> {
        MemoryLink {
            out,
            inn,
            outgoing,
            incoming,
            sleeper,
            waker,
            limit,
            unsent: false,
            owes_room: false,
            told: false,
            refused: None,
            gone: false,
        }
    }

    fn refuse(&mut self, len: usize) -> Result<(), SendError> {
        self.refused = Some(len);
        self.publish();
        Err(SendError::Full)
    }

    fn publish(&mut self) {
        if self.unsent {
            self.unsent = false;
            // A peer that sleeps is woken, whatever it sleeps for.
            self.owes_room &= !self.told;
            self.out.publish();
            self.waker.wake();
        }
    }

    /// Wakes a peer that sleeps for the room of what was taken.
    fn tell_of_room(&mut self) {
        self.owes_room = false;
        fence(Ordering::SeqCst); // label: dekker, as in ring::wait
        // Only the peer takes its wish back: were it done here, the wish of its next sleep could be what is lost.
        if self.incoming.wants_room.load(Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// Whether a frame of `len` bytes fits now.
    fn fits(&mut self, len: usize) -> bool {
        let boxed = self.outgoing.boxed.load(Ordering::Acquire); // label: boxes
        self.out.free() > 0 && (len <= INLINE || boxed == 0 || boxed + len <= self.limit)
    }

    fn sleep(&mut self, receives: bool) -> bool {
        self.publish();
        if self.owes_room {
            // Tells the ring's room if it is empty.
            self.inn.is_ready();
            self.tell_of_room();
        }
        self.outgoing.wants_room.store(self.refused.is_some(), Ordering::Relaxed);
        self.sleeper.arm();
        let has_room = self.refused.is_some_and(|len| self.fits(len));
        if has_room {
            self.refused = None;
        }
        let is_over = self.incoming.closed.load(Ordering::Acquire); // label: closed
        let has_news = has_room || is_over || (receives && self.inn.is_ready());
        if has_news {
            self.disarm();
        }
        !has_news
    }
}

impl<K: Kind> Link for MemoryLink<K> {
    fn transport(&self) -> Transport {
        Transport::Memory
    }

    fn try_send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        let len = head.len() + body.len();
        debug_assert!(head.len() >= HEADER);
        if self.gone {
            return Err(SendError::Gone);
        }
        if len > MAX_FRAME {
            return Err(SendError::TooLarge);
        }
        if !self.fits(len) {
            return self.refuse(len);
        }
        let packet = if len <= INLINE {
            let mut bytes = [0; INLINE];
            bytes[..head.len()].copy_from_slice(head);
            bytes[head.len()..len].copy_from_slice(body);
            Packet::Inline(len as u8, bytes)
        } else {
            self.outgoing.boxed.fetch_add(len, Ordering::Relaxed);
            Packet::Boxed([head, body].concat().into())
        };
        if self.out.try_push(packet).is_err() {
            unreachable!("a ring with a free slot takes a packet");
        }
        self.unsent = true;
        Ok(())
    }

    fn flush(&mut self, _: Nanos) {
        self.publish();
    }

    fn recv(&mut self, _: Nanos, max: usize, into: &mut Frames) -> Result<usize, Lost> {
        if max == 0 || into.bytes() >= Frames::ENOUGH {
            return Ok(0);
        }
        let is_over = self.incoming.closed.load(Ordering::Acquire); // label: closed
        let mut taken = 0;
        while taken < max && into.bytes() < Frames::ENOUGH {
            match self.inn.try_pop() {
                None => break,
                Some(Packet::Inline(len, bytes)) => into.push(&[&bytes[..usize::from(len)]]),
                Some(Packet::Boxed(bytes)) => {
                    into.push(&[&bytes]);
                    self.incoming.boxed.fetch_sub(bytes.len(), Ordering::Release); // label: boxes
                }
            }
            taken += 1;
        }
        if taken > 0 {
            self.owes_room = true;
            // A ring that was found empty has told its producer.
            self.told = taken < max && into.bytes() < Frames::ENOUGH;
        } else if is_over {
            self.gone = true;
            return Err(Lost::Closed);
        } else if self.owes_room {
            self.tell_of_room();
        }
        Ok(taken)
    }

    fn next_deadline(&self) -> Nanos {
        Nanos::MAX
    }

    fn arm(&mut self) -> bool {
        self.sleep(true)
    }

    fn arm_for_room(&mut self) -> bool {
        self.sleep(false)
    }

    fn disarm(&mut self) {
        self.outgoing.wants_room.store(false, Ordering::Relaxed);
        self.sleeper.disarm();
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.sleeper.descriptor().expect("the sleeper was made with an eventfd")
    }
}

impl<K: Kind> Drop for MemoryLink<K> {
    fn drop(&mut self) {
        self.out.publish();
        self.outgoing.closed.store(true, Ordering::Release); // label: closed
        self.waker.wake();
    }
}

/// A server's place in the table: the ends of clients that were not accepted yet.
struct Place {
    waiting: VecDeque<Box<dyn Link>>,
    bell: Waker,
    options: LinkOptions,
}

static PLACES: LazyLock<Mutex<HashMap<String, Place>>> = LazyLock::new(Mutex::default);

/// The servers of this process.
fn places() -> MutexGuard<'static, HashMap<String, Place>> {
    // Each change is one step, so what a panic left behind is whole.
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A link to the server called `name` in this process.
pub(super) fn connect(name: &str) -> Result<Box<dyn Link>, ConnectError> {
    let address = || Address::Memory(name.into());
    let mut places = places();
    let place = places.get_mut(name).ok_or_else(|| ConnectError::NobodyThere(address()))?;
    if place.waiting.len() == BACKLOG {
        return Err(ConnectError::Busy(address()));
    }
    let (ours, theirs) = pair(&place.options).map_err(|error| ConnectError::system(&address(), error))?;
    place.waiting.push_back(theirs);
    place.bell.wake();
    Ok(ours)
}

/// Accepts the clients of a name. Its sleeper is always marked asleep, so the first client that waits rings, and the descriptor
/// stays readable until none does.
pub(super) struct MemoryListener {
    name: String,
    sleeper: Sleeper,
    address: Address,
}

impl MemoryListener {
    pub(super) fn new(name: &str, options: LinkOptions) -> io::Result<MemoryListener> {
        let (mut sleeper, bell) = waiting_on_eventfd()?;
        sleeper.arm();
        match places().entry(name.into()) {
            Entry::Occupied(_) => return Err(io::ErrorKind::AddrInUse.into()),
            Entry::Vacant(place) => place.insert(Place { waiting: VecDeque::new(), bell, options }),
        };
        Ok(MemoryListener { name: name.into(), sleeper, address: Address::Memory(name.into()) })
    }
}

impl Listener for MemoryListener {
    fn accept(&mut self, _: Nanos) -> io::Result<Option<Box<dyn Link>>> {
        let mut places = places();
        let place = places.get_mut(&self.name).expect("a listener's place stays as long as it does");
        let link = place.waiting.pop_front();
        if place.waiting.is_empty() {
            self.sleeper.disarm();
            self.sleeper.arm();
        }
        Ok(link)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.sleeper.descriptor().expect("the sleeper was made with an eventfd")
    }

    fn address(&self) -> &Address {
        &self.address
    }

    fn set_options(&mut self, options: &LinkOptions) {
        if let Some(place) = places().get_mut(&self.name) {
            place.options = options.bounded();
        }
    }
}

impl Drop for MemoryListener {
    fn drop(&mut self) {
        places().remove(&self.name);
    }
}
