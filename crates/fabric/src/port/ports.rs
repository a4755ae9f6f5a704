//! The core's side of all its ports: who has something, whose turn it is, and sleeping when nobody has.
//!
//! Shape:
//! ```text
//!   calm   the summary's bits list ports                    ┐
//!   busy   entries are looked at; doorbells list ports      ├─▶ a quantum from each in turn, one port further each time
//!   any    what was left over, what was opened or moved     ┘
//! ```
//! Invariants:
//! 1. A port that may have entries which no bit, bell or look will tell of is listed.
//! 2. Turning calm lists every port, after the level was set (see [`ring::summary`]).
//! 3. Between two turns of a port, every other port has at most one, of at most a quantum.
//! 4. Packets of one port leave in the order in which they came, also across a replacement of its rings.
//! 5. A doorbell tells of the port that has it: it comes back after its port said that it left, and one that left needs none.
//!
//! Bounds: [`PortsOptions::max_ports`] ports, each with its entries and boxed bytes in each direction, twice that while it is being
//! replaced.
//!
//! Cost: calm, a turn without news is three loads and one per 64 ports; busy, one load per port that tells by entries and one per 16 doorbells.

use super::application::Port;
use super::attached::Attached;
use super::bells::{self, Bells};
use super::common::{Hall, Moved};
use super::mode::PortOptions;
use super::open::{Ends, OpenError, Opener, PortId, SendError};
use super::packet::Packet;
use super::places::Places;
use super::polling::{Level, Polling, Thresholds};
use base::Nanos;
use ring::doorbell::Tracker;
use ring::summary::{Watch, summary};
use ring::wait::{Outcome, Sleeper, WaitPolicy, Waker, waiting, waiting_on_eventfd};
use rustix::fd::BorrowedFd;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Bounds and registers of a core's ports.
#[derive(Clone, Copy, Debug)]
pub struct PortsOptions {
    /// Ports that can be open at once.
    pub max_ports: u32,
    /// Packets taken from one port before the next has its turn.
    pub quantum: usize,
    /// When to look at every entry.
    pub thresholds: Thresholds,
}

impl Default for PortsOptions {
    fn default() -> PortsOptions {
        PortsOptions { max_ports: 256, quantum: 16, thresholds: Thresholds::default() }
    }
}

/// All ports of one core: a value that one thread drives.
pub struct Ports {
    hall: Arc<Hall>,
    watch: Watch,
    tracker: Tracker,
    /// Which port each doorbell was given to last.
    by_bell: Vec<u32>,
    attached: Vec<Option<Attached>>,
    places: Places,
    open: usize,
    /// Ports with packets or replies since the last flush.
    dirty: Vec<u32>,
    /// Ports that the application left.
    left: VecDeque<PortId>,
    events: u32,
    /// Where the next turn begins.
    first: usize,
    quantum: usize,
    polling: Polling,
    /// Taken since the rate was last told.
    arrivals: usize,
    /// A bug that the tests must find: nobody looks once more after turning calm.
    #[cfg(test)]
    pub(super) planted: bool,
}

impl Ports {
    /// No ports yet; sleeps on a futex.
    pub fn new(options: &PortsOptions) -> Ports {
        Ports::over(options, waiting())
    }

    /// As [`Ports::new`], sleeping on a descriptor that may be in an epoll set: see [`Ports::arm`].
    ///
    /// # Errors
    /// The system's, when no descriptor can be had.
    pub fn with_descriptor(options: &PortsOptions) -> io::Result<Ports> {
        Ok(Ports::over(options, waiting_on_eventfd()?))
    }

    fn over(options: &PortsOptions, waiting: (Sleeper, Waker)) -> Ports {
        let (watch, touch) = summary(waiting);
        // Twice, since a port that is replaced has two.
        let bells = 2 * options.max_ports as usize;
        let (tracker, lent) = Bells::new(bells);
        Ports {
            hall: Arc::new(Hall::new(touch, lent, options.max_ports)),
            watch,
            tracker,
            by_bell: vec![0; bells],
            attached: Vec::new(),
            places: Places::default(),
            open: 0,
            dirty: Vec::new(),
            left: VecDeque::new(),
            events: 0,
            first: 0,
            quantum: options.quantum.max(1),
            polling: Polling::new(options.thresholds),
            arrivals: 0,
            #[cfg(test)]
            planted: false,
        }
    }

    /// Opens ports, from any thread.
    pub fn opener(&self) -> Opener {
        Opener { hall: self.hall.clone() }
    }

    /// Opens a port for another thread that is told of it by the caller, and knows it at once. See [`Opener::open_beside`].
    ///
    /// # Errors
    /// [`OpenError::TooMany`].
    pub fn open_beside(&mut self, options: &PortOptions, waker: &Waker) -> Result<Port, OpenError> {
        let port = self.opener().open_beside(options, waker)?;
        self.look_at_events();
        Ok(port)
    }

