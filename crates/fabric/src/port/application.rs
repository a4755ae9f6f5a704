//! The application's side of a port.

use super::common::{Common, Hall, has_room_or_raises, lower, raise};
use super::ends::{Receiver, Sender};
use super::mode::Mode;
use super::open::{PortId, SendError};
use super::packet::Packet;

use ring::wait::{Outcome, Sleeper, WaitPolicy};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

/// One thread's way to the core and back. Dropped, it leaves what it sent to the core and forgets what it had not received.
pub struct Port {
    pub(super) id: PortId,
    pub(super) up: Sender,
    pub(super) down: Receiver,
    /// Ends that were replaced and may still hold packets, which come first.
    pub(super) old_down: Option<Receiver>,
    pub(super) common: Arc<Common>,
    pub(super) hall: Arc<Hall>,
    /// `None` for a port of many whose thread sleeps by itself.
    pub(super) sleeper: Option<Sleeper>,
    pub(super) epoch: u32,
    /// Something was sent since the last flush.
    pub(super) dirty: bool,
    /// Boxed bytes of the packet that was refused last, until there is room for it.
    pub(super) refused: Option<usize>,
}

impl Port {
    /// Takes a packet for the core, which sees it at the latest after [`Port::flush`].
    ///
    /// # Errors
    /// [`SendError`] with the packet. When there is no room, everything before is flushed, and [`Port::wait`] ends when there is.
    #[inline]
    pub fn try_send(&mut self, packet: Packet) -> Result<(), SendError> {
        match self.up.push(packet) {
            Ok(rung) => {
                self.refused = None;
                self.dirty = !rung;
                if rung {
                    self.hall.touch.touch(self.id.index);
                }
                Ok(())
            }
            Err(full) => self.send_late(full.0),
        }
    }

    /// There was no room: perhaps there is by now, perhaps in other rings.
    #[cold]
    fn send_late(&mut self, packet: Packet) -> Result<(), SendError> {
        if self.is_closed() {
            return Err(SendError::Gone(packet));
        }
        raise(&self.common.up_refused);
        self.step_over();
        let bytes = packet.boxed_bytes();
        let sent = self.up.push(packet);
        self.hall.touch.touch(self.id.index);
        match sent {
            Ok(rung) => {
                self.dirty = !rung;
                Ok(())
            }
            Err(full) => {
                self.dirty = false;
                self.refused = Some(bytes);
                Err(SendError::Full(full.0))
            }
        }
    }

    /// Shows the core what was taken so far, and wakes it if it is calm or asleep.
    #[inline]
    pub fn flush(&mut self) {
        if self.dirty {
            self.dirty = false;
            self.up.publish();
            self.hall.touch.touch(self.id.index);
        }
        self.step_over();
    }

    /// The next packet from the core.
    #[inline]
    pub fn recv(&mut self) -> Option<Packet> {
        let mut found = None;
        self.drain(1, |packet| found = Some(packet));
        found
    }

