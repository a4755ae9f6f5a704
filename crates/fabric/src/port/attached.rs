//! The core's side of one port.

use super::common::{Common, Moved, Place, has_room_or_raises, lower, raise};
use super::ends::{Receiver, Sender};
use super::mode::PortOptions;
use super::open::PortId;
use super::packet::Packet;
use ring::Full;
use ring::wait::Waker;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A port as the core has it.
pub(super) struct Attached {
    place: Place,
    up: Receiver,
    /// What comes when `up` is empty and the application has left it.
    next_up: Option<Receiver>,
    down: Sender,
    options: PortOptions,
    bell: Option<usize>,
    common: Arc<Common>,
    application: Waker,
    /// The application is gone, and what it sent is in the rings.
    left: bool,
    /// It was taken from, or sent to, since the last flush.
    dirty: bool,
    sent: bool,
    /// Boxed bytes of the packet that was refused last, until there is room for it.
    refused: Option<usize>,
}

impl Attached {
    pub(super) fn new(
        place: Place,
        up: Receiver,
        down: Sender,
        (options, bell): (PortOptions, Option<usize>),
        common: Arc<Common>,
        application: Waker,
    ) -> Attached {
        Attached {
            place,
            up,
            next_up: None,
            down,
            options,
            bell,
            common,
            application,
            left: false,
            dirty: false,
            sent: false,
            refused: None,
        }
    }

    pub(super) fn id(&self) -> PortId {
        PortId { index: self.place.index, generation: self.place.generation }
    }

    /// The doorbell it was opened with.
    pub(super) fn bell(&self) -> Option<usize> {
        self.bell
    }

    /// Notes that it must be flushed.
    #[inline]
    pub(super) fn soil(&mut self, dirty: &mut Vec<u32>) {
        if !std::mem::replace(&mut self.dirty, true) {
            dirty.push(self.place.index);
        }
    }

    /// Hands at most `max` packets to `each`.
    #[inline]
    pub(super) fn take(&mut self, max: usize, mut each: impl FnMut(Packet)) -> usize {
        let mut taken = 0;
        while taken < max {
            let Some(packet) = self.up.pop() else {
                if !self.go_on_to_next() {
                    break;
                }
                continue;
            };
            taken += 1;
            each(packet);
        }
        if taken == max {
            // Tells the application how far we are if that was all; before the next flush looks whether it waits for room.
            self.up.is_ready();
        }
        taken
    }

    /// From the old way up to the new one, when the application has left the old one and nothing is in it.
    #[inline]
    fn go_on_to_next(&mut self) -> bool {
        if self.next_up.is_none() || !self.up.is_abandoned() || self.up.is_ready() {
            return false;
        }
        if let Some(next) = self.next_up.take() {
            self.up = next;
        }
        true
    }

    /// Whether it must be looked at while the core is busy.
    #[inline]
    pub(super) fn tells_by_entries(&self) -> bool {
        self.up.tells_by_entries()
    }

    #[inline]
    pub(super) fn is_ready(&mut self) -> bool {
        self.up.is_ready() || self.next_up.is_some() && self.go_on_to_next() && self.up.is_ready()
    }

    #[inline]
    pub(super) fn send(&mut self, packet: Packet) -> Result<(), Full<Packet>> {
        // Refused or not, what was sent before must be shown.
        self.sent = true;
        self.refused = None;
        match self.down.push(packet) {
            Ok(_) => Ok(()),
            Err(full) => self.send_late(full.0),
        }
    }

    #[cold]
    fn send_late(&mut self, packet: Packet) -> Result<(), Full<Packet>> {
        raise(&self.common.down_refused);
        let bytes = packet.boxed_bytes();
        self.down.push(packet).map(|_| ()).inspect_err(|_| self.refused = Some(bytes))
    }

    /// Whether there is room for what was refused; says so once.
    #[inline]
    pub(super) fn has_room_again(&mut self) -> bool {
        let Attached { refused, down, common, .. } = self;
        let has_room = refused.is_some_and(|bytes| has_room_or_raises(down, bytes, &common.down_refused));
        if has_room {
            self.refused = None;
        }
        has_room
    }

    /// Whether something was refused that there was no room for since.
    #[inline]
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Shows the application what was sent.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.down.publish();
    }

    /// Wakes the application if it waits for what happened; after [`Attached::publish`] and a SeqCst fence.
    #[inline]
    pub(super) fn wake(&mut self) {
        self.dirty = false;
        let has_room = lower(&self.common.up_refused);
        if std::mem::take(&mut self.sent) || has_room {
            self.application.wake();
        }
    }

    /// After an event: whether the application left.
    pub(super) fn look(&mut self) {
        self.left = self.common.left.load(Ordering::Acquire); // label: left
    }

    /// Whether the application is gone, as of the last [`Attached::look`].
    pub(super) fn has_left(&self) -> bool {
        self.left
    }

    /// Whether the application is gone, and everything it sent was taken.
    #[inline]
    pub(super) fn is_finished(&mut self) -> bool {
        self.left && !self.up.is_ready() && self.next_up.as_mut().is_none_or(|next| !next.is_ready())
    }

    /// Whether other ends can be laid out.
    pub(super) fn can_move(&mut self) -> bool {
        self.next_up.is_none() && !self.common.is_laid_out()
    }

    /// Lays out other ends for the application: `up` is where packets will come from when the present way is empty and left; `down`
    /// is where packets go from now on.
    pub(super) fn move_to(&mut self, options: &PortOptions, moved: Moved, up: Receiver, down: Sender) {
        self.options = *options;
        self.next_up = Some(up);
        self.down.publish();
        self.down = down;
        self.common.lay_out(moved);
        self.application.wake();
    }

    /// Its rings, as they are or are becoming.
    pub(super) fn options(&self) -> PortOptions {
        self.options
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.down.publish();
        self.common.closed.store(true, Ordering::Release); // label: closed
        self.application.wake();
    }
}