    /// One turn: flushes, then hands at most `max` packets to `each`, a quantum from each port that has some, and returns how many.
    /// After a turn, what was refused by [`Ports::try_send`] should be tried again.
    pub fn poll(&mut self, now: Nanos, max: usize, mut each: impl FnMut(PortId, Packet)) -> usize {
        self.flush();
        self.observe(now);
        self.look();
        let (count, busy) = (self.attached.len(), !self.watch.is_calm());
        let mut taken = 0;
        for (from, to) in [(self.first, count), (0, self.first)] {
            let mut at = from;
            while taken < max
                && let Some(place) = self.places.next(at, to, busy)
            {
                taken += self.turn(place, self.quantum.min(max - taken), &mut each);
                at = place + 1;
            }
        }
        self.first = if self.first + 1 < count { self.first + 1 } else { 0 };
        self.arrivals += taken;
        taken
    }

    /// One port's turn.
    #[inline]
    fn turn(&mut self, place: usize, wanted: usize, each: &mut impl FnMut(PortId, Packet)) -> usize {
        let Some(port) = &mut self.attached[place] else {
            self.places.looked(place, false, false);
            return 0;
        };
        port.has_room_again();
        let id = port.id();
        let got = port.take(wanted, |packet| each(id, packet));
        self.places.looked(place, got == wanted || port.is_refused(), port.tells_by_entries());
        if got > 0 {
            port.soil(&mut self.dirty);
        }
        if port.is_finished() {
            self.left.push_back(id);
            self.remove(place);
        }
        got
    }

    /// The level that the rate asks for.
    #[inline]
    fn observe(&mut self, now: Nanos) {
        let level = self.polling.observe(now, std::mem::take(&mut self.arrivals));
        match (level, self.watch.is_calm()) {
            (Level::Calm, false) => self.calm(),
            (Level::Busy, true) => self.watch.busy(),
            _ => {}
        }
    }

    /// Has ports touch the summary from now on (invariant 2).
    fn calm(&mut self) {
        self.watch.calm();
        #[cfg(test)]
        if self.planted {
            return;
        }
        self.places.list_all();
    }

    /// Lists the ports that something tells of.
    #[inline]
    fn look(&mut self) {
        if self.watch.is_calm() {
            self.places.list_bits(self.watch.take());
        } else {
            let (places, by_bell) = (&mut self.places, &self.by_bell);
            self.tracker.scan(|bell, _| places.list(by_bell[bell] as usize));
        }
        if self.hall.events() != self.events {
            self.look_at_events();
        }
    }

    /// Ports were opened, moved, or left.
    #[cold]
    fn look_at_events(&mut self) {
        self.events = self.hall.events();
        for port in self.hall.take_new() {
            self.attach(port);
        }
        self.places.list_all();
        self.attached.iter_mut().flatten().for_each(Attached::look);
    }

    fn attach(&mut self, mut port: Attached) {
        let at = port.id().index();
        // The doorbell of a port that left before it was seen may be lent to another already (invariant 5).
        port.look();
        if let Some(bell) = port.bell().filter(|_| !port.has_left()) {
            self.hear(bell, at);
        }
        if self.attached.len() <= at {
            self.attached.resize_with(at + 1, || None);
            self.places.reserve(at + 1);
        }
        assert!(self.attached[at].is_none(), "two ports at place {at}");
        self.attached[at] = Some(port);
        self.open += 1;
    }

    /// Scans a doorbell from now on, if not yet, for the port at this place. Low doorbells are lent first, and one is not forgotten when
    /// its port goes, so the scan is as long as there were doorbells at once.
    fn hear(&mut self, bell: usize, at: usize) {
        self.by_bell[bell] = at as u32;
        self.tracker.attach_again(bell, bells::CAPACITY);
    }

    fn remove(&mut self, at: usize) {
        self.attached[at] = None;
        self.open -= 1;
        self.hall.give_back(at as u32);
    }

    fn port(&mut self, id: PortId) -> Option<&mut Attached> {
        self.attached.get_mut(id.index())?.as_mut().filter(|port| port.id() == id)
    }

    /// Sends a packet to a port's application, which sees it at the latest after [`Ports::flush`] or the next [`Ports::poll`].
    ///
    /// # Errors
    /// [`SendError`] with the packet. When there was no room, the core is touched once there is.
    pub fn try_send(&mut self, id: PortId, packet: Packet) -> Result<(), SendError> {
        // Not `self.port`: the list of ports that changed is needed beside it.
        match self.attached.get_mut(id.index()) {
            Some(Some(port)) if port.id() == id => {
                let sent = port.send(packet);
                if sent.is_err() {
                    // While the core is busy nobody tells it that there is room again.
                    self.places.list(id.index());
                }
                port.soil(&mut self.dirty);
                sent.map_err(|full| SendError::Full(full.0))
            }
            _ => Err(SendError::Gone(packet)),
        }
    }

    /// Shows applications what was sent, and wakes those that wait for that, or for room that was made.
    #[inline]
    pub fn flush(&mut self) {
        if self.dirty.is_empty() {
            return;
        }
        for &at in &self.dirty {
            if let Some(port) = &mut self.attached[at as usize] {
                port.publish();
            }
        }
        fence(Ordering::SeqCst); // label: refused
        for at in self.dirty.drain(..) {
            if let Some(port) = &mut self.attached[at as usize] {
                port.wake();
            }
        }
    }