    /// Hands at most `max` packets from the core to `each`, oldest first, and returns how many.
    #[inline]
    pub fn drain(&mut self, max: usize, mut each: impl FnMut(Packet)) -> usize {
        let mut taken = 0;
        while taken < max
            && let Some(packet) = self.next()
        {
            taken += 1;
            each(packet);
        }
        if taken > 0 {
            // Tells the core how far we are if that was all.
            self.down.is_ready();
            fence(Ordering::SeqCst); // label: refused
            if lower(&self.common.down_refused) {
                self.hall.touch.touch(self.id.index);
            }
        }
        taken
    }

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        if self.old_down.is_none()
            && let Some(packet) = self.down.pop()
        {
            return Some(packet);
        }
        if self.old_down.is_some() || self.can_step_over() { self.next_among_old() } else { None }
    }

    #[cold]
    fn next_among_old(&mut self) -> Option<Packet> {
        loop {
            self.step_over();
            if let Some(packet) = self.old_down.as_mut()?.pop() {
                return Some(packet);
            }
            // The core had left it before it laid out the next, so nothing will come any more.
            self.old_down = None;
            if let Some(packet) = self.down.pop() {
                return Some(packet);
            }
        }
    }

    /// Whether the core has laid out new ends that can be taken now.
    #[inline]
    fn can_step_over(&self) -> bool {
        self.common.epoch.load(Ordering::Acquire) != self.epoch && self.old_down.is_none() // label: epoch
    }

    /// Takes new ends if the core has laid out some. The old way up is left for good, so the core goes on to the new one when the old
    /// is empty; packets in the old way down come first.
    #[inline]
    fn step_over(&mut self) {
        if self.can_step_over() {
            self.take_new_ends();
        }
    }

    #[cold]
    fn take_new_ends(&mut self) {
        self.epoch = self.common.epoch.load(Ordering::Acquire); // label: epoch
        let moved = self.common.take_moved().expect("new ends are laid out before the epoch says so");
        self.up = moved.up;
        self.old_down = Some(std::mem::replace(&mut self.down, moved.down));
        self.hall.announce(self.id.index);
    }

    /// Flushes, and waits until there is a packet to receive, or room for what was refused.
    ///
    /// # Panics
    /// When the port was opened with a waker of the caller's: then the caller waits, for [`Port::is_ready`].
    pub fn wait(&mut self, policy: WaitPolicy, timeout: Option<Duration>) -> Outcome {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            self.flush();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let outcome = self.wait_once(policy, left);
            if outcome != Outcome::Ready || self.is_ready() {
                return outcome;
            }
            if self.is_closed() {
                return Outcome::PeerGone;
            }
        }
    }

    fn wait_once(&mut self, policy: WaitPolicy, timeout: Option<Duration>) -> Outcome {
        let Port { up, down, old_down, common, sleeper, epoch, refused, .. } = self;
        let word = down.next_word();
        let sleeper = sleeper.as_mut().expect("a port opened with a waker is waited for by its opener");
        sleeper.wait_on(policy, timeout, word, || {
            let moved = common.epoch.load(Ordering::Acquire) != *epoch; // label: epoch
            old_down.is_some()
                || moved
                || down.is_ready()
                || refused.is_some_and(|bytes| has_room_or_raises(up, bytes, &common.up_refused))
                || common.closed.load(Ordering::Acquire) // label: closed
        })
    }

    /// Whether there is a packet to receive, or room for what was refused.
    pub fn is_ready(&mut self) -> bool {
        self.step_over();
        if self.old_down.as_mut().is_some_and(|old| !old.is_ready()) {
            self.old_down = None;
            self.step_over();
        }
        if self.refused.is_some() && self.can_send() {
            self.refused = None;
            return true;
        }
        self.old_down.is_some() || self.down.is_ready()
    }

    /// Whether what was refused may be tried again: there is room, or nobody to send to.
    pub fn can_send(&mut self) -> bool {
        self.step_over();
        let Port { up, common, refused, .. } = self;
        refused.is_none_or(|bytes| has_room_or_raises(up, bytes, &common.up_refused)) || self.is_closed()
    }

    /// The word that changes when the next packet comes: what a monitored wait watches.
    pub fn next_word(&self) -> *const AtomicU32 {
        self.down.next_word()
    }

    /// Whether the core has closed the port, or is gone. What it sent before can still be received.
    pub fn is_closed(&self) -> bool {
        self.common.closed.load(Ordering::Acquire) // label: closed
    }

    /// The core's name for it.
    pub fn id(&self) -> PortId {
        self.id
    }

    /// How the core learns of packets.
    pub fn mode(&self) -> Mode {
        self.up.mode()
    }

    /// Entries in each direction.
    pub fn entries(&self) -> u32 {
        self.up.entries()
    }

    /// Other entries per doorbell from now on; nothing in other modes.
    pub fn set_batch(&mut self, batch: u32) {
        self.up.set_batch(batch);
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.up.publish();
        self.common.left.store(true, Ordering::Release); // label: left
        self.hall.announce(self.id.index);
    }
}