    /// Replaces a port's rings while it is in use. Packets in the old ones come first, in both directions.
    ///
    /// # Errors
    /// [`OpenError`]; the port stays as it is.
    pub fn replace(&mut self, id: PortId, options: &PortOptions) -> Result<(), OpenError> {
        let hall = self.hall.clone();
        let port = self.port(id).ok_or(OpenError::Closed)?;
        if !port.can_move() {
            return Err(OpenError::Moving);
        }
        let Ends { up, down, entry } = Ends::new(&hall, options)?;
        port.move_to(options, Moved { up: up.0, down: down.1 }, up.1, down.0);
        if let Some(bell) = entry {
            self.hear(bell, id.index());
        }
        Ok(())
    }

    /// Closes a port: its application sees that after the packets it was sent. What it had sent is dropped.
    pub fn close(&mut self, id: PortId) {
        if self.port(id).is_some() {
            self.remove(id.index());
        }
    }

    /// A port that its application left, after its last packet; each once.
    pub fn next_left(&mut self) -> Option<PortId> {
        self.left.pop_front()
    }

    /// The open ports that the core has seen.
    pub fn ids(&self) -> impl Iterator<Item = PortId> {
        self.attached.iter().flatten().map(Attached::id)
    }

    /// How many those are.
    pub fn len(&self) -> usize {
        self.open
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// A port's rings, as they are or are becoming.
    pub fn ring(&mut self, id: PortId) -> Option<PortOptions> {
        self.port(id).map(|port| port.options())
    }

    /// The rate, the level, and how often it changed.
    pub fn polling(&self) -> &Polling {
        &self.polling
    }

    /// Other thresholds from now on.
    pub fn set_thresholds(&mut self, thresholds: Thresholds) {
        self.polling.set(thresholds);
    }

    /// Another quantum from now on.
    pub fn set_quantum(&mut self, quantum: usize) {
        self.quantum = quantum.max(1);
    }

    /// Whether the next turn would find something, as far as looking without taking can tell.
    fn has_work(&mut self) -> bool {
        if self.hall.events() != self.events || self.watch.has_news() {
            return true;
        }
        let (count, busy) = (self.attached.len(), !self.watch.is_calm());
        let mut at = 0;
        while let Some(place) = self.places.next(at, count, busy) {
            at = place + 1;
            let Some(port) = &mut self.attached[place] else {
                self.places.looked(place, false, false);
                continue;
            };
            let (more, has_room) = (port.is_ready(), port.has_room_again());
            self.places.looked(place, more || port.is_refused(), port.tells_by_entries());
            if more || has_room {
                return true;
            }
        }
        busy && self.tracker.has_news()
    }

    /// Flushes, and waits until a port has something, or room that was missing, or `also` holds (something that wakes this thread
    /// by touching a port, or comes with time).
    ///
    /// Spinning is done at the level of the rate; only to sleep it turns calm.
    pub fn wait(
        &mut self,
        policy: WaitPolicy,
        timeout: Option<Duration>,
        mut also: impl FnMut() -> bool,
    ) -> Outcome {
        self.flush();
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut policy = policy;
        if !self.watch.is_calm() {
            if self.spin(policy, deadline, &mut also) {
                return Outcome::Ready;
            }
            if !policy.block {
                return Outcome::TimedOut;
            }
            self.calm();
            policy = WaitPolicy { spin: 1, pause: 0, ..policy };
        }
        if self.has_work() || also() {
            return Outcome::Ready;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        self.watch.wait(policy, left, also)
    }

    /// Looks at every entry for as long as `policy` has it; without end, or until the deadline, if it never sleeps.
    fn spin(
        &mut self,
        policy: WaitPolicy,
        deadline: Option<Instant>,
        also: &mut impl FnMut() -> bool,
    ) -> bool {
        let looks = u64::from(policy.spin.max(1)) + u64::from(policy.pause);
        for look in 1u64.. {
            if self.has_work() || also() {
                return true;
            }
            if look > looks && policy.block {
                break;
            }
            if look > u64::from(policy.spin) {
                std::hint::spin_loop();
            }
            if look % 1024 == 0 && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
        }
        false
    }

    /// Before sleeping on [`Ports::descriptor`] in epoll: whether there is nothing to do. Call [`Ports::disarm`] afterwards.
    pub fn arm(&mut self) -> bool {
        self.flush();
        if !self.watch.is_calm() {
            self.calm();
        }
        self.watch.sleeper().arm();
        let idle = !self.has_work();
        if !idle {
            self.watch.sleeper().disarm();
        }
        idle
    }

    /// Awake again.
    pub fn disarm(&mut self) {
        self.watch.sleeper().disarm();
    }

    /// Readable when armed ports have something, if they were made to have a descriptor.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.sleeper_ref().descriptor()
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        self.hall.close();
        // Ports that nobody saw are closed as well.
        drop(self.hall.take_new());
    }
}
